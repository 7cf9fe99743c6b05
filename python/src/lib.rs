//! The native part of the Python package `gnnc`: the facade's functions, with Python's values.
//!
//! `gnnc/_gnnc.pyi` says what Python sees. All work on graphs and models is done without Python's global lock.

mod arrays;
mod errors;
mod graph;
mod model;
mod run;

use pyo3::prelude::*;

/// The module.
#[pymodule]
mod _gnnc {
    #[pymodule_export]
    use crate::arrays::Floats;
    #[pymodule_export]
    use crate::graph::Graph;
    #[pymodule_export]
    use crate::model::{check, plan, predict, rows_of};
    #[pymodule_export]
    use crate::run::train;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("__build__", gnnc::version())
    }
}
