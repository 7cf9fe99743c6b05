//! The e-graph's language: IR operators, with types and facts as analysis data.

use crate::facts::{Facts, Known, Value, known};
use egg::{Analysis, DidMerge, Id, Language};
use gnnc_ir::graph::infer::{TypeError, infer};
use gnnc_ir::graph::op::{Input, Loss, ValueOrigin};
use gnnc_ir::graph::{Node, NodeId};
use gnnc_ir::words::types::{EdgeSet, Level};
use gnnc_ir::{Binary, Graph, Op, Rows, Type};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// An e-graph over models.
pub type EGraph = egg::EGraph<ENode, Values>;

/// The operation of an e-node.
#[derive(Clone, Debug)]
pub enum Symbol {
    /// A value that is opaque to rules: parameter, argument, table, result of a scan. The number is
    /// an index into the region's leaves.
    Leaf(u32),
    /// An operator for which [`is_opaque`] is false.
    Op(Op),
    /// All results of a region: its root.
    Results,
}

/// An operator applied to e-classes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ENode {
    /// The operator.
    pub symbol: Symbol,
    /// The operands.
    pub kids: Vec<Id>,
}

/// Whether rules treat the result of an operator as a leaf.
pub fn is_opaque(op: &Op) -> bool {
    match op.origin() {
        ValueOrigin::Param(_) | ValueOrigin::Arg(_) | ValueOrigin::Table(_) => true,
        ValueOrigin::Scan(_) | ValueOrigin::Out(_) => true,
        ValueOrigin::Input(_) | ValueOrigin::Const(_) | ValueOrigin::Operands => false,
    }
}

/// The type of an operator's result, from the types of its operands.
///
/// # Errors
/// If the operands do not fit the operator.
pub fn result_type(op: &Op, kids: &[Type], features: u32) -> Result<Type, TypeError> {
    let node = |ty: &Type| Node {
        op: Op::Const(0.0),
        inputs: Vec::new(),
        ty: *ty,
        scope: 0,
    };
    let scratch = Graph {
        features,
        nodes: kids.iter().map(node).collect(),
        ..Graph::default()
    };
    let ids: Vec<NodeId> = (0..kids.len() as u32).map(NodeId).collect();
    infer(&scratch, op, &ids)
}

impl ENode {
    /// An operator applied to operands.
    pub fn op(op: Op, kids: Vec<Id>) -> Self {
        Self {
            symbol: Symbol::Op(op),
            kids,
        }
    }
}

impl Symbol {
    /// The loss of the operator, if it is one.
    fn loss(&self) -> Option<&Loss> {
        if let Self::Op(Op::Loss(loss) | Op::LossGrad(loss)) = self {
            return Some(loss);
        }
        None
    }

