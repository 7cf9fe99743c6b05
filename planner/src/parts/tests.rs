//! The data of ranks, depending on what is known of a graph.

use super::*;
use std::collections::BTreeMap;

pub(crate) fn workload(vertices: u64, edges: u64) -> Workload {
    Workload {
        edge_sets: Vec::new(),
        name: "w".to_owned(),
        origin: Origin::Declared,
        vertices,
        edges,
        features: 16,
        feature_nonzeros: vertices * 16,
        identity_features: false,
        column_nonzeros: Vec::new(),
        classes: 4,
        vertex_types: 0,
        relations: 0,
        edge_features: 0,
        split: [0; 3],
        max_degree: 0,
        max_out_degree: 0,
        degree_histogram: Vec::new(),
        reuse: Vec::new(),
        replication: BTreeMap::new(),
        partitions: BTreeMap::new(),
    }
}

fn alpha(w: &Workload, ranks: u32) -> f64 {
    parts(w, ranks, Partitioner::Metis).unwrap().alpha
}

#[test]
fn shares_add_up() {
    let estimated = Partitioner::ALL.iter().filter(|p| !p.reads_hops());
    for partitioner in estimated {
        for ranks in [1, 2, 3, 7, 64, 1000] {
            let w = workload(1003, 50_021);
            let p = parts(&w, ranks, *partitioner).unwrap();
            let total = |f: fn(&RankSizes) -> u64| p.sizes.iter().map(f).sum::<u64>();
            assert_eq!(p.sizes.len(), ranks as usize);
            assert_eq!((total(|s| s.inner), total(|s| s.edges)), (1003, 50_021));
            assert_eq!(total(|s| s.feature_nonzeros), 1003 * 16);
            assert_eq!(total(|s| s.halo), (p.alpha * 1003.0).round() as u64);
            let worst = p.sizes.iter().map(|s| s.edges).max().unwrap() as f64;
            let wanted = p.edge_imbalance * 50_021.0 / f64::from(ranks);
            assert!((worst - wanted).abs() <= 1.0, "{worst} {wanted}");
        }
    }
}

#[test]
fn declared_replication_is_interpolated() {
    let mut w = workload(232_965, 114_615_892);
    w.replication = BTreeMap::from([(2, 0.96), (4, 1.95), (8, 2.61)]);
    assert_eq!(alpha(&w, 4), 1.95);
    let two_to_four = 0.96 + (1.95 - 0.96) * 1.5f64.ln() / 2f64.ln();
    assert!((alpha(&w, 3) - two_to_four).abs() < 1e-12);
    assert!((alpha(&w, 16) - (2.61 + 0.66)).abs() < 1e-12);
    assert_eq!(
        parts(&w, 16, Partitioner::Metis).unwrap().alpha_basis,
        AlphaBasis::Interpolated
    );
    // Declared values say nothing about random parts.
    let hash = parts(&w, 8, Partitioner::Hash).unwrap();
    assert!(hash.alpha > 6.9 && hash.alpha_basis == AlphaBasis::Estimated);
}

#[test]
fn replication_never_exceeds_its_bounds() {
    let mut w = workload(1000, 2000);
    w.replication = BTreeMap::from([(2, 0.99)]);
    assert!(alpha(&w, 64) <= 2.0);
    w.replication = BTreeMap::from([(2, f64::NAN), (0, 3.0), (1, 3.0), (4, -1.0)]);
    assert_eq!(alpha(&w, 4), 0.0);
    for ranks in 2..40 {
        assert!((0.0..=f64::from(ranks - 1)).contains(&alpha(&w, ranks)));
    }
}

/// Degree histograms of two real graphs, and the replication of random parts computed from their
/// exact degrees.
#[test]
fn the_histogram_is_enough_for_random_parts() {
    let mut w = workload(2708, 10_556);
    w.max_degree = 168;
    w.degree_histogram = vec![0, 485, 1136, 883, 157, 35, 8, 3, 1];
    for (ranks, exact) in [(2, 0.818), (4, 1.715), (8, 2.475), (16, 3.022)] {
        let found = parts(&w, ranks, Partitioner::Hash).unwrap().alpha;
        assert!(
            (found / exact - 1.0).abs() < 0.013,
            "{ranks}: {found} {exact}"
        );
    }
}

/// Edges of the largest part over the mean, METIS with seed 0 (`gnnc graph stats --parts 2,8,64`).
/// The estimate from the histogram is within a factor of 2.3, and no more than the largest degrees
/// allow.
#[test]
fn edges_of_metis_parts_are_estimated_from_the_histogram() {
    type Counted<'a> = (u64, u64, u64, &'a [u64], [f64; 3]);
    let graphs: [Counted; 2] = [
        (
            2708,
            10_556,
            168,
            &[0, 485, 1136, 883, 157, 35, 8, 3, 1],
            [1.07, 1.16, 2.04],
        ),
        (10_000, 78_804, 8, &[0, 0, 4, 392, 9604], [1.0, 1.01, 1.02]),
    ];
    for (vertices, edges, largest, histogram, counted) in graphs {
        let mut w = workload(vertices, edges);
        w.origin = Origin::Measured;
        (w.max_degree, w.degree_histogram) = (largest, histogram.to_vec());
        for (ranks, counted) in [2, 8, 64].into_iter().zip(counted) {
            let found = parts(&w, ranks, Partitioner::Metis).unwrap().edge_imbalance;
            let off = (found / counted).max(counted / found);
            assert!(
                off < 2.3,
                "{vertices}, {ranks} parts: {found}, counted {counted}"
            );
        }
        let balanced = parts(&w, 8, Partitioner::MetisEdges).unwrap();
        assert!(balanced.edge_imbalance <= 1.05);
    }
    // A made-up tail must not make up parts.
    let mut w = workload(232_965, 114_615_892);
    w.max_degree = 21_657;
    w.degree_histogram = vec![
        0, 60_000, 50_000, 40_000, 30_000, 20_000, 10_000, 8_000, 6_000, 3_000,
    ];
    w.degree_histogram
        .extend([2_000, 1_500, 1_000, 800, 500, 165]);
    assert_eq!(w.degree_histogram.iter().sum::<u64>(), w.vertices);
    let found = parts(&w, 8, Partitioner::Metis).unwrap();
    assert_eq!(found.edge_imbalance, 1.0 + 0.16 * 1.5 * 3.0);
    assert_eq!(found.edge_imbalance_basis, AlphaBasis::Estimated);
}

