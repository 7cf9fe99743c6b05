//! Counts of an instruction that do not depend on a rank's sizes.

use super::picks::is_picked;
use super::{TRANSCENDENTAL, Work, launched};
use crate::kernel::expr::{Expr, Value};
use crate::kernel::{Body, EdgePass, EdgeResult, Kernel};
use crate::program::{Instr, Program, RankSizes};
use crate::words::scalar::Pace;

/// An instruction with its size-independent counts.
#[derive(Clone, Debug)]
pub struct Counts<'a> {
    pub(in crate::program) program: &'a Program,
    pub(super) instr: &'a Instr,
    pub(in crate::program) kernel: Option<Counted<'a>>,
}

impl<'a> Counts<'a> {
    /// Counts the expressions of the instruction's kernel, if it has one.
    pub fn of(program: &'a Program, instr: &'a Instr) -> Self {
        let launch = instr.launch();
        Self {
            program,
            instr,
            kernel: launch.map(|launch| Counted::of(program.kernel(launch.kernel))),
        }
    }

    /// The instruction.
    pub fn instr(&self) -> &'a Instr {
        self.instr
    }

    /// The cost on a rank of these sizes; see [`work`](super::work).
    pub fn work(&self, sizes: &RankSizes) -> Option<Work> {
        self.instr.work(self, &launched(self.instr, sizes))
    }
}

/// A kernel with its loads and operations.
#[derive(Clone, Debug)]
pub(in crate::program) struct Counted<'a> {
    pub kernel: &'a Kernel,
    /// The inputs that it loads.
    pub loads: Vec<u16>,
    /// Those of them whose rows it picks.
    pub picked: Vec<u16>,
    /// Operations of the expressions in the inner loop, each evaluated once.
    pub inner: f64,
    /// Operations after the inner loop.
    pub finish: f64,
}

impl<'a> Counted<'a> {
    fn of(kernel: &'a Kernel) -> Self {
        let (inner, finish) = match &kernel.body {
            Body::Map { values, .. } => (values.iter().map(operations).sum(), 0.0),
            Body::Gather { value, finish, .. } | Body::RowReduce { value, finish, .. } => {
                (operations(value), operations(finish))
            }
            Body::ColReduce { value, .. } | Body::TypeSum { value, .. } => (operations(value), 0.0),
            // Counted by [`pass_flops`].
            Body::EdgePass(_) => (0.0, 0.0),
        };
        let loads = loads(kernel);
        let picks = |n: &u16| {
            let operand = kernel.inputs.get(usize::from(*n));
            operand.is_some_and(|operand| is_picked(kernel, operand))
        };
        Self {
            kernel,
            picked: loads.iter().copied().filter(picks).collect(),
            loads,
            inner,
            finish,
        }
    }
}

/// The inputs that a kernel's expressions load, ascending, without duplicates.
pub(super) fn loads(kernel: &Kernel) -> Vec<u16> {
    let values = kernel.body.exprs().into_iter().flat_map(|e| &e.values);
    let mut found: Vec<u16> = values
        .filter_map(|v| match v {
            Value::Load(n) => Some(*n),
            _ => None,
        })
        .collect();
    let picked = found
        .iter()
        .filter_map(|n| kernel.inputs.get(*n as usize)?.picked);
    let by: Vec<u16> = picked.map(|picked| picked.by).collect();
    found.extend(by);
    found.sort_unstable();
    found.dedup();
    found
}

/// Operations of an edge pass over `rows` rows and `edges` edges.
pub(super) fn pass_flops(kernel: &Kernel, pass: &EdgePass, [rows, edges]: [f64; 2]) -> f64 {
    let (heads, columns) = (f64::from(kernel.heads), f64::from(kernel.width));
    let numbers = pass.numbers.iter().map(|number| match number.dot {
        true => columns * (operations(&number.value) + 1.0),
        false => operations(&number.value),
    });
    let mut of_edge: f64 = numbers.sum();
    if pass.softmax.is_some() {
        // Maximum, difference, exponential, sum.
        of_edge += 3.0 + TRANSCENDENTAL;
    }
    // A sum of weighted values multiplies each of them.
    let weight = f64::from(pass.softmax.is_some());
    let mut of_row = 0.0;
    for (result, output) in pass.results.iter().zip(&kernel.outputs) {
        match result {
            EdgeResult::Sum { value, finish } => {
                let columns = if output.column_step == 0 {
                    1.0
                } else {
                    columns
                };
                of_edge += columns * (operations(value) + 1.0 + weight);
                of_row += columns * (operations(finish) + weight);
            }
            EdgeResult::LogSumExp => of_row += TRANSCENDENTAL + 1.0,
            EdgeResult::Number(_) => {}
        }
    }
    heads * (edges * of_edge + rows * of_row)
}

/// Operations in one evaluation of an expression.
fn operations(expr: &Expr) -> f64 {
    expr.values
        .iter()
        .map(|value| match value {
            Value::Load(_) | Value::Const(_) | Value::Scalar(_) => 0.0,
            Value::Acc | Value::Number(_) => 0.0,
            Value::Mask(_) => TRANSCENDENTAL,
            Value::Unary(function, _) => match function.pace() {
                Pace::Exponential => TRANSCENDENTAL,
                Pace::Cheap | Pace::Divide => 1.0,
            },
            Value::Binary(..) => 1.0,
        })
        .sum()
}
