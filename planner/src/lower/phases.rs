//! Orders a stage's instructions of an epoch into four lists: before the chunks, forward over the
//! chunks, backward over the chunks, and after (GNNPipe, section 3.1).
//!
//! Everything that works row by row goes with the chunks. Rows of other vertices that edges read
//! must be available: rows of a blend are histories until their chunk's turn, and the gradients of
//! fresh edges are 0 until theirs, so an edge that is not fresh adds nothing. So no kernel needs to
//! know which edges are fresh. Everything else that edges read is computed before the chunks, for
//! all rows, and anything the backward pass collects from all edges is computed after. If the
//! backward pass reads again what edges saw, a chunk's rows are turned back into histories at the
//! end of its turn: the order is reversed, so each chunk finds the same rows as in the forward
//! pass. New histories are written only after nothing reads the old ones. Sums over rows wait until
//! after the chunks: backward chunks do only the work that the previous stage waits for, so the
//! last stages compute weight gradients while the first ones still receive gradients.
//!
//! A stage with several runs of layers takes all chunks through one run after another, and backward
//! through the last run first. A rank has the first chunk of its next run long before it finishes
//! the last chunk of this one, so it waits only once for all runs together. Each layer still sees
//! the chunks in the order of the epoch.

mod order;

use crate::lower::kernel::Builder;
use crate::lower::region::{Value, launch_rows, over};
use crate::lower::{LowerError, Lowerer};
use gnnc_ir::kernel::expr::{Expr, Value as Scalar};
use gnnc_ir::kernel::{At, Body};
use gnnc_ir::program::instr;
use gnnc_ir::program::{BufferId, Extent, Instr, Neighbour, Ref, StageMessage};
use gnnc_ir::{Rows, Type};
use order::{Order, Phase, reads, writes};
use std::collections::BTreeSet;

/// The tensors that a run of layers receives and passes on.
#[derive(Clone, Debug, Default)]
pub struct Borders {
    /// Activations received from the previous stage.
    pub received: Vec<Ref>,
    /// Gradients of the sent tensors, from the next stage.
    pub gradients: Vec<Ref>,
    /// Activations sent to the next stage.
    pub sent: Vec<Ref>,
    /// Gradients of the received tensors, to the previous stage.
    pub returned: Vec<Ref>,
}

/// The emitted instructions of a run of layers.
pub struct Emitted {
    /// Instructions that fill blends with histories.
    pub before: Vec<Instr>,
    /// All other instructions.
    pub code: Vec<Instr>,
    /// Indices in `code` of kernels that collect gradients of fresh edges.
    pub fresh: Vec<usize>,
    /// Tensors exchanged with other stages.
    pub borders: Borders,
}

/// Orders the instructions of an epoch, for all runs of layers of a stage.
///
/// # Errors
/// If a layer needs a sum over all vertices, or rows that have no history.
pub fn arrange(lowerer: &mut Lowerer, runs: Vec<Emitted>) -> Result<Vec<Instr>, LowerError> {
    let runs = runs.into_iter().map(|run| Ordered::new(lowerer, run));
    let mut runs: Vec<Ordered> = runs.collect::<Result<_, _>>()?;
    let late: BTreeSet<BufferId> = runs.iter().flat_map(Ordered::read_late).collect();
    let late: BTreeSet<BufferId> = late.union(&read_by_several(&runs)).copied().collect();
    let (mut step, mut kept) = (Vec::new(), Vec::new());
    for run in &mut runs {
        kept.append(&mut run.keep(&late));
        step.append(&mut run.lists[Phase::Before as usize]);
        step.append(&mut run.before);
        step.push(run.forward());
    }
    for run in runs.iter_mut().rev() {
        for buffer in &run.order.zeroed {
            step.push(zero(lowerer, *buffer)?);
        }
        step.push(run.backward());
    }
    for run in &mut runs {
        step.append(&mut run.lists[Phase::After as usize]);
    }
    if !kept.is_empty() {
        let (reverse, body) = (false, kept);
        step.push(Instr::Chunks(instr::Chunks { reverse, body }));
    }
    Ok(step)
}

