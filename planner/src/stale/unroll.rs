//! Unrolls loops: a layer of a pipeline belongs to one stage, so it needs its own nodes.

use super::StaleError;
use gnnc_ir::graph::op::{Op, Scan, ValueOrigin};
use gnnc_ir::graph::{Element, Graph, Node, NodeId, ParamId, ParamSpec};

/// What a node of the model with loops becomes.
#[derive(Clone, Debug)]
enum Item {
    /// A node.
    One(NodeId),
    /// The elements of a stack.
    Stack(Vec<NodeId>),
    /// The results of a loop.
    Results(Vec<Item>),
}

/// The same model without loops. Elements of stacked parameters become separate parameters.
///
/// # Errors
/// If a stack is not used element by element.
pub fn unrolled(graph: &Graph) -> Result<Graph, StaleError> {
    let mut unroll = Unroll {
        out: Graph {
            params: Vec::new(),
            ..graph.clone_without_nodes()
        },
        params: Vec::new(),
    };
    for spec in &graph.params {
        let item = unroll.parameter(spec)?;
        unroll.params.push(item);
    }
    let items = unroll.body(graph, &[], None)?;
    let mut results = Vec::new();
    for id in &graph.results {
        results.push(one(graph, *id, &items[id.0 as usize])?);
    }
    unroll.out.results = results;
    Ok(gnnc_ir::graph::simplify::simplify(&unroll.out))
}

struct Unroll {
    out: Graph,
    /// By parameter of the model with loops.
    params: Vec<Item>,
}

/// The loop iteration in which nodes are written.
#[derive(Clone, Copy)]
struct Turn {
    /// The first scope of the iteration; those of the body follow in order.
    scope: u32,
    /// The iteration, through all enclosing loops.
    iteration: u32,
}

impl Unroll {
    fn parameter(&mut self, spec: &ParamSpec) -> Result<Item, StaleError> {
        let of = spec.ty.stack;
        let mut add = |spec: ParamSpec| {
            let id = self.out.param(spec);
            self.out.add(Op::Param(id), &[], 0)
        };
        if of == 0 {
            return Ok(Item::One(add(spec.clone())?));
        }
        let element = |index| ParamSpec {
            ty: spec.ty.unstacked(),
            element: Some(Element { index, of }),
            ..spec.clone()
        };
        let elements: Result<_, _> = (0..of).map(|index| add(element(index))).collect();
        Ok(Item::Stack(elements?))
    }

    /// Writes the nodes of a model, or of one loop iteration.
    fn body(
        &mut self,
        graph: &Graph,
        args: &[Item],
        turn: Option<Turn>,
    ) -> Result<Vec<Item>, StaleError> {
        let mut items: Vec<Item> = Vec::with_capacity(graph.nodes.len());
        for (id, node) in graph.iter() {
            let inputs: Vec<Item> = node
                .inputs
                .iter()
                .map(|i| items[i.0 as usize].clone())
                .collect();
            let item = match node.op.origin() {
                ValueOrigin::Arg(n) => args[n as usize].clone(),
                ValueOrigin::Param(ParamId(n)) => self.params[n as usize].clone(),
                ValueOrigin::Table(values) => {
                    let consts = values
                        .iter()
                        .map(|&x| self.add(Op::Const(x), &[], node, turn));
                    Item::Stack(consts.collect::<Result<_, _>>()?)
                }
                ValueOrigin::Scan(scan) => {
                    Item::Results(self.repeat(graph, id, scan, &inputs, turn)?)
                }
                ValueOrigin::Out(n) => match &inputs[0] {
                    Item::Results(results) => results[n as usize].clone(),
                    other => other.clone(),
                },
                ValueOrigin::Input(_) | ValueOrigin::Const(_) | ValueOrigin::Operands => {
                    self.element_wise(graph, id, &inputs, turn)?
                }
            };
            items.push(item);
        }
        Ok(items)
    }

