//! Partial tensors: sums over one rank's rows, yet to be added over the ranks.

use gnnc_ir::graph::op::{Clip, Copies, Op, Scan};
use gnnc_ir::kernel::Reduce;
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::{Graph, Node, NodeId, Rows};

/// Partial sums of a region, by node.
#[derive(Clone, Debug, Default)]
pub struct Partials {
    /// Whether the node's value is one rank's share of a sum.
    pub partial: Vec<bool>,
    /// Whether the shares are added as soon as the node is computed, because a nonlinear operator
    /// reads the sum.
    pub reduce_now: Vec<bool>,
}

impl Partials {
    /// No partial sums.
    pub fn none(graph: &Graph) -> Self {
        let none = vec![false; graph.nodes.len()];
        Self {
            partial: none.clone(),
            reduce_now: none,
        }
    }
}

/// Finds the partial sums of a region. `args` says which arguments are partial; the nodes `full`
/// must be whole.
pub fn partials(graph: &Graph, args: &[bool], full: &[NodeId]) -> Partials {
    let mut reduce_now = vec![false; graph.nodes.len()];
    for id in full {
        reduce_now[id.0 as usize] = true;
    }
    loop {
        let mut partial = vec![false; graph.nodes.len()];
        let mut changed = false;
        for (id, node) in graph.iter() {
            let flags: Vec<bool> = node.inputs.iter().map(|i| partial[i.0 as usize]).collect();
            let (result, whole) = transfer(graph, node, &flags, &partial, args);
            for position in whole {
                let flag = &mut reduce_now[node.inputs[position].0 as usize];
                changed |= !*flag;
                *flag = true;
            }
            partial[id.0 as usize] = result && !reduce_now[id.0 as usize];
        }
        if !changed {
            // A value that was never partial has nothing to add.
            for (id, node) in graph.iter() {
                let flags: Vec<bool> = node.inputs.iter().map(|i| partial[i.0 as usize]).collect();
                reduce_now[id.0 as usize] &= transfer(graph, node, &flags, &partial, args).0;
            }
            return Partials {
                partial,
                reduce_now,
            };
        }
    }
}

/// Whether a node is partial, and which of its partial operands must be made whole.
fn transfer(
    graph: &Graph,
    node: &Node,
    flags: &[bool],
    partial: &[bool],
    args: &[bool],
) -> (bool, Vec<usize>) {
    let any = flags.iter().any(|f| *f);
    let all_partial = || (0..flags.len()).filter(|i| flags[*i]).collect::<Vec<_>>();
    let unless = |linear: bool| {
        if linear {
            (any, Vec::new())
        } else {
            (false, all_partial())
        }
    };
    match &node.op {
        Op::Arg(n) => (args.get(*n as usize).copied().unwrap_or(false), Vec::new()),
        Op::Loss(_) | Op::SumRanks => (true, Vec::new()),
        // Uses only own rows.
        Op::Clip(Clip::Factor, _) => (false, Vec::new()),
        Op::SumRows | Op::PickSum(_) | Op::MatMulTN => match graph.ty(node.inputs[0]).rows {
            // Every rank has all rows, or the rows of a weight.
            Rows::Fixed(_) | Rows::All | Rows::AllEdges(_) => unless(flags != [true, true]),
            Rows::Vertices | Rows::Edges(_) => (true, Vec::new()),
            rows @ (Rows::Level(_) | Rows::LevelEdges(..)) if rows.are_all() => {
                unless(flags != [true, true])
            }
            Rows::Level(_) | Rows::LevelEdges(..) => (true, Vec::new()),
        },
        Op::Binary(Binary::Add | Binary::Sub) => unless(flags[0] == flags[1]),
        Op::Binary(Binary::Mul) | Op::MatMul | Op::MatMulNT => unless(flags != [true, true]),
        Op::Binary(Binary::Div) => unless(!flags[1]),
        Op::Concat => unless(flags.iter().all(|f| *f == any)),
        Op::Unary(Unary::Neg)
        | Op::Broadcast(_)
        | Op::ReduceCols(_, Reduce::Sum)
        | Op::PadRows { .. }
        | Op::PadCols { .. } => (any, Vec::new()),
        Op::Reshape { .. } | Op::SliceCols { .. } | Op::SliceRows { .. } => (any, Vec::new()),
        Op::Copies(Copies::Kept | Copies::Seen, _) => (any, Vec::new()),
        Op::Scan(scan) => {
            let body = body_partials(graph, node, scan, partial);
            (
                false,
                (0..flags.len())
                    .filter(|i| flags[*i] && !body.args[*i])
                    .collect(),
            )
        }
        Op::Out(n) => {
            let outer = graph.node(node.inputs[0]);
            let Op::Scan(scan) = &outer.op else {
                return (false, Vec::new());
            };
            let body = body_partials(graph, outer, scan, partial);
            (
                body.results.get(*n as usize).copied().unwrap_or(false),
                Vec::new(),
            )
        }
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Table(_) | Op::Unary(_) => unless(!any),
        Op::Binary(_) | Op::Dropout { .. } | Op::Take(..) | Op::Blend => unless(!any),
        Op::Copies(..) | Op::Clip(..) | Op::Gather(..) | Op::GatherMean(_) => unless(!any),
        Op::Sampled(_) => unless(!any),
        Op::EdgeSoftmax(_) | Op::Pick | Op::PickHead | Op::PlaceHead(_) => unless(!any),
        Op::ReduceCols(..) | Op::Redistribute(_) | Op::LossGrad(_) => unless(!any),
    }
}

/// Partial sums at the border of a scan body.
pub struct BodyPartials {
    /// Arguments.
    pub args: Vec<bool>,
    /// Results.
    pub results: Vec<bool>,
    /// The body's nodes.
    pub nodes: Partials,
}

/// Finds which carries of a scan accumulate partial sums: those that start partial or at zero, and
/// stay partial in every iteration.
pub fn body_partials(graph: &Graph, node: &Node, scan: &Scan, partial: &[bool]) -> BodyPartials {
    let carries = scan.carries as usize;
    let mut args: Vec<bool> = (0..node.inputs.len())
        .map(|i| i < carries && (partial[node.inputs[i].0 as usize] || zero(graph, node.inputs[i])))
        .collect();
    loop {
        let whole: Vec<NodeId> = (0..carries)
            .filter(|c| !args[*c])
            .map(|c| scan.body.results[c])
            .collect();
        let nodes = partials(&scan.body, &args, &whole);
        let of = |r: &NodeId| nodes.partial[r.0 as usize];
        let results: Vec<bool> = scan.body.results.iter().map(of).collect();
        let dropped: Vec<usize> = (0..carries).filter(|c| args[*c] && !results[*c]).collect();
        if dropped.is_empty() {
            return BodyPartials {
                args,
                results,
                nodes,
            };
        }
        for carry in dropped {
            args[carry] = false;
        }
    }
}

/// Whether a node is the constant 0, which is its own share on every rank.
fn zero(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    matches!(node.op, Op::Const(0.0))
        || matches!(node.op, Op::Broadcast(_)) && zero(graph, node.inputs[0])
}
