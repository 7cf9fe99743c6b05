//! Tables of vertices or graphs: an id, a label, a split, and features.

mod columns;

use super::ids::Ids;
use super::lists::MISSING;
use super::members::{Members, Within};
use super::table::{Layout, Row, Table};
use super::typed::OfType;
use super::{Import, Note};
use crate::names::Names;
use crate::read::syntax;
use crate::{Features, GraphData, GraphError, Labels, VertexTypes};
use columns::{Columns, Kind};
use gnnc_ir::words::spelling::counted;
use std::path::Path;

/// Usual names of the columns.
pub(super) const ID: [&str; 5] = ["id", "node", "node_id", "vertex", "name"];
pub(super) const LABEL: [&str; 4] = ["label", "class", "y", "target"];
pub(super) const SPLIT: [&str; 4] = ["split", "set", "fold", "subset"];
const VERTEX_TYPE: [&str; 4] = ["type", "vertex_type", "node_type", "ntype"];
/// Names of columns that say whether a vertex is of a split, in the order of [`SETS`].
const MASKS: [&[&str]; 3] = [&["train_mask"], &["val_mask", "valid_mask"], &["test_mask"]];
/// The splits in messages.
const SETS: [&str; 3] = ["training", "validation", "test"];

/// A column of labels that are whole numbers below this stays as it is.
const MOST_CLASSES: i32 = 1 << 16;

/// What the rows of a table are about.
#[derive(Clone, Copy)]
pub(super) enum About<'a> {
    /// The vertices of a graph.
    Vertices,
    /// The vertices of one type, of several.
    OfType,
    /// The vertices of many graphs.
    Members(Members<'a>),
    /// Graphs, which have no features.
    Graphs,
}

/// What a table says about vertices or graphs.
pub(super) struct Nodes {
    at: String,
    /// What a row is about, in messages.
    unit: &'static str,
    pub(super) ids: Ids,
    /// The graph of each vertex, of many.
    pub(super) graphs: Vec<u32>,
    /// The features, with the columns of the types of vertices behind them.
    pub(super) features: Features,
    pub(super) vertex_types: Names,
    labels: Labels,
    classes: Names,
    /// Training, validation and test vertices.
    masks: [Vec<bool>; 3],
}

/// Opens a table of vertices. It has names, or nobody knows which column is the id.
///
/// # Errors
/// As [`Table::open`].
pub(super) fn open(path: &Path, options: &Import) -> Result<Table, GraphError> {
    Table::open(
        path,
        &Layout {
            named: options.header.or(Some(true)),
            ..Layout::default()
        },
    )
}

