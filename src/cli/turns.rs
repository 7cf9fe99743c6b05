//! Interleaved measurements: each line on standard input grants a turn of some seconds.

use super::output::{Answer, Failure, input};
use std::io;
use std::time::{Duration, Instant};

/// The turns of a program that measures several things one after another. Nothing runs before the first line; after
/// the last line, the turn has no end.
#[derive(Default)]
pub struct Turns {
    begun: Option<Instant>,
    long: Duration,
}

impl Turns {
    /// Returns at once during a turn. Otherwise calls `ended`, which tells the other side, and waits for the next turn.
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

/// Reads the length of the next turn; `None` at the end of standard input.
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
            "found {:?}, expected a number of seconds",
            line.trim_end()
        ))
    };
    long.map(Some).ok_or_else(wrong)
}
