//! How old the rows are that arcs read.

use gnnc_ir::program::BufferId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How often training read rows of earlier epochs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staleness {
    /// One for each tensor whose rows are kept for later epochs.
    pub layers: Vec<LayerStaleness>,
}

/// The same of one tensor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerStaleness {
    /// Its name.
    pub name: String,
    /// By age in epochs, the arcs that read a row that old.
    pub ages: BTreeMap<u64, u64>,
}

impl Staleness {
    /// Adds arcs that read rows of an age.
    pub(crate) fn add(&mut self, name: &str, age: u64, arcs: u64) {
        let place = self.layers.iter().position(|layer| layer.name == name);
        let place = place.unwrap_or_else(|| {
            self.layers.push(LayerStaleness {
                name: name.to_owned(),
                ages: BTreeMap::new(),
            });
            self.layers.len() - 1
        });
        *self.layers[place].ages.entry(age).or_default() += arcs;
    }
}

/// A history, its age, and the arcs that read it.
pub(crate) type Stale = (BufferId, u64, u64);

/// What a rank knows of its histories.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    /// Epoch in which each was kept last.
    pub(crate) kept: BTreeMap<BufferId, u64>,
    /// By history and age, the arcs that read it so far.
    pub(crate) ages: BTreeMap<(BufferId, u64), u64>,
}

impl Histories {
    /// Counts what an epoch read.
    pub(crate) fn read(&mut self, stale: Vec<Stale>) {
        for (buffer, age, arcs) in stale.into_iter().filter(|(.., arcs)| *arcs > 0) {
            *self.ages.entry((buffer, age)).or_default() += arcs;
        }
    }
}
