//! Builds the operator graph by walking over the model: calls, statements, variables.

use super::builtins::{Function, MODEL_VARIABLES, builtin, losses};
use super::calls::MAX_CALLS;
use super::names::builtin_signature;
use super::overrides::is_setting;
use super::repeat::Loop;
use super::value::{Tensor, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::ast::{Block, Expr, ExprKind, ModelItem, Module, Stmt, StmtKind};
use gnnc_ir::graph::infer::TypeError;
use gnnc_ir::graph::model::{Binding, Model, TrainSettings};
use gnnc_ir::graph::op::{Input, Loss, Op};
use gnnc_ir::graph::{Graph, Node};
use gnnc_ir::kernel::End;
use gnnc_ir::words::spelling::one_of;
use gnnc_ir::words::types::{EdgeSet, Rows, Type};
use gnnc_ir::workload::GraphFacts;
use std::collections::{BTreeMap, BTreeSet};

/// Deepest nesting of expressions, across all layer calls.
const MAX_DEPTH: u32 = 400;

/// Most expressions evaluated before a model counts as too large.
const MAX_STEPS: u32 = 2_000_000;

/// Most nodes in a model.
const MAX_NODES: usize = 100_000;

/// Most diagnostics kept; further ones rarely say anything new.
const MAX_REPORTS: usize = 1_000;

/// Most columns (heads times width) of a tensor.
pub const MAX_COLUMNS: u32 = 1 << 24;

pub struct Elaborator<'a, 'd> {
    pub module: &'a Module,
    pub facts: GraphFacts,
    /// Layers that call each other in a cycle.
    pub circular: Vec<String>,
    pub graph: Graph,
    /// Indices of the scopes of `graph`, by path.
    scopes: BTreeMap<String, u32>,
    /// The repeat being elaborated.
    pub looped: Option<Loop>,
    /// The model and the layers being called.
    pub frames: Vec<Frame<'a>>,
    /// Number of dropouts so far.
    pub sites: u32,
    pub param_names: BTreeSet<String>,
    pub loss: Option<(Loss, Tensor, Tensor)>,
    /// Names of edge sets by number, of a graph whose sets are not known.
    pub named_sets: Vec<String>,
    diagnostics: &'d mut Vec<Diagnostic>,
    depth: u32,
    steps: u32,
    pub stopped: bool,
}

/// A model or layer being elaborated.
pub struct Frame<'a> {
    pub name: String,
    /// `gin_conv_2/linear_1`; empty for the model.
    pub path: String,
    pub edges: EdgeSet,
    /// The edges without self loops that layers called from here run over.
    pub over: EdgeSet,
    pub standard: bool,
    /// Place of the call, in the text of the calling frame.
    pub call: Span,
    pub vars: Vec<(String, Value<'a>)>,
    /// Number of calls so far, by layer.
    pub calls: BTreeMap<String, u32>,
}

impl<'a, 'd> Elaborator<'a, 'd> {
    pub fn new(
        module: &'a Module,
        facts: GraphFacts,
        circular: Vec<String>,
        diagnostics: &'d mut Vec<Diagnostic>,
    ) -> Self {
        Self {
            module,
            circular,
            graph: Graph::new(facts.features),
            facts,
            scopes: BTreeMap::from([(String::new(), 0)]),
            looped: None,
            frames: Vec::new(),
            sites: 0,
            param_names: BTreeSet::new(),
            loss: None,
            named_sets: Vec::new(),
            diagnostics,
            depth: 0,
            steps: 0,
            stopped: false,
        }
    }

    /// Elaborates the model.
    pub fn model(
        mut self,
        item: &'a ModelItem,
        overrides: &[(String, f64)],
        train: TrainSettings,
    ) -> Option<Model> {
        self.frames.push(Frame {
            name: item.name.name.clone(),
            path: String::new(),
            edges: EdgeSet::Plain,
            over: EdgeSet::Plain,
            standard: false,
            call: item.name.span(),
            vars: Vec::new(),
            calls: BTreeMap::new(),
        });
        let features = self.emit(Op::Input(Input::Features), &[], item.name.span());
        let facts = [self.facts.classes, self.facts.features].map(|n| Value::Number(f64::from(n)));
        let [classes, count] = facts;
        for (name, value) in MODEL_VARIABLES.iter().zip([features, classes, count]) {
            self.define(name, value);
        }
        let parameters = self.model_parameters(item, overrides);
        self.stmts(&item.body);
        let bindings = self.bindings();
        let (loss, node, logits) = self.loss?;
        self.graph.results = vec![node.id, logits.id];
        Some(Model {
            name: item.name.name.clone(),
            graph_name: item.graph.name.clone(),
            graph: self.graph,
            loss,
            parameters,
            train,
            bindings,
        })
    }

    /// The names of the model for tensors that it computes.
    fn bindings(&mut self) -> Vec<Binding> {
        let mut all: Vec<Binding> = Vec::new();
        for (name, value) in std::mem::take(&mut self.frame().vars) {
            let Value::Tensor(Tensor { inside: false, id }) = value else {
                continue;
            };
            all.retain(|own| own.name != name);
            if self.graph.node(id).op != Op::Input(Input::Features) {
                all.push(Binding { name, tensor: id });
            }
        }
        all
    }

    fn model_parameters(
        &mut self,
        item: &'a ModelItem,
        overrides: &[(String, f64)],
    ) -> Vec<(String, f64)> {
        let names = || item.params.iter().map(|p| p.name.name.as_str());
        for (name, _) in overrides.iter().filter(|(name, _)| !is_setting(name)) {
            if !names().any(|n| n == name) {
                let message = format!("the model has no parameter `{name}`");
                let help = format!("it has {}", one_of(names()));
                self.diagnostics
                    .push(Diagnostic::new("E0404", message).help(help));
            }
        }
        let mut parameters = Vec::new();
        for param in &item.params {
            let name = &param.name.name;
            let given = overrides
                .iter()
                .rev()
                .find(|(n, _)| n == name)
                .map(|(_, value)| *value);
            let default = param.default.as_ref().map(|default| self.eval(default));
            let value = match (default, given) {
                (Some(value), None) => value,
                (Some(Value::Bool(_)), Some(n)) if n == 0.0 || n == 1.0 => Value::Bool(n == 1.0),
                (Some(Value::Number(_) | Value::Poison) | None, Some(n)) if n.is_finite() => {
                    Value::Number(n)
                }
                (_, Some(n)) => {
                    let message = format!("the parameter `{name}` cannot be set to {n}");
                    let help = "numbers can be set to numbers, `true` and `false` to 1 and 0";
                    self.diagnostics
                        .push(Diagnostic::new("E0404", message).help(help));
                    Value::Poison
                }
                (None, None) => {
                    let message = format!("the model parameter `{name}` has no value");
                    let help = "give it a default, or set it from outside";
                    let missing = Diagnostic::new("E0205", message).at(param.name.span());
                    self.report(missing.help(help));
                    Value::Poison
                }
            };
            match value {
                Value::Number(n) => parameters.push((name.clone(), n)),
                Value::Bool(b) => parameters.push((name.clone(), f64::from(u8::from(b)))),
                _ => {}
            }
            self.define(name, value);
        }
        parameters
    }

    /// The model or layer being elaborated.
    pub fn frame(&mut self) -> &mut Frame<'a> {
        let innermost = self.frames.len() - 1;
        &mut self.frames[innermost]
    }

    pub fn define(&mut self, name: &str, value: Value<'a>) {
        self.frame().vars.push((name.to_owned(), value));
    }

    pub fn lookup(&mut self, name: &str) -> Option<Value<'a>> {
        self.frame()
            .vars
            .iter()
            .rev()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.clone())
    }

    /// Elaborates statements up to a `return`; its value is the result.
    pub fn stmts(&mut self, block: &'a Block<Stmt>) -> Option<Value<'a>> {
        for stmt in &block.body {
            match &stmt.kind {
                StmtKind::Let(name, value) => {
                    let value = self.eval(value);
                    self.define(&name.name, value);
                }
                StmtKind::Assign(name, value) => {
                    let value = self.eval(value);
                    let vars = &mut self.frame().vars;
                    if let Some(var) = vars.iter_mut().rev().find(|(n, _)| *n == name.name) {
                        var.1 = value;
                    }
                }
                StmtKind::Repeat(repeat) => self.repeat(repeat, stmt.loc.0),
                StmtKind::Return(value) if self.frames.len() > 1 && self.looped_here() => {
                    return Some(self.eval(value));
                }
                StmtKind::Loss(value) if self.frames.len() == 1 && self.looped.is_none() => {
                    self.loss_stmt(value);
                }
                // Not allowed here; the check of names has reported it.
                StmtKind::Return(_) | StmtKind::Loss(_) => {}
            }
        }
        None
    }

    /// Whether the innermost frame has no repeat of its own in progress.
    fn looped_here(&self) -> bool {
        self.looped
            .as_ref()
            .is_none_or(|looped| looped.frame < self.frames.len())
    }

    fn loss_stmt(&mut self, value: &'a Expr) {
        let (piped, call) = match &value.kind {
            ExprKind::Call(call) => (None, call),
            ExprKind::Pipe(piped, call) => (Some(&**piped), call),
            ExprKind::Error => return,
            _ => {
                let message = format!("a loss is a call of {}", losses());
                return self.report(Diagnostic::new("E0302", message).at(value.span()));
            }
        };
        let named = builtin(&call.callee.name);
        let Some((entry, Function::Loss(loss))) = named.map(|entry| (entry, &entry.function))
        else {
            let message = format!("`{}` is not a loss", call.callee.name);
            let help = format!("expected {}", losses());
            let wrong = Diagnostic::new("E0302", message).at(call.callee.span());
            return self.report(wrong.help(help));
        };
        if let Some(bound) = self.bound(&builtin_signature(entry), piped, call, value.span()) {
            self.set_loss(loss, entry, bound, value.span());
        }
    }

    /// Evaluates an expression.
    pub fn eval(&mut self, expr: &'a Expr) -> Value<'a> {
        self.depth += 1;
        self.charge(1);
        let size = self.graph.nodes.len() + self.looped.as_ref().map_or(0, Loop::len);
        let full = self.depth > MAX_DEPTH || self.steps > MAX_STEPS || size > MAX_NODES;
        if full && !self.stopped {
            self.too_large(expr.span());
        }
        let value = match self.stopped {
            true => Value::Poison,
            false => self.eval_kind(expr),
        };
        self.depth -= 1;
        value
    }

    /// Counts work that is disproportionate to the length of the text toward the limit.
    pub fn charge(&mut self, steps: usize) {
        self.steps = self.steps.saturating_add(steps as u32);
    }

    pub fn too_large(&mut self, span: Span) {
        self.stopped = true;
        let message = format!(
            "the model is too large: more than {MAX_NODES} operators, {MAX_STEPS} expressions, \
             or {MAX_CALLS} layers or {MAX_DEPTH} expressions inside each other"
        );
        let help = "use `repeat` for repeated layers";
        self.report(Diagnostic::new("E0310", message).at(span).help(help));
    }

    fn eval_kind(&mut self, expr: &'a Expr) -> Value<'a> {
        let span = expr.span();
        match &expr.kind {
            ExprKind::Number(value, _) => Value::Number(*value),
            ExprKind::Str(text) => Value::Word(text.clone()),
            ExprKind::Bool(value) => Value::Bool(*value),
            ExprKind::Name(name) => self.name(name, span),
            ExprKind::Unary(op, a) => self.unary(*op, a, span),
            ExprKind::Binary(op, a, b) => {
                let left = self.eval(a);
                let right = self.eval(b);
                self.binary(*op, (left, a.span()), (right, b.span()), span)
            }
            ExprKind::Call(call) => self.call(None, call, span),
            ExprKind::Pipe(value, call) => self.call(Some(value), call, call.callee.span()),
            ExprKind::At(value, end) => {
                let set = self.frame().edges;
                match self.eval(value) {
                    Value::Poison => Value::Poison,
                    Value::Tensor(tensor) if self.ty(tensor).rows != Rows::Vertices => {
                        let what = format!("`@{}` takes a vertex tensor", end_name(*end));
                        self.wrong_domain(&what, tensor, value.span())
                    }
                    Value::Tensor(tensor) => self.emit(Op::Take(set, *end), &[tensor], span),
                    other => self.wrong_kind(&other, "a tensor", value.span()),
                }
            }
            ExprKind::If(condition, yes, no) => match self.eval(condition) {
                Value::Bool(true) => self.eval(yes),
                Value::Bool(false) => self.eval(no),
                Value::Poison => Value::Poison,
                other => self.wrong_kind(&other, "`true` or `false`", condition.span()),
            },
            ExprKind::List(entries) => self.list(entries).unwrap_or(Value::Poison),
            ExprKind::Map(_) | ExprKind::Error => Value::Poison,
        }
    }

    /// The type of a tensor.
    pub fn ty(&self, tensor: Tensor) -> Type {
        match &self.looped {
            Some(looped) if tensor.inside => looped.graph.ty(tensor.id),
            _ => self.graph.ty(tensor.id),
        }
    }

    /// The node of a tensor.
    pub fn node(&self, tensor: Tensor) -> &Node {
        match &self.looped {
            Some(looped) if tensor.inside => looped.graph.node(tensor.id),
            _ => self.graph.node(tensor.id),
        }
    }

    /// Adds an operator to the model, or to the body of the repeat being elaborated.
    pub fn emit(&mut self, op: Op, inputs: &[Tensor], span: Span) -> Value<'a> {
        let path = self.frame().path.clone();
        self.emit_in(&path, op, inputs, span)
    }

    /// Like [`Self::emit`], in the scope of a layer instance.
    pub fn emit_in(&mut self, path: &str, op: Op, inputs: &[Tensor], span: Span) -> Value<'a> {
        let inside = self.looped.is_some();
        let mut ids = Vec::with_capacity(inputs.len());
        for input in inputs {
            ids.push(self.import(*input));
        }
        let (graph, scopes) = match &mut self.looped {
            Some(looped) => (&mut looped.graph, &mut looped.scopes),
            None => (&mut self.graph, &mut self.scopes),
        };
        let scope = match scopes.get(path) {
            Some(scope) => *scope,
            None => {
                let scope = graph.scope(path);
                scopes.insert(path.to_owned(), scope);
                scope
            }
        };
        match graph.add(op, &ids, scope) {
            Ok(id) => {
                let ty = graph.ty(id);
                if u64::from(ty.heads) * u64::from(ty.width) > u64::from(MAX_COLUMNS) {
                    let message = format!("a tensor {ty} has more than {MAX_COLUMNS} columns");
                    self.report(Diagnostic::new("E0303", message).at(span));
                    return Value::Poison;
                }
                Value::Tensor(Tensor { inside, id })
            }
            Err(error) => {
                self.report(type_error(&error).at(span));
                Value::Poison
            }
        }
    }

    /// Reports a diagnostic with places in the text of the current layer. Inside a standard
    /// layer, reports it at the call in the file instead.
    pub fn report(&mut self, mut diagnostic: Diagnostic) {
        if self.diagnostics.len() >= MAX_REPORTS {
            return;
        }
        let own = self
            .frames
            .iter()
            .rposition(|frame| !frame.standard)
            .unwrap_or(0);
        if let Some(callee) = self.frames.get(own + 1) {
            diagnostic.message = format!("in `{}`, {}", callee.name, diagnostic.message);
            diagnostic.span = Some(callee.call);
            diagnostic.labels.clear();
        }
        for level in (1..=own).rev() {
            let (frame, caller) = (&self.frames[level], &self.frames[level - 1]);
            if !caller.standard {
                let text = format!("in this call of `{}`", frame.name);
                diagnostic.labels.push((frame.call, text));
            }
        }
        self.diagnostics.push(diagnostic);
    }
}

fn end_name(end: End) -> &'static str {
    match end {
        End::Src => "src",
        End::Dst => "dst",
    }
}

fn type_error(error: &TypeError) -> Diagnostic {
    let (code, help) = match error {
        TypeError::Domain { .. } => (
            "E0309",
            "`h@src` and `h@dst` turn vertex tensors into edge tensors, `gather` turns them back",
        ),
        TypeError::Broadcast { .. } => (
            "E0301",
            "rows, heads and columns must be equal, or 1 on one side",
        ),
        TypeError::Inner { .. } => (
            "E0301",
            "the left must have as many columns as the right has rows",
        ),
        TypeError::Arity { .. } | TypeError::Range { .. } | TypeError::Mismatch { .. } => {
            ("E0301", "compare the shapes with those the operator takes")
        }
    };
    Diagnostic::new(code, error.to_string()).help(help)
}
