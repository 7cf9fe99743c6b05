//! Tests of the e-graph stage: every rule by text files, forms of whole models, random graphs.

// Helpers of tests fail by panicking, like the tests themselves.
#![allow(clippy::unwrap_used)]

mod forms;
mod models;
mod numbers;
mod random;
mod rules;
mod text;
