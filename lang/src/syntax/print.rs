//! The formatter, which gives every file one canonical form.

use super::ast::{
    Arg, Block, Call, Expr, ExprKind, GraphItem, ItemKind, LayerEdges, Module, Notes, Param,
    Setting, Stmt, StmtKind, UnaryOp, binding,
};
use gnnc_ir::kernel::End;
use std::fmt::Write;

/// Columns before a line is broken.
const LINE: usize = 100;

/// Formats a module: blank lines between items, two spaces per level, one statement or setting
/// per line, and at most 100 columns where an expression can be broken. Keeps comments.
/// `parse(&print(&m))` is `m` for every module read without errors; unreadable parts print as
/// `_`.
pub fn print(module: &Module) -> String {
    let mut printer = Printer {
        out: String::new(),
        indent: 0,
    };
    for (k, item) in module.items.iter().enumerate() {
        if k > 0 {
            printer.out.push('\n');
        }
        printer.lines(&item.notes.before);
        match &item.kind {
            ItemKind::Graph(graph) => printer.graph(graph),
            ItemKind::Layer(layer) => {
                let on = match &layer.edges {
                    LayerEdges::Called => String::new(),
                    LayerEdges::Looped => "on edges + loops ".to_owned(),
                    LayerEdges::Named(name) => format!("on {} ", quoted(&name.name)),
                };
                printer.head(&format!("layer {}", layer.name.name), &layer.params, &on);
                printer.block(&layer.body, Printer::stmt);
            }
            ItemKind::Model(model) => {
                let on = format!("on {} ", model.graph.name);
                printer.head(&format!("model {}", model.name.name), &model.params, &on);
                printer.block(&model.body, Printer::stmt);
            }
            ItemKind::Train(settings) => {
                printer.out.push_str("train ");
                printer.block(settings, Printer::setting);
            }
        }
        printer.end_line(&item.notes);
    }
    if !module.items.is_empty() && !module.tail.is_empty() {
        printer.out.push('\n');
    }
    printer.lines(&module.tail);
    printer.out
}

struct Printer {
    out: String,
    indent: usize,
}

impl Printer {
    fn graph(&mut self, graph: &GraphItem) {
        let _ = write!(self.out, "graph {} ", graph.name.name);
        if let Some(path) = &graph.path {
            let _ = write!(self.out, "= {}", quoted(path));
            let settings = &graph.settings;
            if settings.body.is_empty() && settings.tail.is_empty() && settings.open.is_none() {
                return;
            }
            self.out.push(' ');
        }
        self.block(&graph.settings, Self::setting);
    }

    /// Prints `layer name(params) on edges `, broken if it is long.
    fn head(&mut self, start: &str, params: &[Param], on: &str) {
        let flat: Vec<String> = params.iter().map(param).collect();
        let line = format!("{start}({}) {on}", flat.join(", "));
        if line.len() < LINE {
            self.out.push_str(&line);
            return;
        }
        let _ = writeln!(self.out, "{start}(");
        for line in flat {
            let _ = writeln!(self.out, "  {line},");
        }
        let _ = write!(self.out, ") {on}");
    }

    fn block<T>(&mut self, block: &Block<T>, entry: fn(&mut Self, &T)) {
        self.out.push('{');
        if let Some(comment) = &block.open {
            let _ = write!(self.out, " {comment}");
        }
        if block.body.is_empty() && block.tail.is_empty() && block.open.is_none() {
            self.out.push('}');
            return;
        }
        self.out.push('\n');
        self.indent += 2;
        for value in &block.body {
            entry(self, value);
        }
        self.lines(&block.tail);
        self.indent -= 2;
        self.start_line();
        self.out.push('}');
    }

    fn setting(&mut self, setting: &Setting) {
        self.lines(&setting.notes.before);
        self.start_line();
        let _ = write!(self.out, "{} = ", setting.key.name);
        self.value(&setting.value);
        self.end_line(&setting.notes);
    }

