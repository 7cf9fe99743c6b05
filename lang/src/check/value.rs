//! Values of expressions during elaboration.

use crate::syntax::ast::LayerItem;
use gnnc_ir::graph::NodeId;
use std::rc::Rc;

/// The value of an expression.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// An error that has been reported; anything computed from it is silently poisoned too.
    Poison,
    /// A tensor of the operator graph.
    Tensor(Tensor),
    /// A number known at compile time.
    Number(f64),
    /// A number per iteration of the enclosing repeat.
    Table(Rc<[f64]>),
    /// `[a, b]`, numbers known at compile time.
    List(Rc<[f64]>),
    /// `true` or `false`.
    Bool(bool),
    /// A word such as `sum`, a string, or the name of a function.
    Word(String),
    /// A layer passed as an argument.
    Layer(Layer<'a>),
    /// `uniform(bound)`, a start value.
    Uniform(f64),
}

/// A node of the operator graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Whether the node is in the body of the repeat, not in the model.
    pub inside: bool,
    /// The node.
    pub id: NodeId,
}

/// A layer and its origin.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a> {
    /// The layer.
    pub item: &'a LayerItem,
    /// Whether it belongs to the standard library.
    pub standard: bool,
}
