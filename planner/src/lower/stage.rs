//! The program of one stage of a pipeline: its layers' forward and backward pass, chunk by chunk.

use crate::layout::Ranks;
use crate::lower::phases::{Borders, arrange};
use crate::lower::region::{Region, Value};
use crate::lower::{LowerError, Lowerer, Training, canonical, optimizer, partial, without_dropout};
use crate::stale::Stage;
use gnnc_ir::autodiff::{PartGraph, Seed, differentiate_part};
use gnnc_ir::graph::{Graph, NodeId};
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::op::{History, Input, Op};
use gnnc_ir::program::{
    BufferId, Extent, Instr, METRICS, Neighbour, Passage, Pipeline, Program, Ref, Role,
};
use gnnc_ir::{Rows, Type};

/// Lowers one stage for the ranks of its group.
///
/// # Errors
/// If the stage uses something that a program, or a chunk of one, cannot express.
pub fn stage(
    training: &Training,
    stage: &Stage,
    pipeline: Pipeline,
    ranks: u32,
) -> Result<Program, LowerError> {
    let seeds = match stage.last {
        true => vec![Seed::Loss, Seed::None],
        false => vec![Seed::Given; stage.graph.results.len()],
    };
    let part = differentiate_part(&stage.graph, &seeds)?;
    let graph = canonical::canonical(&by_vertex(&part.graph)?, training.sparse_features)?;
    let mut lowerer = Lowerer::new(&graph, training.sparse_features, Ranks { ranks, rank: 0 });
    lowerer.distributed = pipeline.width(ranks) > 1;
    lowerer.program.pipeline = Some(pipeline);

    let step = Step::new(&mut lowerer, stage, &part, &graph)?;
    let code = step.finish(&mut lowerer, training, &part)?;
    lowerer.program.step = code;

    let exact = Exact::new(&stage.graph)?;
    exact.eval(&mut lowerer, training, stage)?;
    exact.first(&mut lowerer, training, stage)?;
    Ok(lowerer.program)
}

/// The same graph in which sums over all arcs are of sums for each vertex: what arcs see is known chunk by
/// chunk, and the sum over all chunks comes after them.
fn by_vertex(graph: &Graph) -> Result<Graph, LowerError> {
    let bug = |e| LowerError::Internal(format!("sums over arcs: {e}"));
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

/// The epoch of a stage while it is written.
struct Step<'a> {
    stage: &'a Stage,
    region: Region<'a>,
    borders: Borders,
}

impl<'a> Step<'a> {
    fn new(
        lowerer: &mut Lowerer,
        stage: &'a Stage,
        part: &PartGraph,
        graph: &'a Graph,
    ) -> Result<Self, LowerError> {
        let own = stage.graph.args.len();
        let args = arguments(lowerer, &graph.args);
        let refs = |values: &[Value]| values.iter().map(|value| value.at).collect();
        let mut borders = Borders {
            received: refs(&args[..own]),
            gradients: refs(&args[own..]),
            ..Borders::default()
        };
        let partials = partial::partials(graph, &[], &[]);
        let mut region = Region::new(lowerer, graph, partials, true, args);
        region.keep_blends(lowerer);
        region.emit(lowerer)?;
        if !stage.last {
            for result in &graph.results[..stage.graph.results.len()] {
                borders.sent.push(region.own_rows(lowerer, *result)?);
            }
        }
        for grad in &part.args {
            let grad = grad.ok_or_else(|| {
                LowerError::Internal(
                    "a stage is handed a tensor that its loss does not need".to_owned(),
                )
            })?;
            let gradient = region.own_rows(lowerer, graph.results[grad])?;
            borders.returned.push(gradient);
        }
        Ok(Self {
            stage,
            region,
            borders,
        })
    }

    /// The whole list of an epoch.
    fn finish(
        mut self,
        lowerer: &mut Lowerer,
        training: &Training,
        part: &PartGraph,
    ) -> Result<Vec<Instr>, LowerError> {
        let graph = self.region.graph;
        let mut grads = Vec::new();
        for grad in &part.params {
            let grad = grad.map(|g| self.region.gradient(lowerer, graph.results[g]));
            grads.push(grad.transpose()?);
        }
        let partial =
            |result: usize| self.region.facts.partial.partial[graph.results[result].0 as usize];
        let shares = part.params.iter().zip(&grads);
        let mut summed: Vec<BufferId> = shares
            .filter(|(result, _)| result.is_some_and(partial))
            .filter_map(|(_, grad)| grad.map(|g| g.at.buffer))
            .collect();
        if self.stage.last {
            let loss = self.region.stored(graph.results[0])?;
            lowerer.program.buffers[loss.at.buffer.0 as usize].role = Role::Result;
            lowerer.program.loss = Some(loss.at.buffer);
            summed.push(loss.at.buffer);
        }
        let (before, code) = (self.region.before, self.region.code);
        let mut step = arrange(lowerer, before, code, &self.region.fresh, &self.borders)?;
        if !summed.is_empty() {
            lowerer.all_reduce(&mut step, summed);
        }
        optimizer::step(lowerer, &training.settings, &grads, &mut step);
        Ok(step)
    }
}

