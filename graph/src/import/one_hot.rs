//! Labels of vertices and edges as features: a column of 0 and 1 for each label, as in PyTorch Geometric.

use super::numbers::{Integers, Matrix};
use crate::{Features, GraphError};

/// The columns that stand for labels: those of each column of labels begin with that of its smallest.
pub(super) struct OneHot {
    labels: Integers,
    columns: Vec<Range>,
    /// Columns of 0 and 1 in all.
    width: u32,
}

/// The columns for one column of labels.
struct Range {
    smallest: i64,
    /// The column of the smallest label.
    begin: u32,
}

impl OneHot {
    /// A column for each number from the smallest label to the largest, at most `most` in all.
    ///
    /// # Errors
    /// More.
    pub(super) fn of(labels: Integers, most: u32) -> Result<Self, GraphError> {
        let mut columns = Vec::new();
        let mut width = 0u32;
        for column in 0..labels.columns as usize {
            let own = labels.values.iter().skip(column);
            let own = || own.clone().step_by(labels.columns as usize).copied();
            let (Some(smallest), Some(largest)) = (own().min(), own().max()) else {
                break;
            };
            let count = i128::from(largest) - i128::from(smallest) + 1;
            let all = i128::from(width) + count;
            let Some(all) = u32::try_from(all).ok().filter(|all| *all <= most) else {
                return Err(GraphError::Unsupported {
                    at: labels.at,
                    found: format!("labels from {smallest} to {largest}"),
                    expected: format!(
                        "at most {most} labels, which become a feature each; number them \
                         consecutively"
                    ),
                });
            };
            columns.push(Range {
                smallest,
                begin: width,
            });
            width = all;
        }
        Ok(Self {
            labels,
            columns,
            width,
        })
    }

    /// The columns that have a 1 in a row.
    fn ones(&self, row: usize) -> impl Iterator<Item = u32> {
        let width = self.columns.len();
        let own = self.labels.values[row * width..][..width].iter();
        own.zip(&self.columns)
            .map(|(label, range)| range.begin + (label - range.smallest) as u32)
    }

    /// Features of vertices: numbers, and the columns of labels behind them. Each has `rows` rows.
    pub(super) fn features(self, rows: usize, numbers: Option<&Matrix>) -> Features {
        let before = numbers.map_or(0, |numbers| numbers.columns);
        let mut indptr = Vec::with_capacity(rows + 1);
        let (mut indices, mut values) = (Vec::new(), Vec::new());
        indptr.push(0);
        for row in 0..rows {
            if let Some(numbers) = numbers {
                let own = &numbers.values[row * before as usize..][..before as usize];
                for (column, value) in (0..).zip(own).filter(|(_, value)| **value != 0.0) {
                    indices.push(column);
                    values.push(*value);
                }
            }
            for column in self.ones(row) {
                indices.push(before + column);
                values.push(1.0);
            }
            indptr.push(indices.len() as u64);
        }
        Features::Sparse {
            columns: before + self.width,
            indptr,
            indices,
            values,
        }
    }

    /// The same for edges, in full.
    pub(super) fn dense(self, numbers: Option<Matrix>) -> Matrix {
        let before = numbers.as_ref().map_or(0, |numbers| numbers.columns);
        let columns = before + self.width;
        let mut values = vec![0.0; self.labels.rows * columns as usize];
        for (row, out) in values.chunks_mut(columns.max(1) as usize).enumerate() {
            if let Some(numbers) = &numbers {
                let own = &numbers.values[row * before as usize..][..before as usize];
                out[..before as usize].copy_from_slice(own);
            }
            for column in self.ones(row) {
                out[(before + column) as usize] = 1.0;
            }
        }
        Matrix {
            at: self.labels.at,
            rows: self.labels.rows,
            columns,
            values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(columns: u32, values: &[i64]) -> Integers {
        Integers {
            at: "labels".to_owned(),
            rows: values.len() / columns as usize,
            columns,
            values: values.to_vec(),
        }
    }

    #[test]
    fn each_label_has_a_column() {
        // Columns for 3, 4 and 5, and for -1 and 0.
        let one_hot = || OneHot::of(labels(2, &[3, 0, 5, -1]), 5).unwrap();
        let numbers = Matrix {
            at: String::new(),
            rows: 2,
            columns: 1,
            values: vec![0.0, 7.0],
        };
        let dense = one_hot().dense(None);
        let expected = [[1.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0, 0.0]];
        assert_eq!((dense.columns, dense.values), (5, expected.concat()));
        let features = one_hot().features(2, Some(&numbers));
        let expected = Features::Sparse {
            columns: 6,
            indptr: vec![0, 2, 5],
            indices: vec![1, 5, 0, 3, 4],
            values: vec![1.0, 1.0, 7.0, 1.0, 1.0],
        };
        assert_eq!(features, expected);
        let dense = one_hot().dense(Some(numbers));
        let expected = [
            [0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
            [7.0, 0.0, 0.0, 1.0, 1.0, 0.0],
        ];
        assert_eq!(dense.values, expected.concat());
    }

    #[test]
    fn labels_far_apart_are_refused() {
        for values in [[0, 4], [i64::MIN, i64::MAX]] {
            let error = OneHot::of(labels(1, &values), 4).err().unwrap();
            assert!(error.to_string().contains("labels from"), "{error}");
        }
        assert!(OneHot::of(labels(2, &[0, 0, 2, 1]), 4).is_err());
        assert_eq!(OneHot::of(labels(1, &[]), 4).unwrap().width, 0);
    }
}
