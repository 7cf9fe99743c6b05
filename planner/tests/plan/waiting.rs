//! What hides messages, and who waits, computed by hand.

use crate::model::{HIDDEN, at, program, workload};
use crate::simulate::{SHAPE, calibrated, cluster, cost, measured, near};
use gnnc_ir::cluster::{Cluster, DeviceKind, TermCosts};
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, Kernel, Operand, Over};
use gnnc_ir::plan::Partitioner;
use gnnc_ir::program::instr;
use gnnc_ir::program::work::TERMS;
use gnnc_ir::program::{
    Buffer, BufferId, Extent, Instr, KernelId, Launch, Matrix, Neighbour, Pipeline, Product,
    Program, Ref, Role, StageMessage, Transfer,
};
use gnnc_ir::words::units::Seconds;
use gnnc_planner::parts::{Parts, parts};
use gnnc_planner::simulate::{PhaseCost, simulate_all};

/// Two ranks that read 2000 rows of each other: the exchange, and independent computation.
fn exchanged() -> (Program, Parts, Transfer, Instr) {
    let parts = measured(vec![vec![0, 2000], vec![2000, 0]], &[1, 1]);
    let program = program(2, SHAPE);
    let what = Box::new(Instr::HaloExchange(instr::HaloExchange::of(at(HIDDEN.0))));
    let other = program.step[0].clone();
    (program, parts, Transfer { tag: 1, what }, other)
}

/// If processors move messages, those that are sent and received meanwhile cost the rank time, and whole exchanges do not.
#[test]
fn messages_cost_the_processor_what_it_could_compute() {
    let seconds = |processor: f64, split: bool| {
        let mut cluster = cluster(2, 1);
        cluster.device.kind = DeviceKind::Cpu;
        cluster.calibration.link_efficiency = 1.0;
        (cluster.between.bandwidth, cluster.between.latency) = (1e12, Seconds(0.0));
        cluster.between.processor = Seconds(processor);
        let (mut program, parts, transfer, other) = exchanged();
        program.step = match split {
            false => vec![*transfer.what.clone(), other],
            true => vec![
                Instr::Begin(transfer.clone()),
                other,
                Instr::Finish(transfer),
            ],
        };
        cost(&program, &cluster, &parts).epoch.seconds.0
    };
    // A rank sends and receives 2000 rows of 64 bytes.
    let bytes = 2.0 * 2000.0 * 64.0;
    let more = seconds(3e-9, true) - seconds(0.0, true);
    assert!(near(more, 3e-9 * bytes), "{more}");
    assert!(near(seconds(3e-9, false), seconds(0.0, false)));
}

/// A split exchange hides behind the instructions between its halves.
#[test]
fn what_is_computed_meanwhile_hides_messages() {
    let mut cluster = cluster(2, 1);
    cluster.device.launch_floor = Seconds(0.0);
    cluster.calibration.link_efficiency = 1.0;
    (cluster.between.bandwidth, cluster.between.latency) = (1e9, Seconds(0.0));
    let (mut program, parts, transfer, other) = exchanged();
    let mut step = |step: Vec<Instr>| {
        program.step = step;
        cost(&program, &cluster, &parts).epoch
    };
    let work = step(vec![other.clone()]).seconds.0;
    let whole = step(vec![*transfer.what.clone(), other.clone()]);
    let halves = step(vec![
        Instr::Begin(transfer.clone()),
        other,
        Instr::Finish(transfer),
    ]);
    let (messages, packing) = (
        2000.0 * 64.0 / 1e9,
        whole.seconds.0 - work - 2000.0 * 64.0 / 1e9,
    );
    assert!(work > 0.0 && packing > 0.0);
    assert!(near(
        whole.exposed_communication_seconds.0,
        packing + messages
    ));
    let exposed = packing + (messages - work).max(0.0);
    assert!(near(halves.exposed_communication_seconds.0, exposed));
    assert!(near(halves.seconds.0, packing + messages.max(work)));
    assert_eq!(whole.bytes, halves.bytes);
    let kind = |cost: &PhaseCost| {
        let found = cost.breakdown.iter().find(|k| k.name == "halo-exchange");
        found.map(|k| k.count)
    };
    assert_eq!((kind(&whole), kind(&halves)), (Some(1), Some(1)));
}

