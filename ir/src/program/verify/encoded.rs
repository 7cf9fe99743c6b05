//! Checks of rows that travel in fewer bits.

use super::{ProgramError, inside};
use crate::program::instr::{Collective, Encoded};
use crate::program::trace::Phase;
use crate::program::{Instr, Program};

/// Checks that rows are encoded in `step` alone, and not where others keep copies of them.
///
/// # Errors
/// The first rows that may not be encoded.
pub(super) fn verify(program: &Program) -> Result<(), ProgramError> {
    for phase in Phase::ALL {
        list(phase, phase.name(), program.list(phase), program)?;
    }
    Ok(())
}

fn list(
    phase: Phase,
    above: &str,
    instrs: &[Instr],
    program: &Program,
) -> Result<(), ProgramError> {
    for (index, instr) in instrs.iter().enumerate() {
        let place = inside(above, index);
        one(phase, instr).map_err(|what| ProgramError::new(what).at(&place, instr, program))?;
        list(phase, &place, instr.body().unwrap_or_default(), program)?;
    }
    Ok(())
}

fn one(phase: Phase, instr: &Instr) -> Result<(), String> {
    let Some(Encoded { wire, .. }) = instr.encoded() else {
        return Ok(());
    };
    if phase != Phase::Step {
        return Err(format!("rows as {wire} in {phase}, expected only in step"));
    }
    let kept = match instr.whole().collective() {
        Some(Collective::HaloExchange(one)) => one.skip.is_some(),
        Some(Collective::HaloReduce(one)) => one.skip.is_some(),
        _ => false,
    };
    match kept {
        false if wire.is_f32() => Err("rows as f32, expected bf16 or int8".to_owned()),
        false => Ok(()),
        true => Err(format!(
            "rows as {wire} of an exchange that may be left out, expected them as they are in memory"
        )),
    }
}
