//! Regions: the parts of a graph that are rewritten one at a time.
//!
//! A graph is cut where no rule looks across: behind a non-linearity of vertices, and before a dropout.
//! How a model is written in layers does not matter. Equal layers give equal regions, which are
//! rewritten once. A region that is still too large, as a chain of residual layers is, is also cut at
//! sums that have several readers, and then by size. Values that cross a border, and values that are
//! opaque to rules, are leaves. Single columns that follow from the data graph alone (an inverse root
//! of a degree) belong to every region that reads them. A region is written by a walk from its results,
//! so it depends neither on node numbers nor on unrelated parts of the graph.

use crate::facts::{Facts, Known, Sign, Value, known};
use crate::language::{ENode, Symbol, is_opaque};
use egg::{Id, RecExpr};
use gnnc_ir::graph::op::{Scan, Site, ValueOrigin};
use gnnc_ir::graph::{Node, NodeId};
use gnnc_ir::{Binary, Graph, Op, Unary};
use petgraph::unionfind::UnionFind;
use std::collections::BTreeMap;

/// A part of a graph without its origin: equal layers give equal regions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region {
    /// The operators; the last node is [`Symbol::Results`].
    pub term: RecExpr<ENode>,
    /// Types of and facts about the leaves.
    pub leaves: Vec<Value>,
    /// Width of the input features.
    pub features: u32,
}

/// A region and its position in a graph.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The region.
    pub region: Region,
    /// The node of each leaf.
    pub leaves: Vec<NodeId>,
    /// The node of each result.
    pub results: Vec<NodeId>,
    /// The node of each node in the term, except the last.
    pub nodes: Vec<NodeId>,
    /// The dropout site of each site number in the region.
    pub sites: Vec<Site>,
    /// Scope of the first node.
    pub scope: u32,
}

/// Facts about every value of a graph, and about the arguments of its scans.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// One entry per node.
    pub values: Vec<Value>,
    /// Facts about the arguments of each scan's body.
    pub bodies: BTreeMap<NodeId, Vec<Known>>,
}

/// Derives facts about every value; `args` describes the graph's arguments.
pub fn surroundings(graph: &Graph, args: &[Known], facts: &Facts) -> Surroundings {
    let mut found = Surroundings::default();
    let mut results: BTreeMap<NodeId, Vec<Known>> = BTreeMap::new();
    for (id, node) in graph.iter() {
        let kids: Vec<Value> = node
            .inputs
            .iter()
            .map(|i| found.values[i.0 as usize])
            .collect();
        let known = match node.op.origin() {
            ValueOrigin::Arg(n) => args.get(n as usize).copied().unwrap_or(Known::PARAM),
            ValueOrigin::Scan(scan) => {
                let (body, out) = scan_known(scan, &kids, facts);
                let first = out.first().copied().unwrap_or_default();
                found.bodies.insert(id, body);
                results.insert(id, out);
                first
            }
            ValueOrigin::Out(n) => node
                .inputs
                .first()
                .and_then(|scan| results.get(scan)?.get(n as usize).copied())
                .unwrap_or(Known::PARAM),
            ValueOrigin::Input(_)
            | ValueOrigin::Param(_)
            | ValueOrigin::Const(_)
            | ValueOrigin::Table(_)
            | ValueOrigin::Operands => known(&node.op, &kids, facts),
        };
        found.values.push(Value { ty: node.ty, known });
    }
    found
}

/// Facts about the arguments of a scan's body, and about its results.
fn scan_known(scan: &Scan, operands: &[Value], facts: &Facts) -> (Vec<Known>, Vec<Known>) {
    let carries = scan.carries as usize;
    let first_x = carries + scan.consts as usize;
    let arg = |i: usize, operand: &Value| {
        // Only a constant operand has the same value in every iteration.
        if (carries..first_x).contains(&i) {
            operand.known
        } else {
            Known {
                sign: Sign::Unknown,
                finite: true,
                sparse: false,
                ..operand.known
            }
        }
    };
    let mut args: Vec<Known> = operands
        .iter()
        .enumerate()
        .map(|(i, v)| arg(i, v))
        .collect();
    // A carry needs a gradient, or changes between epochs, as soon as its next value does.
    loop {
        let body = surroundings(&scan.body, &args, facts);
        let results: Vec<Known> = scan
            .body
            .results
            .iter()
            .map(|id| body.values[id.0 as usize].known)
            .collect();
        let mut changed = false;
        for (arg, result) in args[..carries.min(results.len())].iter_mut().zip(&results) {
            let next = Known {
                needs_grad: arg.needs_grad || result.needs_grad,
                invariant: arg.invariant && result.invariant,
                ..*arg
            };
            changed |= next != *arg;
            *arg = next;
        }
        if changed {
            continue;
        }
        // A loop runs as a whole: values that change between iterations are computed only once if
        // the whole loop is.
        let once = results.iter().chain(&args).all(|known| known.invariant);
        for (i, arg) in args.iter_mut().enumerate() {
            arg.invariant &= once || (carries..first_x).contains(&i);
        }
        let out = results.into_iter().map(|known| Known {
            sign: Sign::Unknown,
            finite: true,
            sparse: false,
            invariant: once,
            ..known
        });
        return (args, out.collect());
    }
}

