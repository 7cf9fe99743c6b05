//! Stages, chunks and histories: the same numbers as on one rank, in any order of messages.

#![allow(clippy::unwrap_used)]

mod network;
#[path = "pipelines/refused.rs"]
mod refused;

use gnnc_graph::partition::{Partitioner, Range};
use gnnc_graph::{GraphData, Partition, example};
use gnnc_ir::program::Instr;
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::Resource;
use gnnc_runtime::transport::threads::Threads;
use gnnc_runtime::transport::watched::{Call, Watched};
use gnnc_runtime::transport::{Transport, TransportError};
use gnnc_runtime::{Phase, RunOptions, RuntimeError, Session, Tensor};
use network::staged::Staged;
use std::path::PathBuf;
use std::time::Duration;

const G8: Staged = Staged {
    features: 4,
    hidden: 6,
    classes: 2,
    stages: 1,
    width: 1,
    chunks: Some(4),
    shuffle: true,
    interval: 3,
};

/// The quarters of G8 as chunks of the whole or of its halves.
fn quarters(width: u32, chunks: u32) -> Partition {
    let parts = Range
        .partition((&example::g8().topology).into(), width)
        .unwrap();
    let chunk = (0..8).map(|v| v * chunks / 8).collect();
    parts.with_chunks(chunks, chunk).unwrap()
}

fn options() -> RunOptions {
    RunOptions {
        seed: 5,
        learning_rate: 0.2,
        ..RunOptions::default()
    }
}

fn session(network: Staged, data: &GraphData, partition: &Partition) -> Session {
    Session::new(network.programs(), data, partition, options()).unwrap()
}

fn losses(session: &mut Session, epochs: usize) -> Vec<f64> {
    let epoch = |_| session.epoch().unwrap().loss;
    (0..epochs).map(epoch).collect()
}

#[test]
fn stages_change_no_number() {
    let data = example::g8();
    for shuffle in [true, false] {
        let one = Staged { shuffle, ..G8 };
        let mut alone = session(one, &data, &quarters(1, 4));
        let mut two = session(Staged { stages: 2, ..one }, &data, &quarters(1, 4));
        assert_eq!(losses(&mut alone, 12), losses(&mut two, 12));
        assert_eq!(alone.logits().unwrap(), two.logits().unwrap());
        assert_eq!(
            alone.evaluate().unwrap().train,
            two.evaluate().unwrap().train
        );
        let sorted = |session: &Session| {
            let mut tensors = session.parameters().unwrap();
            tensors.sort_by(|a, b| a.name.cmp(&b.name));
            tensors
        };
        assert_eq!(sorted(&alone), sorted(&two));
    }
}

#[test]
fn parts_change_only_the_order_of_sums() {
    let data = example::g8();
    let mut alone = session(G8, &data, &quarters(1, 4));
    let want = losses(&mut alone, 12);
    for stages in [1, 2] {
        let network = Staged {
            stages,
            width: 2,
            ..G8
        };
        let mut four = session(network, &data, &quarters(2, 4));
        for (a, b) in want.iter().zip(losses(&mut four, 12)) {
            assert!((a - b).abs() < 1e-5 * a.abs(), "{a} {b}");
        }
        for (a, b) in alone.logits().unwrap().iter().zip(four.logits().unwrap()) {
            assert!((a - b).abs() < 1e-3, "{a} {b}");
        }
    }
}

#[test]
fn one_chunk_is_no_chunk() {
    let data = example::g8();
    for width in [1, 2] {
        let plain = Staged {
            chunks: None,
            width,
            ..G8
        };
        let whole = Range.partition((&data.topology).into(), width).unwrap();
        let want = losses(&mut session(plain, &data, &whole), 8);
        for stages in [1, 2] {
            let chunks = Some(1);
            let one = Staged {
                chunks,
                stages,
                ..plain
            };
            assert_eq!(want, losses(&mut session(one, &data, &whole), 8));
        }
    }
}

#[test]
fn chunks_read_what_is_old() {
    let data = example::g8();
    let plain = Staged { chunks: None, ..G8 };
    let want = losses(&mut session(plain, &data, &Partition::whole(8)), 3);
    let found = losses(&mut session(G8, &data, &quarters(1, 4)), 3);
    // The first epoch's history is what that epoch would compute.
    assert!((want[0] - found[0]).abs() < 1e-6, "{want:?} {found:?}");
    assert!((want[2] - found[2]).abs() > 1e-6, "{want:?} {found:?}");
    // Without cross-chunk edges, nothing is stale.
    let edges = gnnc_graph::Topology::from_edges(8, (0..8).map(|v| (v ^ 1, v))).unwrap();
    let mut pairs = data.clone();
    pairs.topology = edges.0;
    let want = losses(&mut session(plain, &pairs, &Partition::whole(8)), 6);
    let found = losses(&mut session(G8, &pairs, &quarters(1, 4)), 6);
    assert_eq!(want, found);
}

