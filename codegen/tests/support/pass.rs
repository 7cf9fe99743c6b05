//! Random edge passes, and those of attention.

use super::{Random, TYPES, expression, mask, operand, output};
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, EdgeNumber, EdgePass, EdgeResult, End, Kernel};
use gnnc_ir::kernel::{Mask, Operand, Picked};
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::words::types::EdgeSet;
use std::ops::Range;

/// Operands and masks of a pass under construction.
#[derive(Default)]
struct Parts {
    inputs: Vec<Operand>,
    masks: Vec<Mask>,
}

impl Parts {
    /// Adds operands and masks; returns the leaves that read them.
    fn leaves(&mut self, inputs: Vec<Operand>, masks: Vec<Mask>) -> Vec<Value> {
        let numbers =
            |from: usize, count: usize| -> Range<u16> { from as u16..(from + count) as u16 };
        let loads = numbers(self.inputs.len(), inputs.len()).map(Value::Load);
        let drawn = numbers(self.masks.len(), masks.len()).map(Value::Mask);
        let leaves = loads.chain(drawn).collect();
        self.inputs.extend(inputs);
        self.masks.extend(masks);
        leaves
    }
}

/// One column per head.
fn narrow(operand: Operand) -> Operand {
    Operand {
        column_step: 0,
        ..operand
    }
}

/// A random pass: numbers that use each other, with and without a softmax, and every kind of
/// result.
pub fn random_pass(random: &mut Random, to: End, heads: u32, width: u32, size: usize) -> Kernel {
    let mut parts = Parts::default();
    let around = [
        At::Src,
        At::Dst,
        At::Edge,
        At::One,
        At::Row,
        At::Src,
        At::Dst,
    ];
    let mut wide_operands: Vec<Operand> =
        around.map(|at| operand(random, at, heads, width)).to_vec();
    let by = (2 * around.len()) as u16;
    for input in wide_operands
        .iter_mut()
        .filter(|o| matches!(o.at, At::Src | At::One))
    {
        let (count, step) = (TYPES, random.below(3) as u32 * width);
        let picked = random.below(3) == 0;
        input.picked = picked.then_some(Picked { by, count, step });
    }
    let narrow_operands = around.map(|at| narrow(operand(random, at, heads, 1)));
    let wide_masks = vec![mask(random, At::Edge, width), mask(random, At::Src, width)];
    let heads_mask = |random: &mut Random, at| Mask {
        column_step: 0,
        ..mask(random, at, 1)
    };
    let narrow_masks = vec![heads_mask(random, At::Edge), heads_mask(random, At::Dst)];
    let draws = random.below(2) == 0;
    let drawn = |masks: Vec<Mask>| if draws { masks } else { Vec::new() };
    let mut wide = parts.leaves(wide_operands, drawn(wide_masks));
    let of_heads = parts.leaves(narrow_operands.to_vec(), drawn(narrow_masks));
    parts.leaves(vec![Operand::dense(At::Edge, 1, 1)], Vec::new());
    wide.extend(&of_heads);
    wide.push(Value::Scalar(0));

    let mut numbers = Vec::new();
    for n in 0..random.below(4) as u16 {
        let dot = random.below(2) == 0;
        let mut leaves = if dot { wide.clone() } else { of_heads.clone() };
        leaves.extend((0..n).map(Value::Number));
        let mut value = expression(random, &leaves, size);
        if dot {
            let sum = value.result();
            let share = value.push(Value::Const(1.0 / width as f32));
            value.values.push(Value::Binary(Binary::Mul, sum, share));
        }
        numbers.push(EdgeNumber { value, dot });
    }
    let all = (0..numbers.len() as u16).map(Value::Number);
    let known: Vec<Value> = all.collect();
    let some = known.len();
    let softmax = (some > 0 && random.below(3) > 0).then(|| random.below(some) as u16);

    let (mut results, mut outputs) = (Vec::new(), Vec::new());
    for _ in 0..1 + random.below(4) {
        let is_wide = random.below(2) == 0;
        match random.below(4) {
            0 if some > 0 => {
                results.push(EdgeResult::Number(random.below(some) as u16));
                outputs.push(narrow(output(random, At::Edge, heads, 1)));
            }
            1 if softmax.is_some() => {
                results.push(EdgeResult::LogSumExp);
                outputs.push(narrow(output(random, At::Row, heads, 1)));
            }
            _ => {
                let columns = if is_wide { width } else { 1 };
                let mut leaves = if is_wide {
                    wide.clone()
                } else {
                    of_heads.clone()
                };
                leaves.extend(&known);
                let value = expression(random, &leaves, size);
                let own = [At::Row, At::One].map(|at| operand(random, at, heads, columns));
                let own = own.map(|o| if is_wide { o } else { narrow(o) });
                let mut leaves = parts.leaves(own.to_vec(), Vec::new());
                leaves.push(Value::Acc);
                let finish = match random.below(3) {
                    0 => Expr::leaf(Value::Acc),
                    _ => expression(random, &leaves, size / 2),
                };
                results.push(EdgeResult::Sum { value, finish });
                let out = output(random, At::Row, heads, columns);
                outputs.push(if is_wide {
                    wide_output(out, width)
                } else {
                    narrow(out)
                });
            }
        }
    }
    Kernel {
        body: Body::EdgePass(EdgePass {
            set: EdgeSet::Plain,
            to,
            numbers,
            softmax,
            results,
        }),
        heads,
        width,
        inputs: parts.inputs,
        outputs,
        masks: parts.masks,
        scalars: 2,
    }
}

