//! The table of rewrite rules, and what a rule is.
//!
//! A rule looks at one e-node and, through [`View`], at the e-nodes of its operands. It returns the
//! term it found and an equal term. The found term includes all operators the rule looked at, so
//! that a step can be checked by itself. All rules share one condition, checked on application: the
//! new term is well-typed and has the type of the old one. So no rule has to spell out shapes that
//! type inference checks anyway.

mod gather;
mod identity;
mod matmul;
mod product;
mod shift;
mod slice;
mod take;

use crate::facts::{Known, Value, known};
use crate::language::{EGraph, ENode, Symbol, result_type};
use egg::{Id, Language};
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::{Binary, EdgeSet, Op, Rows, Type};

/// A rewrite rule.
pub struct Rule {
    /// Stable name.
    pub name: &'static str,
    /// The equation; it holds up to re-association of floating-point sums and products.
    pub equation: &'static str,
    /// When it holds, besides matching types.
    pub condition: &'static str,
    /// Its source.
    pub source: &'static str,
    /// Finds the rule's left-hand sides rooted at an e-node.
    pub search: fn(&View<'_>, &Op, &[Id], &mut Found),
}

/// All rules, by family.
pub fn table() -> impl Iterator<Item = &'static Rule> {
    [
        matmul::RULES,
        gather::RULES,
        shift::RULES,
        product::RULES,
        take::RULES,
        slice::RULES,
        identity::RULES,
    ]
    .into_iter()
    .flatten()
}

/// The rule with this name.
pub fn find(name: &str) -> Option<&'static Rule> {
    table().find(|rule| rule.name == name)
}

/// A term over e-classes.
#[derive(Clone, Debug)]
pub enum Term {
    /// Any member of the class.
    Class(Id),
    /// An operator.
    Apply(Op, Vec<Term>),
}

/// Pairs of equal terms: the found one, and the one to add.
#[derive(Default)]
pub struct Found {
    /// Left and right sides.
    pub pairs: Vec<(Term, Term)>,
}

/// Read access to an e-graph.
pub struct View<'a> {
    egraph: &'a EGraph,
}

impl Found {
    fn push(&mut self, left: Term, right: Term) {
        self.pairs.push((left, right));
    }
}

impl From<Id> for Term {
    fn from(id: Id) -> Self {
        Self::Class(id)
    }
}

impl From<&Id> for Term {
    fn from(id: &Id) -> Self {
        Self::Class(*id)
    }
}

impl Term {
    /// The value of the term; `None` if it is ill-typed.
    pub fn value(&self, egraph: &EGraph) -> Option<Value> {
        match self {
            Self::Class(id) => Some(egraph[*id].data),
            Self::Apply(op, kids) => {
                let kids: Option<Vec<Value>> = kids.iter().map(|kid| kid.value(egraph)).collect();
                let kids = kids?;
                let types: Vec<Type> = kids.iter().map(|kid| kid.ty).collect();
                let ty = result_type(op, &types, egraph.analysis.features).ok()?;
                Some(Value {
                    ty,
                    known: known(op, &kids, &egraph.analysis.facts),
                })
            }
        }
    }

    /// Adds the term; the returned id means exactly this term in explanations.
    pub fn add(&self, egraph: &mut EGraph) -> Id {
        match self {
            Self::Class(id) => *id,
            Self::Apply(op, kids) => {
                let kids = kids.iter().map(|kid| kid.add(egraph)).collect();
                egraph.add_uncanonical(ENode::op(op.clone(), kids))
            }
        }
    }
}

impl<'a> View<'a> {
    /// A view of an e-graph that has been rebuilt.
    pub fn new(egraph: &'a EGraph) -> Self {
        Self { egraph }
    }

