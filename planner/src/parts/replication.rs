//! Replication factors for partitions that were not counted.

use gnnc_ir::plan::{AlphaBasis, Partitioner};
use gnnc_ir::workload::{Origin, Reuse, Workload};

/// Replication factor if METIS also balances edges, relative to balancing only vertices: mean over
/// nine graphs in eight parts, which range from 1.03 to 1.53.
const BALANCED_ALPHA: f64 = 1.2;
/// Factor by which that may be off.
const BALANCED_SPREAD: f64 = 1.3;
/// Largest coefficient of variation of the degrees assumed without a histogram: the median of nine
/// graphs. A histogram guessed from the largest degree has a longer tail than any of them.
const ASSUMED_VARIATION: f64 = 1.5;

/// The replication factor, how it was obtained, and the factor by which it may be off. One that was neither counted
/// nor declared is at least what the degrees force: a vertex with more neighbors than its part has other vertices
/// reads the rest from other parts.
pub(super) fn replication(
    workload: &Workload,
    degrees: &Degrees,
    ranks: u32,
    partitioner: Partitioner,
) -> (f64, AlphaBasis, f64) {
    let (alpha, basis, spread) = assumed(workload, degrees, ranks, partitioner);
    let alpha = match basis {
        AlphaBasis::Estimated | AlphaBasis::Interpolated => alpha.max(forced(workload, ranks)),
        AlphaBasis::Measured | AlphaBasis::Declared => alpha,
    };
    (alpha, basis, spread)
}

/// Lower bound on the replication factor of equal parts: each has `V / k` vertices and at least as many neighbors as
/// one of its vertices, of which the mean has `E / V` (edges of several types may come from the same one).
fn forced(workload: &Workload, ranks: u32) -> f64 {
    let (k, vertices) = (f64::from(ranks), workload.vertices.max(1) as f64);
    let neighbors = workload.edges as f64 / vertices / f64::from(workload.relations.max(1));
    (k * neighbors / vertices - 1.0).clamp(0.0, (k - 1.0).max(0.0))
}

fn assumed(
    workload: &Workload,
    degrees: &Degrees,
    ranks: u32,
    partitioner: Partitioner,
) -> (f64, AlphaBasis, f64) {
    let k = f64::from(ranks);
    let random = degrees.random_replication(k);
    // Values that were declared, or measured with the same partitioner for other numbers of parts.
    let same = |parts: u32| workload.partition(parts, partitioner.name());
    let counts = workload.partitions.keys();
    let mut known: Vec<(f64, f64)> = counts
        .filter_map(|&parts| Some((f64::from(parts), same(parts)?.alpha)))
        .collect();
    // Declared values are for METIS balancing only vertices.
    let factor = match partitioner {
        Partitioner::Metis => Some(1.0),
        Partitioner::MetisEdges | Partitioner::MetisSplits => Some(BALANCED_ALPHA),
        Partitioner::Hash
        | Partitioner::Stream
        | Partitioner::Range
        | Partitioner::Morton
        | Partitioner::Blocks
        | Partitioner::BlocksTrain => None,
    };
    if let Some(factor) = factor {
        for (&parts, &alpha) in &workload.replication {
            let parts = f64::from(parts);
            if parts > 1.0 && alpha.is_finite() && known.iter().all(|(other, _)| *other != parts) {
                known.push((parts, (alpha * factor).clamp(0.0, parts - 1.0)));
            }
        }
    }
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    if let Some(&(_, alpha)) = known.iter().find(|(parts, _)| *parts == k) {
        return match partitioner {
            Partitioner::MetisEdges | Partitioner::MetisSplits => {
                (alpha, AlphaBasis::Interpolated, BALANCED_SPREAD)
            }
            _ => (alpha, AlphaBasis::Declared, 1.0),
        };
    }
    if !known.is_empty() {
        // No partition replicates more than if every edge came from another part.
        let most = (k - 1.0).min(workload.edges as f64 / workload.vertices as f64);
        let alpha = interpolate(&known, k);
        let largest = known
            .iter()
            .filter(|(parts, _)| *parts < k)
            .map(|(_, a)| *a)
            .fold(0.0, f64::max);
        return (alpha.min(most).max(largest), AlphaBasis::Interpolated, 1.3);
    }
    match partitioner {
        Partitioner::Hash => (random, AlphaBasis::Estimated, 1.05),
        // The numbering is unknown, so assume it is no better than random.
        Partitioner::Range | Partitioner::Stream => (random, AlphaBasis::Estimated, 3.0),
        Partitioner::Metis
        | Partitioner::MetisEdges
        | Partitioner::MetisSplits
        | Partitioner::Blocks
        | Partitioner::BlocksTrain
        | Partitioner::Morton => (
            random * metis_factor(degrees.mean) * factor.unwrap_or(1.0),
            AlphaBasis::Estimated,
            3.0,
        ),
    }
}

