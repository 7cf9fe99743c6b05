//! Pipelines with another division of layers, or resumed from a checkpoint, give the same
//! numbers.

use crate::check::Case;
use crate::data::{Shape, planted};
use crate::models::WEIGHTS;
use crate::pipeline::{LAYERS, MODELS, case, scored};
use gnnc::graph::Partition;
use gnnc::graph::partition::{Partitioner, Range};
use gnnc::graph::rng::Stream;
use gnnc::ir::plan::{Knobs, Placement};
use gnnc::planner::placement::PlacementSpec;
use gnnc::planner::stale::{form, stages};
use gnnc::runtime::transport::Transport;
use gnnc::runtime::transport::threads::Threads;
use gnnc::runtime::transport::watched::Watched;
use gnnc::runtime::{RunOptions, Session, Tensor};
use std::path::PathBuf;
use std::time::Duration;

/// A session of `count` stages with `width` ranks each; for 0 stages, placement graph on one
/// rank.
fn session(case: &Case, count: u32, width: u32, chunks: u32) -> Session {
    in_turns(case, [count, width, 1], chunks, None)
}

/// The same with several runs of layers per stage.
fn in_turns(
    case: &Case,
    [count, width, virtual_stages]: [u32; 3],
    chunks: u32,
    ends: Option<Vec<Box<dyn Transport>>>,
) -> Session {
    let data = case.loaded.data.as_ref().unwrap();
    let (place, partition) = match count {
        0 => (
            PlacementSpec::new(Placement::Graph, 1),
            Partition::whole(data.vertices()),
        ),
        _ => {
            let mut place = PlacementSpec::new(Placement::Pipeline, count * width);
            place.knobs = Knobs {
                stages: Some(count),
                virtual_stages: Some(virtual_stages),
                chunks: Some(chunks),
                interval: Some(2),
                ..Knobs::default()
            };
            let parts = Range.partition((&data.topology).into(), width).unwrap();
            (place, parts.cut_chunks(&data.topology, chunks, 3).unwrap())
        }
    };
    let programs = case.compiled.programs(&place).unwrap();
    let options = RunOptions {
        seed: 7,
        learning_rate: 0.05,
        ..RunOptions::default()
    };
    let session = match ends {
        None => Session::new(programs, data, &partition, options),
        Some(ends) => Session::with_transports(programs, data, &partition, options, ends),
    };
    session.unwrap()
}

fn losses(session: &mut Session, epochs: usize) -> Vec<f64> {
    let epoch = |_| session.epoch().unwrap().loss;
    (0..epochs).map(epoch).collect()
}

fn by_name(session: &Session) -> Vec<Tensor> {
    let mut tensors = session.parameters().unwrap();
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    tensors
}

/// A file of one test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("gnnc-stages-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn where_layers_run_changes_no_number() {
    for body in MODELS {
        let case = case(body);
        let run = |count, width| {
            let mut session = session(&case, count, width, 4);
            (losses(&mut session, 4), session.logits().unwrap())
        };
        assert_eq!(run(1, 1), run(2, 1), "{body}");
        assert_eq!(run(1, 2), run(3, 2), "{body}");
    }
}

#[test]
fn stages_weigh_classes_as_one_rank_does() {
    for weights in WEIGHTS {
        let body = "let h = x |> gcn_conv(6) |> relu |> sage_conv(5) |> relu
             let z = h |> gcn_conv(classes)";
        let case = scored(body, &format!(", {weights}"));
        let first = |count, width| losses(&mut session(&case, count, width, 4), 1)[0];
        // The first epoch reads exact histories.
        let expected = first(0, 1);
        for (count, width) in [(2, 1), (3, 2)] {
            let found = first(count, width);
            assert!(
                (found - expected).abs() < 1e-5 * expected,
                "{weights}: {found} {expected}"
            );
        }
    }
}

