//! Runs on a device against the same runs on the processor or in another configuration.

use super::fake::{Fake, Seen, Wires};
use super::{Again, case, shape};
use crate::check::Case;
use crate::data::planted;
use crate::models::{APPNP, GAT, GCN, GCNII, SAGE};
use crate::pipeline::MODELS;
use gnnc::TrainOptions;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::{Knobs, Partitioner, Placement};
use gnnc::runtime::{Event, Phase, Session, Tensor};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub fn options(placement: Placement, ranks: u32) -> TrainOptions {
    TrainOptions {
        workers: ranks,
        placement,
        allow: Relaxation::ALL.to_vec(),
        knobs: Knobs {
            partitioner: Some(Partitioner::Hash),
            ..Knobs::default()
        },
        ..TrainOptions::default()
    }
}

/// Results of some epochs with a small learning rate.
#[derive(Debug, PartialEq)]
pub struct Found {
    losses: Vec<f64>,
    bytes: Vec<u64>,
    parameters: Vec<Tensor>,
    logits: Vec<f32>,
    counts: [f64; 6],
}

pub fn run(session: &mut Session, epochs: usize) -> Found {
    session.set_learning_rate(0.05);
    let (mut losses, mut bytes, mut counts) = (Vec::new(), Vec::new(), [0.0; 6]);
    for _ in 0..epochs {
        let report = session.epoch().unwrap();
        losses.push(report.loss);
        bytes.push(report.bytes_sent);
        let metrics = session.evaluate().unwrap();
        bytes.push(metrics.bytes_sent);
        let [a, b, c] = [metrics.train, metrics.val, metrics.test];
        counts = [a.correct, a.total, b.correct, b.total, c.correct, c.total];
    }
    bytes.extend(session.setup_bytes());
    Found {
        losses,
        bytes,
        parameters: session.parameters().unwrap(),
        logits: session.logits().unwrap(),
        counts,
    }
}

pub fn close(a: &Found, b: &Found, what: &str) {
    let near = |a: f64, b: f64, scale: f64| (a - b).abs() <= 1e-4 * scale.max(1e-3);
    assert_eq!(a.bytes, b.bytes, "{what}");
    assert_eq!(a.counts, b.counts, "{what}");
    for (a, b) in a.losses.iter().zip(&b.losses) {
        assert!(near(*a, *b, b.abs()), "{what}: losses {a} {b}");
    }
    let compare = |name: &str, a: &[f32], b: &[f32]| {
        assert_eq!(a.len(), b.len(), "{what}: {name}");
        let scale = b.iter().fold(0.0, |m: f64, x| m.max(f64::from(x.abs())));
        for (x, y) in a.iter().zip(b) {
            assert!(
                near((*x).into(), (*y).into(), scale),
                "{what}: {name} {x} {y}"
            );
        }
    };
    for (a, b) in a.parameters.iter().zip(&b.parameters) {
        assert_eq!((&a.name, a.shape), (&b.name, b.shape));
        compare(&a.name, &a.values, &b.values);
    }
    compare("logits", &a.logits, &b.logits);
}

/// Runs that the interpreter does not cover: stale rows, chunks in any order, several stages.
pub fn staged(chunks: u32, stages: u32, ranks: u32) -> TrainOptions {
    // A hybrid of one stage is graph parallelism and has no chunks.
    let placement = match stages == ranks || stages == 1 {
        true => Placement::Pipeline,
        false => Placement::Hybrid,
    };
    let mut options = options(placement, ranks);
    options.knobs.stages = Some(stages);
    options.knobs.chunks = Some(chunks);
    options.knobs.interval = Some(2);
    options
}

/// The same with this many runs of layers per stage.
pub fn in_turns(virtual_stages: u32, mut options: TrainOptions) -> TrainOptions {
    options.knobs.virtual_stages = Some(virtual_stages);
    options
}

#[test]
fn device_pipelines_agree_with_the_processor() {
    for (n, body) in MODELS.into_iter().enumerate() {
        let case = crate::pipeline::case(body);
        let ways = [
            staged(3, 2, 2),
            staged(4, 2, 4),
            staged(4, 1, 2),
            staged(2, 3, 3),
        ];
        for options in [&ways[n % 4], &ways[(n + 1) % 4]] {
            let again = Again::new(&case, options);
            let what = format!("{body} {:?}", options.knobs);
            let expected = run(&mut again.on_processor(), 5);
            close(
                &run(&mut again.on_device(&Arc::default()), 5),
                &expected,
                &what,
            );
        }
    }
}

