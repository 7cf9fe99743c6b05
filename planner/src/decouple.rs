//! The decoupled form of a model (NeutronTP, section 3.2): all transforms first, then all
//! aggregations. It computes a different function than the model, so it is used only where
//! permitted (relaxation *decouple*).
//!
//! In the dense part, the vertex's own row replaces every aggregation. Its output `U`, as wide as
//! the logits, is then aggregated as often as the model aggregates. Each round is the model's last
//! aggregation with the column-wise operators around it: `(1 - a) G(z) + a u` for PageRank and
//! GCNII (`u` is `U`), `(1 + eps) z + G(z)` for GIN. Attention coefficients are computed once, from
//! the last layer's transformed rows, and serve all rounds; if the layer averages heads, so are the
//! heads' coefficients. If a layer reads a vertex's own row besides the aggregate (GraphSAGE), a
//! round is the mean of both.

mod rounds;

use gnnc_ir::graph::infer::TypeError;
use gnnc_ir::graph::op::{Input, Op};
use gnnc_ir::graph::{Graph, NodeId, ParamId};
use gnnc_ir::kernel::End;
use gnnc_ir::words::scalar::Binary;
use gnnc_ir::{Rows, Type};
use rounds::Rounds;

/// Why a model has no decoupled form of its own.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DecoupleError {
    /// It has no aggregation.
    #[error("the model has no aggregation")]
    NoAggregation,
    /// No transform comes after an aggregation.
    #[error(
        "all transforms of the model already come before its aggregations; `tensor` runs it as it is"
    )]
    Already,
    /// An aggregation of something other than neighbors' rows times a coefficient.
    #[error(
        "`{0}` does not aggregate neighbor rows times a coefficient of each edge, as `gcn_conv`, `sage_conv` and `gat_conv` do"
    )]
    Message(String),
    /// Coefficients that cannot be used in the rounds.
    #[error("the coefficients of `{0}` {1}, so its aggregations cannot follow all transforms")]
    Coefficients(String, &'static str),
    /// The decoupled graph is inconsistent, which is a bug.
    #[error("bug in decoupling: {0}")]
    Type(#[from] TypeError),
}

/// The decoupled form of a forward graph, whose results are the loss and the logits. Unused
/// parameters are dropped; the others keep their names and initial values.
///
/// # Errors
/// Why there is no such form.
pub fn decouple(graph: &Graph) -> Result<Graph, DecoupleError> {
    let Some(logits) = graph.results.get(1).copied() else {
        return Err(DecoupleError::NoAggregation);
    };
    let mut dense = Dense {
        out: graph.clone_without_nodes(),
        rounds: 0,
        last: None,
        mixed: false,
    };
    let new = dense.copy(graph)?;
    let Some(last) = dense.last else {
        return Err(DecoupleError::NoAggregation);
    };
    if !dense.mixed {
        return Err(DecoupleError::Already);
    }
    let scope = graph.node(logits).scope;
    let mut rounds = Rounds {
        out: dense.out,
        scope,
        output: new[logits.0 as usize],
    };
    let z = match last {
        Last::Outside(gather) => {
            let step = Step::find(graph, gather)?;
            rounds.outside(graph, &step, &new, dense.rounds)?
        }
        Last::Inside(scan, gather) => {
            let Op::Scan(body) = &graph.node(scan).op else {
                return Err(DecoupleError::NoAggregation);
            };
            let step = Step::find(&body.body, gather)?;
            let inputs = &graph.node(scan).inputs;
            rounds.inside(body, &step, inputs, &new, dense.rounds)?
        }
    };
    let mut out = rounds.out;
    let loss = graph.node(graph.results[0]);
    let loss = out.add(loss.op.clone(), &[z], loss.scope)?;
    out.results = vec![loss, z];
    Ok(without_unused_params(&out.pruned()))
}

/// Location of the last aggregation.
#[derive(Clone, Copy)]
enum Last {
    /// In the model itself.
    Outside(NodeId),
    /// In the body of a loop.
    Inside(NodeId, NodeId),
}

/// The dense part under construction.
struct Dense {
    out: Graph,
    /// Number of aggregations in a forward pass.
    rounds: u32,
    last: Option<Last>,
    /// Whether a transform reads an aggregate.
    mixed: bool,
}

impl Dense {
    /// Copies a model's nodes except for the loss. Returns each node's copy.
    fn copy(&mut self, graph: &Graph) -> Result<Vec<NodeId>, DecoupleError> {
        let mut new = vec![NodeId(0); graph.nodes.len()];
        let mut aggregated = vec![false; graph.nodes.len()];
        for (id, node) in graph.iter().filter(|(_, n)| !matches!(n.op, Op::Loss(_))) {
            let n = id.0 as usize;
            aggregated[n] = node.inputs.iter().any(|i| aggregated[i.0 as usize]);
            self.mixed |= aggregated[n] && matches!(node.op, Op::MatMul);
            if is_round(graph, id) {
                new[n] = new[carried(graph, id)?.0 as usize];
                self.rounds += 1;
                self.last = Some(Last::Outside(id));
                aggregated[n] = true;
                continue;
            }
            let mut op = node.op.clone();
            if let Op::Scan(scan) = &mut op {
                let gathers: Vec<NodeId> = rounds(&scan.body);
                if let Some(last) = gathers.last() {
                    let many = gathers.len() as u32;
                    self.rounds = self.rounds.saturating_add(scan.count.saturating_mul(many));
                    self.last = Some(Last::Inside(id, *last));
                    aggregated[n] = true;
                    let after = |n: &gnnc_ir::Node| matches!(n.op, Op::MatMul);
                    self.mixed |= scan.body.nodes.iter().any(after);
                }
                scan.body = dense_body(&scan.body)?;
            }
            let inputs: Vec<NodeId> = node.inputs.iter().map(|i| new[i.0 as usize]).collect();
            new[n] = self.out.add(op, &inputs, node.scope)?;
        }
        Ok(new)
    }
}

/// A loop body in which every aggregation is replaced by its operand.
fn dense_body(body: &Graph) -> Result<Graph, DecoupleError> {
    let mut dense = body.clone();
    let mut same: Vec<NodeId> = (0..body.nodes.len() as u32).map(NodeId).collect();
    for id in rounds(body) {
        let from = carried(body, id)?;
        same[id.0 as usize] = same[from.0 as usize];
    }
    let ids = dense.nodes.iter_mut().flat_map(|node| &mut node.inputs);
    for id in ids.chain(&mut dense.results) {
        *id = same[id.0 as usize];
    }
    Ok(dense.pruned())
}

/// The aggregations of a region.
fn rounds(graph: &Graph) -> Vec<NodeId> {
    let ids = graph.iter().map(|(id, _)| id);
    ids.filter(|id| is_round(graph, *id)).collect()
}

fn is_round(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let gathers = matches!(node.op, Op::Gather(_, End::Dst, _) | Op::GatherMean(_));
    gathers && moving(graph, node.inputs[0])
}

/// Whether a value depends on features, or on a vertex tensor that enters a loop.
fn moving(graph: &Graph, id: NodeId) -> bool {
    let mut work = vec![id];
    let mut seen = vec![false; graph.nodes.len()];
    while let Some(id) = work.pop() {
        if std::mem::replace(&mut seen[id.0 as usize], true) {
            continue;
        }
        let node = graph.node(id);
        let carried = matches!(node.op, Op::Arg(_)) && node.ty.rows == Rows::Vertices;
        if carried || node.op == Op::Input(Input::Features) {
            return true;
        }
        work.extend(&node.inputs);
    }
    false
}

/// The vertex tensor whose rows an aggregation sums over neighbors.
fn carried(graph: &Graph, gather: NodeId) -> Result<NodeId, DecoupleError> {
    let node = graph.node(gather);
    match source(graph, node.inputs[0]) {
        Some(from) if graph.ty(from) == node.ty => Ok(from),
        _ => Err(DecoupleError::Message(name(graph, gather))),
    }
}

/// The vertex tensor whose source rows, times a coefficient, an edge tensor holds.
fn source(graph: &Graph, id: NodeId) -> Option<NodeId> {
    let node = graph.node(id);
    if matches!(node.op, Op::Take(_, End::Src)) {
        return Some(node.inputs[0]).filter(|from| moving(graph, *from));
    }
    if node.op == Op::Binary(Binary::Mul) {
        let [a, b] = [0, 1].map(|n| source(graph, node.inputs[n]));
        return a.xor(b);
    }
    let through = matches!(node.op, Op::Binary(Binary::Div) | Op::Broadcast(_));
    let input = node.inputs.first().filter(|_| through)?;
    source(graph, *input)
}

fn name(graph: &Graph, id: NodeId) -> String {
    let node = graph.node(id);
    match graph.scopes.get(node.scope as usize).map(String::as_str) {
        None | Some("") => node.op.to_string(),
        Some(scope) => scope.to_owned(),
    }
}

/// One aggregation with the column-wise operators around it: `scale G(z) + rest`.
struct Step<'a> {
    /// The model, or a loop body.
    graph: &'a Graph,
    gather: NodeId,
    /// The aggregated tensor.
    from: NodeId,
    /// The factor of the aggregate, a scalar.
    scale: Option<NodeId>,
    /// The term added to it.
    rest: Option<Rest>,
    /// Whether the layer also reads the vertex's own row.
    own: bool,
}

