//! Exchanges in which ranks leave out their block of rows because the others have fresh enough
//! copies.

use super::comm_step::{CommStep, Halves, land, run};
use super::device_rank::DeviceRank;
use super::driver::{Address, DriverError};
use super::launch::Stop;
use super::moves::Rows;
use super::state::{Gpu, read, written};
use crate::exchange::moves::Write;
use crate::exchange::skip::{Clock, SENT, Timing};
use crate::fault::Fault;
use crate::step_context::StepContext;
use gnnc_codegen::cuda::library::{Entry, number};
use gnnc_ir::program::{Ref, Returned, Skip};
use gnnc_ir::words::storage::Storage;
use std::ops::Range;

/// One exchange.
struct Exchange {
    /// Number of the copies' history, and its slot.
    place: [usize; 2],
    timing: Timing,
    /// Own rows, then halo rows.
    rows: Address,
    /// Copies of halo rows; preceded by copies of own rows if the rule compares values.
    copies: Address,
    /// Words per row.
    columns: u64,
    /// Storage of the elements.
    storage: Storage,
    name: String,
    tag: u32,
}

/// A block for which a rank waits to learn whether it is sent.
pub(super) struct RecvFlag {
    pub(super) tag: u32,
    /// The rank that tells it.
    pub(super) from: u32,
    /// The same rank, numbered within the group.
    block: u32,
    place: [usize; 2],
    timing: Timing,
    name: String,
    copies: Rows,
    target: Rows,
}

impl DeviceRank {
    /// An exchange that may leave out own rows; copies replace the rows that others leave out.
    pub(super) fn skipping(
        &mut self,
        gpu: &mut Gpu,
        at: Ref,
        skip: &Skip,
        (tag, iteration): (u32, u32),
        step_context: &StepContext,
        [begins, finishes]: [bool; 2],
    ) -> Result<Halves, Stop> {
        let program = self.own.program.clone();
        let buffer = program.buffer(at.buffer);
        let exchange = Exchange {
            place: self.own.clock(skip, iteration).ok_or_else(missing)?,
            timing: Timing {
                rule: skip.rule,
                epoch: step_context.epoch,
                began: self.own.clocks.began,
            },
            rows: self.slot(at, iteration),
            copies: self.slot(skip.copies, iteration),
            columns: u64::from(buffer.row_words()),
            storage: buffer.storage,
            name: buffer.name.clone(),
            tag,
        };
        let mut halves = Halves::default();
        if begins {
            halves.begin = self.leave_out(gpu, &exchange)?;
        }
        if finishes {
            halves.finish = self.fill_in(&exchange)?;
        }
        Ok(halves)
    }

    /// Sends the own block, or leaves it out.
    fn leave_out(&mut self, gpu: &mut Gpu, exchange: &Exchange) -> Result<Vec<CommStep>, Stop> {
        let Exchange {
            timing,
            columns,
            tag,
            rows,
            copies,
            ..
        } = exchange;
        let own = self.in_group();
        let floats = self.own.part.inner as u64 * columns;
        let known = self.clock(exchange.place)?.sent[own as usize].is_some();
        let gap = match timing.rule.limit() {
            Some(_) => {
                let values = (floats, exchange.storage);
                let sums = self.distance(gpu, [*rows, *copies], values)?;
                Some(timing.gap(&exchange.name, sums, known)?)
            }
            None => None,
        };
        let clock = self.clock(exchange.place)?;
        clock.active = timing.sends(clock, own, gap);
        clock.gap = gap;
        let clock = clock.clone();
        let mut comm_steps = Vec::new();
        let all = self.own_rows(gpu, None, own, *rows, *columns)?;
        if let Some(gap) = gap {
            let told = if clock.active { SENT } else { gap };
            comm_steps.extend(
                all.iter()
                    .map(|(other, _)| CommStep::Tell(*tag, *other, told)),
            );
        }
        let sends = if clock.active { all } else { Vec::new() };
        // If values decide, all ranks are in this process, and nothing is expected from elsewhere.
        let due = self.own.part.halo(None, own);
        let due = due.filter(|(other, _)| timing.too_old(&clock, *other));
        let expects = due.map(|(other, rows)| (self.absolute(other), rows.len() as u64 * columns));
        comm_steps.push(CommStep::Send(self.round(*tag, sends, expects.collect())));
        if clock.active && gap.is_some() {
            let own = |at| Rows::floats_at(at, floats);
            comm_steps.push(CommStep::Put(own(*rows), own(*copies), Write::Replace));
        }
        Ok(comm_steps)
    }

