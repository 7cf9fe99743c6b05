//! Parameters and optimizer states of which ranks have some rows, or one element of a stack: whole ones are
//! joined from them, as checkpoints hold them, and cut for them. Likewise histories, of which ranks have rows.

use crate::checkpoint::{HISTORY, Tensor};
use crate::crew::Crew;
use crate::executor::Rank;
use gnnc_ir::Rows;
use gnnc_ir::graph::{ParamSpec, Shard};
use gnnc_ir::program::{BufferId, Program, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Parameters and states by name, joined from what the ranks have of them.
pub(crate) fn tensors(crew: &Crew, wanted: impl Fn(Role) -> bool) -> Vec<Tensor> {
    let mut tensors: Vec<Tensor> = Vec::new();
    // Whole elements that are there.
    let mut there = BTreeSet::new();
    for rank in crew.ranks() {
        for buffer in rank.program.buffers.iter().filter(|b| wanted(b.role)) {
            let Some((name, spec)) = named(&rank.program, buffer.role) else {
                continue;
            };
            let Rows::Fixed(rows) = spec.whole().rows else {
                continue;
            };
            let element = spec.element.map(|element| element.index);
            if spec.shard.is_none() && !there.insert((name.clone(), element)) {
                continue;
            }
            let place = tensors.iter().position(|tensor| tensor.name == name);
            let place = place.unwrap_or_else(|| {
                let slots = spec.element.map_or(buffer.slots, |element| element.of);
                let shape = [slots, rows, buffer.columns];
                let values = vec![0.0; shape.iter().map(|n| *n as usize).product()];
                tensors.push(Tensor {
                    name,
                    shape,
                    values,
                });
                tensors.len() - 1
            });
            let whole = &mut tensors[place].values;
            each_row(&rank, buffer.role, whole.len(), |own, at| {
                whole[at..at + own.len()].copy_from_slice(own);
            });
        }
    }
    tensors
}

/// Gives every rank what it has of whole parameters and states of the right names and lengths.
pub(crate) fn store(crew: &Crew, tensors: &[Tensor]) {
    for rank in crew.ranks() {
        for buffer in &rank.program.buffers {
            let Some((name, _)) = named(&rank.program, buffer.role) else {
                continue;
            };
            if let Some(Tensor { values, .. }) = tensors.iter().find(|t| t.name == name) {
                each_row(&rank, buffer.role, values.len(), |own, at| {
                    own.copy_from_slice(&values[at..at + own.len()]);
                });
            }
        }
    }
}

/// The histories of a stage's rank: their buffers, numbers and columns.
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

/// The histories of all stages without their values, by rows of all vertices.
pub(crate) fn shapes(crew: &Crew, vertices: usize) -> Vec<Tensor> {
    let mut numbers = BTreeMap::new();
    for rank in crew.ranks() {
        numbers.extend(kept_by(&rank.program).map(|(_, number, columns)| (number, columns)));
    }
    let tensor = |(number, columns)| Tensor {
        name: history(number),
        shape: [1, vertices as u32, columns],
        values: Vec::new(),
    };
    numbers.into_iter().map(tensor).collect()
}

/// The histories that were kept so far, in order of the vertices.
pub(crate) fn histories(crew: &Crew, vertices: usize) -> Vec<Tensor> {
    let there = kept(crew);
    let mut tensors = shapes(crew, vertices);
    tensors.retain(|tensor| there.contains_key(&tensor.name));
    for tensor in &mut tensors {
        tensor.values = vec![0.0; tensor.floats() as usize];
    }
    for rank in crew.ranks() {
        for (id, number, columns) in kept_by(&rank.program) {
            let name = history(number);
            if let Some(tensor) = tensors.iter_mut().find(|t| t.name == name) {
                // SAFETY: the rank is locked and does not run.
                let rows = unsafe { rank.buffer(id).read() };
                let columns = columns as usize;
                for (row, &v) in rank.part.global[..rank.part.inner].iter().enumerate() {
                    tensor.values[v as usize * columns..][..columns]
                        .copy_from_slice(&rows[row * columns..][..columns]);
                }
            }
        }
    }
    tensors
}

/// The epochs in which histories were kept, by name.
pub(crate) fn kept(crew: &Crew) -> BTreeMap<String, u64> {
    let mut epochs = BTreeMap::new();
    for rank in crew.ranks() {
        epochs.extend(kept_by(&rank.program).filter_map(|(id, number, _)| {
            let epoch = rank.kept.get(&id)?;
            Some((history(number), *epoch))
        }));
    }
    epochs
}

/// Gives every rank its rows of histories in order of the vertices, those of other ranks included, and the
/// epochs in which they were kept.
pub(crate) fn restore(crew: &Crew, tensors: &[Tensor], epochs: &BTreeMap<String, u64>) {
    for mut rank in crew.ranks() {
        let program = Arc::clone(&rank.program);
        for (id, number, columns) in kept_by(&program) {
            let name = history(number);
            let tensor = tensors.iter().find(|t| t.name == name);
            let (Some(tensor), Some(&epoch)) = (tensor, epochs.get(&name)) else {
                continue;
            };
            let columns = columns as usize;
            // SAFETY: the rank is locked and does not run.
            let rows = unsafe { rank.buffer(id).write() };
            for (row, &v) in rows.chunks_exact_mut(columns.max(1)).zip(&rank.part.global) {
                row.copy_from_slice(&tensor.values[v as usize * columns..][..columns]);
            }
            rank.kept.insert(id, epoch);
        }
    }
}

/// The name of a parameter or of an optimizer state, and the parameter.
fn named(program: &Program, role: Role) -> Option<(String, &ParamSpec)> {
    let (n, state) = match role {
        Role::Param(n) => (n, None),
        Role::State(n, k) => (n, Some(k)),
        _ => return None,
    };
    let spec = program.params.get(n as usize)?;
    let name = state.map_or(spec.name.clone(), |k| format!("{}.state_{k}", spec.name));
    Some((name, spec))
}

/// Visits the rows of a rank's buffer of a role, or all of it at once if it is whole, with the place
/// of its first float in the whole, which has `floats`.
fn each_row(rank: &Rank, role: Role, floats: usize, mut visit: impl FnMut(&mut [f32], usize)) {
    let (program, n) = match role {
        Role::Param(n) | Role::State(n, _) => (&rank.program, n as usize),
        _ => return,
    };
    let Some(at) = program.buffers.iter().position(|b| b.role == role) else {
        return;
    };
    let buffer = &program.buffers[at];
    // SAFETY: the rank is locked and does not run.
    let own = unsafe { rank.buffer(BufferId(at as u32)).write() };
    let ParamSpec { shard, element, .. } = &program.params[n];
    let (first, slots) = element.map_or((0, buffer.slots), |element| (element.index, element.of));
    let (first, whole) = (first as usize, floats / slots.max(1) as usize);
    let Some(shard) = shard else {
        return visit(own, first * whole);
    };
    let Shard { blocks, slice } = shard;
    let columns = buffer.columns as usize;
    let rows = (blocks * slice.len) as usize;
    for (n, row) in own.chunks_exact_mut(columns.max(1)).enumerate() {
        let (slot, row_number) = (first + n / rows, (n % rows) as u32);
        if let Some(place) = shard.whole_row(row_number) {
            visit(row, slot * whole + place as usize * columns);
        }
    }
}
