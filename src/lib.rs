//! gnnc plans and runs graph neural network training.
//!
//! From a model in a file to a trained network:
//!
//! ```
//! use gnnc::{Loaded, LoadOptions, Source, TrainOptions, train};
//!
//! let source = Source::read("examples/gcn_cora.gir")?;
//! let loaded = Loaded::new(&source, &LoadOptions::default())?;
//! let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
//! let options = TrainOptions { epochs: Some(5), ..TrainOptions::default() };
//! let summary = train(&loaded, &compiled, &options, &mut |_| ())?;
//! assert_eq!(summary.epochs, 5);
//! # Ok::<(), gnnc::Error>(())
//! ```
//!
//! The stages are functions of values and can be called one by one: [`gnnc_lang`] parses and
//! checks, [`gnnc_planner`] rewrites, lowers, simulates and chooses, [`gnnc_codegen`]
//! compiles kernels, [`gnnc_runtime`] runs programs, [`gnnc_graph`] reads data.

mod by_part;
mod caching;
mod calibrate;
mod choice;
mod compile;
pub mod device;
mod error;
mod inference;
pub mod kernels;
pub mod knobs;
mod machines;
pub mod metrics;
pub mod numbers;
mod partitions;
pub mod pictures;
mod pilot;
mod plan;
mod predict;
pub mod provenance;
pub mod ranking;
mod replay;
mod source;
mod summary;
mod trainable;
mod training;
mod version;

pub use by_part::ByPart;
pub use caching::cache_folder;
pub use calibrate::{CalibrateOptions, Calibrated, Measurement, Quality, calibrate};
pub use choice::{Choice, choose, usual_placement};
pub use compile::{Compiled, Relaxed, compile, compile_explained};
pub use device::Device;
pub use error::Error;
pub use gnnc_codegen as codegen;
pub use gnnc_files::{Cache, Cached};
pub use gnnc_graph as graph;
pub use gnnc_ir as ir;
pub use gnnc_ir::words::metric::Metric;
pub use gnnc_lang as lang;
pub use gnnc_planner as planner;
pub use gnnc_runtime as runtime;
pub use inference::Weights;
pub use machines::{cluster, machines, usual_cluster};
pub use partitions::{cut_chunks, partitions};
pub use pilot::{
    PilotOptions, PilotProgress, RATES, Tried, classes_of, pilot, pilot_fits, read_pilot,
};
pub use plan::{PlanOptions, Planner, SweepPoint, best, plan, sweep};
pub use predict::{Embeddings, Outputs, Predictions, embeddings, outputs, predict};
pub use replay::{Verified, verify};
pub use source::{LoadOptions, Loaded, Source};
pub use summary::{Kept, MeasuredMerges, Scores, Summary, TargetRun, Waited};
pub use training::{
    Pause, Progress, TrainOptions, Trainer, best_of, place, train, train_once, train_traced,
};
pub use version::version;
