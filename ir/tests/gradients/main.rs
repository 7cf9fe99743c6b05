//! Gradients against central differences, and values against the published formulas.

#![allow(clippy::unwrap_used)] // helpers of tests, which clippy does not take for tests

mod golden;
mod harness;
mod models;
mod ops;
mod random;
mod relations;
mod scans;
mod simplify;
