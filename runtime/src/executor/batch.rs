//! Sampled batches on the processor.

use super::Worker;
use crate::arena::Arena;
use crate::communication::Half;
use crate::fault::Fault;
use crate::part::asked::OfBatch;
use crate::step_context::StepContext;
use gnnc_ir::program::instr::{AddRows, FetchRows, Numbers, PutRows};
use gnnc_ir::program::{Among, BatchSizes, Instr, Program};
use gnnc_ir::words::types::Of;

/// Least bytes of rows that a thread fetches.
const PIECE: usize = 64 << 10;

/// Rows fetched ahead of the one being copied.
const AHEAD: usize = 8;

/// The numbers of a message.
fn numbers(message: &[f32]) -> &[u32] {
    // SAFETY: both types have the same size, and every bit pattern is valid for either.
    unsafe { message.align_to() }.1
}

fn numbers_mut(message: &mut [f32]) -> &mut [u32] {
    // SAFETY: as above.
    unsafe { message.align_to_mut() }.1
}

impl Worker {
    /// Draws the batch at hand; if ranks hold only their own edges, the hops that need no others.
    pub(super) fn sample(
        &mut self,
        instr: &Instr,
        step_context: &StepContext,
    ) -> Result<(), Fault> {
        let at = self.own.next_batch(step_context)?;
        let Some(batch) = self.own.part.batches.at_hand_mut() else {
            return Err(Fault::Missing("batches"));
        };
        match batch.draw(at)? {
            Some(sizes) => self.fit(sizes, instr),
            None => Ok(()),
        }
    }

    /// Draws the edges into a level of the batch at hand, by asking the ranks that hold them.
    pub(super) fn draw_edges(
        &mut self,
        instr: &Instr,
        step_context: &StepContext,
    ) -> Result<(), Fault> {
        let tag = self.own.half(instr).tag;
        let group = self.own.group(Among::All);
        let rank = group.place(self.own.number);
        let (at, inner) = (self.own.next_batch(step_context)?, self.own.part.inner);
        let Some(batch) = self.own.part.batches.at_hand_mut() else {
            return Err(Fault::Missing("batches"));
        };
        let transport = &mut self.transport;
        batch.ask_for_edges();
        for other in group.others(rank) {
            let vertices = batch.question(other);
            transport.send(group.rank(other), tag, vertices.len(), &mut |message| {
                numbers_mut(message).copy_from_slice(vertices);
            })?;
        }
        let ranks = || group.others(rank).map(|other| group.rank(other));
        transport.wait_for(&mut ranks(), tag)?;
        for other in group.others(rank) {
            let mut drawn = Ok(());
            let take = &mut |message: &[f32]| drawn = batch.answer(rank, at, numbers(message));
            transport.recv_up_to(group.rank(other), tag, inner, take)?;
            drawn?;
            let answer = batch.own_answer();
            transport.send(group.rank(other), tag, answer.len(), &mut |message| {
                numbers_mut(message).copy_from_slice(answer);
            })?;
        }
        transport.wait_for(&mut ranks(), tag)?;
        for other in group.others(rank) {
            let take = &mut |message: &[f32]| batch.answered(other, numbers(message));
            transport.recv_up_to(group.rank(other), tag, u32::MAX as usize, take)?;
        }
        match batch.add_hop(rank, at)? {
            Some(sizes) => self.fit(sizes, instr),
            None => Ok(()),
        }
    }

    /// Goes on with a batch of these sizes, and makes room for it if it is larger than those before.
    fn fit(&mut self, sizes: BatchSizes, instr: &Instr) -> Result<(), Fault> {
        let Some(growth) = self.own.fit(sizes, instr)? else {
            return Ok(());
        };
        let bytes = growth.layout.total_bytes;
        let refused = |reason| Fault::Memory { bytes, reason };
        let arena = Arena::new((bytes / 4) as usize).map_err(refused)?;
        for kept in growth.kept {
            // SAFETY: both are in their blocks, and nothing else uses these.
            unsafe {
                let from = self.arena.span(kept.from, kept.words);
                let to = arena.span(kept.to, kept.words);
                to.write().copy_from_slice(from.read());
            }
        }
        self.arena = arena;
        (self.own.layout, self.own.capacity) = (growth.layout, growth.capacity);
        Ok(())
    }

