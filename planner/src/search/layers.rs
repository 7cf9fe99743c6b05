//! How many layers each stage of a pipeline gets (GNNPipe, section 3.4).

use crate::placement::Stages;
use crate::stale::StaleError;

/// Number of chunks from which waiting times hardly depend on it.
const MANY_CHUNKS: u32 = 64;

/// Relative difference below which two divisions count as equally fast.
const SAME: f64 = 1e-9;

/// Divides the layers into `turns` runs per stage, so that the chunks finish as early as possible.
/// With one run per stage, minimizes the slowest run; among ties, the first runs get the fewest
/// layers. With several runs, starts from that division and moves layers between runs as long as
/// that helps. `None` if there are fewer layers than runs.
pub(super) fn divide(
    seconds: &[f64],
    [stages, virtual_stages, chunks]: [u32; 3],
) -> Option<Vec<u32>> {
    let mut layers = slowest_run(seconds, stages.checked_mul(virtual_stages)?)?;
    if virtual_stages == 1 {
        return Some(layers);
    }
    let cost = |layers: &[u32]| through(&of_runs(seconds, layers), stages as usize, chunks);
    let mut least = cost(&layers);
    while let Some((better, found)) = moved(&layers)
        .map(|layers| (cost(&layers), layers))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(better, _)| *better < (1.0 - SAME) * least)
    {
        (least, layers) = (better, found);
    }
    Some(layers)
}

/// Seconds of each run.
fn of_runs(seconds: &[f64], layers: &[u32]) -> Vec<f64> {
    let mut rest = seconds;
    let mut runs = Vec::with_capacity(layers.len());
    for own in layers {
        let (run, others) = rest.split_at((*own as usize).min(rest.len()));
        runs.push(run.iter().sum());
        rest = others;
    }
    runs
}

/// When the last chunk finishes the last run; stages take the runs in turn.
fn through(runs: &[f64], stages: usize, chunks: u32) -> f64 {
    let chunks = chunks.clamp(1, MANY_CHUNKS);
    // By chunk: when it finishes the previous run. By stage: when it finishes its runs so far.
    let (mut done, mut free) = (vec![0.0f64; chunks as usize], vec![0.0f64; stages]);
    for (run, seconds) in runs.iter().enumerate() {
        let clock = &mut free[run % stages];
        for done in &mut done {
            *clock = clock.max(*done) + seconds / f64::from(chunks);
            *done = *clock;
        }
    }
    done.last().copied().unwrap_or(0.0)
}

/// Neighboring divisions: one run gives a layer to another, or two runs each give one to an
/// adjacent run.
fn moved(layers: &[u32]) -> impl Iterator<Item = Vec<u32>> + '_ {
    let runs = 0..layers.len();
    let all = runs.clone().flat_map(move |from| {
        let others = runs.clone().filter(move |to| *to != from);
        others.map(move |to| [from, to])
    });
    let beside = (1..layers.len()).flat_map(|run| [[run - 1, run], [run, run - 1]]);
    let two = beside
        .clone()
        .flat_map(move |a| beside.clone().map(move |b| vec![a, b]));
    let moves = all.map(|one| vec![one]).chain(two);
    moves.filter_map(|moves| {
        let mut layers = layers.to_vec();
        for [from, to] in moves {
            layers[from] = layers[from].checked_sub(1)?;
            layers[to] += 1;
        }
        (!layers.contains(&0)).then_some(layers)
    })
}

