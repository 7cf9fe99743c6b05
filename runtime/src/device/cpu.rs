//! The processor: its memory, and how generated kernels are called on it.

use crate::team::Team;
use gnnc_codegen::args::RawArgs;
use gnnc_codegen::cpu::Compiled;
use gnnc_ir::kernel::{COLUMN_BLOCK, Operand};
use std::ops::Range;

const HUGE_PAGE: usize = 2 << 20;

/// A block of floats that starts as zeros and that pages are given to when it is touched.
#[derive(Debug)]
pub(crate) struct Arena {
    map: *mut libc::c_void,
    mapped: usize,
    base: *mut f32,
    floats: usize,
}

// SAFETY: the block belongs to the arena alone; only pointers handed out by `span` reach it,
// and whoever uses those answers for races.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// Floats in an arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) ptr: *mut f32,
    pub(crate) len: usize,
}

// SAFETY: a span is only an address; whoever follows it answers for races.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Arena {
    /// An arena of that many floats, aligned to 64 bytes, on huge pages where it is large.
    ///
    /// # Errors
    /// The system refuses that much memory.
    pub(crate) fn new(floats: usize) -> std::io::Result<Self> {
        let too_large = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        let bytes = floats.checked_mul(4).ok_or_else(too_large)?;
        let huge = bytes >= HUGE_PAGE / 2;
        let mapped = match huge {
            true => bytes
                .checked_next_multiple_of(HUGE_PAGE)
                .and_then(|b| b.checked_add(HUGE_PAGE)),
            false => Some(bytes.max(64)),
        }
        .ok_or_else(too_large)?;
        // Without `MAP_NORESERVE`: the system shall refuse now what it could not give later.
        let (read_write, private) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a fresh private mapping touches no memory in use.
        let map = unsafe { libc::mmap(std::ptr::null_mut(), mapped, read_write, private, -1, 0) };
        if map == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let mut base = map.cast::<f32>();
        if huge {
            let begin = map.cast::<u8>();
            // SAFETY: the mapping has a huge page to spare before its end; advice changes no contents.
            unsafe {
                let aligned = begin.add(begin.align_offset(HUGE_PAGE));
                libc::madvise(
                    aligned.cast(),
                    bytes.next_multiple_of(HUGE_PAGE),
                    libc::MADV_HUGEPAGE,
                );
                base = aligned.cast();
            }
        }
        Ok(Self {
            map,
            mapped,
            base,
            floats,
        })
    }

    /// The `len` floats from `offset`.
    pub(crate) fn span(&self, offset: usize, len: usize) -> Span {
        assert!(
            offset
                .checked_add(len)
                .is_some_and(|end| end <= self.floats),
            "a span outside of the arena"
        );
        // SAFETY: in range, as just checked.
        let ptr = unsafe { self.base.add(offset) };
        Span { ptr, len }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing can use any more.
        unsafe { libc::munmap(self.map, self.mapped) };
    }
}

impl Span {
    /// The floats, to read.
    ///
    /// # Safety
    /// The arena is alive, and nothing writes the floats meanwhile.
    pub(crate) unsafe fn read<'a>(self) -> &'a [f32] {
        // SAFETY: as the caller promised.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }

    /// The floats, to write.
    ///
    /// # Safety
    /// The arena is alive, and nothing else uses the floats meanwhile.
    pub(crate) unsafe fn write<'a>(self) -> &'a mut [f32] {
        // SAFETY: as the caller promised.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) }
    }

    /// A part of the floats.
    pub(crate) fn part(self, begin: usize, len: usize) -> Self {
        assert!(begin + len <= self.len, "a part outside of its span");
        // SAFETY: in range, as just checked.
        let ptr = unsafe { self.ptr.add(begin) };
        Self { ptr, len }
    }
}

/// A kernel with its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) kernel: &'a Compiled,
    pub(crate) args: RawArgs,
}

