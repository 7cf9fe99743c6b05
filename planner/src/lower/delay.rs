//! Several batches in flight, each with its own version of the weights (P3, sections 3.2 and 3.3).
//!
//! Ranks that wait for sums of the first layer, or for their gradients, work on other batches meanwhile.
//! The instructions of a batch are cut where it waits:
//!
//! | lag | a batch |
//! | --- | --- |
//! | 0 | is drawn; ranks begin to share its levels |
//! | 1 | copies the weights; the first layer on slices of columns; its sums go out |
//! | 2 | sums come in; the other layers, forward and backward; gradients of the sums go out |
//! | 3 | these come in; gradients of the first layer, and with a delay of 2 the optimizer's step |
//! | 4 | with a delay of 3: the optimizer's step, after gradients were summed during a period |
//!
//! So the optimizer steps `delay` batches after a batch read its weights. All that a batch computes uses
//! the weights that it read first: later lags read copies. A buffer that is used with several lags has
//! a slot for each batch in between. On one rank nothing is cut but the optimizer's step, so that any
//! number of ranks computes the same.

use super::kernel::{fixed_elements, flat};
use super::prefetch::last_tag_of;
use crate::error::LowerError;
use gnnc_ir::graph::op::Redistribute;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::program::access::{accesses, halves};
use gnnc_ir::program::instr::{self, Lag, MOST_LAG, Numbers};
use gnnc_ir::program::{Buffer, BufferId, Instr, Program, Ref, Role, Transfer};
use std::collections::BTreeMap;

/// The program whose optimizer steps `delay` batches after a batch reads its weights.
///
/// # Errors
/// A delay that is shorter than a batch waits for messages, or that there is not.
pub fn delayed(mut program: Program, delay: u32) -> Result<Program, LowerError> {
    for index in 0..program.step.len() {
        if let Instr::Batches(instr::Batches { body }) = &mut program.step[index] {
            let body = Cut::new(std::mem::take(body), &program, delay)?.write(&mut program)?;
            program.step[index] = Instr::Batches(instr::Batches { body });
        }
    }
    Ok(program)
}

/// A batch cut into lags.
struct Cut {
    instrs: Vec<Instr>,
    /// For each instruction, the lag; of a communication that is in flight, that of its beginning.
    lags: Vec<u32>,
    /// Whether an instruction is in flight from one lag to the next.
    flies: Vec<bool>,
    /// The lag of the optimizer.
    last: u32,
}

/// The lag at which a batch computes first.
const FIRST: u32 = 1;

impl Cut {
    fn new(body: Vec<Instr>, program: &Program, delay: u32) -> Result<Self, LowerError> {
        let instrs: Vec<Instr> = body.into_iter().flat_map(apart).collect();
        let last = FIRST + delay;
        let several = program.ranks > 1;
        let uses: Vec<Uses> = instrs
            .iter()
            .map(|instr| Uses::of(instr, program))
            .collect();
        let (mut lags, mut flies) = (Vec::new(), Vec::<bool>::new());
        for (n, instr) in instrs.iter().enumerate() {
            let before = (0..n).filter(|m| uses[*m].meet(&uses[n]));
            let after = before.map(|m| lags[m] + u32::from(flies[m]));
            let ready = after.max().unwrap_or(FIRST);
            let (mut lag, mut in_flight) = (ready, several && waits(instr));
            if let Instr::Sample(_) | Instr::ShareLevels(_) = instr {
                lag = 0;
            } else if let Instr::AllReduce(_) = instr {
                // Gradients are summed while a period passes, if there is one to spare.
                in_flight = several && delay > WITHOUT_SUM && ready < last;
                lag = ready.max(last - u32::from(in_flight));
            } else if uses[n].trains {
                lag = ready.max(last);
            }
            lags.push(lag);
            flies.push(in_flight);
        }
        let needed = lags.iter().copied().max().unwrap_or(FIRST);
        if needed > last || last > MOST_LAG {
            return Err(LowerError::Illegal(format!(
                "a delay of {delay} batches is too short: this model waits for messages {} times in a batch; \
                 expected at least {}",
                needed - FIRST,
                needed - FIRST
            )));
        }
        // What depends on nothing but the draw is computed where it is read.
        let of_draw = of_draw(&uses);
        for n in (0..instrs.len()).rev().filter(|n| of_draw[*n]) {
            let after = (n + 1..instrs.len()).filter(|m| uses[n].meet(&uses[*m]));
            lags[n] = after.map(|m| lags[m]).min().unwrap_or(lags[n]);
        }
        Ok(Self {
            instrs,
            lags,
            flies,
            last,
        })
    }

