//! The IRs of gnnc and the values that cross its crates.
//!
//! Nothing in this crate touches a device, a file, a clock or a random source: every stage is a
//! function from values to values. The modules build on each other in this order: [`words`]
//! (shared types), [`kernel`] (what one kernel computes), [`graph`] (operator graphs),
//! [`program`] (instructions for every rank).

pub mod cluster;
pub mod graph;
pub mod kernel;
pub mod plan;
pub mod program;
pub mod words;
pub mod workload;

pub use graph::op::Op;
pub use graph::{Graph, Node, NodeId, ParamId, ParamSpec};
pub use words::scalar::{Binary, Unary};
pub use words::storage::Storage;
pub use words::types::{EdgeSet, Rows, Type};
pub use workload::Workload;
