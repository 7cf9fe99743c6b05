//! Fits costs to measured times: the coefficient of each term that explains them best.

use gnnc_ir::program::trace::median;
use gnnc_ir::program::work::{TERM_COUNT, TERMS};
use std::collections::BTreeMap;

/// Most sweeps over all coefficients; they settle to a thousandth long before.
const SWEEPS: usize = 20_000;
/// Rounds of reweighting, in which badly fitting measurements lose weight.
const ROUNDS: usize = 6;
/// Relative error above which a measurement loses weight.
const GOOD: f64 = 0.03;
/// Seconds added to a time before an error is divided by it, since shorter times are noise.
pub const SHORT: f64 = 2e-6;

/// A measured time with the counts that explain it.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Counts, in the order of [`TERMS`].
    pub terms: [f64; TERM_COUNT],
    /// Seconds.
    pub seconds: f64,
}

/// Merges samples with equal terms into one, with the median of their times. Otherwise, heads and widths that many
/// models share would outvote rare ones.
pub fn merged(samples: &[Sample]) -> Vec<Sample> {
    let mut found: BTreeMap<[u64; TERM_COUNT], Vec<f64>> = BTreeMap::new();
    for sample in samples {
        let key = sample.terms.map(f64::to_bits);
        found.entry(key).or_default().push(sample.seconds);
    }
    let merge = |(terms, seconds): ([u64; TERM_COUNT], Vec<f64>)| Sample {
        terms: terms.map(f64::from_bits),
        seconds: median(&seconds),
    };
    found.into_iter().map(merge).collect()
}

/// The nonnegative costs with the least sum of absolute relative errors. Farther memory never costs less than
/// nearer memory; a level that was not measured costs as much as the level before it.
pub fn fit(samples: &[Sample]) -> [f64; TERM_COUNT] {
    let rows: Vec<[f64; TERM_COUNT]> = samples.iter().map(relative).collect();
    let wanted: Vec<f64> = samples
        .iter()
        .map(|s| s.seconds / (s.seconds + SHORT))
        .collect();
    let mut weights = vec![1.0; rows.len()];
    let mut costs = [0.0; TERM_COUNT];
    for _ in 0..ROUNDS {
        costs = least_squares(&rows, &wanted, &weights, costs);
        for ((weight, row), wanted) in weights.iter_mut().zip(&rows).zip(&wanted) {
            let error = dot(row, &costs) - wanted;
            *weight = 1.0 / error.abs().max(GOOD);
        }
    }
    added_up(costs)
}

/// The mean of the absolute relative errors.
pub fn error(samples: &[Sample], costs: &[f64; TERM_COUNT]) -> f64 {
    let errors = samples
        .iter()
        .map(|s| (dot(&s.terms, costs) - s.seconds).abs() / (s.seconds + SHORT));
    errors.sum::<f64>() / samples.len().max(1) as f64
}

/// The difference between two measurements of the same thing, relative to their mean.
pub fn difference(a: f64, b: f64) -> f64 {
    (a - b).abs() / (f64::midpoint(a, b) + SHORT)
}

/// The predicted time: counts times costs.
pub fn seconds(terms: &[f64; TERM_COUNT], costs: &[f64; TERM_COUNT]) -> f64 {
    dot(terms, costs)
}

/// The counts divided by the time. The count of a memory level becomes the sum over it and all larger levels, so
/// that coefficients are the steps from level to level.
fn relative(sample: &Sample) -> [f64; TERM_COUNT] {
    let mut row = sample.terms;
    for i in (1..TERM_COUNT).rev() {
        if continues(i) {
            row[i - 1] += row[i];
        }
    }
    row.map(|count| count / (sample.seconds + SHORT))
}

/// The costs of memory levels from the steps between them.
fn added_up(mut steps: [f64; TERM_COUNT]) -> [f64; TERM_COUNT] {
    for i in 1..TERM_COUNT {
        if continues(i) {
            steps[i] += steps[i - 1];
        }
    }
    steps
}

