//! Properties of every estimate.

use crate::model::{HIDDEN, Shape, at, program, workload};
use gnnc_ir::cluster::{Basis, Cluster, Costs, Measured, SharedBy};
use gnnc_ir::plan::{AlphaBasis, Partitioner};
use gnnc_ir::program::instr;
use gnnc_ir::program::memory::layout;
use gnnc_ir::program::trace::{Phase, Resource};
use gnnc_ir::program::work::{GROUPS, MESSAGES, TERMS};
use gnnc_ir::program::{Buffer, BufferId, Capacity, Extent, Instr, Program, RankSizes, Role};
use gnnc_ir::words::units::{Bytes, Seconds};
use gnnc_planner::parts::{Messages, Parts, parts};
use gnnc_planner::simulate::{Estimate, SimulateError, bound, least_memory, simulate, timeline};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Instant;

pub const SHAPE: Shape = Shape {
    features: 32,
    hidden: 16,
    layers: 5,
    classes: 4,
};

/// Ranks and the rows that they read from each other.
pub fn measured(messages: Vec<Vec<u64>>, edges: &[u64]) -> Parts {
    let count = messages.len();
    let sizes = (0..count).map(|rank| RankSizes {
        max_degree: 40,
        inner: 5000,
        train: 5000,
        halo: messages.iter().map(|row| row[rank]).sum(),
        edges: edges[rank],
        feature_nonzeros: 5000 * 32,
        slice_nonzeros: 5000 * 32,
        vertices: 5000 * count as u64,
        all_edges: edges.iter().sum(),
        ..RankSizes::default()
    });
    Parts {
        groups: None,
        partitioner: Partitioner::Metis,
        sizes: sizes.collect(),
        messages: Messages::Matrix(messages),
        nodes: None,
        targets: None,
        cover: None,
        both_ends: None,
        alpha: 1.0,
        alpha_basis: AlphaBasis::Measured,
        alpha_spread: 1.0,
        reads: Default::default(),
        degrees: Default::default(),
        chunks: Default::default(),
        batch: None,
        edge_imbalance: 1.0,
        edge_imbalance_basis: AlphaBasis::Measured,
        basis: Basis::Measured,
    }
}

pub fn cluster(nodes: u32, per_node: u32) -> Cluster {
    Cluster::named("t4x1")
        .unwrap()
        .resized(Some(nodes * per_node), Some(nodes))
        .unwrap()
}

pub fn cost(program: &Program, cluster: &Cluster, parts: &Parts) -> Estimate {
    simulate(program, cluster, parts).unwrap()
}

/// Up to 2 nodes with 3 ranks each, and what they read from each other; some read nothing.
pub fn any_parts() -> impl Strategy<Value = (u32, u32, Parts)> {
    (1u32..3, 1u32..4)
        .prop_filter("two ranks", |(n, d)| n * d > 1)
        .prop_flat_map(|(nodes, per_node)| {
            let count = (nodes * per_node) as usize;
            let rows = prop_oneof![Just(0u64), 1u64..4000];
            let matrix = prop::collection::vec(prop::collection::vec(rows, count), count);
            let edges = prop::collection::vec(1u64..400_000, count);
            (matrix, edges).prop_map(move |(mut matrix, edges)| {
                (0..count).for_each(|i| matrix[i][i] = 0);
                (nodes, per_node, measured(matrix, &edges))
            })
        })
}

/// `instrs` with loops unrolled.
fn unrolled(instrs: &[Instr]) -> Vec<Instr> {
    instrs
        .iter()
        .flat_map(|instr| match instr {
            Instr::Repeat(instr::Repeat { count, body, .. }) => {
                let body = unrolled(body);
                (0..*count).flat_map(|_| body.clone()).collect()
            }
            other => vec![other.clone()],
        })
        .collect()
}

