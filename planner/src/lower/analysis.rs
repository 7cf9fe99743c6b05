//! Facts about the nodes of a graph that decide how it is cut into kernels.

use crate::fixed::fixed;
use crate::lower::Lowerer;
use crate::lower::partial::{Partials, Shares};
use crate::lower::passes::{Passes, passes};
use crate::lower::produce::collects_fresh;
use gnnc_ir::graph::op::{Copies, Input, Op, Sampled};
use gnnc_ir::kernel::End;
use gnnc_ir::words::scalar::Binary;
use gnnc_ir::{Graph, NodeId, Rows, Type};

/// Facts about every node of one region, indexed by node.
pub struct Analysis {
    /// Depends on no parameter, dropout or loop argument: the same in every epoch.
    pub fixed: Vec<bool>,
    /// Has a buffer of its own (or is a view of one).
    pub stored: Vec<bool>,
    /// `host[p] = g`: the kernel of reduction or product `g` computes `p` as its epilogue.
    pub host: Vec<Option<NodeId>>,
    /// Some kernel reads its halo rows.
    pub read_at_source: Vec<bool>,
    /// Sums over the rank's own rows, yet to be added over the ranks.
    pub partial: Partials,
    /// Number of uses, including results.
    pub uses: Vec<u32>,
    /// Sums over edges that are computed together.
    pub passes: Passes,
}

/// Whether an operator is computed element by element, and so inside another kernel.
pub fn pointwise(op: &Op) -> bool {
    match op {
        Op::Unary(_) | Op::Binary(_) | Op::Dropout { .. } | Op::Broadcast(_) => true,
        Op::Const(_) | Op::Input(Input::Fresh(_)) => true,
        Op::Take(..) | Op::Pick | Op::PickHead | Op::PlaceHead(_) => true,
        Op::Input(_) | Op::Param(_) | Op::Table(_) | Op::Arg(_) | Op::Scan(_) | Op::Out(_) => false,
        Op::Gather(..) | Op::GatherMean(_) | Op::EdgeSoftmax(_) | Op::PickSum(_) => false,
        Op::MatMul | Op::MatMulNT | Op::MatMulTN | Op::ReduceCols(..) | Op::SumRows => false,
        Op::Reshape { .. } | Op::SliceCols { .. } | Op::SliceRows { .. } => false,
        Op::Concat | Op::PadCols { .. } | Op::PadRows { .. } => false,
        Op::Redistribute(_) | Op::SumRanks | Op::Blend | Op::Copies(..) | Op::Clip(..) => false,
        Op::Loss(_) | Op::LossGrad(_) | Op::Sampled(_) => false,
    }
}

/// Whether an operator only renames the elements of its operand, or does nothing (sums over the
/// ranks wait until needed, see `partial.rs`).
pub fn view(op: &Op) -> bool {
    match op {
        Op::Reshape { .. } | Op::SliceCols { .. } | Op::SliceRows { .. } => true,
        Op::SumRanks | Op::Copies(Copies::Kept | Copies::Seen | Copies::Through, _) => true,
        // Levels are prefixes of each other.
        Op::Sampled(Sampled::Prefix(_)) => true,
        Op::Sampled(Sampled::Fetch(_) | Sampled::AddPrefix) => false,
        Op::Copies(Copies::Back | Copies::Left, _) | Op::Clip(..) | Op::Blend => false,
        Op::Input(_) | Op::Param(_) | Op::Table(_) | Op::Arg(_) | Op::Scan(_) | Op::Out(_) => false,
        Op::Const(_) | Op::Unary(_) | Op::Binary(_) | Op::Dropout { .. } => false,
        Op::Broadcast(_) | Op::Take(..) | Op::Pick | Op::PickHead | Op::PlaceHead(_) => false,
        Op::Gather(..) | Op::GatherMean(_) | Op::EdgeSoftmax(_) | Op::PickSum(_) => false,
        Op::MatMul | Op::MatMulNT | Op::MatMulTN | Op::ReduceCols(..) | Op::SumRows => false,
        Op::Concat | Op::PadCols { .. } | Op::PadRows { .. } => false,
        Op::Redistribute(_) | Op::Loss(_) | Op::LossGrad(_) => false,
    }
}

/// Whether it is a single number, cheap enough to compute wherever it is used.
fn tiny(ty: Type) -> bool {
    ty.rows == Rows::Fixed(1) && ty.columns() == 1 && ty.stack == 0
}

fn is_edge(ty: Type) -> bool {
    ty.rows.edge_set().is_some()
}

