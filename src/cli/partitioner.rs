//! The partitioner of `gnnc graph stats` and `partition`.

use super::cache::{CacheArgs, say_refused};
use super::output::{Failure, Output, input};
use clap::Args;
use gnnc::graph::partition::{Partition, Partitioner, by_name};
use gnnc::graph::{GraphData, summary};
use gnnc::ir::workload::PartitionSummary;

/// How to partition a graph.
#[derive(Args)]
pub struct PartitionerArgs {
    /// The partitioner: metis, metis-edges, hash, range or morton (by coordinates).
    #[arg(long, value_name = "NAME", default_value = "metis")]
    partitioner: String,
    #[command(flatten)]
    cache: CacheArgs,
}

impl PartitionerArgs {
    /// Partitions a graph into each of several numbers of parts, and counts these.
    ///
    /// # Errors
    /// An unknown partitioner, a relative path of the cache, or parts that the graph cannot have.
    pub fn partitions(
        &self,
        data: &GraphData,
        parts: &[u32],
        out: &Output,
    ) -> Result<Vec<(Partition, PartitionSummary)>, Failure> {
        let method = self.method()?;
        let cache = self.cache.open(out)?;
        let made = gnnc::partitions(&data.topology, &*method, parts, cache.as_ref())?;
        say_refused(cache.as_ref(), out);
        let summed = made.into_iter().map(|partition| {
            let found = summary::summarise_partition(data, &partition, method.name())?;
            Ok((partition, found))
        });
        summed.collect()
    }

    /// The partitioner.
    ///
    /// # Errors
    /// A name that none has.
    pub fn method(&self) -> Result<Box<dyn Partitioner>, Failure> {
        by_name(&self.partitioner, 0).ok_or_else(|| {
            let names = gnnc::graph::partition::NAMES.join(", ");
            let found = &self.partitioner;
            input(format!(
                "unknown partitioner `{found}`, expected one of {names}"
            ))
        })
    }
}
