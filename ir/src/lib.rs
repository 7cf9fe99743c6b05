//! Text and values that cross gnnc's crates.
//!
//! Nothing in this crate touches a device, a file, a clock or a random source: every
//! stage is a function from values to values.

pub mod access;
pub mod autodiff;
pub mod blend;
pub mod check;
pub mod cluster;
pub mod diagnostic;
pub mod eval;
pub mod expr;
pub mod flatten;
pub mod graph;
pub mod infer;
pub mod json;
pub mod kernel;
pub mod memory;
pub mod model;
pub mod op;
pub mod plan;
pub mod program;
pub mod simplify;
mod spelling;
pub mod storage;
pub mod syntax;
pub mod trace;
pub mod traffic;
pub mod types;
pub mod units;
pub mod work;
pub mod workload;

pub use diagnostic::{Diagnostic, Severity, Span};
pub use graph::{Graph, Node, NodeId, ParamId, ParamSpec};
pub use op::{Binary, Op, Unary};
pub use storage::Storage;
pub use types::{EdgeSet, Rows, Type};
pub use workload::Workload;
