//! Checks of names, arguments and the placement of statements: everything that does not depend
//! on shapes.

use super::bind::{Signature, bind};
use super::builtins::{BUILTINS, Builtin, GRAPH_VALUES, MODEL_VARIABLES, WORDS, builtin};
use super::standard;
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::ast::{
    Block, Call, Expr, ExprKind, Ident, LayerItem, Module, Param, Repeat, Stmt, StmtKind,
};
use gnnc_ir::words::spelling::did_you_mean;

/// Checks every name of a module.
pub fn check(module: &Module, diagnostics: &mut Vec<Diagnostic>) {
    duplicates(module.layers().map(|l| &l.name), "layer", diagnostics);
    duplicates(module.graphs().map(|g| &g.name), "graph", diagnostics);
    for layer in module.layers() {
        let mut walker = Walker {
            module,
            diagnostics,
            locals: Vec::new(),
            repeats: 0,
        };
        walker.params(&layer.params);
        walker.stmts(&layer.body, Place::Layer);
        if !ends_in(&layer.body, |kind| matches!(kind, StmtKind::Return(_))) {
            let message = format!("the layer `{}` returns nothing", layer.name.name);
            let help = "end it with `return` and the tensor that it computes";
            let missing = Diagnostic::new("E0308", message).at(layer.name.span());
            walker.diagnostics.push(missing.help(help));
        }
    }
    for model in module.models() {
        let mut walker = Walker {
            module,
            diagnostics,
            locals: Vec::new(),
            repeats: 0,
        };
        for name in MODEL_VARIABLES {
            walker.define(name, model.name.span(), Kind::Input);
        }
        walker.params(&model.params);
        walker.stmts(&model.body, Place::Model);
        if !ends_in(&model.body, |kind| matches!(kind, StmtKind::Loss(_))) {
            let message = format!("the model `{}` has no loss", model.name.name);
            let help = "end it with `loss cross_entropy(logits, labels, on = train)`";
            let missing = Diagnostic::new("E0308", message).at(model.name.span());
            walker.diagnostics.push(missing.help(help));
        }
    }
}

/// The parameters of a layer, for binding arguments.
pub fn layer_signature(layer: &LayerItem) -> Signature<'_> {
    let params = layer
        .params
        .iter()
        .map(|p| (p.name.name.as_str(), p.default.is_none()));
    Signature {
        name: &layer.name.name,
        params: params.collect(),
        variadic: false,
        over: layer.params.iter().all(|p| p.name.name != "over"),
    }
}

/// The parameters of a function, for binding arguments.
pub fn builtin_signature(builtin: &Builtin) -> Signature<'static> {
    let params = builtin.params.iter().map(|p| (p.name, p.default.is_none()));
    Signature {
        name: builtin.name,
        params: params.collect(),
        variadic: builtin.variadic,
        over: false,
    }
}

fn ends_in(body: &Block<Stmt>, kind: impl Fn(&StmtKind) -> bool) -> bool {
    body.body.iter().any(|stmt| kind(&stmt.kind))
}

fn duplicates<'a>(
    names: impl Iterator<Item = &'a Ident>,
    what: &str,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut seen: Vec<&Ident> = Vec::new();
    for name in names {
        match seen.iter().find(|other| other.name == name.name) {
            Some(other) => {
                let message = format!("the {what} `{}` is defined twice", name.name);
                let twice = Diagnostic::new("E0203", message).at(name.span());
                diagnostics.push(twice.label(other.span(), "first defined here"));
            }
            None => seen.push(name),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Layer,
    Model,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Provided by the graph.
    Input,
    Param,
    Let,
    Loop,
}

struct Local {
    name: String,
    span: Span,
    kind: Kind,
    read: bool,
    /// Number of repeats around its definition.
    repeats: u32,
}

struct Walker<'a> {
    module: &'a Module,
    diagnostics: &'a mut Vec<Diagnostic>,
    locals: Vec<Local>,
    repeats: u32,
}

