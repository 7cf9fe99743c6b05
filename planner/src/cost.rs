//! Cost of a form: a fused view of one training epoch on a reference machine.
//!
//! The numbers rank the forms of one model; they do not predict a run. Each operator is priced
//! separately as `max(flops / rate, bytes / bandwidth)`, under these assumptions:
//!
//! - element-wise work, slices and reshapes fuse into their neighbors: flops only;
//! - messages (edge rows that element-wise work makes from taken vertex rows) are never stored; a
//!   `take` loads its rows for every edge, a `gather` writes its vertex rows;
//! - results of a per-edge reduction or softmax are stored and read once, and a per-edge reduction
//!   loads its operand again;
//! - gradients: a matrix product costs once more for each operand that needs one, a `take` costs
//!   the transposed gather, a broadcast operand costs a reduction;
//! - of a taken row whose readers pick one head, only that head is loaded and has a gradient;
//! - sparse features cost their nonzeros;
//! - values that no parameter or draw changes are computed once in [`EPOCHS`] epochs.

use crate::facts::{Facts, Value};
use crate::language::Symbol;
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::{Binary, Op, Rows, Type};
use serde::{Deserialize, Serialize};
use std::iter::Sum;
use std::ops::Add;

/// Floating-point operations per second of the reference machine (one core).
pub const FLOPS_PER_SECOND: f64 = 50e9;
/// Bytes per second of the reference machine, streamed or gathered by rows.
pub const BYTES_PER_SECOND: f64 = 10e9;
/// Epochs over which one-time work is spread.
pub const EPOCHS: f64 = 200.0;
/// How much longer an operation takes in a product with sparse features, whose weights come from
/// cache row by row, than in a dense product.
pub const SPARSE_SLOWDOWN: f64 = 4.0;
/// Minimum seconds of any operator, so that the smaller of two equal forms wins.
pub const OPERATOR_SECONDS: f64 = 1e-8;

/// Work of one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Floating-point operations.
    pub flops: f64,
    /// Those of dense products.
    pub dense_flops: f64,
    /// Those of products with sparse features.
    pub sparse_flops: f64,
    /// Numbers that are summed, or whose maximum is taken, over edges by vertex.
    pub gathered: f64,
    /// Bytes loaded and stored.
    pub bytes: f64,
    /// Seconds on the reference machine.
    pub seconds: f64,
}

impl Work {
    /// Work whose time is the larger of compute and memory time.
    fn new(flops: f64, bytes: f64) -> Self {
        Self {
            flops,
            bytes,
            seconds: (flops / FLOPS_PER_SECOND).max(bytes / BYTES_PER_SECOND),
            ..Self::default()
        }
    }

    /// The same work, of which so many numbers are reduced over edges.
    fn gathering(self, gathered: f64) -> Self {
        Self { gathered, ..self }
    }

    /// The same work repeated `n` times.
    pub fn times(self, n: f64) -> Self {
        Self {
            flops: self.flops * n,
            dense_flops: self.dense_flops * n,
            sparse_flops: self.sparse_flops * n,
            gathered: self.gathered * n,
            bytes: self.bytes * n,
            seconds: self.seconds * n,
        }
    }
}

impl Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            flops: self.flops + other.flops,
            dense_flops: self.dense_flops + other.dense_flops,
            sparse_flops: self.sparse_flops + other.sparse_flops,
            gathered: self.gathered + other.gathered,
            bytes: self.bytes + other.bytes,
            seconds: self.seconds + other.seconds,
        }
    }
}

impl Sum for Work {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), Add::add)
    }
}

