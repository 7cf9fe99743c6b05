//! Reverse-mode differentiation of a [`Graph`] into another one.
//!
//! Gradients consist of ordinary operators, so every later stage treats forward and backward
//! alike. Only the gradients of trainable tensors are built.

mod rules;
mod scan;

use crate::graph::infer::TypeError;
use crate::graph::op::{Op, Sampled, Scan, ValueOrigin};
use crate::graph::simplify::simplify;
use crate::graph::{Graph, Node, NodeId, VerifyError};
use crate::words::scalar::{Binary, Unary};
use crate::words::types::{Rows, Type};
use std::collections::BTreeMap;

/// A model with the gradients of its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingGraph {
    /// Forward and backward pass; its results are the loss, the logits and the gradients.
    pub graph: Graph,
    /// Index of the loss among the results.
    pub loss: usize,
    /// Index of the logits among the results.
    pub logits: usize,
    /// Index of every parameter's gradient among the results; `None` if the loss does not
    /// depend on it.
    pub grads: Vec<Option<usize>>,
}

/// Why a graph has no gradient graph.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AutodiffError {
    /// The results are not a loss and logits.
    #[error("a model returns its loss and its logits, found {found} result(s)")]
    Results {
        /// Results found.
        found: usize,
    },
    /// The loss is not one number.
    #[error("the loss of a model is one number, found {found}")]
    Loss {
        /// Type of the first result.
        found: Type,
    },
    /// An operator that occurs only in gradients.
    #[error("{op} has no derivative; it belongs in gradients, not in models")]
    NotDifferentiable {
        /// The operator.
        op: String,
    },
    /// A stacked carry that the backward pass would have to keep for every iteration.
    #[error(
        "the gradient of a scan needs carry {carry} of type {ty} from every iteration, \
             but stacks cannot be stacked; read it as a constant or as one of the xs"
    )]
    StackedCarry {
        /// Number of the carry.
        carry: u32,
        /// Its type.
        ty: Type,
    },
    /// A derivative that does not match its operands, such as one of stacked tensors outside a
    /// scan.
    #[error("the gradient cannot be built: {0}")]
    Type(#[from] TypeError),
    /// A broken invariant, in the model or in the result.
    #[error("the graph is not valid: {0}")]
    Graph(#[from] VerifyError),
}

/// Extends the model `graph`, whose results are `[loss, logits]`, by the gradients of the loss
/// with respect to all parameters. The result is simplified.
///
/// # Errors
/// If the graph is not a valid model or uses an operator without a derivative.
pub fn differentiate(graph: &Graph) -> Result<TrainingGraph, AutodiffError> {
    graph.verify()?;
    let &[loss, _] = graph.results.as_slice() else {
        return Err(AutodiffError::Results {
            found: graph.results.len(),
        });
    };
    if graph.ty(loss) != Type::SCALAR {
        return Err(AutodiffError::Loss {
            found: graph.ty(loss),
        });
    }
    // Merge equal subexpressions first: a value used twice must not be stored twice.
    let mut tape = Tape::new(simplify(graph), &vec![false; graph.args.len()]);
    let loss = tape.graph.results[0];
    tape.scope = tape.graph.node(loss).scope;
    let one = tape.emit(Op::Const(1.0), &[])?;
    tape.add(loss, one)?;
    tape.run()?;

    let mut result = tape.graph.clone_without_nodes();
    let mut results = tape.graph.results.clone();
    let mut grads = vec![None; result.params.len()];
    for (p, grad) in tape
        .leaf_grads(graph.params.len(), param_of)?
        .into_iter()
        .enumerate()
    {
        if let Some(grad) = grad {
            grads[p] = Some(results.len());
            results.push(grad);
        }
    }
    result.nodes = tape.graph.nodes;
    result.results = results;
    let graph = simplify(&result);
    graph.verify()?;
    Ok(TrainingGraph {
        graph,
        loss: 0,
        logits: 1,
        grads,
    })
}

/// A part of a model with its gradients.
#[derive(Clone, Debug, PartialEq)]
pub struct PartGraph {
    /// Forward and backward pass. Arguments: those of the part, then the given gradients of its
    /// results. Results: those of the part, then gradients.
    pub graph: Graph,
    /// Index of every parameter's gradient among the results, if it has one.
    pub params: Vec<Option<usize>>,
    /// Index of every argument's gradient among the results, if it has one.
    pub args: Vec<Option<usize>>,
}

/// Source of the gradient with respect to a result of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seed {
    /// It is 1, because the result is the loss.
    Loss,
    /// It is an additional argument.
    Given,
    /// There is none.
    None,
}