/// Buffers that several runs read: a run must not overwrite a history before the other runs' turns.
fn read_by_several(runs: &[Ordered]) -> BTreeSet<BufferId> {
    let (mut known, mut several) = (BTreeSet::new(), BTreeSet::new());
    for run in runs {
        let fills = run.before.iter().flat_map(reads);
        let own: BTreeSet<BufferId> = run.order.all_read().chain(fills).collect();
        several.extend(own.intersection(&known).copied());
        known.extend(own);
    }
    several
}

/// A run of layers with its instructions assigned to phases.
struct Ordered {
    order: Order,
    borders: Borders,
    before: Vec<Instr>,
    /// Instructions that refill blends.
    again: Vec<Instr>,
    /// By phase.
    lists: [Vec<Instr>; 4],
}

impl Ordered {
    fn new(lowerer: &Lowerer, run: Emitted) -> Result<Self, LowerError> {
        let Emitted {
            before,
            code,
            fresh,
            borders,
        } = run;
        let code = split_loss(code, &fresh);
        let order = Order::new(&code, &before, &borders, &lowerer.program)?;
        let seen = order.seen_again();
        let again = before
            .iter()
            .filter(|fill| writes(fill).iter().any(|at| seen.contains(at)));
        let again = again.cloned().collect();
        let mut lists: [Vec<Instr>; 4] = Default::default();
        for ((instr, _), phase) in code.into_iter().zip(&order.phases) {
            lists[*phase as usize].push(instr);
        }
        Ok(Self {
            order,
            borders,
            before,
            again,
            lists,
        })
    }

    /// Everything read after the forward chunks, including histories.
    fn read_late(&self) -> BTreeSet<BufferId> {
        self.order.read_late(&self.again)
    }

    /// Extracts the instructions that update histories still read after the run's forward chunks.
    fn keep(&mut self, late: &BTreeSet<BufferId>) -> Vec<Instr> {
        let waits = |instr: &Instr| matches!(instr, Instr::Remember(one) if late.contains(&one.history.buffer));
        let mut kept = Vec::new();
        for list in &mut self.lists {
            kept.extend(list.extract_if(.., |instr| waits(instr)));
        }
        kept
    }

    /// The loop over chunks of the forward pass.
    fn forward(&mut self) -> Instr {
        let ends = [Neighbour::Previous, Neighbour::Next];
        let rows = [&self.borders.received, &self.borders.sent];
        let body = std::mem::take(&mut self.lists[Phase::Forward as usize]);
        let (reverse, body) = (false, between(ends, rows, body));
        Instr::Chunks(instr::Chunks { reverse, body })
    }

    /// The loop over chunks of the backward pass.
    fn backward(&mut self) -> Instr {
        let ends = [Neighbour::Next, Neighbour::Previous];
        let rows = [&self.borders.gradients, &self.borders.returned];
        let body = std::mem::take(&mut self.lists[Phase::Backward as usize]);
        let (reverse, mut body) = (true, between(ends, rows, body));
        // The next stage does not wait for the refilled blends.
        body.append(&mut self.again);
        Instr::Chunks(instr::Chunks { reverse, body })
    }
}

/// The body of a chunk loop: receives rows from one stage, computes, and sends rows to another.
fn between(
    [from, to]: [Neighbour; 2],
    [received, sent]: [&Vec<Ref>; 2],
    body: Vec<Instr>,
) -> Vec<Instr> {
    let stage_message = |with, tensors: &Vec<Ref>| {
        let tensors = tensors.clone();
        (!tensors.is_empty()).then(|| StageMessage::of(with, tensors))
    };
    let receive = stage_message(from, received).map(Instr::Receive);
    let send = stage_message(to, sent).map(Instr::Send);
    receive.into_iter().chain(body).chain(send).collect()
}

