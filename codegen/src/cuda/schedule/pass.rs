//! How the passes over edges are laid over threads, and what their chunks leave behind.

use super::{ACCUMULATORS, RESIDENT, ROW_LANES, Schedule, Shape, WARP};
use gnnc_ir::kernel::expr::Expr;
use gnnc_ir::kernel::flatten::flatten;
use gnnc_ir::kernel::{Body, EdgePass, EdgeResult, Kernel};

/// Floats in flight per thread. Limits how many edges are taken at a time.
const UNDER_WAY: u32 = 16;
/// Floats of a dot in flight per thread. Limits how far its loop is unrolled.
const DOT_UNDER_WAY: u32 = 8;
/// Most edges that are taken at a time.
const BATCH: u32 = 4;

/// How the loop over the edges of a pass is laid over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeLoop {
    /// Edges that a thread takes at a time.
    pub edges: u32,
    /// Threads along the columns of a head.
    pub lanes: u32,
    /// Parts of a head that different blocks compute.
    pub slabs: u32,
    /// Rounds of the loop over the vectors of a dot; 1 if it is unrolled completely.
    pub dot_rounds: u32,
}

impl EdgeLoop {
    /// The loop of a kernel; `None` if the kernel is not a pass over edges.
    pub fn of(kernel: &Kernel) -> Option<Self> {
        let kernel = flatten(kernel);
        let Body::EdgePass(pass) = &kernel.body else {
            return None;
        };
        let shape = Schedule::of(&kernel, "").shape;
        Some(Self {
            edges: batch(&kernel, pass, shape),
            lanes: shape.lanes,
            slabs: shape.slabs,
            dot_rounds: if has_dots(pass) {
                vectors(&kernel, pass, shape).div_ceil(dot_unroll(shape))
            } else {
                1
            },
        })
    }
}

/// A sum of a pass.
pub(crate) struct Sum<'a> {
    /// Its number among the results.
    pub result: usize,
    /// What one edge brings.
    pub value: &'a Expr,
    /// Applied to the sum.
    pub finish: &'a Expr,
    /// Whether it has the columns of the head, not just one.
    pub wide: bool,
    /// Its first float in what a chunk leaves behind for a head.
    pub first: u64,
}

/// The sums of a pass, and the number of floats that a chunk leaves behind for a head: the maximum
/// and the sum of the softmax, if there is one, then the sums.
pub(crate) fn sums<'a>(kernel: &Kernel, pass: &'a EdgePass) -> (Vec<Sum<'a>>, u64) {
    let mut floats = if pass.softmax.is_some() { 2 } else { 0 };
    let mut sums = Vec::new();
    let results = pass.results.iter().zip(&kernel.outputs);
    for (result, (what, output)) in results.enumerate() {
        let EdgeResult::Sum { value, finish } = what else {
            continue;
        };
        let wide = output.column_step != 0;
        sums.push(Sum {
            result,
            value,
            finish,
            wide,
            first: floats,
        });
        floats += if wide { kernel.width.into() } else { 1 };
    }
    (sums, floats)
}

fn has_dots(pass: &EdgePass) -> bool {
    pass.numbers.iter().any(|number| number.dot)
}

/// The columns of a head that the threads of a team are laid along; 1 if nothing differs from
/// column to column.
fn columns(kernel: &Kernel, pass: &EdgePass) -> u32 {
    let wide = kernel.outputs.iter().any(|output| output.column_step != 0);
    if has_dots(pass) || wide {
        kernel.width
    } else {
        1
    }
}

/// Vectors of a head per thread; those of a slab of sums may be fewer.
pub(crate) fn vectors(kernel: &Kernel, pass: &EdgePass, shape: Shape) -> u32 {
    let groups = columns(kernel, pass).div_ceil(shape.vector);
    groups.div_ceil(shape.lanes)
}

/// Whether some of a team's vectors, `tiles` per thread, lie beyond the end of the head.
pub(crate) fn vectors_beyond(kernel: &Kernel, shape: Shape, tiles: u32) -> bool {
    let step = shape.lanes * shape.vector;
    u64::from(step) * u64::from(tiles) != u64::from(kernel.width)
}

/// Edges that are taken at a time, a power of 2.
pub(crate) fn batch(kernel: &Kernel, pass: &EdgePass, shape: Shape) -> u32 {
    let (tiles, slabs) = if has_dots(pass) {
        (vectors(kernel, pass, shape), 1)
    } else {
        (shape.tiles, shape.slabs)
    };
    // Comparisons and addresses take registers too, as in a gather.
    let picks = kernel.inputs.iter().any(|input| input.picked.is_some());
    // So does a vector of 16-bit elements, which holds eight.
    let halves = shape.vector > 4;
    let halved = picks || halves || vectors_beyond(kernel, shape, tiles * slabs);
    let under_way = if halved { UNDER_WAY / 2 } else { UNDER_WAY };
    let edges = (under_way / (tiles * shape.vector)).clamp(1, BATCH);
    1 << edges.ilog2()
}

