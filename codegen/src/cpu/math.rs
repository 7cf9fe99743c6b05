//! Elementary functions on vectors of four floats, as polynomials.
//!
//! The coefficients are those of Cephes (S. L. Moshier), with errors of about 2 units in the last
//! place on the reduced ranges.

use super::function::Emit;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use gnnc_ir::words::scalar::{Binary, Formula, Test, Unary};

/// Adding this moves the integer part of a small float into its low bits.
const ROUNDER: f32 = 12_582_912.0;
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

const EXP: [f32; 6] = [
    1.987_569_2e-4,
    1.398_2e-3,
    8.333_452e-3,
    4.166_579_6e-2,
    1.666_666_5e-1,
    0.5,
];
const LOG: [f32; 9] = [
    7.037_683_6e-2,
    -1.151_461e-1,
    1.167_699_84e-1,
    -1.242_014_1e-1,
    1.424_932_3e-1,
    -1.666_805_7e-1,
    2.000_071_5e-1,
    -2.499_999_4e-1,
    3.333_333e-1,
];
const TANH: [f32; 5] = [
    -5.704_988_7e-3,
    2.063_909e-2,
    -5.373_971_5e-2,
    1.333_144_2e-1,
    -3.333_328e-1,
];

/// The comparison with 0 that a test is.
fn condition(test: Test) -> FloatCC {
    match test {
        Test::Above => FloatCC::GreaterThan,
        Test::Below => FloatCC::LessThan,
        Test::NotAbove => FloatCC::LessThanOrEqual,
        Test::Zero => FloatCC::Equal,
    }
}

/// The comparison that holds where a test does not, NaN included.
fn complement(test: Test) -> FloatCC {
    match test {
        Test::Above => FloatCC::UnorderedOrLessThanOrEqual,
        Test::Below => FloatCC::UnorderedOrGreaterThanOrEqual,
        Test::NotAbove => FloatCC::UnorderedOrGreaterThan,
        Test::Zero => FloatCC::NotEqual,
    }
}

impl Emit<'_, '_> {
    /// A function of one vector.
    pub fn unary(&mut self, unary: Unary, x: Value) -> Value {
        let slope = unary.slope().unwrap_or(0.0);
        match unary {
            Unary::Relu => {
                // A NaN stays NaN: `vmax` returns its second argument.
                let zero = self.splat(0.0);
                self.vmax(zero, x)
            }
            Unary::LeakyRelu(slope) if slope > 0.0 && slope <= 1.0 => {
                let slope = self.splat(slope);
                let scaled = self.b.ins().fmul(x, slope);
                self.vmax(x, scaled)
            }
            plain => self.formula(&plain.formula(), x, slope),
        }
    }

    /// A formula of `x`; `slope` is the function's own number.
    fn formula(&mut self, of: &Formula, x: Value, slope: f32) -> Value {
        match of {
            Formula::X => x,
            Formula::Const(value) => self.splat(*value),
            Formula::Slope => self.splat(slope),
            Formula::Neg(a) => {
                let a = self.formula(a, x, slope);
                self.b.ins().fneg(a)
            }
            Formula::Add(a, b) => {
                let (a, b) = (self.formula(a, x, slope), self.formula(b, x, slope));
                self.b.ins().fadd(a, b)
            }
            Formula::Mul(a, b) => {
                let (a, b) = (self.formula(a, x, slope), self.formula(b, x, slope));
                self.b.ins().fmul(a, b)
            }
            Formula::Div(a, b) => {
                let (a, b) = (self.formula(a, x, slope), self.formula(b, x, slope));
                self.b.ins().fdiv(a, b)
            }
            Formula::Exp(a) => {
                let a = self.formula(a, x, slope);
                self.exp(a)
            }
            Formula::ExpM1(a) => {
                let a = self.formula(a, x, slope);
                let (power, one) = (self.exp(a), self.splat(1.0));
                self.b.ins().fsub(power, one)
            }
            Formula::Log(a) => {
                let a = self.formula(a, x, slope);
                self.log(a)
            }
            Formula::Tanh(a) => {
                let a = self.formula(a, x, slope);
                self.tanh(a)
            }
            Formula::Sqrt(a) => {
                let a = self.formula(a, x, slope);
                self.b.ins().sqrt(a)
            }
            Formula::If(test, Formula::Const(0.0), other) => {
                // Lanes where the test fails keep their bits.
                let fails = self.test(complement(*test), x);
                let other = self.formula(other, x, slope);
                self.b.ins().band(other, fails)
            }
            Formula::If(test, then, other) => {
                let holds = self.test(condition(*test), x);
                let (then, other) = (self.formula(then, x, slope), self.formula(other, x, slope));
                self.b.ins().bitselect(holds, then, other)
            }
        }
    }

