//! Gradient descent by the interpreter, in double precision, on the batches that the sampler draws.

use crate::check::{Case, Way};
use crate::steps::{Stepped, Steps};
use gnnc::graph::partition::{Partition, PartitionInput, by_name};
use gnnc::graph::sample::{
    BatchSource, Batches, Blocks, Cached, HopEdges, RankSeeds, Rule, Sampler,
};
use gnnc::graph::{GraphData, Labels, Topology};
use gnnc::ir::graph::ParamSpec;
use gnnc::ir::graph::autodiff::{TrainingGraph, differentiate};
use gnnc::ir::graph::eval::{DropoutKey, EvalBatch, EvalContext, EvalLayer, Tensor, evaluate};
use gnnc::ir::words::sampling::{Exclude, Roots, Sampling};
use gnnc::ir::{EdgeSet, Graph, Rows};
use gnnc::planner::sampled::sampled;
use gnnc::{Trainer, runtime};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The largest of the differences between parameters, relative to the largest step of the tensor.
/// Several steps add up the errors of each.
const TOLERANCE: f64 = 1e-3;

pub const LEARNING_RATE: f64 = 0.0625;

/// Edges, by source and destination.
pub type Gone = BTreeSet<(u32, u32)>;

/// The edges that a batch of pairs lacks: those between the ends of links among its seeds.
fn gone(data: &GraphData, sampling: &Sampling, seeds: &[u32]) -> Gone {
    let Labels::Values { width: 1, values } = &data.labels else {
        return Gone::new();
    };
    if sampling.exclude == Exclude::Nothing || !data.has_pairs() {
        return Gone::new();
    }
    let ends = [1, 2].map(|number| data.topology.only(EdgeSet::Named(number)));
    let links = seeds.iter().filter(|v| values[**v as usize] == 1.0);
    let of_link = |v: &u32| {
        let [source, target] = [0, 1].map(|n| ends[n].in_neighbours(*v)[0]);
        [(source, target), (target, source)]
    };
    links.flat_map(of_link).collect()
}

/// The inputs of the interpreter on a graph without some plain edges.
fn without(context: &EvalContext, gone: &Gone) -> EvalContext {
    let mut out = context.clone();
    if gone.is_empty() {
        return out;
    }
    assert!(context.edge_features.is_empty());
    (out.indices, out.types, out.sets, out.indptr) = (vec![], vec![], vec![], vec![0]);
    for (v, ends) in (0..).zip(context.indptr.windows(2)) {
        for at in ends[0] as usize..ends[1] as usize {
            if context.sets[at] == 0 && gone.contains(&(context.indices[at], v)) {
                continue;
            }
            out.indices.push(context.indices[at]);
            out.sets.push(context.sets[at]);
            out.types.extend(context.types.get(at));
        }
        out.indptr.push(out.indices.len() as u64);
    }
    out
}

/// The batch as the interpreter reads it, with its numbers computed from the graph without the edges that are
/// `gone`.
pub fn read(data: &GraphData, sampling: &Sampling, blocks: &Blocks, gone: &Gone) -> EvalBatch {
    let layers = (1..=blocks.layers()).map(|number| {
        let (layer, ids) = (blocks.layer(number), blocks.level(number - 1));
        let set = sampling.set_into(number);
        let topology = data.topology.only(set);
        let edge_features = data.edge_features.of_set(&data.topology, set);
        let mut read = EvalLayer {
            indptr: layer.edges.indptr.clone(),
            indices: layer.edges.indices.clone(),
            scales: Vec::new(),
            types: Vec::new(),
            degrees: Vec::new(),
            features: Vec::new(),
        };
        for (row, ends) in layer.edges.indptr.windows(2).enumerate() {
            let v = ids[row];
            let all = topology.types_into(v);
            let sources = topology.in_neighbours(v);
            let is_there = |at: &usize| set != EdgeSet::Plain || !gone.contains(&(sources[*at], v));
            let there: Vec<usize> = (0..sources.len()).filter(is_there).collect();
            let places = ends[0] as usize..ends[1] as usize;
            let kind = |at: usize| all.get(layer.positions[at] as usize).copied();
            for at in places.clone() {
                let kept = places
                    .clone()
                    .filter(|other| kind(*other) == kind(at))
                    .count();
                let there = match kind(at) {
                    Some(own) => there.iter().filter(|other| all[**other] == own).count(),
                    None => there.len(),
                };
                read.scales.push(there as f64 / kept as f64);
                read.degrees.push(there as f64);
                read.types.extend(kind(at));
                let place = topology.indptr()[v as usize] as usize + layer.positions[at] as usize;
                let features = edge_features.row(place).iter();
                read.features.extend(features.map(|x| f64::from(*x)));
            }
        }
        read
    });
    EvalBatch {
        ids: blocks.level(0).to_vec(),
        levels: (0..=blocks.layers())
            .map(|n| blocks.level(n).len())
            .collect(),
        layers: layers.collect(),
    }
}

