//! Checks of skippable exchanges.

use super::{ProgramError, inside};
use crate::program::instr::{HaloExchange, HaloReduce, Repeat};
use crate::program::trace::Phase;
use crate::program::traffic::for_each_skip;
use crate::program::{Extent, Instr, Program, Ref, Returned, Skip};
use std::collections::BTreeSet;

/// Checks that every skippable exchange is in `step` and has its own, matching copies.
///
/// # Errors
/// The first one that does not.
pub(super) fn verify(program: &Program) -> Result<(), ProgramError> {
    let mut numbers = BTreeSet::new();
    for phase in Phase::ALL {
        each(phase, program, &mut |instr, times| {
            let Instr::HaloExchange(HaloExchange {
                buffer,
                skip: Some(skip),
                ..
            }) = instr
            else {
                return Ok(());
            };
            only_in_step("a skippable exchange", phase, || {
                one(program, *buffer, skip, times, &mut numbers)
            })
        })?;
    }
    for phase in Phase::ALL {
        each(phase, program, &mut |instr, times| {
            let Instr::HaloReduce(HaloReduce {
                buffer,
                skip: Some(skip),
                ..
            }) = instr
            else {
                return Ok(());
            };
            only_in_step("the way back of a skippable exchange", phase, || {
                returned(program, *buffer, skip, times)
            })
        })?;
    }
    Ok(())
}

fn only_in_step(
    what: &str,
    phase: Phase,
    check: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    match phase {
        Phase::Step => check().map_err(|error| format!("{what}: {error}")),
        _ => Err(format!("{what} in {phase}, expected only in step")),
    }
}

/// A check of one instruction, which runs so many times.
type Visit<'a> = dyn FnMut(&Instr, u32) -> Result<(), String> + 'a;

/// Checks the instructions of a list, those in halves once, and says where the first error is.
fn each(phase: Phase, program: &Program, visit: &mut Visit) -> Result<(), ProgramError> {
    within(phase.name(), program.list(phase), 1, program, visit)
}

fn within(
    above: &str,
    list: &[Instr],
    times: u32,
    program: &Program,
    visit: &mut Visit,
) -> Result<(), ProgramError> {
    for (index, instr) in list.iter().enumerate() {
        let place = inside(above, index);
        if let Instr::Repeat(Repeat { count, body, .. }) = instr {
            within(&place, body, times.saturating_mul(*count), program, visit)?;
        } else if !matches!(instr, Instr::Finish(_)) {
            visit(instr.whole(), times)
                .map_err(|what| ProgramError::new(what).at(&place, instr, program))?;
        }
    }
    Ok(())
}

fn returned(program: &Program, buffer: Ref, skip: &Returned, count: u32) -> Result<(), String> {
    let mut known = false;
    for_each_skip(&program.step, &mut |_, of, times| {
        known |= *of == skip.of && times == count;
    });
    if !known {
        return Err(format!(
            "found copies at {}, by the rule {}, expected those of an exchange that runs equally often",
            skip.of.copies, skip.of.rule
        ));
    }
    let Some(left) = skip.left else {
        return Ok(());
    };
    let lies = |at: Ref| {
        let buffer = program.buffers.get(at.buffer.0 as usize);
        buffer.map_or("no buffer".to_owned(), |buffer| {
            format!(
                "{} x {} in {}",
                buffer.extent, buffer.columns, buffer.storage
            )
        })
    };
    match lies(left) == lies(buffer) && left.buffer != buffer.buffer {
        true => Ok(()),
        false => Err(format!(
            "found {left}, {}, for the remainder of {buffer}, {}; expected another buffer with the same rows, columns \
             and storage",
            lies(left),
            lies(buffer)
        )),
    }
}

fn one(
    program: &Program,
    buffer: Ref,
    skip: &Skip,
    count: u32,
    numbers: &mut BTreeSet<usize>,
) -> Result<(), String> {
    let limit = skip.rule.limit();
    if limit.is_some_and(|limit| !(limit.is_finite() && limit >= 0.0)) {
        return Err(format!(
            "found the rule {}, expected a distance from 0",
            skip.rule
        ));
    }
    let Some(number) = program.history(skip) else {
        return Err("found copies that are not a history".to_owned());
    };
    if !numbers.insert(number) {
        return Err(format!(
            "found copies in history {number}, which belongs to another exchange"
        ));
    }
    let (copies, rows) = (
        program.buffer(skip.copies.buffer),
        program.buffer(buffer.buffer),
    );
    let extent = match limit {
        Some(_) => Extent::Local,
        None => Extent::Halo,
    };
    if copies.storage != rows.storage {
        return Err(format!(
            "found copies in {} of rows in {}, expected the same",
            copies.storage, rows.storage
        ));
    }
    let expected = (extent, rows.columns, count);
    let found = (copies.extent, copies.columns, copies.slots);
    let at = Ref {
        base: 0,
        in_loop: count > 1 || skip.copies.in_loop,
        ..skip.copies
    };
    match found == expected && skip.copies == at {
        true => Ok(()),
        false => Err(format!(
            "found copies {} x {} in {} slots at {}, expected {} x {} in {}, a slot for each iteration",
            found.0, found.1, found.2, skip.copies, expected.0, expected.1, expected.2
        )),
    }
}