    /// The body with lags, slots and copies of weights.
    fn write(mut self, program: &mut Program) -> Result<Vec<Instr>, LowerError> {
        self.copy_weights(program);
        self.give_slots(program)?;
        let mut by_lag: Vec<Vec<Instr>> = vec![Vec::new(); self.last as usize + 1];
        let mut begun: Vec<Vec<Instr>> = vec![Vec::new(); self.last as usize + 2];
        let mut tag = last_tag_of(program);
        for ((instr, lag), flies) in self.instrs.into_iter().zip(self.lags).zip(self.flies) {
            let lag = lag as usize;
            if !flies {
                by_lag[lag].push(instr);
                continue;
            }
            tag += 1;
            let what = Box::new(instr);
            let transfer = Transfer { tag, what };
            by_lag[lag].push(Instr::Begin(transfer.clone()));
            begun[lag + 1].push(Instr::Finish(transfer));
        }
        let mut body = Vec::new();
        for (lag, instrs) in by_lag.into_iter().enumerate() {
            if lag > 0 {
                body.push(Instr::Lag(Lag { by: lag as u32 }));
            }
            body.append(&mut begun[lag]);
            body.extend(instrs);
        }
        Ok(body)
    }

    /// Copies weights that are read after the first lag, and reads the copies there.
    fn copy_weights(&mut self, program: &mut Program) {
        let mut copies: BTreeMap<(BufferId, u32), Ref> = BTreeMap::new();
        let mut code = Vec::new();
        for (instr, lag) in self.instrs.iter_mut().zip(&self.lags) {
            let (_, writes) = instr.accesses();
            let role = |at: &Ref| program.buffer(at.buffer).role;
            let trains = writes.iter().any(|at| matches!(role(at), Role::Param(_)));
            if trains || *lag <= FIRST {
                continue;
            }
            instr.each_ref(&mut |at| {
                let weight = program.buffer(at.buffer).clone();
                if !matches!(weight.role, Role::Param(_)) {
                    return;
                }
                let known = copies.entry((at.buffer, at.base));
                *at = *known.or_insert_with(|| {
                    let (copy, launch) = copied(program, *at, weight);
                    code.push(launch);
                    copy
                });
            });
        }
        let count = code.len();
        self.instrs.splice(0..0, code);
        self.lags.splice(0..0, std::iter::repeat_n(FIRST, count));
        self.flies.splice(0..0, std::iter::repeat_n(false, count));
    }

    /// Gives buffers that are used with several lags a slot for each batch in between.
    fn give_slots(&mut self, program: &mut Program) -> Result<(), LowerError> {
        let mut spans: BTreeMap<BufferId, (u32, u32)> = BTreeMap::new();
        for ((instr, lag), flies) in self.instrs.iter().zip(&self.lags).zip(&self.flies) {
            let [begin, finish] = match flies {
                true => halves(instr, program),
                false => [accesses(instr, program), Vec::new()],
            };
            for (uses, lag) in [(begin, *lag), (finish, *lag + 1)] {
                for access in uses {
                    let span = spans.entry(access.buffer).or_insert((lag, lag));
                    *span = (span.0.min(lag), span.1.max(lag));
                }
            }
        }
        spans.retain(|id, (first, last)| program.buffer(*id).role == Role::Temp && first != last);
        for (id, (first, last)) in &spans {
            let buffer = &mut program.buffers[id.0 as usize];
            if buffer.slots != 1 {
                return Err(LowerError::Internal(format!(
                    "`{}` has {} slots and is used with several lags",
                    buffer.name, buffer.slots
                )));
            }
            buffer.slots = last - first + 1;
        }
        for instr in &mut self.instrs {
            instr.each_ref(&mut |at| at.in_loop |= spans.contains_key(&at.buffer));
        }
        Ok(())
    }
}

