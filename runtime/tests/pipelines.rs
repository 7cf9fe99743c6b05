//! Stages, chunks and histories: the same numbers as on one rank, in whatever order messages come.

#![allow(clippy::unwrap_used)]

mod network;

use gnnc_graph::partition::{Partitioner, Range};
use gnnc_graph::{GraphData, Partition, example};
use gnnc_runtime::transport::Transport;
use gnnc_runtime::transport::threads::Threads;
use gnnc_runtime::transport::watched::Watched;
use gnnc_runtime::{RunOptions, Session};
use network::staged::Staged;
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

/// The quarters of G8 as chunks of its whole or of its halves.
fn quarters(width: u32, chunks: u32) -> Partition {
    let parts = Range.partition(&example::g8().topology, width).unwrap();
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
            let mut tensors = session.parameters();
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
        let whole = Range.partition(&data.topology, width).unwrap();
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
    // The history of the first epoch is what it would compute.
    assert!((want[0] - found[0]).abs() < 1e-6, "{want:?} {found:?}");
    assert!((want[2] - found[2]).abs() > 1e-6, "{want:?} {found:?}");
    // Without cross-chunk arcs nothing is old.
    let arcs = gnnc_graph::Topology::from_edges(8, (0..8).map(|v| (v ^ 1, v))).unwrap();
    let mut pairs = data.clone();
    pairs.topology = arcs.0;
    let want = losses(&mut session(plain, &pairs, &Partition::whole(8)), 6);
    let found = losses(&mut session(G8, &pairs, &quarters(1, 4)), 6);
    assert_eq!(want, found);
}

/// Every message takes a while, of a length that depends on the rank and the number of the message.
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

/// Each way and chunk one message of two rows of six floats; arcs of half of the cross-chunk pairs.
#[test]
fn bytes_and_ages_are_those_of_the_closed_forms() {
    let data = example::g8();
    let network = Staged { stages: 2, ..G8 };
    let mut session = session(network, &data, &quarters(1, 4));
    for epoch in 1..=7 {
        let report = session.epoch().unwrap();
        assert_eq!(report.bytes_sent, 2 * 8 * 6 * 4, "epoch {epoch}");
    }
    let staleness = session.staleness();
    let names: Vec<&str> = staleness.layers.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["history 0", "history 1"]);
    for layer in &staleness.layers {
        // Epochs 1 to 7, kept in 0, 3 and 6; six of twenty arcs an epoch.
        let ages: Vec<(u64, u64)> = layer.ages.iter().map(|(a, n)| (*a, *n)).collect();
        assert_eq!(ages, [(0, 98), (1, 18), (2, 12), (3, 12)]);
    }
}
