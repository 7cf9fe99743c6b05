//! The instructions of an epoch of a stage in four lists: before, over the chunks forward, over the chunks
//! backward, and after (GNNPipe, section 3.1).
//!
//! Whatever works row by row goes with the chunks. What edges read of other vertices must be there: rows of a
//! blend are histories until their chunk's turn, and gradients that edges with fresh values bring are 0
//! until theirs, which is what an edge adds that does not count. So no kernel knows which edges are fresh. What
//! edges read otherwise is computed before, for all rows, and what the backward pass has to collect from
//! all edges is computed after. Where the backward pass reads once more what edges saw, a chunk's rows are made
//! histories again at the end of its turn: the order is reversed, so that each chunk finds what it found forward;
//! and what becomes history waits until nothing reads the one before it. Sums over rows wait until after: the backward chunks do only what the stage
//! before waits for, so the last stages work on weights while the first ones still get gradients.
//!
//! A stage with several runs of layers takes all chunks through one run after the other, and backward through the last
//! run first: a rank has the first chunk of its next run long before it is through with the last chunk of this one, so
//! it waits once for all runs together. Each layer still sees the chunks in the order of the epoch.

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

/// The tensors that a run of layers gets and hands over.
#[derive(Clone, Debug, Default)]
pub struct Borders {
    /// From the stage before.
    pub received: Vec<Ref>,
    /// Gradients by what is sent, from the next stage.
    pub gradients: Vec<Ref>,
    /// To the next stage.
    pub sent: Vec<Ref>,
    /// Gradients by what was received, to the stage before.
    pub returned: Vec<Ref>,
}

/// The instructions of a run of layers as they were emitted.
pub struct Emitted {
    /// What fills blends with histories.
    pub before: Vec<Instr>,
    /// All others.
    pub code: Vec<Instr>,
    /// The places in `code` of kernels that collect what fresh edges bring.
    pub fresh: Vec<usize>,
    /// What comes from other stages and goes there.
    pub borders: Borders,
}

/// Puts the instructions of an epoch in order, those of all runs of layers of a stage.
///
/// # Errors
/// A layer that needs a sum over all vertices, or rows that have no history.
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

/// Buffers that several runs read: what becomes history of one must not be there before the others' turns.
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

/// A run of layers whose instructions have their phases.
struct Ordered {
    order: Order,
    borders: Borders,
    before: Vec<Instr>,
    /// What fills blends once more.
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

    /// All that is read after the forward chunks, histories among it.
    fn read_late(&self) -> BTreeSet<BufferId> {
        self.order.read_late(&self.again)
    }

    /// Takes out what keeps histories that are still read after the run's forward chunks.
    fn keep(&mut self, late: &BTreeSet<BufferId>) -> Vec<Instr> {
        let waits = |instr: &Instr| match instr {
            Instr::Remember(instr::Remember { history, .. }) => late.contains(&history.buffer),
            _ => false,
        };
        let mut kept = Vec::new();
        for list in &mut self.lists {
            kept.extend(list.extract_if(.., |instr| waits(instr)));
        }
        kept
    }

    /// The chunks of the forward pass.
    fn forward(&mut self) -> Instr {
        let ends = [Neighbour::Previous, Neighbour::Next];
        let rows = [&self.borders.received, &self.borders.sent];
        let body = std::mem::take(&mut self.lists[Phase::Forward as usize]);
        let (reverse, body) = (false, between(ends, rows, body));
        Instr::Chunks(instr::Chunks { reverse, body })
    }

    /// The chunks of the backward pass.
    fn backward(&mut self) -> Instr {
        let ends = [Neighbour::Next, Neighbour::Previous];
        let rows = [&self.borders.gradients, &self.borders.returned];
        let body = std::mem::take(&mut self.lists[Phase::Backward as usize]);
        let (reverse, mut body) = (true, between(ends, rows, body));
        // The next stage does not wait for what is put back.
        body.append(&mut self.again);
        Instr::Chunks(instr::Chunks { reverse, body })
    }
}

/// What is done for a chunk between its rows' coming from one stage and going to another one.
fn between(
    [from, to]: [Neighbour; 2],
    [received, sent]: [&Vec<Ref>; 2],
    body: Vec<Instr>,
) -> Vec<Instr> {
    let stage_message = |with, tensors: &Vec<Ref>| {
        let tensors = tensors.clone();
        (!tensors.is_empty()).then_some(StageMessage { with, tensors })
    };
    let receive = stage_message(from, received).map(Instr::Receive);
    let send = stage_message(to, sent).map(Instr::Send);
    receive.into_iter().chain(body).chain(send).collect()
}

/// Instructions with whether they collect what fresh edges bring. A loss becomes two: its derivative row by
/// row, and the number, which is a sum.
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
                    loss,
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
    let rows = match found.extent {
        Extent::Inner | Extent::Local => Rows::Vertices,
        Extent::Edges(set) => Rows::Edges(set),
        other => {
            let why = format!("rows of `{}` ({other:?}) do not go with chunks", found.name);
            return Err(LowerError::Internal(why));
        }
    };
    let extent = found.extent;
    let ty = Type::new(rows, 1, found.columns);
    let out = Value::whole(Ref::first(buffer), ty);
    let body = Body::Map {
        over: over(ty),
        values: vec![Expr::leaf(Scalar::Const(0.0))],
    };
    let rows = match extent {
        Extent::Local => Extent::Local,
        _ => launch_rows(ty),
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

    /// A run that keeps rows of `from`, and one whose edges see those of the history.
    fn two_runs(shared: bool) -> Vec<Instr> {
        let place = Ranks { ranks: 1, rank: 0 };
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