    /// All ones in lanes where a comparison of `x` with 0 holds.
    fn test(&mut self, condition: FloatCC, x: Value) -> Value {
        let zero = self.splat(0.0);
        let holds = self.b.ins().fcmp(condition, x, zero);
        self.cast(types::F32X4, holds)
    }

    /// A function of two vectors.
    pub fn binary(&mut self, binary: Binary, a: Value, b: Value) -> Value {
        match binary {
            Binary::Add => self.b.ins().fadd(a, b),
            Binary::Sub => self.b.ins().fsub(a, b),
            Binary::Mul => self.b.ins().fmul(a, b),
            Binary::Div => self.b.ins().fdiv(a, b),
            Binary::Max => {
                let larger = self.vmax(a, b);
                let none = self.b.ins().fcmp(FloatCC::Unordered, a, a);
                let none = self.cast(types::F32X4, none);
                self.b.ins().bitselect(none, a, larger)
            }
            Binary::Eq => {
                let equal = self.b.ins().fcmp(FloatCC::Equal, a, b);
                let equal = self.cast(types::F32X4, equal);
                let one = self.splat(1.0);
                self.b.ins().band(equal, one)
            }
        }
    }

    /// `coefficients[0] x^n + ... + coefficients[n]`.
    fn polynomial(&mut self, coefficients: &[f32], x: Value) -> Value {
        let mut sum = self.splat(coefficients[0]);
        for &coefficient in &coefficients[1..] {
            let term = self.splat(coefficient);
            sum = self.mul_add(sum, x, term);
        }
        sum
    }

    /// `2^n` in each lane, for integers `n` in `-126 ..= 127`.
    fn power_of_two(&mut self, n: Value) -> Value {
        let bias = self.isplat(127);
        let biased = self.b.ins().iadd(n, bias);
        let bits = self.b.ins().ishl_imm_u(biased, 23);
        self.cast(types::F32X4, bits)
    }

    /// `exp(x)`: overflow gives infinity; underflow passes through subnormals to 0.
    pub fn exp(&mut self, x: Value) -> Value {
        let (low, high) = (self.splat(-104.0), self.splat(89.0));
        // This operand order keeps NaN.
        let x = self.vmin(high, x);
        let x = self.vmax(low, x);
        let (log2e, rounder) = (self.splat(std::f32::consts::LOG2_E), self.splat(ROUNDER));
        let shifted = self.mul_add(x, log2e, rounder);
        let n = self.b.ins().fsub(shifted, rounder);
        let (high, low) = (self.splat(-LN2_HIGH), self.splat(-LN2_LOW));
        let r = self.mul_add(n, high, x);
        let r = self.mul_add(n, low, r);
        let series = self.polynomial(&EXP, r);
        let square = self.b.ins().fmul(r, r);
        let tail = self.mul_add(series, square, r);
        let one = self.splat(1.0);
        let power = self.b.ins().fadd(tail, one);
        // Two factors, since 2^n alone leaves the normal range at both ends.
        let (shifted, base) = (
            self.cast(types::I32X4, shifted),
            self.isplat(ROUNDER.to_bits()),
        );
        let n = self.b.ins().isub(shifted, base);
        let half = self.b.ins().sshr_imm_u(n, 1);
        let rest = self.b.ins().isub(n, half);
        let (half, rest) = (self.power_of_two(half), self.power_of_two(rest));
        let power = self.b.ins().fmul(power, half);
        self.b.ins().fmul(power, rest)
    }

