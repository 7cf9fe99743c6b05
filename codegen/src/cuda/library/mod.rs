//! Model-independent kernels in CUDA C: moving, encoding and comparing rows, sparse features, losses.
//!
//! Like generated kernels, they include no header, use no atomics and always give the same bits.

mod halves;

use super::schedule::BLOCK;
use gnnc_ir::words::storage::Storage;
use gnnc_ir::words::wire::Wire;

/// Vertices per block of [`Entry::Loss`] and [`Entry::Metrics`]: 4 per warp, so that small graphs
/// still have many blocks.
const VERTICES: u64 = 32;
/// Floats per block of [`Entry::Distance`].
const FLOATS: u64 = 4096;
/// Rows per block of kernels that give each row a warp.
const WARPS: u64 = 8;
/// Most blocks of a launch; threads stride over the rest.
const MOST_BLOCKS: u64 = 1 << 20;

/// An entry point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Copies or adds rows of floats.
    Move,
    /// The same in groups of 4 floats.
    Move4,
    /// Looks for values that are not finite.
    Finite,
    /// Dropout on the values of sparse rows.
    SparseDropout,
    /// Scatters sparse rows into a matrix of zeros.
    Scatter,
    /// Losses and their gradients.
    Loss,
    /// Counts correct vertices.
    Metrics,
    /// Adds the blocks' results of `Loss` and `Metrics`.
    Sum,
    /// Distance between rows and other rows.
    Distance,
    /// Encodes rows into a message of fewer bits.
    Encode,
    /// Decodes them.
    Decode,
}

impl Entry {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Move,
        Self::Move4,
        Self::Finite,
        Self::SparseDropout,
        Self::Scatter,
        Self::Loss,
        Self::Metrics,
        Self::Sum,
        Self::Distance,
        Self::Encode,
        Self::Decode,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Move => "gnnc_move",
            Self::Move4 => "gnnc_move4",
            Self::Finite => "gnnc_finite",
            Self::SparseDropout => "gnnc_sparse_dropout",
            Self::Scatter => "gnnc_scatter",
            Self::Loss => "gnnc_loss",
            Self::Metrics => "gnnc_metrics",
            Self::Sum => "gnnc_sum",
            Self::Distance => "gnnc_distance",
            Self::Encode => "gnnc_encode",
            Self::Decode => "gnnc_decode",
        }
    }

    /// Number of arguments, 8 bytes each.
    pub fn arguments(self) -> usize {
        match self {
            Self::Move | Self::Move4 => 13,
            Self::Finite => 4,
            Self::SparseDropout => 11,
            Self::Scatter => 7,
            Self::Loss => 15,
            Self::Metrics => 12,
            Self::Sum => 5,
            Self::Distance => 5,
            Self::Encode => 14,
            Self::Decode => 12,
        }
    }

    /// Blocks of [`BLOCK`] threads for `items`: threads for moves, floats for `Finite`, otherwise
    /// rows or vertices.
    pub fn blocks(self, items: u64) -> u32 {
        let of_block = match self {
            Self::Move | Self::Move4 | Self::Finite => u64::from(BLOCK),
            Self::SparseDropout | Self::Scatter | Self::Encode | Self::Decode => WARPS,
            // These do not stride: each block has a sum of its own.
            Self::Loss | Self::Metrics => return items.div_ceil(VERTICES) as u32,
            Self::Distance => return items.div_ceil(FLOATS) as u32,
            Self::Sum => return 1,
        };
        items.div_ceil(of_block).min(MOST_BLOCKS) as u32
    }
}

/// The CUDA C text; it goes after that of [`super::module`].
pub fn text() -> String {
    [
        halves::add().as_str(),
        include_str!("rows.cu"),
        halves::number().as_str(),
        include_str!("finite.cu"),
        include_str!("sparse.cu"),
        include_str!("loss.cu"),
        halves::word().as_str(),
        include_str!("wire.cu"),
    ]
    .join("\n")
}

/// Code by which the library's kernels know a storage.
pub fn number(storage: Storage) -> u64 {
    storage as u64 + 1
}

/// Code by which the library's kernels know a format of rows in messages.
pub fn format(wire: Wire) -> u64 {
    wire as u64
}

/// Threads that move a contiguous run of `len` floats, or groups of floats.
pub fn lanes(len: u64) -> u64 {
    len.clamp(1, 32).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With many vertices per warp, most of a GPU would be idle.
    #[test]
    fn losses_of_small_graphs_have_two_blocks_a_multiprocessor() {
        for entry in [Entry::Loss, Entry::Metrics] {
            assert!(entry.blocks(10_000) >= 2 * 132);
        }
    }

    #[test]
    fn entries_have_the_arguments_of_the_text() {
        let text = text();
        for entry in Entry::ALL {
            let begin = text.find(&format!(" {}(", entry.name())).unwrap();
            let list = &text[begin..begin + text[begin..].find(')').unwrap()];
            let found = list.matches(',').count() + 1;
            assert_eq!(found, entry.arguments(), "{}", entry.name());
        }
        assert_eq!(text.matches("__global__").count(), Entry::ALL.len());
        for define in [format!("VERTICES {VERTICES}u"), format!("FLOATS {FLOATS}u")] {
            assert!(text.contains(&format!("#define GNNC_{define}")), "{define}");
        }
    }
}
