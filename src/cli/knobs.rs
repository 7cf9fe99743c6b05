//! The knobs of placements on the command line: one table for the options of a run and for
//! `--pin KEY=VALUE` of a search.

mod some;
mod table;

use super::numbers::{DEVICES, within};
use super::output::{Failure, input};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use gnnc::ir::plan::{Knobs, Layout};
use gnnc::planner::search::Pin;
pub use some::{BatchArgs, ClassArgs};
use table::KNOBS;

/// A knob on the command line.
struct Knob {
    /// Key of the pin; also the name of the option, unless that is a flag.
    name: &'static str,
    /// An earlier name.
    alias: Option<&'static str>,
    /// How a run sets it.
    option: Form,
    /// Values of the pin, for messages; empty if it cannot be pinned.
    values: &'static str,
    /// Help of the option.
    help: &'static str,
    /// Sets the knob from text. The error says what was expected.
    set: fn(&mut Knobs, &str) -> Result<(), String>,
}

/// How an option sets a knob.
enum Form {
    /// There is no option.
    None,
    /// `--name VALUE`, with this placeholder in help.
    Value(&'static str),
    /// A flag with a name of its own, which sets this value.
    Flag(&'static str, &'static str),
}

/// The knobs of a run, as options.
#[derive(Clone, Debug, Default)]
pub struct KnobArgs {
    /// Their values; options that were not given leave knobs open.
    pub knobs: Knobs,
    /// The first of these options on the command line, such as `--chunks`.
    pub given: Option<String>,
}

impl Knob {
    /// Name of the option, if there is one.
    fn long(&self) -> Option<&'static str> {
        match self.option {
            Form::None => None,
            Form::Value(_) => Some(self.name),
            Form::Flag(name, _) => Some(name),
        }
    }

    fn arg(&'static self) -> Option<Arg> {
        let name = self.long()?;
        let arg = Arg::new(name).long(name).help(self.help);
        Some(match self.option {
            Form::Value(value) => {
                arg.value_name(value)
                    .aliases(self.alias)
                    .value_parser(|text: &str| {
                        (self.set)(&mut Knobs::default(), text)?;
                        Ok::<_, String>(text.to_owned())
                    })
            }
            Form::None | Form::Flag(..) => arg.action(ArgAction::SetTrue),
        })
    }

    /// The value that the command line gives the knob.
    fn value<'a>(&self, matches: &'a ArgMatches) -> Option<&'a str> {
        match self.option {
            Form::None => None,
            Form::Value(_) => matches.get_one::<String>(self.name).map(String::as_str),
            Form::Flag(name, value) => matches.get_flag(name).then_some(value),
        }
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
            if let (Some(name), Some(value)) = (knob.long(), knob.value(matches)) {
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
        command.args(KNOBS.iter().filter_map(Knob::arg))
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
        let set = set(&mut pin, key, value);
        set.map_err(|expected| input(format!("found --pin {text}, expected {expected}")))?;
    }
    Ok(pin)
}

/// Sets one constraint; the error says what was expected.
fn set(pin: &mut Pin, key: &str, value: &str) -> Result<(), String> {
    // Errors of options begin with the word, errors of pins have the key before it.
    let of = |key: &str, said: String| format!("{key}= {}", said.trim_start_matches("expected "));
    let of_key = |said| of(key, said);
    match key {
        "placement" => {
            pin.placement = Some(super::inputs::placement(value).map_err(of_key)?);
            return Ok(());
        }
        "ranks" => {
            pin.ranks = Some(within(DEVICES)(value).map_err(of_key)?);
            return Ok(());
        }
        "features" => {
            pin.features = Some(value.parse::<Layout>().map_err(of_key)?);
            return Ok(());
        }
        // The skipping system's own name for it.
        "stale_grad" if value == "through" => return Ok(()),
        "stale_grad" => {
            return Err(
                "stale_grad=through, which passes gradients on as if all rows were current; \
                 to drop the gradients of copies, append /stop to the rule, as in skip=RULE/stop"
                    .to_owned(),
            );
        }
        _ => {}
    }
    let pinned = || KNOBS.iter().filter(|knob| !knob.values.is_empty());
    match pinned().find(|knob| knob.name == key || knob.alias == Some(key)) {
        Some(knob) => (knob.set)(&mut pin.knobs, value).map_err(|said| of(knob.name, said)),
        None => {
            let keys: Vec<String> = pinned()
                .map(|k| format!("{}={}", k.name, k.values))
                .collect();
            Err(format!(
                "placement=NAME, ranks=N, features=columns (mixtures that begin with push-pull), {}",
                keys.join(", ")
            ))
        }
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("expected yes or no".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_one_knob_and_no_knob_is_out_of_reach() {
        let mut names: Vec<_> = KNOBS.iter().map(|knob| knob.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        for knob in KNOBS {
            assert!(
                knob.long().is_some() || !knob.values.is_empty(),
                "{}",
                knob.name
            );
            assert_eq!(
                knob.long().is_some(),
                !knob.help.is_empty(),
                "{}",
                knob.name
            );
        }
    }
}
