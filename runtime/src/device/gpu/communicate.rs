//! Communication instructions as steps in order: pack, send, receive, unpack.

use super::comm_step::{CommStep, Halves, floats, land, run};
use super::device_rank::DeviceRank;
use super::driver::Address;
use super::launch::Stop;
use super::mail::Round;
use super::moves::Rows;
use super::state::Gpu;
use crate::chunks::Set;
use crate::exchange::moves::{Block, Columns, Geometry, Side, Write};
use crate::exchange::{own_chunk, owners, pieces};
use crate::fault::Fault;
use crate::part::lists::{List, Numbers};
use crate::part::rows::Sent;
use crate::step_context::StepContext;
use crate::steps::Step;
use gnnc_ir::program::instr;
use gnnc_ir::program::{BufferId, Instr, Moved, Ref, StageMessage, Transfer};
use gnnc_ir::words::storage::Storage;
use std::ops::Range;

impl DeviceRank {
    /// The steps of a communication instruction; `None` if it does not communicate.
    ///
    /// # Errors
    /// If it does not fit the rank, or reads rows its rule forbids.
    pub(super) fn comm_steps(
        &mut self,
        gpu: &mut Gpu,
        step: &Step,
        step_context: &StepContext,
    ) -> Result<Option<Vec<CommStep>>, Stop> {
        let iteration = step.iteration;
        Ok(match step.instr {
            Instr::Begin(Transfer { tag, what }) => {
                let halves =
                    self.halves(gpu, what, (*tag, iteration), step_context, [true, false])?;
                halves.map(|halves| halves.begin)
            }
            Instr::Finish(Transfer { tag, what }) => {
                let halves =
                    self.halves(gpu, what, (*tag, iteration), step_context, [false, true])?;
                halves.map(|halves| halves.finish)
            }
            Instr::Send(stage_message) => {
                let (peer, tensors) = self.stage_message(stage_message, iteration)?;
                let sends = vec![(peer, tensors)];
                let round = self.round(Transfer::WHOLE, sends, Vec::new());
                Some(vec![
                    CommStep::Send(round),
                    CommStep::Packed(Transfer::WHOLE),
                ])
            }
            Instr::Receive(stage_message) => {
                let (peer, tensors) = self.stage_message(stage_message, iteration)?;
                let expects = vec![(peer, floats(&tensors))];
                let round = self.round(Transfer::WHOLE, Vec::new(), expects);
                let landing = land(Transfer::WHOLE, peer, tensors, Write::Replace);
                Some(
                    std::iter::once(CommStep::Send(round))
                        .chain(landing)
                        .collect(),
                )
            }
            whole => {
                let tag = Transfer::WHOLE;
                let halves =
                    self.halves(gpu, whole, (tag, iteration), step_context, [true, true])?;
                halves.map(|halves| halves.begin.into_iter().chain(halves.finish).collect())
            }
        })
    }

    /// The requested halves of a communication.
    fn halves(
        &mut self,
        gpu: &mut Gpu,
        instr: &Instr,
        (tag, iteration): (u32, u32),
        step_context: &StepContext,
        wanted: [bool; 2],
    ) -> Result<Option<Halves>, Stop> {
        let at = (tag, iteration);
        let halves = if let Instr::HaloExchange(one) = instr {
            match &one.skip {
                Some(skip) => self.skipping(gpu, one.buffer, skip, at, step_context, wanted)?,
                None => self.filled(gpu, one.buffer, at)?,
            }
        } else if let Instr::HaloReduce(one) = instr {
            match &one.skip {
                Some(skip) => self.returning(gpu, one.buffer, skip, at, step_context)?,
                None => self.reduced(gpu, one.buffer, at, &|_| true, true)?,
            }
        } else if let Instr::AllReduce(one) = instr {
            self.sums(&one.buffers, tag)
        } else if let Instr::Redistribute(_) = instr {
            self.redistribute(gpu, instr, at)?
        } else {
            return Ok(None);
        };
        Ok(Some(halves))
    }

