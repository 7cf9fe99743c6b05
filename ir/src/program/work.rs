//! Cost of one instruction on a rank: floating-point operations and bytes, counted from its
//! specification.
//!
//! Bytes are what the loop nest requests: a row gathered once per edge counts once per edge,
//! whatever caches save. [`Counts::picks`] tells which rows these are, and
//! [`crate::cluster::Device::memory_seconds`] what of them comes from memory. Fused values are not counted. A fused multiply-add counts as two
//! operations; exponentials and dropout draws count as [`TRANSCENDENTAL`].

mod class;
mod counts;
mod demand;
mod picks;
mod strips;

pub use class::KernelClass;
pub use counts::Counts;
use counts::{Counted, loads};
pub use demand::{Demand, GROUPS, MESSAGES, TERM_COUNT, TERMS, demand};
pub(in crate::program) use demand::{DenseProduct, SparseProduct, Terms};
pub use picks::{Pick, sectors};
pub use strips::strips;

use crate::graph::op::Loss;
use crate::kernel::{At, Axis, Body, End, Kernel, Operand, Over, Walk};
use crate::program::{Extent, Instr, Launch, Program, RankSizes, Ref};
use crate::words::units::{Bytes, Flops};
use std::borrow::Cow;

/// Operations counted for an exponential, a logarithm or a dropout draw.
pub const TRANSCENDENTAL: f64 = 8.0;
/// Bytes per float.
pub(in crate::program) const FLOAT: u64 = 4;
/// Bytes per vertex or edge index.
pub(in crate::program) const INDEX: u64 = 4;
/// Bytes that a read at a random place takes from memory at least: a cache line.
pub(in crate::program) const LINE: u64 = 64;
/// Bytes per row offset.
pub(in crate::program) const OFFSET: u64 = 8;

/// The cost of one instruction on one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// The class whose efficiency applies.
    pub class: KernelClass,
    /// Floating-point operations.
    pub flops: Flops,
    /// Bytes read.
    pub read: Bytes,
    /// Bytes written.
    pub written: Bytes,
}

/// The cost of an instruction on a rank of these sizes; `None` for loops and for instructions
/// that communicate.
pub fn work(program: &Program, instr: &Instr, sizes: &RankSizes) -> Option<Work> {
    Counts::of(program, instr).work(sizes)
}

/// Bytes per element of a buffer.
pub(in crate::program) fn element(program: &Program, at: Ref) -> u64 {
    program.buffer(at.buffer).storage.bytes()
}

pub(in crate::program) fn copy(read: u64, written: u64) -> Work {
    Work {
        class: KernelClass::Copy,
        flops: Flops(0.0),
        read: Bytes(read),
        written: Bytes(written),
    }
}

/// What is stored of sparse features.
#[derive(Clone, Copy)]
pub(in crate::program) struct Stored {
    pub(in crate::program) rows: u64,
    pub(in crate::program) nonzeros: u64,
}

/// Rows and non-zeros of the sparse features whose values are in a buffer.
pub(in crate::program) fn stored(program: &Program, values: Ref, sizes: &RankSizes) -> Stored {
    Stored {
        rows: sizes.rows(program.sparse_rows(values)),
        nonzeros: program.buffer(values.buffer).slot_elements(sizes),
    }
}

/// The sizes that an instruction works on: those of its chunk, if it has one.
fn launched<'a>(instr: &Instr, sizes: &'a RankSizes) -> Cow<'a, RankSizes> {
    match instr.chunk() {
        Some(chunk) => Cow::Owned(chunk.sizes(sizes)),
        None => Cow::Borrowed(sizes),
    }
}

/// Bytes of labels (an integer per vertex, or a float per class) and of the split (a byte per
/// vertex).
pub(in crate::program) fn label_bytes(loss: &Loss, vertices: u64, classes: u32) -> u64 {
    vertices * (FLOAT * u64::from(loss.per_vertex(classes)) + 1)
}

