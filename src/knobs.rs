//! The knobs of placements by name: one table for options of the command line, for `--pin KEY=VALUE` and for Python.

mod table;

use crate::numbers::{DEVICES, within};
use gnnc_ir::plan::{Knobs, Layout, Placement};
use gnnc_ir::words::storage::Storage;
use gnnc_planner::placement::{TABLE, names};
use gnnc_planner::search::Pin;
pub use table::KNOBS;

/// A knob by name.
pub struct Knob {
    /// Key of the pin; also the name of the option, unless that is a flag.
    pub name: &'static str,
    /// An earlier name.
    pub alias: Option<&'static str>,
    /// How a run sets it.
    pub option: Form,
    /// Values of the pin, for messages; empty if it cannot be pinned.
    pub values: &'static str,
    /// Help of the option.
    pub help: &'static str,
    /// Sets the knob from text. The error says what was expected.
    pub set: fn(&mut Knobs, &str) -> Result<(), String>,
}

/// How an option of the command line sets a knob.
pub enum Form {
    /// There is no option.
    None,
    /// `--name VALUE`, with this placeholder in help.
    Value(&'static str),
    /// A flag with a name of its own, which sets this value.
    Flag(&'static str, &'static str),
}

impl Knob {
    /// Name of the option, if there is one.
    pub fn long(&self) -> Option<&'static str> {
        match self.option {
            Form::None => None,
            Form::Value(_) => Some(self.name),
            Form::Flag(name, _) => Some(name),
        }
    }
}

/// Sets one constraint of a search, or of a run, by the key of its pin.
///
/// # Errors
/// An unknown key, or a value that the key does not take: what was expected.
pub fn pin(all: &mut Pin, key: &str, value: &str) -> Result<(), String> {
    // Errors of options begin with the word, errors of pins have the key before it.
    let of = |key: &str, said: String| format!("{key}= {}", said.trim_start_matches("expected "));
    let of_key = |said| of(key, said);
    let known = KNOBS.iter().filter(|knob| !knob.values.is_empty());
    match (key, find(known.clone(), key)) {
        ("placement", _) => all.placement = Some(placement(value).map_err(of_key)?),
        ("ranks", _) => all.ranks = Some(within(DEVICES)(value).map_err(of_key)?),
        ("features", _) => all.features = Some(value.parse::<Layout>().map_err(of_key)?),
        // The skipping system's own name for it.
        ("stale_grad", _) if value == "through" => {}
        ("stale_grad", _) => {
            return Err(
                "stale_grad=through, which passes gradients on as if all rows were current; \
                 to drop the gradients of copies, append /stop to the rule, as in skip=RULE/stop"
                    .to_owned(),
            );
        }
        (_, Some(knob)) => {
            (knob.set)(&mut all.knobs, value).map_err(|said| of(knob.name, said))?;
        }
        (_, None) => {
            let keys: Vec<String> = known.map(|k| format!("{}={}", k.name, k.values)).collect();
            return Err(format!(
                "placement=NAME, ranks=N, features=columns (mixtures that begin with push-pull), {}",
                keys.join(", ")
            ));
        }
    }
    Ok(())
}

/// Sets one knob of a run.
///
/// # Errors
/// An unknown name, or a value that the knob does not take: what was expected.
pub fn set(knobs: &mut Knobs, name: &str, value: &str) -> Result<(), String> {
    match find(KNOBS.iter(), name) {
        Some(knob) => (knob.set)(knobs, value),
        None => {
            let names: Vec<&str> = KNOBS.iter().map(|knob| knob.name).collect();
            Err(format!("expected one of {}", names.join(", ")))
        }
    }
}

fn find(mut among: impl Iterator<Item = &'static Knob>, name: &str) -> Option<&'static Knob> {
    among.find(|knob| knob.name == name || knob.alias == Some(name))
}

/// Parses the name of a placement.
///
/// # Errors
/// Another name: what was expected.
pub fn placement(name: &str) -> Result<Placement, String> {
    let found = TABLE.iter().map(|row| row.placement);
    found
        .into_iter()
        .find(|placement| placement.name() == name)
        .ok_or_else(|| format!("expected one of {}", names().join(", ")))
}

/// Parses the name of a storage type.
///
/// # Errors
/// Another name: what was expected.
pub fn storage(name: &str) -> Result<Storage, String> {
    let found = Storage::ALL.iter().find(|storage| storage.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = Storage::ALL.iter().map(|s| s.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
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