pub fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn more_rows_never_cost_less((nodes, per_node, parts) in any_parts(), from in 0usize..6, to in 0usize..6, more in 1u64..5000) {
        let count = parts.sizes.len();
        let (from, to) = (from % count, to % count);
        prop_assume!(from != to);
        let Messages::Matrix(mut rows) = parts.messages.clone() else { unreachable!() };
        rows[from][to] += more;
        let edges: Vec<u64> = parts.sizes.iter().map(|s| s.edges).collect();
        let larger = measured(rows, &edges);
        let (program, cluster) = (program(count as u32, SHAPE), cluster(nodes, per_node));
        let (few, many) = (cost(&program, &cluster, &parts), cost(&program, &cluster, &larger));
        prop_assert!(many.epoch.seconds.0 >= few.epoch.seconds.0 * (1.0 - 1e-9));
        prop_assert!(many.epoch.bytes > few.epoch.bytes);
    }

    #[test]
    fn wider_rows_never_cost_less((nodes, per_node, parts) in any_parts(), more in 1u32..100) {
        let ranks = parts.sizes.len() as u32;
        let wide = Shape { hidden: SHAPE.hidden + more, ..SHAPE };
        let cluster = cluster(nodes, per_node);
        let narrow = cost(&program(ranks, SHAPE), &cluster, &parts);
        let wide = cost(&program(ranks, wide), &cluster, &parts);
        prop_assert!(wide.epoch.seconds.0 >= narrow.epoch.seconds.0 * (1.0 - 1e-9));
        prop_assert!(wide.epoch.bytes > narrow.epoch.bytes);
    }

    #[test]
    fn slower_links_are_never_faster(
        (nodes, per_node, parts) in any_parts(), which in 0usize..4, factor in 1.0f64..50.0,
    ) {
        let program = program(parts.sizes.len() as u32, SHAPE);
        let fast = cluster(nodes, per_node);
        let mut slow = fast.clone();
        match which {
            0 => slow.inside.bandwidth /= factor,
            1 => slow.between.bandwidth /= factor,
            2 => slow.inside.latency = slow.inside.latency * factor,
            _ => slow.between.latency = slow.between.latency * factor,
        }
        let (fast, slow) = (cost(&program, &fast, &parts), cost(&program, &slow, &parts));
        prop_assert!(slow.epoch.seconds.0 >= fast.epoch.seconds.0 * (1.0 - 1e-9));
    }

    /// Includes random instruction lists, where ranks wait for each other in other places.
    #[test]
    fn bounds_are_below_what_is_simulated(
        (nodes, per_node, parts) in any_parts(),
        shared: bool,
        order in prop::collection::vec(0usize..8, 1..20),
        times in 1u32..5,
    ) {
        let mut cluster = cluster(nodes, per_node);
        if shared {
            cluster.inside.shared_by = SharedBy::Node;
        }
        let mut program = program(parts.sizes.len() as u32, SHAPE);
        for random in [false, true] {
            if random {
                let flat = unrolled(&program.step);
                let body = order.iter().map(|n| flat[(n * 7) % flat.len()].clone()).collect();
                program.step = vec![Instr::Repeat(instr::Repeat { count: times, reverse: false, body })];
            }
            let (found, least) = (cost(&program, &cluster, &parts), bound(&program, &cluster, &parts).unwrap());
            prop_assert!(least.seconds <= found.epoch.seconds);
            prop_assert!(least.seconds.0 >= 0.99 * found.epoch.compute_seconds.0);
            prop_assert_eq!(least.bytes, found.epoch.bytes);
            let memory = least_memory(&program, &cluster, &parts);
            prop_assert!(memory <= found.peak_memory_bytes);
            prop_assert!(memory.0 * 4 > found.peak_memory_bytes.0);
        }
    }

    #[test]
    fn sharing_a_link_is_never_faster((nodes, per_node, parts) in any_parts(), inside: bool) {
        let program = program(parts.sizes.len() as u32, SHAPE);
        let mut own = cluster(nodes, per_node);
        (own.inside.shared_by, own.between.shared_by) = (SharedBy::Rank, SharedBy::Rank);
        let mut shared = own.clone();
        if inside { shared.inside.shared_by = SharedBy::Node } else { shared.between.shared_by = SharedBy::Node }
        let (own, shared) = (cost(&program, &own, &parts), cost(&program, &shared, &parts));
        prop_assert!(shared.epoch.seconds.0 >= own.epoch.seconds.0 * (1.0 - 1e-9));
    }

    #[test]
    fn loops_cost_what_they_cost_written_out((nodes, per_node, parts) in any_parts(), layers in 3u32..40) {
        let cluster = cluster(nodes, per_node);
        let looped = program(parts.sizes.len() as u32, Shape { layers, ..SHAPE });
        let flat = Program { step: unrolled(&looped.step), ..looped.clone() };
        let (looped, flat) = (cost(&looped, &cluster, &parts).epoch, cost(&flat, &cluster, &parts).epoch);
        prop_assert!(near(looped.seconds.0, flat.seconds.0), "{looped:?} {flat:?}");
        prop_assert!(near(looped.compute_seconds.0, flat.compute_seconds.0));
        prop_assert!(near(looped.exposed_communication_seconds.0, flat.exposed_communication_seconds.0));
        prop_assert_eq!(looped.bytes, flat.bytes);
        for kind in &flat.breakdown {
            let other = looped.breakdown.iter().find(|k| k.name == kind.name).unwrap();
            prop_assert_eq!(other.count, kind.count);
            prop_assert!(near(other.seconds.0, kind.seconds.0));
        }
    }

    #[test]
    fn an_estimate_adds_up((nodes, per_node, parts) in any_parts()) {
        let program = program(parts.sizes.len() as u32, SHAPE);
        let estimate = cost(&program, &cluster(nodes, per_node), &parts);
        let epoch = &estimate.epoch;
        let sum = epoch.compute_seconds + epoch.exposed_communication_seconds + epoch.bubble_seconds;
        prop_assert!(near(sum.0, epoch.seconds.0), "{epoch:?}");
        let kinds: Seconds = epoch.breakdown.iter().map(|k| k.seconds).sum();
        prop_assert!(near(kinds.0, (epoch.compute_seconds + epoch.exposed_communication_seconds).0));
        let worst = parts.sizes.iter().map(|s| layout(&program, &Capacity::of(*s)).total_bytes).max().unwrap();
        prop_assert!(estimate.peak_memory_bytes > Bytes(worst));
    }

    #[test]
    fn an_all_reduction_moves_its_bytes(nodes in 1u32..5, per_node in 1u32..5, floats in 1u32..10_000_000) {
        let ranks = nodes * per_node;
        prop_assume!(ranks > 1);
        let buffer = Buffer {
            name: "g".to_owned(), extent: Extent::Fixed(1), columns: floats, slots: 1, role: Role::Temp, storage: Default::default(),
};
        let step = vec![Instr::AllReduce(instr::AllReduce::whole(vec![BufferId(0)]))];
        let program = Program { ranks, buffers: vec![buffer], step, ..Program::default() };
        let parts = measured(vec![vec![0; ranks as usize]; ranks as usize], &vec![1; ranks as usize]);
        let cluster = cluster(nodes, per_node);
        let best = cluster.inside.bandwidth.max(cluster.between.bandwidth);
        let bytes = f64::from(floats) * 4.0 * 2.0 * f64::from(ranks - 1) / f64::from(ranks);
        let epoch = cost(&program, &cluster, &parts).epoch;
        prop_assert!(epoch.seconds.0 >= bytes / best);
        prop_assert_eq!(epoch.bytes.0, 2 * u64::from(ranks - 1) * u64::from(floats) * 4);
    }

    #[test]
    fn equal_ranks_cost_the_same_one_by_one(nodes in 1u32..4, per_node in 1u32..4, rows in 1u64..3000) {
        let ranks = (nodes * per_node) as usize;
        prop_assume!(ranks > 1);
        let mut matrix = vec![vec![rows; ranks]; ranks];
        (0..ranks).for_each(|i| matrix[i][i] = 0);
        let single = measured(matrix, &vec![100_000; ranks]);
        let classes = Parts { messages: Messages::Uniform, ..single.clone() };
        let (program, cluster) = (program(ranks as u32, SHAPE), cluster(nodes, per_node));
        let (single, classes) = (cost(&program, &cluster, &single).epoch, cost(&program, &cluster, &classes).epoch);
        prop_assert!(near(single.seconds.0, classes.seconds.0), "{single:?} {classes:?}");
        prop_assert!(near(single.exposed_communication_seconds.0, classes.exposed_communication_seconds.0));
        prop_assert_eq!(single.bytes, classes.bytes);
    }
}

