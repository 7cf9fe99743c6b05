//! How kernels are laid over threads, and how they are launched.
//!
//! Everything here is a function of the kernel and of the numbers of rows and edges.

use gnnc_ir::kernel::{At, Axis, Body, Kernel, Operand};
use gnnc_ir::kernel::{Walk, result_shape};
use gnnc_ir::words::storage::Storage;
pub use order::by_degree;
use std::ops::Range;

mod order;
pub(crate) mod pass;

/// Threads per block.
pub const BLOCK: u32 = 256;
/// Blocks a multiprocessor should hold at once, which leaves 64 registers per thread. Without this
/// bound, the compiler aims at 32 registers and spills.
pub const RESIDENT: u32 = 4;
/// Threads per warp.
pub const WARP: u32 = 32;
/// Accumulators per thread.
const ACCUMULATORS: u32 = 16;
/// Least number of lanes that share a narrow row of a gather.
const ROW_LANES: u32 = 8;
/// Most blocks of a launch; threads stride over the rest.
const MOST_BLOCKS: u64 = 1 << 20;
/// Least number of rows or edges a block of a column reduction sums. With enough blocks, each sums
/// more.
const LEAST_PARTIAL: u64 = 8;
const PARTIAL: u64 = 1024;
/// Enough blocks for a column reduction: more than two per multiprocessor of the largest GPU (148).
const ENOUGH_PARTIALS: u64 = 320;
/// Most blocks of a column reduction.
const MOST_PARTIALS: u64 = 4096;
pub use gnnc_ir::kernel::HUB_EDGES;

/// How the columns of a row are laid over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Columns a thread reads at once: 1, 2 or 4, or 8 in 16 bits.
    pub vector: u32,
    /// Adjacent threads along a row, a power of 2.
    pub lanes: u32,
    /// Groups of `lanes` threads that share the edges of a row, a power of 2.
    pub apart: u32,
    /// Vectors per thread.
    pub tiles: u32,
    /// Parts of a row computed by different blocks (the launch's second dimension).
    pub slabs: u32,
}

/// The items that threads, teams or blocks of an entry point are assigned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Items {
    Rows,
    Edges,
    /// Rows, then the chunks of hubs.
    RowsAndChunks,
    Hubs,
    /// Partial sums.
    Partials,
    One,
}

/// One entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pass {
    entry: String,
    items: Items,
    /// Teams (or threads) per item.
    per_item: u32,
    /// Teams per block.
    teams: u32,
    slabs: u32,
    shared_bytes: u32,
}

/// How the entry points of a kernel are launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub(crate) shape: Shape,
    /// Threads that together compute one row, or one head of a row.
    pub(crate) team: u32,
    /// Floats of a partial result.
    partial: u64,
    /// Whether the kernel walks rows or edges.
    over: Items,
    passes: Vec<Pass>,
}

/// The size of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Rows.
    pub rows: u64,
    /// Edges of these rows.
    pub edges: u64,
    /// Chunks of hub rows, see [`Hubs`].
    pub chunks: u64,
    /// Hub rows.
    pub hubs: u64,
}

/// One launch of an entry point; launches of a kernel run in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The entry point.
    pub entry: String,
    /// Blocks in each dimension.
    pub grid: [u32; 2],
    /// Threads per block.
    pub block: u32,
    /// Most shared memory per block, in bytes. It is static: the launch requests none.
    pub shared_bytes: u32,
}

/// Rows with more edges than one team should walk, and their chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hubs {
    /// The hub rows, ascending.
    pub rows: Vec<u32>,
    /// First chunk of each hub row, plus one final entry.
    pub first_chunks: Vec<u32>,
    /// The row of each chunk.
    pub chunk_rows: Vec<u32>,
    /// First and one past the last edge of each chunk.
    pub chunk_edges: Vec<u64>,
}

