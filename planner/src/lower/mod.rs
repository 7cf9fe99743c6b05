//! From operator graphs to a program: cuts the graph into kernels and places tensors in buffers.
//!
//! Element-wise operators are computed inside the kernels that use them. Reductions over edges,
//! rows or columns are kernels. Products go to a library, with an element-wise epilogue. Values
//! that are the same in every epoch are computed once, in `setup`. Vertex tensors are by rows over
//! the ranks; an exchange precedes a kernel that reads rows of other ranks.

pub mod analysis;
pub mod apart;
mod attention;
pub mod blocks;
mod canonical;
pub(crate) mod checked;
pub mod chunks;
mod copies;
pub mod cover;
pub mod delay;
mod embeddings;
pub mod equal_bits;
pub mod fetch;
mod forward;
mod halos;
pub mod in_place;
mod inference;
mod inputs;
pub mod interior;
mod kernel;
mod lazy;
pub mod offload;
mod optimizer;
pub mod overlap;
mod partial;
mod passes;
mod phases;
pub mod prefetch;
mod produce;
mod region;
mod sampled;
mod scan;
pub mod sets;
pub mod stage;
pub mod storage;
mod training;
pub mod wire;

pub use forward::evaluation;
pub use inference::inference;
pub use sampled::{Batches, OnBatches, only_multiplies_features};
pub use training::{Once, Training};

use crate::error::LowerError;
use crate::layout::{self, Graphs, Pure, Ranks, Uncut};
use gnnc_ir::Graph;
use gnnc_ir::graph::autodiff::differentiate;
use gnnc_ir::graph::op::{Input, Op, Site, Slice};
use gnnc_ir::graph::{ParamId, ParamSpec, VerifyError};
use gnnc_ir::plan::Layouts;
use gnnc_ir::program::instr::{self, DrawnBuffer};
use gnnc_ir::program::{
    Among, Buffer, BufferId, Extent, Instr, Program, Ref, Role, Skip, Skipping,
};
use optimizer::Gradient;
use partial::Spread;
use region::{Region, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// State shared by all regions of one program.
pub struct Lowerer {
    /// The program so far.
    pub program: Program,
    /// Whether there is more than one rank.
    pub distributed: bool,
    /// Whether groups of ranks divide the vertices, and the ranks of a group the columns.
    pub in_groups: bool,
    /// Whether shares of a sum are added before anything reads it, so that the order of additions does not depend on ranks.
    pub adds_at_once: bool,
    features: u32,
    sparse: bool,
    /// Whether products with fetched rows of the features are rows of the other factor.
    looks_up: bool,
    inputs: Vec<(Input, Value)>,
    params: Vec<Value>,
    tables: Vec<(Vec<f32>, Value)>,
    /// Epoch-invariant tensors, keyed by the text of the graph that computes them.
    fixed: Vec<(String, Value)>,
    /// Feature values after this epoch's dropout, by the values and the site.
    dropped: Vec<(Ref, Site, Ref)>,
    /// When exchanges of the forward pass are left out, if they may be.
    skip: Option<Skipping>,
    /// These exchanges, by the number they are marked with.
    skips: BTreeMap<u32, Skip>,
    /// The numbers of a batch that instructions read.
    drawn: Vec<DrawnBuffer>,
    /// For each parameter, whether optimizers step only the rows that a batch has.
    lazy: Vec<bool>,
}

/// Lowers a model to a program whose vertex tensors are by rows over as many parts as there are ranks.
///
/// # Errors
/// If a program cannot express the model.
pub fn by_rows(training: &Training, ranks: Ranks) -> Result<Program, LowerError> {
    program(training, ranks, None, None, &as_they_are)
}

/// Lowers a model to a program that trains on sampled batches. Ranks have seeds of their own, and
/// evaluations run over the whole graph or over batches. Tensors are by rows, or as `wanted` says.
///
/// # Errors
/// As [`by_layouts`].
pub fn by_batches(
    training: &Training,
    ranks: Ranks,
    batches: &Batches,
    wanted: Option<&dyn Fn(&Graphs) -> Layouts>,
) -> Result<Program, LowerError> {
    program(
        training,
        ranks,
        None,
        Some(batches),
        &|graphs| match wanted {
            Some(wanted) => laid_out(graphs, ranks, wanted),
            None => as_they_are(graphs),
        },
    )
}

/// As [`by_rows`], but training epochs may leave out exchanges of embeddings.
///
/// # Errors
/// As [`by_rows`].
pub fn by_embeddings(
    training: &Training,
    ranks: u32,
    skipping: Skipping,
) -> Result<Program, LowerError> {
    let of = Ranks::new(ranks, 0);
    let training = with_gradients(training, ranks, skipping)?;
    program(&training, of, Some(skipping), None, &as_they_are)
}

/// The same training with the gradients a rule asks for: computed from the copies that loops
/// read, stopped at copies, clipped.
///
/// # Errors
/// If a graph has no gradient.
pub fn with_gradients(
    training: &Training,
    ranks: u32,
    skipping: Skipping,
) -> Result<Cow<'_, Training>, LowerError> {
    let Training {
        form,
        sparse_features,
        ..
    } = training;
    let loops = form.nodes.iter().any(|node| matches!(node.op, Op::Scan(_)));
    let mark = ranks > 1 && (skipping.stop || loops);
    let clip = skipping.most_of_block(ranks);
    if !mark && clip.is_none() {
        return Ok(Cow::Borrowed(training));
    }
    let mut form = match mark {
        true => copies::marked(form, *sparse_features, skipping.stop)?,
        false => form.clone(),
    };
    if let Some(most) = clip {
        let bug = |e| LowerError::Internal(format!("marks of what is clipped: {e}"));
        form = blocks::marked(&form, most).map_err(bug)?;
    }
    Ok(Cow::Owned(Training {
        backward: differentiate(&form)?,
        ..training.clone()
    }))
}

