//! Parts, simulation, search and reports, on programs built by hand.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod host;
mod model;
mod report;
mod simulate;
mod volumes;
mod waiting;