/// Draws the batches of a program from a graph.
pub fn sampler(data: &GraphData, sampling: &Sampling, seed: u64) -> Sampler<Arc<Topology>> {
    let plain = Arc::new(data.topology.only(EdgeSet::Plain).into_owned());
    let edges = HopEdges::new(plain, data, &sampling.over);
    Sampler::over(edges, &Rule::of(sampling, seed).unwrap(), 1).unwrap()
}

/// The gradient of a batch.
struct Descent {
    /// Of each parameter, if it has one.
    grads: Vec<Option<Vec<f64>>>,
    /// The vertices of level 0.
    vertices: BTreeSet<u32>,
}

/// Gradient descent by the interpreter on the batches that the sampler draws.
struct Oracle<'a> {
    case: &'a Case,
    data: &'a GraphData,
    training: TrainingGraph,
    /// The edges that each hop of the model runs over.
    over: Vec<EdgeSet>,
    context: EvalContext,
    steps: Steps,
    step: u32,
}

impl<'a> Oracle<'a> {
    fn new(case: &'a Case, start: &[runtime::Tensor]) -> Self {
        let data = case.loaded.data.as_ref().unwrap();
        let typed = data.topology.relations() > 0;
        let beforehand = case.knobs.sampling.beforehand == Some(true);
        // The model as written: rewriting must not change what a batch computes.
        let looked_up = case.loaded.workload.identity_features;
        let form = sampled(&case.loaded.model.graph, typed, beforehand, looked_up).unwrap();
        let training = differentiate(&form.batch).unwrap();
        let mut context = case.context().clone();
        context.params = elements(&training.graph, start);
        Self {
            case,
            data,
            training,
            over: form.hops,
            context,
            steps: Steps::new(&case.loaded.model.train),
            step: 0,
        }
    }