/// Costs for every count.
pub fn calibrated(mut cluster: Cluster) -> Cluster {
    let terms = TERMS.iter().map(|term| ((*term).to_owned(), 1e-10));
    let terms: BTreeMap<String, f64> = terms.collect();
    let groups = GROUPS.into_iter().chain(MESSAGES);
    let groups = groups.map(|group| (group.to_owned(), terms.clone().into()));
    cluster.calibration.measured = Some(Measured {
        machine: "a machine".to_owned(),
        date: "2026-01-31".to_owned(),
        costs: vec![Costs {
            ranks: 1,
            around: Seconds(1e-5),
            waiting: 0.0,
            groups: groups.collect(),
        }],
    });
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn more_of_anything_never_costs_a_calibrated_machine_less(
        (nodes, per_node, parts) in any_parts(), more in 1u32..100, rank in 0usize..6, edges in 1u64..500_000,
    ) {
        let cluster = calibrated(cluster(nodes, per_node));
        let narrow = program(parts.sizes.len() as u32, SHAPE);
        let wide = program(parts.sizes.len() as u32, Shape { hidden: SHAPE.hidden + more, ..SHAPE });
        let seconds = |program: &Program, parts: &Parts| cost(program, &cluster, parts).epoch.seconds.0;
        let least = seconds(&narrow, &parts) * (1.0 - 1e-9);
        prop_assert!(seconds(&wide, &parts) >= least);
        let mut larger = parts.clone();
        let rank = rank % larger.sizes.len();
        larger.sizes[rank].edges += edges;
        prop_assert!(seconds(&narrow, &larger) > least);
        let mut slower = cluster.clone();
        if let Some(measured) = &mut slower.calibration.measured {
            measured.costs[0].groups.values_mut().flat_map(|costs| costs.terms.values_mut()).for_each(|c| *c *= 2.0);
        }
        prop_assert!(cost(&narrow, &slower, &parts).epoch.seconds.0 > least);
        let mut waiting = cluster.clone();
        if let Some(measured) = &mut waiting.calibration.measured {
            measured.costs[0].waiting = 0.1;
        }
        prop_assert!(cost(&narrow, &waiting, &parts).epoch.seconds.0 > least);
    }

    #[test]
    fn ranks_of_a_node_share_its_link(per_node in 2u32..6, rows in 1000u64..4000) {
        let ranks = 2 * per_node as usize;
        // Every rank sends the same number of rows to one rank of the other node.
        let mut matrix = vec![vec![0; ranks]; ranks];
        for rank in 0..ranks {
            matrix[rank][(rank + per_node as usize) % ranks] = rows;
        }
        let parts = measured(matrix, &vec![1; ranks]);
        let mut own = cluster(2, per_node);
        (own.between.bandwidth, own.between.latency) = (1e6, Seconds(0.0));
        own.between.shared_by = SharedBy::Rank;
        let mut shared = own.clone();
        shared.between.shared_by = SharedBy::Node;
        let mut program = program(ranks as u32, SHAPE);
        program.step = vec![Instr::HaloExchange(instr::HaloExchange::of(at(HIDDEN.0)))];
        let seconds = |cluster: &Cluster| cost(&program, cluster, &parts).epoch.seconds.0;
        let quotient = seconds(&shared) / seconds(&own);
        let wanted = f64::from(per_node);
        prop_assert!((quotient / wanted - 1.0).abs() < 1e-3, "{quotient} {wanted}");
    }

    /// Each kind of communication alone: its name, its bytes, and its time unless another
    /// kind's formula gives the same.
    #[test]
    fn no_collective_is_priced_as_another(floats in 1_000u32..100_000, out in 100u64..2000, back in 2001u64..4000) {
        let mut cluster = cluster(2, 1);
        cluster.device.launch_floor = Seconds(0.0);
        cluster.device.memory_bandwidth = 1e30;
        cluster.device.flops = 1e30;
        cluster.calibration.link_efficiency = 1.0;
        (cluster.between.bandwidth, cluster.between.latency) = (1e9, Seconds(1e-4));
        let parts = measured(vec![vec![0, out], vec![back, 0]], &[1, 1]);
        let mut program = program(2, SHAPE);
        program.buffers.push(Buffer {
            name: "g".to_owned(), extent: Extent::Fixed(1), columns: floats, slots: 1, role: Role::Temp, storage: Default::default(),
});
        let sums = BufferId(program.buffers.len() as u32 - 1);
        let row = f64::from(SHAPE.hidden) * 4.0;
        let exchanged = (out + back) * u64::from(SHAPE.hidden) * 4;
        let slower = back as f64 * row / 1e9 + 1e-4;
        let reduced = 2.0 * (1e-4 + f64::from(floats) / 2.0 * 4.0 / 1e9);
        let buffer = at(HIDDEN.0);
        let cases = [
            (Instr::HaloExchange(instr::HaloExchange::of(buffer)), "halo-exchange", exchanged, slower),
            (Instr::HaloReduce(instr::HaloReduce::of(buffer)), "halo-reduce", exchanged, slower),
            (Instr::AllReduce(instr::AllReduce::whole(vec![sums])), "all-reduce", 2 * 4 * u64::from(floats), reduced),
        ];
        for (instr, name, bytes, seconds) in cases {
            prop_assert_eq!(Resource::of(&instr, &program), Resource::Network);
            program.step = vec![instr];
            let epoch = cost(&program, &cluster, &parts).epoch;
            prop_assert_eq!(epoch.breakdown[0].name.as_str(), name);
            prop_assert_eq!(epoch.bytes.0, bytes);
            prop_assert!((epoch.seconds.0 / seconds - 1.0).abs() < 1e-3, "{name}: {} {seconds}", epoch.seconds);
            let events = timeline(&program, &cluster, &parts, Phase::Step, 2).unwrap();
            prop_assert_eq!(events.iter().map(|e| e.bytes_sent).sum::<u64>(), bytes);
            prop_assert!(events.iter().all(|e| e.resource == Resource::Network && e.name == name));
        }
    }
}