/// A parameter of an entry point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// First edge of each row.
    Indptr,
    /// The vertex at the other end of each edge.
    Indices,
    /// In-neighbor CSR position of each edge of the out-neighbor CSR.
    Positions,
    /// Global id of each local row.
    Ids,
    /// The row list.
    List,
    /// The run-time scalars.
    Scalars,
    /// The key of each mask.
    Keys,
    /// First row.
    Begin,
    /// One past the last row.
    End,
    /// Input `n`.
    Input(u16),
    /// Output `n`.
    Output(u16),
    /// Most edges of a row that is not a hub.
    HubEdges,
    /// [`by_degree`] if [`Schedule::ordered`]; null for ascending rows.
    Order,
    /// [`Hubs::rows`].
    HubRows,
    /// Number of hub rows.
    HubCount,
    /// [`Hubs::first_chunks`].
    FirstChunks,
    /// [`Hubs::chunk_rows`].
    ChunkRows,
    /// [`Hubs::chunk_edges`].
    ChunkEdges,
    /// Number of chunks.
    ChunkCount,
    /// [`Schedule::scratch_floats`] floats, uninitialized.
    Scratch,
    /// [`Schedule::partial_items`].
    PartialItems,
    /// [`Schedule::partials`].
    PartialCount,
}

impl Parameter {
    /// The parameters of a kernel's entry points, in order. All entry points have the same.
    pub fn of(kernel: &Kernel) -> Vec<Self> {
        use Parameter::{
            Begin, ChunkCount, ChunkEdges, ChunkRows, End, FirstChunks, HubCount, HubEdges,
            HubRows, Ids, Indices, Indptr, Keys, List, Order, PartialCount, PartialItems,
            Positions, Scalars, Scratch,
        };
        let mut parameters = vec![
            Indptr, Indices, Positions, Ids, List, Scalars, Keys, Begin, End,
        ];
        parameters.extend((0..kernel.inputs.len() as u16).map(Self::Input));
        parameters.extend((0..kernel.outputs.len() as u16).map(Self::Output));
        parameters.extend_from_slice(match kernel.body {
            Body::Gather { .. } | Body::TypeSum { .. } | Body::EdgePass(_) => &[
                Order,
                HubEdges,
                HubRows,
                HubCount,
                FirstChunks,
                ChunkRows,
                ChunkEdges,
                ChunkCount,
                Scratch,
            ],
            Body::ColReduce { .. } => &[PartialItems, PartialCount, Scratch],
            Body::Map { .. } | Body::RowReduce { .. } => &[],
        });
        parameters
    }

    /// The declaration in C. `alone`: no input is an output, so reads may be cached.
    pub(crate) fn declaration(self, kernel: &Kernel, alone: bool) -> String {
        let element = |operand: Option<&Operand>| match operand {
            Some(operand) if !operand.storage.is_f32() => "u16",
            _ => "float",
        };
        let restrict = if alone { "__restrict__ " } else { "" };
        match self {
            Self::Indptr => "const u64 *__restrict__ indptr".into(),
            Self::Indices => "const u32 *__restrict__ indices".into(),
            Self::Positions => "const u32 *__restrict__ positions".into(),
            Self::Ids => "const u32 *__restrict__ ids".into(),
            Self::List => "const u32 *__restrict__ list".into(),
            Self::Scalars => "const float *__restrict__ scalars".into(),
            Self::Keys => "const u64 *__restrict__ keys".into(),
            Self::Begin => "u64 begin".into(),
            Self::End => "u64 end".into(),
            Self::Input(n) => format!(
                "const {} *{restrict}in{n}",
                element(kernel.inputs.get(usize::from(n)))
            ),
            Self::Output(n) => format!(
                "{} *{restrict}out{n}",
                element(kernel.outputs.get(usize::from(n)))
            ),
            Self::HubEdges => "u64 hub_edges".into(),
            Self::Order => "const u32 *__restrict__ order".into(),
            Self::HubRows => "const u32 *__restrict__ hub_rows".into(),
            Self::HubCount => "u64 hubs".into(),
            Self::FirstChunks => "const u32 *__restrict__ first_chunks".into(),
            Self::ChunkRows => "const u32 *__restrict__ chunk_rows".into(),
            Self::ChunkEdges => "const u64 *__restrict__ chunk_edges".into(),
            Self::ChunkCount => "u64 chunks".into(),
            Self::Scratch => "float *__restrict__ scratch".into(),
            Self::PartialItems => "u64 partial_items".into(),
            Self::PartialCount => "u64 partials".into(),
        }
    }
}

