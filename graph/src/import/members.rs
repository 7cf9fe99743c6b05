//! Vertices of many graphs in one table, and of several types, where an id means a vertex within its graph or
//! its type.

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

/// A type of vertices.
#[derive(Clone, Copy)]
pub(super) struct TypeOf<'a> {
    pub(super) number: usize,
    pub(super) name: &'a str,
}

/// Among which vertices an id means one.
#[derive(Clone, Copy)]
pub(super) enum Within<'a> {
    All,
    /// Those of a graph, of many.
    Graph(u32),
    /// Those of a type.
    Type(TypeOf<'a>),
}

impl<'a> Within<'a> {
    /// The id of a vertex among all. It differs from that of any other.
    pub(super) fn id(self, id: &'a str) -> Cow<'a, str> {
        match self {
            Self::All => Cow::Borrowed(id),
            Self::Graph(graph) => Cow::Owned(format!("{graph}:{id}")),
            Self::Type(of) => Cow::Owned(format!("{}:{id}", of.number)),
        }
    }
}
