//! Compares what a session trains with the interpreter, for one model on one data graph.

use crate::device::Again;
use gnnc::graph::partition::{Partitioner, Range};
use gnnc::graph::{GraphData, Labels, Topology, summarise};
use gnnc::ir::graph::autodiff::{TrainingGraph, differentiate};
use gnnc::ir::graph::eval::{DropoutKey, EvalContext, Tensor, evaluate};
use gnnc::ir::graph::model::{Optimizer, Relaxation};
use gnnc::ir::plan::{Knobs, Layout, Layouts, Placement};
use gnnc::ir::program::{Length, Rule, Skipping};
use gnnc::ir::{EdgeSet, Graph, Rows, Type};
use gnnc::planner::decouple::DecoupleError;
use gnnc::planner::lower::blocks::marked;
use gnnc::planner::lower::pure;
use gnnc::planner::placement::{PlacementSpec, row};
use gnnc::{Compiled, Loaded, Source, TrainOptions, Trainer};
use std::sync::Arc;

/// Largest difference between two gradients, relative to the largest element of the tensor.
///
/// The interpreter computes in f64; programs compute in f32 with a relative error of 6e-8 per
/// operation. Sums over some hundred edges, rows and columns and several layers, forward and
/// backward, leave less than 1e-5 of the largest element in the models here. A wrong scale,
/// edge, mask or halo row changes the first digits.
const TOLERANCE: f64 = 1e-4;

/// Gradients below this fraction of the largest gradient of all tensors count as 0: elements
/// that cancel exactly leave the rounding errors of their summands.
const NOTHING: f64 = 1e-3;

/// Large enough for a step to show the gradient: rounding errors of the start values are
/// divided by it. A power of two, so that multiplying by it is exact.
const LEARNING_RATE: f64 = 64.0;

/// Configuration of a run.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The placement.
    pub placement: Placement,
    /// Ranks.
    pub ranks: u32,
    /// How vertices are divided.
    pub partitioner: &'static str,
    /// Threads per rank.
    pub threads: usize,
}

impl Way {
    /// Ranks with a partitioner and threads that differ from number to number.
    pub fn varied(placement: Placement, ranks: u32) -> Self {
        Self {
            placement,
            ranks,
            partitioner: ["range", "metis", "hash"][ranks as usize % 3],
            threads: 1 + ranks as usize % 2,
        }
    }
}

/// A model with its data, and its inputs for the interpreter.
pub struct Case {
    /// The text, for messages.
    pub text: String,
    /// The model on its data.
    pub loaded: Loaded,
    /// The form that is lowered.
    pub compiled: Compiled,
    /// The derivative of the form as written.
    written: TrainingGraph,
    context: EvalContext,
    /// Layouts of a mixed placement; arbitrary ones if `None`.
    pub layouts: Option<Layouts>,
    /// Other knobs than those of a [`Way`].
    pub knobs: Knobs,
    /// Bound on gradients by blocks of rows, if a rule sets one.
    pub blocks: Option<f32>,
    /// Whether sessions run on the fake device, which computes on the processor.
    pub device: bool,
    /// Whether kernels check each access.
    pub checked: bool,
}

