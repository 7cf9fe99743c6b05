//! Pipelines whose layers are divided otherwise, or that go on from a checkpoint, give the same numbers.

use crate::check::Case;
use crate::pipeline::{MODELS, case};
use gnnc::graph::Partition;
use gnnc::graph::partition::{Partitioner, Range};
use gnnc::ir::plan::Placement;
use gnnc::planner::placement::{Place, Stages};
use gnnc::runtime::{RunOptions, Session, Tensor};
use std::path::PathBuf;

/// A session of `count` stages of `width` ranks each; of the graph placement on one rank if there are none.
fn session(case: &Case, count: u32, width: u32, chunks: u32) -> Session {
    let data = case.loaded.data.as_ref().unwrap();
    let (place, partition) = match count {
        0 => (
            Place::new(Placement::Graph, 1),
            Partition::whole(data.vertices()),
        ),
        _ => {
            let stages = Stages {
                chunks,
                interval: 2,
                ..Stages::new(count)
            };
            let place = Place {
                stages: Some(stages),
                ..Place::new(Placement::Pipeline, count * width)
            };
            let parts = Range.partition(&data.topology, width).unwrap();
            (place, parts.cut_chunks(&data.topology, chunks, 3).unwrap())
        }
    };
    let programs = case.compiled.programs(&place).unwrap();
    let options = RunOptions {
        seed: 7,
        learning_rate: 0.05,
        ..RunOptions::default()
    };
    Session::new(programs, data, &partition, options).unwrap()
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

/// A file of one test, removed in the end.
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
