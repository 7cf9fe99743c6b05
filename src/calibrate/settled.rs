//! Checks that repeated measurements agree, so that the fitted costs can be trusted.
//!
//! How much times vary on a machine is not known beforehand, so the even rounds are compared with the odd rounds.
//! The difference between the two halves is the noise. The mean error of the fitted costs is the best precision
//! they can have. If the noise of a group of instructions exceeds that error, another measurement would have given
//! other costs.

use super::Quality;
use super::fit::difference;
use super::runs::{Heap, Rounds};
use crate::Error;
use gnnc_ir::words::spelling::counted;
use std::collections::BTreeMap;

/// The mean relative difference between the two halves of the measurements, per group of instructions.
pub fn differences(heap: &Heap) -> BTreeMap<String, f64> {
    let [even, odd] = [Rounds::Even, Rounds::Odd].map(|rounds| heap.conclude(rounds).found);
    let mut of_group: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (even, odd) in even.into_iter().zip(odd) {
        let found = difference(even.seconds, odd.seconds);
        of_group.entry(even.group).or_default().push(found);
    }
    let mean = |(group, found): (String, Vec<f64>)| {
        let count = found.len().max(1) as f64;
        (group, found.iter().sum::<f64>() / count)
    };
    of_group.into_iter().map(mean).collect()
}

/// The noisiest group, among those whose noise exceeds both the error of the costs for the group and their mean error
/// over all instructions with as many ranks.
pub fn unsettled(quality: &[Quality]) -> Option<&Quality> {
    let doubtful = quality.iter().filter(|q| {
        let ranks = quality.iter().filter(|other| other.ranks == q.ranks);
        q.repeated > q.error.max(unexplained(ranks))
    });
    doubtful.max_by(|a, b| a.repeated.total_cmp(&b.repeated))
}

/// Prefix of the progress text that says why everything is measured again.
pub fn why_again(worst: &Quality) -> String {
    format!(
        "repeat, since {} on {} varies by {:.0} %: ",
        worst.group,
        counted(worst.ranks, "rank"),
        worst.repeated * 100.0
    )
}

/// The error after repeated measurements did not help.
pub fn refused(worst: &Quality) -> Error {
    Error::Unsettled {
        group: worst.group.clone(),
        ranks: counted(worst.ranks, "rank"),
        repeated: worst.repeated,
        error: worst.error,
    }
}

/// The mean error over all samples of some groups.
fn unexplained<'a>(groups: impl Iterator<Item = &'a Quality>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for group in groups {
        sum += group.error * group.samples as f64;
        count += group.samples as f64;
    }
    sum / f64::max(count, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quality(group: &str, ranks: u32, error: f64, repeated: f64) -> Quality {
        Quality {
            ranks,
            group: group.to_owned(),
            samples: 100,
            error,
            repeated,
            spread: None,
        }
    }

    #[test]
    fn noise_is_held_against_what_costs_explain() {
        // Noise below the error of the costs is fine.
        let quiet = [
            quality("gemm", 1, 0.03, 0.05),
            quality("spmm", 1, 0.2, 0.06),
        ];
        assert_eq!(unsettled(&quiet), None);
        // Costs explain messages badly, but measurements repeat well.
        let steady = [quality("gemm", 2, 0.05, 0.02), quality("send", 2, 0.4, 0.3)];
        assert_eq!(unsettled(&steady), None);
        // No measurement repeats.
        let busy = [quality("gemm", 2, 0.3, 0.5), quality("send", 2, 0.6, 1.2)];
        assert_eq!(unsettled(&busy).map(|q| q.group.as_str()), Some("send"));
        // One rank is compared with one rank.
        let mixed = [quality("gemm", 1, 0.1, 0.3), quality("gemm", 2, 0.9, 0.4)];
        assert_eq!(unsettled(&mixed).map(|q| q.ranks), Some(1));
    }
}
