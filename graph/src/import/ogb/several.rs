//! The tables of a data set with several types of vertices: a folder for each type of edges, and one for the
//! features and labels of each type of vertices.

use super::TABLE;
use crate::import::graphs::Found;
use crate::import::numbers::{below, beside, matrix, unnamed};
use crate::import::table::{Layout, Row, Table};
use crate::import::typed::{self, OfType};
use crate::import::{Import, Note};
use crate::names::Names;
use crate::read::{place, several_graphs, syntax};
use crate::topology::check_vertices;
use crate::{Features, GraphData, GraphError, Labels, Topology};
use gnnc_ir::workload::MAX_RELATIONS;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The tables that say which types there are.
const VERTICES: &str = "num-node-dict";
const EDGES: &str = "triplet-type-list";

/// Whether a folder holds such tables.
pub(super) fn is(raw: &Path) -> bool {
    [VERTICES, EDGES]
        .into_iter()
        .any(|name| beside(raw, name, &TABLE).is_some())
}

/// A type of edges.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Relation {
    source: String,
    name: String,
    target: String,
}

/// Reads a data set. The types of vertices, and those of edges, are in the order of their names.
///
/// # Errors
/// Several graphs, and tables that are missing or that do not fit each other.
pub(super) fn read(
    raw: &Path,
    options: &Import,
    notes: &mut Vec<Note>,
) -> Result<Found, GraphError> {
    let required = |folder: &Path, name: &str| -> Result<PathBuf, GraphError> {
        beside(folder, name, &TABLE).ok_or_else(|| GraphError::Unsupported {
            at: place(folder),
            found: format!("a folder without {name}.csv.gz"),
            expected: "the files of a data set of OGB with several types of vertices".to_owned(),
        })
    };
    let path = required(raw, VERTICES)?;
    let counts = counts(&path)?;
    let vertices: u64 = counts.values().map(|count| u64::from(*count)).sum();
    let vertices = check_vertices(&place(&path), vertices.into(), 0)?;
    let mut first = BTreeMap::new();
    let mut next = 0;
    for (name, count) in &counts {
        first.insert(&name[..], next);
        next += count;
    }
    let path = required(raw, EDGES)?;
    let relations = relations(&path)?;
    let mut edges: Vec<(u32, u32, u16)> = Vec::new();
    for (kind, relation) in (0u16..).zip(&relations) {
        let Relation {
            source,
            name,
            target,
        } = relation;
        let folder = raw
            .join("relations")
            .join(format!("{source}___{name}___{target}"));
        let of = |name: &str| {
            let known = counts.get(name).zip(first.get(name));
            known.ok_or_else(|| GraphError::Unsupported {
                at: place(&path),
                found: format!("vertices of type `{name}`"),
                expected: format!("a type that {VERTICES}.csv.gz counts"),
            })
        };
        let ((sources, source), (targets, target)) = (of(source)?, of(target)?);
        let mut table = unnamed(&required(&folder, "edge")?)?;
        let (at, mut row) = (table.at.clone(), Row::default());
        while table.next(&mut row)? {
            let from = below(&at, &row, 0, u64::from(*sources))?;
            let to = below(&at, &row, 1, u64::from(*targets))?;
            edges.push((source + from, target + to, kind));
        }
        if let Some(path) = beside(&folder, "edge-feat", &TABLE) {
            notes.push(Note(format!("{}: not used", place(&path))));
        }
    }
    let mut types = Vec::new();
    let mut described = 0;
    for (name, count) in &counts {
        let of = of_type(raw, name, *count as usize)?;
        if of.features != Features::None || of.labels != Labels::None {
            described += u64::from(*count);
        }
        types.push(of);
    }
    // What a table does not describe takes memory all the same.
    let most = described + 16 * edges.len() as u64 + (1 << 20);
    if u64::from(vertices) > most {
        return Err(GraphError::TooManyVertices {
            at: place(raw),
            found: vertices.into(),
            edges: edges.len() as u64,
            limit: most,
        });
    }
    let (topology, dropped) = Topology::typed(vertices, relations.len() as u32, edges)?;
    let mut data = GraphData::new("", topology);
    let numbered = counts
        .iter()
        .flat_map(|(name, count)| (0..*count).map(move |n| (name, n)));
    data.ids = numbered
        .map(|(name, n)| format!("{name}:{n}"))
        .collect::<Names>();
    let chosen = options.label_type.as_deref();
    typed::describe(&place(raw), types, chosen, &mut data)?;
    Ok((data, dropped).into())
}

