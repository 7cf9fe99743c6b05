//! The sampler against the naive one, on random graphs, with and without edge types.

use crate::naive::{self, Way};
use gnnc_graph::Topology;
use gnnc_graph::generate::Rmat;
use gnnc_graph::rng::Stream;
use gnnc_graph::sample::{ALL, Blocks, Fanout, Kind, Rule, Sampler};

const WAYS: [(Kind, Way); 3] = [
    (Kind::Neighbor, Way::Neighbor),
    (Kind::Labor, Way::Labor),
    (Kind::Full, Way::Full),
];

/// Random numbers, one after another.
pub struct Numbers(pub Stream, pub u64);

impl Numbers {
    pub fn below(&mut self, limit: u32) -> u32 {
        self.1 += 1;
        Stream::below(self.0.bits(self.1), u64::from(limit)) as u32
    }
}

pub fn random_graph(numbers: &mut Numbers) -> Topology {
    let vertices = 1 + numbers.below(40);
    let edges = numbers.below(12 * vertices);
    let relations = [0, 0, 1, 3][numbers.below(4) as usize];
    let mut edge = || (numbers.below(vertices), numbers.below(vertices));
    match relations {
        0 => {
            let edges: Vec<_> = (0..edges).map(|_| edge()).collect();
            Topology::from_edges(vertices, edges).unwrap().0
        }
        _ => {
            let ends: Vec<_> = (0..edges).map(|_| edge()).collect();
            let edges = ends
                .into_iter()
                .map(|(u, v)| (u, v, numbers.below(relations) as u16));
            let edges: Vec<_> = edges.collect();
            Topology::typed(vertices, relations, edges).unwrap().0
        }
    }
}

/// Compares one batch, drawn by each of the samplers, with the naive one.
fn compare(
    topology: &Topology,
    way: Way,
    fanouts: &[Vec<u32>],
    seed: u64,
    step: u32,
    seeds: &[u32],
    samplers: &mut [Sampler<&Topology>],
) {
    let (ids, sizes, expected) = naive::blocks(topology, way, fanouts, seed, step, seeds);
    let hops = fanouts.len();
    for sampler in samplers {
        let mut blocks = Blocks::default();
        sampler.sample(seeds, step, &mut blocks).unwrap();
        assert_eq!(blocks.layers(), hops);
        for (hop, expected) in expected.iter().enumerate() {
            let layer = blocks.layer(hops - hop);
            assert_eq!(layer.edges.indptr, expected.offsets);
            assert_eq!(layer.positions, expected.positions);
            assert_eq!(layer.edges.indices, expected.ends);
            assert_eq!(layer.degrees, expected.degrees);
            assert_eq!(blocks.level(hops - hop), &ids[..sizes[hop]]);
        }
        assert_eq!(blocks.level(0), ids);
        let edges: usize = expected.iter().map(|block| block.ends.len()).sum();
        assert_eq!(blocks.edges(), edges as u64);
    }
}

#[test]
fn a_thousand_random_graphs_are_sampled_as_the_naive_sampler_does() {
    let mut typed = 0;
    for case in 0..1000u64 {
        let numbers = &mut Numbers(Stream::new(case, 77), 0);
        let topology = random_graph(numbers);
        typed += u32::from(topology.relations() > 0);
        let (kind, way) = WAYS[case as usize % 3];
        let types = topology.relations().max(1) as usize;
        let hops = 1 + numbers.below(3);
        let mut fanouts = Vec::new();
        let mut by_hop = Vec::new();
        for _ in 0..hops {
            let each = numbers.below(2) == 0;
            let same = numbers.below(7);
            let of_types: Vec<u32> = (0..types)
                .map(|_| if each { same } else { numbers.below(7) })
                .collect();
            let fanout = match (kind, topology.relations()) {
                (Kind::Full, _) => Fanout::Each(ALL),
                (_, 0) => Fanout::Each(of_types[0]),
                _ if each => Fanout::Each(same),
                _ => Fanout::Types(of_types.clone()),
            };
            fanouts.push(fanout);
            by_hop.push(of_types);
        }
        let seed = u64::from(numbers.below(5));
        let rule = Rule::new(kind, fanouts, seed).unwrap();
        let threads = if case % 10 == 0 { vec![1, 3] } else { vec![1] };
        let mut samplers: Vec<Sampler<&Topology>> = threads
            .iter()
            .map(|threads| Sampler::new(&topology, &rule, *threads).unwrap())
            .collect();
        // Several batches, so that numbers of an earlier one would show.
        for step in 0..3 {
            let order = Stream::new(case, step).permutation(topology.vertices());
            let seeds = &order[..numbers.below(topology.vertices() + 1) as usize];
            let step = step as u32 * 1000;
            compare(&topology, way, &by_hop, seed, step, seeds, &mut samplers);
        }
    }
    assert!(typed > 300, "{typed} graphs have typed edges");
}

