//! Arrays in memory, mapped from a file, or of another owner. The system loads pages of a mapped array when they are read, and drops them
//! when it needs their memory.

use memmap2::{Mmap, UncheckedAdvice};
use std::any::Any;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Least bytes of an array that is mapped. Smaller ones are read, so that their file may change.
pub(crate) const LEAST_MAPPED: u64 = 64 << 20;

/// Numbers that an array may hold: every pattern of bits is one, and files hold them with the lowest byte first.
pub trait Number: Copy + private::Sealed {}

mod private {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Number for $number {}
        impl private::Sealed for $number {}
    )*};
}

numbers!(f32 u16 u32 u64);

/// Numbers in memory, or in a mapped file or memory of another owner, which must not change meanwhile.
#[derive(Debug)]
pub struct Values<T> {
    /// Those of `memory`, so that reading them needs no branch.
    first: *const T,
    count: usize,
    memory: Memory<T>,
}

enum Memory<T> {
    Owned(Vec<T>),
    /// The range of the map that holds aligned values.
    Mapped(Arc<Mmap>, Range<usize>),
    /// Whatever keeps the memory in place.
    Shared(Arc<dyn Any + Send + Sync>),
}

impl<T> fmt::Debug for Memory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Owned(_) => "Owned",
            Self::Mapped(..) => "Mapped",
            Self::Shared(_) => "Shared",
        })
    }
}

// SAFETY: the pointer is into `memory`, which is never changed, and numbers can be read from any thread.
unsafe impl<T: Number + Send + Sync> Send for Values<T> {}
// SAFETY: as above.
unsafe impl<T: Number + Send + Sync> Sync for Values<T> {}

impl<T: Number + Send + Sync + 'static> Values<T> {
    /// The same values, whose clones share their memory.
    #[must_use]
    pub fn into_shared(self) -> Self {
        match self.memory {
            Memory::Owned(values) => Self {
                first: self.first,
                count: self.count,
                memory: Memory::Shared(Arc::new(values)),
            },
            Memory::Mapped(..) | Memory::Shared(_) => self,
        }
    }
}

impl<T: Number> Values<T> {
    /// All values.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: `memory` has so many numbers from there, and lives as long as `self`. Moving a vector leaves its
        // elements where they are.
        unsafe { std::slice::from_raw_parts(self.first, self.count) }
    }

    /// The numbers of a file that nobody else has, in this machine's order of bytes.
    ///
    /// # Errors
    /// Any error of the system.
    pub(crate) fn in_file(file: &File) -> io::Result<Self> {
        let map = map(file)?;
        let range = 0..map.len() / size_of::<T>() * size_of::<T>();
        let first = map.as_ptr().cast();
        Ok(Self {
            first,
            count: range.len() / size_of::<T>(),
            memory: Memory::Mapped(map, range),
        })
    }

    /// Gives the memory of a mapped file back to the system, which reads the file again when the values
    /// are needed. Does nothing if the values are not mapped.
    pub fn release(&self) {
        if let Memory::Mapped(map, range) = &self.memory {
            // SAFETY: the map is read-only and of a file, so its pages come back as they were.
            let released = unsafe {
                map.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len())
            };
            // Memory that is not given back is a loss of memory, and nothing else.
            drop(released);
        }
    }

    /// Whether the values are in a mapped file rather than in memory.
    pub fn is_mapped(&self) -> bool {
        matches!(self.memory, Memory::Mapped(..))
    }

    /// The `count` numbers at `first`, in memory that `owner` keeps in place.
    ///
    /// # Safety
    /// From `first`, which is aligned, `count` numbers can be read as long as `owner` lives, and nobody changes them.
    pub unsafe fn shared(first: *const T, count: usize, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self {
            first,
            count,
            memory: Memory::Shared(owner),
        }
    }

    /// The values of a mapped file's `range`. `None` if they cannot be used in place: out of range,
    /// not aligned, or on a big-endian machine.
    pub(crate) fn mapped(map: Arc<Mmap>, range: Range<usize>) -> Option<Self> {
        let bytes = map.get(range.clone())?;
        let usable = cfg!(target_endian = "little")
            && bytes.len() % size_of::<T>() == 0
            && bytes.as_ptr().align_offset(align_of::<T>()) == 0;
        let (first, count) = (bytes.as_ptr().cast(), bytes.len() / size_of::<T>());
        usable.then_some(Self {
            first,
            count,
            memory: Memory::Mapped(map, range),
        })
    }
}

/// Maps a file for reading.
///
/// # Errors
/// Any error of the system.
pub(crate) fn map(file: &File) -> io::Result<Arc<Mmap>> {
    // SAFETY: the map is read-only, and all that is read from it is checked or any pattern of bits. The caller must
    // keep the file unchanged while it is mapped.
    unsafe { Mmap::map(file) }.map(Arc::new)
}

impl<T> From<Vec<T>> for Values<T> {
    fn from(values: Vec<T>) -> Self {
        Self {
            first: values.as_ptr(),
            count: values.len(),
            memory: Memory::Owned(values),
        }
    }
}

impl<T: Number> Clone for Values<T> {
    fn clone(&self) -> Self {
        match &self.memory {
            Memory::Owned(values) => Self::from(values.clone()),
            Memory::Mapped(map, range) => Self {
                first: self.first,
                count: self.count,
                memory: Memory::Mapped(Arc::clone(map), range.clone()),
            },
            Memory::Shared(owner) => Self {
                first: self.first,
                count: self.count,
                memory: Memory::Shared(Arc::clone(owner)),
            },
        }
    }
}

impl<T: Number> Deref for Values<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T: Number + PartialEq> PartialEq for Values<T> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<T: Number + Eq> Eq for Values<T> {}
