//! Partial tensors: sums over one rank's rows, yet to be added over the ranks.

use crate::lower::Lowerer;
use gnnc_ir::graph::op::{Clip, Copies, Op, Scan};
use gnnc_ir::kernel::Reduce;
use gnnc_ir::program::Among;
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::{Graph, Node, NodeId, Rows};

/// The ranks whose shares have yet to be added; `None` if a value is whole.
pub type Shares = Option<Among>;

/// Partial sums of a region, by node.
#[derive(Clone, Debug, Default)]
pub struct Partials {
    /// The ranks that have shares of the node's value.
    pub partial: Vec<Shares>,
    /// Those whose shares are added as soon as the node is computed, because a nonlinear operator
    /// reads the sum.
    pub reduce_now: Vec<Shares>,
}

/// Ranks on a [mesh](gnnc_ir::words::mesh::Mesh), of which some groups may have one rank.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    several_slices: bool,
    several_copies: bool,
    /// Whether groups of ranks divide the vertices.
    in_groups: bool,
    /// Whether shares are added before anything reads them.
    at_once: bool,
}

impl Spread {
    /// The ranks of a program.
    pub fn of(lowerer: &Lowerer) -> Self {
        let several = |among| lowerer.program.group_ranks(among) > 1;
        Self {
            in_groups: lowerer.in_groups,
            at_once: lowerer.adds_at_once,
            several_slices: several(Among::Slices),
            several_copies: several(Among::Copies),
        }
    }

    /// Shares of the ranks with other slices.
    fn slices(self) -> Shares {
        match (self.several_slices, self.several_copies) {
            (true, true) => Some(Among::Slices),
            (true, false) => Some(Among::All),
            (false, _) => None,
        }
    }

    /// Shares of the ranks with copies of the same slice.
    fn copies(self) -> Shares {
        match (self.several_copies, self.several_slices) {
            (true, true) => Some(Among::Copies),
            (true, false) => Some(Among::All),
            (false, _) => None,
        }
    }
}

/// Shares of the ranks of both.
fn union(a: Shares, b: Shares) -> Shares {
    match (a, b) {
        (None, other) | (other, None) => other,
        (Some(a), Some(b)) if a == b => Some(a),
        (Some(_), Some(_)) => Some(Among::All),
    }
}

/// The partial sums of a model. Values that are the same in every epoch are whole, because `setup` adds
/// the shares of ranks once.
pub fn of_model(graph: &Graph, spread: Spread) -> Partials {
    let fixed = crate::fixed::fixed(graph, &[]);
    let full: Vec<NodeId> = graph
        .iter()
        .map(|(id, _)| id)
        .filter(|id| fixed[id.0 as usize])
        .collect();
    partials(graph, spread, &[], &full)
}

/// Finds the partial sums of a region. `args` says which arguments are partial; the nodes `full`
/// must be whole.
pub fn partials(graph: &Graph, spread: Spread, args: &[Shares], full: &[NodeId]) -> Partials {
    let mut reduce_now = vec![false; graph.nodes.len()];
    for id in full {
        reduce_now[id.0 as usize] = true;
    }
    loop {
        let mut partial: Vec<Shares> = vec![None; graph.nodes.len()];
        let mut changed = false;
        let mut reduced = partial.clone();
        for (id, node) in graph.iter() {
            let n = id.0 as usize;
            let flags: Vec<Shares> = node.inputs.iter().map(|i| partial[i.0 as usize]).collect();
            let (result, whole) = transfer(graph, spread, node, &flags, &partial, args);
            for position in whole {
                for sum in sums(graph, &partial, node.inputs[position]) {
                    let flag = &mut reduce_now[sum.0 as usize];
                    changed |= !*flag;
                    *flag = true;
                }
            }
            match reduce_now[n] {
                // A value that was never partial has nothing to add.
                true => reduced[n] = result,
                false => partial[n] = result,
            }
        }
        if !changed {
            return Partials {
                partial,
                reduce_now: reduced,
            };
        }
    }
}

/// The nodes whose shares a partial value is made of. Kernels compute functions of elements together
/// with what reads them, so that there is no buffer to add; their operands have one.
fn sums(graph: &Graph, partial: &[Shares], id: NodeId) -> Vec<NodeId> {
    let node = graph.node(id);
    if !matches!(node.op, Op::Unary(_) | Op::Binary(_) | Op::Broadcast(_)) {
        return vec![id];
    }
    let shared = node
        .inputs
        .iter()
        .filter(|input| partial[input.0 as usize].is_some());
    shared
        .flat_map(|input| sums(graph, partial, *input))
        .collect()
}

