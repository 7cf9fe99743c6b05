//! Demand of an instruction on a machine: counts, each with its own measured cost.
//!
//! [`super::work`] counts operations and bytes, which peaks and efficiencies turn into times. A
//! calibrated machine knows more: in each group of kernels, the cost of a row, an edge or a
//! vector of operations, and the cost of a cache line by the size of the memory that it comes
//! from.

mod batches;
mod products;
mod vectors;

pub(in crate::program) use products::{DenseProduct, SparseProduct};

use super::picks::{is_picked, sectors};
use super::{Nest, launched, loads, stored};
use crate::kernel::{At, Body, End, Kernel, Over, Walk};
use crate::program::{Instr, Launch, Program, RankSizes, Ref};
use crate::workload::Reuse;
use vectors::Vectors;

/// Number of [`TERMS`].
pub const TERM_COUNT: usize = 24;

/// Names of the counts in cluster files. Bytes, cache lines and waits are split by the size of
/// the memory they come from: 32 KiB, half a MiB, 4, 32 and 256 MiB, with interpolation
/// between. For bytes, that memory is everything the instruction touches; for waits, it is the matrix
/// that rows are picked from. Lines of rows that edges pick again and again come from the smallest memory that keeps
/// them so long. `vector` counts vectors of 16 floats in products
/// and of 4 elsewhere; `lane` counts data loaded float by float; `wait` counts instructions
/// stalled on values of edges (in products, on rows of an operand with scattered starts).
pub const TERMS: [&str; TERM_COUNT] = [
    "launch",
    "row",
    "edge",
    "vector",
    "lane",
    "slow",
    "draw",
    "exp",
    "finish",
    "stream_32k",
    "stream_512k",
    "stream_4m",
    "stream_32m",
    "stream_256m",
    "line_32k",
    "line_512k",
    "line_4m",
    "line_32m",
    "line_256m",
    "wait_32k",
    "wait_512k",
    "wait_4m",
    "wait_32m",
    "wait_256m",
];

/// Groups of instructions with shared costs.
pub const GROUPS: [&str; 29] = [
    "gemm-nn-thin",
    "gemm-nt-thin",
    "gemm-tn-thin",
    "gemm-nn",
    "gemm-nt",
    "gemm-tn",
    "gemm-nn-wide",
    "gemm-nt-wide",
    "gemm-tn-wide",
    "sparse-gemm-nn",
    "sparse-gemm-tn",
    "spmm",
    "spmm-weighted",
    "spmm-edges",
    "spmm-t",
    "spmm-t-weighted",
    "spmm-t-edges",
    "edge-map",
    "sddmm",
    "edge-pass",
    "edge-pass-t",
    "map",
    "row-reduce",
    "col-reduce",
    "copy",
    "loss",
    "sample",
    "fetch-rows",
    "numbers",
];

/// Instructions that communicate; each is its own group.
pub const MESSAGES: [&str; 11] = [
    "halo-exchange",
    "halo-reduce",
    "all-reduce",
    "split",
    "join",
    "replicate",
    "reduce-rows",
    "send",
    "receive",
    "ask-rows",
    "serve-rows",
];

const LAUNCH: usize = 0;
const ROW: usize = 1;
const EDGE: usize = 2;
const VECTOR: usize = 3;
const LANE: usize = 4;
const SLOW: usize = 5;
const DRAW: usize = 6;
const EXP: usize = 7;
const FINISH: usize = 8;
const STREAM: usize = 9;
const LINE: usize = 14;
const WAIT: usize = 19;

/// Bytes per cache line.
const CACHE_LINE: u64 = 64;
/// Base-2 logarithms of the memory sizes.
const LEVELS: [f64; 5] = [15.0, 19.0, 22.0, 25.0, 28.0];

/// The demand of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// One of [`GROUPS`] or [`MESSAGES`].
    pub group: &'static str,
    /// Counts in the order of [`TERMS`].
    pub terms: [f64; TERM_COUNT],
}

impl Demand {
    /// Demand of a message on a rank that sends `bytes`, or that receives them from another
    /// stage. `strips` pieces of rows are picked or added one by one (see `super::strips`).
    /// `launch` is the hand-over between ranks; received data that is already there needs none.
    /// Such data `lay` in this many bytes that the stage sends, which sets the size of the
    /// memory it is read from. All counts are 0 if `bytes` is.
    pub fn message(
        group: &'static str,
        bytes: u64,
        strips: f64,
        launch: bool,
        lay: Option<u64>,
    ) -> Self {
        let mut terms = Terms {
            counts: [0.0; TERM_COUNT],
            reach: bytes,
            held: RankSizes::default(),
            of_batch: false,
            reuse: Reuse::default(),
        };
        if bytes > 0 {
            (terms.counts[LAUNCH], terms.counts[ROW]) = (f64::from(launch), strips);
            // Read there, written here.
            terms.spread(STREAM, bytes as f64, lay.unwrap_or(bytes));
            terms.stream(bytes);
        }
        Self {
            group,
            terms: terms.counts,
        }
    }
}

