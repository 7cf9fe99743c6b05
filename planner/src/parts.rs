//! From statistics of a graph to the data every rank holds and sends.

mod batch;
mod chunks;
mod cover;
mod error;
mod groups;
mod nodes;
mod reach;
mod reads;
mod replication;
mod sets;

pub use batch::{BatchPlan, BatchPlans};
pub use chunks::ChunkShare;
use chunks::chunk_shares;
pub use cover::Targets;
pub use error::PartsError;
use gnnc_ir::cluster::Basis;
use gnnc_ir::plan::{AlphaBasis, Partitioner};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{BatchSizes, Halo, Program, RankSizes, Reach};
use gnnc_ir::words::types::NamedEdges;
use gnnc_ir::workload::{Origin, PartLoad, PartitionSummary, TargetLoads, Workload};
pub use groups::Groups;
pub use nodes::Nodes;
pub(crate) use nodes::Tiers;
use reach::Within;
use replication::replication;
pub use replication::{Degrees, ReadShares};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Edges of the largest part over the mean if METIS also balances edges (measured: 1.03).
const BALANCED_EDGES: f64 = 1.05;

/// Extra edges of the largest part if METIS balances only vertices, divided by the coefficient of
/// variation of the degrees and by log2 of the parts: median over nine graphs in 2 to 64 parts.
const UNBALANCED_EDGES: f64 = 0.16;

/// The data of every rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// The partitioner.
    pub partitioner: Partitioner,
    /// Sizes, one entry per rank.
    pub sizes: Vec<RankSizes>,
    /// Rows sent between ranks.
    pub messages: Messages,
    /// Nodes where a row crosses once; `None` if owners send each reader its own copy.
    pub nodes: Option<Nodes>,
    /// Groups of ranks, if they divide the vertices, and the ranks of a group the columns.
    pub groups: Option<Box<Groups>>,
    /// Targets of edges in halos, for programs that have some.
    pub targets: Option<Targets>,
    /// The fewest rows and partial sums, if they were counted.
    pub cover: Option<TargetLoads>,
    /// What parts send that have the edges into and out of their vertices, if it was counted.
    pub both_ends: Option<TargetLoads>,
    /// Replication factor.
    pub alpha: f64,
    /// How `alpha` was obtained.
    pub alpha_basis: AlphaBasis,
    /// Factor by which `alpha` may be too low or too high.
    pub alpha_spread: f64,
    /// Edges of the largest part divided by those of the mean part.
    pub edge_imbalance: f64,
    /// How `edge_imbalance` was obtained.
    pub edge_imbalance_basis: AlphaBasis,
    /// Whether the sizes were measured or declared.
    pub basis: Basis,
    /// Degrees of the vertices.
    pub degrees: Degrees,
    /// What the chunks of pipelines read.
    pub reads: ReadShares,
    /// Each chunk's share, by number of chunks, for the numbers into which METIS cut the whole
    /// graph. For other numbers, chunks are assumed to be even; chunks of a part are assumed to be
    /// like those of the whole graph.
    pub chunks: BTreeMap<u32, Vec<ChunkShare>>,
    /// The sampled batches of an epoch, for programs that sample.
    pub batch: Option<BatchPlan>,
}

/// Rows sent between ranks.
#[derive(Clone, Debug, PartialEq)]
pub enum Messages {
    /// `[i][j]`: rows that rank `i` owns and rank `j` reads.
    Matrix(Vec<Vec<u64>>),
    /// Each rank's halo is spread evenly over all other ranks.
    Uniform,
}

impl Parts {
    /// The parts as the ranks of a program hold them: the program may need the rows of all
    /// vertices.
    pub fn of(mut self, program: &Program) -> Self {
        if program.halo == Halo::Everything {
            for sizes in &mut self.sizes {
                sizes.halo = sizes.vertices - sizes.inner;
            }
            self.messages = Messages::Uniform;
            self.everything_crosses();
        }
        match program.halo {
            Halo::Boundary | Halo::Everything => {}
            Halo::Cover => self.covered(),
            Halo::BothEnds => self.with_both_ends(),
        }
        if let Some(mesh) = program.mesh {
            let copies = mesh.copies(program.ranks) as usize;
            let of_slice: Vec<u64> = (self.sizes.chunks(copies.max(1)))
                .map(|finer| finer.iter().map(|sizes| sizes.slice_nonzeros).sum())
                .collect();
            for (rank, sizes) in (0..).zip(&mut self.sizes) {
                let own = mesh.slice(program.ranks, rank) as usize;
                sizes.slice_nonzeros = of_slice.get(own).copied().unwrap_or(0);
            }
        }
        self.hold_groups(program);
        if let (Some(_), Some(batch)) = (&program.sampling, &mut self.batch) {
            batch.share(program);
            for (sizes, expected) in self.sizes.iter_mut().zip(&batch.expected) {
                sizes.batch = *expected;
            }
        }
        self
    }