/// Reads a table of vertices or graphs.
///
/// # Errors
/// A file that is none, an id that comes twice, or an unknown split.
pub(super) fn read(
    mut table: Table,
    about: About,
    options: &Import,
    notes: &mut Vec<Note>,
) -> Result<Nodes, GraphError> {
    let at = table.at.clone();
    let header = table.header.clone().unwrap_or_default();
    let id = table.chosen("id", options.id.as_deref(), &ID)?;
    let Some(id) = id else {
        return Err(GraphError::Unsupported {
            at,
            found: format!("a table without a column of ids ({})", header.join(", ")),
            expected: format!("a column called {}, or its name as --id", ID.join(", ")),
        });
    };
    let label = table.chosen("label", options.label.as_deref(), &LABEL)?;
    let split = table.chosen("split-column", options.split.as_deref(), &SPLIT)?;
    let members = match about {
        About::Members(members) => Some(members),
        About::Vertices | About::OfType | About::Graphs => None,
    };
    let of_graphs = matches!(about, About::Graphs);
    let kind = match about {
        About::OfType | About::Graphs => None,
        About::Vertices | About::Members(_) => {
            table.chosen("vertex-type", options.vertex_type.as_deref(), &VERTEX_TYPE)?
        }
    };
    let left_out = |name: &String| {
        let mut without = options.without.iter();
        without.any(|own| own.eq_ignore_ascii_case(name))
    };
    for name in options.without.iter().filter(|_| !of_graphs) {
        if table.column(&[name]).is_none() {
            table.chosen("without", Some(name), &[])?;
        }
    }
    let mut own_masks = MASKS.map(|names| table.column(names));
    let mut used = vec![Some(id), label, split, members.map(|own| own.column)];
    used.extend(own_masks);
    // A column that has another meaning does not hold types: labels among the features would give them away.
    let is_other =
        |kind: &usize| used.contains(&Some(*kind)) || header.get(*kind).is_some_and(left_out);
    if let Some(name) = options
        .vertex_type
        .as_ref()
        .filter(|_| kind.as_ref().is_some_and(is_other))
    {
        return Err(GraphError::Unsupported {
            at,
            found: format!(
                "--vertex-type {name}, a column that is left out or means something else"
            ),
            expected: "a column of its own".to_owned(),
        });
    }
    let kind = kind.filter(|kind| !is_other(kind));
    used.push(kind);
    if split.is_some() {
        own_masks = [None; 3];
    }
    let places = (header.iter().enumerate())
        .filter(|(index, name)| !used.contains(&Some(*index)) && !left_out(name))
        .filter(|(index, name)| {
            let reason = match table.other(*index) {
                _ if of_graphs => "since graphs have no features".to_owned(),
                Some(what) => format!("which holds {what}"),
                None => return true,
            };
            notes.push(Note(format!("{at}: left out column `{name}`, {reason}")));
            false
        })
        .map(|(index, name)| (index, name.clone()))
        .collect();
    let mut columns = Columns::new(places);
    let (mut ids, mut graphs) = (Ids::default(), Vec::new());
    let mut labels = Names::default();
    let (mut kinds, mut kind_names) = (Ids::default(), Names::default());
    let mut masks = [(); 3].map(|()| Vec::new());
    let mut row = Row::default();
    while table.next(&mut row)? {
        let word = row.text(&at, id)?;
        let known = ids.names.len() as u32;
        let graph = members.map(|members| members.graph(&at, &row));
        let graph = graph.transpose()?;
        graphs.extend(graph);
        let within = graph.map_or(Within::All, Within::Graph);
        if ids.number(&within.id(word), &at)? != known {
            let found = format!("id `{word}` again");
            let expected = match graph {
                None => "each id once",
                Some(_) => "each id once in a graph",
            };
            return Err(syntax(&at, row.line, found, expected));
        }
        if let Some(column) = label {
            labels.push(row.text(&at, column)?);
        }
        let set = match split {
            Some(column) => set(&at, row.line, row.text(&at, column)?)?,
            None => None,
        };
        for (own, mask) in masks.iter_mut().enumerate() {
            let masked = match own_masks[own] {
                Some(column) => flag(&at, &row, column, "a mask")?,
                None => false,
            };
            mask.push(set == Some(own) || masked);
        }
        let of = match kind {
            None => None,
            Some(column) => {
                let name = row.text(&at, column)?;
                if name.is_empty() {
                    let column = table.name(column);
                    let expected = "the type of the vertex; fill it in, or leave the column out with --without";
                    return Err(syntax(&at, row.line, format!("no {column}"), expected));
                }
                kind_names.push(name);
                let number = kinds.number(name, &at)? as usize;
                Some(Kind { number, name })
            }
        };
        columns.read(&at, &row, of, table.shortest_list)?;
    }
    notes.extend(columns.refused(&at));
    let features = columns.features(&at)?;
    let types = VertexTypes::of_texts(&at, &kind_names)?;
    let (features, vertex_types) = types.beside(&at, features)?;
    let (labels, classes) = classes(&labels);
    let nodes = Nodes {
        at,
        unit: if of_graphs { "graph" } else { "vertex" },
        ids,
        graphs,
        features,
        vertex_types,
        labels,
        classes,
        masks,
    };
    notes.push(Note(nodes.summary()));
    Ok(nodes)
}

/// Leaves vertices without a label out of the splits.
pub(super) fn labeled_splits(at: &str, data: &mut GraphData, notes: &mut Vec<Note>) {
    if data.labels == Labels::None {
        return;
    }
    let unit = data.unit();
    let masks = [&mut data.train, &mut data.val, &mut data.test];
    for (mask, set) in masks.into_iter().zip(SETS) {
        let unknown =
            (mask.iter_mut().enumerate()).filter(|(v, own)| **own && !data.labels.known(*v));
        let unknown = unknown.map(|(_, own)| *own = false).count();
        if unknown > 0 {
            let unknown = counted(unknown, unit);
            notes.push(Note(format!(
                "{at}: {unknown} of the {set} split without a label; left out of it"
            )));
        }
    }
}

/// The split that a field names: 0, 1 or 2.
pub(super) fn set(at: &str, line: u64, word: &str) -> Result<Option<usize>, GraphError> {
    match word.to_ascii_lowercase().as_str() {
        "train" | "training" => Ok(Some(0)),
        "val" | "valid" | "validation" | "dev" => Ok(Some(1)),
        "test" | "testing" => Ok(Some(2)),
        "" | "none" | "-" => Ok(None),
        _ => Err(syntax(
            at,
            line,
            format!("split `{}`", word.chars().take(40).collect::<String>()),
            "train, val, test, or nothing",
        )),
    }
}

