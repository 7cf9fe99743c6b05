//! Checks of exchanges that may be left out.

use crate::program::{Extent, Program, Ref, Returned, Skip};
use crate::traffic::{for_each_returned, for_each_skip};
use std::collections::BTreeSet;

/// Checks that every exchange that may be left out stands in `step`, and has copies of
/// its own that fit it.
///
/// # Errors
/// The first one that does not.
pub(super) fn verify(program: &Program) -> Result<(), String> {
    let mut found = Ok(());
    let mut numbers = BTreeSet::new();
    let place = "an exchange that may be left out";
    let back = "the way back of an exchange that may be left out";
    for (phase, instrs) in [("setup", &program.setup), ("eval", &program.eval)] {
        for_each_skip(instrs, &mut |_, _, _| {
            found = Err(format!("{place} in {phase}, expected none but in step"));
        });
        for_each_returned(instrs, &mut |_, _, _| {
            found = Err(format!("{back} in {phase}, expected none but in step"));
        });
    }
    for_each_skip(&program.step, &mut |buffer, skip, count| {
        if found.is_ok() {
            found = one(program, buffer, skip, count, &mut numbers)
                .map_err(|error| format!("{place}: {error}"));
        }
    });
    for_each_returned(&program.step, &mut |buffer, skip, count| {
        if found.is_ok() {
            found =
                returned(program, buffer, skip, count).map_err(|error| format!("{back}: {error}"));
        }
    });
    found
}

fn returned(program: &Program, buffer: Ref, skip: &Returned, count: u32) -> Result<(), String> {
    let mut known = false;
    for_each_skip(&program.step, &mut |_, of, times| {
        known |= *of == skip.of && times == count;
    });
    if !known {
        return Err(format!(
            "found copies at {:?}, by the rule {}, expected those of an exchange that runs as often",
            skip.of.copies, skip.of.rule
        ));
    }
    let Some(left) = skip.left else {
        return Ok(());
    };
    let shape = |at: Ref| {
        let buffer = program.buffers.get(at.buffer.0 as usize);
        buffer.map(|buffer| (buffer.extent, buffer.columns, buffer.storage))
    };
    match shape(left) == shape(buffer) && left.buffer != buffer.buffer {
        true => Ok(()),
        false => Err(format!(
            "found {:?} for what is left of {:?}, expected another buffer of the same rows, columns and storage",
            shape(left),
            shape(buffer)
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
            "found copies of {found:?} (rows, columns, slots) at {:?}, expected {expected:?}, a slot for \
             each iteration",
            skip.copies
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Buffer, BufferId, Distance, Instr, Role, Rule};

    fn program(rule: Rule) -> Program {
        let buffer = |extent, slots, role| Buffer {
            name: "h".to_owned(),
            extent,
            columns: 3,
            slots,
            role,
            storage: Default::default(),
        };
        let exchange = Instr::HaloExchange {
            buffer: Ref::first(BufferId(0)),
            skip: Some(Skip {
                rule,
                copies: Ref {
                    buffer: BufferId(1),
                    base: 0,
                    in_loop: true,
                },
            }),
        };
        Program {
            ranks: 2,
            buffers: vec![
                buffer(Extent::Local, 1, Role::Temp),
                buffer(Extent::Halo, 4, Role::History(0)),
            ],
            step: vec![Instr::Repeat {
                count: 4,
                reverse: false,
                body: vec![exchange],
            }],
            ..Program::default()
        }
    }

    #[test]
    fn ways_back_must_fit() {
        let check = |change: &dyn Fn(&mut Program, &mut Returned)| {
            let mut program = program(Rule::Fixed(1));
            let gradient = Buffer {
                role: Role::Temp,
                ..program.buffers[0].clone()
            };
            program.buffers.extend([gradient.clone(), gradient]);
            let mut skip = None;
            for_each_skip(&program.step, &mut |_, found, _| skip = Some(*found));
            let mut returned = Returned {
                of: skip.unwrap(),
                left: Some(Ref::first(BufferId(3))),
            };
            change(&mut program, &mut returned);
            let back = Instr::HaloReduce {
                buffer: Ref::first(BufferId(2)),
                skip: Some(returned),
            };
            match program.eval.is_empty() {
                true => program.step.push(Instr::Repeat {
                    count: 4,
                    reverse: true,
                    body: vec![back],
                }),
                false => program.eval = vec![back],
            }
            verify(&program)
        };
        assert_eq!(check(&|_, _| ()), Ok(()));
        assert_eq!(check(&|_, back| back.left = None), Ok(()));
        let refused = |change: &dyn Fn(&mut Program, &mut Returned), part: &str| {
            let error = check(change).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        refused(&|p, _| p.eval = p.step.clone(), "the way back");
        refused(
            &|_, back| back.of.rule = Rule::Fixed(2),
            "expected those of an exchange",
        );
        refused(
            &|_, back| back.of.copies = Ref::first(BufferId(1)),
            "expected those of an exchange",
        );
        refused(&|p, _| p.buffers[3].columns = 2, "what is left");
        refused(&|p, _| p.buffers[3].extent = Extent::Inner, "what is left");
        refused(
            &|_, back| back.left = Some(Ref::first(BufferId(2))),
            "another buffer",
        );
    }

    #[test]
    fn copies_must_fit() {
        let check = |change: &dyn Fn(&mut Program)| {
            let mut program = program(Rule::Fixed(1));
            change(&mut program);
            verify(&program)
        };
        assert_eq!(check(&|_| ()), Ok(()));
        let refused = |change: &dyn Fn(&mut Program), part: &str| {
            let error = check(change).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        refused(&|p| p.eval = p.step.clone(), "in eval");
        refused(&|p| p.setup = p.step.clone(), "in setup");
        refused(&|p| p.buffers[1].role = Role::Static, "no history");
        refused(&|p| p.buffers[1].columns = 2, "expected (Halo, 3, 4)");
        refused(&|p| p.buffers[1].slots = 3, "expected (Halo, 3, 4)");
        refused(
            &|p| p.buffers[1].extent = Extent::Local,
            "expected (Halo, 3, 4)",
        );
        let twice = |p: &mut Program| p.step.push(p.step[0].clone());
        refused(&twice, "which another exchange has");
        // Where values are compared, own rows are kept too.
        let mut near = program(Rule::Gap(Distance::relative(0.1), None));
        assert!(
            verify(&near)
                .unwrap_err()
                .contains("expected (Local, 3, 4)")
        );
        near.buffers[1].extent = Extent::Local;
        assert_eq!(verify(&near), Ok(()));
        for wrong in [f32::NAN, -0.1, f32::INFINITY] {
            let mut near = program(Rule::Gap(Distance::relative(wrong), None));
            near.buffers[1].extent = Extent::Local;
            assert!(verify(&near).unwrap_err().contains("a distance from 0"));
        }
    }
}
