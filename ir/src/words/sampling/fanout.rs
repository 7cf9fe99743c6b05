//! How many edges a hop keeps.

use super::ALL;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How many edges into a vertex one hop keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fanout {
    /// At most this many edges; of each type, if edges have types.
    Each(u32),
    /// At most this many edges of each type, by type.
    Types(Vec<u32>),
}

impl Fanout {
    /// The fanout of a type of edges; 0 if there is no such type.
    pub fn of(&self, kind: u16) -> u32 {
        match self {
            Self::Each(fanout) => *fanout,
            Self::Types(fanouts) => fanouts.get(usize::from(kind)).copied().unwrap_or(0),
        }
    }
}

/// A number, `all`, or one for each type with slashes in between: `5/5/all`.
impl fmt::Display for Fanout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |fanout: &u32| match *fanout {
            ALL => "all".to_owned(),
            number => number.to_string(),
        };
        match self {
            Self::Each(fanout) => f.write_str(&text(fanout)),
            Self::Types(fanouts) => {
                let all: Vec<String> = fanouts.iter().map(text).collect();
                f.write_str(&all.join("/"))
            }
        }
    }
}

impl FromStr for Fanout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |text: &str| match text {
            "all" => Ok(ALL),
            _ => match text.parse() {
                Ok(ALL) | Err(_) => Err("expected a number of edges or `all`".to_owned()),
                Ok(number) => Ok(number),
            },
        };
        let all: Vec<u32> = text.split('/').map(one).collect::<Result<_, _>>()?;
        Ok(match all[..] {
            [fanout] => Self::Each(fanout),
            _ => Self::Types(all),
        })
    }
}
