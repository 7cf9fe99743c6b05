//! Which tensors lie by columns: message passing on slices of the columns (NeutronTP, section 3.1).
//!
//! Dense products need whole rows; an aggregation needs all rows but treats columns alike. So every
//! connected set of arc tensors (see [`components`]) may be computed for all arcs of the graph on a
//! slice of the columns (or heads), with one redistribution of what it reads at its vertices and one of
//! what it gives back. Element-wise operators between two aggregations stay on the slices, and so do
//! the carries of loops in which nothing else happens (see [`loops`]).
//!
//! The input features may lie by slices of their columns from the start (see [`features`]).
//!
//! Sums over the axis that is cut (scores' gradients in attention) are *shares*, one a rank, until they
//! are added where they return to rows; only linear operators may see them in between.

mod components;
mod demand;
mod features;
mod loops;
mod rewrite;
mod shares;

use crate::lower::LowerError;
pub use components::Choice;
use components::Components;
use demand::Demand;
use gnnc_ir::kernel::Axis;
use gnnc_ir::op::{Op, Slice};
use gnnc_ir::plan::Layout;
use gnnc_ir::{Graph, NodeId};

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
    placed(graph, ranks, choice, &components)
}

fn placed(
    graph: &Graph,
    ranks: Ranks,
    choice: &Choice,
    components: &Components,
) -> Result<Graph, LowerError> {
    let loops = loops::find(graph, ranks, choice)?;
    let results = vec![None; graph.results.len()];
    let demand = Demand::new(graph, components, &loops, &[], &results);
    rewrite::rewrite(graph, components, &loops, &demand, ranks)
}

/// The graphs of a training step and of an evaluation in which the input features lie by slices of
/// their columns and everything up to the products that contract them is computed there. All else
/// is by rows.
///
/// # Errors
/// [`LowerError::Illegal`] if no product contracts the columns of the features; a bug in the pass.
pub fn by_features(graphs: &Graphs, ranks: Ranks) -> Result<Graphs, LowerError> {
    let mut step = OnSlices::new(&graphs.step, ranks);
    let mut eval = OnSlices::new(&graphs.eval, ranks);
    let mut allowed = vec![true; graphs.step.params.len()];
    let grads: Vec<Option<NodeId>> = graphs
        .grads
        .iter()
        .map(|grad| grad.map(|g| graphs.step.results[g]))
        .collect();
    // A parameter is cut in both graphs, or in none.
    loop {
        let [a, b] = [step.place(&grads, &allowed), eval.place(&[], &allowed)];
        let both = a.iter().zip(&b).map(|(a, b)| a.is_some() && a == b);
        let both: Vec<bool> = both.collect();
        let settled = |cut: &[Option<u32>]| cut.iter().zip(&both).all(|(c, b)| c.is_some() == *b);
        if settled(&a) && settled(&b) {
            break;
        }
        allowed = both;
    }
    if step.cut().iter().all(Option::is_none) {
        return Err(eval.nothing_to_contract());
    }
    Ok(Graphs {
        step: step.write()?,
        eval: eval.write()?,
        grads: graphs.grads.clone(),
    })
}

/// A graph and what of it is computed on slices of the features.
struct OnSlices<'a> {
    graph: &'a Graph,
    ranks: Ranks,
    choice: Choice,
    components: Components,
}

impl<'a> OnSlices<'a> {
    fn new(graph: &'a Graph, ranks: Ranks) -> Self {
        let all = Components::find(graph, ranks.ranks, &Choice::default());
        let choice = Choice::only(&features::local(graph, ranks.ranks, &all));
        let components = Components::find(graph, ranks.ranks, &choice);
        Self {
            graph,
            ranks,
            choice,
            components,
        }
    }

    /// Finds how nodes lie; the blocks of each parameter that is cut.
    fn place(&mut self, grads: &[Option<NodeId>], allowed: &[bool]) -> Vec<Option<u32>> {
        let (graph, components) = (self.graph, &self.components);
        let places = features::find(graph, self.ranks.ranks, components, (grads, allowed));
        self.components.places = places;
        self.cut()
    }

    fn cut(&self) -> Vec<Option<u32>> {
        features::cut(self.graph, &self.components.places)
    }

    fn write(&self) -> Result<Graph, LowerError> {
        placed(self.graph, self.ranks, &self.choice, &self.components)
    }

    fn nothing_to_contract(&self) -> LowerError {
        let places = &self.components.places;
        let found = features::breaker(self.graph, self.ranks.ranks, places)
            .unwrap_or_else(|| "nothing reads more than one column of the features".to_owned());
        LowerError::Illegal(format!(
            "push-pull needs a product of the features with a parameter, and before it only what \
             treats columns alike; {found}; let a linear layer read the features, or take placement \
             graph or tensor"
        ))
    }
}

/// The graphs of a model.
#[derive(Clone, Debug)]
pub struct Graphs {
    /// A training step.
    pub step: Graph,
    /// For each parameter, the result of `step` that is its gradient.
    pub grads: Vec<Option<usize>>,
    /// An evaluation.
    pub eval: Graph,
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
