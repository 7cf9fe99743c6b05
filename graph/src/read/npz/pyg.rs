//! Archives with the arrays of a PyTorch Geometric `Data`: `edge_index` (row 0 are sources, row 1
//! targets), `x`, `y`, `edge_type`, and splits as masks or as lists of vertices (`train_idx`).

use super::{Arrays, relations};
use crate::read::text::plausible_vertices;
use crate::topology::Dropped;
use crate::{GraphData, GraphError, Topology};
use std::io::{Read, Seek};

/// Reads the edges.
pub(super) fn topology<R: Read + Seek>(
    arrays: &mut Arrays<R>,
) -> Result<(Topology, Dropped), GraphError> {
    let edges = arrays.required("edge_index")?;
    let ends = edges.indices(u64::from(u32::MAX))?;
    let count = ends.len() / 2;
    // Arrays that were transposed have their columns one after the other.
    let by_edge = match edges.header.shape[..] {
        [2, _] => edges.header.fortran_order,
        [_, 2] => !edges.header.fortran_order,
        _ => return Err(edges.wrong_shape("(2, edges): sources and targets".to_owned())),
    };
    let pair = |edge: usize| match by_edge {
        true => (ends[2 * edge], ends[2 * edge + 1]),
        false => (ends[edge], ends[count + edge]),
    };
    let largest = ends.iter().max().map_or(0, |most| u128::from(*most) + 1);
    let stated = vertices(arrays)?;
    if let Some(stated) = stated.filter(|stated| u128::from(*stated) < largest) {
        return Err(GraphError::IndexOutOfRange {
            at: edges.at,
            position: 0,
            found: largest as i128 - 1,
            limit: stated,
        });
    }
    let claimed = stated.map_or(largest, u128::from);
    let known = stated.and_then(|stated| u32::try_from(stated).ok());
    let vertices = plausible_vertices(&edges.at, claimed, count as u64, known)?;
    let Some(types) = arrays.optional("edge_type")? else {
        return Topology::from_edges(vertices, (0..count).map(pair));
    };
    let stated = relations(arrays)?;
    let kinds = types.indices(stated.unwrap_or(1 << 16).min(1 << 16))?;
    if kinds.len() != count {
        return Err(types.wrong_shape(format!("({count}), one type per edge")));
    }
    let used = kinds.iter().max().map_or(1, |most| most + 1);
    let relations = stated.map_or(used, |stated| stated as u32);
    let typed = (0..count).map(|edge| {
        let (source, target) = pair(edge);
        (source, target, kinds[edge] as u16)
    });
    Topology::typed(vertices, relations, typed)
}

/// The number of vertices, if some array says it.
fn vertices<R: Read + Seek>(arrays: &mut Arrays<R>) -> Result<Option<u64>, GraphError> {
    if let Some(number) = arrays.optional("num_nodes")? {
        return match number.offsets()?[..] {
            [number] => Ok(Some(number)),
            _ => Err(number.wrong_shape("one number".to_owned())),
        };
    }
    for array in ["x", "y", "train_mask"] {
        let header = arrays.header(array)?;
        if let Some(rows) = header.and_then(|header| header.shape.first().copied()) {
            return Ok(Some(rows));
        }
    }
    Ok(None)
}

/// Splits that are lists of vertices.
pub(super) fn splits<R: Read + Seek>(
    arrays: &mut Arrays<R>,
    data: &mut GraphData,
) -> Result<(), GraphError> {
    let vertices = data.vertices();
    for (names, mask) in [
        (&["train_idx"][..], &mut data.train),
        (&["val_idx", "valid_idx"], &mut data.val),
        (&["test_idx"], &mut data.test),
    ] {
        for name in names {
            if let Some(array) = arrays.optional(name)? {
                for v in array.indices(u64::from(vertices))? {
                    mask[v as usize] = true;
                }
            }
        }
    }
    Ok(())
}
