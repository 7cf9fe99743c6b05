//! Host memory for buffers and messages.

use gnnc_codegen::args::checks::MemoryRange;

const HUGE_PAGE: usize = 2 << 20;

/// A block of floats, initially zero. Pages are allocated on first touch.
#[derive(Debug)]
pub(crate) struct Arena {
    map: *mut libc::c_void,
    mapped: usize,
    base: *mut f32,
    floats: usize,
}

// SAFETY: the arena alone owns the block; only pointers from `span` reach it, and their users
// prevent races.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// Floats in an arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) ptr: *mut f32,
    pub(crate) len: usize,
}

// SAFETY: a span is only an address; whoever dereferences it prevents races.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Arena {
    /// An arena of `floats` floats, aligned to 64 bytes, on huge pages if it is large.
    ///
    /// # Errors
    /// If the system refuses that much memory.
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
        // No `MAP_NORESERVE`: the system should refuse now rather than fail later.
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
        // SAFETY: the mapping of `new`; nothing can use it any more.
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

    /// The memory that checked kernels may access.
    pub(crate) fn range(self) -> MemoryRange {
        MemoryRange::new(self.ptr, self.len)
    }

    /// A part of the floats.
    pub(crate) fn part(self, begin: usize, len: usize) -> Self {
        assert!(begin + len <= self.len, "a part outside of its span");
        // SAFETY: in range, as just checked.
        let ptr = unsafe { self.ptr.add(begin) };
        Self { ptr, len }
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
