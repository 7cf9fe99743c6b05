//! How a kernel's body walks rows and edges.

use super::{At, Axis, Body, End, Kernel, Over};

/// Edges from which a row is a hub on a GPU, unless the caller has a better number: kernels cut hubs into pieces,
/// since 512 edges keep a warp busy for some tens of microseconds.
pub const HUB_EDGES: u64 = 512;

/// The outer loops of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// Rows without edges.
    Rows,
    /// Edges by destination; a result (and `At::Row`) belongs to the edge.
    Edges,
    /// Edges by destination; the result (and `At::Row`) belongs to the destination.
    EdgesByDestination,
    /// Edges by source; the result (and `At::Row`) belongs to the source.
    EdgesBySource,
    /// Edges by type; the result (and `At::Row`) belongs to the type.
    EdgesByType,
}

impl Walk {
    /// The walk over edges grouped by `end`, with one result per vertex.
    pub fn by(end: End) -> Self {
        match end {
            End::Dst => Self::EdgesByDestination,
            End::Src => Self::EdgesBySource,
        }
    }

    /// The end whose vertex the edges are grouped by; the destination where it does not matter.
    pub fn end(self) -> End {
        match self {
            Self::EdgesBySource => End::Src,
            Self::Rows | Self::Edges | Self::EdgesByDestination | Self::EdgesByType => End::Dst,
        }
    }

    /// Whether edges are reduced to a result per vertex.
    pub fn by_vertex(self) -> bool {
        matches!(self, Self::EdgesByDestination | Self::EdgesBySource)
    }

    /// The walk of a body.
    pub fn of(body: &Body) -> Self {
        match body {
            Body::Gather { to, .. } => Self::by(*to),
            Body::TypeSum { .. } => Self::EdgesByType,
            Body::EdgePass(pass) => Self::by(pass.to),
            Body::Map { over, .. }
            | Body::RowReduce { over, .. }
            | Body::ColReduce { over, .. } => match over {
                Over::Rows => Self::Rows,
                Over::Edges(_) => Self::Edges,
            },
        }
    }
}

/// Heads and columns of the kernel's result for one row.
pub fn result_shape(kernel: &Kernel) -> (u32, u32) {
    match &kernel.body {
        Body::RowReduce {
            axis: Axis::Width, ..
        } => (kernel.heads, 1),
        Body::RowReduce {
            axis: Axis::Heads, ..
        } => (1, kernel.width),
        _ => (kernel.heads, kernel.width),
    }
}

/// The row whose id keys a mask: `Row` (the vertex id of a plain row), `Src`, `Dst` or `Edge`.
pub fn mask_row(kernel: &Kernel, at: At) -> At {
    match (at, Walk::of(&kernel.body)) {
        (At::Row, Walk::Edges) => At::Edge,
        (At::Row, Walk::EdgesByDestination) => At::Dst,
        (At::Row, Walk::EdgesBySource) => At::Src,
        (at, _) => at,
    }
}
