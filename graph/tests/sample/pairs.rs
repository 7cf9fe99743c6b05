//! Batches of pairs: edges that are left out, and ends that are drawn, against the naive sampler.

use crate::naive::{self, OfPairs, Way};
use crate::oracle::{Numbers, random_graph};
use gnnc_graph::links::{Pair, with_given};
use gnnc_graph::rng::Stream;
use gnnc_graph::sample::{
    Blocks, Cut, Exclude, Fanout, HopEdges, Kind, Negatives, Pairs, Rule, Sampler,
};
use gnnc_graph::{GraphData, Labels, Topology};
use gnnc_ir::EdgeSet;
use gnnc_ir::words::sampling::{Roots, Sampling};

/// A random graph with pairs of all kinds, some of them links and some not; every other one with edges both ways.
fn graph(case: u64) -> Option<GraphData> {
    let numbers = &mut Numbers(Stream::new(case, 91), 0);
    let mut topology = random_graph(numbers);
    let vertices = topology.vertices();
    if case.is_multiple_of(2) {
        let kinds = topology.relations();
        let edges = topology
            .typed_edges()
            .flat_map(|(u, v, kind)| [(u, v, kind), (v, u, kind)]);
        topology = match kinds {
            0 => {
                Topology::from_edges(vertices, edges.map(|(u, v, _)| (u, v)))
                    .unwrap()
                    .0
            }
            kinds => Topology::typed(vertices, kinds, edges).unwrap().0,
        };
    }
    let data = GraphData::new("random", topology);
    let links = data.topology.listed();
    let mut pairs = Vec::new();
    for edge in links.iter().step_by(3) {
        pairs.push((edge.source, edge.target, true, 0));
        pairs.push((numbers.below(vertices), numbers.below(vertices), false, 0));
        pairs.push((numbers.below(vertices), numbers.below(vertices), false, 1));
    }
    let pair = |(source, target, is_link, split): (u32, u32, bool, usize)| Pair {
        source: if is_link && case.is_multiple_of(4) {
            source.min(target)
        } else {
            source
        },
        target: if is_link && case.is_multiple_of(4) {
            source.max(target)
        } else {
            target
        },
        is_link: Some(is_link),
        split: Some(split),
    };
    let pairs: Vec<Pair> = pairs.into_iter().map(pair).collect();
    with_given(&data, &pairs).ok()
}