    /// The operators that compute a class, with their operands.
    fn nodes(&self, class: Id) -> impl Iterator<Item = (&'a Op, &'a [Id])> + use<'a> {
        self.egraph[class]
            .nodes
            .iter()
            .filter_map(|node| match &node.symbol {
                Symbol::Op(op) => Some((op, node.children())),
                Symbol::Leaf(_) | Symbol::Results => None,
            })
    }

    fn ty(&self, class: Id) -> Type {
        self.egraph[class].data.ty
    }

    fn known(&self, class: Id) -> Known {
        self.egraph[class].data.known
    }

    /// Facts about a term that is not in the e-graph.
    fn known_of(&self, term: &Term) -> Option<Known> {
        term.value(self.egraph).map(|value| value.known)
    }

    /// The constant a class is equal to, if any.
    fn constant(&self, class: Id) -> Option<f32> {
        self.nodes(class).find_map(|(op, _)| {
            let Op::Const(value) = op else {
                return None;
            };
            Some(*value)
        })
    }

    /// Whether the e-graph already has this e-node.
    fn contains(&self, op: Op, kids: Vec<Id>) -> bool {
        self.egraph.lookup(ENode::op(op, kids)).is_some()
    }

    /// The vertex values whose rows a class takes: `(edges, end, operand)`.
    fn takes(&self, class: Id) -> impl Iterator<Item = (EdgeSet, End, Id)> + use<'a> {
        self.nodes(class).filter_map(|(op, kids)| {
            let Op::Take(set, end) = op else {
                return None;
            };
            Some((*set, *end, kids[0]))
        })
    }

    /// The two factors of a class that is a product, in both orders.
    fn factors(&self, class: Id) -> impl Iterator<Item = Pair> + use<'a> {
        self.nodes(class)
            .filter(|(op, _)| **op == Op::Binary(Binary::Mul))
            .flat_map(|(_, kids)| both(Binary::Mul, kids))
    }

    /// Whether there is one number per row: heads and width 1.
    fn one_column(&self, class: Id) -> bool {
        self.ty(class).columns() == 1
    }

    /// Whether all rows share the value: a scalar, a bias, an attention vector.
    fn one_row(&self, class: Id) -> bool {
        self.ty(class).rows == Rows::Fixed(1)
    }

    fn on_edges(&self, class: Id) -> bool {
        matches!(self.ty(class).rows, Rows::Edges(_))
    }
}

/// The operands of a binary function, seen from either side.
#[derive(Clone, Copy)]
struct Pair {
    f: Binary,
    a: Id,
    b: Id,
    /// `b` comes first in the model.
    swapped: bool,
}

impl Pair {
    /// The same function of other operands, in the model's order.
    fn of(self, a: impl Into<Term>, b: impl Into<Term>) -> Term {
        match self.swapped {
            false => binary(self.f, a, b),
            true => binary(self.f, b, a),
        }
    }
}

/// The operands of a binary function, from both sides.
fn both(f: Binary, kids: &[Id]) -> [Pair; 2] {
    let (a, b) = (kids[0], kids[1]);
    [
        Pair {
            f,
            a,
            b,
            swapped: false,
        },
        Pair {
            f,
            a: b,
            b: a,
            swapped: true,
        },
    ]
}

fn apply<const N: usize>(op: Op, kids: [Term; N]) -> Term {
    Term::Apply(op, kids.into())
}

fn binary(f: Binary, a: impl Into<Term>, b: impl Into<Term>) -> Term {
    apply(Op::Binary(f), [a.into(), b.into()])
}

fn mul(a: impl Into<Term>, b: impl Into<Term>) -> Term {
    binary(Binary::Mul, a, b)
}

fn add(a: impl Into<Term>, b: impl Into<Term>) -> Term {
    binary(Binary::Add, a, b)
}

fn matmul(a: impl Into<Term>, b: impl Into<Term>) -> Term {
    apply(Op::MatMul, [a.into(), b.into()])
}

fn take(set: EdgeSet, end: End, x: impl Into<Term>) -> Term {
    apply(Op::Take(set, end), [x.into()])
}

fn gather_sum(set: EdgeSet, end: End, x: impl Into<Term>) -> Term {
    apply(Op::Gather(set, end, Reduce::Sum), [x.into()])
}

fn slice_cols(start: u32, len: u32, x: impl Into<Term>) -> Term {
    apply(Op::SliceCols { start, len }, [x.into()])
}

fn slice_rows(start: u32, len: u32, x: impl Into<Term>) -> Term {
    apply(Op::SliceRows { start, len }, [x.into()])
}

/// The sum of terms from left to right; `None` if there are none.
fn sum(terms: impl IntoIterator<Item = Term>) -> Option<Term> {
    terms.into_iter().reduce(add)
}
