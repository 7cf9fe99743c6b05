//! Sessions of pipelines and hybrids, against the interpreter of the form with histories.

use crate::check::Case;
use crate::pipeline::{MODELS, case, elements};
use gnnc::graph::Partition;
use gnnc::graph::partition::{Partitioner, Range};
use gnnc::ir::Graph;
use gnnc::ir::autodiff::differentiate;
use gnnc::ir::eval::{DropoutKey, EvalContext, Tensor, evaluate};
use gnnc::ir::op::{History, Input, Op};
use gnnc::ir::plan::Placement;
use gnnc::planner::placement::{Place, Stages};
use gnnc::planner::stale::form;
use gnnc::runtime::{RunOptions, Session, chunk_order, parse_checkpoint};
use std::collections::BTreeMap;

const LEARNING_RATE: f64 = 64.0;
/// As for other programs: f32 against f64.
const TOLERANCE: f64 = 1e-4;

/// How a model is run.
#[derive(Clone, Debug)]
struct Way {
    ranks: u32,
    stages: Stages,
}

fn way(count: u32, ranks: u32, chunks: u32) -> Way {
    let stages = Stages {
        chunks,
        interval: 2,
        ..Stages::new(count)
    };
    Way { ranks, stages }
}

fn session(case: &Case, way: &Way) -> (Session, Partition) {
    let place = Place {
        stages: Some(way.stages.clone()),
        ..Place::new(Placement::Pipeline, way.ranks)
    };
    let programs = case
        .compiled
        .programs(&place)
        .unwrap_or_else(|e| panic!("{way:?}: {e}"));
    let data = case.loaded.data.as_ref().unwrap();
    let parts = Range
        .partition(&data.topology, way.ranks / way.stages.count)
        .unwrap();
    let partition = parts
        .cut_chunks(&data.topology, way.stages.chunks, 3)
        .unwrap();
    let options = RunOptions {
        seed: case.loaded.model.train.seed,
        learning_rate: LEARNING_RATE,
        ..RunOptions::default()
    };
    let mut session = Session::new(programs, data, &partition, options)
        .unwrap_or_else(|e| panic!("{way:?}: {e}"));
    let mut start = session.parameters();
    start.sort_by(|a, b| a.name.cmp(&b.name));
    for (n, tensor) in start.iter_mut().enumerate() {
        for (k, value) in tensor.values.iter_mut().enumerate() {
            *value += 0.3 * ((7 * n + 3 * k) as f32 * 0.7).sin();
        }
    }
    session.set_parameters(&start).unwrap();
    (session, partition)
}

fn find_histories(form: &Graph) -> Vec<History> {
    let mut found = BTreeMap::new();
    for node in &form.nodes {
        if let Op::Input(Input::History(history)) = node.op {
            found.insert(history.number, history);
        }
    }
    found.into_values().collect()
}

/// The histories that a session holds, in order of the vertices.
fn histories(session: &Session, form: &Graph, rows: usize) -> Vec<Tensor> {
    let name = format!(
        "gnnc-stages-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    );
    let path = std::env::temp_dir().join(name);
    session.save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let wanted = find_histories(form);
    let tensor = |history: &History| gnnc::runtime::Tensor {
        name: format!("history.{}", history.number),
        shape: [1, rows as u32, history.columns()],
        values: Vec::new(),
    };
    let mut expected: Vec<gnnc::runtime::Tensor> = session.parameters();
    expected.extend(wanted.iter().map(tensor));
    let (_, found) = parse_checkpoint(&bytes, &expected).unwrap();
    let one = |history: &History| {
        let name = format!("history.{}", history.number);
        let tensor = found.iter().find(|t| t.name == name).unwrap();
        let values = tensor.values.iter().map(|&x| f64::from(x)).collect();
        Tensor::new(history.ty(), rows, values)
    };
    wanted.iter().map(one).collect()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |a, b| a.max(b.abs()))
}