#[test]
fn batches_of_pairs_are_sampled_as_the_naive_sampler_does() {
    let (mut lacking, mut drawn, mut linked, mut ordered_graphs) = (0, 0, 0, 0);
    for case in 0..600u64 {
        let Some(data) = graph(case) else {
            continue;
        };
        let numbers = &mut Numbers(Stream::new(case, 92), 0);
        let (sources, targets) = (EdgeSet::Named(1), EdgeSet::Named(2));
        let over = vec![sources, targets, EdgeSet::Plain, EdgeSet::Plain];
        let [plain, first, second] =
            [EdgeSet::Plain, sources, targets].map(|set| data.topology.only(set).into_owned());
        let (kind, way) =
            [(Kind::Neighbor, Way::Neighbor), (Kind::Labor, Way::Labor)][case as usize % 2];
        let each = [9, 9, 1 + numbers.below(3), 1 + numbers.below(3)];
        let exclude = Exclude::ALL[case as usize / 2 % 2];
        let negatives = Negatives::ALL[case as usize % 3];
        let sampling = Sampling {
            batch: 1,
            fanouts: each.map(Fanout::Each).to_vec(),
            over,
            kind,
            cut: Cut::Even,
            roots: Roots::Home,
            exclude,
            merges: None,
            cache: None,
            topology: Default::default(),
            negatives,
        };
        let rule = Rule::of(&sampling, case).unwrap();
        let types = plain.relations().max(1) as usize;
        let fanouts: Vec<Vec<u32>> = [1, 1, types, types]
            .iter()
            .zip(each)
            .map(|(types, fanout)| vec![fanout; *types])
            .collect();
        let subjects: Vec<u32> = data.subjects().collect();
        let Labels::Values { values, .. } = &data.labels else {
            panic!()
        };
        let end = |edges: &Topology, v: u32| edges.in_neighbours(v)[0];
        let is_trained = |v: u32, link: f32| data.train[v as usize] && values[v as usize] == link;
        let links = subjects.iter().filter(|v| is_trained(**v, 1.0));
        let mut links = links.map(|v| (end(&first, *v), end(&second, *v)));
        let ordered = plain.is_symmetric() && links.all(|(u, v)| u < v);
        ordered_graphs += u32::from(ordered);
        let is_link = |u: u32, v: u32| plain.in_neighbours(v).contains(&u);
        let vertices = data.subjects().start;
        for threads in [1, 2] {
            let edges = HopEdges::new(&plain, &data, &sampling.over);
            let mut sampler = Sampler::over(edges, &rule, threads).unwrap();
            let mut blocks = Blocks::default();
            for step in 0..3u32 {
                let order = Stream::new(case, step.into()).permutation(subjects.len() as u32);
                let all: Vec<u32> = order.iter().map(|n| subjects[*n as usize]).collect();
                let all = &all[..numbers.below(subjects.len() as u32 + 1) as usize];
                // This rank's part of the batch.
                let own = &all[..all.len() / 2];
                let mut lacks = Vec::new();
                for v in all.iter().filter(|v| is_trained(**v, 1.0)) {
                    let (u, w) = (end(&first, *v), end(&second, *v));
                    lacks.extend([(u, w), (w, u)]);
                }
                if exclude == Exclude::Nothing {
                    lacks.clear();
                }
                let at = (case, step);
                let negative = |v: u32| {
                    let source = (negatives == Negatives::Targets).then(|| end(&first, v));
                    let is_drawn =
                        negatives != Negatives::Given && v >= vertices && is_trained(v, 0.0);
                    is_drawn.then(|| naive::negative(&is_link, (vertices, ordered), source, at, v))
                };
                let of = OfPairs {
                    edges: vec![&first, &second, &plain, &plain],
                    plain: vec![false, false, true, true],
                    lacks,
                    end: &|hop, v| match hop {
                        0 => negative(v).map(|ends| ends.0),
                        1 => negative(v).map(|ends| ends.1),
                        _ => None,
                    },
                };
                let (ids, sizes, expected) =
                    naive::blocks_of_pairs(&of, way, &fanouts, case, step, own);
                sampler
                    .sample_of(own, all.iter().copied(), step, &mut blocks)
                    .unwrap();
                for (hop, expected) in expected.iter().enumerate() {
                    let layer = blocks.layer(4 - hop);
                    assert_eq!(layer.edges.indptr, expected.offsets, "{case} {hop}");
                    assert_eq!(layer.positions, expected.positions);
                    assert_eq!(layer.edges.indices, expected.ends);
                    assert_eq!(layer.degrees, expected.degrees);
                    assert_eq!(blocks.level(4 - hop), &ids[..sizes[hop]]);
                    // No edge between the ends of a link of the batch is there.
                    for (row, ends) in layer.edges.indptr.windows(2).enumerate() {
                        let v = blocks.ids()[row];
                        for place in &layer.edges.indices[ends[0] as usize..ends[1] as usize] {
                            let edge = (blocks.ids()[*place as usize], v);
                            assert!(hop < 2 || !of.lacks.contains(&edge), "{case}: {edge:?}");
                        }
                    }
                }
                assert_eq!(blocks.ids(), ids);
                let left_out = blocks.left_out();
                for v in 0..data.vertices() {
                    let gone = |into: bool| {
                        let edges = data.topology.listed().into_iter();
                        edges
                            .filter(|e| u32::from(e.kind) < plain.relations().max(1))
                            .filter(|e| v == if into { e.target } else { e.source })
                            .filter(|e| of.lacks.contains(&(e.source, e.target)))
                            .count()
                    };
                    assert_eq!(left_out.into(v).len(), gone(true), "{case}");
                    assert_eq!(left_out.out_of(v) as usize, gone(false), "{case}");
                }
                lacking += of.lacks.len();
                let known = Pairs::of(&data).unwrap();
                for v in own.iter().filter(|v| negative(**v).is_some()) {
                    let found = known.negative(&plain, negatives, at, *v).unwrap();
                    drawn += 1;
                    let (u, w) = (found.ends.source, found.ends.target);
                    assert_eq!(found.is_link, u == w || is_link(u, w));
                    linked += u32::from(found.is_link);
                }
            }
        }
    }
    assert!(lacking > 1000 && drawn > 1000, "{lacking} {drawn}");
    // Small graphs are dense, so some draws fail.
    assert!(
        linked > 10 && ordered_graphs > 50,
        "{linked} {ordered_graphs}"
    );
}

/// Ends are drawn from all vertices alike, and differ from step to step.
#[test]
fn drawn_ends_are_uniform() {
    let edges = (0..50u32).flat_map(|v| [(v, (v + 1) % 50), ((v + 1) % 50, v)]);
    let data = GraphData::new("ring", Topology::from_edges(50, edges).unwrap().0);
    let pair = |is_link| Pair {
        source: 3,
        target: 4,
        is_link: Some(is_link),
        split: Some(0),
    };
    let data = with_given(&data, &[pair(true), pair(false)]).unwrap();
    let plain = data.topology.only(EdgeSet::Plain);
    let pairs = Pairs::of(&data).unwrap();
    let mut counts = [0u32; 50];
    for step in 0..20_000 {
        let found = pairs
            .negative(&plain, Negatives::Fresh, (1, step), 51)
            .unwrap();
        let (u, v) = (found.ends.source, found.ends.target);
        assert!(u < v && !found.is_link && v != u + 1 && (u, v) != (0, 49));
        counts[u as usize] += 1;
        counts[v as usize] += 1;
        let kept = pairs
            .negative(&plain, Negatives::Targets, (1, step), 51)
            .unwrap();
        assert_eq!(kept.ends.source, 3);
    }
    let expected = 40_000.0 / 50.0;
    let off: f64 = counts
        .iter()
        .map(|n| (f64::from(*n) - expected).powi(2) / expected)
        .sum();
    // 49 degrees of freedom: above 85.4 once in a thousand.
    assert!(off < 85.4, "{off}");
    assert!(
        pairs
            .negative(&plain, Negatives::Fresh, (1, 0), 50)
            .is_none()
    );
    assert!(
        pairs
            .negative(&plain, Negatives::Given, (1, 0), 51)
            .is_none()
    );
}
