//! Vector operations in the loops of a generated kernel, as the CPU code generator blocks them.

use crate::kernel::expr::{Expr, Value};
use crate::kernel::flatten::{elementwise, flatten};
use crate::kernel::{Axis, Body, EdgePass, EdgeResult, Kernel, Operand};
use crate::words::scalar::{Binary, Pace};

/// Floats per vector.
const LANES: u64 = 4;
/// Vectors of a reduction kept in registers at a time.
const TILE: u64 = 8;
/// Instructions per edge apart from its vectors: its ends, addresses, the loop.
const AROUND: f64 = 4.0;
/// Extra instructions for loading a vector lane by lane.
const LANE_BY_LANE: f64 = 6.0;

/// Work of a kernel per row or edge of its inner loop, and once per row after it.
pub(super) struct Vectors {
    /// Vectors times loads and simple operations, per row or edge.
    pub vector: f64,
    /// Vectors loaded lane by lane.
    pub lane: f64,
    /// Vectors times divisions and roots.
    pub slow: f64,
    /// Vectors times random draws.
    pub draw: f64,
    /// Vectors times exponentials and similar functions.
    pub exp: f64,
    /// The same after a reduction: simple operations, slow ones, draws, exponentials.
    pub finish: [f64; 4],
}

impl Vectors {
    /// Counts a kernel's vectors.
    pub fn of(kernel: &Kernel) -> Self {
        let kernel = &flatten(kernel);
        if let Body::EdgePass(pass) = &kernel.body {
            return Self::of_pass(kernel, pass);
        }
        let (heads, width) = (u64::from(kernel.heads), u64::from(kernel.width));
        // A reduction over columns gives one number per head.
        let (count, finished, across) = match &kernel.body {
            Body::RowReduce { axis, .. } => {
                let kept = match axis {
                    Axis::Width => heads.div_ceil(LANES),
                    Axis::Heads => width.div_ceil(LANES),
                };
                (heads * width.div_ceil(LANES), kept, false)
            }
            _ => {
                let (count, across) = cut(heads, width);
                (count, count, across)
            }
        };
        let (values, finish): (Vec<&Expr>, Option<&Expr>) = match &kernel.body {
            Body::Map { values, .. } => (values.iter().collect(), None),
            Body::Gather { value, finish, .. } | Body::RowReduce { value, finish, .. } => {
                (vec![value], Some(finish))
            }
            Body::ColReduce { value, .. } | Body::TypeSum { value, .. } => (vec![value], None),
            Body::EdgePass(_) => (Vec::new(), None),
        };
        let sum = |of: fn(&Expr) -> f64| values.iter().map(|e| of(e)).sum::<f64>();
        let scattered = |expr: &Expr| {
            let loads = expr.values.iter().filter_map(|value| match value {
                Value::Load(n) => kernel.inputs.get(*n as usize),
                _ => None,
            });
            loads.filter(|o| is_scattered(kernel, o, across)).count() as f64
        };
        let reduces = f64::from(!matches!(kernel.body, Body::Map { .. }));
        // Rows of element-wise code form one long row.
        let count = match elementwise(kernel) {
            Some(width) => f64::from(width) / LANES as f64,
            None => count as f64,
        };
        let finished = finished as f64;
        Self {
            vector: count * (sum(cheap) + reduces),
            lane: count * values.iter().map(|e| scattered(e)).sum::<f64>(),
            slow: count * sum(slow),
            draw: count * sum(draws),
            exp: count * sum(exponentials),
            finish: match finish {
                Some(e) => {
                    [cheap(e) + 1.0, slow(e), draws(e), exponentials(e)].map(|n| finished * n)
                }
                None => [0.0; 4],
            },
        }
    }

    /// Counts the vectors of an edge pass. The numbers of a single head are computed for several
    /// edges at a time.
    fn of_pass(kernel: &Kernel, pass: &EdgePass) -> Self {
        let (heads, width) = (u64::from(kernel.heads), u64::from(kernel.width));
        let narrow = match heads {
            1 => 1.0 / LANES as f64,
            heads => heads.div_ceil(LANES) as f64,
        };
        let (wide, _) = cut(heads, width);
        let mut found = Self {
            vector: 0.0,
            lane: 0.0,
            slow: 0.0,
            draw: 0.0,
            exp: 0.0,
            finish: [0.0; 4],
        };
        let mut add = |count: f64, expr: &Expr, combined: f64| {
            found.vector += count * (cheap(expr) + combined);
            found.slow += count * slow(expr);
            found.draw += count * draws(expr);
            found.exp += count * exponentials(expr);
        };
        for number in &pass.numbers {
            let columns = (heads * width.div_ceil(LANES)) as f64;
            let count = if number.dot { columns } else { narrow };
            add(count, &number.value, 1.0);
        }
        let mut finished = [0.0; 4];
        for (result, output) in pass.results.iter().zip(&kernel.outputs) {
            let count = if output.column_step == 0 {
                narrow
            } else {
                wide as f64
            };
            match result {
                EdgeResult::Sum { value, finish: e } => {
                    add(count, value, 1.0);
                    let of = [cheap(e) + 1.0, slow(e), draws(e), exponentials(e)];
                    for (total, n) in finished.iter_mut().zip(of) {
                        *total += count.ceil() * n;
                    }
                }
                EdgeResult::LogSumExp => finished[3] += narrow.ceil(),
                EdgeResult::Number(_) => {}
            }
        }
        if pass.softmax.is_some() {
            // Maximum, difference, sum.
            found.vector += 3.0 * narrow;
            found.exp += narrow;
        }
        found.finish = finished;
        found
    }

