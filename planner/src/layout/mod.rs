//! Tensor layouts: which tensors are laid out by columns, so that message passing runs on slices of
//! the columns (NeutronTP, section 3.1).
//!
//! Dense products need whole rows; an aggregation needs all rows but treats columns alike. So every
//! connected set of edge tensors (see `components`) may be computed for all edges of the graph on a
//! slice of the columns (or heads), with one redistribution of its vertex inputs and one of its
//! outputs. Element-wise operators between two aggregations stay on the slices. So do the carries
//! of loops that do nothing else (see `loops`).
//!
//! The input features may be in slices of their columns from the start (see `features`), whatever
//! the other layouts are. [`Pure`] holds the layouts of the pure placements.
//!
//! Sums over the cut axis (gradients of attention scores) are *shares*, one per rank, until they
//! are added on their way back to rows. Only linear operators may see them in between.

mod components;
mod demand;
mod features;
mod loops;
mod rewrite;
mod shares;

use crate::error::LowerError;
use components::{Choice, Components};
use demand::Demand;
use gnnc_ir::graph::op::{Op, Slice};
use gnnc_ir::kernel::Axis;
use gnnc_ir::plan::{Layout, Layouts};
use gnnc_ir::words::mesh::Mesh;
use gnnc_ir::{Graph, NodeId, Type};
use loops::Loop;
use std::collections::BTreeMap;

/// The layouts of the pure placements. All mixtures have the same lengths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pure {
    /// Everything by rows.
    pub graph: Layouts,
    /// All components by columns.
    pub tensor: Layouts,
    /// The features by columns, with the components that read nothing else.
    pub push_pull: Layouts,
    /// A number for each component of the epoch, then of the evaluation: the same for those that are alike, such
    /// as those of layers that are written out one by one.
    pub alike: Vec<usize>,
    /// What those of each number compute.
    pub kinds: Vec<Kind>,
}

/// What a component computes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// Whether it is one of the evaluation.
    evaluates: bool,
    /// Its operators, and the types of their results.
    operators: Vec<(String, Type)>,
}

/// A component that cannot be cut into columns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uncut {
    /// The tensor after which it is called.
    pub name: String,
    /// Why it stays by rows.
    pub why: String,
}

impl Pure {
    /// The pure layouts of a model's graphs.
    pub fn of(graphs: &Graphs, ranks: u32) -> Self {
        let [step, eval] = [&graphs.step, &graphs.eval].map(|graph| first(graph, ranks));
        let mut numbers: BTreeMap<Kind, usize> = BTreeMap::new();
        let (mut alike, mut kinds) = (Vec::new(), Vec::new());
        for (evaluates, graph) in [(false, &graphs.step), (true, &graphs.eval)] {
            for operators in operators_of(graph, ranks) {
                let kind = Kind {
                    evaluates,
                    operators,
                };
                let number = *numbers.entry(kind).or_insert_with_key(|kind| {
                    kinds.push(kind.clone());
                    kinds.len() - 1
                });
                alike.push(number);
            }
        }
        let all = |layout| Layouts {
            features: Layout::Rows,
            epoch: vec![layout; step.len()],
            eval: vec![layout; eval.len()],
        };
        Self {
            graph: all(Layout::Rows),
            tensor: all(Layout::Columns),
            push_pull: Layouts {
                features: Layout::Columns,
                epoch: step,
                eval,
            },
            alike,
            kinds,
        }
    }
}

/// The tensors after which the components of a graph that can be cut are called, in the order of the layouts.
pub fn names(graph: &Graph, ranks: u32) -> Vec<String> {
    let components = Components::find(graph, ranks, &Choice::default());
    let own = components.sets.iter();
    let mut names: Vec<String> = own.map(|set| called(graph, set)).collect();
    for node in &graph.nodes {
        if let Op::Scan(scan) = &node.op {
            names.extend(self::names(&scan.body, ranks));
        }
    }
    names
}