    /// Receives the blocks that are sent, and fills the halo rows with the newest copies.
    fn fill_in(&mut self, exchange: &Exchange) -> Result<Vec<CommStep>, Stop> {
        let (timing, tag) = (exchange.timing, exchange.tag);
        let own = self.in_group();
        let halo: Vec<(u32, Range<usize>)> = self.own.part.halo(None, own).collect();
        let before = match timing.rule.limit() {
            Some(_) => 0,
            None => self.own.part.inner,
        };
        let mut comm_steps = vec![CommStep::Packed(tag)];
        for (block, rows) in halo {
            let kept = rows.start - before..rows.end - before;
            let recv_flag = RecvFlag {
                tag,
                from: self.absolute(block),
                block,
                place: exchange.place,
                timing,
                name: exchange.name.clone(),
                copies: run(exchange.copies, kept, exchange.columns),
                target: run(exchange.rows, rows, exchange.columns),
            };
            if timing.rule.limit().is_some() {
                comm_steps.push(CommStep::Hear(recv_flag));
                continue;
            }
            let due = timing.too_old(self.clock(exchange.place)?, block);
            comm_steps.extend(self.heard(recv_flag, if due { SENT } else { 0.0 })?);
        }
        let clock = self.clock(exchange.place)?;
        if clock.active {
            clock.sent[own as usize] = Some(timing.epoch);
        }
        Ok(comm_steps)
    }

    /// The steps after a rank learns about a block: that it was sent, or how far the copies are.
    pub(super) fn heard(&mut self, recv_flag: RecvFlag, told: f32) -> Result<Vec<CommStep>, Stop> {
        let RecvFlag {
            tag,
            from,
            block,
            place,
            timing,
            name,
            copies,
            target,
        } = recv_flag;
        let mut comm_steps = Vec::new();
        if told == SENT {
            comm_steps.extend(land(tag, from, vec![copies.clone()], Write::Replace));
            self.clock(place)?.sent[block as usize] = Some(timing.epoch);
        }
        let age = timing.age(self.clock(place)?, block);
        timing.fresh(&name, block, age, told)?;
        let layer = self.own.staleness.layers.get_mut(place[0]);
        let layer = layer.ok_or_else(missing)?;
        layer.read(age.unwrap_or(0), copies.count);
        if timing.rule.limit().is_some() {
            layer.reach(told.max(0.0));
        }
        comm_steps.push(CommStep::Put(copies, target, Write::Replace));
        Ok(comm_steps)
    }

    /// Sends gradients of halo rows to the owners whose rows were sent, and keeps the others where
    /// they are needed.
    pub(super) fn returning(
        &mut self,
        gpu: &Gpu,
        at: Ref,
        skip: &Returned,
        (tag, iteration): (u32, u32),
        step_context: &StepContext,
    ) -> Result<Halves, Stop> {
        let place = self.own.clock(&skip.of, iteration).ok_or_else(missing)?;
        let clock = self.clock(place)?.clone();
        let fresh = |block: u32| clock.fresh(block, step_context.epoch);
        let mut halves = self.reduced(gpu, at, (tag, iteration), &fresh, clock.active)?;
        let Some(left) = skip.left else {
            return Ok(halves);
        };
        let columns = u64::from(self.own.program.buffer(at.buffer).row_words());
        let [from, to] = [at, left].map(|at| self.slot(at, iteration));
        let inner = self.own.part.inner;
        halves.finish.extend(self.clear(run(to, 0..inner, columns)));
        for (block, rows) in self.own.part.halo(None, 0) {
            let to = run(to, rows.clone(), columns);
            halves.finish.extend(match fresh(block) {
                true => self.clear(to),
                false => Some(CommStep::Put(run(from, rows, columns), to, Write::Replace)),
            });
        }
        Ok(halves)
    }

    /// Sets rows to 0.
    fn clear(&self, to: Rows) -> Option<CommStep> {
        // All rows read the same row of zeros.
        let zeros = Rows {
            stride: 0,
            ..Rows::dense(self.zeros, to.count, to.stride)
        };
        (to.count > 0).then_some(CommStep::Put(zeros, to, Write::Replace))
    }

    fn clock(&mut self, [number, slot]: [usize; 2]) -> Result<&mut Clock, Stop> {
        let clocks = self.own.clocks.of.get_mut(number);
        clocks.and_then(|of| of.get_mut(slot)).ok_or_else(missing)
    }

    /// The sums of squares of rows, and of their differences from other rows.
    fn distance(
        &self,
        gpu: &mut Gpu,
        [now, then]: [Address; 2],
        (words, storage): (u64, Storage),
    ) -> Result<(f64, f64), DriverError> {
        let numbers = words * u64::from(storage.in_word());
        let blocks = u64::from(Entry::Distance.blocks(numbers));
        let arguments = [now.0, then.0, numbers, self.scratch.0, number(storage)];
        let touched = [
            read(now, 4 * words),
            read(then, 4 * words),
            written(self.scratch, 16 * blocks),
        ];
        let on = self.streams.compute;
        gpu.library(on, Entry::Distance, numbers, &arguments, &touched)?;
        let mut parts = vec![0; 16 * blocks as usize];
        if !parts.is_empty() {
            gpu.driver.download(on, self.scratch, &mut parts)?;
        }
        let double = |bytes: &[u8]| {
            let mut eight = [0; 8];
            eight.copy_from_slice(bytes);
            f64::from_ne_bytes(eight)
        };
        let add = |sums: (f64, f64), part: &[u8]| {
            (sums.0 + double(&part[..8]), sums.1 + double(&part[8..]))
        };
        Ok(parts.chunks_exact(16).fold((0.0, 0.0), add))
    }
}

fn missing() -> Stop {
    Stop::Fault(Fault::Missing("clocks of copies"))
}
