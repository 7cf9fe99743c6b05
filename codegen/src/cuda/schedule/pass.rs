//! How the passes over edges are laid over threads, and what their chunks leave behind.

use super::{ACCUMULATORS, ROW_LANES, Shape, WARP};
use gnnc_ir::kernel::expr::Expr;
use gnnc_ir::kernel::{EdgePass, EdgeResult, Kernel};

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

/// The columns of a head that the threads of a team are laid along; 1 if nothing differs from
/// column to column.
fn columns(kernel: &Kernel, pass: &EdgePass) -> u32 {
    let dots = pass.numbers.iter().any(|number| number.dot);
    let wide = kernel.outputs.iter().any(|output| output.column_step != 0);
    if dots || wide { kernel.width } else { 1 }
}

/// Vectors of a head per thread; those of a slab of sums may be fewer.
pub(crate) fn vectors(kernel: &Kernel, pass: &EdgePass, shape: Shape) -> u32 {
    let groups = columns(kernel, pass).div_ceil(shape.vector);
    groups.div_ceil(shape.lanes)
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
    use gnnc_ir::kernel::{At, Body, EdgeNumber, End, Operand};
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