    fn stmt(&mut self, stmt: &Stmt) {
        self.lines(&stmt.notes.before);
        self.start_line();
        match &stmt.kind {
            StmtKind::Let(name, value) => {
                let _ = write!(self.out, "let {} = ", name.name);
                self.value(value);
            }
            StmtKind::Assign(name, value) => {
                let _ = write!(self.out, "{} = ", name.name);
                self.value(value);
            }
            StmtKind::Return(value) => {
                self.out.push_str("return ");
                self.value(value);
            }
            StmtKind::Loss(value) => {
                self.out.push_str("loss ");
                self.value(value);
            }
            StmtKind::Repeat(repeat) => {
                let dots = if repeat.inclusive { "..=" } else { ".." };
                let (from, to) = (
                    flat(&repeat.from, binding::PIPE),
                    flat(&repeat.to, binding::PIPE),
                );
                let _ = write!(self.out, "repeat {} in {from}{dots}{to} ", repeat.var.name);
                self.block(&repeat.body, Self::stmt);
            }
        }
        self.end_line(&stmt.notes);
    }

    fn value(&mut self, value: &Expr) {
        let line = self.out.len() - self.out.rfind('\n').map_or(0, |at| at + 1);
        let text = fitted(value, binding::PIPE, line, self.indent);
        self.out.push_str(&text);
    }

    fn lines(&mut self, lines: &[String]) {
        for line in lines {
            if !line.is_empty() {
                self.start_line();
                self.out.push_str(line);
            }
            self.out.push('\n');
        }
    }

    fn start_line(&mut self) {
        self.out.extend(std::iter::repeat_n(' ', self.indent));
    }

    fn end_line(&mut self, notes: &Notes) {
        if let Some(comment) = &notes.after {
            let _ = write!(self.out, "  {comment}");
        }
        self.out.push('\n');
    }
}

/// Prints an expression that starts at column `column`: on one line if it fits, or else broken
/// at its outermost operator, with the continuation indented deeper than `indent`.
fn fitted(expr: &Expr, min: u8, column: usize, indent: usize) -> String {
    let text = flat(expr, min);
    if column + text.len() <= LINE || needs_parentheses(expr, min) {
        return text;
    }
    let inner = indent + 2;
    let line = format!("\n{}", " ".repeat(inner));
    match &expr.kind {
        ExprKind::Pipe(value, call) => {
            let (mut base, mut stages) = (&**value, vec![call]);
            while let ExprKind::Pipe(value, call) = &base.kind {
                stages.push(call);
                base = value;
            }
            let mut out = fitted(base, binding::PIPE, column, indent);
            for call in stages.into_iter().rev() {
                let name = &call.callee.name;
                let args = fitted_args(call, inner + 3 + name.len(), inner, true);
                out.push_str(&format!("{line}|> {name}{args}"));
            }
            out
        }
        ExprKind::Call(call) => {
            let name = &call.callee.name;
            format!(
                "{name}{}",
                fitted_args(call, column + name.len(), indent, false)
            )
        }
        ExprKind::Binary(op, a, b) => {
            let (tight, op) = (op.binding(), op.text());
            let left = if tight == binding::COMPARE {
                tight + 1
            } else {
                tight
            };
            let a = fitted(a, left, column, indent);
            let b = fitted(b, tight + 1, inner + op.len() + 1, inner);
            format!("{a}{line}{op} {b}")
        }
        ExprKind::List(entries) => {
            let rows = entries
                .iter()
                .map(|e| fitted(e, binding::PIPE, inner, inner));
            enclosed("[", rows.collect(), "]", indent)
        }
        ExprKind::Map(entries) => {
            let rows = entries.iter().map(|(k, v)| pair(k, v));
            enclosed("{", rows.collect(), "}", indent)
        }
        ExprKind::If(condition, yes, no) => {
            let condition = flat(condition, binding::PIPE);
            let yes = fitted(yes, binding::PIPE, inner, inner);
            let head = format!(
                "if {condition} {{{line}{yes}\n{}}} else ",
                " ".repeat(indent)
            );
            match &no.kind {
                ExprKind::If(..) => head + &fitted(no, binding::PIPE, indent + 7, indent),
                _ => {
                    let no = fitted(no, binding::PIPE, inner, inner);
                    format!("{head}{{{line}{no}\n{}}}", " ".repeat(indent))
                }
            }
        }
        _ => text,
    }
}

