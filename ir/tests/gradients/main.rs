//! Gradients against central differences, and values against the published formulas.

#![allow(clippy::unwrap_used)] // clippy does not recognize helpers of tests as tests

mod golden;
mod harness;
mod losses;
mod models;
mod ops;
mod random;
mod relations;
mod sampled;
mod scans;
mod simplify;
