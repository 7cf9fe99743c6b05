//! The programs of a session's ranks.

mod stages;

use crate::RuntimeError;
use crate::init::name_hash;
use gnnc_graph::Partition;
use gnnc_ir::graph::op::{Redistribute, Slice};
use gnnc_ir::graph::{ParamSpec, Shard};
use gnnc_ir::kernel::End;
use gnnc_ir::program::instr::{self, Collective};
use gnnc_ir::program::{Among, Buffer, Capacity, Extent, Instr, Moved, Program, Ref, Role, Rule};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::words::storage::Storage;
use gnnc_ir::words::types::Level;
use std::sync::Arc;

/// The programs of a session's ranks: one for all of them, one per rank if slices of columns differ
/// in width, or one per stage of a pipeline.
#[derive(Clone, Debug)]
pub struct Programs(Vec<Arc<Program>>);

impl From<Program> for Programs {
    fn from(program: Program) -> Self {
        Self(vec![Arc::new(program)])
    }
}

/// One program for all ranks, or one per rank or stage, in order.
impl From<Vec<Program>> for Programs {
    fn from(programs: Vec<Program>) -> Self {
        Self(programs.into_iter().map(Arc::new).collect())
    }
}

impl Programs {
    /// A hash of some programs.
    ///
    /// # Errors
    /// If a program cannot be serialized.
    pub fn hash<'a>(programs: impl Iterator<Item = &'a Program>) -> Result<u64, RuntimeError> {
        let mut text = String::new();
        for program in programs {
            let one = serde_json::to_string(program);
            text += &one.map_err(|e| RuntimeError::Program(e.to_string()))?;
        }
        Ok(name_hash(&text))
    }

    /// Checks that there is a program for every rank or every stage, and that ranks send each other
    /// the messages they wait for.
    ///
    /// # Errors
    /// The first mismatch.
    pub(crate) fn check(
        &self,
        partition: &Partition,
        connections: usize,
    ) -> Result<(), RuntimeError> {
        let wrong = |text: String| Err(RuntimeError::Program(text));
        let Some(first) = self.0.first() else {
            return wrong("there is none; give one for all ranks, or one per rank".to_owned());
        };
        let (parts, ranks) = (partition.parts(), self.ranks(partition));
        if u64::from(first.ranks) != ranks as u64 || ranks != connections {
            return wrong(format!(
                "it is for {}, but the partition has {}{} and there are {}",
                counted(first.ranks, "rank"),
                counted(parts, "part"),
                first.pipeline.map_or(String::new(), |p| format!(
                    " for each of {} stages",
                    p.stages
                )),
                counted(connections, "connection"),
            ));
        }
        let vertices = partition.owner().len() as u64;
        let leaves = first.leaves(vertices).unwrap_or(partition.chunks());
        if leaves != partition.chunks() {
            return wrong(format!(
                "it sums over {leaves} leaves, but the partition has {}",
                counted(partition.chunks(), "chunk")
            ));
        }
        if first.equal_bits && !partition.owns_runs() {
            return wrong(
                "its ranks own runs of leaves, but those of the partition do not".to_owned(),
            );
        }
        if first.pipeline.is_some() {
            return stages::check(&self.0, partition).map_err(RuntimeError::Program);
        }
        if self.0.len() == 1 {
            return Ok(());
        }
        if self.0.len() != connections {
            return wrong(format!(
                "there are {} programs for {}; give one for all ranks, or one per rank",
                self.0.len(),
                counted(connections, "rank")
            ));
        }
        for (program, rank) in self.0.iter().zip(0..) {
            if program.rank != rank || program.ranks != first.ranks {
                return wrong(format!(
                    "program {rank} is for rank {} of {}, expected rank {rank} of {}",
                    program.rank, program.ranks, first.ranks
                ));
            }
            if let Err(difference) = same_shape(first, program) {
                return wrong(format!(
                    "rank {rank}'s differs from rank 0's in more than columns: {difference}; plan all ranks together"
                ));
            }
        }
        Ok(())
    }

    /// Number of ranks the programs need on a partition: one per part and stage.
    pub(crate) fn ranks(&self, partition: &Partition) -> usize {
        let staged = self.0.iter().filter(|p| p.pipeline.is_some());
        partition.parts() as usize * staged.count().max(1)
    }

    /// All programs: one, one per rank, or one per stage.
    pub(crate) fn all(&self) -> &[Arc<Program>] {
        &self.0
    }

    /// The program of each rank, in order.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Program> {
        let ranks = self.0.first().map_or(0, |first| first.ranks as usize);
        (0..ranks).filter_map(move |rank| self.0.get(self.index(rank, ranks)).map(|p| &**p))
    }

    /// Index in [`Programs::all`] of a rank's program; with fewer programs than ranks, consecutive
    /// ranks share one.
    pub(crate) fn index(&self, rank: usize, ranks: usize) -> usize {
        rank * self.0.len() / ranks.max(1)
    }
}

