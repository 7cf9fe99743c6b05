//! Programs compute what a plain double-precision version computes, at any number of ranks and
//! threads.

#![allow(clippy::unwrap_used)]

mod network;

use gnnc_graph::generate::PlantedPartition;
use gnnc_graph::partition::{Hash, Partitioner, Range};
use gnnc_graph::{GraphData, LocalPart, Partition, example};
use gnnc_ir::program::instr;
use gnnc_ir::program::memory;
use gnnc_ir::program::traffic::{Reads, traffic};
use gnnc_ir::program::{BufferId, Capacity, Extent, Instr, KernelId, Program, Ref};
use gnnc_runtime::{EpochReport, RunOptions, RuntimeError, Session};
use network::Network;

const G8: Network = Network {
    ranks: 1,
    features: 4,
    hidden: 5,
    classes: 2,
    sparse: false,
    dropout: true,
};

fn session(network: &Network, data: &GraphData, partition: &Partition, threads: usize) -> Session {
    let options = RunOptions {
        seed: 3,
        learning_rate: 0.5,
        threads_per_rank: threads,
        ..RunOptions::default()
    };
    Session::new(network.program(), data, partition, options).unwrap()
}

fn run(session: &mut Session, epochs: usize) -> Vec<EpochReport> {
    (0..epochs).map(|_| session.epoch().unwrap()).collect()
}

fn losses(reports: &[EpochReport]) -> Vec<f64> {
    reports.iter().map(|r| r.loss).collect()
}

fn flat(session: &Session) -> Vec<f64> {
    session
        .parameters()
        .unwrap()
        .iter()
        .flat_map(|t| &t.values)
        .map(|&x| f64::from(x))
        .collect()
}

#[test]
fn loss_and_gradient_match_the_formula() {
    let data = example::g8();
    for dropout in [false, true] {
        let network = Network { dropout, ..G8 };
        let mut session = session(&network, &data, &Partition::whole(8), 1);
        let before = flat(&session);
        let report = session.epoch().unwrap();
        let key = network.dropout_key(3, 0);
        let want = network.reference_loss(&data, &before, key);
        assert!((report.loss - want).abs() < 1e-6, "{} {want}", report.loss);
        let after = flat(&session);
        let mut moved = 0;
        for n in 0..before.len() {
            let at = |step: f64| {
                let mut params = before.clone();
                params[n] += step;
                network.reference_loss(&data, &params, key)
            };
            let slope = (at(1e-6) - at(-1e-6)) / 2e-6;
            let got = (before[n] - after[n]) / 0.5;
            assert!((got - slope).abs() < 2e-6, "parameter {n}: {got} {slope}");
            moved += usize::from(slope.abs() > 1e-4);
        }
        assert!(
            moved > before.len() / 3,
            "{moved} of {} parameters have a gradient",
            before.len()
        );
        let logits = session.logits().unwrap();
        let want = network.reference_logits(&data, &after, None);
        for (got, want) in logits.iter().zip(want.iter().flatten()) {
            assert!((f64::from(*got) - want).abs() < 1e-5);
        }
    }
}

fn check_ranks(network: Network, data: &GraphData, partition: &Partition, epochs: usize) {
    let mut one = session(&network, data, &Partition::whole(data.vertices()), 1);
    let want = losses(&run(&mut one, epochs));
    let network = Network {
        ranks: partition.parts(),
        ..network
    };
    let mut many = session(&network, data, partition, 1);
    let reports = run(&mut many, epochs);
    for (got, want) in reports.iter().zip(&want) {
        assert!(
            (got.loss - want).abs() <= 1e-5 * want.abs(),
            "{} {want}",
            got.loss
        );
    }
    assert!(want[epochs - 1] < want[0]);

    let program = network.program();
    let parts = LocalPart::build_all(&data.topology, partition).unwrap();
    let reads = Reads {
        rows: parts.iter().map(|part| part.halo() as u64).collect(),
        ..Reads::default()
    };
    let bytes = |instrs: &[Instr]| traffic(instrs, &program, &reads, &[]).total_bytes;
    assert!(reports.iter().all(|r| r.bytes_sent == bytes(&program.step)));
    assert!(bytes(&program.step) > 0 || partition.parts() == 1);
    assert_eq!(many.setup_bytes(), Some(bytes(&program.setup)));
    let metrics = many.evaluate().unwrap();
    assert_eq!(metrics.bytes_sent, bytes(&program.eval));
    let alone = one.evaluate().unwrap();
    let (a, b) = (many.logits().unwrap(), one.logits().unwrap());
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-4));
    assert_eq!(
        metrics.train.total + metrics.val.total + metrics.test.total,
        alone.train.total + alone.val.total + alone.test.total
    );
    assert_eq!(
        (metrics.train, metrics.val, metrics.test),
        (alone.train, alone.val, alone.test)
    );
}

