//! Vertices dealt to parts in turn.

use super::{Partition, PartitionInput, Partitioner, check_parts};
use crate::GraphError;

/// Vertex `v` goes to part `v mod parts`. Edges are ignored: the replication factor is that of a
/// random partition unless the numbering has a pattern.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hash;

impl Partitioner for Hash {
    fn name(&self) -> &'static str {
        "hash"
    }

    fn partition(&self, graph: PartitionInput, parts: u32) -> Result<Partition, GraphError> {
        check_parts(graph, parts)?;
        Partition::new(parts, (0..graph.vertices()).map(|v| v % parts).collect())
    }
}
