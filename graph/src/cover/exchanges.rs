//! What the parts of a graph send each other in one direction of an aggregation: rows, or rows and partial sums, in one
//! tier or two.
//!
//! In two tiers, what several ranks of a node read crosses to the node once and is forwarded inside, and partial sums for
//! a vertex are added inside their node before one crosses.

use super::all::incoming;
use super::{Cover, Crossing};
use crate::partition::Partition;
use crate::{GraphError, Topology};
use rayon::prelude::*;
use serde::Serialize;

/// Numbers of rows, or of rows and sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// If only rows are sent.
    pub rows: u64,
    /// If the fewest rows and partial sums are.
    pub cover: u64,
}

/// What is sent between nodes, and between the ranks of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tiers {
    /// Between ranks of different nodes.
    pub between: Sent,
    /// Between ranks of a node.
    pub inside: Sent,
}

/// What all parts send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exchanges {
    /// Rows, if only rows are sent: halo vertices of all parts.
    pub rows: u64,
    /// Partial sums, if only these are sent.
    pub sums: u64,
    /// Rows and sums of the smallest covers.
    pub cover: u64,
    /// If each pair of ranks exchanges by itself.
    pub one_tier: Tiers,
    /// If each row and sum crosses to a node once.
    pub two_tiers: Tiers,
}

impl Sent {
    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.cover += other.cover;
    }
}

/// Counts what the parts of a partition send each other for the plain edges. Consecutive parts share a node: there are
/// `nodes`, which divide the parts.
///
/// # Errors
/// A partition of another graph; nodes that do not divide the parts.
pub fn exchanges(
    topology: &Topology,
    partition: &Partition,
    nodes: u32,
) -> Result<Exchanges, GraphError> {
    partition.check(topology)?;
    let parts = partition.parts();
    if nodes == 0 || !parts.is_multiple_of(nodes) {
        return Err(GraphError::Unsupported {
            at: "nodes".to_owned(),
            found: format!("{nodes} nodes for {parts} parts"),
            expected: "a number that divides the parts".to_owned(),
        });
    }
    let each = parts / nodes;
    let mut found = Exchanges::default();
    let members = partition.members();
    for (node, ranks) in (0u32..).zip(members.chunks(each as usize)) {
        // Edges into the node, by the node that they come from.
        let mut into_node = vec![Vec::new(); nodes as usize];
        for members in ranks {
            let into_part = incoming(topology, partition, members);
            let counted: Vec<Pair> = into_part.par_iter().map(|edges| Pair::of(edges)).collect();
            for (from, (edges, pair)) in (0u32..).zip(into_part.into_iter().zip(counted)) {
                found.rows += pair.sent.rows;
                found.sums += pair.sums;
                found.cover += pair.sent.cover;
                if from / each == node {
                    found.one_tier.inside.add(pair.sent);
                } else {
                    found.one_tier.between.add(pair.sent);
                    into_node[(from / each) as usize].extend(edges);
                }
            }
        }
        let owner = partition.owner();
        let counted = into_node.par_iter().map(|edges| between(edges, owner));
        for tiers in counted.collect::<Vec<Tiers>>() {
            found.two_tiers.between.add(tiers.between);
            found.two_tiers.inside.add(tiers.inside);
        }
    }
    found.two_tiers.inside.add(found.one_tier.inside);
    Ok(found)
}

/// What one part sends another.
struct Pair {
    sent: Sent,
    sums: u64,
}

impl Pair {
    fn of(edges: &[Crossing]) -> Self {
        Self {
            sent: Sent {
                rows: distinct(edges.iter().map(|edge| edge.source)),
                cover: Cover::smallest(edges).len() as u64,
            },
            sums: distinct(edges.iter().map(|edge| edge.target)),
        }
    }
}

/// What the edges from one node into another cost in two tiers: between both, and inside of them.
fn between(edges: &[Crossing], owner: &[u32]) -> Tiers {
    let owner = |vertex: u32| owner[vertex as usize];
    let rows = distinct(edges.iter().map(|edge| edge.source));
    let readers = distinct(edges.iter().map(|edge| (edge.source, owner(edge.target))));
    let cover = Cover::smallest(edges);
    let is_summed = |edge: &&Crossing| cover.sums.binary_search(&edge.target).is_ok();
    let read = edges.iter().filter(|edge| !is_summed(edge));
    let reading = distinct(read.map(|edge| (edge.source, owner(edge.target))));
    let summed = edges.iter().filter(is_summed);
    let adding = distinct(summed.map(|edge| (edge.target, owner(edge.source))));
    Tiers {
        between: Sent {
            rows,
            cover: cover.len() as u64,
        },
        inside: Sent {
            rows: readers - rows,
            cover: reading + adding - cover.len() as u64,
        },
    }
}

/// How many different values there are.
fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> u64 {
    let mut all: Vec<T> = values.collect();
    all.sort_unstable();
    all.dedup();
    all.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::partition::{Hash, Partitioner, Range};

    fn sent(rows: u64, cover: u64) -> Sent {
        Sent { rows, cover }
    }

    /// The worked examples.
    #[test]
    fn g8_sends_what_was_counted_by_hand() {
        let g8 = example::g8().topology;
        let count = |partitioner: &dyn Partitioner, parts, nodes| {
            let partition = partitioner.partition((&g8).into(), parts).unwrap();
            exchanges(&g8, &partition, nodes).unwrap()
        };
        let halves = count(&Range, 2, 1);
        assert_eq!((halves.rows, halves.sums, halves.cover), (3, 3, 2));
        let quarters = count(&Range, 4, 2);
        assert_eq!((quarters.rows, quarters.cover), (10, 8));
        assert_eq!(quarters.one_tier.between, sent(3, 2));
        assert_eq!(quarters.two_tiers.between, sent(3, 2));
        assert_eq!(count(&Hash, 2, 1).cover, 8);

        let found = count(&Hash, 4, 2);
        assert_eq!(found.rows, 19);
        assert_eq!(found.one_tier.between, sent(11, 10));
        assert_eq!(found.one_tier.inside.rows, 8);
        assert_eq!(found.two_tiers.between, sent(8, 6));
        assert_eq!(found.two_tiers.inside, sent(11, 12));
    }

    #[test]
    fn nodes_divide_the_parts() {
        let g8 = example::g8().topology;
        let partition = Range.partition((&g8).into(), 4).unwrap();
        for nodes in [0, 3, 8] {
            assert!(exchanges(&g8, &partition, nodes).is_err());
        }
        let one = exchanges(&g8, &partition, 1).unwrap();
        assert_eq!(one.one_tier, one.two_tiers);
        let each = exchanges(&g8, &partition, 4).unwrap();
        assert_eq!(each.one_tier, each.two_tiers);
    }
}