    /// Writes numbers of the batch at hand.
    pub(super) fn numbers(&mut self, program: &Program, numbers: &Numbers) {
        for output in &numbers.outputs {
            let buffer = program.buffer(output.at.buffer);
            let rows = self.own.part.sizes.rows(buffer.extent) as usize;
            let floats = rows * output.drawn.columns() as usize;
            let out = self.slot(output.at, 0).part(0, floats);
            if let Some(batch) = self.own.part.batches.at_hand() {
                // SAFETY: instructions run one after another.
                batch.write(output.drawn, unsafe { out.write() });
            }
        }
    }

    /// Tells other ranks which of their rows this one needs, and learns which of its own they need.
    pub(super) fn ask_rows(&mut self, instr: &Instr) -> Result<(), Fault> {
        let Half {
            tag,
            begins,
            finishes,
            ..
        } = self.own.half(instr);
        let group = self.own.group(Among::All);
        let rank = group.place(self.own.number);
        let inner = self.own.part.inner;
        let Some(batch) = self.own.part.batches.at_hand_mut() else {
            return Err(Fault::Missing("batches"));
        };
        if begins && matches!(instr.whole(), Instr::AskRows(_)) {
            batch.renew();
        }
        for other in group.others(rank).filter(|_| begins) {
            let (to, rows) = (group.rank(other), batch.asked().list(OfBatch::Rows, other));
            self.transport.send(to, tag, rows.len(), &mut |message| {
                numbers_mut(message).copy_from_slice(rows);
            })?;
        }
        if !finishes {
            return Ok(());
        }
        let mut from = group.others(rank).map(|other| group.rank(other));
        self.transport.wait_for(&mut from, tag)?;
        for other in group.others(rank) {
            let (from, mut known) = (group.rank(other), false);
            let take = &mut |message: &[f32]| known = batch.serve(rank, other, numbers(message));
            self.transport.recv_up_to(from, tag, inner, take)?;
            if !known {
                return Err(Fault::Missing("the rows that another rank asks for"));
            }
        }
        let batch = self.own.part.batches.at_hand_mut();
        match batch.and_then(|batch| batch.gather(rank)) {
            Some(sizes) => self.fit(sizes, instr),
            None => Ok(()),
        }
    }

    /// Gives other ranks the lower levels of this one's part of the batch, and puts those of all
    /// ranks side by side.
    pub(super) fn share_levels(&mut self, instr: &Instr) -> Result<(), Fault> {
        let half = self.own.half(instr);
        let group = self.own.group(Among::Slices);
        let rank = group.place(self.own.number);
        let Some(batch) = self.own.part.batches.at_hand_mut() else {
            return Err(Fault::Missing("batches"));
        };
        let length = batch.message_length();
        for other in group.others(rank).filter(|_| half.begins) {
            let write = &mut |message: &mut [f32]| batch.write_message(numbers_mut(message));
            self.transport
                .send(group.rank(other), half.tag, length, write)?;
        }
        if !half.finishes {
            return Ok(());
        }
        let mut own = vec![0; length];
        batch.write_message(&mut own);
        batch.message_of(group, rank, length).copy_from_slice(&own);
        let mut from = group.others(rank).map(|other| group.rank(other));
        self.transport.wait_for(&mut from, half.tag)?;
        for other in group.others(rank) {
            let take = &mut |message: &[f32]| {
                let numbers = numbers(message);
                batch
                    .message_of(group, other, numbers.len())
                    .copy_from_slice(numbers);
            };
            let most = u32::MAX as usize;
            self.transport
                .recv_up_to(group.rank(other), half.tag, most, take)?;
        }
        let sizes = batch.merge()?;
        self.fit(sizes, instr)
    }

