//! What the parts of a graph send each other in one direction of an aggregation: rows, or rows and partial sums, in one
//! tier or two.
//!
//! In two tiers, what several ranks of a node read crosses to the node once and is forwarded inside, and partial sums for
//! a vertex are added inside their node before one crosses.

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
    let crossing = Pairs::new(topology, partition);
    let each = parts / nodes;
    let pairs: Vec<(u32, u32)> = pairs(parts).collect();
    let of_pairs: Vec<(u64, Sent)> = pairs
        .par_iter()
        .map(|(from, to)| {
            let edges = crossing.of(*from, *to);
            let cover = Cover::smallest(edges).len() as u64;
            let rows = distinct(edges.iter().map(|edge| edge.source));
            let sums = distinct(edges.iter().map(|edge| edge.target));
            (sums, Sent { rows, cover })
        })
        .collect();
    let mut found = Exchanges::default();
    for ((from, to), (sums, sent)) in pairs.iter().zip(of_pairs) {
        found.rows += sent.rows;
        found.sums += sums;
        found.cover += sent.cover;
        let tier = match from / each == to / each {
            true => &mut found.one_tier.inside,
            false => &mut found.one_tier.between,
        };
        tier.add(sent);
    }
    found.two_tiers.inside = found.one_tier.inside;
    let of_nodes: Vec<Tiers> = self::pairs(nodes)
        .par_bridge()
        .map(|(from, to)| {
            let ranks = |node: u32| node * each..(node + 1) * each;
            let pairs = ranks(from).flat_map(|p| ranks(to).map(move |q| (p, q)));
            let edges = pairs.flat_map(|(p, q)| crossing.of(p, q)).copied();
            crossing.between_nodes(&edges.collect::<Vec<Crossing>>())
        })
        .collect();
    for tiers in of_nodes {
        found.two_tiers.between.add(tiers.between);
        found.two_tiers.inside.add(tiers.inside);
    }
    Ok(found)
}

/// All pairs of different numbers.
fn pairs(count: u32) -> impl Iterator<Item = (u32, u32)> {
    let all = (0..count).flat_map(move |from| (0..count).map(move |to| (from, to)));
    all.filter(|(from, to)| from != to)
}

/// How many different values there are.
fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> u64 {
    let mut all: Vec<T> = values.collect();
    all.sort_unstable();
    all.dedup();
    all.len() as u64
}

/// The edges between parts, by their pair.
struct Pairs<'a> {
    owner: &'a [u32],
    parts: u32,
    edges: Vec<Vec<Crossing>>,
}

impl<'a> Pairs<'a> {
    fn new(topology: &Topology, partition: &'a Partition) -> Self {
        let (owner, parts) = (partition.owner(), partition.parts());
        let mut edges = vec![Vec::new(); (parts * parts) as usize];
        for (target, to) in (0u32..).zip(owner) {
            for &source in topology.in_neighbours(target) {
                let from = owner[source as usize];
                if from != *to {
                    edges[(from * parts + to) as usize].push(Crossing { source, target });
                }
            }
        }
        Self {
            owner,
            parts,
            edges,
        }
    }

    fn of(&self, from: u32, to: u32) -> &[Crossing] {
        &self.edges[(from * self.parts + to) as usize]
    }

    /// What the edges from one node into another cost: between both, and inside of them.
    fn between_nodes(&self, edges: &[Crossing]) -> Tiers {
        let owner = |vertex: u32| self.owner[vertex as usize];
        let rows = distinct(edges.iter().map(|edge| edge.source));
        let readers = distinct(edges.iter().map(|edge| (edge.source, owner(edge.target))));
        let cover = Cover::smallest(edges);
        let summed = |edge: &&Crossing| cover.sums.binary_search(&edge.target).is_ok();
        let sent = edges.iter().filter(|edge| !summed(edge));
        let reading = distinct(sent.map(|edge| (edge.source, owner(edge.target))));
        let added = edges.iter().filter(summed);
        let adding = distinct(added.map(|edge| (edge.target, owner(edge.source))));
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