/// Lowers a model to the program of one rank, with the layouts that `wanted` chooses for the
/// graphs.
///
/// # Errors
/// If the layouts do not fit the model, or a program cannot express the model.
pub fn by_layouts(
    training: &Training,
    ranks: Ranks,
    wanted: &dyn Fn(&Graphs) -> Layouts,
) -> Result<Program, LowerError> {
    program(training, ranks, None, None, &|graphs| {
        laid_out(graphs, ranks, wanted)
    })
}

/// The graphs without layouts.
fn as_they_are(graphs: &Graphs) -> Result<Graphs, LowerError> {
    Ok(graphs.clone())
}

/// The graphs with the layouts that `wanted` chooses for them.
fn laid_out(
    graphs: &Graphs,
    ranks: Ranks,
    wanted: &dyn Fn(&Graphs) -> Layouts,
) -> Result<Graphs, LowerError> {
    let graphs = layout::lay_out(graphs, ranks, &wanted(graphs))?;
    Ok(Graphs {
        step: checked(&graphs.step)?,
        eval: checked(&graphs.eval)?,
        ..graphs
    })
}

/// The layouts of a model's pure placements.
///
/// # Errors
/// If a program cannot express the model.
pub fn pure(training: &Training, ranks: u32) -> Result<Pure, LowerError> {
    Ok(Pure::of(training.graphs()?, ranks))
}

/// Columns of the narrowest aggregation of a model's epoch that can be cut; 0 if none can.
///
/// # Errors
/// If a program cannot express the model.
pub fn narrowest(training: &Training) -> Result<u32, LowerError> {
    Ok(layout::narrowest(&training.graphs()?.step))
}

/// The components of a model's epoch: the names of those that can be cut into columns, in the order of the layouts, and those
/// that stay by rows.
///
/// # Errors
/// If a program cannot express the model.
pub fn components(
    training: &Training,
    ranks: u32,
) -> Result<(Vec<String>, Vec<Uncut>), LowerError> {
    let graphs = training.graphs()?;
    Ok((
        layout::names(&graphs.step, ranks),
        layout::uncut(&graphs.step, ranks),
    ))
}

