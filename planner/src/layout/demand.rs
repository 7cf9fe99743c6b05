//! In which layouts every node is available, and in which it is needed.

use super::components::Components;
use super::features::Place;
use super::loops::Loop;
use super::{AXES, index};
use gnnc_ir::graph::op::{Op, Product, ValueOrigin};
use gnnc_ir::kernel::Axis;
use gnnc_ir::{Graph, Node, NodeId, Rows};

/// The layouts in which a node is needed: by rows (or as it is, if it has no vertex rows), on
/// slices along each axis, and as a copy of all rows on every rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Needed {
    pub rows: bool,
    pub slices: [bool; 2],
    pub copied: bool,
}

/// The demand within a region.
pub(super) struct Demand {
    /// The axis along which a node is available on slices without a message: edge tensors and
    /// gathered vertex tensors of a cut component, arguments that come on slices, results of loops
    /// carried on slices, element-wise functions of all these, and slices of features.
    pub near: Vec<Option<Axis>>,
    /// The layouts in which each node is needed.
    pub needed: Vec<Needed>,
    /// The layouts in which the results are wanted; `None` means by rows.
    pub results: Vec<Option<Axis>>,
}

impl Demand {
    /// Analyzes a region whose arguments come on slices along the given axes, and also by rows
    /// where needed.
    pub fn new(
        graph: &Graph,
        components: &Components,
        loops: &[Option<Loop>],
        args: &[Option<Axis>],
        results: &[Option<Axis>],
    ) -> Self {
        let mut demand = Self {
            near: near(graph, components, loops, args),
            needed: vec![Needed::default(); graph.nodes.len()],
            results: results.to_vec(),
        };
        demand.find(graph, components, loops);
        demand
    }

    /// Propagates demand from the results down.
    fn find(&mut self, graph: &Graph, components: &Components, loops: &[Option<Loop>]) {
        for (id, axis) in graph.results.iter().zip(self.results.clone()) {
            self.mark(*id, axis);
        }
        for (id, node) in graph.iter().rev() {
            let n = id.0 as usize;
            if components.free[n] {
                self.everywhere(graph, id);
                continue;
            }
            let own = self.near[n];
            let member = components.cut[n];
            let wanted = self.needed[n];
            // A tensor cut along an axis other than the wanted one goes through its rows.
            let far = AXES
                .into_iter()
                .any(|a| wanted.slices[index(a)] && own != Some(a));
            if far {
                self.needed[n].rows = true;
            }
            self.needed[n].rows |= wanted.copied;
            // If a value is computed on slices anyway, its rows come from there.
            let back = self.needed[n].rows && (member.is_some() || is_result(&node.op));
            if let Some(axis) = own.filter(|_| back && !matches!(node.op, Op::Arg(_))) {
                self.needed[n].slices[index(axis)] = true;
            }
            let Needed { rows, slices, .. } = self.needed[n];
            let here = own.filter(|axis| slices[index(*axis)]);
            if let Some(plan) = loops[n].as_ref().filter(|_| rows) {
                for (position, input) in node.inputs.iter().enumerate() {
                    if plan.slices[position] {
                        self.mark(*input, Some(plan.axis));
                    }
                    if plan.rows[position] {
                        self.mark(*input, None);
                    }
                }
            } else if is_result(&node.op) && (rows || here.is_some()) {
                self.mark(node.inputs[0], None);
            } else if self.of_features(node, components.places[n], (here.is_some(), rows)) {
                continue;
            } else if let Some(axis) = here {
                self.operands(graph, id, axis);
                if rows && components.both(id) {
                    node.inputs.iter().for_each(|i| self.mark(*i, None));
                }
            } else if let (Some(axis), true) = (member, rows) {
                // A sum over all edges, which every rank has whole.
                self.operands(graph, id, axis);
            } else if rows {
                node.inputs.iter().for_each(|i| self.mark(*i, None));
            }
        }
    }