/// The shares of a node, and which of its partial operands must be made whole.
fn transfer(
    graph: &Graph,
    spread: Spread,
    node: &Node,
    flags: &[Shares],
    partial: &[Shares],
    args: &[Shares],
) -> (Shares, Vec<usize>) {
    let any = flags.iter().copied().fold(None, union);
    let all_partial = || {
        let partial = (0..flags.len()).filter(|i| flags[*i].is_some());
        partial.collect::<Vec<_>>()
    };
    let unless = |linear: bool| {
        if linear {
            (any, Vec::new())
        } else {
            (None, all_partial())
        }
    };
    let both = || flags.iter().all(Option::is_some) && flags.len() == 2;
    // Ranks add numbers of fixed rows only: a sum is whole before rows of vertices or edges read it.
    if any.is_some() && !matches!(node.ty.rows, Rows::Fixed(_)) {
        return (None, all_partial());
    }
    let passes_on = matches!(node.op, Op::Scan(_) | Op::Out(_));
    if any.is_some() && spread.at_once && !passes_on {
        return (None, all_partial());
    }
    match &node.op {
        Op::Arg(n) => (args.get(*n as usize).copied().flatten(), Vec::new()),
        Op::Loss(_) => (Some(Among::All), Vec::new()),
        Op::SumRanks => (union(any, spread.slices()), Vec::new()),
        // Uses only own rows.
        Op::Clip(Clip::Factor, _) => (None, Vec::new()),
        Op::SumRows | Op::PickSum(_) | Op::MatMulTN => match graph.ty(node.inputs[0]).rows {
            // The ranks with the same slice have the rows of all groups.
            Rows::All | Rows::AllEdges(_) if spread.in_groups => {
                let (of_operands, whole) = unless(!both());
                (union(of_operands, spread.copies()), whole)
            }
            // Every rank has all rows, or the rows of a weight.
            Rows::Fixed(_) | Rows::All | Rows::AllEdges(_) => unless(!both()),
            Rows::Vertices | Rows::Edges(_) => (Some(Among::All), Vec::new()),
            // Every rank has the rows of all ranks with slices of the same copy.
            rows @ (Rows::Level(_) | Rows::LevelEdges(..)) if rows.are_all() => {
                let (of_operands, whole) = unless(!both());
                (union(of_operands, spread.copies()), whole)
            }
            Rows::Level(_) | Rows::LevelEdges(..) => (Some(Among::All), Vec::new()),
        },
        Op::Binary(Binary::Add | Binary::Sub) => unless(flags[0] == flags[1]),
        Op::Binary(Binary::Mul) | Op::MatMul | Op::MatMulNT => unless(!both()),
        Op::Binary(Binary::Div) => unless(flags[1].is_none()),
        Op::Concat => unless(flags.iter().all(|f| *f == any)),
        Op::Unary(Unary::Neg)
        | Op::Broadcast(_)
        | Op::ReduceCols(_, Reduce::Sum)
        | Op::PadRows { .. }
        | Op::PadCols { .. } => (any, Vec::new()),
        Op::Reshape { .. } | Op::SliceCols { .. } | Op::SliceRows { .. } => (any, Vec::new()),
        Op::Copies(Copies::Kept | Copies::Seen, _) => (any, Vec::new()),
        Op::Scan(scan) => {
            let body = body_partials(graph, spread, node, scan, partial);
            let whole = (0..flags.len()).filter(|i| flags[*i].is_some() && body.args[*i].is_none());
            (None, whole.collect())
        }
        Op::Out(n) => {
            let outer = graph.node(node.inputs[0]);
            let Op::Scan(scan) = &outer.op else {
                return (None, Vec::new());
            };
            let body = body_partials(graph, spread, outer, scan, partial);
            let result = body.results.get(*n as usize);
            (result.copied().flatten(), Vec::new())
        }
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Table(_) | Op::Unary(_) => {
            unless(any.is_none())
        }
        Op::Binary(_) | Op::Dropout { .. } | Op::Take(..) | Op::Blend => unless(any.is_none()),
        Op::Copies(..) | Op::Clip(..) | Op::Gather(..) | Op::GatherMean(_) => unless(any.is_none()),
        Op::Sampled(_) => unless(any.is_none()),
        Op::EdgeSoftmax(_) | Op::Pick | Op::PickHead | Op::PlaceHead(_) => unless(any.is_none()),
        Op::ReduceCols(..) | Op::Redistribute(_) | Op::LossGrad(_) => unless(any.is_none()),
    }
}

/// Partial sums at the border of a scan body.
pub struct BodyPartials {
    /// Arguments.
    pub args: Vec<Shares>,
    /// Results.
    pub results: Vec<Shares>,
    /// The body's nodes.
    pub nodes: Partials,
}

/// Finds which carries of a scan accumulate partial sums: those that start partial or at zero, and
/// stay partial in every iteration.
pub fn body_partials(
    graph: &Graph,
    spread: Spread,
    node: &Node,
    scan: &Scan,
    partial: &[Shares],
) -> BodyPartials {
    let carries = scan.carries as usize;
    let start = |(position, input): (usize, &NodeId)| {
        let shares = partial[input.0 as usize];
        match position < carries {
            true if zero(graph, *input) => Some(Among::All),
            true => shares,
            false => None,
        }
    };
    let mut args: Vec<Shares> = node.inputs.iter().enumerate().map(start).collect();
    loop {
        let whole: Vec<NodeId> = (0..carries)
            .filter(|c| args[*c].is_none())
            .map(|c| scan.body.results[c])
            .collect();
        let nodes = partials(&scan.body, spread, &args, &whole);
        let of = |r: &NodeId| nodes.partial[r.0 as usize];
        let results: Vec<Shares> = scan.body.results.iter().map(of).collect();
        let kept = |c: &usize| args[*c].is_none() || args[*c] == results[*c];
        let dropped: Vec<usize> = (0..carries).filter(|c| !kept(c)).collect();
        if dropped.is_empty() {
            return BodyPartials {
                args,
                results,
                nodes,
            };
        }
        for carry in dropped {
            args[carry] = None;
        }
    }
}

/// Whether a node is the constant 0, which is its own share on every rank.
fn zero(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    matches!(node.op, Op::Const(0.0))
        || matches!(node.op, Op::Broadcast(_)) && zero(graph, node.inputs[0])
}
