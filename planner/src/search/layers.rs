//! How many layers each stage of a pipeline has (GNNPipe, section 3.4).

use std::cmp::Ordering;

/// Relative difference below which two divisions take the same time.
const SAME: f64 = 1e-9;

/// Runs of consecutive layers, `turns` for each of `stages`, which take turns, such that the slowest stage takes least;
/// of several divisions, one whose slowest run takes least, and of these the one with the fewest layers in the first runs.
/// None if there are fewer layers than runs.
pub(super) fn divide(seconds: &[f64], stages: u32, turns: u32) -> Option<Vec<u32>> {
    let runs = stages.checked_mul(turns)?;
    let mut layers = slowest_run(seconds, runs)?;
    // With one run each, this is the best already.
    let cost = |layers: &[u32]| cost(seconds, layers, stages as usize);
    let mut least = cost(&layers);
    while let Some((better, found)) = moved(&layers)
        .map(|layers| (cost(&layers), layers))
        .min_by(|a, b| order(a.0, b.0))
        .filter(|(better, _)| order(*better, least).is_lt())
    {
        (least, layers) = (better, found);
    }
    Some(layers)
}

/// What the slowest stage and the slowest run take.
fn cost(seconds: &[f64], layers: &[u32], stages: usize) -> [f64; 2] {
    let mut of_stages = vec![0.0; stages];
    let (mut first, mut slowest) = (0, 0.0f64);
    for (run, own) in layers.iter().enumerate() {
        let end = first + *own as usize;
        let run_takes: f64 = seconds[first..end].iter().sum();
        of_stages[run % stages] += run_takes;
        (first, slowest) = (end, slowest.max(run_takes));
    }
    [of_stages.into_iter().fold(0.0, f64::max), slowest]
}

/// By the first numbers, then by the second ones, but for rounding.
fn order(a: [f64; 2], b: [f64; 2]) -> Ordering {
    let one = |a: f64, b: f64| match (a - b).abs() <= SAME * a.abs() {
        true => Ordering::Equal,
        false => a.total_cmp(&b),
    };
    one(a[0], b[0]).then(one(a[1], b[1]))
}

/// The divisions in which one run has a layer less and another one has a layer more.
fn moved(layers: &[u32]) -> impl Iterator<Item = Vec<u32>> + '_ {
    let runs = 0..layers.len();
    let pairs = runs
        .clone()
        .flat_map(move |from| runs.clone().map(move |to| (from, to)));
    pairs
        .filter(|(from, to)| from != to && layers[*from] > 1)
        .map(|(from, to)| {
            let mut layers = layers.to_vec();
            layers[from] -= 1;
            layers[to] += 1;
            layers
        })
}

/// So many runs, of which the slowest takes least, with the fewest layers in the first ones.
fn slowest_run(seconds: &[f64], stages: u32) -> Option<Vec<u32>> {
    let (layers, stages) = (seconds.len(), stages as usize);
    if stages == 0 || stages > layers {
        return None;
    }
    let mut before = vec![0.0];
    for seconds in seconds {
        before.push(before[before.len() - 1] + seconds);
    }
    // least[s][n]: the slowest of s stages with the last n layers, and the layers of the first of them.
    let mut least: Vec<Vec<(f64, usize)>> = vec![vec![(f64::INFINITY, 0); layers + 1]];
    least[0][0].0 = 0.0;
    for stage in 1..=stages {
        let mut row = vec![(f64::INFINITY, 0); layers + 1];
        for (n, best) in row.iter_mut().enumerate().skip(stage) {
            for own in 1..=n + 1 - stage {
                let first = layers - n;
                let slowest =
                    (before[first + own] - before[first]).max(least[stage - 1][n - own].0);
                if slowest < best.0 {
                    *best = (slowest, own);
                }
            }
        }
        least.push(row);
    }
    let mut left = layers;
    let own = (1..=stages).rev().map(|stage| {
        let (_, own) = least[stage][left];
        left -= own;
        own as u32
    });
    Some(own.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_stage_is_as_fast_as_can_be() {
        assert_eq!(divide(&[1.0; 8], 4, 1), Some(vec![2, 2, 2, 2]));
        assert_eq!(divide(&[4.0, 1.0, 1.0, 1.0, 1.0], 2, 1), Some(vec![1, 4]));
        assert_eq!(divide(&[1.0, 1.0, 1.0, 5.0], 3, 1), Some(vec![1, 2, 1]));
        assert_eq!(divide(&[1.0, 2.0], 3, 1), None);
        assert_eq!(divide(&[1.0, 2.0], 0, 1), None);
        // Against all divisions.
        let seconds = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        let slowest = |layers: &[u32]| {
            let mut first = 0;
            let mut most = 0.0f64;
            for own in layers {
                most = most.max(seconds[first..first + *own as usize].iter().sum());
                first += *own as usize;
            }
            most
        };
        let mut least = f64::INFINITY;
        for a in 1..7u32 {
            for b in 1..8 - a {
                least = least.min(slowest(&[a, b, 8 - a - b]));
            }
        }
        let found = divide(&seconds, 3, 1).unwrap();
        assert_eq!((found.iter().sum::<u32>(), slowest(&found)), (8, least));
    }

    #[test]
    fn runs_of_a_stage_add_up() {
        assert_eq!(divide(&[1.0; 8], 2, 2), Some(vec![2, 2, 2, 2]));
        assert_eq!(divide(&[1.0; 6], 2, 2), Some(vec![1, 1, 2, 2]));
        assert_eq!(divide(&[1.0; 5], 2, 3), None);
        assert_eq!(divide(&[1.0; 5], u32::MAX, 3), None);
        // Whatever the slowest run is, no stage takes longer than it has to: against all divisions.
        let seconds = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 1.0];
        let mut least = [f64::INFINITY; 2];
        for a in 1..7u32 {
            for b in 1..8 - a {
                for c in 1..9 - a - b {
                    let found = cost(&seconds, &[a, b, c, 9 - a - b - c], 2);
                    if order(found, least).is_lt() {
                        least = found;
                    }
                }
            }
        }
        let found = divide(&seconds, 2, 2).unwrap();
        assert_eq!(cost(&seconds, &found, 2), least);
        assert_ne!(Some(found), slowest_run(&seconds, 4));
    }
}
