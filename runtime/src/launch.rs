//! When threads that draw batches ahead begin another one.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How often an idle thread asks for the score.
pub(crate) const TICK: Duration = Duration::from_millis(5);
/// Batches over which times are averaged.
const RECENT: usize = 16;
/// The score at which a batch is begun, and the most batches that are drawn or wait, if nobody says.
const SIGMA: f64 = 100.0;
const MOST: u32 = 8;

/// When samplers begin another batch. No result depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Launch {
    /// As long as fewer than two batches for each thread are drawn or wait.
    #[default]
    Fixed,
    /// By the score of ByteGNN (Zheng et al., PVLDB 2022, section 4.2), asked every 5 ms: the more cores are idle, the
    /// longer the last launch is ago, and the sooner the rank will have trained what waits, the higher it is.
    Scored {
        /// The least score, in milliseconds times percent.
        sigma: f64,
        /// The most batches that are drawn or wait.
        most: u32,
    },
}

impl FromStr for Launch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "expected fixed, scored, scored:SCORE or scored:SCORE/MOST, as scored:100/8".to_owned()
        };
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let (sigma, most) = rest.split_once('/').unwrap_or((rest, ""));
        match (name, text.contains(':'), rest.contains('/')) {
            ("fixed", false, false) => Ok(Self::Fixed),
            ("scored", of_score, of_most) => {
                let sigma = if of_score {
                    sigma.parse().map_err(|_| wrong())?
                } else {
                    SIGMA
                };
                let most = if of_most {
                    most.parse().map_err(|_| wrong())?
                } else {
                    MOST
                };
                let fits = sigma > 0.0 && f64::is_finite(sigma) && (1..=1024).contains(&most);
                fits.then_some(Self::Scored { sigma, most })
                    .ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Fixed => f.write_str("fixed"),
            Self::Scored { sigma, most } => write!(f, "scored:{sigma}/{most}"),
        }
    }
}

/// How much a share of idle cores, in percent of use, counts: 100 if all are idle, 0 if none is.
fn idle(used: f64) -> f64 {
    101.0 - (used / (100.0 / 101f64.ln())).exp()
}

/// The score of a launch. `gap` is the time in milliseconds since the last one, `used` the use of the cores in percent,
/// `sampled` and `trained` are the mean seconds of a batch, and `waiting` the batches that are drawn and not trained.
fn score(gap: f64, used: f64, [sampled, trained]: [Option<f64>; 2], waiting: usize) -> f64 {
    let balance = match (sampled, trained) {
        (Some(sampled), Some(trained)) if trained > 0.0 => {
            sampled / (trained * waiting.max(1) as f64)
        }
        _ => 1.0,
    };
    gap * idle(used) * balance
}

/// Decides on launches, by a clock and the use of the cores.
pub(crate) struct Launcher {
    launch: Launch,
    threads: usize,
    sampled: Recent,
    trained: Recent,
    launched: Instant,
    /// When the rank took its last batch.
    taken: Option<Instant>,
    cores: Cores,
}

impl Launcher {
    pub(crate) fn new(launch: Launch, threads: usize) -> Self {
        Self {
            launch,
            threads,
            sampled: Recent::default(),
            trained: Recent::default(),
            launched: Instant::now(),
            taken: None,
            cores: Cores::new(),
        }
    }

    /// How long an idle thread waits until it asks again; `None` if nothing changes by itself.
    pub(crate) fn tick(&self) -> Option<Duration> {
        match self.launch {
            Launch::Fixed => None,
            Launch::Scored { .. } => Some(TICK),
        }
    }

    /// Whether another batch is to be begun, where so many are drawn and so many wait.
    pub(crate) fn begins(&mut self, running: usize, waiting: usize) -> bool {
        let (sigma, most) = match self.launch {
            Launch::Fixed => return running + waiting < 2 * self.threads,
            Launch::Scored { sigma, most } => (sigma, most),
        };
        if running + waiting >= most as usize {
            return false;
        }
        let gap = 1e3 * self.launched.elapsed().as_secs_f64();
        let times = [self.sampled.mean(), self.trained.mean()];
        score(gap, self.cores.used(), times, waiting) >= sigma
    }

