//! The number of each vertex within a batch.

use super::SampleError;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of a vertex that has none.
const NONE: u32 = u32::MAX;

/// Most edges of a hop plus rows before it, so that a first occurrence fits into a number.
pub(super) const MOST: u64 = NONE as u64 - 1;

/// How many elements ahead of its use memory is prefetched.
pub(super) const AHEAD: usize = 16;

/// Vertices per task of a parallel pass.
const GRAIN: usize = 8192;

/// One number for each vertex of the graph.
///
/// Threads share it. All accesses are relaxed: passes that write different things are separated by
/// joins of the threads.
#[derive(Default)]
pub(super) struct Numbers(Vec<AtomicU32>);

impl Numbers {
    pub fn new(vertices: u32) -> Self {
        Self((0..vertices).map(|_| AtomicU32::new(NONE)).collect())
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, v: u32) -> u32 {
        self.0[v as usize].load(Ordering::Relaxed)
    }

    pub fn set(&self, v: u32, number: u32) {
        self.0[v as usize].store(number, Ordering::Relaxed);
    }

    pub fn prefetch(&self, v: u32) {
        prefetch(&self.0, v as usize);
    }

    /// Numbers the seeds of a batch and appends them to `ids`, each where it occurs first.
    ///
    /// # Errors
    /// A seed that is no vertex; no vertex has a number then.
    pub fn start(&self, seeds: &[u32], ids: &mut Vec<u32>) -> Result<(), SampleError> {
        for (position, seed) in seeds.iter().copied().enumerate() {
            let Some(number) = self.0.get(seed as usize) else {
                self.forget(ids);
                return Err(SampleError::NoSuchSeed {
                    seed,
                    position,
                    vertices: self.0.len() as u32,
                });
            };
            if number.load(Ordering::Relaxed) == NONE {
                number.store(ids.len() as u32, Ordering::Relaxed);
                ids.push(seed);
            }
        }
        Ok(())
    }

    /// Takes the numbers of these vertices away.
    pub fn forget(&self, ids: &[u32]) {
        for (i, id) in ids.iter().enumerate() {
            if let Some(next) = ids.get(i + AHEAD) {
                self.prefetch(*next);
            }
            self.set(*id, NONE);
        }
    }

    /// Takes the numbers of all vertices away.
    pub fn clear(&mut self) {
        self.0
            .iter_mut()
            .for_each(|number| *number.get_mut() = NONE);
    }

    /// [`forget`](Self::forget) by all threads.
    pub fn forget_together(&self, ids: &[u32]) {
        ids.par_chunks(GRAIN).for_each(|ids| self.forget(ids));
    }

    /// Replaces vertices by their numbers. A vertex without a number gets the next one: `next`,
    /// whose id goes to `new[next - first]`.
    ///
    /// `new` must have a place for each vertex without a number, and one more.
    pub fn give(&self, vertices: &mut [u32], new: &mut [u32], first: u32, next: &mut u32) {
        for v in vertices {
            let known = self.get(*v);
            let number = if known == NONE { *next } else { known };
            // No branch: whether a vertex is new cannot be predicted.
            new[(*next - first) as usize] = *v;
            self.set(*v, number);
            *next += u32::from(known == NONE);
            *v = number;
        }
    }

    /// Replaces vertices by their numbers, as [`give`](Self::give) does, and appends those without one to `ids`. Prefetches.
    pub fn append(&self, vertices: &mut [u32], ids: &mut Vec<u32>) {
        /// Vertices of which numbers are fetched together.
        const TILE: usize = 128;
        let known = ids.len();
        let room = vertices.len().min(self.vertices().saturating_sub(known)) + 1;
        ids.resize(known + room, 0);
        let (first, mut next) = (known as u32, known as u32);
        let mut tiles = vertices.chunks_mut(TILE);
        let mut tile = tiles.next();
        while let Some(at_hand) = tile {
            tile = tiles.next();
            if let Some(ahead) = &tile {
                ahead.iter().for_each(|v| self.prefetch(*v));
            }
            self.give(at_hand, &mut ids[known..], first, &mut next);
        }
        ids.truncate(next as usize);
    }

    /// Lowers the number of `v` to `number`; whether it was larger.
    pub fn lower(&self, v: u32, number: u32) -> bool {
        self.get(v) > number && self.0[v as usize].fetch_min(number, Ordering::Relaxed) > number
    }

    /// Replaces vertices by their numbers, by all threads.
    pub fn replace_together(&self, vertices: &mut [u32]) {
        vertices.par_chunks_mut(GRAIN).for_each(|vertices| {
            for i in 0..vertices.len() {
                if let Some(next) = vertices.get(i + AHEAD) {
                    self.prefetch(*next);
                }
                vertices[i] = self.get(vertices[i]);
            }
        });
    }
}

/// Asks for the cache line of an element, if there is one.
#[inline(always)]
pub(super) fn prefetch<T>(elements: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let place = elements.as_ptr().wrapping_add(index);
        // SAFETY: prefetching does not access memory; any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (elements, index);
}
