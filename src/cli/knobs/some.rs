//! Some of the knobs, as options of commands that plan or pilot.

use super::{option, value};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use gnnc::ir::plan::Knobs;
use gnnc::knobs::{KNOBS, Knob};
use std::marker::PhantomData;

/// Some of the knobs, as options.
#[derive(Clone, Debug, Default)]
pub struct SomeKnobs<W> {
    /// Their values; options that were not given leave knobs open.
    pub knobs: Knobs,
    which: PhantomData<W>,
}

/// Which knobs.
pub trait Which: Default {
    /// Their names.
    const NAMES: &'static [&'static str];
}

/// Those that a plan is made for: equal bits and sampled batches.
#[derive(Clone, Debug, Default)]
pub struct OfPlans;

/// Those that make another statistical class, but for the size of batches.
#[derive(Clone, Debug, Default)]
pub struct OfClasses;

impl Which for OfPlans {
    const NAMES: &'static [&'static str] = &[
        "equal-bits",
        "batch",
        "fanouts",
        "eval-fanouts",
        "sampler",
        "cut",
        "roots",
        "exclude",
        "negatives",
        "prefetch",
        "samplers",
        "delay",
        "slices",
        "migrate",
        "merges",
        "cache",
        "cache-by",
        "cache-age",
        "topology",
        "static",
        "lazy-embeddings",
    ];
}

impl Which for OfClasses {
    const NAMES: &'static [&'static str] = &[
        "fanouts",
        "eval-fanouts",
        "sampler",
        "cut",
        "roots",
        "exclude",
        "negatives",
        "delay",
        "static",
        "lazy-embeddings",
        "chunks",
        "interval",
        "shuffle",
        "storage",
    ];
}

/// The knobs that a plan is made for, as options of commands that plan or time epochs.
pub type PlannedArgs = SomeKnobs<OfPlans>;

/// The knobs of statistical classes, as options of a pilot.
pub type ClassArgs = SomeKnobs<OfClasses>;

fn some<W: Which>() -> impl Iterator<Item = &'static Knob> {
    KNOBS.iter().filter(|knob| W::NAMES.contains(&knob.name))
}

impl<W: Which> FromArgMatches for SomeKnobs<W> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Self::default();
        found.update_from_arg_matches(matches)?;
        Ok(found)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for knob in some::<W>() {
            if let Some(value) = value(knob, matches) {
                (knob.set)(&mut self.knobs, value).map_err(|expected| {
                    clap::Error::raw(clap::error::ErrorKind::ValueValidation, expected)
                })?;
            }
        }
        Ok(())
    }
}

impl<W: Which> Args for SomeKnobs<W> {
    fn augment_args(command: Command) -> Command {
        command.args(some::<W>().filter_map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
