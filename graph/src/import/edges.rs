//! Tables of edges: a source, a target, possibly a type and numbers.

use super::edge_columns::EdgeColumns;
use super::ids::Ids;
use super::keys::Keys;
use super::members::{Members, TypeOf, Within};
use super::table::{Layout, Row, Table};
use super::{Import, Note};
use crate::names::Names;
use crate::read::syntax;
use crate::topology::{Dropped, check_vertices};
use crate::{EdgeFeatures, GraphError, ListedEdge, Topology};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::workload::MAX_RELATIONS;
use std::path::Path;

/// Usual names of the columns.
const SOURCE: [&str; 7] = ["source", "src", "from", "u", "source_id", "src_id", "start"];
const TARGET: [&str; 9] = [
    "target",
    "dst",
    "to",
    "v",
    "target_id",
    "dst_id",
    "destination",
    "dest",
    "end",
];
const TYPE: [&str; 5] = ["type", "edge_type", "relation", "rel", "etype"];

/// The columns of a table of edges.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    pub(super) source: usize,
    pub(super) target: usize,
    pub(super) kind: Option<usize>,
    /// The graph of an edge, of many.
    pub(super) graph: Option<usize>,
}

impl Columns {
    /// All columns that have a use.
    fn used(self) -> Vec<usize> {
        let used = [Some(self.source), Some(self.target), self.kind, self.graph];
        used.into_iter().flatten().collect()
    }
}

/// What is known about the edges of a table without reading it.
#[derive(Clone, Copy, Default)]
pub(super) struct Stated<'a> {
    /// Their type.
    pub(super) kind: Option<&'a str>,
    /// The type of their sources, of several types of vertices.
    pub(super) source: Option<TypeOf<'a>>,
    /// The type of their targets.
    pub(super) target: Option<TypeOf<'a>>,
}

/// The edges of tables.
pub(super) struct Edges<'a> {
    at: String,
    ids: Ids,
    /// The ids of the graphs, of many.
    graphs: Option<&'a Ids>,
    /// Whether edges may only have these ids.
    only_known: bool,
    /// Whether every edge means both directions.
    both: bool,
    /// The edges by the numbers of their vertices.
    keys: Keys,
    /// The type of each edge; empty without types.
    kinds: Vec<u16>,
    relations: Ids,
    /// The numbers of the edges, if there is a single table of these.
    numbers: EdgeColumns,
}

/// A graph of edges.
pub(super) struct Finished {
    pub(super) topology: Topology,
    pub(super) features: EdgeFeatures,
    pub(super) dropped: Dropped,
    /// The ids of the vertices, unless these are their numbers.
    pub(super) names: Names,
}

/// Opens a table of edges.
///
/// # Errors
/// As [`Table::open`].
pub(super) fn open(path: &Path, options: &Import) -> Result<Table, GraphError> {
    let columns = options.source.is_some() || options.target.is_some();
    Table::open(
        path,
        &Layout {
            separator: None,
            named: options.header.or(columns.then_some(true)),
            is_header: Some(&looks_named),
        },
    )
}

impl Columns {
    /// Finds the columns of a table.
    ///
    /// # Errors
    /// Columns that are not there, or that are the same.
    pub(super) fn of(
        table: &Table,
        options: &Import,
        notes: &mut Vec<Note>,
    ) -> Result<Self, GraphError> {
        let (source, target) = (options.source.as_deref(), options.target.as_deref());
        let columns = Self {
            source: table.chosen("source", source, &SOURCE)?.unwrap_or(0),
            target: table.chosen("target", target, &TARGET)?.unwrap_or(1),
            kind: table.chosen("type", options.kind.as_deref(), &TYPE)?,
            graph: None,
        };
        if table.columns == 1 || columns.source == columns.target {
            return Err(GraphError::Unsupported {
                at: table.at.clone(),
                found: format!("rows of {}", counted(table.columns, "field")),
                expected: "a source and a target; name their columns as --source and --target"
                    .to_owned(),
            });
        }
        notes.push(Note(columns.text(table)));
        Ok(columns)
    }

