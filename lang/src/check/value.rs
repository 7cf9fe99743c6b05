//! What an expression stands for while a model is elaborated.

use crate::syntax::ast::LayerItem;
use gnnc_ir::graph::NodeId;
use std::rc::Rc;

/// The value of an expression.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// Something wrong that has been reported; whatever is made of it is wrong too, in silence.
    Poison,
    /// A tensor of the operator graph.
    Tensor(Tensor),
    /// A number that the compiler knows.
    Number(f64),
    /// A number for each iteration of the repeat around it.
    Table(Rc<[f64]>),
    /// `true` or `false`.
    Bool(bool),
    /// A word such as `sum`, a string, or the name of a function.
    Word(String),
    /// A layer as an argument.
    Layer(Layer<'a>),
    /// `uniform(bound)`, a start value.
    Uniform(f64),
}

/// A node of the operator graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Whether it is a node of the body of the repeat, not of the model.
    pub inside: bool,
    /// The node.
    pub id: NodeId,
}

/// A layer and where it is defined.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a> {
    /// The layer.
    pub item: &'a LayerItem,
    /// Whether it belongs to the standard library.
    pub standard: bool,
}