/// Four chunks through two stages with two runs of layers each.
#[test]
fn device_runs_of_layers_agree_with_the_processor() {
    let deep = MODELS.into_iter().filter(|body| {
        let case = crate::pipeline::case(body);
        case.compiled.layers() >= 4
    });
    for (body, ranks) in deep.zip([2, 4].into_iter().cycle()) {
        let case = crate::pipeline::case(body);
        let options = in_turns(2, staged(4, 2, ranks));
        let again = Again::new(&case, &options);
        let expected = run(&mut again.on_processor(), 5);
        let found = run(&mut again.on_device(&Arc::default()), 5);
        close(&found, &expected, &format!("{body} on {ranks} ranks"));
    }
}

#[test]
fn device_copies_agree_with_the_processor() {
    for body in [GCN, GAT, GCNII, APPNP] {
        let case = case(body, false);
        for rule in [
            "fixed:1",
            "adaptive:2",
            "gap:0.1",
            "gap:0.3:2",
            "adaptive:2/cut",
            "gap:0.1/cut",
            "adaptive:2/stop",
            "gap:0.1/cut/stop",
            "adaptive:2/clip:0.05",
            "fixed:1/stop/clip:0.05",
        ] {
            let mut options = options(Placement::SkipBroadcast, 3);
            options.knobs.skip = Some(rule.parse().unwrap());
            let again = Again::new(&case, &options);
            let (mut here, mut there) = (again.on_device(&Arc::default()), again.on_processor());
            close(&run(&mut here, 5), &run(&mut there, 5), body);
            let (mut here, mut there) = (here.staleness().unwrap(), there.staleness().unwrap());
            for (here, there) in here.layers.iter_mut().zip(&mut there.layers) {
                let gaps = [here.gap.take(), there.gap.take()].map(|gap| gap.unwrap_or(0.0));
                assert!((gaps[0] - gaps[1]).abs() < 1e-4, "{body} {rule}: {gaps:?}");
            }
            assert_eq!(here, there, "{body} {rule}");
        }
    }
}

#[test]
fn device_rules_by_distance_need_one_process() {
    let case = case(GCN, false);
    let mut options = options(Placement::SkipBroadcast, 2);
    options.knobs.skip = Some("gap:0.1".parse().unwrap());
    let again = Again::new(&case, &options);
    let refused = again.on_device_of(1, Box::new(Fake::new(&Arc::default())));
    let message = refused.err().unwrap().to_string();
    assert!(
        message.contains("gap:0.1") && message.contains("fixed:EPOCHS"),
        "{message}"
    );
}

/// Messages beside computation, chunks and replayed work change no bit.
#[test]
fn device_order_changes_no_bit() {
    for (placement, ranks) in [
        (Placement::Graph, 1),
        (Placement::Graph, 3),
        (Placement::Tensor, 3),
        (Placement::PushPull, 2),
        (Placement::Mixed, 3),
    ] {
        for body in [GCN, GAT] {
            let case = case(body, placement == Placement::PushPull);
            let with = |overlap, chunks, trace| {
                let mut options = options(placement, ranks);
                options.knobs.overlap = Some(overlap);
                options.knobs.chunks = Some(chunks);
                options.trace = trace;
                options
            };
            let (seen, none) = (Arc::default(), Arc::default());
            let session = |options: &TrainOptions, seen: &Arc<Mutex<Seen>>| {
                run(&mut Again::new(&case, options).on_device(seen), 4)
            };
            let first = session(&with(true, 1, false), &seen);
            // From the second epoch and the second evaluation on.
            assert_eq!(seen.lock().unwrap().replays, 6);
            let what = format!("{placement} {body}");
            assert_eq!(
                first,
                session(&with(true, 1, true), &none),
                "captured: {what}"
            );
            assert_eq!(none.lock().unwrap().replays, 0);
            assert_eq!(
                first,
                session(&with(false, 1, false), &none),
                "overlap: {what}"
            );
            if placement != Placement::Tensor {
                let mut interior = with(true, 1, false);
                interior.knobs.interior = Some(true);
                assert_eq!(first, session(&interior, &none), "interior: {what}");
            }
            if placement == Placement::Tensor {
                assert_eq!(
                    first,
                    session(&with(true, 3, false), &none),
                    "chunks: {what}"
                );
            }
        }
    }
}