    /// What the columns were taken for.
    fn text(self, table: &Table) -> String {
        let [source, target] = [self.source, self.target].map(|column| table.name(column));
        let mut text = format!("{}: edges from {source} to {target}", table.at);
        if let Some(kind) = self.kind {
            text += &format!(", types in {}", table.name(kind));
        }
        text
    }
}

impl Columns {
    /// A note about the columns of a table that have no use, if there are any.
    pub(super) fn rest(self, table: &Table) -> Option<Note> {
        let used = self.used();
        let rest = (0..table.columns).filter(|column| !used.contains(column));
        let rest: Vec<String> = rest.map(|column| table.name(column)).collect();
        let note = || Note(format!("{}: not used: {}", table.at, rest.join(", ")));
        (!rest.is_empty()).then(note)
    }
}

impl<'a> Edges<'a> {
    /// No edges yet. Their vertices must be `known`, if there is a table of these. With `both`, every
    /// edge means its reverse too.
    pub(super) fn new(known: Option<Ids>, both: bool) -> Self {
        Self {
            at: String::new(),
            graphs: None,
            only_known: known.is_some(),
            ids: known.unwrap_or_default(),
            both,
            keys: Keys::in_memory(),
            kinds: Vec::new(),
            relations: Ids::default(),
            numbers: EdgeColumns::default(),
        }
    }

    /// The edges of many graphs, whose tables name the graph of each edge.
    pub(super) fn of_graphs(self, graphs: Option<&'a Ids>) -> Self {
        Self { graphs, ..self }
    }

    /// Reads the only table of edges, with its columns of numbers.
    ///
    /// # Errors
    /// As [`Edges::add`], and columns of numbers that are not there or no numbers.
    pub(super) fn add_all(
        &mut self,
        table: &mut Table,
        columns: Columns,
        options: &Import,
    ) -> Result<(), GraphError> {
        self.numbers = EdgeColumns::of(table, &columns.used(), options)?;
        if columns.kind.is_none() && self.numbers.is_empty() {
            self.keys.on_disk();
        }
        self.read(table, columns, Stated::default(), options)
    }

    /// Reads a table. Its edges have the type that it says, or else the `stated` one, or none.
    ///
    /// # Errors
    /// A file that is no table, edges of unknown vertices, or too many types.
    pub(super) fn add(
        &mut self,
        table: &mut Table,
        columns: Columns,
        stated: Stated,
    ) -> Result<(), GraphError> {
        self.read(table, columns, stated, &Import::default())
    }

    fn read(
        &mut self,
        table: &mut Table,
        columns: Columns,
        stated: Stated,
        options: &Import,
    ) -> Result<(), GraphError> {
        self.at = table.at.clone();
        let kind = stated.kind.map(|kind| self.relation(kind)).transpose()?;
        let members = self.graphs.zip(columns.graph);
        let members = members.map(|(graphs, column)| Members { graphs, column });
        let mut row = Row::default();
        while table.next(&mut row)? {
            let graph = members.map(|members| members.graph(&table.at, &row));
            let graph = graph.transpose()?;
            let within = |end| match (end, graph) {
                (Some(of), _) => Within::Type(of),
                (None, Some(graph)) => Within::Graph(graph),
                (None, None) => Within::All,
            };
            let source = u64::from(self.vertex(&row, columns.source, within(stated.source))?);
            let target = u64::from(self.vertex(&row, columns.target, within(stated.target))?);
            self.keys.push(target << 32 | source)?;
            let count = 1 + usize::from(self.both);
            if self.both {
                self.keys.push(source << 32 | target)?;
            }
            self.numbers.add(&table.at, &row, count, options)?;
            let own = match columns.kind {
                Some(column) => Some(self.relation(row.text(&table.at, column)?)?),
                None => kind,
            };
            if let Some(kind) = own {
                self.kinds.extend(std::iter::repeat_n(kind, count));
            }
        }
        Ok(())
    }