/// A vertex tensor times a number.
#[derive(Clone, Copy)]
struct Rest {
    factor: Option<NodeId>,
    /// Whether it is the aggregated tensor; otherwise it is the input of the first round.
    own: bool,
}

impl<'a> Step<'a> {
    fn find(graph: &'a Graph, gather: NodeId) -> Result<Self, DecoupleError> {
        let from = carried(graph, gather)?;
        let users = graph.users();
        let users = |id: NodeId| &users[id.0 as usize][..];
        let mut step = Step {
            graph,
            gather,
            from,
            scale: None,
            rest: None,
            own: false,
        };
        let mut members = vec![gather];
        let mut end = gather;
        if let [user] = users(end)
            && let Some((of, factor)) = scaled(graph, *user)
            && of == end
        {
            step.scale = Some(factor);
            end = *user;
        }
        if let [user] = users(end)
            && let Op::Binary(Binary::Add) = graph.node(*user).op
        {
            let inputs = &graph.node(*user).inputs;
            let other = inputs[usize::from(inputs[0] == end)];
            let (of, factor) = match scaled(graph, other) {
                Some((of, factor)) => (of, Some(factor)),
                None => (other, None),
            };
            let own = of == from;
            let begin = step.scale.is_some() && factor.is_some() && graph.ty(of) == graph.ty(from);
            if own || begin {
                step.rest = Some(Rest { factor, own });
                members.extend([other, *user]);
            }
        }
        step.own = users(from).iter().any(|user| {
            let edges = matches!(graph.node(*user).op, Op::Take(..));
            !edges && !members.contains(user)
        });
        Ok(step)
    }

