//! Rows and partial sums that serve the edges between two parts (SHIRO, arXiv 2512.20178).
//!
//! An edge from part `p` into part `q` can be served in two ways: `p` sends the row of its source, or `p` adds up what its
//! own vertices give to the target, and sends that sum. Each edge needs one of them: a vertex cover of a graph
//! with two sides.

mod all;
mod exchanges;

pub(crate) use all::Covers;
pub use exchanges::{Exchanges, Sent, Tiers, exchanges};

/// An edge between two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The vertex that it comes from.
    pub source: u32,
    /// The vertex that it goes into.
    pub target: u32,
}

/// What one part sends to another. Every edge between them has its source in `rows` or its target in `sums`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cover {
    /// Sources whose rows are sent, ascending.
    pub rows: Vec<u32>,
    /// Targets of which partial sums are sent, ascending.
    pub sums: Vec<u32>,
}

/// No vertex.
const NONE: u32 = u32::MAX;

impl Cover {
    /// Rows and sums.
    pub fn len(&self) -> usize {
        self.rows.len() + self.sums.len()
    }

    /// Whether nothing is sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What serves some of the edges: rows of sources with a target that is not summed, and sums of their other targets.
    pub(crate) fn among(&self, edges: &[Crossing]) -> Self {
        let is_summed = |edge: &&Crossing| self.sums.binary_search(&edge.target).is_ok();
        let (summed, read): (Vec<&Crossing>, Vec<&Crossing>) = edges.iter().partition(is_summed);
        let mut rows: Vec<u32> = read.into_iter().map(|edge| edge.source).collect();
        let mut sums: Vec<u32> = summed.into_iter().map(|edge| edge.target).collect();
        for all in [&mut rows, &mut sums] {
            all.sort_unstable();
            all.dedup();
        }
        Self { rows, sums }
    }

    /// A cover of the fewest rows and sums: of all such covers the one with the most rows, which need no work of their own.
    /// It does not depend on the order of the edges.
    pub fn smallest(edges: &[Crossing]) -> Self {
        let sides = Sides::new(edges);
        let matching = sides.matching();
        // König: what can be reached from sources without a match, by any edge there and by matches back.
        let mut reached = [
            vec![false; sides.sources.len()],
            vec![false; sides.targets.len()],
        ];
        let free = (0u32..).zip(&matching.of_source);
        let mut waiting: Vec<u32> = free
            .filter_map(|(s, target)| (*target == NONE).then_some(s))
            .collect();
        for s in &waiting {
            reached[0][*s as usize] = true;
        }
        while let Some(s) = waiting.pop() {
            for &t in sides.targets_of(s) {
                if std::mem::replace(&mut reached[1][t as usize], true) {
                    continue;
                }
                let back = matching.of_target[t as usize];
                if back != NONE && !std::mem::replace(&mut reached[0][back as usize], true) {
                    waiting.push(back);
                }
            }
        }
        let kept = |ids: &[u32], reached: &[bool], wanted: bool| -> Vec<u32> {
            let all = ids.iter().zip(reached);
            all.filter_map(|(id, reached)| (*reached == wanted).then_some(*id))
                .collect()
        };
        Self {
            rows: kept(&sides.sources, &reached[0], false),
            sums: kept(&sides.targets, &reached[1], true),
        }
    }
}

/// The sources and the targets of edges, numbered in the order of their ids.
struct Sides {
    sources: Vec<u32>,
    targets: Vec<u32>,
    /// Where the targets of each source begin in `ends`.
    begins: Vec<usize>,
    ends: Vec<u32>,
}

/// Edges of which no two share an end.
struct Matching {
    /// The target of each source, or [`NONE`].
    of_source: Vec<u32>,
    /// The source of each target, or [`NONE`].
    of_target: Vec<u32>,
}

impl Sides {
    fn new(edges: &[Crossing]) -> Self {
        let mut edges = edges.to_vec();
        edges.sort_unstable_by_key(|edge| (edge.source, edge.target));
        let mut targets: Vec<u32> = edges.iter().map(|edge| edge.target).collect();
        targets.sort_unstable();
        targets.dedup();
        let mut sources = Vec::new();
        let mut begins = Vec::new();
        for (place, edge) in edges.iter().enumerate() {
            if sources.last() != Some(&edge.source) {
                sources.push(edge.source);
                begins.push(place);
            }
        }
        begins.push(edges.len());
        let number = |target: u32| targets.partition_point(|t| *t < target) as u32;
        let ends = edges.iter().map(|edge| number(edge.target)).collect();
        Self {
            sources,
            targets,
            begins,
            ends,
        }
    }

    fn targets_of(&self, source: u32) -> &[u32] {
        let source = source as usize;
        &self.ends[self.begins[source]..self.begins[source + 1]]
    }