    /// A key of the operator and its payload: equal, with [`Self::loss`], exactly if the operators are. All
    /// orders and hashes derive from both, so nothing depends on names or on the order of creation.
    fn key(&self) -> (u8, [u64; 3]) {
        let one = |code: u8, a: u64| (code, [a, 0, 0]);
        let two = |code: u8, a: u32, b: u32| (code, [u64::from(a), u64::from(b), 0]);
        match self {
            Self::Results => one(0, 0),
            Self::Leaf(n) => one(1, u64::from(*n)),
            Self::Op(op) => match op {
                Op::Input(Input::Features) => two(2, 0, 0),
                Op::Input(Input::FeatureSlice(slice)) => two(2, 3, slice.start),
                Op::Input(Input::History(history)) => two(2, 4, history.number),
                Op::Input(Input::Fresh(set)) => two(2, 5, set_key(*set)),
                Op::Input(Input::Relation(relations)) => two(2, 6, relations.count),
                Op::Input(Input::RelationDegree(relations)) => two(2, 7, relations.count),
                Op::Input(Input::EdgeFeatures(columns)) => {
                    two(2, 9, columns.count * 16 + set_key(columns.set))
                }
                Op::Input(Input::InDegree(set)) => two(2, 1, set_key(*set)),
                Op::Input(Input::OutDegree(set)) => two(2, 2, set_key(*set)),
                Op::Const(value) => two(3, value.to_bits(), 0),
                Op::Unary(f) => {
                    let (function, slope) = f.key();
                    two(4, function, slope)
                }
                Op::Binary(f) => one(5, binary_key(*f)),
                // Slices are cut only after forms are found.
                Op::Dropout { p, site, .. } => (
                    6,
                    [
                        u64::from(p.to_bits()),
                        site.number.into(),
                        site.iteration.into(),
                    ],
                ),
                Op::Broadcast(ty) => {
                    let (kind, rows) = match ty.rows {
                        Rows::Fixed(n) => (0, n),
                        Rows::Vertices => (1, 0),
                        Rows::Edges(set) => (2, set_key(set)),
                        Rows::All => (3, 0),
                        Rows::AllEdges(set) => (4, set_key(set)),
                        Rows::Level(level) => (5, level_key(level)),
                        Rows::LevelEdges(level, set) => (6 + set_key(set), level_key(level)),
                    };
                    let pair = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
                    (
                        7,
                        [
                            pair(kind, rows),
                            pair(ty.stack, ty.heads),
                            u64::from(ty.width),
                        ],
                    )
                }
                Op::Take(set, end) => two(8, set_key(*set), *end as u32),
                Op::Gather(set, end, reduce) => {
                    two(9, set_key(*set), *end as u32 * 2 + *reduce as u32)
                }
                Op::GatherMean(set) => two(10, set_key(*set), 0),
                Op::EdgeSoftmax(set) => two(11, set_key(*set), 0),
                Op::MatMul => one(12, 0),
                Op::MatMulNT => one(13, 0),
                Op::MatMulTN => one(14, 0),
                Op::Reshape { heads, width } => two(15, *heads, *width),
                Op::Concat => one(16, 0),
                Op::SliceCols { start, len } => two(17, *start, *len),
                Op::PadCols { before, after } => two(18, *before, *after),
                Op::SliceRows { start, len } => two(19, *start, *len),
                Op::PadRows { before, after } => two(20, *before, *after),
                Op::ReduceCols(axis, reduce) => two(21, *axis as u32, *reduce as u32),
                Op::SumRows => one(22, 0),
                // `Self::loss` tells losses apart.
                Op::Loss(_) => one(23, 0),
                Op::LossGrad(_) => one(24, 0),
                // Opaque operators are leaves; these keys only keep the match total.
                Op::Param(id) => two(25, id.0, 0),
                Op::Arg(n) => two(26, *n, 0),
                Op::Table(values) => two(27, values.len() as u32, 0),
                Op::Scan(scan) => two(28, scan.count, 0),
                Op::Out(n) => two(29, *n, 0),
                Op::Redistribute(_) => one(30, 0),
                Op::SumRanks => one(31, 0),
                Op::Copies(what, number) => two(37, *what as u32, *number),
                Op::Clip(what, most) => two(38, *what as u32, most.to_bits()),
                // Batches are drawn only after forms are found.
                Op::Sampled(_) => one(39, 0),
                Op::Input(Input::Drawn(_)) => two(2, 8, 0),
                Op::Blend => one(32, 0),
                Op::Pick => one(33, 0),
                Op::PickSum(rows) => two(34, *rows, 0),
                Op::PickHead => one(35, 0),
                Op::PlaceHead(heads) => two(36, *heads, 0),
            },
        }
    }
}

fn set_key(set: EdgeSet) -> u32 {
    set.index() as u32
}

fn level_key(level: Level) -> u32 {
    level.of as u32 * 256 + u32::from(level.number)
}

fn binary_key(f: Binary) -> u64 {
    f as u64
}

impl PartialEq for Symbol {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Symbol {}

impl PartialOrd for Symbol {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Symbol {
    fn cmp(&self, other: &Self) -> Ordering {
        let losses = || self.loss().cmp(&other.loss());
        self.key().cmp(&other.key()).then_with(losses)
    }
}

impl Hash for Symbol {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaf(n) => write!(f, "leaf {n}"),
            Self::Op(op) => op.fmt(f),
            Self::Results => f.write_str("results"),
        }
    }
}

impl fmt::Display for ENode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.symbol.fmt(f)
    }
}

impl Language for ENode {
    type Discriminant = u8;

