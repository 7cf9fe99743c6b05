//! `.npy` files: a dense feature matrix, mapped if it can be used in place.

use super::array::{Array, Header, width};
use crate::error::shape_text;
use crate::values::map as mapped;
use crate::{Features, GraphError, Values};
use std::path::Path;

/// Dense features from the bytes of a `.npy` file. `at` is its name in messages.
pub fn parse(at: &str, bytes: &[u8]) -> Result<Features, GraphError> {
    let array = Array::read(at.to_owned(), &mut &bytes[..], bytes.len() as u64)?;
    dense(&array)
}

/// Dense features of a `.npy` file. A row-major little-endian `float32` matrix is mapped, not read:
/// the file must not change while the features are in use. Anything else is converted in memory.
pub fn map(path: &Path) -> Result<Features, GraphError> {
    let failed = |source| GraphError::Io {
        file: path.to_owned(),
        source,
    };
    let at = super::place(path);
    let file = gnnc_files::open(path).map_err(failed)?;
    let map = mapped(&file).map_err(failed)?;
    let header = Header::read(&at, &mut &map[..])?;
    if let [rows, columns] = header.shape[..]
        && header.descr == "<f4"
        && !header.fortran_order
        && header.claimed(4) == (map.len() - header.size) as u128
        && let Ok(columns) = width(&at, &header.shape, columns)
        && let Some(values) =
            Values::mapped(map, header.size..header.size + header.claimed(4) as usize)
    {
        return Ok(Features::Dense {
            rows: rows as usize,
            columns,
            values,
        });
    }
    let length = file.metadata().map_err(failed)?.len();
    let bytes = gnnc_files::read(path, length).map_err(failed)?;
    parse(&at, &bytes)
}

/// A matrix as features.
pub(super) fn dense(array: &Array) -> Result<Features, GraphError> {
    let [rows, columns] = array.header.shape[..] else {
        return Err(array.wrong_shape("two dimensions, vertices by features".to_owned()));
    };
    let columns = array.width(columns)?;
    // At most as many rows as the array has bytes.
    Ok(Features::dense(rows as usize, columns, array.floats()))
}

/// Compares the shape an archive states for dense features with that of the array `name`.
pub(super) fn same_shape(stated: &Array, features: &Array, name: &str) -> Result<(), GraphError> {
    let (claimed, shape) = (stated.offsets()?, &features.header.shape);
    if claimed == *shape {
        return Ok(());
    }
    Err(GraphError::Shape {
        at: stated.at.clone(),
        found: shape_text(&claimed),
        expected: format!("{}, the shape of `{name}`", shape_text(shape)),
    })
}