/// The regions of a graph. Nodes that no result needs belong to none.
pub fn regions(graph: &Graph, around: &Surroundings, most: usize) -> Vec<Placed> {
    let free = free(graph);
    let region_of = assign(graph, &free, most);
    let count = region_of.iter().flatten().max().map_or(0, |last| last + 1);
    let mut results: Vec<Vec<NodeId>> = vec![Vec::new(); count];
    let mut mark = |id: NodeId, reader: Option<usize>| {
        if let Some(region) = region_of[id.0 as usize]
            && reader != Some(region)
            && !results[region].contains(&id)
        {
            results[region].push(id);
        }
    };
    for (id, node) in graph.iter() {
        node.inputs
            .iter()
            .for_each(|input| mark(*input, region_of[id.0 as usize]));
    }
    graph.results.iter().for_each(|id| mark(*id, None));
    let inside = |of: NodeId, kid: NodeId| {
        free[kid.0 as usize] || region_of[of.0 as usize] == region_of[kid.0 as usize]
    };
    // First by what a region computes, which is equal for equal layers, then by what it reads.
    let (local, global) = (
        fingerprints(graph, inside),
        fingerprints(graph, |_, _| true),
    );
    let place = |(region, mut results): (usize, Vec<NodeId>)| {
        results.sort_by_key(|id| (local[id.0 as usize], global[id.0 as usize], *id));
        let is_inside = |id: NodeId| region_of[id.0 as usize] == Some(region);
        walk(
            graph,
            around,
            |id| free[id.0 as usize] || is_inside(id),
            results,
        )
    };
    results
        .into_iter()
        .enumerate()
        .filter(|(_, r)| !r.is_empty())
        .map(place)
        .collect()
}

/// Nodes that every region may have a copy of: inputs, constants, and single columns computed
/// element by element from those. Equal ones are merged in the end.
fn free(graph: &Graph) -> Vec<bool> {
    let mut free: Vec<bool> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let kids = node.inputs.iter().all(|id| free[id.0 as usize]);
        let computed = matches!(node.op, Op::Unary(_) | Op::Binary(_) | Op::Take(..));
        let given = matches!(node.op, Op::Input(_) | Op::Const(_));
        free.push(given || computed && kids && node.ty.columns() == 1);
    }
    free
}

/// The nodes that results need, operands first. Numbers of nodes do not show.
fn in_order(graph: &Graph) -> Vec<NodeId> {
    let mut order = Vec::with_capacity(graph.nodes.len());
    let mut seen = vec![false; graph.nodes.len()];
    let results = graph.results.iter().rev();
    let mut stack: Vec<(NodeId, bool)> = results.map(|id| (*id, false)).collect();
    while let Some((id, operands_done)) = stack.pop() {
        if operands_done {
            order.push(id);
        } else if !std::mem::replace(&mut seen[id.0 as usize], true) {
            stack.push((id, true));
            let operands = graph.node(id).inputs.iter().rev();
            stack.extend(operands.map(|operand| (*operand, false)));
        }
    }
    order
}

/// The region of every node that is not opaque to rules. Regions have at most `most` nodes.
fn assign(graph: &Graph, free: &[bool], most: usize) -> Vec<Option<usize>> {
    let inside = |id: NodeId| !is_opaque(&graph.node(id).op) && !free[id.0 as usize];
    let count = graph.nodes.len();
    let mut order = in_order(graph);
    order.retain(|id| inside(*id));
    let readers = graph.users();
    let shared_sum = |id: NodeId| {
        let sums = matches!(graph.node(id).op, Op::Binary(Binary::Add | Binary::Sub));
        sums && !on_edges(graph.node(id)) && readers[id.0 as usize].len() > 1
    };
    let (mut parts, mut finer) = (UnionFind::new(count), UnionFind::new(count));
    for id in &order {
        let node = graph.node(*id);
        let operands = node.inputs.iter().copied();
        for read in operands.filter(|read| inside(*read) && !border(&node.op, graph.node(*read))) {
            parts.union(id.0 as usize, read.0 as usize);
            if !shared_sum(read) {
                finer.union(id.0 as usize, read.0 as usize);
            }
        }
    }
    let most = most.max(1);
    let mut large = vec![0; count];
    order
        .iter()
        .for_each(|id| large[parts.find(id.0 as usize)] += 1);
    let mut region_of = vec![None; count];
    // By part: its region, and how many nodes it has so far.
    let mut begun: BTreeMap<(bool, usize), (usize, usize)> = BTreeMap::new();
    let mut regions = 0;
    for id in order {
        let place = id.0 as usize;
        let split = large[parts.find(place)] > most;
        let part = match split {
            true => finer.find(place),
            false => parts.find(place),
        };
        let (region, size) = begun.entry((split, part)).or_insert((regions, 0));
        if *size == most {
            (*region, *size) = (regions, 0);
        }
        if *size == 0 {
            regions += 1;
        }
        *size += 1;
        region_of[place] = Some(*region);
    }
    region_of
}

