//! Runs the steps of communications.

use super::Worker;
use crate::arena::{Arena, Span};
use crate::clocks::Squares;
use crate::communication::encoding::{Encoding, Row};
use crate::communication::moves::{Columns, Write};
use crate::communication::{
    self, CommStep, CommSteps, Compared, Listed, Memory, Now, Round, Words,
};
use crate::fault::Fault;
use crate::part::Part;
use crate::part::lists::Numbers;
use crate::step_context::StepContext;
use crate::team::Team;
use crate::transport::Transport;
use gnnc_ir::kernel::vertex_hash;
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
    step_context: &'a StepContext,
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
                step_context,
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
        let numbers = |listed: &Listed| {
            let numbers = self.part.list(listed.list).and_then(Numbers::rows);
            let numbers = numbers.and_then(|rows| rows.get(listed.first..));
            numbers.ok_or(Fault::Missing("a list of rows"))
        };
        let list = rows.list.as_ref().map(numbers).transpose()?;
        let vertices = rows.encoding.as_ref();
        let vertices = vertices.and_then(|encoding| encoding.vertices.as_ref());
        let vertices = vertices.map(numbers).transpose()?;
        let Words { first, count, .. } = rows.at;
        let at = match rows.at.memory {
            Memory::Buffers => self.buffers.span(first, count),
            Memory::Sum => self.sum.part(first, count),
        };
        Ok(rows.placed(at, list, vertices))
    }

    /// Copies rows to a message, one after the other.
    ///
    /// # Safety
    /// Nothing writes the rows or uses the message meanwhile.
    unsafe fn pack(self, from: &[communication::Rows], message: Span) -> Result<(), Fault> {
        let mut first = 0;
        for rows in from {
            let rows = self.placed(rows)?;
            let at = message.part(first, rows.message_floats());
            match rows.encoded() {
                // SAFETY: as the caller promised.
                None => unsafe { self.put(rows, rows.packed(at), Write::Replace) },
                // SAFETY: as the caller promised.
                Some(encoding) => unsafe { self.encode(rows, encoding, at) },
            }
            first += rows.message_floats();
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
            let at = message.part(first, rows.message_floats());
            match rows.encoded() {
                // SAFETY: as the caller promised.
                None => unsafe { self.put(rows.packed(at), rows, write) },
                // SAFETY: as the caller promised.
                Some(encoding) => unsafe { self.decode(at, rows, encoding, write) },
            }
            first += rows.message_floats();
        }
        Ok(())
    }

    /// Encodes rows into a message, in parallel.
    ///
    /// # Safety
    /// Nothing writes the rows or uses the message meanwhile.
    unsafe fn encode(self, from: Rows, encoding: &Encoding<&[u32]>, message: Span) {
        let key = encoding.key(self.step_context.seed, self.step_context.draw);
        let words = from.message_row();
        self.pieces(from, |rows| {
            let mut row = Row::of(&from, encoding);
            for n in rows {
                let at = from.list.map_or(n, |list| list[n] as usize);
                let vertex = encoding.vertices.map_or(at as u32, |ids| ids[at]);
                // SAFETY: as the caller promised; every row is in one piece.
                unsafe {
                    each_part(&from, n, row.words(), |part, run| {
                        part.copy_from_slice(run.read())
                    });
                    let to = message.part(n * words, words).write();
                    row.encode(vertex_hash(key, vertex), to);
                }
            }
        });
    }

    /// Decodes a message into rows, or adds what it says, in parallel.
    ///
    /// # Safety
    /// The rows are distinct, nothing else uses them meanwhile, and nothing writes the message.
    unsafe fn decode(self, message: Span, to: Rows, encoding: &Encoding<&[u32]>, write: Write) {
        let words = to.message_row();
        self.pieces(to, |rows| {
            let mut row = Row::of(&to, encoding);
            for n in rows {
                // SAFETY: as the caller promised; every row is in one piece.
                unsafe {
                    row.decode(message.part(n * words, words).read());
                    each_part(&to, n, row.words(), |part, run| match write {
                        Write::Replace => run.write().copy_from_slice(part),
                        Write::Add => to.storage.add(run.write(), part),
                    });
                }
            }
        });
    }

    /// Works on rows in pieces, in parallel.
    fn pieces(self, rows: Rows, work: impl Fn(Range<usize>) + Sync) {
        let accesses = 2 * rows.floats() as u64;
        self.team
            .each(rows.count.div_ceil(ROWS), accesses, |piece| {
                work(piece * ROWS..((piece + 1) * ROWS).min(rows.count));
            });
    }

    /// Copies or adds rows to other rows, in parallel.
    ///
    /// # Safety
    /// The target's rows are distinct, nothing else uses them meanwhile, and nothing writes the source.
    unsafe fn put(self, from: Rows, to: Rows, write: Write) {
        if to.floats() == 0 {
            return;
        }
        // SAFETY: as the caller promised; every row is in one piece.
        self.pieces(to, |rows| unsafe {
            match write {
                Write::Replace => each_run(from, to, rows, |y, x| y.copy_from_slice(x)),
                Write::Add => each_run(from, to, rows, |y, x| to.storage.add(y, x)),
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

/// Visits the runs of a row in memory, each with the part of the row's words that it holds.
fn each_part(rows: &Rows, row: usize, words: &mut [f32], visit: impl Fn(&mut [f32], Span)) {
    let parts = words.chunks_mut(rows.columns.len.max(1));
    for (run, part) in parts.enumerate() {
        visit(part, run_of(rows, row, run, &rows.columns));
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
