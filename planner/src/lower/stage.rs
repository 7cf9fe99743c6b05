//! The program of one pipeline stage: forward and backward pass of its layers, chunk by chunk, one
//! run of layers after another.

use crate::layout::Ranks;
use crate::lower::forward::without_dropout;
use crate::lower::optimizer::Gradient;
use crate::lower::partial::Spread;
use crate::lower::phases::{Borders, Emitted, arrange};
use crate::lower::region::{Region, Value};
use crate::lower::{LowerError, Lowerer, Training, attention, canonical, optimizer, partial};
use crate::stale::Run;
use gnnc_ir::graph::autodiff::{PartGraph, Seed, differentiate_part};
use gnnc_ir::graph::op::{History, Input, Op};
use gnnc_ir::graph::{Graph, NodeId};
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::program::instr;
use gnnc_ir::program::{
    Among, BufferId, Extent, Instr, METRICS, Neighbour, Pipeline, Program, Ref, Role, StageMessage,
};
use gnnc_ir::{Rows, Type};

/// Lowers one stage for the ranks of its group.
///
/// # Errors
/// If a program, or a chunk loop, cannot express the stage.
pub fn stage(
    training: &Training,
    runs: &[Run],
    pipeline: Pipeline,
    ranks: u32,
) -> Result<Program, LowerError> {
    let parts = runs.iter().map(|run| Part::new(training, run));
    let parts: Vec<Part> = parts.collect::<Result<_, _>>()?;
    let Some(first) = parts.first() else {
        return Err(LowerError::Internal("a stage without layers".to_owned()));
    };
    let place = Ranks::new(ranks, 0);
    let mut lowerer = Lowerer::new(&first.graph, training.sparse_features, place);
    lowerer.distributed = pipeline.width(ranks) > 1;
    lowerer.program.pipeline = Some(pipeline);
    lowerer.program.step = step(&mut lowerer, training, &parts)?;

    let exact = runs.iter().map(|run| Exact::new(&run.graph));
    let exact: Vec<Exact> = exact.collect::<Result<_, _>>()?;
    for (exact, run) in exact.iter().zip(runs) {
        exact.eval(&mut lowerer, training, run)?;
    }
    for (exact, run) in exact.iter().zip(runs) {
        exact.first(&mut lowerer, training, run)?;
    }
    Ok(lowerer.program)
}

/// A run of layers with its gradients.
struct Part<'a> {
    run: &'a Run,
    gradients: PartGraph,
    /// The gradient graph as it is lowered.
    graph: Graph,
}

impl<'a> Part<'a> {
    fn new(training: &Training, run: &'a Run) -> Result<Self, LowerError> {
        let seeds = match run.last {
            true => vec![Seed::Loss, Seed::None],
            false => vec![Seed::Given; run.graph.results.len()],
        };
        let gradients = differentiate_part(&run.graph, &seeds)?;
        let graph = canonical::canonical(&by_vertex(&gradients.graph)?, training.sparse_features)?;
        let graph = attention::expanded(&graph)?;
        Ok(Self {
            run,
            gradients,
            graph,
        })
    }
}

/// The whole list of an epoch.
fn step(
    lowerer: &mut Lowerer,
    training: &Training,
    parts: &[Part],
) -> Result<Vec<Instr>, LowerError> {
    let (mut grads, mut summed) = (vec![None; lowerer.program.params.len()], Vec::new());
    let mut runs = Vec::with_capacity(parts.len());
    for part in parts {
        // Feature values dropped for another run's chunks exist only within its chunks.
        lowerer.dropped.clear();
        let mut step = Step::new(lowerer, part)?;
        step.gradients(lowerer, &mut grads, &mut summed)?;
        if part.run.last {
            summed.push(step.loss(lowerer)?);
        }
        runs.push(step.emitted());
    }
    let mut step = arrange(lowerer, runs)?;
    if !summed.is_empty() {
        lowerer.all_reduce(&mut step, summed, Among::All);
    }
    let whole = |grad: Option<Value>| grad.map(|grad| Gradient::whole(grad.at));
    let grads: Vec<_> = grads.into_iter().map(whole).collect();
    optimizer::step(lowerer, &training.settings, &grads, &mut step);
    Ok(step)
}

