//! Connected sets of edge tensors, and the axis along which each can be cut.

use super::features::Place;
use super::index;
use crate::fixed::given;
use gnnc_ir::graph::op::{Op, Slice};
use gnnc_ir::kernel::Axis;
use gnnc_ir::plan::Layout;
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::{Graph, Node, NodeId, Rows, Type};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// How a graph's edge tensors are cut.
#[derive(Clone)]
pub(super) struct Components {
    /// For each edge tensor, and each vertex tensor gathered from edges: the axis along which its
    /// component is cut. `None` if it stays by rows.
    pub cut: Vec<Option<Axis>>,
    /// Whether a node on slices is one rank's share of a sum.
    pub share: Vec<bool>,
    /// Whether the padding of a node's slice is 0 (see [`Slice`]).
    pub zero: Vec<bool>,
    /// The components that stay by rows, and why.
    pub refused: Vec<(Vec<NodeId>, String)>,
    /// Tensors of one number per edge that no parameter enters, such as norms, and in a batch per
    /// vertex. They belong to no component and are computed wherever they are read.
    pub free: Vec<bool>,
    /// The components that can be cut, in the order in which a [`Choice`] covers them.
    pub sets: Vec<Vec<NodeId>>,
    /// How nodes are laid out if the input features are in slices.
    pub places: Vec<Place>,
}

impl Components {
    /// Finds the components and chooses their axes: heads if every rank gets at least one,
    /// otherwise columns. Components that `choice` leaves by rows have no axis.
    pub fn find(graph: &Graph, ranks: u32, choice: &Choice) -> Self {
        let free = free(graph);
        let group = groups(graph, &free);
        let mut found = Self {
            cut: vec![None; graph.nodes.len()],
            share: vec![false; graph.nodes.len()],
            zero: vec![false; graph.nodes.len()],
            refused: Vec::new(),
            free,
            sets: Vec::new(),
            places: vec![Place::Elsewhere; graph.nodes.len()],
        };
        let mut arriving = [Arriving::of(graph), Arriving::of(graph)];
        let mut by_root: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
        for (id, _) in graph.iter() {
            if let Some(root) = group[id.0 as usize] {
                by_root.entry(root).or_default().push(id);
            }
        }
        for members in by_root.into_values() {
            let heads = members.iter().map(|id| graph.ty(*id).heads).max();
            let axes: &[Axis] = if heads.unwrap_or(1) >= ranks.max(2) {
                &[Axis::Heads, Axis::Width]
            } else {
                &[Axis::Width]
            };
            let mut tried = Vec::new();
            for axis in axes {
                let arriving = &mut arriving[index(*axis)];
                arriving.find(graph, &members, *axis, &found.zero);
                tried.push((*axis, states(graph, &members, (*axis, arriving), ranks)));
            }
            match tried.iter().find(|(_, states)| states.is_ok()) {
                Some((axis, Ok(states))) => {
                    if choice.next() {
                        for (id, state) in members.iter().zip(states) {
                            found.cut[id.0 as usize] = Some(*axis);
                            found.share[id.0 as usize] = state.share;
                            found.zero[id.0 as usize] = state.zero;
                        }
                        for known in &mut arriving {
                            known.forget(&members);
                        }
                    }
                    found.sets.push(members);
                }
                _ => {
                    let why: Vec<String> = tried
                        .into_iter()
                        .filter_map(|(_, states)| states.err())
                        .collect();
                    found.refused.push((members, why.join("; ")));
                }
            }
        }
        found
    }
}

impl Components {
    /// Whether a node needed both on slices and by rows is computed both ways. The features are
    /// available either way without a message, and so is everything computed from them element by
    /// element.
    pub fn both(&self, id: NodeId) -> bool {
        let n = id.0 as usize;
        let near = self.places[n].columns().is_some_and(|c| !c.tied);
        self.free[n] || self.cut[n].is_none() && near
    }
}

/// Which of the cuttable components are cut, in the order in which they are found: a graph's own
/// first, then those of its loops.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    layouts: Vec<Layout>,
    found: Cell<usize>,
}