fn fitted_args(call: &Call, column: usize, indent: usize, piped: bool) -> String {
    let text = flat_args(call, piped);
    if column + text.len() <= LINE {
        return text;
    }
    let rows = call.args.iter().map(|arg| {
        let name = arg
            .name
            .as_ref()
            .map_or(String::new(), |name| format!("{} = ", name.name));
        let value = fitted(
            &arg.value,
            binding::PIPE,
            indent + 2 + name.len(),
            indent + 2,
        );
        name + &value
    });
    enclosed("(", rows.collect(), ")", indent)
}

fn enclosed(open: &str, rows: Vec<String>, close: &str, indent: usize) -> String {
    let mut out = format!("{open}\n");
    for row in rows {
        let _ = writeln!(out, "{}{row},", " ".repeat(indent + 2));
    }
    out + &" ".repeat(indent) + close
}

/// Prints an expression on one line, in parentheses if it binds more loosely than `min`.
fn flat(expr: &Expr, min: u8) -> String {
    let text = match &expr.kind {
        ExprKind::Number(_, text) | ExprKind::Name(text) => text.clone(),
        ExprKind::Str(text) => quoted(text),
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::Unary(UnaryOp::Neg, a) => format!("-{}", flat(a, binding::NEG)),
        ExprKind::Unary(UnaryOp::Not, a) => format!("not {}", flat(a, binding::NOT)),
        ExprKind::Binary(op, a, b) => {
            let tight = op.binding();
            let left = if tight == binding::COMPARE {
                tight + 1
            } else {
                tight
            };
            format!("{} {} {}", flat(a, left), op.text(), flat(b, tight + 1))
        }
        ExprKind::Call(call) => format!("{}{}", call.callee.name, flat_args(call, false)),
        ExprKind::Pipe(value, call) => {
            let value = flat(value, binding::PIPE);
            format!("{value} |> {}{}", call.callee.name, flat_args(call, true))
        }
        ExprKind::At(value, End::Src) => format!("{}@src", flat(value, binding::POSTFIX)),
        ExprKind::At(value, End::Dst) => format!("{}@dst", flat(value, binding::POSTFIX)),
        ExprKind::If(condition, yes, no) => {
            let [condition, yes] = [condition, yes].map(|e| flat(e, binding::PIPE));
            match &no.kind {
                ExprKind::If(..) => {
                    format!(
                        "if {condition} {{ {yes} }} else {}",
                        flat(no, binding::PIPE)
                    )
                }
                _ => {
                    let no = flat(no, binding::PIPE);
                    format!("if {condition} {{ {yes} }} else {{ {no} }}")
                }
            }
        }
        ExprKind::List(entries) => {
            let entries: Vec<String> = entries.iter().map(|e| flat(e, binding::PIPE)).collect();
            format!("[{}]", entries.join(", "))
        }
        ExprKind::Map(entries) if entries.is_empty() => "{}".to_owned(),
        ExprKind::Map(entries) => {
            let entries: Vec<String> = entries.iter().map(|(k, v)| pair(k, v)).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        ExprKind::Error => "_".to_owned(),
    };
    match needs_parentheses(expr, min) {
        true => format!("({text})"),
        false => text,
    }
}

fn needs_parentheses(expr: &Expr, min: u8) -> bool {
    let strength = match &expr.kind {
        // A bare `if` is legal, but its end would be hard to see.
        ExprKind::Pipe(..) | ExprKind::If(..) => binding::PIPE,
        ExprKind::Binary(op, ..) => op.binding(),
        ExprKind::Unary(UnaryOp::Not, _) => binding::NOT,
        ExprKind::Unary(UnaryOp::Neg, _) => binding::NEG,
        _ => return false,
    };
    strength < min
}

fn flat_args(call: &Call, piped: bool) -> String {
    if piped && call.args.is_empty() {
        return String::new();
    }
    let args: Vec<String> = call.args.iter().map(arg).collect();
    format!("({})", args.join(", "))
}

fn arg(arg: &Arg) -> String {
    let value = flat(&arg.value, binding::PIPE);
    match &arg.name {
        Some(name) => format!("{} = {value}", name.name),
        None => value,
    }
}

fn param(param: &Param) -> String {
    match &param.default {
        Some(value) => format!("{} = {}", param.name.name, flat(value, binding::PIPE)),
        None => param.name.name.clone(),
    }
}

fn pair(key: &Expr, value: &Expr) -> String {
    format!(
        "{}: {}",
        flat(key, binding::PIPE),
        flat(value, binding::PIPE)
    )
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