/// Checks that two ranks' programs have the same parameters, the same instructions, and matching
/// messages.
fn same_shape(a: &Program, b: &Program) -> Result<(), String> {
    let whole = |p: &Program| -> Vec<ParamSpec> {
        let whole = |spec: &ParamSpec| ParamSpec {
            ty: spec.whole(),
            shard: spec.shard.map(|shard| Shard {
                slice: p.slice(shard.slice.axis, shard.slice.of, 0),
                ..shard
            }),
            ..spec.clone()
        };
        p.params.iter().map(whole).collect()
    };
    if whole(a) != whole(b) {
        return Err("different parameters".to_owned());
    }
    let kept = |p: &Program| -> Vec<Buffer> {
        let nameless = |b: &Buffer| {
            let mut b = b.clone();
            b.name.clear();
            if let Role::Param(n) | Role::State(n, _) = b.role
                && p.params.get(n as usize).is_some_and(|s| s.shard.is_some())
            {
                // Ranks may have different numbers of rows.
                b.extent = Extent::Fixed(0);
            }
            b
        };
        let kept = p.buffers.iter().filter(|b| {
            matches!(
                b.role,
                Role::Param(_) | Role::State(..) | Role::Result | Role::Table(_)
            )
        });
        kept.map(nameless).collect()
    };
    if kept(a) != kept(b) {
        return Err("different buffers of parameters, states or results".to_owned());
    }
    let ends = |p: &Program| {
        (
            p.loss.is_some(),
            p.metrics.is_some(),
            p.logits
                .map(|at| p.buffers.get(at.buffer.0 as usize).map(|b| b.columns)),
            p.sparse_features,
        )
    };
    if ends(a) != ends(b) {
        return Err("a different loss, metrics, logits or kind of features".to_owned());
    }
    if a.mesh != b.mesh {
        return Err("another mesh of slices".to_owned());
    }
    if (&a.sampling, &a.evaluation) != (&b.sampling, &b.evaluation) {
        return Err("other batches".to_owned());
    }
    for (phase, x, y) in [
        ("setup", &a.setup, &b.setup),
        ("step", &a.step, &b.step),
        ("eval", &a.eval, &b.eval),
    ] {
        same_list(phase, (a, x), (b, y))?;
    }
    Ok(())
}

fn same_list(place: &str, a: (&Program, &[Instr]), b: (&Program, &[Instr])) -> Result<(), String> {
    if a.1.len() != b.1.len() {
        let (found, expected) = (b.1.len(), a.1.len());
        return Err(format!(
            "{place} has {found} instructions, rank 0's has {expected}"
        ));
    }
    for (index, (x, y)) in a.1.iter().zip(b.1).enumerate() {
        let place = format!("{place} {index}");
        if let (
            Instr::Repeat(instr::Repeat {
                count,
                reverse,
                body,
            }),
            Instr::Repeat(instr::Repeat {
                count: other_count,
                reverse: other_reverse,
                body: other_body,
            }),
        ) = (x, y)
            && (count, reverse) == (other_count, other_reverse)
        {
            same_list(&place, (a.0, body), (b.0, other_body))?;
            continue;
        }
        let batches = matches!((x, y), (Instr::Batches(_), Instr::Batches(_)));
        let sets = matches!((x, y), (Instr::Sets(_), Instr::Sets(_)));
        if (batches || sets)
            && let (Some(body), Some(other)) = (x.body(), y.body())
        {
            same_list(&place, (a.0, body), (b.0, other))?;
            continue;
        }
        let same = std::mem::discriminant(x) == std::mem::discriminant(y)
            && !matches!(x, Instr::Repeat(_))
            && message(a.0, x) == message(b.0, y);
        if !same {
            return Err(format!(
                "{place} is a {}, expected rank 0's {} with the same message",
                y.name(b.0),
                x.name(a.0)
            ));
        }
    }
    Ok(())
}