// SAFETY: the pointers are only read as addresses; the executor gives concurrent calls
// disjoint rows of the outputs.
unsafe impl Sync for Call<'_> {}
// SAFETY: as above.
unsafe impl Send for Call<'_> {}

impl Call<'_> {
    /// Runs the kernel over the rows between consecutive `bounds`, any number at once.
    ///
    /// # Safety
    /// What the kernel touches over these rows lies inside the buffers.
    pub(crate) unsafe fn run(&self, team: &Team, bounds: &[u64], accesses: u64) {
        // SAFETY: pieces are disjoint rows; the caller vouches for the rest.
        team.each(bounds.len().saturating_sub(1), accesses, |i| unsafe {
            self.kernel.run(&self.args, bounds[i], bounds[i + 1]);
        });
    }

    /// Runs the kernel over rows `begin .. end` on this thread.
    ///
    /// # Safety
    /// As [`Self::run`]; nothing else writes these rows of the outputs meanwhile.
    pub(crate) unsafe fn run_once(&self, begin: u64, end: u64) {
        // SAFETY: as the caller promised.
        unsafe { self.kernel.run(&self.args, begin, end) };
    }

    /// Runs the kernel over a range of rows in pieces of `piece` rows.
    ///
    /// # Safety
    /// As [`Self::run`].
    pub(crate) unsafe fn run_rows(&self, team: &Team, rows: Range<u64>, piece: u64, accesses: u64) {
        let count = rows.end.saturating_sub(rows.start).div_ceil(piece);
        team.each(count as usize, accesses, |i| {
            let begin = rows.start + i as u64 * piece;
            // SAFETY: pieces are disjoint rows; the caller vouches for the rest.
            unsafe {
                self.kernel
                    .run(&self.args, begin, (begin + piece).min(rows.end))
            };
        });
    }

    /// Runs a column reduction over rows: a partial row in `scratch` for each block of rows, then their sum
    /// in order of the blocks to `out`, on top of what is there if it adds.
    ///
    /// # Safety
    /// As [`Self::run`]; `scratch` and `out` are used by nothing else meanwhile.
    pub(crate) unsafe fn reduce_columns(
        &self,
        team: &Team,
        (rows, adds): (Range<u64>, bool),
        scratch: Span,
        out: Span,
        accesses: u64,
    ) {
        let spec = self.kernel.kernel();
        let columns = (spec.heads * spec.width) as usize;
        let block = COLUMN_BLOCK as u64;
        let blocks = (rows.end - rows.start).div_ceil(block) as usize;
        team.each(blocks, accesses, |i| {
            let partial = [scratch.part(i * columns, columns).ptr];
            let args = RawArgs {
                outputs: partial.as_ptr(),
                ..self.args
            };
            let begin = rows.start + i as u64 * block;
            // SAFETY: every block has its own partial row; the caller vouches for the rest.
            unsafe { self.kernel.run(&args, begin, (begin + block).min(rows.end)) };
        });
        // SAFETY: the blocks are done.
        let (partials, out) = unsafe { (scratch.part(0, blocks * columns).read(), out.write()) };
        let operand = spec.outputs.first().copied().unwrap_or(Operand {
            at: gnnc_ir::kernel::At::One,
            stride: 0,
            offset: 0,
            head_step: spec.width,
            column_step: 1,
            storage: Default::default(),
            picked: None,
        });
        for h in 0..spec.heads {
            for c in 0..spec.width {
                let place = operand.offset + h * operand.head_step + c * operand.column_step;
                let column = (h * spec.width + c) as usize;
                let total = (0..blocks).map(|b| partials[b * columns + column]);
                let before = if adds { out[place as usize] } else { 0.0 };
                out[place as usize] = total.fold(before, |sum, x| sum + x);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_no_machine_has_is_refused() {
        for floats in [1 << 50, usize::MAX / 4, usize::MAX / 2] {
            assert!(Arena::new(floats).is_err(), "{floats} floats");
        }
        for floats in [0, 1, 1 << 20] {
            assert!(Arena::new(floats).is_ok(), "{floats} floats");
        }
    }
}
