//! Runs the steps of communications.

use super::Worker;
use crate::arena::{Arena, Span};
use crate::clocks::Squares;
use crate::communication::moves::{Columns, Write};
use crate::communication::{self, CommStep, CommSteps, Compared, Memory, Now, Round, Words};
use crate::fault::Fault;
use crate::part::Part;
use crate::part::lists::Numbers;
use crate::step_context::StepContext;
use crate::team::Team;
use crate::transport::Transport;
use gnnc_ir::program::Instr;
use std::ops::Range;

/// Rows copied as one piece of work.
const ROWS: usize = 256;

/// Rows in the memory of a rank, or in a message.
type Rows<'a> = communication::Rows<Span, &'a [u32]>;

/// What steps read and write besides messages.
#[derive(Clone, Copy)]
struct Local<'a> {
    team: &'a Team,
    part: &'a Part,
    buffers: &'a Arena,
    /// The chunk that the rank sums.
    sum: Span,
}

impl Worker {
    /// Runs a communication instruction, or the half that it is.
    ///
    /// # Safety
    /// The instruction fits the buffers. If it is the second half, the first one ran before, and
    /// nothing it reads was written in between.
    pub(super) unsafe fn communicate(
        &mut self,
        instr: &Instr,
        iteration: u32,
        step_context: &StepContext,
    ) -> Result<(), Fault> {
        let compared = self.own.compared(instr, iteration);
        // SAFETY: as the caller promised.
        let squares = compared.map(|compared| unsafe { self.squares(&compared) });
        let now = Now {
            iteration,
            epoch: step_context.epoch,
            squares,
        };
        let mut steps = std::mem::take(&mut self.memory.steps);
        // The sum is 0 before.
        steps.first_share = Write::Add;
        self.own.plan(instr, now, &mut steps)?;
        if steps.sum > 0 {
            self.memory.sum.clear();
            self.memory.sum.resize(steps.sum, 0.0);
        }
        let sum = span(&mut self.memory.sum);
        let mut next = 0;
        while let Some(step) = steps.get(next) {
            let local = Local {
                team: &self.team,
                part: &self.own.part,
                buffers: &self.arena,
                sum,
            };
            // SAFETY: as the caller promised; steps run one after the other.
            let told = unsafe { local.step(&mut *self.transport, &steps, next) }?;
            next += 1;
            if let CommStep::Hear(hear) = step
                && let Some(told) = told
                && !self.own.heard(hear, told)?
            {
                next += 1;
            }
        }
        self.memory.steps = steps;
        Ok(())
    }

    /// Compares rows with others.
    ///
    /// # Safety
    /// Nothing writes either meanwhile.
    unsafe fn squares(&self, compared: &Compared) -> Squares {
        let span = |words: Words| self.arena.span(words.first, words.count);
        // SAFETY: as the caller promised.
        let (now, then) = unsafe { (span(compared.now).read(), span(compared.then).read()) };
        let mut squares = Squares {
            rows: 0.0,
            difference: 0.0,
        };
        let elements = compared.storage.in_word() as usize;
        let (mut a, mut b) = ([0.0; 2], [0.0; 2]);
        for (now, then) in now.chunks(1).zip(then.chunks(1)) {
            compared.storage.unpack(now, &mut a[..elements]);
            compared.storage.unpack(then, &mut b[..elements]);
            for (now, then) in a[..elements].iter().zip(&b) {
                let (now, then) = (f64::from(*now), f64::from(*then));
                squares.rows += now * now;
                squares.difference += (now - then) * (now - then);
            }
        }
        squares
    }
}

impl<'a> Local<'a> {
    /// Runs step `n`; returns the number it hears, if it hears one.
    ///
    /// # Safety
    /// The rows of the step are inside the memory, and nothing else uses them meanwhile.
    unsafe fn step(
        self,
        transport: &mut dyn Transport,
        steps: &CommSteps,
        n: usize,
    ) -> Result<Option<f32>, Fault> {
        let tag = steps.tag;
        let Some(step) = steps.get(n) else {
            return Ok(None);
        };
        match step {
            CommStep::Send(round) => {
                await_all(transport, steps, round)?;
                for message in steps.sends(round) {
                    let mut packed = Ok(());
                    transport.send(message.peer, tag, message.floats, &mut |floats| {
                        // SAFETY: as the caller promised; this closure owns the message.
                        packed = unsafe { self.pack(steps.rows(message), span(floats)) };
                    })?;
                    packed?;
                }
            }
            CommStep::SendAll(round) => {
                await_all(transport, steps, round)?;
                let messages = steps.sends(round);
                if let Some(message) = messages.first()
                    && let [rows] = steps.rows(message)
                {
                    // SAFETY: as the caller promised.
                    let floats = unsafe { self.placed(rows)?.at.read() };
                    let mut peers = messages.iter().map(|message| message.peer);
                    transport.send_all(&mut peers, tag, floats)?;
                }
            }
            // A message is packed when it has been sent.
            CommStep::Packed => {}
            CommStep::Await => transport.wait_for(&mut steps.awaited(n), tag)?,
            CommStep::Receive(message, write) => {
                let mut unpacked = Ok(());
                transport.recv(message.peer, tag, message.floats, &mut |floats| {
                    // The message is only read.
                    let at = Span {
                        ptr: floats.as_ptr().cast_mut(),
                        len: floats.len(),
                    };
                    // SAFETY: as the caller promised.
                    unpacked = unsafe { self.unpack(at, steps.rows(message), *write) };
                })?;
                unpacked?;
            }
            CommStep::Put(from, to, write) => {
                let (from, to) = (self.placed(from)?, self.placed(to)?);
                // SAFETY: as the caller promised.
                unsafe { self.put(from, to, *write) };
            }
            CommStep::Clear(rows) => {
                let rows = self.placed(rows)?;
                for row in 0..rows.count {
                    // SAFETY: as the caller promised.
                    (0..rows.columns.runs).for_each(|run| unsafe {
                        run_of(&rows, row, run, &rows.columns).write().fill(0.0);
                    });
                }
            }
            CommStep::Tell(to, told) => {
                transport.send(*to, tag, 1, &mut |message| message[0] = *told)?;
            }
            CommStep::Hear(hear) => {
                let mut told = 0.0;
                transport.recv(hear.from, tag, 1, &mut |message| told = message[0])?;
                return Ok(Some(told));
            }
        }
        Ok(None)
    }

