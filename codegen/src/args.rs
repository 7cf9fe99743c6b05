//! Run-time arguments of a compiled kernel.

pub mod checks;

use crate::args::checks::{Checks, Lists, Memory, MemoryRange};
use gnnc_ir::kernel::{At, Body, Kernel, Operand};
use gnnc_ir::kernel::{Walk, mask_row, result_shape};
use gnnc_ir::words::storage::Storage;
use std::ops::Range;

/// Arguments of a compiled kernel. The layout is part of the calling convention.
///
/// A compiled kernel is `extern "C" fn(args: *const RawArgs, begin: u64, end: u64)`. It covers the
/// rows `begin .. end`: destination vertices for kernels over edges, local source vertices for a
/// gather to the source, types for sums by type, plain rows otherwise. Pointers the kernel does not
/// use may be null.
///
/// A [`Body::ColReduce`] overwrites one dense partial row of `heads * width` floats at `outputs[0]`
/// with the sum over `begin .. end`. The caller passes blocks of [`gnnc_ir::kernel::COLUMN_BLOCK`]
/// rows and adds the partial rows in order. The caller also applies the steps and the offset of the
/// output operand.
///
/// Only a [`Body::Map`] may use one buffer as input and output: the other bodies keep intermediate
/// results in their outputs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawArgs {
    /// First edge of each row, plus one final entry: the in-neighbor CSR, or the out-neighbor CSR
    /// for a gather to the source.
    pub indptr: *const u64,
    /// Local vertex at the other end of each edge. For sums by type: the in-neighbor CSR position
    /// of each edge of a type.
    pub indices: *const u32,
    /// For the out-neighbor CSR: each edge's position in the in-neighbor CSR.
    pub positions: *const u32,
    /// Global id of each local row: the key of dropout masks.
    pub ids: *const u32,
    /// The row list of [`At::List`].
    pub list: *const u32,
    /// First element of each input.
    pub inputs: *const *const f32,
    /// First element of each output.
    pub outputs: *const *mut f32,
    /// Run-time scalars.
    pub scalars: *const f32,
    /// The key of each mask.
    pub keys: *const u64,
    /// Bounds that checked code compares its accesses with; null for other code.
    pub checks: *const Checks,
}

/// A kernel's buffer: floats, or words that hold two 16-bit elements each.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    ptr: *mut f32,
    len: usize,
}

impl Buffer {
    /// A read-only buffer.
    pub fn input(floats: &[f32]) -> Self {
        Self {
            ptr: floats.as_ptr().cast_mut(),
            len: floats.len(),
        }
    }

    /// A buffer that is written; it is also read if an input is the same buffer.
    pub fn output(floats: &mut [f32]) -> Self {
        Self {
            ptr: floats.as_mut_ptr(),
            len: floats.len(),
        }
    }

    /// A buffer from its address and its length in floats.
    pub fn raw(ptr: *mut f32, len: usize) -> Self {
        Self { ptr, len }
    }
}

/// Why arguments do not fit a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// A list of arguments is shorter than the kernel needs.
    #[error("the kernel needs {needed} {what}, found {found}")]
    Missing {
        /// Which list.
        what: &'static str,
        /// Entries needed.
        needed: u64,
        /// Entries given.
        found: u64,
    },
    /// A buffer ends before the last element that the kernel touches.
    #[error("{what} {index} has {found} elements, but the kernel accesses {needed}")]
    Short {
        /// `input` or `output`.
        what: &'static str,
        /// Which one.
        index: usize,
        /// Elements needed.
        needed: u64,
        /// Elements given.
        found: u64,
    },
    /// Checked code found an access out of bounds.
    #[error("the kernel reads or writes outside of {memory}, which has {bytes} bytes")]
    Outside {
        /// The memory accessed.
        memory: Memory,
        /// Its length.
        bytes: u64,
    },
    /// The row offsets are not ascending.
    #[error("row offsets fall after row {row}")]
    Offsets {
        /// The row.
        row: u64,
    },
    /// The range of rows is reversed.
    #[error("rows {begin} .. {end} are not a range")]
    Range {
        /// First row.
        begin: u64,
        /// One past the last row.
        end: u64,
    },
}

