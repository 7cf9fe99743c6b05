//! Checks of chunks, of messages between stages, and of histories.

use super::{Check, Checked, ProgramError};
use crate::program::instr;
use crate::program::trace::Phase;
use crate::program::{Extent, Instr, Program, Ref, Role, StageMessage};

/// Checks that a program with chunks, messages between stages or histories belongs to a stage,
/// and that bodies of chunks hold only instructions that can run on some of the rows.
///
/// # Errors
/// The first instruction out of place.
pub(super) fn verify(program: &Program) -> Result<(), ProgramError> {
    for phase in Phase::ALL {
        for (index, instr) in program.list(phase).iter().enumerate() {
            let place = format!("{phase} {index}");
            let at = |what: String| ProgramError::new(what).at(&place, instr, program);
            if program.pipeline.is_some() {
                by_rows(program, instr).map_err(at)?;
            }
            if let Instr::Chunks(instr::Chunks { body, .. }) = instr {
                if program.pipeline.is_none() {
                    return Err(at("chunks in a program without a pipeline stage".to_owned()));
                }
                for (index, instr) in body.iter().enumerate() {
                    by_rows(program, instr)
                        .and_then(|()| some_rows(program, instr))
                        .and_then(|()| anywhere(instr, phase, program))
                        .map_err(|what| {
                            let place = format!("{place}.{index}");
                            ProgramError::new(what).at(&place, instr, program)
                        })?;
                }
            } else if let Instr::Repeat(instr::Repeat { body, .. }) = instr {
                let outside = |instr: &&Instr| staged(instr) || matches!(instr, Instr::Chunks(_));
                if let Some(instr) = body.iter().find(outside) {
                    let name = instr.name(program);
                    return Err(at(format!("{name} in a loop, expected outside loops")));
                }
            } else {
                anywhere(instr, phase, program).map_err(at)?;
            }
        }
    }
    Ok(())
}

/// Whether only programs of stages may have the instruction.
fn staged(instr: &Instr) -> bool {
    matches!(
        instr,
        Instr::Send(_) | Instr::Receive(_) | Instr::Remember(_)
    )
}

/// Checks rules that hold inside and outside chunks.
fn anywhere(instr: &Instr, phase: Phase, program: &Program) -> Checked {
    if staged(instr) && program.pipeline.is_none() {
        return Err(format!(
            "{} in a program without a pipeline stage",
            instr.name(program)
        ));
    }
    if matches!(instr, Instr::Remember(_)) && phase == Phase::Eval {
        return Err(
            "an evaluation stores rows for later epochs, expected only in a training step"
                .to_owned(),
        );
    }
    Ok(())
}

/// Checks that an instruction works on tensors by rows, as stages hold them.
fn by_rows(program: &Program, instr: &Instr) -> Checked {
    if let Instr::Repeat(instr::Repeat { body, .. }) = instr {
        return body.iter().try_for_each(|instr| by_rows(program, instr));
    }
    if instr.over_whole_graph() {
        return Err(format!(
            "a {} over the whole graph in a pipeline stage, which holds tensors by rows",
            instr.name(program)
        ));
    }
    Ok(())
}

/// Checks that an instruction can run on some of the rows.
fn some_rows(program: &Program, instr: &Instr) -> Checked {
    if !instr.fits_chunks(program) {
        return Err(format!(
            "a {} over all rows, or a loop, among the instructions of a chunk",
            instr.name(program)
        ));
    }
    Ok(())
}

impl Check<'_> {
    /// Checks a message with rows of own vertices between stages.
    pub(in crate::program) fn stage_message(&self, stage_message: &StageMessage) -> Checked {
        let tensor = |at: &Ref| {
            self.at_least("a tensor", *at, 0)?;
            if !matches!(self.program.buffer(at.buffer).extent, Extent::Fixed(_)) {
                self.rows("a tensor", *at)?;
            }
            self.moved_rows("a tensor", *at)
        };
        stage_message.tensors.iter().try_for_each(tensor)
    }

    /// Checks rows that are kept for later epochs.
    pub(in crate::program) fn remember(&self, from: Ref, history: Ref) -> Checked {
        self.rows("what is kept", from)?;
        self.rows("the history", history)?;
        let (source, target) = (
            self.program.buffer(from.buffer),
            self.program.buffer(history.buffer),
        );
        if !matches!(target.role, Role::History(_)) || from.buffer == history.buffer {
            return Err(format!(
                "`{}` is not a history of another buffer",
                target.name
            ));
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
