//! Graphs from tables as people have them: edges and vertices with any ids.
//!
//! Edges are rows of a source, a target and possibly a type; vertices are rows of an id, and possibly a
//! label, a split and features. Separators, gzip, byte order marks and header lines are found by
//! looking; columns by their names, or as the options say. Files that are read may be as large as memory
//! holds their graph: rows are read one at a time.

mod ids;
mod nodes;
mod split;
mod table;

pub use split::{Shares, divide};

use crate::names::Names;
use crate::read::{LoadOptions, finish, syntax};
use crate::topology::Dropped;
use crate::{GraphData, GraphError, Topology};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::workload::MAX_RELATIONS;
use ids::Ids;
use std::path::PathBuf;
use table::{Row, Table};

/// Usual names of the columns of edges.
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

/// Tables to read, and how.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// The edges; `-` is standard input.
    pub edges: PathBuf,
    /// The vertices.
    pub nodes: Option<PathBuf>,
    /// Whether first rows have the names of columns; found by looking if open.
    pub header: Option<bool>,
    /// Columns of the edges.
    pub source: Option<String>,
    /// As above.
    pub target: Option<String>,
    /// As above.
    pub kind: Option<String>,
    /// Columns of the vertices.
    pub id: Option<String>,
    /// As above.
    pub label: Option<String>,
    /// As above.
    pub split: Option<String>,
    /// Columns of the vertices that are no features.
    pub without: Vec<String>,
    /// Add the missing reverse edges.
    pub symmetrise: bool,
    /// A random split, in place of a column.
    pub shares: Option<Shares>,
}

/// Something to know about what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note(pub String);

/// A graph from tables.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The graph, with the ids of its vertices unless these are their numbers.
    pub data: GraphData,
    /// What was left out of the edges.
    pub dropped: Dropped,
    /// What was found.
    pub notes: Vec<Note>,
}

/// Reads tables.
///
/// # Errors
/// Files that are no tables, columns that are not there, edges of unknown vertices, or a graph that does
/// not fit 32 bits.
pub fn import(options: &Import) -> Result<Imported, GraphError> {
    let mut notes = Vec::new();
    let mut nodes = match &options.nodes {
        Some(path) => Some(nodes::read(path, options, &mut notes)?),
        None => None,
    };
    if let (Some(nodes), Some(path)) = (&nodes, &options.nodes) {
        notes.push(Note(format!("{}: {}", path.display(), nodes.summary())));
    }
    let known = nodes.as_mut().map(|nodes| std::mem::take(&mut nodes.ids));
    let mut edges = edges(options, known, &mut notes)?;
    let count = edges.all.len() as u64;
    // Without a table of vertices, whole numbers are the vertices they name.
    let numbers = match nodes {
        Some(_) => None,
        None => edges.ids.as_numbers(count),
    };
    let mut vertices = edges.ids.names.len() as u64;
    if let Some(numbers) = numbers {
        vertices = numbers.iter().max().map_or(0, |most| u64::from(*most) + 1);
        for edge in &mut edges.all {
            edge.source = numbers[edge.source as usize];
            edge.target = numbers[edge.target as usize];
        }
        edges.ids.names = Names::default();
    }
    let vertices = crate::topology::check_vertices(&edges.at, u128::from(vertices), count)?;
    let (topology, dropped) = if edges.kinds.is_empty() {
        let plain = edges.all.iter().map(|edge| (edge.source, edge.target));
        Topology::from_edges(vertices, plain)?
    } else {
        let all = edges.all.iter().zip(&edges.kinds);
        let typed = all.map(|(edge, kind)| (edge.source, edge.target, *kind));
        Topology::typed(vertices, edges.relations.names.len() as u32, typed)?
    };
    let mut data = GraphData::new("", topology);
    if let Some(nodes) = nodes {
        data.features = nodes.features;
        (data.labels, data.class_names) = (nodes.labels, nodes.classes);
        [data.train, data.val, data.test] = nodes.masks;
    }
    data.ids = edges.ids.names;
    if let Some(shares) = options.shares {
        divide(&mut data, shares);
    }
    let reading = LoadOptions {
        symmetrise: options.symmetrise,
        ..LoadOptions::default()
    };
    Ok(Imported {
        data: finish(&edges.at, data, &reading)?,
        dropped,
        notes,
    })
}