/// Blocks a multiprocessor should hold at once. With fewer, a thread has more registers.
pub(crate) fn resident(kernel: &Kernel, shape: Shape) -> u32 {
    match &kernel.body {
        // If a warp takes the row of a head, the compiler keeps it in registers from the dot to the
        // sums: up to 107 of them, which the tables of `tests/cuda/passes.rs` show.
        Body::EdgePass(pass) if has_dots(pass) && shape.lanes == WARP => RESIDENT / 2,
        Body::EdgePass(_)
        | Body::Map { .. }
        | Body::Gather { .. }
        | Body::TypeSum { .. }
        | Body::RowReduce { .. }
        | Body::ColReduce { .. } => RESIDENT,
    }
}

/// How many vectors of a dot the loop over them takes at a time.
pub(crate) fn dot_unroll(shape: Shape) -> u32 {
    (DOT_UNDER_WAY / shape.vector).max(1)
}

/// The shape of a team for one head of a row. The teams of a narrow row's heads lie side by side,
/// so that the fewer the heads, the more groups share the edges.
pub(super) fn pass_shape(kernel: &Kernel, pass: &EdgePass, vector: u32) -> Shape {
    let columns = columns(kernel, pass);
    let vector = if columns == 1 { 1 } else { vector };
    let groups = columns / vector;
    let lanes = groups.next_power_of_two().min(WARP);
    let vectors = groups.div_ceil(lanes);
    let (sums, _) = sums(kernel, pass);
    let wide = sums.iter().filter(|sum| sum.wide).count() as u32;
    let slabs = match wide {
        0 => 1,
        wide => vectors.div_ceil((ACCUMULATORS / (vector * wide)).max(1)),
    };
    let side_by_side = kernel.heads.next_power_of_two().min(WARP);
    Shape {
        vector,
        lanes,
        apart: (ROW_LANES / (lanes * side_by_side)).max(1),
        tiles: vectors.div_ceil(slabs),
        slabs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnnc_ir::kernel::expr::Value;
    use gnnc_ir::kernel::{At, EdgeNumber, End, Operand};
    use gnnc_ir::words::types::EdgeSet;

    fn pass(heads: u32, width: u32, wide: usize) -> Kernel {
        let load = || Expr::leaf(Value::Load(0));
        let result = EdgeResult::Sum {
            value: load(),
            finish: Expr::leaf(Value::Acc),
        };
        let number = EdgeNumber {
            value: load(),
            dot: true,
        };
        let pass = EdgePass {
            set: EdgeSet::Plain,
            to: End::Dst,
            numbers: vec![number],
            softmax: Some(0),
            results: vec![result; wide],
        };
        Kernel {
            body: Body::EdgePass(pass),
            heads,
            width,
            inputs: vec![Operand::dense(At::Src, heads, width)],
            outputs: vec![Operand::dense(At::Row, heads, width); wide],
            masks: Vec::new(),
            scalars: 0,
        }
    }

    #[test]
    fn shapes_cover_all_columns_of_a_head() {
        for width in 1..3000 {
            for (heads, vector, wide) in [(1, 1, 1), (1, 2, 2), (3, 4, 3), (8, 8, 1), (64, 4, 20)] {
                if width % vector != 0 {
                    continue;
                }
                let kernel = pass(heads, width, wide);
                let Body::EdgePass(of) = &kernel.body else {
                    continue;
                };
                let shape = pass_shape(&kernel, of, vector);
                let slab = shape.vector * shape.lanes * shape.tiles;
                assert!(slab * shape.slabs >= width, "{width} {shape:?}");
                assert!(slab * (shape.slabs - 1) < width, "{width} {shape:?}");
                let floats = shape.tiles * shape.vector * wide as u32;
                assert!(
                    floats <= ACCUMULATORS || shape.tiles == 1,
                    "{width} {shape:?}"
                );
                assert!(shape.lanes * shape.apart <= WARP);
                let every = shape.vector * shape.lanes * vectors(&kernel, of, shape);
                assert!(every >= width, "{width} {shape:?}");
            }
        }
    }

    #[test]
    fn a_chunk_leaves_softmax_and_sums_behind() {
        let kernel = pass(2, 5, 2);
        let Body::EdgePass(of) = &kernel.body else {
            return;
        };
        let (sums, floats) = sums(&kernel, of);
        assert_eq!(floats, 12);
        assert_eq!(sums.iter().map(|sum| sum.first).collect::<Vec<_>>(), [2, 7]);
    }
}
