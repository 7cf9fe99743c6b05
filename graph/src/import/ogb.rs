//! The folder of a node-property or graph-property data set of the Open Graph Benchmark: `raw/` with the
//! graphs as tables without names (`edge.csv.gz`, ..) or one graph as arrays (`data.npz`,
//! `node-label.npz`), `split/NAME/` with lists of vertices or graphs, `mapping/` with ids and names.

mod several;
mod tables;

use super::graphs::Found;
use super::numbers::{beside, list, texts};
use super::{Import, Note};
use crate::read::{npz, place};
use crate::{GraphData, GraphError};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Endings of tables.
const TABLE: [&str; 2] = [".csv.gz", ".csv"];
/// Lists of vertices or graphs in the folder of a split.
const LISTS: [&str; 3] = ["train", "valid", "test"];

/// Whether a folder holds a data set.
pub(super) fn is(folder: &Path) -> bool {
    folder.join("raw").is_dir()
}

/// Reads a data set.
///
/// # Errors
/// A folder that holds none, or several splits of which none is chosen.
pub(super) fn read(options: &Import, notes: &mut Vec<Note>) -> Result<Found, GraphError> {
    let folder = &options.edges;
    let raw = folder.join("raw");
    let mut found = match beside(&raw, "data", &[".npz"]) {
        Some(arrays) => npz::ogb(&arrays, &raw.join("node-label.npz"))?.into(),
        None if several::is(&raw) => several::read(&raw, options, notes)?,
        None => tables::read(&raw, options)?,
    };
    let is_many = found.graphs.is_some();
    let data = &mut found.data;
    names(folder, is_many, data, notes)?;
    split(options, data, notes)?;
    if !options.symmetrise && !data.topology.is_symmetric() {
        let place = place(folder);
        notes.push(Note(if data.vertex_types.is_empty() {
            let sets = if is_many {
                "most data sets of graphs, such as ogbg-molhiv,"
            } else {
                "some data sets, such as ogbn-products,"
            };
            format!(
                "{place}: edges as they are stored; OGB adds reverse edges to {sets} when it reads them: \
                 --symmetrize does"
            )
        } else {
            format!(
                "{place}: edges as they are stored, so messages only flow along their direction; --symmetrize \
                 adds the reverse of each type of edges as a further type"
            )
        }));
    }
    Ok(found)
}

/// Reads the ids of the vertices and the names of the classes, where the data set has them. Predictions
/// about graphs need no ids of vertices.
fn names(
    folder: &Path,
    is_many: bool,
    data: &mut GraphData,
    notes: &mut Vec<Note>,
) -> Result<(), GraphError> {
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
        // Those of several types are in files of their own, and have no numbers among all.
        if start == "nodeidx2" && (is_many || !data.vertex_types.is_empty()) {
            continue;
        }
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
    let types: Vec<String> = data.vertex_types.iter().map(str::to_owned).collect();
    if types.is_empty() {
        let rows = 0..data.train.len();
        return lists(&folder, data, rows);
    }
    let mut has_split = false;
    for name in types {
        let folder = folder.join(&name);
        let vertices = data.vertices_of_type(&name).unwrap_or_default();
        if let Some(first) = vertices.first().filter(|_| folder.is_dir()) {
            let first = *first as usize;
            lists(&folder, data, first..first + vertices.len())?;
            has_split = true;
        }
    }
    if !has_split {
        notes.push(Note(format!(
            "{}: no type of vertices has a folder there",
            place(&folder)
        )));
    }
    Ok(())
}

/// Reads the lists of a split of some of the rows.
fn lists(folder: &Path, data: &mut GraphData, rows: Range<usize>) -> Result<(), GraphError> {
    let count = rows.len() as u64;
    for (list_name, mask) in LISTS
        .into_iter()
        .zip([&mut data.train, &mut data.val, &mut data.test])
    {
        let Some(path) = beside(folder, list_name, &TABLE) else {
            return Err(GraphError::Unsupported {
                at: place(folder),
                found: format!("a split without {list_name}.csv.gz"),
                expected: "train.csv.gz, valid.csv.gz and test.csv.gz; with files of PyTorch \
                           only, write their lists with numpy.savetxt(.., fmt=\"%d\")"
                    .to_owned(),
            });
        };
        for vertex in list(&path, count)? {
            mask[rows.start + vertex as usize] = true;
        }
    }
    Ok(())
}
