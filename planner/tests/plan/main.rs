//! Parts, simulation, search and reports, on hand-built programs.

// Test helpers may unwrap, like tests.
#![allow(clippy::unwrap_used)]

mod doubt;
mod host;
mod model;
mod report;
mod simulate;
mod software;
mod volumes;
mod waiting;
