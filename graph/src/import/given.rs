//! Labels and splits from files of their own.

use super::nodes::{ID, LABEL, SPLIT, classes, set};
use super::numbers::{beside, list};
use super::table::{IsHeader, Layout, Row, Table};
use super::{Import, ids::Ids};
use crate::names::Names;
use crate::read::{array_file, npy, npz, place, syntax};
use crate::{GraphData, GraphError};
use gnnc_ir::words::spelling::counted;
use std::path::Path;

/// Endings of lists of vertices.
const LISTS: [&str; 5] = [".csv.gz", ".csv", ".txt", ".txt.gz", ".npy"];
/// Names of these lists.
const NAMES: [&[&str]; 3] = [&["train"], &["val", "valid"], &["test"]];

/// Gives a graph the features, labels and splits of files of their own.
///
/// # Errors
/// Files that cannot be read, or that are not about these vertices.
pub(super) fn give(options: &Import, data: &mut GraphData) -> Result<(), GraphError> {
    if let Some(path) = &options.features {
        data.features = npy::map(path)?;
    }
    if let Some(path) = &options.labels {
        (data.labels, data.class_names) = match is_array(path) {
            true => (npz::labels::pyg(&array_file(path)?)?, Names::default()),
            false => classes(&column(path, "labels", &LABEL, data)?),
        };
    }
    let Some(path) = &options.splits else {
        return Ok(());
    };
    let sets = match (path.is_dir(), is_array(path)) {
        (true, _) => return lists(path, data),
        (false, true) => numbered(path)?,
        (false, false) => {
            let at = place(path);
            let names = column(path, "splits", &SPLIT, data)?;
            let sets = (1..)
                .zip(names.iter())
                .map(|(line, word)| set(&at, line, word));
            sets.collect::<Result<_, _>>()?
        }
    };
    let masks = [&mut data.train, &mut data.val, &mut data.test];
    for (own, mask) in masks.into_iter().enumerate() {
        *mask = sets.iter().map(|set| *set == Some(own)).collect();
    }
    Ok(())
}

fn is_array(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "npy")
}

/// The splits of an array: 0 for training, 1 for validation, 2 for test, -1 for none.
fn numbered(path: &Path) -> Result<Vec<Option<usize>>, GraphError> {
    let array = array_file(path)?;
    let known = |number: i32| match number {
        -1 => Some(None),
        0..=2 => Some(Some(number as usize)),
        _ => None,
    };
    let sets: Option<_> = npz::labels::classes(&array)?
        .into_iter()
        .map(known)
        .collect();
    sets.ok_or_else(|| GraphError::Unsupported {
        at: place(path),
        found: "a split that is none of -1, 0, 1 and 2".to_owned(),
        expected: "0 for training, 1 for validation, 2 for test and -1 for none".to_owned(),
    })
}

/// A text for each vertex: in the order of the vertices if there is one column, or else by their ids.
fn column(
    path: &Path,
    option: &str,
    usual: &[&str],
    data: &GraphData,
) -> Result<Names, GraphError> {
    let named =
        |word: &String, names: &[&str]| names.iter().any(|own| word.eq_ignore_ascii_case(own));
    let is_header: &IsHeader = &|first, _| match first.len() {
        1 => named(&first[0], usual),
        _ => true,
    };
    let layout = Layout {
        is_header: Some(is_header),
        ..Layout::default()
    };
    let mut table = Table::open(path, &layout)?;
    let at = table.at.clone();
    let vertices = data.vertices() as usize;
    let mut row = Row::default();
    let mut names = Names::default();
    if table.columns < 2 {
        while table.next(&mut row)? {
            names.push(row.text(&at, 0)?);
        }
        return match names.len() == vertices {
            true => Ok(names),
            false => Err(GraphError::Unsupported {
                at,
                found: counted(names.len(), "row"),
                expected: format!(
                    "{vertices}, one for each vertex (\"\" for none), or a column `id` beside it"
                ),
            }),
        };
    }
    let (Some(id), Some(value)) = (table.column(&ID), table.column(usual)) else {
        return Err(GraphError::Unsupported {
            at,
            found: format!(
                "--{option} with the columns {}",
                table.header.unwrap_or_default().join(", ")
            ),
            expected: format!(
                "a column called {} and one called {}",
                ID.join(", "),
                usual.join(", ")
            ),
        });
    };
    let ids = Ids::of(&data.ids, &at)?;
    let mut places: Vec<Option<u32>> = vec![None; vertices];
    while table.next(&mut row)? {
        let word = row.text(&at, id)?;
        let vertex = vertex(word, &ids, vertices);
        let Some(place) = vertex.and_then(|vertex| places.get_mut(vertex)) else {
            return Err(syntax(
                &at,
                row.line,
                format!("id `{word}`"),
                "the id of a vertex",
            ));
        };
        if place.is_some() {
            return Err(syntax(
                &at,
                row.line,
                format!("id `{word}` again"),
                "each id once",
            ));
        }
        *place = Some(names.len() as u32);
        names.push(row.text(&at, value)?);
    }
    let text = |place: &Option<u32>| place.and_then(|place| names.get(place as usize));
    Ok(places
        .iter()
        .map(|place| text(place).unwrap_or_default())
        .collect())
}

/// The vertex of an id, which is its number if vertices have no ids.
fn vertex(id: &str, ids: &Ids, vertices: usize) -> Option<usize> {
    match ids.names.is_empty() {
        true => id.parse().ok().filter(|vertex| *vertex < vertices),
        false => ids.find(id).map(|vertex| vertex as usize),
    }
}

/// Reads a folder of lists of vertices.
fn lists(folder: &Path, data: &mut GraphData) -> Result<(), GraphError> {
    let vertices = data.vertices() as usize;
    let mut masks = [(); 3].map(|()| vec![false; vertices]);
    let ids = Ids::of(&data.ids, &place(folder))?;
    for (mask, names) in masks.iter_mut().zip(NAMES) {
        let Some(path) = names.iter().find_map(|name| beside(folder, name, &LISTS)) else {
            return Err(GraphError::Unsupported {
                at: place(folder),
                found: format!("a folder without a list `{}`", names[0]),
                expected:
                    "train, val (or valid) and test, each as .csv, .txt (also with .gz) or .npy"
                        .to_owned(),
            });
        };
        if ids.names.is_empty() || is_array(&path) {
            for vertex in list(&path, vertices as u64)? {
                mask[vertex as usize] = true;
            }
            continue;
        }
        let mut table = super::numbers::unnamed(&path)?;
        let (at, mut row) = (table.at.clone(), Row::default());
        while table.next(&mut row)? {
            let word = row.text(&at, 0)?;
            let Some(vertex) = vertex(word, &ids, vertices) else {
                return Err(syntax(
                    &at,
                    row.line,
                    format!("id `{word}`"),
                    "the id of a vertex",
                ));
            };
            mask[vertex] = true;
        }
    }
    [data.train, data.val, data.test] = masks;
    Ok(())
}
