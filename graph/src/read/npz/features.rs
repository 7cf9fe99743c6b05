//! Features and coordinates of vertices.

use super::Arrays;
use crate::csr::check_indptr;
use crate::read::array::{Array, width};
use crate::{Features, GraphError};
use std::io::{Read, Seek};

/// The features, whose array may have to be brought into `rows` of vertices.
pub(super) fn features<R: Read + Seek>(
    arrays: &mut Arrays<R>,
    rows: &dyn Fn(Array) -> Result<Array, GraphError>,
) -> Result<Features, GraphError> {
    for (dense, prefix) in [("features", "feat"), ("attr_matrix", "attr"), ("x", "x")] {
        if let Some(array) = arrays.optional(dense)? {
            let sparse = arrays.has(&format!("{prefix}_indptr"));
            if !sparse && let Some(stated) = arrays.optional(&format!("{prefix}_shape"))? {
                crate::read::npy::same_shape(&stated, &array, dense)?;
            }
            return crate::read::npy::dense(&rows(array)?);
        }
    }
    for prefix in ["feat", "attr"] {
        if arrays.has(&format!("{prefix}_indptr")) {
            return sparse_features(arrays, prefix);
        }
    }
    Ok(Features::None)
}

fn sparse_features<R: Read + Seek>(
    arrays: &mut Arrays<R>,
    prefix: &str,
) -> Result<Features, GraphError> {
    let indptr = arrays.required(&format!("{prefix}_indptr"))?;
    let indices = arrays.required(&format!("{prefix}_indices"))?;
    let data = arrays.required(&format!("{prefix}_data"))?;
    let shape = arrays.required(&format!("{prefix}_shape"))?;
    let claimed = shape.offsets()?;
    let [rows, columns] = claimed[..] else {
        return Err(shape.wrong_shape("two numbers".to_owned()));
    };
    let columns = width(&shape.at, &claimed, columns)?;
    let mut pointers = indptr.offsets()?;
    check_indptr(&indptr.at, &pointers, indices.len())?;
    if pointers.len() as u64 - 1 != rows {
        return Err(indptr.wrong_shape(format!("({}), one more than rows", u128::from(rows) + 1)));
    }
    if data.len() != indices.len() {
        return Err(data.wrong_shape(format!("({}), one value per index", indices.len())));
    }
    let mut columns_of = indices.indices(u64::from(columns))?;
    let mut values = data.floats();
    sort_rows(&mut pointers, &mut columns_of, &mut values);
    Ok(Features::Sparse {
        columns,
        indptr: pointers,
        indices: columns_of,
        values,
    })
}

/// Sorts the entries of each row by column and adds up repeated columns, as SciPy does.
fn sort_rows(indptr: &mut [u64], indices: &mut Vec<u32>, values: &mut Vec<f32>) {
    let rows = indptr.len() - 1;
    let ascending = (0..rows)
        .all(|r| indices[indptr[r] as usize..indptr[r + 1] as usize].is_sorted_by(|a, b| a < b));
    if ascending {
        return;
    }
    let (mut new_indices, mut new_values) = (
        Vec::with_capacity(indices.len()),
        Vec::with_capacity(values.len()),
    );
    let mut start = 0;
    for r in 0..rows {
        let end = indptr[r + 1] as usize;
        let mut row: Vec<(u32, f32)> = indices[start..end]
            .iter()
            .copied()
            .zip(values[start..end].iter().copied())
            .collect();
        row.sort_by_key(|&(column, _)| column);
        let first = new_indices.len();
        for (column, value) in row {
            if new_indices.len() > first && new_indices.last() == Some(&column) {
                if let Some(last) = new_values.last_mut() {
                    *last += value;
                }
            } else {
                new_indices.push(column);
                new_values.push(value);
            }
        }
        start = end;
        indptr[r + 1] = new_indices.len() as u64;
    }
    (*indices, *values) = (new_indices, new_values);
}

/// The place of each vertex on a curve: `curve_places` as gnnc writes it, or along a Morton curve through the
/// coordinates `pos`, two or three of each vertex; none without.
pub(super) fn places<R: Read + Seek>(
    arrays: &mut Arrays<R>,
    vertices: usize,
) -> Result<Vec<u32>, GraphError> {
    if let Some(array) = arrays.optional("curve_places")? {
        return array.indices(vertices as u64);
    }
    let shape = arrays.header("pos")?.map(|header| header.shape);
    match shape.as_deref() {
        Some([rows, dimensions @ 2..=3]) if *rows == vertices as u64 => {
            let array = arrays.required("pos")?;
            let dimensions = *dimensions as usize;
            Ok(crate::partition::places(&array.floats(), dimensions))
        }
        // Encodings of positions may have any shape.
        Some(_) | None => {
            arrays.asked.remove("pos");
            Ok(Vec::new())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_one_column_are_added() {
        let (mut indptr, mut indices, mut values) =
            (vec![0, 3, 3, 4], vec![2, 0, 2, 1], vec![1.0, 5.0, 2.0, 7.0]);
        sort_rows(&mut indptr, &mut indices, &mut values);
        assert_eq!(
            (indptr, indices, values),
            (vec![0, 2, 2, 3], vec![0, 2, 1], vec![5.0, 3.0, 7.0])
        );
    }
}
