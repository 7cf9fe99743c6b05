//! Instructions of sampled batches.

use super::canonical::is_left_factor;
use super::kernel::Builder;
use super::region::{Region, Value, launch_rows};
use super::{LowerError, Lowerer};
use crate::sampled::SampledForm;
use gnnc_ir::graph::op::{Input, Op, Sampled};
use gnnc_ir::kernel::expr::{Expr, Value as Scalar};
use gnnc_ir::kernel::{At, Body, Over};
use gnnc_ir::program::instr::{self, DrawnBuffer};
use gnnc_ir::program::{Instr, Product, Ref, Role};
use gnnc_ir::words::sampling::{ALL, CacheBy, Drawn, Fanout, Sampling, SamplingSettings};
use gnnc_ir::words::scalar::Binary;
use gnnc_ir::{EdgeSet, Graph, NodeId};

/// A model on sampled batches.
#[derive(Clone, Debug)]
pub struct OnBatches {
    /// The edges that each hop of the batches that it is trained on runs over.
    pub hops: Vec<EdgeSet>,
    /// The forward graph without dropout on batches, for evaluations that sample too.
    pub evaluation: SampledForm,
}

/// The batches of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Batches {
    /// Those to train on.
    pub training: Sampling,
    /// Those to evaluate on; `None` for the whole graph.
    pub evaluation: Option<Sampling>,
    /// Whether optimizers step only the rows of embeddings that a batch has.
    pub lazy: bool,
}

impl Batches {
    /// The batches that settings ask for, of plain edges; `None` if their size or the fanouts are open.
    pub fn of(settings: &SamplingSettings) -> Option<Self> {
        Some(Self {
            training: settings.sampling()?,
            evaluation: settings.evaluation(),
            lazy: settings.lazy == Some(true),
        })
    }
}

impl OnBatches {
    /// The batches that settings ask for, with the edges that the model's hops run over; `None` if their
    /// size or the fanouts are open.
    pub fn batches(&self, settings: &SamplingSettings) -> Option<Batches> {
        let plain = Batches::of(settings)?;
        let evaluation = plain.evaluation;
        let mut training = over(plain.training, &self.hops);
        if let Some(cache) = &mut training.cache
            && settings.cache_by.is_none()
            && !training.over.is_empty()
        {
            // Probabilities are known of hops over plain edges.
            cache.by = CacheBy::Degree;
        }
        Some(Batches {
            training,
            evaluation: evaluation.map(|sampling| over(sampling, &self.evaluation.hops)),
            lazy: plain.lazy,
        })
    }
}

/// Batches whose hops run over these sets of edges. If there is a fanout for each hop over plain edges only,
/// the other hops keep all edges.
fn over(sampling: Sampling, hops: &[EdgeSet]) -> Sampling {
    let is_plain = |set: &&EdgeSet| **set == EdgeSet::Plain;
    let plain = hops.iter().filter(is_plain).count();
    if plain == hops.len() {
        return sampling;
    }
    let mut fanouts = sampling.fanouts;
    if fanouts.len() == plain {
        let mut given = fanouts.into_iter();
        let fanout = |set: &EdgeSet| match set {
            EdgeSet::Plain | EdgeSet::Looped => given.next(),
            EdgeSet::Named(_) => Some(Fanout::Each(ALL)),
        };
        fanouts = hops.iter().filter_map(fanout).collect();
    }
    Sampling {
        fanouts,
        over: hops.to_vec(),
        ..sampling
    }
}

impl Lowerer {
    /// Numbers of the batch at hand.
    pub(super) fn drawn(&mut self, drawn: Drawn) -> Value {
        let known = self.drawn.iter().find(|one| one.drawn == drawn);
        let at = known.map(|one| one.at).unwrap_or_else(|| {
            let (name, extent) = (name(drawn), self.extent(drawn.ty()));
            let at = Ref::first(self.buffer(name, extent, drawn.columns(), 1, Role::Temp));
            self.drawn.push(DrawnBuffer { drawn, at });
            at
        });
        Value::whole(at, drawn.ty())
    }

    /// The loop over batches that runs `code` for each. Edges may be `typed`.
    pub(super) fn in_batches(&mut self, mut code: Vec<Instr>, typed: bool) -> Instr {
        let outputs = std::mem::take(&mut self.drawn);
        let mut body = vec![Instr::Sample(instr::Sample {})];
        if let Some(level) = self.top_of_all(&code) {
            let featured = |one: &DrawnBuffer| matches!(one.drawn, Drawn::EdgeFeatures(..));
            let places = typed || outputs.iter().any(featured);
            body.push(Instr::ShareLevels(instr::ShareLevels { level, places }));
        }
        if !outputs.is_empty() {
            body.push(Instr::Numbers(instr::Numbers { outputs }));
        }
        body.append(&mut code);
        Instr::Batches(instr::Batches { body })
    }

    /// The level next to the seeds of those whose rows ranks have of each other, if they have any.
    fn top_of_all(&self, code: &[Instr]) -> Option<u8> {
        let mut top = None;
        for instr in code {
            instr.each_access(&mut |at, _| {
                let level = self.program.buffer(at.buffer).extent.of_all_ranks();
                top = top.max(level.map(|level| level.number));
            });
        }
        top
    }
}