/// The same graph, with sums over all edges as sums of per-vertex sums. What edges see is known
/// chunk by chunk, and the sum over all chunks follows later.
fn by_vertex(graph: &Graph) -> Result<Graph, LowerError> {
    let bug = |e| LowerError::Internal(format!("sums over edges: {e}"));
    let mut out = graph.clone_without_nodes();
    let mut new: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let mut inputs: Vec<NodeId> = node.inputs.iter().map(|id| new[id.0 as usize]).collect();
        if node.op == Op::SumRows
            && let Rows::Edges(set) = graph.ty(node.inputs[0]).rows
        {
            let sum = Op::Gather(set, End::Dst, Reduce::Sum);
            inputs = vec![out.add(sum, &inputs, node.scope).map_err(bug)?];
        }
        new.push(out.add(node.op.clone(), &inputs, node.scope).map_err(bug)?);
    }
    out.results = graph.results.iter().map(|id| new[id.0 as usize]).collect();
    Ok(out)
}

/// The epoch of a run of layers under construction.
struct Step<'a> {
    part: &'a Part<'a>,
    region: Region<'a>,
    borders: Borders,
}

impl<'a> Step<'a> {
    fn new(lowerer: &mut Lowerer, part: &'a Part) -> Result<Self, LowerError> {
        let Part {
            run,
            gradients,
            graph,
        } = part;
        let own = run.graph.args.len();
        let args = arguments(lowerer, &graph.args);
        let refs = |values: &[Value]| values.iter().map(|value| value.at).collect();
        let mut borders = Borders {
            received: refs(&args[..own]),
            gradients: refs(&args[own..]),
            ..Borders::default()
        };
        let partials = partial::of_model(graph, Spread::of(lowerer));
        let mut region = Region::new(lowerer, graph, partials, true, args);
        region.keep_blends(lowerer);
        region.emit(lowerer)?;
        if !run.last {
            for result in &graph.results[..run.graph.results.len()] {
                borders.sent.push(region.own_rows(lowerer, *result)?);
            }
        }
        for grad in &gradients.args {
            let grad = grad.ok_or_else(|| {
                LowerError::Internal(
                    "a stage is handed a tensor that its loss does not need".to_owned(),
                )
            })?;
            let gradient = region.own_rows(lowerer, graph.results[grad])?;
            borders.returned.push(gradient);
        }
        Ok(Self {
            part,
            region,
            borders,
        })
    }

    /// Collects the gradients of the parameters the run reads, and those that need an all-reduce.
    fn gradients(
        &mut self,
        lowerer: &mut Lowerer,
        grads: &mut [Option<Value>],
        summed: &mut Vec<BufferId>,
    ) -> Result<(), LowerError> {
        let graph = &self.part.graph;
        for (result, grad) in self.part.gradients.params.iter().zip(grads) {
            let Some(result) = result.map(|result| graph.results[result]) else {
                continue;
            };
            let value = self.region.own_buffer(lowerer, result, "grad")?;
            if self.region.facts.partial.partial[result.0 as usize].is_some() {
                summed.push(value.at.buffer);
            }
            *grad = Some(value);
        }
        Ok(())
    }

    /// The buffer of the loss.
    fn loss(&self, lowerer: &mut Lowerer) -> Result<BufferId, LowerError> {
        let loss = self.region.stored(self.part.graph.results[0])?.at.buffer;
        lowerer.program.buffers[loss.0 as usize].role = Role::Result;
        lowerer.program.loss = Some(loss);
        Ok(loss)
    }

    fn emitted(self) -> Emitted {
        Emitted {
            before: self.region.before,
            code: self.region.code,
            fresh: self.region.fresh,
            borders: self.borders,
        }
    }
}

/// Buffers of tensors received from other stages.
fn arguments(lowerer: &mut Lowerer, types: &[Type]) -> Vec<Value> {
    let mut values = Vec::with_capacity(types.len());
    for ty in types {
        let name = format!("received{}", lowerer.program.buffers.len());
        let buffer = lowerer.buffer(name, Extent::Inner, ty.columns(), 1, Role::Temp);
        values.push(Value::whole(Ref::first(buffer), *ty));
    }
    values
}

fn stage_message(with: Neighbour, tensors: Vec<Ref>) -> Option<StageMessage> {
    (!tensors.is_empty()).then(|| StageMessage::of(with, tensors))
}

/// A run of layers without dropout or histories.
struct Exact {
    /// Its results: those of the run, then the tensors that become histories.
    graph: Graph,
    /// The histories.
    histories: Vec<History>,
}

