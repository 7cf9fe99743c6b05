//! Reductions of many numbers to one.

use serde::{Deserialize, Serialize};

/// How values are reduced. Every reduction runs in storage order; over nothing it gives 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reduce {
    /// Sum.
    Sum,
    /// Maximum.
    Max,
}

impl Reduce {
    /// Every reduction.
    pub const ALL: &'static [Self] = &[Self::Sum, Self::Max];

    /// The name in the language, in printed graphs and in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
        }
    }

    /// The value that changes nothing.
    pub fn identity(self) -> f32 {
        match self {
            Self::Sum => 0.0,
            Self::Max => f32::NEG_INFINITY,
        }
    }

    /// Whether the reduction of sums is the sum of reductions; others choose one of their values, and their gradient goes to
    /// whoever has it.
    pub fn is_linear(self) -> bool {
        match self {
            Self::Sum => true,
            Self::Max => false,
        }
    }

    /// The reduction of values in double precision. A maximum passes over NaN.
    pub fn fold(self, values: impl Iterator<Item = f64>) -> f64 {
        match self {
            Self::Sum => values.sum(),
            Self::Max => values.reduce(f64::max).unwrap_or(0.0),
        }
    }
}
