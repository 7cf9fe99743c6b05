//! Computation on slices of the input features' columns (P3, section 3).
//!
//! Every rank has some feature columns of all vertices, which never move. Operators that treat
//! columns alike run on the slices. A product that contracts the columns with a parameter gives a
//! share of its result; shares are added on their way back to rows. The parameter is cut by rows to
//! match. Its gradient uses a copy of the result's gradient on every rank, and is complete on the
//! rank that has the rows. A parameter with another reader stays whole, and its product runs by
//! rows.

use super::Ranks;
use super::components::Components;
use super::loops::Loop;
use crate::fixed::given;
use gnnc_ir::graph::Shard;
use gnnc_ir::graph::op::{Input, Op, Sampled, Slice};
use gnnc_ir::kernel::{Axis, Reduce};
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::{Graph, Node, NodeId, Rows, Type};

/// How a node is laid out if the features are in slices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Place {
    /// As without feature slices: by rows, or the same on every rank.
    #[default]
    Elsewhere,
    /// A slice of the columns of all rows, obtained without a message.
    Columns(Columns),
    /// A share of a sum over the ranks, for all rows.
    Share,
    /// Some rows of a parameter or its gradient, as this many blocks with one row per feature.
    Rows(u32),
    /// Sums over the rows of slices.
    Sums,
    /// A share of a sum over the ranks, for fixed rows.
    Part,
}

/// Slices of columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Columns {
    /// Number of blocks, each as wide as the features; a rank has the same slice of each.
    pub blocks: u32,
    /// The padding of a block is 0.
    zero: bool,
    /// Computed from rows of a parameter, so it is not available by rows.
    pub tied: bool,
}

impl Place {
    /// Whether only its slices exist, so that all its readers must work on slices.
    fn tied(self) -> bool {
        match self {
            Self::Columns(columns) => columns.tied,
            Self::Rows(_) | Self::Sums => true,
            Self::Elsewhere | Self::Share | Self::Part => false,
        }
    }

    /// The columns, if it is in slices.
    pub fn columns(self) -> Option<Columns> {
        match self {
            Self::Columns(columns) => Some(columns),
            _ => None,
        }
    }
}

/// For each parameter, the node of its gradient, in a graph that has gradients.
pub(super) type Grads = [Option<NodeId>];

/// For each cuttable component, in the order of [`Components::sets`]: whether it is cut and reads
/// only the features and constants of every vertex, so that it runs on feature slices.
pub(super) fn local(graph: &Graph, ranks: u32, components: &Components) -> Vec<bool> {
    let given = given(graph);
    let whole = vec![false; graph.nodes.len()];
    let mut local: Vec<bool> = components
        .sets
        .iter()
        .map(|set| {
            set.iter().all(|id| {
                let n = id.0 as usize;
                components.cut[n] == Some(Axis::Width) && !components.share[n]
            })
        })
        .collect();
    loop {
        let places = places(
            graph,
            ranks,
            components,
            (&members(graph, components, &local), &whole),
        );
        let mut changed = false;
        for (set, local) in components.sets.iter().zip(&mut local).filter(|(_, l)| **l) {
            let operands = set.iter().flat_map(|id| &graph.node(*id).inputs);
            let mut outside = operands.filter(|i| !set.contains(i));
            let stays = outside.all(|i| {
                let n = i.0 as usize;
                let narrow = narrow(graph.ty(*i), given[n]);
                narrow
                    || places[n]
                        .columns()
                        .is_some_and(|c| !c.tied && c.blocks == 1)
            });
            (*local, changed) = (stays, changed || !stays);
        }
        if !changed {
            return local;
        }
    }
}

/// For each node, whether its component runs on feature slices.
pub(super) fn members(graph: &Graph, components: &Components, local: &[bool]) -> Vec<bool> {
    let mut member = vec![false; graph.nodes.len()];
    for (set, local) in components.sets.iter().zip(local) {
        set.iter().for_each(|id| member[id.0 as usize] = *local);
    }
    member
}

/// One number per row that a rank has, or receives once, for every row.
fn narrow(ty: Type, given: bool) -> bool {
    ty.columns() == 1 && ty.stack == 0 && (given || ty.rows == Rows::Fixed(1))
}

