//! What lines of a kind were found to cost.

use super::TransferCost;
use super::lines::Listing;

/// Costs of each kind of lines, once they are known, for one share of the rows.
#[derive(Default)]
pub(super) struct Known {
    computed: Vec<Option<Vec<f64>>>,
    transfers: Vec<Option<TransferCost>>,
}

impl Known {
    /// Nothing, of a list.
    pub fn nothing(list: &Listing) -> Self {
        Self {
            computed: vec![None; list.kinds],
            transfers: vec![None; list.kinds],
        }
    }

    /// Forgets all costs.
    pub fn clear(&mut self) {
        self.computed.fill(None);
        self.transfers.fill(None);
    }

    /// Seconds of a computation by class of ranks.
    pub fn computed(&self, kind: usize) -> Option<Vec<f64>> {
        self.computed.get(kind).cloned().flatten()
    }

    /// Keeps the seconds of a computation.
    pub fn keep_computed(&mut self, kind: usize, seconds: &[f64]) {
        self.computed[kind] = Some(seconds.to_vec());
    }

    /// The cost of a communication.
    pub fn transfer(&self, kind: usize) -> Option<TransferCost> {
        self.transfers.get(kind).cloned().flatten()
    }

    /// Keeps the cost of a communication.
    pub fn keep_transfer(&mut self, kind: usize, cost: &TransferCost) {
        self.transfers[kind] = Some(cost.clone());
    }
}