    /// `ln(x)`: 0 gives -infinity, negative numbers give NaN.
    pub fn log(&mut self, x: Value) -> Value {
        let smallest = self.splat(f32::MIN_POSITIVE);
        let subnormal = self.b.ins().fcmp(FloatCC::LessThan, x, smallest);
        let subnormal = self.cast(types::F32X4, subnormal);
        let up = self.splat(8_388_608.0);
        let scaled = self.b.ins().fmul(x, up);
        let normal = self.b.ins().bitselect(subnormal, scaled, x);
        let bits = self.cast(types::I32X4, normal);
        // An exponent that puts the mantissa in [sqrt(1/2), sqrt(2)).
        let root = self.isplat(std::f32::consts::FRAC_1_SQRT_2.to_bits());
        let above = self.b.ins().isub(bits, root);
        let exponent = self.b.ins().sshr_imm_u(above, 23);
        let back = self.b.ins().ishl_imm_u(exponent, 23);
        let mantissa = self.b.ins().isub(bits, back);
        let mantissa = self.cast(types::F32X4, mantissa);
        let exponent = self.b.ins().fcvt_from_sint(types::F32X4, exponent);
        let (shift, zero, one) = (self.splat(-23.0), self.splat(0.0), self.splat(1.0));
        let shift = self.b.ins().band(subnormal, shift);
        let exponent = self.b.ins().fadd(exponent, shift);

        let m = self.b.ins().fsub(mantissa, one);
        let square = self.b.ins().fmul(m, m);
        let series = self.polynomial(&LOG, m);
        let cube = self.b.ins().fmul(square, m);
        let (low, high, half) = (self.splat(LN2_LOW), self.splat(LN2_HIGH), self.splat(-0.5));
        let small = self.b.ins().fmul(exponent, low);
        let small = self.mul_add(series, cube, small);
        let small = self.mul_add(half, square, small);
        let sum = self.b.ins().fadd(small, m);
        let log = self.mul_add(exponent, high, sum);

        let (infinite, nan) = (self.splat(f32::INFINITY), self.splat(f32::NAN));
        let finite = self.b.ins().fcmp(FloatCC::LessThan, x, infinite);
        let finite = self.cast(types::F32X4, finite);
        let log = self.b.ins().bitselect(finite, log, x);
        let valid = self.b.ins().fcmp(FloatCC::LessThan, x, zero);
        let valid = self.cast(types::F32X4, valid);
        let log = self.b.ins().bitselect(valid, nan, log);
        let is_zero = self.b.ins().fcmp(FloatCC::Equal, x, zero);
        let is_zero = self.cast(types::F32X4, is_zero);
        let pole = self.splat(f32::NEG_INFINITY);
        self.b.ins().bitselect(is_zero, pole, log)
    }

    /// `tanh(x)`: a polynomial near 0, `exp` elsewhere.
    pub fn tanh(&mut self, x: Value) -> Value {
        let size = self.b.ins().fabs(x);
        let (one, two, edge) = (self.splat(1.0), self.splat(2.0), self.splat(0.625));
        let double = self.b.ins().fadd(size, size);
        let power = self.exp(double);
        let below = self.b.ins().fadd(power, one);
        let quotient = self.b.ins().fdiv(two, below);
        let far = self.b.ins().fsub(one, quotient);
        let square = self.b.ins().fmul(x, x);
        let series = self.polynomial(&TANH, square);
        let series = self.b.ins().fmul(series, square);
        let near = self.mul_add(series, x, x);
        let sign = self.isplat(1 << 31);
        let sign = self.cast(types::F32X4, sign);
        let far = self.b.ins().bitselect(sign, x, far);
        let small = self.b.ins().fcmp(FloatCC::LessThan, size, edge);
        let small = self.cast(types::F32X4, small);
        self.b.ins().bitselect(small, near, far)
    }

    /// All ones where `a >= b` (signed), as float lanes.
    pub fn at_least(&mut self, a: Value, b: Value) -> Value {
        let reached = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, a, b);
        self.cast(types::F32X4, reached)
    }
}
