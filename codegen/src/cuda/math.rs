//! Elementary functions as C expressions; they treat NaN like the CPU back end.
//!
//! `expf`, `logf`, `tanhf`, `sqrtf` and `/` are those of CUDA without `--use_fast_math`: at most 2
//! units in the last place; the last two are exact.

use gnnc_ir::kernel::Reduce;
use gnnc_ir::words::scalar::{Binary, Unary};

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
    match unary {
        Unary::Neg => format!("-{x}"),
        Unary::Relu => format!("{x} < 0.0f ? 0.0f : {x}"),
        Unary::Step => format!("{x} <= 0.0f ? 0.0f : 1.0f"),
        Unary::LeakyRelu(slope) => format!("{x} > 0.0f ? {x} : {} * {x}", number(slope)),
        Unary::LeakyStep(slope) => format!("{x} > 0.0f ? 1.0f : {}", number(slope)),
        Unary::Elu => format!("{x} > 0.0f ? {x} : expm1f({x})"),
        Unary::EluStep => format!("{x} > 0.0f ? 1.0f : expf({x})"),
        Unary::Exp => format!("expf({x})"),
        Unary::Log => format!("logf({x})"),
        Unary::Sigmoid => format!("1.0f / (1.0f + expf(-{x}))"),
        Unary::Tanh => format!("tanhf({x})"),
        Unary::Sqrt => format!("sqrtf({x})"),
        Unary::Rsqrt => format!("1.0f / sqrtf({x})"),
        Unary::Recip => format!("{x} == 0.0f ? 0.0f : 1.0f / {x}"),
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
    match reduce {
        Reduce::Sum => format!("{sum} += {value};"),
        Reduce::Max => format!("{sum} = gnnc_max({sum}, {value});"),
    }
}

/// The initial value of a reduction.
pub fn identity(reduce: Reduce) -> String {
    number(match reduce {
        Reduce::Sum => 0.0,
        Reduce::Max => f32::NEG_INFINITY,
    })
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