/// The layout of every node. Only parameters that are `allowed` may be cut. A parameter and its
/// gradient are cut together or not at all.
pub(super) fn find(
    graph: &Graph,
    ranks: u32,
    (components, loops): (&Components, &[Option<Loop>]),
    (grads, allowed): (&Grads, &[bool]),
) -> Vec<Place> {
    let local = members(graph, components, &local(graph, ranks, components));
    let mut whole: Vec<bool> = graph
        .nodes
        .iter()
        .map(|node| matches!(node.op, Op::Param(p) if !allowed[p.0 as usize]))
        .collect();
    loop {
        let places = places(graph, ranks, components, (&local, &whole));
        let mut found = conflicts(graph, &places, grads);
        found.extend(arranged(graph, (components, loops), &places));
        if found.is_empty() {
            return places;
        }
        found.iter().for_each(|id| whole[id.0 as usize] = true);
    }
}

/// A graph without nodes, with the parameters as a rank has them.
pub(super) fn sharded(graph: &Graph, components: &Components, ranks: Ranks) -> Graph {
    let mut out = graph.clone_without_nodes();
    let slice = ranks.slice(Axis::Width, graph.features);
    for (spec, blocks) in out.params.iter_mut().zip(cut(graph, &components.places)) {
        if let Some(blocks) = blocks {
            *spec = spec.cut(Shard { blocks, slice });
        }
    }
    out
}

/// For each parameter, the number of blocks if it is cut by rows.
pub(super) fn cut(graph: &Graph, places: &[Place]) -> Vec<Option<u32>> {
    let mut cut = vec![None; graph.params.len()];
    for (id, node) in graph.iter() {
        if let (Op::Param(p), Place::Rows(blocks)) = (&node.op, places[id.0 as usize]) {
            cut[p.0 as usize] = Some(blocks);
        }
    }
    cut
}

/// The first operator that reads feature slices but cannot work on them, and the reason.
pub(super) fn breaker(graph: &Graph, ranks: u32, places: &[Place]) -> Option<String> {
    let reads = |node: &Node| {
        let columns = |i: &NodeId| places[i.0 as usize].columns().is_some();
        node.inputs.iter().any(columns)
    };
    let (_, node) = graph
        .iter()
        .find(|(id, node)| places[id.0 as usize] == Place::Elsewhere && reads(node))?;
    let name = match graph.scopes.get(node.scope as usize).map(String::as_str) {
        None | Some("") => format!("`{}`", node.op),
        Some(scope) => format!("`{}` in {scope}", node.op),
    };
    let columns = node
        .inputs
        .first()
        .and_then(|i| places[i.0 as usize].columns());
    let unequal = Slice::padded(graph.features, ranks) && columns.is_some_and(|c| !c.zero);
    if unequal && matches!(node.op, Op::MatMul | Op::ReduceCols(..)) {
        return Some(format!(
            "{name} adds {}, which {ranks} ranks cannot share equally, and the padding \
             is not 0 there",
            counted(graph.features, "column")
        ));
    }
    Some(format!(
        "{name} reads columns of the features and is neither"
    ))
}

/// Nodes that turn out to need whole rows: sources of slices whose readers cannot work on slices,
/// and parameters without their gradient.
fn conflicts(graph: &Graph, places: &[Place], grads: &Grads) -> Vec<NodeId> {
    let mut found = Vec::new();
    for (id, node) in graph.iter() {
        if places[id.0 as usize] == Place::Elsewhere {
            for input in &node.inputs {
                sources(graph, places, *input, &mut found);
            }
        }
    }
    let cut = cut(graph, places);
    for result in &graph.results {
        let place = places[result.0 as usize];
        let belongs = |(grad, cut): (&Option<NodeId>, &Option<u32>)| {
            *grad == Some(*result) && cut.is_some_and(|blocks| place == Place::Rows(blocks))
        };
        if !grads.iter().zip(&cut).any(belongs) {
            sources(graph, places, *result, &mut found);
        }
    }
    for (id, node) in graph.iter() {
        if let (Op::Param(p), Place::Rows(_)) = (&node.op, places[id.0 as usize]) {
            let grad = grads.get(p.0 as usize).copied().flatten();
            if grad.is_some_and(|g| places[g.0 as usize] != places[id.0 as usize]) {
                found.push(id);
            }
        }
    }
    found
}

/// Slices of several blocks whose reader wants slices of the whole tensor, which has other columns.
fn arranged(
    graph: &Graph,
    (components, loops): (&Components, &[Option<Loop>]),
    places: &[Place],
) -> Vec<NodeId> {
    let mut found = Vec::new();
    for (id, node) in graph.iter() {
        let n = id.0 as usize;
        let on_slices = |position: usize| match &loops[n] {
            Some(plan) => plan.slices[position],
            None => components.cut[n].is_some(),
        };
        let several = |id: &NodeId| {
            places[id.0 as usize]
                .columns()
                .is_some_and(|c| c.blocks != 1)
        };
        let inputs = node.inputs.iter().enumerate();
        let read = inputs.filter(|(position, i)| on_slices(*position) && several(i));
        found.extend(read.map(|(_, input)| *input));
    }
    found
}

