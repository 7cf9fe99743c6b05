//! Rewrites a graph with the redistributions its layouts need.

use super::components::{Components, sliced};
use super::demand::Demand;
use super::features::sharded;
use super::loops::Loop;
use super::{AXES, Ranks, index};
use crate::error::LowerError;
use gnnc_ir::graph::infer::TypeError;
use gnnc_ir::graph::op::{Input, Op, Redistribute, Relations, Sampled};
use gnnc_ir::kernel::Axis;
use gnnc_ir::words::types::Level;
use gnnc_ir::{Graph, NodeId, Rows, Type};

/// A region without arguments.
pub(super) fn rewrite(
    graph: &Graph,
    components: &Components,
    loops: &[Option<Loop>],
    demand: &Demand,
    ranks: Ranks,
) -> Result<Graph, LowerError> {
    Writer::new(graph, components, loops, demand, ranks).write()
}

/// Rewrites a loop body. The last argument says which arguments come on slices and which by rows;
/// an argument that comes both ways becomes two, with slices first.
pub(super) fn body(
    graph: &Graph,
    components: &Components,
    loops: &[Option<Loop>],
    demand: &Demand,
    ranks: Ranks,
    [slices, rows]: [&[bool]; 2],
) -> Result<Graph, LowerError> {
    let mut writer = Writer::new(graph, components, loops, demand, ranks);
    let axis = components.cut.iter().flatten().next().copied();
    writer.out.args.clear();
    let mut places = Vec::new();
    for (n, ty) in graph.args.iter().enumerate() {
        let mut place = |present: bool, ty: Type| {
            present.then(|| {
                writer.out.args.push(ty);
                writer.out.args.len() as u32 - 1
            })
        };
        let on_slices = axis.map_or(*ty, |axis| on_rank(*ty, axis, ranks));
        places.push([place(slices[n], on_slices), place(rows[n], *ty)]);
    }
    for (id, node) in graph.iter() {
        let Op::Arg(n) = node.op else {
            continue;
        };
        let [on_slices, by_rows] = places[n as usize];
        let at = id.0 as usize;
        if let (Some(arg), Some(axis)) = (on_slices, axis) {
            writer.slices[at][index(axis)] = Some(writer.add(Op::Arg(arg), &[], node.scope)?);
        }
        if let Some(arg) = by_rows {
            writer.rows[at] = Some(writer.add(Op::Arg(arg), &[], node.scope)?);
        }
    }
    writer.write()
}

pub(super) fn bug(what: &str) -> LowerError {
    LowerError::Internal(format!("layouts: {what}"))
}

/// The same for the edges of the whole graph.
fn whole(relations: Relations) -> Relations {
    Relations {
        all: true,
        ..relations
    }
}

/// The type of a tensor on a rank's slice.
fn on_rank(ty: Type, axis: Axis, ranks: Ranks) -> Type {
    let rows = ty.rows.of_all();
    if rows == ty.rows {
        return ty;
    }
    let mut ty = Type { rows, ..ty };
    if sliced(ty, axis) {
        let size = match axis {
            Axis::Heads => &mut ty.heads,
            Axis::Width => &mut ty.width,
        };
        *size = ranks.slice(axis, *size).len;
    }
    ty
}

/// Length of an axis.
fn size(ty: Type, axis: Axis) -> u32 {
    match axis {
        Axis::Heads => ty.heads,
        Axis::Width => ty.width,
    }
}

pub(super) struct Writer<'a> {
    pub graph: &'a Graph,
    pub components: &'a Components,
    loops: &'a [Option<Loop>],
    demand: &'a Demand,
    pub ranks: Ranks,
    out: Graph,
    /// Each node by rows.
    rows: Vec<Option<NodeId>>,
    /// Each node on slices of heads, and on slices of columns.
    slices: Vec<[Option<NodeId>; 2]>,
    /// Each node as a copy of all rows.
    pub copies: Vec<Option<NodeId>>,
}

