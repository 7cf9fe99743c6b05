//! Copies of other ranks' rows as checkpoints hold them: by vertex, and the age of each rank's rows.

use crate::checkpoint::{COPIES, Tensor};
use crate::executor::Rank;
use gnnc_ir::program::{BufferId, Extent, Role};
use std::ops::Range;

/// In place of the age of rows that were never sent.
const NEVER: f32 = -1.0;

/// The copies that the ranks have after `epoch` epochs, and their ages; all copies of a row are equal.
pub(crate) fn join<'a>(
    ranks: impl Iterator<Item = &'a Rank>,
    vertices: usize,
    epoch: u64,
) -> Vec<Tensor> {
    let mut tensors: Vec<Tensor> = Vec::new();
    for (place, rank) in ranks.enumerate() {
        let mut next = 0;
        for (number, buffer, clocks) in each(rank) {
            if place == 0 {
                tensors.extend(empty(rank, number, buffer, vertices));
            }
            let [rows, ages] = &mut tensors[next..next + 2] else {
                continue;
            };
            next += 2;
            // SAFETY: the rank is locked and does not run.
            let copies = unsafe { rank.buffer(buffer).read() };
            for (own, at) in places(rank, buffer, vertices) {
                rows.values[at].copy_from_slice(&copies[own]);
            }
            let sent = clocks.iter().flat_map(|clock| &clock.sent);
            let age = |sent: u64| epoch.saturating_sub(sent) as f32;
            for (to, sent) in ages.values.iter_mut().zip(sent) {
                *to = sent.map_or(NEVER, age);
            }
        }
    }
    tensors
}

/// Gives a rank the copies that it has of those of a checkpoint after `epoch` epochs.
pub(crate) fn cut(rank: &mut Rank, tensors: &[Tensor], vertices: usize, epoch: u64) {
    let known: Vec<_> = each(rank)
        .map(|(number, buffer, _)| (number, buffer))
        .collect();
    for (number, buffer) in known {
        let named = |name: String| tensors.iter().find(|t| t.name == name);
        let (rows, ages) = (named(rows_name(number)), named(ages_name(number)));
        let (Some(rows), Some(ages)) = (rows, ages) else {
            continue;
        };
        // SAFETY: the rank is locked and does not run.
        let copies = unsafe { rank.buffer(buffer).write() };
        for (own, at) in places(rank, buffer, vertices) {
            copies[own].copy_from_slice(&rows.values[at]);
        }
        let sent = rank.clocks.of[number]
            .iter_mut()
            .flat_map(|clock| &mut clock.sent);
        for (to, age) in sent.zip(&ages.values) {
            *to = (*age >= 0.0).then(|| epoch.saturating_sub(*age as u64));
        }
    }
}

/// The histories whose exchanges have clocks.
fn each(rank: &Rank) -> impl Iterator<Item = (usize, BufferId, &[crate::exchange::skip::Clock])> {
    let buffers = rank.program.buffers.iter().zip(0..);
    buffers.filter_map(|(buffer, id)| match buffer.role {
        Role::History(number) => {
            let clocks = rank.clocks.of.get(number as usize)?;
            (!clocks.is_empty()).then_some((number as usize, BufferId(id), &clocks[..]))
        }
        _ => None,
    })
}

fn rows_name(number: usize) -> String {
    format!("{COPIES}{number}")
}

fn ages_name(number: usize) -> String {
    format!("{COPIES}{number}.ages")
}

fn empty(rank: &Rank, number: usize, buffer: BufferId, vertices: usize) -> [Tensor; 2] {
    let buffer = rank.program.buffer(buffer);
    let zeros = |name, shape: [u32; 3]| Tensor {
        name,
        shape,
        values: vec![0.0; shape.iter().map(|n| *n as usize).product()],
    };
    [
        zeros(
            rows_name(number),
            [buffer.slots, vertices as u32, buffer.columns],
        ),
        zeros(ages_name(number), [buffer.slots, rank.program.ranks, 1]),
    ]
}

/// For each row of a rank's copies the floats of it, and those of its vertex in the whole.
fn places(
    rank: &Rank,
    buffer: BufferId,
    vertices: usize,
) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let buffer = rank.program.buffer(buffer);
    let columns = buffer.columns as usize;
    let ids = match buffer.extent {
        Extent::Halo => &rank.part.global[rank.part.inner..],
        _ => &rank.part.global[..],
    };
    (0..buffer.slots as usize).flat_map(move |slot| {
        let rows = ids.iter().enumerate();
        rows.map(move |(row, v)| {
            let own = (slot * ids.len() + row) * columns;
            let at = (slot * vertices + *v as usize) * columns;
            (own..own + columns, at..at + columns)
        })
    })
}