    /// Approximate instructions per edge, which limit how many edges a processor looks ahead.
    pub fn instructions(&self) -> f64 {
        AROUND + self.vector + LANE_BY_LANE * self.lane
    }
}

/// Vectors for `heads` heads of `width` columns, and whether vectors hold columns of several
/// heads: narrow heads are packed side by side, as many as fit in registers.
fn cut(heads: u64, width: u64) -> (u64, bool) {
    let group = (TILE * LANES / width.max(1)).min(heads);
    match (heads, group) {
        (1, _) | (_, 0 | 1) => (heads * width.div_ceil(LANES), false),
        _ => {
            let (groups, rest) = (heads / group, heads % group);
            let count = groups * (group * width).div_ceil(LANES) + (rest * width).div_ceil(LANES);
            (count, true)
        }
    }
}

/// Whether the lanes of an operand's vector are neither contiguous nor all equal.
fn is_scattered(kernel: &Kernel, operand: &Operand, across: bool) -> bool {
    let (width, head, column) = (kernel.width, operand.head_step, operand.column_step);
    match (across, width) {
        (false, 1) => false,
        (false, _) => column > 1,
        (true, 1) => head > 1,
        (true, _) if head == column * width => column > 1,
        (true, _) => u64::from(width) % LANES != 0 || column > 1,
    }
}

/// Loads and operations in one evaluation that a processor issues every cycle.
fn cheap(expr: &Expr) -> f64 {
    let all = expr
        .values
        .iter()
        .filter(|v| !matches!(v, Value::Const(_) | Value::Acc));
    all.count() as f64
}

/// Divisions and roots in one evaluation.
fn slow(expr: &Expr) -> f64 {
    let is_slow = |value: &&Value| match value {
        Value::Unary(function, _) => function.pace() == Pace::Divide,
        Value::Binary(function, ..) => *function == Binary::Div,
        _ => false,
    };
    expr.values.iter().filter(is_slow).count() as f64
}

/// Random draws in one evaluation.
fn draws(expr: &Expr) -> f64 {
    let is_draw = |value: &&Value| matches!(value, Value::Mask(_));
    expr.values.iter().filter(is_draw).count() as f64
}

/// Exponentials and similar functions in one evaluation.
fn exponentials(expr: &Expr) -> f64 {
    let is_exponential = |value: &&Value| match value {
        Value::Unary(function, _) => function.pace() == Pace::Exponential,
        _ => false,
    };
    expr.values.iter().filter(is_exponential).count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{At, Mask, Over};
    use crate::words::scalar::Unary;

    /// Matches `passes` of the code generator: narrow heads are packed, as many as eight
    /// vectors hold; wide ones are split on their own.
    #[test]
    fn heads_are_cut_as_code_is_generated() {
        let cases = [
            ((1, 1), (1, false)),
            ((1, 41), (11, false)),
            ((8, 1), (2, true)),
            ((8, 2), (4, true)),
            // Five heads, then three.
            ((8, 6), (8 + 5, true)),
            ((3, 5), (4, true)),
            ((8, 32), (64, false)),
            ((7, 130), (231, false)),
        ];
        for ((heads, width), expected) in cases {
            assert_eq!(cut(heads, width), expected, "{heads} x {width}");
        }
    }

    /// A map over rows of one element is code for one long row, unless it draws a random number
    /// per element.
    #[test]
    fn element_wise_rows_are_one_long_row() {
        let element = Operand::dense(At::Row, 1, 1);
        let map = |value: Expr| Kernel {
            body: Body::Map {
                over: Over::Rows,
                values: vec![value],
            },
            heads: 1,
            width: 1,
            inputs: vec![element],
            outputs: vec![element],
            masks: Vec::new(),
            scalars: 0,
        };
        let expr = |values: Vec<Value>| Expr { values };
        let root = vec![Value::Load(0), Value::Unary(Unary::Sqrt, 0)];
        let root = Vectors::of(&map(expr(root)));
        assert_eq!((root.slow, root.draw), (0.25, 0.0));
        let mask = Mask {
            p: 0.5,
            at: At::Row,
            first: 0,
            head_step: 0,
            column_step: 0,
        };
        let drawn = Vectors::of(&Kernel {
            masks: vec![mask],
            ..map(Expr::leaf(Value::Mask(0)))
        });
        assert_eq!((drawn.slow, drawn.draw), (0.0, 1.0));
    }
}
