//! Parameters and optimizer states that ranks hold in part, as some rows, the rows of their own vertices or
//! one element of a stack.
//! Checkpoints hold whole ones: this joins and cuts them. The same for histories, which ranks hold
//! by rows.

use crate::Failure;
use crate::checkpoint::{HISTORY, STATE, Tensor};
use crate::programs::Programs;
use crate::rank::Rank;
use crate::rank_set::RankSet;
use gnnc_ir::Rows;
use gnnc_ir::graph::{ParamSpec, Shard};
use gnnc_ir::program::{BufferId, Program, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Parameters and states by name, joined from the ranks' parts.
///
/// # Errors
/// If they cannot be read; the same holds for all functions below.
pub(crate) fn tensors(
    programs: &Programs,
    rank_set: &dyn RankSet,
    wanted: impl Fn(Role) -> bool,
) -> Result<Vec<Tensor>, Failure> {
    let mut tensors = empty(programs, &wanted);
    // Elements of stacks that have been seen whole.
    let mut there = BTreeSet::new();
    rank_set.try_each(|rank| {
        let program = rank.rank().program.clone();
        for (buffer, id) in program.buffers.iter().zip(0..) {
            let Some((name, spec)) = named(&program, buffer.role).filter(|_| wanted(buffer.role))
            else {
                continue;
            };
            let element = spec.element.map(|element| element.index);
            let by_owner = rank.rank().part.own_rows(buffer.extent);
            let is_whole = spec.shard.is_none() && by_owner.is_none();
            if is_whole && !there.insert((name.clone(), element)) {
                continue;
            }
            let Some(tensor) = tensors.iter_mut().find(|tensor| tensor.name == name) else {
                continue;
            };
            let own = rank.read(BufferId(id))?;
            let whole = &mut tensor.values;
            for (from, at) in places(rank.rank(), BufferId(id), spec, own.len(), whole.len()) {
                whole[at..at + from.len()].copy_from_slice(&own[from]);
            }
        }
        Ok(())
    })?;
    for tensor in &mut tensors {
        rank_set.unite(&mut tensor.values)?;
    }
    Ok(tensors)
}

/// The parameters and states of all programs, all zero.
fn empty(programs: &Programs, wanted: &impl Fn(Role) -> bool) -> Vec<Tensor> {
    let mut tensors: Vec<Tensor> = Vec::new();
    for program in programs.all() {
        for buffer in program.buffers.iter().filter(|buffer| wanted(buffer.role)) {
            let Some((name, spec)) = named(program, buffer.role) else {
                continue;
            };
            let Rows::Fixed(rows) = spec.whole().rows else {
                continue;
            };
            if tensors.iter().any(|tensor| tensor.name == name) {
                continue;
            }
            let slots = spec.element.map_or(buffer.slots, |element| element.of);
            let shape = [slots, rows, buffer.columns];
            let values = vec![0.0; shape.iter().map(|n| *n as usize).product()];
            tensors.push(Tensor {
                name,
                shape,
                values,
            });
        }
    }
    tensors
}

/// Gives every rank its part of whole parameters and states, whose names and lengths match.
pub(crate) fn store(rank_set: &dyn RankSet, tensors: &[Tensor]) -> Result<(), Failure> {
    rank_set.try_each(|rank| {
        let program = rank.rank().program.clone();
        for (buffer, id) in program.buffers.iter().zip(0..) {
            let Some((name, spec)) = named(&program, buffer.role) else {
                continue;
            };
            if let Some(Tensor { values, .. }) = tensors.iter().find(|t| t.name == name) {
                let floats = rank.rank().elements(BufferId(id));
                let mut own = vec![0.0; floats];
                for (to, at) in places(rank.rank(), BufferId(id), spec, floats, values.len()) {
                    let len = to.len();
                    own[to].copy_from_slice(&values[at..at + len]);
                }
                rank.write(BufferId(id), &own)?;
            }
        }
        Ok(())
    })
}

/// The histories of a rank of a stage: their buffers, numbers and columns.
fn kept_by(program: &Program) -> impl Iterator<Item = (BufferId, u32, u32)> {
    let staged = program.pipeline.is_some();
    let buffers = program.buffers.iter().zip(0..).filter(move |_| staged);
    buffers.filter_map(|(buffer, id)| match buffer.role {
        Role::History(number) => Some((BufferId(id), number, buffer.columns)),
        _ => None,
    })
}

/// The name of a history.
fn history(number: u32) -> String {
    format!("{HISTORY}{number}")
}

/// The histories of all stages without values, with one row per vertex.
pub(crate) fn shapes(programs: &Programs, vertices: usize) -> Vec<Tensor> {
    let mut numbers = BTreeMap::new();
    for program in programs.all() {
        numbers.extend(kept_by(program).map(|(_, number, columns)| (number, columns)));
    }
    let tensor = |(number, columns)| Tensor {
        name: history(number),
        shape: [1, vertices as u32, columns],
        values: Vec::new(),
    };
    numbers.into_iter().map(tensor).collect()
}

/// The histories kept so far, in order of the vertices.
pub(crate) fn histories(
    programs: &Programs,
    rank_set: &dyn RankSet,
    vertices: usize,
) -> Result<Vec<Tensor>, Failure> {
    let there = kept(rank_set)?;
    let mut tensors = shapes(programs, vertices);
    tensors.retain(|tensor| there.contains_key(&tensor.name));
    for tensor in &mut tensors {
        tensor.values = vec![0.0; tensor.floats() as usize];
    }
    rank_set.try_each(|rank| {
        let program = rank.rank().program.clone();
        for (id, number, columns) in kept_by(&program) {
            let name = history(number);
            if let Some(tensor) = tensors.iter_mut().find(|t| t.name == name) {
                let rows = rank.read(id)?;
                let columns = columns as usize;
                let part = &rank.rank().part;
                for (row, &v) in part.global[..part.inner].iter().enumerate() {
                    tensor.values[v as usize * columns..][..columns]
                        .copy_from_slice(&rows[row * columns..][..columns]);
                }
            }
        }
        Ok(())
    })?;
    for tensor in &mut tensors {
        rank_set.unite(&mut tensor.values)?;
    }
    Ok(tensors)
}

/// For each history, by name, the epoch in which it was kept.
pub(crate) fn kept(rank_set: &dyn RankSet) -> Result<BTreeMap<String, u64>, Failure> {
    let mut epochs = BTreeMap::new();
    rank_set.each(&mut |rank| {
        let rank = rank.rank();
        epochs.extend(kept_by(&rank.program).filter_map(|(id, number, _)| {
            let epoch = rank.kept.get(&id)?;
            Some((history(number), *epoch))
        }));
    });
    Ok(rank_set.gather(epochs)?.into_iter().flatten().collect())
}

/// Gives every rank its rows of histories (given in order of the vertices), including halo rows,
/// and the epochs in which they were kept.
pub(crate) fn restore(
    rank_set: &dyn RankSet,
    tensors: &[Tensor],
    epochs: &BTreeMap<String, u64>,
) -> Result<(), Failure> {
    rank_set.try_each(|rank| {
        let program = rank.rank().program.clone();
        for (id, number, columns) in kept_by(&program) {
            let name = history(number);
            let tensor = tensors.iter().find(|t| t.name == name);
            let (Some(tensor), Some(&epoch)) = (tensor, epochs.get(&name)) else {
                continue;
            };
            let columns = columns as usize;
            let mut rows = rank.read(id)?;
            let vertices = &rank.rank().part.global;
            for (row, &v) in rows.chunks_exact_mut(columns.max(1)).zip(vertices) {
                row.copy_from_slice(&tensor.values[v as usize * columns..][..columns]);
            }
            rank.write(id, &rows)?;
            rank.rank().kept.insert(id, epoch);
        }
        Ok(())
    })
}

/// The name of a parameter or optimizer state, and the parameter.
fn named(program: &Program, role: Role) -> Option<(String, &ParamSpec)> {
    let (n, state) = match role {
        Role::Param(n) => (n, None),
        Role::State(n, k) => (n, Some(k)),
        _ => return None,
    };
    let spec = program.params.get(n as usize)?;
    let name = state.map_or(spec.name.clone(), |k| format!("{}{STATE}{k}", spec.name));
    Some((name, spec))
}

/// The rows of a rank's buffer of a parameter or state with `own` floats, each with the position of
/// its first float in the whole tensor of `floats`. A whole tensor is one piece.
fn places(
    rank: &Rank,
    id: BufferId,
    spec: &ParamSpec,
    own: usize,
    floats: usize,
) -> Vec<(Range<usize>, usize)> {
    let buffer = rank.program.buffer(id);
    let columns = buffer.columns as usize;
    let row = |n: usize| n * columns..(n + 1) * columns;
    if let Some(vertices) = rank.part.own_rows(buffer.extent) {
        let place = |(n, v): (usize, &u32)| (row(n), *v as usize * columns);
        return vertices.iter().enumerate().map(place).collect();
    }
    let ParamSpec { shard, element, .. } = spec;
    let (first, slots) = element.map_or((0, buffer.slots), |element| (element.index, element.of));
    let (first, whole) = (first as usize, floats / slots.max(1) as usize);
    let Some(shard) = shard else {
        return vec![(0..own, first * whole)];
    };
    let Shard { blocks, slice } = shard;
    let rows = ((blocks * slice.len) as usize).max(1);
    let place = |n: usize| {
        let (slot, row_number) = (first + n / rows, (n % rows) as u32);
        let place = shard.whole_row(row_number)?;
        Some((row(n), slot * whole + place as usize * columns))
    };
    (0..own / columns.max(1)).filter_map(place).collect()
}
