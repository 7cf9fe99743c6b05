//! Input features: none, dense or sparse.

mod entries;

pub(crate) use entries::Entry;

use crate::Values;

/// The input features of all vertices, one row per vertex.
#[derive(Clone, Debug, Default)]
pub enum Features {
    /// No features: the graph is only a topology.
    #[default]
    None,
    /// Every value is stored, row-major.
    Dense {
        /// Number of vertices.
        rows: usize,
        /// Features per vertex.
        columns: u32,
        /// `rows * columns` values.
        values: Values<f32>,
    },
    /// Only some values are stored; the rest are 0. Columns of a row ascend.
    Sparse {
        /// Features per vertex.
        columns: u32,
        /// `vertices + 1` offsets into `indices` and `values`.
        indptr: Vec<u64>,
        /// Columns, row after row.
        indices: Vec<u32>,
        /// Values, parallel to `indices`.
        values: Vec<f32>,
    },
}

/// Equal if they are the same matrix in the same storage (dense or sparse).
impl PartialEq for Features {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (
                Self::Dense {
                    rows,
                    columns,
                    values,
                },
                Self::Dense {
                    rows: rows_b,
                    columns: columns_b,
                    values: values_b,
                },
            ) => (rows, columns) == (rows_b, columns_b) && values.as_slice() == values_b.as_slice(),
            (
                Self::Sparse {
                    columns,
                    indptr,
                    indices,
                    values,
                },
                Self::Sparse {
                    columns: columns_b,
                    indptr: indptr_b,
                    indices: indices_b,
                    values: values_b,
                },
            ) => (columns, indptr, indices, values) == (columns_b, indptr_b, indices_b, values_b),
            _ => false,
        }
    }
}

