//! The folder of DGL's CSVDataset: `meta.yaml` names tables of edges, of vertices, and of graphs if there
//! are many.

mod several;

use super::edges::{Columns, Edges, Stated};
use super::graphs::{Found, Graphs};
use super::ids::Ids;
use super::members::Members;
use super::nodes::{self, About, Nodes};
use super::table::{Layout, Table};
use super::text::Separator;
use super::{Import, Note};
use crate::names::Names;
use crate::read::place;
use crate::{GraphData, GraphError};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Longest description of a data set, in bytes.
const MAX_META: u64 = 1 << 20;
/// The column by which DGL tells the graphs of a data set apart.
const GRAPH_ID: &str = "graph_id";

/// What `meta.yaml` says.
#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    separator: Option<String>,
    edge_data: Vec<EdgeTable>,
    node_data: Vec<NodeTable>,
    #[serde(default)]
    graph_data: Option<GraphTable>,
}

#[derive(Deserialize)]
struct EdgeTable {
    file_name: PathBuf,
    /// Type of the sources, of the edges and of the targets.
    #[serde(default)]
    etype: Option<[String; 3]>,
    #[serde(default = "src_id")]
    src_id_field: String,
    #[serde(default = "dst_id")]
    dst_id_field: String,
    #[serde(default = "graph_id")]
    graph_id_field: String,
}

#[derive(Deserialize)]
struct NodeTable {
    file_name: PathBuf,
    #[serde(default)]
    ntype: Option<String>,
    #[serde(default = "node_id")]
    node_id_field: String,
    #[serde(default = "graph_id")]
    graph_id_field: String,
}

#[derive(Deserialize)]
struct GraphTable {
    file_name: PathBuf,
    #[serde(default = "graph_id")]
    graph_id_field: String,
}

impl Meta {
    /// Whether there are several types of vertices.
    fn has_several_types(&self) -> bool {
        let own = self
            .node_data
            .iter()
            .filter_map(|table| table.ntype.as_ref());
        let ends = self
            .edge_data
            .iter()
            .filter_map(|table| table.etype.as_ref());
        let ends = ends.flat_map(|[source, _, target]| [source, target]);
        own.chain(ends).collect::<BTreeSet<_>>().len() > 1
    }
}

fn src_id() -> String {
    "src_id".to_owned()
}

fn dst_id() -> String {
    "dst_id".to_owned()
}

fn node_id() -> String {
    "node_id".to_owned()
}

fn graph_id() -> String {
    GRAPH_ID.to_owned()
}

fn meta(folder: &Path) -> Option<PathBuf> {
    let paths = ["meta.yaml", "meta.yml"].map(|name| folder.join(name));
    paths.into_iter().find(|path| path.is_file())
}

/// Whether a folder holds a data set.
pub(super) fn is(folder: &Path) -> bool {
    meta(folder).is_some()
}

/// The tables of a data set.
struct Tables<'a> {
    folder: &'a Path,
    separator: u8,
}

impl Tables<'_> {
    fn open(&self, name: &Path) -> Result<Table, GraphError> {
        let layout = Layout {
            separator: Some(Separator::Byte(self.separator)),
            named: Some(true),
            is_header: None,
        };
        let mut table = Table::open(&self.folder.join(name), &layout)?;
        // DGL takes every comma within a field for that of a list.
        table.shortest_list = 2;
        Ok(table)
    }
}

/// The options for a table of which the description names the ids.
fn named_ids(options: &Import, id: &str) -> Import {
    Import {
        id: Some(id.to_owned()),
        source: None,
        ..options.clone()
    }
}

impl EdgeTable {
    /// The options for the table, whose description names the ends of an edge.
    fn options(&self, options: &Import) -> Import {
        Import {
            source: Some(self.src_id_field.clone()),
            target: Some(self.dst_id_field.clone()),
            ..options.clone()
        }
    }
}