/// Adds what a fused element-wise kernel reads and writes in addition to the product's own
/// matrices.
pub(in crate::program) fn add_finish(
    total: &mut Work,
    counted: &Counted,
    launch: &Launch,
    result: Ref,
    sizes: &RankSizes,
) {
    let kernel = counted.kernel;
    let nest = Nest::new(kernel, launch.rows, sizes);
    let loads = counted.loads.iter();
    let read = loads
        .filter(|n| launch.inputs.get(**n as usize) != Some(&result))
        .map(|n| nest.load_bytes(kernel, *n))
        .sum::<u64>();
    let outputs = kernel.outputs.iter().zip(&launch.outputs);
    let written: u64 = outputs
        .filter(|(_, at): &(_, &Ref)| **at != result)
        .map(|(o, _)| nest.rows * distinct(kernel, o) * o.storage.bytes())
        .sum();
    total.flops += nest.flops(counted);
    total.read += Bytes(read);
    total.written += Bytes(written);
}

pub(in crate::program) fn launch_work(
    counted: &Counted,
    launch: &Launch,
    sizes: &RankSizes,
) -> Work {
    let Counted { kernel, loads, .. } = counted;
    let nest = Nest::new(kernel, launch.rows, sizes);
    let read: u64 = loads.iter().map(|n| nest.load_bytes(kernel, *n)).sum();
    let written: u64 = kernel
        .outputs
        .iter()
        .map(|o| nest.output_bytes(kernel, o))
        .sum();
    let class = match &kernel.body {
        Body::EdgePass(_) => KernelClass::EdgePass,
        Body::Gather { to: End::Dst, .. } => KernelClass::Spmm,
        Body::Gather { to: End::Src, .. } => KernelClass::SpmmT,
        Body::Map {
            over: Over::Rows, ..
        } => KernelClass::Map,
        Body::Map {
            over: Over::Edges(_),
            ..
        }
        | Body::RowReduce {
            over: Over::Edges(_),
            ..
        } => KernelClass::Edges,
        Body::RowReduce { .. } | Body::ColReduce { .. } | Body::TypeSum { .. } => {
            KernelClass::Reduce
        }
    };
    Work {
        class,
        flops: nest.flops(counted),
        read: Bytes(read + nest.structure_bytes(kernel, loads)),
        written: Bytes(written),
    }
}

/// How often the parts of a kernel's loop nest run.
struct Nest {
    /// Rows of the outer loop (vertices for kernels over edges).
    rows: u64,
    /// Edges walked, including self loops (whose indices are stored too); 0 for kernels over
    /// rows.
    edges: u64,
}

impl Nest {
    fn new(kernel: &Kernel, rows: Extent, sizes: &RankSizes) -> Self {
        let edges = rows.walked(&kernel.body);
        let edges = edges.map_or(0, |edges| sizes.rows(edges));
        Self {
            rows: sizes.rows(rows),
            edges,
        }
    }

    /// How often a `Row` operand is read or written.
    fn row_count(&self, kernel: &Kernel) -> u64 {
        match &kernel.body {
            body if Walk::of(body).by_vertex() => self.rows,
            body if body.edge_set().is_some() => self.edges,
            _ => self.rows,
        }
    }

    /// Bytes read for input `n` of the kernel.
    fn load_bytes(&self, kernel: &Kernel, n: u16) -> u64 {
        let Some(operand) = kernel.inputs.get(n as usize) else {
            return 0;
        };
        let bytes = distinct(kernel, operand) * operand.storage.bytes();
        // The vertex that edges are grouped by is read once for all its edges.
        let grouped = Walk::of(&kernel.body).end();
        // A table is read once as a whole; a vertex's own row is read at one place per edge.
        if let Some(picked) = operand.picked {
            return match operand.at {
                At::One => bytes * u64::from(picked.count),
                _ => bytes * self.edges,
            };
        }
        let times = match operand.at {
            At::Row => self.row_count(kernel),
            At::One => 1,
            At::Edge => self.edges,
            At::Src if grouped == End::Src => self.rows,
            At::Dst if grouped == End::Dst => self.rows,
            At::Src | At::Dst => self.edges,
            At::List => return self.rows * (bytes + INDEX),
        };
        times * bytes
    }