#[test]
fn a_slow_rank_makes_the_others_wait() {
    let even = measured(vec![vec![0, 10], vec![10, 0]], &[1_000_000, 1_000_000]);
    let skewed = measured(vec![vec![0, 10], vec![10, 0]], &[1_900_000, 100_000]);
    let (program, cluster) = (program(2, SHAPE), cluster(1, 2));
    let (even, skewed) = (
        cost(&program, &cluster, &even).epoch,
        cost(&program, &cluster, &skewed).epoch,
    );
    assert!(even.bubble_seconds.0 < 1e-9);
    assert!(
        skewed.bubble_seconds.0 > 0.2 * skewed.seconds.0,
        "{skewed:?}"
    );
    assert!(skewed.seconds > even.seconds);
}

/// A program for each of `stages` stages, with a product in every run of layers, forward and
/// backward.
pub fn staged(stages: u32, virtual_stages: u32, chunks: u32) -> Vec<Program> {
    let buffer = |extent| Buffer {
        name: "x".to_owned(),
        extent,
        columns: 64,
        slots: 1,
        role: Role::Temp,
        storage: Default::default(),
    };
    let matrix = |buffer| Matrix {
        at: at(buffer),
        offset: 0,
        stride: 64,
    };
    let product = Instr::MatMul(instr::MatMul {
        product: Product::Nn,
        a: matrix(0),
        b: matrix(1),
        out: matrix(0),
        rows: Extent::Inner,
        inner: 64,
        columns: 64,
        finish: None,
        chunk: None,
    });
    let stage_message = |with| StageMessage::of(with, vec![at(0)]);
    let chunks_of = |stage: u32, run: u32, reverse: bool| {
        let (before, after) = match reverse {
            true => (Neighbour::Next, Neighbour::Previous),
            false => (Neighbour::Previous, Neighbour::Next),
        };
        let number = run * stages + stage;
        let (first, last) = (number == 0, number + 1 == stages * virtual_stages);
        let (begins, ends) = if reverse {
            (last, first)
        } else {
            (first, last)
        };
        let receive = (!begins).then(|| Instr::Receive(stage_message(before)));
        let send = (!ends).then(|| Instr::Send(stage_message(after)));
        let body = receive.into_iter().chain([product.clone()]).chain(send);
        let body = body.collect();
        Instr::Chunks(instr::Chunks { reverse, body })
    };
    let program = |stage| Program {
        ranks: stages,
        buffers: vec![buffer(Extent::Inner), buffer(Extent::Fixed(64))],
        step: (0..virtual_stages)
            .map(|run| chunks_of(stage, run, false))
            .chain(
                (0..virtual_stages)
                    .rev()
                    .map(|run| chunks_of(stage, run, true)),
            )
            .collect(),
        pipeline: Some(Pipeline {
            stages,
            stage,
            chunks,
            shuffle: false,
            interval: 1,
        }),
        ..Program::default()
    };
    (0..stages).map(program).collect()
}

/// With equal runs and free messages, `(S - 1) / (v K + S - 1)` of an epoch is bubble, for `S`
/// stages with `v` runs each and `K` chunks. With fewer chunks than stages, every further run
/// waits too.
#[test]
fn stages_wait_as_the_closed_form_says() {
    let vertices = 5040;
    for stages in 2..5u32 {
        let mut cluster = cluster(1, stages);
        cluster.device.launch_floor = Seconds(0.0);
        cluster.device.memory_bandwidth = 1e30;
        cluster.inside.bandwidth = 1e30;
        cluster.inside.latency = Seconds(0.0);
        let graph = workload("w", vertices, 10_000, SHAPE, &[]);
        let parts = parts(&graph, 1, Partitioner::Range).unwrap();
        for virtual_stages in 1..4u32 {
            for chunks in [2, 3, 4, 5, 8, 9] {
                let programs = staged(stages, virtual_stages, chunks);
                let epoch = simulate_all(&programs, &cluster, &parts).unwrap().epoch;
                let [s, v, k] = [stages, virtual_stages, chunks].map(f64::from);
                let slots = (v - 1.0) * k.max(s) + k + s - 1.0;
                let expected = 1.0 - v * k / slots;
                if chunks >= stages {
                    assert!(near(expected, (s - 1.0) / (v * k + s - 1.0)));
                }
                let bubble = epoch.bubble_seconds.0 / epoch.seconds.0;
                assert!(
                    (bubble - expected).abs() < 2e-3,
                    "{stages} stages, {virtual_stages} runs, {chunks} chunks: {bubble} {expected}"
                );
                let borders = u64::from(stages * virtual_stages - 1);
                assert_eq!(epoch.bytes.0, 2 * borders * vertices * 64 * 4);
            }
        }
    }
}

