//! Groups of independent element-wise launches, such as the updates of all parameters. A device
//! may run a group in one launch.

use super::{Extent, Instr, Launch, Program, Ref};
use crate::program::instr;
use std::ops::Range;

/// Several launches from consecutive instructions of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Together<'a> {
    /// The instructions.
    pub instrs: Range<usize>,
    /// Their launches, in order.
    pub launches: Vec<Once<'a>>,
}

/// A launch in one iteration of the enclosing loop, or in iteration 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Once<'a> {
    /// Position of its instruction in the list.
    pub at: usize,
    /// The launch.
    pub launch: &'a Launch,
    /// Iteration of the loop.
    pub iteration: u32,
}

impl<'a> Together<'a> {
    /// Groups the launches by kernel and scalars; a device can run each group at once.
    pub fn by_kernel(&self) -> Vec<Vec<Once<'a>>> {
        let mut found: Vec<Vec<Once>> = Vec::new();
        for once in &self.launches {
            let alike = |other: &Once| {
                let [a, b] = [once.launch, other.launch];
                (a.kernel, &a.scalars) == (b.kernel, &b.scalars)
            };
            match found
                .iter_mut()
                .find(|same| same.first().is_some_and(alike))
            {
                Some(same) => same.push(*once),
                None => found.push(vec![*once]),
            }
        }
        found
    }
}

/// All groups of at least two launches in a list. Does not look inside loops, except loops over
/// a single element-wise launch.
pub fn together<'a>(list: &'a [Instr], program: &Program) -> Vec<Together<'a>> {
    let mut found: Vec<Together> = Vec::new();
    let mut before = Uses::of(program);
    for (at, instr) in list.iter().enumerate() {
        let Some((launch, count)) = flat(instr, program) else {
            continue;
        };
        let once = |iteration| Once {
            at,
            launch,
            iteration,
        };
        match found.last_mut() {
            Some(last) if last.instrs.end == at && !before.meet(launch) => {
                last.instrs.end += 1;
                last.launches.extend((0..count).map(once));
                before.add(launch);
            }
            _ => {
                found.push(Together {
                    instrs: at..at + 1,
                    launches: (0..count).map(once).collect(),
                });
                before.clear();
                before.add(launch);
            }
        }
    }
    found.retain(|together| together.launches.len() > 1);
    found
}

/// Buffers that the launches of a group use, in any slot.
struct Uses {
    /// The group, counted from 1.
    group: u32,
    /// The last group that read each buffer; 0 if there is none.
    read: Vec<u32>,
    /// The last group that wrote each buffer; 0 if there is none.
    written: Vec<u32>,
}

impl Uses {
    fn of(program: &Program) -> Self {
        let none = vec![0; program.buffers.len()];
        Self {
            group: 1,
            read: none.clone(),
            written: none,
        }
    }

    /// Begins another group.
    fn clear(&mut self) {
        self.group += 1;
    }

    fn add(&mut self, launch: &Launch) {
        let now = self.group;
        let mark = |groups: &mut [u32], used: &[Ref]| {
            for at in used {
                // A program that was not verified may name buffers that do not exist.
                if let Some(group) = groups.get_mut(at.buffer.0 as usize) {
                    *group = now;
                }
            }
        };
        mark(&mut self.read, &launch.inputs);
        mark(&mut self.written, &launch.outputs);
    }

    /// Whether a launch may have to wait for one of these.
    fn meet(&self, launch: &Launch) -> bool {
        let written = |at: &Ref| self.written.get(at.buffer.0 as usize) == Some(&self.group);
        let read = |at: &Ref| self.read.get(at.buffer.0 as usize) == Some(&self.group);
        launch.inputs.iter().any(written) || launch.outputs.iter().any(|at| written(at) || read(at))
    }
}

