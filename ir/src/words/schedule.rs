//! How the learning rate changes over epochs.

use serde::{Deserialize, Serialize};
use std::f64::consts::PI;
use std::fmt;
use std::str::FromStr;

/// The learning rate of each epoch, as a share of the optimizer's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Schedule {
    /// The same in all epochs.
    #[default]
    Constant,
    /// Multiplied by a factor after each run of epochs.
    Step {
        /// Epochs of a run.
        every: u32,
        /// The factor.
        factor: f64,
    },
    /// Rises evenly over the first epochs, then stays.
    Warmup {
        /// These epochs.
        epochs: u32,
    },
    /// Rises evenly over the first epochs, then falls to 0 along half a cosine (Loshchilov and Hutter,
    /// 2017, without restarts).
    Cosine {
        /// These epochs.
        warmup: u32,
    },
}

impl Schedule {
    /// Whether the rate never changes.
    pub fn is_constant(&self) -> bool {
        *self == Self::Constant
    }

    /// The share in an epoch, from 0, of a run of so many.
    pub fn share(&self, epoch: u64, epochs: u64) -> f64 {
        let rising = |over: u32| {
            let over = u64::from(over);
            (epoch < over).then(|| (epoch + 1) as f64 / over as f64)
        };
        match *self {
            Self::Constant => 1.0,
            Self::Step { every, factor } => {
                let runs = epoch / u64::from(every.max(1));
                factor.powi(runs.min(i32::MAX as u64) as i32)
            }
            Self::Warmup { epochs } => rising(epochs).unwrap_or(1.0),
            Self::Cosine { warmup } => rising(warmup).unwrap_or_else(|| {
                let left = epochs.saturating_sub(warmup.into()).max(1);
                let gone = (epoch - u64::from(warmup)).min(left);
                (1.0 + half_cosine(gone as f64 / left as f64)) / 2.0
            }),
        }
    }
}

/// `cos(pi t)` for `t` from 0 to 1, by its series: the same bits on every machine.
fn half_cosine(t: f64) -> f64 {
    if t > 0.5 {
        return -half_cosine(1.0 - t);
    }
    let square = (PI * t) * (PI * t);
    let terms = (1..=12).rev();
    terms.fold(1.0, |rest, n| {
        let n = f64::from(2 * n);
        1.0 - rest * square / (n * (n - 1.0))
    })
}

/// `constant`, `step:30/0.5`, `warmup:10`, `cosine` or `cosine:10`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::Step { every, factor } => write!(f, "step:{every}/{factor}"),
            Self::Warmup { epochs } => write!(f, "warmup:{epochs}"),
            Self::Cosine { warmup: 0 } => f.write_str("cosine"),
            Self::Cosine { warmup } => write!(f, "cosine:{warmup}"),
        }
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "found `{text}`, expected constant, step:EPOCHS/FACTOR, warmup:EPOCHS, cosine or \
                 cosine:EPOCHS (rising over so many first)"
            )
        };
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let epochs = |text: &str| {
            text.parse()
                .ok()
                .filter(|epochs| *epochs > 0)
                .ok_or_else(wrong)
        };
        match (name, rest) {
            ("constant", "") => Ok(Self::Constant),
            ("cosine", "") => Ok(Self::Cosine { warmup: 0 }),
            ("cosine", warmup) => Ok(Self::Cosine {
                warmup: epochs(warmup)?,
            }),
            ("warmup", over) => Ok(Self::Warmup {
                epochs: epochs(over)?,
            }),
            ("step", rest) => {
                let (every, factor) = rest.split_once('/').ok_or_else(wrong)?;
                let factor: f64 = factor.parse().map_err(|_| wrong())?;
                match (0.0..=1.0).contains(&factor) {
                    true => Ok(Self::Step {
                        every: epochs(every)?,
                        factor,
                    }),
                    false => Err(wrong()),
                }
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_they_are_written() {
        for text in ["constant", "step:30/0.5", "warmup:10", "cosine", "cosine:5"] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "step",
            "step:0/0.5",
            "step:3/2",
            "step:3/x",
            "cosine:0",
            "warmup",
            "linear",
        ] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_those_of_the_formulas() {
        let of = |text: &str| {
            let schedule: Schedule = text.parse().unwrap();
            (0..8)
                .map(|epoch| schedule.share(epoch, 8))
                .collect::<Vec<_>>()
        };
        assert_eq!(of("constant"), [1.0; 8]);
        assert_eq!(of("step:3/0.5"), [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25]);
        assert_eq!(of("warmup:4")[..5], [0.25, 0.5, 0.75, 1.0, 1.0]);
        for (text, warmup) in [("cosine", 0u32), ("cosine:2", 2)] {
            for (epoch, share) in (0u32..).zip(of(text)) {
                let expected = match epoch < warmup {
                    true => f64::from(epoch + 1) / f64::from(warmup),
                    false => {
                        (1.0 + (PI * f64::from(epoch - warmup) / f64::from(8 - warmup)).cos()) / 2.0
                    }
                };
                assert!(
                    (share - expected).abs() < 1e-14,
                    "{text} {epoch}: {share} {expected}"
                );
            }
        }
        // A run may go on beyond the epochs that it was begun for.
        assert_eq!("cosine".parse::<Schedule>().unwrap().share(9, 8), 0.0);
    }
}
