//! Counts of products, of sparse features, and of losses.

use super::vectors::Vectors;
use super::{CACHE_LINE, DRAW, EDGE, EXP, FINISH, LANE, LINE, ROW, SLOW, Terms, VECTOR};
use crate::program::work::Stored;
use crate::program::{Launch, Product, Program, RankSizes};

/// Floats per vector in a product.
const LANES: u64 = 16;
/// Columns up to which products use another blocking, and vectors of the result kept in
/// registers at a time.
const NARROW: u64 = 64;
const TILE: f64 = 24.0;

/// A product of two dense matrices, `rows x inner x columns`.
pub(in crate::program) struct DenseProduct {
    pub(in crate::program) product: Product,
    pub(in crate::program) rows: u64,
    pub(in crate::program) inner: u64,
    pub(in crate::program) columns: u64,
    /// Bytes of an element of `a`.
    pub(in crate::program) a: u64,
    /// Bytes of an element of the other matrix with as many rows.
    pub(in crate::program) other: u64,
}

/// A product with sparse features, which have `inner` columns.
pub(in crate::program) struct SparseProduct {
    pub(in crate::program) product: Product,
    pub(in crate::program) stored: Stored,
    pub(in crate::program) inner: u64,
    /// Columns of the result.
    pub(in crate::program) columns: u64,
    /// Bytes of an element of the dense factor.
    pub(in crate::program) read: u64,
    /// Bytes of an element of the result.
    pub(in crate::program) written: u64,
}

impl Terms {
    /// Counts a product. `a` and the other equally long matrix are streamed.
    pub(in crate::program) fn product(&mut self, one: &DenseProduct) -> &'static str {
        let DenseProduct {
            product,
            rows,
            inner,
            columns,
            a,
            other,
        } = *one;
        let result = match product {
            Product::Nn | Product::Nt => rows,
            Product::Tn => inner,
        };
        self.counts[ROW] = rows as f64;
        self.counts[VECTOR] = (rows * inner * columns.div_ceil(LANES)) as f64;
        // The matrix with `inner` rows is packed or summed again.
        self.counts[EDGE] = (inner * columns.div_ceil(LANES)) as f64;
        self.counts[FINISH] += (result * columns.div_ceil(LANES)) as f64;
        self.stream(rows * (a * inner + other * columns));
        // The rows of `a` have scattered starts.
        self.wait(rows as f64, self.reach);
        if columns <= NARROW {
            // One factor of each multiply-add is a scalar; the smaller matrix is read once per
            // tile of rows.
            self.counts[LANE] = (rows * inner) as f64;
            let width = columns.div_ceil(LANES);
            let lines = (rows * inner * width * width) as f64 / TILE;
            self.spread(LINE, lines, inner * width * CACHE_LINE);
        }
        let groups = match product {
            Product::Nn => ["gemm-nn-thin", "gemm-nn", "gemm-nn-wide"],
            Product::Nt => ["gemm-nt-thin", "gemm-nt", "gemm-nt-wide"],
            Product::Tn => ["gemm-tn-thin", "gemm-tn", "gemm-tn-wide"],
        };
        let [thin, narrow, wide] = groups;
        match columns {
            // Loaded data is used once: loads take longer than operations.
            _ if columns <= LANES => thin,
            _ if columns <= NARROW => narrow,
            _ => wide,
        }
    }

    /// Counts a product's finishing kernel.
    pub(in crate::program) fn finish(
        &mut self,
        program: &Program,
        launch: &Launch,
        sizes: &RankSizes,
    ) {
        let vectors = Vectors::of(program.kernel(launch.kernel));
        let rows = sizes.rows(launch.rows) as f64;
        self.counts[FINISH] += rows * vectors.vector;
        self.counts[SLOW] += rows * vectors.slow;
        self.counts[DRAW] += rows * vectors.draw;
        self.counts[EXP] += rows * vectors.exp;
    }

    /// Counts dropout of the non-zeros of some rows.
    pub(in crate::program) fn sparse_dropout(&mut self, stored: Stored) -> &'static str {
        let Stored { rows, nonzeros } = stored;
        self.counts[ROW] = rows as f64;
        self.counts[DRAW] = nonzeros as f64;
        self.stream(12 * nonzeros);
        "copy"
    }

    /// Counts expanding the non-zeros of some rows to a matrix of `written` bytes.
    pub(in crate::program) fn densify(&mut self, stored: Stored, written: u64) -> &'static str {
        let Stored { rows, nonzeros } = stored;
        self.counts[ROW] = rows as f64;
        self.counts[EDGE] = nonzeros as f64;
        self.stream(8 * nonzeros + written);
        "copy"
    }

    /// Counts a loss over `rows` vertices; `meant` of them are trained on.
    pub(in crate::program) fn loss(&mut self, rows: u64, meant: u64, classes: u32) -> &'static str {
        let classes = u64::from(classes);
        self.counts[ROW] = rows as f64;
        self.counts[EDGE] = meant as f64;
        self.counts[EXP] = (meant * classes) as f64;
        self.stream(4 * (rows + meant) * classes);
        "loss"
    }

    /// Counts a product with sparse features.
    pub(in crate::program) fn sparse(&mut self, one: &SparseProduct) -> &'static str {
        let SparseProduct {
            product,
            stored,
            inner,
            columns,
            read,
            written,
        } = *one;
        let nonzeros = stored.nonzeros;
        let (rows, others) = match product {
            Product::Tn => (inner, stored.rows),
            Product::Nn | Product::Nt => (stored.rows, inner),
        };
        self.counts[ROW] = rows as f64;
        self.counts[EDGE] = nonzeros as f64;
        self.counts[VECTOR] = (nonzeros * columns.div_ceil(4)) as f64;
        self.stream(8 * nonzeros + written * rows * columns);
        self.pick(nonzeros, read * columns, read * others * columns);
        match product {
            Product::Tn => {
                self.wait(nonzeros as f64, 4 * nonzeros);
                "sparse-gemm-tn"
            }
            Product::Nn | Product::Nt => "sparse-gemm-nn",
        }
    }
}
