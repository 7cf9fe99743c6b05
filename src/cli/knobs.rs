//! The knobs of placements on the command line: as options of a run and as `--pin KEY=VALUE` of a search.

mod some;

use super::output::{Failure, input};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use gnnc::ir::plan::Knobs;
use gnnc::knobs::{self, Form, KNOBS, Knob};
use gnnc::planner::search::Pin;
pub use some::{ClassArgs, PlannedArgs};

/// The knobs of a run, as options.
#[derive(Clone, Debug, Default)]
pub struct KnobArgs {
    /// Their values; options that were not given leave knobs open.
    pub knobs: Knobs,
    /// The first of these options on the command line, such as `--chunks`.
    pub given: Option<String>,
}

/// The option that sets a knob, if there is one.
fn option(knob: &'static Knob) -> Option<Arg> {
    let name = knob.long()?;
    let arg = Arg::new(name).long(name).help(knob.help);
    Some(match knob.option {
        Form::Value(value) => {
            arg.value_name(value)
                .aliases(knob.alias)
                .value_parser(|text: &str| {
                    (knob.set)(&mut Knobs::default(), text)?;
                    Ok::<_, String>(text.to_owned())
                })
        }
        Form::None | Form::Flag(..) => arg.action(ArgAction::SetTrue),
    })
}

/// The value that the command line gives a knob.
fn value<'a>(knob: &Knob, matches: &'a ArgMatches) -> Option<&'a str> {
    match knob.option {
        Form::None => None,
        Form::Value(_) => matches.get_one::<String>(knob.name).map(String::as_str),
        Form::Flag(name, value) => matches.get_flag(name).then_some(value),
    }
}

impl FromArgMatches for KnobArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Self::default();
        found.update_from_arg_matches(matches)?;
        Ok(found)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for knob in KNOBS {
            if let (Some(name), Some(value)) = (knob.long(), value(knob, matches)) {
                (knob.set)(&mut self.knobs, value).map_err(|expected| {
                    clap::Error::raw(clap::error::ErrorKind::ValueValidation, expected)
                })?;
                self.given.get_or_insert_with(|| format!("--{name}"));
            }
        }
        Ok(())
    }
}

impl Args for KnobArgs {
    fn augment_args(command: Command) -> Command {
        command.args(KNOBS.iter().filter_map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The constraints of `--pin`, on top of `knobs`.
///
/// # Errors
/// An unknown key, or a value that the key does not take.
pub fn pins(all: &[String], knobs: Knobs) -> Result<Pin, Failure> {
    let mut pin = Pin {
        knobs,
        ..Pin::default()
    };
    for text in all {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let (key, value) = (key.trim(), value.trim());
        let set = knobs::pin(&mut pin, key, value);
        set.map_err(|expected| input(format!("found --pin {text}, expected {expected}")))?;
    }
    Ok(pin)
}
