//! Checks of chunks that are worked on one after the other, and of what goes between stages and epochs.

use super::{Check, Checked, ProgramError};
use crate::program::instr;
use crate::program::trace::Phase;
use crate::program::{Extent, Instr, Product, Program, Ref, Role, StageMessage};

/// Checks that a program with chunks, messages between stages or histories is that of a stage, and that the
/// bodies of chunks hold only what can be done for some rows.
///
/// # Errors
/// The first instruction that is out of place.
pub(super) fn verify(program: &Program) -> Result<(), ProgramError> {
    for phase in Phase::ALL {
        for (index, instr) in program.list(phase).iter().enumerate() {
            let place = format!("{phase} {index}");
            let at = |what: String| ProgramError::new(what).at(&place, instr, program);
            if program.pipeline.is_some() {
                by_rows(program, instr).map_err(at)?;
            }
            match instr {
                Instr::Chunks(instr::Chunks { body, .. }) if program.pipeline.is_some() => {
                    for (index, instr) in body.iter().enumerate() {
                        by_rows(program, instr)
                            .and_then(|()| some_rows(program, instr))
                            .and_then(|()| anywhere(instr, phase, program))
                            .map_err(|what| {
                                let place = format!("{place}.{index}");
                                ProgramError::new(what).at(&place, instr, program)
                            })?;
                    }
                }
                Instr::Chunks(_) => {
                    return Err(at("chunks in a program of no stage".to_owned()));
                }
                Instr::Repeat(instr::Repeat { body, .. }) => {
                    let inside = |instr: &&Instr| {
                        use Instr::{Chunks, Receive, Remember, Send};
                        matches!(
                            instr,
                            Chunks { .. } | Send(_) | Receive(_) | Remember { .. }
                        )
                    };
                    if let Some(instr) = body.iter().find(inside) {
                        let name = instr.name(program);
                        return Err(at(format!("{name} in a loop, expected outside")));
                    }
                }
                _ => anywhere(instr, phase, program).map_err(at)?,
            }
        }
    }
    Ok(())
}

/// What holds inside and outside of chunks.
fn anywhere(instr: &Instr, phase: Phase, program: &Program) -> Checked {
    let staged = matches!(
        instr,
        Instr::Send(_) | Instr::Receive(_) | Instr::Remember(_)
    );
    if staged && program.pipeline.is_none() {
        return Err(format!("{} in a program of no stage", instr.name(program)));
    }
    if matches!(instr, Instr::Remember(_)) && phase == Phase::Eval {
        return Err(
            "an evaluation keeps rows for later epochs, expected a training step".to_owned(),
        );
    }
    Ok(())
}

/// Stages hold tensors by rows.
fn by_rows(program: &Program, instr: &Instr) -> Checked {
    let whole = match instr {
        Instr::Launch(launch) => launch.rows.of_whole_graph(),
        Instr::MatMul(instr::MatMul { rows, .. }) => rows.of_whole_graph(),
        Instr::Begin(transfer) | Instr::Finish(transfer) => {
            return by_rows(program, &transfer.what);
        }
        Instr::Repeat(instr::Repeat { body, .. }) => {
            return body.iter().try_for_each(|instr| by_rows(program, instr));
        }
        Instr::Redistribute(_) => true,
        _ => false,
    };
    match whole {
        false => Ok(()),
        true => Err(format!(
            "a {} over the whole graph in a stage, which holds tensors by rows",
            instr.name(program)
        )),
    }
}

/// What can be done for some rows.
fn some_rows(program: &Program, instr: &Instr) -> Checked {
    let kernel = |id: &crate::program::KernelId| program.kernels.get(id.0 as usize);
    let reduces = |id| kernel(id).is_some_and(|k| k.body.sums_rows());
    let fits = match instr {
        Instr::Launch(launch) => !reduces(&launch.kernel) && launch.chunk.is_none(),
        Instr::MatMul(instr::MatMul { product, .. })
        | Instr::SparseMatMul(instr::SparseMatMul { product, .. }) => *product != Product::Tn,
        Instr::Loss(instr::Loss { out, .. }) => out.is_none(),
        Instr::Send(stage_message) | Instr::Receive(stage_message) => {
            stage_message.tensors.iter().all(|at| {
                let buffer = program.buffers.get(at.buffer.0 as usize);
                !buffer.is_some_and(|b| matches!(b.extent, Extent::Fixed(_)))
            })
        }
        Instr::SparseDropout(_)
        | Instr::Densify(_)
        | Instr::HaloExchange(_)
        | Instr::HaloReduce(_)
        | Instr::Remember(_) => true,
        Instr::AllReduce(_)
        | Instr::Redistribute(_)
        | Instr::Begin(_)
        | Instr::Finish(_)
        | Instr::Move(_)
        | Instr::Metrics(_)
        | Instr::Repeat(_)
        | Instr::Chunks(_) => false,
    };
    match fits {
        true => Ok(()),
        false => Err(format!(
            "a {} of all rows, or a loop, among what is done for a chunk",
            instr.name(program)
        )),
    }
}

impl Check<'_> {
    /// Rows of own vertices that go between stages.
    pub(super) fn stage_message(&self, stage_message: &StageMessage) -> Checked {
        let tensor = |at: &Ref| {
            self.at_least("a tensor", *at, 0)?;
            match self.program.buffer(at.buffer).extent {
                Extent::Fixed(_) => {}
                _ => self.rows("a tensor", *at)?,
            }
            self.moved_rows("a tensor", *at)
        };
        stage_message.tensors.iter().try_for_each(tensor)
    }

    /// Rows that are kept for later epochs.
    pub(super) fn remember(&self, from: Ref, history: Ref) -> Checked {
        self.rows("what is kept", from)?;
        self.rows("the history", history)?;
        let (source, target) = (
            self.program.buffer(from.buffer),
            self.program.buffer(history.buffer),
        );
        if !matches!(target.role, Role::History(_)) || from.buffer == history.buffer {
            return Err(format!("`{}` is no history of another buffer", target.name));
        }
        self.moved_rows("what is kept", from)?;
        self.stored_as("the history", history, source.storage)?;
        if source.columns != target.columns {
            return Err(format!(
                "`{}` has {} columns, its history {}",
                source.name, source.columns, target.columns
            ));
        }
        Ok(())
    }
}