/// Extends a part of a model by the gradients of the loss with respect to its parameters and
/// arguments. `seeds` says where the gradient of each result comes from. The result of the call
/// is simplified.
///
/// # Errors
/// Same as [`differentiate`].
pub fn differentiate_part(graph: &Graph, seeds: &[Seed]) -> Result<PartGraph, AutodiffError> {
    graph.verify()?;
    let simple = simplify(graph);
    let own = simple.results.clone();
    let mut tape = Tape::new(simple, &vec![true; graph.args.len()]);
    for (result, seed) in own.iter().zip(seeds) {
        let ty = tape.graph.ty(*result);
        tape.scope = tape.graph.node(*result).scope;
        let seed = match seed {
            Seed::Loss => tape.emit(Op::Const(1.0), &[])?,
            Seed::Given => tape.argument(ty)?,
            Seed::None => continue,
        };
        tape.add(*result, seed)?;
    }
    tape.run()?;
    let mut results = own;
    let mut placed = |grads: Vec<Option<NodeId>>| -> Vec<Option<usize>> {
        let mut list = Vec::with_capacity(grads.len());
        for grad in grads {
            list.push(grad.is_some().then_some(results.len()));
            results.extend(grad);
        }
        list
    };
    let params = tape.leaf_grads(graph.params.len(), param_of)?;
    let args = tape.leaf_grads(graph.args.len(), arg_of)?;
    let (params, args) = (placed(params), placed(args));
    tape.graph.results = results;
    let graph = simplify(&tape.graph);
    graph.verify()?;
    Ok(PartGraph {
        graph,
        params,
        args,
    })
}

/// A graph being extended by its own gradient.
struct Tape {
    /// The forward pass, then the backward pass.
    graph: Graph,
    /// Number of nodes of the forward pass.
    forward: usize,
    /// Whether each forward node needs a gradient.
    needs: Vec<bool>,
    /// Sum of the gradients that have reached each forward node.
    grads: Vec<Option<NodeId>>,
    /// Sum of the gradients that have reached each result of a scan.
    scan_grads: BTreeMap<(NodeId, u32), NodeId>,
    /// Gradients of a forward node's first rows. They are added once the others are summed.
    first: Vec<Vec<NodeId>>,
    /// Like `grads`, for rows of a forward node computed from copies of other ranks' rows.
    copied: Vec<Option<NodeId>>,
    /// Whether gradients being added belong to such rows.
    of_copies: bool,
    /// Scope of emitted nodes: the scope of the node being differentiated.
    scope: u32,
}

impl Tape {
    fn new(graph: Graph, wanted_args: &[bool]) -> Self {
        let forward = graph.nodes.len();
        let needs = needs_grad(&graph, wanted_args);
        let scan_grads = BTreeMap::new();
        Self {
            graph,
            forward,
            needs,
            grads: vec![None; forward],
            first: vec![Vec::new(); forward],
            copied: vec![None; forward],
            of_copies: false,
            scan_grads,
            scope: 0,
        }
    }

    fn emit(&mut self, op: Op, inputs: &[NodeId]) -> Result<NodeId, AutodiffError> {
        Ok(self.graph.add(op, inputs, self.scope)?)
    }

    fn unary(&mut self, f: Unary, x: NodeId) -> Result<NodeId, AutodiffError> {
        self.emit(Op::Unary(f), &[x])
    }

    fn binary(&mut self, f: Binary, a: NodeId, b: NodeId) -> Result<NodeId, AutodiffError> {
        self.emit(Op::Binary(f), &[a, b])
    }

    /// A tensor of zeros.
    fn zeros(&mut self, ty: Type) -> Result<NodeId, AutodiffError> {
        let zero = match ty.stack {
            0 => self.emit(Op::Const(0.0), &[])?,
            n => self.emit(Op::Table(vec![0.0; n as usize]), &[])?,
        };
        self.emit(Op::Broadcast(ty), &[zero])
    }

    /// Whether a node needs a gradient.
    fn wants(&self, node: NodeId) -> bool {
        self.needs.get(node.0 as usize).is_some_and(|n| *n)
    }

    /// Adds to the gradient of a node if the node needs one.
    fn add(&mut self, node: NodeId, grad: NodeId) -> Result<(), AutodiffError> {
        if !self.wants(node) {
            return Ok(());
        }
        if matches!(self.graph.node(node).op, Op::Scan(_)) {
            return self.add_result(node, 0, grad);
        }
        let copied = self.of_copies && self.graph.ty(node).rows == Rows::Vertices;
        let known = match copied {
            true => &self.copied,
            false => &self.grads,
        };
        let sum = match known[node.0 as usize] {
            Some(sum) => self.binary(Binary::Add, sum, grad)?,
            None => grad,
        };
        let known = match copied {
            true => &mut self.copied,
            false => &mut self.grads,
        };
        known[node.0 as usize] = Some(sum);
        Ok(())
    }

    /// Adds to the gradient of the first rows of a node if the node needs one.
    fn add_first(&mut self, node: NodeId, grad: NodeId) -> Result<(), AutodiffError> {
        if self.wants(node) {
            self.first[node.0 as usize].push(grad);
        }
        Ok(())
    }

