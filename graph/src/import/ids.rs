//! Numbers for the ids of vertices.

use crate::GraphError;
use crate::names::Names;
use crate::topology::check_vertices;
use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};

/// Ids in the order in which they were first seen. Their texts are kept once.
#[derive(Default)]
pub(super) struct Ids {
    numbers: HashTable<u32>,
    random: RandomState,
    /// The ids by number.
    pub(super) names: Names,
    /// The largest id, as long as all are whole numbers without leading zeros.
    largest: Option<Option<u32>>,
}

/// A whole number as its digits are usually written.
fn whole(id: &str) -> Option<u32> {
    let usual = id == "0" || !id.starts_with('0');
    let digits = id.bytes().all(|byte| byte.is_ascii_digit());
    if usual && digits {
        id.parse().ok()
    } else {
        None
    }
}

impl Ids {
    /// The number of an id, if it is known.
    pub(super) fn find(&self, id: &str) -> Option<u32> {
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
        self.largest = match (self.largest, whole(id)) {
            (None, Some(own)) => Some(Some(own)),
            (Some(Some(largest)), Some(own)) => Some(Some(largest.max(own))),
            (Some(None), _) | (_, None) => Some(None),
        };
        self.names.push(id);
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
                    found: format!("id `{id}` of two vertices"),
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
        let ids = of(&["b", "a", "b"]);
        assert_eq!(
            (ids.find("a"), ids.find("c"), ids.names.len()),
            (Some(1), None, 2)
        );
    }
}