/// The parameters and products that make a node available only in slices.
fn sources(graph: &Graph, places: &[Place], id: NodeId, found: &mut Vec<NodeId>) {
    if !places[id.0 as usize].tied() {
        return;
    }
    let node = graph.node(id);
    if matches!(node.op, Op::Param(_) | Op::MatMulTN) {
        found.push(id);
    } else {
        let inputs = node.inputs.iter();
        inputs.for_each(|i| sources(graph, places, *i, found));
    }
}

/// The layout of every node if `local` components run on feature slices and `whole` nodes do not.
fn places(
    graph: &Graph,
    ranks: u32,
    components: &Components,
    (local, whole): (&[bool], &[bool]),
) -> Vec<Place> {
    let given = given(graph);
    let mut places = vec![Place::Elsewhere; graph.nodes.len()];
    let transfer = Transfer {
        graph,
        features: graph.features,
        padded: Slice::padded(graph.features, ranks),
    };
    for (id, node) in graph.iter() {
        let n = id.0 as usize;
        places[n] = if whole[n] {
            Place::Elsewhere
        } else if components.cut[n].is_some() {
            let sliced = node.ty.heads == 1 && node.ty.width == graph.features;
            match sliced && local[n] {
                true => Place::Columns(Columns {
                    blocks: 1,
                    zero: components.zero[n],
                    tied: false,
                }),
                false => Place::Elsewhere,
            }
        } else {
            let narrow = |i: &NodeId| {
                let elsewhere = places[i.0 as usize] == Place::Elsewhere;
                elsewhere && narrow(graph.ty(*i), given[i.0 as usize])
            };
            let of: Vec<Place> = node.inputs.iter().map(|i| places[i.0 as usize]).collect();
            let narrow: Vec<bool> = node.inputs.iter().map(narrow).collect();
            transfer.node(node, &of, &narrow)
        };
    }
    places
}

struct Transfer<'a> {
    graph: &'a Graph,
    features: u32,
    padded: bool,
}

