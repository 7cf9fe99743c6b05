//! The rounds of aggregation of a decoupled form.

use super::{DecoupleError, Rest, Step, name, source};
use gnnc_ir::Type;
use gnnc_ir::graph::op::{Op, Scan, ValueOrigin};
use gnnc_ir::graph::{Graph, NodeId};
use gnnc_ir::kernel::{Axis, Reduce};
use gnnc_ir::words::scalar::Binary;

/// Most rounds written out if no loop can hold them.
const WRITTEN_OUT: u32 = 64;

/// The rounds under construction.
pub(super) struct Rounds {
    pub out: Graph,
    pub scope: u32,
    /// Output of the dense part.
    pub output: NodeId,
}

impl Rounds {
    /// Rounds of an aggregation outside of loops.
    pub fn outside(
        &mut self,
        graph: &Graph,
        step: &Step,
        new: &[NodeId],
        count: u32,
    ) -> Result<NodeId, DecoupleError> {
        let known = |id: NodeId| new[id.0 as usize];
        if step.fixed() {
            let mut body = Body::new(graph, None, self.out.ty(self.output));
            return body.scan(self, step, &|id| Some(known(id)), count);
        }
        if count > WRITTEN_OUT {
            let why = "depend on the vertices, and there are too many rounds to unroll";
            return Err(DecoupleError::Coefficients(name(graph, step.gather), why));
        }
        let mut z = self.output;
        for _ in 0..count {
            let (u, scope) = (self.output, self.scope);
            z = round(&mut self.out, step, [z, u], scope, &mut |_, id| {
                Ok(known(id))
            })?;
        }
        Ok(z)
    }

    /// Rounds of an aggregation inside a loop.
    pub fn inside(
        &mut self,
        scan: &Scan,
        step: &Step,
        inputs: &[NodeId],
        new: &[NodeId],
        count: u32,
    ) -> Result<NodeId, DecoupleError> {
        if !step.fixed() {
            let why = "depend on the vertices inside a loop";
            return Err(DecoupleError::Coefficients(
                name(step.graph, step.gather),
                why,
            ));
        }
        let mut body = Body::new(step.graph, Some(scan), self.out.ty(self.output));
        let argument = |id: NodeId| {
            let Op::Arg(k) = step.graph.node(id).op else {
                return None;
            };
            inputs.get(k as usize).map(|i| new[i.0 as usize])
        };
        body.scan(self, step, &argument, count)
    }
}

/// One round: from `z` to the next `z`; `u` is the input of the first round. `coefficient` provides
/// all other values.
fn round(
    out: &mut Graph,
    step: &Step,
    [z, u]: [NodeId; 2],
    scope: u32,
    coefficient: &mut dyn FnMut(&mut Graph, NodeId) -> Result<NodeId, DecoupleError>,
) -> Result<NodeId, DecoupleError> {
    let (graph, from) = (step.graph, step.graph.ty(step.from));
    let flat = out.ty(z);
    let by_head = from.heads > 1 && flat.columns() == from.columns();
    let read = match by_head {
        true => {
            let (heads, width) = (from.heads, from.width);
            out.add(Op::Reshape { heads, width }, &[z], scope)?
        }
        false => z,
    };
    let mean = from.heads > 1 && !by_head;
    let edges = graph.node(step.gather).inputs[0];
    let message = message(out, graph, edges, read, mean, scope, coefficient)?;
    let mut next = out.add(graph.node(step.gather).op.clone(), &[message], scope)?;
    if by_head {
        let (heads, width) = (flat.heads, flat.width);
        next = out.add(Op::Reshape { heads, width }, &[next], scope)?;
    }
    let mul = Op::Binary(Binary::Mul);
    let add = Op::Binary(Binary::Add);
    if let Some(factor) = step.scale {
        let factor = coefficient(out, factor)?;
        next = out.add(mul.clone(), &[factor, next], scope)?;
    }
    if let Some(Rest { factor, own }) = step.rest {
        let mut rest = if own { z } else { u };
        if let Some(factor) = factor {
            let factor = coefficient(out, factor)?;
            rest = out.add(mul.clone(), &[factor, rest], scope)?;
        }
        next = out.add(add.clone(), &[next, rest], scope)?;
    }
    if step.own {
        let both = out.add(add, &[z, next], scope)?;
        let half = out.add(Op::Const(0.5), &[], scope)?;
        next = out.add(mul, &[half, both], scope)?;
    }
    Ok(next)
}

/// The sources' rows of `z`, times the coefficients of an edge tensor.
fn message(
    out: &mut Graph,
    graph: &Graph,
    id: NodeId,
    z: NodeId,
    mean: bool,
    scope: u32,
    coefficient: &mut dyn FnMut(&mut Graph, NodeId) -> Result<NodeId, DecoupleError>,
) -> Result<NodeId, DecoupleError> {
    let node = graph.node(id);
    if source(graph, id).is_none() {
        let ty = graph.ty(id);
        if ty.width > 1 {
            let why = "are not one number per edge and head";
            return Err(DecoupleError::Coefficients(name(graph, id), why));
        }
        let found = coefficient(out, id)?;
        if !mean || ty.heads == 1 {
            return Ok(found);
        }
        let sum = out.add(Op::ReduceCols(Axis::Heads, Reduce::Sum), &[found], scope)?;
        let share = out.add(Op::Const(1.0 / ty.heads as f32), &[], scope)?;
        return Ok(out.add(Op::Binary(Binary::Mul), &[sum, share], scope)?);
    }
    if matches!(node.op, Op::Take(..)) {
        return Ok(out.add(node.op.clone(), &[z], scope)?);
    }
    let mut inputs = Vec::new();
    for input in &node.inputs {
        inputs.push(message(out, graph, *input, z, mean, scope, coefficient)?);
    }
    if matches!(node.op, Op::Broadcast(_)) {
        return Ok(inputs[0]);
    }
    Ok(out.add(node.op.clone(), &inputs, scope)?)
}