/// Fanouts of all sizes on a vertex with many edges, which are drawn in three ways.
#[test]
fn large_degrees_are_sampled_as_the_naive_sampler_does() {
    for degree in [63u32, 64, 65, 128, 1000, 5000] {
        let edges = (1..=degree).map(|u| (u, 0));
        let (topology, _) = Topology::from_edges(degree + 1, edges).unwrap();
        for fanout in [1, 2, 15, 16, 62, 64, 127, 900, 1024, 1025, 4999] {
            for (kind, way) in &WAYS[..2] {
                let rule = Rule::new(*kind, vec![Fanout::Each(fanout)], 9).unwrap();
                let mut samplers = [Sampler::new(&topology, &rule, 1).unwrap()];
                for step in 0..5 {
                    let fanouts = [vec![fanout]];
                    compare(&topology, *way, &fanouts, 9, step, &[0], &mut samplers);
                }
            }
        }
    }
}

#[test]
fn threads_do_not_matter() {
    let rmat = Rmat {
        vertices: 20_000,
        edges: 400_000,
        ..Rmat::default()
    };
    let topology = rmat.generate().unwrap().topology;
    let seeds = Stream::new(5, 5).permutation(20_000);
    for kind in Kind::ALL.iter().copied() {
        let fanouts = match kind {
            Kind::Full => [ALL, ALL],
            Kind::Neighbor | Kind::Labor => [10, 5],
        };
        let rule = Rule::new(kind, fanouts.map(Fanout::Each).to_vec(), 3).unwrap();
        let mut alone = Sampler::new(&topology, &rule, 1).unwrap();
        let mut expected = Blocks::default();
        for threads in [2, 3, 8] {
            let mut sampler = Sampler::new(&topology, &rule, threads).unwrap();
            let mut blocks = Blocks::default();
            for (step, seeds) in (0..).zip(seeds.chunks(1500).take(4)) {
                alone.sample(seeds, step, &mut expected).unwrap();
                sampler.sample(seeds, step, &mut blocks).unwrap();
                assert!(
                    blocks == expected,
                    "{kind:?}, {threads} threads, step {step}"
                );
            }
        }
    }
}

/// A block restricted to what one seed reaches is that seed's block, apart from the numbers.
#[test]
fn other_seeds_do_not_matter() {
    let topology = Rmat::default().generate().unwrap().topology;
    for kind in [Kind::Neighbor, Kind::Labor] {
        let rule = crate::rule(kind, &[4, 3], 1);
        let seeds: Vec<u32> = (0..100).collect();
        let all = crate::sampled(&topology, &rule, &seeds, 7);
        for (row, seed) in seeds.iter().enumerate() {
            let one = crate::sampled(&topology, &rule, &[*seed], 7);
            // The first rows to compare, then the rows that these read.
            let mut rows = vec![(row as u32, 0)];
            for layer in [2, 1] {
                let ids = |blocks: &Blocks, ends: &[u32]| -> Vec<u32> {
                    ends.iter()
                        .map(|u| blocks.level(layer - 1)[*u as usize])
                        .collect()
                };
                let mut next = rows.clone();
                for (in_all, in_one) in rows {
                    let ends = all.layer(layer).edges.row(in_all as usize);
                    let ends_of_one = one.layer(layer).edges.row(in_one as usize);
                    assert_eq!(ids(&all, ends), ids(&one, ends_of_one));
                    next.extend(ends.iter().copied().zip(ends_of_one.iter().copied()));
                }
                rows = next;
            }
        }
    }
}
