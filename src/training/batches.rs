//! Bytes of epochs on sampled batches.

use crate::Error;
use crate::plan::replay;
use gnnc_graph::sample::{At, Replay};
use gnnc_graph::{GraphData, Partition, Topology};
use gnnc_ir::program::traffic::{Reads, traffic};
use gnnc_ir::program::{BatchSizes, Instr, Program, RankSizes};
use gnnc_runtime::{RuntimeError, Session};
use std::sync::Arc;

/// Draws all batches a second time, to know what an epoch must have sent.
pub(super) struct Check {
    replay: Replay<Arc<Topology>>,
}

impl Check {
    /// The batches of a program on a partition; `None` if it does not sample.
    ///
    /// # Errors
    /// Settings that do not fit the graph.
    pub(super) fn new(
        data: &GraphData,
        program: &Program,
        partition: &Partition,
        seed: u64,
    ) -> Result<Option<Self>, Error> {
        let Some(sampling) = &program.sampling else {
            return Ok(None);
        };
        let topology = Arc::new(data.topology.clone());
        let partition = Arc::new(partition.clone());
        let replay = replay(data, topology, sampling, &partition, seed)?;
        Ok(Some(Self { replay }))
    }

    /// Checks what the session's last epoch sent.
    ///
    /// # Errors
    /// [`Error::Bytes`].
    pub(super) fn epoch(
        &mut self,
        session: &Session,
        program: &Program,
        sent: u64,
    ) -> Result<(), Error> {
        self.replay.reseed(session.seed());
        let count = u64::from(self.replay.count());
        let (epoch, first) = (session.epochs().saturating_sub(1), session.steps() - count);
        let mut predicted = around(program, self.replay.ranks());
        for batch in 0..self.replay.count() {
            let sizes = self.replay.sizes(At {
                epoch: epoch as u32,
                batch,
                step: (first as u32).wrapping_add(batch),
            });
            let sizes = sizes.map_err(RuntimeError::Sampling)?;
            predicted += bytes(program, sizes.into_iter());
        }
        match sent == predicted {
            true => Ok(()),
            false => Err(Error::Bytes { sent, predicted }),
        }
    }
}

/// Bytes of a session's last epoch, by what its ranks drew.
pub(super) fn predicted(program: &Program, session: &Session) -> u64 {
    let drawn = session.drawn();
    let count = session.steps_of_epoch() as usize;
    let of_batch = |batch: usize| {
        let of_rank = drawn.iter().filter_map(|sizes| sizes.get(batch));
        bytes(program, of_rank.copied())
    };
    around(program, drawn.len()) + (0..count).map(of_batch).sum::<u64>()
}

/// Bytes of a batch with these rows on each rank.
fn bytes(program: &Program, batches: impl Iterator<Item = BatchSizes>) -> u64 {
    let of_rank = |batch| RankSizes {
        batch: BatchSizes { count: 1, ..batch },
        ..RankSizes::default()
    };
    let sizes: Vec<RankSizes> = batches.map(of_rank).collect();
    let loops = program.step.iter().filter(|instr| instr.body().is_some());
    sent(loops, program, &sizes)
}

/// Bytes of an epoch besides those of its batches.
fn around(program: &Program, ranks: usize) -> u64 {
    let others = program.step.iter().filter(|instr| instr.body().is_none());
    sent(others, program, &vec![RankSizes::default(); ranks])
}

fn sent<'a>(
    instrs: impl Iterator<Item = &'a Instr>,
    program: &Program,
    sizes: &[RankSizes],
) -> u64 {
    let one = |instr| {
        traffic(
            std::slice::from_ref(instr),
            program,
            &Reads::default(),
            sizes,
        )
    };
    instrs.map(|instr| one(instr).total_bytes).sum()
}