#[test]
fn ranks_compute_what_one_computes_and_send_what_is_written() {
    let data = example::g8();
    for ranks in [1, 2, 3, 4, 8] {
        for partitioner in [&Range as &dyn Partitioner, &Hash] {
            let partition = partitioner
                .partition((&data.topology).into(), ranks)
                .unwrap();
            check_ranks(G8, &data, &partition, 6);
        }
    }
    // A rank without vertices still takes part in sums.
    let lopsided = Partition::new(3, vec![0, 0, 0, 2, 2, 2, 0, 0]).unwrap();
    check_ranks(G8, &data, &lopsided, 6);
}

fn large() -> (GraphData, Network) {
    let planted = PlantedPartition {
        vertices: 3000,
        edges: 40_000,
        ..PlantedPartition::default()
    };
    let data = planted.generate().unwrap();
    let (features, classes) = (data.features.columns(), data.classes());
    (
        data,
        Network {
            ranks: 1,
            features,
            hidden: 24,
            classes,
            sparse: false,
            dropout: true,
        },
    )
}

#[test]
fn threads_change_no_bit() {
    let (data, network) = large();
    for ranks in [1, 2] {
        let network = Network { ranks, ..network };
        let partition = Range.partition((&data.topology).into(), ranks).unwrap();
        let results: Vec<_> = [1, 2, 3]
            .into_iter()
            .map(|threads| {
                let mut session = session(&network, &data, &partition, threads);
                let losses: Vec<u64> = losses(&run(&mut session, 4))
                    .iter()
                    .map(|l| l.to_bits())
                    .collect();
                let logits: Vec<u32> = session
                    .logits()
                    .unwrap()
                    .iter()
                    .map(|z| z.to_bits())
                    .collect();
                (losses, logits)
            })
            .collect();
        assert!(results[0] == results[1] && results[1] == results[2]);
    }
}

#[test]
fn sparse_features_give_what_dense_ones_give() {
    let (mut data, dense) = large();
    // Drops three of four values, the same ones with any storage.
    let mut values = data.features.to_dense().values().to_vec();
    values.iter_mut().enumerate().for_each(|(i, x)| {
        if i % 4 != 1 {
            *x = 0.0
        }
    });
    data.features = gnnc_graph::Features::dense(3000, dense.features, values);
    let mut sparse_data = data.clone();
    sparse_data.features = data.features.to_sparse();
    assert!(sparse_data.features.stored() * 4 <= data.features.stored());
    for ranks in [1, 2] {
        let partition = Hash.partition((&data.topology).into(), ranks).unwrap();
        let dense = Network { ranks, ..dense };
        let sparse = Network {
            sparse: true,
            ..dense
        };
        let want = losses(&run(&mut session(&dense, &data, &partition, 1), 5));
        let got = losses(&run(&mut session(&sparse, &sparse_data, &partition, 2), 5));
        assert!(
            got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-5 * b),
            "{got:?} {want:?}"
        );
    }
}

#[test]
fn memory_is_what_the_layout_says() {
    let data = example::g8();
    let network = Network { ranks: 2, ..G8 };
    let partition = Range.partition((&data.topology).into(), 2).unwrap();
    let mut session = session(&network, &data, &partition, 1);
    let sizes = gnnc_ir::program::RankSizes {
        inner: 4,
        halo: 2,
        edges: 10,
        feature_nonzeros: 16,
        ..gnnc_ir::program::RankSizes::default()
    };
    let layout = memory::layout(&network.program(), &Capacity::of(sizes));
    assert_eq!(session.buffer_bytes(), layout.total_bytes);
    let before = session.peak_memory_bytes().unwrap();
    assert!(before > layout.total_bytes);
    run(&mut session, 1);
    let messages = session.peak_memory_bytes().unwrap();
    assert!(messages > before);
    run(&mut session, 3);
    assert_eq!(
        session.peak_memory_bytes().unwrap(),
        messages,
        "later epochs allocate nothing"
    );
    let all: u64 = network
        .program()
        .buffers
        .iter()
        .map(|b| b.words(&Capacity::of(sizes)).next_multiple_of(16) * 4)
        .sum();
    assert!(layout.total_bytes < all);
}

