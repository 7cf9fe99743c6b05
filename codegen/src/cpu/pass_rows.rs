//! Which parts of an edge pass [`super::helpers`] can compute: dot products and weighted sums of
//! neighbors' rows, or of functions of both ends' rows.

use super::function::Emit;
use super::helpers::Seen;
use gnnc_ir::kernel::expr::{Expr, Value as Term};
use gnnc_ir::kernel::{At, Walk};
use gnnc_ir::words::scalar::{Binary, Unary};

/// Columns from which calls pay.
const LEAST: u32 = 4;

/// The rows of neighbors, as a helper sees them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Far {
    /// The input with the rows.
    pub input: u16,
    /// The own row that they are added to, unless they are read as they are.
    pub beside: Option<Beside>,
}

/// The own row beside which rows are seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside {
    /// The input with the own row.
    pub near: u16,
    /// The function of the sum.
    pub seen: Seen,
    /// Its slope.
    pub slope: f32,
}

/// A dot product that a helper can compute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowDot {
    /// The neighbors' rows.
    pub far: Far,
    /// The input with the row's own row.
    pub own: u16,
}

/// A sum that a helper can compute: of rows times numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedRows {
    /// The rows.
    pub far: Far,
    /// Numbers of an edge that they are multiplied by.
    pub numbers: Vec<u16>,
    /// Inputs that are the same for all edges of a row, by which the sum is multiplied.
    pub factors: Vec<u16>,
}

impl Emit<'_, '_> {
    /// Whether the rows of an input can be handed to a helper.
    fn whole_rows(&self, input: u16) -> bool {
        let operand = self.kernel.inputs[usize::from(input)];
        let (heads, width) = (self.kernel.heads, self.kernel.width);
        let dense = operand.column_step == 1 && (heads == 1 || operand.head_step == width);
        dense && operand.picked.is_none() && operand.storage.is_f32() && heads * width >= LEAST
    }

    /// The end of edges at which neighbors are.
    pub fn other_end(&self) -> At {
        match Walk::of(&self.kernel.body) {
            Walk::EdgesBySource => At::Dst,
            _ => At::Src,
        }
    }

    /// Whether an input has a row for each neighbor that helpers can read.
    fn is_far(&self, input: u16) -> bool {
        let at = self.kernel.inputs[usize::from(input)].at;
        at == self.other_end() && self.whole_rows(input)
    }

    /// Whether an input has a row that is the same for all edges of a row, and that helpers can read.
    fn is_own(&self, input: u16) -> bool {
        let at = self.kernel.inputs[usize::from(input)].at;
        let other = [self.other_end(), At::Edge, At::List];
        !other.contains(&at) && self.whole_rows(input)
    }

    /// Whether the elements of an input are the same for all edges of a row.
    fn is_factor(&self, input: u16) -> bool {
        let operand = self.kernel.inputs[usize::from(input)];
        let varies = operand.at == self.other_end() || operand.at == At::Edge;
        !varies && operand.picked.is_none()
    }

    /// The rows of neighbors that a value is.
    fn far(&self, expr: &Expr, id: u16) -> Option<Far> {
        let value = |id: u16| expr.values[usize::from(id)];
        let (seen, slope, sum) = match value(id) {
            Term::Load(input) if self.is_far(input) => {
                return Some(Far {
                    input,
                    beside: None,
                });
            }
            Term::Unary(Unary::LeakyRelu(slope), sum) => (Seen::Leaky, slope, sum),
            Term::Unary(Unary::LeakyStep(slope), of) => match value(of) {
                // A function that keeps the sign.
                Term::Unary(Unary::LeakyRelu(inner), sum) if inner >= 0.0 => {
                    (Seen::Step, slope, sum)
                }
                _ => (Seen::Step, slope, of),
            },
            _ => return None,
        };
        let Term::Binary(Binary::Add, a, b) = value(sum) else {
            return None;
        };
        let (Term::Load(a), Term::Load(b)) = (value(a), value(b)) else {
            return None;
        };
        let (input, near) = match (self.is_far(a), self.is_far(b)) {
            (true, false) => (a, b),
            (false, true) => (b, a),
            _ => return None,
        };
        let beside = Some(Beside { near, seen, slope });
        self.is_own(near).then_some(Far { input, beside })
    }

    /// The rows at the other end and the own row whose dot product an expression is.
    pub fn dot_of_rows(&self, expr: &Expr) -> Option<RowDot> {
        let Term::Binary(Binary::Mul, a, b) = expr.values[usize::from(expr.result())] else {
            return None;
        };
        let own = |id: u16| match expr.values[usize::from(id)] {
            Term::Load(input) if self.is_own(input) => Some(input),
            _ => None,
        };
        let pair = |far: u16, near: u16| {
            Some(RowDot {
                far: self.far(expr, far)?,
                own: own(near)?,
            })
        };
        pair(a, b).or_else(|| pair(b, a))
    }

    /// The weighted rows whose sum an expression is.
    pub fn weighted_rows(&self, expr: &Expr) -> Option<Vec<WeightedRows>> {
        let mut parts = Vec::new();
        let mut work = vec![expr.result()];
        while let Some(id) = work.pop() {
            match expr.values[usize::from(id)] {
                Term::Binary(Binary::Add, a, b) => work.extend([b, a]),
                _ => parts.push(self.product(expr, id)?),
            }
        }
        Some(parts)
    }

    /// The rows, numbers and factors whose product a value is.
    fn product(&self, expr: &Expr, id: u16) -> Option<WeightedRows> {
        let (mut rows, mut numbers, mut factors) = (Vec::new(), Vec::new(), Vec::new());
        let mut work = vec![id];
        while let Some(id) = work.pop() {
            if let Some(far) = self.far(expr, id) {
                rows.push(far);
                continue;
            }
            match expr.values[usize::from(id)] {
                Term::Number(number) => numbers.push(number),
                Term::Load(input) if self.is_factor(input) => factors.push(input),
                Term::Binary(Binary::Mul, a, b) => work.extend([a, b]),
                _ => return None,
            }
        }
        match rows[..] {
            [far] => Some(WeightedRows {
                far,
                numbers,
                factors,
            }),
            _ => None,
        }
    }
}
