//! The types of vertices.

use super::Arrays;
use crate::features::Entry;
use crate::vertex_types::VertexTypes;
use crate::{GraphData, GraphError, Names};
use gnnc_ir::workload::MAX_VERTEX_TYPES;
use std::collections::BTreeSet;
use std::io::{Read, Seek};

/// Reads `vertex_type`, the number of each vertex's type, and the names of the types, and adds the types to
/// the features. All `samples` of a graph have its types. Without numbers, the last features are those of
/// the types, as gnnc writes them.
///
/// # Errors
/// Numbers without a name, as many types as there may not be, or last features that are none of types.
pub(super) fn read<R: Read + Seek>(
    arrays: &mut Arrays<R>,
    data: &mut GraphData,
    samples: usize,
) -> Result<(), GraphError> {
    let mut names = None;
    for array in ["vertex_type_names", "node_type_names"] {
        if names.is_none() {
            names = arrays.names(array)?;
        }
    }
    if let Some(names) = &names {
        check_names(&arrays.at, names)?;
    }
    for name in ["vertex_type", "node_type"] {
        let Some(array) = arrays.optional(name)? else {
            continue;
        };
        let limit = match &names {
            Some(names) => names.len() as u64,
            None => u64::from(MAX_VERTEX_TYPES),
        };
        let one = array.indices(limit)?;
        let vertices = data.vertices() as usize / samples;
        if one.len() != vertices || array.header.shape.len() != 1 {
            return Err(array.wrong_shape(format!("({vertices}), the type of each vertex")));
        }
        let of = one.iter().cycle().take(vertices * samples);
        let count = one.iter().max().map_or(0, |most| most + 1);
        let numbers = || (0..count).map(|kind| kind.to_string()).collect();
        let types = VertexTypes {
            of: of.map(|kind| *kind as u16).collect(),
            names: names.unwrap_or_else(numbers),
        };
        return types.give(&arrays.at, data);
    }
    let Some(names) = names else {
        return Ok(());
    };
    let (columns, types) = (data.features.columns(), names.len() as u32);
    data.vertex_types = names;
    let own = data.own_features();
    if types > columns || types > MAX_VERTEX_TYPES || !is_one_hot(data, own) {
        return Err(GraphError::Unsupported {
            at: arrays.at.clone(),
            found: format!("names of {types} types of vertices without `vertex_type`"),
            expected:
                "the type of each vertex as the array `vertex_type`, or as the last features, \
                       with a 1 in the column of its type and 0 in the others"
                    .to_owned(),
        });
    }
    Ok(())
}

/// Whether the columns from `first` are 0, or 1 in one of them in each row.
fn is_one_hot(data: &GraphData, first: u32) -> bool {
    let mut last = None;
    let mut entries = data
        .features
        .entries()
        .filter(|entry| entry.column >= first);
    entries.all(|Entry { row, value, .. }| last.replace(row) != Some(row) && value == 1.0)
}

/// Checks that names tell types apart.
fn check_names(at: &str, names: &Names) -> Result<(), GraphError> {
    let mut known = BTreeSet::new();
    match names
        .iter()
        .find(|name| name.is_empty() || !known.insert(*name))
    {
        None => Ok(()),
        Some(name) => Err(GraphError::Unsupported {
            at: at.to_owned(),
            found: format!("the name `{name}` of a type of vertices"),
            expected: "different names that are not empty".to_owned(),
        }),
    }
}
