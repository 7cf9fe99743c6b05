//! Why a model cannot be lowered.

use crate::decouple::DecoupleError;
use crate::sampled::SampledError;
use crate::stale::StaleError;
use gnnc_ir::plan::Placement;
use gnnc_ir::words::spelling::counted;

/// Why a graph cannot be lowered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LowerError {
    /// The model uses something no program can express yet.
    #[error("{0} cannot be run yet")]
    Unsupported(String),
    /// The placement is illegal for this model.
    #[error("{0}")]
    Illegal(String),
    /// The placement needs a form that the model does not have.
    #[error("{0} needs a decoupled form: {1}")]
    NoForm(Placement, DecoupleError),
    /// The model cannot be trained on sampled batches.
    #[error("{0} needs a form on sampled batches: {1}")]
    NotSampled(Placement, SampledError),
    /// Fanouts that do not fit the model.
    #[error(
        "found {}{}, but the model aggregates {} one after another{}; give one fanout for each, the one next to the seeds first{}",
        counted(found, "fanout"),
        if *evaluates { " of evaluations" } else { "" },
        counted(expected, "time"),
        if *beforehand { " besides what is computed beforehand" } else { "" },
        of_plain(*expected, *plain)
    )]
    Fanouts {
        /// Fanouts given.
        found: usize,
        /// Hops of the model.
        expected: usize,
        /// Those of them over plain edges.
        plain: usize,
        /// Whether aggregations are made beforehand.
        beforehand: bool,
        /// Whether these are the fanouts of evaluations.
        evaluates: bool,
    },
    /// A pass produced a graph that violates its own invariants.
    #[error("bug in the lowering: {0}")]
    Internal(String),
    /// The number of layouts differs from that of the model's components.
    #[error(
        "found {found} layouts for {what}, but there are {expected} groups of edge tensors to lay out by rows or by columns; give one for each, or none to have them chosen"
    )]
    Layouts {
        /// What they are for.
        what: &'static str,
        /// How many were given.
        found: usize,
        /// How many there must be.
        expected: usize,
    },
    /// The model has no form for a pipeline.
    #[error(transparent)]
    Stale(#[from] StaleError),
    /// The gradient of the model could not be built.
    #[error(transparent)]
    Autodiff(#[from] gnnc_ir::graph::autodiff::AutodiffError),
}

/// Says which fanouts may be left out, if some of a model's hops run over named sets of edges.
fn of_plain(hops: usize, plain: usize) -> String {
    match plain == hops || plain == 0 {
        true => String::new(),
        false => format!("; or {plain}, for those over plain edges alone"),
    }
}