    /// Halo exchange: sends own rows to their readers.
    fn filled(&self, gpu: &Gpu, at: Ref, (tag, iteration): (u32, u32)) -> Result<Halves, Fault> {
        let (order, columns) = (self.in_group(), self.row_words(at));
        let slot = self.slot(at, iteration);
        let own = self.own_rows(gpu, self.own.place.chunk, order, slot, columns)?;
        let halo = self.halo_rows(order, slot, columns, &|_| true);
        Ok(self.moved(at, tag, own, halo, Write::Replace))
    }

    /// Halo reduce: sends halo rows to those of their owners that are `wanted`. If `adds`, receives
    /// and adds in rank order.
    pub(super) fn reduced(
        &self,
        gpu: &Gpu,
        at: Ref,
        (tag, iteration): (u32, u32),
        wanted: &dyn Fn(u32) -> bool,
        adds: bool,
    ) -> Result<Halves, Fault> {
        let columns = self.row_words(at);
        let slot = self.slot(at, iteration);
        let halo = self.halo_rows(self.in_group(), slot, columns, wanted);
        let own = match adds {
            true => self.own_rows(gpu, self.own.place.chunk, 0, slot, columns)?,
            false => Vec::new(),
        };
        Ok(self.moved(at, tag, halo, own, Write::Add))
    }

    /// Words per row of a buffer.
    fn row_words(&self, at: Ref) -> u64 {
        u64::from(self.own.program.buffer(at.buffer).row_words())
    }

    /// The halo rows of each rank that is `wanted`.
    fn halo_rows(
        &self,
        order: u32,
        at: Address,
        columns: u64,
        wanted: &dyn Fn(u32) -> bool,
    ) -> Vec<(u32, Vec<Rows>)> {
        let rows = self.own.part.halo(self.own.place.chunk, order);
        let rows = rows.filter(|(other, _)| wanted(*other));
        rows.map(|(other, rows)| (self.absolute(other), vec![run(at, rows, columns)]))
            .collect()
    }

    /// Sends rows of a buffer and receives others.
    fn moved(
        &self,
        at: Ref,
        tag: u32,
        sends: Vec<(u32, Vec<Rows>)>,
        lands: Vec<(u32, Vec<Rows>)>,
        write: Write,
    ) -> Halves {
        let storage = self.own.program.buffer(at.buffer).storage;
        let expects = lands.iter().map(|(other, rows)| (*other, floats(rows)));
        let round = self.round(tag, sends, expects.collect());
        let held = |rows: Vec<Rows>| {
            let rows = rows.into_iter();
            rows.map(|rows| Rows { storage, ..rows }).collect()
        };
        let lands = lands.into_iter();
        let lands = lands.filter_map(|(other, rows)| land(tag, other, held(rows), write));
        Halves {
            begin: vec![CommStep::Send(round)],
            finish: std::iter::once(CommStep::Packed(tag))
                .chain(lands)
                .collect(),
        }
    }

    /// The own rows each rank reads.
    pub(super) fn own_rows(
        &self,
        gpu: &Gpu,
        chunk: Option<u32>,
        order: u32,
        at: Address,
        columns: u64,
    ) -> Result<Vec<(u32, Vec<Rows>)>, Fault> {
        let rows = |sent: Sent| {
            let list = self.list(gpu, sent.list)?.plus(4 * sent.first as u64);
            let rows = Rows {
                list: Some((list, shown(gpu, sent.rows))),
                ..Rows::dense(at, sent.rows.len() as u64, columns)
            };
            Ok((self.absolute(sent.to), vec![rows]))
        };
        self.own.part.sent(chunk, order).map(rows).collect()
    }