    /// Rows in the memory of the rank.
    fn placed(self, rows: &communication::Rows) -> Result<Rows<'a>, Fault> {
        let list = match &rows.list {
            None => None,
            Some(listed) => {
                let numbers = self.part.list(listed.list).and_then(Numbers::rows);
                let numbers = numbers.and_then(|rows| rows.get(listed.first..));
                Some(numbers.ok_or(Fault::Missing("a list of rows"))?)
            }
        };
        let Words { first, count, .. } = rows.at;
        let at = match rows.at.memory {
            Memory::Buffers => self.buffers.span(first, count),
            Memory::Sum => self.sum.part(first, count),
        };
        Ok(rows.placed(at, list))
    }

    /// Copies rows to a message, one after the other.
    ///
    /// # Safety
    /// Nothing writes the rows or uses the message meanwhile.
    unsafe fn pack(self, from: &[communication::Rows], message: Span) -> Result<(), Fault> {
        let mut first = 0;
        for rows in from {
            let rows = self.placed(rows)?;
            let to = rows.packed(message.part(first, rows.floats()));
            // SAFETY: as the caller promised.
            unsafe { self.put(rows, to, Write::Replace) };
            first += rows.floats();
        }
        Ok(())
    }

    /// Copies or adds a message to rows, one after the other.
    ///
    /// # Safety
    /// Nothing writes the message or uses the rows meanwhile.
    unsafe fn unpack(
        self,
        message: Span,
        to: &[communication::Rows],
        write: Write,
    ) -> Result<(), Fault> {
        let mut first = 0;
        for rows in to {
            let rows = self.placed(rows)?;
            let from = rows.packed(message.part(first, rows.floats()));
            // SAFETY: as the caller promised.
            unsafe { self.put(from, rows, write) };
            first += rows.floats();
        }
        Ok(())
    }

    /// Copies or adds rows to other rows, in parallel.
    ///
    /// # Safety
    /// The target's rows are distinct, nothing else uses them meanwhile, and nothing writes the source.
    unsafe fn put(self, from: Rows, to: Rows, write: Write) {
        if to.floats() == 0 {
            return;
        }
        let accesses = 2 * to.floats() as u64;
        self.team.each(to.count.div_ceil(ROWS), accesses, |piece| {
            let rows = piece * ROWS..((piece + 1) * ROWS).min(to.count);
            // SAFETY: as the caller promised; every row is in one piece.
            unsafe {
                match write {
                    Write::Replace => each_run(from, to, rows, |y, x| y.copy_from_slice(x)),
                    Write::Add => each_run(from, to, rows, |y, x| to.storage.add(y, x)),
                }
            }
        });
    }
}

/// Announces the messages that come while a round is sent.
fn await_all(transport: &mut dyn Transport, steps: &CommSteps, round: &Round) -> Result<(), Fault> {
    for expected in steps.expects(round) {
        transport.awaits(expected.from, steps.tag, expected.floats)?;
    }
    Ok(())
}

/// Calls `put` with every run of some rows of the target, and the same run of the source.
///
/// # Safety
/// The target's runs are distinct, nothing else uses them meanwhile, and nothing writes the source.
unsafe fn each_run(from: Rows, to: Rows, rows: Range<usize>, put: impl Fn(&mut [f32], &[f32])) {
    let runs = from.columns.runs.max(to.columns.runs);
    let (source, target) = (from.columns.cut(runs), to.columns.cut(runs));
    if from.contiguous() && to.contiguous() {
        let (first, len) = (rows.start * target.len, rows.len() * target.len);
        let x = from.at.part(source.offset + first, len);
        let y = to.at.part(target.offset + first, len);
        // SAFETY: `part` checks both spans; the rest is as the caller promised.
        unsafe { put(y.write(), x.read()) };
        return;
    }
    for row in rows {
        for run in 0..runs {
            let x = run_of(&from, row, run, &source);
            let y = run_of(&to, row, run, &target);
            // SAFETY: as above.
            unsafe { put(y.write(), x.read()) };
        }
    }
}

/// A run of a row.
fn run_of(rows: &Rows, row: usize, run: usize, columns: &Columns) -> Span {
    let row = rows.list.map_or(row, |list| list[row] as usize);
    let begin = row * rows.stride + columns.offset + run * columns.step;
    rows.at.part(begin, columns.len)
}

fn span(floats: &mut [f32]) -> Span {
    Span {
        ptr: floats.as_mut_ptr(),
        len: floats.len(),
    }
}

#[cfg(test)]
mod tests;
