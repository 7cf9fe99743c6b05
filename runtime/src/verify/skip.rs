//! Checks of exchanges that may be left out.

use crate::exchange::skip::history;
use gnnc_ir::program::{Extent, Halo, Program, Ref, Skip};
use gnnc_ir::traffic::for_each_skip;
use std::collections::BTreeSet;

/// Checks that every exchange that may be left out stands in `step`, moves whole blocks, and has copies of
/// its own that fit it.
///
/// # Errors
/// The first one that does not.
pub(super) fn verify(program: &Program) -> Result<(), String> {
    let mut found = Ok(());
    let mut numbers = BTreeSet::new();
    let place = "an exchange that may be left out";
    for (phase, instrs) in [("setup", &program.setup), ("eval", &program.eval)] {
        for_each_skip(instrs, &mut |_, _, _| {
            found = Err(format!("{place} in {phase}, expected none but in step"));
        });
    }
    for_each_skip(&program.step, &mut |buffer, skip, count| {
        if found.is_ok() {
            found = one(program, buffer, skip, count, &mut numbers)
                .map_err(|error| format!("{place}: {error}"));
        }
    });
    found
}

fn one(
    program: &Program,
    buffer: Ref,
    skip: &Skip,
    count: u32,
    numbers: &mut BTreeSet<usize>,
) -> Result<(), String> {
    if program.halo != Halo::Everything {
        return Err("found halos of boundary rows, expected whole blocks".to_owned());
    }
    let limit = skip.rule.limit();
    if limit.is_some_and(|limit| !(limit.is_finite() && limit >= 0.0)) {
        return Err(format!(
            "found the rule {}, expected a distance from 0",
            skip.rule
        ));
    }
    let Some(number) = history(program, skip) else {
        return Err("found copies that are no history".to_owned());
    };
    if !numbers.insert(number) {
        return Err(format!(
            "found copies in history {number}, which another exchange has"
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
            "found copies of {found:?} (rows, columns, slots) at {:?}, expected {expected:?}, a slot for \
             each iteration",
            skip.copies
        )),
    }
}
