//! Pairs of vertices to predict links between: each pair is a further vertex, with an edge from each of
//! its two ends. Labels and splits belong to these vertices: 1 for a link, 0 for a pair without one.

mod ends;

use crate::many::with_rows;
use crate::rng::Stream;
use crate::{GraphData, GraphError, Labels, ListedEdge, Names, Topology};
use std::collections::HashSet;

/// The names of the edges from the two ends of each pair to the vertex that stands for the pair.
pub const SOURCES: &str = "sources";
/// The second one.
pub const TARGETS: &str = "targets";

/// Purposes of random streams.
const SPLIT: u64 = 0x11;
const NEGATIVES: u64 = 0x12;

/// Draws without success, for each negative, after which a graph counts as too dense.
const TRIES: u64 = 1000;

/// How links are split, and which pairs without a link stand beside them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkOptions {
    /// Share of the links for validation.
    pub val: f64,
    /// Share of the links for the test.
    pub test: f64,
    /// Pairs without a link for each link to train on.
    pub negatives: u32,
    /// Pairs without a link for each link to validate and to test on.
    pub eval_negatives: u32,
    /// Whether such a pair has the source of its link, so that links are ranked among pairs of one
    /// source; otherwise both ends are drawn.
    pub same_source: bool,
    /// Seed of the split and of the draws.
    pub seed: u64,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            val: 0.05,
            test: 0.1,
            negatives: 10,
            eval_negatives: 1,
            same_source: false,
            seed: 0,
        }
    }
}

/// A pair of vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Where a link would begin.
    pub source: u32,
    /// Where it would end.
    pub target: u32,
    /// Whether there is one, if that is known.
    pub is_link: Option<bool>,
    /// Training (0), validation (1) or test (2).
    pub split: Option<usize>,
}

impl Pair {
    fn ends(&self) -> Ends {
        Ends {
            source: self.source,
            target: self.target,
        }
    }
}

/// The two ends of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    /// Where a link would begin.
    pub source: u32,
    /// Where it would end.
    pub target: u32,
}

/// The graph without the links of the validation and the test, in both directions if every edge has its
/// reverse, and with a vertex for each pair.
///
/// # Errors
/// Named sets of edges; shares that leave no link to train on; a graph too dense to find pairs without a
/// link; more vertices than a graph can have.
pub fn with_pairs(data: &GraphData, options: &LinkOptions) -> Result<GraphData, GraphError> {
    let wrong = |found: String, expected: &str| GraphError::Unsupported {
        at: "links".to_owned(),
        found,
        expected: expected.to_owned(),
    };
    data.topology.refuse_sets("links", "a graph without them")?;
    let both_ways = data.topology.is_symmetric();
    let links = shuffled(&data.topology, both_ways, options.seed);
    let count = |share: f64| (links.len() as f64 * share).floor() as usize;
    let (val, test) = (count(options.val), count(options.test));
    if val + test >= links.len() {
        let found = format!(
            "{val} of {} links to validate and {test} to test on",
            links.len()
        );
        return Err(wrong(
            found,
            "smaller shares, so that links are left to train on",
        ));
    }
    let (val, rest) = links.split_at(val);
    let (test, train) = rest.split_at(test);
    let mut drawn = Negatives::new(&data.topology, &links, both_ways, options);
    let mut pairs: Vec<Pair> = Vec::new();
    for (split, links, each) in [
        (0, train, options.negatives),
        (1, val, options.eval_negatives),
        (2, test, options.eval_negatives),
    ] {
        let without = drawn.draw(links, each).ok_or_else(|| {
            wrong(
                "too few pairs without a link".to_owned(),
                "a graph with more vertices, or fewer negatives",
            )
        })?;
        for (ends, is_link) in [(links, true), (&without, false)] {
            pairs.extend(ends.iter().map(|ends| Pair {
                source: ends.source,
                target: ends.target,
                is_link: Some(is_link),
                split: Some(split),
            }));
        }
    }
    joined(data, &pairs, both_ways)
}

/// The graph with a vertex for each of some pairs, without their links of the validation and the test, in
/// both directions.
///
/// # Errors
/// Named sets of edges; no pairs; more vertices than a graph can have.
pub fn with_given(data: &GraphData, pairs: &[Pair]) -> Result<GraphData, GraphError> {
    data.topology.refuse_sets("links", "a graph without them")?;
    if pairs.is_empty() {
        return Err(GraphError::Unsupported {
            at: "links".to_owned(),
            found: "no pairs".to_owned(),
            expected: "at least one".to_owned(),
        });
    }
    joined(data, pairs, true)
}

/// The links in random order; of two directions the one from the smaller vertex.
fn shuffled(topology: &Topology, both_ways: bool, seed: u64) -> Vec<Ends> {
    let all = topology.listed().into_iter();
    let mut links: Vec<Ends> = all
        .filter(|edge| !both_ways || edge.source < edge.target)
        .map(|edge| Ends {
            source: edge.source,
            target: edge.target,
        })
        .collect();
    // Edges of several types are one link.
    links.dedup();
    let order = Stream::new(seed, SPLIT).permutation(links.len() as u32);
    order.into_iter().map(|n| links[n as usize]).collect()
}

