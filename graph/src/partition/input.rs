//! What partitioners may read.

use crate::{GraphData, Topology};

/// Hops of batches if nothing is known about them.
const USUAL_HOPS: u32 = 2;

/// What partitioners may read: the edges of a graph, its split, the types of its vertices, and how far batches
/// reach. A graph of which only the topology is at hand has no split and no types.
#[derive(Clone, Copy, Debug)]
pub struct PartitionInput<'a> {
    topology: &'a Topology,
    data: Option<&'a GraphData>,
    hops: Option<u32>,
}

impl<'a> From<&'a Topology> for PartitionInput<'a> {
    fn from(topology: &'a Topology) -> Self {
        Self {
            topology,
            data: None,
            hops: None,
        }
    }
}

impl<'a> From<&'a GraphData> for PartitionInput<'a> {
    fn from(data: &'a GraphData) -> Self {
        Self {
            data: Some(data),
            ..Self::from(&data.topology)
        }
    }
}

impl<'a> PartitionInput<'a> {
    /// The same graph for batches of so many hops; `None` if that is not known.
    pub fn over_hops(self, hops: Option<u32>) -> Self {
        Self { hops, ..self }
    }

    /// The edges.
    pub fn topology(self) -> &'a Topology {
        self.topology
    }

    /// Number of vertices.
    pub fn vertices(self) -> u32 {
        self.topology.vertices()
    }

    /// Hops from the seeds of a batch to its last level; 2 if that is not known.
    pub fn hops(self) -> u32 {
        self.hops.unwrap_or(USUAL_HOPS)
    }

    /// Which vertices belong to training, validation and test. A list has one entry per vertex, or none.
    pub fn splits(self) -> [&'a [bool]; 3] {
        match self.data {
            Some(data) => [&data.train, &data.val, &data.test],
            None => [&[]; 3],
        }
    }

    /// The type of each vertex, `None` of those without; empty if vertices have no types.
    pub fn vertex_types(self) -> Vec<Option<u16>> {
        self.data
            .map_or_else(Vec::new, GraphData::types_of_vertices)
    }
}
