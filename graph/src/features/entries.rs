//! Features value by value, and columns of others behind them.

use super::Features;

/// A value that is not 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) row: usize,
    pub(crate) column: u32,
    pub(crate) value: f32,
}

impl Features {
    /// The value in a row and a column, which are in range.
    pub fn at(&self, row: usize, column: u32) -> f32 {
        match self {
            Self::None => 0.0,
            Self::Dense {
                columns, values, ..
            } => values.as_slice()[row * *columns as usize + column as usize],
            Self::Sparse {
                indptr,
                indices,
                values,
                ..
            } => {
                let first = indptr[row] as usize;
                let stored = &indices[first..indptr[row + 1] as usize];
                let found = stored.binary_search(&column);
                found.map_or(0.0, |place| values[first + place])
            }
        }
    }

    /// Columns behind these, `count` of them: for each row a 1 in the column that `of` says. There is an
    /// element of `of` for each row.
    pub(crate) fn with_one_hot(&self, of: &[u16], count: u32) -> Self {
        let hot = Self::Sparse {
            columns: count,
            indptr: (0..=of.len() as u64).collect(),
            indices: of.iter().map(|kind| u32::from(*kind)).collect(),
            values: vec![1.0; of.len()],
        };
        self.beside(&hot, 0)
    }

    /// Behind these columns, those of `other` from column `from`. Both have as many rows, unless these have
    /// none.
    pub(crate) fn beside(&self, other: &Self, from: u32) -> Self {
        let rows = other.rows().unwrap_or(0);
        let (left, more) = (self.columns(), other.columns() - from);
        let columns = left + more;
        let right = match other {
            Self::None => return self.clone(),
            Self::Dense { .. } | Self::Sparse { .. } => other.entries(),
        };
        let right = right.filter(|entry| entry.column >= from);
        let right = right.map(|entry| Entry {
            column: entry.column - from + left,
            ..entry
        });
        // One-hot columns are mostly 0. The result is sparse if they outnumber the features three to one.
        let is_sparse = 4 * (u64::from(left) + 1) <= u64::from(columns);
        if let Self::Dense { values, .. } = self
            && !is_sparse
        {
            let mut all = vec![0f32; rows * columns as usize];
            let own = values.as_slice().chunks_exact((left as usize).max(1));
            for (row, own) in all.chunks_exact_mut(columns as usize).zip(own) {
                row[..left as usize].copy_from_slice(own);
            }
            for entry in right {
                all[entry.row * columns as usize + entry.column as usize] = entry.value;
            }
            return Self::dense(rows, columns, all);
        }
        let (mut left, mut right) = (self.entries().peekable(), right.peekable());
        let by_row = std::iter::from_fn(|| match (left.peek(), right.peek()) {
            (Some(own), Some(other)) if other.row < own.row => right.next(),
            (Some(_), _) => left.next(),
            (None, _) => right.next(),
        });
        Self::of_entries(rows, columns, by_row)
    }

    /// Sparse features of entries in the order of their rows, and of their columns in each row.
    pub(crate) fn of_entries(
        rows: usize,
        columns: u32,
        entries: impl Iterator<Item = Entry>,
    ) -> Self {
        let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for entry in entries {
            indptr.resize(entry.row + 1, indices.len() as u64);
            indices.push(entry.column);
            values.push(entry.value);
        }
        indptr.resize(rows + 1, indices.len() as u64);
        Self::Sparse {
            columns,
            indptr,
            indices,
            values,
        }
    }

    /// The values that are not 0, row after row.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        let mut row = 0;
        let stored = self.values().iter().enumerate();
        let entries = stored.map(move |(position, value)| {
            let column = match self {
                Self::None => 0,
                Self::Dense { columns, .. } => {
                    row = position / *columns as usize;
                    (position % *columns as usize) as u32
                }
                Self::Sparse {
                    indptr, indices, ..
                } => {
                    while indptr[row + 1] <= position as u64 {
                        row += 1;
                    }
                    indices[position]
                }
            };
            Entry {
                row,
                column,
                value: *value,
            }
        });
        entries.filter(|entry| entry.value != 0.0)
    }
}
