//! Overlapped messages: same numbers and bytes as with blocking communication, however threads
//! are delayed.

use crate::check::Case;
use crate::data::{Shape, planted};
use crate::examples::reads_back;
use gnnc::graph::partition::{Partitioner, Range};
use gnnc::ir::cluster::Cluster;
use gnnc::ir::plan::{Candidate, Knobs, Placement};
use gnnc::ir::program::instr;
use gnnc::ir::program::trace::Phase;
use gnnc::ir::program::{Instr, Program};
use gnnc::planner::placement::PlacementSpec;
use gnnc::planner::search::Pin;
use gnnc::runtime::transport::{Transport, threads::Threads, watched::Watched};
use gnnc::runtime::{RunOptions, Session};
use gnnc::{LoadOptions, Loaded, PlanOptions, Source};
use std::time::Duration;

/// A transport that pauses before every message, in a rhythm of its own.
pub fn delayed(inner: Threads, mut state: u64) -> Watched<Threads> {
    let rest = move |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let micros = (state >> 40) % 600;
        // Usually no pause, sometimes a long one, so that ranks get ahead of each other.
        if micros > 450 {
            std::thread::sleep(Duration::from_micros(micros));
        }
        Ok(())
    };
    Watched::new(inner, Box::new(rest))
}

/// Losses of three epochs and the logits after them, as bits, and the bytes sent.
pub fn run(programs: Vec<Program>, case: &Case, delays: Option<u64>) -> (Vec<u64>, Vec<u32>, u64) {
    let data = case.loaded.data.as_ref().unwrap();
    let ranks = programs[0].ranks;
    let partition = Range.partition((&data.topology).into(), ranks).unwrap();
    let end = |inner: Threads| match delays {
        None => Box::new(inner) as Box<dyn Transport>,
        Some(seed) => {
            let state = seed * 1000 + u64::from(inner.rank());
            Box::new(delayed(inner, state))
        }
    };
    let ends = Threads::connect(ranks).into_iter().map(end).collect();
    let options = RunOptions {
        learning_rate: 0.05,
        ..RunOptions::default()
    };
    let mut session = Session::with_transports(programs, data, &partition, options, ends).unwrap();
    let losses = (0..3).map(|_| session.epoch().unwrap().loss.to_bits());
    let losses = losses.collect();
    let logits = session.logits().unwrap();
    let bits = logits.iter().map(|x| x.to_bits()).collect();
    (losses, bits, session.bytes_sent())
}

/// Number of split communications with instructions in between.
pub fn halves(instrs: &[Instr]) -> usize {
    let one = |instr: &Instr| match instr {
        Instr::Begin(_) => 1,
        Instr::Repeat(instr::Repeat { body, .. }) => halves(body),
        _ => 0,
    };
    instrs.iter().map(one).sum()
}

const MODELS: [&str; 3] = [
    "let h = x |> dropout(0.2) |> gcn_conv(16) |> relu
     let g = h |> gcn_conv(8) |> relu
     loss cross_entropy(g |> sage_conv(classes), labels, on = train)",
    "let h = x |> gat_conv(4, heads = 4, dropout = 0.2) |> elu
     loss cross_entropy(h |> gat_conv(classes), labels, on = train)",
    "let h0 = x |> linear(16) |> relu
     let h = h0
     repeat i in 1..=3 {
       h = h |> dropout(0.2) |> gcnii_conv(h0, alpha = 0.1, beta = 0.5 / i) |> relu
       h = res_plus(h, conv = sage_conv, dropout = 0.2)
     }
     loss cross_entropy(linear(h, classes), labels, on = train)",
];

fn cases() -> impl Iterator<Item = Case> {
    MODELS.into_iter().map(|body| {
        let data = planted(Shape {
            vertices: 300,
            edges: 2000,
            directed: true,
            sparse: false,
            seed: 5,
        });
        Case::new("", body, data)
    })
}

/// Chunks send the same bytes and hide most of them (`docs/results.md`).
#[test]
fn chunks_hide_messages_of_a_plan() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/gcn_reddit.gir");
    let source = Source::read(file).unwrap();
    let loaded = Loaded::new(&source, &LoadOptions::default()).unwrap();
    let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
    let plan = |overlap, chunks| {
        let options = PlanOptions {
            pin: Pin {
                placement: Some(Placement::Tensor),
                ranks: Some(8),
                knobs: Knobs {
                    overlap: Some(overlap),
                    chunks: Some(chunks),
                    ..Knobs::default()
                },
                ..Pin::default()
            },
            ..PlanOptions::new(Cluster::named("a5000x8").unwrap())
        };
        let plan = gnnc::plan(&loaded, &compiled, &options).unwrap();
        plan.candidates[0].clone()
    };
    let exposed = |c: &Candidate| c.exposed_communication_seconds.0;
    let (whole, cut) = (plan(false, 1), plan(true, 16));
    assert_eq!(whole.bytes, cut.bytes);
    assert!(exposed(&cut) < 0.5 * exposed(&whole));
    assert!(cut.epoch_seconds < whole.epoch_seconds);
    // Without overlap, chunks only add latency.
    assert!(plan(false, 16).epoch_seconds > whole.epoch_seconds);
    assert!(exposed(&plan(true, 1)) < exposed(&whole));
}

pub fn programs(case: &Case, placement: Placement, ranks: u32, knobs: Knobs) -> Vec<Program> {
    let place = PlacementSpec {
        knobs,
        ..PlacementSpec::new(placement, ranks)
    };
    let programs = case.compiled.programs(&place).unwrap();
    reads_back(&programs);
    programs
}

/// Any number of chunks, blocking or overlapped: the same bits, and every row is moved once.
#[test]
fn chunks_change_nothing_but_the_time() {
    let mut cut = 0;
    for case in cases() {
        for ranks in [2, 5] {
            let of = |overlap, chunks| {
                let knobs = Knobs {
                    overlap: Some(overlap),
                    chunks: Some(chunks),
                    ..Knobs::default()
                };
                programs(&case, Placement::Tensor, ranks, knobs)
            };
            let expected = run(of(false, 1), &case, None);
            for (overlap, chunks, delays) in [
                (false, 3, None),
                (true, 2, None),
                (true, 3, Some(3)),
                (true, 7, Some(4)),
                (true, 16, None),
            ] {
                let found = of(overlap, chunks);
                cut += halves(found[0].list(Phase::Step));
                let found = run(found, &case, delays);
                let what = format!("{ranks} ranks, {chunks} chunks, overlap {overlap}");
                assert_eq!(expected, found, "{what}, {delays:?}");
            }
        }
    }
    assert!(cut > 50, "{cut} communications have something in between");
}

#[test]
fn overlap_changes_nothing_but_the_time() {
    let mut cut = 0;
    for case in cases() {
        for placement in [Placement::Graph, Placement::Broadcast, Placement::Tensor] {
            for ranks in [2, 5] {
                let knobs = |overlap| Knobs {
                    overlap: Some(overlap),
                    ..Knobs::default()
                };
                let programs = |overlap| programs(&case, placement, ranks, knobs(overlap));
                let (whole, halved) = (programs(false), programs(true));
                let count = |programs: &[Program]| halves(programs[0].list(Phase::Step));
                assert_eq!(count(&whole), 0);
                cut += count(&halved);
                let expected = run(whole, &case, None);
                for delays in [None, Some(1), Some(2)] {
                    let found = run(halved.clone(), &case, delays);
                    assert_eq!(expected, found, "{placement} x {ranks}, {delays:?}");
                }
            }
        }
    }
    assert!(cut > 10, "{cut} communications have something in between");
}