impl<'a> Writer<'a> {
    fn new(
        graph: &'a Graph,
        components: &'a Components,
        loops: &'a [Option<Loop>],
        demand: &'a Demand,
        ranks: Ranks,
    ) -> Self {
        Self {
            graph,
            components,
            loops,
            demand,
            ranks,
            out: sharded(graph, components, ranks),
            rows: vec![None; graph.nodes.len()],
            slices: vec![[None; 2]; graph.nodes.len()],
            copies: vec![None; graph.nodes.len()],
        }
    }

    fn write(mut self) -> Result<Graph, LowerError> {
        for (id, node) in self.graph.iter() {
            let n = id.0 as usize;
            let (needed, near) = (self.demand.needed[n], self.demand.near[n]);
            let arg = matches!(node.op, Op::Arg(_));
            for axis in AXES.into_iter().filter(|a| needed.slices[index(*a)]) {
                if self.components.free[n] || near == Some(axis) && !arg {
                    self.on_slices(id, axis)?;
                }
            }
            if needed.rows && !arg {
                self.by_rows(id)?;
            }
            if needed.copied {
                let rows = self.operand(id, None)?;
                let copy = Op::Redistribute(Redistribute::Replicate);
                self.copies[n] = Some(self.add(copy, &[rows], node.scope)?);
            }
            for axis in AXES {
                if needed.slices[index(axis)] && self.slices[n][index(axis)].is_none() {
                    self.cut(id, axis)?;
                }
            }
        }
        let results = self.graph.results.iter().zip(&self.demand.results);
        let results: Option<Vec<NodeId>> = results
            .map(|(r, axis)| match axis {
                Some(axis) => self.slices[r.0 as usize][index(*axis)],
                None => self.rows[r.0 as usize],
            })
            .collect();
        self.out.results = results.ok_or_else(|| bug("a result is missing"))?;
        Ok(self.out)
    }

    pub fn add(&mut self, op: Op, inputs: &[NodeId], scope: u32) -> Result<NodeId, LowerError> {
        let failed = |e: TypeError| LowerError::Internal(format!("layouts: {e}"));
        self.out.add(op, inputs, scope).map_err(failed)
    }

    /// A node on slices, or as it is if it has no vertex rows.
    pub fn operand(&self, id: NodeId, axis: Option<Axis>) -> Result<NodeId, LowerError> {
        let n = id.0 as usize;
        let found = match (self.graph.ty(id).rows, axis) {
            (Rows::Fixed(_), _) | (_, None) => self.rows[n],
            (_, Some(axis)) => self.slices[n][index(axis)],
        };
        found.ok_or_else(|| bug(&format!("{id}, {}, is missing", self.graph.node(id).op)))
    }

    pub fn operands(&self, id: NodeId, axis: Option<Axis>) -> Result<Vec<NodeId>, LowerError> {
        let inputs = self.graph.node(id).inputs.iter();
        inputs.map(|i| self.operand(*i, axis)).collect()
    }