/// A stage that computes while rows cross has its processor move them, inside a node or between nodes, whichever they cross.
#[test]
fn rows_between_stages_cost_the_processor_of_their_link() {
    let graph = workload("w", 50_400, 100_000, SHAPE, &[]);
    let parts = parts(&graph, 1, Partitioner::Range).unwrap();
    let programs = staged(2, 1, 8);
    let epoch = |nodes: u32, [inside, between]: [f64; 2]| {
        let mut cluster = cluster(nodes, 2 / nodes);
        cluster.device.kind = DeviceKind::Cpu;
        cluster.inside.processor = Seconds(inside);
        cluster.between.processor = Seconds(between);
        simulate_all(&programs, &cluster, &parts).unwrap().epoch
    };
    for (nodes, paid, free) in [(1, [2e-9, 0.0], [0.0, 2e-9]), (2, [0.0, 2e-9], [2e-9, 0.0])] {
        let none = epoch(nodes, [0.0; 2]);
        assert_eq!(epoch(nodes, free).seconds, none.seconds);
        let more = epoch(nodes, paid).seconds.0 - none.seconds.0;
        let all = 2e-9 * none.bytes.0 as f64;
        assert!(0.1 * all < more && more <= 1.001 * all, "{more} {all}");
    }
}

/// Costs of messages by group: per message, per picked row, per byte.
fn messages(mut cluster: Cluster, costs: &[(&str, [f64; 3])]) -> Cluster {
    let measured = cluster.calibration.measured.as_mut().unwrap();
    for (group, [launch, row, byte]) in costs {
        let cost = |term: &str| match term {
            "launch" => *launch,
            "row" => *row,
            _ if term.starts_with("stream") => *byte,
            _ => 1.0,
        };
        let terms = TERMS.map(|term| (term.to_owned(), cost(term)));
        measured.costs[0]
            .groups
            .insert((*group).to_owned(), TermCosts::from(terms).into());
    }
    cluster
}

/// On a calibrated machine, ranks copy what they exchange, half before and half after. Nothing
/// hides the copying, but computation in between hides the hand-over.
#[test]
fn copying_does_not_hide() {
    let costs = [("halo-exchange", [8e-6, 3e-9, 2e-9])];
    let mut cluster = messages(calibrated(cluster(1, 2)), &costs);
    cluster.calibration.measured.as_mut().unwrap().costs[0].waiting = 0.5;
    let (mut program, parts, transfer, other) = exchanged();
    let mut exposed = |step: Vec<Instr>| {
        program.step = step;
        let epoch = cost(&program, &cluster, &parts).epoch;
        epoch.exposed_communication_seconds.0
    };
    let whole = exposed(vec![*transfer.what.clone(), other.clone()]);
    let halves = [
        Instr::Begin(transfer.clone()),
        other,
        Instr::Finish(transfer),
    ];
    let halves = exposed(halves.into());
    // Each byte is read and written.
    let copying = 2000.0 * 3e-9 + 2.0 * 2000.0 * 64.0 * 2e-9;
    assert!(near(whole, 8e-6 + copying), "{whole} {copying}");
    assert!(near(halves, copying), "{halves} {copying}");
}

/// On a calibrated machine, a stage packs what it sends and unpacks what it receives; between
/// nodes, the link's time is added.
#[test]
fn stages_send_and_receive_as_was_measured() {
    let (vertices, chunks) = (5000, 5u32);
    let graph = workload("w", vertices, 10_000, SHAPE, &[]);
    let parts = parts(&graph, 1, Partitioner::Range).unwrap();
    let exposed = |cluster| {
        let costs = [("send", [2e-6, 1.0, 1e-9]), ("receive", [1e-6, 1.0, 3e-9])];
        let programs = staged(2, 1, chunks);
        let epoch = simulate_all(&programs, &messages(cluster, &costs), &parts)
            .unwrap()
            .epoch;
        epoch.exposed_communication_seconds.0
    };
    let within = exposed(calibrated(cluster(1, 2)));
    let bytes = vertices as f64 * 64.0 * 4.0;
    // All chunks forward and back: a rank sends and receives each, and waits for some.
    let all = |waits: f64| f64::from(chunks) * 2e-6 + waits * 1e-6 + 2.0 * bytes * 4e-9;
    let waits = (1..=2 * chunks).map(|n| f64::from(n) / 2.0);
    let fitting = waits.filter(|&waits| near(within, all(waits))).count();
    assert_eq!(
        fitting,
        1,
        "{within} {} {}",
        all(0.5),
        all(f64::from(chunks))
    );
    let between = exposed(calibrated(cluster(2, 1)));
    assert!(between > within, "{between} {within}");
}

