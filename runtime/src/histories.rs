//! Copies of other ranks' rows as checkpoints hold them: by vertex, with the age of each rank's
//! rows.

use crate::Failure;
use crate::checkpoint::{COPIES, Tensor};
use crate::rank::Rank;
use crate::rank_set::{AtRest, RankSet};
use gnnc_ir::program::{BufferId, Extent, Role};
use std::ops::Range;

/// The age of rows that were never sent.
const NEVER: f32 = -1.0;

/// The ranks' copies after `epoch` epochs, and their ages. All copies of a row are equal.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn join(
    rank_set: &dyn RankSet,
    vertices: usize,
    epoch: u64,
) -> Result<Vec<Tensor>, Failure> {
    // A rank knows the ages of its own block and of the blocks it reads from. Ages count from 1 until they are
    // joined: 0 stands for what a process does not know.
    let mut tensors = Vec::new();
    rank_set.try_each(|at_rest| {
        let numbers = each(at_rest.rank());
        if tensors.is_empty() {
            let of = |(number, buffer): &(usize, BufferId)| {
                empty(at_rest.rank(), *number, *buffer, vertices)
            };
            tensors.extend(numbers.iter().flat_map(of));
        }
        for ((number, buffer), tensors) in numbers.into_iter().zip(tensors.chunks_exact_mut(2)) {
            let [rows, ages] = tensors else {
                continue;
            };
            let copies = at_rest.read(buffer)?;
            let rank = at_rest.rank();
            for (own, at) in places(rank, buffer, vertices) {
                rows.values[at].copy_from_slice(&copies[own]);
            }
            let sent = rank.clocks.of[number].iter().flat_map(|clock| &clock.sent);
            let age = |sent: u64| epoch.saturating_sub(sent) as f32 - NEVER;
            for (to, sent) in ages.values.iter_mut().zip(sent) {
                *to = sent.map_or(*to, age);
            }
        }
        Ok(())
    })?;
    for tensors in tensors.chunks_exact_mut(2) {
        for tensor in tensors.iter_mut() {
            rank_set.unite(&mut tensor.values)?;
        }
        if let [_, ages] = tensors {
            ages.values.iter_mut().for_each(|age| *age += NEVER);
        }
    }
    Ok(tensors)
}

/// Gives a rank its copies from a checkpoint taken after `epoch` epochs.
///
/// # Errors
/// If they cannot be written.
pub(crate) fn cut(
    at_rest: &mut dyn AtRest,
    tensors: &[Tensor],
    vertices: usize,
    epoch: u64,
) -> Result<(), Failure> {
    for (number, buffer) in each(at_rest.rank()) {
        let named = |name: String| tensors.iter().find(|t| t.name == name);
        let (rows, ages) = (named(rows_name(number)), named(ages_name(number)));
        let (Some(rows), Some(ages)) = (rows, ages) else {
            continue;
        };
        let mut copies = at_rest.read(buffer)?;
        for (own, at) in places(at_rest.rank(), buffer, vertices) {
            copies[own].copy_from_slice(&rows.values[at]);
        }
        at_rest.write(buffer, &copies)?;
        let sent = at_rest.rank().clocks.of[number]
            .iter_mut()
            .flat_map(|clock| &mut clock.sent);
        for (to, age) in sent.zip(&ages.values) {
            *to = (*age >= 0.0).then(|| epoch.saturating_sub(*age as u64));
        }
    }
    Ok(())
}

/// The numbers and buffers of the histories whose exchanges have clocks.
fn each(rank: &Rank) -> Vec<(usize, BufferId)> {
    let buffers = rank.program.buffers.iter().zip(0..);
    let histories = buffers.filter_map(|(buffer, id)| match buffer.role {
        Role::History(number) => {
            let clocks = rank.clocks.of.get(number as usize)?;
            (!clocks.is_empty()).then_some((number as usize, BufferId(id)))
        }
        _ => None,
    });
    histories.collect()
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
    let rows = [buffer.slots, vertices as u32, buffer.columns];
    let ages = [buffer.slots, rank.program.ranks, 1];
    [
        zeros(rows_name(number), rows),
        zeros(ages_name(number), ages),
    ]
}

/// For each row of a rank's copies, its range of floats there and in the joined tensor.
fn places(
    rank: &Rank,
    buffer: BufferId,
    vertices: usize,
) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let buffer = rank.program.buffer(buffer);
    let columns = buffer.columns as usize;
    let ids = if buffer.extent == Extent::Halo {
        &rank.part.global[rank.part.inner..]
    } else {
        &rank.part.global[..]
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