/// With a single column, a result has one column per head either way.
fn wide_output(operand: Operand, width: u32) -> Operand {
    Operand {
        column_step: u32::from(width > 1),
        ..operand
    }
}

fn expr(values: &[Value]) -> Expr {
    Expr {
        values: values.to_vec(),
    }
}

/// The forward pass of GAT: sums of neighbors weighted by a softmax of `leaky(el + er)` with
/// dropout, and the log-sum-exp.
pub fn gat_forward(heads: u32, width: u32) -> Kernel {
    let (number, row) = (narrow(Operand::dense(At::Src, heads, 1)), At::Row);
    let at = |at| Operand {
        at,
        ..of_heads(number, heads)
    };
    let score = expr(&[
        Value::Load(0),
        Value::Load(1),
        Value::Binary(Binary::Add, 0, 1),
        Value::Unary(Unary::LeakyRelu(0.2), 2),
    ]);
    let value = expr(&[
        Value::Load(2),
        Value::Number(1),
        Value::Binary(Binary::Mul, 0, 1),
    ]);
    let mask = expr(&[Value::Mask(0)]);
    Kernel {
        body: Body::EdgePass(EdgePass {
            set: EdgeSet::Plain,
            to: End::Dst,
            numbers: [score, mask]
                .map(|value| EdgeNumber { value, dot: false })
                .to_vec(),
            softmax: Some(0),
            results: vec![
                EdgeResult::Sum {
                    value,
                    finish: Expr::leaf(Value::Acc),
                },
                EdgeResult::LogSumExp,
            ],
        }),
        heads,
        width,
        inputs: vec![
            at(At::Dst),
            at(At::Src),
            Operand::dense(At::Src, heads, width),
        ],
        outputs: vec![Operand::dense(row, heads, width), at(row)],
        masks: vec![Mask {
            p: 0.6,
            at: At::Edge,
            first: 0,
            head_step: u32::from(heads > 1),
            column_step: 0,
        }],
        scalars: 0,
    }
}

/// The backward pass of GAT by source: gradients of the neighbors' rows and scores, and of each
/// edge's score.
pub fn gat_backward(heads: u32, width: u32) -> Kernel {
    let number = of_heads(narrow(Operand::dense(At::Src, heads, 1)), heads);
    let at = |at| Operand { at, ..number };
    let wide = |at| Operand::dense(at, heads, width);
    // el, er, log-sum-exp, <g, out>, x, g.
    let inputs = vec![
        at(At::Row),
        at(At::Dst),
        at(At::Dst),
        at(At::Dst),
        wide(At::Row),
        wide(At::Dst),
    ];
    let dot = expr(&[
        Value::Load(4),
        Value::Load(5),
        Value::Binary(Binary::Mul, 0, 1),
    ]);
    let raw = expr(&[
        Value::Load(0),
        Value::Load(1),
        Value::Binary(Binary::Add, 0, 1),
    ]);
    let weight = expr(&[
        Value::Number(1),
        Value::Unary(Unary::LeakyRelu(0.2), 0),
        Value::Load(2),
        Value::Binary(Binary::Sub, 1, 2),
        Value::Unary(Unary::Exp, 3),
    ]);
    let slope = expr(&[
        Value::Number(0),
        Value::Load(3),
        Value::Binary(Binary::Sub, 0, 1),
        Value::Number(2),
        Value::Binary(Binary::Mul, 2, 3),
        Value::Number(1),
        Value::Unary(Unary::LeakyStep(0.2), 5),
        Value::Binary(Binary::Mul, 4, 6),
    ]);
    let value = expr(&[
        Value::Number(2),
        Value::Load(5),
        Value::Binary(Binary::Mul, 0, 1),
    ]);
    let numbers = [(dot, true), (raw, false), (weight, false), (slope, false)];
    let sum = |value| EdgeResult::Sum {
        value,
        finish: Expr::leaf(Value::Acc),
    };
    Kernel {
        body: Body::EdgePass(EdgePass {
            set: EdgeSet::Plain,
            to: End::Src,
            numbers: numbers
                .map(|(value, dot)| EdgeNumber { value, dot })
                .to_vec(),
            softmax: None,
            results: vec![
                sum(value),
                sum(expr(&[Value::Number(3)])),
                EdgeResult::Number(3),
            ],
        }),
        heads,
        width,
        inputs,
        outputs: vec![wide(At::Row), at(At::Row), at(At::Edge)],
        masks: Vec::new(),
        scalars: 0,
    }
}