    fn discriminant(&self) -> u8 {
        self.symbol.key().0
    }

    fn matches(&self, other: &Self) -> bool {
        self.symbol == other.symbol && self.kids.len() == other.kids.len()
    }

    fn children(&self) -> &[Id] {
        &self.kids
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.kids
    }
}

/// The analysis: type of and facts about every e-class.
#[derive(Clone, Debug)]
pub struct Values {
    /// The workload.
    pub facts: Facts,
    /// Width of the graph's input features.
    pub features: u32,
    /// Types of and facts about the leaves.
    pub leaves: Vec<Value>,
    /// The first ill-typed node or merge seen, which is a bug in a rule; the caller reports it.
    pub fault: Option<String>,
}

impl Values {
    /// An analysis of a region.
    pub fn new(facts: Facts, features: u32, leaves: Vec<Value>) -> Self {
        Self {
            facts,
            features,
            leaves,
            fault: None,
        }
    }

    /// Type of and facts about an e-node's result.
    pub(crate) fn value(&self, node: &ENode, kids: &[Value]) -> Result<Value, String> {
        match &node.symbol {
            Symbol::Results => Ok(Value {
                ty: Type::SCALAR,
                known: Known::default(),
            }),
            Symbol::Leaf(n) => match self.leaves.get(*n as usize) {
                Some(value) => Ok(*value),
                None => Err(format!("leaf {n} does not exist")),
            },
            Symbol::Op(op) => {
                let types: Vec<Type> = kids.iter().map(|k| k.ty).collect();
                let ty = result_type(op, &types, self.features).map_err(|e| e.to_string())?;
                Ok(Value {
                    ty,
                    known: known(op, kids, &self.facts),
                })
            }
        }
    }
}

impl Analysis<ENode> for Values {
    type Data = Value;

    fn make(egraph: &mut EGraph, node: &ENode, _: Id) -> Value {
        let kids: Vec<Value> = node.kids.iter().map(|id| egraph[*id].data).collect();
        match egraph.analysis.value(node, &kids) {
            Ok(value) => value,
            Err(why) => {
                egraph.analysis.fault.get_or_insert(why);
                Value {
                    ty: Type::SCALAR,
                    known: Known::default(),
                }
            }
        }
    }

    fn merge(&mut self, a: &mut Value, b: Value) -> DidMerge {
        if a.ty != b.ty {
            let why = format!("a value of type {} cannot equal one of type {}", a.ty, b.ty);
            self.fault.get_or_insert(why);
        }
        let merged = a.known.both(b.known);
        let changed = DidMerge(merged != a.known, merged != b.known);
        a.known = merged;
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnnc_ir::Unary;

    #[test]
    fn payloads_tell_operators_apart() {
        let node = |op| ENode::op(op, Vec::new());
        assert_ne!(node(Op::Const(0.5)), node(Op::Const(0.25)));
        assert_ne!(
            node(Op::Unary(Unary::LeakyRelu(0.2))),
            node(Op::Unary(Unary::LeakyRelu(0.1)))
        );
        assert_ne!(
            node(Op::Broadcast(Type::vertices(3))),
            node(Op::Broadcast(Type::matrix(1, 3)))
        );
        assert_eq!(node(Op::MatMul), node(Op::MatMul));
    }

    #[test]
    fn merging_values_of_different_types_is_reported() {
        let facts = Facts {
            named_edges: gnnc_ir::words::types::NamedEdges::NONE,
            vertices: 1,
            edges: 1,
            features: 1,
            feature_nonzeros: 1,
            sparse_features: false,
            classes: 2,
            train: true,
        };
        let leaf = |width| Value {
            ty: Type::vertices(width),
            known: Known::PARAM,
        };
        let mut egraph = EGraph::new(Values::new(facts, 1, vec![leaf(1), leaf(2)]));
        let a = egraph.add(ENode {
            symbol: Symbol::Leaf(0),
            kids: vec![],
        });
        let b = egraph.add(ENode {
            symbol: Symbol::Leaf(1),
            kids: vec![],
        });
        egraph.union_trusted(a, b, "wrong");
        assert!(egraph.analysis.fault.is_some());
    }
}