/// Whether a term is the memory level after the term before it.
fn continues(term: usize) -> bool {
    let kind = |name: &str| name.split('_').next().map(str::to_owned);
    TERMS[term].contains('_') && kind(TERMS[term]) == kind(TERMS[term - 1])
}

/// Nonnegative weighted least squares for `row . coefficients`, by coordinate descent.
fn least_squares(
    rows: &[[f64; TERM_COUNT]],
    wanted: &[f64],
    weights: &[f64],
    mut found: [f64; TERM_COUNT],
) -> [f64; TERM_COUNT] {
    let mut gram = [[0.0; TERM_COUNT]; TERM_COUNT];
    let mut right = [0.0; TERM_COUNT];
    for ((row, weight), wanted) in rows.iter().zip(weights).zip(wanted) {
        for i in 0..TERM_COUNT {
            right[i] += weight * row[i] * wanted;
            for j in 0..TERM_COUNT {
                gram[i][j] += weight * row[i] * row[j];
            }
        }
    }
    for _ in 0..SWEEPS {
        let mut moved = 0.0f64;
        for i in (0..TERM_COUNT).filter(|&i| gram[i][i] > 0.0) {
            let residual = right[i] - dot(&gram[i], &found);
            let next = (found[i] + residual / gram[i][i]).max(0.0);
            moved = moved.max((next - found[i]).abs() * gram[i][i].sqrt());
            found[i] = next;
        }
        if moved < 1e-9 {
            break;
        }
    }
    found
}

fn dot(a: &[f64; TERM_COUNT], b: &[f64; TERM_COUNT]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The index of a term.
    fn term(name: &str) -> usize {
        TERMS.iter().position(|term| *term == name).unwrap()
    }

    /// Times from known costs, some of them off by half.
    #[test]
    fn known_costs_are_found_among_outliers() {
        let mut costs = [0.0; TERM_COUNT];
        (costs[0], costs[1], costs[3]) = (1e-3, 3e-9, 5e-10);
        let near = term("stream_32k");
        costs[near..near + 4].copy_from_slice(&[1e-11, 2e-11, 4e-11, 8e-11]);
        let mut samples = Vec::new();
        let mut state = 1u64;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 40) as f64
        };
        for n in 0..200 {
            let mut terms = [0.0; TERM_COUNT];
            (terms[0], terms[1], terms[3]) = (1.0, draw() / 100.0, draw());
            terms[near + n % 4] = draw() * 10.0;
            let exact = dot(&terms, &costs);
            let seconds = if n % 20 == 0 { exact * 1.5 } else { exact };
            samples.push(Sample { terms, seconds });
        }
        let found = fit(&samples);
        for (found, cost) in found.iter().zip(&costs).filter(|(_, c)| **c > 0.0) {
            assert!((found / cost - 1.0).abs() < 0.05, "{found:e} {cost:e}");
        }
        assert!(error(&samples, &found) < 0.04);
    }

    /// Nine short samples with equal counts, merged into one, beside one long sample.
    #[test]
    fn what_asks_for_the_same_is_one_measurement() {
        let sample = |edges, seconds| {
            let mut terms = [0.0; TERM_COUNT];
            terms[2] = edges;
            Sample { terms, seconds }
        };
        let mut samples: Vec<Sample> = (0..9).map(|i| sample(1e3, f64::from(i) * 1e-3)).collect();
        samples.push(sample(2e3, 1.0));
        let merged = merged(&samples);
        let found: Vec<(f64, f64)> = merged.iter().map(|s| (s.terms[2], s.seconds)).collect();
        assert_eq!(found, [(1e3, 4e-3), (2e3, 1.0)]);
    }

    #[test]
    fn memory_that_was_not_measured_costs_what_nearer_memory_costs() {
        let mut terms = [0.0; TERM_COUNT];
        let (measured, after) = (term("stream_512k"), term("line_32k"));
        terms[measured] = 1e6;
        let found = fit(&[Sample {
            terms,
            seconds: 1e-3,
        }]);
        assert!(found[measured] > 0.0);
        assert!(found[measured..after].iter().all(|c| *c == found[measured]));
        assert!(found[after..].iter().all(|c| *c == 0.0));
    }
}
