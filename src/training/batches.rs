//! Bytes of epochs on sampled batches.

use crate::Error;
use crate::plan::{Drawn, replay};
use gnnc_graph::sample::{At, Replay};
use gnnc_graph::{GraphData, Partition, Topology};
use gnnc_ir::EdgeSet;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::traffic::{self, Reads, traffic};
use gnnc_ir::program::{BatchSizes, Instr, Program, RankSizes};
use gnnc_ir::words::sampling::Sampling;
use gnnc_runtime::{RuntimeError, Session};
use std::sync::Arc;

/// Draws all batches a second time, to know what an epoch and an evaluation must have sent.
pub(super) struct Check {
    training: Replay<Arc<Topology>>,
    evaluation: Option<Replay<Arc<Topology>>>,
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
        let Some(training) = &program.sampling else {
            return Ok(None);
        };
        let topology = Arc::new(data.topology.only(EdgeSet::Plain).into_owned());
        let partition = Arc::new(partition.clone());
        let drawn = |sampling: &Sampling, phase| {
            let topology = Arc::clone(&topology);
            let drawn = Drawn {
                training,
                sampling,
                phase,
            };
            let replay = replay(data, topology, drawn, &partition, seed)?;
            let age = sampling.cache.and_then(|cache| cache.age);
            Ok::<_, Error>(match age.zip(program.asks(phase)) {
                Some((age, level)) => replay.with_copies(age, level.number),
                None => replay,
            })
        };
        let evaluation = program.evaluation.as_ref();
        Ok(Some(Self {
            training: drawn(training, Phase::Step)?,
            evaluation: evaluation.map(|e| drawn(e, Phase::Eval)).transpose()?,
        }))
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
        self.training.reseed(session.seed());
        let count = u64::from(self.training.count());
        let (epoch, first) = (session.epochs().saturating_sub(1), session.steps() - count);
        let at = |batch: u32| At {
            epoch: epoch as u32,
            batch,
            step: (first as u32).wrapping_add(batch),
        };
        same((program, Phase::Step), &mut self.training, at, sent)
    }

    /// Checks what the session's last evaluation sent.
    ///
    /// # Errors
    /// [`Error::Bytes`].
    pub(super) fn evaluation(
        &mut self,
        session: &Session,
        program: &Program,
        sent: u64,
    ) -> Result<(), Error> {
        let Some(replay) = &mut self.evaluation else {
            return Ok(());
        };
        replay.reseed(session.seed());
        same((program, Phase::Eval), replay, At::evaluation, sent)
    }
}

/// Compares what a list sent with what its batches, drawn again, must have sent.
fn same(
    (program, phase): (&Program, Phase),
    replay: &mut Replay<Arc<Topology>>,
    at: impl Fn(u32) -> At,
    sent: u64,
) -> Result<(), Error> {
    let mut predicted = around(program, phase, replay.ranks());
    for batch in 0..replay.count() {
        let sizes = replay.sizes(at(batch)).map_err(RuntimeError::Sampling)?;
        let sizes = program.with_shared(&sizes);
        predicted += bytes(program, phase, sizes.into_iter());
    }
    match sent == predicted {
        true => Ok(()),
        false => Err(Error::Bytes { sent, predicted }),
    }
}

/// Bytes of a session's last epoch or evaluation, by what its ranks drew.
///
/// # Errors
/// A process that failed.
pub(super) fn predicted(program: &Program, phase: Phase, session: &Session) -> Result<u64, Error> {
    let drawn = session.drawn(phase)?;
    let count = drawn.iter().map(Vec::len).max().unwrap_or(0);
    let of_batch = |batch: usize| {
        let of_rank = drawn.iter().filter_map(|sizes| sizes.get(batch));
        bytes(program, phase, of_rank.copied())
    };
    Ok(around(program, phase, drawn.len()) + (0..count).map(of_batch).sum::<u64>())
}

/// Bytes of a batch with these rows on each rank.
fn bytes(program: &Program, phase: Phase, batches: impl Iterator<Item = BatchSizes>) -> u64 {
    let of_rank = |batch| RankSizes {
        batch: BatchSizes { count: 1, ..batch },
        ..RankSizes::default()
    };
    let sizes: Vec<RankSizes> = batches.map(of_rank).collect();
    let list = program.list(phase).iter();
    sent(list.filter(|instr| instr.body().is_some()), program, &sizes)
}

/// Bytes of a list besides those of its batches.
fn around(program: &Program, phase: Phase, ranks: usize) -> u64 {
    let list = program.list(phase).iter();
    let others = list.filter(|instr| instr.body().is_none());
    sent(others, program, &vec![RankSizes::default(); ranks])
}

/// Bytes that a rank of these sizes copies to and from its host in a run of a list, with batches of these
/// sizes if it samples.
pub(super) fn moved(
    program: &Program,
    phase: Phase,
    sizes: RankSizes,
    drawn: &[BatchSizes],
) -> u64 {
    let bytes = |instr: &Instr, batch: BatchSizes| -> u64 {
        let sizes = RankSizes { batch, ..sizes };
        traffic::moved(std::slice::from_ref(instr), program, &sizes)
            .iter()
            .sum()
    };
    let of_instr = |instr: &Instr| {
        if !matches!(instr, Instr::Batches(_)) {
            return bytes(instr, BatchSizes::NONE);
        }
        let one = |batch: &BatchSizes| bytes(instr, BatchSizes { count: 1, ..*batch });
        drawn.iter().map(one).sum()
    };
    program.list(phase).iter().map(of_instr).sum()
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