#[test]
fn measured_partitions_are_taken_as_they_are() {
    let mut w = workload(8, 20);
    w.origin = Origin::Measured;
    let load = |halo, edges| gnnc_ir::workload::PartLoad {
        named_edges: Default::default(),
        inner: 4,
        halo,
        edges,
        train: 0,
        val: 0,
        test: 0,
        feature_nonzeros: 64,
        reach: None,
    };
    let summary = PartitionSummary {
        groups: Vec::new(),
        partitioner: "metis".to_owned(),
        alpha: 0.375,
        parts: vec![load(2, 10), load(1, 10)],
        messages: vec![vec![0, 1], vec![2, 0]],
        nodes: Vec::new(),
        cover: None,
        both_ends: None,
    };
    w.add_partition(2, summary);
    let p = parts(&w, 2, Partitioner::Metis).unwrap();
    assert_eq!(
        (p.alpha, p.alpha_basis, p.basis, p.halo_rows()),
        (0.375, AlphaBasis::Measured, Basis::Measured, 3)
    );
    assert_eq!(p.messages, Messages::Matrix(vec![vec![0, 1], vec![2, 0]]));
    let hash = parts(&w, 2, Partitioner::Hash).unwrap();
    assert_eq!(
        (hash.alpha_basis, hash.basis),
        (AlphaBasis::Estimated, Basis::Declared)
    );
    if let Some(known) = w.partitions.get_mut(&2) {
        known[0].parts.pop();
    }
    assert!(matches!(
        parts(&w, 2, Partitioner::Metis),
        Err(PartsError::Inconsistent { loads: 1, .. })
    ));
}

#[test]
fn impossible_numbers_of_ranks_are_refused() {
    assert_eq!(
        parts(&workload(5, 4), 0, Partitioner::Hash),
        Err(PartsError::NoRanks)
    );
    let message = parts(&workload(5, 4), 6, Partitioner::Hash)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("found 6 ranks for a graph of 5 vertices"),
        "{message}"
    );
}

/// No formula says how labeled vertices lie in a graph.
#[test]
fn blocks_are_never_estimated() {
    let mut w = workload(1003, 50_021);
    let message = parts(&w, 4, Partitioner::Blocks).unwrap_err().to_string();
    assert!(
        message.contains("partitioner blocks needs the graph"),
        "{message}"
    );
    assert_eq!(parts(&w, 1, Partitioner::Blocks).unwrap().alpha, 0.0);
    w.add_partition(
        4,
        PartitionSummary {
            groups: Vec::new(),
            partitioner: "blocks".to_owned(),
            alpha: 0.5,
            parts: vec![gnnc_ir::workload::PartLoad::default(); 4],
            messages: Vec::new(),
            nodes: Vec::new(),
            cover: None,
            both_ends: None,
        },
    );
    assert_eq!(parts(&w, 4, Partitioner::Blocks).unwrap().alpha, 0.5);
}

/// Each part of a complete graph reads all other vertices, whatever METIS does.
#[test]
fn dense_graphs_are_replicated_as_much_as_their_degrees_force() {
    let complete = workload(64, 64 * 63);
    assert_eq!(alpha(&complete, 8), 8.0 * 63.0 / 64.0 - 1.0);
    // An interpolated factor is no less.
    let mut known = complete.clone();
    known.replication = BTreeMap::from([(2, 0.5)]);
    assert_eq!(alpha(&known, 8), 8.0 * 63.0 / 64.0 - 1.0);
    // What was declared stays.
    assert_eq!(alpha(&known, 2), 0.5);
    // Sparse graphs are not concerned.
    assert!(alpha(&workload(1003, 5_021), 8) < 1.0);
}

/// Chunks of a pipeline read what parts of a METIS partition do: fewer rows the more there are, and never fewer than
/// their own.
#[test]
fn chunks_read_what_parts_do() {
    let mut w = workload(232_965, 114_615_892);
    w.replication = BTreeMap::from([(2, 0.96), (8, 2.61)]);
    let reads = parts(&w, 4, Partitioner::Metis).unwrap().reads;
    assert_eq!(reads.of(1), 1.0);
    assert!((reads.of(8) - 3.61 / 8.0).abs() < 1e-12);
    let shares: Vec<f64> = (1..300).map(|k| reads.of(k)).collect();
    assert!(shares.windows(2).all(|pair| pair[1] <= pair[0] + 1e-12));
    assert!(
        (1..300)
            .zip(&shares)
            .all(|(k, share)| *share >= 1.0 / f64::from(k) - 1e-12)
    );
    assert!(reads.of(u32::MAX) > 0.0);
    assert_eq!(ReadShares::default().of(64), 1.0);
}