/// Instructions, each with whether it collects gradients of fresh edges. A loss becomes two: its
/// gradient, row by row, and its value, which is a sum.
fn split_loss(code: Vec<Instr>, fresh: &[usize]) -> Vec<(Instr, bool)> {
    let mut out = Vec::with_capacity(code.len() + 1);
    for (n, instr) in code.into_iter().enumerate() {
        if let Instr::Loss(instr::Loss {
            loss,
            logits,
            out: number,
            grad,
            classes,
        }) = instr
        {
            let part = |out, grad| {
                Instr::Loss(instr::Loss {
                    loss: loss.clone(),
                    logits,
                    out,
                    grad,
                    classes,
                })
            };
            out.extend(grad.map(|grad| (part(None, Some(grad)), false)));
            out.extend(number.map(|number| (part(Some(number), None), false)));
            continue;
        }
        out.push((instr, fresh.contains(&n)));
    }
    out
}

/// A kernel that fills a buffer with zeros.
fn zero(lowerer: &mut Lowerer, buffer: BufferId) -> Result<Instr, LowerError> {
    let found = lowerer.program.buffer(buffer);
    let extent = found.extent;
    let rows = if matches!(extent, Extent::Inner | Extent::Local) {
        Rows::Vertices
    } else if let Extent::Edges(set) = extent {
        Rows::Edges(set)
    } else {
        let why = format!(
            "rows of `{}` ({extent:?}) do not go with chunks",
            found.name
        );
        return Err(LowerError::Internal(why));
    };
    let ty = Type::new(rows, 1, found.columns);
    let out = Value::whole(Ref::first(buffer), ty);
    let body = Body::Map {
        over: over(ty),
        values: vec![Expr::leaf(Scalar::Const(0.0))],
    };
    let rows = match extent == Extent::Local {
        true => extent,
        false => launch_rows(ty),
    };
    let builder = Builder::new(ty);
    let launch = builder.launch(
        &mut lowerer.program,
        body,
        rows,
        vec![(out.operand(At::Row), out.at)],
    );
    Ok(Instr::Launch(launch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Ranks;
    use gnnc_ir::Graph;
    use gnnc_ir::program::Role;

    /// A run that keeps rows of `from`, and one whose edges see the history's rows.
    fn two_runs(shared: bool) -> Vec<Instr> {
        let place = Ranks::new(1, 0);
        let mut lowerer = Lowerer::new(&Graph::body(1, Vec::new()), false, place);
        let mut buffer = |role| {
            let name = String::new();
            Ref::first(lowerer.buffer(name, Extent::Inner, 1, 1, role))
        };
        let histories = [0, 1].map(|number| buffer(Role::History(number)));
        let [from, blends @ ..] = [Role::Temp; 3].map(&mut buffer);
        let run = |history, blend, code| Emitted {
            before: vec![Instr::Move(instr::Move {
                from: history,
                to: blend,
                chunk: None,
            })],
            code,
            fresh: Vec::new(),
            borders: Borders::default(),
        };
        let remember = Instr::Remember(instr::Remember {
            from,
            history: histories[0],
        });
        let second = histories[usize::from(!shared)];
        let runs = vec![
            run(histories[0], blends[0], vec![remember]),
            run(second, blends[1], Vec::new()),
        ];
        arrange(&mut lowerer, runs).unwrap()
    }

    #[test]
    fn a_history_becomes_new_when_all_runs_have_read_it() {
        for shared in [false, true] {
            let list = two_runs(shared);
            let keeps = |instr: &Instr| match instr {
                Instr::Chunks(instr::Chunks { body, .. }) => {
                    body.iter().any(|i| matches!(i, Instr::Remember(_)))
                }
                _ => false,
            };
            let kept: Vec<usize> = (0..list.len()).filter(|n| keeps(&list[*n])).collect();
            let fills = list.iter().rposition(|i| matches!(i, Instr::Move(_)));
            assert_eq!(kept.len(), 1, "{list:?}");
            assert_eq!(Some(kept[0]) > fills, shared, "{list:?}");
        }
    }
}
