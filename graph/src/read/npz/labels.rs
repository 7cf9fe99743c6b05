//! Labels: classes, or rows of numbers.

use crate::read::array::Array;
use crate::{GraphError, Labels};

/// Whole numbers are classes; other numbers, and rows of numbers, are what they are.
pub(super) fn labels(array: &Array) -> Result<Labels, GraphError> {
    let width = match array.header.shape[..] {
        [_] if !array.is_float() => return Ok(Labels::Single(classes(array)?)),
        [_] => 1,
        [_, 0] => return Err(array.wrong_shape("at least 1 column".to_owned())),
        [_, width] => array.width(width)?,
        _ => {
            return Err(
                array.wrong_shape("one dimension (a label per vertex) or two (several)".to_owned())
            );
        }
    };
    Ok(Labels::Values {
        width,
        values: array.floats(),
    })
}

/// The labels of a PyTorch Geometric `Data`, whose classes may be a matrix of one column.
pub(crate) fn pyg(array: &Array) -> Result<Labels, GraphError> {
    match array.header.shape[..] {
        [_, 1] if !array.is_float() => Ok(Labels::Single(classes(array)?)),
        _ => labels(array),
    }
}

/// One class a vertex.
pub(crate) fn classes(array: &Array) -> Result<Vec<i32>, GraphError> {
    let kinds = "integers (one class per vertex) or a matrix (several labels)";
    array.integers(kinds, |position, x| {
        let expected = "a class from 0 up to the number of vertices, or -1 for unknown";
        i32::try_from(x).map_err(|_| array.wrong_element(position, x, expected))
    })
}
