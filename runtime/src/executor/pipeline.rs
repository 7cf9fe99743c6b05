//! Runs chunks one after the other, and what goes from stage to stage and from epoch to epoch.

use super::{Fault, Rank};
use crate::device::cpu::Span;
use crate::moment::Moment;
use crate::staleness::{LayerStaleness, Staleness};
use gnnc_graph::rng::Stream;
use gnnc_ir::program::{BufferId, Extent, Instr, Passage, Pipeline, Program, Ref, Role, Transfer};
use gnnc_ir::trace::{Peer, Phase};

/// Sets the order of chunks apart from other draws of a seed.
const ORDER: u64 = 0x6368_756e_6b73;

/// The chunks of an epoch, which is counted from 1, in their order: the same on all ranks.
pub fn chunk_order(pipeline: &Pipeline, seed: u64, epoch: u64) -> Vec<u32> {
    match pipeline.shuffle {
        false => (0..pipeline.chunks).collect(),
        true => Stream::new(seed, ORDER.wrapping_add(epoch)).permutation(pipeline.chunks),
    }
}

impl Rank {
    /// The order of the chunks in the epoch at hand; empty where there are no stages.
    pub(super) fn order(&self, moment: &Moment) -> Vec<u32> {
        let pipeline = self.program.pipeline.as_ref();
        pipeline.map_or(Vec::new(), |p| {
            chunk_order(p, moment.seed, moment.epoch + 1)
        })
    }

    /// Runs a body for every chunk.
    pub(super) fn chunks(
        &mut self,
        program: &Program,
        reverse: bool,
        body: &[Instr],
        moment: &Moment,
    ) -> Result<(), Fault> {
        let count = self.place.order.len();
        for turn in 0..count {
            let place = if reverse { count - 1 - turn } else { turn };
            self.place.chunk = self.place.order.get(place).copied();
            self.place.turn = turn as u32;
            self.list(program, body, 0, moment)?;
        }
        (self.place.chunk, self.place.turn) = (None, 0);
        Ok(())
    }

    /// Sends the rows at hand to another stage.
    ///
    /// # Safety
    /// The tensors have rows of own vertices.
    pub(super) unsafe fn send(&mut self, passage: &Passage, iteration: u32) -> Result<(), Fault> {
        let (peer, floats) = self.passage(passage, iteration)?;
        if floats == 0 {
            return Ok(());
        }
        let spans = &self.memory.spans;
        self.transport
            .send(peer, Transfer::WHOLE, floats, &mut |message| {
                let mut rest = message;
                for span in spans {
                    let (own, behind) = rest.split_at_mut(span.len);
                    // SAFETY: as the caller promised; nothing writes the rows meanwhile.
                    own.copy_from_slice(unsafe { span.read() });
                    rest = behind;
                }
            })?;
        Ok(())
    }

    /// Waits for the rows at hand of another stage.
    ///
    /// # Safety
    /// As [`Self::send`].
    pub(super) unsafe fn receive(
        &mut self,
        passage: &Passage,
        iteration: u32,
    ) -> Result<(), Fault> {
        let (peer, floats) = self.passage(passage, iteration)?;
        if floats == 0 {
            return Ok(());
        }
        let spans = &self.memory.spans;
        self.transport
            .recv(peer, Transfer::WHOLE, floats, &mut |message| {
                let mut rest = message;
                for span in spans {
                    let (own, behind) = rest.split_at(span.len);
                    // SAFETY: as the caller promised; nothing else uses the rows meanwhile.
                    unsafe { span.write() }.copy_from_slice(own);
                    rest = behind;
                }
            })?;
        Ok(())
    }

    /// The rank at the other end and the floats of a message; its pieces are in the memory of spans.
    fn passage(&mut self, passage: &Passage, iteration: u32) -> Result<(u32, usize), Fault> {
        let own = self.part.own(self.place.chunk);
        let mut spans = std::mem::take(&mut self.memory.spans);
        spans.clear();
        spans.extend(passage.tensors.iter().map(|&at| {
            let columns = self.program.buffer(at.buffer).columns as usize;
            self.slot(at, iteration)
                .part(own.start * columns, own.len() * columns)
        }));
        let floats = spans.iter().map(|span| span.len).sum();
        self.memory.spans = spans;
        let peer = self.beside(passage);
        Ok((peer.ok_or(Fault::Missing("a stage beside it"))?, floats))
    }