/// What determines the messages of an instruction; equal for instructions that send none.
#[derive(PartialEq)]
enum Message {
    None,
    /// Columns and storage of the exchanged rows, of all of which rank 0's slice is if they are slices, which rows they are,
    /// how they travel, and the rule by which they are left out.
    Halo(
        Option<(u32, Storage)>,
        Option<Slice>,
        End,
        Option<instr::Encoded>,
        Option<Rule>,
    ),
    /// The ranks, rank 0's slice instead of the own, and floats of each buffer or of a row of the slice.
    Sum(Among, Option<Slice>, Vec<Option<u64>>),
    /// The redistribution with rank 0's slice instead of the own, heads and width of the whole
    /// tensor, which rows move, their storage, and how they travel.
    Rows(
        Redistribute,
        [u32; 2],
        Moved,
        Option<Storage>,
        Option<instr::Encoded>,
    ),
    /// The level into which edges are drawn.
    Draw(u8),
    /// The level that is asked for.
    Ask(Level),
    /// The level from which outwards levels are shared, and whether with places.
    Share(u8, bool),
    /// The tag of a half, and the whole instruction.
    Half(u32, Box<Message>),
}

fn message(program: &Program, instr: &Instr) -> Message {
    let buffer = |id: gnnc_ir::program::BufferId| program.buffers.get(id.0 as usize);
    let none = Capacity::default();
    let first_of = |slice: Option<Slice>| slice.map(|one| program.slice(one.axis, one.of, 0));
    // Columns of the whole tensor, in blocks of a slice.
    let exchanged = |at: Ref, slice: Option<Slice>| {
        let buffer = buffer(at.buffer)?;
        let blocks = buffer.columns / slice.map_or(1, |slice| slice.len.max(1));
        Some((blocks, buffer.storage))
    };
    if let Instr::Begin(transfer) | Instr::Finish(transfer) = instr {
        let what = message(program, &transfer.what);
        return Message::Half(transfer.tag, Box::new(what));
    }
    match instr.collective() {
        Some(Collective::HaloExchange(instr::HaloExchange {
            buffer: at,
            slice,
            end,
            encoded,
            skip,
        })) => Message::Halo(
            exchanged(*at, *slice),
            first_of(*slice),
            *end,
            *encoded,
            skip.map(|skip| skip.rule),
        ),
        Some(Collective::HaloReduce(instr::HaloReduce {
            buffer: at,
            slice,
            end,
            encoded,
            skip,
        })) => Message::Halo(
            exchanged(*at, *slice),
            first_of(*slice),
            *end,
            *encoded,
            skip.map(|skip| skip.of.rule),
        ),
        Some(Collective::AllReduce(instr::AllReduce {
            buffers,
            among,
            slice,
        })) => {
            let floats = |at: &Ref| {
                let all = |b: &Buffer| (b.words(&none), b.slot_words(&none));
                let (all, slot) = buffer(at.buffer).map(all)?;
                let floats = if at.in_loop { slot } else { all };
                Some(floats / slice.map_or(1, |slice| u64::from(slice.len.max(1))))
            };
            let slice = first_of(*slice);
            Message::Sum(*among, slice, buffers.iter().map(floats).collect())
        }
        Some(Collective::Redistribute(instr::Redistribute {
            how,
            to,
            heads,
            width,
            moved,
            encoded,
            ..
        })) => {
            let mut how = *how;
            if let Redistribute::Split(slice) | Redistribute::Join(slice) = &mut how {
                *slice = program.slice(slice.axis, slice.of, 0);
            }
            let storage = buffer(to.buffer).map(|b| b.storage);
            Message::Rows(how, [*heads, *width], *moved, storage, *encoded)
        }
        Some(Collective::DrawEdges(instr::DrawEdges { level })) => Message::Draw(*level),
        Some(Collective::AskRows(instr::AskRows { level })) => Message::Ask(*level),
        Some(Collective::ShareLevels(instr::ShareLevels { level, places })) => {
            Message::Share(*level, *places)
        }
        Some(Collective::Shift(shift)) => {
            Message::Sum(Among::All, None, vec![Some(shift.floats(program))])
        }
        Some(
            Collective::PushRows(instr::PushRows { to, .. })
            | Collective::ServeRows(instr::ServeRows { to, .. })
            | Collective::CacheRows(instr::CacheRows { to, .. }),
        ) => Message::Halo(
            buffer(to.buffer).map(|b| (b.columns, b.storage)),
            None,
            End::Src,
            None,
            None,
        ),
        None => Message::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnnc_ir::kernel::Axis;
    use gnnc_ir::program::{BufferId, Matrix, Ref};

    /// Splits five columns over two ranks, in a loop.
    fn program(rank: u32) -> Program {
        let slice = Slice::new(Axis::Width, 5, 2, rank);
        let buffer = |extent, columns, role| Buffer {
            name: rank.to_string(),
            extent,
            columns,
            slots: 1,
            role,
            storage: Default::default(),
        };
        let split = Instr::Redistribute(instr::Redistribute {
            how: Redistribute::Split(slice),
            from: Matrix {
                at: Ref::first(BufferId(0)),
                offset: 0,
                stride: 5,
            },
            to: Ref::first(BufferId(1)),
            heads: 1,
            width: 5,
            moved: Moved::All,
            encoded: None,
        });
        Program {
            ranks: 2,
            rank,
            buffers: vec![
                buffer(Extent::Inner, 5, Role::Temp),
                buffer(Extent::All, slice.len, Role::Temp),
                buffer(Extent::Fixed(1), 1, Role::Result),
            ],
            step: vec![
                Instr::Repeat(instr::Repeat {
                    count: 3,
                    reverse: false,
                    body: vec![split],
                }),
                Instr::AllReduce(instr::AllReduce::whole(vec![BufferId(2)])),
            ],
            loss: Some(BufferId(2)),
            ..Program::default()
        }
    }

    #[test]
    fn ranks_differ_in_columns_only() {
        let check = |programs: Vec<Program>, ranks| {
            Programs::from(programs)
                .check(&Partition::new(ranks, vec![0]).unwrap(), ranks as usize)
                .map_err(|e| e.to_string())
        };
        assert_eq!(check(vec![program(0), program(1)], 2), Ok(()));
        assert_eq!(check(vec![program(0)], 2), Ok(()));
        let refused = |programs, ranks, part: &str| {
            let error = check(programs, ranks).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        refused(vec![], 2, "there is none");
        refused(vec![program(0)], 3, "for 2 ranks");
        refused(vec![program(0); 3], 2, "3 programs for 2 ranks");
        refused(vec![program(0), program(0)], 2, "is for rank 0 of 2");
        let with = |change: &dyn Fn(&mut Program)| {
            let mut other = program(1);
            change(&mut other);
            vec![program(0), other]
        };
        let shorter = |p: &mut Program| p.step.truncate(1);
        refused(with(&shorter), 2, "step has 1 instructions");
        let count = |p: &mut Program| match &mut p.step[0] {
            Instr::Repeat(instr::Repeat { count, .. }) => *count = 2,
            _ => panic!(),
        };
        refused(with(&count), 2, "step 0 is a repeat, expected rank 0's");
        let wider = |p: &mut Program| match &mut p.step[0] {
            Instr::Repeat(instr::Repeat { body, .. }) => match &mut body[0] {
                Instr::Redistribute(instr::Redistribute { width, .. }) => *width = 6,
                _ => panic!(),
            },
            _ => panic!(),
        };
        refused(with(&wider), 2, "step 0 0 is a split, expected rank 0's");
        refused(with(&|p| p.loss = None), 2, "a different loss");
        refused(with(&|p| p.buffers[2].columns = 2), 2, "results");
    }
}
