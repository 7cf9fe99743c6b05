//! Fetches rows of batches from the ranks that own them.
//!
//! One question serves all tensors: it names the vertices of the lowest level of which rows are read.
//! Levels are prefixes of each other, so tensors that are read at higher levels are fetched for the
//! same vertices, whose ids are then sent only once.

use gnnc_ir::program::instr::{self, AskRows, CacheRows, FetchRows, ServeRows};
use gnnc_ir::program::{Buffer, BufferId, Extent, Instr, Program, Ref, Role};
use gnnc_ir::words::sampling::Cache;
use gnnc_ir::words::types::{Level, Of};
use std::collections::BTreeMap;

/// The program of one of several ranks, each of which owns a part of the rows that batches read. Rows
/// that it has of all vertices it reads itself.
pub fn from_owners(mut program: Program) -> Program {
    if program.ranks <= 1 {
        return program;
    }
    for (phase, index) in program.batch_loops() {
        let Instr::Batches(instr::Batches { body }) = &program.list(phase)[index] else {
            continue;
        };
        let mut body = body.clone();
        if let Some(level) = lowest(&body, &program) {
            for instr in &mut body {
                let Instr::FetchRows(FetchRows { from, to }) = *instr else {
                    continue;
                };
                if !is_owned(&program, from) || is_for_owner(&program, to) {
                    continue;
                }
                program.buffers[to.buffer.0 as usize].extent = Extent::Level(Level::own(level));
                let cache = None;
                *instr = Instr::ServeRows(ServeRows {
                    from,
                    to,
                    cache,
                    renews: false,
                    encoded: None,
                });
            }
            let sampled = (body.iter()).position(|instr| matches!(instr, Instr::Sample(_)));
            let behind = sampled.map_or(0, |sample| sample + 1);
            let level = Level::own(level);
            body.insert(behind, Instr::AskRows(AskRows { level }));
        }
        program.list_mut(phase)[index] = Instr::Batches(instr::Batches { body });
    }
    program
}

/// The program whose ranks keep some rows of other ranks. They fetch these rows before they train, or, if training
/// changes them, in the batches that read them.
pub fn with_cache(mut program: Program, Cache { rows, age, .. }: Cache) -> Program {
    let mut kept: BTreeMap<Ref, Ref> = BTreeMap::new();
    for (phase, index) in program.batch_loops() {
        let Instr::Batches(instr::Batches { body }) = &program.list(phase)[index] else {
            continue;
        };
        let mut body = body.clone();
        for instr in &mut body {
            if let Instr::ServeRows(serve) = instr {
                let from = serve.from;
                let cache = kept.entry(from);
                let cache = cache.or_insert_with(|| cache_of(&mut program, from, rows));
                (serve.cache, serve.renews) = (Some(*cache), age.is_some());
            }
        }
        program.list_mut(phase)[index] = Instr::Batches(instr::Batches { body });
    }
    if age.is_none() {
        let filled = (kept.into_iter()).map(|(from, to)| Instr::CacheRows(CacheRows { from, to }));
        program.setup.extend(filled);
    }
    program
}

/// A buffer for rows of a tensor that other ranks have.
fn cache_of(program: &mut Program, from: Ref, rows: u32) -> Ref {
    let of = program.buffer(from.buffer).clone();
    program.buffers.push(Buffer {
        name: format!("{}.cache", of.name),
        extent: Extent::Fixed(rows),
        role: Role::Static,
        ..of
    });
    Ref::first(BufferId(program.buffers.len() as u32 - 1))
}

/// Whether a rank reads only rows that it owns.
fn is_for_owner(program: &Program, to: Ref) -> bool {
    let level = program.buffer(to.buffer).extent.level();
    level.is_some_and(|level| level.of == Of::Owned)
}

/// Whether ranks have rows of their own vertices only.
fn is_owned(program: &Program, from: Ref) -> bool {
    let extent = program.buffer(from.buffer).extent;
    matches!(extent, Extent::Inner | Extent::Local)
}

/// The lowest level of which rows are fetched; `None` if none are.
fn lowest(body: &[Instr], program: &Program) -> Option<u8> {
    let fetched = body.iter().filter_map(|instr| {
        if let Instr::FetchRows(fetch) = instr
            && is_owned(program, fetch.from)
            && !is_for_owner(program, fetch.to)
        {
            let level = program.buffer(fetch.to.buffer).extent.level();
            level.map(|level| level.number)
        } else {
            None
        }
    });
    fetched.min()
}
