//! The knobs of sampled batches as options of commands that plan.

use super::{KNOBS, Knob};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use gnnc::ir::plan::Knobs;

/// The knobs of sampled batches, as options of commands that plan.
#[derive(Clone, Debug, Default)]
pub struct BatchArgs {
    /// Their values; options that were not given leave knobs open.
    pub knobs: Knobs,
}

/// Names of these knobs.
const OF_BATCHES: [&str; 16] = [
    "batch",
    "fanouts",
    "eval-fanouts",
    "sampler",
    "cut",
    "roots",
    "exclude",
    "negatives",
    "prefetch",
    "delay",
    "slices",
    "migrate",
    "merges",
    "cache",
    "cache-by",
    "static",
];

fn of_batches() -> impl Iterator<Item = &'static Knob> {
    KNOBS.iter().filter(|knob| OF_BATCHES.contains(&knob.name))
}

impl FromArgMatches for BatchArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Self::default();
        found.update_from_arg_matches(matches)?;
        Ok(found)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for knob in of_batches() {
            if let Some(value) = knob.value(matches) {
                (knob.set)(&mut self.knobs, value).map_err(|expected| {
                    clap::Error::raw(clap::error::ErrorKind::ValueValidation, expected)
                })?;
            }
        }
        Ok(())
    }
}

impl Args for BatchArgs {
    fn augment_args(command: Command) -> Command {
        command.args(of_batches().filter_map(Knob::arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