/// Demand of an instruction on a rank, or on a share of it: `sizes` are what it runs over, and
/// `held` is what the rank holds and rows are picked from, as soon again as `reuse` says. `None` for
/// loops and for instructions that communicate.
pub fn demand(
    program: &Program,
    instr: &Instr,
    sizes: &RankSizes,
    held: &RankSizes,
    reuse: &Reuse,
) -> Option<Demand> {
    let of_batch = instr.launch().is_some_and(|launch| launch.rows.of_batch());
    let mut terms = Terms {
        counts: [0.0; TERM_COUNT],
        reach: reach(program, instr, sizes),
        held: *held,
        of_batch,
        reuse: if of_batch {
            reuse.shuffled()
        } else {
            reuse.clone()
        },
    };
    terms.counts[LAUNCH] = 1.0;
    let sizes = &launched(instr, sizes);
    let group = instr.demand(&mut terms, program, sizes)?;
    Some(Demand {
        group,
        terms: terms.counts,
    })
}

/// Counts, with the bytes of everything the instruction touches.
pub(in crate::program) struct Terms {
    counts: [f64; TERM_COUNT],
    reach: u64,
    held: RankSizes,
    /// Whether it runs over rows of a sampled batch.
    of_batch: bool,
    reuse: Reuse,
}

impl Terms {
    /// Counts sequential bytes.
    fn stream(&mut self, bytes: u64) {
        self.spread(STREAM, bytes as f64, self.reach);
    }

    /// Counts `rows` rows of `row` bytes, picked from `reach` bytes, of which none is picked again soon.
    fn pick(&mut self, rows: u64, row: u64, reach: u64) {
        self.spread(LINE, rows as f64 * sectors(row, CACHE_LINE), reach);
    }

    /// Counts `rows` rows of `row` bytes, picked from `reach` bytes by the edges of a graph. Each memory has the
    /// rows that were picked last; those of a batch are picked for the first time, too.
    fn pick_again(&mut self, rows: u64, row: u64, reach: u64) {
        let first = if self.of_batch {
            rows.min(reach / row.max(1))
        } else {
            0
        };
        self.pick(first, row, reach);
        let amount = (rows - first) as f64 * sectors(row, CACHE_LINE);
        let mut answered = 0.0;
        for (level, size) in LEVELS.iter().enumerate() {
            let last = level + 1 == LEVELS.len();
            let kept = if last {
                1.0
            } else {
                size.exp2() / reach.max(1) as f64
            };
            let hits = self.reuse.hits(kept).max(answered);
            self.counts[LINE + level] += amount * (hits - answered);
            answered = hits;
        }
    }

    /// Counts instructions that stall until data picked from `reach` bytes arrives. A processor
    /// looks a fixed number of instructions ahead, so the more instructions an edge takes, the
    /// fewer edges are in flight.
    fn wait(&mut self, instructions: f64, reach: u64) {
        self.spread(WAIT, instructions, reach);
    }

    /// Splits an amount over memory sizes.
    fn spread(&mut self, first: usize, amount: f64, reach: u64) {
        let size = (reach.max(1) as f64).log2();
        let last = LEVELS.len() - 1;
        let upper = LEVELS.iter().position(|level| size < *level);
        match upper {
            Some(0) => self.counts[first] += amount,
            None => self.counts[first + last] += amount,
            Some(upper) => {
                let share = (size - LEVELS[upper - 1]) / (LEVELS[upper] - LEVELS[upper - 1]);
                self.counts[first + upper - 1] += amount * (1.0 - share);
                self.counts[first + upper] += amount * share;
            }
        }
    }