/// A graph with its layouts verified, without nodes that no result needs.
fn checked(graph: &Graph) -> Result<Graph, LowerError> {
    let broken = |e: VerifyError| LowerError::Internal(format!("layouts: {e}"));
    graph.verify().map_err(broken)?;
    Ok(graph.pruned())
}

/// Lowers a model after its graphs have been laid out.
fn program(
    training: &Training,
    ranks: Ranks,
    skip: Option<Skipping>,
    batches: Option<&Batches>,
    placed: &dyn Fn(&Graphs) -> Result<Graphs, LowerError>,
) -> Result<Program, LowerError> {
    let sparse = training.sparse_features;
    let evaluation = batches.and_then(|batches| batches.evaluation.as_ref());
    let graphs = match (evaluation, &training.batches) {
        (Some(_), Some(on_batches)) => placed(&Graphs {
            eval: canonical::canonical(&on_batches.evaluation.batch, sparse)?,
            ..training.graphs()?.clone()
        })?,
        (Some(_), None) | (None, _) => placed(training.graphs()?)?,
    };
    let (step, eval) = (
        attention::expanded(&graphs.step)?,
        attention::expanded(&graphs.eval)?,
    );
    let graph = &step;
    let mut lowerer = Lowerer::new(graph, sparse, ranks);
    lowerer.in_groups = batches.is_none() && lowerer.program.in_groups();
    lowerer.skip = skip;
    lowerer.looks_up = batches.is_some() && training.identity_features;
    if batches.is_some_and(|batches| batches.lazy) {
        lowerer.step_lazily([graph, &eval])?;
    }
    let spread = Spread::of(&lowerer);
    let no_args = |graph: &Graph| partial::of_model(graph, spread);

    let mut step = Region::new(&lowerer, graph, no_args(graph), true, Vec::new());
    let loss = graph.results[training.backward.loss];
    step.keep_embeddings(&lowerer, embeddings::leading_to(graph, loss));
    step.emit(&mut lowerer)?;
    let loss = step.stored(loss)?;
    let mut grads = Vec::new();
    for grad in &training.backward.grads {
        let grad = grad.map(|g| step.own_buffer(&mut lowerer, graph.results[g], "grad"));
        let lazy = lowerer.lazy[grads.len()];
        grads.push(match grad.transpose()? {
            Some(grad) if lazy => Some(lowerer.rows_of(grad.at, &mut step.code)?),
            grad => grad.map(|grad| Gradient::whole(grad.at)),
        });
    }
    lowerer.program.buffers[loss.at.buffer.0 as usize].role = Role::Result;
    lowerer.program.loss = Some(loss.at.buffer);
    let partial = |result: usize| step.facts.partial.partial[graph.results[result].0 as usize];
    let shares = training.backward.grads.iter().zip(&grads);
    let mut sums: Vec<instr::AllReduce> = Vec::new();
    for ((result, grad), spec) in shares.zip(&graph.params) {
        let (
            Some(among),
            Some(Gradient {
                at: grad,
                rows: None,
            }),
        ) = (result.and_then(partial), grad)
        else {
            continue;
        };
        let copies = spec.shard.filter(|_| among == Among::Copies);
        lowerer.add_sum(
            &mut sums,
            grad.buffer,
            among,
            copies.map(|shard| shard.slice),
        );
    }
    // The loss of an epoch is the sum of those of its batches.
    let loss = loss.at.buffer;
    if batches.is_none() {
        lowerer.add_sum(&mut sums, loss, Among::All, None);
    }
    step.code.extend(sums.into_iter().map(Instr::AllReduce));
    optimizer::step(&mut lowerer, &training.settings, &grads, &mut step.code);
    lowerer.program.step = step.code;
    if let Some(batches) = batches {
        let code = std::mem::take(&mut lowerer.program.step);
        let mut step = vec![lowerer.in_batches(code, training.typed)];
        lowerer.all_reduce(&mut step, vec![loss], Among::All);
        lowerer.program.step = step;
        lowerer.program.sampling = Some(batches.training.clone());
    }

    lowerer.skip = None;
    let forward = &eval;
    let mut eval = Region::new(&lowerer, forward, no_args(forward), false, Vec::new());
    eval.emit(&mut lowerer)?;
    let logits = eval.stored(forward.results[0])?;
    let out = eval.metrics(&mut lowerer, training.loss.clone(), logits);
    let mut code = std::mem::take(&mut eval.code);
    if let Some(evaluation) = evaluation {
        code = vec![lowerer.in_batches(code, training.typed)];
        lowerer.program.evaluation = Some(evaluation.clone());
    } else {
        // Those of batches are not kept.
        lowerer.program.logits = Some(logits.at);
    }
    lowerer.all_reduce(&mut code, vec![out], Among::All);
    lowerer.program.eval = code;
    lowerer.program.metrics = Some(out);
    Ok(lowerer.program)
}