/// Analyzes a region.
pub fn analyse(graph: &Graph, partial: Partials, lowerer: &Lowerer) -> Analysis {
    let users = graph.users();
    let fixed = fixed(graph, &[]);
    let uses = uses(graph);
    let blends = graph.nodes.iter().any(|node| node.op == Op::Blend);
    let kept = of_products(graph);
    let passes = passes(graph, &fixed, &|id| {
        let node = graph.node(id);
        let value = node.inputs[0];
        // What edges see of a blend is known only while the chunks of destinations take turns.
        let late = blends && matches!(node.op, Op::Gather(_, End::Src, _));
        let places = matches!(graph.node(value).op, Op::PlaceHead(_));
        late || places || collects_fresh(graph, value) || kept[value.0 as usize]
    });
    let mut stored = stored(graph, &users, &uses, &fixed);
    for (n, of) in passes.of.iter().enumerate() {
        stored[n] = (stored[n] || of.is_some()) && !passes.inlined[n];
    }
    for softmax in passes.list.iter().filter_map(|pass| pass.softmax) {
        stored[softmax.log_sum.0 as usize] = softmax.kept;
    }
    let host = hosts(
        graph,
        (&users, &uses),
        &fixed,
        &mut stored,
        &partial.reduce_now,
        &passes,
        lowerer,
    );
    Analysis {
        read_at_source: read_at_source(graph),
        fixed,
        stored,
        host,
        partial,
        uses,
        passes,
    }
}

fn uses(graph: &Graph) -> Vec<u32> {
    let mut uses = vec![0; graph.nodes.len()];
    for id in graph
        .nodes
        .iter()
        .flat_map(|n| &n.inputs)
        .chain(&graph.results)
    {
        uses[id.0 as usize] += 1;
    }
    uses
}

/// Whether `user` needs its operand number `position` in memory.
fn needs_memory(graph: &Graph, user: &Op, position: usize, operand: NodeId) -> bool {
    match user {
        Op::MatMul | Op::MatMulNT | Op::MatMulTN | Op::Loss(_) | Op::LossGrad(_) => true,
        Op::Redistribute(_) => true,
        Op::Copies(..) | Op::Clip(..) => true,
        Op::Sampled(Sampled::Fetch(_) | Sampled::Prefix(_)) => true,
        // What is added is computed where it is added.
        Op::Sampled(Sampled::AddPrefix) => position == 0,
        // The kept tensor is exchanged and copied.
        Op::Blend => position >= 2,
        Op::Take(..) | Op::Pick => true,
        // The head is picked directly from the vertex's row.
        Op::PickHead => position > 0 || !matches!(graph.node(operand).op, Op::Take(..)),
        Op::PlaceHead(_) => position > 0,
        // The edges of a type are not contiguous, so their values are computed once.
        Op::PickSum(_) => position == 0,
        // A carry's initial value is computed directly into the loop's buffer.
        Op::Scan(scan) => position >= scan.carries as usize,
        Op::Reshape { .. } | Op::SliceCols { .. } | Op::SliceRows { .. } | Op::SumRanks => true,
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Table(_) | Op::Arg(_) => false,
        Op::Unary(_) | Op::Binary(_) | Op::Dropout { .. } | Op::Broadcast(_) => false,
        Op::Gather(..) | Op::GatherMean(_) | Op::EdgeSoftmax(_) | Op::Concat => false,
        Op::PadCols { .. } | Op::PadRows { .. } | Op::ReduceCols(..) => false,
        Op::SumRows | Op::Out(_) => false,
    }
}

/// Edge tensors that a product reads, and what is computed from them edge by edge. They are in
/// memory, and may need numbers that a pass stores, so no pass may wait for them.
fn of_products(graph: &Graph) -> Vec<bool> {
    let mut found = vec![false; graph.nodes.len()];
    for node in graph
        .nodes
        .iter()
        .filter(|node| node.op.product().is_some())
    {
        for input in &node.inputs {
            let operand = graph.node(*input);
            found[input.0 as usize] |= is_edge(operand.ty) && pointwise(&operand.op);
        }
    }
    for (id, node) in graph.iter() {
        let n = id.0 as usize;
        found[n] |= is_edge(node.ty)
            && pointwise(&node.op)
            && node.inputs.iter().any(|input| found[input.0 as usize]);
    }
    found
}

fn stored(graph: &Graph, users: &[Vec<NodeId>], uses: &[u32], fixed: &[bool]) -> Vec<bool> {
    let mut stored: Vec<bool> = graph.nodes.iter().map(|n| !pointwise(&n.op)).collect();
    for (id, node) in graph.iter() {
        for (position, input) in node.inputs.iter().enumerate() {
            stored[input.0 as usize] |= needs_memory(graph, &node.op, position, *input);
        }
        let n = id.0 as usize;
        if stored[n]
            || matches!(node.op, Op::Const(_) | Op::Input(Input::Fresh(_)))
            || tiny(node.ty)
        {
            continue;
        }
        // Computed once in `setup` if an epoch needs it, unless the tensor is too large.
        let hoisted = fixed[n]
            && (!is_edge(node.ty) || node.ty.columns() == 1)
            && !matches!(node.op, Op::Broadcast(_))
            && users[n].iter().any(|u| !fixed[u.0 as usize]);
        // Shared work is stored, except wide edge tensors, which are never materialized.
        let shared =
            uses[n] > 1 && (!is_edge(node.ty) || (node.ty.width == 1 && !loaded(graph, id)));
        stored[n] = hoisted || shared;
    }
    for id in &graph.results {
        stored[id.0 as usize] = true;
    }
    stored
}

