//! The order in which narrow rows are gathered.
//!
//! Several teams share a warp, which takes as long as its longest row. On a power-law graph the
//! longest of four adjacent rows is 2.7 times their mean; degrees within one class differ by less
//! than a factor of two.

use super::{Items, Pass, Schedule, WARP};
use std::ops::Range;

/// Classes of degrees: 0, 1, 2 to 3, 4 to 7, and so on.
const CLASSES: usize = u64::BITS as usize + 1;

/// The class of a row. A row of more than `most` edges counts as empty: it is a hub, whose chunks
/// are walked separately.
fn class(indptr: &[u64], row: usize, most: u64) -> usize {
    let (Some(first), Some(last)) = (indptr.get(row), indptr.get(row + 1)) else {
        return 0;
    };
    let degree = last.saturating_sub(*first);
    let walked = if degree > most { 0 } else { degree };
    (u64::BITS - walked.leading_zeros()) as usize
}

/// The rows of `rows` by class of degree, longest first, ascending within a class. Empty if one
/// class has all rows.
pub fn by_degree(indptr: &[u64], rows: Range<usize>, most: u64) -> Vec<u32> {
    let place = |row: usize| CLASSES - 1 - class(indptr, row, most);
    let mut counts = [0; CLASSES];
    rows.clone().for_each(|row| counts[place(row)] += 1);
    if counts.contains(&rows.len()) {
        return Vec::new();
    }
    let mut next = [0; CLASSES];
    for class in 1..CLASSES {
        next[class] = next[class - 1] + counts[class - 1];
    }
    let mut order = vec![0; rows.len()];
    for row in rows {
        let next = &mut next[place(row)];
        order[*next] = row as u32;
        *next += 1;
    }
    order
}

impl Schedule {
    /// Whether several rows of a gather or a pass share a warp, so that their order matters.
    pub fn ordered(&self) -> bool {
        let gathers = |pass: &Pass| pass.items == Items::RowsAndChunks;
        let shares = |pass: &Pass| self.team * pass.per_item < WARP;
        self.passes.iter().any(|pass| gathers(pass) && shares(pass))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_by_class_of_degree() {
        // Degrees 3, 0, 9, 2, 1, 8, 100.
        let indptr = [0, 3, 3, 12, 14, 15, 23, 123];
        let most = 50;
        assert_eq!(by_degree(&indptr, 0..7, most), [2, 5, 0, 3, 4, 1, 6]);
        assert_eq!(by_degree(&indptr, 2..5, most), [2, 3, 4]);
        // Nothing to order: no rows, one class.
        assert_eq!(by_degree(&indptr, 3..3, most), [0u32; 0]);
        assert_eq!(by_degree(&[0, 2, 5, 7], 0..3, most), [0u32; 0]);
    }
}
