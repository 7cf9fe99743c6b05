//! The types of edges.

use super::Arrays;
use crate::GraphError;
use crate::read::array::Array;
use gnnc_ir::workload::MAX_RELATIONS;
use std::io::{Read, Seek};

/// The number of edge types that the archive states, if any.
pub(super) fn relations<R: Read + Seek>(arrays: &mut Arrays<R>) -> Result<Option<u64>, GraphError> {
    if let Some(count) = arrays.optional("relations")? {
        return match count.offsets()?[..] {
            [count] => Ok(Some(count)),
            _ => Err(count.wrong_shape("one number, the number of edge types".to_owned())),
        };
    }
    let names = arrays.header("rel_names")?;
    Ok(names.and_then(|header| match header.shape[..] {
        [count] => Some(count),
        _ => None,
    }))
}

/// The types of edges in the order of the file.
pub(super) struct Types {
    pub(super) relations: u32,
    pub(super) of: Vec<u16>,
}

impl Types {
    pub(super) fn read(
        types: &Array,
        relations: Option<u64>,
        edges: usize,
    ) -> Result<Self, GraphError> {
        types.dimensions(1, "one dimension")?;
        if types.len() != edges {
            return Err(types.wrong_shape(format!("({edges}), one type per index")));
        }
        let most = u64::from(MAX_RELATIONS);
        let limit = relations.unwrap_or(most);
        if !(1..=most).contains(&limit) {
            return Err(GraphError::Unsupported {
                at: types.at.clone(),
                found: format!("a graph of {limit} relations"),
                expected: format!("1 to {MAX_RELATIONS}; merge similar ones"),
            });
        }
        // Types are below 2^16, as checked above.
        let of: Vec<u16> = types.indices(limit)?.iter().map(|t| *t as u16).collect();
        let used = || of.iter().max().map_or(1, |most| u32::from(*most) + 1);
        let relations = relations.map_or_else(used, |count| count as u32);
        Ok(Self { relations, of })
    }
}