/// Draws pairs without a link, each at most once.
struct Negatives<'a> {
    topology: &'a Topology,
    both_ways: bool,
    same_source: bool,
    stream: Stream,
    counter: u64,
    taken: HashSet<Ends>,
}

impl<'a> Negatives<'a> {
    fn new(topology: &'a Topology, links: &[Ends], both_ways: bool, options: &LinkOptions) -> Self {
        Self {
            topology,
            both_ways,
            same_source: options.same_source,
            stream: Stream::new(options.seed, NEGATIVES),
            counter: 0,
            taken: links.iter().copied().collect(),
        }
    }

    /// `each` pairs for each link; `None` if there are too few.
    fn draw(&mut self, links: &[Ends], each: u32) -> Option<Vec<Ends>> {
        let mut found = Vec::with_capacity(links.len() * each as usize);
        for link in links {
            for _ in 0..each {
                found.push(self.one(link)?);
            }
        }
        Some(found)
    }

    fn vertex(&mut self) -> u32 {
        self.counter += 1;
        let bits = self.stream.bits(self.counter);
        Stream::below(bits, u64::from(self.topology.vertices())) as u32
    }

    fn one(&mut self, link: &Ends) -> Option<Ends> {
        for _ in 0..TRIES {
            let mut source = if self.same_source {
                link.source
            } else {
                self.vertex()
            };
            let mut target = self.vertex();
            if self.both_ways && !self.same_source && source > target {
                (source, target) = (target, source);
            }
            let pair = Ends { source, target };
            let edge = |u: u32, v: u32| self.topology.in_neighbours(v).binary_search(&u).is_ok();
            let linked = edge(source, target) || self.both_ways && edge(target, source);
            if source != target && !linked && self.taken.insert(pair) {
                return Some(pair);
            }
        }
        None
    }
}

