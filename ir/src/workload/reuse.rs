//! How soon rows that edges pick are picked again, which decides whether a cache still has them.

/// How often a cache has the row that the next edge picks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reuse {
    /// Coefficient of variation of the degrees: how unevenly rows are picked.
    pub variation: f64,
    /// The rows of the graph.
    pub rows: f64,
    /// The share of the picks that the last `2^n` rows answer, if that was counted in the order of the graph's edges; the
    /// last number is that of all rows. Empty if rows are picked in random order.
    pub counted: Vec<f64>,
}

impl Reuse {
    /// Rows that are picked in random order.
    pub fn random(variation: f64) -> Self {
        Self {
            variation,
            ..Self::default()
        }
    }

    /// The same degrees in random order, as in sampled batches.
    pub fn shuffled(&self) -> Self {
        Self::random(self.variation)
    }

    /// Share of picks that a cache answers which keeps a share `kept` of the rows that are picked from.
    pub fn hits(&self, kept: f64) -> f64 {
        let kept = kept.clamp(0.0, 1.0);
        let Some(last) = self.counted.len().checked_sub(1) else {
            return hit_rate(kept, self.variation);
        };
        let rows = kept * self.rows;
        if kept >= 1.0 {
            return self.counted[last];
        }
        if rows < 1.0 {
            return rows * self.counted[0];
        }
        // The last number is that of all rows, whose count need not be a power of two.
        let below = (rows.log2().floor() as usize).min(last.saturating_sub(1));
        let above = (below + 1).min(last);
        let size = |n: usize| {
            if n == last {
                self.rows.log2()
            } else {
                n as f64
            }
        };
        let width = size(above) - size(below);
        let share = if width > 0.0 {
            (rows.log2() - size(below)) / width
        } else {
            0.0
        };
        self.counted[below] + share.clamp(0.0, 1.0) * (self.counted[above] - self.counted[below])
    }
}

/// Share of reads that a cache answers if it has room for a share `kept` of the rows, and each row is
/// read as often as its vertex has edges, in random order.
///
/// A row that is read `g` times as often as the mean one is still there with probability
/// `1 - exp(-g t)`, where `t` is such that the cache is full (Che, Tung and Wang, 2002). If degrees follow a
/// gamma distribution with coefficient of variation `variation`, both sums have closed forms, and `t` cancels.
pub fn hit_rate(kept: f64, variation: f64) -> f64 {
    1.0 - (1.0 - kept.clamp(0.0, 1.0)).powf(1.0 + variation * variation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_picks_are_interpolated_between_powers_of_two() {
        let reuse = Reuse {
            variation: 1.0,
            rows: 6.0,
            counted: vec![0.1, 0.3, 0.7, 1.0],
        };
        assert_eq!(reuse.hits(0.0), 0.0);
        assert!((reuse.hits(0.5 / 6.0) - 0.05).abs() < 1e-12);
        assert!((reuse.hits(1.0 / 6.0) - 0.1).abs() < 1e-12);
        assert!((reuse.hits(2.0 / 6.0) - 0.3).abs() < 1e-12);
        let between = reuse.hits(8f64.sqrt() / 6.0);
        assert!((between - 0.5).abs() < 1e-12, "{between}");
        // The last number is that of 6 rows, not of 8.
        assert_eq!((reuse.hits(1.0), reuse.hits(2.0)), (1.0, 1.0));
        assert!((reuse.hits(4.0 / 6.0) - 0.7).abs() < 1e-12);
        let last = reuse.hits(24f64.sqrt() / 6.0);
        assert!((last - 0.85).abs() < 1e-12, "{last}");
        assert_eq!(reuse.shuffled().hits(0.5), hit_rate(0.5, 1.0));
    }
}