/// Divides layers into runs so that the slowest takes the least time, with the fewest layers in the
/// first runs.
fn slowest_run(seconds: &[f64], runs: u32) -> Option<Vec<u32>> {
    let (layers, runs) = (seconds.len(), runs as usize);
    if runs == 0 || runs > layers {
        return None;
    }
    let mut before = vec![0.0];
    for seconds in seconds {
        before.push(before[before.len() - 1] + seconds);
    }
    // least[s][n]: the slowest of s runs over the last n layers, and the layers of the first of
    // these runs.
    let mut least: Vec<Vec<(f64, usize)>> = vec![vec![(f64::INFINITY, 0); layers + 1]];
    least[0][0].0 = 0.0;
    for run in 1..=runs {
        let mut row = vec![(f64::INFINITY, 0); layers + 1];
        for (n, best) in row.iter_mut().enumerate().skip(run) {
            for own in 1..=n + 1 - run {
                let first = layers - n;
                let slowest = (before[first + own] - before[first]).max(least[run - 1][n - own].0);
                if slowest < best.0 {
                    *best = (slowest, own);
                }
            }
        }
        least.push(row);
    }
    let mut left = layers;
    let own = (1..=runs).rev().map(|run| {
        let (_, own) = least[run][left];
        left -= own;
        own as u32
    });
    Some(own.collect())
}

/// Why layers cannot be divided among stages.
pub(super) fn too_few(stages: &Stages, layers: usize) -> String {
    let few = StaleError::Stages {
        stages: stages.count,
        virtual_stages: stages.virtual_stages,
        layers: layers as u32,
    };
    few.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: [f64; 8] = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];

    #[test]
    fn the_slowest_stage_is_as_fast_as_can_be() {
        let once = |seconds: &[f64], stages| divide(seconds, [stages, 1, 4]);
        assert_eq!(once(&[1.0; 8], 4), Some(vec![2, 2, 2, 2]));
        assert_eq!(once(&[4.0, 1.0, 1.0, 1.0, 1.0], 2), Some(vec![1, 4]));
        assert_eq!(once(&[1.0, 1.0, 1.0, 5.0], 3), Some(vec![1, 2, 1]));
        assert_eq!(once(&[1.0, 2.0], 3), None);
        assert_eq!(once(&[1.0, 2.0], 0), None);
        // Compare with all divisions: none finishes earlier either.
        let slowest = |layers: &[u32]| of_runs(&SECONDS, layers).into_iter().fold(0.0, f64::max);
        let end = |layers: &[u32]| through(&of_runs(&SECONDS, layers), 3, 4);
        let found = once(&SECONDS, 3).unwrap();
        assert_eq!(found.iter().sum::<u32>(), 8);
        for a in 1..7u32 {
            for b in 1..8 - a {
                let other = [a, b, 8 - a - b];
                assert!(slowest(&found) <= slowest(&other));
                assert!(end(&found) <= end(&other) + 1e-9);
            }
        }
    }

    #[test]
    fn chunks_are_through_several_runs_as_soon_as_they_can_be() {
        // A short first and last run reduce waiting.
        assert_eq!(divide(&[1.0; 8], [2, 2, 4]), Some(vec![1, 3, 3, 1]));
        let alike = |layers: &[u32]| through(&of_runs(&[1.0; 8], layers), 2, 4);
        assert_eq!((alike(&[1, 3, 3, 1]), alike(&[2; 4])), (4.25, 4.5));
        assert_eq!(divide(&[1.0; 5], [2, 3, 4]), None);
        assert_eq!(divide(&[1.0; 5], [u32::MAX, 3, 4]), None);
        // Three slots of four chunks plus one, each a quarter of a run's time.
        assert_eq!(through(&[1.0; 6], 2, 4), 13.0 / 4.0);
        let end = |layers: &[u32]| through(&of_runs(&SECONDS, layers), 2, 4);
        let found = divide(&SECONDS, [2, 2, 4]).unwrap();
        let first = slowest_run(&SECONDS, 4).unwrap();
        assert!(end(&found) < end(&first), "{found:?} {first:?}");
        let mut least = f64::INFINITY;
        for a in 1..6u32 {
            for b in 1..7 - a {
                for c in 1..8 - a - b {
                    least = least.min(end(&[a, b, c, 8 - a - b - c]));
                }
            }
        }
        assert!(end(&found) < 1.05 * least, "{found:?} {least}");
    }
}