    /// The number of the vertex that a field names, within a graph or a type.
    ///
    /// # Errors
    /// No id, or an unknown one if vertices have a table of their own.
    fn vertex(&mut self, row: &Row, column: usize, within: Within) -> Result<u32, GraphError> {
        let id = row.text(&self.at, column)?;
        let full = within.id(id);
        if let Some(known) = self.ids.find(&full) {
            return Ok(known);
        }
        if !self.only_known && !id.is_empty() {
            return self.ids.number(&full, &self.at);
        }
        let found = match id {
            "" => "no id".to_owned(),
            id => format!("id `{id}`"),
        };
        let expected = match (within, self.only_known) {
            (Within::Graph(_), _) => {
                "an id of the table of vertices, in the graph of the edge".to_owned()
            }
            (Within::Type(of), _) => format!("an id of the table of `{}`", of.name),
            (Within::All, true) => "an id of the table of vertices".to_owned(),
            (Within::All, false) => "the id of a vertex".to_owned(),
        };
        Err(syntax(&self.at, row.line, found, expected))
    }

    /// The number of a type.
    fn relation(&mut self, name: &str) -> Result<u16, GraphError> {
        let number = self.relations.number(name, &self.at)?;
        if number >= MAX_RELATIONS {
            return Err(GraphError::Unsupported {
                at: self.at.clone(),
                found: format!("more than {MAX_RELATIONS} types of edges"),
                expected: "fewer; merge similar ones, or drop the column's name with --type"
                    .to_owned(),
            });
        }
        Ok(number as u16)
    }

    /// The edges as a topology, with the ids of its vertices unless these are their numbers: without a
    /// table of vertices, whole numbers are the vertices they name.
    ///
    /// # Errors
    /// More vertices than a graph can have.
    pub(super) fn finish(self, notes: &mut Vec<Note>) -> Result<Finished, GraphError> {
        let count = self.keys.len();
        let numbers = match self.only_known {
            true => None,
            false => self.ids.as_numbers(count),
        };
        let mut names = self.ids.names;
        let mut vertices = names.len() as u64;
        if let Some(numbers) = &numbers {
            vertices = numbers.iter().max().map_or(0, |most| u64::from(*most) + 1);
            names = Names::default();
        }
        let named = |end: u32| (numbers.as_ref()).map_or(end, |numbers| numbers[end as usize]);
        let vertices = check_vertices(&self.at, u128::from(vertices), count)?;
        let features = self.numbers.finish(&self.at, notes);
        let (columns, values) = (features.columns, &features.values);
        // Sorting takes the keys away.
        let keys = match columns {
            0 => Vec::new(),
            _ => self.keys.all().to_vec(),
        };
        let (topology, dropped) = match self.kinds.is_empty() {
            true => self.keys.topology(vertices, &named)?,
            false => {
                let all = listed(self.keys.all(), &self.kinds, &named);
                let typed = all.map(|edge| (edge.source, edge.target, edge.kind));
                Topology::typed(vertices, self.relations.names.len() as u32, typed)?
            }
        };
        let listed = listed(&keys, &self.kinds, &named);
        Ok(Finished {
            features: match columns {
                0 => EdgeFeatures::default(),
                _ => EdgeFeatures::in_order(&topology, listed, columns, values),
            },
            topology,
            dropped,
            names,
        })
    }
}

/// The edges of some keys, whose ends are renamed. Without `kinds`, edges have no types.
fn listed<'a>(
    keys: &'a [u64],
    kinds: &'a [u16],
    named: &'a dyn Fn(u32) -> u32,
) -> impl Iterator<Item = ListedEdge> + 'a {
    let kinds = kinds.iter().copied().chain(std::iter::repeat(0));
    keys.iter().zip(kinds).map(|(key, kind)| ListedEdge {
        source: named(*key as u32),
        target: named((key >> 32) as u32),
        kind,
    })
}

/// Whether a first row has names: usual ones, or words above numbers.
fn looks_named(first: &[String], second: Option<&[String]>) -> bool {
    let usual =
        |word: &String, names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name));
    let has = |names: &[&str]| first.iter().any(|word| usual(word, names));
    let number = |word: &String| word.parse::<f64>().is_ok();
    let words_above_numbers = second.is_some_and(|second| {
        first.iter().take(2).all(|word| !number(word)) && second.iter().take(2).all(number)
    });
    has(&SOURCE) && has(&TARGET) || words_above_numbers
}
