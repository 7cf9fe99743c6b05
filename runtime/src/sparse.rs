//! Products with sparse input features, and their dropout. Processors multiply with
//! [`crate::gemm::sparse`], GPUs with kernels that treat nonzeros as edges from features to vertices.

use crate::arena::Span;
use crate::fault::Fault;
use crate::gemm::Dense;
use crate::gemm::sparse::{Nonzeros, SparseMultiply};
use crate::leaves::Leaves;
use crate::part::features::FeatureRows;
use crate::team::Team;
use gnnc_graph::Csr;
use gnnc_ir::Binary;
use gnnc_ir::EdgeSet;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, End, Kernel, Operand, Reduce, draw, drop_threshold, vertex_hash};
use gnnc_ir::program::instr;
use gnnc_ir::program::{Instr, Matrix, Product, Program};
use gnnc_ir::words::storage::Storage;
use std::ops::Range;

/// The key of a sparse product's kernel: product, columns, and strides and storage of operand and
/// result.
pub(crate) type Key = (Product, u32, [(u32, Storage); 2]);

/// The sparse products of a program, each with the index of an instruction in its list.
pub(crate) fn keys(program: &Program) -> Vec<(usize, Key)> {
    let mut keys = Vec::new();
    for instrs in [&program.setup, &program.step, &program.eval] {
        collect(program, instrs, &mut keys);
    }
    keys
}

fn collect(program: &Program, instrs: &[Instr], keys: &mut Vec<(usize, Key)>) {
    for (at, instr) in instrs.iter().enumerate() {
        if let Instr::SparseMatMul(instr::SparseMatMul {
            product,
            b,
            out,
            columns,
            ..
        }) = instr
            && *columns > 0
        {
            keys.push((at, key(program, *product, *columns, [b, out])));
        }
        collect(program, instr.body().unwrap_or_default(), keys);
    }
}

/// The key of a product with this operand and result.
pub(crate) fn key(program: &Program, product: Product, columns: u32, ends: [&Matrix; 2]) -> Key {
    let of = |matrix: &Matrix| (matrix.stride, program.buffer(matrix.at.buffer).storage);
    (product, columns, ends.map(of))
}

/// `out[row] =` sum of `value * b[other end]` over the nonzeros of the row (or column).
pub(crate) fn kernel((product, columns, [b, out]): Key) -> Kernel {
    let (to, other) = match product {
        Product::Tn => (End::Src, At::Dst),
        Product::Nn | Product::Nt => (End::Dst, At::Src),
    };
    let column_step = u32::from(columns > 1);
    let row = |at, (stride, storage)| Operand {
        at,
        stride,
        offset: 0,
        head_step: 0,
        column_step,
        storage,
        picked: None,
    };
    let mut value = Expr::default();
    let (weight, dense) = (value.push(Value::Load(0)), value.push(Value::Load(1)));
    value.push(Value::Binary(Binary::Mul, weight, dense));
    Kernel {
        body: Body::Gather {
            set: EdgeSet::Plain,
            to,
            reduce: Reduce::Sum,
            value,
            finish: Expr::leaf(Value::Acc),
        },
        heads: 1,
        width: columns,
        inputs: vec![
            Operand {
                at: At::Edge,
                stride: 1,
                offset: 0,
                head_step: 0,
                column_step: 0,
                storage: Default::default(),
                picked: None,
            },
            row(other, b),
        ],
        outputs: vec![row(At::Row, out)],
        masks: vec![],
        scalars: 0,
    }
}

/// Features, restricted to some rows.
pub(crate) struct SomeRows<'a> {
    pub(crate) features: &'a FeatureRows,
    pub(crate) rows: Range<u64>,
}

impl SomeRows<'_> {
    /// The bounds of pieces of the rows.
    fn pieces(&self) -> Vec<u64> {
        self.features.by_row.pieces_within(&self.rows).collect()
    }
}

/// Where the result of a product goes.
pub(crate) struct Out<'a> {
    /// The result; the shares of a sum by leaf.
    pub(crate) shares: Vec<Dense>,
    /// The leaves that a sum over rows is made by.
    pub(crate) leaves: Option<&'a Leaves>,
}

