//! Elementary functions as C expressions; they treat NaN like the CPU back end.
//!
//! `expf`, `logf`, `tanhf`, `sqrtf` and `/` are those of CUDA without `--use_fast_math`: at most 2
//! units in the last place; the last two are exact.

use gnnc_ir::kernel::Reduce;
use gnnc_ir::words::scalar::{Binary, Formula, Test, Unary};

/// A literal that C reads back bit for bit.
pub fn number(x: f32) -> String {
    if x.is_finite() {
        format!("{x:?}f")
    } else {
        format!("__int_as_float(0x{:08x})", x.to_bits())
    }
}

/// A function of a variable or literal.
pub fn unary(unary: Unary, x: &str) -> String {
    formula(&unary.formula(), x, unary.slope().unwrap_or(0.0))
}

/// A formula of `x`; `slope` is the function's own number.
fn formula(of: &Formula, x: &str, slope: f32) -> String {
    let whole = |of: &Formula| formula(of, x, slope);
    // An operand of `-`, `*` or `/`.
    let part = |of: &Formula| match of {
        Formula::Neg(_) | Formula::Add(..) | Formula::Mul(..) | Formula::Div(..) => {
            format!("({})", whole(of))
        }
        Formula::If(..) => format!("({})", whole(of)),
        Formula::X | Formula::Const(_) | Formula::Slope => whole(of),
        Formula::Exp(_) | Formula::ExpM1(_) | Formula::Log(_) => whole(of),
        Formula::Tanh(_) | Formula::Sqrt(_) => whole(of),
    };
    match of {
        Formula::X => x.to_owned(),
        Formula::Const(value) => number(*value),
        Formula::Slope => number(slope),
        Formula::Neg(a) => format!("-{}", part(a)),
        Formula::Add(a, b) => format!("{} + {}", part(a), part(b)),
        Formula::Mul(a, b) => format!("{} * {}", part(a), part(b)),
        Formula::Div(a, b) => format!("{} / {}", part(a), part(b)),
        Formula::Exp(a) => format!("expf({})", whole(a)),
        Formula::ExpM1(a) => format!("expm1f({})", whole(a)),
        Formula::Log(a) => format!("logf({})", whole(a)),
        Formula::Tanh(a) => format!("tanhf({})", whole(a)),
        Formula::Sqrt(a) => format!("sqrtf({})", whole(a)),
        Formula::If(test, then, other) => {
            let sign = match test {
                Test::Above => ">",
                Test::Below => "<",
                Test::NotAbove => "<=",
                Test::Zero => "==",
            };
            format!("{x} {sign} 0.0f ? {} : {}", whole(then), whole(other))
        }
    }
}

/// A function of two variables or literals.
pub fn binary(binary: Binary, a: &str, b: &str) -> String {
    match binary {
        Binary::Add => format!("{a} + {b}"),
        Binary::Sub => format!("{a} - {b}"),
        Binary::Mul => format!("{a} * {b}"),
        Binary::Div => format!("{a} / {b}"),
        Binary::Max => format!("{a} > {b} || {a} != {a} ? {a} : {b}"),
        Binary::Eq => format!("{a} == {b} ? 1.0f : 0.0f"),
    }
}

/// The statement that reduces `value`, a variable or a call, into `sum`.
pub fn accumulate(reduce: Reduce, sum: &str, value: &str) -> String {
    match reduce.is_linear() {
        true => format!("{sum} += {value};"),
        false => format!("{sum} = gnnc_{}({sum}, {value});", reduce.name()),
    }
}

/// The initial value of a reduction.
pub fn identity(reduce: Reduce) -> String {
    number(reduce.identity())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_floats_of_c() {
        for (x, text) in [(1.0, "1.0f"), (-0.2, "-0.2f"), (1e-7, "1e-7f")] {
            assert_eq!(number(x), text);
        }
        assert_eq!(number(f32::INFINITY), "__int_as_float(0x7f800000)");
    }
}