/// METIS's replication factor relative to that of random parts, by mean degree. Fitted to ten
/// graphs with mean degrees from 2.7 to 492; within a factor of 3 for nine of them.
fn metis_factor(mean_degree: f64) -> f64 {
    (0.045 * mean_degree.sqrt()).min(0.4)
}

/// Linear in log k between known points and `(1, 0)`; extrapolates from the last two points.
fn interpolate(known: &[(f64, f64)], k: f64) -> f64 {
    let mut points = vec![(1.0, 0.0)];
    points.extend_from_slice(known);
    let above = points
        .iter()
        .position(|(parts, _)| *parts > k)
        .unwrap_or(points.len() - 1)
        .max(1);
    let ((k0, a0), (k1, a1)) = (points[above - 1], points[above]);
    a0 + (a1 - a0) * (k / k0).ln() / (k1 / k0).ln()
}

/// How much of a graph the edges of METIS parts lead from, by the number of parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadShares {
    /// For each power of two of parts, the share of the vertices that a part reads.
    shares: Vec<f64>,
}

impl ReadShares {
    /// Parts of a graph, up to 2^16.
    pub(super) fn of_graph(workload: &Workload, degrees: &Degrees) -> Self {
        let share = |power: u32| {
            let parts = 1 << power;
            let (alpha, ..) = replication(workload, degrees, parts, Partitioner::Metis);
            ((1.0 + alpha) / f64::from(parts)).min(1.0)
        };
        Self {
            shares: (0..=16).map(share).collect(),
        }
    }

    /// The share of the vertices that one of so many parts reads: its own and its halo. All of them if
    /// nothing is known.
    pub fn of(&self, parts: u32) -> f64 {
        let power = f64::from(parts.max(1)).log2();
        let last = self.shares.len().saturating_sub(1);
        let (below, above) = (power.floor() as usize, power.ceil() as usize);
        let at = |n: usize| self.shares.get(n.min(last)).copied().unwrap_or(1.0);
        at(below) + (power - power.floor()) * (at(above) - at(below))
    }
}

/// A summary of the degrees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Degrees {
    mean: f64,
    /// How soon rows are picked again that edges lead from.
    reuse: Reuse,
    /// Groups of vertices: their share, and their degree.
    groups: Vec<(f64, f64)>,
}

