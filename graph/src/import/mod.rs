//! Graphs from tables as people have them: edges and vertices with any ids.
//!
//! Edges are rows of a source, a target and possibly a type; vertices are rows of an id, and possibly a
//! label, a split and features. Separators, gzip, byte order marks and header lines are found by
//! looking; columns by their names, or as the options say. Files that are read may be as large as memory
//! holds their graph: rows are read one at a time.

mod edges;
mod ids;
mod lists;
mod nodes;
mod split;
mod table;
mod text;

pub use split::{Shares, divide};

use crate::read::{LoadOptions, finish, place};
use crate::topology::Dropped;
use crate::{GraphData, GraphError};
use edges::{Columns, Edges};
use std::path::PathBuf;
use table::Table;

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

/// Reads a graph.
///
/// # Errors
/// Files that are no tables, columns that are not there, edges of unknown vertices, or a graph that does
/// not fit 32 bits.
pub fn import(options: &Import) -> Result<Imported, GraphError> {
    let mut notes = Vec::new();
    let (mut data, dropped) = tables(options, &mut notes)?;
    if let Some(shares) = options.shares {
        divide(&mut data, shares);
    }
    let reading = LoadOptions {
        symmetrise: options.symmetrise,
        ..LoadOptions::default()
    };
    Ok(Imported {
        data: finish(&place(&options.edges), data, &reading)?,
        dropped,
        notes,
    })
}

/// Reads a table of edges, and possibly one of vertices.
fn tables(options: &Import, notes: &mut Vec<Note>) -> Result<(GraphData, Dropped), GraphError> {
    let nodes = match &options.nodes {
        Some(path) => Some(nodes::open(path, options)?),
        None => None,
    };
    let edges = edges::open(&options.edges, options)?;
    of_tables(Pair { nodes, edges }, false, options, notes)
}

/// Tables of vertices and edges.
struct Pair {
    nodes: Option<Table>,
    edges: Table,
}

/// A graph of tables. With `both`, every edge means its reverse too.
fn of_tables(
    tables: Pair,
    both: bool,
    options: &Import,
    notes: &mut Vec<Note>,
) -> Result<(GraphData, Dropped), GraphError> {
    let mut nodes = match tables.nodes {
        Some(table) => Some(nodes::read(table, options, notes)?),
        None => None,
    };
    let known = nodes.as_mut().map(|nodes| std::mem::take(&mut nodes.ids));
    let mut table = tables.edges;
    let columns = Columns::of(&table, options, notes)?;
    let mut edges = Edges::new(known, both);
    edges.add(&mut table, columns, None)?;
    let (topology, dropped, ids) = edges.finish()?;
    let mut data = GraphData::new("", topology);
    data.ids = ids;
    if let Some(nodes) = nodes {
        nodes.describe(&mut data, notes);
    }
    Ok((data, dropped))
}
