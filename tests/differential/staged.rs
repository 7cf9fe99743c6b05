//! Sessions in stages and chunks compute what the form of a pipeline defines.

use crate::check::Case;
use crate::data::planted;
use crate::pipeline::{MODELS, case, elements, histories};
use crate::random;
use gnnc::graph::GraphData;
use gnnc::graph::partition::{self, Partition};
use gnnc::ir::graph::autodiff::differentiate;
use gnnc::ir::graph::eval::{DropoutKey, EvalContext, evaluate};
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::graph::op::{Input, Op};
use gnnc::ir::plan::{Knobs, Placement};
use gnnc::ir::program::Pipeline;
use gnnc::ir::{Graph, NodeId};
use gnnc::planner::stale::{StaleError, form};
use gnnc::runtime::chunk_order;
use gnnc::{TrainOptions, Trainer};
use proptest::prelude::*;
use proptest::test_runner::TestError;
use std::cell::Cell;

/// Configuration of a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub ranks: u32,
    pub stages: u32,
    pub virtual_stages: u32,
    pub chunks: u32,
    pub interval: u32,
}

impl Way {
    fn knobs(self) -> Knobs {
        Knobs {
            stages: Some(self.stages),
            virtual_stages: Some(self.virtual_stages),
            chunks: Some(self.chunks),
            interval: Some(self.interval),
            ..Knobs::default()
        }
    }

    fn pipeline(self) -> Pipeline {
        Pipeline {
            stages: self.stages,
            stage: 0,
            chunks: self.chunks,
            shuffle: true,
            interval: self.interval,
        }
    }

    pub fn options(self) -> TrainOptions {
        TrainOptions {
            workers: self.ranks,
            // A hybrid of one stage is graph parallelism and has no chunks.
            placement: match self.stages == self.ranks || self.stages == 1 {
                true => Placement::Pipeline,
                false => Placement::Hybrid,
            },
            knobs: self.knobs(),
            allow: Relaxation::ALL.to_vec(),
            ..TrainOptions::default()
        }
    }

    /// The chunk of each vertex.
    fn chunks(self, data: &GraphData) -> Vec<u32> {
        let parts = self.ranks / self.stages;
        let whole = Partition::whole(data.vertices());
        let method = partition::by_name(self.options().partitioner().name(), 0).unwrap();
        let parts = match parts {
            1 => whole,
            parts => method.partition((&data.topology).into(), parts).unwrap(),
        };
        let cut = parts.cut_chunks(&data.topology, self.chunks, 0).unwrap();
        (0..data.vertices()).map(|v| cut.chunk_of(v)).collect()
    }
}

/// A session whose start values leave no parameter at 0 or 1.
fn start(case: &Case, way: Way) -> Trainer {
    let mut trainer = Trainer::new(&case.loaded, &case.compiled, &way.options())
        .unwrap_or_else(|e| panic!("{way:?}: {e}"));
    let mut start = trainer.session.parameters().unwrap();
    for (n, tensor) in start.iter_mut().enumerate() {
        for (k, value) in tensor.values.iter_mut().enumerate() {
            *value += 0.3 * ((7 * n + 3 * k) as f32 * 0.7).sin();
        }
    }
    trainer.session.set_parameters(&start).unwrap();
    trainer
}

/// The tensors that become histories, by number.
fn kept(form: &Graph) -> Graph {
    let blends = form.nodes.iter().filter(|node| node.op == Op::Blend);
    let mut results: Vec<NodeId> = Vec::new();
    for blend in blends {
        let Op::Input(Input::History(history)) = form.node(blend.inputs[3]).op else {
            panic!("a blend without a history")
        };
        if history.number as usize == results.len() {
            results.push(blend.inputs[2]);
        }
    }
    Graph {
        results,
        ..form.clone()
    }
}

/// Trains some epochs, each from the same parameters, and compares with the interpreter.
fn check(body: &str, way: Way) {
    let stale = check_case(case(body), body, way);
    assert!(stale == (way.chunks > 1), "{way:?}\n{body}");
}

