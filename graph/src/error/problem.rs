//! Problems with the contents of a data graph.

use gnnc_ir::words::spelling::counted;
use std::fmt;

/// A problem with a [`GraphData`](crate::GraphData).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// There is no vertex.
    Empty,
    /// An array does not have one entry (or row) per vertex.
    Length {
        /// `features`, `labels`, `train_mask`, `val_mask`, `test_mask` or `vertex_ids`.
        array: &'static str,
        /// Entries.
        found: usize,
        /// Vertices.
        vertices: u32,
    },
    /// Features are NaN or infinite, or labels infinite.
    NotFinite {
        /// `features`, `edge_features` or `labels`.
        array: &'static str,
        /// What a row is of: `vertex` or `edge`.
        of: &'static str,
        /// How many.
        count: usize,
        /// Number of the first's vertex or edge.
        row: usize,
        /// Column of the first.
        column: u32,
        /// The first.
        value: f32,
    },
    /// Labels below -1, or at least the number of vertices.
    LabelOutOfRange {
        /// How many.
        count: usize,
        /// What has the first of them.
        of: Labeled,
        /// The first.
        label: i32,
        /// One past the largest label allowed.
        limit: u32,
    },
    /// Vertices of the split have no label.
    Unlabelled {
        /// `train`, `val` or `test`.
        split: &'static str,
        /// How many.
        count: usize,
        /// The first.
        of: Labeled,
    },
    /// Vertices belong to two splits.
    Overlap {
        /// A split.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// How many.
        count: usize,
        /// The first.
        of: Labeled,
    },
}

/// What a label is about: a vertex, or what vertices stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labeled {
    /// `vertex`, `graph` or `pair`.
    pub unit: &'static str,
    /// Its number, from 0.
    pub number: usize,
}

impl fmt::Display for Labeled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.unit, self.number)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the graph has no vertices, expected at least one"),
            Self::Length {
                array,
                found,
                vertices,
            } => {
                write!(
                    f,
                    "`{array}` has {}, expected one for each of {}",
                    counted(found, "row"),
                    counted(vertices, "vertex")
                )
            }
            Self::NotFinite {
                array,
                of,
                count,
                row,
                column,
                value,
            } => write!(
                f,
                "found {} in `{array}`, the first is {value} at {of} {row}, column {column}; \
                 replace with finite numbers",
                counted(count, "non-finite number")
            ),
            Self::LabelOutOfRange {
                count,
                of,
                label,
                limit,
            } => write!(
                f,
                "found {} out of range, the first is {label} of {of}; expected 0 to {}, \
                 or -1 for unknown",
                counted(count, "label"),
                i64::from(*limit) - 1
            ),
            Self::Unlabelled { split, count, of } => write!(
                f,
                "found {} of the {split} split without a label, the first is {of}; add labels \
                 or clear {split}_mask there",
                counted(count, of.unit)
            ),
            Self::Overlap {
                first,
                second,
                count,
                of,
            } => write!(
                f,
                "found {} in both the {first} and the {second} split, the first is {of}; \
                 remove from one",
                counted(count, of.unit)
            ),
        }
    }
}
