//! An edge of a list, before edges are in order.

/// An edge of a list. Edges without types have type 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedEdge {
    /// Its source.
    pub source: u32,
    /// Its destination.
    pub target: u32,
    /// Its type.
    pub kind: u16,
}

impl ListedEdge {
    /// The edge of `target << 32 | source`.
    pub(crate) fn of_key(key: u64) -> Self {
        Self {
            source: key as u32,
            target: (key >> 32) as u32,
            kind: 0,
        }
    }
}