impl Choice {
    /// The given layouts; any further components are cut.
    pub fn new(layouts: &[Layout]) -> Self {
        Self {
            layouts: layouts.to_vec(),
            ..Self::default()
        }
    }

    /// Number of components found.
    pub fn found(&self) -> usize {
        self.found.get()
    }

    fn next(&self) -> bool {
        let n = self.found.replace(self.found.get() + 1);
        self.layouts.get(n) != Some(&Layout::Rows)
    }
}

/// Tensors of one number per edge, or per vertex of a batch, that no parameter enters.
fn free(graph: &Graph) -> Vec<bool> {
    let given = given(graph);
    let mut free: Vec<bool> = Vec::with_capacity(graph.nodes.len());
    for (id, node) in graph.iter() {
        let known = |i: &NodeId| {
            let ty = graph.ty(*i);
            ty.columns() == 1
                && ty.stack == 0
                && (free[i.0 as usize] || ty.rows.edge_set().is_none())
        };
        let anywhere = node.ty.rows.edge_set().is_some() || node.ty.rows.of_batch();
        let narrow = anywhere && node.ty.columns() == 1;
        free.push(narrow && given[id.0 as usize] && node.inputs.iter().all(known));
    }
    free
}

/// For each edge tensor, and each vertex tensor gathered from edges, the number of its component.
fn groups(graph: &Graph, free: &[bool]) -> Vec<Option<usize>> {
    let mut parent: Vec<usize> = (0..graph.nodes.len()).collect();
    fn root(parent: &mut [usize], mut n: usize) -> usize {
        while parent[n] != n {
            parent[n] = parent[parent[n]];
            n = parent[n];
        }
        n
    }
    let is_edge = |id: NodeId| graph.ty(id).rows.edge_set().is_some() && !free[id.0 as usize];
    let member = |id: NodeId| is_edge(id) || graph.node(id).inputs.iter().any(|i| is_edge(*i));
    for (id, node) in graph.iter() {
        // A vertex tensor gathered from edges that goes straight back to edges stays in place.
        let back = |input: NodeId| matches!(node.op, Op::Take(..)) && member(input);
        for input in node.inputs.iter().filter(|i| is_edge(**i) || back(**i)) {
            let (a, b) = (
                root(&mut parent, id.0 as usize),
                root(&mut parent, input.0 as usize),
            );
            parent[a.max(b)] = a.min(b);
        }
    }
    graph
        .iter()
        .map(|(id, _)| member(id).then(|| root(&mut parent, id.0 as usize)))
        .collect()
}

/// Whether a tensor is cut along an axis; otherwise every rank holds it whole.
pub(super) fn sliced(ty: Type, axis: Axis) -> bool {
    match axis {
        Axis::Heads => ty.heads > 1,
        Axis::Width => ty.width > 1,
    }
}

/// Properties of a tensor on slices.
#[derive(Clone, Copy, Default)]
struct State {
    /// It is one rank's share of a sum.
    share: bool,
    /// The padding of a slice is 0 (see [`Slice`]).
    zero: bool,
}

/// The properties of members if the component is cut along `axis`.
///
/// # Errors
/// Why it cannot be cut this way.
fn states(
    graph: &Graph,
    members: &[NodeId],
    (axis, arriving): (Axis, &Arriving),
    ranks: u32,
) -> Result<Vec<State>, String> {
    let mut states: BTreeMap<NodeId, State> = BTreeMap::new();
    for id in members {
        let node = graph.node(*id);
        if graph.results.contains(id) && node.ty.rows.edge_set().is_some() {
            return Err("an edge tensor that leaves its loop stays by rows".to_owned());
        }
        let state = transfer(graph, node, (&states, arriving), axis, ranks)
            .map_err(|why| format!("{} cannot be cut: {why}", node.op))?;
        states.insert(*id, state);
    }
    Ok(members.iter().map(|id| states[id]).collect())
}

/// Whether the padding of vertex tensors on slices of an axis is 0 where edges take them: it arrives as 0, and
/// element-wise functions that stay on slices may preserve it. `None` for tensors that no edge has taken yet. Components
/// share what they find, since those of residual layers depend on all layers before.
struct Arriving(Vec<Option<bool>>);