    /// Computes a node on slices.
    fn on_slices(&mut self, id: NodeId, axis: Axis) -> Result<(), LowerError> {
        let node = self.graph.node(id);
        let columns = self.components.places[id.0 as usize].columns();
        let inputs = if node.op == Op::MatMulNT && columns.is_some() {
            self.copied_left(id)?
        } else {
            let of_loop = matches!(node.op, Op::Out(_));
            self.operands(id, Some(axis).filter(|_| !of_loop))?
        };
        let wanted = match columns {
            Some(columns) => self.on_features(node.ty, columns.blocks),
            None => on_rank(node.ty, axis, self.ranks),
        };
        let mut op = node.op.clone();
        if let Op::Input(input) = &mut op {
            match input {
                Input::Features => *input = Input::FeatureSlice(self.features()),
                Input::Relation(relations) | Input::RelationDegree(relations) => {
                    *relations = whole(*relations);
                }
                Input::EdgeFeatures(columns) => columns.all = true,
                Input::Drawn(drawn) => *drawn = drawn.of_all(),
                _ => {}
            }
        } else if let Op::Sampled(Sampled::Fetch(level) | Sampled::Prefix(level)) = &mut op {
            *level = Level::all(level.number);
        } else if let Op::SliceCols { start, len } = &mut op
            && columns.is_some()
        {
            (*start, *len) = (self.of_blocks(*start), self.of_blocks(*len));
        } else if let Op::Broadcast(ty) = &mut op {
            *ty = on_rank(*ty, axis, self.ranks);
        } else if let Op::Dropout { slice, .. } = &mut op {
            *slice = sliced(node.ty, axis).then(|| self.ranks.slice(axis, size(node.ty, axis)));
        }
        let new = self.add(op, &inputs, node.scope)?;
        if self.out.ty(new) != wanted {
            return Err(bug(&format!("{id}, {}, should be {wanted}", node.op)));
        }
        self.slices[id.0 as usize][index(axis)] = Some(new);
        Ok(())
    }

    /// Cuts a tensor that is by rows.
    fn cut(&mut self, id: NodeId, axis: Axis) -> Result<(), LowerError> {
        let node = self.graph.node(id);
        let rows = self.rows[id.0 as usize].ok_or_else(|| bug("a tensor to cut has no rows"))?;
        let how = match sliced(node.ty, axis) {
            true => Redistribute::Split(self.ranks.slice(axis, size(node.ty, axis))),
            false => Redistribute::Replicate,
        };
        let new = self.add(Op::Redistribute(how), &[rows], node.scope)?;
        self.slices[id.0 as usize][index(axis)] = Some(new);
        Ok(())
    }

    /// Computes a node by rows, or redistributes it back to rows.
    fn by_rows(&mut self, id: NodeId) -> Result<(), LowerError> {
        let (node, n) = (self.graph.node(id), id.0 as usize);
        let on_slices = AXES
            .into_iter()
            .find_map(|axis| self.slices[n][index(axis)].map(|found| (found, axis)));
        let new = match (on_slices, self.components.cut[n]) {
            _ if self.lies_with_features(id) => self.with_features(id)?,
            (Some((found, axis)), _) if !self.components.both(id) => {
                let size = size(node.ty, axis);
                let how = match (self.components.share[n], sliced(node.ty, axis)) {
                    (true, _) => Redistribute::Reduce,
                    (false, true) => Redistribute::Join(self.ranks.slice(axis, size)),
                    (false, false) => Redistribute::Own,
                };
                self.add(Op::Redistribute(how), &[found], node.scope)?
            }
            // A sum over all edges: every rank has it whole.
            (_, Some(axis)) => {
                let inputs = self.operands(id, Some(axis))?;
                let sum = self.add(node.op.clone(), &inputs, node.scope)?;
                match self.components.share[n] {
                    true => self.add(Op::SumRanks, &[sum], node.scope)?,
                    false => sum,
                }
            }
            (_, None) => match &self.loops[n] {
                Some(plan) => self.scan(id, plan)?,
                None => {
                    let inputs = self.operands(id, None)?;
                    self.add(node.op.clone(), &inputs, node.scope)?
                }
            },
        };
        self.rows[n] = Some(new);
        Ok(())
    }

    fn scan(&mut self, id: NodeId, plan: &Loop) -> Result<NodeId, LowerError> {
        let node = self.graph.node(id);
        let mut inputs = Vec::new();
        for (position, input) in node.inputs.iter().enumerate() {
            if plan.slices[position] {
                inputs.push(self.operand(*input, Some(plan.axis))?);
            }
            if plan.rows[position] {
                inputs.push(self.operand(*input, None)?);
            }
        }
        self.add(Op::Scan(Box::new(plan.scan.clone())), &inputs, node.scope)
    }
}