impl Walker<'_> {
    fn params(&mut self, params: &[Param]) {
        for param in params {
            if let Some(default) = &param.default {
                self.expr(default);
            }
            if let Some(other) = self.locals.iter().find(|l| l.name == param.name.name) {
                let message = match other.kind {
                    Kind::Input => format!("`{}` is given by the graph", param.name.name),
                    _ => format!("the parameter `{}` is defined twice", param.name.name),
                };
                let mut twice = Diagnostic::new("E0203", message).at(param.name.span());
                if other.kind != Kind::Input {
                    twice = twice.label(other.span, "first defined here");
                }
                self.diagnostics.push(twice.help("choose another name"));
            }
            self.define(&param.name.name, param.name.span(), Kind::Param);
        }
    }

    fn define(&mut self, name: &str, span: Span, kind: Kind) {
        let (name, repeats) = (name.to_owned(), self.repeats);
        self.locals.push(Local {
            name,
            span,
            kind,
            read: false,
            repeats,
        });
    }

    /// Walks the statements of a block; variables defined in it go out of scope at its end.
    fn stmts(&mut self, block: &Block<Stmt>, place: Place) {
        let outer = self.locals.len();
        let mut finished: Option<Span> = None;
        for stmt in &block.body {
            if let Some(end) = finished {
                let message = "nothing can follow the end of the body";
                let late = Diagnostic::new("E0104", message).at(stmt.loc.0);
                self.diagnostics.push(late.label(end, "the body ends here"));
                finished = None;
            }
            self.stmt(stmt, place, &mut finished);
        }
        for local in self.locals.split_off(outer) {
            if local.kind == Kind::Let && !local.read && !local.name.starts_with('_') {
                let message = format!("`{}` is never read", local.name);
                let help = format!("remove it, or call it `_{}`", local.name);
                self.diagnostics
                    .push(Diagnostic::new("W0501", message).at(local.span).help(help));
            }
        }
    }

    fn stmt(&mut self, stmt: &Stmt, place: Place, finished: &mut Option<Span>) {
        match &stmt.kind {
            StmtKind::Let(name, value) => {
                self.expr(value);
                self.define(&name.name, name.span(), Kind::Let);
            }
            StmtKind::Assign(name, value) => {
                self.expr(value);
                self.assign(name);
            }
            StmtKind::Repeat(repeat) => self.repeat(repeat, place),
            StmtKind::Return(value) => {
                self.expr(value);
                let misplaced = match (place, self.repeats) {
                    (Place::Model, _) => Some("a model ends in `loss`, not in `return`"),
                    (_, 1..) => Some("`return` cannot leave a repeat"),
                    _ => None,
                };
                self.misplaced(misplaced, stmt, finished);
            }
            StmtKind::Loss(value) => {
                self.expr(value);
                let misplaced = match (place, self.repeats) {
                    (Place::Layer, _) => Some("a layer ends in `return`, not in `loss`"),
                    (_, 1..) => Some("`loss` cannot be inside a repeat"),
                    _ => None,
                };
                self.misplaced(misplaced, stmt, finished);
            }
        }
    }

    fn misplaced(&mut self, why: Option<&str>, stmt: &Stmt, finished: &mut Option<Span>) {
        match why {
            Some(why) => self
                .diagnostics
                .push(Diagnostic::new("E0104", why).at(stmt.loc.0)),
            None => *finished = Some(stmt.loc.0),
        }
    }

    fn repeat(&mut self, repeat: &Repeat, place: Place) {
        self.expr(&repeat.from);
        self.expr(&repeat.to);
        self.repeats += 1;
        let outer = self.locals.len();
        self.define(&repeat.var.name, repeat.var.span(), Kind::Loop);
        self.stmts(&repeat.body, place);
        self.locals.truncate(outer);
        self.repeats -= 1;
    }

    fn assign(&mut self, name: &Ident) {
        let repeats = self.repeats;
        let local = self.locals.iter().rev().find(|l| l.name == name.name);
        let why = match local {
            None => return self.unbound(&name.name, name.span()),
            Some(_) if repeats == 0 => "variables only change inside a repeat".to_owned(),
            Some(local) if local.kind == Kind::Loop => {
                format!("`{}` counts the repeat", name.name)
            }
            Some(local) if local.kind == Kind::Input => {
                format!("`{}` is given by the graph", name.name)
            }
            Some(local) if local.repeats == repeats => {
                format!("`{}` is new in each iteration", name.name)
            }
            Some(_) => return,
        };
        let help = format!("write `let {} = ..` to define a new variable", name.name);
        let span = name.span();
        let label = local.filter(|l| l.kind != Kind::Input).map(|l| l.span);
        let mut wrong = Diagnostic::new("E0208", why).at(span).help(help);
        if let Some(label) = label {
            wrong = wrong.label(label, "defined here");
        }
        self.diagnostics.push(wrong);
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Number(..) | ExprKind::Str(_) | ExprKind::Bool(_) | ExprKind::Error => {}
            ExprKind::Name(name) => self.read(name, expr.span()),
            ExprKind::Unary(_, a) | ExprKind::At(a, _) => self.expr(a),
            ExprKind::Binary(_, a, b) => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Call(call) => self.call(None, call, expr.span()),
            ExprKind::Pipe(value, call) => {
                self.expr(value);
                self.call(Some(value), call, call.callee.span());
            }
            ExprKind::If(condition, yes, no) => {
                self.expr(condition);
                self.expr(yes);
                self.expr(no);
            }
            ExprKind::List(entries) => entries.iter().for_each(|entry| self.expr(entry)),
            ExprKind::Map(_) => {
                let message = "maps are only allowed in settings";
                self.diagnostics
                    .push(Diagnostic::new("E0302", message).at(expr.span()));
            }
        }
    }

    fn read(&mut self, name: &str, span: Span) {
        if let Some(local) = self.locals.iter_mut().rev().find(|l| l.name == name) {
            local.read = true;
        } else if !is_word(name) && self.layer(name).is_none() && builtin(name).is_none() {
            self.unbound(name, span);
        }
    }

    fn call(&mut self, piped: Option<&Expr>, call: &Call, span: Span) {
        for arg in &call.args {
            self.expr(&arg.value);
        }
        let name = call.callee.name.as_str();
        if let Some(local) = self.locals.iter_mut().rev().find(|l| l.name == name) {
            // Whether it holds a function becomes known only when the layer is elaborated.
            local.read = true;
            return;
        }
        let signature = match (self.layer(name), builtin(name)) {
            (Some(layer), _) => layer_signature(layer),
            (None, Some(builtin)) => builtin_signature(builtin),
            (None, None) => {
                let message = format!("there is no function or layer `{name}`");
                let help = did_you_mean(name, callables(self.module));
                let unknown = Diagnostic::new("E0202", message).at(call.callee.span());
                self.diagnostics.push(unknown.maybe_help(help));
                return;
            }
        };
        if let Err(errors) = bind(&signature, piped, call, span) {
            self.diagnostics.extend(errors);
        }
    }

    fn layer(&self, name: &str) -> Option<&LayerItem> {
        find_layer(self.module, name)
    }

    fn unbound(&mut self, name: &str, span: Span) {
        let locals = self.locals.iter().map(|l| l.name.as_str());
        let known = locals
            .chain(WORDS.iter().copied())
            .chain(GRAPH_VALUES.iter().copied());
        let help = did_you_mean(name, known.chain(callables(self.module)));
        let unbound = Diagnostic::new("E0201", format!("`{name}` is not defined")).at(span);
        self.diagnostics.push(unbound.maybe_help(help));
    }
}

/// The layer with a name: from the file, or else from the standard library.
pub fn find_layer<'a>(module: &'a Module, name: &str) -> Option<&'a LayerItem> {
    let standard = || standard::module().layers().find(|l| l.name.name == name);
    module
        .layers()
        .find(|l| l.name.name == name)
        .or_else(standard)
}

/// Whether a name has a meaning of its own if no variable shadows it.
pub fn is_word(name: &str) -> bool {
    WORDS.contains(&name) || GRAPH_VALUES.contains(&name)
}

fn callables(module: &Module) -> impl Iterator<Item = &str> {
    let layers = module.layers().chain(standard::module().layers());
    layers
        .map(|l| l.name.name.as_str())
        .chain(BUILTINS.iter().map(|b| b.name))
}
