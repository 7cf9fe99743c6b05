//! NumPy arrays by their `__array_interface__`, without a copy in either direction.

use crate::errors::input;
use gnnc::graph::Values;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::any::Any;
use std::sync::Arc;

/// Floats of gnnc that NumPy has where they are: `numpy.asarray(floats)`. They are NumPy's to change.
#[pyclass(frozen)]
pub struct Floats {
    /// A boxed slice, which is freed with the object and not read otherwise.
    values: *mut [f32],
    shape: Vec<usize>,
}

// SAFETY: the object owns the slice; no thread reads or writes it through the object.
unsafe impl Send for Floats {}
// SAFETY: as above.
unsafe impl Sync for Floats {}

impl Drop for Floats {
    fn drop(&mut self) {
        // SAFETY: the slice is from a box and is freed once. An array that uses it keeps the object alive.
        drop(unsafe { Box::from_raw(self.values) });
    }
}

impl Floats {
    /// Floats of a shape, row by row.
    pub fn new(values: Vec<f32>, shape: &[usize]) -> Self {
        debug_assert_eq!(values.len(), shape.iter().product::<usize>());
        Self {
            values: Box::into_raw(values.into_boxed_slice()),
            shape: shape.to_vec(),
        }
    }
}

#[pymethods]
impl Floats {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let about = PyDict::new(py);
        about.set_item("version", 3)?;
        about.set_item("typestr", "<f4")?;
        about.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        let first = self.values.cast::<f32>();
        about.set_item("data", (first.expose_provenance(), false))?;
        Ok(about)
    }
}

/// A matrix of floats in the memory of a NumPy array.
pub struct Matrix {
    /// Rows and columns.
    pub shape: [usize; 2],
    /// Row by row.
    pub values: Values<f32>,
}

/// The floats of an array with two dimensions, of type float32 and row by row. They keep the array alive.
///
/// # Errors
/// Another type, shape or order; an object that is no array.
pub fn matrix(array: &Bound<'_, PyAny>) -> PyResult<Matrix> {
    let about = array.getattr("__array_interface__")?;
    let about = about.cast::<PyDict>()?;
    let get = |key: &str| {
        let found = about.get_item(key)?;
        found.ok_or_else(|| input(array.py(), &format!("found an array without `{key}`")))
    };
    let kind: String = get("typestr")?.extract()?;
    let shape: Vec<usize> = get("shape")?.extract()?;
    let strides = about.get_item("strides")?;
    let ordered = strides.is_none_or(|strides| strides.is_none());
    let (&[rows, columns], "<f4", true) = (&shape[..], kind.as_str(), ordered) else {
        return Err(input(
            array.py(),
            &format!(
                "found an array of type {kind} and shape {shape:?}, expected float32, two dimensions, row by row"
            ),
        ));
    };
    let (address, _): (usize, bool) = get("data")?.extract()?;
    let count = rows * columns;
    if count == 0 || !address.is_multiple_of(align_of::<f32>()) {
        return Ok(Matrix {
            shape: [rows, columns],
            values: copied(array, count)?.into(),
        });
    }
    let owner: Arc<dyn Any + Send + Sync> = Arc::new(array.clone().unbind());
    let first = std::ptr::with_exposed_provenance::<f32>(address);
    // SAFETY: NumPy says that so many floats are at the address, and keeps them there as long as the array lives, which
    // the owner holds. The documentation of `Graph` asks that they do not change.
    let values = unsafe { Values::shared(first, count, owner) };
    Ok(Matrix {
        shape: [rows, columns],
        values,
    })
}

/// A copy of an array's floats, for those that are not where a float may be.
fn copied(array: &Bound<'_, PyAny>, count: usize) -> PyResult<Vec<f32>> {
    let bytes = array.call_method0("tobytes")?;
    let bytes: &[u8] = bytes.extract()?;
    let floats = bytes.chunks_exact(size_of::<f32>());
    let floats: Vec<f32> = floats
        .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        .collect();
    debug_assert_eq!(floats.len(), count);
    Ok(floats)
}
