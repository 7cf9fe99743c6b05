//! How fast batches are sampled, beside the least time that random accesses to memory allow.
//!
//! `cargo bench -p gnnc-graph --bench sample [-- FILTER]` prints medians over batches of 1000 seeds
//! with fanouts 25 and 10 on two random graphs (R-MAT): one in the cache, one beyond it. FILTER is
//! a part of a line's name, such as `large neighbor`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use gnnc_graph::Topology;
use gnnc_graph::generate::Rmat;
use gnnc_graph::sample::{ALL, Batches, Blocks, Cut, Fanout, Kind, Rule, Sampler};
use gnnc_ir::kernel::mix32;
use std::hint::black_box;
use std::time::Instant;

/// Seeds of a batch.
const SEEDS: u32 = 1000;
/// Timed batches of a line.
const BATCHES: u32 = 41;

/// A random graph.
struct Graph {
    name: &'static str,
    vertices: u32,
    edges: u64,
}

const GRAPHS: [Graph; 2] = [
    Graph {
        name: "small",
        vertices: 170_000,
        edges: 2_300_000,
    },
    Graph {
        name: "large",
        vertices: 2_400_000,
        edges: 100_000_000,
    },
];

const LINES: [(&str, Kind, [u32; 2], usize); 6] = [
    ("neighbor", Kind::Neighbor, [25, 10], 1),
    ("neighbor, 2 threads", Kind::Neighbor, [25, 10], 2),
    ("labor", Kind::Labor, [25, 10], 1),
    ("labor, 2 threads", Kind::Labor, [25, 10], 2),
    ("full", Kind::Full, [ALL, ALL], 1),
    ("full, 2 threads", Kind::Full, [ALL, ALL], 2),
];

fn main() {
    // Cargo passes `--bench`.
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let filter = filter.unwrap_or_default();
    for graph in GRAPHS {
        let lines = LINES
            .iter()
            .map(|line| (format!("{} {}", graph.name, line.0), line));
        let lines: Vec<_> = lines.filter(|(name, _)| name.contains(&filter)).collect();
        if lines.is_empty() {
            continue;
        }
        let rmat = Rmat {
            vertices: graph.vertices,
            edges: graph.edges,
            ..Rmat::default()
        };
        let topology = rmat.generate().unwrap().topology;
        println!(
            "{}: {} vertices, {} edges",
            graph.name,
            topology.vertices(),
            topology.edges()
        );
        let bound = bound(&topology);
        println!(
            "  two random reads an edge: {:.0} M edges/s and core",
            bound / 1e6
        );
        for (name, (_, kind, fanouts, threads)) in lines {
            let fanouts = fanouts.map(Fanout::Each).to_vec();
            let rule = Rule::new(*kind, fanouts, 0).unwrap();
            measure(&name, &topology, &rule, *threads, bound);
        }
    }
}

fn measure(name: &str, topology: &Topology, rule: &Rule, threads: usize, bound: f64) {
    let all = (0..topology.vertices()).collect();
    let batches = Batches::new(all, SEEDS, Cut::Even, 0).unwrap();
    let epoch = batches.epoch(0).unwrap();
    let mut sampler = Sampler::new(topology, rule, threads).unwrap();
    let mut blocks = Blocks::default();
    let mut times = Vec::new();
    let (mut edges, mut vertices) = (0, 0);
    // The first batches warm up the cache and the buffers.
    for batch in 0..BATCHES + 5 {
        let start = Instant::now();
        let seeds = epoch.seeds(batch);
        sampler
            .sample(seeds, epoch.step(batch), &mut blocks)
            .unwrap();
        if batch >= 5 {
            times.push(start.elapsed().as_secs_f64() / blocks.edges() as f64);
            edges += blocks.edges();
            vertices += blocks.level(0).len();
        }
    }
    times.sort_by(f64::total_cmp);
    let rate = 1.0 / times[times.len() / 2];
    println!(
        "  {name:<28} {:>9} edges, {:>8} vertices a batch {:>7.1} M edges/s  {:>4.1} x bound",
        edges / u64::from(BATCHES),
        vertices / BATCHES as usize,
        rate / 1e6,
        bound * threads as f64 / rate,
    );
}

/// Edges a second of one core if an edge is a read of a random place in the topology and one in a
/// table of the vertices.
fn bound(topology: &Topology) -> f64 {
    let numbers: Vec<u32> = (0..topology.vertices()).collect();
    let reads = 4_000_000;
    let seconds = |elements: &[u32]| {
        let start = Instant::now();
        let mut sum = 0u32;
        for i in 0..reads {
            let place = (u64::from(mix32(i)) * elements.len() as u64) >> 32;
            sum = sum.wrapping_add(elements[place as usize]);
        }
        black_box(sum);
        start.elapsed().as_secs_f64()
    };
    // The first round warms up.
    let times = [(); 5].map(|()| seconds(topology.indices()) + seconds(&numbers));
    let best = times.into_iter().fold(f64::INFINITY, f64::min);
    f64::from(reads) / best
}
