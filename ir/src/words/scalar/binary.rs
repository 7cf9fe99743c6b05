//! Functions of two numbers.

use serde::{Deserialize, Serialize};

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

impl Binary {
    /// Every function.
    pub const ALL: &'static [Self] = &[
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::Max,
        Self::Eq,
    ];

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
    fn a_maximum_hides_nothing_that_is_not_a_number() {
        let none = f64::NAN;
        assert!(Binary::Max.eval(none, 1.0).is_nan());
        assert!(Binary::Max.eval(1.0, none).is_nan());
        assert_eq!(Binary::Max.eval(2.0, 1.0), 2.0);
    }
}