impl Transfer<'_> {
    /// The layout of a node whose operands have the layouts `of`. `narrow` operands have one number
    /// per row, available on every rank.
    fn node(&self, node: &Node, of: &[Place], narrow: &[bool]) -> Place {
        use Place::{Columns as On, Elsewhere, Part, Rows as Cut, Share, Sums};
        let blocks = |of: u32| {
            (self.features > 0 && of.is_multiple_of(self.features))
                .then(|| of / self.features)
                .filter(|blocks| *blocks > 0)
        };
        // The padding of a slice must not be added.
        let adds = |columns: Columns| columns.zero || !self.padded;
        match &node.op {
            // A single column has no slices.
            Op::Input(Input::Features) if self.features > 1 => On(Columns {
                blocks: 1,
                zero: true,
                tied: false,
            }),
            Op::Param(_) => match (node.ty.rows, node.ty.heads, node.ty.stack) {
                (Rows::Fixed(rows), 1, 0) => blocks(rows).map_or(Elsewhere, Cut),
                _ => Elsewhere,
            },
            Op::Unary(f) => match of[0] {
                On(x) => On(Columns {
                    zero: x.zero && f.eval(0.0) == 0.0,
                    ..x
                }),
                Cut(blocks) if *f == Unary::Neg => Cut(blocks),
                _ => Elsewhere,
            },
            Op::Dropout { .. } => match of[0] {
                On(x) if x.blocks == 1 => On(x),
                _ => Elsewhere,
            },
            // Rows of a batch are read from those of all vertices, and first rows from all rows.
            Op::Sampled(Sampled::Fetch(_) | Sampled::Prefix(_)) => match of[0] {
                On(x) => On(x),
                _ => Elsewhere,
            },
            Op::Binary(f) => self.binary(*f, [of[0], of[1]], narrow),
            Op::Concat => {
                let parts: Option<Vec<Columns>> = of.iter().map(|p| p.columns()).collect();
                parts.map_or(Elsewhere, |parts| {
                    On(Columns {
                        blocks: parts.iter().map(|p| p.blocks).sum(),
                        zero: parts.iter().all(|p| p.zero),
                        tied: parts.iter().any(|p| p.tied),
                    })
                })
            }
            Op::SliceCols { start, len } => match (of[0], blocks(*len)) {
                // Whatever edges read arrives padded with 0.
                (On(x), Some(blocks)) if start % self.features == 0 && adds(x) => {
                    On(Columns { blocks, ..x })
                }
                _ => Elsewhere,
            },
            Op::SliceRows { start, len } => match (of[0], blocks(*len)) {
                (Cut(_), Some(blocks)) if start % self.features == 0 => Cut(blocks),
                _ => Elsewhere,
            },
            Op::PadRows { before, after } => match of[0] {
                Cut(inner) if before % self.features == 0 && after % self.features == 0 => {
                    Cut(inner + (before + after) / self.features)
                }
                _ => Elsewhere,
            },
            Op::MatMul => match (of[0], of[1]) {
                (On(x), Cut(blocks)) if x.blocks == blocks && adds(x) => Share,
                // Products of parameters.
                (Cut(blocks), Elsewhere) => Cut(blocks),
                _ => Elsewhere,
            },
            Op::MatMulTN => match (of[0], of[1]) {
                (On(x), g) if adds(x) && !g.tied() && self.by_rows(node.inputs[1]) => Cut(x.blocks),
                (Cut(a), Cut(b)) if a == b => Part,
                _ => Elsewhere,
            },
            Op::MatMulNT => match (of[0], of[1]) {
                (g, Cut(blocks)) if !g.tied() && self.by_rows(node.inputs[0]) => On(Columns {
                    blocks,
                    zero: true,
                    tied: true,
                }),
                (Cut(blocks), Elsewhere) => Cut(blocks),
                _ => Elsewhere,
            },
            Op::ReduceCols(Axis::Width, Reduce::Sum) => match of[0] {
                On(x) if adds(x) => Share,
                Sums => Part,
                _ => Elsewhere,
            },
            Op::SumRows => match of[0] {
                On(x) if x.tied && adds(x) => Sums,
                _ => Elsewhere,
            },
            Op::Input(_) | Op::Const(_) | Op::Table(_) | Op::Arg(_) => Elsewhere,
            Op::Broadcast(_) | Op::Take(..) | Op::Blend | Op::Copies(..) => Elsewhere,
            Op::Clip(..) | Op::Gather(..) | Op::GatherMean(_) | Op::EdgeSoftmax(_) => Elsewhere,
            Op::Pick | Op::PickSum(_) | Op::PickHead | Op::PlaceHead(_) => Elsewhere,
            Op::Reshape { .. } | Op::PadCols { .. } | Op::ReduceCols(..) => Elsewhere,
            Op::Redistribute(_) | Op::SumRanks | Op::Loss(_) | Op::LossGrad(_) => Elsewhere,
            Op::Scan(_) | Op::Out(_) | Op::Sampled(Sampled::AddPrefix) => Elsewhere,
        }
    }

    fn by_rows(&self, id: NodeId) -> bool {
        self.graph.ty(id).rows.spread().is_some()
    }

    fn binary(&self, f: Binary, of: [Place; 2], narrow: &[bool]) -> Place {
        let zero = |a: bool, b: bool| match f {
            Binary::Mul => a || b,
            Binary::Div => a && !b,
            Binary::Add | Binary::Sub | Binary::Max => a && b,
            Binary::Eq => false,
        };
        match of {
            [Place::Columns(a), Place::Columns(b)] if a.blocks == b.blocks => {
                let (zero, tied) = (zero(a.zero, b.zero), a.tied || b.tied);
                // A quotient of two zeros is not zero.
                let zero = zero && f != Binary::Div;
                Place::Columns(Columns { zero, tied, ..a })
            }
            [Place::Columns(a), _] if narrow[1] => {
                let zero = zero(a.zero, false);
                Place::Columns(Columns { zero, ..a })
            }
            [_, Place::Columns(b)] if narrow[0] => {
                let zero = zero(false, b.zero) && f == Binary::Mul;
                Place::Columns(Columns { zero, ..b })
            }
            [Place::Rows(a), Place::Rows(b)]
                if a == b && matches!(f, Binary::Add | Binary::Sub | Binary::Mul) =>
            {
                Place::Rows(a)
            }
            [Place::Rows(a), _] if narrow[1] && f == Binary::Mul => Place::Rows(a),
            [_, Place::Rows(b)] if narrow[0] && f == Binary::Mul => Place::Rows(b),
            _ => Place::Elsewhere,
        }
    }
}