    /// A batch is begun.
    pub(crate) fn began(&mut self) {
        self.launched = Instant::now();
    }

    /// A batch was drawn in this time.
    pub(crate) fn drawn(&mut self, seconds: f64) {
        self.sampled.add(seconds);
    }

    /// The rank asks for the next batch: it has trained the last one.
    pub(crate) fn asked(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.trained.add(taken.elapsed().as_secs_f64());
        }
    }

    /// The rank has got a batch.
    pub(crate) fn taken(&mut self) {
        self.taken = Some(Instant::now());
    }
}

/// The last few numbers.
#[derive(Default)]
struct Recent(VecDeque<f64>);

impl Recent {
    fn add(&mut self, number: f64) {
        if self.0.len() == RECENT {
            self.0.pop_front();
        }
        self.0.push_back(number);
    }

    fn mean(&self) -> Option<f64> {
        let sum: f64 = self.0.iter().sum();
        (!self.0.is_empty()).then(|| sum / self.0.len() as f64)
    }
}

/// How much this process uses the cores.
struct Cores {
    count: f64,
    since: Instant,
    /// Seconds that it had used then.
    before: f64,
    used: f64,
}

impl Cores {
    fn new() -> Self {
        Self {
            count: std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64),
            since: Instant::now(),
            before: processor_seconds(),
            used: 0.0,
        }
    }

    /// Percent of all cores, over the last tick or longer.
    fn used(&mut self) -> f64 {
        let passed = self.since.elapsed();
        if passed >= TICK {
            let now = processor_seconds();
            let share = (now - self.before) / (passed.as_secs_f64() * self.count);
            self.used = (100.0 * share).clamp(0.0, 100.0);
            (self.since, self.before) = (Instant::now(), now);
        }
        self.used
    }
}

/// Processor time of this process.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the system writes a time.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_cores_and_batches_that_lack_count() {
        for (used, expected) in [
            (0.0, 100.0),
            (50.0, 90.95),
            (75.0, 69.14),
            (90.0, 37.34),
            (95.0, 20.81),
            (100.0, 0.0),
        ] {
            assert!(
                (idle(used) - expected).abs() < 0.01,
                "{used}: {}",
                idle(used)
            );
        }
        let times = [Some(0.040), Some(0.010)];
        assert!((score(5.0, 75.0, times, 2) - 691.4).abs() < 0.1);
        assert!(score(1e6, 100.0, times, 0).abs() < 1e-6);
        // Before both are known, they count as equal.
        assert_eq!(score(2.0, 0.0, [None, Some(1.0)], 5), 200.0);
    }

    #[test]
    fn launches_have_names() {
        for (text, expected) in [
            ("fixed", Launch::Fixed),
            (
                "scored",
                Launch::Scored {
                    sigma: 100.0,
                    most: 8,
                },
            ),
            (
                "scored:50",
                Launch::Scored {
                    sigma: 50.0,
                    most: 8,
                },
            ),
            (
                "scored:0.5/3",
                Launch::Scored {
                    sigma: 0.5,
                    most: 3,
                },
            ),
        ] {
            assert_eq!(text.parse(), Ok(expected));
            assert_eq!(expected.to_string().parse(), Ok(expected));
        }
        for wrong in [
            "",
            "scored:",
            "scored:0",
            "scored:-1",
            "scored:nan",
            "scored:1/0",
            "scored:1/",
            "fixed:1",
            "score",
        ] {
            assert!(wrong.parse::<Launch>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_fixed_number_is_drawn_ahead() {
        let mut launcher = Launcher::new(Launch::Fixed, 2);
        assert!(launcher.begins(1, 2));
        assert!(!launcher.begins(2, 2));
        let mut launcher = Launcher::new(
            Launch::Scored {
                sigma: 1e-9,
                most: 3,
            },
            2,
        );
        assert!(!launcher.begins(1, 2), "three are under way");
    }
}
