//! Estimated sizes beside counted ones.

use crate::rule;
use gnnc_graph::Topology;
use gnnc_graph::example::g8;
use gnnc_graph::generate::Rmat;
use gnnc_graph::sample::{
    ALL, Batches, Blocks, Cut, Degrees, Estimate, Fanout, Kind, Rule, Sampler, by_degrees, by_edges,
};
use gnnc_graph::{GraphData, summarise};

fn close(found: &[f64], expected: &[f64], within: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() <= within,
            "{found}, expected {expected}"
        );
    }
}

#[test]
fn inclusion_probabilities_of_g8_are_these() {
    let topology = g8().topology;
    let mut included = [0.25; 8];
    let one = by_edges(&topology, &rule(Kind::Neighbor, &[2], 0), &mut included).unwrap();
    close(
        &included,
        &[
            0.5312, 0.5312, 0.6484, 0.5660, 0.6094, 0.6094, 0.5312, 0.5312,
        ],
        5e-5,
    );
    close(&one.vertices, &[2.0, 4.5582], 5e-5);
    let mut included = [0.25; 8];
    let two = by_edges(&topology, &rule(Kind::Neighbor, &[2, 2], 0), &mut included).unwrap();
    close(
        &included,
        &[
            0.8753, 0.8753, 0.9519, 0.9131, 0.9323, 0.9323, 0.8695, 0.8695,
        ],
        5e-5,
    );
    close(&two.edges, &[4.0, 9.1163], 5e-5);
    close(&two.vertices, &[2.0, 4.5582, 7.2192], 5e-5);
}

/// Means over an epoch, in which every vertex is a seed once.
fn counted(topology: &Topology, rule: &Rule, size: u32) -> Estimate {
    let all = (0..topology.vertices()).collect();
    let batches = Batches::new(all, size, Cut::Even, 1).unwrap();
    let epoch = batches.epoch(0).unwrap();
    let mut sampler = Sampler::new(topology, rule, 1).unwrap();
    let mut blocks = Blocks::default();
    let hops = rule.hops();
    let mut mean = Estimate {
        vertices: vec![0.0; hops + 1],
        edges: vec![0.0; hops],
        included: Vec::new(),
    };
    let count = batches.count();
    for batch in 0..count {
        sampler
            .sample(epoch.seeds(batch), batch, &mut blocks)
            .unwrap();
        for (hop, mean) in mean.vertices.iter_mut().enumerate() {
            *mean += blocks.level(hops - hop).len() as f64 / f64::from(count);
        }
        for (hop, mean) in mean.edges.iter_mut().enumerate() {
            *mean += blocks.layer(hops - hop).edges.indices.len() as f64 / f64::from(count);
        }
    }
    mean
}

/// Expects each level and layer within a factor.
fn within(found: &Estimate, counted: &Estimate, factors: &[f64]) {
    let hops = counted.edges.len();
    for hop in 0..hops {
        let pairs = [
            (found.edges[hop], counted.edges[hop]),
            (found.vertices[hop + 1], counted.vertices[hop + 1]),
        ];
        for (found, counted) in pairs {
            let off = (found / counted - 1.0).abs();
            assert!(
                off <= factors[hop],
                "hop {}: {found}, counted {counted}",
                hop + 1
            );
        }
    }
}

#[test]
fn estimates_are_near_what_is_counted() {
    let rmat = Rmat {
        vertices: 20_000,
        edges: 300_000,
        ..Rmat::default()
    };
    let data = rmat.generate().unwrap();
    let workload = summarise(&data, &[]).unwrap();
    let degrees = Degrees::of(&workload);
    let edges: f64 = degrees
        .classes
        .iter()
        .map(|class| class.vertices * class.into)
        .sum();
    assert!((edges - 300_000.0).abs() < 1.0, "{edges}");
    for kind in Kind::ALL.iter().copied() {
        let fanouts = if kind == Kind::Full {
            [ALL; 2]
        } else {
            [10, 5]
        };
        let rule = rule(kind, &fanouts, 0);
        let counted = counted(&data.topology, &rule, 500);
        let mut included = vec![500.0 / 20_000.0; 20_000];
        let exact = by_edges(&data.topology, &rule, &mut included).unwrap();
        within(&exact, &counted, &[0.02, 0.15]);
        let rough = by_degrees(&degrees, 500.0, &rule);
        within(&rough, &counted, &[0.1, 0.2]);
        assert_eq!(rough.vertices[0], 500.0);
    }
}

/// With types, each type of edges into a vertex has its own fanout.
#[test]
fn types_are_estimated_on_their_own() {
    let edges = (0..3000u32).map(|i| (i % 97, i % 89 + 5, (i % 3) as u16));
    let (topology, _) = Topology::typed(100, 3, edges).unwrap();
    let rule = Rule::new(
        Kind::Neighbor,
        vec![Fanout::Types(vec![1, 0, 3]), Fanout::Each(2)],
        0,
    )
    .unwrap();
    let counted = counted(&topology, &rule, 5);
    let mut included = vec![0.05; 100];
    let found = by_edges(&topology, &rule, &mut included).unwrap();
    within(&found, &counted, &[0.05, 0.1]);
    let untyped = by_edges(&g8().topology, &rule, &mut [0.5; 8]);
    assert!(untyped.is_err(), "fanouts by type need types");
}

#[test]
fn graphs_without_edges_have_levels_of_seeds() {
    let (topology, _) = Topology::from_edges(10, []).unwrap();
    let rule = rule(Kind::Labor, &[2, 2], 0);
    let found = by_edges(&topology, &rule, &mut [0.5; 10]).unwrap();
    close(&found.vertices, &[5.0; 3], 1e-12);
    close(&found.edges, &[0.0; 2], 1e-12);
    let workload = summarise(&GraphData::new("empty", topology), &[]).unwrap();
    let found = by_degrees(&Degrees::of(&workload), 5.0, &rule);
    close(&found.vertices, &[5.0; 3], 1e-12);
    let nothing = by_degrees(&Degrees::default(), 5.0, &rule);
    close(&nothing.vertices, &[0.0; 3], 0.0);
}
