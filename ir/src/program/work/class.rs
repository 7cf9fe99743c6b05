//! Classes of kernels.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Kernels that share an efficiency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelClass {
    /// Dense products.
    Gemm,
    /// Products with sparse input features.
    SparseGemm,
    /// Reductions over the edges into a vertex.
    Spmm,
    /// Reductions over the edges out of a vertex.
    SpmmT,
    /// Values per edge (g-SDDMM and element-wise).
    Edges,
    /// Passes over edges with several results: attention.
    EdgePass,
    /// Element-wise over rows.
    Map,
    /// Reductions over columns or rows.
    Reduce,
    /// Packing, unpacking, scattering.
    Copy,
    /// Loss, its derivative, and metrics.
    Loss,
}

impl KernelClass {
    /// Every class.
    pub const ALL: [Self; 10] = [
        Self::Gemm,
        Self::SparseGemm,
        Self::Spmm,
        Self::SpmmT,
        Self::Edges,
        Self::EdgePass,
        Self::Map,
        Self::Reduce,
        Self::Copy,
        Self::Loss,
    ];

    /// The name in cluster files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::SparseGemm => "sparse-gemm",
            Self::Spmm => "spmm",
            Self::SpmmT => "spmm-t",
            Self::Edges => "edges",
            Self::EdgePass => "edge-pass",
            Self::Map => "map",
            Self::Reduce => "reduce",
            Self::Copy => "copy",
            Self::Loss => "loss",
        }
    }
}

impl fmt::Display for KernelClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
