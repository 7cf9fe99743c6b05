//! Which tensors lie by columns: message passing on slices of the columns (NeutronTP, section 3.1).
//!
//! Dense products need whole rows; an aggregation needs all rows but treats columns alike. So every
//! connected set of arc tensors (see [`components`]) may be computed for all arcs of the graph on a
//! slice of the columns (or heads), with one redistribution of what it reads at its vertices and one of
//! what it gives back. Element-wise operators between two aggregations stay on the slices, and so do
//! the carries of loops in which nothing else happens (see [`loops`]).
//!
//! Sums over the axis that is cut (scores' gradients in attention) are *shares*, one a rank, until they
//! are added where they return to rows; only linear operators may see them in between.

mod components;
mod demand;
mod loops;
mod rewrite;

use crate::lower::LowerError;
pub use components::Choice;
use components::Components;
use demand::Demand;
use gnnc_ir::Graph;
use gnnc_ir::kernel::Axis;
use gnnc_ir::op::{Op, Slice};
use gnnc_ir::plan::Layout;

/// The layouts of what can lie either way, of an epoch and of an evaluation: one for each component,
/// those of a graph before those of its loops.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layouts {
    /// Of forward and backward graph.
    pub epoch: Vec<Layout>,
    /// Of the forward graph alone.
    pub eval: Vec<Layout>,
}

/// One of several ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// Number of ranks.
    pub ranks: u32,
    /// This rank.
    pub rank: u32,
}

impl Ranks {
    /// The slice of an axis with `of` elements.
    fn slice(&self, axis: Axis, of: u32) -> Slice {
        Slice::new(axis, of, self.ranks, self.rank)
    }
}

/// The graph in which the chosen aggregations are computed on column slices, as one rank runs it.
/// Vertex tensors outside of aggregations stay by rows, and so do aggregations that cannot be cut.
///
/// # Errors
/// A bug in the pass.
pub fn by_columns(graph: &Graph, ranks: Ranks, choice: &Choice) -> Result<Graph, LowerError> {
    let components = Components::find(graph, ranks.ranks, choice);
    let loops = loops::find(graph, ranks, choice)?;
    let results = vec![None; graph.results.len()];
    let demand = Demand::new(graph, &components, &loops, &[], &results);
    rewrite::rewrite(graph, &components, &loops, &demand, ranks)
}

/// Number of components of a graph, loop bodies included, that can be cut.
pub fn movable(graph: &Graph, ranks: u32) -> usize {
    let choice = Choice::default();
    count(graph, ranks, &choice);
    choice.found()
}

fn count(graph: &Graph, ranks: u32, choice: &Choice) {
    Components::find(graph, ranks, choice);
    for node in &graph.nodes {
        if let Op::Scan(scan) = &node.op {
            count(&scan.body, ranks, choice);
        }
    }
}

/// Why aggregations of a graph, loop bodies included, stay by rows when columns are cut.
pub fn uncut(graph: &Graph, ranks: u32) -> Vec<String> {
    let mut reasons = Components::find(graph, ranks, &Choice::default()).refused;
    for node in &graph.nodes {
        if let Op::Scan(scan) = &node.op {
            reasons.extend(uncut(&scan.body, ranks));
        }
    }
    reasons.sort_unstable();
    reasons.dedup();
    reasons
}

/// The axes, in the order in which they are tried.
const AXES: [Axis; 2] = [Axis::Heads, Axis::Width];

fn index(axis: Axis) -> usize {
    axis as usize
}