/// Buffers of tensors that come from other stages.
fn arguments(lowerer: &mut Lowerer, types: &[Type]) -> Vec<Value> {
    let mut values = Vec::with_capacity(types.len());
    for ty in types {
        let name = format!("received{}", lowerer.program.buffers.len());
        let buffer = lowerer.buffer(name, Extent::Inner, ty.columns(), 1, Role::Temp);
        values.push(Value::whole(Ref::first(buffer), *ty));
    }
    values
}

fn passage(with: Neighbour, tensors: Vec<Ref>) -> Option<Passage> {
    (!tensors.is_empty()).then_some(Passage { with, tensors })
}

/// The layers of a stage without dropout or histories.
struct Exact {
    /// Results are those of the stage, then what becomes histories.
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
                // Several tensors may be computed of one history.
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

    /// A pass over all rows that computes some of the results; where these are among those of the stage,
    /// they are handed over. Gives the rows of the others.
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
        let args = arguments(lowerer, &graph.args);
        let received = args.iter().map(|value| value.at).collect();
        let partials = partial::partials(&graph, &[], &[]);
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
        let before = passage(Neighbour::Previous, received).map(Instr::Receive);
        let after = passage(Neighbour::Next, refs).map(Instr::Send);
        let code = before.into_iter().chain(region.code).chain(after).collect();
        Ok((code, values))
    }

    /// The evaluation: all rows, layer by layer.
    fn eval(
        &self,
        lowerer: &mut Lowerer,
        training: &Training,
        stage: &Stage,
    ) -> Result<(), LowerError> {
        let own = stage.graph.results.len();
        if !stage.last {
            let results = &self.graph.results[..own];
            lowerer.program.eval = self.pass(lowerer, training, results, own, false)?.0;
            return Ok(());
        }
        let (mut code, values) =
            self.pass(lowerer, training, &self.graph.results[1..2], 0, false)?;
        let out = lowerer.buffer("metrics".into(), Extent::Fixed(1), METRICS, 1, Role::Result);
        for logits in values {
            code.push(Instr::Metrics {
                loss: training.loss,
                logits: logits.at,
                out: Ref::first(out),
                classes: logits.ty.columns(),
            });
            lowerer.program.logits = Some(logits.at);
        }
        lowerer.all_reduce(&mut code, vec![out]);
        lowerer.program.metrics = Some(out);
        lowerer.program.eval = code;
        Ok(())
    }

    /// What fills the histories before the first epoch (epoch 0 of the specification): an exact pass with
    /// the first weights.
    fn first(
        &self,
        lowerer: &mut Lowerer,
        training: &Training,
        stage: &Stage,
    ) -> Result<(), LowerError> {
        let own = stage.graph.results.len();
        let (results, sent) = match stage.last {
            true => (&self.graph.results[own..], 0),
            false => (&self.graph.results[..], own),
        };
        let (mut code, values) = self.pass(lowerer, training, results, sent, true)?;
        for (value, history) in values.into_iter().zip(&self.histories) {
            let history = lowerer.input(Input::History(*history))?.at;
            code.push(Instr::Remember {
                from: value.at,
                history,
            });
        }
        lowerer.program.setup.extend(code);
        Ok(())
    }
}

impl Region<'_> {
    /// Where a tensor lies as a buffer of its own, as messages between stages take it.
    fn own_rows(&mut self, lowerer: &mut Lowerer, id: NodeId) -> Result<Ref, LowerError> {
        let value = self.plain(lowerer, id)?;
        if value.offset == 0 && value.stride == value.ty.columns() {
            return Ok(value.at);
        }
        let name = lowerer.name(self.graph, id);
        let buffer = lowerer.buffer(name, Extent::Inner, value.ty.columns(), 1, self.role);
        let copy = Value::whole(Ref::first(buffer), value.ty);
        self.copy(lowerer, value, copy);
        Ok(copy.at)
    }
}
