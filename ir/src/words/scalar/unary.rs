//! Functions of one number.

use super::formula::{Formula, Test};
use super::{Binary, Formula as F};
use serde::{Deserialize, Serialize};
use std::mem::discriminant;

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unary {
    /// `-x`
    Neg,
    /// `max(x, 0)`; NaN stays NaN, as in PyTorch
    Relu,
    /// `x <= 0 ? 0 : 1`, the derivative of `relu`; 1 for NaN
    Step,
    /// `x > 0 ? x : slope * x`
    LeakyRelu(f32),
    /// `x > 0 ? 1 : slope`, the derivative of `leaky_relu`
    LeakyStep(f32),
    /// `x > 0 ? x : exp(x) - 1`
    Elu,
    /// `x > 0 ? 1 : exp(x)`, the derivative of `elu`
    EluStep,
    /// `exp(x)`
    Exp,
    /// natural logarithm
    Log,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
    /// hyperbolic tangent
    Tanh,
    /// square root
    Sqrt,
    /// `1 / sqrt(x)`
    Rsqrt,
    /// `x == 0 ? 0 : 1 / x`: the mean over an empty neighborhood is 0
    Recip,
}

/// What is known of the sign of a value; a later one implies the ones before.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Sign {
    /// Nothing is known.
    #[default]
    Unknown,
    /// Not below 0.
    NonNegative,
    /// Above 0.
    Positive,
}

/// How fast a processor computes a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A few operations that start every cycle.
    Cheap,
    /// A division or a root.
    Divide,
    /// A polynomial with an exponent, such as `exp`.
    Exponential,
}

/// The derivative of a function `y` of `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Derivative {
    /// 0 wherever there is one.
    Zero,
    /// What the gradient by `y` is multiplied by.
    Times(Term),
    /// The gradient by `x` itself, from `g`, the gradient by `y`.
    Gradient(Term),
}

