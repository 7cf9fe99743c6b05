//! The software that starts kernels and messages.

use super::parse::Section;
use super::{ClusterError, quoted};
use crate::words::spelling::closest;
use crate::words::units::Seconds;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// What a program that trains takes to start kernels and messages, apart from the device and the links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Software {
    /// Name, as in "eager".
    pub name: String,
    /// Shortest time that any kernel takes to start.
    pub launch: Seconds,
    /// Time that a message takes to start, besides the latency of its link.
    pub message: Seconds,
}

/// Built-in software: name, microseconds of a launch and of a message. `gnnc` replays captured work, so the device alone
/// limits it. `eager` launches each operator from Python, as PyTorch does without compiling; messages are such launches.
const SOFTWARE: &[(&str, f64, f64)] = &[("gnnc", 0.0, 0.0), ("eager", 20.0, 20.0)];

impl Default for Software {
    fn default() -> Self {
        Self::built_in(&SOFTWARE[0])
    }
}

impl Software {
    fn built_in((name, launch, message): &(&str, f64, f64)) -> Self {
        Self {
            name: (*name).to_owned(),
            launch: Seconds(launch / 1e6),
            message: Seconds(message / 1e6),
        }
    }

    /// Built-in software. Ignores case.
    ///
    /// # Errors
    /// If the name is not built in.
    pub fn profile(name: &str) -> Result<Self, ClusterError> {
        let wanted = name.to_lowercase();
        let known = SOFTWARE.iter().map(|row| row.0);
        match SOFTWARE.iter().find(|row| row.0 == wanted) {
            Some(row) => Ok(Self::built_in(row)),
            None => Err(ClusterError::UnknownProfile {
                what: "software",
                found: name.to_owned(),
                suggestion: closest(name, known.clone()).map(str::to_owned),
                known: known.map(str::to_owned).collect(),
            }),
        }
    }

    /// Reads a table of a cluster file: a profile, or what the table says; gnnc without a table.
    pub(super) fn read(section: Option<Section>) -> Result<Self, ClusterError> {
        let Some(section) = section else {
            return Ok(Self::default());
        };
        section.only(&["profile", "name", "launch", "message"])?;
        let profile = section.text("profile")?;
        let base = match &profile {
            Some(profile) => Self::profile(profile)?,
            None => Self {
                name: "described".to_owned(),
                ..Self::default()
            },
        };
        let seconds = |key| section.not_negative(key).map(|found| found.map(Seconds));
        Ok(Self {
            name: section.text("name")?.unwrap_or(base.name),
            launch: seconds("launch")?.unwrap_or(base.launch),
            message: seconds("message")?.unwrap_or(base.message),
        })
    }

    /// Adds the table of a cluster file, unless the software is gnnc.
    pub(super) fn print(&self, text: &mut String) {
        if self.is_own() {
            return;
        }
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n[software]\nname = {}\nlaunch = {:e}\nmessage = {:e}\n",
            quoted(&self.name),
            self.launch.0,
            self.message.0
        );
    }

    /// Whether it is gnnc.
    pub fn is_own(&self) -> bool {
        *self == Self::default()
    }
}