/// One exchange between two ranks on two nodes, computed by hand.
#[test]
fn an_exchange_takes_latency_and_the_larger_direction() {
    let mut cluster = cluster(2, 1);
    cluster.device.launch_floor = Seconds(0.0);
    cluster.calibration.link_efficiency = 1.0;
    (cluster.between.bandwidth, cluster.between.latency) = (1e9, Seconds(1e-3));
    let mut program = program(2, SHAPE);
    program.step = vec![Instr::HaloExchange(instr::HaloExchange::of(at(HIDDEN.0)))];
    // Rank 1 reads 1000 rows of rank 0, and rank 0 reads 3000 of rank 1; 64 bytes each.
    let parts = measured(vec![vec![0, 1000], vec![3000, 0]], &[1, 1]);
    let epoch = cost(&program, &cluster, &parts).epoch;
    let packing = 2.0 * 3000.0 * 64.0 / (cluster.device.memory_bandwidth * 0.7);
    let wanted = packing + 1e-3 + 3000.0 * 64.0 / 1e9;
    assert!(
        near(epoch.seconds.0, wanted),
        "{} {wanted}",
        epoch.seconds.0
    );
    // A message takes software time to start.
    let mut slow = cluster.clone();
    slow.software.message = Seconds(2e-3);
    let later = cost(&program, &slow, &parts).epoch.seconds.0 - epoch.seconds.0;
    assert!(near(later, 2e-3), "{later}");
    // Rank 0 packs less and waits for rank 1.
    assert!(near(epoch.bubble_seconds.0, packing / 3.0));
}