/// Seven layers that hand over six columns, and the number of columns that travel per row.
pub const DEEP: [(&str, u64); 3] = [
    (
        "let h = x |> dropout(0.3) |> gcn_conv(6) |> relu
     repeat l in 2..=6 { h = h |> dropout(0.3) |> gcn_conv(6) |> relu }
     let z = h |> gcn_conv(classes)",
        6,
    ),
    (
        "let h0 = x |> dropout(0.3) |> linear(6, init = kaiming) |> relu
     let h = h0
     repeat i in 1..=7 {
       let beta = log(0.5 / i + 1)
       h = h |> dropout(0.3) |> gcnii_conv(h0, alpha = 0.1, beta = beta) |> relu
     }
     let z = h |> dropout(0.3) |> linear(classes, init = kaiming)",
        12,
    ),
    (
        "let h = x |> linear(6, init = kaiming) |> sage_conv(6)
     repeat l in 2..=7 { h = res_plus(h, conv = sage_conv, dropout = 0.3) }
     let z = h |> layer_norm |> relu |> dropout(0.3) |> linear(classes, init = kaiming)",
        6,
    ),
];

pub fn deep(body: &str, vertices: u32, seed: u64) -> Case {
    let shape = Shape {
        vertices,
        edges: 4 * u64::from(vertices),
        directed: true,
        sparse: seed.is_multiple_of(2),
        seed,
    };
    let end = "loss cross_entropy(z, labels, on = train)";
    Case::new(LAYERS, &format!("{body}\n{end}"), planted(shape))
}

/// Exact results of some epochs.
#[derive(Debug, PartialEq)]
struct Found {
    losses: Vec<f64>,
    parameters: Vec<Tensor>,
    logits: Vec<f32>,
}

fn found(mut session: Session) -> Found {
    Found {
        losses: losses(&mut session, 5),
        parameters: by_name(&session),
        logits: session.logits().unwrap(),
    }
}

#[test]
fn runs_of_layers_change_no_number() {
    for (body, columns) in DEEP {
        let case = deep(body, 30, 5);
        let expected = found(in_turns(&case, [1, 1, 1], 4, None));
        for ways in [[2, 1, 1], [2, 1, 2], [2, 1, 3], [3, 1, 2]] {
            let mut session = in_turns(&case, ways, 4, None);
            // Every row crosses every border between runs, and so does its gradient.
            let [stages, _, virtual_stages] = ways.map(u64::from);
            let bytes = 2 * (stages * virtual_stages - 1) * 30 * columns * 4;
            assert_eq!(
                session.epoch().unwrap().bytes_sent,
                bytes,
                "{ways:?}\n{body}"
            );
            let same = found(in_turns(&case, ways, 4, None)) == expected;
            assert!(same, "{ways:?}\n{body}");
        }
    }
}

#[test]
fn random_runs_of_layers_change_no_number() {
    let (stream, mut next) = (Stream::new(11, 3), 0);
    let mut between = |least: u32, most: u32| {
        next += 1;
        let span = u64::from(most - least + 1);
        least + Stream::below(stream.bits(next), span) as u32
    };
    for n in 0..12 {
        let (body, _) = DEEP[n % DEEP.len()];
        let (vertices, width) = (between(12, 60), between(1, 2));
        let (stages, chunks) = (between(2, 3), between(1, 6));
        let virtual_stages = between(2, 7 / stages);
        let case = deep(body, vertices, n as u64);
        let expected = found(in_turns(&case, [1, width, 1], chunks, None));
        let same = found(in_turns(
            &case,
            [stages, width, virtual_stages],
            chunks,
            None,
        )) == expected;
        assert!(
            same,
            "{vertices} vertices, {stages} stages of {width}, {virtual_stages} runs, {chunks} chunks\n{body}"
        );
    }
}

