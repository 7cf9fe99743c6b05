//! Runs a target on mutated seeds for some seconds, and prints executions per second: `speed
//! TARGET [SECONDS]`, or `speed` for all targets.

use gnnc_fuzz::changes::{Random, changed};
use gnnc_fuzz::{TARGETS, Target, seeds};
use std::time::{Duration, Instant};

fn main() {
    let mut words = std::env::args().skip(1);
    let only = words.next();
    let seconds = words.next().and_then(|word| word.parse().ok());
    let long = Duration::from_secs_f64(seconds.unwrap_or(3.0));
    let asked = |target: &&Target| only.as_deref().is_none_or(|only| only == target.0);
    for target in TARGETS.iter().filter(asked) {
        println!(
            "{:<12} {:>9.0} executions a second",
            target.0,
            speed(target, long)
        );
    }
}

fn speed((name, target): &Target, long: Duration) -> f64 {
    let seeds = seeds::of(name);
    let mut random = Random::new(1);
    let begun = Instant::now();
    let mut executions = 0u64;
    while begun.elapsed() < long {
        target(&changed(&mut random, &seeds));
        executions += 1;
    }
    executions as f64 / begun.elapsed().as_secs_f64()
}
