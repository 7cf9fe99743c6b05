//! Consecutive vertices in one part.

use super::{Partition, PartitionInput, Partitioner, check_parts};
use crate::GraphError;

/// Part `i` of `k` gets the vertices from `i * n / k` up to `(i + 1) * n / k`: sizes differ by at
/// most one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range;

impl Partitioner for Range {
    fn name(&self) -> &'static str {
        "range"
    }

    fn partition(&self, graph: PartitionInput, parts: u32) -> Result<Partition, GraphError> {
        check_parts(graph, parts)?;
        let n = u64::from(graph.vertices());
        let k = u64::from(parts);
        let mut owner = Vec::with_capacity(n as usize);
        for part in 0..k {
            owner.resize(((part + 1) * n / k) as usize, part as u32);
        }
        Partition::new(parts, owner)
    }
}
