//! The arrays of a large data set of the Open Graph Benchmark: `edge_index`, `node_feat` and
//! `num_nodes_list` in one archive, `node_label` in another.

use super::{Arrays, Edges, labels, pyg};
use crate::read::array::Array;
use crate::read::{npy, place};
use crate::topology::Dropped;
use crate::{GraphData, GraphError, Labels};
use std::io::BufReader;
use std::path::Path;

fn open(path: &Path) -> Result<Arrays<BufReader<std::fs::File>>, GraphError> {
    let file = gnnc_files::open(path).map_err(|source| GraphError::Io {
        file: path.to_owned(),
        source,
    })?;
    Arrays::open(&place(path), BufReader::new(file))
}

/// Reads the graph of a data set, and its labels if there is a file of these.
///
/// # Errors
/// Archives that are damaged or lack arrays, or several graphs.
pub(crate) fn ogb(graph: &Path, label_file: &Path) -> Result<(GraphData, Dropped), GraphError> {
    let mut arrays = open(graph)?;
    let sizes = arrays.required("num_nodes_list")?;
    let at = sizes.at.clone();
    let [vertices] = sizes.offsets()?[..] else {
        return Err(super::super::several_graphs(&at, sizes.len() as u64));
    };
    arrays.optional("num_edges_list")?;
    let features = arrays.optional("node_feat")?;
    let labels = match label_file.is_file() {
        true => Some(open(label_file)?.required("node_label")?),
        false => None,
    };
    // A number in a small file may be any; rows of numbers are there.
    let rows = |array: &Array| array.len() > 0 && array.header.shape.first() == Some(&vertices);
    let sure = features.iter().chain(&labels).any(rows);
    let Edges {
        topology,
        features: edge_features,
        mut dropped,
    } = pyg::of_ends(&mut arrays, Some(vertices), sure)?;
    let mut data = GraphData::new("", topology);
    data.edge_features = edge_features;
    if let Some(features) = features {
        data.features = npy::dense(&features)?;
    }
    dropped.not_used.extend(arrays.not_used());
    if let Some(labels) = labels {
        data.labels = classes(&labels)?;
    }
    Ok((data, dropped))
}

/// Labels. Classes are floats where vertices without one have NaN.
fn classes(array: &Array) -> Result<Labels, GraphError> {
    let one = matches!(array.header.shape[..], [_] | [_, 1]) && array.is_float();
    match one.then(|| Labels::of_floats(&array.floats())).flatten() {
        Some(classes) => Ok(classes),
        None => labels::pyg(array),
    }
}
