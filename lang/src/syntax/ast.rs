//! The syntax tree of a `.gir` file.
//!
//! The tree includes comments and blank lines, so that formatting a file loses nothing. It also
//! includes places, but trees that differ only in places are equal.

use crate::diagnostic::Span;
use gnnc_ir::kernel::End;

/// A place in the text. All places compare equal, so that trees compare by content.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loc(pub Span);

impl PartialEq for Loc {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A name and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Ident {
    /// The name.
    pub name: String,
    /// Its place.
    pub loc: Loc,
}

/// Comments around an item, a statement or a setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// Lines before it: a comment with its `#`, or an empty string for a blank line.
    pub before: Vec<String>,
    /// The comment at the end of its last line, with its `#`.
    pub after: Option<String>,
}

/// A block in braces.
#[derive(Clone, Debug, PartialEq)]
pub struct Block<T> {
    /// The comment after the opening brace, with its `#`.
    pub open: Option<String>,
    /// The content.
    pub body: Vec<T>,
    /// Comment lines before the closing brace.
    pub tail: Vec<String>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// Graphs, layers, models and training settings, in source order.
    pub items: Vec<Item>,
    /// Comment lines at the end of the file.
    pub tail: Vec<String>,
}

/// A top-level definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Comments.
    pub notes: Notes,
    /// Its kind.
    pub kind: ItemKind,
    /// Its place.
    pub loc: Loc,
}

/// The kinds of items.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemKind {
    /// `graph name { .. }` or `graph name = "file" { .. }`
    Graph(GraphItem),
    /// `layer name(..) on edges { .. }`
    Layer(LayerItem),
    /// `model name(..) on graph { .. }`
    Model(ModelItem),
    /// `train { .. }`
    Train(Block<Setting>),
}

/// A data graph: its statistics, or a file.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphItem {
    /// Its name.
    pub name: Ident,
    /// The file as written, relative to the `.gir` file; `None` if there are only statistics.
    pub path: Option<String>,
    /// Statistics, or options for reading the file.
    pub settings: Block<Setting>,
}

/// `key = value` in a settings block.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Comments.
    pub notes: Notes,
    /// The key.
    pub key: Ident,
    /// The value.
    pub value: Expr,
}

/// The edges that a layer runs over.
#[derive(Clone, Debug, PartialEq)]
pub enum LayerEdges {
    /// Those of the call: the stored ones, or a set that the call names with `over`.
    Called,
    /// The stored ones and one self loop for each vertex (`on edges + loops`).
    Looped,
    /// A named set (`on "NAME"`).
    Named(Ident),
}

/// A layer: a function from tensors to a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerItem {
    /// Its name.
    pub name: Ident,
    /// Its parameters.
    pub params: Vec<Param>,
    /// The edges that it runs over.
    pub edges: LayerEdges,
    /// Its statements.
    pub body: Block<Stmt>,
}

/// A model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelItem {
    /// Its name.
    pub name: Ident,
    /// Its parameters; in a correct file, all have defaults.
    pub params: Vec<Param>,
    /// The graph that it is trained on.
    pub graph: Ident,
    /// Its statements.
    pub body: Block<Stmt>,
}

/// A parameter of a layer or a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: Ident,
    /// Its default value.
    pub default: Option<Expr>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// Comments.
    pub notes: Notes,
    /// Its kind.
    pub kind: StmtKind,
    /// Its place.
    pub loc: Loc,
}

/// The kinds of statements.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `let name = value`
    Let(Ident, Expr),
    /// `name = value`, in a repeat
    Assign(Ident, Expr),
    /// `repeat var in from..=to { .. }`
    Repeat(Repeat),
    /// `return value`
    Return(Expr),
    /// `loss function(logits, labels, on = train)`
    Loss(Expr),
}