/// Whether an edge tensor costs about as much to compute as to load: rows of vertices or tables,
/// and table rows times a stored number of the edge.
fn loaded(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let picked = |id: &NodeId| matches!(graph.node(*id).op, Op::Pick);
    if let (Op::Binary(Binary::Mul), [a, b]) = (&node.op, &node.inputs[..]) {
        let number = |id: &NodeId| graph.ty(*id).columns() == 1;
        return picked(a) && number(b) || picked(b) && number(a);
    }
    matches!(node.op, Op::Take(..) | Op::Pick | Op::PickHead)
}

/// For every reduction and product, finds the element-wise node its kernel can end in.
fn hosts(
    graph: &Graph,
    (users, uses): (&[Vec<NodeId>], &[u32]),
    fixed: &[bool],
    stored: &mut [bool],
    reduce_now: &[Shares],
    passes: &Passes,
    lowerer: &Lowerer,
) -> Vec<Option<NodeId>> {
    let mut host: Vec<Option<NodeId>> = vec![None; graph.nodes.len()];
    for (g, node) in graph.iter() {
        let hosting = matches!(
            node.op,
            Op::Gather(..) | Op::ReduceCols(..) | Op::MatMul | Op::MatMulNT
        );
        // Sums over out-edges are complete only after the other ranks' shares have arrived.
        let early = lowerer.has_halo(node.ty.rows) && matches!(node.op, Op::Gather(_, End::Src, _));
        // Heads that no edge names are 0, whatever a function of them would give.
        let places = node
            .inputs
            .first()
            .is_some_and(|i| matches!(graph.node(*i).op, Op::PlaceHead(_)));
        // A product of edge rows goes to a library, and a kernel after it walks edges.
        let edges = node.op.product().is_some() && node.ty.rows.edge_set().is_some();
        let early = early || places || edges;
        let apart = passes.inlined[g.0 as usize] || reduce_now[g.0 as usize].is_some();
        if !hosting || early || apart || graph.results.contains(&g) {
            continue;
        }
        let mut at = g;
        while uses[at.0 as usize] == 1 && (at == g || !stored[at.0 as usize]) {
            let [user] = users[at.0 as usize][..] else {
                break;
            };
            let next = graph.node(user);
            let chains = matches!(next.op, Op::Unary(_) | Op::Binary(_) | Op::Dropout { .. });
            // What is the same in every epoch is computed once, without what is not.
            let once = fixed[at.0 as usize] && !fixed[user.0 as usize];
            let own = passes.of[user.0 as usize].is_some() || passes.inlined[user.0 as usize];
            let waits = passes.of[g.0 as usize].is_some_and(|pass| {
                let mut others = next.inputs.iter().filter(|id| **id != at);
                others.any(|id| !passes.may_read(pass, *id))
            });
            if !chains || next.ty != node.ty || once || own || waits {
                break;
            }
            at = user;
        }
        let end = stored[at.0 as usize] || carry_start(graph, users, uses, at);
        if at != g && end && host[at.0 as usize].is_none() {
            host[at.0 as usize] = Some(g);
            stored[g.0 as usize] = false;
        }
    }
    host
}

/// Whether a node is only used as the initial value of a loop's carry.
fn carry_start(graph: &Graph, users: &[Vec<NodeId>], uses: &[u32], id: NodeId) -> bool {
    let [user] = users[id.0 as usize][..] else {
        return false;
    };
    let node = graph.node(user);
    let Op::Scan(scan) = &node.op else {
        return false;
    };
    let position = node.inputs.iter().position(|i| *i == id);
    uses[id.0 as usize] == 1 && position.is_some_and(|p| p < scan.carries as usize)
}

/// Which vertex tensors some kernel reads at the source of an edge.
pub fn read_at_source(graph: &Graph) -> Vec<bool> {
    let mut read = vec![false; graph.nodes.len()];
    for (_, node) in graph.iter().rev() {
        let by_rows = matches!(node.ty.rows, Rows::Edges(_) | Rows::AllEdges(_));
        if by_rows && matches!(node.op, Op::Take(_, End::Src)) {
            read[node.inputs[0].0 as usize] = true;
        }
    }
    for (id, node) in graph.iter().rev() {
        // A tensor with copies is exchanged itself, whatever it is computed from.
        let kept = matches!(node.op, Op::Copies(Copies::Kept, _));
        if view(&node.op) && !kept && read[id.0 as usize] {
            read[node.inputs[0].0 as usize] = true;
        }
        if let Op::Scan(scan) = &node.op {
            let inner = argument_flags(&scan.body, &read_at_source(&scan.body));
            for (input, flag) in node.inputs.iter().zip(inner) {
                read[input.0 as usize] |= flag;
            }
        }
    }
    read
}

/// For each argument, whether any node that reads it has the flag.
pub fn argument_flags(body: &Graph, flags: &[bool]) -> Vec<bool> {
    let mut of_args = vec![false; body.args.len()];
    for (id, node) in body.iter() {
        if let Op::Arg(n) = node.op {
            of_args[n as usize] |= flags[id.0 as usize];
        }
    }
    of_args
}