/// Whether a field says yes.
pub(super) fn flag(at: &str, row: &Row, column: usize, of: &str) -> Result<bool, GraphError> {
    let word = row.text(at, column)?;
    match word.to_ascii_lowercase().as_str() {
        "1" | "1.0" | "true" | "yes" => Ok(true),
        "" | "0" | "0.0" | "false" | "no" => Ok(false),
        _ => Err(syntax(
            at,
            row.line,
            format!("`{}` in {of}", word.chars().take(40).collect::<String>()),
            "1 or 0, or true or false",
        )),
    }
}

/// Labels as classes from 0, -1 if a vertex has none, and the names of the classes unless these are
/// whole numbers themselves. Other numbers, such as counts and years that are no classes of so few
/// vertices, stay what they are.
pub(super) fn classes(labels: &Names) -> (Labels, Names) {
    let missing = |label: &str| MISSING.contains(&label);
    if labels.iter().all(missing) {
        return (Labels::None, Names::default());
    }
    // Tables with gaps have whole numbers as `3.0`.
    let gaps = labels.iter().any(missing);
    let most =
        i32::try_from(labels.len()).map_or(MOST_CLASSES, |vertices| vertices.min(MOST_CLASSES));
    let whole = |label: &str| {
        let short = label.strip_suffix(".0").filter(|_| gaps);
        short.unwrap_or(label).parse::<i32>().ok()
    };
    let number = |label: &str| match label {
        label if missing(label) => Some(-1),
        label => whole(label).filter(|n| (-1..most).contains(n)),
    };
    if let Some(numbers) = labels.iter().map(number).collect() {
        return (Labels::Single(numbers), Names::default());
    }
    let number = |label: &str| match label {
        label if missing(label) => Some(f32::NAN),
        label => label.parse::<f32>().ok().filter(|x| x.is_finite()),
    };
    if let Some(values) = labels.iter().map(number).collect() {
        return (Labels::Values { width: 1, values }, Names::default());
    }
    let mut sorted: Vec<&str> = labels.iter().filter(|label| !label.is_empty()).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let place = |label: &str| sorted.binary_search(&label).map_or(-1, |n| n as i32);
    (
        Labels::Single(labels.iter().map(place).collect()),
        sorted.iter().collect(),
    )
}

impl Nodes {
    /// Gives a graph what is known about its vertices.
    pub(super) fn describe(self, data: &mut GraphData) {
        (data.features, data.vertex_types) = (self.features, self.vertex_types);
        (data.labels, data.class_names) = (self.labels, self.classes);
        [data.train, data.val, data.test] = self.masks;
    }

    /// What is known about vertices that are all of one type.
    pub(super) fn of_type(self, name: &str) -> OfType {
        OfType {
            name: name.to_owned(),
            rows: self.ids.names.len(),
            features: self.features,
            labels: self.labels,
            class_names: self.classes,
            masks: self.masks,
        }
    }

    /// A line about what was read.
    fn summary(&self) -> String {
        let classes = match &self.labels {
            Labels::None => "no labels".to_owned(),
            Labels::Values { .. } => "labels that are numbers".to_owned(),
            Labels::Single(_) if self.classes.is_empty() => "numbered classes".to_owned(),
            Labels::Single(_) => counted(self.classes.len(), "class"),
        };
        let types = match self.vertex_types.len() {
            0 => String::new(),
            types => format!(" of {types} types"),
        };
        format!(
            "{}: {}{types}, {}, {classes}",
            self.at,
            counted(self.ids.names.len(), self.unit),
            counted(
                self.features.columns() - self.vertex_types.len() as u32,
                "feature"
            )
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_no_classes_stay_numbers() {
        let of = |words: &[&str]| classes(&words.iter().collect());
        let single = |numbers: &[i32]| (Labels::Single(numbers.to_vec()), Names::default());
        assert_eq!(of(&["1.0", "nan", "0.0"]), single(&[1, -1, 0]));
        assert_eq!(of(&["1", "NA", "-1"]), single(&[1, -1, -1]));
        assert_eq!(of(&["nan", "", "NA"]), (Labels::None, Names::default()));
        let (Labels::Values { width: 1, values }, _) = of(&["0.5", "NaN", "2"]) else {
            panic!("no numbers");
        };
        assert!(values[1].is_nan() && (values[0], values[2]) == (0.5, 2.0));
        for words in [["1990", "2001", "0"], ["0", "3", "1"], ["0", "-2", "1"]] {
            let values = words.iter().map(|word| word.parse().unwrap()).collect();
            let numbers = Labels::Values { width: 1, values };
            assert_eq!(of(&words), (numbers, Names::default()), "{words:?}");
        }
    }
}
