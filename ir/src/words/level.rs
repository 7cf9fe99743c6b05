//! Levels of sampled batches.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A level of the batch at hand, or the layer of edges into it. Vertices of a level are the first
/// ones of the level below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Level {
    /// Its number. The seeds have the highest one.
    pub number: u8,
    /// Whose part of the batch.
    pub of: Of,
}

/// Whose part of a batch rows belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// The rank's own.
    One,
    /// All ranks', on every rank. A vertex has a row for each rank whose part it is in.
    All,
    /// All sets' of the rank's own part, each vertex once; see [`crate::program::instr::Sets`].
    Sets,
    /// All ranks', of which these are the vertices that the rank owns, each once; see
    /// [`crate::program::instr::PushRows`].
    Owned,
}

impl Level {
    /// A level of the rank's own part of the batch.
    pub const fn own(number: u8) -> Self {
        Self {
            number,
            of: Of::One,
        }
    }

    /// A level of all ranks' parts of the batch.
    pub const fn all(number: u8) -> Self {
        Self {
            number,
            of: Of::All,
        }
    }

    /// The vertices that any set of the rank's own part of the batch has in a level.
    pub const fn of_sets(number: u8) -> Self {
        Self {
            number,
            of: Of::Sets,
        }
    }

    /// The vertices that this rank owns of those that any rank has in a level.
    pub const fn owned(number: u8) -> Self {
        Self {
            number,
            of: Of::Owned,
        }
    }

    /// The level next to it on the side of the seeds.
    pub const fn above(self) -> Self {
        Self {
            number: self.number + 1,
            of: self.of,
        }
    }

    /// The level whose first rows are this one's; `None` below level 0.
    pub const fn below(self) -> Option<Self> {
        match self.number.checked_sub(1) {
            Some(number) => Some(Self {
                number,
                of: self.of,
            }),
            None => None,
        }
    }

    /// Whether rows of this level begin with those of another one.
    pub fn begins_with(self, other: Self) -> bool {
        self.of == other.of && self.number <= other.number
    }
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "",
            Self::All => "all ",
            Self::Sets => "sets ",
            Self::Owned => "owned ",
        })
    }
}
