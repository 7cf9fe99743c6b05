//! Graphs from tables as people have them: edges and vertices with any ids.
//!
//! Edges are rows of a source, a target and possibly a type; vertices are rows of an id, and possibly a
//! label, a split and features. Separators, gzip, byte order marks and header lines are found by
//! looking; columns by their names, or as the options say. Rows are read one at a time,
//! and of many edges most rest in a file until they are sorted: memory holds the graph and not much more.

mod dgl;
mod edge_columns;
mod edges;
mod given;
mod graphml;
mod graphs;
mod ids;
mod json;
mod keys;
mod lists;
mod members;
mod nodes;
mod numbers;
mod ogb;
mod one_hot;
mod pairs;
mod parquet;
mod records;
mod split;
mod table;
mod text;
mod tu;
mod typed;

pub use pairs::pairs;
pub use split::{Shares, divide};

use crate::read::{
    Format, LoadOptions, add_reverses, finish, load_counting, place, several_graphs,
};
use crate::topology::Dropped;
use crate::{GraphData, GraphError};
use edges::{Columns, Edges};
use graphs::Found;
use nodes::About;
use std::path::{Path, PathBuf};
use table::Table;

/// What to read, and how.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// The edges, or a folder or file with all of the graph; `-` is standard input.
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
    /// As above.
    pub vertex_type: Option<String>,
    /// The type of vertices whose labels and split to take, of several with labels.
    pub label_type: Option<String>,
    /// Columns of the vertices that are no features.
    pub without: Vec<String>,
    /// Columns of the edges that are features; all that have only numbers if open.
    pub edge_features: Option<Vec<String>>,
    /// Add the missing reverse edges.
    pub symmetrise: bool,
    /// The split to take, of a data set with several.
    pub split_name: Option<String>,
    /// A file of labels, in place of those of the source.
    pub labels: Option<PathBuf>,
    /// A file or a folder of splits, in place of those of the source.
    pub splits: Option<PathBuf>,
    /// A `.npy` file of features, in place of those of the source.
    pub features: Option<PathBuf>,
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
    let source = Source::of(&options.edges)?;
    source.accepts(options)?;
    let found = match source {
        Source::Tables => tables(options, &mut notes)?.into(),
        Source::Graph => load_counting(&options.edges, &LoadOptions::default())?.into(),
        Source::Json => json::read(options, &mut notes)?.into(),
        Source::GraphMl => graphml::read(options, &mut notes)?.into(),
        Source::Ogb => ogb::read(options, &mut notes)?,
        Source::Dgl => dgl::read(options, &mut notes)?,
        Source::Tu => tu::read(options, &mut notes)?,
    };
    let Found {
        mut data,
        dropped,
        graphs,
    } = found;
    // Reverse edges are those of the graphs, without the edges to the vertices that stand for these.
    let mut symmetrise = options.symmetrise;
    if let Some(graphs) = graphs {
        if std::mem::take(&mut symmetrise) {
            add_reverses(&mut data)?;
        }
        data = graphs.join(&place(&options.edges), data, &mut notes)?;
    }
    given::give(options, &mut data)?;
    let at = place(&options.edges);
    if let Some(shares) = options.shares {
        // The split of the source is replaced; labels that do not fit cannot be divided.
        let none = || vec![false; data.topology.vertices() as usize];
        (data.train, data.val, data.test) = (none(), none(), none());
        let problems = data.validate();
        if !problems.is_empty() {
            return Err(GraphError::Invalid { at, problems });
        }
        divide(&mut data, shares);
    }
    nodes::labeled_splits(&at, &mut data, &mut notes);
    let reading = LoadOptions {
        symmetrise,
        ..LoadOptions::default()
    };
    Ok(Imported {
        data: finish(&at, data, &reading)?,
        dropped,
        notes,
    })
}

/// Reads a graph as other commands name it: a file of one of the formats of graphs, or a source that
/// [`import`] reads without options.
///
/// # Errors
/// As [`load_counting`] and [`import`].
pub fn open(path: &Path, options: &LoadOptions) -> Result<(GraphData, Dropped), GraphError> {
    if !path.is_dir() && Source::of_name(path).is_none() {
        return load_counting(path, options);
    }
    let imported = import(&Import {
        edges: path.to_owned(),
        symmetrise: options.symmetrise,
        features: options.features.clone(),
        ..Import::default()
    })?;
    let mut data = imported.data;
    data.name = crate::read::name(path);
    Ok((data, imported.dropped))
}

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A table of edges.
    Tables,
    /// A file of one of the formats of graphs.
    Graph,
    /// A file of NetworkX's JSON.
    Json,
    /// A file of GraphML.
    GraphMl,
    /// A folder of the Open Graph Benchmark.
    Ogb,
    /// A folder of DGL's tables.
    Dgl,
    /// A folder of TU Dortmund's tables.
    Tu,
}