/// A file of one test, removed at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn device_checkpoints_go_on_anywhere() {
    let name = format!("gnnc-device-{}", std::process::id());
    let file = Scratch(std::env::temp_dir().join(name));
    let mut skipping = options(Placement::SkipBroadcast, 3);
    skipping.knobs.skip = Some("adaptive:2".parse().unwrap());
    for (body, options) in [
        (SAGE, options(Placement::PushPull, 2)),
        (GCN, skipping),
        (MODELS[3], staged(3, 2, 2)),
    ] {
        let case = match options.knobs.stages {
            Some(_) => crate::pipeline::case(body),
            None => case(body, false),
        };
        let again = Again::new(&case, &options);
        let sessions = || [again.on_processor(), again.on_device(&Arc::default())];
        for (place, mut first) in sessions().into_iter().enumerate() {
            run(&mut first, 3);
            first.save(&file.0).unwrap();
            let [mut a, mut b] = sessions();
            for session in [&mut a, &mut b] {
                let resumed = session.resume(&file.0).unwrap();
                assert!(resumed.same_program && resumed.copies, "{body}");
            }
            let expected = run(&mut first, 2);
            let found = [run(&mut a, 2), run(&mut b, 2)];
            assert_eq!(found[place].losses, expected.losses, "{body}");
            close(&found[1 - place], &expected, body);
        }
    }
}

#[test]
fn device_traces_are_those_of_the_processor() {
    let case = case(GCNII, true);
    for (placement, ranks) in [(Placement::Graph, 2), (Placement::Tensor, 2)] {
        let options = TrainOptions {
            trace: true,
            ..options(placement, ranks)
        };
        let again = Again::new(&case, &options);
        let events = |session: &mut Session| {
            run(session, 2);
            session.take_trace().unwrap().events
        };
        let (here, there) = (
            events(&mut again.on_device(&Arc::default())),
            events(&mut again.on_processor()),
        );
        assert_eq!(here.len(), there.len());
        let without_times = |event: &Event| Event {
            begin_us: 0.0,
            end_us: 0.0,
            ..event.clone()
        };
        for (a, b) in here.iter().zip(&there) {
            assert_eq!(without_times(a), without_times(b));
            assert!(a.begin_us <= a.end_us, "{a:?}");
        }
        let steps = here.iter().filter(|event| event.phase == Phase::Step);
        assert!(steps.map(|event| event.bytes_sent).sum::<u64>() > 0);
    }
}

/// Lists the work put on streams for a small program.
#[test]
fn device_lists_are_as_expected() {
    let mut shape = shape(false);
    (shape.vertices, shape.edges) = (12, 30);
    let body = "loss cross_entropy(x |> gcn_conv(classes), labels, on = train)";
    let case = Case::new("", body, planted(shape));
    let again = Again::new(&case, &options(Placement::Graph, 2));
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let mut session = again.on_device(&seen);
    session.evaluate().unwrap();
    seen.lock().unwrap().listed = Some(Vec::new());
    session.epoch().unwrap();
    let listed = seen.lock().unwrap().listed.take().unwrap();
    insta::assert_snapshot!(listed.join("\n"));
}

/// Ranks in separate processes exchange the same messages as ranks in one process.
#[test]
fn device_processes_agree_with_one() {
    for placement in [Placement::Graph, Placement::Tensor, Placement::Broadcast] {
        let case = case(GCN, false);
        let again = Again::new(&case, &options(placement, 2));
        let mut one = again.on_device(&Arc::default());
        let run = |session: &mut Session| {
            let (mut losses, mut sent) = (Vec::new(), 0);
            for _ in 0..4 {
                let report = session.epoch().unwrap();
                losses.push(report.loss);
                sent += report.bytes_sent;
            }
            (losses, sent, session.logits().unwrap())
        };
        let expected = run(&mut one);
        let wires: Arc<Wires> = Arc::default();
        let process = |rank: u32| {
            let driver = Fake::among(&Arc::default(), rank, &wires);
            let mut session = again.on_device_of(rank, Box::new(driver)).unwrap();
            run(&mut session)
        };
        let found: Vec<(Vec<f64>, u64, Vec<f32>)> = std::thread::scope(|scope| {
            let threads = [0, 1].map(|rank| scope.spawn(move || process(rank)));
            threads.map(|thread| thread.join().unwrap()).into()
        });
        // Bytes and logits are those of all processes.
        for found in &found {
            assert_eq!(*found, expected, "{placement}");
        }
        assert!(expected.1 > 0);
    }
}