impl Exact {
    fn new(stage: &Graph) -> Result<Self, LowerError> {
        let graph = without_dropout(stage);
        let mut out = graph.clone_without_nodes();
        let mut new: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
        let (mut kept, mut histories) = (Vec::new(), Vec::new());
        for node in &graph.nodes {
            let of = |id: NodeId| new[id.0 as usize];
            if node.op == Op::Blend
                && let Op::Input(Input::History(history)) = graph.node(node.inputs[3]).op
            {
                // Several tensors may be computed from one history.
                if !histories.contains(&history) {
                    kept.push(of(node.inputs[2]));
                    histories.push(history);
                }
                new.push(of(node.inputs[0]));
                continue;
            }
            let inputs: Vec<NodeId> = node.inputs.iter().map(|id| of(*id)).collect();
            let bug = |e| LowerError::Internal(format!("the exact pass of a stage: {e}"));
            new.push(out.add(node.op.clone(), &inputs, node.scope).map_err(bug)?);
        }
        out.results = graph.results.iter().map(|id| new[id.0 as usize]).collect();
        out.results.extend(kept);
        Ok(Self {
            graph: out,
            histories,
        })
    }

    /// A pass over all rows that computes some of the results. Results of the run itself are passed
    /// on; returns the rows of the others.
    fn pass(
        &self,
        lowerer: &mut Lowerer,
        training: &Training,
        results: &[NodeId],
        sent: usize,
        halos: bool,
    ) -> Result<(Vec<Instr>, Vec<Value>), LowerError> {
        let mut graph = self.graph.clone();
        graph.results = results.to_vec();
        let graph = canonical::canonical(&graph, training.sparse_features)?;
        let graph = attention::expanded(&graph)?;
        let args = arguments(lowerer, &graph.args);
        let received = args.iter().map(|value| value.at).collect();
        let partials = partial::of_model(&graph, Spread::of(lowerer));
        let mut region = Region::new(lowerer, &graph, partials, false, args);
        region.emit(lowerer)?;
        let (mut refs, mut values) = (Vec::new(), Vec::new());
        for (n, id) in graph.results.iter().enumerate() {
            if n < sent {
                refs.push(region.own_rows(lowerer, *id)?);
                continue;
            }
            if halos {
                region.fetch_halo(lowerer, *id)?;
            }
            values.push(region.plain(lowerer, *id)?);
        }
        let before = stage_message(Neighbour::Previous, received).map(Instr::Receive);
        let after = stage_message(Neighbour::Next, refs).map(Instr::Send);
        let code = before.into_iter().chain(region.code).chain(after).collect();
        Ok((code, values))
    }

    /// The evaluation: all rows, layer by layer.
    fn eval(
        &self,
        lowerer: &mut Lowerer,
        training: &Training,
        run: &Run,
    ) -> Result<(), LowerError> {
        let own = run.graph.results.len();
        if !run.last {
            let results = &self.graph.results[..own];
            let (code, _) = self.pass(lowerer, training, results, own, false)?;
            lowerer.program.eval.extend(code);
            return Ok(());
        }
        let (mut code, values) =
            self.pass(lowerer, training, &self.graph.results[1..2], 0, false)?;
        let out = lowerer.buffer("metrics".into(), Extent::Fixed(1), METRICS, 1, Role::Result);
        for logits in values {
            code.push(Instr::Metrics(instr::Metrics {
                loss: training.loss.clone(),
                logits: logits.at,
                out: Ref::first(out),
                classes: logits.ty.columns(),
            }));
            lowerer.program.logits = Some(logits.at);
        }
        lowerer.all_reduce(&mut code, vec![out], Among::All);
        lowerer.program.metrics = Some(out);
        lowerer.program.eval.extend(code);
        Ok(())
    }

    /// Fills the histories before the first epoch (epoch 0 of the specification), by an exact pass
    /// with the initial weights.
    fn first(
        &self,
        lowerer: &mut Lowerer,
        training: &Training,
        run: &Run,
    ) -> Result<(), LowerError> {
        let own = run.graph.results.len();
        let (results, sent) = match run.last {
            true => (&self.graph.results[own..], 0),
            false => (&self.graph.results[..], own),
        };
        let (mut code, values) = self.pass(lowerer, training, results, sent, true)?;
        for (value, history) in values.into_iter().zip(&self.histories) {
            let history = lowerer.input(Input::History(*history))?.at;
            code.push(Instr::Remember(instr::Remember {
                from: value.at,
                history,
            }));
        }
        lowerer.program.setup.extend(code);
        Ok(())
    }
}

impl Region<'_> {
    /// A tensor in a buffer of its own, as messages between stages require.
    fn own_rows(&mut self, lowerer: &mut Lowerer, id: NodeId) -> Result<Ref, LowerError> {
        let value = self.plain(lowerer, id)?;
        if value.offset == 0 && value.stride == value.ty.columns() {
            return Ok(value.at);
        }
        let name = self.graph.tensor_name(id);
        let buffer = lowerer.buffer(name, Extent::Inner, value.ty.columns(), 1, self.role);
        let copy = Value::whole(Ref::first(buffer), value.ty);
        self.copy(lowerer, value, copy);
        Ok(copy.at)
    }
}
