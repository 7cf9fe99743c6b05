//! Last-level caches: how much of the rows that instructions pick one by one comes from memory.

use super::{Device, DeviceKind, Efficiency};
use crate::program::work::{Pick, Work, sectors};
use crate::workload::Reuse;

/// Bytes that a read at a random place takes from memory at least: a sector of a GPU's cache line, or
/// the line of a processor.
const fn sector(kind: DeviceKind) -> u64 {
    match kind {
        DeviceKind::Gpu => 32,
        DeviceKind::Cpu => 64,
    }
}

/// Bytes of the picked rows that come from memory. Each row is read from there at least once, in
/// whole sectors.
fn missed(cache: u64, picks: &[Pick], reuse: &Reuse, sector: u64) -> f64 {
    // The cache is shared by rows that are read more than once.
    let again = picks.iter().filter(|pick| pick.reads > pick.rows());
    let all: f64 = again.map(|pick| pick.of as f64).sum();
    let kept = cache as f64 / all.max(1.0);
    let of = |pick: &Pick| {
        let reads = pick.reads as f64;
        let once = (pick.rows() as f64).min(reads);
        let missed = (reads * (1.0 - reuse.hits(kept))).max(once);
        // Rows that lie side by side share sectors, which are still there if all of them fit.
        let fits = pick.of <= cache && kept >= 1.0;
        let row = if fits {
            pick.row as f64
        } else {
            sectors(pick.row, sector) * sector as f64
        };
        missed * row
    };
    picks.iter().map(of).sum()
}

