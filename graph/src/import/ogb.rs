//! The folder of a node-property data set of the Open Graph Benchmark: `raw/` with the graph as tables
//! without names (`edge.csv.gz`, ..) or as arrays (`data.npz`, `node-label.npz`), `split/NAME/` with lists
//! of vertices, `mapping/` with their ids.

use super::numbers::{Matrix, below, beside, list, matrix, texts, unnamed};
use super::table::Row;
use super::{Import, Note, several_graphs};
use crate::read::{npz, place};
use crate::topology::{Dropped, check_vertices};
use crate::{EdgeFeatures, GraphData, GraphError, ListedEdge, Topology};
use std::path::{Path, PathBuf};

/// Endings of tables.
const TABLE: [&str; 2] = [".csv.gz", ".csv"];
/// Lists of vertices in the folder of a split.
const LISTS: [&str; 3] = ["train", "valid", "test"];

/// Whether a folder holds a data set.
pub(super) fn is(folder: &Path) -> bool {
    folder.join("raw").is_dir()
}

/// Reads a data set.
///
/// # Errors
/// A folder that holds none, several graphs, or several splits of which none is chosen.
pub(super) fn read(
    options: &Import,
    notes: &mut Vec<Note>,
) -> Result<(GraphData, Dropped), GraphError> {
    let folder = &options.edges;
    let raw = folder.join("raw");
    for name in ["triplet-type-list", "num-node-dict"] {
        if let Some(path) = beside(&raw, name, &TABLE) {
            return Err(GraphError::Unsupported {
                at: place(folder),
                found: format!("a data set of several types of vertices ({})", place(&path)),
                expected: "vertices of one type".to_owned(),
            });
        }
    }
    let (mut data, mut dropped) = match beside(&raw, "data", &[".npz"]) {
        Some(arrays) => npz::ogb(&arrays, &raw.join("node-label.npz"))?,
        None => tables(&raw)?,
    };
    if let Some(edges) = beside(&raw, "edge-feat", &TABLE) {
        dropped
            .not_used
            .push(format!("edge features ({})", place(&edges)));
    }
    names(folder, &mut data, notes)?;
    split(options, &mut data, notes)?;
    if !options.symmetrise && !data.topology.is_symmetric() {
        notes.push(Note(format!(
            "{}: edges as they are stored; OGB adds reverse edges to some data sets, such as \
             ogbn-products, when it reads them: --symmetrize does",
            place(folder)
        )));
    }
    Ok((data, dropped))
}

/// Reads the graph of a data set of tables.
fn tables(raw: &Path) -> Result<(GraphData, Dropped), GraphError> {
    let found = |name: &str| beside(raw, name, &TABLE);
    let (Some(edges), Some(sizes)) = (found("edge"), found("num-node-list")) else {
        return Err(GraphError::Unsupported {
            at: place(raw),
            found: "a folder without a graph".to_owned(),
            expected: "edge.csv.gz and num-node-list.csv.gz, or data.npz, as in the folder of a \
                       node-property data set of OGB"
                .to_owned(),
        });
    };
    let sizes = (place(&sizes), list(&sizes, u64::from(u32::MAX))?);
    let vertices = match sizes.1[..] {
        [vertices] => check_vertices(&sizes.0, vertices.into(), 0)?,
        _ => return Err(several_graphs(&sizes.0, sizes.1.len() as u64)),
    };
    // What a table does not describe takes memory all the same.
    let features = found("node-feat").map(|path| matrix(&path)).transpose()?;
    let labels = found("node-label").map(|path| matrix(&path)).transpose()?;
    for Matrix { at, rows, .. } in [&features, &labels].into_iter().flatten() {
        if *rows != vertices as usize {
            return Err(GraphError::Unsupported {
                at: at.clone(),
                found: format!("{rows} rows"),
                expected: format!("{vertices}, as many as {} says", sizes.0),
            });
        }
    }
    let mut table = unnamed(&edges)?;
    let (mut keys, mut row) = (Vec::new(), Row::default());
    while table.next(&mut row)? {
        let end = |column| below(&table.at, &row, column, vertices.into()).map(u64::from);
        keys.push(end(1)? << 32 | end(0)?);
    }
    if let Some(stated) = found("num-edge-list") {
        let edges = list(&stated, u64::from(u32::MAX))?;
        if edges.iter().map(|n| *n as usize).sum::<usize>() != keys.len() {
            return Err(GraphError::Unsupported {
                at: table.at,
                found: format!("{} rows", keys.len()),
                expected: format!("as many as {} says", place(&stated)),
            });
        }
    }
    let described = features.is_some() || labels.is_some();
    let most = (keys.len() as u64)
        .saturating_mul(16)
        .saturating_add(1 << 20);
    if !described && u64::from(vertices) > most {
        return Err(GraphError::TooManyVertices {
            at: sizes.0,
            found: vertices.into(),
            edges: keys.len() as u64,
            limit: most,
        });
    }
    let numbers = found("edge-feat").map(|path| matrix(&path)).transpose()?;
    if let Some(Matrix { at, rows, .. }) = &numbers
        && *rows != keys.len()
    {
        return Err(GraphError::Unsupported {
            at: at.clone(),
            found: format!("{rows} rows"),
            expected: format!("{}, one for each edge", keys.len()),
        });
    }
    let listed: Vec<ListedEdge> = match numbers {
        None => Vec::new(),
        Some(_) => keys.iter().map(|key| ListedEdge::of_key(*key)).collect(),
    };
    let (topology, dropped) = Topology::from_keys(vertices, keys)?;
    let mut edge_features = EdgeFeatures::default();
    if let Some(Matrix {
        columns, values, ..
    }) = numbers
    {
        edge_features = EdgeFeatures::in_order(&topology, listed, columns, &values);
    }
    let mut data = GraphData::new("", topology);
    data.edge_features = edge_features;
    if let Some(features) = features {
        data.features = features.features();
    }
    if let Some(labels) = labels {
        data.labels = labels.labels();
    }
    Ok((data, dropped))
}

