//! Copies of the slices of the input features.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How slices of the features are spread over ranks: each rank has one of `slices`, so there are
/// several copies of the features if there are more ranks (P3, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mesh {
    /// Slices of one copy; divides the number of ranks.
    pub slices: u32,
    /// Whether the ranks that share a copy are apart. Then consecutive ranks have the same slice, as if
    /// each node had one. Otherwise consecutive ranks have the slices of one copy.
    pub apart: bool,
}

impl Mesh {
    /// One copy, with a slice on every rank.
    pub fn whole(ranks: u32) -> Self {
        Self {
            slices: ranks.max(1),
            apart: false,
        }
    }

    /// Number of copies on so many ranks.
    pub fn copies(self, ranks: u32) -> u32 {
        (ranks / self.slices.max(1)).max(1)
    }

    /// The slice that a rank has.
    pub fn slice(self, ranks: u32, rank: u32) -> u32 {
        match self.apart {
            true => rank / self.copies(ranks),
            false => rank % self.slices.max(1),
        }
    }

    /// The copy that a rank's slice belongs to.
    pub fn copy(self, ranks: u32, rank: u32) -> u32 {
        match self.apart {
            true => rank % self.copies(ranks),
            false => rank / self.slices.max(1),
        }
    }
}

/// The number of slices, and `/apart` if the ranks that share a copy are apart.
impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let apart = if self.apart { "/apart" } else { "" };
        write!(f, "{}{apart}", self.slices)
    }
}

impl FromStr for Mesh {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (slices, apart) = match text.strip_suffix("/apart") {
            Some(slices) => (slices, true),
            None => (text, false),
        };
        match slices.parse() {
            Ok(0) | Err(_) => Err(format!(
                "found `{text}`, expected a number of slices, or one with `/apart` if the ranks that share \
                 a copy of the features are apart: 4, 4/apart"
            )),
            Ok(slices) => Ok(Self { slices, apart }),
        }
    }
}

impl TryFrom<String> for Mesh {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Mesh> for String {
    fn from(mesh: Mesh) -> Self {
        mesh.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_read_as_they_are_written() {
        for text in ["1", "4", "4/apart"] {
            let mesh: Mesh = text.parse().unwrap();
            assert_eq!(mesh.to_string(), text);
        }
        for text in ["", "0", "0/apart", "4/", "apart", "-1", "4/near"] {
            assert!(text.parse::<Mesh>().is_err(), "{text}");
        }
    }

    #[test]
    fn each_rank_has_a_slice_of_a_copy() {
        for apart in [false, true] {
            let mesh = Mesh { slices: 3, apart };
            let mut seen: Vec<[u32; 2]> = (0..6)
                .map(|rank| [mesh.slice(6, rank), mesh.copy(6, rank)])
                .collect();
            assert_eq!(seen[1], if apart { [0, 1] } else { [1, 0] });
            seen.sort_unstable();
            assert_eq!(seen, [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]);
        }
    }
}