    /// The parts with the rows that the batches of a list have.
    pub fn in_phase(&self, phase: Phase) -> Cow<'_, Self> {
        let evaluated = (self.batch.as_ref())
            .filter(|_| phase == Phase::Eval)
            .and_then(|batch| batch.evaluated.as_ref());
        let Some(evaluated) = evaluated else {
            return Cow::Borrowed(self);
        };
        let mut parts = self.clone();
        for (sizes, batch) in parts.sizes.iter_mut().zip(evaluated) {
            sizes.batch = *batch;
        }
        Cow::Owned(parts)
    }

    /// The parts with the larger one of the batches to train and to evaluate on.
    pub(crate) fn with_larger_batches(&self) -> Cow<'_, Self> {
        let mut parts = self.in_phase(Phase::Eval);
        if let Cow::Owned(parts) = &mut parts {
            for (sizes, trained) in parts.sizes.iter_mut().zip(&self.sizes) {
                sizes.batch = sizes.batch.max(&trained.batch);
            }
        }
        parts
    }

    /// Parts that were not counted, with another replication factor, which is at most that of ranks that read everything.
    pub(crate) fn with_replication(&self, alpha: f64) -> Self {
        let others = self.sizes.len().saturating_sub(1) as f64;
        let alpha = alpha.min(others);
        let more = alpha / self.alpha.max(f64::MIN_POSITIVE);
        let within = Within::of(&self.degrees, alpha, others + 1.0);
        let mut parts = self.clone();
        parts.alpha = alpha;
        for sizes in &mut parts.sizes {
            sizes.halo = (sizes.halo as f64 * more).round() as u64;
            sizes.reach = within.reach(sizes);
        }
        if let Some(groups) = &mut parts.groups {
            groups.parts = groups.parts.with_replication(groups.parts.alpha * more);
            let halos: Vec<u64> = groups.parts.sizes.iter().map(|sizes| sizes.halo).collect();
            for (rank, sizes) in parts.sizes.iter_mut().enumerate() {
                let halo = halos.get(rank / groups.ranks.max(1) as usize);
                sizes.all_halo = halo.copied().unwrap_or(0).min(sizes.elsewhere);
            }
        }
        parts
    }

    /// The parts as if all ranks but the one with the most edges were like the median one, and all chunks alike.
    pub(crate) fn evened(&self) -> Cow<'_, Self> {
        if self.messages == Messages::Uniform && self.chunks.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut parts = self.clone();
        parts.messages = Messages::Uniform;
        if let Some(nodes) = &mut parts.nodes {
            nodes.counted.clear();
        }
        if let Some(groups) = &mut parts.groups {
            groups.parts = groups.parts.evened().into_owned();
        }
        parts.chunks.clear();
        parts
            .sizes
            .sort_by_key(|sizes| std::cmp::Reverse(sizes.edges));
        let median = parts.sizes.get(parts.sizes.len() / 2).copied();
        for sizes in parts.sizes.iter_mut().skip(1) {
            *sizes = median.unwrap_or(*sizes);
        }
        Cow::Owned(parts)
    }
}

