//! What a source of many graphs gives: their vertices beside each other, and the graph of each.

use super::Note;
use crate::names::Names;
use crate::topology::Dropped;
use crate::{GraphData, GraphError, many};
use gnnc_ir::words::spelling::counted;

/// What was read from a source.
pub(super) struct Found {
    /// The graph. With `graphs`, its labels and splits have a row for each of these.
    pub(super) data: GraphData,
    pub(super) dropped: Dropped,
    pub(super) graphs: Option<Graphs>,
}

impl From<(GraphData, Dropped)> for Found {
    /// A single graph.
    fn from((data, dropped): (GraphData, Dropped)) -> Self {
        Self {
            data,
            dropped,
            graphs: None,
        }
    }
}

/// The graphs of a data set of many.
pub(super) struct Graphs {
    /// The graph of each vertex.
    pub(super) of: Vec<u32>,
    /// How many graphs there are.
    pub(super) count: u32,
    /// Their ids; none if these are their numbers.
    pub(super) ids: Names,
}

impl Graphs {
    /// One graph of all, with a vertex for each, which has the graph's id.
    ///
    /// # Errors
    /// As [`many::join`].
    pub(super) fn join(
        self,
        at: &str,
        data: GraphData,
        notes: &mut Vec<Note>,
    ) -> Result<GraphData, GraphError> {
        let mut has_vertices = vec![false; self.count as usize];
        for graph in &self.of {
            has_vertices[*graph as usize] = true;
        }
        let empty = has_vertices.iter().filter(|has| !**has).count();
        if empty > 0 {
            let graphs = counted(empty, "graph");
            notes.push(Note(format!("{at}: {graphs} without vertices")));
        }
        notes.push(Note(format!(
            "{at}: {} of {}",
            counted(self.count, "graph"),
            counted(data.vertices(), "vertex")
        )));
        let mut joined = many::join(data, &self.of, self.count)?;
        if !self.ids.is_empty() {
            let vertices = 0..joined.subjects().start;
            let mut ids: Names = vertices.map(|v| v.to_string()).collect();
            self.ids.iter().for_each(|id| ids.push(id));
            joined.ids = ids;
        }
        Ok(joined)
    }
}