/// Reads a data set.
///
/// # Errors
/// A folder that holds none, or tables that do not fit each other.
pub(super) fn read(options: &Import, notes: &mut Vec<Note>) -> Result<Found, GraphError> {
    let folder = &options.edges;
    let path = meta(folder).unwrap_or_else(|| folder.join("meta.yaml"));
    let text = gnnc_files::read_text(&path, MAX_META).map_err(|source| GraphError::Io {
        file: path.clone(),
        source,
    })?;
    let at = place(&path);
    let unsupported = |found: String, expected: &str| GraphError::Unsupported {
        at: at.clone(),
        found,
        expected: expected.to_owned(),
    };
    let meta: Meta = serde_saphyr::from_str(&text).map_err(|error| {
        let said = error.to_string();
        let said = said.lines().next().unwrap_or_default();
        unsupported(
            format!("a description that is not as DGL's ({said})"),
            "edge_data and node_data with a file_name each, as in DGL's CSVDataset",
        )
    })?;
    let separator = meta.separator.as_deref().unwrap_or(",");
    let &[byte] = separator.as_bytes() else {
        return Err(unsupported(
            format!("separator {separator:?}"),
            "one character of ASCII",
        ));
    };
    let tables = Tables {
        folder,
        separator: byte,
    };
    if meta.has_several_types() {
        return several::read(&at, &meta, &tables, options, notes);
    }
    let [vertices] = &meta.node_data[..] else {
        let found = format!("a graph with {} tables of vertices", meta.node_data.len());
        let expected = "one, or one for each type of vertices with the type as ntype";
        return Err(unsupported(found, expected));
    };
    let graphs = match &meta.graph_data {
        None => None,
        Some(table) => Some(nodes::read(
            tables.open(&table.file_name)?,
            About::Graphs,
            &named_ids(options, &table.graph_id_field),
            notes,
        )?),
    };
    let graph_ids = graphs.as_ref().map(|graphs| &graphs.ids);
    let table = tables.open(&vertices.file_name)?;
    let about = match (
        graph_ids,
        graph_column(&table, &vertices.graph_id_field, graph_ids)?,
    ) {
        (Some(graphs), Some(column)) => About::Members(Members { graphs, column }),
        (None, _) | (_, None) => About::Vertices,
    };
    let mut nodes = nodes::read(
        table,
        about,
        &named_ids(options, &vertices.node_id_field),
        notes,
    )?;
    let known = std::mem::take(&mut nodes.ids);
    let mut edges = Edges::new(Some(known), false).of_graphs(graph_ids);
    let several = meta.edge_data.len() > 1;
    for (number, table) in (1..).zip(&meta.edge_data) {
        let options = table.options(options);
        let kind = match &table.etype {
            Some([_, kind, _]) => kind.clone(),
            None => format!("table {number}"),
        };
        let graph_field = &table.graph_id_field;
        let mut table = tables.open(&table.file_name)?;
        let columns = Columns {
            kind: None,
            graph: graph_column(&table, graph_field, graph_ids)?,
            ..Columns::of(&table, &options, notes)?
        };
        if several {
            notes.extend(columns.rest(&table));
            let stated = Stated {
                kind: Some(&kind),
                ..Stated::default()
            };
            edges.add(&mut table, columns, stated)?;
        } else {
            edges.add_all(&mut table, columns, &options)?;
        }
    }
    let found = edges.finish(notes)?;
    let mut data = GraphData::new("", found.topology);
    data.edge_features = found.features;
    let graphs = match graphs {
        None => {
            data.ids = found.names;
            nodes.describe(&mut data);
            None
        }
        Some(of_graphs) => Some(describe_many(&mut data, of_graphs, nodes)),
    };
    Ok(Found {
        data,
        dropped: found.dropped,
        graphs,
    })
}

/// The column of a table that says of which graph a row is, if there is a table of graphs.
///
/// # Errors
/// A table without the column, or one with it where there is no table of graphs.
fn graph_column(
    table: &Table,
    field: &str,
    graphs: Option<&Ids>,
) -> Result<Option<usize>, GraphError> {
    let column = table.column(&[field]);
    let wrong = |found: String, expected: &str| GraphError::Unsupported {
        at: table.at.clone(),
        found,
        expected: expected.to_owned(),
    };
    match (graphs, column) {
        (None, Some(_)) => Err(wrong(
            format!("the column `{field}` without a table of graphs"),
            "graph_data in meta.yaml, which names a table of graphs with their labels",
        )),
        (Some(_), None) => Err(wrong(
            format!("a table without the column `{field}`"),
            "the graph of each row, since meta.yaml names a table of graphs",
        )),
        (None, None) | (Some(_), Some(_)) => Ok(column),
    }
}

/// Gives a graph what the tables of many graphs and of their vertices say.
fn describe_many(data: &mut GraphData, mut of_graphs: Nodes, nodes: Nodes) -> Graphs {
    let ids = std::mem::take(&mut of_graphs.ids).names;
    let count = ids.len() as u32;
    of_graphs.describe(data);
    (data.features, data.vertex_types) = (nodes.features, nodes.vertex_types);
    let is_number = |(number, id): (usize, &str)| id == number.to_string();
    let ids = if ids.iter().enumerate().all(is_number) {
        Names::default()
    } else {
        ids
    };
    Graphs {
        of: nodes.graphs,
        count,
        ids,
    }
}
