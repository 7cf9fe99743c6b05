//! Tables of vertices: an id, a label, a split, and features.

use super::ids::Ids;
use super::table::{Row, Table};
use super::{Import, Note};
use crate::names::Names;
use crate::read::syntax;
use crate::{Features, GraphError, Labels};
use gnnc_ir::words::spelling::counted;
use std::path::Path;

/// Usual names of the columns.
const ID: [&str; 5] = ["id", "node", "node_id", "vertex", "name"];
const LABEL: [&str; 4] = ["label", "class", "y", "target"];
const SPLIT: [&str; 4] = ["split", "set", "fold", "subset"];

/// A column of labels that are whole numbers below this stays as it is.
const MOST_CLASSES: i32 = 1 << 16;

/// What a table says about vertices.
pub(super) struct Nodes {
    pub(super) ids: Ids,
    pub(super) features: Features,
    /// The names of the features' columns.
    pub(super) columns: Vec<String>,
    pub(super) labels: Labels,
    pub(super) classes: Names,
    /// Training, validation and test vertices.
    pub(super) masks: [Vec<bool>; 3],
}

/// A column that may hold features.
struct Column {
    index: usize,
    name: String,
    /// The first field that is no number, and its line.
    text: Option<(String, u64)>,
}

/// Reads a table of vertices.
///
/// # Errors
/// A file that is none, an id that comes twice, or an unknown split.
pub(super) fn read(
    path: &Path,
    options: &Import,
    notes: &mut Vec<Note>,
) -> Result<Nodes, GraphError> {
    // A table of features has names, or nobody knows which column is the id.
    let mut table = Table::open(path, options.header.or(Some(true)), &|_, _| true)?;
    let at = table.at.clone();
    let id = table.chosen("id", options.id.as_deref(), &ID)?;
    let Some(id) = id else {
        let header = table.header.clone().unwrap_or_default();
        return Err(GraphError::Unsupported {
            at,
            found: format!("a table without a column of ids ({})", header.join(", ")),
            expected: format!("a column called {}, or its name as --id", ID.join(", ")),
        });
    };
    let label = table.chosen("label", options.label.as_deref(), &LABEL)?;
    let split = table.chosen("split-column", options.split.as_deref(), &SPLIT)?;
    for name in &options.without {
        table.chosen("without", Some(name), &[])?;
    }
    let header = table.header.clone().unwrap_or_default();
    let left_out = |name: &String| {
        options
            .without
            .iter()
            .any(|own| own.eq_ignore_ascii_case(name))
    };
    let mut columns: Vec<Column> = (header.iter().enumerate())
        .filter(|(index, name)| {
            ![Some(id), label, split].contains(&Some(*index)) && !left_out(name)
        })
        .map(|(index, name)| Column {
            index,
            name: name.clone(),
            text: None,
        })
        .collect();
    let mut ids = Ids::default();
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    let mut masks = [(); 3].map(|()| Vec::new());
    while let Some(row) = table.next()? {
        let word = text(&at, &row, id)?;
        let known = ids.names.len() as u32;
        if ids.number(word, &at)? != known {
            return Err(syntax(
                &at,
                row.line,
                format!("id `{word}` again"),
                "each id once",
            ));
        }
        if let Some(column) = label {
            labels.push(text(&at, &row, column)?.to_owned());
        }
        let set = split
            .map(|column| set(&at, &row, column))
            .transpose()?
            .flatten();
        for (own, mask) in masks.iter_mut().enumerate() {
            mask.push(set == Some(own));
        }
        for column in &mut columns {
            values.push(number(&at, &row, column)?);
        }
    }
    let numeric: Vec<bool> = columns.iter().map(|column| column.text.is_none()).collect();
    for column in &columns {
        if let Some((word, line)) = &column.text {
            notes.push(Note(format!(
                "{at}: left out column `{}`, which is no number at line {line} (`{word}`)",
                column.name
            )));
        }
    }
    let kept = numeric.iter().filter(|kept| **kept).count();
    let features = match kept {
        0 => Features::None,
        _ => {
            let cells = values.chunks(columns.len().max(1));
            let own = cells.flat_map(|row| row.iter().zip(&numeric).filter(|(_, kept)| **kept));
            let values = own.map(|(value, _)| *value).collect();
            Features::dense(ids.names.len(), kept as u32, values)
        }
    };
    let (labels, classes) = classes(&labels);
    if labels != Labels::None {
        for (mask, set) in masks.iter_mut().zip(["training", "validation", "test"]) {
            let unknown = mask
                .iter_mut()
                .enumerate()
                .filter(|(v, own)| **own && !labels.known(*v));
            let unknown = unknown.map(|(_, own)| *own = false).count();
            if unknown > 0 {
                let unknown = counted(unknown, "vertex");
                notes.push(Note(format!(
                    "{at}: {unknown} of the {set} split without a label; left out of it"
                )));
            }
        }
    }
    columns.retain(|column| column.text.is_none());
    Ok(Nodes {
        ids,
        features,
        columns: columns.into_iter().map(|column| column.name).collect(),
        labels,
        classes,
        masks,
    })
}

