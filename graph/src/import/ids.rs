//! Numbers for the ids of vertices.

use crate::GraphError;
use crate::names::Names;
use crate::topology::check_vertices;
use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};

/// Ids in the order in which they were first seen. Their texts are kept once.
#[derive(Default)]
pub(super) struct Ids {
    /// The numbers of ids that are whole numbers, at their places, as long as few places are open.
    /// Looking up one costs no hash.
    direct: Vec<u32>,
    /// The numbers of other ids.
    numbers: HashTable<u32>,
    random: RandomState,
    /// The ids by number.
    pub(super) names: Names,
    /// The largest id, as long as all are whole numbers without leading zeros.
    largest: Option<Option<u32>>,
}

/// A place in [`Ids::direct`] that no id has.
const OPEN: u32 = u32::MAX;

/// A whole number as its digits are usually written.
fn whole(id: &str) -> Option<u32> {
    let usual = id == "0" || !id.starts_with('0');
    if id.is_empty() || id.len() > 10 || !usual {
        return None;
    }
    let mut number = 0u64;
    for byte in id.bytes() {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = 10 * number + u64::from(byte - b'0');
    }
    u32::try_from(number).ok()
}

impl Ids {
    /// The number of an id, if it is known.
    pub(super) fn find(&self, id: &str) -> Option<u32> {
        let place = whole(id).and_then(|own| self.direct.get(own as usize));
        if let Some(number) = place.filter(|number| **number != OPEN) {
            return Some(*number);
        }
        if self.numbers.is_empty() {
            return None;
        }
        let is_own = |number: &u32| self.names.get(*number as usize) == Some(id);
        self.numbers.find(self.random.hash_one(id), is_own).copied()
    }

    /// The number of an id, which is a new one if the id is.
    ///
    /// # Errors
    /// More ids than 32 bits can number.
    pub(super) fn number(&mut self, id: &str, at: &str) -> Result<u32, GraphError> {
        if let Some(known) = self.find(id) {
            return Ok(known);
        }
        let next = self.names.len() as u64;
        let number = check_vertices(at, u128::from(next) + 1, next)? - 1;
        let own = whole(id);
        self.largest = match (self.largest, own) {
            (None, Some(own)) => Some(Some(own)),
            (Some(Some(largest)), Some(own)) => Some(Some(largest.max(own))),
            (Some(None), _) | (_, None) => Some(None),
        };
        self.names.push(id);
        // A small file has no room for all numbers up to a large one.
        let most = 16 * next + (1 << 20);
        if let Some(place) = own.filter(|own| u64::from(*own) < most) {
            let place = place as usize;
            if self.direct.len() <= place {
                self.direct.resize(place + 1, OPEN);
            }
            self.direct[place] = number;
            return Ok(number);
        }
        let Self {
            numbers,
            random,
            names,
            ..
        } = self;
        let hash = |number: &u32| random.hash_one(names.get(*number as usize).unwrap_or_default());
        numbers.insert_unique(random.hash_one(id), number, hash);
        Ok(number)
    }

    /// Ids that are in a list already.
    ///
    /// # Errors
    /// As [`Ids::number`], or an id that comes twice.
    pub(super) fn of(names: &Names, at: &str) -> Result<Self, GraphError> {
        let mut ids = Self::default();
        for (position, id) in names.iter().enumerate() {
            if ids.number(id, at)? as usize != position {
                return Err(GraphError::Unsupported {
                    at: at.to_owned(),
                    found: format!("id `{id}` twice"),
                    expected: "each id once".to_owned(),
                });
            }
        }
        Ok(ids)
    }
    /// The vertex that each id means, if ids are the numbers of vertices: whole numbers, of which not
    /// many are left out.
    pub(super) fn as_numbers(&self, edges: u64) -> Option<Vec<u32>> {
        let largest = self.largest.flatten()?;
        // As for edge lists without names.
        let plausible = edges.saturating_mul(16).saturating_add(1 << 20);
        if u64::from(largest) >= plausible {
            return None;
        }
        self.names.iter().map(whole).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbers_or_names() {
        let of = |all: &[&str]| {
            let mut ids = Ids::default();
            for id in all {
                ids.number(id, "t").unwrap();
            }
            ids
        };
        assert_eq!(of(&["3", "0", "3"]).as_numbers(1), Some(vec![3, 0]));
        for names in [
            &["3", "x"][..],
            &["x", "3"],
            &["03"],
            &["4000000000"],
            &["-1"],
            &[""],
        ] {
            assert_eq!(of(names).as_numbers(1), None, "{names:?}");
        }
        // Far ahead of the others, then among them: the number stays.
        let mut ids = of(&["1", "2000000"]);
        for n in 0..200_000 {
            ids.number(&format!("x{n}"), "t").unwrap();
        }
        ids.number("1999999", "t").unwrap();
        assert!(ids.direct.len() == 2_000_000 && ids.find("2000000") == Some(1));
        assert_eq!(
            (ids.number("2000000", "t").unwrap(), ids.find("1999999")),
            (1, Some(200_002))
        );
        assert_eq!(
            ["00", "4294967296", "99999999999", "1e3", ""].map(whole),
            [None; 5]
        );
        assert_eq!(["0", "4294967295"].map(whole), [Some(0), Some(u32::MAX)]);
        let ids = of(&["b", "a", "b"]);
        assert_eq!(
            (ids.find("a"), ids.find("c"), ids.names.len()),
            (Some(1), None, 2)
        );
    }
}
