//! Errors in what is to be sampled.

use super::{Cut, MAX_HOPS, Negatives};

/// Why a batch cannot be sampled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// No fanouts, or too many.
    #[error("found {found} fanouts, expected 1 to {MAX_HOPS}, one for each layer")]
    Hops {
        /// Number of fanouts.
        found: usize,
    },
    /// A number where all edges are to be kept.
    #[error(
        "the fanout of hop {hop} is a number, but `full` keeps all edges; expected `all`, or another kind"
    )]
    LimitOfFull {
        /// The hop, from 1 next to the seeds.
        hop: usize,
    },
    /// Fanouts by type that do not fit the graph.
    #[error("hop {hop} has {found} fanouts by type, but the graph's edges have {relations} types")]
    Types {
        /// The hop, from 1 next to the seeds.
        hop: usize,
        /// Number of fanouts.
        found: usize,
        /// Types of the graph's edges; 0 if they have none.
        relations: u32,
    },
    /// A hop over edges that the sampler was not given.
    #[error("hop {hop} runs over a set of edges that the graph does not have")]
    NoSet {
        /// The hop, from 1 next to the seeds.
        hop: usize,
    },
    /// Pairs are to be drawn on a graph without any.
    #[error(
        "found negatives `{how}`, but the graph has no pairs whose ends could be drawn; leave it out, or make pairs with `links = 1` in the graph block"
    )]
    NoPairs {
        /// How they are drawn.
        how: Negatives,
    },
    /// A seed names no vertex.
    #[error("seed {seed} at position {position} names no vertex; the graph has {vertices}")]
    NoSuchSeed {
        /// The seed.
        seed: u32,
        /// Its position among the seeds.
        position: usize,
        /// Vertices of the graph.
        vertices: u32,
    },
    /// A layer has more edges than 32-bit numbers can count.
    #[error(
        "hop {hop} of a batch keeps {found} edges, more than 32 bits can number; use smaller batches or fanouts"
    )]
    TooManyEdges {
        /// The hop, from 1 next to the seeds.
        hop: usize,
        /// Edges kept.
        found: u64,
    },
    /// Threads could not be started.
    #[error("cannot start {threads} threads: {reason}")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// The system's reason.
        reason: String,
    },
    /// There is nothing to cut into batches.
    #[error("there are no seeds to cut into batches")]
    NoSeeds,
    /// A batch of no seeds was asked for.
    #[error("found batches of 0 seeds, expected at least 1")]
    EmptyBatch,
    /// All seeds would be dropped.
    #[error(
        "a batch of {size} is larger than all {seeds} seeds, and `drop` leaves out a batch that is not full; \
         use a smaller batch or another cut"
    )]
    NothingLeft {
        /// Seeds of a batch.
        size: u32,
        /// Seeds in all.
        seeds: usize,
    },
    /// A cut of shares of the seeds that would leave ranks with different numbers of batches.
    #[error(
        "roots `own` go with cut `even`, found `{cut}`: shares of the seeds differ in size, and every rank needs as \
         many batches; use another cut, or roots `home` or `dealt`"
    )]
    CutOfShares {
        /// The cut.
        cut: Cut,
    },
    /// A cache by probabilities of hops over named sets of edges.
    #[error(
        "a cache by probability needs hops over the graph's own edges, and this model's batches also run over named \
         sets; rank by degree or counts"
    )]
    Probabilities,
    /// Edges that ranks cannot draw for each other.
    #[error(
        "found {what}, which workers cannot draw for each other; expected plain edges, or workers that hold all edges \
         (topology `all`)"
    )]
    Apart {
        /// The edges.
        what: &'static str,
    },
    /// Edges from another rank that do not fit the question.
    #[error("the edges that rank {rank} drew are not those that it was asked for")]
    Answer {
        /// The rank.
        rank: u32,
    },
    /// More optimizer steps than 32-bit numbers can count.
    #[error("epoch {epoch} of {batches} batches is beyond 2^32 optimizer steps")]
    TooManySteps {
        /// The epoch.
        epoch: u32,
        /// Batches of an epoch.
        batches: u32,
    },
}
