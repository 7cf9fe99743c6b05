//! How many epochs another seed needs, as far as the seeds of a pilot tell.

use crate::words::spelling::counted;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::fmt;

/// Nine of ten further seeds are expected within the bounds, one in twenty beyond each of them.
const BEYOND: f64 = 0.05;

/// Whole epochs, from the fewest to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochRange {
    /// The fewest.
    pub low: u64,
    /// The most.
    pub high: u64,
}

impl EpochRange {
    /// The epochs of another seed, of those that some seeds needed when every so many epochs were evaluated: Student's
    /// prediction interval of 90 % for one further logarithm of epochs (Hahn and Meeker, Statistical Intervals). `None` with
    /// fewer than two seeds, which tell nothing of a spread.
    ///
    /// A score is seen at evaluations only. So a number of epochs has a further deviation, that of a number somewhere
    /// between two evaluations, and the bounds are evaluations. Both make the interval wider than 90 %.
    pub(super) fn of_another_seed(epochs: &[u64], every: u32) -> Option<Self> {
        let seeds = epochs.len() as f64;
        let student = StudentsT::new(0.0, 1.0, seeds - 1.0).ok()?;
        let logs: Vec<f64> = epochs.iter().map(|&n| (n.max(1) as f64).ln()).collect();
        let mean = logs.iter().sum::<f64>() / seeds;
        let among_seeds = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (seeds - 1.0);
        let between_evaluations = (f64::from(every.max(1)) / mean.exp()).powi(2) / 12.0;
        let deviation = ((among_seeds + between_evaluations) * (1.0 + 1.0 / seeds)).sqrt();
        let width = student.inverse_cdf(1.0 - BEYOND) * deviation;
        let every = u64::from(every.max(1));
        let evaluations = |epochs: f64| epochs / every as f64;
        let low = evaluations((mean - width).exp()).floor() as u64;
        let high = evaluations((mean + width).exp()).ceil() as u64;
        Some(Self {
            low: low.max(1) * every,
            high: high.saturating_mul(every),
        })
    }
}

/// Such as `26 to 34 epochs`, or `1 epoch`.
impl fmt::Display for EpochRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.low < self.high {
            write!(f, "{} to ", self.low)?;
        }
        f.write_str(&counted(self.high, "epoch"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(epochs: &[u64], every: u32) -> (u64, u64) {
        let range = EpochRange::of_another_seed(epochs, every).unwrap();
        (range.low, range.high)
    }

    /// Logarithms of 40, 60 and 50: mean 3.9007, deviation 0.2027; evaluations add 1 / 49.3 / sqrt(12) = 0.0059. Student's
    /// quantile for two degrees of freedom is 2.9200, so the width is 2.92 * 0.2028 * sqrt(4 / 3) = 0.6837.
    #[test]
    fn bounds_are_those_of_student() {
        assert_eq!(of(&[40, 60, 50], 1), (24, 98));
        // One degree of freedom: 6.3138 * 0.2867 * sqrt(3 / 2) = 2.217.
        assert_eq!(of(&[40, 60], 1), (5, 450));
    }

    /// 8 / 16 / sqrt(12) = 0.1443; 2.92 * 0.1443 * sqrt(4 / 3) = 0.4866.
    #[test]
    fn equal_seeds_differ_by_what_lies_between_evaluations() {
        assert_eq!(of(&[16, 16, 16], 8), (8, 32));
        // No run ends before its first evaluation.
        assert_eq!(of(&[8, 8, 8], 8), (8, 24));
        assert_eq!(of(&[1000, 1000, 1000], 1), (999, 1001));
    }

    #[test]
    fn one_seed_tells_nothing_of_others() {
        assert_eq!(EpochRange::of_another_seed(&[40], 1), None);
        assert_eq!(EpochRange::of_another_seed(&[], 1), None);
    }

    /// Of seeds whose logarithms are normal, nine of ten lie within the bounds that three others give.
    #[test]
    fn nine_of_ten_seeds_lie_within() {
        let mut state = 1_u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        };
        let mut seed = || {
            let normal = (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
            (5000.0 * (0.3 * normal).exp()).round() as u64
        };
        let trials = 20_000;
        let within = (0..trials).filter(|_| {
            let range = EpochRange::of_another_seed(&[seed(), seed(), seed()], 1).unwrap();
            (range.low..=range.high).contains(&seed())
        });
        let share = within.count() as f64 / f64::from(trials);
        assert!((share - 0.9).abs() < 0.01, "{share}");
    }
}