impl Hubs {
    /// The rows of `rows` with more than `most` edges, cut into chunks of `most`. Ignores rows that
    /// `indptr` lacks.
    pub fn of(indptr: &[u64], rows: Range<usize>, most: u64) -> Self {
        let most = most.max(1);
        let mut hubs = Self {
            first_chunks: vec![0],
            ..Self::default()
        };
        for row in rows {
            let (Some(&first), Some(&last)) = (indptr.get(row), indptr.get(row + 1)) else {
                break;
            };
            if last.saturating_sub(first) <= most {
                continue;
            }
            hubs.rows.push(row as u32);
            let mut from = first;
            while from < last {
                let to = last.min(from + most);
                hubs.chunk_rows.push(row as u32);
                hubs.chunk_edges.extend([from, to]);
                from = to;
            }
            hubs.first_chunks.push(hubs.chunk_rows.len() as u32);
        }
        hubs
    }
}

impl Schedule {
    /// The schedule of a flattened kernel.
    pub(crate) fn of(kernel: &Kernel, name: &str) -> Self {
        let columns = kernel.heads * kernel.width;
        let vector = vector(kernel);
        let shape = match &kernel.body {
            Body::Gather { .. } | Body::TypeSum { .. } => gather_shape(columns, vector),
            Body::ColReduce { .. } => column_shape(columns, vector),
            Body::EdgePass(pass) => pass::pass_shape(kernel, pass, vector),
            Body::Map { .. } | Body::RowReduce { .. } => Shape {
                vector,
                lanes: 1,
                apart: 1,
                tiles: 1,
                slabs: 1,
            },
        };
        // Only one thread adds to each place.
        let places = kernel.outputs.iter().any(|output| output.picked.is_some());
        let shape = match places {
            true => Shape { apart: 1, ..shape },
            false => shape,
        };
        let rows = match Walk::of(&kernel.body) {
            Walk::Edges => Items::Edges,
            _ => Items::Rows,
        };
        let pass = |suffix: &str, items, per_item, team: u32| Pass {
            entry: format!("{name}{suffix}"),
            items,
            per_item,
            teams: BLOCK / team,
            slabs: 1,
            shared_bytes: 0,
        };
        let bounds = if rows == Items::Edges { 16 } else { 0 };
        let (team, mut passes) = match &kernel.body {
            Body::Map { .. } => (1, vec![pass("", rows, columns / vector, 1)]),
            Body::Gather { .. } | Body::TypeSum { .. } => {
                let team = shape.lanes * shape.apart;
                let rows = pass("", Items::RowsAndChunks, 1, team);
                let hubs = pass("_hubs", Items::Hubs, 1, team);
                match places {
                    true => (team, vec![pass("", Items::Rows, 1, team)]),
                    false => (team, vec![rows, hubs]),
                }
            }
            Body::RowReduce { axis, .. } => {
                let team = match axis {
                    Axis::Width => (kernel.width / vector).next_power_of_two().min(WARP),
                    Axis::Heads => 1,
                };
                let (heads, width) = result_shape(kernel);
                let per_item = heads * (width / vector).max(1);
                (team, vec![pass("", rows, per_item, team)])
            }
            Body::ColReduce { .. } => (
                BLOCK,
                vec![
                    pass("", Items::Partials, 1, BLOCK),
                    pass("_sum", Items::One, 1, BLOCK),
                ],
            ),
            Body::EdgePass(_) => {
                let team = shape.lanes * shape.apart;
                let rows = pass("", Items::RowsAndChunks, kernel.heads, team);
                (
                    team,
                    vec![rows, pass("_hubs", Items::Hubs, kernel.heads, team)],
                )
            }
        };
        let partial = match &kernel.body {
            Body::EdgePass(pass) => u64::from(kernel.heads) * pass::sums(kernel, pass).1,
            Body::Map { .. } | Body::Gather { .. } | Body::RowReduce { .. } => columns.into(),
            Body::ColReduce { .. } | Body::TypeSum { .. } => columns.into(),
        };
        for pass in &mut passes {
            pass.slabs = shape.slabs;
            let sums = matches!(pass.items, Items::Partials | Items::One);
            pass.shared_bytes = match pass.items {
                _ if sums => bounds + BLOCK * vector * 4,
                Items::Edges => bounds,
                _ => 0,
            };
        }
        Self {
            shape,
            team,
            partial,
            over: rows,
            passes,
        }
    }

    /// Alignment, in bytes, of the pointers of all inputs and outputs with this storage that have
    /// more than one column.
    pub fn alignment(&self, storage: Storage) -> u64 {
        u64::from(self.shape.vector) * storage.bytes()
    }