/// For each value, whether all its readers pick one head of each row. Every operator is listed with
/// the numbers of its operands.
pub(crate) fn picked<'a>(
    values: usize,
    operators: impl Iterator<Item = (&'a Symbol, &'a [usize])>,
) -> Vec<bool> {
    let (mut picked, mut read) = (vec![false; values], vec![false; values]);
    for (symbol, operands) in operators {
        for (position, value) in operands.iter().enumerate() {
            let picks = position == 0 && matches!(symbol, Symbol::Op(Op::PickHead));
            picked[*value] |= picks;
            read[*value] |= !picks;
        }
    }
    let of = picked.iter().zip(read);
    of.map(|(picked, read)| *picked && !read).collect()
}

/// Work of an operator with result `out`, all of whose readers pick one head of each row if `picked`.
pub(crate) fn work(op: &Op, out: Value, kids: &[Value], facts: &Facts, picked: bool) -> Work {
    let once = out.known.invariant && facts.train;
    let share = if once { 1.0 / EPOCHS } else { 1.0 };
    let given = matches!(op, Op::Input(_) | Op::Const(_));
    let overhead = if given { 0.0 } else { OPERATOR_SECONDS };
    let mut work = operator(op, out, kids, facts, picked).times(share);
    work.seconds += overhead * share;
    work
}

fn operator(op: &Op, out: Value, kids: &[Value], facts: &Facts, picked: bool) -> Work {
    let rows = |ty: Type| facts.rows(ty.rows);
    let elements = |v: &Value| match v.known.sparse {
        true => facts.feature_nonzeros as f64,
        false => rows(v.ty) * f64::from(v.ty.columns()),
    };
    let floats = |v: &Value| 4.0 * elements(v);
    let grad = |v: &Value| f64::from(u8::from(facts.train && v.known.needs_grad));
    let backward = 1.0 + kids.iter().map(grad).fold(0.0, f64::max);
    let n = elements(&out);
    match op {
        Op::Input(_)
        | Op::Const(_)
        | Op::Param(_)
        | Op::Arg(_)
        | Op::Table(_)
        | Op::Scan(_)
        | Op::Redistribute(_)
        | Op::SumRanks
        | Op::Sampled(_)
        | Op::Copies(..)
        | Op::Clip(..)
        | Op::Blend
        | Op::Out(_) => Work::default(),
        Op::Reshape { .. } => Work::default(),
        Op::Unary(f) => Work::new(n * f.flops() * backward, 0.0),
        Op::Dropout { .. } => Work::new(n * 8.0 * backward, 0.0),
        Op::Binary(f) => {
            let flops = if *f == Binary::Div { 4.0 } else { 1.0 };
            let reduced = |v: &Value| {
                let narrower = elements(v) < n;
                let passes = if matches!(out.ty.rows, Rows::Edges(_)) {
                    2.0
                } else {
                    1.0
                };
                if narrower {
                    grad(v) * passes * 4.0 * n
                } else {
                    0.0
                }
            };
            let bytes = kids
                .iter()
                .map(|v| stored_edges(v, &out, facts) + reduced(v))
                .sum();
            Work::new(n * flops * backward, bytes)
        }
        Op::Broadcast(_) => Work::new(n, grad(&kids[0]) * 4.0 * n),
        Op::Take(_, end) => {
            let vertices = floats(&Value {
                ty: kids[0].ty,
                ..out
            });
            // Heads that no edge picks are neither loaded nor added.
            let heads = if picked { out.ty.heads } else { 1 };
            let n = n / f64::from(heads);
            let load = match end {
                End::Src => 4.0 * n,
                End::Dst => vertices,
            };
            Work::new(
                grad(&kids[0]) * n,
                load + grad(&kids[0]) * (4.0 * n + vertices),
            )
            .gathering(grad(&kids[0]) * n)
        }
        // The table stays in cache; its gradient is summed over stored edges.
        Op::Pick => Work::new(
            grad(&kids[0]) * n,
            floats(&kids[1]) + grad(&kids[0]) * 2.0 * floats(&out),
        ),
        Op::PickHead => Work::new(
            n * backward,
            floats(&kids[1]) + grad(&kids[0]) * floats(&out),
        ),
        Op::PlaceHead(_) => Work::new(n, floats(&kids[1]) + 2.0 * floats(&kids[0])),
        Op::PickSum(_) => Work::new(elements(&kids[0]), 2.0 * floats(&kids[0]) + floats(&out)),
        Op::Gather(_, _, Reduce::Sum) | Op::GatherMean(_) => Work::new(
            elements(&kids[0]),
            stored_edges(&kids[0], &out, facts) + floats(&out),
        )
        .gathering(elements(&kids[0])),
        // The gradient counts the edges that attain the maximum, for which it makes the messages again.
        Op::Gather(_, _, Reduce::Max) => {
            let messages = elements(&kids[0]);
            let again = grad(&kids[0]);
            let bytes = stored_edges(&kids[0], &out, facts)
                + floats(&out)
                + again * (floats(&kids[0]) + 2.0 * floats(&out));
            Work::new(messages * (1.0 + 2.0 * again), bytes).gathering(messages * (1.0 + again))
        }
        Op::EdgeSoftmax(_) => Work::new(15.0 * n * backward, 12.0 * n * backward),
        Op::ReduceCols(..) => {
            let load = elements(&kids[0]);
            let store = if matches!(out.ty.rows, Rows::Edges(_)) {
                8.0 * n
            } else {
                4.0 * n
            };
            Work::new(load * backward, (4.0 * load + store) * backward)
        }
        Op::MatMul | Op::MatMulNT | Op::MatMulTN => matmul(op, out, kids, facts),
        Op::Concat => Work::new(0.0, 8.0 * n * backward),
        Op::SliceCols { .. } | Op::SliceRows { .. } => {
            Work::new(n, grad(&kids[0]) * floats(&kids[0]))
        }
        Op::PadCols { .. } | Op::PadRows { .. } => Work::new(n, 4.0 * n * backward),
        Op::SumRows => Work::new(elements(&kids[0]), floats(&kids[0]) * backward),
        Op::Loss(_) | Op::LossGrad(_) => {
            Work::new(20.0 * elements(&kids[0]), floats(&kids[0]) * backward)
        }
    }
}

