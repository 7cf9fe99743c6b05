//! Estimates how much of a part is interior, if that was not counted.

use super::replication::Degrees;
use gnnc_ir::program::{RankSizes, Reach};

/// Bisection steps; they give more digits than anything else here has.
const HALVINGS: u32 = 50;

/// The interior, in shares: of the vertices, of the edges into them, and of all edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Within {
    rows: f64,
    edges: f64,
    /// Edges from other parts.
    far: f64,
}

impl Within {
    /// Assumes that every edge comes from another part with the same probability, chosen to give
    /// the replication factor, and from each other part equally often. That is right for rows and
    /// edges into them, but gives fewer edges from other parts than METIS leaves: there, several
    /// edges of a vertex come from the same other part, and vertices share their sources. An upper
    /// bound is the number of edges into rows outside the interior; `far` is the geometric mean of
    /// both.
    /// geometric mean of both.
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
        let edges = degrees.mean_of(|d| d * (1.0 - far).powf(d));
        let edges = if mean > 0.0 { edges / mean } else { 0.0 };
        Self {
            rows: degrees.mean_of(|d| (1.0 - far).powf(d)),
            edges,
            far: (far * (1.0 - edges).max(0.0)).sqrt(),
        }
    }

    /// The same for one rank. Its shares do not depend on whether it has more or fewer edges than
    /// others.
    pub(super) fn reach(&self, sizes: &RankSizes) -> Reach {
        let share = |of: u64, share: f64| (of as f64 * share).round() as u64;
        let interior_edges = share(sizes.edges, self.edges).min(sizes.edges);
        Reach {
            interior: share(sizes.inner, self.rows).min(sizes.inner),
            interior_edges,
            halo_edges: share(sizes.edges, self.far).min(sizes.edges - interior_edges),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::tests::workload;
    use gnnc_ir::workload::Origin;

    /// Shares counted in METIS's parts (`gnnc graph stats FILE --parts 2,8 --format json`), next to
    /// those from the histogram and the replication factor.
    #[test]
    fn what_lies_within_is_estimated_from_the_histogram() {
        type Counted<'a> = (u64, u64, u64, &'a [u64], [(f64, f64, [f64; 3]); 2]);
        let cora: Counted = (
            2708,
            10_556,
            168,
            &[0, 485, 1136, 883, 157, 35, 8, 3, 1],
            [
                (2.0, 0.101, [0.90, 0.79, 0.04]),
                (8.0, 0.305, [0.76, 0.61, 0.10]),
            ],
        );
        for (vertices, edges, largest, histogram, parts) in [cora] {
            let mut w = workload(vertices, edges);
            w.origin = Origin::Measured;
            (w.max_degree, w.degree_histogram) = (largest, histogram.to_vec());
            let degrees = Degrees::of(&w);
            for (ranks, alpha, [rows, edges, far]) in parts {
                let found = Within::of(&degrees, alpha, ranks);
                assert!((found.rows - rows).abs() < 0.02, "{ranks}: {found:?}");
                assert!((found.edges - edges).abs() < 0.03, "{ranks}: {found:?}");
                let off = found.far / far;
                assert!((0.5..2.0).contains(&off), "{ranks}: {found:?}");
            }
        }
    }

    #[test]
    fn what_lies_within_is_all_or_nothing_at_the_ends() {
        let mut w = workload(1000, 20_000);
        w.degree_histogram = vec![0, 0, 0, 0, 0, 1000];
        w.max_degree = 20;
        let degrees = Degrees::of(&w);
        let sizes = RankSizes {
            inner: 500,
            edges: 10_000,
            ..RankSizes::default()
        };
        let reach = |alpha| Within::of(&degrees, alpha, 2.0).reach(&sizes);
        let all = Reach {
            interior: 500,
            interior_edges: 10_000,
            halo_edges: 0,
        };
        assert_eq!(reach(0.0), all);
        let none = reach(1.0);
        assert!(none.interior == 0 && none.halo_edges > 9000, "{none:?}");
        let half = reach(0.5);
        assert!(half.interior_edges + half.halo_edges <= 10_000 && half.interior > 0);
        let without = Within::of(&Degrees::default(), 0.5, 2.0).reach(&sizes);
        assert_eq!((without.interior, without.interior_edges), (0, 0));
    }
}