impl Case {
    /// Checks and compiles a model with this body and these layers.
    pub fn new(layers: &str, body: &str, data: GraphData) -> Self {
        let text = format!(
            "graph g = \"g.npz\"\n{layers}\nmodel m() on g {{\n{body}\n}}\n\
             train {{ optimizer = sgd(lr = {LEARNING_RATE:?}) weight_decay = 0.01 seed = 7 }}\n"
        );
        let workload = summarise(&data, &[]).unwrap();
        let facts = workload.facts();
        let source = Source::new("m.gir", text.clone());
        let (model, diagnostics) = source.check(&facts, &[]);
        let Some(model) = model else {
            panic!("{text}\n{diagnostics:#?}")
        };
        let written = differentiate(&model.graph).unwrap();
        let context = context(&data);
        let loaded = Loaded {
            model,
            workload,
            data: Some(data),
            by_part: None,
            not_used: Vec::new(),
            diagnostics,
        };
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)
            .unwrap_or_else(|e| panic!("{text}\n{e}"));
        Self {
            text,
            loaded,
            compiled,
            written,
            context,
            layouts: None,
            knobs: Knobs::default(),
            blocks: None,
            device: false,
            checked: false,
        }
    }

    /// Replaces the model by its decoupled form, which placements that need it must compute.
    pub fn decoupled(mut self) -> Result<Self, DecoupleError> {
        let graph = self.compiled.decoupled.clone()?.graph;
        self.written = differentiate(&graph).unwrap();
        self.text = format!("decoupled\n{}", self.text);
        self.loaded.model.graph = graph;
        Ok(self)
    }

    /// Inputs of the interpreter.
    pub fn context(&self) -> &EvalContext {
        &self.context
    }

    /// The loss without dropout. Sets parameters to values other than 0 and 1, by their order,
    /// so that models with equal parameters get equal values.
    pub fn loss(&mut self) -> f64 {
        let specs = self.loaded.model.graph.params.iter().enumerate();
        let tensor = |(n, spec): (usize, &gnnc::ir::graph::ParamSpec)| {
            let Rows::Fixed(rows) = spec.ty.rows else {
                panic!("{} has rows of the data graph", spec.name)
            };
            let floats = rows * spec.ty.columns() * spec.ty.stack.max(1);
            let value = |k: u32| 0.3 * (f64::from(7 * n as u32 + 3 * k) * 0.7).sin();
            Tensor::new(spec.ty, rows as usize, (0..floats).map(value).collect())
        };
        self.context.params = specs.map(tensor).collect();
        self.evaluate(&self.loaded.model.graph, None)[0].data[0]
    }

    /// A session whose start values leave no parameter at 0 or 1.
    pub fn start(&self, way: Way) -> Trainer {
        let options = TrainOptions {
            workers: way.ranks,
            placement: way.placement,
            allow: Relaxation::ALL.to_vec(),
            threads: way.threads,
            checked: self.checked,
            check_bytes: true,
            knobs: Knobs {
                partitioner: way.partitioner.parse().ok(),
                // Stale copies give another function than the model; gradients that stop at fresh
                // copies do not.
                skip: row(way.placement)
                    .is_some_and(|row| row.skips)
                    .then_some(Skipping {
                        stop: way.ranks % 2 == 1,
                        clip: self.blocks.map(Length),
                        ..Rule::Fixed(0).into()
                    }),
                ..self.knobs.clone().with_layouts(self.layouts(way))
            },
            ..TrainOptions::default()
        };
        let mut trainer = Trainer::new(&self.loaded, &self.compiled, &options)
            .unwrap_or_else(|e| panic!("{way:?}: {e}\n{}", self.text));
        if self.device {
            let again = Again::new(self, &options);
            trainer.session = again.on_device(&Arc::default());
        }
        let mut start = trainer.session.parameters().unwrap();
        for (n, tensor) in start.iter_mut().enumerate() {
            for (k, value) in tensor.values.iter_mut().enumerate() {
                *value += 0.3 * ((7 * n + 3 * k) as f32 * 0.7).sin();
            }
        }
        trainer.session.set_parameters(&start).unwrap();
        trainer
    }

    /// Layouts of a mixed placement: those requested, or an arbitrary mix of rows and columns,
    /// so that all sorts are tried.
    fn layouts(&self, way: Way) -> Layouts {
        if way.placement != Placement::Mixed || way.ranks < 2 {
            return Layouts::default();
        }
        if let Some(layouts) = &self.layouts {
            return layouts.clone();
        }
        let mut state = self.text.len() as u64 + u64::from(way.ranks) * 1000;
        let mut next = |layout: &mut Layout| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *layout = match state >> 63 {
                0 => Layout::Rows,
                _ => Layout::Columns,
            }
        };
        let spec = PlacementSpec {
            knobs: self.knobs.clone(),
            ..PlacementSpec::new(way.placement, way.ranks)
        };
        let mut layouts = pure(&self.compiled.training, spec.slices()).unwrap().graph;
        layouts.epoch.iter_mut().for_each(&mut next);
        layouts.eval.iter_mut().for_each(&mut next);
        layouts
    }

    /// Compares two epochs and the logits with the interpreter; returns the differences that
    /// are too large.
    pub fn differences(&mut self, way: Way) -> Vec<String> {
        let mut found = Vec::new();
        let mut trainer = self.start(way);
        let start = trainer.session.parameters().unwrap();
        self.context.params = self.parameters(&start);
        for epoch in 0..2 {
            let report = match trainer.epoch() {
                Ok(report) => report,
                Err(e) => return vec![format!("epoch {epoch}: {e}")],
            };
            let results = self.evaluate(&self.written.graph, Some(epoch));
            let loss = results[self.written.loss].data[0];
            if differ(report.loss, loss, loss.abs().max(1e-3)) {
                found.push(format!("epoch {epoch}: loss {}, not {loss}", report.loss));
            }
            let expected = self.gradients(&results);
            let all = largest(expected.iter().flatten().copied());
            let stepped = self.parameters(&trainer.session.parameters().unwrap());
            for (n, expected) in expected.iter().enumerate() {
                let name = &self.loaded.model.graph.params[n].name;
                let scale = largest(expected.iter().copied()).max(all * NOTHING);
                let before = &self.context.params[n].data;
                let step = before.iter().zip(&stepped[n].data);
                let gradient = step.map(|(old, new)| (old - new) / LEARNING_RATE);
                for (k, (g, &e)) in gradient.zip(expected).enumerate() {
                    if differ(g, e, scale) {
                        found.push(format!(
                            "epoch {epoch}: gradient of {name}, element {k}: {g}, not {e} \
                             (largest {scale})"
                        ));
                        break;
                    }
                }
            }
            trainer.session.set_parameters(&start).unwrap();
        }
        trainer.evaluate().unwrap();
        let logits = trainer.session.logits().unwrap();
        let expected = &self.evaluate(&self.loaded.model.graph, None)[1].data;
        assert_eq!(logits.len(), expected.len());
        let scale = largest(expected.iter().copied());
        for (k, (&z, &e)) in logits.iter().zip(expected).enumerate() {
            if differ(f64::from(z), e, scale) {
                found.push(format!("logit {k}: {z}, not {e} (largest {scale})"));
                break;
            }
        }
        found
    }

    /// Fails unless a session computes what the interpreter computes.
    pub fn check(&mut self, way: Way) {
        let found = self.differences(way);
        assert!(
            found.is_empty(),
            "{way:?}\n{}\n{}",
            found.join("\n"),
            self.text
        );
    }

    /// The parameters of a session in the order and with the types of the model.
    pub fn parameters(&self, tensors: &[gnnc::runtime::Tensor]) -> Vec<Tensor> {
        let specs = self.loaded.model.graph.params.iter();
        let tensor = |spec: &gnnc::ir::graph::ParamSpec| {
            let own = tensors.iter().find(|t| t.name == spec.name).unwrap();
            let Rows::Fixed(rows) = spec.ty.rows else {
                panic!("{} has rows of the data graph", spec.name)
            };
            let data = own.values.iter().map(|&x| f64::from(x)).collect();
            Tensor::new(spec.ty, rows as usize, data)
        };
        specs.map(tensor).collect()
    }

    /// The gradients plus the weight decay, which SGD adds.
    fn gradients(&self, results: &[Tensor]) -> Vec<Vec<f64>> {
        let settings = &self.loaded.model.train;
        assert!(matches!(settings.optimizer, Optimizer::Sgd { .. }));
        let params = self.loaded.model.graph.params.iter();
        let all = self.written.grads.iter().flatten();
        let factor = self.clipped(all.flat_map(|grad| results[*grad].data.iter()));
        let one = |(n, spec): (usize, &gnnc::ir::graph::ParamSpec)| {
            let values = &self.context.params[n].data;
            let decay = spec.decay.unwrap_or(settings.weight_decay);
            // A parameter that the loss does not depend on stays unchanged.
            let Some(gradient) = self.written.grads[n] else {
                return vec![0.0; values.len()];
            };
            let gradient = results[gradient].data.iter();
            let whole = gradient.zip(values).map(|(g, p)| factor * g + decay * p);
            whole.collect()
        };
        params.enumerate().map(one).collect()
    }

    /// The factor by which clipping scales gradients, as in PyTorch's `clip_grad_norm_`.
    pub fn clipped<'a>(&self, gradients: impl Iterator<Item = &'a f64>) -> f64 {
        let length = gradients.map(|g| g * g).sum::<f64>().sqrt();
        let clip = self.loaded.model.train.clip_norm;
        clip.map_or(1.0, |most| (most / (length + 1e-6)).min(1.0))
    }

    /// The same model with clipped gradients.
    pub fn with_clip(mut self, most: f64) -> Self {
        self.loaded.model.train.clip_norm = Some(most);
        self.compiled = gnnc::compile(&self.loaded.model, &self.loaded.workload).unwrap();
        self
    }

    /// The same model with another optimizer.
    pub fn with_optimizer(mut self, optimizer: Optimizer) -> Self {
        self.loaded.model.train.optimizer = optimizer;
        self.compiled = gnnc::compile(&self.loaded.model, &self.loaded.workload).unwrap();
        self
    }

    /// The same model with gradients clipped by the blocks of this many ranks, which are runs
    /// of vertices.
    pub fn with_clipped_blocks(mut self, most: f32, ranks: u32) -> Self {
        let share = f64::from(most) / f64::from(ranks).sqrt();
        let marked = marked(&self.loaded.model.graph, share as f32).unwrap();
        self.written = differentiate(&marked).unwrap();
        let topology = &self.loaded.data.as_ref().unwrap().topology;
        let partition = Range.partition(topology.into(), ranks).unwrap();
        self.context.blocks = partition.owner().to_vec();
        self.blocks = Some(most);
        self
    }

    fn evaluate(&self, graph: &Graph, epoch: Option<u32>) -> Vec<Tensor> {
        let seed = self.loaded.model.train.seed;
        let dropout = epoch.map(|epoch| DropoutKey { seed, epoch });
        let context = EvalContext {
            dropout,
            ..self.context.clone()
        };
        evaluate(graph, &context).unwrap_or_else(|e| panic!("{e}\n{}", self.text))
    }
}