/// Columns of the narrowest component of a graph that can be cut: among more ranks, some have none of its own. 0 if there is
/// no component.
pub fn narrowest(graph: &Graph) -> u32 {
    let components = Components::find(graph, 2, &Choice::default());
    let columns = |set: &Vec<NodeId>| {
        let columns = set.iter().map(|id| graph.ty(*id).columns());
        columns.max().unwrap_or(0)
    };
    let own = components.sets.iter().map(columns);
    let in_loops = graph.nodes.iter().filter_map(|node| {
        if let Op::Scan(scan) = &node.op {
            Some(narrowest(&scan.body)).filter(|columns| *columns > 0)
        } else {
            None
        }
    });
    own.chain(in_loops).min().unwrap_or(0)
}

/// The name of a component: that of the first tensor gathered from edges, or of its first one.
fn called(graph: &Graph, members: &[NodeId]) -> String {
    let gathers = |id: &&NodeId| matches!(graph.node(**id).op, Op::Gather(..));
    let first = members.iter().find(gathers).or(members.first());
    first.map_or_else(String::new, |id| graph.tensor_name(*id))
}

/// Columns for components that read only the features, rows for the others.
fn first(graph: &Graph, ranks: u32) -> Vec<Layout> {
    let choice = Choice::default();
    let components = Components::find(graph, ranks, &choice);
    count(graph, ranks, &choice);
    let local = features::local(graph, ranks, &components);
    let layout = |local: &bool| match local {
        true => Layout::Columns,
        false => Layout::Rows,
    };
    let mut layouts: Vec<Layout> = local.iter().map(layout).collect();
    layouts.resize(choice.found(), Layout::Rows);
    layouts
}

/// What each component computes, in the order of the layouts: its operators, and the types of their results.
fn operators_of(graph: &Graph, ranks: u32) -> Vec<Vec<(String, Type)>> {
    let components = Components::find(graph, ranks, &Choice::default());
    let of = |id: &NodeId| (graph.node(*id).op.to_string(), graph.ty(*id));
    let own = components.sets.iter();
    let mut kinds: Vec<_> = own.map(|set| set.iter().map(of).collect()).collect();
    for node in &graph.nodes {
        if let Op::Scan(scan) = &node.op {
            kinds.extend(operators_of(&scan.body, ranks));
        }
    }
    kinds
}

/// Counts the components in loops.
fn count(graph: &Graph, ranks: u32, choice: &Choice) {
    for node in &graph.nodes {
        if let Op::Scan(scan) = &node.op {
            Components::find(&scan.body, ranks, choice);
            count(&scan.body, ranks, choice);
        }
    }
}

/// One of several ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// Number of ranks.
    pub ranks: u32,
    /// This rank.
    pub rank: u32,
    /// How slices are spread over the ranks, if several have the same.
    pub mesh: Option<Mesh>,
    /// Whether the program computes the same bits on any number of ranks.
    pub equal_bits: bool,
}

impl Ranks {
    /// One of several ranks, each of which has slices of its own.
    pub fn new(ranks: u32, rank: u32) -> Self {
        Self {
            ranks,
            rank,
            mesh: None,
            equal_bits: false,
        }
    }

    fn mesh(&self) -> Mesh {
        self.mesh.unwrap_or(Mesh::whole(self.ranks))
    }

    /// Number of slices.
    pub fn slices(&self) -> u32 {
        self.mesh().slices
    }

    /// The slice of an axis with `of` elements.
    fn slice(&self, axis: Axis, of: u32) -> Slice {
        let own = self.mesh().slice(self.ranks, self.rank);
        Slice::new(axis, of, self.slices(), own)
    }
}

/// The graphs of a training step and of an evaluation, with tensors in the given layouts. Vertex
/// tensors outside of aggregations are by rows, and so are aggregations that cannot be cut. If the
/// features are by columns, so is everything up to the products that contract them.
///
/// # Errors
/// [`LowerError::Layouts`] if there are more or fewer layouts than components;
/// [`LowerError::Illegal`] if the features should be by columns and no product contracts them
/// there; a bug in the pass.
pub fn lay_out(graphs: &Graphs, ranks: Ranks, layouts: &Layouts) -> Result<Graphs, LowerError> {
    let mut step = Placing::new(&graphs.step, ranks, ("an epoch", &layouts.epoch))?;
    let mut eval = Placing::new(&graphs.eval, ranks, ("an evaluation", &layouts.eval))?;
    if layouts.features == Layout::Columns {
        with_features([&mut step, &mut eval], graphs)?;
    }
    Ok(Graphs {
        step: step.write()?,
        eval: eval.write()?,
        grads: graphs.grads.clone(),
    })
}