    /// All-reduce: each rank sums one chunk for all, in rank order.
    fn sums(&self, buffers: &[BufferId], tag: u32) -> Halves {
        let (own, ranks) = (self.in_group(), self.own.group.ranks);
        if ranks == 1 {
            return Halves::default();
        }
        let places: Vec<(Address, u64)> = buffers.iter().map(|id| self.buffer(*id)).collect();
        let length = |(_, bytes): &(Address, u64)| *bytes as usize / 4;
        let total = places.iter().map(length).sum::<usize>() as u64;
        let part = |range: &Range<usize>| -> Vec<Rows> {
            let pieces = pieces(places.iter().map(length), range);
            let rows = pieces.map(|piece| {
                let at = places[piece.buffer].0.plus(4 * piece.from as u64);
                Rows::floats_at(at, piece.floats as u64)
            });
            rows.collect()
        };
        let others = || (0..ranks).filter(|other| *other != own);
        let mine = own_chunk(total, ranks, own);
        let count = mine.len() as u64;
        let sends =
            owners(total, own, ranks).map(|(other, chunk)| (self.absolute(other), part(&chunk)));
        let everybody = |floats: u64| -> Vec<(u32, u64)> {
            let all = others().filter(|_| floats > 0);
            all.map(|other| (self.absolute(other), floats)).collect()
        };
        let begin = vec![CommStep::Send(self.round(
            tag,
            sends.collect(),
            everybody(count),
        ))];
        let mut finish = vec![CommStep::Packed(tag)];
        if count > 0 {
            // The sum starts with the first rank's share, so that it does not depend on which rank
            // sums.
            let sum = self.scratch;
            let whole = || vec![Rows::floats_at(sum, count)];
            for other in 0..ranks {
                let write = if other == 0 {
                    Write::Replace
                } else {
                    Write::Add
                };
                if other == own {
                    finish.extend(self.put_pieces(part(&mine), sum, write));
                } else {
                    finish.extend(land(tag, self.absolute(other), whole(), write));
                }
            }
            let sends = others().map(|other| (self.absolute(other), whole()));
            let expects = owners(total, own, ranks)
                .map(|(other, chunk)| (self.absolute(other), chunk.len() as u64));
            finish.push(CommStep::Send(self.round(
                tag,
                sends.collect(),
                expects.collect(),
            )));
            let mut at = sum;
            for rows in part(&mine) {
                let floats = rows.floats();
                finish.push(CommStep::Put(
                    Rows::floats_at(at, floats),
                    rows,
                    Write::Replace,
                ));
                at = at.plus(4 * floats);
            }
            finish.push(CommStep::Packed(tag));
        } else {
            let expects = owners(total, own, ranks)
                .map(|(other, chunk)| (self.absolute(other), chunk.len() as u64));
            finish.push(CommStep::Send(self.round(
                tag,
                Vec::new(),
                expects.collect(),
            )));
        }
        for (other, chunk) in owners(total, own, ranks) {
            finish.extend(land(
                tag,
                self.absolute(other),
                part(&chunk),
                Write::Replace,
            ));
        }
        Halves { begin, finish }
    }

    /// Copies pieces of buffers to consecutive addresses, or adds them.
    fn put_pieces(&self, pieces: Vec<Rows>, to: Address, write: Write) -> Vec<CommStep> {
        let mut at = to;
        let put = |rows: Rows| {
            let target = Rows::floats_at(at, rows.floats());
            at = at.plus(4 * rows.floats());
            CommStep::Put(rows, target, write)
        };
        pieces.into_iter().map(put).collect()
    }

    fn redistribute(
        &self,
        gpu: &Gpu,
        instr: &Instr,
        (tag, iteration): (u32, u32),
    ) -> Result<Halves, Fault> {
        let Instr::Redistribute(instr::Redistribute {
            how,
            from,
            to,
            heads,
            width,
            moved,
        }) = instr
        else {
            return Ok(Halves::default());
        };
        let rank = self.in_group() as usize;
        let (ids, _) = self.own.part.moved(*moved, rank);
        let geometry = Geometry {
            how: *how,
            stride: from.stride as usize,
            heads: *heads as usize,
            width: *width as usize,
            rank,
            ranks: ids.len(),
        };
        let (source, target) = (self.matrix(from, iteration), self.slot(*to, iteration));
        let storage = self.own.program.buffer(to.buffer).storage;
        let rows = |block: &Block, at: Address| {
            let rows = self.block(gpu, &block.words(storage), at, *moved)?;
            Ok::<Rows, Fault>(Rows { storage, ..rows })
        };
        let mut sends = Vec::new();
        for (other, block) in geometry.sends() {
            sends.push((self.absolute(other as u32), vec![rows(&block, source)?]));
        }
        let (mut expects, mut finish) = (Vec::new(), vec![CommStep::Packed(tag)]);
        if let Some(stride) = geometry.padded() {
            let stride = stride / storage.in_word() as usize;
            finish.extend(self.clear_rows(gpu, target, stride, *moved)?);
        }
        for landing in geometry.landings() {
            let to = rows(&landing.to, target)?;
            match landing.own {
                Some(own) if to.floats() > 0 => {
                    finish.push(CommStep::Put(rows(&own, source)?, to, landing.write));
                }
                Some(_) => {}
                None => {
                    let other = self.absolute(landing.from as u32);
                    expects.push((other, to.floats()));
                    finish.extend(land(tag, other, vec![to], landing.write));
                }
            }
        }
        let round = self.round(tag, sends, expects);
        Ok(Halves {
            begin: vec![CommStep::Send(round)],
            finish,
        })
    }