fn on_edges(node: &Node) -> bool {
    node.ty.rows.edge_set().is_some()
}

/// Whether no rule looks from a reader into what it reads. Work on edges may move to vertices, so it
/// has no borders.
fn border(reader: &Op, read: &Node) -> bool {
    if on_edges(read) {
        return false;
    }
    // Rules take slices of element-wise functions, and roots of products apart.
    let by_column = matches!(reader, Op::Unary(_) | Op::SliceCols { .. });
    let taken_apart = matches!(
        read.op,
        Op::Unary(Unary::Neg | Unary::Sqrt | Unary::Rsqrt | Unary::Recip)
    );
    let non_linear = matches!(read.op, Op::Unary(_) | Op::Binary(Binary::Max)) && !taken_apart;
    matches!(reader, Op::Dropout { .. }) || non_linear && !by_column
}

/// Writes a region, operands first, starting from its results.
fn walk(
    graph: &Graph,
    around: &Surroundings,
    inside: impl Fn(NodeId) -> bool,
    results: Vec<NodeId>,
) -> Placed {
    let mut term = RecExpr::default();
    let (mut nodes, mut leaves, mut sites) = (Vec::new(), Vec::<NodeId>::new(), Vec::new());
    let mut index: BTreeMap<NodeId, Id> = BTreeMap::new();
    let mut stack: Vec<NodeId> = results.iter().rev().copied().collect();
    while let Some(id) = stack.last().copied() {
        if index.contains_key(&id) {
            stack.pop();
            continue;
        }
        let node = graph.node(id);
        let is_inside = inside(id);
        let kids: &[NodeId] = if is_inside { &node.inputs } else { &[] };
        let missing: Vec<NodeId> = kids
            .iter()
            .rev()
            .filter(|kid| !index.contains_key(kid))
            .copied()
            .collect();
        if !missing.is_empty() {
            stack.extend(missing);
            continue;
        }
        let symbol = if is_inside {
            Symbol::Op(local_site(&node.op, &mut sites))
        } else {
            Symbol::Leaf(leaf(graph, &mut leaves, id))
        };
        let kids = kids.iter().map(|kid| index[kid]).collect();
        index.insert(id, term.add(ENode { symbol, kids }));
        nodes.push(id);
        stack.pop();
    }
    let kids = results.iter().map(|id| index[id]).collect();
    term.add(ENode {
        symbol: Symbol::Results,
        kids,
    });
    let scope = results
        .iter()
        .map(|id| graph.node(*id).scope)
        .min()
        .unwrap_or(0);
    let values = leaves
        .iter()
        .map(|id| around.values[id.0 as usize])
        .collect();
    let region = Region {
        term,
        leaves: values,
        features: graph.features,
    };
    Placed {
        region,
        leaves,
        results,
        nodes,
        sites,
        scope,
    }
}

/// An operator with its dropout site numbered within the region.
fn local_site(op: &Op, sites: &mut Vec<Site>) -> Op {
    let Op::Dropout { p, site, slice } = op else {
        return op.clone();
    };
    let number = sites
        .iter()
        .position(|known| known == site)
        .unwrap_or_else(|| {
            sites.push(*site);
            sites.len() - 1
        });
    Op::Dropout {
        p: *p,
        site: (number as u32).into(),
        slice: *slice,
    }
}

/// The index of a leaf. Several nodes for one parameter or argument share a leaf.
fn leaf(graph: &Graph, leaves: &mut Vec<NodeId>, id: NodeId) -> u32 {
    let op = &graph.node(id).op;
    let shared = matches!(op, Op::Param(_) | Op::Arg(_));
    let same = |other: &NodeId| *other == id || shared && graph.node(*other).op == *op;
    let found = leaves.iter().position(same).unwrap_or_else(|| {
        leaves.push(id);
        leaves.len() - 1
    });
    found as u32
}

/// A hash of what each node computes, independent of node numbers. `follow` decides whether an
/// operand counts by what it computes or only by its type.
fn fingerprints(graph: &Graph, follow: impl Fn(NodeId, NodeId) -> bool) -> Vec<u64> {
    let mut prints: Vec<u64> = Vec::with_capacity(graph.nodes.len());
    for (id, node) in graph.iter() {
        let mut print = Fnv::new();
        // Printed floats are exact, so equal texts are equal operators.
        let mut own = graph.text(&node.op);
        if let Op::Dropout { p, .. } = node.op {
            own = format!("dropout {p}");
        } else if let Op::Scan(scan) = &node.op {
            own = format!("{own} {}", scan.body);
        } else if let Op::Table(values) = &node.op {
            own = format!("{values:?}");
        }
        print.write(own.as_bytes());
        print.write(node.ty.to_string().as_bytes());
        for input in &node.inputs {
            if follow(id, *input) {
                print.write(&prints[input.0 as usize].to_le_bytes());
            } else {
                print.write(graph.ty(*input).to_string().as_bytes());
            }
        }
        prints.push(print.0);
    }
    prints
}

/// FNV-1a, 64 bits: the same on every machine and with every compiler.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
