//! Dense products.

use super::{Instruction, Launch, Operand, Use};
pub use crate::graph::op::Product;
use crate::program::access::{Touched, over};
use crate::program::leaves::leaves;
use crate::program::memory::{at_once, most_product_blocks, product_block};
use crate::program::text::line::{after, factor_and_result, matrix, matrix_at};
use crate::program::text::{Reader, Text, TextError};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, DenseProduct, KernelClass, Terms, Work, add_finish, element};
use crate::program::{Capacity, Chunk, Extent, Matrix, Program, RankSizes, Ref};
use crate::words::units::{Bytes, Flops};
use serde::{Deserialize, Serialize};

/// Dense product: `out = a . b` (or a transposed form). `rows` is the extent of `a`'s
/// rows; `inner` the summed size of `Nn` and `Nt`; for `Tn`, `a` is `rows x inner`
/// and `out` is `inner x columns`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatMul {
    /// Which product.
    pub product: Product,
    /// First operand.
    pub a: Matrix,
    /// Second operand.
    pub b: Matrix,
    /// Result.
    pub out: Matrix,
    /// Rows of `a`.
    pub rows: Extent,
    /// Columns of `a`.
    pub inner: u32,
    /// Columns of the result.
    pub columns: u32,
    /// An element-wise kernel over the rows of the result, fused into the product.
    pub finish: Option<Launch>,
    /// The chunk of rows that it is restricted to, as its finishing kernel is; all if none. `Tn` adds to
    /// what it gave for the chunks before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Chunk>,
}

impl Instruction for MatMul {
    fn name(&self, _: &Program) -> &'static str {
        "gemm"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        let of_rows = self.chunk.map_or(over(self.rows), Touched::of);
        let transposed = self.product == Product::Tn;
        let one = |matrix: &Matrix, by_rows: bool| Use::Matrix {
            rows: if by_rows { of_rows } else { Touched::All },
            by_rows,
            stride: matrix.stride,
        };
        visit(Operand::read(self.a.at, one(&self.a, true)));
        visit(Operand::read(self.b.at, one(&self.b, transposed)));
        visit(Operand::write(self.out.at, one(&self.out, !transposed)));
        // What the product wrote, the kernel that finishes it may read.
        if let Some(finish) = &self.finish {
            finish.operands(visit);
        }
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        for matrix in [&mut self.a, &mut self.b, &mut self.out] {
            visit(&mut matrix.at);
        }
        if let Some(launch) = &mut self.finish {
            launch.each_ref(visit);
        }
    }

    fn check(&self, check: &Check) -> Checked {
        check.product(self)
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        self.product != Product::Tn
    }

    fn over_whole_graph(&self) -> bool {
        self.rows.of_whole_graph()
    }

    fn work(&self, counts: &Counts, sizes: &RankSizes) -> Option<Work> {
        let Self { a, b, out, .. } = self;
        let (rows, inner, columns) = self.shape(sizes);
        let (right, result) = match self.product {
            Product::Nn | Product::Nt => (inner * columns, rows * columns),
            Product::Tn => (rows * columns, inner * columns),
        };
        let bytes = |at: Ref| element(counts.program, at);
        let mut total = Work {
            class: KernelClass::Gemm,
            flops: Flops(2.0 * rows as f64 * inner as f64 * columns as f64),
            read: Bytes(rows * inner * bytes(a.at) + right * bytes(b.at)),
            written: Bytes(result * bytes(out.at)),
        };
        if let (Some(launch), Some(kernel)) = (&self.finish, &counts.kernel) {
            add_finish(&mut total, kernel, launch, out.at, sizes);
        }
        Some(total)
    }

    fn demand(
        &self,
        terms: &mut Terms,
        program: &Program,
        sizes: &RankSizes,
    ) -> Option<&'static str> {
        if let Some(launch) = &self.finish {
            terms.finish(program, launch, sizes);
        }
        let other = match self.product {
            Product::Nn | Product::Nt => self.out.at,
            Product::Tn => self.b.at,
        };
        let (rows, inner, columns) = self.shape(sizes);
        Some(terms.product(&DenseProduct {
            product: self.product,
            rows,
            inner,
            columns,
            a: element(program, self.a.at),
            other: element(program, other),
        }))
    }

    fn print(&self, program: &Program) -> String {
        let mut text = format!(
            "gemm {} {} . {} -> {}, {} x {} x {}",
            self.product.text(),
            matrix(&self.a, program),
            matrix(&self.b, program),
            matrix(&self.out, program),
            self.rows.text(),
            self.inner,
            self.columns,
        );
        text += &after(", ", self.chunk.as_ref());
        if let Some(launch) = &self.finish {
            text += &format!(", then {}", launch.print(program));
        }
        text
    }

    fn launch(&self) -> Option<&Launch> {
        self.finish.as_ref()
    }

    fn launch_mut(&mut self) -> Option<&mut Launch> {
        self.finish.as_mut()
    }

    fn chunk(&self) -> Option<Chunk> {
        self.chunk
    }

    fn set_chunk(&mut self, to: Chunk) {
        self.chunk = Some(to);
        self.finish
            .iter_mut()
            .for_each(|launch| launch.set_chunk(to));
    }

    fn each_access(&self, visit: &mut dyn FnMut(&Ref, bool)) {
        let finish = self.finish.as_slice();
        visit(&self.a.at, false);
        visit(&self.b.at, false);
        for launch in finish {
            let reads = launch.inputs.iter().chain(&launch.lists);
            reads.for_each(|at| visit(at, false));
        }
        visit(&self.out.at, true);
        for launch in finish {
            launch.outputs.iter().for_each(|at| visit(at, true));
        }
    }

    fn scratch_floats(&self, program: &Program, capacity: &Capacity) -> u64 {
        if self.product != Product::Tn {
            return 0;
        }
        let (rows, inner, columns) = self.shape(capacity.most());
        if program.sums_leaves(self.rows) {
            let leaves = u64::from(leaves(capacity.most().vertices));
            return leaves.saturating_mul(inner).saturating_mul(columns);
        }
        let blocks = match self.rows.of_batch() {
            true => most_product_blocks(rows),
            false => at_once(self.chunk, self.rows, capacity).div_ceil(product_block(rows)),
        };
        match blocks {
            0 | 1 if self.chunk.is_none() => 0,
            blocks => blocks.max(1).saturating_mul(inner).saturating_mul(columns),
        }
    }
}

impl MatMul {
    /// Rows of `a`, its columns, and columns of the result on a rank of these sizes.
    fn shape(&self, sizes: &RankSizes) -> (u64, u64, u64) {
        let (inner, columns) = (u64::from(self.inner), u64::from(self.columns));
        (sizes.rows(self.rows), inner, columns)
    }

    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let product = Product::parse(from)?;
        let a = matrix_at(from)?;
        let (b, out) = factor_and_result(from)?;
        from.expect(",")?;
        let rows = Extent::parse(from)?;
        from.expect("x")?;
        let inner = from.number()?;
        from.expect("x")?;
        let columns = from.number()?;
        let (mut chunk, mut finish) = (None, None);
        while from.skip(",") {
            if from.skip("then") {
                let name = from.word("a kernel's name")?;
                finish = Some(Launch::parse(from, name)?);
                break;
            }
            chunk = Some(Chunk::parse(from)?);
        }
        Ok(Self {
            product,
            a,
            b,
            out,
            rows,
            inner,
            columns,
            finish,
            chunk,
        })
    }
}