/// Every message is delayed by a time that depends on the rank and the number of the message.
#[test]
fn delays_change_nothing() {
    let data = example::g8();
    let network = Staged {
        stages: 2,
        width: 2,
        ..G8
    };
    let partition = quarters(2, 4);
    let want = losses(&mut session(network, &data, &partition), 6);
    for pattern in [3, 5, 7] {
        let slow = |inner: Threads| {
            let mut state = u64::from(inner.rank()) * 31 + pattern;
            let watch = move |_| {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(pattern);
                std::thread::sleep(Duration::from_micros((state >> 33) % 400));
                Ok(())
            };
            Box::new(Watched::new(inner, Box::new(watch))) as Box<dyn Transport>
        };
        let ends = Threads::connect(4).into_iter().map(slow).collect();
        let programs = network.programs();
        let mut session =
            Session::with_transports(programs, &data, &partition, options(), ends).unwrap();
        assert_eq!(want, losses(&mut session, 6));
    }
}

/// Memory does not depend on how far a stage is ahead of the next. Messages are at most a chunk
/// long, in evaluations too, and their memory is allocated at the start.
#[test]
fn memory_does_not_depend_on_who_is_ahead() {
    let data = example::g8();
    let network = Staged { stages: 2, ..G8 };
    for late in [0, 1] {
        let end = |inner: Threads| {
            let wait = match inner.rank() == late {
                true => Duration::from_millis(2),
                false => Duration::ZERO,
            };
            let watch = move |call| {
                let (Call::Send { floats, .. }
                | Call::Await { floats, .. }
                | Call::Receive { floats, .. }) = call;
                assert_eq!(floats, 2 * 6);
                std::thread::sleep(wait);
                Ok(())
            };
            Box::new(Watched::new(inner, Box::new(watch))) as Box<dyn Transport>
        };
        let ends = Threads::connect(2).into_iter().map(end).collect();
        let programs = network.programs();
        let mut session =
            Session::with_transports(programs, &data, &quarters(1, 4), options(), ends).unwrap();
        let before = session.peak_memory_bytes().unwrap();
        for _ in 0..3 {
            session.epoch().unwrap();
            session.evaluate().unwrap();
            assert_eq!(session.peak_memory_bytes().unwrap(), before);
        }
    }
}

/// One message per direction and chunk, with two rows of six floats; edges of half of the
/// cross-chunk pairs.
#[test]
fn bytes_and_ages_are_those_of_the_closed_forms() {
    let data = example::g8();
    let network = Staged { stages: 2, ..G8 };
    let mut session = session(network, &data, &quarters(1, 4));
    for epoch in 1..=7 {
        let report = session.epoch().unwrap();
        assert_eq!(report.bytes_sent, 2 * 8 * 6 * 4, "epoch {epoch}");
    }
    let staleness = session.staleness().unwrap();
    let names: Vec<&str> = staleness.layers.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["history 0", "history 1"]);
    for layer in &staleness.layers {
        // Epochs 1 to 7, stored in 0, 3 and 6; six of twenty edges per epoch.
        let ages: Vec<(u64, u64)> = layer.ages.iter().map(|(a, n)| (*a, *n)).collect();
        assert_eq!(ages, [(0, 98), (1, 18), (2, 12), (3, 12)]);
    }
}

/// A file of this test alone, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("gnnc-pipelines-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_resumed_run_is_the_one_that_never_stopped() {
    let data = example::g8();
    let file = Scratch::new("resumed");
    let network = Staged {
        stages: 2,
        width: 2,
        ..G8
    };
    // Epoch 5 is between those that store histories.
    let mut first = session(network, &data, &quarters(2, 4));
    losses(&mut first, 5);
    first.save(&file.0).unwrap();
    let want = losses(&mut first, 6);
    for warm in [0, 4] {
        let mut second = session(network, &data, &quarters(2, 4));
        losses(&mut second, warm);
        assert!(second.resume(&file.0).unwrap().same_program);
        assert_eq!(want, losses(&mut second, 6));
        assert_eq!(first.logits().unwrap(), second.logits().unwrap());
        assert_eq!(
            first.staleness().unwrap().layers[0].ages.keys().max(),
            Some(&3)
        );
    }
    // One rank continues with the same histories.
    let mut alone = session(G8, &data, &quarters(1, 4));
    alone.resume(&file.0).unwrap();
    for (a, b) in want.iter().zip(losses(&mut alone, 6)) {
        assert!((a - b).abs() < 1e-4 * a.abs(), "{a} {b}");
    }
}

