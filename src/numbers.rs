//! Numbers that users give, parsed and bounded in one place, so that every command rejects the same values with the same
//! words.

use gnnc_ir::program::instr::MOST_LAG;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Ranks or parts. Each costs a thread of this process, or a row of a table of all pairs.
pub const WORKERS: RangeInclusive<u32> = 1..=16_384;

/// Threads per worker; more than there are cores do not help.
pub const THREADS: RangeInclusive<usize> = 1..=1024;

/// Threads per worker that draw batches.
pub const SAMPLERS: RangeInclusive<u32> = 0..=64;

/// Chunks of work for all vertices.
pub const CHUNKS: RangeInclusive<u32> = 1..=65_536;

/// Batches that are under way beside the one that is trained on.
pub const LAGS: RangeInclusive<u32> = 0..=MOST_LAG;

/// Rows of other ranks that a rank keeps.
pub const CACHED: RangeInclusive<u32> = 0..=u32::MAX - 1;

/// Steps that copies of these rows may lack.
pub const AGES: RangeInclusive<u32> = 0..=1_000_000_000;

/// Visits of a model that are merged with others: fewer than there are ranks.
pub const MERGES: RangeInclusive<u32> = 0..=16_383;

/// Epochs of a run, or between two of its events, as in a model's `train` block.
pub const EPOCHS: RangeInclusive<u32> = 1..=1_000_000_000;

/// Learning rates, as in a model's `train` block.
pub const RATES: RangeInclusive<f64> = 0.0..=1e6;

/// Runs, one per seed.
pub const RUNS: RangeInclusive<u64> = 1..=1_000_000;

/// The time of a pilot, in seconds: up to a week.
const BUDGETS: RangeInclusive<f64> = 0.001..=604_800.0;

/// Parses a time with its unit, such as `90s`, `10min` or `1.5h`.
pub fn budget(text: &str) -> Result<Duration, String> {
    let wrong = || {
        "expected a time above 0 with its unit, up to a week, such as 90s, 10min or 1.5h".to_owned()
    };
    let units = [("min", 60.0), ("s", 1.0), ("h", 3600.0)];
    let cut = |(unit, seconds): (&str, f64)| Some((text.strip_suffix(unit)?, seconds));
    let (number, unit) = units.into_iter().find_map(cut).ok_or_else(wrong)?;
    let number: f64 = number
        .trim()
        .replace('_', "")
        .parse()
        .map_err(|_| wrong())?;
    let seconds = Some(number * unit).filter(|seconds| BUDGETS.contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(wrong)
}

/// Pairs without a link for each link.
pub const NEGATIVES: RangeInclusive<u32> = 1..=gnnc_ir::workload::MAX_NEGATIVES;

/// Seeds of random draws.
pub const SEEDS: RangeInclusive<u64> = 0..=u64::MAX;

/// Devices, or nodes, of a cluster.
pub const DEVICES: RangeInclusive<u32> = 1..=gnnc_ir::cluster::MAX_DEVICES as u32;

/// Vertices of a generated graph.
pub const VERTICES: RangeInclusive<u32> = 1..=u32::MAX - 1;

/// Edges of a generated graph.
pub const EDGES: RangeInclusive<u64> = 0..=1 << 40;

/// Features or classes of a generated graph: the widest matrix of the language.
pub const WIDTH: RangeInclusive<u32> = 0..=1 << 20;

/// Distance between the features of classes; their noise has standard deviation 1.
pub const SIGNAL: RangeInclusive<f32> = -1e6..=1e6;

/// Edges into a vertex that a hop of a sampled batch keeps.
pub const FANOUTS: RangeInclusive<u32> = 0..=u32::MAX - 1;

/// Sampled batches.
pub const BATCHES: RangeInclusive<u32> = 1..=1_000_000;

/// A parser for numbers in `range`; `1_000` is 1000.
pub fn within<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.replace('_', "").parse().ok();
        number.filter(|n| range.contains(n)).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            format!("expected a number from {least} to {most}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        let seconds = |text: &str| budget(text).map(|time| time.as_secs_f64());
        for (text, expected) in [
            ("90s", 90.0),
            ("10min", 600.0),
            ("1.5h", 5400.0),
            ("1_000 s", 1000.0),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for wrong in [
            "", "10", "0s", "-5min", "nan s", "infh", "9d", "min", "169h",
        ] {
            let said = seconds(wrong).unwrap_err();
            assert!(said.contains("such as 90s, 10min or 1.5h"), "{wrong}");
        }
    }

    #[test]
    fn only_numbers_of_the_range_are_read() {
        let workers = within(WORKERS);
        assert_eq!(workers("1"), Ok(1));
        assert_eq!(workers("16_384"), Ok(16_384));
        for wrong in [
            "0",
            "16385",
            "-1",
            "",
            "four",
            "2.5",
            "99999999999999999999",
        ] {
            let said = workers(wrong).unwrap_err();
            assert_eq!(said, "expected a number from 1 to 16384", "{wrong}");
        }
        let share = within(0.0..=1.0);
        assert_eq!(share("0.5"), Ok(0.5));
        for wrong in ["nan", "-0.1", "inf", "1.01"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
