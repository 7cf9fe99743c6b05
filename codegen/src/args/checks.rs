//! Bounds that checked code compares its accesses with; see [`crate::cpu::Compiler::checked`].

use crate::args::ArgsError;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that a kernel accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Row offsets.
    Indptr,
    /// Neighbors.
    Indices,
    /// Positions of edges.
    Positions,
    /// Global vertex ids.
    Ids,
    /// The row list.
    List,
    /// The run-time scalars.
    Scalars,
    /// The keys of masks.
    Keys,
    /// An input.
    Input(u16),
    /// An output.
    Output(u16),
    /// The code's own memory on the stack, which is not checked.
    Stack,
}

/// Memory other than inputs and outputs, in the order of the ranges; see [`Lists::in_order`].
const LISTS: [Memory; 7] = [
    Memory::Indptr,
    Memory::Indices,
    Memory::Positions,
    Memory::Ids,
    Memory::List,
    Memory::Scalars,
    Memory::Keys,
];

impl Memory {
    /// Index of this memory's range for a kernel with `inputs` inputs, if it has one.
    pub(crate) fn number(self, inputs: usize) -> Option<usize> {
        let list = match self {
            Self::Input(i) => LISTS.len() + usize::from(i),
            Self::Output(i) => LISTS.len() + inputs + usize::from(i),
            Self::Stack => return None,
            Self::Indptr => 0,
            Self::Indices => 1,
            Self::Positions => 2,
            Self::Ids => 3,
            Self::List => 4,
            Self::Scalars => 5,
            Self::Keys => 6,
        };
        Some(list)
    }

    fn of_number(number: usize, inputs: usize) -> Self {
        match number.checked_sub(LISTS.len()) {
            None => LISTS[number],
            Some(operand) if operand < inputs => Self::Input(operand as u16),
            Some(operand) => Self::Output((operand - inputs) as u16),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Indptr => write!(f, "the row offsets"),
            Self::Indices => write!(f, "the neighbor indices"),
            Self::Positions => write!(f, "the edge positions"),
            Self::Ids => write!(f, "the vertex ids"),
            Self::List => write!(f, "the row list"),
            Self::Scalars => write!(f, "the scalars"),
            Self::Keys => write!(f, "the mask keys"),
            Self::Input(i) => write!(f, "input {i}"),
            Self::Output(i) => write!(f, "output {i}"),
            Self::Stack => write!(f, "the stack"),
        }
    }
}

/// Bytes that may be accessed; none by default.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct MemoryRange {
    begin: u64,
    bytes: u64,
}

impl MemoryRange {
    /// `len` elements from `first` on.
    pub fn new<T>(first: *const T, len: usize) -> Self {
        Self {
            begin: first as u64,
            bytes: (len * size_of::<T>()) as u64,
        }
    }

    /// The elements of a slice.
    pub fn of<T>(slice: &[T]) -> Self {
        Self::new(slice.as_ptr(), slice.len())
    }
}

/// Ranges of the memory other than inputs and outputs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lists {
    /// Row offsets.
    pub indptr: MemoryRange,
    /// Neighbors.
    pub indices: MemoryRange,
    /// Edge positions.
    pub positions: MemoryRange,
    /// Global vertex ids.
    pub ids: MemoryRange,
    /// The row list.
    pub list: MemoryRange,
    /// Run-time scalars.
    pub scalars: MemoryRange,
    /// Keys of masks.
    pub keys: MemoryRange,
}

impl Lists {
    fn in_order(&self) -> [MemoryRange; LISTS.len()] {
        [
            self.indptr,
            self.indices,
            self.positions,
            self.ids,
            self.list,
            self.scalars,
            self.keys,
        ]
    }
}

/// The ranges of a launch, and an access that a thread made outside them. Machine code reads the
/// first two fields.
#[derive(Debug)]
#[repr(C)]
pub struct Checks {
    ranges: *const MemoryRange,
    /// 1 + the number of the memory that was accessed out of bounds; 0 if none was.
    outside: AtomicU64,
    inputs: usize,
    owned: Vec<MemoryRange>,
}

/// Byte offset of `Checks::ranges`, for machine code.
pub(crate) const RANGES: i32 = std::mem::offset_of!(Checks, ranges) as i32;
/// Byte offset of `Checks::outside`, for machine code.
pub(crate) const OUTSIDE: i32 = std::mem::offset_of!(Checks, outside) as i32;

impl Checks {
    /// Checks for the ranges of lists, inputs and outputs.
    pub fn new(lists: &Lists, inputs: &[MemoryRange], outputs: &[MemoryRange]) -> Self {
        let owned = [&lists.in_order(), inputs, outputs].concat();
        Self::of_ranges(owned, inputs.len())
    }

    fn of_ranges(owned: Vec<MemoryRange>, inputs: usize) -> Self {
        Self {
            ranges: owned.as_ptr(),
            outside: AtomicU64::new(0),
            inputs,
            owned,
        }
    }

    /// The same checks with other outputs.
    pub fn with_outputs(&self, outputs: &[MemoryRange]) -> Self {
        let others = &self.owned[..LISTS.len() + self.inputs];
        Self::of_ranges([others, outputs].concat(), self.inputs)
    }

    /// Adopts the failure, if any, of a call that had its own checks.
    pub fn include(&self, call: &Self) {
        let found = call.outside.load(Ordering::Relaxed);
        if found != 0 {
            self.outside.store(found, Ordering::Relaxed);
        }
    }

    /// The out-of-bounds access found, once all calls are done.
    pub fn result(&self) -> Result<(), ArgsError> {
        let Some(number) = self.outside.load(Ordering::Relaxed).checked_sub(1) else {
            return Ok(());
        };
        Err(ArgsError::Outside {
            memory: Memory::of_number(number as usize, self.inputs),
            bytes: self.owned[number as usize].bytes,
        })
    }
}