    /// An operator on nodes, or on every element of stacks.
    fn element_wise(
        &mut self,
        graph: &Graph,
        id: NodeId,
        inputs: &[Item],
        turn: Option<Turn>,
    ) -> Result<Item, StaleError> {
        let node = graph.node(id);
        let lengths = inputs.iter().filter_map(|item| match item {
            Item::Stack(elements) => Some(elements.len()),
            _ => None,
        });
        let mut op = node.op.clone();
        if let (Op::Dropout { site, .. }, Some(turn)) = (&mut op, turn) {
            site.iteration += turn.iteration;
        } else if let Op::Broadcast(ty) = &mut op {
            ty.stack = 0;
        }
        let Some(length) = lengths.max() else {
            let inputs: Result<Vec<NodeId>, _> = inputs
                .iter()
                .zip(&node.inputs)
                .map(|(item, id)| one(graph, *id, item))
                .collect();
            let new = self.add(op, &inputs?, node, turn)?;
            return Ok(match node.ty.stack {
                0 => Item::One(new),
                n => Item::Stack(vec![new; n as usize]),
            });
        };
        let mut elements = Vec::with_capacity(length);
        for n in 0..length {
            let mut operands = Vec::with_capacity(inputs.len());
            for (item, id) in inputs.iter().zip(&node.inputs) {
                operands.push(match item {
                    Item::Stack(elements) => elements[n],
                    item => one(graph, *id, item)?,
                });
            }
            elements.push(self.add(op.clone(), &operands, node, turn)?);
        }
        Ok(Item::Stack(elements))
    }

    /// Writes the iterations of a loop, one after another. Returns its results.
    fn repeat(
        &mut self,
        graph: &Graph,
        id: NodeId,
        scan: &Scan,
        operands: &[Item],
        turn: Option<Turn>,
    ) -> Result<Vec<Item>, StaleError> {
        let (carries, first_x) = (scan.carries as usize, (scan.carries + scan.consts) as usize);
        let mut carried: Vec<Item> = operands[..carries].to_vec();
        let stacked = scan.body.results.len().saturating_sub(carries);
        let mut ys = vec![vec![None; scan.count as usize]; stacked];
        let outer = turn.map_or(0, |turn| turn.iteration);
        for n in 0..scan.count {
            let n = if scan.reverse { scan.count - 1 - n } else { n };
            let mut args = carried.clone();
            args.extend_from_slice(&operands[carries..first_x]);
            for (item, id) in operands[first_x..]
                .iter()
                .zip(&graph.node(id).inputs[first_x..])
            {
                match item {
                    Item::Stack(elements) if elements.len() > n as usize => {
                        args.push(Item::One(elements[n as usize]));
                    }
                    _ => return Err(StaleError::Stack(graph.node(*id).op.to_string())),
                }
            }
            let iteration = outer * scan.count + n;
            let first = self.out.scopes.len() as u32;
            for name in &scan.body.scopes {
                self.out.scope(&format!("{name}[{iteration}]"));
            }
            let turn = Turn {
                scope: first,
                iteration,
            };
            let items = self.body(&scan.body, &args, Some(turn))?;
            let result = |r: &NodeId| items[r.0 as usize].clone();
            carried = scan.body.results[..carries].iter().map(result).collect();
            for (y, id) in ys.iter_mut().zip(&scan.body.results[carries..]) {
                y[n as usize] = Some(one(&scan.body, *id, &items[id.0 as usize])?);
            }
        }
        let ys = ys
            .into_iter()
            .map(|y| Item::Stack(y.into_iter().flatten().collect()));
        Ok(carried.into_iter().chain(ys).collect())
    }

    fn add(
        &mut self,
        op: Op,
        inputs: &[NodeId],
        node: &Node,
        turn: Option<Turn>,
    ) -> Result<NodeId, StaleError> {
        let scope = node.scope + turn.map_or(0, |turn| turn.scope);
        Ok(self.out.add(op, inputs, scope)?)
    }
}

fn one(graph: &Graph, id: NodeId, item: &Item) -> Result<NodeId, StaleError> {
    match item {
        Item::One(id) => Ok(*id),
        Item::Results(results) => match results.first() {
            Some(Item::One(id)) => Ok(*id),
            _ => Err(StaleError::Stack(graph.node(id).op.to_string())),
        },
        Item::Stack(_) => Err(StaleError::Stack(graph.node(id).op.to_string())),
    }
}
