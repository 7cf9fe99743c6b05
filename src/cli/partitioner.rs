//! The partitioner of `gnnc graph stats` and `partition`.

use super::cache::{CacheArgs, say_refused};
use super::output::{Failure, Output, input};
use clap::Args;
use gnnc::graph::partition::{Partition, PartitionInput, Partitioner, by_name};
use gnnc::graph::{GraphData, summary};
use gnnc::ir::workload::PartitionSummary;

/// How to partition a graph.
#[derive(Args)]
pub struct PartitionerArgs {
    /// The partitioner: metis, metis-edges, metis-splits, blocks, blocks-train, stream, hash, range or morton (by coordinates).
    #[arg(long, value_name = "NAME", default_value = "metis")]
    partitioner: String,
    #[command(flatten)]
    cache: CacheArgs,
}

/// A partition, and what is counted of it.
pub struct Made {
    /// The partition.
    pub partition: Partition,
    /// What its parts hold and read.
    pub summary: PartitionSummary,
    /// What the partitioner says of the way in which it divided the graph.
    pub remark: Option<String>,
}

impl PartitionerArgs {
    /// Partitions a graph into each of several numbers of parts, for batches of so many hops if that is known, and
    /// counts these.
    ///
    /// # Errors
    /// An unknown partitioner, a relative path of the cache, or parts that the graph cannot have.
    pub fn partitions(
        &self,
        data: &GraphData,
        hops: Option<u32>,
        parts: &[u32],
        out: &Output,
    ) -> Result<Vec<Made>, Failure> {
        let method = self.method()?;
        let cache = self.cache.open(out)?;
        let graph = PartitionInput::from(data).over_hops(hops);
        let made = gnnc::partitions(graph, &*method, parts, cache.as_ref())?;
        say_refused(cache.as_ref(), out);
        let summed = made.into_iter().map(|partition| {
            Ok(Made {
                summary: summary::summarise_partition(data, &partition, method.name(), &[])?,
                remark: method.remark(graph),
                partition,
            })
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