    /// A largest matching (Hopcroft and Karp, SIAM Journal on Computing 2(4), 1973).
    fn matching(&self) -> Matching {
        let mut found = Matching {
            of_source: vec![NONE; self.sources.len()],
            of_target: vec![NONE; self.targets.len()],
        };
        for s in 0..self.sources.len() as u32 {
            let free = |t: &&u32| found.of_target[**t as usize] == NONE;
            if let Some(&t) = self.targets_of(s).iter().find(free) {
                found.join(s, t);
            }
        }
        let mut distance = vec![0; self.sources.len()];
        while self.distances(&found, &mut distance) {
            let mut next = self.begins.clone();
            for s in 0..self.sources.len() as u32 {
                if found.of_source[s as usize] == NONE {
                    self.augment(s, &mut found, &mut distance, &mut next);
                }
            }
        }
        found
    }

    /// How many matches lie between each source and one without a match. Returns whether a target without one can be
    /// reached.
    fn distances(&self, found: &Matching, distance: &mut [u32]) -> bool {
        let mut level: Vec<u32> = Vec::new();
        for (s, distance) in distance.iter_mut().enumerate() {
            let free = found.of_source[s] == NONE;
            *distance = if free { 0 } else { NONE };
            if free {
                level.push(s as u32);
            }
        }
        let mut number = 0;
        let mut ends = false;
        while !level.is_empty() && !ends {
            number += 1;
            let mut further = Vec::new();
            for s in level {
                for &t in self.targets_of(s) {
                    let back = found.of_target[t as usize];
                    if back == NONE {
                        ends = true;
                    } else if distance[back as usize] == NONE {
                        distance[back as usize] = number;
                        further.push(back);
                    }
                }
            }
            level = further;
        }
        ends
    }

    /// Looks for a shortest path from a source to a target, both without a match, and matches one more edge along it.
    /// `next` are the edges of each source that were not tried yet.
    fn augment(&self, from: u32, found: &mut Matching, distance: &mut [u32], next: &mut [usize]) {
        let mut path = vec![from];
        while let Some(&s) = path.last() {
            let place = next[s as usize];
            if place == self.begins[s as usize + 1] {
                distance[s as usize] = NONE;
                path.pop();
                continue;
            }
            next[s as usize] += 1;
            let t = self.ends[place];
            let back = found.of_target[t as usize];
            if back == NONE {
                // Each source on the way takes the target that it was left by.
                for s in path {
                    let t = self.ends[next[s as usize] - 1];
                    found.join(s, t);
                }
                return;
            }
            if distance[back as usize] == distance[s as usize] + 1 {
                path.push(back);
            }
        }
    }
}

impl Matching {
    fn join(&mut self, source: u32, target: u32) {
        self.of_source[source as usize] = target;
        self.of_target[target as usize] = source;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn covers(cover: &Cover, edges: &[Crossing]) -> bool {
        edges.iter().all(|edge| {
            cover.rows.binary_search(&edge.source).is_ok()
                || cover.sums.binary_search(&edge.target).is_ok()
        })
    }

    /// The fewest of `sources + targets` vertices that cover edges among as few as these, and the most sources of such a
    /// cover.
    fn by_hand(edges: &[Crossing], sources: u32, targets: u32) -> (u32, u32) {
        let all = 0u32..1 << (sources + targets);
        let valid = all.filter(|set| {
            let has = |n: u32| set >> n & 1 == 1;
            (edges.iter()).all(|edge| has(edge.source) || has(sources + edge.target))
        });
        let size = |set: u32| {
            (
                set.count_ones(),
                u32::MAX - (set & ((1 << sources) - 1)).count_ones(),
            )
        };
        let (fewest, rows) = valid.map(size).min().unwrap();
        (fewest, u32::MAX - rows)
    }

    #[test]
    fn covers_of_small_graphs_are_the_smallest() {
        let stream = Stream::new(5, 1);
        for case in 0..2000u64 {
            let below = |n: u64, limit| Stream::below(stream.bits(case * 64 + n), limit);
            let (sources, targets) = (1 + below(0, 6) as u32, 1 + below(1, 6) as u32);
            let count = below(2, 14);
            let mut edges: Vec<Crossing> = (0..count)
                .map(|n| Crossing {
                    source: below(3 + 2 * n, u64::from(sources)) as u32,
                    target: below(4 + 2 * n, u64::from(targets)) as u32,
                })
                .collect();
            let found = Cover::smallest(&edges);
            assert!(covers(&found, &edges));
            let expected = by_hand(&edges, sources, targets);
            assert_eq!((found.len() as u32, found.rows.len() as u32), expected);
            edges.reverse();
            assert_eq!(Cover::smallest(&edges), found);
        }
    }

    /// Long paths, on which the greedy matching is wrong everywhere.
    #[test]
    fn a_long_path_is_augmented() {
        let n = 50_000u32;
        // Source s has targets s and s + 1, of which the greedy choice takes the first; the last source has one only.
        let edges: Vec<Crossing> = (0..n)
            .flat_map(|s| [s, s + 1].map(|target| Crossing { source: s, target }))
            .chain([Crossing {
                source: n,
                target: 0,
            }])
            .collect();
        let found = Cover::smallest(&edges);
        assert_eq!((found.rows.len(), found.sums.len()), (n as usize + 1, 0));
        assert!(covers(&found, &edges));
        assert_eq!(Cover::smallest(&[]), Cover::default());
    }
}
