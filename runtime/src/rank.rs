//! The part of a rank that does not depend on where its floats are: its program, its share of the
//! data, and its record of earlier epochs.

pub(crate) mod growth;
mod packing;
mod stale;

use crate::clocks::Clocks;
use crate::error::Failure;
use crate::fault::Fault;
use crate::part::Part;
use crate::part::batch::Batch;
use crate::staleness::Staleness;
use crate::step_context::StepContext;
use crate::steps::{Step, Steps};
use gnnc_graph::rng::Stream;
use gnnc_graph::sample::SetSeeds;
use gnnc_ir::kernel::Body;
use gnnc_ir::program::instr::{self, Encoded};
use gnnc_ir::program::memory::{ALIGN, Layout};
use gnnc_ir::program::trace::{Decision, Event, Peer, Phase, Resource};
use gnnc_ir::program::verify::VerifiedProgram;
use gnnc_ir::program::{
    Among, BufferId, Capacity, Chunk, Extent, Group, Instr, Launch, Pipeline, Program, Ref, Skip,
    StageMessage,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// Separates the draw of the chunk order from other draws with the same seed.
const ORDER: u64 = 0x6368_756e_6b73;

/// The chunks of an epoch in order; epochs count from 1. The same on all ranks.
pub fn chunk_order(pipeline: &Pipeline, seed: u64, epoch: u64) -> Vec<u32> {
    match pipeline.shuffle {
        false => (0..pipeline.chunks).collect(),
        true => Stream::new(seed, ORDER.wrapping_add(epoch)).permutation(pipeline.chunks),
    }
}

/// A rank without its memory.
pub(crate) struct Rank {
    pub(crate) number: u32,
    /// Ranks of the session, including those of other processes.
    pub(crate) ranks: u32,
    pub(crate) program: VerifiedProgram,
    pub(crate) part: Part,
    /// The rows that `layout` has room for.
    pub(crate) capacity: Capacity,
    pub(crate) layout: Layout,
    pub(crate) events: Option<Vec<Event>>,
    pub(crate) place: Place,
    pub(crate) clocks: Clocks,
    pub(crate) staleness: Staleness,
    /// Bytes copied between the rank and its host.
    pub(crate) moved: u64,
    /// Bytes of halo rows sent to other nodes, if rows cross to a node once.
    pub(crate) crossed: u64,
    /// For each history, the epoch in which it was last kept.
    pub(crate) kept: BTreeMap<BufferId, u64>,
}

/// The current instruction.
#[derive(Default)]
pub(crate) struct Place {
    pub(crate) phase: Option<Phase>,
    /// Indices through loop bodies.
    path: Vec<usize>,
    name: &'static str,
    /// The order of the chunks.
    order: Vec<u32>,
    /// The current chunk; `None` if all rows are current.
    pub(crate) chunk: Option<u32>,
    turn: u32,
    /// The batch of the epoch; `None` outside of batches.
    pub(crate) batch: Option<u32>,
    /// The set of the batch; `None` outside of sets.
    pub(crate) set: Option<u32>,
}

/// When an instruction ran, in microseconds, and how much it sent.
pub(crate) struct Run {
    pub(crate) begin_us: f64,
    pub(crate) end_us: f64,
    pub(crate) bytes_sent: u64,
}

impl Rank {
    /// The ranks that it works with.
    pub(crate) fn group(&self, among: Among) -> Group {
        self.program.group(self.number, among)
    }

    /// The ranks of its stage.
    pub(crate) fn stage(&self) -> Group {
        self.group(Among::All)
    }

    /// Begins an instruction list; returns the age of the data it reads.
    ///
    /// # Errors
    /// If a history is older than the program allows.
    pub(crate) fn begin(
        &mut self,
        phase: Phase,
        step_context: &StepContext,
    ) -> Result<Staleness, Fault> {
        self.part.batches.enter(phase);
        self.place = Place {
            phase: Some(phase),
            order: self.order(step_context),
            ..Place::default()
        };
        match phase {
            Phase::Step => self.stale(step_context),
            Phase::Setup | Phase::Eval => Ok(Staleness::default()),
        }
    }

    /// The order of the chunks in the current epoch; empty without stages.
    fn order(&self, step_context: &StepContext) -> Vec<u32> {
        let pipeline = self.program.pipeline.as_ref();
        pipeline.map_or(Vec::new(), |p| {
            chunk_order(p, step_context.seed, step_context.epoch + 1)
        })
    }

    /// The instructions of a list, with the chunk order set by `begin`.
    pub(crate) fn steps<'a>(&self, program: &'a Program, phase: Phase) -> Steps<'a> {
        Steps::new(
            program.list(phase),
            self.place.order.clone(),
            self.batches(phase),
            self.sets(),
        )
    }

    /// Batches of a list; 1 if it does not sample.
    pub(crate) fn batches(&self, phase: Phase) -> u32 {
        self.part.batches.of(phase).map_or(1, Batch::count)
    }

    /// Sets of a batch.
    fn sets(&self) -> u32 {
        let sampling = self.program.sampling.as_ref();
        let merges = sampling.and_then(|sampling| sampling.merges);
        merges.map_or(1, |merges| SetSeeds::count(self.program.ranks, merges))
    }

    /// Records the current instruction.
    pub(crate) fn at(&mut self, step: &Step, path: impl Iterator<Item = usize>) {
        let place = &mut self.place;
        place.path.clear();
        place.path.extend(path);
        place.name = step.instr.name(&self.program);
        (place.chunk, place.turn) = (step.chunk, step.turn);
        place.batch = step.batch;
        place.set = step.set;
        if let Some(batch) = step.batch {
            self.part.go_to(batch, step.set);
        }
    }

    /// A failure of the current instruction.
    pub(crate) fn failure(&self, reason: String) -> Failure {
        let phase = self.place.phase.unwrap_or(Phase::Setup);
        let instruction = format!("{phase} {} ({})", self.place.at(), self.place.name);
        Failure {
            rank: self.number,
            instruction,
            reason,
        }
    }

    /// The trace event of the current instruction.
    pub(crate) fn event(&self, step: &Step, step_context: &StepContext, run: Run) -> Event {
        Event {
            rank: self.number,
            phase: self.place.phase.unwrap_or(Phase::Setup),
            epoch: step_context.epoch + u64::from(self.place.phase == Some(Phase::Step)),
            at: self.place.at(),
            iteration: step.iteration + step.turn,
            name: self.place.name.to_owned(),
            resource: Resource::of(step.instr, &self.program),
            begin_us: run.begin_us,
            end_us: run.end_us,
            bytes_sent: run.bytes_sent,
            stage: self.program.pipeline.map_or(0, |pipeline| pipeline.stage),
            peer: self.peer(step.instr),
            decision: self.decision(step.instr, step.iteration),
        }
    }

    /// What a rule by distance has just decided about the own block.
    fn decision(&self, instr: &Instr, iteration: u32) -> Option<Decision> {
        if matches!(instr, Instr::Finish(_)) {
            return None;
        }
        let Instr::HaloExchange(instr::HaloExchange {
            skip: Some(skip), ..
        }) = instr.whole()
        else {
            return None;
        };
        let [number, slot] = self.clock(skip, iteration)?;
        let clock = self.clocks.of.get(number)?.get(slot)?;
        Some(Decision {
            sent: clock.active,
            gap: clock.gap.filter(|gap| gap.is_finite()),
            bound: skip.rule.limit()?,
        })
    }

    /// The clock of an exchange that may be left out: number of the copies' history, and slot.
    pub(crate) fn clock(&self, skip: &Skip, iteration: u32) -> Option<[usize; 2]> {
        let slots = self.program.buffer(skip.copies.buffer).slots;
        let slot = skip.copies.slot(iteration, slots) as usize;
        Some([self.program.history(skip)?, slot])
    }

    /// The rank at the other end of a `Send` or `Receive`.
    fn peer(&self, instr: &Instr) -> Option<Peer> {
        let end = instr.stage_end()?;
        let side = if end.sends { Peer::To } else { Peer::From };
        self.beside(end.message).ok().map(side)
    }

    /// The words of a buffer, all slots.
    pub(crate) fn buffer(&self, id: BufferId) -> Range<usize> {
        let words = self.program.buffer(id).words(&self.capacity);
        let begin = self.layout.offsets[id.0 as usize] as usize;
        begin..begin + words as usize
    }

    /// The words that an all-reduce sums: those of the slot of an iteration, or of all slots.
    pub(crate) fn summed(&self, at: Ref, iteration: u32) -> Range<usize> {
        match at.in_loop {
            true => self.slot(at, iteration),
            false => self.buffer(at.buffer),
        }
    }

    /// The leaves of the graph, if sums over vertices are made along their tree.
    pub(crate) fn leaves(&self) -> Option<u32> {
        self.program.leaves(self.part.sizes.vertices)
    }

    /// As [`summed`](Self::summed), of share `share` of the sums of subtrees.
    pub(crate) fn summed_share(&self, at: Ref, iteration: u32, share: usize) -> Range<usize> {
        let (words, after) = (
            self.summed(at, iteration),
            share * self.buffer(at.buffer).len(),
        );
        words.start + after..words.end + after
    }

    /// The words of a buffer's slot. In a loop over batches, these are its iterations.
    pub(crate) fn slot(&self, at: Ref, iteration: u32) -> Range<usize> {
        let iteration = self.place.batch.unwrap_or(iteration);
        let buffer = self.program.buffer(at.buffer);
        let words = buffer.slot_words(&self.capacity) as usize;
        let slot = at.slot(iteration, buffer.slots) as usize;
        let begin = self.buffer(at.buffer).start + slot * words;
        begin..begin + words
    }

    /// The rows a launch runs over: those of its chunk, or the current ones.
    pub(crate) fn ranges(&self, launch: &Launch) -> Result<Vec<Range<u64>>, Fault> {
        let mut ranges = Vec::new();
        self.fill_ranges(launch, &mut ranges)?;
        Ok(ranges)
    }

    /// The same into existing memory.
    pub(crate) fn fill_ranges(
        &self,
        launch: &Launch,
        ranges: &mut Vec<Range<u64>>,
    ) -> Result<(), Fault> {
        let kernel = self.program.kernels.get(launch.kernel.0 as usize);
        if let Some(Body::TypeSum { types, .. }) = kernel.map(|kernel| &kernel.body) {
            ranges.clear();
            ranges.push(0..u64::from(*types));
            return Ok(());
        }
        self.rows_of(launch.rows, launch.chunk, ranges)
    }

    /// The rows of an extent in `chunk`; without one, those of the current chunk, or all.
    pub(crate) fn rows_of(
        &self,
        extent: Extent,
        chunk: Option<Chunk>,
        ranges: &mut Vec<Range<u64>>,
    ) -> Result<(), Fault> {
        let Some(chunk) = chunk else {
            return self.rows(extent, ranges);
        };
        let whole = || self.part.whole.chunks.rows(chunk.index);
        ranges.clear();
        ranges.push(match chunk.even {
            None => whole(),
            Some(_) => (self.part.rows_of_chunk(chunk)).ok_or(Fault::Missing("chunks of edges"))?,
        });
        Ok(())
    }

    /// Number of rows (or edges) before the first one a buffer holds, if it holds only a chunk's.
    pub(crate) fn skipped(&self, at: Ref, chunk: Option<Chunk>) -> u64 {
        let rows = |chunk| self.part.rows_of_chunk(chunk).map(|rows| rows.start);
        let edges = |chunk| self.part.edges_of_chunk(chunk).map(|edges| edges.start);
        let extent = self.program.buffer(at.buffer).extent;
        if matches!(extent, Extent::Run(..)) {
            return chunk.and_then(rows).unwrap_or(0);
        }
        let first = chunk.filter(|_| matches!(extent, Extent::EdgeRun(..)));
        // Rounded down to a full line, where edge runs start.
        first.and_then(edges).unwrap_or(0) / ALIGN * ALIGN
    }

    /// The same in bytes.
    pub(crate) fn skipped_bytes(&self, at: Ref, chunk: Option<Chunk>) -> u64 {
        let buffer = self.program.buffer(at.buffer);
        self.skipped(at, chunk) * u64::from(buffer.columns) * buffer.storage.bytes()
    }

    /// The words at both ends of a copy between the rank and its host.
    pub(crate) fn copied(
        &self,
        ends: [Ref; 2],
        chunk: Option<Chunk>,
        iteration: u32,
    ) -> [Range<usize>; 2] {
        let slots = ends.map(|at| self.slot(at, iteration));
        let words = slots[0].len().min(slots[1].len());
        let extents = ends.map(|at| self.program.buffer(at.buffer).extent);
        let by_edges = |extent: &Extent| matches!(extent, Extent::EdgeRun(..));
        let rows = chunk.and_then(|chunk| match extents.iter().any(by_edges) {
            true => self.part.edges_of_chunk(chunk),
            false => self.part.rows_of_chunk(chunk),
        });
        let mut ends = ends.iter().zip(slots).map(|(at, slot)| {
            let Some(rows) = &rows else {
                return slot.start..slot.start + words;
            };
            let row = u64::from(self.program.buffer(at.buffer).row_words());
            let first = rows.start - self.skipped(*at, chunk);
            let begin = slot.start + (first * row) as usize;
            begin..begin + ((rows.end - rows.start) * row) as usize
        });
        [ends.next(), ends.next()].map(Option::unwrap_or_default)
    }

    /// The rows of an extent that belong to the current chunk, or all.
    pub(crate) fn rows(&self, extent: Extent, ranges: &mut Vec<Range<u64>>) -> Result<(), Fault> {
        let found = self.part.rows(extent, self.place.chunk, ranges);
        found.ok_or(Fault::Missing("edges or features"))
    }

    /// Bytes of the rank's part of the graph, plus its share of what all ranks keep once, without what batches
    /// are drawn from.
    pub(crate) fn walked_bytes(&self) -> u64 {
        let whole = self.part.whole.bytes() as u64;
        self.part.walked_bytes() + whole / u64::from(self.ranks.max(1))
    }

    /// Bytes of the rank's part of the graph, plus its share of what all ranks keep once.
    pub(crate) fn graph_bytes(&self) -> u64 {
        let shared = self.part.batches.each().map(Batch::shared_bytes).max();
        let shared = shared.unwrap_or(0);
        let whole = self.part.whole.bytes() as u64 + shared;
        self.part.bytes() + whole / u64::from(self.ranks.max(1))
    }

    /// The rank at the other end of a stage message.
    pub(crate) fn beside(&self, stage_message: &StageMessage) -> Result<u32, Fault> {
        let pipeline = self.program.pipeline.as_ref();
        let peer = pipeline
            .and_then(|pipeline| stage_message.with.rank(pipeline, self.ranks, self.number));
        peer.ok_or(Fault::Missing("a stage beside it"))
    }

    /// The rows of a tensor that a stage message passes: own rows of a chunk, or all rows.
    pub(crate) fn passed(&self, at: Ref, chunk: Option<u32>) -> Range<usize> {
        if let Extent::Fixed(rows) = self.program.buffer(at.buffer).extent {
            0..rows as usize
        } else {
            self.part.own(chunk)
        }
    }

    /// Floats of a stage message, for a chunk or for all rows.
    pub(crate) fn floats(&self, stage_message: &StageMessage, chunk: Option<u32>) -> usize {
        let words = |&at: &Ref| {
            let buffer = self.program.buffer(at.buffer);
            let row = match matches!(buffer.extent, Extent::Fixed(_)) {
                true => buffer.row_words(),
                false => Encoded::row_words(&stage_message.encoded, buffer),
            };
            self.passed(at, chunk).len() * row as usize
        };
        stage_message.tensors.iter().map(words).sum()
    }

    /// The epoch under which histories are kept now; `None` if they are not kept.
    pub(crate) fn keeps(&self, step_context: &StepContext) -> Option<u64> {
        let setup = self.place.phase == Some(Phase::Setup);
        let epoch = step_context.epoch + u64::from(!setup);
        let pipeline = self.program.pipeline.as_ref();
        let interval = pipeline.map_or(1, |pipeline| u64::from(pipeline.interval.max(1)));
        (setup || epoch.is_multiple_of(interval)).then_some(epoch)
    }

    /// The rows of the current chunk that a history keeps of a tensor.
    pub(crate) fn remembered(
        &self,
        from: Ref,
        history: Ref,
        ranges: &mut Vec<Range<u64>>,
    ) -> Result<(), Fault> {
        let local = |at: Ref| self.program.buffer(at.buffer).extent == Extent::Local;
        let rows = match local(from) && local(history) {
            true => Extent::Local,
            false => Extent::Inner,
        };
        self.rows(rows, ranges)
    }

    /// The error of a history that would keep values that are not finite.
    pub(crate) fn not_finite(&self, history: Ref, epoch: u64, chunk: Option<u32>) -> Fault {
        Fault::NotFinite {
            history: self.program.buffer(history.buffer).name.clone(),
            epoch,
            chunk: chunk.map_or("all".to_owned(), |chunk| chunk.to_string()),
        }
    }
}

impl Place {
    fn at(&self) -> String {
        let parts: Vec<String> = self.path.iter().map(usize::to_string).collect();
        parts.join(".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_epoch_has_its_own_order() {
        let pipeline = Pipeline {
            stages: 2,
            stage: 0,
            chunks: 6,
            shuffle: true,
            interval: 1,
        };
        let orders: Vec<Vec<u32>> = (1..20)
            .map(|epoch| chunk_order(&pipeline, 3, epoch))
            .collect();
        for (n, one) in orders.iter().enumerate() {
            let mut sorted = one.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
            assert_eq!(
                *one,
                chunk_order(
                    &Pipeline {
                        stage: 1,
                        ..pipeline
                    },
                    3,
                    n as u64 + 1
                )
            );
        }
        assert!(orders.windows(2).filter(|pair| pair[0] == pair[1]).count() < 3);
        assert_ne!(
            orders,
            (1..20)
                .map(|epoch| chunk_order(&pipeline, 4, epoch))
                .collect::<Vec<_>>()
        );
        let fixed = Pipeline {
            shuffle: false,
            ..pipeline
        };
        assert_eq!(chunk_order(&fixed, 3, 7), [0, 1, 2, 3, 4, 5]);
    }
}
