//! Checks of [`gnnc_ir::kernel::EdgePass`].

use super::{SpecError, check_gather_finish};
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, EdgePass, EdgeResult, Kernel};

/// Checks what expressions and operands alone do not show.
pub(super) fn check(kernel: &Kernel, pass: &EdgePass) -> Result<(), SpecError> {
    let known = |n: u16| usize::from(n) < pass.numbers.len();
    for (index, number) in pass.numbers.iter().enumerate() {
        if !number.dot && has_columns(kernel, &number.value) {
            let problem = "has columns, but it is one number per head; let it be a dot";
            return Err(wrong("number", index, problem));
        }
    }
    if let Some(score) = pass.softmax
        && !known(score)
    {
        return Err(wrong(
            "number",
            score.into(),
            "weights the sums, but there is no such number",
        ));
    }
    for (index, (result, output)) in pass.results.iter().zip(&kernel.outputs).enumerate() {
        let wrong = |problem| Err(wrong("result", index, problem));
        let narrow = output.column_step == 0;
        let at_edge = output.at == At::Edge;
        if output.picked.is_some() {
            return wrong("is picked, which only a plain sum can be");
        }
        match result {
            EdgeResult::Sum { .. } | EdgeResult::LogSumExp if at_edge => {
                return wrong("has a value per row, but its output is at the edge");
            }
            EdgeResult::Number(_) if !at_edge => {
                return wrong("has a value per edge, but its output is at the row");
            }
            EdgeResult::Number(_) | EdgeResult::LogSumExp if kernel.width > 1 && !narrow => {
                return wrong("has one column per head, but its output has more");
            }
            EdgeResult::Number(number) if !known(*number) => {
                return wrong("stores a number that the pass does not have");
            }
            EdgeResult::LogSumExp if pass.softmax.is_none() => {
                return wrong("is a log-sum-exp of no scores");
            }
            EdgeResult::Sum { value, finish } => {
                if narrow && (has_columns(kernel, value) || has_columns(kernel, finish)) {
                    return wrong("has one column per head, but its value has more");
                }
                check_gather_finish(kernel, finish)?;
            }
            EdgeResult::Number(_) | EdgeResult::LogSumExp => {}
        }
    }
    Ok(())
}

fn wrong(what: &'static str, index: usize, problem: &'static str) -> SpecError {
    SpecError::Pass {
        what,
        index,
        problem,
    }
}

/// Whether a value differs from column to column.
fn has_columns(kernel: &Kernel, expr: &Expr) -> bool {
    let steps = |value: &Value| match *value {
        Value::Load(input) => kernel.inputs[usize::from(input)].column_step != 0,
        Value::Mask(mask) => kernel.masks[usize::from(mask)].column_step != 0,
        _ => false,
    };
    kernel.width > 1 && expr.values.iter().any(steps)
}