/// Arguments as slices, which can be checked against a kernel.
#[derive(Clone, Debug, Default)]
pub struct KernelArgs<'a> {
    /// See [`RawArgs::indptr`].
    pub indptr: &'a [u64],
    /// See [`RawArgs::indices`].
    pub indices: &'a [u32],
    /// See [`RawArgs::positions`].
    pub positions: &'a [u32],
    /// See [`RawArgs::ids`].
    pub ids: &'a [u32],
    /// See [`RawArgs::list`].
    pub list: &'a [u32],
    /// The inputs.
    pub inputs: Vec<Buffer>,
    /// The outputs; none may overlap another or, except for element-wise use in place, an input.
    pub outputs: Vec<Buffer>,
    /// The run-time scalars.
    pub scalars: &'a [f32],
    /// The key of each mask.
    pub keys: &'a [u64],
}

/// Arguments as pointers, ready to pass; keeps the pointer lists alive.
#[derive(Debug)]
pub struct PackedArgs<'a> {
    inputs: Vec<*const f32>,
    outputs: Vec<*mut f32>,
    slices: &'a KernelArgs<'a>,
}

impl PackedArgs<'_> {
    /// The raw arguments, valid as long as `self`.
    pub fn raw(&self) -> RawArgs {
        let slices = self.slices;
        RawArgs {
            indptr: slices.indptr.as_ptr(),
            indices: slices.indices.as_ptr(),
            positions: slices.positions.as_ptr(),
            ids: slices.ids.as_ptr(),
            list: slices.list.as_ptr(),
            inputs: self.inputs.as_ptr(),
            outputs: self.outputs.as_ptr(),
            scalars: slices.scalars.as_ptr(),
            keys: slices.keys.as_ptr(),
            checks: std::ptr::null(),
        }
    }
}