#[test]
fn programs_that_do_not_fit_are_refused() {
    let data = example::g8();
    let whole = Partition::whole(8);
    let new = |program: Program, data: &GraphData, partition: &Partition| {
        Session::new(program, data, partition, RunOptions::default()).map(|_| ())
    };
    assert!(new(G8.program(), &data, &whole).is_ok());
    let mut broken: Vec<Program> = Vec::new();
    let mut with = |change: &dyn Fn(&mut Program)| {
        let mut program = G8.program();
        change(&mut program);
        broken.push(program);
    };
    with(&|p| p.ranks = 2);
    with(&|p| p.buffers.truncate(5));
    with(&|p| p.kernels.truncate(3));
    with(&|p| p.params.clear());
    with(&|p| {
        *p = Program {
            sparse_features: false,
            ..Network { sparse: true, ..G8 }.program()
        }
    });
    with(&|p| p.loss = Some(BufferId(99)));
    with(&|p| p.buffers[0].columns = 3);
    with(&|p| {
        p.step.push(Instr::HaloExchange(instr::HaloExchange::of(
            gnnc_ir::program::Ref::first(BufferId(0)),
        )))
    });
    for instr in 0..G8.program().step.len() {
        with(&|p| {
            let refers = |l: &mut gnnc_ir::program::Launch| l.kernel = KernelId(77);
            match &mut p.step[instr] {
                Instr::Launch(l) => refers(l),
                Instr::MatMul(instr::MatMul { columns, .. }) => *columns += 1000,
                Instr::HaloExchange(instr::HaloExchange { buffer, .. })
                | Instr::HaloReduce(instr::HaloReduce { buffer, .. }) => {
                    buffer.buffer = BufferId(1 << 20)
                }
                Instr::AllReduce(instr::AllReduce { buffers, .. }) => {
                    buffers.push(Ref::first(BufferId(1 << 20)))
                }
                Instr::Loss(instr::Loss { classes, .. }) => *classes = 9,
                Instr::Repeat(instr::Repeat { body, .. }) => {
                    body.push(Instr::MatMul(instr::MatMul {
                        product: gnnc_ir::program::Product::Nt,
                        a: gnnc_ir::program::Matrix {
                            at: gnnc_ir::program::Ref::first(BufferId(0)),
                            offset: 9,
                            stride: 4,
                        },
                        b: gnnc_ir::program::Matrix {
                            at: gnnc_ir::program::Ref::first(BufferId(0)),
                            offset: 0,
                            stride: 4,
                        },
                        out: gnnc_ir::program::Matrix {
                            at: gnnc_ir::program::Ref::first(BufferId(0)),
                            offset: 0,
                            stride: 4,
                        },
                        rows: Extent::Inner,
                        inner: 4,
                        columns: 4,
                        finish: None,
                        chunk: None,
                    }))
                }
                _ => p.buffers[0].columns += 1,
            }
        });
    }
    for (n, program) in broken.into_iter().enumerate() {
        let error = new(program, &data, &whole)
            .err()
            .unwrap_or_else(|| panic!("program {n} was taken"));
        assert!(!error.to_string().is_empty());
        assert!(!matches!(error, RuntimeError::Rank(_)), "program {n} ran");
    }

    let mut unlabelled = data.clone();
    unlabelled.labels = gnnc_graph::Labels::None;
    assert!(matches!(
        new(G8.program(), &unlabelled, &whole),
        Err(RuntimeError::Data { .. })
    ));
    let mut wrong = data.clone();
    wrong.labels = gnnc_graph::Labels::Single(vec![5; 8]);
    assert!(matches!(
        new(G8.program(), &wrong, &whole),
        Err(RuntimeError::Data { .. })
    ));
    let mut several = data.clone();
    several.labels = gnnc_graph::Labels::Values {
        width: 2,
        values: vec![0.0; 16],
    };
    assert!(matches!(
        new(G8.program(), &several, &whole),
        Err(RuntimeError::Data { .. })
    ));
}

#[test]
fn a_trace_has_every_instruction_and_its_bytes() {
    let data = example::g8();
    let network = Network { ranks: 2, ..G8 };
    let partition = Range.partition((&data.topology).into(), 2).unwrap();
    let options = RunOptions {
        trace: true,
        ..RunOptions::default()
    };
    let mut session = Session::new(network.program(), &data, &partition, options).unwrap();
    let report = session.epoch().unwrap();
    let trace = session.take_trace().unwrap();
    let step = |e: &&gnnc_runtime::Event| e.phase == gnnc_runtime::Phase::Step;
    let bytes: u64 = trace.events.iter().filter(step).map(|e| e.bytes_sent).sum();
    assert_eq!(bytes, report.bytes_sent);
    assert!(
        trace
            .events
            .iter()
            .all(|e| e.begin_us <= e.end_us && e.rank < 2)
    );
    let read = gnnc_runtime::Trace::from_chrome_json(&trace.chrome_json()).unwrap();
    assert_eq!((read.ranks, read.events.len()), (2, trace.events.len()));
    assert!(session.take_trace().unwrap().events.is_empty());
}
