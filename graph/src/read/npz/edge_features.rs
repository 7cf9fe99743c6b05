//! Numbers of the edges: a row, or a number, for each edge of a list.

use super::Arrays;
use crate::{EdgeFeatures, GraphError, ListedEdge, Topology};
use std::io::{Read, Seek};

/// The edges of an archive's rows of in-neighbors, in the order of the file.
pub(super) fn listed(indptr: &[u64], indices: &[u32], kinds: Option<&[u16]>) -> Vec<ListedEdge> {
    let mut listed = Vec::with_capacity(indices.len());
    for (target, ends) in (0..).zip(indptr.windows(2)) {
        for edge in ends[0] as usize..ends[1] as usize {
            listed.push(ListedEdge {
                source: indices[edge],
                target,
                kind: kinds.map_or(0, |kinds| kinds[edge]),
            });
        }
    }
    listed
}

/// The features of the edges, from the first of the arrays that is there; none if no array is.
///
/// # Errors
/// An array without a number or a row for each edge.
pub(super) fn read<R: Read + Seek>(
    arrays: &mut Arrays<R>,
    names: &[&str],
    topology: &Topology,
    list: impl ExactSizeIterator<Item = ListedEdge>,
) -> Result<EdgeFeatures, GraphError> {
    for name in names {
        let Some(array) = arrays.optional(name)? else {
            continue;
        };
        let columns = match array.header.shape[..] {
            [rows] if rows == list.len() as u64 => 1,
            [rows, columns] if rows == list.len() as u64 && columns > 0 => array.width(columns)?,
            _ => {
                let edges = list.len();
                return Err(array.wrong_shape(format!(
                    "({edges},) or ({edges}, columns): a number or a row for each edge"
                )));
            }
        };
        let values = array.floats();
        return Ok(EdgeFeatures::in_order(topology, list, columns, &values));
    }
    Ok(EdgeFeatures::default())
}
