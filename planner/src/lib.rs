//! Rewrite, place, simulate and choose.
//!
//! The planner is a function from values to values: it touches no device, file, clock or random
//! source. This part of it, the e-graph stage, turns a model's operator graph into an equal,
//! cheaper one, a *form*:
//!
//! ```
//! use gnnc_ir::graph::op::Input;
//! use gnnc_ir::{EdgeSet, Graph, Op, ParamSpec, Type};
//! use gnnc_ir::kernel::{End, Reduce};
//! use gnnc_planner::facts::Facts;
//! use gnnc_planner::forms::{RewriteOptions, rewrite};
//!
//! // sum over the neighbours' 500 features, then a product to 16 columns
//! let mut model = Graph::new(500);
//! let init = gnnc_ir::graph::Init::Zeros;
//! let spec = ParamSpec { name: "w".into(), ty: Type::matrix(500, 16), init, decay: None, shard: None, element: None };
//! let w = model.param(spec);
//! let x = model.add(Op::Input(Input::Features), &[], 0)?;
//! let x = model.add(Op::Dropout { p: 0.5, site: 0.into(), slice: None }, &[x], 0)?;
//! let rows = model.add(Op::Take(EdgeSet::Plain, End::Src), &[x], 0)?;
//! let sum = model.add(Op::Gather(EdgeSet::Plain, End::Dst, Reduce::Sum), &[rows], 0)?;
//! let w = model.add(Op::Param(w), &[], 0)?;
//! let out = model.add(Op::MatMul, &[sum, w], 0)?;
//! model.results = vec![out];
//!
//! let facts = Facts {
//!     vertices: 1000, edges: 20_000, features: 500, feature_nonzeros: 500_000,
//!     sparse_features: false, classes: 16, train: true, named_edges: Default::default(),
//! };
//! let form = rewrite(&model, &facts, &RewriteOptions::default())?;
//! // the product comes first now, so only 16 columns travel along the edges
//! assert!(form.graph.to_string().trim_end().lines().rev().nth(1).unwrap().contains("gather"));
//! assert!(form.report.after.seconds < form.report.before.seconds / 3.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cost;
pub mod decouple;
mod error;
pub mod extract;
pub mod facts;
mod fixed;
pub mod forms;
pub mod language;
pub mod layout;
pub mod lower;
pub mod parts;
pub mod placement;
pub mod proof;
pub mod region;
pub mod report;
pub mod rules;
pub mod sampled;
pub mod saturate;
pub mod search;
pub mod shorten;
pub mod simulate;
pub mod stale;

pub use error::LowerError;
