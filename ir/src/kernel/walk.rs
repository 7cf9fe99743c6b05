//! How a kernel's body walks rows and arcs.

use super::{At, Axis, Body, End, Kernel, Over};

/// The outer loops of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// Rows without arcs.
    Rows,
    /// Arcs by destination; a result (and `At::Row`) belongs to the arc.
    Arcs,
    /// Arcs by destination; the result (and `At::Row`) belongs to the destination.
    ArcsByDestination,
    /// Arcs by source; the result (and `At::Row`) belongs to the source.
    ArcsBySource,
    /// Arcs by type; the result (and `At::Row`) belongs to the type.
    ArcsByType,
}

impl Walk {
    /// Of arcs grouped by an end, with a result for it.
    pub fn by(end: End) -> Self {
        match end {
            End::Dst => Self::ArcsByDestination,
            End::Src => Self::ArcsBySource,
        }
    }

    /// The walk of a body.
    pub fn of(body: &Body) -> Self {
        match body {
            Body::Gather { to, .. } => Self::by(*to),
            Body::TypeSum { .. } => Self::ArcsByType,
            Body::EdgeSoftmax { .. } => Self::Arcs,
            Body::Map { over, .. }
            | Body::RowReduce { over, .. }
            | Body::ColReduce { over, .. } => match over {
                Over::Rows => Self::Rows,
                Over::Edges(_) => Self::Arcs,
            },
        }
    }
}

/// Heads and columns of what the kernel writes for a row.
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

/// The row whose ids key a mask: `Row` (the vertex id of a plain row), `Src`, `Dst` or `Edge`.
pub fn mask_row(kernel: &Kernel, at: At) -> At {
    match (at, Walk::of(&kernel.body)) {
        (At::Row, Walk::Arcs) => At::Edge,
        (At::Row, Walk::ArcsByDestination) => At::Dst,
        (At::Row, Walk::ArcsBySource) => At::Src,
        (at, _) => at,
    }
}