impl Arriving {
    fn of(graph: &Graph) -> Self {
        Self(vec![None; graph.nodes.len()])
    }

    fn is_zero(&self, id: NodeId) -> bool {
        self.0[id.0 as usize] == Some(true)
    }

    /// Forgets what was found if it may depend on `members`, which have become part of a cut component since.
    fn forget(&mut self, members: &[NodeId]) {
        if members.iter().any(|id| self.0[id.0 as usize].is_some()) {
            self.0.fill(None);
        }
    }

    /// Finds what edges among `members` take. `zero` says for earlier components whether their padding is 0.
    fn find(&mut self, graph: &Graph, members: &[NodeId], axis: Axis, zero: &[bool]) {
        let element_wise =
            |node: &Node| matches!(node.op, Op::Unary(_) | Op::Binary(_) | Op::Dropout { .. });
        let taken = members.iter().map(|id| graph.node(*id));
        let taken = taken.filter(|node| matches!(node.op, Op::Take(..)));
        let mut waiting: Vec<NodeId> = taken.map(|node| node.inputs[0]).collect();
        let mut asked: BTreeSet<NodeId> = BTreeSet::new();
        while let Some(id) = waiting.pop() {
            let is_known = self.0[id.0 as usize].is_some();
            if !is_known && asked.insert(id) && element_wise(graph.node(id)) {
                waiting.extend(&graph.node(id).inputs);
            }
        }
        for id in asked {
            let node = graph.node(id);
            let cut = |n: usize| sliced(graph.ty(node.inputs[n]), axis);
            let of = |n: usize| self.is_zero(node.inputs[n]) && cut(n);
            let arrives = match node.op {
                Op::Arg(_) | Op::Out(_) => false,
                Op::Unary(f) => f.eval(0.0) == 0.0 && of(0),
                Op::Dropout { .. } => of(0),
                Op::Binary(Binary::Mul) => of(0) || of(1),
                Op::Binary(Binary::Div) => of(0) && !cut(1),
                Op::Binary(_) => of(0) && of(1),
                // Members of a cut component may have stayed on slices.
                Op::Gather(..) => zero[id.0 as usize],
                Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Table(_) | Op::Broadcast(_) => {
                    true
                }
                Op::Take(..) | Op::Blend | Op::Copies(..) | Op::Clip(..) | Op::GatherMean(_) => {
                    true
                }
                Op::EdgeSoftmax(_) | Op::Pick | Op::PickSum(_) | Op::PickHead => true,
                Op::PlaceHead(_) | Op::MatMul | Op::MatMulNT | Op::MatMulTN => true,
                Op::Reshape { .. } | Op::Concat | Op::SliceCols { .. } | Op::PadCols { .. } => true,
                Op::SliceRows { .. } | Op::PadRows { .. } | Op::ReduceCols(..) | Op::SumRows => {
                    true
                }
                Op::Redistribute(_) | Op::SumRanks | Op::Loss(_) | Op::LossGrad(_) => true,
                Op::Scan(_) | Op::Sampled(_) => true,
            };
            self.0[id.0 as usize] = Some(arrives);
        }
    }
}