    /// Adds rows of a level to those of its vertices.
    pub(super) fn add_rows(&mut self, program: &Program, add: &AddRows, iteration: u32) {
        let [from, to] = [add.from, add.to].map(|at| program.buffer(at.buffer));
        let words = from.row_words() as usize;
        let rows = self.own.part.sizes.rows(from.extent) as usize;
        let all = self.own.part.sizes.rows(to.extent) as usize;
        let source = self.slot(add.from, iteration).part(0, rows * words);
        let out = self.slot(add.to, iteration).part(0, all * words);
        let ids = self.own.part.rows_in(None, Of::One);
        let each = all.div_ceil(self.team.threads().max(1)).max(1);
        // Threads own rows of the result, so each sum is in the order of the level.
        let pieces = all.div_ceil(each);
        self.team.each(pieces, (all * words) as u64, |piece| {
            let owned = piece * each..all.min((piece + 1) * each);
            let own = out.part(owned.start * words, owned.len() * words);
            // SAFETY: pieces write disjoint rows, and nothing writes the source.
            let (own, source) = unsafe { (own.write(), source.read()) };
            own.fill(0.0);
            for (id, row) in ids[..rows].iter().zip(source.chunks_exact(words.max(1))) {
                let id = *id as usize;
                if owned.contains(&id) {
                    let sums = &mut own[(id - owned.start) * words..][..words];
                    sums.iter_mut().zip(row).for_each(|(sum, one)| *sum += one);
                }
            }
        });
    }

    /// Copies rows of a level to those of its vertices.
    pub(super) fn put_rows(&mut self, program: &Program, put: &PutRows, iteration: u32) {
        let from = program.buffer(put.from.buffer);
        let words = from.row_words() as usize;
        let rows = self.own.part.sizes.rows(from.extent) as usize;
        let (source, out) = (self.slot(put.from, iteration), self.slot(put.to, iteration));
        let of = from.extent.level().map_or(Of::One, |level| level.of);
        let ids = self.own.part.rows_in(None, of);
        let ids = &ids[..rows];
        let each = (PIECE / (4 * words.max(1))).max(1);
        let pieces = rows.div_ceil(each);
        self.team.each(pieces, (rows * words * 8) as u64, |piece| {
            for row in piece * each..rows.min((piece + 1) * each) {
                // SAFETY: vertices of a level are distinct, so no two pieces write the same row.
                unsafe {
                    let target = out.part(ids[row] as usize * words, words);
                    let row = source.part(row * words, words);
                    target.write().copy_from_slice(row.read());
                }
            }
        });
    }

    /// Copies the rows of a level's vertices.
    pub(super) fn fetch_rows(&mut self, program: &Program, fetch: &FetchRows, iteration: u32) {
        let FetchRows { from, to } = *fetch;
        let target = program.buffer(to.buffer);
        let words = target.row_words() as usize;
        let rows = self.own.part.sizes.rows(target.extent) as usize;
        let (source, out) = (self.slot(from, iteration), self.slot(to, iteration));
        if fetch.is_from_host(program) {
            self.own.moved += 4 * (rows * words) as u64;
        }
        let of = target.extent.level().map_or(Of::One, |level| level.of);
        let from_level = program.buffer(from.buffer).extent.level();
        let ids = self.own.part.rows_in(from_level, of);
        let ids = &ids[..rows];
        let each = (PIECE / (4 * words.max(1))).max(1);
        let pieces = rows.div_ceil(each);
        self.team.each(pieces, (rows * words * 8) as u64, |piece| {
            let begin = piece * each;
            let end = rows.min(begin + each);
            for row in begin..end {
                if let Some(next) = ids.get(row + AHEAD) {
                    prefetch(source.part(*next as usize * words, words).ptr, words);
                }
                let row_of = source.part(ids[row] as usize * words, words);
                // SAFETY: pieces write disjoint rows, and nothing writes the source.
                unsafe {
                    let target = out.part(row * words, words);
                    target.write().copy_from_slice(row_of.read());
                }
            }
        });
    }
}

/// Asks for the first cache lines of a row.
#[inline]
fn prefetch(row: *const f32, words: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..words.div_ceil(16).min(4) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching touches no memory, and SSE is part of the architecture.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(16 * line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (row, words);
}
