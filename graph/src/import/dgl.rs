//! The folder of DGL's CSVDataset: `meta.yaml` names tables of edges and of vertices.

use super::edges::{Columns, Edges};
use super::nodes;
use super::table::{Layout, Table};
use super::text::Separator;
use super::{Import, Note, several_graphs};
use crate::read::place;
use crate::topology::Dropped;
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
}

#[derive(Deserialize)]
struct NodeTable {
    file_name: PathBuf,
    #[serde(default)]
    ntype: Option<String>,
    #[serde(default = "node_id")]
    node_id_field: String,
}

#[derive(Deserialize)]
struct GraphTable {
    file_name: PathBuf,
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

fn meta(folder: &Path) -> Option<PathBuf> {
    let paths = ["meta.yaml", "meta.yml"].map(|name| folder.join(name));
    paths.into_iter().find(|path| path.is_file())
}

/// Whether a folder holds a data set.
pub(super) fn is(folder: &Path) -> bool {
    meta(folder).is_some()
}

/// Reads a data set.
///
/// # Errors
/// A folder that holds none, or several graphs or types of vertices.
pub(super) fn read(
    options: &Import,
    notes: &mut Vec<Note>,
) -> Result<(GraphData, Dropped), GraphError> {
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
    if let Some(graphs) = &meta.graph_data {
        return Err(graphs_of(&folder.join(&graphs.file_name)));
    }
    let mut types: BTreeSet<&str> = meta
        .node_data
        .iter()
        .filter_map(|t| t.ntype.as_deref())
        .collect();
    for kind in meta
        .edge_data
        .iter()
        .filter_map(|table| table.etype.as_ref())
    {
        types.extend([kind[0].as_str(), kind[2].as_str()]);
    }
    if types.len() > 1 {
        let types: Vec<&str> = types.into_iter().collect();
        let found = format!(
            "a graph with several types of vertices ({})",
            types.join(", ")
        );
        return Err(unsupported(found, "vertices of one type"));
    }
    let [vertices] = &meta.node_data[..] else {
        let found = format!("a graph with {} tables of vertices", meta.node_data.len());
        return Err(unsupported(found, "one"));
    };
    let separator = meta.separator.as_deref().unwrap_or(",");
    let &[byte] = separator.as_bytes() else {
        return Err(unsupported(
            format!("separator {separator:?}"),
            "one character of ASCII",
        ));
    };
    let open = |name: &Path| -> Result<Table, GraphError> {
        let layout = Layout {
            separator: Some(Separator::Byte(byte)),
            named: Some(true),
            is_header: None,
        };
        let mut table = Table::open(&folder.join(name), &layout)?;
        // DGL takes every comma within a field for that of a list.
        table.shortest_list = 2;
        match table.column(&[GRAPH_ID]) {
            Some(_) => Err(graphs_of(&folder.join(name))),
            None => Ok(table),
        }
    };
    let own = |id: &str| Import {
        id: Some(id.to_owned()),
        source: None,
        ..options.clone()
    };
    let mut nodes = nodes::read(
        open(&vertices.file_name)?,
        &own(&vertices.node_id_field),
        notes,
    )?;
    let mut edges = Edges::new(Some(std::mem::take(&mut nodes.ids)), false);
    let several = meta.edge_data.len() > 1;
    for (number, table) in (1..).zip(&meta.edge_data) {
        let options = Import {
            source: Some(table.src_id_field.clone()),
            target: Some(table.dst_id_field.clone()),
            ..options.clone()
        };
        let kind = match &table.etype {
            Some([_, kind, _]) => kind.clone(),
            None => format!("table {number}"),
        };
        let mut table = open(&table.file_name)?;
        let columns = Columns {
            kind: None,
            ..Columns::of(&table, &options, notes)?
        };
        if several {
            notes.extend(columns.rest(&table));
            edges.add(&mut table, columns, Some(&kind))?;
        } else {
            edges.add_all(&mut table, columns, &options)?;
        }
    }
    let found = edges.finish(notes)?;
    let mut data = GraphData::new("", found.topology);
    (data.ids, data.edge_features) = (found.names, found.features);
    nodes.describe(&mut data);
    Ok((data, found.dropped))
}

/// The error about a data set of several graphs, which a table tells apart.
fn graphs_of(table: &Path) -> GraphError {
    let named = Layout {
        named: Some(true),
        ..Layout::default()
    };
    let count = || -> Result<u64, GraphError> {
        let mut table = Table::open(table, &named)?;
        let (mut row, mut graphs) = (super::table::Row::default(), BTreeSet::new());
        let column = table.column(&[GRAPH_ID]).unwrap_or(0);
        while table.next(&mut row)? {
            graphs.insert(row.field(column).to_vec());
        }
        Ok(graphs.len() as u64)
    };
    match count() {
        Ok(graphs) => several_graphs(&place(table), graphs),
        Err(error) => error,
    }
}