impl Device {
    /// Seconds to read and write what an instruction does. Of the rows that it picks, memory serves those that the
    /// cache does not have; all of its bytes pass through the cache. `reuse` says how soon rows are picked again.
    pub fn memory_seconds(
        &self,
        work: &Work,
        picks: &[Pick],
        reuse: &Reuse,
        reached: Efficiency,
    ) -> f64 {
        let all = (work.read.0 + work.written.0) as f64;
        let bandwidth = self.memory_bandwidth * reached.memory;
        let Some(cache) = self.cache else {
            return all / bandwidth;
        };
        let picked: f64 = picks.iter().map(|pick| pick.bytes() as f64).sum();
        let missed = missed(cache.0, picks, reuse, sector(self.kind));
        let memory = (all - picked + missed) / bandwidth;
        memory.max(all / (self.memory_bandwidth * reached.cached))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::device_profile;
    use crate::program::work::KernelClass;
    use crate::words::units::{Bytes, Flops};
    use crate::workload::hit_rate;
    use proptest::prelude::*;

    const REACHED: Efficiency = Efficiency {
        compute: 1.0,
        memory: 1.0,
        cached: 2.5,
    };

    fn work(read: u64) -> Work {
        Work {
            class: KernelClass::Spmm,
            flops: Flops(0.0),
            read: Bytes(read),
            written: Bytes(0),
        }
    }

    /// Seconds on an H100 to pick rows of `row` bytes out of `rows`, `each` times each.
    fn seconds(rows: u64, row: u64, each: u64, variation: f64) -> f64 {
        let pick = Pick {
            reads: rows * each,
            row,
            of: rows * row,
        };
        let device = device_profile("H100").unwrap();
        device.memory_seconds(
            &work(pick.bytes()),
            &[pick],
            &Reuse::random(variation),
            REACHED,
        )
    }

    #[test]
    fn equal_degrees_hit_as_often_as_rows_fit() {
        for kept in [0.0, 0.25, 0.5, 1.0] {
            assert!((hit_rate(kept, 0.0) - kept).abs() < 1e-12);
        }
        assert_eq!(hit_rate(7.0, 2.0), 1.0);
    }

    /// The closed form beside a cache that replaces the row that was not read for longest, over rows that are read
    /// as often as gamma-distributed degrees say.
    #[test]
    fn the_closed_form_is_what_an_lru_cache_does() {
        for (shape, kept) in [(4, 0.2), (1, 0.1), (1, 0.4)] {
            let variation = 1.0 / f64::from(shape).sqrt();
            let found = lru::hit_rate(shape, kept);
            let expected = hit_rate(kept, variation);
            assert!(
                (found - expected).abs() < 0.02,
                "shape {shape}, kept {kept}: {found} {expected}"
            );
        }
    }

    mod lru {
        use std::collections::BTreeMap;

        struct Draws(u64);

        impl Draws {
            /// A number between 0 and 1.
            fn next(&mut self) -> f64 {
                self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
                self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
                ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
            }
        }

        /// Share of reads that find their row, with degrees that are sums of `shape` exponentials.
        pub fn hit_rate(shape: u32, kept: f64) -> f64 {
            const ROWS: usize = 2000;
            let mut draws = Draws(7);
            let mut ends = Vec::with_capacity(ROWS);
            let mut sum = 0.0;
            for _ in 0..ROWS {
                sum += (0..shape).map(|_| -draws.next().ln()).sum::<f64>();
                ends.push(sum);
            }
            let room = (kept * ROWS as f64) as usize;
            let (mut last, mut order) = (vec![0u64; ROWS], BTreeMap::new());
            let (mut hits, mut reads) = (0u64, 0u64);
            for now in 1..=120_000u64 {
                let at = draws.next() * sum;
                let row = ends.partition_point(|end| *end < at).min(ROWS - 1);
                let hit = order.remove(&last[row]).is_some();
                last[row] = now;
                order.insert(now, row);
                if order.len() > room
                    && let Some((_, gone)) = order.pop_first()
                {
                    last[gone] = 0;
                }
                if now > 20_000 {
                    reads += 1;
                    hits += u64::from(hit);
                }
            }
            hits as f64 / reads as f64
        }
    }

    #[test]
    fn narrow_rows_cost_a_sector_unless_they_fit() {
        // 20 million rows of a float do not fit into 50 MiB: most reads cost 32 bytes.
        let large = seconds(20_000_000, 4, 100, 0.0);
        let counted = 20_000_000.0 * 400.0 / 3.35e12;
        assert!(large / counted > 2.0, "{large} {counted}");
        // A million rows do.
        let small = seconds(1_000_000, 4, 100, 0.0);
        let counted = 1_000_000.0 * 400.0 / 3.35e12;
        assert!(
            (small / counted - 1.0 / 2.5).abs() < 1e-6,
            "{small} {counted}"
        );
    }

    #[test]
    fn without_a_cache_every_read_counts() {
        let mut device = device_profile("H100").unwrap();
        device.cache = None;
        let pick = Pick {
            reads: 1000,
            row: 4,
            of: 40,
        };
        let found = device.memory_seconds(&work(5000), &[pick], &Reuse::random(1.0), REACHED);
        assert_eq!(found, 5000.0 / 3.35e12);
    }

    proptest! {
        #[test]
        fn larger_caches_and_hubs_never_cost_time(
            rows in 1u64..10_000_000, columns in 1u64..600, each in 1u64..100,
            variation in 0.0..4.0f64, more in 1u64..8,
        ) {
            let row = 4 * columns;
            let pick = Pick { reads: rows * each, row, of: rows * row };
            let mut device = device_profile("A5000").unwrap();
            let at = |device: &Device, variation: f64| {
                device.memory_seconds(&work(pick.bytes()), &[pick], &Reuse::random(variation), REACHED)
            };
            let first = at(&device, variation);
            prop_assert!(first.is_finite() && first > 0.0);
            prop_assert!(at(&device, variation + 0.5) <= first * (1.0 + 1e-9));
            if let Some(cache) = &mut device.cache {
                cache.0 *= more;
            }
            prop_assert!(at(&device, variation) <= first * (1.0 + 1e-9));
        }
    }
}
