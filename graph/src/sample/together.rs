//! The passes of a hop by several threads.
//!
//! Rows are cut into chunks by the data, never by the number of threads. A vertex that occurs
//! first in a hop gets its number in two passes: the first finds the smallest edge at which each
//! new vertex occurs, the second numbers these edges in order. So the result is that of one thread.

use super::draw::{Hop, Scratch};
use super::fill::{Degrees, Rows, Split};
use super::numbers::{AHEAD, Numbers};
use crate::Topology;
use rayon::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Rows of a chunk, the piece of a hop that one thread works on at a time.
const ROWS: usize = 128;

/// A run of rows.
#[derive(Default)]
pub(super) struct Chunk {
    /// Edges kept for it, then those kept for the chunks before it.
    edges: u64,
    /// Vertices that the chunks before it number.
    before: usize,
    /// Edges whose sources this chunk may number: first those that lowered a number, then those at
    /// which a vertex occurs first.
    firsts: Vec<u32>,
}

/// Calls `work` for each chunk, on any thread.
fn each<T: Split>(rows: T, chunks: &mut [Chunk], work: &(impl Fn(T, &mut Chunk) + Sync)) {
    if chunks.len() > 1 {
        let half = chunks.len() / 2;
        let (first, second) = rows.split_at(half * ROWS);
        let (chunks_first, chunks_second) = chunks.split_at_mut(half);
        rayon::join(
            || each(first, chunks_first, work),
            || each(second, chunks_second, work),
        );
    } else if let [chunk] = chunks {
        work(rows, chunk);
    }
}

/// The memory of the current thread for its draws.
fn scratch(all: &[Mutex<Scratch>]) -> MutexGuard<'_, Scratch> {
    let thread = rayon::current_thread_index().unwrap_or(0);
    all[thread % all.len()]
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// [`Degrees::count`] by all threads. `kept` of the rows is counted within each chunk;
/// [`add_up`] completes it.
pub(super) fn count(
    rows: Degrees,
    topology: &Topology,
    hop: &Hop,
    all: &[Mutex<Scratch>],
    chunks: &mut Vec<Chunk>,
) -> u64 {
    chunks.resize_with(rows.ids.len().div_ceil(ROWS), Chunk::default);
    each(rows, chunks, &|rows: Degrees, chunk: &mut Chunk| {
        chunk.edges = rows.count(topology, hop, &mut scratch(all));
    });
    let mut total = 0;
    for chunk in chunks {
        total += std::mem::replace(&mut chunk.edges, total);
    }
    total
}

/// Adds to the kept edges of each row those of the chunks before its own.
pub(super) fn add_up(kept: &mut [u64], chunks: &[Chunk]) {
    let each = kept.par_chunks_mut(ROWS).zip(chunks.par_iter());
    each.for_each(|(kept, chunk)| kept.iter_mut().for_each(|end| *end += chunk.edges));
}

/// Draws the edges of all rows. Each new vertex gets as number the smallest edge at which it
/// occurs, counted from `known`.
pub(super) fn fill(
    rows: Rows,
    topology: &Topology,
    hop: &Hop,
    numbers: &Numbers,
    known: u32,
    all: &[Mutex<Scratch>],
    chunks: &mut [Chunk],
) {
    each(rows, chunks, &|rows: Rows, chunk: &mut Chunk| {
        let begin = rows.first_edge() as usize;
        chunk.firsts.clear();
        let firsts = &mut chunk.firsts;
        let lower = |first: usize, ends: &mut [u32]| {
            for (edge, v) in (begin + first..).zip(ends) {
                if numbers.lower(*v, known + edge as u32) {
                    firsts.push(edge as u32);
                }
            }
        };
        rows.fill(topology, hop, numbers, &mut scratch(all), lower);
    });
}

/// Gives new vertices the numbers from `known` on and appends them to `ids`; replaces the sources
/// of all edges by their numbers.
pub(super) fn number(
    ids: &mut Vec<u32>,
    ends: &mut [u32],
    numbers: &Numbers,
    chunks: &mut [Chunk],
) {
    let known = ids.len();
    chunks.par_iter_mut().for_each(|chunk| {
        let firsts = &mut chunk.firsts;
        let mut kept = 0;
        for place in 0..firsts.len() {
            if let Some(next) = firsts.get(place + AHEAD) {
                numbers.prefetch(ends[*next as usize]);
            }
            let edge = firsts[place];
            if numbers.get(ends[edge as usize]) == known as u32 + edge {
                firsts[kept] = edge;
                kept += 1;
            }
        }
        firsts.truncate(kept);
    });
    let mut new = 0;
    for chunk in chunks.iter_mut() {
        chunk.before = new;
        new += chunk.firsts.len();
    }
    ids.resize(known + new, 0);
    name(&mut ids[known..], known, ends, numbers, chunks);
    numbers.replace_together(ends);
}

/// Numbers the vertices that occur first in these chunks and writes their ids to `new`.
fn name(new: &mut [u32], known: usize, ends: &[u32], numbers: &Numbers, chunks: &[Chunk]) {
    if chunks.len() > 1 {
        let (first, second) = chunks.split_at(chunks.len() / 2);
        let (new_first, new_second) = new.split_at_mut(second[0].before - first[0].before);
        rayon::join(
            || name(new_first, known, ends, numbers, first),
            || name(new_second, known, ends, numbers, second),
        );
    } else if let [chunk] = chunks {
        for (place, edge) in chunk.firsts.iter().enumerate() {
            if let Some(next) = chunk.firsts.get(place + AHEAD) {
                numbers.prefetch(ends[*next as usize]);
            }
            let v = ends[*edge as usize];
            new[place] = v;
            numbers.set(v, (known + chunk.before + place) as u32);
        }
    }
}