/// Compares three epochs with the interpreter, which reads the histories that the session holds.
fn check(case: &mut Case, body: &str, way: &Way) {
    case.loss();
    let source = case.compiled.training.source.clone();
    let form = form(&source).unwrap();
    let training = differentiate(&form).unwrap();
    let (mut session, partition) = session(case, way);
    // Histories are there from now on.
    session.evaluate().unwrap();
    let pipeline = gnnc::ir::program::Pipeline {
        stages: way.stages.count,
        stage: 0,
        chunks: way.stages.chunks,
        shuffle: way.stages.shuffle,
        interval: way.stages.interval,
    };
    let (seed, rows) = (case.loaded.model.train.seed, partition.owner().len());
    let decay = case.loaded.model.train.weight_decay;
    let start = session.parameters();
    let of_model = |session: &Session| -> Vec<Tensor> {
        let params = case.loaded.model.graph.params.iter();
        let known = session.parameters();
        let tensor = |(spec, like): (&gnnc::ir::graph::ParamSpec, &Tensor)| {
            let own = known.iter().find(|t| t.name == spec.name).unwrap();
            Tensor {
                data: own.values.iter().map(|&x| f64::from(x)).collect(),
                ..like.clone()
            }
        };
        let params = params
            .zip(&case.context().params)
            .map(tensor)
            .collect::<Vec<_>>();
        elements(&form, &case.loaded.model.graph, &params)
    };
    for epoch in 1..=3 {
        let mut place = vec![0; way.stages.chunks as usize];
        for (n, chunk) in chunk_order(&pipeline, seed, epoch).into_iter().enumerate() {
            place[chunk as usize] = n as u32;
        }
        let before = of_model(&session);
        let context = EvalContext {
            params: before.clone(),
            histories: histories(&session, &form, rows),
            order: (0..rows as u32)
                .map(|v| place[partition.chunk_of(v) as usize])
                .collect(),
            dropout: Some(DropoutKey {
                seed,
                epoch: epoch as u32 - 1,
            }),
            ..case.context().clone()
        };
        let results = evaluate(&training.graph, &context).unwrap();
        let report = session
            .epoch()
            .unwrap_or_else(|e| panic!("{way:?}: {e}\n{body}"));
        let loss = results[training.loss].data[0];
        assert!(
            (report.loss - loss).abs() <= TOLERANCE * loss.abs(),
            "epoch {epoch}: loss {}, not {loss}\n{way:?}\n{body}",
            report.loss
        );
        let after = of_model(&session);
        let all = training
            .grads
            .iter()
            .flatten()
            .map(|g| largest(&results[*g].data));
        let all = all.fold(0.0, f64::max);
        for (n, spec) in form.params.iter().enumerate() {
            let Some(expected) = training.grads[n] else {
                continue;
            };
            let expected = &results[expected].data;
            let scale = largest(expected).max(1e-3 * all);
            let decay = spec.decay.unwrap_or(decay);
            for (k, e) in expected.iter().enumerate() {
                let (old, new) = (before[n].data[k], after[n].data[k]);
                let found = (old - new) / LEARNING_RATE - decay * old;
                assert!(
                    (found - e).abs() <= TOLERANCE * scale,
                    "epoch {epoch}: gradient of {} {:?}, element {k}: {found}, not {e} (largest {scale})\n{way:?}\n{body}",
                    spec.name,
                    spec.element
                );
            }
        }
        session.set_parameters(&start).unwrap();
    }
    // Evaluations are exact: the logits of the model itself.
    let model = &case.loaded.model.graph;
    let of_start = EvalContext {
        params: of_model(&session),
        histories: histories(&session, &form, rows),
        ..case.context().clone()
    };
    let exact = evaluate(&form, &of_start).unwrap();
    let expected = &exact[1].data;
    let logits = session.logits().unwrap();
    assert_eq!(logits.len(), expected.len(), "{model:?}");
    for (z, e) in logits.iter().zip(expected) {
        assert!(
            (f64::from(*z) - e).abs() <= TOLERANCE * largest(expected),
            "{z} {e}\n{body}"
        );
    }
}

#[test]
fn one_stage_of_one_rank() {
    for body in MODELS {
        check(&mut case(body), body, &way(1, 1, 4));
    }
}

#[test]
fn stages_of_one_rank() {
    for body in MODELS {
        check(&mut case(body), body, &way(2, 2, 5));
        check(&mut case(body), body, &way(3, 3, 1));
    }
}

#[test]
fn stages_of_several_ranks() {
    for body in MODELS {
        check(&mut case(body), body, &way(1, 3, 4));
        check(&mut case(body), body, &way(2, 4, 3));
    }
}

/// Sums of one chunk have the same order on one stage and on several.
#[test]
fn stages_change_no_number() {
    for body in MODELS {
        let case = case(body);
        let losses = |way: &Way| -> Vec<f64> {
            let (mut session, _) = session(&case, way);
            (0..4).map(|_| session.epoch().unwrap().loss).collect()
        };
        let alone = losses(&way(1, 1, 6));
        assert_eq!(alone, losses(&way(2, 2, 6)), "{body}");
        assert_eq!(losses(&way(1, 2, 6)), losses(&way(3, 6, 6)), "{body}");
    }
}