/// Numbers of a batch, each on its own; other instructions as they are.
fn apart(instr: Instr) -> Vec<Instr> {
    let Instr::Numbers(Numbers { outputs }) = instr else {
        return vec![instr];
    };
    let one = |output| {
        let outputs = vec![output];
        Instr::Numbers(Numbers { outputs })
    };
    outputs.into_iter().map(one).collect()
}

/// Whether ranks work on other batches until a communication is complete.
fn waits(instr: &Instr) -> bool {
    if let Instr::Redistribute(one) = instr {
        return one.how != Redistribute::Own;
    }
    matches!(instr, Instr::ShareLevels(_))
}

/// The delay that leaves no time to sum gradients.
const WITHOUT_SUM: u32 = 2;

/// For each instruction, whether it depends on nothing but the draw.
fn of_draw(uses: &[Uses]) -> Vec<bool> {
    let mut found: Vec<bool> = Vec::with_capacity(uses.len());
    for (n, one) in uses.iter().enumerate() {
        let given = |id: &BufferId| {
            let mut writers = (0..n).filter(|m| uses[*m].writes.contains(id));
            writers.all(|m| found[m])
        };
        let own = !one.of_more && !one.writes.is_empty();
        let all = own && one.reads.iter().all(given) && one.writes.iter().all(given);
        found.push(all);
    }
    found
}

/// Buffers that an instruction uses.
struct Uses {
    reads: Vec<BufferId>,
    writes: Vec<BufferId>,
    /// Whether it is a step of the optimizer.
    trains: bool,
    /// Whether it reads weights, or rows of all vertices or ranks.
    of_more: bool,
}

impl Uses {
    fn of(instr: &Instr, program: &Program) -> Self {
        let (reads, writes) = instr.accesses();
        let ids = |refs: Vec<Ref>| refs.into_iter().map(|at| at.buffer).collect::<Vec<_>>();
        let (reads, writes) = (ids(reads), ids(writes));
        let role = |id: &BufferId| program.buffer(*id).role;
        let trains = |id: &BufferId| matches!(role(id), Role::Param(_) | Role::State(..));
        let of_all = |id: &BufferId| program.buffer(*id).extent.of_all_ranks().is_some();
        let of_more = |id: &BufferId| role(id) != Role::Temp || of_all(id);
        Self {
            trains: writes.iter().any(trains),
            of_more: reads.iter().any(of_more) || writes.iter().any(of_more),
            reads,
            writes,
        }
    }

    /// Whether the order of two instructions matters.
    fn meet(&self, other: &Self) -> bool {
        let meets = |a: &[BufferId], b: &[BufferId]| a.iter().any(|id| b.contains(id));
        meets(&self.writes, &other.reads)
            || meets(&self.writes, &other.writes)
            || meets(&self.reads, &other.writes)
    }
}

/// A buffer for copies of a weight, and the launch that copies it.
fn copied(program: &mut Program, weight: Ref, of: Buffer) -> (Ref, Instr) {
    let (name, floats) = (
        format!("{}.copy", of.name),
        fixed_elements(&of) / of.slots.max(1),
    );
    program.buffers.push(Buffer {
        name,
        slots: 1,
        role: Role::Temp,
        ..of
    });
    let copy = Ref::first(BufferId(program.buffers.len() as u32 - 1));
    let value = Expr::leaf(Value::Load(0));
    let launch = Instr::Launch(flat(program, floats, value, vec![weight], copy));
    (copy, launch)
}