impl Degrees {
    /// Reads the histogram. Without one, all degrees are the mean, which overestimates replication.
    pub fn of(workload: &Workload) -> Self {
        let vertices = workload.vertices.max(1) as f64;
        let mean = workload.edges as f64 / vertices;
        let counted: u64 = workload
            .degree_histogram
            .iter()
            .fold(0, |sum, n| sum.saturating_add(*n));
        if counted != workload.vertices || counted == 0 {
            return Self {
                mean,
                reuse: Reuse::random(ASSUMED_VARIATION),
                groups: vec![(1.0, mean)],
            };
        }
        let max = workload.max_degree.max(1) as f64;
        let bounds = |bucket: usize| match bucket {
            0 => (0.0, 0.0),
            b => {
                let low = 2f64.powi(b as i32 - 1);
                (low, (2.0 * low - 1.0).min(max).max(low))
            }
        };
        let buckets = || workload.degree_histogram.iter().enumerate();
        let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
            buckets()
                .map(|(b, n)| *n as f64 * f(bounds(b).0, bounds(b).1))
                .sum()
        };
        // Position of the degrees within their buckets that makes them add up to the edges.
        let (lowest, width) = (sum(&|low, _| low), sum(&|low, high| high - low));
        let tilt = if width > 0.0 {
            ((workload.edges as f64 - lowest) / width).clamp(0.0, 1.0)
        } else {
            0.0
        };
        let groups: Vec<(f64, f64)> = buckets()
            .filter(|(_, n)| **n > 0)
            .map(|(b, n)| {
                (
                    *n as f64 / vertices,
                    bounds(b).0 + tilt * (bounds(b).1 - bounds(b).0),
                )
            })
            .collect();
        let first: f64 = groups.iter().map(|(share, d)| share * d).sum();
        let second: f64 = groups.iter().map(|(share, d)| share * d * d).sum();
        let variation = if first > 0.0 {
            (second / (first * first) - 1.0).max(0.0).sqrt()
        } else {
            0.0
        };
        Self {
            mean,
            reuse: Reuse {
                variation: match workload.origin {
                    Origin::Measured => variation,
                    Origin::Declared => variation.min(ASSUMED_VARIATION),
                },
                rows: vertices,
                counted: workload.reuse.clone(),
            },
            groups,
        }
    }

    /// How soon rows are picked again that edges lead from.
    pub fn reuse(&self) -> &Reuse {
        &self.reuse
    }

    /// Standard deviation divided by the mean.
    pub(super) fn variation(&self) -> f64 {
        self.reuse.variation
    }

    /// Edges of a part divided by the mean of k parts, if it has the vertices with the largest
    /// degrees.
    pub fn worst(&self, k: f64) -> f64 {
        let mut groups = self.groups.clone();
        groups.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (mut open, mut edges) = (1.0 / k, 0.0);
        for (share, degree) in groups {
            let taken = share.min(open);
            edges += taken * degree;
            open -= taken;
        }
        match self.mean {
            mean if mean > 0.0 => edges * k / mean,
            _ => 1.0,
        }
    }

    /// The largest degree among so many vertices, as far as the degrees are known: the one that at least one of
    /// them has or exceeds.
    pub fn longest(&self, vertices: u64) -> f64 {
        let mut groups = self.groups.clone();
        groups.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut expected = 0.0;
        for (share, degree) in groups {
            expected += share * vertices as f64;
            if expected >= 1.0 - 1e-9 {
                return degree;
            }
        }
        0.0
    }

    /// The share of the vertices read by the first chunks of a graph that hold a share `x` of the
    /// vertices: those among them, and those at the other end of an edge, assuming that edges lead
    /// anywhere. Just `x` if no degrees are known.
    pub fn read(&self, x: f64) -> f64 {
        let x = x.clamp(0.0, 1.0);
        if self.groups.is_empty() {
            return x;
        }
        let spared = |(share, d): &(f64, f64)| share * (1.0 - x).powf(d + 1.0);
        1.0 - self.groups.iter().map(spared).sum::<f64>()
    }

    /// The mean over vertices of a function of their degree.
    pub(super) fn mean_of(&self, of: impl Fn(f64) -> f64) -> f64 {
        self.groups.iter().map(|(share, d)| share * of(*d)).sum()
    }

    /// Expected replication factor of random parts: another part reads a vertex of degree d with
    /// probability `1 - (1 - 1/k)^d`.
    fn random_replication(&self, k: f64) -> f64 {
        let stay = (1.0 - 1.0 / k).ln();
        let read: f64 = self
            .groups
            .iter()
            .map(|(share, d)| share * -(d * stay).exp_m1())
            .sum();
        (k - 1.0) * read
    }
}
