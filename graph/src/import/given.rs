//! Features, labels and splits from files of their own.

use super::nodes::{ID, LABEL, SPLIT, classes, set};
use super::numbers::{beside, list};
use super::table::{IsHeader, Layout, Row, Table};
use super::{Import, ids::Ids};
use crate::names::Names;
use crate::read::{array_file, npy, npz, place, syntax};
use crate::{Features, GraphData, GraphError, Labels, many};
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
        let features = features(path, data)?;
        data.set_own_features(features);
    }
    if let Some(path) = &options.labels {
        let (labels, names) = if is_array(path) {
            (npz::labels::pyg(&array_file(path)?)?, Names::default())
        } else {
            classes(&column(path, "labels", &LABEL, data)?)
        };
        let rows = match &labels {
            Labels::None => data.subjects().len(),
            Labels::Single(classes) => classes.len(),
            Labels::Values { width, values } => values.len() / (*width).max(1) as usize,
        };
        check_rows(path, rows, data)?;
        data.labels = many::behind(labels, data.subjects().start as usize);
        data.class_names = names;
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
    check_rows(path, sets.len(), data)?;
    let is_own = |own| sets.iter().map(|set| *set == Some(own)).collect();
    give_masks([0, 1, 2].map(is_own), data);
    Ok(())
}

/// Gives a graph masks of what its labels are about.
fn give_masks(masks: [Vec<bool>; 3], data: &mut GraphData) {
    let others = data.subjects().start as usize;
    [data.train, data.val, data.test] = masks.map(|mask| many::mask_behind(mask, others));
}

/// Features of all vertices. Those that stand for graphs or pairs have zeros, unless the file has their
/// rows too.
fn features(path: &Path, data: &GraphData) -> Result<Features, GraphError> {
    let features = npy::map(path)?;
    let subjects = data.subjects as usize;
    let others = data.vertices() as usize - subjects;
    if subjects > 0 && features.rows() == Some(others) {
        return Ok(many::with_rows(features, others, subjects));
    }
    Ok(features)
}

/// Checks that an array has a row for each vertex, graph or pair that labels are about.
fn check_rows(path: &Path, rows: usize, data: &GraphData) -> Result<(), GraphError> {
    let expected = data.subjects().len();
    if rows == expected {
        return Ok(());
    }
    Err(GraphError::Unsupported {
        at: place(path),
        found: counted(rows, "row"),
        expected: format!("{expected}, one for each {}", data.unit()),
    })
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

/// A text for each vertex, or for each graph or pair if labels are about these: in their order if there is
/// one column, or else by their ids.
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
    let vertices = data.subjects().len();
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
                    "{vertices}, one for each {} (\"\" for none), or a column `id` beside it",
                    data.unit()
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
    let ids = Ids::of(&ids_of(data), &at)?;
    let mut places: Vec<Option<u32>> = vec![None; vertices];
    while table.next(&mut row)? {
        let word = row.text(&at, id)?;
        let vertex = vertex(word, &ids, vertices);
        let Some(place) = vertex.and_then(|vertex| places.get_mut(vertex)) else {
            return Err(syntax(
                &at,
                row.line,
                format!("id `{word}`"),
                format!("the id of a {}", data.unit()),
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

/// The ids of what labels are about; none if these are their numbers.
fn ids_of(data: &GraphData) -> Names {
    let known = |v: u32| data.ids.get(v as usize);
    data.subjects().filter_map(known).collect()
}

/// The vertex of an id, which is its number if vertices have no ids.
fn vertex(id: &str, ids: &Ids, vertices: usize) -> Option<usize> {
    match ids.names.is_empty() {
        true => id.parse().ok().filter(|vertex| *vertex < vertices),
        false => ids.find(id).map(|vertex| vertex as usize),
    }
}

/// Reads a folder of lists of vertices, or of what labels are about.
fn lists(folder: &Path, data: &mut GraphData) -> Result<(), GraphError> {
    let vertices = data.subjects().len();
    let mut masks = [(); 3].map(|()| vec![false; vertices]);
    let ids = Ids::of(&ids_of(data), &place(folder))?;
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
                    format!("the id of a {}", data.unit()),
                ));
            };
            mask[vertex] = true;
        }
    }
    give_masks(masks, data);
    Ok(())
}
