//! Matrices that `scipy.sparse.save_npz` writes: row `u`, column `v` is the edge from `u` to `v`.

use super::{Arrays, Triples, rows};
use crate::error::shape_text;
use crate::read::array::Header;
use crate::read::text::plausible_vertices;
use crate::topology::Dropped;
use crate::{GraphError, Topology};
use std::io::{Read, Seek};

/// Reads the edges of a matrix in the format csr, csc or coo.
pub(super) fn topology<R: Read + Seek>(
    arrays: &mut Arrays<R>,
) -> Result<(Topology, Dropped), GraphError> {
    let format = format(arrays)?;
    let shape = arrays.required("shape")?;
    let claimed = shape.offsets()?;
    let &[size, columns] = &claimed[..] else {
        return Err(shape.wrong_shape("two numbers".to_owned()));
    };
    if size != columns {
        return Err(GraphError::Shape {
            at: shape.at,
            found: shape_text(&claimed),
            expected: "a square matrix, with a row and a column for each vertex".to_owned(),
        });
    }
    let (vertices, ends) = match format.as_str() {
        "csr" | "csc" => {
            let [indptr, indices] = [arrays.required("indptr")?, arrays.required("indices")?];
            let (vertices, indptr, indices) = rows(&indptr, &indices, Some(size))?;
            let of_row =
                |row: u32| indptr[row as usize] as usize..indptr[row as usize + 1] as usize;
            let pairs = (0..vertices)
                .flat_map(|row| indices[of_row(row)].iter().map(move |own| (row, *own)));
            let ends: Vec<(u32, u32)> = match format.as_str() {
                "csr" => pairs.collect(),
                _ => pairs.map(|(row, own)| (own, row)).collect(),
            };
            (vertices, ends)
        }
        "coo" => {
            let [row, column] = [arrays.required("row")?, arrays.required("col")?];
            if row.len() != column.len() {
                return Err(column.wrong_shape(format!("({}), as many as rows", row.len())));
            }
            let vertices = plausible_vertices(&shape.at, size.into(), row.len() as u64, None)?;
            let [row, column] = [row.indices(size)?, column.indices(size)?];
            (vertices, row.into_iter().zip(column).collect())
        }
        _ => {
            return Err(GraphError::Unsupported {
                at: arrays.at.clone(),
                found: format!("a matrix of SciPy in the format {format:?}"),
                expected: "csr, csc or coo; save matrix.tocsr()".to_owned(),
            });
        }
    };
    let weights = arrays.optional("data")?;
    Triples {
        vertices,
        ends,
        weights,
        array: "data",
    }
    .topology()
}

/// The word of the array `format`, which holds bytes or characters of four bytes each.
fn format<R: Read + Seek>(arrays: &mut Arrays<R>) -> Result<String, GraphError> {
    const ARRAY: &str = "format";
    let at = format!("{}: `{ARRAY}`", arrays.at);
    arrays.asked.insert(ARRAY.to_owned());
    let damaged = |reason: String| GraphError::Archive {
        at: at.clone(),
        reason,
    };
    let entry = arrays.archive.by_name(&format!("{ARRAY}.npy"));
    let mut entry = entry.map_err(|error| damaged(error.to_string()))?;
    Header::read(&at, &mut entry)?;
    let mut letters = Vec::new();
    let read = entry.take(32).read_to_end(&mut letters);
    read.map_err(|error| damaged(error.to_string()))?;
    letters.retain(|letter| *letter != 0);
    Ok(String::from_utf8_lossy(&letters).into_owned())
}