fn transfer(
    graph: &Graph,
    node: &Node,
    (states, arriving): (&BTreeMap<NodeId, State>, &Arriving),
    axis: Axis,
    ranks: u32,
) -> Result<State, &'static str> {
    let state = |id: &NodeId| states.get(id).copied().unwrap_or_default();
    let of: Vec<State> = node.inputs.iter().map(state).collect();
    let share = of.iter().any(|s| s.share);
    let zero = of.iter().any(|s| s.zero);
    let all_zero = of.iter().all(|s| s.zero);
    let edge = |id: NodeId| graph.ty(id).rows.edge_set().is_some();
    let cut = |id: NodeId| edge(id) && sliced(graph.ty(id), axis);
    // Operands shared by all edges must not depend on the axis.
    let fits = node
        .inputs
        .iter()
        .all(|i| !matches!(graph.ty(*i).rows, Rows::Fixed(_)) || !sliced(graph.ty(*i), axis));
    if !fits {
        return Err("it reads columns of a tensor that is not cut");
    }
    if node.inputs.iter().any(|i| graph.ty(*i).stack != 0) {
        return Err("it reads a stack of tensors");
    }
    let whole = |zero| match share {
        true => Err("it is not linear in a sum over columns"),
        false => Ok(State { share, zero }),
    };
    match &node.op {
        Op::Take(..) => {
            let from = graph.node(node.inputs[0]);
            let arrives = arriving.is_zero(node.inputs[0]);
            let gathered = from.inputs.iter().any(|i| edge(*i));
            let zero = if gathered { zero } else { arrives };
            Ok(State {
                share,
                zero: zero && sliced(from.ty, axis),
            })
        }
        Op::Unary(Unary::Neg) => Ok(State { share, zero }),
        Op::Gather(_, _, reduce) if reduce.is_linear() => Ok(State { share, zero }),
        Op::Broadcast(_) => Ok(State { share, zero: false }),
        Op::Gather(..) => whole(zero),
        Op::EdgeSoftmax(_) => whole(false),
        Op::Unary(f) => whole(zero && f.eval(0.0) == 0.0),
        Op::Binary(f) => {
            if share && node.inputs.iter().any(|i| cut(*i)) {
                return Err("it combines a sum over columns with columns");
            }
            match (f, of[0].share, of[1].share) {
                (Binary::Add | Binary::Sub, a, b) if a != b => {
                    Err("it adds a partial sum over columns to a complete tensor")
                }
                (Binary::Mul, true, true)
                | (Binary::Div, _, true)
                | (Binary::Max | Binary::Eq, true, _)
                | (Binary::Max | Binary::Eq, _, true) => {
                    Err("it is not linear in a sum over columns")
                }
                (Binary::Mul, ..) => Ok(State { share, zero }),
                (Binary::Div, ..) => Ok(State {
                    share,
                    zero: of[0].zero && !cut(node.inputs[1]),
                }),
                (Binary::Eq, ..) => Ok(State { share, zero: false }),
                _ => Ok(State {
                    share,
                    zero: all_zero,
                }),
            }
        }
        Op::Dropout { .. } => Ok(State { share, zero }),
        Op::ReduceCols(along, reduce) => {
            let size = match axis {
                Axis::Heads => graph.ty(node.inputs[0]).heads,
                Axis::Width => graph.ty(node.inputs[0]).width,
            };
            match (*along == axis && size > 1, reduce.is_linear()) {
                (true, false) => Err("it takes a maximum over columns"),
                (true, true) if Slice::padded(size, ranks) && !zero => {
                    Err("some ranks have fewer columns to add")
                }
                (true, true) => Ok(State {
                    share: true,
                    zero: false,
                }),
                (false, true) => Ok(State { share, zero }),
                (false, false) => whole(zero),
            }
        }
        // Like the table, the picked row is whole on every rank: its columns are not the ones cut.
        Op::Pick => Ok(State::default()),
        Op::PickHead | Op::PlaceHead(_) if axis == Axis::Heads => Err("it picks one of the heads"),
        Op::PickHead | Op::PlaceHead(_) => Ok(State { share, zero }),
        // Shares of the sums are added up like sums of other ranks' rows.
        Op::PickSum(_) if !cut(node.inputs[0]) => Ok(State { share, zero: false }),
        Op::SumRows if share || cut(node.inputs[0]) => Err("it sums columns into a weight"),
        Op::SumRows => Ok(State::default()),
        Op::Input(_)
        | Op::Param(_)
        | Op::Const(_)
        | Op::Table(_)
        | Op::Arg(_)
        | Op::Blend
        | Op::Sampled(_)
        | Op::Copies(..)
        | Op::Clip(..)
        | Op::GatherMean(_)
        | Op::PickSum(_)
        | Op::MatMul
        | Op::MatMulNT
        | Op::MatMulTN
        | Op::Reshape { .. }
        | Op::Concat
        | Op::SliceCols { .. }
        | Op::PadCols { .. }
        | Op::SliceRows { .. }
        | Op::PadRows { .. }
        | Op::Redistribute(_)
        | Op::SumRanks
        | Op::Loss(_)
        | Op::LossGrad(_)
        | Op::Scan(_)
        | Op::Out(_) => Err("it mixes or moves columns"),
    }
}
