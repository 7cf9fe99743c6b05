//! Functions of one and of two numbers.

use serde::{Deserialize, Serialize};

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unary {
    /// `-x`
    Neg,
    /// `max(x, 0)`
    Relu,
    /// `x > 0 ? 1 : 0`, the derivative of `relu`
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
    /// `x == 0 ? 0 : 1 / x`: the mean over an empty neighbourhood is 0
    Recip,
}

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binary {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`
    Div,
    /// `max(a, b)`
    Max,
    /// `a == b ? 1 : 0`
    Eq,
}

impl Unary {
    /// The value of the function.
    pub fn eval(self, x: f64) -> f64 {
        let positive = x > 0.0;
        match self {
            Self::Neg => -x,
            // What is not a number stays so, and its gradient passes, as in PyTorch.
            Self::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Self::Step => {
                if x <= 0.0 {
                    0.0
                } else {
                    1.0
                }
            }
            Self::LeakyRelu(slope) => x * if positive { 1.0 } else { f64::from(slope) },
            Self::LeakyStep(slope) => {
                if positive {
                    1.0
                } else {
                    f64::from(slope)
                }
            }
            Self::Elu => {
                if positive {
                    x
                } else {
                    x.exp_m1()
                }
            }
            Self::EluStep => {
                if positive {
                    1.0
                } else {
                    x.exp()
                }
            }
            Self::Exp => x.exp(),
            Self::Log => x.ln(),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Tanh => x.tanh(),
            Self::Sqrt => x.sqrt(),
            Self::Rsqrt => 1.0 / x.sqrt(),
            Self::Recip => {
                if x == 0.0 {
                    0.0
                } else {
                    1.0 / x
                }
            }
        }
    }

    /// The name in printed graphs.
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
}

impl Binary {
    /// The value of the function.
    pub fn eval(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Div => a / b,
            // `f64::max` would pass over what is not a number.
            Self::Max => {
                if a > b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
            Self::Eq => f64::from(u8::from(a == b)),
        }
    }

    /// The name in printed graphs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul",
            Self::Div => "div",
            Self::Max => "max",
            Self::Eq => "eq",
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
        assert!(Binary::Max.eval(none, 1.0).is_nan());
        assert!(Binary::Max.eval(1.0, none).is_nan());
        assert_eq!(Binary::Max.eval(2.0, 1.0), 2.0);
    }
}