impl Source {
    /// What there is at a path.
    ///
    /// # Errors
    /// A file that cannot be read, or a folder of an unknown kind.
    fn of(path: &Path) -> Result<Self, GraphError> {
        if !path.is_dir() {
            if let Some(known) = Self::of_name(path) {
                return Ok(known);
            }
            let format = Format::of_path(path)?;
            return Ok(match format.filter(|format| *format != Format::Edges) {
                Some(_) => Self::Graph,
                None => Self::Tables,
            });
        }
        if dgl::is(path) {
            Ok(Self::Dgl)
        } else if tu::is(path) {
            Ok(Self::Tu)
        } else if ogb::is(path) {
            Ok(Self::Ogb)
        } else {
            Err(GraphError::Unsupported {
                at: place(path),
                found: "a directory of another kind".to_owned(),
                expected: "that of a data set of OGB, which has a folder `raw`, of DGL's \
                           CSVDataset, which has a file meta.yaml, or of TU Dortmund's graphs, \
                           which has a file NAME_A.txt"
                    .to_owned(),
            })
        }
    }

    /// The kind that the name of a file says, with `.gz` or without.
    fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        match name.rsplit_once('.')?.1 {
            "json" => Some(Self::Json),
            "graphml" => Some(Self::GraphMl),
            "parquet" => Some(Self::Tables),
            _ => None,
        }
    }

    /// Checks that the options are for such a source.
    ///
    /// # Errors
    /// Options for tables with a source that is none.
    fn accepts(self, options: &Import) -> Result<(), GraphError> {
        let given = |option: &Option<String>| option.is_some();
        let tables = [
            ("--nodes", options.nodes.is_some()),
            ("--header", options.header.is_some()),
            ("--source", given(&options.source)),
            ("--target", given(&options.target)),
            ("--type", given(&options.kind)),
            ("--id", given(&options.id)),
            ("--label", given(&options.label)),
            ("--split-column", given(&options.split)),
            ("--vertex-type", given(&options.vertex_type)),
            ("--without", !options.without.is_empty()),
            ("--edge-features", options.edge_features.is_some()),
        ];
        let no_tables = match self {
            Self::Tables => &[],
            Self::Graph | Self::Ogb | Self::Tu => &tables[..],
            // The tables in these have names that options may choose.
            Self::Json | Self::GraphMl => &tables[..2],
            Self::Dgl => &tables[..8],
        };
        let has_types = matches!(self, Self::Dgl | Self::Ogb);
        let has_one_split = matches!(self, Self::Tables | Self::Tu);
        let named = has_one_split && given(&options.split_name);
        let wrong = match no_tables.iter().find(|(_, given)| *given) {
            Some((option, _)) => Some((*option, "tables")),
            None if given(&options.label_type) && !has_types => {
                Some(("--label-type", "a data set with several types of vertices"))
            }
            None => named.then_some(("--split-name", "a data set with several splits")),
        };
        match wrong {
            None => Ok(()),
            Some((option, what)) => Err(GraphError::Unsupported {
                at: place(&options.edges),
                found: format!("{option} with this source"),
                expected: format!("it with {what} only"),
            }),
        }
    }
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
        Some(table) => Some(nodes::read(table, About::Vertices, options, notes)?),
        None => None,
    };
    let known = nodes.as_mut().map(|nodes| std::mem::take(&mut nodes.ids));
    let mut table = tables.edges;
    let columns = Columns::of(&table, options, notes)?;
    let mut edges = Edges::new(known, both);
    edges.add_all(&mut table, columns, options)?;
    let found = edges.finish(notes)?;
    let mut data = GraphData::new("", found.topology);
    (data.ids, data.edge_features) = (found.names, found.features);
    if let Some(nodes) = nodes {
        nodes.describe(&mut data);
    }
    Ok((data, found.dropped))
}
