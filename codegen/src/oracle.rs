//! The oracle: a slow, obvious interpreter of kernels in double precision.

use crate::verify::{SpecError, verify};
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{
    At, Axis, Body, EdgePass, EdgeResult, Kernel, Operand, Picked, Reduce, edge_hash, keep,
    vertex_hash,
};
use gnnc_ir::kernel::{Walk, mask_row, result_shape};
use std::ops::Range;

/// The arguments of [`run`]: those of [`crate::args::KernelArgs`], in double precision.
///
/// Inputs and outputs are separate: an in-place kernel gets a copy.
#[derive(Clone, Debug, Default)]
pub struct OracleArgs<'a> {
    /// First edge of each row.
    pub indptr: &'a [u64],
    /// The local vertex at the other end of each edge.
    pub indices: &'a [u32],
    /// In-neighbor CSR position of each edge of the out-neighbor CSR.
    pub positions: &'a [u32],
    /// Global id of each local row.
    pub ids: &'a [u32],
    /// The row list of [`At::List`].
    pub list: &'a [u32],
    /// The inputs.
    pub inputs: Vec<&'a [f64]>,
    /// The run-time scalars.
    pub scalars: &'a [f32],
    /// The key of each mask.
    pub keys: &'a [u64],
}

/// Runs a kernel over `rows` like the compiled one. Writes results to `outputs`; leaves alone the
/// elements the kernel does not compute.
///
/// # Panics
/// If a slice is too short for the kernel.
pub fn run(
    kernel: &Kernel,
    args: &OracleArgs,
    rows: Range<usize>,
    outputs: &mut [Vec<f64>],
) -> Result<(), SpecError> {
    verify(kernel)?;
    let oracle = Oracle { kernel, args };
    match &kernel.body {
        Body::Map { values, .. } => oracle.each(rows, |place| {
            for ((value, output), buffer) in values.iter().zip(&kernel.outputs).zip(&mut *outputs) {
                for (h, c) in elements(kernel.heads, kernel.width) {
                    buffer[place.address(output, h, c)] = oracle.eval(value, place, h, c, 0.0);
                }
            }
        }),
        Body::Gather {
            reduce,
            value,
            finish,
            ..
        } => {
            let output = &kernel.outputs[0];
            if let Some(picked) = output.picked {
                for row in rows {
                    oracle.places(row, picked, value, &mut outputs[0]);
                }
                return Ok(());
            }
            for row in rows {
                for (h, c) in elements(kernel.heads, kernel.width) {
                    let terms = oracle
                        .edges(row)
                        .map(|edge| oracle.eval(value, &edge, h, c, 0.0));
                    let reduced = fold(*reduce, terms);
                    let place = Place {
                        row,
                        src: row,
                        dst: row,
                        edge: usize::MAX,
                        list: None,
                    };
                    outputs[0][place.address(&kernel.outputs[0], h, c)] =
                        oracle.eval(finish, &place, h, c, reduced);
                }
            }
        }
        Body::RowReduce {
            axis,
            reduce,
            value,
            finish,
            ..
        } => oracle.each(rows, |place| {
            let (heads, width) = result_shape(kernel);
            for (h, c) in elements(heads, width) {
                let reduced = match axis {
                    Axis::Width => fold(
                        *reduce,
                        (0..kernel.width).map(|c| oracle.eval(value, place, h, c, 0.0)),
                    ),
                    Axis::Heads => fold(
                        *reduce,
                        (0..kernel.heads).map(|h| oracle.eval(value, place, h, c, 0.0)),
                    ),
                };
                outputs[0][place.address(&kernel.outputs[0], h, c)] =
                    oracle.eval(finish, place, h, c, reduced);
            }
        }),
        Body::ColReduce { value, .. } => {
            for (h, c) in elements(kernel.heads, kernel.width) {
                let mut sum = 0.0;
                oracle.each(rows.clone(), |place| {
                    sum += oracle.eval(value, place, h, c, 0.0)
                });
                outputs[0][(h * kernel.width + c) as usize] = sum;
            }
        }
        Body::TypeSum { value, .. } => {
            for row in rows {
                for (h, c) in elements(kernel.heads, kernel.width) {
                    let terms = oracle
                        .edges(row)
                        .map(|edge| oracle.eval(value, &edge, h, c, 0.0));
                    let sum: f64 = terms.sum();
                    let place = Place {
                        row,
                        src: usize::MAX,
                        dst: usize::MAX,
                        edge: usize::MAX,
                        list: None,
                    };
                    outputs[0][place.address(&kernel.outputs[0], h, c)] = sum;
                }
            }
        }
        Body::EdgePass(pass) => {
            for row in rows {
                for h in 0..kernel.heads {
                    oracle.pass(pass, row, h, outputs);
                }
            }
        }
    }
    Ok(())
}

