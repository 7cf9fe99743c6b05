//! Instructions with everything that does not depend on the sizes of ranks or the chunk.

use super::Name;
use crate::simulate::likeness::Likeness;
use gnnc_ir::program::trace::{Phase, Resource};
use gnnc_ir::program::work::Counts;
use gnnc_ir::program::{Instr, Program};
use std::rc::Rc;

/// A list of a program, analyzed once however often it is priced.
pub(in crate::simulate) struct Listing<'a> {
    pub phase: Phase,
    pub(super) lines: Vec<Line<'a>>,
    pub(super) names: Vec<Name>,
    /// How many kinds of lines there are.
    pub(super) kinds: usize,
}

impl<'a> Listing<'a> {
    /// Of the list of a phase.
    pub fn of(program: &'a Program, phase: Phase) -> Self {
        let (mut names, mut likeness) = (Vec::new(), Likeness::of(program));
        let lines = lines(program, program.list(phase), "", &mut names, &mut likeness);
        Self {
            phase,
            lines,
            names,
            kinds: likeness.kinds(),
        }
    }
}

/// An instruction.
pub(super) struct Line<'a> {
    pub instr: &'a Instr,
    /// Its position in the list.
    pub at: Rc<str>,
    /// Index of its name.
    pub name: usize,
    /// Lines of one kind cost the same.
    pub kind: usize,
    pub counts: Counts<'a>,
    /// The instructions it repeats.
    pub body: Vec<Line<'a>>,
}

/// The instructions of a list at `prefix`; adds their names to `names`.
fn lines<'a>(
    program: &'a Program,
    instrs: &'a [Instr],
    prefix: &str,
    names: &mut Vec<Name>,
    likeness: &mut Likeness,
) -> Vec<Line<'a>> {
    let all = instrs.iter().enumerate();
    all.map(|(i, instr)| {
        let at = match prefix {
            "" => i.to_string(),
            prefix => format!("{prefix}.{i}"),
        };
        let name = name(program, instr, names);
        let body = instr.body().unwrap_or_default();
        Line {
            instr,
            name,
            counts: Counts::of(program, instr),
            kind: likeness.kind(instr),
            body: lines(program, body, &at, names, likeness),
            at: at.into(),
        }
    })
    .collect()
}

fn name(program: &Program, instr: &Instr, names: &mut Vec<Name>) -> usize {
    let (text, resource) = (instr.name(program), Resource::of(instr, program));
    let same = |name: &Name| name.text == text && name.resource == resource;
    names.iter().position(same).unwrap_or_else(|| {
        names.push(Name { text, resource });
        names.len() - 1
    })
}