/// Whether a name can be a part of a path within the data set.
fn can_be_in_path(name: &str) -> bool {
    !["", ".", ".."].contains(&name) && !name.contains(['/', '\\'])
}

/// The number of vertices of each type: names above a row of numbers.
fn counts(path: &Path) -> Result<BTreeMap<String, u32>, GraphError> {
    let layout = Layout {
        named: Some(true),
        ..Layout::default()
    };
    let mut table = Table::open(path, &layout)?;
    let at = table.at.clone();
    let names = table.header.clone().unwrap_or_default();
    for (place, name) in names.iter().enumerate() {
        if !can_be_in_path(name) || names[..place].contains(name) {
            return Err(GraphError::Unsupported {
                at,
                found: format!("the type `{name}`"),
                expected: "different names of types, which are also names of folders".to_owned(),
            });
        }
    }
    let mut row = Row::default();
    let mut counts = BTreeMap::new();
    let mut graphs = 0;
    while table.next(&mut row)? {
        graphs += 1;
        for (column, name) in names.iter().enumerate() {
            counts.insert(name.clone(), below(&at, &row, column, u64::from(u32::MAX))?);
        }
    }
    match graphs {
        1 => Ok(counts),
        graphs => Err(several_graphs(&at, graphs)),
    }
}

/// The types of edges: rows of the type of the sources, a name, and the type of the targets.
fn relations(path: &Path) -> Result<Vec<Relation>, GraphError> {
    let mut table = unnamed(path)?;
    let (at, mut row) = (table.at.clone(), Row::default());
    let mut relations = Vec::new();
    while table.next(&mut row)? {
        let text = |column: usize| -> Result<String, GraphError> {
            let name = row.text(&at, column)?;
            let expected = "the type of the sources, a name and the type of the targets";
            match can_be_in_path(name) {
                true => Ok(name.to_owned()),
                false => Err(syntax(&at, row.line, format!("`{name}`"), expected)),
            }
        };
        let relation = Relation {
            source: text(0)?,
            name: text(1)?,
            target: text(2)?,
        };
        if relations.contains(&relation) {
            let found = format!("`{}` of the same types again", relation.name);
            return Err(syntax(&at, row.line, found, "each type of edges once"));
        }
        relations.push(relation);
        if relations.len() > MAX_RELATIONS as usize {
            let expected = format!("at most {MAX_RELATIONS} types of edges");
            return Err(syntax(&at, row.line, "one more".to_owned(), expected));
        }
    }
    relations.sort();
    Ok(relations)
}

/// What is known about the vertices of a type.
fn of_type(raw: &Path, name: &str, rows: usize) -> Result<OfType, GraphError> {
    let read = |kind: &str| {
        let path = beside(&raw.join(kind).join(name), kind, &TABLE);
        let read = path.map(|path| matrix(&path)).transpose()?;
        if let Some(read) = &read {
            read.check_rows(rows, VERTICES)?;
        }
        Ok::<_, GraphError>(read)
    };
    let (features, labels) = (read("node-feat")?, read("node-label")?);
    Ok(OfType {
        name: name.to_owned(),
        rows,
        features: features.map_or(Features::None, |read| read.features()),
        labels: labels.map_or(Labels::None, |read| read.labels()),
        class_names: Names::default(),
        masks: Default::default(),
    })
}