/// Every message is delayed by a time that depends on the rank and the number of the message.
#[test]
fn delays_between_runs_of_layers_change_nothing() {
    for (body, _) in DEEP {
        let case = deep(body, 30, 5);
        let ways = [2, 2, 3];
        let expected = found(in_turns(&case, ways, 4, None));
        for pattern in [3, 5] {
            let slow = |inner: Threads| {
                let (stream, mut next) = (Stream::new(pattern, inner.rank().into()), 0);
                let watch = move |_| {
                    next += 1;
                    let micros = Stream::below(stream.bits(next), 300);
                    std::thread::sleep(Duration::from_micros(micros));
                    Ok(())
                };
                Box::new(Watched::new(inner, Box::new(watch))) as Box<dyn Transport>
            };
            let ends = Threads::connect(4).into_iter().map(slow).collect();
            let same = found(in_turns(&case, ways, 4, Some(ends))) == expected;
            assert!(same, "{pattern}\n{body}");
        }
    }
}

#[test]
fn checkpoints_of_runs_of_layers_are_those_of_the_model() {
    let file = Scratch::new("turns");
    for (body, _) in DEEP {
        let case = deep(body, 30, 5);
        let mut first = in_turns(&case, [2, 1, 3], 4, None);
        losses(&mut first, 3);
        first.save(&file.0).unwrap();
        let want = losses(&mut first, 3);
        // Another division continues with the same histories.
        for ways in [[2, 1, 3], [3, 1, 1], [3, 1, 2]] {
            let mut other = in_turns(&case, ways, 4, None);
            other.resume(&file.0).unwrap();
            assert_eq!(want, losses(&mut other, 3), "{ways:?}\n{body}");
            assert_eq!(by_name(&first), by_name(&other), "{ways:?}\n{body}");
        }
    }
}

#[test]
fn checkpoints_of_stages_are_those_of_the_model() {
    let file = Scratch::new("model");
    for body in MODELS {
        let case = case(body);
        let mut first = session(&case, 2, 2, 3);
        // All placements start with the same numbers.
        let mut graph = session(&case, 0, 1, 1);
        assert_eq!(by_name(&first), by_name(&graph), "{body}");
        losses(&mut first, 3);
        first.save(&file.0).unwrap();
        let want = losses(&mut first, 3);
        let mut again = session(&case, 2, 2, 3);
        again.resume(&file.0).unwrap();
        let stopped = by_name(&again);
        assert_eq!(want, losses(&mut again, 3), "{body}");
        // To one rank and back.
        graph.resume(&file.0).unwrap();
        assert_eq!(stopped, by_name(&graph), "{body}");
        graph.save(&file.0).unwrap();
        let mut back = session(&case, 3, 1, 2);
        back.resume(&file.0).unwrap();
        assert_eq!(stopped, by_name(&back), "{body}");
        let (a, b) = (graph.logits().unwrap(), back.logits().unwrap());
        let largest = a.iter().fold(0.0, |m: f32, z| m.max(z.abs()));
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() <= 1e-5 * largest, "{a} {b}\n{body}");
        }
    }
}

#[test]
fn runs_of_layers_have_parameters_of_their_own() {
    let shared = "let w = parameter(6, rows = 6)
     let h = x |> gcn_conv(6) |> relu
     let h = matmul(h, w) |> gcn_conv(6) |> relu |> gcn_conv(6) |> relu
     let h = matmul(h, w)
     let z = h |> gcn_conv(classes)";
    let form = form(&case(shared).loaded.model.graph, false).unwrap();
    let error = |count, layers: &[u32]| stages(&form, count, layers).unwrap_err().to_string();
    let two = error(2, &[2, 2]);
    assert!(two.contains("of stage 1 and of stage 2"), "{two}");
    let virtual_stages = error(2, &[1, 1, 1, 1]);
    for part in [
        " of virtual stage 1 of stage ",
        " and of virtual stage 2 of stage ",
        " or virtual stages",
    ] {
        assert!(virtual_stages.contains(part), "{virtual_stages}");
    }
}
