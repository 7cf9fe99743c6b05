//! METIS with parts that have the same share of each split.

use super::bisection::{Component, MetisGraph, Weights};
use super::{Partition, PartitionInput, Partitioner, check_parts};
use crate::GraphError;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// METIS's division into parts that have equal numbers of vertices, of training, validation and test vertices, and
/// of edges into them; if vertices have types, also of the vertices of each type and of the edges into those (Zheng
/// et al., DistDGL, IA3 2020). What a graph has nothing of, or what every vertex has, is left out.
///
/// Each balance may be off by 5 %, or by one vertex if that is more. METIS may fail to reach that, above all where single
/// vertices have a large share of the edges. The partition is then as balanced as it can make it.
///
/// Recursive bisection and METIS's k-way method both run; the one that comes closer to the balance is kept, or the
/// one that cuts fewer edges if both reach it. For more than 16 parts only the k-way method runs, unless there are
/// too few vertices for it.
#[derive(Clone, Copy, Debug)]
pub struct MetisSplits {
    /// Random seed; METIS uses the low 31 bits.
    pub seed: u64,
}

/// Raised when the same graph, seed and number of parts give another result than before.
const REVISION: u32 = 1;

/// What the largest part may have of a component, over the mean.
const MOST: f64 = 1.05;

/// Logarithm of [`MOST`]: several cuts, one after another, may be off by so much together.
const LOG_OF_MOST: f64 = 0.0487;

/// A part counts as balanced if it has less than this share more than it may have.
const NEARLY: f64 = 0.01;

/// Most parts that are also made by recursive bisection.
const MOST_BISECTED: u32 = 16;

/// Fewest vertices of a part for METIS's k-way method, which begins with so many once it has merged neighbors.
const LEAST_K_WAY: u32 = 30;

/// Most types of vertices that are balanced one by one; the others are balanced together.
const MOST_TYPES: usize = 8;

impl Partitioner for MetisSplits {
    fn name(&self) -> &'static str {
        "metis-splits"
    }

    fn partition(&self, graph: PartitionInput, parts: u32) -> Result<Partition, GraphError> {
        check_parts(graph, parts)?;
        if parts == 1 {
            return Ok(Partition::whole(graph.vertices()));
        }
        let is_large = graph.vertices() / parts >= LEAST_K_WAY;
        let made_by = |most: f64| {
            let weights = weights(graph, most as f32);
            MetisGraph::new(self.name(), self.seed, graph.topology(), weights)
        };
        let mut found = Vec::new();
        if parts <= MOST_BISECTED || !is_large {
            let levels = f64::from(parts.next_power_of_two().trailing_zeros());
            let metis = made_by(1.0 + LOG_OF_MOST / levels)?;
            let all = (0..graph.vertices()).collect();
            let owner = metis.bisected(vec![all], &[parts])?.pop();
            found.extend(owner.map(|owner| Made::of(&metis, owner, parts)));
        }
        if is_large {
            let metis = made_by(MOST)?;
            found.push(Made::of(&metis, metis.k_way(parts)?, parts));
        }
        let best = found.into_iter().min_by(|a, b| {
            let excess = a.excess.total_cmp(&b.excess);
            excess.then(a.cut.cmp(&b.cut))
        });
        Partition::new(parts, best.map_or_else(Vec::new, |best| best.owner))
    }

    fn key(&self, graph: PartitionInput) -> Option<String> {
        Some(format!(
            "{} revision {REVISION} seed {}\ngraph {}\nvertices {}",
            self.name(),
            self.seed,
            graph.topology().digest(),
            graph.digest_of_vertices()
        ))
    }
}

/// A division, and how good it is.
struct Made {
    owner: Vec<u32>,
    /// By how much the worst part has more of a component than it may have, over that; 0 if it has not.
    excess: f64,
    /// Edges between parts.
    cut: u64,
}

impl Made {
    fn of(graph: &MetisGraph, owner: Vec<u32>, parts: u32) -> Self {
        let excess = excess(graph.weights(), &owner, parts);
        Self {
            excess: if excess < NEARLY { 0.0 } else { excess },
            cut: graph.edges_between(&owner),
            owner,
        }
    }
}

/// By how much the worst part has more of a component than it may have, over that.
fn excess(weights: &Weights, owner: &[u32], parts: u32) -> f64 {
    let mut sums = vec![vec![0u64; parts as usize]; weights.components];
    for (v, part) in owner.iter().enumerate() {
        for (sums, weight) in sums.iter_mut().zip(weights.row(v)) {
            sums[*part as usize] += u64::from(weight.unsigned_abs());
        }
    }
    let share = 1.0 / f64::from(parts);
    let of = |(sums, all): (Vec<u64>, Component)| {
        let limit = all.limit(MOST, share) * share * all.sum as f64;
        let largest = sums.into_iter().max().unwrap_or(0) as f64;
        (largest / limit.max(1.0) - 1.0).max(0.0)
    };
    let components = sums.into_iter().zip(weights.sums());
    components.map(of).fold(0.0, f64::max)
}