/// The body of the loop over rounds.
struct Body<'a> {
    graph: &'a Graph,
    /// The loop that contains the aggregation.
    scan: Option<&'a Scan>,
    out: Graph,
    new: Vec<Option<NodeId>>,
    /// Nodes that enter as arguments: the same in every round, or one per round.
    consts: Vec<NodeId>,
    xs: Vec<NodeId>,
}

/// Arguments the loop always has: `z`, then `U`.
const ARGS: usize = 2;

impl<'a> Body<'a> {
    fn new(graph: &'a Graph, scan: Option<&'a Scan>, z: Type) -> Self {
        Self {
            graph,
            scan,
            out: Graph {
                scopes: graph.scopes.clone(),
                ..Graph::body(graph.features, vec![z, z])
            },
            new: vec![None; graph.nodes.len()],
            consts: Vec::new(),
            xs: Vec::new(),
        }
    }

    /// Writes the loop. `argument` returns the copy of a node that enters it.
    fn scan(
        &mut self,
        rounds: &mut Rounds,
        step: &Step,
        argument: &dyn Fn(NodeId) -> Option<NodeId>,
        count: u32,
    ) -> Result<NodeId, DecoupleError> {
        self.arguments(step, count)?;
        let scope = self.graph.node(step.gather).scope;
        let mut out = std::mem::take(&mut self.out);
        let z = out.add(Op::Arg(0), &[], scope)?;
        let u = out.add(Op::Arg(1), &[], scope)?;
        let z = round(&mut out, step, [z, u], scope, &mut |out, id| {
            self.coefficient(out, id)
        })?;
        out.results = vec![z];
        let missing = || DecoupleError::Coefficients(name(self.graph, step.gather), "are missing");
        let mut inputs = vec![rounds.output, rounds.output];
        for id in self.consts.iter().chain(&self.xs) {
            inputs.push(argument(*id).ok_or_else(missing)?);
        }
        let scan = Scan {
            count,
            reverse: false,
            carries: 1,
            consts: 1 + self.consts.len() as u32,
            xs: self.xs.len() as u32,
            body: out,
        };
        let node = rounds
            .out
            .add(Op::Scan(Box::new(scan)), &inputs, rounds.scope)?;
        Ok(rounds.out.add(Op::Out(0), &[node], rounds.scope)?)
    }

    /// Finds the numbers that the step reads and the loop body cannot compute.
    fn arguments(&mut self, step: &Step, count: u32) -> Result<(), DecoupleError> {
        let rest = step.rest.and_then(|rest| rest.factor);
        let edges = self.graph.node(step.gather).inputs[0];
        let mut work: Vec<NodeId> = step.scale.into_iter().chain(rest).chain([edges]).collect();
        let mut seen = vec![false; self.graph.nodes.len()];
        while let Some(id) = work.pop() {
            if id == step.from || std::mem::replace(&mut seen[id.0 as usize], true) {
                continue;
            }
            let node = self.graph.node(id);
            match node.op.origin() {
                ValueOrigin::Param(_) | ValueOrigin::Table(_) | ValueOrigin::Out(_) => {
                    self.consts.push(id);
                }
                ValueOrigin::Arg(k) => match self.scan {
                    Some(scan) if k >= scan.carries + scan.consts && scan.count == count => {
                        self.xs.push(id);
                    }
                    Some(scan) if k >= scan.carries && k < scan.carries + scan.consts => {
                        self.consts.push(id);
                    }
                    _ => {
                        let why = "change from layer to layer";
                        return Err(DecoupleError::Coefficients(
                            name(self.graph, step.gather),
                            why,
                        ));
                    }
                },
                ValueOrigin::Input(_)
                | ValueOrigin::Const(_)
                | ValueOrigin::Scan(_)
                | ValueOrigin::Operands => work.extend(&node.inputs),
            }
        }
        self.consts.sort_unstable();
        self.xs.sort_unstable();
        let fixed = self.consts.iter().map(|id| self.graph.ty(*id));
        let each = self.xs.iter().map(|id| self.graph.ty(*id).unstacked());
        self.out.args.extend(fixed.chain(each));
        Ok(())
    }

    /// A coefficient inside the loop.
    fn coefficient(&mut self, out: &mut Graph, id: NodeId) -> Result<NodeId, DecoupleError> {
        if let Some(found) = self.new[id.0 as usize] {
            return Ok(found);
        }
        let node = self.graph.node(id);
        let place = self.consts.iter().chain(&self.xs).position(|i| *i == id);
        let new = match place {
            Some(n) => out.add(Op::Arg((ARGS + n) as u32), &[], node.scope)?,
            None => {
                let mut inputs = Vec::new();
                for input in &node.inputs {
                    inputs.push(self.coefficient(out, *input)?);
                }
                out.add(node.op.clone(), &inputs, node.scope)?
            }
        };
        self.new[id.0 as usize] = Some(new);
        Ok(new)
    }
}