    /// The gradient of a node: the sum of all that have reached it.
    fn gradient(&mut self, node: NodeId) -> Result<Option<NodeId>, AutodiffError> {
        let mut sum = self.grads[node.0 as usize];
        for first in std::mem::take(&mut self.first[node.0 as usize]) {
            let below = match sum {
                Some(sum) => sum,
                None => self.zeros(self.graph.ty(node))?,
            };
            sum = Some(self.emit(Op::Sampled(Sampled::AddPrefix), &[below, first])?);
        }
        Ok(sum)
    }

    /// Adds to the gradient of one result of a scan.
    fn add_result(&mut self, scan: NodeId, n: u32, grad: NodeId) -> Result<(), AutodiffError> {
        let sum = match self.scan_grads.get(&(scan, n)) {
            Some(sum) => self.binary(Binary::Add, *sum, grad)?,
            None => grad,
        };
        self.scan_grads.insert((scan, n), sum);
        Ok(())
    }

    /// Propagates gradients from results to leaves.
    fn run(&mut self) -> Result<(), AutodiffError> {
        for id in (0..self.forward).rev() {
            if !self.needs[id] {
                continue;
            }
            let node = NodeId(id as u32);
            self.scope = self.graph.nodes[id].scope;
            if matches!(self.graph.nodes[id].op, Op::Scan(_)) {
                self.scan(node)?;
            } else if let Some(grad) = self.gradient(node)? {
                self.rule(node, grad)?;
            }
            if let Some(grad) = self.copied[id] {
                self.of_copies = true;
                let sent = self.rule(node, grad);
                self.of_copies = false;
                sent?;
            }
        }
        Ok(())
    }

    /// Gradients of the first `count` parameters or arguments.
    fn leaf_grads(
        &mut self,
        count: usize,
        leaf: fn(&Node) -> Option<u32>,
    ) -> Result<Vec<Option<NodeId>>, AutodiffError> {
        let mut sums: Vec<Option<NodeId>> = vec![None; count];
        for id in 0..self.forward {
            let (Some(grad), Some(n)) = (self.grads[id], leaf(&self.graph.nodes[id])) else {
                continue;
            };
            self.scope = self.graph.nodes[id].scope;
            let sum = match sums[n as usize] {
                Some(sum) => self.binary(Binary::Add, sum, grad)?,
                None => grad,
            };
            sums[n as usize] = Some(sum);
        }
        Ok(sums)
    }
}

fn param_of(node: &Node) -> Option<u32> {
    let Op::Param(p) = node.op else {
        return None;
    };
    Some(p.0)
}

fn arg_of(node: &Node) -> Option<u32> {
    let Op::Arg(n) = node.op else {
        return None;
    };
    Some(n)
}

/// For each node, whether it needs a gradient: it depends on a parameter or wanted argument
/// along a path whose derivative is not zero everywhere.
fn needs_grad(graph: &Graph, args: &[bool]) -> Vec<bool> {
    let mut needs = vec![false; graph.nodes.len()];
    let mut scans: BTreeMap<NodeId, Vec<bool>> = BTreeMap::new();
    for (id, node) in graph.iter() {
        let any = node.inputs.iter().any(|i| needs[i.0 as usize]);
        needs[id.0 as usize] = match node.op.origin() {
            ValueOrigin::Param(_) => true,
            ValueOrigin::Input(_) | ValueOrigin::Const(_) | ValueOrigin::Table(_) => false,
            ValueOrigin::Arg(n) => args[n as usize],
            ValueOrigin::Scan(scan) => {
                let operands: Vec<bool> = node.inputs.iter().map(|i| needs[i.0 as usize]).collect();
                let results = scan_needs(scan, &operands).1;
                let any = results.contains(&true);
                scans.insert(id, results);
                any
            }
            ValueOrigin::Out(n) => scans[&node.inputs[0]][n as usize],
            ValueOrigin::Operands => {
                any && !matches!(
                    node.op,
                    Op::Unary(Unary::Step | Unary::LeakyStep(_)) | Op::Binary(Binary::Eq)
                )
            }
        };
    }
    needs
}

/// Which arguments and results of a scan's body depend on a wanted operand. A carry may start
/// to depend on one in a later iteration, so this iterates to a fixed point.
fn scan_needs(scan: &Scan, operands: &[bool]) -> (Vec<bool>, Vec<bool>) {
    let mut args = operands.to_vec();
    loop {
        let nodes = needs_grad(&scan.body, &args);
        let results: Vec<bool> = scan
            .body
            .results
            .iter()
            .map(|r| nodes[r.0 as usize])
            .collect();
        let mut changed = false;
        for (arg, result) in args.iter_mut().zip(&results).take(scan.carries as usize) {
            changed |= *result && !*arg;
            *arg |= *result;
        }
        if !changed {
            return (args, results);
        }
    }
}