/// The data graph as input of the interpreter, without parameters.
fn context(data: &GraphData) -> EvalContext {
    let rows = data.vertices() as usize;
    let dense = data.features.to_dense();
    let features = dense.values().iter().map(|&x| f64::from(x)).collect();
    let labels = match &data.labels {
        Labels::None => panic!("the graph has no labels"),
        Labels::Single(labels) => labels.iter().map(|&class| f64::from(class)).collect(),
        Labels::Values { values, .. } => values.iter().map(|&x| f64::from(x)).collect(),
    };
    EvalContext {
        indptr: data.topology.indptr().to_vec(),
        indices: data.topology.indices().to_vec(),
        types: data.topology.types().to_vec(),
        sets: sets(&data.topology),
        edge_features: data
            .edge_features
            .values
            .iter()
            .map(|&x| f64::from(x))
            .collect(),
        features: Tensor::new(Type::vertices(data.features.columns()), rows, features),
        labels,
        train: data.train.clone(),
        params: Vec::new(),
        dropout: None,
        histories: Vec::new(),
        order: Vec::new(),
        blocks: Vec::new(),
        batch: None,
    }
}

/// The number of each edge's named set, 0 for plain edges; empty if all are plain.
fn sets(topology: &Topology) -> Vec<u8> {
    if topology.is_plain() {
        return Vec::new();
    }
    let number = |place| match topology.set_at(place) {
        EdgeSet::Named(number) => number,
        EdgeSet::Plain | EdgeSet::Looped => 0,
    };
    (0..topology.indices().len()).map(number).collect()
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |a, b| a.max(b.abs()))
}

/// Whether two numbers differ by more than rounding; NaN always differs.
fn differ(found: f64, expected: f64, scale: f64) -> bool {
    let difference = (found - expected).abs();
    difference.is_nan() || difference > TOLERANCE * scale
}