impl KernelArgs<'_> {
    /// Collects the pointers.
    pub fn pack(&self) -> PackedArgs<'_> {
        PackedArgs {
            inputs: self.inputs.iter().map(|b| b.ptr.cast_const()).collect(),
            outputs: self.outputs.iter().map(|b| b.ptr).collect(),
            slices: self,
        }
    }

    /// Checks that everything a verified kernel touches over `rows` lies inside the slices. Reads
    /// the topology, so it takes time proportional to rows and edges.
    pub fn check(&self, kernel: &Kernel, rows: Range<u64>) -> Result<(), ArgsError> {
        let Range { start: begin, end } = rows;
        if begin > end {
            return Err(ArgsError::Range { begin, end });
        }
        self.count(kernel)?;
        at_least("scalars", kernel.scalars.into(), self.scalars.len())?;
        at_least("mask keys", kernel.masks.len(), self.keys.len())?;
        let dense = u64::from(kernel.heads) * u64::from(kernel.width);
        if matches!(kernel.body, Body::ColReduce { .. }) {
            self.fits(("output", 0), Storage::F32, dense)?;
        }
        if begin == end {
            return Ok(());
        }
        let reach = self.reach(kernel, end, begin)?;
        for (index, operand) in kernel.inputs.iter().enumerate() {
            if let Some(last) = reach.last(operand.at) {
                let needed = elements(operand, kernel.heads, kernel.width, last);
                self.fits(("input", index), operand.storage, needed)?;
            }
        }
        if !matches!(kernel.body, Body::ColReduce { .. }) {
            let (heads, width) = result_shape(kernel);
            for (index, operand) in kernel.outputs.iter().enumerate() {
                if let Some(last) = reach.last(operand.at) {
                    let needed = elements(operand, heads, width, last);
                    self.fits(("output", index), operand.storage, needed)?;
                }
            }
        }
        for mask in &kernel.masks {
            let ends: &[At] = match mask_row(kernel, mask.at) {
                At::Edge => &[At::Src, At::Dst],
                At::Src => &[At::Src],
                At::Dst => &[At::Dst],
                _ => &[At::Row],
            };
            for last in ends.iter().filter_map(|&at| reach.last(at)) {
                at_least("vertex ids", (last + 1) as usize, self.ids.len())?;
            }
        }
        Ok(())
    }

    /// Checks the number of inputs and outputs.
    pub fn count(&self, kernel: &Kernel) -> Result<(), ArgsError> {
        at_least("inputs", kernel.inputs.len(), self.inputs.len())?;
        at_least("outputs", kernel.outputs.len(), self.outputs.len())
    }

    /// Bounds for checked code.
    pub fn checks(&self) -> Checks {
        let lists = Lists {
            indptr: MemoryRange::of(self.indptr),
            indices: MemoryRange::of(self.indices),
            positions: MemoryRange::of(self.positions),
            ids: MemoryRange::of(self.ids),
            list: MemoryRange::of(self.list),
            scalars: MemoryRange::of(self.scalars),
            keys: MemoryRange::of(self.keys),
        };
        let ranges = |buffers: &[Buffer]| -> Vec<MemoryRange> {
            let range = |buffer: &Buffer| MemoryRange::new(buffer.ptr, buffer.len);
            buffers.iter().map(range).collect()
        };
        Checks::new(&lists, &ranges(&self.inputs), &ranges(&self.outputs))
    }

    fn fits(
        &self,
        (what, index): (&'static str, usize),
        storage: Storage,
        needed: u64,
    ) -> Result<(), ArgsError> {
        let buffers = if what == "input" {
            &self.inputs
        } else {
            &self.outputs
        };
        let words = buffers.get(index).map_or(0, |b| b.len as u64);
        let found = words * u64::from(storage.in_word());
        if found < needed {
            Err(ArgsError::Short {
                what,
                index,
                needed,
                found,
            })
        } else {
            Ok(())
        }
    }

    /// The highest index of every kind that these rows touch.
    fn reach(&self, kernel: &Kernel, end: u64, begin: u64) -> Result<Reach, ArgsError> {
        let mut reach = Reach {
            row: Some(end - 1),
            ..Reach::default()
        };
        let walk = Walk::of(&kernel.body);
        if walk == Walk::Rows {
            if kernel.inputs.iter().any(|operand| operand.at == At::List) {
                at_least("row list entries", end as usize, self.list.len())?;
                reach.list = self.list[begin as usize..end as usize]
                    .iter()
                    .max()
                    .map(|&v| v.into());
            }
            return Ok(reach);
        }
        at_least("row offsets", end as usize + 1, self.indptr.len())?;
        let offsets = &self.indptr[begin as usize..=end as usize];
        if let Some(row) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(ArgsError::Offsets {
                row: begin + row as u64,
            });
        }
        let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
        at_least("neighbor indices", last, self.indices.len())?;
        let other = self.indices[first..last]
            .iter()
            .max()
            .map(|&v| u64::from(v));
        if walk == Walk::EdgesByType {
            reach.edge = other;
        } else if walk == Walk::EdgesBySource {
            let uses_edges = kernel.uses(At::Edge);
            if uses_edges {
                at_least("edge positions", last, self.positions.len())?;
                reach.edge = self.positions[first..last].iter().max().map(|&v| v.into());
            }
            (reach.src, reach.dst) = (reach.row, other);
        } else {
            reach.edge = (last > first).then(|| last as u64 - 1);
            (reach.src, reach.dst) = (other, reach.row);
            if walk == Walk::Edges {
                reach.row = reach.edge;
            }
        }
        Ok(reach)
    }
}

#[derive(Default)]
struct Reach {
    row: Option<u64>,
    src: Option<u64>,
    dst: Option<u64>,
    edge: Option<u64>,
    list: Option<u64>,
}

impl Reach {
    fn last(&self, at: At) -> Option<u64> {
        match at {
            At::Row => self.row,
            At::Src => self.src,
            At::Dst => self.dst,
            At::Edge => self.edge,
            At::One => Some(0),
            At::List => self.list,
        }
    }
}

/// Elements from the start of a buffer to the end of row `last`.
fn elements(operand: &Operand, heads: u32, width: u32, last: u64) -> u64 {
    let step = |count: u32, step: u32| u64::from(count.saturating_sub(1)) * u64::from(step);
    let row = if operand.at == At::One {
        0
    } else {
        last * u64::from(operand.stride)
    };
    let places = operand
        .picked
        .map_or(0, |picked| step(picked.count, picked.step));
    row + places
        + u64::from(operand.offset)
        + step(heads, operand.head_step)
        + step(width, operand.column_step)
        + 1
}

fn at_least(what: &'static str, needed: usize, found: usize) -> Result<(), ArgsError> {
    if found < needed {
        return Err(ArgsError::Missing {
            what,
            needed: needed as u64,
            found: found as u64,
        });
    }
    Ok(())
}