/// The same for a case. Returns whether histories made a difference.
pub fn check_case(mut case: Case, body: &str, way: Way) -> bool {
    case.loss();
    let model = case.loaded.model.graph.clone();
    let form = form(&model, false).unwrap();
    let training = differentiate(&form).unwrap();
    let data = case.loaded.data.as_ref().unwrap();
    let chunk_of = way.chunks(data);
    let mut trainer = start(&case, way);
    let seed = case.loaded.model.train.seed;
    let before = trainer.session.parameters().unwrap();
    let params = case.parameters(&before);
    let mut context = EvalContext {
        params: elements(&form, &model, &params),
        ..case.context().clone()
    };
    // An exact pass fills the histories.
    context.histories = histories(&form, data.vertices() as usize, 0);
    context.histories = evaluate(&kept(&form), &context).unwrap();
    let mut stale = false;
    for epoch in 0..5u64 {
        let order = chunk_order(&way.pipeline(), seed, epoch + 1);
        let place = |chunk: &u32| order.iter().position(|c| c == chunk).unwrap() as u32;
        context.order = chunk_of.iter().map(place).collect();
        let epoch_key = epoch as u32;
        context.dropout = Some(DropoutKey {
            seed,
            epoch: epoch_key,
        });
        let report = trainer
            .epoch()
            .unwrap_or_else(|e| panic!("{way:?}: {e}\n{body}"));
        let results = evaluate(&training.graph, &context).unwrap();
        let loss = results[training.loss].data[0];
        let off = (report.loss - loss).abs() / loss.abs().max(1e-3);
        assert!(
            off < 1e-4,
            "{way:?} epoch {epoch}: loss {}, not {loss}\n{body}",
            report.loss
        );
        let after = elements(
            &form,
            &model,
            &case.parameters(&trainer.session.parameters().unwrap()),
        );
        let decay = |n: usize| {
            form.params[n]
                .decay
                .unwrap_or(case.loaded.model.train.weight_decay)
        };
        let all = |n: usize| training.grads[n].into_iter().flat_map(|g| &results[g].data);
        let factor = case.clipped((0..form.params.len()).flat_map(all));
        let largest = (0..form.params.len())
            .flat_map(all)
            .map(|g| factor * g)
            .fold(0.0, |m: f64, g| m.max(g.abs()));
        for (n, spec) in form.params.iter().enumerate() {
            let old = &context.params[n].data;
            // An unread parameter stays unchanged.
            let Some(grad) = training.grads[n].map(|g| &results[g].data) else {
                assert_eq!(&after[n].data, old, "{way:?}: {}\n{body}", spec.name);
                continue;
            };
            let expected = grad.iter().zip(old);
            let expected: Vec<f64> = expected
                .map(|(g, old)| factor * g + decay(n) * old)
                .collect();
            let size = |m: f64, x: &f64| m.max(x.abs());
            let scale = expected.iter().fold(largest * 1e-3, size);
            for (k, expected) in expected.iter().enumerate() {
                let found = (old[k] - after[n].data[k]) / 64.0;
                assert!(
                    (found - expected).abs() <= 1e-4 * scale,
                    "{way:?} epoch {epoch}: gradient of {} {:?} [{k}]: {found}, not {expected} \
                     (largest {scale})\n{body}",
                    spec.name,
                    spec.element
                );
            }
        }
        let exact = EvalContext {
            order: Vec::new(),
            ..context.clone()
        };
        let other = evaluate(&form, &exact).unwrap()[0].data[0];
        stale |= (other - loss).abs() > 1e-7;
        if (epoch + 1) % u64::from(way.interval) == 0 {
            context.histories = evaluate(&kept(&form), &context).unwrap();
        }
        trainer.session.set_parameters(&before).unwrap();
    }
    trainer.evaluate().unwrap();
    let logits = trainer.session.logits().unwrap();
    let exact = EvalContext {
        params,
        ..case.context().clone()
    };
    let expected = &evaluate(&model, &exact).unwrap()[1].data;
    let scale = expected.iter().fold(0.0, |m: f64, z| m.max(z.abs()));
    for (z, e) in logits.iter().zip(expected) {
        assert!(
            (f64::from(*z) - e).abs() <= 1e-4 * scale,
            "{way:?}: logit {z}, not {e}\n{body}"
        );
    }
    stale
}

#[test]
fn sessions_compute_what_the_form_says() {
    for body in MODELS {
        let layers = case(body).compiled.layers();
        for (ranks, [stages, virtual_stages], chunks, interval) in [
            (1, [1, 1], 1, 1),
            (1, [1, 1], 5, 2),
            (2, [2, 1], 4, 1),
            (3, [3, 1], 6, 2),
            (2, [1, 1], 4, 2),
            (3, [1, 1], 3, 1),
            (4, [2, 1], 4, 3),
            (6, [3, 1], 2, 2),
            (2, [2, 2], 4, 1),
            (4, [2, 2], 3, 2),
        ] {
            let way = Way {
                ranks,
                stages,
                virtual_stages,
                chunks,
                interval,
            };
            if stages * virtual_stages <= layers {
                check(body, way);
            }
        }
    }
}

fn way() -> impl Strategy<Value = Way> {
    (1..4u32, 1..3u32, 1..3u32, 1..6u32, 1..4u32).prop_map(
        |(stages, width, virtual_stages, chunks, interval)| Way {
            ranks: stages * width,
            stages,
            // One stage has all layers in one run.
            virtual_stages: if stages == 1 { 1 } else { virtual_stages },
            chunks,
            interval,
        },
    )
}

/// Random models with operators that the standard layers do not use, as far as they can be
/// divided into stages.
#[test]
fn random_models_in_stages() {
    let mut runner = random::runner(100);
    let (run, stale) = (Cell::new(0), Cell::new(0));
    let strategy = (random::body(), random::shape(), way());
    let result = runner.run(&strategy, |(body, shape, way)| {
        let case = Case::new(random::LAYERS, &body, planted(shape));
        match form(&case.loaded.model.graph, false) {
            Err(StaleError::Type(why)) => prop_assert!(false, "{why}\n{body}"),
            Err(_) => return Ok(()),
            Ok(_) if way.stages * way.virtual_stages > case.compiled.layers() => return Ok(()),
            Ok(_) => {}
        }
        match Trainer::new(&case.loaded, &case.compiled, &way.options()) {
            // Loops share parameters, and histories of sums of products would hold old weights.
            Err(why) if why.to_string().contains("parameter `") => return Ok(()),
            Err(why) => prop_assert!(false, "{why}\n{body}"),
            Ok(_) => {}
        }
        run.set(run.get() + 1);
        stale.set(stale.get() + u32::from(check_case(case, &body, way)));
        Ok(())
    });
    println!(
        "{} models ran in stages, {} read histories",
        run.get(),
        stale.get()
    );
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, (body, shape, way))) => {
            panic!("{why}\n{body}\n{shape:?}\n{way:?}")
        }
        Err(e) => panic!("{e}"),
    }
    assert!(stale.get() > 10, "too few models read histories");
}
