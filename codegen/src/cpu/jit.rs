//! Machine code in executable memory.

use super::helpers::Helpers;
use crate::args::RawArgs;
use memmap2::{Mmap, MmapMut};

/// The signature of a compiled kernel.
pub type Entry =
    unsafe extern "C" fn(args: *const RawArgs, begin: u64, end: u64, helpers: *const Helpers);

/// Executable memory with one position-independent function at its first byte. It is never writable
/// and executable at the same time.
#[derive(Debug)]
pub struct Code {
    map: Mmap,
    len: usize,
}

impl Code {
    /// Copies machine code into fresh executable memory.
    pub fn new(code: &[u8]) -> std::io::Result<Self> {
        let mut map = MmapMut::map_anon(code.len().max(1))?;
        map[..code.len()].copy_from_slice(code);
        Ok(Self {
            map: map.make_exec()?,
            len: code.len(),
        })
    }

    /// The function.
    ///
    /// # Safety
    /// The bytes must be a function of the type [`Entry`] for this processor. The result must not
    /// outlive `self`.
    pub unsafe fn entry(&self) -> Entry {
        // SAFETY: the caller vouches for the bytes; the map is executable and stays in place.
        unsafe { std::mem::transmute::<*const u8, Entry>(self.map.as_ptr()) }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map[..self.len]
    }
}