    /// Bytes written for an output.
    fn output_bytes(&self, kernel: &Kernel, operand: &Operand) -> u64 {
        if let Some(picked) = operand.picked {
            // Zeros at all places of a row, then a sum that each edge reads and writes.
            let row = distinct(kernel, operand) * operand.storage.bytes();
            return (self.rows * u64::from(picked.count) + 2 * self.edges) * row;
        }
        let rows = match &kernel.body {
            Body::ColReduce { .. } => 1,
            Body::TypeSum { types, .. } => u64::from(*types),
            Body::EdgePass(_) if operand.at == At::Edge => self.edges,
            _ => self.row_count(kernel),
        };
        let (heads, width) = (u64::from(kernel.heads), u64::from(kernel.width));
        let floats = match &kernel.body {
            Body::RowReduce {
                axis: Axis::Width, ..
            } => heads,
            Body::RowReduce {
                axis: Axis::Heads, ..
            } => width,
            _ => distinct(kernel, operand),
        };
        rows * floats * operand.storage.bytes()
    }

    /// Bytes of offsets, indices and permutation read while walking the edges.
    fn structure_bytes(&self, kernel: &Kernel, loads: &[u16]) -> u64 {
        if kernel.body.edge_set().is_none() {
            return 0;
        }
        let reads = |at: At| {
            let loaded = loads.iter().filter_map(|n| kernel.inputs.get(*n as usize));
            loaded.into_iter().any(|o| o.at == at) || kernel.masks.iter().any(|m| m.at == at)
        };
        let offsets = (self.rows + 1) * OFFSET;
        match &kernel.body {
            body if Walk::of(body).by_vertex() => {
                let writes = kernel.outputs.iter().any(|o| o.at == At::Edge);
                let by_source = Walk::of(body) == Walk::EdgesBySource;
                let permuted = by_source && (reads(At::Edge) || writes);
                offsets + self.edges * INDEX * (1 + u64::from(permuted))
            }
            // The edges of each type are listed.
            Body::TypeSum { types, .. } => (u64::from(*types) + 1) * OFFSET + self.edges * INDEX,
            _ if reads(At::Src) => offsets + self.edges * INDEX,
            _ if reads(At::Dst) => offsets,
            _ => 0,
        }
    }

    fn flops(&self, counted: &Counted) -> Flops {
        let kernel = counted.kernel;
        let (heads, width) = (kernel.heads as f64, kernel.width as f64);
        let (rows, edges) = (self.rows as f64, self.edges as f64);
        let inner = self.row_count(kernel) as f64;
        let count = match &kernel.body {
            Body::Map { .. } => inner * heads * width * counted.inner,
            Body::Gather { .. } => {
                heads * width * (edges * (counted.inner + 1.0) + rows * counted.finish)
            }
            Body::RowReduce { axis, .. } => {
                let kept = match axis {
                    Axis::Width => heads,
                    Axis::Heads => width,
                };
                inner * (heads * width * (counted.inner + 1.0) + kept * counted.finish)
            }
            Body::ColReduce { .. } | Body::TypeSum { .. } => {
                inner * heads * width * (counted.inner + 1.0)
            }
            Body::EdgePass(pass) => counts::pass_flops(kernel, pass, [rows, edges]),
        };
        Flops(count)
    }
}

/// Distinct floats of one row that an operand's steps reach.
fn distinct(kernel: &Kernel, operand: &Operand) -> u64 {
    let heads = if operand.head_step == 0 {
        1
    } else {
        u64::from(kernel.heads)
    };
    let width = if operand.column_step == 0 {
        1
    } else {
        u64::from(kernel.width)
    };
    heads * width
}

#[cfg(test)]
mod tests;
