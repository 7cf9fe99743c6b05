//! The rows of neighbors that helpers read, and their prefetching.

use super::wide::Wide;

/// Edges whose rows are prefetched ahead of the current one.
const AHEAD: usize = 12;
/// Floats of a cache line.
const LINE: usize = 16;
/// Cache lines prefetched per row; the hardware streams the rest.
const LINES: usize = 64;

/// What helpers read of a neighbor's row `x`, beside the own row `y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Seen {
    /// `x`.
    Row = 0,
    /// `leaky_relu(x + y)`.
    Leaky = 1,
    /// `leaky_step(x + y)`: the derivative.
    Step = 2,
}

/// The rows of the neighbors of some edges.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// First element used of row 0.
    pub start: *const f32,
    /// The neighbor of each edge.
    pub indices: *const u32,
    /// Edges.
    pub count: u64,
    /// Entries of `indices` whose rows may be prefetched: rows of later edges are, too.
    pub known: u64,
    /// Elements from row to row.
    pub stride: u64,
    /// Heads of a row.
    pub heads: u64,
    /// Columns of a head.
    pub width: u64,
    /// Numbers from edge to edge: the heads, padded.
    pub step: u64,
    /// A [`Seen`].
    pub seen: u64,
    /// The own row, unless rows are seen as they are.
    pub near: *const f32,
    /// The bits of the slope of the function.
    pub slope: u64,
}

impl Rows {
    /// How the rows are read.
    #[inline(always)]
    pub fn seen(&self) -> Seen {
        if self.seen == Seen::Leaky as u64 {
            Seen::Leaky
        } else if self.seen == Seen::Step as u64 {
            Seen::Step
        } else {
            Seen::Row
        }
    }

    /// The slope of the function.
    #[inline(always)]
    pub fn slope(&self) -> f32 {
        f32::from_bits(self.slope as u32)
    }

    /// The row of an edge of the block.
    #[inline(always)]
    pub unsafe fn row(&self, edge: usize) -> *const f32 {
        // SAFETY: the caller names an edge of the block, whose row exists.
        unsafe {
            let index = *self.indices.add(edge) as usize;
            self.start.add(index * self.stride as usize)
        }
    }

    /// Prefetches the row of the edge that is [`AHEAD`] of this one, if it is known.
    #[inline(always)]
    pub unsafe fn prefetch(&self, edge: usize) {
        let edge = edge + AHEAD;
        if edge < self.known as usize {
            // SAFETY: the index is known.
            unsafe {
                let index = *self.indices.add(edge) as usize;
                let row = self.start.wrapping_add(index * self.stride as usize);
                prefetch(row, (self.heads * self.width) as usize);
            }
        }
    }
}

/// Prefetches some floats.
#[inline(always)]
fn prefetch(row: *const f32, floats: usize) {
    #[cfg(target_arch = "x86_64")]
    for first in (0..floats).step_by(LINE).take(LINES) {
        // SAFETY: prefetching any address is harmless.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                row.wrapping_add(first).cast(),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (row, floats);
}

/// A tensor whose rows are prefetched.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// First element used of row 0.
    pub start: *const f32,
    /// Elements from row to row.
    pub stride: u64,
    /// Elements of a row.
    pub columns: u64,
}

/// Tensors that code other than a helper reads at the other end of edges.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    /// The neighbor of each edge.
    pub indices: *const u32,
    /// Edges.
    pub count: u64,
    /// Entries of `indices`.
    pub known: u64,
    /// The tensors.
    pub tables: *const Table,
    /// Their number.
    pub len: u64,
}

impl Fetch {
    /// Prefetches the rows of the edges that are [`AHEAD`] of those of the block.
    #[inline(always)]
    pub unsafe fn run(&self) {
        let last = (self.count as usize + AHEAD).min(self.known as usize);
        for edge in AHEAD..last {
            // SAFETY: the index is known, and there are `len` tables.
            unsafe {
                let index = *self.indices.add(edge) as usize;
                for table in 0..self.len as usize {
                    let table = &*self.tables.add(table);
                    let row = table.start.wrapping_add(index * table.stride as usize);
                    prefetch(row, table.columns as usize);
                }
            }
        }
    }
}

/// How a vector of a neighbor's row is read.
pub trait View {
    /// Whether the own row is read, too.
    const NEAR: bool;
    /// From the neighbor's vector and the own one.
    unsafe fn of<V: Wide>(x: V, near: V, slope: V) -> V;
}

/// As it is.
pub struct Plain;
/// See [`Seen::Leaky`].
pub struct Leaky;
/// See [`Seen::Step`].
pub struct Step;

impl View for Plain {
    const NEAR: bool = false;

    #[inline(always)]
    unsafe fn of<V: Wide>(x: V, _near: V, _slope: V) -> V {
        x
    }
}

impl View for Leaky {
    const NEAR: bool = true;

    #[inline(always)]
    unsafe fn of<V: Wide>(x: V, near: V, slope: V) -> V {
        // SAFETY: the caller has the instructions.
        unsafe {
            let sum = x.add(near);
            sum.if_positive(sum, sum.mul(slope))
        }
    }
}

impl View for Step {
    const NEAR: bool = true;

    #[inline(always)]
    unsafe fn of<V: Wide>(x: V, near: V, slope: V) -> V {
        // SAFETY: the caller has the instructions.
        unsafe { x.add(near).if_positive(V::splat(1.0), slope) }
    }
}
