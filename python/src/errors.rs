//! gnnc's errors as Python's exceptions, with the text of the command line.

use gnnc::Error;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// The module that defines the exceptions.
const MODULE: &str = "gnnc.errors";

/// The exception for an error: `InputError` if the input is wrong, `MachineError` if the machine refuses or gnnc has a bug.
pub fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let text = match error {
        Error::Model { .. } => error.report(false).trim_end().to_owned(),
        _ => error.to_string(),
    };
    match error.exit_code() {
        1 => input(py, &text),
        _ => machine(py, &text),
    }
}

/// A mistake in the input.
pub fn input(py: Python<'_>, text: &str) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    of_class(py, &CLASS, "InputError", text)
}

/// Something that the machine refuses, or a bug.
pub fn machine(py: Python<'_>, text: &str) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    of_class(py, &CLASS, "MachineError", text)
}

fn of_class(py: Python<'_>, class: &PyOnceLock<Py<PyType>>, name: &str, text: &str) -> PyErr {
    match class.import(py, MODULE, name) {
        Ok(class) => PyErr::from_type(class.clone(), (text.to_owned(),)),
        Err(error) => error,
    }
}

/// Runs something without Python's global lock, and raises its error.
pub fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    py.detach(work).map_err(|error| raised(py, &error))
}
