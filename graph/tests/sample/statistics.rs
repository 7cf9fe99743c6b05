//! The distribution of what is drawn.

use crate::rule;
use gnnc_graph::Topology;
use gnnc_graph::generate::Rmat;
use gnnc_graph::sample::{Blocks, Fanout, Kind, Rule, Sampler};
use std::collections::BTreeMap;

/// Every three of seven edges are drawn equally often.
#[test]
fn all_sets_of_positions_are_equally_likely() {
    let (topology, _) = Topology::from_edges(8, (1..8).map(|u| (u, 0))).unwrap();
    for kind in [Kind::Neighbor, Kind::Labor] {
        let mut sampler = Sampler::new(&topology, &rule(kind, &[3], 0), 1).unwrap();
        let mut blocks = Blocks::default();
        let mut counts = BTreeMap::new();
        for step in 0..100_000 {
            sampler.sample(&[0], step, &mut blocks).unwrap();
            *counts.entry(blocks.layer(1).positions.clone()).or_insert(0) += 1;
        }
        let expected = 100_000.0 / 35.0;
        let squares = counts
            .values()
            .map(|n| (f64::from(*n) - expected).powi(2) / expected);
        let chi: f64 = squares.sum();
        assert_eq!(counts.len(), 35);
        // 34 degrees of freedom: below 66 with probability 0.999.
        assert!(chi < 66.0, "{kind:?}: {chi}");
    }
}

/// The means over many steps of sampled means and of scaled sums are the whole graph's.
#[test]
fn estimators_are_unbiased() {
    const STEPS: u32 = 2000;
    let rmat = Rmat {
        vertices: 100,
        edges: 1600,
        symmetric: false,
        ..Rmat::default()
    };
    let topology = rmat.generate().unwrap().topology;
    let value = |u: u32| f64::from(u * u % 101) - 50.0;
    let seeds: Vec<u32> = (0..100).collect();
    for kind in [Kind::Neighbor, Kind::Labor] {
        let mut sampler = Sampler::new(&topology, &rule(kind, &[4], 1), 1).unwrap();
        let mut blocks = Blocks::default();
        // Sums and sums of squares of both estimators.
        let mut found = vec![[0.0f64; 4]; seeds.len()];
        for step in 0..STEPS {
            sampler.sample(&seeds, step, &mut blocks).unwrap();
            let layer = blocks.layer(1);
            for (row, found) in found.iter_mut().enumerate() {
                let ends = layer.edges.row(row);
                let sum: f64 = ends
                    .iter()
                    .map(|u| value(blocks.level(0)[*u as usize]))
                    .sum();
                let mean = sum / ends.len().max(1) as f64;
                let sum = sum * f64::from(layer.scales[row]);
                let both = [mean, mean * mean, sum, sum * sum];
                found
                    .iter_mut()
                    .zip(both)
                    .for_each(|(total, x)| *total += x);
            }
        }
        let mut sampled = 0;
        for (v, found) in (0..).zip(found) {
            let neighbors = topology.in_neighbours(v);
            let sum: f64 = neighbors.iter().map(|u| value(*u)).sum();
            let mean = sum / neighbors.len().max(1) as f64;
            sampled += u32::from(neighbors.len() > 4);
            for (truth, total, squares) in [(mean, found[0], found[1]), (sum, found[2], found[3])] {
                let steps = f64::from(STEPS);
                let average = total / steps;
                let variance = (squares / steps - average * average).max(0.0);
                let error = (variance / steps).sqrt();
                let wrong = (average - truth).abs();
                assert!(
                    wrong <= 4.0 * error + 1e-4,
                    "{kind:?}, vertex {v}: {average}, expected {truth}, standard error {error}"
                );
            }
        }
        assert!(sampled > 50, "{sampled} vertices have more than 4 edges");
    }
}

/// With edge types, every edge has a scale of its own, over the edges of its type.
#[test]
fn scales_of_typed_edges_count_edges_of_their_type() {
    // Three edges of type 0 and two of type 1 into vertex 0.
    let edges = [(1, 0, 0), (2, 0, 0), (3, 0, 0), (1, 0, 1), (4, 0, 1)];
    let (topology, _) = Topology::typed(5, 2, edges).unwrap();
    let rule = Rule::new(Kind::Neighbor, vec![Fanout::Types(vec![2, 1])], 0).unwrap();
    let blocks = crate::sampled(&topology, &rule, &[0], 0);
    let layer = blocks.layer(1);
    let types = topology.types_into(0);
    let kinds: Vec<u16> = layer.positions.iter().map(|p| types[*p as usize]).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == 0).count(), 2);
    let expected: Vec<f32> = kinds.iter().map(|k| [1.5, 2.0][usize::from(*k)]).collect();
    assert_eq!(layer.scales, expected);
    assert_eq!(layer.degrees, [5]);
}
