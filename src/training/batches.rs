//! Bytes of epochs on sampled batches.

use crate::Error;
use crate::plan::replay;
use gnnc_graph::sample::{At, Replay};
use gnnc_graph::{GraphData, Partition, Topology};
use gnnc_ir::program::traffic::{Reads, traffic};
use gnnc_ir::program::{BatchSizes, Program, RankSizes};
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
        let mut predicted = 0;
        for batch in 0..self.replay.count() {
            let sizes = self.replay.sizes(At {
                epoch: epoch as u32,
                batch,
                step: (first as u32).wrapping_add(batch),
            });
            let sizes = sizes.map_err(RuntimeError::Sampling)?;
            let one = |batch: BatchSizes| BatchSizes { count: 1, ..batch };
            predicted += bytes(program, sizes.into_iter().map(one));
        }
        match sent == predicted {
            true => Ok(()),
            false => Err(Error::Bytes { sent, predicted }),
        }
    }
}

/// Bytes of a session's last epoch, by the rows that its ranks fetched.
pub(super) fn predicted(program: &Program, session: &Session) -> u64 {
    let fetched = session.fetched();
    let count = session.steps_of_epoch() as usize;
    let of_batch = |batch: usize| {
        let sizes = fetched.iter().map(|rows| {
            let mut sizes = BatchSizes::NONE;
            sizes.count = 1;
            if let Some(level) = program.asks() {
                sizes.remote[usize::from(level)] = rows.get(batch).copied().unwrap_or(0);
            }
            sizes
        });
        bytes(program, sizes)
    };
    (0..count).map(of_batch).sum()
}

/// Bytes of a batch with these rows on each rank.
fn bytes(program: &Program, batches: impl Iterator<Item = BatchSizes>) -> u64 {
    let of_rank = |batch| RankSizes {
        batch,
        ..RankSizes::default()
    };
    let sizes: Vec<RankSizes> = batches.map(of_rank).collect();
    traffic(&program.step, program, &Reads::default(), &sizes).total_bytes
}