/// The score of GATv2: `<a, leaky(x + y)>`, of the rows of both ends in inputs 0 and 1, and `a` in 2.
fn both_ends_score() -> EdgeNumber {
    let value = expr(&[
        Value::Load(0),
        Value::Load(1),
        Value::Binary(Binary::Add, 0, 1),
        Value::Unary(Unary::LeakyRelu(0.2), 2),
        Value::Load(2),
        Value::Binary(Binary::Mul, 3, 4),
    ]);
    EdgeNumber { value, dot: true }
}

/// The forward pass of GATv2 (Brody et al., 2022): scores are of the sum of both ends' rows.
pub fn gatv2_forward(heads: u32, width: u32) -> Kernel {
    let wide = |at| Operand::dense(at, heads, width);
    let number = of_heads(narrow(Operand::dense(At::Row, heads, 1)), heads);
    Kernel {
        body: Body::EdgePass(EdgePass {
            set: EdgeSet::Plain,
            to: End::Dst,
            numbers: vec![both_ends_score()],
            softmax: Some(0),
            results: vec![
                EdgeResult::Sum {
                    value: Expr::leaf(Value::Load(1)),
                    finish: Expr::leaf(Value::Acc),
                },
                EdgeResult::LogSumExp,
            ],
        }),
        heads,
        width,
        inputs: vec![wide(At::Dst), wide(At::Src), wide(At::One)],
        outputs: vec![wide(At::Row), number],
        masks: Vec::new(),
        scalars: 0,
    }
}

/// The backward passes of GATv2: by destination, the gradients of `a` and of the destination's row; by source, that of
/// the source's row.
pub fn gatv2_backward(to: End, heads: u32, width: u32) -> Kernel {
    let number = of_heads(narrow(Operand::dense(At::Dst, heads, 1)), heads);
    let wide = |at| Operand::dense(at, heads, width);
    let (add, mul, sub) = (Binary::Add, Binary::Mul, Binary::Sub);
    // The rows of both ends, a, log-sum-exp, g, <g, out>.
    let inputs = vec![
        wide(At::Dst),
        wide(At::Src),
        wide(At::One),
        number,
        wide(At::Dst),
        number,
    ];
    // Scaled, as scores of random wide rows are large.
    let weight = expr(&[
        Value::Number(0),
        Value::Load(3),
        Value::Binary(sub, 0, 1),
        Value::Const(0.05),
        Value::Binary(mul, 2, 3),
        Value::Unary(Unary::Exp, 4),
    ]);
    let dot = expr(&[Value::Load(4), Value::Load(1), Value::Binary(mul, 0, 1)]);
    let slope = expr(&[
        Value::Number(1),
        Value::Number(2),
        Value::Load(5),
        Value::Binary(sub, 1, 2),
        Value::Binary(mul, 0, 3),
    ]);
    let number_of = |(value, dot)| EdgeNumber { value, dot };
    let others = [(weight, false), (dot, true), (slope, false)].map(number_of);
    let numbers = std::iter::once(both_ends_score()).chain(others).collect();
    let of_a = expr(&[
        Value::Number(3),
        Value::Load(0),
        Value::Load(1),
        Value::Binary(add, 1, 2),
        Value::Unary(Unary::LeakyRelu(0.2), 3),
        Value::Binary(mul, 0, 4),
    ]);
    let of_row = [
        Value::Number(3),
        Value::Load(2),
        Value::Binary(mul, 0, 1),
        Value::Load(0),
        Value::Load(1),
        Value::Binary(add, 3, 4),
        Value::Unary(Unary::LeakyRelu(0.2), 5),
        Value::Unary(Unary::LeakyStep(0.2), 6),
        Value::Binary(mul, 2, 7),
    ];
    let mut of_source = of_row.to_vec();
    of_source.extend([
        Value::Load(4),
        Value::Number(1),
        Value::Binary(mul, 9, 10),
        Value::Binary(add, 11, 8),
    ]);
    let values = match to {
        End::Dst => vec![of_a, expr(&of_row)],
        End::Src => vec![expr(&of_source)],
    };
    let outputs = vec![wide(At::Row); values.len()];
    let sum = |value| EdgeResult::Sum {
        value,
        finish: Expr::leaf(Value::Acc),
    };
    Kernel {
        body: Body::EdgePass(EdgePass {
            set: EdgeSet::Plain,
            to,
            numbers,
            softmax: None,
            results: values.into_iter().map(sum).collect(),
        }),
        heads,
        width,
        inputs,
        outputs,
        masks: Vec::new(),
        scalars: 0,
    }
}

/// One number per head, side by side.
fn of_heads(operand: Operand, heads: u32) -> Operand {
    Operand {
        stride: heads,
        head_step: u32::from(heads > 1),
        column_step: 0,
        ..operand
    }
}
