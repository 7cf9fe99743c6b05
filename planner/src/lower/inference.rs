//! Programs that evaluate a tensor of a model, such as its logits, and do not train.

use super::checked::checked;
use super::partial::{self, Spread};
use super::region::{Region, Value};
use super::{Lowerer, attention, canonical};
use crate::error::LowerError;
use crate::layout::Ranks;
use gnnc_ir::graph::op::Loss;
use gnnc_ir::program::instr;
use gnnc_ir::program::{Among, BufferId, Extent, Instr, METRICS, Program, Ref, Role};
use gnnc_ir::{Graph, NodeId};

/// Lowers a forward graph without dropout, whose only result has a row for each vertex, to a program whose
/// evaluation keeps this result as its logits. Vertex tensors are by rows over `ranks` parts; with `sparse`,
/// the input features are stored as nonzeros. With a loss, the evaluation also scores the logits against the
/// labels.
///
/// # Errors
/// If a program cannot express the graph.
pub fn inference(
    forward: &Graph,
    sparse: bool,
    loss: Option<Loss>,
    ranks: u32,
) -> Result<Program, LowerError> {
    let graph = attention::expanded(&canonical::canonical(forward, sparse)?)?;
    let mut lowerer = Lowerer::new(&graph, sparse, Ranks::new(ranks, 0));
    let spread = Spread::of(&lowerer);
    let partials = partial::partials(&graph, spread, &[], &[]);
    let mut eval = Region::new(&lowerer, &graph, partials, false, Vec::new());
    eval.emit(&mut lowerer)?;
    let logits = eval.own_buffer(&mut lowerer, graph.results[0], "out")?;
    lowerer.program.logits = Some(logits.at);
    let metrics = loss.map(|loss| eval.metrics(&mut lowerer, loss, logits));
    let mut code = eval.code;
    lowerer.all_reduce(&mut code, metrics.into_iter().collect(), Among::All);
    lowerer.program.eval = code;
    lowerer.program.metrics = metrics;
    Ok(checked(
        lowerer.program,
        Some(forward.features),
        "inference",
    ))
}

impl Region<'_> {
    /// A tensor in a buffer of its own, so that the buffer can be all-reduced or read as a whole. `what` it
    /// is names a copy.
    pub(super) fn own_buffer(
        &mut self,
        lowerer: &mut Lowerer,
        id: NodeId,
        what: &str,
    ) -> Result<Value, LowerError> {
        let value = self.stored(id)?;
        let buffer = lowerer.program.buffer(value.at.buffer);
        let stack = value.ty.stack.max(1);
        let own = value.offset == 0
            && value.at.base == 0
            && buffer.slots == stack
            && buffer.columns == value.stride
            && buffer.role == Role::Temp;
        if own {
            return Ok(value);
        }
        let name = format!("{}.{what}", buffer.name);
        let extent = lowerer.extent(value.ty);
        let copy = lowerer.buffer(name, extent, value.ty.columns(), stack, Role::Temp);
        for slot in 0..stack {
            let from = Ref {
                base: value.at.base + slot,
                ..value.at
            };
            let from = Value {
                at: from,
                ty: value.ty.unstacked(),
                ..value
            };
            let to = Ref {
                buffer: copy,
                base: slot,
                in_loop: false,
            };
            self.copy(lowerer, from, Value::whole(to, from.ty));
        }
        Ok(Value::whole(Ref::first(copy), value.ty))
    }

    /// Scores the logits of vertices with labels; returns the buffer of the counts.
    pub(super) fn metrics(&mut self, lowerer: &mut Lowerer, loss: Loss, logits: Value) -> BufferId {
        let out = lowerer.buffer("metrics".into(), Extent::Fixed(1), METRICS, 1, Role::Result);
        self.code.push(Instr::Metrics(instr::Metrics {
            loss,
            logits: logits.at,
            out: Ref::first(out),
            classes: logits.ty.columns(),
        }));
        out
    }
}
