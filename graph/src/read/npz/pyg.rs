//! Archives with the arrays of a PyTorch Geometric `Data`: `edge_index` (row 0 are sources, row 1
//! targets), `x`, `y`, `edge_type`, `edge_attr` or `edge_weight`, and splits as masks or as lists of vertices (`train_idx`).

use super::types::{self, Types};
use super::{Arrays, Edges};
use crate::read::text::plausible_vertices;
use crate::{GraphData, GraphError, ListedEdge, Topology};
use std::io::{Read, Seek};

/// Reads the edges.
pub(super) fn edges<R: Read + Seek>(arrays: &mut Arrays<R>) -> Result<Edges, GraphError> {
    let stated = vertices(arrays)?;
    // A number in a small file may be any; rows are there.
    let sure = described(arrays)? == stated;
    of_ends(arrays, stated, sure)
}

/// Reads the edges of a graph with `stated` vertices, if that is known. A number of them beyond what the
/// edges make plausible is taken only if it is `sure`.
pub(super) fn of_ends<R: Read + Seek>(
    arrays: &mut Arrays<R>,
    stated: Option<u64>,
    sure: bool,
) -> Result<Edges, GraphError> {
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
    if let Some(stated) = stated.filter(|stated| u128::from(*stated) < largest) {
        return Err(GraphError::IndexOutOfRange {
            at: edges.at,
            position: 0,
            found: largest as i128 - 1,
            limit: stated,
        });
    }
    let claimed = stated.map_or(largest, u128::from);
    let known = stated.filter(|_| sure);
    let known = known.and_then(|stated| u32::try_from(stated).ok());
    let vertices = plausible_vertices(&edges.at, claimed, count as u64, known)?;
    let mut kinds = Vec::new();
    let mut relations = 0;
    if let Some(types) = arrays.optional("edge_type")? {
        let stated = types::relations(arrays)?;
        let read = Types::read(&types, stated, count)?;
        (relations, kinds) = (read.relations, read.of);
    }
    let listed = || {
        (0..count).map(|edge| {
            let (source, target) = pair(edge);
            let kind = kinds.get(edge).copied().unwrap_or(0);
            ListedEdge {
                source,
                target,
                kind,
            }
        })
    };
    let (topology, dropped) = match relations {
        0 => Topology::from_edges(vertices, (0..count).map(pair))?,
        relations => {
            let typed = listed().map(|edge| (edge.source, edge.target, edge.kind));
            Topology::typed(vertices, relations, typed)?
        }
    };
    let topology = super::graphs::with_sets(arrays, topology)?;
    let names = ["edge_attr", "edge_weight", "edge_feat"];
    let features = super::edge_features::read(arrays, &names, &topology, listed())?;
    Ok(Edges {
        topology,
        features,
        dropped,
    })
}

/// The number of vertices, if some array says it.
fn vertices<R: Read + Seek>(arrays: &mut Arrays<R>) -> Result<Option<u64>, GraphError> {
    let Some(number) = arrays.optional("num_nodes")? else {
        return described(arrays);
    };
    match number.offsets()?[..] {
        [number] => Ok(Some(number)),
        _ => Err(number.wrong_shape("one number".to_owned())),
    }
}

/// The number of vertices that an array has rows for.
fn described<R: Read + Seek>(arrays: &mut Arrays<R>) -> Result<Option<u64>, GraphError> {
    // Of many graphs, `y` and the masks have rows for graphs.
    let by_graph = arrays.has("batch");
    let rows: &[&str] = if by_graph {
        &["x", "batch"]
    } else {
        &["x", "y", "train_mask"]
    };
    for array in rows {
        if let Some(rows) = arrays.rows(array)? {
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
    for (names, mask) in [
        (&["train_idx"][..], &mut data.train),
        (&["val_idx", "valid_idx"], &mut data.val),
        (&["test_idx"], &mut data.test),
    ] {
        for name in names {
            if let Some(array) = arrays.optional(name)? {
                for v in array.indices(mask.len() as u64)? {
                    mask[v as usize] = true;
                }
            }
        }
    }
    Ok(())
}
