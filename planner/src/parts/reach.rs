//! How much of a part lies within it, where that was not counted.

use super::replication::Degrees;
use gnnc_ir::program::{RankSizes, Reach};

/// Halvings of an interval that find a share to more digits than anything here has.
const HALVINGS: u32 = 50;

/// What needs nothing of other ranks, as shares: of the vertices, of the arcs into them, and of the arcs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Within {
    rows: f64,
    arcs: f64,
    /// Arcs from other parts.
    far: f64,
}

impl Within {
    /// As if every arc came from another part with the probability that gives the replication factor, each of the
    /// others as likely as the next. The arcs that METIS cuts are at fewer vertices than that, so there is more within a
    /// part than this says.
    pub(super) fn of(degrees: &Degrees, alpha: f64, ranks: f64) -> Self {
        let others = (ranks - 1.0).max(1.0);
        let read = |far: f64| others * (1.0 - degrees.mean_of(|d| (1.0 - far / others).powf(d)));
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            if read(middle) < alpha {
                low = middle;
            } else {
                high = middle;
            }
        }
        let far = if alpha <= 0.0 { 0.0 } else { high };
        let mean = degrees.mean_of(|d| d);
        let arcs = degrees.mean_of(|d| d * (1.0 - far).powf(d));
        Self {
            rows: degrees.mean_of(|d| (1.0 - far).powf(d)),
            arcs: if mean > 0.0 { arcs / mean } else { 0.0 },
            far,
        }
    }

    /// The same of a rank. What it has of the arcs, more or less than the others, changes nothing of the shares.
    pub(super) fn reach(&self, sizes: &RankSizes) -> Reach {
        let share = |of: u64, share: f64| (of as f64 * share).round() as u64;
        let interior_edges = share(sizes.edges, self.arcs).min(sizes.edges);
        Reach {
            interior: share(sizes.inner, self.rows).min(sizes.inner),
            interior_edges,
            halo_edges: share(sizes.edges, self.far).min(sizes.edges - interior_edges),
        }
    }
}