#[test]
fn one_rank_neither_sends_nor_waits() {
    let graph = workload("w", 10_000, 100_000, SHAPE, &[]);
    let parts = parts(&graph, 1, Partitioner::Metis).unwrap();
    let estimate = cost(&program(1, SHAPE), &cluster(1, 1), &parts);
    assert_eq!(estimate.epoch.bytes, Bytes(0));
    assert_eq!(estimate.epoch.exposed_communication_seconds, Seconds(0.0));
    assert!(near(
        estimate.epoch.seconds.0,
        estimate.epoch.compute_seconds.0
    ));
}

#[test]
fn a_timeline_is_the_simulation_event_by_event() {
    let parts = measured(vec![vec![0, 700], vec![90, 0]], &[90_000, 40_000]);
    let (program, cluster) = (program(2, SHAPE), cluster(1, 2));
    let events = timeline(&program, &cluster, &parts, Phase::Step, 2).unwrap();
    let epoch = cost(&program, &cluster, &parts).epoch;
    let end = events.iter().map(|e| e.end_us).fold(0.0, f64::max);
    assert!(near(end, epoch.seconds.0 * 1e6));
    // Each rank's events are contiguous, and the bytes that they send are the priced ones.
    for pair in events
        .windows(2)
        .filter(|pair| pair[0].rank == pair[1].rank)
    {
        assert_eq!(pair[0].end_us, pair[1].begin_us);
    }
    assert_eq!(
        events.iter().map(|e| e.bytes_sent).sum::<u64>(),
        epoch.bytes.0
    );
    let last = events.iter().rfind(|e| e.name == "halo-reduce").unwrap();
    assert_eq!((last.at.as_str(), last.iteration, last.rank), ("6.3", 0, 1));
    assert_eq!(
        timeline(&program, &cluster, &parts, Phase::Step, 1)
            .unwrap()
            .len()
            * 2,
        events.len()
    );
}