/// What parts are to have equal amounts of. A side of a cut may have `most` times its share.
fn weights(graph: PartitionInput, most: f32) -> Weights {
    let vertices = graph.vertices() as usize;
    let degrees = graph.topology().in_degrees();
    let degrees: Vec<i32> = degrees.into_iter().map(|degree| degree as i32).collect();
    let count = |of: &dyn Fn(usize) -> bool| (0..vertices).map(|v| i32::from(of(v))).collect();
    let mut columns: Vec<Vec<i32>> = vec![vec![1; vertices]];
    for split in graph.splits() {
        columns.push(count(&|v| split.get(v) == Some(&true)));
    }
    let groups = groups(&graph.vertex_types());
    for group in 0..groups.iter().flatten().max().map_or(0, |last| last + 1) {
        let is_in = |v: usize| groups[v] == Some(group);
        columns.push(count(&is_in));
        let of_group = (0..vertices).map(|v| if is_in(v) { degrees[v] } else { 0 });
        columns.push(of_group.collect());
    }
    columns.push(degrees);
    // What every vertex has is balanced with the vertices.
    let all = columns[0].clone();
    let is_new = |column: &Vec<i32>| *column != all && column.iter().any(|weight| *weight > 0);
    columns.retain(is_new);
    columns.insert(0, all);
    let row = |v: usize| columns.iter().map(move |column| column[v]);
    Weights {
        components: columns.len(),
        of: (0..vertices).flat_map(row).collect(),
        most: Some(most),
    }
}

/// The types of the vertices, those with most vertices first; all that come after [`MOST_TYPES`] are one. Empty
/// if there are fewer than two.
fn groups(types: &[Option<u16>]) -> Vec<Option<usize>> {
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    for kind in types.iter().flatten() {
        *counts.entry(*kind).or_default() += 1;
    }
    if counts.len() < 2 {
        return Vec::new();
    }
    let mut kinds: Vec<u16> = counts.keys().copied().collect();
    kinds.sort_by_key(|kind| Reverse(counts[kind]));
    let ordered = kinds.into_iter().enumerate();
    let group_of: BTreeMap<u16, usize> = ordered
        .map(|(group, kind)| (kind, group.min(MOST_TYPES)))
        .collect();
    let group = |kind: &Option<u16>| kind.and_then(|kind| group_of.get(&kind).copied());
    types.iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GraphData, Topology, VertexTypes, example};

    #[test]
    fn empty_and_repeated_components_are_left_out() {
        let mut g8 = example::g8();
        let found = weights((&g8).into(), 1.05);
        assert_eq!(found.components, 5);
        assert_eq!(found.row(0), [1, 1, 0, 0, 2]);
        assert_eq!(found.row(6), [1, 0, 1, 0, 2]);
        assert_eq!(found.row(3), [1, 0, 0, 1, 3]);
        g8.val = vec![false; 8];
        g8.test = vec![true; 8];
        assert_eq!(weights((&g8).into(), 1.05).components, 3);
        assert_eq!(weights((&g8.topology).into(), 1.05).components, 2);
        let (empty, _) = Topology::from_edges(8, []).unwrap();
        assert_eq!(weights((&empty).into(), 1.05).components, 1);
    }

    #[test]
    fn each_type_has_two_weights() {
        let mut g8 = example::g8();
        let texts = "b a b b a b a a".split(' ').collect();
        let types = VertexTypes::of_texts("t", &texts).unwrap();
        types.give("t", &mut g8).unwrap();
        let found = weights((&g8).into(), 1.05);
        assert_eq!(found.components, 9);
        // Both types have four vertices, so they are in order.
        assert_eq!(found.row(0), [1, 1, 0, 0, 0, 0, 1, 2, 2]);
        assert_eq!(found.row(4), [1, 1, 0, 0, 1, 3, 0, 0, 3]);
        let many: Vec<Option<u16>> = (0..40).map(|v| (v > 0).then_some(v % 13)).collect();
        let groups = groups(&many);
        let of = [0, 13, 1, 8, 12].map(|v| groups[v]);
        assert_eq!(of, [None, Some(0), Some(1), Some(8), Some(8)]);
        assert_eq!(groups.iter().flatten().max(), Some(&8));
        assert!(super::groups(&[Some(3), None, Some(3)]).is_empty());
    }

    /// A ring of 64 vertices whose first 16 are trained on. Runs of the ring would have all of them, or none.
    #[test]
    fn parts_share_the_training_vertices() {
        let edges = (0..64).flat_map(|v| [(v, (v + 1) % 64), ((v + 1) % 64, v)]);
        let (topology, _) = Topology::from_edges(64, edges).unwrap();
        let mut ring = GraphData::new("ring", topology);
        ring.train[..16].fill(true);
        for parts in [2, 4, 8] {
            let made = MetisSplits { seed: 1 };
            let made = made.partition((&ring).into(), parts).unwrap();
            for members in made.members() {
                let trained = members.iter().filter(|v| **v < 16).count();
                assert!(trained <= 16 / parts as usize + 1, "{parts}: {made:?}");
                assert!(
                    members.len() <= 64 / parts as usize + 2,
                    "{parts}: {made:?}"
                );
            }
        }
    }

    #[test]
    fn what_whole_vertices_do_not_allow_is_no_excess() {
        let weights = Weights {
            components: 2,
            of: vec![1, 9, 1, 0, 1, 0, 1, 0, 1, 1],
            most: None,
        };
        // Half of five vertices are two and a half; one more is allowed, two more are not.
        let is =
            |owner: &[u32], expected: f64| (excess(&weights, owner, 2) - expected).abs() < 1e-9;
        assert!(is(&[0, 0, 1, 1, 1], 0.0));
        assert!(is(&[0, 1, 1, 1, 1], 4.0 / 3.5 - 1.0));
        assert!(is(&[0, 0, 0, 0, 0], 5.0 / 3.5 - 1.0));
        // The heaviest vertex has more than half.
        assert!(is(&[0, 1, 1, 0, 0], 0.0));
    }
}
