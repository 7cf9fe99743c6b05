//! The number of messages grows with the ranks that have data for each other, not with all
//! pairs of ranks.

#![allow(clippy::unwrap_used)]

mod network;

use gnnc_graph::partition::{Partitioner, Range};
use gnnc_graph::{Features, GraphData, Labels, Topology};
use gnnc_runtime::transport::Transport;
use gnnc_runtime::transport::threads::Threads;
use gnnc_runtime::transport::watched::{Call, Watched};
use gnnc_runtime::{RunOptions, Session};
use network::Network;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A ring of vertices.
fn ring(vertices: u32) -> GraphData {
    let edges = (0..vertices).flat_map(|v| {
        let next = (v + 1) % vertices;
        [(v, next), (next, v)]
    });
    let (topology, _) = Topology::from_edges(vertices, edges).unwrap();
    let mut data = GraphData::new("ring", topology);
    let n = vertices as usize;
    data.features = Features::dense(n, 4, (0..4 * n).map(|i| (i % 7) as f32).collect());
    data.labels = Labels::Single((0..n).map(|v| (v % 2) as i32).collect());
    data.train = vec![true; n];
    data.val = vec![false; n];
    data.test = vec![false; n];
    data
}

/// Messages of an epoch, and its loss, for a ring over `ranks` ranks with two vertices each.
fn epoch(ranks: u32) -> (u64, f64) {
    let data = ring(2 * ranks);
    let network = Network {
        ranks,
        features: 4,
        hidden: 5,
        classes: 2,
        sparse: false,
        dropout: false,
    };
    let partition = Range.partition((&data.topology).into(), ranks).unwrap();
    let messages = Arc::new(AtomicU64::new(0));
    let count = |inner| {
        let messages = Arc::clone(&messages);
        let watch = move |call| {
            if matches!(call, Call::Send { .. }) {
                messages.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        Box::new(Watched::new(inner, Box::new(watch))) as Box<dyn Transport>
    };
    let ends = Threads::connect(ranks).into_iter().map(count).collect();
    let options = RunOptions::default();
    let mut session =
        Session::with_transports(network.program(), &data, &partition, options, ends).unwrap();
    session.epoch().unwrap();
    let before = messages.load(Ordering::Relaxed);
    let loss = session.epoch().unwrap().loss;
    (messages.load(Ordering::Relaxed) - before, loss)
}

#[test]
fn messages_grow_with_the_ranks_and_not_with_their_pairs() {
    let ((few, few_loss), (many, many_loss)) = (epoch(8), epoch(128));
    assert!(few > 0 && few_loss.is_finite() && many_loss.is_finite());
    assert!(
        many <= few * 20,
        "{few} messages over 8 ranks, {many} over 128"
    );
}