    /// Trains an epoch; returns its loss, the mean over the seeds of all batches.
    fn epoch(&mut self, sampling: &Sampling, way: Way, number: u32) -> f64 {
        let sampling = &Sampling {
            over: self.over.clone(),
            ..sampling.clone()
        };
        let settings = &self.case.loaded.model.train;
        let seed = settings.seed;
        let mut sampler = sampler(self.data, sampling, seed);
        let trained = (0..self.data.vertices()).filter(|v| self.data.train[*v as usize]);
        let batches = Batches::new(trained.collect(), sampling.batch, sampling.cut, seed).unwrap();
        let epoch = batches.epoch(number).unwrap();
        let mut blocks = Blocks::default();
        let mut loss = 0.0;
        // Delayed gradient descent: an epoch begins with the newest weights, and the batches of it read
        // those from before the last `delay` steps. If embeddings are stepped lazily, only they are late.
        let delay = self.case.knobs.sampling.delay.unwrap_or(0) as usize;
        let lazy = self.case.knobs.sampling.lazy == Some(true);
        let late: Vec<bool> = self
            .training
            .graph
            .params
            .iter()
            .map(|spec| !lazy || self.is_embedding(spec))
            .collect();
        let mut versions = vec![self.context.params.clone()];
        let caches = self.caches(sampling, way);
        let age = self.case.knobs.sampling.cache_age.unwrap_or(0);
        // For each rank, the batch that fetched the copy of a row.
        let mut copies = vec![BTreeMap::new(); caches.len()];
        for batch in 0..batches.count() {
            let newest = versions[batch as usize].clone();
            let before = &versions[(batch as usize).saturating_sub(delay)];
            let params = before.iter().zip(&newest).zip(&late);
            let params = params.map(|((old, new), late)| if *late { old } else { new });
            let params: Vec<Tensor> = params.cloned().collect();
            let of_ranks = self.shares(sampling, way, (number, batch));
            let seeds = match sampling.roots {
                Roots::Home | Roots::Dealt => epoch.seeds(batch).to_vec(),
                Roots::Own => of_ranks.concat(),
            };
            // What a step computes does not depend on which rank has which seeds of it, unless ranks have copies of
            // different rows.
            let shares = match caches.is_empty() {
                true => vec![seeds.clone()],
                false => of_ranks,
            };
            let gone = gone(self.data, sampling, &seeds);
            let mut descent = Descent {
                grads: vec![None; self.training.grads.len()],
                vertices: BTreeSet::new(),
            };
            for (rank, own) in shares.iter().enumerate().filter(|(_, own)| !own.is_empty()) {
                let all = seeds.iter().copied();
                sampler.sample_of(own, all, self.step, &mut blocks).unwrap();
                self.context.params = params.clone();
                for v in blocks.level(0) {
                    if caches.get(rank).is_none_or(|kept| kept.row(*v).is_none()) {
                        continue;
                    }
                    let fetched = copies[rank].entry(*v).or_insert(batch);
                    if batch - *fetched > age {
                        *fetched = batch;
                    }
                    self.copy(*v, &versions[*fetched as usize]);
                }
                self.context.batch = Some(read(self.data, sampling, &blocks, &gone));
                self.context.dropout = Some(DropoutKey {
                    seed,
                    epoch: self.step,
                });
                let context = without(&self.context, &gone);
                let results = evaluate(&self.training.graph, &context).unwrap();
                let own = own.len() as f64;
                loss += own / f64::from(epoch.used()) * results[self.training.loss].data[0];
                descent.vertices.extend(blocks.level(0));
                for (sum, grad) in descent.grads.iter_mut().zip(&self.training.grads) {
                    let Some(grad) = grad else { continue };
                    let more = results[*grad].data.iter();
                    let more = more.map(|g| g * (own / seeds.len() as f64));
                    match sum {
                        None => *sum = Some(more.collect()),
                        Some(sum) => sum.iter_mut().zip(more).for_each(|(sum, g)| *sum += g),
                    }
                }
            }
            self.context.params = newest;
            self.descend(&descent);
            self.step += 1;
            versions.push(self.context.params.clone());
        }
        loss
    }
}

impl Oracle<'_> {
    fn is_embedding(&self, spec: &ParamSpec) -> bool {
        spec.ty.rows == Rows::Fixed(self.data.vertices())
    }

    /// Steps all parameters by the gradients of a batch; lazily, only rows of embeddings that it has.
    fn descend(&mut self, descent: &Descent) {
        let lazy = self.case.knobs.sampling.lazy == Some(true);
        let numbers = descent.grads.iter().flatten().flatten();
        let factor = self.steps.factor(numbers.map(|g| g * g).sum());
        for (n, spec) in self.training.graph.params.iter().enumerate() {
            let Some(gradient) = &descent.grads[n] else {
                continue;
            };
            let is_embedding = self.is_embedding(spec);
            let stepped = Stepped {
                values: &mut self.context.params[n].data,
                columns: spec.ty.columns() as usize,
                gradient,
                decay: spec.decay,
                rows: (lazy && is_embedding).then_some(&descent.vertices),
            };
            self.steps.step(n, factor, stepped);
        }
    }

    /// Reads the embeddings of a vertex from other parameters.
    fn copy(&mut self, vertex: u32, from: &[Tensor]) {
        for (n, spec) in self.training.graph.params.iter().enumerate() {
            if self.is_embedding(spec) {
                let columns = spec.ty.columns() as usize;
                let row = vertex as usize * columns..(vertex as usize + 1) * columns;
                self.context.params[n].data[row.clone()].copy_from_slice(&from[n].data[row]);
            }
        }
    }

    /// Rows that each rank keeps copies of; none if rows do not change.
    fn caches(&self, sampling: &Sampling, way: Way) -> Vec<Arc<Cached>> {
        let settings = &self.case.knobs.sampling;
        let sampling = Sampling {
            cache: settings.cached().filter(|cache| cache.age.is_some()),
            ..sampling.clone()
        };
        let plain = Arc::new(self.data.topology.only(EdgeSet::Plain).into_owned());
        let trained = (0..self.data.vertices()).filter(|v| self.data.train[*v as usize]);
        let source = BatchSource {
            edges: &HopEdges::new(plain, self.data, &sampling.over),
            seeds: &trained.collect::<Vec<u32>>(),
            sampling: &sampling,
            partition: &self.partition(way),
            seed: self.case.loaded.model.train.seed,
        };
        source.caches().unwrap()
    }

    fn partition(&self, way: Way) -> Arc<Partition> {
        Arc::new(match way.ranks {
            1 => Partition::whole(self.data.vertices()),
            ranks => {
                let method = by_name(way.partitioner, 0).unwrap();
                let hops = Some(self.over.len() as u32);
                let graph = PartitionInput::from(self.data).over_hops(hops);
                method.partition(graph, ranks).unwrap()
            }
        })
    }

    /// The seeds of a batch by the ranks that work on them.
    fn shares(&self, sampling: &Sampling, way: Way, at: (u32, u32)) -> Vec<Vec<u32>> {
        let partition = self.partition(way);
        let trained = (0..self.data.vertices()).filter(|v| self.data.train[*v as usize]);
        let trained: Vec<u32> = trained.collect();
        let seed = self.case.loaded.model.train.seed;
        let of_rank = |rank: u32| {
            let trained = trained.clone();
            let mut own = RankSeeds::new(trained, sampling, &partition, rank, seed).unwrap();
            own.go_to(at.0, at.1).unwrap();
            own.seeds().to_vec()
        };
        (0..way.ranks).map(of_rank).collect()
    }
}