/// A 200 KiB message comes from near memory. If it arrived before the rank waited, it is read
/// from a memory as large as everything the other stage sends, 1 MiB or more.
#[test]
fn what_lay_for_a_while_is_read_from_farther_memory() {
    let (vertices, chunks) = (5000, 5u32);
    let graph = workload("w", vertices, 10_000, SHAPE, &[]);
    let parts = parts(&graph, 1, Partitioner::Range).unwrap();
    let mut cluster = calibrated(cluster(1, 2));
    for (group, far) in [("send", 1.0), ("receive", 1e-9)] {
        let cost = |term: &str| if term == "stream_4m" { far } else { 0.0 };
        let terms = TERMS.map(|term| (term.to_owned(), cost(term)));
        let measured = cluster.calibration.measured.as_mut().unwrap();
        let groups = &mut measured.costs[0].groups;
        groups.insert(group.to_owned(), TermCosts::from(terms).into());
    }
    let programs = staged(2, 1, chunks);
    let epoch = simulate_all(&programs, &cluster, &parts).unwrap().epoch;
    let all = vertices as f64 * 64.0 * 4.0;
    let share = ((all / f64::from(1 << 19)).log2()) / 3.0;
    let one = all / f64::from(chunks) * share * 1e-9;
    let lay = 2.0 * epoch.exposed_communication_seconds.0 / one;
    assert!((lay - lay.round()).abs() < 1e-6, "{lay} messages");
    assert!((1.0..2.0 * f64::from(chunks)).contains(&lay), "{lay}");
}

/// Independent launches over few numbers cost one launch floor on a GPU, which merges them.
#[test]
fn updates_wait_for_one_floor() {
    let mut program = program(1, SHAPE);
    let first = program.buffers.len() as u32;
    for n in 0..3 {
        program.buffers.push(Buffer {
            name: format!("p{n}"),
            extent: Extent::Fixed(4),
            columns: 1,
            slots: 5,
            role: Role::Temp,
            storage: Default::default(),
        });
    }
    let flat = Operand::dense(At::Row, 1, 1);
    program.kernels.push(Kernel {
        body: Body::Map {
            over: Over::Rows,
            values: vec![Expr::leaf(Value::Load(0))],
        },
        heads: 1,
        width: 1,
        inputs: vec![flat],
        outputs: vec![flat],
        masks: Vec::new(),
        scalars: 0,
    });
    let kernel = KernelId(program.kernels.len() as u32 - 1);
    let update = |from: u32, to: u32, in_loop: bool| {
        let at = |buffer| Ref {
            buffer: BufferId(first + buffer),
            base: 0,
            in_loop,
        };
        Instr::Launch(Launch {
            kernel,
            rows: Extent::Fixed(4),
            inputs: vec![at(from)],
            outputs: vec![at(to)],
            scalars: Vec::new(),
            sites: Vec::new(),
            lists: Vec::new(),
            chunk: None,
        })
    };
    let stacked = Instr::Repeat(instr::Repeat {
        count: 5,
        reverse: false,
        body: vec![update(2, 2, true)],
    });
    let parts = measured(vec![vec![0]], &[1]);
    let mut floors = |kind, step: Vec<Instr>| {
        let mut cluster = cluster(1, 1);
        cluster.device.kind = kind;
        program.step = step;
        let seconds = cost(&program, &cluster, &parts).epoch.seconds.0;
        seconds / cluster.device.launch_floor.0
    };
    let updates = vec![update(0, 0, false), update(1, 1, false), stacked.clone()];
    assert!(near(floors(DeviceKind::Gpu, updates.clone()), 1.0));
    assert!(near(floors(DeviceKind::Cpu, updates), 7.0));
    // The second reads what the first wrote.
    let chain = vec![update(0, 1, false), update(1, 2, false)];
    assert!(near(floors(DeviceKind::Gpu, chain), 2.0));
    assert!(near(floors(DeviceKind::Gpu, vec![stacked]), 1.0));
}
