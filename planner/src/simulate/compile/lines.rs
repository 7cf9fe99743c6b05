//! Instructions with everything that does not depend on the sizes of ranks or the chunk.

use super::Name;
use gnnc_ir::program::trace::Resource;
use gnnc_ir::program::work::Counts;
use gnnc_ir::program::{Instr, Program};
use std::rc::Rc;

/// An instruction, analyzed once however often it is priced.
pub(super) struct Line<'a> {
    pub instr: &'a Instr,
    /// Its position in the list.
    pub at: Rc<str>,
    /// Index of its name.
    pub name: usize,
    pub counts: Counts<'a>,
    /// The instructions it repeats.
    pub body: Vec<Line<'a>>,
}

/// The instructions of a list at `prefix`; adds their names to `names`.
pub(super) fn lines<'a>(
    program: &'a Program,
    instrs: &'a [Instr],
    prefix: &str,
    names: &mut Vec<Name>,
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
            body: lines(program, body, &at, names),
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
