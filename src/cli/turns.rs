//! Measuring by turns with something else: each line on standard input gives a turn of some seconds.

use super::output::{Answer, Failure, input};
use std::io;
use std::time::{Duration, Instant};

/// The turns of what measures several things one after the other. There is none before the first line; after the last
/// one a turn has no end.
#[derive(Default)]
pub struct Turns {
    begun: Option<Instant>,
    long: Duration,
}

impl Turns {
    /// Stays until the next turn if there is none or it is over, which `ended` says to whoever gives turns.
    pub fn next(&mut self, ended: impl FnOnce() -> Answer) -> Answer {
        if self.begun.is_some_and(|begun| begun.elapsed() < self.long) {
            return Ok(());
        }
        ended()?;
        self.long = turn()?.unwrap_or(Duration::MAX);
        self.begun = Some(Instant::now());
        Ok(())
    }
}

/// How long the next turn is; none if there are no more.
///
/// # Errors
/// A line that is not a number of seconds.
pub fn turn() -> Result<Option<Duration>, Failure> {
    let mut line = String::new();
    let read = io::stdin().read_line(&mut line);
    if read.map_err(|error| input(format!("cannot read a turn: {error}")))? == 0 {
        return Ok(None);
    }
    let seconds = line.trim().parse::<f64>().ok();
    let long = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    let wrong = || {
        input(format!(
            "found {:?}, expected the seconds of a turn",
            line.trim_end()
        ))
    };
    long.map(Some).ok_or_else(wrong)
}