    /// The launches over `size`, without empty ones.
    pub fn launches(&self, size: &Size) -> Vec<Launch> {
        let launch = |pass: &Pass| {
            let items = match pass.items {
                Items::Rows => size.rows,
                Items::Edges => size.edges,
                Items::RowsAndChunks => size.rows + size.chunks,
                Items::Hubs => size.hubs,
                Items::Partials => self.partials(size),
                Items::One => 1,
            };
            let teams = items.saturating_mul(pass.per_item.into());
            let blocks = teams.div_ceil(pass.teams.into()).min(MOST_BLOCKS);
            (blocks > 0).then(|| Launch {
                entry: pass.entry.clone(),
                grid: [blocks as u32, pass.slabs],
                block: BLOCK,
                shared_bytes: pass.shared_bytes,
            })
        };
        self.passes.iter().filter_map(launch).collect()
    }

    /// Names of all entry points.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.passes.iter().map(|pass| pass.entry.as_str())
    }

    /// Rows or edges per partial sum of a column reduction.
    pub fn partial_items(&self, size: &Size) -> u64 {
        let summed = self.summed(size);
        let enough = summed.div_ceil(ENOUGH_PARTIALS);
        let least = enough.clamp(LEAST_PARTIAL, PARTIAL);
        summed.div_ceil(MOST_PARTIALS).max(least)
    }

    /// Number of partial sums of a column reduction; 0 for other kernels.
    pub fn partials(&self, size: &Size) -> u64 {
        let reduces = self.passes.iter().any(|pass| pass.items == Items::Partials);
        if reduces {
            self.summed(size).div_ceil(self.partial_items(size))
        } else {
            0
        }
    }

    /// Floats of scratch memory for partial results.
    pub fn scratch_floats(&self, size: &Size) -> u64 {
        (self.partials(size) + size.chunks) * self.partial
    }

    /// Number of rows or edges a column reduction sums.
    fn summed(&self, size: &Size) -> u64 {
        if self.over == Items::Edges {
            size.edges
        } else {
            size.rows
        }
    }
}

/// The widest vector that divides the width and suits all operands.
fn vector(kernel: &Kernel) -> u32 {
    let column = matches!(kernel.body, Body::ColReduce { .. });
    let fits = |operand: &Operand, vector: u32| {
        let steps = operand.column_step != 0 && kernel.width > 1;
        let whole = |floats: u32| floats.is_multiple_of(vector);
        let rows = operand.at == At::One || whole(operand.stride);
        let heads = kernel.heads == 1 || whole(operand.head_step);
        let places = operand.picked.is_none_or(|picked| whole(picked.step));
        !steps || (rows && heads && places && whole(operand.offset))
    };
    let outputs = kernel.outputs.iter().filter(|_| !column);
    let operands: Vec<&Operand> = kernel.inputs.iter().chain(outputs).collect();
    let possible = |vector: &u32| {
        kernel.width.is_multiple_of(*vector) && operands.iter().all(|o| fits(o, *vector))
    };
    // Read 16 bytes at a time.
    let stepping = || operands.iter().filter(|o| o.column_step != 0);
    let halves = stepping().count() > 0 && stepping().all(|o| !o.storage.is_f32());
    let widest = if halves { 8 } else { 4 };
    [8, 4, 2]
        .into_iter()
        .filter(|vector| *vector <= widest)
        .find(possible)
        .unwrap_or(1)
}

fn gather_shape(columns: u32, vector: u32) -> Shape {
    let groups = columns / vector;
    let lanes = groups.next_power_of_two().min(WARP);
    let vectors = groups.div_ceil(lanes);
    let slabs = vectors.div_ceil(ACCUMULATORS / vector);
    Shape {
        vector,
        lanes,
        apart: (ROW_LANES / lanes).max(1),
        tiles: vectors.div_ceil(slabs),
        slabs,
    }
}

fn column_shape(columns: u32, vector: u32) -> Shape {
    let groups = columns / vector;
    let lanes = groups.next_power_of_two().min(BLOCK);
    Shape {
        vector,
        lanes,
        apart: BLOCK / lanes,
        tiles: 1,
        slabs: groups.div_ceil(lanes),
    }
}

#[cfg(test)]
mod tests;
