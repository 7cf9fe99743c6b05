//! The blocks of G8, worked out by hand (seed 0, fanouts 2 and 2).

use crate::{rule, sampled};
use gnnc_graph::example::g8;
use gnnc_graph::sample::{Blocks, Kind};

/// The neighbors that each of the eight vertices keeps in a hop.
fn kept(kind: Kind, step: u32, hop: usize) -> Vec<Vec<u32>> {
    let topology = g8().topology;
    let all: Vec<u32> = (0..8).collect();
    let blocks = sampled(&topology, &rule(kind, &[2, 2], 0), &all, step);
    let layer = blocks.layer(3 - hop);
    let row = |v: usize| {
        let begin = layer.edges.indptr[v] as usize;
        let end = layer.edges.indptr[v + 1] as usize;
        let neighbors = topology.in_neighbours(v as u32);
        let positions = layer.positions[begin..end].iter();
        positions.map(|p| neighbors[*p as usize]).collect()
    };
    (0..8).map(row).collect()
}

#[test]
fn each_vertex_keeps_these_neighbors() {
    let (neighbor, labor) = (Kind::Neighbor, Kind::Labor);
    let table = [
        (neighbor, 0, 1, "12 02 13 45 56 47 47 56"),
        (neighbor, 0, 2, "12 02 13 25 56 47 47 56"),
        (neighbor, 1, 1, "12 02 13 25 35 47 47 56"),
        (neighbor, 1, 2, "12 02 13 24 35 37 47 56"),
        (labor, 0, 1, "12 02 01 45 56 47 47 56"),
        (labor, 0, 2, "12 02 13 24 36 37 47 56"),
    ];
    for (kind, step, hop, expected) in table {
        let digits = |row: Vec<u32>| row.iter().map(u32::to_string).collect::<String>();
        let found: Vec<String> = kept(kind, step, hop).into_iter().map(digits).collect();
        assert_eq!(
            found.join(" "),
            expected,
            "{kind:?}, step {step}, hop {hop}"
        );
    }
}

/// Levels 1 and 0, then offsets and places of layers 2 and 1.
fn text(blocks: &Blocks) -> String {
    let numbers = |numbers: &[u32]| {
        let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
        words.join(" ")
    };
    let layer = |layer: usize| {
        let edges = &blocks.layer(layer).edges;
        let offsets: Vec<u32> = edges.indptr.iter().map(|o| *o as u32).collect();
        format!("{}; {}", numbers(&offsets), numbers(&edges.indices))
    };
    let levels = [1, 0].map(|level| numbers(blocks.level(level)));
    [&levels[0], &levels[1], &layer(2), &layer(1)]
        .map(String::as_str)
        .join(" | ")
}

#[test]
fn blocks_are_numbered_by_first_occurrence() {
    let table: [(&[u32], &str); 5] = [
        (
            &[3],
            "3 4 5 | 3 4 5 2 6 7 | 0 2; 1 2 | 0 2 4 6; 3 2 2 4 1 5",
        ),
        (&[0], "0 1 2 | 0 1 2 3 | 0 2; 1 2 | 0 2 4 6; 1 2 0 2 1 3"),
        (&[7], "7 5 6 | 7 5 6 4 | 0 2; 1 2 | 0 2 4 6; 1 2 3 0 3 0"),
        (
            &[0, 7],
            "0 7 1 2 5 6 | 0 7 1 2 5 6 3 4 | 0 2 4; 2 3 4 5 | 0 2 4 6 8 10 12; 2 3 4 5 0 3 2 6 7 1 7 1",
        ),
        (
            &[0, 1, 6, 7],
            "0 1 6 7 2 4 5 | 0 1 6 7 2 4 5 3 | 0 2 4 6 8; 1 4 0 4 5 3 6 2 | \
             0 2 4 6 8 10 12 14; 1 4 0 4 5 3 6 2 1 7 6 2 5 3",
        ),
    ];
    let topology = g8().topology;
    let rule = rule(Kind::Neighbor, &[2, 2], 0);
    for (seeds, expected) in table {
        let blocks = sampled(&topology, &rule, seeds, 0);
        assert_eq!(blocks.level(2), seeds);
        assert_eq!(text(&blocks), expected, "seeds {seeds:?}");
    }
}

/// The mean over sampled neighbors plus the vertex itself, twice; and the unbiased sum.
#[test]
fn values_of_seed_3_are_these() {
    let data = g8();
    let blocks = sampled(&data.topology, &rule(Kind::Neighbor, &[2, 2], 0), &[3], 0);
    let features = data.features.values();
    let mut rows: Vec<Vec<f32>> = blocks
        .level(0)
        .iter()
        .map(|v| features[*v as usize * 4..][..4].to_vec())
        .collect();
    let sources = rows.clone();
    let expected = [
        vec![
            vec![-0.5, -1.0, 2.0, -2.0],
            vec![1.5, 1.0, -3.0, 3.5],
            vec![-2.5, 4.0, 0.0, -0.5],
        ],
        vec![vec![-1.0, 1.5, 0.5, -0.5]],
    ];
    for (layer, expected) in (1..).zip(expected) {
        let edges = &blocks.layer(layer).edges;
        let mean = |row: usize| {
            let ends = edges.row(row);
            let value = |column: usize| {
                let sum: f32 = ends.iter().map(|u| rows[*u as usize][column]).sum();
                rows[row][column] + sum / ends.len() as f32
            };
            (0..4).map(value).collect::<Vec<f32>>()
        };
        rows = (0..edges.rows()).map(mean).collect();
        assert_eq!(rows, expected);
    }
    let layer = blocks.layer(2);
    assert_eq!((layer.degrees[0], layer.scales[0]), (3, 1.5));
    let ends = layer.edges.row(0).iter();
    let sum = |column: usize| {
        1.5 * ends
            .clone()
            .map(|u| sources[*u as usize][column])
            .sum::<f32>()
    };
    assert_eq!([0, 1, 2, 3].map(sum), [0.0, 4.5, -1.5, 3.0]);
}
