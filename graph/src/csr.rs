//! Compressed sparse rows, and the transposed view of them.

use crate::GraphError;

/// Compressed sparse rows: row `r` holds `indices[indptr[r]..indptr[r + 1]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Csr {
    /// `rows + 1` offsets into `indices`, starting at 0, never descending.
    pub indptr: Vec<u64>,
    /// Columns, row after row.
    pub indices: Vec<u32>,
}

impl Csr {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.indptr.len().saturating_sub(1)
    }

    /// Columns of row `r`. Panics if there is no such row.
    pub fn row(&self, r: usize) -> &[u32] {
        row(&self.indptr, &self.indices, r)
    }

    /// The transposed matrix and, for each of its entries, the position of that entry in `self`.
    ///
    /// The rows of the result are the `columns` columns of `self`. Entries within a row are
    /// ascending by row of `self`. Every column must be below `columns`, and there must be fewer
    /// than 2^32 entries.
    pub fn transposed(&self, columns: usize) -> (Self, Vec<u32>) {
        let mut indptr = vec![0u64; columns + 1];
        for &c in &self.indices {
            indptr[c as usize + 1] += 1;
        }
        for c in 0..columns {
            indptr[c + 1] += indptr[c];
        }
        let mut next = indptr.clone();
        let mut indices = vec![0u32; self.indices.len()];
        let mut positions = vec![0u32; self.indices.len()];
        for r in 0..self.rows() {
            for position in self.indptr[r]..self.indptr[r + 1] {
                let slot = &mut next[self.indices[position as usize] as usize];
                indices[*slot as usize] = r as u32;
                positions[*slot as usize] = position as u32;
                *slot += 1;
            }
        }
        (Self { indptr, indices }, positions)
    }
}

/// Row `r` of a pair of CSR arrays.
pub(crate) fn row<'a>(indptr: &[u64], indices: &'a [u32], r: usize) -> &'a [u32] {
    &indices[indptr[r] as usize..indptr[r + 1] as usize]
}

/// Checks that `indptr` describes `entries` entries: it starts with 0, never descends, and
/// ends with `entries`.
pub(crate) fn check_indptr(at: &str, indptr: &[u64], entries: usize) -> Result<(), GraphError> {
    let wrong = |position: usize, found: u64, expected: String| GraphError::RowPointer {
        at: at.to_owned(),
        position,
        found: i128::from(found),
        expected,
    };
    match indptr.first() {
        Some(0) => {}
        Some(&first) => return Err(wrong(0, first, "0".to_owned())),
        None => {
            return Err(GraphError::Shape {
                at: at.to_owned(),
                found: "(0)".to_owned(),
                expected: "one more entry than rows".to_owned(),
            });
        }
    }
    if let Some(r) = indptr.windows(2).position(|w| w[0] > w[1]) {
        return Err(wrong(
            r + 1,
            indptr[r + 1],
            format!("at least {} (the previous entry)", indptr[r]),
        ));
    }
    let last = indptr.len() - 1;
    if indptr[last] != entries as u64 {
        return Err(wrong(
            last,
            indptr[last],
            format!("{entries} (the number of indices)"),
        ));
    }
    Ok(())
}

/// Checks that every index is below `limit`.
pub(crate) fn check_indices(at: &str, indices: &[u32], limit: u64) -> Result<(), GraphError> {
    match indices.iter().position(|&i| u64::from(i) >= limit) {
        None => Ok(()),
        Some(position) => Err(GraphError::IndexOutOfRange {
            at: at.to_owned(),
            position: position as u64,
            found: i128::from(indices[position]),
            limit,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transposed_entry_knows_where_it_came_from() {
        let csr = Csr {
            indptr: vec![0, 2, 2, 4],
            indices: vec![1, 3, 0, 1],
        };
        let (t, positions) = csr.transposed(4);
        assert_eq!(t.indptr, [0, 1, 3, 3, 4]);
        assert_eq!(t.indices, [2, 0, 2, 0]);
        assert_eq!(positions, [2, 0, 3, 1]);
        assert_eq!(t.transposed(3).0, csr);
    }

    #[test]
    fn a_bad_row_pointer_is_named() {
        for (indptr, position) in [(vec![1, 2], 0), (vec![0, 3, 2], 2), (vec![0, 1], 1)] {
            match check_indptr("t", &indptr, 2) {
                Err(GraphError::RowPointer { position: p, .. }) => assert_eq!(p, position),
                other => panic!("{other:?}"),
            }
        }
        assert!(check_indptr("t", &[], 0).is_err());
        assert!(check_indptr("t", &[0], 0).is_ok());
    }
}