/// A readable name of a buffer.
fn name(drawn: Drawn) -> String {
    let level = drawn.level().number;
    match drawn {
        Drawn::Kept(..) => format!("kept{level}"),
        Drawn::Degree(..) => format!("degree{level}"),
        Drawn::Scale(..) => format!("scale{level}"),
        Drawn::Relation(..) => format!("relation{level}"),
        Drawn::RelationDegree(..) => format!("relation_degree{level}"),
        Drawn::EdgeFeatures(..) => format!("edge_features{level}"),
    }
}

/// Whether a node is the rows of the features of a level's vertices.
pub(super) fn fetches_features(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let of_features = |input: &NodeId| graph.node(*input).op == Op::Input(Input::Features);
    matches!(node.op, Op::Sampled(Sampled::Fetch(_)))
        && node.inputs.first().is_some_and(of_features)
}

/// Whether products are all that reads the features of a level's vertices, as their left factor.
pub fn only_multiplies_features(graph: &Graph) -> bool {
    let mut any = false;
    for (_, node) in graph.iter() {
        for (position, input) in node.inputs.iter().enumerate() {
            if fetches_features(graph, *input) {
                if !is_left_factor(node, position) {
                    return false;
                }
                any = true;
            }
        }
    }
    any
}

impl Region<'_> {
    /// The product of fetched features, an identity matrix, with a matrix: rows of it, or, if the features
    /// are transposed, a matrix to whose rows those of the other factor are added.
    pub(super) fn look_up(
        &mut self,
        product: Product,
        other: Value,
        out: Value,
    ) -> Result<(), LowerError> {
        let whole = |value: &Value| value.offset == 0 && value.stride == value.ty.columns();
        if !whole(&other) || !whole(&out) {
            let why = "rows that are a part of longer ones are looked up";
            return Err(LowerError::Internal(why.to_owned()));
        }
        let (from, to) = (other.at, out.at);
        self.code.push(match product {
            Product::Tn => Instr::AddRows(instr::AddRows { from, to }),
            Product::Nn | Product::Nt => Instr::FetchRows(instr::FetchRows { from, to }),
        });
        Ok(())
    }

    /// Reads the rows of a level's vertices.
    pub(super) fn fetch_rows(
        &mut self,
        lowerer: &mut Lowerer,
        id: NodeId,
    ) -> Result<(), LowerError> {
        let ty = self.graph.ty(id);
        let from = self.plain(lowerer, self.graph.node(id).inputs[0])?;
        let extent = lowerer.extent(ty);
        let out = self.target(lowerer, id, extent);
        let whole = lowerer.program.buffer(from.at.buffer).columns == ty.columns();
        if !whole || from.offset != 0 {
            let why = "rows that are a part of longer ones are fetched";
            return Err(LowerError::Internal(why.to_owned()));
        }
        let (from, to) = (from.at, out.at);
        self.code
            .push(Instr::FetchRows(instr::FetchRows { from, to }));
        self.values[id.0 as usize] = Some(out);
        Ok(())
    }

    /// Adds a tensor to the first rows of another one, in place if nothing else reads that.
    pub(super) fn add_prefix(
        &mut self,
        lowerer: &mut Lowerer,
        id: NodeId,
    ) -> Result<(), LowerError> {
        let graph = self.graph;
        let [below, first] = graph.node(id).inputs[..] else {
            return Err(LowerError::Internal(format!(
                "{id} does not add two tensors"
            )));
        };
        let from = self.plain(lowerer, below)?;
        let buffer = lowerer.program.buffer(from.at.buffer);
        let own = buffer.columns == from.stride && from.offset == 0 && buffer.role == Role::Temp;
        let out = match own && self.facts.uses[below.0 as usize] == 1 && !self.is_view(below) {
            true => from,
            false => {
                let extent = lowerer.extent(graph.ty(id));
                let out = self.target(lowerer, id, extent);
                self.copy(lowerer, from, out);
                out
            }
        };
        let ty = graph.ty(first);
        let mut builder = Builder::new(ty);
        let mut sum = builder.value(self, first)?;
        let added = sum.result();
        let row = builder.load_from(&mut sum, out, At::Row);
        sum.push(Scalar::Binary(Binary::Add, row, added));
        self.first_rows(lowerer, builder, sum, Value { ty, ..out });
        self.values[id.0 as usize] = Some(out);
        Ok(())
    }

    fn is_view(&self, id: NodeId) -> bool {
        super::analysis::view(&self.graph.node(id).op)
    }

    fn first_rows(&mut self, lowerer: &mut Lowerer, builder: Builder, value: Expr, out: Value) {
        let body = Body::Map {
            over: Over::Rows,
            values: vec![value],
        };
        let output = (out.operand(At::Row), out.at);
        let rows = launch_rows(out.ty);
        let launch = builder.launch(&mut lowerer.program, body, rows, vec![output]);
        self.code.push(Instr::Launch(launch));
    }
}