#[test]
fn checkpoints_go_from_stages_to_none_and_back() {
    let data = example::g8();
    let file = Scratch::new("across");
    let plain = Staged { chunks: None, ..G8 };
    let staged = Staged { stages: 2, ..G8 };
    let by_name = |session: &Session| {
        let mut tensors = session.parameters().unwrap();
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        tensors
    };
    let mut graph = session(plain, &data, &Partition::whole(8));
    losses(&mut graph, 4);
    graph.save(&file.0).unwrap();
    let mut pipeline = session(staged, &data, &quarters(1, 4));
    losses(&mut pipeline, 2);
    pipeline.resume(&file.0).unwrap();
    assert_eq!(by_name(&graph), by_name(&pipeline));
    // Histories belong to the parameters that were read.
    let (a, b) = (losses(&mut graph, 1)[0], losses(&mut pipeline, 1)[0]);
    assert!((a - b).abs() < 1e-6, "{a} {b}");
    assert_eq!(
        pipeline.staleness().unwrap().layers[1].ages.get(&1),
        Some(&12)
    );

    losses(&mut pipeline, 2);
    pipeline.save(&file.0).unwrap();
    graph.resume(&file.0).unwrap();
    assert_eq!(by_name(&graph), by_name(&pipeline));
    assert_eq!(graph.epochs(), 7);
    // A network with another width is refused with that reason.
    let wider = Staged { hidden: 7, ..plain };
    let refused = session(wider, &data, &Partition::whole(8)).resume(&file.0);
    assert!(refused.unwrap_err().to_string().contains("in this model"));
}

#[test]
fn histories_that_are_not_finite_or_too_old_stop_the_run() {
    let data = example::g8();
    let network = Staged { stages: 2, ..G8 };
    let mut spoilt = session(network, &data, &quarters(1, 4));
    losses(&mut spoilt, 2);
    let infinite: Vec<Tensor> = (spoilt.parameters().unwrap().into_iter())
        .filter(|tensor| tensor.name == "u")
        .map(|mut tensor| {
            tensor.values.fill(f32::MAX);
            tensor
        })
        .collect();
    spoilt.set_parameters(&infinite).unwrap();
    let error = spoilt.epoch().unwrap_err().to_string();
    for part in [
        "`history 1`",
        "not finite in epoch 3, chunk ",
        "remember",
        "rank 1",
    ] {
        assert!(error.contains(part), "{error}");
    }

    let mut programs = network.programs();
    for program in &mut programs {
        for instr in &mut program.step {
            if let Instr::Chunks(instr::Chunks { body, .. }) = instr {
                body.retain(|instr| !matches!(instr, Instr::Remember(_)));
            }
        }
    }
    let mut old = Session::new(programs, &data, &quarters(1, 4), options()).unwrap();
    losses(&mut old, 3);
    let error = old.epoch().unwrap_err().to_string();
    assert!(
        error.contains("was stored 4 epochs before epoch 4"),
        "{error}"
    );
}

#[test]
fn a_trace_has_every_chunk() {
    let data = example::g8();
    let network = Staged { stages: 2, ..G8 };
    let traced = RunOptions {
        trace: true,
        ..options()
    };
    let programs = network.programs();
    let mut session = Session::new(programs, &data, &quarters(1, 4), traced).unwrap();
    losses(&mut session, 2);
    let events = session.take_trace().unwrap().events;
    for (rank, name, epoch) in [(0, "send", 1), (1, "send", 2), (1, "receive", 2)] {
        let chunks = events.iter().filter(|e| {
            (e.rank, e.name.as_str(), e.epoch) == (rank, name, epoch) && e.phase == Phase::Step
        });
        let found: Vec<(u32, u64, Resource)> = chunks
            .map(|e| (e.iteration, e.bytes_sent, e.resource))
            .collect();
        let bytes = if name == "send" { 2 * 6 * 4 } else { 0 };
        let expected: Vec<_> = (0..4).map(|n| (n, bytes, Resource::Network)).collect();
        assert_eq!(found, expected, "{name} of rank {rank}");
    }
    let kept = events
        .iter()
        .filter(|e| e.name == "remember" && e.phase == Phase::Setup);
    assert_eq!(kept.count(), 2);
}

#[test]
fn a_stage_that_fails_stops_the_others() {
    let data = example::g8();
    let network = Staged {
        stages: 2,
        width: 2,
        ..G8
    };
    for (rank, calls) in [(0, 3), (1, 20), (2, 9), (3, 31)] {
        let faulty = |inner: Threads| {
            let (own, mut left) = (inner.rank(), calls);
            let watch = move |_| {
                left -= i32::from(own == rank);
                match left {
                    ..0 => Err(TransportError::Broken {
                        rank: own,
                        reason: "no carrier".to_owned(),
                    }),
                    _ => Ok(()),
                }
            };
            Box::new(Watched::new(inner, Box::new(watch))) as Box<dyn Transport>
        };
        let ends = Threads::connect(4).into_iter().map(faulty).collect();
        let programs = network.programs();
        let partition = quarters(2, 4);
        let mut session =
            Session::with_transports(programs, &data, &partition, options(), ends).unwrap();
        let error = (0..20).find_map(|_| session.epoch().err()).unwrap();
        let RuntimeError::Rank(failure) = error else {
            panic!("{error}")
        };
        assert_eq!(failure.rank, rank, "{failure}");
        assert!(failure.reason.contains("no carrier"), "{failure}");
    }
}