    /// Whether no coefficient depends on the aggregated tensor.
    fn fixed(&self) -> bool {
        fn fixed(graph: &Graph, id: NodeId) -> bool {
            let node = graph.node(id);
            if source(graph, id).is_none() {
                return !moving(graph, id);
            }
            matches!(node.op, Op::Take(..)) || node.inputs.iter().all(|i| fixed(graph, *i))
        }
        fixed(self.graph, self.graph.node(self.gather).inputs[0])
    }
}

/// Splits a product into a tensor and a scalar factor.
fn scaled(graph: &Graph, id: NodeId) -> Option<(NodeId, NodeId)> {
    let node = graph.node(id);
    let Op::Binary(Binary::Mul) = node.op else {
        return None;
    };
    let number = |id: NodeId| graph.ty(id) == Type::SCALAR;
    match node.inputs[..] {
        [a, b] if number(a) && !number(b) => Some((b, a)),
        [a, b] if number(b) && !number(a) => Some((a, b)),
        _ => None,
    }
}

/// The same graph without parameters that no node reads.
fn without_unused_params(graph: &Graph) -> Graph {
    let mut out = graph.clone();
    let mut number: Vec<Option<u32>> = vec![None; graph.params.len()];
    for node in &graph.nodes {
        if let Op::Param(id) = node.op {
            number[id.0 as usize] = Some(0);
        }
    }
    out.params.clear();
    for (spec, number) in graph.params.iter().zip(&mut number) {
        if number.is_some() {
            *number = Some(out.params.len() as u32);
            out.params.push(spec.clone());
        }
    }
    for node in &mut out.nodes {
        if let Op::Param(id) = &mut node.op
            && let Some(n) = number[id.0 as usize]
        {
            *id = ParamId(n);
        }
    }
    out
}