#[test]
fn what_does_not_match_is_refused() {
    let parts = measured(vec![vec![0, 1], vec![1, 0]], &[1, 1]);
    let wrong = simulate(&program(3, SHAPE), &cluster(1, 3), &parts);
    assert_eq!(
        wrong.unwrap_err(),
        SimulateError::OtherRanks {
            program: 3,
            parts: 2
        }
    );
    let small = simulate(&program(2, SHAPE), &cluster(1, 1), &parts);
    assert_eq!(
        small.unwrap_err(),
        SimulateError::TooFewDevices {
            ranks: 2,
            devices: 1
        }
    );
}

#[test]
fn a_thousand_ranks_and_128_layers_are_priced_at_once() {
    let shape = Shape {
        layers: 128,
        ..SHAPE
    };
    let graph = workload("w", 10_000_003, 300_000_007, shape, &[(8, 2.0)]);
    let cluster = Cluster::named("h100x8")
        .unwrap()
        .resized(Some(1024), None)
        .unwrap();
    let begin = Instant::now();
    let parts = parts(&graph, 1024, Partitioner::Metis).unwrap();
    let estimate = cost(&program(1024, shape), &cluster, &parts);
    let took = begin.elapsed();
    assert!(took.as_secs_f64() < 0.25, "{took:?}");
    assert!(estimate.epoch.seconds.0 > 0.0);
}