/// The parameters of a session in the order of a graph without loops, in which each element of a
/// stack is a parameter.
pub fn elements(graph: &Graph, tensors: &[runtime::Tensor]) -> Vec<Tensor> {
    let specs = graph.params.iter();
    let tensor = |spec: &gnnc::ir::graph::ParamSpec| {
        let own = tensors.iter().find(|t| t.name == spec.name).unwrap();
        let gnnc::ir::Rows::Fixed(rows) = spec.ty.rows else {
            panic!("{} has rows of the data graph", spec.name)
        };
        let length = (rows * spec.ty.columns()) as usize;
        let first = spec
            .element
            .map_or(0, |element| element.index as usize * length);
        let values = own.values[first..first + length].iter();
        Tensor::new(
            spec.ty,
            rows as usize,
            values.map(|&x| f64::from(x)).collect(),
        )
    };
    specs.map(tensor).collect()
}

/// Compares epochs of a session with the interpreter; says where they differ first.
pub fn differences(case: &Case, sampling: &Sampling, way: Way) -> Option<String> {
    let mut trainer: Trainer = case.start(way);
    let start = trainer.session.parameters().unwrap();
    let mut oracle = Oracle::new(case, &start);
    let before = oracle.context.params.clone();
    for number in 0..2 {
        let report = trainer
            .epoch()
            .unwrap_or_else(|e| panic!("{way:?}, {sampling:?}: {e}"));
        let loss = oracle.epoch(sampling, way, number);
        let close = (report.loss - loss).abs() <= TOLERANCE * loss.abs().max(1e-3);
        if !close {
            let found = report.loss;
            return Some(format!(
                "{way:?}, {sampling:?}, epoch {number}: loss {found}, not {loss}"
            ));
        }
    }
    let after = elements(
        &oracle.training.graph,
        &trainer.session.parameters().unwrap(),
    );
    let step = |a: &[f64], b: &[f64]| {
        let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
        differences.fold(0.0, f64::max)
    };
    let pairs = oracle.context.params.iter().zip(&before);
    let largest = pairs
        .map(|(new, old)| step(&new.data, &old.data))
        .fold(0.0, f64::max);
    for (n, spec) in oracle.training.graph.params.iter().enumerate() {
        let (expected, found) = (&oracle.context.params[n].data, &after[n].data);
        let moved = step(expected, &before[n].data).max(largest * 1e-2);
        let off = step(expected, found);
        if off > TOLERANCE * moved {
            let name = &spec.name;
            let of = format!("{name} is off by {off}, after steps of {moved}");
            return Some(format!("{way:?}, {sampling:?}: {of}"));
        }
    }
    None
}