/// The data of each of `ranks` ranks.
///
/// A measured partition is used as it is. Otherwise the replication factor is the declared one,
/// interpolated between declared ones, or estimated from the degrees; see `docs/cost-model.md` for
/// the formulas.
///
/// # Errors
/// No ranks, more ranks than vertices, a contradictory partition, or one that only a graph can tell.
pub fn parts(
    workload: &Workload,
    ranks: u32,
    partitioner: Partitioner,
) -> Result<Parts, PartsError> {
    if ranks == 0 {
        return Err(PartsError::NoRanks);
    }
    if u64::from(ranks) > workload.vertices {
        return Err(PartsError::MoreRanksThanVertices {
            ranks,
            vertices: workload.vertices,
        });
    }
    let origin = match workload.origin {
        Origin::Measured => Basis::Measured,
        Origin::Declared => Basis::Declared,
    };
    if ranks == 1 {
        let degrees = Degrees::of(workload);
        let all = RankSizes {
            inner: workload.vertices,
            train: train(workload),
            halo: 0,
            edges: workload.edges,
            named_edges: workload.named_edges(),
            feature_nonzeros: workload.feature_nonzeros,
            slice_nonzeros: workload.slice_nonzeros(1, 0),
            vertices: workload.vertices,
            elsewhere: 0,
            all_halo: 0,
            all_edges: workload.edges,
            all_named_edges: workload.named_edges(),
            max_degree: most_edges(workload),
            batch: BatchSizes::NONE,
            reach: Reach {
                interior: workload.vertices,
                interior_edges: workload.edges,
                halo_edges: 0,
            },
        };
        return Ok(Parts {
            partitioner,
            sizes: vec![all],
            messages: Messages::Uniform,
            nodes: None,
            groups: None,
            targets: None,
            cover: None,
            both_ends: None,
            alpha: 0.0,
            alpha_basis: AlphaBasis::Measured,
            alpha_spread: 1.0,
            edge_imbalance: 1.0,
            edge_imbalance_basis: AlphaBasis::Measured,
            basis: origin,
            reads: ReadShares::of_graph(workload, &degrees),
            degrees,
            chunks: chunk_shares(workload),
            batch: None,
        });
    }
    match workload.partition(ranks, partitioner.name()) {
        Some(summary) => {
            let found = measured(summary, partitioner, ranks, workload, origin)?;
            Ok(Parts {
                cover: summary.cover.clone(),
                both_ends: summary.both_ends.clone(),
                ..found
            })
        }
        // How labeled vertices lie in a graph follows from no statistics.
        None if partitioner.reads_hops() => Err(PartsError::NotCounted { partitioner, ranks }),
        None => Ok(estimated(workload, ranks, partitioner)),
    }
}

/// The largest in-degree or out-degree.
fn most_edges(workload: &Workload) -> u64 {
    let named = workload.edge_sets.iter().map(|set| set.max_degree);
    let plain = workload.max_degree.max(workload.max_out_degree);
    named.fold(plain, u64::max)
}

/// Number of training vertices; all vertices if the split is unknown.
fn train(workload: &Workload) -> u64 {
    match workload.split {
        [0, 0, 0] => workload.vertices,
        [train, ..] => train,
    }
}

/// Parts that were counted.
fn measured(
    summary: &PartitionSummary,
    partitioner: Partitioner,
    ranks: u32,
    workload: &Workload,
    basis: Basis,
) -> Result<Parts, PartsError> {
    let (count, rows) = (ranks as usize, &summary.messages);
    let square = rows.is_empty() || (rows.len() == count && rows.iter().all(|r| r.len() == count));
    if summary.parts.len() != count || !square {
        return Err(PartsError::Inconsistent {
            ranks,
            loads: summary.parts.len(),
            rows: rows.len(),
        });
    }
    let vertices = summary.parts.iter().map(|p| p.inner).sum();
    let all_edges = summary.parts.iter().map(|p| p.edges).sum();
    let named = summary.parts.iter().map(|load| load.named_edges);
    let all_named_edges = named.fold(NamedEdges::NONE, |sum, edges| sum.zip(edges, |a, b| a + b));
    let degrees = Degrees::of(workload);
    let within = Within::of(&degrees, summary.alpha, f64::from(ranks));
    let size = |(rank, load): (u32, &PartLoad)| RankSizes {
        inner: load.inner,
        train: load.train,
        halo: load.halo,
        edges: load.edges,
        named_edges: load.named_edges,
        feature_nonzeros: load.feature_nonzeros,
        slice_nonzeros: workload.slice_nonzeros(ranks, rank),
        vertices,
        elsewhere: 0,
        all_halo: 0,
        all_edges,
        all_named_edges,
        max_degree: most_edges(workload),
        batch: BatchSizes::NONE,
        reach: load.reach.unwrap_or_default(),
    };
    let mut sizes: Vec<RankSizes> = (0..).zip(&summary.parts).map(size).collect();
    for (sizes, load) in sizes.iter_mut().zip(&summary.parts) {
        sizes.reach = load.reach.unwrap_or_else(|| within.reach(sizes));
    }
    let total: u64 = sizes.iter().map(|s| s.edges).sum();
    let largest = sizes.iter().map(|s| s.edges).max().unwrap_or(0);
    let messages = if rows.is_empty() {
        Messages::Uniform
    } else {
        Messages::Matrix(rows.clone())
    };
    let counted = match basis {
        Basis::Measured => AlphaBasis::Measured,
        _ => AlphaBasis::Declared,
    };
    Ok(Parts {
        partitioner,
        messages,
        nodes: None,
        groups: None,
        targets: None,
        cover: None,
        both_ends: None,
        alpha: summary.alpha,
        alpha_basis: counted,
        edge_imbalance_basis: counted,
        alpha_spread: 1.0,
        edge_imbalance: if total == 0 {
            1.0
        } else {
            largest as f64 * count as f64 / total as f64
        },
        sizes,
        basis,
        reads: ReadShares::of_graph(workload, &degrees),
        degrees,
        chunks: chunk_shares(workload),
        batch: None,
    })
}