/// An edge.
struct Edge {
    source: u32,
    target: u32,
}

/// A table of edges.
struct Edges {
    at: String,
    ids: Ids,
    /// The edges, by the numbers of their vertices.
    all: Vec<Edge>,
    /// The type of each edge; empty without types.
    kinds: Vec<u16>,
    relations: Ids,
}

/// Reads the edges. Their vertices must be `known`, if there is a table of these.
fn edges(options: &Import, known: Option<Ids>, notes: &mut Vec<Note>) -> Result<Edges, GraphError> {
    let (source, target) = (options.source.as_deref(), options.target.as_deref());
    let named = options
        .header
        .or((source.is_some() || target.is_some()).then_some(true));
    let mut table = Table::open(&options.edges, named, &looks_named)?;
    let columns = [
        table.chosen("source", source, &SOURCE)?.unwrap_or(0),
        table.chosen("target", target, &TARGET)?.unwrap_or(1),
    ];
    let kind = table.chosen("type", options.kind.as_deref(), &TYPE)?;
    if table.columns < 2 && table.columns > 0 || columns[0] == columns[1] {
        return Err(GraphError::Unsupported {
            at: table.at,
            found: format!("rows of {}", counted(table.columns, "field")),
            expected: "a source and a target; name their columns as --source and --target"
                .to_owned(),
        });
    }
    notes.push(Note(columns_text(&table, columns, kind)));
    let mut edges = Edges {
        at: table.at.clone(),
        ids: Ids::default(),
        all: Vec::new(),
        kinds: Vec::new(),
        relations: Ids::default(),
    };
    let only_known = known.is_some();
    edges.ids = known.unwrap_or_default();
    while let Some(row) = table.next()? {
        let source = edges.vertex(&row, columns[0], only_known)?;
        let target = edges.vertex(&row, columns[1], only_known)?;
        edges.all.push(Edge { source, target });
        if let Some(column) = kind {
            let word = nodes::text(&edges.at, &row, column)?;
            let number = edges.relations.number(word, &edges.at)?;
            if number >= MAX_RELATIONS {
                return Err(GraphError::Unsupported {
                    at: edges.at,
                    found: format!("more than {MAX_RELATIONS} types of edges"),
                    expected: "fewer; merge similar ones, or drop the column's name with --type"
                        .to_owned(),
                });
            }
            edges.kinds.push(number as u16);
        }
    }
    Ok(edges)
}

impl Edges {
    /// The number of the vertex that a field names.
    ///
    /// # Errors
    /// No id, or an unknown one if vertices have a table of their own.
    fn vertex(&mut self, row: &Row, column: usize, only_known: bool) -> Result<u32, GraphError> {
        let id = nodes::text(&self.at, row, column)?;
        if let Some(known) = self.ids.find(id) {
            return Ok(known);
        }
        let found = if id.is_empty() {
            "no id".to_owned()
        } else {
            format!("id `{id}`")
        };
        if only_known {
            let expected = "an id of the table of vertices";
            return Err(syntax(&self.at, row.line, found, expected));
        }
        if id.is_empty() {
            return Err(syntax(&self.at, row.line, found, "the id of a vertex"));
        }
        self.ids.number(id, &self.at)
    }
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

/// What the columns of a table of edges were taken for.
fn columns_text(table: &Table, columns: [usize; 2], kind: Option<usize>) -> String {
    let name = |column: usize| match &table.header {
        Some(header) => header
            .get(column)
            .map_or(String::new(), |name| format!("`{name}`")),
        None => format!("column {}", column + 1),
    };
    let mut text = format!(
        "{}: edges from {} to {}",
        table.at,
        name(columns[0]),
        name(columns[1])
    );
    if let Some(kind) = kind {
        text += &format!(", types in {}", name(kind));
    }
    let used = [Some(columns[0]), Some(columns[1]), kind];
    let rest = (0..table.columns).filter(|column| !used.contains(&Some(*column)));
    let rest: Vec<String> = rest.map(name).collect();
    if !rest.is_empty() {
        text += &format!("; not used: {}", rest.join(", "));
    }
    text
}
