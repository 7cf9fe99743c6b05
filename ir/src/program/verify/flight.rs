//! Checks of split communications: nothing disturbs data in flight.

use super::{ProgramError, inside};
use crate::program::access::{Access, accesses, ordered};
use crate::program::instr;
use crate::program::trace::Phase;
use crate::program::{Instr, Program, Transfer};
use std::collections::BTreeSet;

/// Checks that every half has its other half in the same list, and that no instruction in
/// between disturbs what the two use.
///
/// # Errors
/// The first half that is alone or disturbed.
pub(super) fn verify(program: &Program) -> Result<(), ProgramError> {
    let mut tags = BTreeSet::new();
    for phase in Phase::ALL {
        list(program, phase.name(), program.list(phase), &mut tags)?;
    }
    Ok(())
}

/// A communication in flight.
struct Flight<'a> {
    place: String,
    instr: &'a Instr,
    transfer: &'a Transfer,
    uses: Vec<Access>,
}

fn list(
    program: &Program,
    place: &str,
    instrs: &[Instr],
    tags: &mut BTreeSet<u32>,
) -> Result<(), ProgramError> {
    let mut flights: Vec<Flight> = Vec::new();
    for (index, instr) in instrs.iter().enumerate() {
        let place = inside(place, index);
        let at = |what: String| ProgramError::new(what).at(&place, instr, program);
        let name = instr.name(program);
        if let Instr::Finish(transfer) = instr {
            let begun = flights.iter().position(|f| f.transfer == transfer);
            let Some(begun) = begun else {
                let tag = transfer.tag;
                return Err(at(format!(
                    "the end of a {name} with tag {tag}, which did not begin in the same list"
                )));
            };
            flights.remove(begun);
        }
        let uses = accesses(instr, program);
        if let Some(flight) = flights.iter().find(|f| ordered(&f.uses, &uses, program)) {
            return Err(at(format!(
                "a {name} uses a buffer of the {} in flight since {}; finish that first",
                flight.transfer.what.name(program),
                flight.place
            )));
        }
        if let Instr::Repeat(instr::Repeat { body, .. }) | Instr::Batches(instr::Batches { body }) =
            instr
        {
            list(program, &place, body, tags)?;
        } else if let Instr::Begin(transfer) = instr {
            if !transfer.what.has_halves() {
                return Err(at(format!("half of a {name}, which sends nothing")));
            }
            if transfer.tag == Transfer::WHOLE || !tags.insert(transfer.tag) {
                return Err(at(format!(
                    "a {name} with tag {}, expected a unique tag",
                    transfer.tag
                )));
            }
            flights.push(Flight {
                place,
                instr,
                transfer,
                uses,
            });
        }
    }
    match flights.first() {
        None => Ok(()),
        Some(flight) => {
            let name = flight.transfer.what.name(program);
            let what = format!("the {name} that begins here does not end in the same list");
            Err(ProgramError::new(what).at(&flight.place, flight.instr, program))
        }
    }
}
