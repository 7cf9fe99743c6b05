//! Vertices dealt to parts in turn.

use super::{Partition, Partitioner, check_parts};
use crate::{GraphError, Topology};

/// Vertex `v` goes to part `v mod parts`. Edges are ignored: the replication factor is that of a
/// random partition unless the numbering has a pattern.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hash;

impl Partitioner for Hash {
    fn name(&self) -> &'static str {
        "hash"
    }

    fn partition(&self, topology: &Topology, parts: u32) -> Result<Partition, GraphError> {
        check_parts(topology, parts)?;
        Partition::new(parts, (0..topology.vertices()).map(|v| v % parts).collect())
    }
}