/// Parts from statistics: all equal except the first, which has the most edges.
fn estimated(workload: &Workload, ranks: u32, partitioner: Partitioner) -> Parts {
    let degrees = Degrees::of(workload);
    let (alpha, alpha_basis, alpha_spread) = replication(workload, &degrees, ranks, partitioner);
    let k = f64::from(ranks);
    let deviation = match partitioner {
        // The expected maximum of k sums of random degrees.
        Partitioner::Hash => {
            let relative =
                (k * (1.0 + degrees.variation().powi(2)) / workload.vertices.max(1) as f64).sqrt();
            relative * (2.0 * k.ln()).sqrt()
        }
        Partitioner::MetisEdges | Partitioner::MetisSplits | Partitioner::Stream => {
            BALANCED_EDGES - 1.0
        }
        Partitioner::Metis
        | Partitioner::Blocks
        | Partitioner::BlocksTrain
        | Partitioner::Range
        | Partitioner::Morton => UNBALANCED_EDGES * degrees.variation() * k.log2(),
    };
    let edge_imbalance = (1.0 + deviation).min(k).min(degrees.worst(k).max(1.0));
    let count = u64::from(ranks);
    let share = |total: u64, rank: u64| total / count + u64::from(rank < total % count);
    let halo = (alpha * workload.vertices as f64).round() as u64;
    let heavy = ((edge_imbalance * workload.edges as f64 / k) as u64).min(workload.edges);
    let (light, rest) = (
        (workload.edges - heavy) / (count - 1),
        (workload.edges - heavy) % (count - 1),
    );
    let within = Within::of(&degrees, alpha, k);
    let size = |rank: u64| RankSizes {
        reach: Reach::default(),
        inner: share(workload.vertices, rank),
        train: share(train(workload), rank),
        halo: share(halo, rank),
        edges: if rank == 0 {
            heavy
        } else {
            light + u64::from(rank <= rest)
        },
        named_edges: workload.named_edges().map(|edges| share(edges, rank)),
        feature_nonzeros: share(workload.feature_nonzeros, rank),
        slice_nonzeros: workload.slice_nonzeros(ranks, rank as u32),
        vertices: workload.vertices,
        elsewhere: 0,
        all_halo: 0,
        all_edges: workload.edges,
        all_named_edges: workload.named_edges(),
        max_degree: most_edges(workload),
        batch: BatchSizes::NONE,
    };
    let reached = |sizes: RankSizes| RankSizes {
        reach: within.reach(&sizes),
        ..sizes
    };
    Parts {
        partitioner,
        sizes: (0..count).map(size).map(reached).collect(),
        messages: Messages::Uniform,
        nodes: None,
        groups: None,
        targets: None,
        cover: None,
        both_ends: None,
        alpha,
        alpha_basis,
        alpha_spread,
        edge_imbalance,
        edge_imbalance_basis: AlphaBasis::Estimated,
        basis: Basis::Declared,
        reads: ReadShares::of_graph(workload, &degrees),
        degrees,
        chunks: chunk_shares(workload),
        batch: None,
    }
}

#[cfg(test)]
pub(crate) mod tests;