    /// Marks the operands of a node that is computed separately in every layout in which it is
    /// needed.
    fn everywhere(&mut self, graph: &Graph, id: NodeId) {
        let Needed { rows, slices, .. } = self.needed[id.0 as usize];
        for axis in AXES.into_iter().filter(|axis| slices[index(*axis)]) {
            self.operands(graph, id, axis);
        }
        if rows {
            graph
                .node(id)
                .inputs
                .iter()
                .for_each(|i| self.mark(*i, None));
        }
    }

    /// Marks the operands of a node that is computed on feature slices; false if its operands are
    /// as usual.
    fn of_features(&mut self, node: &Node, place: Place, (here, rows): (bool, bool)) -> bool {
        let on_slices = Some(Axis::Width);
        match (place, node.op.product(), &node.inputs[..]) {
            (Place::Share | Place::Sums, _, [x, rest @ ..]) if rows => {
                self.mark(*x, on_slices);
                rest.iter().for_each(|i| self.mark(*i, None));
            }
            (Place::Rows(_), Some(Product::Tn), [x, g]) if rows => {
                self.mark(*x, on_slices);
                self.needed[g.0 as usize].copied = true;
            }
            (Place::Columns(_), Some(Product::Nt), [g, w]) if here => {
                self.needed[g.0 as usize].copied = true;
                self.mark(*w, None);
            }
            _ => return false,
        }
        true
    }

    fn mark(&mut self, id: NodeId, axis: Option<Axis>) {
        let needed = &mut self.needed[id.0 as usize];
        match axis {
            Some(axis) => needed.slices[index(axis)] = true,
            None => needed.rows = true,
        }
    }

    /// Marks the operands of a node on slices.
    fn operands(&mut self, graph: &Graph, id: NodeId, axis: Axis) {
        for input in &graph.node(id).inputs {
            let fixed = matches!(graph.ty(*input).rows, Rows::Fixed(_));
            self.mark(*input, (!fixed).then_some(axis));
        }
    }
}

/// Whether a node is a loop's result.
fn is_result(op: &Op) -> bool {
    matches!(op, Op::Out(_))
}

fn near(
    graph: &Graph,
    components: &Components,
    loops: &[Option<Loop>],
    args: &[Option<Axis>],
) -> Vec<Option<Axis>> {
    let mut near: Vec<Option<Axis>> = vec![None; graph.nodes.len()];
    let fixed = crate::fixed::fixed(graph, &[]);
    for (id, node) in graph.iter() {
        let n = id.0 as usize;
        if matches!(node.ty.rows, Rows::Fixed(_)) {
            continue;
        }
        let elements = matches!(
            node.op,
            Op::Unary(_) | Op::Binary(_) | Op::Dropout { .. } if node.ty.rows.spread().is_some()
        );
        near[n] = match node.op.origin() {
            _ if components.places[n].columns().is_some() => Some(Axis::Width),
            ValueOrigin::Arg(k) => args.get(k as usize).copied().flatten(),
            ValueOrigin::Out(k) => loops[node.inputs[0].0 as usize]
                .as_ref()
                .filter(|plan| plan.carried(k as usize))
                .map(|plan| plan.axis),
            _ if components.cut[n].is_some() => components.cut[n],
            ValueOrigin::Operands if elements => {
                let axis = node.inputs.iter().find_map(|i| near[i.0 as usize]);
                // The other operands are constant columns, such as degrees.
                axis.filter(|axis| {
                    node.inputs.iter().all(|i| {
                        let (ty, n) = (graph.ty(*i), i.0 as usize);
                        let narrow = ty.columns() == 1 && fixed[n] && ty.stack == 0;
                        let blocks = components.places[n].columns().map_or(1, |c| c.blocks);
                        let same = near[n] == Some(*axis) && blocks == 1;
                        !components.share[n] && (same || narrow)
                    })
                })
            }
            _ => None,
        };
    }
    near
}