/// A loop that the compiler keeps as a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    /// The loop variable.
    pub var: Ident,
    /// Its first value.
    pub from: Expr,
    /// Its last value, or the one after it.
    pub to: Expr,
    /// Whether `to` is the last value (`..=`) or the one after it (`..`).
    pub inclusive: bool,
    /// The statements.
    pub body: Block<Stmt>,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// Its place.
    pub loc: Loc,
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A number: its value and its spelling.
    Number(f64, String),
    /// A string, without quotes and escapes.
    Str(String),
    /// `true` or `false`
    Bool(bool),
    /// A variable, or a word such as `sum`.
    Name(String),
    /// `-a` or `not a`
    Unary(UnaryOp, Box<Expr>),
    /// `a + b` and similar
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `f(a, k = b)`
    Call(Call),
    /// `value |> f(a)`: a call whose first argument is `value`
    Pipe(Box<Expr>, Call),
    /// `h@src`, `h@dst`
    At(Box<Expr>, End),
    /// `if c { a } else { b }`
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `[a, b]`, in settings
    List(Vec<Expr>),
    /// `{ k: v }`, in settings
    Map(Vec<(Expr, Expr)>),
    /// Unreadable input, already reported.
    Error,
}

/// A call of a function or a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The callee.
    pub callee: Ident,
    /// The arguments, positional ones first.
    pub args: Vec<Arg>,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// Its name, if it is passed by name.
    pub name: Option<Ident>,
    /// Its value.
    pub value: Expr,
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `not`
    Not,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `or`
    Or,
    /// `and`
    And,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
}

/// Binding strengths of operators, loosest first.
pub(super) mod binding {
    pub const PIPE: u8 = 1;
    pub const OR: u8 = 2;
    pub const AND: u8 = 3;
    pub const NOT: u8 = 4;
    pub const COMPARE: u8 = 5;
    pub const ADD: u8 = 6;
    pub const MUL: u8 = 7;
    pub const NEG: u8 = 8;
    pub const POSTFIX: u8 = 9;
}

impl BinaryOp {
    /// The operator in source text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Or => "or",
            Self::And => "and",
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
        }
    }

    /// Its binding strength.
    pub(super) fn binding(self) -> u8 {
        match self {
            Self::Or => binding::OR,
            Self::And => binding::AND,
            Self::Eq | Self::Ne | Self::Lt | Self::Le | Self::Gt | Self::Ge => binding::COMPARE,
            Self::Add | Self::Sub => binding::ADD,
            Self::Mul | Self::Div => binding::MUL,
        }
    }
}

impl Ident {
    /// Place of the name.
    pub fn span(&self) -> Span {
        self.loc.0
    }
}

impl Expr {
    /// An expression at a place.
    pub fn new(kind: ExprKind, span: Span) -> Self {
        Self {
            kind,
            loc: Loc(span),
        }
    }

    /// Place of the expression.
    pub fn span(&self) -> Span {
        self.loc.0
    }
}

impl<T> Default for Block<T> {
    fn default() -> Self {
        Self {
            open: None,
            body: Vec::new(),
            tail: Vec::new(),
        }
    }
}

impl Module {
    /// The layers that the file defines, in order.
    pub fn layers(&self) -> impl Iterator<Item = &LayerItem> {
        self.items.iter().filter_map(|item| match &item.kind {
            ItemKind::Layer(layer) => Some(layer),
            _ => None,
        })
    }

    /// The graphs that the file defines, in order.
    pub fn graphs(&self) -> impl Iterator<Item = &GraphItem> {
        self.items.iter().filter_map(|item| match &item.kind {
            ItemKind::Graph(graph) => Some(graph),
            _ => None,
        })
    }

    /// The models that the file defines, in order; a correct file has one.
    pub fn models(&self) -> impl Iterator<Item = &ModelItem> {
        self.items.iter().filter_map(|item| match &item.kind {
            ItemKind::Model(model) => Some(model),
            _ => None,
        })
    }

    /// The training settings, each with its place; a correct file has at most one.
    pub fn trains(&self) -> impl Iterator<Item = (Span, &Block<Setting>)> {
        self.items.iter().filter_map(|item| match &item.kind {
            ItemKind::Train(settings) => Some((item.loc.0, settings)),
            _ => None,
        })
    }

    /// The graph that the model is trained on.
    pub fn model_graph(&self) -> Option<&GraphItem> {
        let name = &self.models().next()?.graph.name;
        self.graphs().find(|graph| graph.name.name == *name)
    }
}
