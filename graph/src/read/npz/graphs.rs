//! Archives of many graphs, and of named sets of edges.

use super::Arrays;
use crate::{GraphData, GraphError, Topology, many};
use std::io::{Read, Seek};

/// The graph of each vertex.
pub(super) struct Many {
    of: Vec<u32>,
    pub(super) graphs: u32,
}

/// Reads `batch`, the graph of each vertex as PyTorch Geometric numbers them, if the archive has it.
pub(super) fn graph_of<R: Read + Seek>(
    arrays: &mut Arrays<R>,
    vertices: usize,
) -> Result<Option<Many>, GraphError> {
    let Some(array) = arrays.optional("batch")? else {
        return Ok(None);
    };
    array.dimensions(1, "one dimension, the graph of each vertex")?;
    if array.len() != vertices {
        return Err(array.wrong_shape(format!("({vertices}), the graph of each vertex")));
    }
    // A graph has at least one vertex.
    let of = array.indices(vertices as u64)?;
    let graphs = of.iter().max().map_or(0, |most| most + 1);
    Ok(Some(Many { of, graphs }))
}

/// The graph of many, with a vertex for each.
pub(super) fn joined(at: &str, data: GraphData, many: &Many) -> Result<GraphData, GraphError> {
    if data.ids.is_empty() {
        return many::join(data, &many.of, many.graphs);
    }
    Err(GraphError::Unsupported {
        at: at.to_owned(),
        found: "`vertex_ids` beside `batch`".to_owned(),
        expected:
            "predictions of graphs to name the graphs by their numbers; leave out `vertex_ids`"
                .to_owned(),
    })
}

/// Reads how many of the last vertices stand for graphs or pairs, as gnnc writes it.
pub(super) fn count<R: Read + Seek>(
    arrays: &mut Arrays<R>,
    data: &GraphData,
) -> Result<u32, GraphError> {
    let Some(array) = arrays.optional("subjects")? else {
        return Ok(0);
    };
    let vertices = data.vertices();
    match array.offsets()?[..] {
        [count] if count <= u64::from(vertices) => Ok(count as u32),
        _ => Err(array.wrong_shape(format!(
            "one number up to {vertices}, how many of the last vertices stand for graphs or pairs"
        ))),
    }
}

/// Reads `edge_sets`, the names of the last types of edges, which form sets of their own.
pub(super) fn with_sets<R: Read + Seek>(
    arrays: &mut Arrays<R>,
    topology: Topology,
) -> Result<Topology, GraphError> {
    match arrays.names("edge_sets")? {
        Some(names) => topology.with_sets(names.iter().map(str::to_owned).collect()),
        None => Ok(topology),
    }
}
