//! Runs the steps of communications, or waits until they can run.

use super::device_rank::DeviceRank;
use super::driver::{Address, DriverError};
use super::launch::Stop;
use super::moves::{Listed, Rows};
use super::run::Device;
use super::state::{Gpu, read, written};
use crate::clocks::Squares;
use crate::communication::moves::{Columns, Write};
use crate::communication::{self, CommStep, CommSteps, Compared, Memory, Now, Words};
use crate::part::lists::Numbers;
use crate::step_context::StepContext;
use crate::steps::Step;
use gnnc_codegen::cuda::library::{Entry, number};

impl Device {
    /// Runs step `next` of a communication and advances `next`. Returns false if it needs a message
    /// that no rank has sent yet.
    pub(super) fn comm_step(
        &mut self,
        place: usize,
        steps: &CommSteps,
        next: &mut usize,
    ) -> Result<bool, Stop> {
        let Self {
            gpu,
            device_ranks,
            mail,
            step_contexts,
            ..
        } = self;
        let device_rank = &mut device_ranks[place];
        let (rank, streams) = (device_rank.own.number, device_rank.streams);
        let Some(step) = steps.get(*next) else {
            return Ok(true);
        };
        match step {
            CommStep::Send(round) | CommStep::SendAll(round) => {
                device_rank.sent += mail.send(gpu, device_rank, step_contexts, steps, round)?;
                let packed = device_rank.packed(gpu, steps.tag)?;
                gpu.driver.record(packed, streams.messages)?;
            }
            CommStep::Packed => {
                let packed = device_rank.packed(gpu, steps.tag)?;
                gpu.driver.wait(streams.compute, packed)?;
            }
            // Streams wait for each message by itself.
            CommStep::Await => {}
            CommStep::Receive(message, write) => {
                if !mail.land(gpu, device_rank, steps, (message, *write))? {
                    return Ok(false);
                }
            }
            CommStep::Put(from, to, write) => {
                let from = device_rank.placed(gpu, from)?;
                let to = device_rank.placed(gpu, to)?;
                gpu.put(streams.compute, &from, &to, *write)?;
            }
            CommStep::Clear(rows) => {
                let to = device_rank.placed(gpu, rows)?;
                // All rows read the same row of zeros.
                let zeros = Rows {
                    stride: 0,
                    ..to.packed(device_rank.zeros)
                };
                gpu.put(streams.compute, &zeros, &to, Write::Replace)?;
            }
            CommStep::Tell(to, told) => {
                mail.tell(rank, *to, steps.tag, *told);
                device_rank.sent += 4;
            }
            CommStep::Hear(hear) => {
                let Some(told) = mail.hear(hear.from, rank, steps.tag) else {
                    return Ok(false);
                };
                *next += usize::from(!device_rank.own.heard(hear, told)?);
            }
        }
        *next += 1;
        Ok(true)
    }
}

impl DeviceRank {
    /// Replaces `steps` by those of an instruction; returns whether it communicates.
    pub(super) fn plan(
        &mut self,
        gpu: &mut Gpu,
        step: &Step,
        step_context: &StepContext,
        steps: &mut CommSteps,
    ) -> Result<bool, Stop> {
        let squares = match self.own.compared(step.instr, step.iteration) {
            Some(compared) => Some(self.distance(gpu, &compared)?),
            None => None,
        };
        let now = Now {
            iteration: step.iteration,
            epoch: step_context.epoch,
            squares,
        };
        let planned = self.own.plan(step.instr, now, steps)?;
        let of_batch = step_context.in_batch(step.batch);
        steps.drawn = step.batch.map(|_| (of_batch.seed, of_batch.draw));
        Ok(planned)
    }

    /// Rows in the memory of the device.
    pub(super) fn placed(
        &self,
        gpu: &mut Gpu,
        rows: &communication::Rows,
    ) -> Result<Rows<'_>, Stop> {
        let mut placed = |listed: &communication::Listed| {
            let numbers = self.own.part.list(listed.list).and_then(Numbers::rows);
            Ok::<_, Stop>(Listed {
                at: self.list(gpu, listed.list)?.plus(4 * listed.first as u64),
                rows: numbers
                    .and_then(|rows| rows.get(listed.first..))
                    .unwrap_or(&[]),
            })
        };
        let list = rows.list.as_ref().map(&mut placed).transpose()?;
        let vertices = rows.encoding.as_ref();
        let vertices = vertices.and_then(|encoding| encoding.vertices.as_ref());
        let vertices = vertices.map(&mut placed).transpose()?;
        let at = self.address(rows.at).plus(4 * rows.columns.offset as u64);
        let columns = Columns {
            offset: 0,
            ..rows.columns
        };
        Ok(Rows {
            columns,
            ..rows.placed(at, list, vertices)
        })
    }

    fn address(&self, words: Words) -> Address {
        match words.memory {
            Memory::Buffers => self.float(words.first),
            Memory::Sum => self.scratch.plus(4 * words.first as u64),
        }
    }

    /// The sums of squares of rows, and of their differences from other rows.
    fn distance(&self, gpu: &mut Gpu, compared: &Compared) -> Result<Squares, DriverError> {
        let (now, then) = (self.address(compared.now), self.address(compared.then));
        let (words, storage) = (compared.now.count as u64, compared.storage);
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
        let mut squares = Squares {
            rows: 0.0,
            difference: 0.0,
        };
        for part in parts.chunks_exact(16) {
            squares.rows += double(&part[..8]);
            squares.difference += double(&part[8..]);
        }
        Ok(squares)
    }
}