/// Reads the ids of the vertices and the names of the classes, where the data set has them.
fn names(folder: &Path, data: &mut GraphData, notes: &mut Vec<Note>) -> Result<(), GraphError> {
    let Ok(entries) = folder.join("mapping").read_dir() else {
        return Ok(());
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    let of = |start: &str| {
        let is = |path: &&PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| {
                name.starts_with(start) && TABLE.iter().any(|end| name.ends_with(end))
            })
        };
        paths.iter().find(is)
    };
    let vertices = data.vertices() as usize;
    let classes = data.classes() as usize;
    for (start, count, names) in [
        ("nodeidx2", vertices, &mut data.ids),
        ("labelidx2", classes, &mut data.class_names),
    ] {
        let Some(path) = of(start) else { continue };
        match texts(path)?.filter(|found| found.len() >= count && count > 0) {
            // A class that no vertex has may have a name.
            Some(found) => *names = found.iter().take(count).collect(),
            None => notes.push(Note(format!(
                "{}: not used, since it does not name {count} numbers in order",
                place(path)
            ))),
        }
    }
    Ok(())
}

/// Reads the split that is asked for, or the only one.
fn split(options: &Import, data: &mut GraphData, notes: &mut Vec<Note>) -> Result<(), GraphError> {
    if options.shares.is_some() || options.splits.is_some() {
        return Ok(());
    }
    let folder = options.edges.join("split");
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = folders
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    let name = match (&options.split_name, &names[..]) {
        (Some(name), _) if names.contains(name) => name,
        (None, [only]) => only,
        (None, []) => {
            let place = place(&options.edges);
            notes.push(Note(format!(
                "{place}: no split; --split makes a random one"
            )));
            return Ok(());
        }
        (wanted, _) => {
            let found = match wanted {
                Some(name) => format!("split `{name}`"),
                None => format!("a data set with {} splits", names.len()),
            };
            return Err(GraphError::Unsupported {
                at: place(&folder),
                found,
                expected: format!("one of {} as --split-name", names.join(", ")),
            });
        }
    };
    let folder = folder.join(name);
    let vertices = u64::from(data.vertices());
    for (list_name, mask) in LISTS
        .into_iter()
        .zip([&mut data.train, &mut data.val, &mut data.test])
    {
        let Some(path) = beside(&folder, list_name, &TABLE) else {
            return Err(GraphError::Unsupported {
                at: place(&folder),
                found: format!("a split without {list_name}.csv.gz"),
                expected: "train.csv.gz, valid.csv.gz and test.csv.gz; with files of PyTorch \
                           only, write their lists with numpy.savetxt(.., fmt=\"%d\")"
                    .to_owned(),
            });
        };
        for vertex in list(&path, vertices)? {
            mask[vertex as usize] = true;
        }
    }
    Ok(())
}