/// The product of the features with a dense matrix of so many columns: for these rows, or for all if
/// transposed.
///
/// # Safety
/// Nothing else uses the result meanwhile, or writes the operands.
pub(crate) unsafe fn multiply(
    team: &Team,
    some: SomeRows,
    (product, columns): (Product, u32),
    values: Span,
    b: Dense,
    out: &Out,
) -> Result<(), Fault> {
    let Csr { indptr, indices } = &some.features.by_row.csr;
    let inner = some.features.columns as usize;
    let one = SparseMultiply {
        a: Nonzeros {
            indptr,
            indices,
            // SAFETY: nothing writes them, as the caller promised.
            values: unsafe { values.read() },
            columns: inner,
        },
        b,
        out: out.shares[0],
        columns: columns as usize,
    };
    // SAFETY: as the caller promised.
    unsafe {
        match product {
            Product::Tn if some.features.counts.len() != inner => {
                return Err(Fault::Missing("the nonzeros of the columns of features"));
            }
            Product::Tn => match (out.leaves, &some.features.by_column) {
                (None, _) => one.transposed(team, &some.features.counts),
                (Some(leaves), Some((by_column, places))) => {
                    one.by_leaf(team, by_column, places, leaves, &out.shares)
                }
                (Some(_), None) => return Err(Fault::Missing("the nonzeros by column")),
            },
            Product::Nn | Product::Nt => one.rows(team, &some.pieces()),
        }
    }
    Ok(())
}

/// Dropout of feature values, keyed by vertex and column.
///
/// # Safety
/// The spans hold a float per nonzero; nothing else uses `out` meanwhile.
pub(crate) unsafe fn dropout(
    team: &Team,
    some: SomeRows,
    ids: &[u32],
    values: Span,
    out: Span,
    p: f32,
    key: u64,
) {
    let (features, bounds) = (some.features, some.pieces());
    let Csr { indptr, indices } = &features.by_row.csr;
    let scale = (1.0 / (1.0 - f64::from(p))) as f32;
    let (threshold, factors) = (drop_threshold(p), [0.0, scale]);
    team.each(bounds.len() - 1, 4 * indices.len() as u64, |piece| {
        for row in bounds[piece] as usize..bounds[piece + 1] as usize {
            let hash = vertex_hash(key, ids[row]);
            let (begin, end) = (indptr[row] as usize, indptr[row + 1] as usize);
            // SAFETY: rows are disjoint; `part` checks the spans.
            let (values, out) = unsafe {
                (
                    values.part(begin, end - begin).read(),
                    out.part(begin, end - begin).write(),
                )
            };
            for ((out, value), &column) in out.iter_mut().zip(values).zip(&indices[begin..end]) {
                let column = features.first + column;
                // Multiply instead of branching: the branch would be unpredictable.
                *out = value * factors[usize::from(draw(hash, column) >= threshold)];
            }
        }
    });
}

/// Feature values as a dense matrix.
///
/// # Safety
/// `values` holds a float per nonzero, `out` holds the matrix, and nothing else uses it meanwhile.
pub(crate) unsafe fn densify(team: &Team, some: SomeRows, values: Span, out: Span) {
    let Csr { indptr, indices } = &some.features.by_row.csr;
    let columns = some.features.columns as usize;
    let (first, end) = (some.rows.start as usize, some.rows.end as usize);
    const ROWS: usize = 64;
    let pieces = (end - first).div_ceil(ROWS);
    team.each(pieces, ((end - first) * columns) as u64, |piece| {
        let first = first + piece * ROWS;
        for row in first..(first + ROWS).min(end) {
            let (begin, end) = (indptr[row] as usize, indptr[row + 1] as usize);
            // SAFETY: rows are disjoint; `part` checks the spans.
            let (values, out) = unsafe {
                (
                    values.part(begin, end - begin).read(),
                    out.part(row * columns, columns).write(),
                )
            };
            out.fill(0.0);
            for (value, &column) in values.iter().zip(&indices[begin..end]) {
                out[column as usize] = *value;
            }
        }
    });
}
