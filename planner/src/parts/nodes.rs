//! What crosses between nodes if a row crosses to each node once.

use super::cover::COVER;
use super::replication::{Degrees, replication};
use super::{Messages, Parts};
use gnnc_ir::workload::{TierLoad, Workload};

/// Consecutive ranks that share a node, where a row crosses once.
#[derive(Clone, Debug, PartialEq)]
pub struct Nodes {
    /// Ranks of a node.
    pub node_ranks: u32,
    /// Of the rows that ranks read of other nodes, the share that comes from there; others of the node pass on the rest.
    pub crossing: f64,
    /// One load per rank, if they were counted.
    pub counted: Vec<TierLoad>,
}

impl Parts {
    /// The same parts on nodes of so many ranks, where a row crosses to a node once. If that was not counted, as many rows
    /// cross as if each node were a part.
    pub fn on_nodes(mut self, workload: &Workload, node_ranks: u32) -> Self {
        let ranks = self.sizes.len() as u32;
        let partition = workload.partition(ranks, self.partitioner.name());
        let counted = partition.and_then(|summary| {
            let mut nodes = summary.nodes.iter();
            nodes.find(|nodes| nodes.node_ranks == node_ranks)
        });
        let counted = counted.map_or_else(Vec::new, |nodes| nodes.ranks.clone());
        let crossing = match counted.is_empty() {
            false => {
                let sum = |of: fn(&TierLoad) -> u64| counted.iter().map(of).sum::<u64>() as f64;
                let arriving = sum(|load| load.arriving);
                arriving / (arriving + sum(|load| load.forwarded)).max(1.0)
            }
            true => {
                let degrees = Degrees::of(workload);
                let of_nodes = ranks.div_ceil(node_ranks.max(1));
                let (alpha, ..) = replication(workload, &degrees, of_nodes, self.partitioner);
                let far = self.far_rows(node_ranks).max(1.0);
                // Between nodes, covers are as much smaller than rows as between ranks.
                let alpha = match self.targets {
                    Some(_) => COVER * alpha,
                    None => alpha,
                };
                (alpha * workload.vertices as f64 / far)
                    .clamp(1.0 / f64::from(node_ranks.max(1)), 1.0)
            }
        };
        self.nodes = Some(Nodes {
            node_ranks,
            crossing,
            counted,
        });
        if self.targets.is_some() {
            self.forget_loads();
        }
        self
    }

    /// Drops what was counted of rows alone. Of the rows of covers, the same share crosses.
    pub(super) fn forget_loads(&mut self) {
        if let Some(nodes) = &mut self.nodes {
            nodes.counted.clear();
        }
    }

    /// The same for ranks that read the rows of all vertices.
    pub(crate) fn everything_crosses(&mut self) {
        if let Some(nodes) = &mut self.nodes {
            nodes.crossing = 1.0 / f64::from(nodes.node_ranks.max(1));
            nodes.counted.clear();
        }
    }

    /// Of the other ranks, the share that is in other nodes.
    pub(crate) fn share_beyond(&self, node_ranks: u32) -> f64 {
        let ranks = self.sizes.len();
        let others = ranks.saturating_sub(1).max(1) as f64;
        (ranks as f64 - f64::from(node_ranks)) / others
    }

    /// Rows of other nodes that all ranks together read.
    fn far_rows(&self, node_ranks: u32) -> f64 {
        match &self.messages {
            Messages::Uniform => self.halo_rows() as f64 * self.share_beyond(node_ranks),
            Messages::Matrix(rows) => {
                let node = |rank: usize| rank / node_ranks.max(1) as usize;
                let far = rows.iter().enumerate().flat_map(|(owner, readers)| {
                    let readers = readers.iter().enumerate();
                    readers.filter(move |(reader, _)| node(*reader) != node(owner))
                });
                far.map(|(_, rows)| *rows).sum::<u64>() as f64
            }
        }
    }

    /// What crosses, of a rank that reads `far` rows of other nodes: as counted of a rank, if there is one.
    pub(crate) fn tiers(&self, rank: Option<usize>, far: f64) -> Option<Tiers> {
        let nodes = self.nodes.as_ref()?;
        let counted = rank.and_then(|rank| nodes.counted.get(rank));
        let own = counted.map(|load| Tiers {
            crossing: load.crossing as f64,
            arriving: load.arriving as f64,
            passed: load.passed as f64,
            forwarded: load.forwarded as f64,
        });
        let arriving = far * nodes.crossing;
        Some(own.unwrap_or(Tiers {
            crossing: arriving,
            arriving,
            passed: far - arriving,
            forwarded: far - arriving,
        }))
    }
}

/// Rows of one rank in an exchange in two tiers; see [`TierLoad`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tiers {
    pub crossing: f64,
    pub arriving: f64,
    pub passed: f64,
    pub forwarded: f64,
}