    /// The rank at the other end of a passage.
    fn beside(&self, passage: &Passage) -> Option<u32> {
        let (rank, ranks) = (self.transport.rank(), self.transport.ranks());
        let pipeline = self.program.pipeline.as_ref()?;
        passage.with.rank(pipeline, ranks, rank)
    }

    /// The rank at the other end of an instruction that passes rows between stages.
    pub(super) fn peer(&self, instr: &Instr) -> Option<Peer> {
        match instr {
            Instr::Send(passage) => self.beside(passage).map(Peer::To),
            Instr::Receive(passage) => self.beside(passage).map(Peer::From),
            _ => None,
        }
    }

    /// Keeps the rows at hand, in the epochs in which histories are kept.
    ///
    /// # Safety
    /// Both tensors have rows of vertices, of as many columns.
    pub(super) unsafe fn remember(
        &mut self,
        from: Ref,
        history: Ref,
        iteration: u32,
        moment: &Moment,
    ) -> Result<(), Fault> {
        let setup = self.place.phase == Some(Phase::Setup);
        let epoch = moment.epoch + u64::from(!setup);
        let pipeline = self.program.pipeline.as_ref();
        let interval = pipeline.map_or(1, |pipeline| u64::from(pipeline.interval.max(1)));
        if !setup && !epoch.is_multiple_of(interval) {
            return Ok(());
        }
        let (source, target) = (
            self.program.buffer(from.buffer),
            self.program.buffer(history.buffer),
        );
        let extent = match (source.extent, target.extent) {
            (Extent::Local, Extent::Local) => Extent::Local,
            _ => Extent::Inner,
        };
        let columns = target.columns as usize;
        let mut ranges = std::mem::take(&mut self.memory.ranges);
        self.rows(extent, &mut ranges)?;
        for range in &ranges {
            let (begin, floats) = (
                range.start as usize * columns,
                (range.end - range.start) as usize * columns,
            );
            let rows = |at: Ref| -> Span { self.slot(at, iteration).part(begin, floats) };
            // SAFETY: as the caller promised; nothing else uses either meanwhile.
            let (new, kept) = unsafe { (rows(from).read(), rows(history).write()) };
            if !new.iter().all(|x| x.is_finite()) {
                let chunk = self.place.chunk;
                return Err(Fault::NotFinite {
                    history: target.name.clone(),
                    epoch,
                    chunk: chunk.map_or("all".to_owned(), |chunk| chunk.to_string()),
                });
            }
            kept.copy_from_slice(new);
        }
        self.memory.ranges = ranges;
        self.kept.insert(history.buffer, epoch);
        Ok(())
    }

    /// How old what the epoch at hand reads is.
    ///
    /// # Errors
    /// A history that is older than the program says.
    pub(super) fn stale(&self, moment: &Moment) -> Result<Staleness, Fault> {
        let (mut found, epoch) = (Staleness::default(), moment.epoch + 1);
        let Some(pipeline) = &self.program.pipeline else {
            return Ok(found);
        };
        let all = self.part.between.iter().sum::<u64>();
        let old = self.arcs_from_later();
        for (buffer, n) in self.program.buffers.iter().zip(0..) {
            if !matches!(buffer.role, Role::History(_)) {
                continue;
            }
            let kept = self.kept.get(&BufferId(n)).copied();
            let age = epoch.saturating_sub(kept.unwrap_or(0));
            if age > u64::from(pipeline.interval) {
                return Err(Fault::TooOld {
                    history: buffer.name.clone(),
                    age,
                    epoch,
                    interval: pipeline.interval,
                });
            }
            let mut layer = LayerStaleness {
                name: buffer.name.clone(),
                ..LayerStaleness::default()
            };
            let reads = [(0, all - old), (age, old)];
            let reads = reads.into_iter().filter(|(_, reads)| *reads > 0);
            reads.for_each(|(age, reads)| layer.read(age, reads));
            found.layers.push(layer);
        }
        Ok(found)
    }

    /// Arcs into own vertices from chunks that come later in the order.
    fn arcs_from_later(&self) -> u64 {
        let order = &self.place.order;
        let arcs = |d: u32, s: u32| {
            let place = d as usize * order.len() + s as usize;
            self.part.between.get(place).copied().unwrap_or(0)
        };
        let chunks = order.iter().enumerate();
        let later = chunks.flat_map(|(n, &d)| order[n + 1..].iter().map(move |&s| (d, s)));
        later.map(|(d, s)| arcs(d, s)).sum()
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
