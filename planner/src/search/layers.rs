//! How many layers each stage of a pipeline has (GNNPipe, section 3.4).

/// Runs of consecutive layers, one for each of `stages`, such that the slowest stage takes least; of several
/// divisions, the one with the fewest layers in the first stages. None if there are fewer layers than stages.
pub(super) fn divide(seconds: &[f64], stages: u32) -> Option<Vec<u32>> {
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
        assert_eq!(divide(&[1.0; 8], 4), Some(vec![2, 2, 2, 2]));
        assert_eq!(divide(&[4.0, 1.0, 1.0, 1.0, 1.0], 2), Some(vec![1, 4]));
        assert_eq!(divide(&[1.0, 1.0, 1.0, 5.0], 3), Some(vec![1, 2, 1]));
        assert_eq!(divide(&[1.0, 2.0], 3), None);
        assert_eq!(divide(&[1.0, 2.0], 0), None);
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
        let found = divide(&seconds, 3).unwrap();
        assert_eq!((found.iter().sum::<u32>(), slowest(&found)), (8, least));
    }
}