/// A value that a derivative is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Term {
    /// The argument.
    X,
    /// The result.
    Y,
    /// The gradient by the result.
    G,
    /// 1
    One,
    /// A function of a value.
    Unary(Unary, &'static Term),
    /// A function of two values.
    Binary(Binary, &'static Term, &'static Term),
    /// A value times a number.
    Scaled(f32, &'static Term),
}

const ZERO: &Formula = &F::Const(0.0);
const ONE: &Formula = &F::Const(1.0);
const Y2: &Term = &Term::Binary(Binary::Mul, &Term::Y, &Term::Y);

impl Unary {
    /// Every function, with a slope of 0 where there is one.
    pub const ALL: &'static [Self] = &[
        Self::Neg,
        Self::Relu,
        Self::Step,
        Self::LeakyRelu(0.0),
        Self::LeakyStep(0.0),
        Self::Elu,
        Self::EluStep,
        Self::Exp,
        Self::Log,
        Self::Sigmoid,
        Self::Tanh,
        Self::Sqrt,
        Self::Rsqrt,
        Self::Recip,
    ];

    /// The name in the language, in printed graphs and in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Neg => "neg",
            Self::Relu => "relu",
            Self::Step => "step",
            Self::LeakyRelu(_) => "leaky_relu",
            Self::LeakyStep(_) => "leaky_step",
            Self::Elu => "elu",
            Self::EluStep => "elu_step",
            Self::Exp => "exp",
            Self::Log => "log",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
            Self::Sqrt => "sqrt",
            Self::Rsqrt => "rsqrt",
            Self::Recip => "recip",
        }
    }

    /// The function's own number, if it has one.
    pub fn slope(self) -> Option<f32> {
        match self {
            Self::LeakyRelu(slope) | Self::LeakyStep(slope) => Some(slope),
            _ => None,
        }
    }

    /// The same function with another number of its own.
    pub fn with_slope(self, slope: f32) -> Self {
        match self {
            Self::LeakyRelu(_) => Self::LeakyRelu(slope),
            Self::LeakyStep(_) => Self::LeakyStep(slope),
            plain => plain,
        }
    }

    /// What it computes.
    pub fn formula(self) -> Formula {
        match self {
            Self::Neg => F::Neg(&F::X),
            Self::Relu => F::If(Test::Below, ZERO, &F::X),
            Self::Step => F::If(Test::NotAbove, ZERO, ONE),
            Self::LeakyRelu(_) => F::If(Test::Above, &F::X, &F::Mul(&F::Slope, &F::X)),
            Self::LeakyStep(_) => F::If(Test::Above, ONE, &F::Slope),
            Self::Elu => F::If(Test::Above, &F::X, &F::ExpM1(&F::X)),
            Self::EluStep => F::If(Test::Above, ONE, &F::Exp(&F::X)),
            Self::Exp => F::Exp(&F::X),
            Self::Log => F::Log(&F::X),
            Self::Sigmoid => F::Div(ONE, &F::Add(ONE, &F::Exp(&F::Neg(&F::X)))),
            Self::Tanh => F::Tanh(&F::X),
            Self::Sqrt => F::Sqrt(&F::X),
            Self::Rsqrt => F::Div(ONE, &F::Sqrt(&F::X)),
            Self::Recip => F::If(Test::Zero, ZERO, &F::Div(ONE, &F::X)),
        }
    }

    /// Its derivative. From `y` where that is as good as from `x`: the output is kept anyway where a product follows, so the
    /// input need not be kept as well.
    pub fn derivative(self) -> Derivative {
        use Derivative::{Gradient, Times, Zero};
        match self {
            Self::Neg => Gradient(Term::Unary(Self::Neg, &Term::G)),
            // x > 0 exactly where y > 0.
            Self::Relu => Times(Term::Unary(Self::Step, &Term::Y)),
            Self::LeakyRelu(slope) => Times(Term::Unary(
                Self::LeakyStep(slope),
                if slope > 0.0 { &Term::Y } else { &Term::X },
            )),
            Self::Elu => Times(Term::Unary(Self::EluStep, &Term::X)),
            Self::Exp => Times(Term::Y),
            Self::Log => Gradient(Term::Binary(Binary::Div, &Term::G, &Term::X)),
            Self::Sigmoid => Times(Term::Binary(Binary::Sub, &Term::Y, Y2)),
            Self::Tanh => Times(Term::Binary(Binary::Sub, &Term::One, Y2)),
            // 0 at 0, where there is no derivative.
            Self::Sqrt => Times(Term::Scaled(0.5, &Term::Unary(Self::Recip, &Term::Y))),
            Self::Rsqrt => Times(Term::Scaled(-0.5, &Term::Binary(Binary::Mul, Y2, &Term::Y))),
            Self::Recip => Times(Term::Unary(Self::Neg, Y2)),
            Self::EluStep => Times(Term::Binary(
                Binary::Sub,
                &Term::Unary(Self::EluStep, &Term::X),
                &Term::Unary(Self::Step, &Term::X),
            )),
            Self::Step | Self::LeakyStep(_) => Zero,
        }
    }

    /// How fast a processor computes it.
    pub fn pace(self) -> Pace {
        match self {
            Self::Neg | Self::Relu | Self::Step | Self::LeakyRelu(_) | Self::LeakyStep(_) => {
                Pace::Cheap
            }
            Self::Sqrt | Self::Rsqrt | Self::Recip => Pace::Divide,
            Self::Elu | Self::EluStep | Self::Exp | Self::Log | Self::Sigmoid | Self::Tanh => {
                Pace::Exponential
            }
        }
    }

    /// Operations that the choice of a form counts for it.
    pub fn flops(self) -> f64 {
        match self {
            Self::Neg | Self::Relu | Self::Step | Self::LeakyRelu(_) | Self::LeakyStep(_) => 1.0,
            Self::Sqrt | Self::Rsqrt | Self::Recip => 4.0,
            Self::Elu | Self::EluStep | Self::Exp => 10.0,
            Self::Log | Self::Sigmoid | Self::Tanh => 15.0,
        }
    }

    /// The sign of its values, and whether they are finite, from the same of its arguments.
    pub fn range(self, sign: Sign, finite: bool) -> (Sign, bool) {
        // `exp(-x)` and `1 / x` of an infinite `x` are 0.
        let positive = if finite {
            Sign::Positive
        } else {
            Sign::NonNegative
        };
        match self {
            Self::Neg => (Sign::Unknown, finite),
            Self::Relu => (sign.max(Sign::NonNegative), finite),
            Self::Step => (Sign::NonNegative, true),
            Self::LeakyRelu(_) | Self::Elu | Self::Tanh => (sign, finite),
            Self::LeakyStep(slope) => (Sign::of(f64::from(slope)), true),
            Self::Exp | Self::EluStep | Self::Sigmoid => (positive, finite),
            Self::Log => (Sign::Unknown, finite && sign == Sign::Positive),
            Self::Sqrt => (sign, finite && sign >= Sign::NonNegative),
            Self::Rsqrt if sign >= Sign::NonNegative => {
                (positive, finite && sign == Sign::Positive)
            }
            Self::Rsqrt => (Sign::Unknown, false),
            Self::Recip => (sign.min(positive), finite),
        }
    }

    /// Whether models use it as the activation that ends a layer.
    pub fn is_activation(self) -> bool {
        match self {
            Self::Relu | Self::LeakyRelu(_) | Self::Elu | Self::Sigmoid | Self::Tanh => true,
            Self::Neg | Self::Step | Self::LeakyStep(_) | Self::EluStep => false,
            Self::Exp | Self::Log | Self::Sqrt | Self::Rsqrt | Self::Recip => false,
        }
    }

    /// Two numbers that tell it from every other function.
    pub fn key(self) -> (u32, u32) {
        let same = |other: &Self| discriminant(other) == discriminant(&self);
        let place = Self::ALL.iter().position(same);
        let slope = self.slope().map_or(0, f32::to_bits);
        (place.unwrap_or(Self::ALL.len()) as u32, slope)
    }

    /// The value of the function, in double precision.
    pub fn eval(self, x: f64) -> f64 {
        let slope = self.slope().map_or(0.0, f64::from);
        self.formula().eval(x, slope)
    }
}

impl Sign {
    /// That of a number.
    pub fn of(value: f64) -> Self {
        if value > 0.0 {
            Self::Positive
        } else if value == 0.0 {
            Self::NonNegative
        } else {
            Self::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_hide_nothing_that_is_not_a_number() {
        let none = f64::NAN;
        assert!(Unary::Relu.eval(none).is_nan());
        assert_eq!(
            [-2.0, 0.0, 3.0].map(|x| Unary::Relu.eval(x)),
            [0.0, 0.0, 3.0]
        );
        // The gradient passes, as in PyTorch.
        assert_eq!(
            [none, -2.0, 0.0, 3.0].map(|x| Unary::Step.eval(x)),
            [1.0, 0.0, 0.0, 1.0]
        );
    }

    #[test]
    fn every_function_is_listed_once() {
        let mut names: Vec<&str> = Unary::ALL.iter().map(|f| f.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Unary::ALL.len());
        let slope = Unary::LeakyRelu(0.0).with_slope(0.5);
        assert_eq!((slope, slope.slope()), (Unary::LeakyRelu(0.5), Some(0.5)));
    }
}