/// A field as text.
pub(super) fn text<'a>(at: &str, row: &'a Row, column: usize) -> Result<&'a str, GraphError> {
    let field = row.field(column);
    let wrong = || syntax(at, row.line, "bytes that are no UTF-8", "text in UTF-8");
    std::str::from_utf8(field).map_err(|_| wrong())
}

/// A feature. A field that is no number makes its column one of text; an empty field is an error, since
/// nobody knows what it means.
fn number(at: &str, row: &Row, column: &mut Column) -> Result<f32, GraphError> {
    if column.text.is_some() {
        return Ok(0.0);
    }
    let word = text(at, row, column.index)?;
    if word.is_empty() {
        return Err(syntax(
            at,
            row.line,
            format!("no value of `{}`", column.name),
            format!("a number; fill it in, or pass --without {}", column.name),
        ));
    }
    match word.parse::<f32>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(syntax(
            at,
            row.line,
            format!("`{word}` as `{}`", column.name),
            "a finite number",
        )),
        Err(_) => {
            column.text = Some((word.chars().take(40).collect(), row.line));
            Ok(0.0)
        }
    }
}

/// The set that a vertex belongs to, from 0 for training; `None` if to no set.
fn set(at: &str, row: &Row, column: usize) -> Result<Option<usize>, GraphError> {
    let word = text(at, row, column)?;
    match word.to_ascii_lowercase().as_str() {
        "train" | "training" => Ok(Some(0)),
        "val" | "valid" | "validation" | "dev" => Ok(Some(1)),
        "test" | "testing" => Ok(Some(2)),
        "" | "none" | "-" => Ok(None),
        _ => Err(syntax(
            at,
            row.line,
            format!("split `{}`", word.chars().take(40).collect::<String>()),
            "train, val, test, or nothing",
        )),
    }
}

/// Labels as classes from 0, -1 if a vertex has none, and the names of the classes unless these are
/// whole numbers themselves. Other numbers stay what they are.
fn classes(labels: &[String]) -> (Labels, Names) {
    if labels.iter().all(String::is_empty) {
        return (Labels::None, Names::default());
    }
    let number = |label: &String| match label.as_str() {
        "" => Some(-1),
        label => label
            .parse::<i32>()
            .ok()
            .filter(|n| (-1..MOST_CLASSES).contains(n)),
    };
    if let Some(numbers) = labels.iter().map(number).collect() {
        return (Labels::Single(numbers), Names::default());
    }
    let number = |label: &String| match label.as_str() {
        "" => Some(f32::NAN),
        label => label.parse::<f32>().ok().filter(|x| x.is_finite()),
    };
    if let Some(values) = labels.iter().map(number).collect() {
        return (Labels::Values { width: 1, values }, Names::default());
    }
    let mut sorted: Vec<&str> = labels
        .iter()
        .map(String::as_str)
        .filter(|l| !l.is_empty())
        .collect();
    sorted.sort_unstable();
    sorted.dedup();
    let place = |label: &String| {
        sorted
            .binary_search(&label.as_str())
            .map_or(-1, |n| n as i32)
    };
    (
        Labels::Single(labels.iter().map(place).collect()),
        sorted.iter().collect(),
    )
}

impl Nodes {
    /// A line about what was read.
    pub(super) fn summary(&self) -> String {
        let classes = match &self.labels {
            Labels::None => "no labels".to_owned(),
            Labels::Values { .. } => "labels that are numbers".to_owned(),
            Labels::Single(_) if self.classes.is_empty() => "numbered classes".to_owned(),
            Labels::Single(_) => counted(self.classes.len(), "class"),
        };
        format!(
            "{}, {}, {classes}",
            counted(self.ids.names.len(), "vertex"),
            counted(self.columns.len(), "feature")
        )
    }
}
