//! Vertices of many graphs in one table, where an id means a vertex within its graph.

use super::ids::Ids;
use super::table::Row;
use crate::GraphError;
use crate::read::syntax;
use std::borrow::Cow;

/// The column that says of which graph a row is.
#[derive(Clone, Copy)]
pub(super) struct Members<'a> {
    pub(super) graphs: &'a Ids,
    pub(super) column: usize,
}

impl Members<'_> {
    /// The graph of a row.
    ///
    /// # Errors
    /// An unknown one.
    pub(super) fn graph(&self, at: &str, row: &Row) -> Result<u32, GraphError> {
        let id = row.text(at, self.column)?;
        self.graphs.find(id).ok_or_else(|| {
            let found = format!("graph `{}`", id.chars().take(40).collect::<String>());
            syntax(at, row.line, found, "an id of the table of graphs")
        })
    }
}

/// The id of a vertex among those of all graphs. It differs from that of any other.
pub(super) fn id_within(graph: Option<u32>, id: &str) -> Cow<'_, str> {
    match graph {
        None => Cow::Borrowed(id),
        Some(graph) => Cow::Owned(format!("{graph}:{id}")),
    }
}