impl Lowerer {
    fn new(graph: &Graph, sparse: bool, of: Ranks) -> Self {
        let Ranks {
            ranks, rank, mesh, ..
        } = of;
        let specs = &graph.params;
        let mut lowerer = Self {
            program: Program {
                ranks,
                rank,
                mesh,
                params: specs.clone(),
                sparse_features: sparse,
                ..Program::default()
            },
            distributed: ranks > 1,
            in_groups: false,
            adds_at_once: of.equal_bits,
            features: graph.features,
            sparse,
            looks_up: false,
            inputs: Vec::new(),
            params: Vec::new(),
            tables: Vec::new(),
            fixed: Vec::new(),
            dropped: Vec::new(),
            skip: None,
            skips: BTreeMap::new(),
            drawn: Vec::new(),
            lazy: vec![false; specs.len()],
        };
        lowerer.params = (0..)
            .zip(specs)
            .map(|(n, spec)| lowerer.declare(n, spec))
            .collect();
        lowerer
    }

    fn declare(&mut self, n: u32, spec: &ParamSpec) -> Value {
        let extent = self.extent(spec.ty);
        let (columns, slots) = (spec.ty.columns(), spec.ty.stack.max(1));
        let buffer = self.buffer(spec.name.clone(), extent, columns, slots, Role::Param(n));
        Value::whole(Ref::first(buffer), spec.ty)
    }

    /// A new buffer.
    pub fn buffer(
        &mut self,
        name: String,
        extent: Extent,
        columns: u32,
        slots: u32,
        role: Role,
    ) -> BufferId {
        self.program.buffers.push(Buffer {
            name,
            extent,
            columns,
            slots,
            role,
            storage: Default::default(),
        });
        BufferId(self.program.buffers.len() as u32 - 1)
    }

    /// Sums buffers over ranks.
    pub fn all_reduce(&self, code: &mut Vec<Instr>, buffers: Vec<BufferId>, among: Among) {
        if self.distributed && !buffers.is_empty() {
            code.push(Instr::AllReduce(instr::AllReduce {
                among,
                ..instr::AllReduce::whole(buffers)
            }));
        }
    }

    /// Adds a buffer to the message with the others that are summed over the same ranks.
    fn add_sum(
        &self,
        sums: &mut Vec<instr::AllReduce>,
        buffer: BufferId,
        among: Among,
        slice: Option<Slice>,
    ) {
        if !self.distributed {
            return;
        }
        let known = sums
            .iter_mut()
            .find(|one| (one.among, one.slice) == (among, slice));
        match known {
            Some(known) => known.buffers.push(Ref::first(buffer)),
            None => sums.push(instr::AllReduce {
                among,
                slice,
                ..instr::AllReduce::whole([buffer])
            }),
        }
    }

    fn param(&self, id: ParamId) -> Value {
        self.params[id.0 as usize]
    }
}
