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
    /// Multiplied by a factor whenever more than so many evaluations in a row were not better than the best one
    /// before, like PyTorch's `ReduceLROnPlateau` with a threshold of 0.
    Plateau {
        /// The factor, above 0 and below 1.
        factor: f64,
        /// These evaluations.
        patience: u32,
    },
}

impl Schedule {
    /// Whether the rate never changes.
    pub fn is_constant(&self) -> bool {
        *self == Self::Constant
    }

    /// The share after so many reductions, which evaluations have led to.
    pub fn reduced(&self, times: u32) -> f64 {
        match *self {
            Self::Plateau { factor, .. } => factor.powi(times.min(i32::MAX as u32) as i32),
            Self::Constant | Self::Step { .. } | Self::Warmup { .. } | Self::Cosine { .. } => 1.0,
        }
    }

    /// The share in an epoch, from 0, of a run of so many, before reductions.
    pub fn share(&self, epoch: u64, epochs: u64) -> f64 {
        let rising = |over: u32| {
            let over = u64::from(over);
            (epoch < over).then(|| (epoch + 1) as f64 / over as f64)
        };
        match *self {
            Self::Constant | Self::Plateau { .. } => 1.0,
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

/// `plateau` with its arguments, which may be named, such as `factor = 0.5, patience = 10`.
fn plateau(arguments: &str) -> Option<Schedule> {
    const NAMES: [&str; 2] = ["factor", "patience"];
    let mut found = [None, None];
    let all = arguments.split(['/', ',']).enumerate();
    for (place, argument) in all.filter(|_| !arguments.trim().is_empty()) {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name.trim(), value.trim()),
            None => (*NAMES.get(place)?, argument.trim()),
        };
        let known = NAMES.iter().position(|known| *known == name)?;
        if found[known].replace(value).is_some() {
            return None;
        }
    }
    let [factor, patience] = found;
    let factor: f64 = factor.unwrap_or("0.5").parse().ok()?;
    let patience = patience.unwrap_or("10").parse().ok()?;
    (factor > 0.0 && factor < 1.0).then_some(Schedule::Plateau { factor, patience })
}

/// `constant`, `step:30/0.5`, `warmup:10`, `cosine`, `cosine:10` or `plateau:0.5/10`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::Step { every, factor } => write!(f, "step:{every}/{factor}"),
            Self::Warmup { epochs } => write!(f, "warmup:{epochs}"),
            Self::Cosine { warmup: 0 } => f.write_str("cosine"),
            Self::Cosine { warmup } => write!(f, "cosine:{warmup}"),
            Self::Plateau { factor, patience } => write!(f, "plateau:{factor}/{patience}"),
        }
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "found `{text}`, expected constant, step:EPOCHS/FACTOR, warmup:EPOCHS, cosine, \
                 cosine:EPOCHS (rising over so many first) or plateau:FACTOR/PATIENCE (a factor below 1)"
            )
        };
        let call = text.strip_suffix(')').and_then(|text| text.split_once('('));
        if let Some(("plateau", arguments)) = call {
            return plateau(arguments).ok_or_else(wrong);
        }
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let epochs = |text: &str| {
            text.parse()
                .ok()
                .filter(|epochs| *epochs > 0)
                .ok_or_else(wrong)
        };
        match (name, rest) {
            ("plateau", arguments) => plateau(arguments).ok_or_else(wrong),
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
        for text in [
            "constant",
            "step:30/0.5",
            "warmup:10",
            "cosine",
            "cosine:5",
            "plateau:0.1/0",
        ] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        for (text, spelled) in [
            ("plateau", "plateau:0.5/10"),
            ("plateau()", "plateau:0.5/10"),
            ("plateau(0.2)", "plateau:0.2/10"),
            ("plateau(factor = 0.2, patience = 3)", "plateau:0.2/3"),
            ("plateau(patience=3)", "plateau:0.5/3"),
            ("plateau:patience=3/factor=0.2", "plateau:0.2/3"),
        ] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), spelled);
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
            "plateau:1/5",
            "plateau:0/5",
            "plateau:0.5/-1",
            "plateau:0.5/1/2",
            "plateau(factor = 0.5, factor = 0.2)",
            "plateau(0.5, factor = 0.2)",
            "plateau(threshold = 0.5)",
            "step(3, 0.5)",
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
        assert_eq!(of("plateau"), [1.0; 8]);
        let plateau: Schedule = "plateau:0.5/3".parse().unwrap();
        assert_eq!(
            [0, 1, 3].map(|times| plateau.reduced(times)),
            [1.0, 0.5, 0.125]
        );
        assert_eq!(Schedule::Constant.reduced(3), 1.0);
        // A run may go on beyond the epochs that it was begun for.
        assert_eq!("cosine".parse::<Schedule>().unwrap().share(9, 8), 0.0);
    }
}