    pub(in crate::program) fn launch(
        &mut self,
        program: &Program,
        launch: &Launch,
        sizes: &RankSizes,
    ) -> &'static str {
        let kernel = program.kernel(launch.kernel);
        let nest = Nest::new(kernel, launch.rows, sizes);
        let vectors = Vectors::of(kernel);
        let inner = match kernel.body.edge_set() {
            Some(_) => nest.edges,
            None => nest.rows,
        } as f64;
        let finished = nest.row_count(kernel) as f64;
        self.counts[ROW] = nest.rows as f64;
        self.counts[EDGE] = nest.edges as f64;
        self.counts[VECTOR] = inner * vectors.vector;
        self.counts[LANE] = inner * vectors.lane;
        let [finish, slow, draw, exp] = vectors.finish.map(|n| finished * n);
        self.counts[FINISH] = finish;
        self.counts[SLOW] = inner * vectors.slow + slow;
        self.counts[DRAW] = inner * vectors.draw + draw;
        self.counts[EXP] = inner * vectors.exp + exp;
        self.operands(program, launch, &nest, vectors.instructions());
        match &kernel.body {
            Body::Map {
                over: Over::Rows, ..
            } => "map",
            Body::Map { .. } => "edge-map",
            Body::Gather { to, .. } => reduction(kernel, *to),
            Body::RowReduce {
                over: Over::Rows, ..
            } => "row-reduce",
            Body::RowReduce { .. } => "sddmm",
            Body::ColReduce { .. } => "col-reduce",
            // Rows of edges are picked and added, as in a sum to sources.
            Body::TypeSum { .. } => "spmm-t-edges",
            Body::EdgePass(pass) => match pass.to {
                End::Dst => "edge-pass",
                End::Src => "edge-pass-t",
            },
        }
    }

    /// Counts reads and writes, sequential or picked row by row. Each edge takes `instructions`
    /// instructions.
    fn operands(&mut self, program: &Program, launch: &Launch, nest: &Nest, instructions: f64) {
        let kernel = program.kernel(launch.kernel);
        let grouped = Walk::of(&kernel.body).end();
        let loaded = loads(kernel);
        let mut streamed = 0;
        for n in &loaded {
            let Some(operand) = kernel.inputs.get(*n as usize) else {
                continue;
            };
            let once = nest.load_bytes(kernel, *n);
            match launch
                .inputs
                .get(*n as usize)
                .filter(|_| is_picked(kernel, operand))
            {
                Some(at) => {
                    let times = match operand.at {
                        At::List => nest.rows,
                        _ => nest.edges,
                    };
                    let row = once / times.max(1);
                    let all = bytes(program, *at, &self.held);
                    match operand.at {
                        At::Src | At::Dst => self.pick_again(times, row, all),
                        At::Row | At::One | At::Edge | At::List => self.pick(times, row, all),
                    }
                    // Each edge value is picked once, so no cache holds it.
                    if operand.at == At::Edge {
                        self.wait(times as f64 * instructions, all);
                    }
                }
                None => streamed += once,
            }
        }
        let mut written = 0;
        for (output, at) in kernel.outputs.iter().zip(&launch.outputs) {
            let bytes_of = nest.output_bytes(kernel, output);
            // Edge values that a walk by source writes go to places all over the tensor.
            if output.at == At::Edge && grouped == End::Src {
                let all = bytes(program, *at, &self.held);
                self.pick(nest.edges, bytes_of / nest.edges.max(1), all);
            } else {
                written += bytes_of;
            }
        }
        self.stream(streamed + written + nest.structure_bytes(kernel, &loaded));
    }
}

/// Bytes per slot of a buffer.
fn bytes(program: &Program, at: Ref, sizes: &RankSizes) -> u64 {
    program.buffer(at.buffer).slot_bytes(sizes)
}

/// Distinct bytes that an instruction touches.
fn reach(program: &Program, instr: &Instr, sizes: &RankSizes) -> u64 {
    let (mut refs, writes) = instr.accesses();
    refs.extend(writes);
    refs.sort_unstable_by_key(|at| (at.buffer, at.base));
    refs.dedup();
    let buffers: u64 = refs.iter().map(|at| bytes(program, *at, sizes)).sum();
    let structure = if let Instr::SparseMatMul(product) = instr {
        4 * stored(program, product.values, sizes).nonzeros
    } else if let Instr::Launch(launch) = instr {
        let edges = launch.rows.walked(&program.kernel(launch.kernel).body);
        edges.map_or(0, |edges| 4 * sizes.rows(edges))
    } else {
        0
    };
    buffers + structure
}

/// Group of a reduction over edges, by what it picks: rows of vertices, values of edges, or
/// both.
fn reduction(kernel: &Kernel, to: End) -> &'static str {
    let loaded = loads(kernel);
    let reads = |at: At| {
        let mut operands = loaded.iter().filter_map(|n| kernel.inputs.get(*n as usize));
        operands.any(|o| o.at == at)
    };
    let other = match to {
        End::Dst => At::Src,
        End::Src => At::Dst,
    };
    match (to, reads(other), reads(At::Edge)) {
        (End::Dst, _, false) => "spmm",
        (End::Dst, true, true) => "spmm-weighted",
        (End::Dst, false, true) => "spmm-edges",
        (End::Src, _, false) => "spmm-t",
        (End::Src, true, true) => "spmm-t-weighted",
        (End::Src, false, true) => "spmm-t-edges",
    }
}
