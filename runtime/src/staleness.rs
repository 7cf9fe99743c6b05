//! How old the rows were that ranks read in place of current ones.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What training epochs read that was not of the same epoch, or could have been.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Staleness {
    /// One entry for each place of a program where earlier epochs may be read.
    pub layers: Vec<LayerStaleness>,
}

/// The ages of what was read at one place, all ranks and epochs together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerStaleness {
    /// Name of the tensor.
    pub name: String,
    /// Reads by age in epochs; 0 is current.
    pub ages: BTreeMap<u64, u64>,
    /// The largest distance of a copy that was read from what it stands for, relative to that; none
    /// where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
}

impl Staleness {
    /// Adds what another rank read, place by place: of places with one name, the first to the first.
    pub(crate) fn add(&mut self, other: &Self) {
        for (n, layer) in other.layers.iter().enumerate() {
            let same = |other: &&LayerStaleness| other.name == layer.name;
            let before = other.layers[..n].iter().filter(same).count();
            let mut own = self.layers.iter_mut().filter(|own| own.name == layer.name);
            match own.nth(before) {
                None => self.layers.push(layer.clone()),
                Some(own) => own.add(layer),
            }
        }
    }
}

impl LayerStaleness {
    /// Counts reads of an age.
    pub(crate) fn read(&mut self, age: u64, reads: u64) {
        *self.ages.entry(age).or_default() += reads;
    }

    /// Notes how far copies were that were read.
    pub(crate) fn reach(&mut self, gap: f32) {
        let gap = f64::from(gap);
        self.gap = Some(self.gap.map_or(gap, |most| most.max(gap)));
    }

    /// The oldest that was read; none if nothing was.
    pub fn oldest(&self) -> Option<u64> {
        self.ages.keys().next_back().copied()
    }

    fn add(&mut self, other: &Self) {
        other.ages.iter().for_each(|(age, n)| self.read(*age, *n));
        self.gap = match (self.gap, other.gap) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_add_up() {
        let layer = |ages: &[(u64, u64)], gap| LayerStaleness {
            name: "h".to_owned(),
            ages: ages.iter().copied().collect(),
            gap,
        };
        let one = |layer| Staleness {
            layers: vec![layer],
        };
        let mut sum = Staleness::default();
        sum.add(&one(layer(&[(0, 3), (1, 2)], None)));
        sum.add(&one(layer(&[(1, 5), (4, 1)], Some(0.5))));
        sum.add(&one(layer(&[], Some(0.25))));
        let found = &sum.layers[0];
        assert_eq!(*found, layer(&[(0, 3), (1, 7), (4, 1)], Some(0.5)));
        assert_eq!(found.oldest(), Some(4));
        assert_eq!(LayerStaleness::default().oldest(), None);
    }
}