/// Finds the nodes computed on feature slices. A parameter is cut in both graphs or in neither.
fn with_features([step, eval]: [&mut Placing; 2], graphs: &Graphs) -> Result<(), LowerError> {
    let mut allowed = vec![true; graphs.step.params.len()];
    let grads = graphs.grads.iter();
    let grads: Vec<Option<NodeId>> = grads
        .map(|grad| grad.map(|g| graphs.step.results[g]))
        .collect();
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
    match step.cut().iter().all(Option::is_none) {
        true => Err(eval.nothing_to_contract()),
        false => Ok(()),
    }
}

/// A graph with the layouts of its nodes.
struct Placing<'a> {
    graph: &'a Graph,
    ranks: Ranks,
    components: Components,
    loops: Vec<Option<Loop>>,
}

impl<'a> Placing<'a> {
    fn new(
        graph: &'a Graph,
        ranks: Ranks,
        (what, layouts): (&'static str, &[Layout]),
    ) -> Result<Self, LowerError> {
        let choice = Choice::new(layouts);
        let components = Components::find(graph, ranks.slices(), &choice);
        let loops = loops::find(graph, ranks, &choice)?;
        match choice.found() == layouts.len() {
            true => Ok(Self {
                graph,
                ranks,
                components,
                loops,
            }),
            false => Err(LowerError::Layouts {
                what,
                found: layouts.len(),
                expected: choice.found(),
            }),
        }
    }

    /// Finds the layouts of nodes computed on feature slices. Returns the number of blocks of each
    /// cut parameter.
    fn place(&mut self, grads: &[Option<NodeId>], allowed: &[bool]) -> Vec<Option<u32>> {
        let here = (&self.components, &self.loops[..]);
        let places = features::find(self.graph, self.ranks.slices(), here, (grads, allowed));
        self.components.places = places;
        self.cut()
    }

    fn cut(&self) -> Vec<Option<u32>> {
        features::cut(self.graph, &self.components.places)
    }

    fn write(&self) -> Result<Graph, LowerError> {
        let (graph, components, loops) = (self.graph, &self.components, &self.loops);
        let results = vec![None; graph.results.len()];
        let demand = Demand::new(graph, components, loops, &[], &results);
        rewrite::rewrite(graph, components, loops, &demand, self.ranks)
    }

    fn nothing_to_contract(&self) -> LowerError {
        let places = &self.components.places;
        let found = features::breaker(self.graph, self.ranks.slices(), places)
            .unwrap_or_else(|| "nothing reads more than one column of the features".to_owned());
        LowerError::Illegal(format!(
            "push-pull, or a mixture that begins with it, needs a product of the features with a \
             parameter, after operators that work column by column only; {found}; let a linear layer \
             read the features, or keep them by rows (placement graph or tensor, or a mixture \
             without `feature_layout`)"
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

/// The aggregations of a graph, including those in loops, that stay by rows when columns are cut.
pub fn uncut(graph: &Graph, ranks: u32) -> Vec<Uncut> {
    let found = Components::find(graph, ranks, &Choice::default()).refused;
    let own = found.into_iter().map(|(members, why)| Uncut {
        name: called(graph, &members),
        why,
    });
    let mut all: Vec<Uncut> = own.collect();
    for node in &graph.nodes {
        if let Op::Scan(scan) = &node.op {
            all.extend(uncut(&scan.body, ranks));
        }
    }
    all
}

/// The axes, in the order they are tried.
const AXES: [Axis; 2] = [Axis::Heads, Axis::Width];

fn index(axis: Axis) -> usize {
    axis as usize
}