    /// Sets the moved rows of a result to 0.
    fn clear_rows(
        &self,
        gpu: &Gpu,
        at: Address,
        stride: usize,
        moved: Moved,
    ) -> Result<Vec<CommStep>, Fault> {
        let columns = Columns::one(0, stride);
        let clear = |rank: usize| {
            let block = Block {
                rows: Side::Of(rank),
                stride,
                columns,
            };
            let to = self.block(gpu, &block, at, moved)?;
            // All rows read the same row of zeros.
            let zeros = Rows {
                stride: 0,
                ..Rows::dense(self.zeros, to.count, stride as u64)
            };
            Ok(CommStep::Put(zeros, to, Write::Replace))
        };
        (0..self.own.group.ranks as usize).map(clear).collect()
    }

    /// The rows of a block of a matrix; the block is in words.
    fn block(&self, gpu: &Gpu, block: &Block, at: Address, moved: Moved) -> Result<Rows, Fault> {
        let rank = self.in_group() as usize;
        let set = Set::of(moved);
        let (list, of) = match block.rows {
            Side::Own => (set.map(|set| List::Places(set, rank as u32)), rank),
            Side::Of(other) => (Some(List::Moved(set, other as u32)), other),
        };
        let columns = Columns {
            offset: 0,
            ..block.columns
        };
        let list = match list {
            Some(list) => {
                let rows = self.own.part.list(list).and_then(Numbers::rows);
                Some((self.list(gpu, list)?, shown(gpu, rows.unwrap_or(&[]))))
            }
            None => None,
        };
        let (ids, _) = self.own.part.moved(moved, rank);
        Ok(Rows {
            at: at.plus(4 * block.columns.offset as u64),
            list,
            count: ids[of].len() as u64,
            stride: block.stride as u64,
            columns,
            storage: Storage::F32,
        })
    }

    /// The rank at the other end of a stage message, and the current own rows of its tensors.
    fn stage_message(
        &self,
        stage_message: &StageMessage,
        iteration: u32,
    ) -> Result<(u32, Vec<Rows>), Fault> {
        let rows = |at: &Ref| {
            let columns = u64::from(self.own.program.buffer(at.buffer).row_words());
            run(
                self.slot(*at, iteration),
                self.own.passed(*at, self.own.place.chunk),
                columns,
            )
        };
        let tensors = stage_message.tensors.iter().map(rows).collect();
        Ok((self.own.beside(stage_message)?, tensors))
    }

    /// A round without its empty messages.
    pub(super) fn round(
        &self,
        tag: u32,
        mut sends: Vec<(u32, Vec<Rows>)>,
        mut expects: Vec<(u32, u64)>,
    ) -> Round {
        sends.retain(|(_, rows)| floats(rows) > 0);
        expects.retain(|(_, floats)| *floats > 0);
        Round {
            tag,
            sends,
            expects,
        }
    }

    /// Index of this rank within its group.
    pub(super) fn in_group(&self) -> u32 {
        self.own.number - self.own.group.first
    }

    /// Global number of a rank of the group.
    pub(super) fn absolute(&self, other: u32) -> u32 {
        self.own.group.first + other
    }
}

/// A list for drivers that check accesses; empty for others.
fn shown(gpu: &Gpu, list: &[u32]) -> Vec<u32> {
    match gpu.checks {
        true => list.to_vec(),
        false => Vec::new(),
    }
}
