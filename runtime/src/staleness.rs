//! Ages of the rows that ranks read instead of current ones.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Data of earlier epochs that training epochs read, or could have read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Staleness {
    /// One entry for each position in a program that may read earlier epochs.
    pub layers: Vec<LayerStaleness>,
}

/// Ages of the reads at one position, over all ranks and epochs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerStaleness {
    /// Name of the tensor.
    pub name: String,
    /// Number of reads by age in epochs; age 0 is current.
    pub ages: BTreeMap<u64, u64>,
    /// The largest relative distance between a copy that was read and the row it stands for; `None`
    /// if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
}

impl Staleness {
    /// Adds another rank's reads, position by position. Positions with the same name are matched in
    /// order.
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
    /// Counts reads of one age.
    pub(crate) fn read(&mut self, age: u64, reads: u64) {
        *self.ages.entry(age).or_default() += reads;
    }

    /// Records the distance of copies that were read.
    pub(crate) fn reach(&mut self, gap: f32) {
        let gap = f64::from(gap);
        self.gap = Some(self.gap.map_or(gap, |most| most.max(gap)));
    }

    /// The oldest age read; `None` if nothing was read.
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