/// Where in the iteration space an element is computed.
struct Place {
    row: usize,
    src: usize,
    dst: usize,
    edge: usize,
    list: Option<usize>,
}

struct Oracle<'a> {
    kernel: &'a Kernel,
    args: &'a OracleArgs<'a>,
}

impl Oracle<'_> {
    /// The edges of a row, in storage order.
    fn edges(&self, row: usize) -> impl Iterator<Item = Place> {
        let walk = Walk::of(&self.kernel.body);
        let args = self.args;
        (args.indptr[row] as usize..args.indptr[row + 1] as usize).map(move |k| {
            let other = args.indices[k] as usize;
            match walk {
                Walk::EdgesBySource => {
                    let edge = args.positions.get(k).map_or(usize::MAX, |&p| p as usize);
                    Place {
                        row,
                        src: row,
                        dst: other,
                        edge,
                        list: None,
                    }
                }
                Walk::EdgesByDestination => Place {
                    row,
                    src: other,
                    dst: row,
                    edge: k,
                    list: None,
                },
                Walk::EdgesByType => Place {
                    row,
                    src: usize::MAX,
                    dst: usize::MAX,
                    edge: other,
                    list: None,
                },
                Walk::Edges | Walk::Rows => Place {
                    row: k,
                    src: other,
                    dst: row,
                    edge: k,
                    list: None,
                },
            }
        })
    }

    /// Visits the rows, or the edges of the rows.
    fn each(&self, rows: Range<usize>, mut visit: impl FnMut(&Place)) {
        for row in rows {
            if Walk::of(&self.kernel.body) == Walk::Rows {
                let list = self.args.list.get(row).map(|&r| r as usize);
                visit(&Place {
                    row,
                    src: row,
                    dst: row,
                    edge: row,
                    list,
                });
            } else {
                self.edges(row).for_each(|edge| visit(&edge));
            }
        }
    }

    fn eval(&self, expr: &Expr, place: &Place, h: u32, c: u32, acc: f64) -> f64 {
        self.eval_with(expr, place, (h, c), acc, &[])
    }

    fn eval_with(
        &self,
        expr: &Expr,
        place: &Place,
        (h, c): (u32, u32),
        acc: f64,
        numbers: &[f64],
    ) -> f64 {
        let mut values: Vec<f64> = Vec::with_capacity(expr.values.len());
        for value in &expr.values {
            let result = match *value {
                Value::Load(input) => {
                    let operand = &self.kernel.inputs[usize::from(input)];
                    let element = place.address(operand, h, c) + self.picked(operand, place);
                    self.args.inputs[usize::from(input)][element]
                }
                Value::Const(constant) => f64::from(constant),
                Value::Scalar(scalar) => f64::from(self.args.scalars[usize::from(scalar)]),
                Value::Acc => acc,
                Value::Number(n) => numbers[usize::from(n)],
                Value::Unary(unary, a) => unary.eval(values[usize::from(a)]),
                Value::Binary(binary, a, b) => {
                    binary.eval(values[usize::from(a)], values[usize::from(b)])
                }
                Value::Mask(mask) => self.mask(usize::from(mask), place, h, c),
            };
            values.push(result);
        }
        values[usize::from(expr.result())]
    }

    /// The results of a pass for one head of a row.
    fn pass(&self, pass: &EdgePass, row: usize, h: u32, outputs: &mut [Vec<f64>]) {
        let edges: Vec<Place> = self.edges(row).collect();
        let numbers: Vec<Vec<f64>> = edges
            .iter()
            .map(|edge| self.numbers(pass, edge, h))
            .collect();
        let scores = pass.softmax.map(|n| {
            let scores = numbers.iter().map(|of| of[usize::from(n)]);
            scores.collect::<Vec<f64>>()
        });
        let top = scores
            .iter()
            .flatten()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().flatten().map(|s| (s - top).exp()).sum();
        let weight = |k: usize| match &scores {
            Some(scores) => (scores[k] - top).exp() / total,
            None => 1.0,
        };
        let own = Place {
            row,
            src: row,
            dst: row,
            edge: usize::MAX,
            list: None,
        };
        for ((result, operand), out) in pass.results.iter().zip(&self.kernel.outputs).zip(outputs) {
            match result {
                EdgeResult::Sum { value, finish } => {
                    let columns = if operand.column_step == 0 {
                        1
                    } else {
                        self.kernel.width
                    };
                    for c in 0..columns {
                        let brought = edges.iter().enumerate().map(|(k, edge)| {
                            weight(k) * self.eval_with(value, edge, (h, c), 0.0, &numbers[k])
                        });
                        let sum = brought.sum();
                        out[own.address(operand, h, c)] = self.eval(finish, &own, h, c, sum);
                    }
                }
                EdgeResult::Number(n) => {
                    for (edge, of) in edges.iter().zip(&numbers) {
                        out[edge.address(operand, h, 0)] = of[usize::from(*n)];
                    }
                }
                EdgeResult::LogSumExp => {
                    let empty = edges.is_empty();
                    out[own.address(operand, h, 0)] = if empty { 0.0 } else { top + total.ln() };
                }
            }
        }
    }

    /// The numbers of a pass at an edge.
    fn numbers(&self, pass: &EdgePass, edge: &Place, h: u32) -> Vec<f64> {
        let mut found: Vec<f64> = Vec::with_capacity(pass.numbers.len());
        for number in &pass.numbers {
            let columns = if number.dot { self.kernel.width } else { 1 };
            let terms =
                (0..columns).map(|c| self.eval_with(&number.value, edge, (h, c), 0.0, &found));
            let sum = terms.sum();
            found.push(sum);
        }
        found
    }

    /// Sums the values of a row's edges at the places they name, starting from 0.
    fn places(&self, row: usize, picked: Picked, value: &Expr, out: &mut [f64]) {
        let output = &self.kernel.outputs[0];
        let own = Place {
            row,
            src: row,
            dst: row,
            edge: usize::MAX,
            list: None,
        };
        let (heads, width) = (self.kernel.heads, self.kernel.width);
        for (h, c) in elements(heads, width) {
            let first = own.address(output, h, c);
            (0..picked.count).for_each(|n| out[first + (n * picked.step) as usize] = 0.0);
            for edge in self.edges(row) {
                out[first + self.picked(output, &edge)] += self.eval(value, &edge, h, c, 0.0);
            }
        }
    }

    /// Elements to skip to reach the picked place.
    fn picked(&self, operand: &Operand, place: &Place) -> usize {
        operand.picked.map_or(0, |picked| {
            let by = usize::from(picked.by);
            let number = self.args.inputs[by][place.address(&self.kernel.inputs[by], 0, 0)];
            number as usize * picked.step as usize
        })
    }

    fn mask(&self, index: usize, place: &Place, h: u32, c: u32) -> f64 {
        let (mask, key) = (&self.kernel.masks[index], self.args.keys[index]);
        let id = |local: usize| self.args.ids[local];
        let hash = match mask_row(self.kernel, mask.at) {
            At::Src => vertex_hash(key, id(place.src)),
            At::Dst => vertex_hash(key, id(place.dst)),
            At::Edge => edge_hash(key, id(place.src), id(place.dst)),
            At::Row | At::One | At::List => vertex_hash(key, id(place.row)),
        };
        let column = mask.first + h * mask.head_step + c * mask.column_step;
        if keep(hash, column, mask.p) {
            1.0 / (1.0 - f64::from(mask.p))
        } else {
            0.0
        }
    }
}

impl Place {
    fn address(&self, operand: &Operand, h: u32, c: u32) -> usize {
        let row = match operand.at {
            At::Row => self.row,
            At::Src => self.src,
            At::Dst => self.dst,
            At::Edge => self.edge,
            At::One => 0,
            At::List => self
                .list
                .expect("the kernel reads through a row list that was not given"),
        };
        row * operand.stride as usize
            + (operand.offset + h * operand.head_step + c * operand.column_step) as usize
    }
}

fn elements(heads: u32, width: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..heads).flat_map(move |h| (0..width).map(move |c| (h, c)))
}

fn fold(reduce: Reduce, terms: impl Iterator<Item = f64>) -> f64 {
    reduce.fold(terms)
}