/// The graph with a vertex for each pair, and without hidden edges.
fn joined(data: &GraphData, pairs: &[Pair], both_ways: bool) -> Result<GraphData, GraphError> {
    let tested = |pair: &&Pair| pair.is_link == Some(true) && matches!(pair.split, Some(1 | 2));
    let hidden: HashSet<Ends> = pairs.iter().filter(tested).map(Pair::ends).collect();
    let hidden = |edge: &ListedEdge| {
        let (source, target) = (edge.source, edge.target);
        let reverse = Ends {
            source: target,
            target: source,
        };
        hidden.contains(&Ends { source, target }) || both_ways && hidden.contains(&reverse)
    };
    let (vertices, added) = (data.vertices(), pairs.len());
    let all = crate::topology::check_vertices(
        "links",
        u128::from(vertices) + added as u128,
        data.topology.edges(),
    )?;
    let kinds = data.topology.all_types().max(1) as u16;
    let kept: Vec<ListedEdge> = data.topology.listed();
    let seen = kept.iter().filter(|edge| !hidden(edge));
    let seen = seen.map(|edge| (edge.source, edge.target, edge.kind));
    let to_pairs = (vertices..)
        .zip(pairs)
        .flat_map(|(pair, ends)| [(ends.source, pair, kinds), (ends.target, pair, kinds + 1)]);
    let (topology, _) = Topology::typed(all, u32::from(kinds) + 2, seen.chain(to_pairs))?;
    let mut out = GraphData::new(data.name.clone(), topology);
    out.topology = out
        .topology
        .with_sets(vec![SOURCES.to_owned(), TARGETS.to_owned()])?;
    out.edge_features.columns = data.edge_features.columns;
    let rows = (0..).zip(&kept).filter(|(_, edge)| !hidden(edge));
    let mut values: Vec<f32> = rows
        .flat_map(|(place, _)| data.edge_features.row(place))
        .copied()
        .collect();
    values.resize(
        values.len() + 2 * added * data.edge_features.columns as usize,
        0.0,
    );
    out.edge_features.values = values;
    out.features = with_rows(data.features.clone(), vertices as usize, added);
    out.vertex_types = data.vertex_types.clone();
    let mut labels = vec![f32::NAN; vertices as usize];
    let mut ids = Names::default();
    (0..vertices).for_each(|v| ids.push(&data.id_of(v)));
    for (row, pair) in (vertices as usize..).zip(pairs) {
        let splits = [&mut out.train, &mut out.val, &mut out.test];
        let split = pair.split.filter(|_| pair.is_link.is_some());
        if let Some(mask) = split.and_then(|split| splits.into_iter().nth(split)) {
            mask[row] = true;
        }
        labels.push(
            pair.is_link
                .map_or(f32::NAN, |is_link| f32::from(u8::from(is_link))),
        );
        let (source, target) = (data.id_of(pair.source), data.id_of(pair.target));
        ids.push(&format!("{source} {target}"));
    }
    out.labels = match pairs.iter().any(|pair| pair.is_link.is_some()) {
        true => Labels::Values {
            width: 1,
            values: labels,
        },
        false => Labels::None,
    };
    (out.subjects, out.ids) = (added as u32, ids);
    out.class_names = ["link"].into_iter().collect();
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::generate::PlantedPartition;
    use gnnc_ir::EdgeSet;

    fn options(same_source: bool) -> LinkOptions {
        LinkOptions {
            val: 0.1,
            test: 0.2,
            negatives: 3,
            eval_negatives: 2,
            same_source,
            seed: 5,
        }
    }

    /// Of given pairs, tested links are gone in both directions, and pairs without a label are in no split.
    #[test]
    fn given_pairs_hide_tested_links() {
        let data = example::g8();
        let pair = |source, target, is_link, split| Pair {
            source,
            target,
            is_link,
            split,
        };
        let given = [
            pair(1, 0, Some(true), Some(2)),
            pair(0, 2, Some(true), Some(0)),
            pair(0, 7, Some(false), Some(1)),
            pair(3, 4, None, Some(2)),
        ];
        let pairs = with_given(&data, &given).unwrap();
        assert_eq!(pairs.validate(), []);
        let seen = pairs.topology.only(EdgeSet::Plain);
        assert!(data.topology.in_neighbours(0).contains(&1));
        assert!(!seen.in_neighbours(0).contains(&1) && !seen.in_neighbours(1).contains(&0));
        assert!(seen.in_neighbours(2).contains(&0) && seen.in_neighbours(4).contains(&3));
        assert_eq!(pairs.test[8..], [true, false, false, false]);
        let unknown = given.map(|pair| Pair {
            is_link: None,
            ..pair
        });
        let unknown = with_given(&data, &unknown).unwrap();
        assert_eq!(
            (unknown.labels, unknown.topology.edges()),
            (Labels::None, 20 + 8)
        );
        assert!(with_given(&data, &[]).is_err());
    }

    #[test]
    fn hidden_links_are_gone_in_both_directions() {
        let data = PlantedPartition {
            vertices: 200,
            edges: 1600,
            ..Default::default()
        };
        let data = data.generate().unwrap();
        for same_source in [false, true] {
            let pairs = with_pairs(&data, &options(same_source)).unwrap();
            assert_eq!(pairs.validate(), vec![]);
            let again = with_pairs(&data, &options(same_source)).unwrap();
            assert_eq!(again.fingerprint(), pairs.fingerprint());
            let links = data.topology.edges() / 2;
            let (val, test) = (links / 10, links / 5);
            let plain = pairs.topology.only(EdgeSet::Plain);
            assert_eq!(plain.edges(), 2 * (links - val - test));
            let count = |mask: &[bool]| mask.iter().filter(|m| **m).count() as u64;
            assert_eq!(count(&pairs.val), 3 * val);
            assert_eq!(count(&pairs.test), 3 * test);
            assert_eq!(count(&pairs.train), 4 * (links - val - test));
            let (from, to) = (EdgeSet::Named(1), EdgeSet::Named(2));
            let (from, to) = (pairs.topology.only(from), pairs.topology.only(to));
            let Labels::Values { values, .. } = &pairs.labels else {
                panic!()
            };
            let rivals = pairs.rivals();
            for pair in pairs.subjects() {
                let (u, v) = (from.in_neighbours(pair)[0], to.in_neighbours(pair)[0]);
                let linked = data.topology.in_neighbours(v).contains(&u);
                assert_eq!(values[pair as usize] == 1.0, linked, "{u} {v}");
                let seen =
                    plain.in_neighbours(v).contains(&u) || plain.in_neighbours(u).contains(&v);
                assert_eq!(seen, linked && pairs.train[pair as usize], "{u} {v}");
                assert_eq!(rivals[pair as usize], u);
            }
        }
    }

    #[test]
    fn impossible_pairs_are_refused() {
        let g8 = example::g8();
        let all = LinkOptions {
            val: 0.5,
            test: 0.5,
            ..options(false)
        };
        let text = with_pairs(&g8, &all).unwrap_err().to_string();
        assert!(text.contains("links are left to train on"), "{text}");
        let many = LinkOptions {
            negatives: 9,
            ..options(false)
        };
        let text = with_pairs(&g8, &many).unwrap_err().to_string();
        assert!(text.contains("too few pairs without a link"), "{text}");
        let pairs = with_pairs(
            &g8,
            &LinkOptions {
                negatives: 1,
                eval_negatives: 1,
                ..options(false)
            },
        );
        let again = with_pairs(&pairs.unwrap(), &options(false))
            .unwrap_err()
            .to_string();
        assert!(
            again.contains("named sets of edges (sources, targets)"),
            "{again}"
        );
    }
}
