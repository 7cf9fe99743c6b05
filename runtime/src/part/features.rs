//! The input features a rank holds: all columns of its own vertices, or a slice of the columns of
//! all vertices.

use crate::part::{Walkable, other_way};
use gnnc_graph::{Csr, Features, GraphData};
use gnnc_ir::graph::op::Slice;
use gnnc_ir::kernel::Axis;
use gnnc_ir::program::{Extent, Program};
use std::ops::Range;

/// The nonzeros' positions in some feature rows.
pub(crate) struct FeatureRows {
    pub(crate) by_row: Walkable,
    /// Also the position of each nonzero by row. Only GPUs multiply by column, and sums by leaf.
    pub(crate) by_column: Option<(Walkable, Vec<u32>)>,
    /// Nonzeros of each column; empty if no product needs them.
    pub(crate) counts: Vec<u32>,
    /// Columns per row, including padding.
    pub(crate) columns: u32,
    /// Index of the first column among all features.
    pub(crate) first: u32,
}

/// The rank's slice of the features' columns.
pub(crate) fn slice(program: &Program, features: &Features) -> Slice {
    program.slice(Axis::Width, features.columns(), program.rank)
}

/// The columns of an extent's rows: a slice for all vertices, all columns for own vertices.
pub(crate) fn columns(program: &Program, features: &Features, extent: Extent) -> Range<u32> {
    if !extent.slices_features() {
        return 0..features.columns();
    }
    let slice = slice(program, features);
    slice.start..slice.start + slice.own
}

/// Visits the stored features of a vertex in some columns: the column, counted from the first of
/// these, and the value.
pub(crate) fn stored(
    features: &Features,
    vertex: u32,
    columns: &Range<u32>,
    mut visit: impl FnMut(u32, f32),
) {
    match features {
        Features::None => {}
        Features::Dense {
            values,
            columns: width,
            ..
        } => {
            let row = &values.as_slice()[vertex as usize * *width as usize..][..*width as usize];
            for (column, value) in row[columns.start as usize..columns.end as usize]
                .iter()
                .enumerate()
            {
                visit(column as u32, *value);
            }
        }
        Features::Sparse {
            indptr,
            indices,
            values,
            ..
        } => {
            let entries = indptr[vertex as usize] as usize..indptr[vertex as usize + 1] as usize;
            for (column, value) in indices[entries.clone()].iter().zip(&values[entries]) {
                if columns.contains(column) {
                    visit(column - columns.start, *value);
                }
            }
        }
    }
}

impl FeatureRows {
    /// The positions of the stored features of some vertices in some columns; a row has `width`
    /// columns. Products of the transposed features need nonzeros `counted` by column.
    pub(crate) fn new(
        data: &GraphData,
        vertices: impl Iterator<Item = u32>,
        columns: Range<u32>,
        width: u32,
        counted: bool,
    ) -> Self {
        let mut csr = Csr {
            indptr: vec![0],
            indices: Vec::new(),
        };
        for v in vertices {
            let indices = &mut csr.indices;
            stored(&data.features, v, &columns, |column, _| {
                indices.push(column)
            });
            csr.indptr.push(csr.indices.len() as u64);
        }
        let mut counts = vec![0; if counted { width as usize } else { 0 }];
        if counted {
            csr.indices
                .iter()
                .for_each(|column| counts[*column as usize] += 1);
        }
        Self {
            by_row: Walkable::new(csr),
            by_column: None,
            counts,
            columns: width,
            first: columns.start,
        }
    }

    /// Also lists nonzeros by column, if products of the transposed features need them.
    pub(crate) fn list_by_column(&mut self) {
        if !self.counts.is_empty() {
            let (transposed, positions) = self.by_row.csr.transposed(self.columns as usize);
            self.by_column = Some((Walkable::new(transposed), positions));
        }
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.by_row.bytes() + other_way(&self.by_column) + 4 * self.counts.len()
    }
}
