//! What a function of one number computes, as a tree of a few primitives.

/// A number computed from `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Formula {
    /// The argument.
    X,
    /// A number.
    Const(f32),
    /// `-a`
    Neg(&'static Formula),
    /// `a + b`
    Add(&'static Formula, &'static Formula),
    /// `a * b`
    Mul(&'static Formula, &'static Formula),
    /// `a / b`
    Div(&'static Formula, &'static Formula),
    /// The function's own number, such as the slope of `leaky_relu`.
    Slope,
    /// `exp(a)`
    Exp(&'static Formula),
    /// `exp(a) - 1`, exact near 0
    ExpM1(&'static Formula),
    /// The natural logarithm.
    Log(&'static Formula),
    /// The hyperbolic tangent.
    Tanh(&'static Formula),
    /// The square root.
    Sqrt(&'static Formula),
    /// One of two numbers, by a comparison of `x` with 0; the second if `x` is NaN.
    If(Test, &'static Formula, &'static Formula),
}

/// A comparison of `x` with 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// `x > 0`
    Above,
    /// `x < 0`
    Below,
    /// `x <= 0`
    NotAbove,
    /// `x == 0`
    Zero,
}

impl Formula {
    /// The value at `x`, in double precision; `slope` is the function's own number.
    pub fn eval(&self, x: f64, slope: f64) -> f64 {
        let of = |formula: &Self| formula.eval(x, slope);
        match self {
            Self::X => x,
            Self::Const(value) => f64::from(*value),
            Self::Slope => slope,
            Self::Neg(a) => -of(a),
            Self::Add(a, b) => of(a) + of(b),
            Self::Mul(a, b) => of(a) * of(b),
            Self::Div(a, b) => of(a) / of(b),
            Self::Exp(a) => of(a).exp(),
            Self::ExpM1(a) => of(a).exp_m1(),
            Self::Log(a) => of(a).ln(),
            Self::Tanh(a) => of(a).tanh(),
            Self::Sqrt(a) => of(a).sqrt(),
            Self::If(test, then, other) => of(if test.holds(x) { then } else { other }),
        }
    }
}

impl Test {
    fn holds(self, x: f64) -> bool {
        match self {
            Self::Above => x > 0.0,
            Self::Below => x < 0.0,
            Self::NotAbove => x <= 0.0,
            Self::Zero => x == 0.0,
        }
    }
}