impl Features {
    /// Bytes of memory that they take; none if they are in a mapped file.
    pub fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::None => 0,
            Self::Dense { values, .. } if values.is_mapped() => 0,
            Self::Dense { values, .. } => size_of_val(values.as_slice()),
            Self::Sparse {
                indptr,
                indices,
                values,
                ..
            } => size_of_val(&indptr[..]) + size_of_val(&indices[..]) + size_of_val(&values[..]),
        };
        bytes as u64
    }

    /// Dense features of `rows` vertices. `values` must have `rows * columns` elements.
    pub fn dense(rows: usize, columns: u32, values: Vec<f32>) -> Self {
        debug_assert_eq!(values.len(), rows * columns as usize);
        Self::Dense {
            rows,
            columns,
            values: values.into(),
        }
    }

    /// One-hot features: a column of its own for each vertex. A product with a weight matrix then
    /// selects the weight's rows.
    pub fn identity(vertices: u32) -> Self {
        Self::Sparse {
            columns: vertices,
            indptr: (0..=u64::from(vertices)).collect(),
            indices: (0..vertices).collect(),
            values: vec![1.0; vertices as usize],
        }
    }

    /// Whether each vertex has a feature of its own, the column of its number, and no other.
    pub fn is_identity(&self) -> bool {
        let Self::Sparse {
            columns,
            indptr,
            indices,
            values,
        } = self
        else {
            return false;
        };
        let square = indptr.len() == *columns as usize + 1 && indices.len() == *columns as usize;
        square
            && (0..).zip(indices).all(|(row, column)| row == *column)
            && (0..)
                .zip(indptr)
                .all(|(row, begin): (u64, _)| row == *begin)
            && values.iter().all(|value| *value == 1.0)
    }

    /// Features per vertex; 0 if there are none.
    pub fn columns(&self) -> u32 {
        match self {
            Self::None => 0,
            Self::Dense { columns, .. } | Self::Sparse { columns, .. } => *columns,
        }
    }

    /// Rows, or `None` if there are no features.
    pub fn rows(&self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Dense { rows, .. } => Some(*rows),
            Self::Sparse { indptr, .. } => Some(indptr.len() - 1),
        }
    }

    /// Number of stored values; all of them if dense.
    pub fn stored(&self) -> u64 {
        self.values().len() as u64
    }

    /// Number of stored values in one row.
    pub fn stored_in_row(&self, row: usize) -> u64 {
        match self {
            Self::None => 0,
            Self::Dense { columns, .. } => u64::from(*columns),
            Self::Sparse { indptr, .. } => indptr[row + 1] - indptr[row],
        }
    }

    /// The stored values, row after row.
    pub fn values(&self) -> &[f32] {
        match self {
            Self::None => &[],
            Self::Dense { values, .. } => values.as_slice(),
            Self::Sparse { values, .. } => values,
        }
    }

    /// Row and column of stored value `position`.
    pub fn place(&self, position: usize) -> (usize, u32) {
        match self {
            Self::None => (0, 0),
            Self::Dense { columns, .. } => {
                let columns = (*columns).max(1) as usize;
                (position / columns, (position % columns) as u32)
            }
            Self::Sparse {
                indptr, indices, ..
            } => (
                indptr.partition_point(|&p| p <= position as u64) - 1,
                indices[position],
            ),
        }
    }

    /// The same features with the first `columns` of every row scaled to sum to 1. Rows that sum to 0 are
    /// unchanged.
    pub fn row_normalized(&self, columns: u32) -> Self {
        let mut values = self.values().to_vec();
        let rows = self.rows().unwrap_or(0);
        let mut start = 0;
        for r in 0..rows {
            let stored = self.stored_in_row(r) as usize;
            let first = match self {
                Self::None => 0,
                Self::Dense { .. } => stored.min(columns as usize),
                Self::Sparse { indices, .. } => {
                    indices[start..start + stored].partition_point(|column| *column < columns)
                }
            };
            let row = &mut values[start..start + first];
            start += stored;
            let sum: f64 = row.iter().map(|&x| f64::from(x)).sum();
            if sum != 0.0 {
                row.iter_mut()
                    .for_each(|x| *x = (f64::from(*x) / sum) as f32);
            }
        }
        self.with_values(values)
    }

    /// The same features in the storage [`gnnc_ir::Workload::sparse_features`] chooses: sparse if
    /// at most a quarter of the values are nonzero, dense otherwise. Mapped features stay mapped.
    pub fn in_best_storage(self) -> Self {
        match &self {
            Self::Dense {
                columns, values, ..
            } if !values.is_mapped() && *columns > 0 && self.suits_sparse() => self.to_sparse(),
            Self::Sparse { .. } if !self.suits_sparse() => self.to_dense(),
            _ => self,
        }
    }

    /// Whether at most a quarter of the values are nonzero.
    pub(crate) fn suits_sparse(&self) -> bool {
        let (nonzeros, rows, columns) = match self {
            Self::None => (0, 0, 0),
            Self::Dense {
                rows,
                columns,
                values,
            } => {
                let nonzeros = values.as_slice().iter().filter(|&&x| x != 0.0).count();
                (nonzeros, *rows, *columns)
            }
            Self::Sparse {
                columns,
                indptr,
                values,
                ..
            } => (values.len(), indptr.len() - 1, *columns),
        };
        (nonzeros as u64).saturating_mul(4) <= (rows as u64).saturating_mul(u64::from(columns))
    }

    /// The same features with every value stored.
    pub fn to_dense(&self) -> Self {
        let Self::Sparse {
            columns,
            indptr,
            indices,
            values,
        } = self
        else {
            return self.clone();
        };
        let (rows, width) = (indptr.len() - 1, *columns as usize);
        let mut out = vec![0f32; rows * width];
        for r in 0..rows {
            for p in indptr[r] as usize..indptr[r + 1] as usize {
                out[r * width + indices[p] as usize] = values[p];
            }
        }
        Self::dense(rows, *columns, out)
    }

    /// The same features, storing only nonzero values.
    pub fn to_sparse(&self) -> Self {
        let Self::Dense {
            rows,
            columns,
            values,
        } = self
        else {
            return self.clone();
        };
        let (mut indptr, mut indices, mut kept) = (vec![0u64], Vec::new(), Vec::new());
        let width = *columns as usize;
        for r in 0..*rows {
            for (c, &x) in values.as_slice()[r * width..(r + 1) * width]
                .iter()
                .enumerate()
            {
                if x != 0.0 {
                    indices.push(c as u32);
                    kept.push(x);
                }
            }
            indptr.push(kept.len() as u64);
        }
        Self::Sparse {
            columns: *columns,
            indptr,
            indices,
            values: kept,
        }
    }

    /// The features of `rows`, in that order, in memory. Panics if a row is out of range.
    pub fn select(&self, rows: &[u32]) -> Self {
        match self {
            Self::None => Self::None,
            Self::Dense {
                columns, values, ..
            } => {
                let width = *columns as usize;
                let mut out = Vec::with_capacity(rows.len() * width);
                for &r in rows {
                    out.extend_from_slice(&values.as_slice()[r as usize * width..][..width]);
                }
                Self::dense(rows.len(), *columns, out)
            }
            Self::Sparse {
                columns,
                indptr,
                indices,
                values,
            } => {
                let (mut out_indptr, mut out_indices, mut out_values) =
                    (vec![0u64], Vec::new(), Vec::new());
                for &r in rows {
                    let range = indptr[r as usize] as usize..indptr[r as usize + 1] as usize;
                    out_indices.extend_from_slice(&indices[range.clone()]);
                    out_values.extend_from_slice(&values[range]);
                    out_indptr.push(out_values.len() as u64);
                }
                Self::Sparse {
                    columns: *columns,
                    indptr: out_indptr,
                    indices: out_indices,
                    values: out_values,
                }
            }
        }
    }

    /// Other values in the same places.
    fn with_values(&self, new: Vec<f32>) -> Self {
        match self {
            Self::None => Self::None,
            Self::Dense { rows, columns, .. } => Self::dense(*rows, *columns, new),
            Self::Sparse {
                columns,
                indptr,
                indices,
                ..
            } => Self::Sparse {
                columns: *columns,
                indptr: indptr.clone(),
                indices: indices.clone(),
                values: new,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sparse() -> Features {
        Features::Sparse {
            columns: 5,
            indptr: vec![0, 2, 2, 3],
            indices: vec![1, 4, 0],
            values: vec![1.0, 3.0, 2.0],
        }
    }

    #[test]
    fn both_storages_say_the_same() {
        let dense = sparse().to_dense();
        assert_eq!(dense.to_sparse(), sparse());
        assert_eq!(dense.values()[4], 3.0);
        assert_eq!(dense.clone().in_best_storage(), sparse());
        assert_eq!(sparse().place(2), (2, 0));
        assert_eq!(dense.place(9), (1, 4));
        assert_eq!(dense.select(&[2, 0]).to_sparse(), sparse().select(&[2, 0]));
    }

    #[test]
    fn rows_sum_to_one_and_empty_rows_stay() {
        for features in [sparse(), sparse().to_dense()] {
            let got = features.row_normalized(5).to_dense();
            assert_eq!(got.values()[..5], [0.0, 0.25, 0.0, 0.0, 0.75]);
            assert_eq!(got.values()[5..10], [0.0; 5]);
        }
    }
}