/// The launch of an instruction if it is element-wise, and how often it runs with no iteration
/// depending on another.
fn flat<'a>(instr: &'a Instr, program: &Program) -> Option<(&'a Launch, u32)> {
    let (launch, count) = if let Instr::Launch(launch) = instr {
        (launch, 1)
    } else if let Instr::Repeat(instr::Repeat { count, body, .. }) = instr
        && let [Instr::Launch(launch)] = &body[..]
    {
        (launch, *count)
    } else {
        return None;
    };
    let kernel = program.kernels.get(launch.kernel.0 as usize)?;
    let fixed = matches!(launch.rows, Extent::Fixed(_)) && launch.chunk.is_none();
    // Each iteration writes its own slots, and these are read only in that iteration.
    let apart = |out: &Ref| {
        let slots = program.buffers.get(out.buffer.0 as usize);
        let slots = slots.map_or(0, |buffer| buffer.slots);
        let mut same = launch.inputs.iter().chain(&launch.outputs);
        (count == 1 || out.in_loop && slots >= count)
            && same.all(|other| other.buffer != out.buffer || other == out)
    };
    let whole = fixed && kernel.is_flat() && launch.outputs.iter().all(apart);
    whole.then_some((launch, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::expr::{Expr, Value};
    use crate::kernel::{At, Body, Kernel, Operand, Over};
    use crate::program::{Buffer, BufferId, KernelId, Role};
    use crate::words::scalar::Unary;

    fn program() -> Program {
        let flat = Operand::dense(At::Row, 1, 1);
        let value = Expr {
            values: vec![Value::Load(0), Value::Unary(Unary::Exp, 0)],
        };
        let kernel = Kernel {
            body: Body::Map {
                over: Over::Rows,
                values: vec![value],
            },
            heads: 1,
            width: 1,
            inputs: vec![flat],
            outputs: vec![flat],
            masks: Vec::new(),
            scalars: 0,
        };
        let buffer = |n: u32| Buffer {
            name: format!("b{n}"),
            extent: Extent::Fixed(4),
            columns: 1,
            slots: 3,
            storage: Default::default(),
            role: Role::Temp,
        };
        Program {
            kernels: vec![kernel],
            buffers: (0..4).map(buffer).collect(),
            ..Program::default()
        }
    }

    fn launch(from: u32, to: u32, in_loop: bool) -> Instr {
        let at = |buffer| Ref {
            buffer: BufferId(buffer),
            base: 0,
            in_loop,
        };
        Instr::Launch(Launch {
            kernel: KernelId(0),
            rows: Extent::Fixed(4),
            inputs: vec![at(from)],
            outputs: vec![at(to)],
            scalars: Vec::new(),
            sites: Vec::new(),
            lists: Vec::new(),
            chunk: None,
        })
    }

    fn repeat(count: u32, body: Instr) -> Instr {
        Instr::Repeat(instr::Repeat {
            count,
            reverse: false,
            body: vec![body],
        })
    }

    fn found(list: &[Instr], program: &Program) -> Vec<(Range<usize>, usize)> {
        let found = together(list, program).into_iter();
        found.map(|t| (t.instrs, t.launches.len())).collect()
    }

    #[test]
    fn updates_in_place_and_of_stacks_are_together() {
        let updates = [
            launch(0, 0, false),
            repeat(3, launch(1, 1, true)),
            launch(2, 2, false),
        ];
        assert_eq!(found(&updates, &program()), [(0..3, 5)]);
        let iterations: Vec<u32> = together(&updates, &program())[0]
            .launches
            .iter()
            .map(|once| once.iteration)
            .collect();
        assert_eq!(iterations, [0, 0, 1, 2, 0]);
    }

    #[test]
    fn what_reads_a_result_begins_anew() {
        let list = [
            launch(0, 1, false),
            launch(2, 3, false),
            launch(1, 2, false),
            launch(0, 1, false),
        ];
        // The third launch reads what the first wrote; the fourth writes what the third reads.
        assert_eq!(found(&list, &program()), [(0..2, 2)]);
        let apart = [
            launch(0, 0, false),
            Instr::AllReduce(instr::AllReduce::whole(Vec::new())),
            launch(1, 1, false),
        ];
        assert_eq!(found(&apart, &program()), []);
    }

    #[test]
    fn iterations_that_meet_and_other_kernels_stay_apart() {
        // One slot for all iterations, or fewer slots than iterations.
        assert_eq!(found(&[repeat(3, launch(0, 0, false))], &program()), []);
        assert_eq!(found(&[repeat(4, launch(0, 0, true))], &program()), []);
        assert_eq!(
            found(&[repeat(3, launch(0, 0, true))], &program()),
            [(0..1, 3)]
        );
        let both = [launch(0, 0, false), launch(1, 1, false)];
        let changed = |change: &dyn Fn(&mut Kernel)| {
            let mut program = program();
            change(&mut program.kernels[0]);
            found(&both, &program).len()
        };
        assert_eq!(changed(&|_| ()), 1);
        assert_eq!(changed(&|kernel| kernel.width = 2), 0);
        assert_eq!(changed(&|kernel| kernel.inputs[0].stride = 2), 0);
        assert_eq!(changed(&|kernel| kernel.inputs[0].offset = 1), 0);
    }
}