/// Bytes of reading an edge operand that is stored because it is computed only once.
fn stored_edges(operand: &Value, out: &Value, facts: &Facts) -> f64 {
    let once = facts.train && operand.known.invariant && !out.known.invariant;
    match operand.ty.rows {
        Rows::Edges(_) if once => {
            4.0 * facts.rows(operand.ty.rows) * f64::from(operand.ty.columns())
        }
        _ => 0.0,
    }
}

fn matmul(op: &Op, out: Value, kids: &[Value], facts: &Facts) -> Work {
    let size = |v: &Value| facts.rows(v.ty.rows) * f64::from(v.ty.columns());
    let passes = 1.0
        + kids
            .iter()
            .filter(|v| facts.train && v.known.needs_grad)
            .count() as f64;
    let inner = if *op == Op::MatMulTN {
        facts.rows(kids[0].ty.rows)
    } else {
        f64::from(kids[0].ty.columns())
    };
    if kids[0].known.sparse {
        // A row of the weights is added for every nonzero: index, value and a row from cache.
        let nonzeros = facts.feature_nonzeros as f64;
        let width = size(&out) / facts.rows(out.ty.rows).max(1.0);
        let bytes = nonzeros * 8.0 + 4.0 * (size(&out) + size(&kids[1]));
        let flops = 2.0 * nonzeros * width;
        let seconds = Work::new(SPARSE_SLOWDOWN * flops, bytes).seconds;
        let once = Work {
            sparse_flops: flops,
            seconds,
            ..Work::new(flops, bytes)
        };
        return once.times(passes);
    }
    let bytes = 4.0 * (size(&out) + size(&kids[0]) + size(&kids[1]));
    let flops = 2.0 * size(&out) * inner;
    let once = Work {
        dense_flops: flops,
        ..Work::new(flops, bytes)
    };
    once.times(passes)
}
