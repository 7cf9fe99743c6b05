//! `repeat`: elaborates the body once and turns it into a scan.

use super::elaborator::Elaborator;
use super::value::{Tensor, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::ast::{Block, Expr, Repeat, Stmt, StmtKind};
use gnnc_ir::graph::op::{Op, Scan};
use gnnc_ir::graph::{Graph, NodeId};
use gnnc_ir::words::types::Type;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Most iterations of a repeat.
const MAX_COUNT: f64 = 65_536.0;

/// Largest bound of a range.
const MAX_BOUND: f64 = 1e9;

/// The body of a repeat during elaboration.
pub struct Loop {
    /// Its operators. Arguments are numbered in the order of discovery until `finish`.
    pub graph: Graph,
    /// Number of iterations.
    pub count: u32,
    /// Number of frames (model and layers) around the body.
    pub frame: usize,
    /// Indices of the scopes of `graph`, by path.
    pub scopes: BTreeMap<String, u32>,
    /// Source and node of each argument.
    args: Vec<(Source, NodeId)>,
    /// Nodes of arguments that can be reused.
    known: BTreeMap<Source, NodeId>,
    /// Tables that the body reads.
    tables: Vec<(Rc<[f64]>, NodeId)>,
}

/// Source of a body's argument: a node of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Carry(NodeId),
    Const(NodeId),
    Stacked(NodeId),
}

/// A variable that the body assigns.
struct Carry {
    name: String,
    /// Its position in the frame's variables.
    var: usize,
    /// Its value before the repeat; `None` if it cannot be carried.
    start: Option<NodeId>,
    /// First assignment in the body.
    span: Span,
}

impl Loop {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.graph.nodes.len()
    }

    fn arg(&mut self, source: Source, ty: Type) -> NodeId {
        if let Some(id) = self.known.get(&source) {
            return *id;
        }
        let position = self.graph.args.len() as u32;
        self.graph.args.push(ty);
        let node = gnnc_ir::graph::Node {
            op: Op::Arg(position),
            inputs: Vec::new(),
            ty,
            scope: 0,
        };
        self.graph.nodes.push(node);
        let id = NodeId(self.graph.nodes.len() as u32 - 1);
        self.args.push((source, id));
        // Two variables that start as the same tensor are separate carries.
        if !matches!(source, Source::Carry(_)) {
            self.known.insert(source, id);
        }
        id
    }

    /// Numbers the arguments: carries, consts, xs. Returns the scan and its operands.
    fn finish(self) -> (Scan, Vec<NodeId>) {
        let Self {
            mut graph,
            count,
            args,
            ..
        } = self;
        let rank = |source: &Source| match source {
            Source::Carry(_) => 0,
            Source::Const(_) => 1,
            Source::Stacked(_) => 2,
        };
        let mut order: Vec<usize> = (0..args.len()).collect();
        order.sort_by_key(|k| rank(&args[*k].0));
        for (new, old) in order.iter().enumerate() {
            graph.nodes[args[*old].1.0 as usize].op = Op::Arg(new as u32);
        }
        graph.args = order.iter().map(|k| graph.args[*k]).collect();
        let operands = order.iter().map(|k| match args[*k].0 {
            Source::Carry(id) | Source::Const(id) | Source::Stacked(id) => id,
        });
        let number = |kind: u8| args.iter().filter(|(s, _)| rank(s) == kind).count() as u32;
        let (carries, consts, xs) = (number(0), number(1), number(2));
        let operands = operands.collect();
        (
            Scan {
                count,
                reverse: false,
                carries,
                consts,
                xs,
                body: graph,
            },
            operands,
        )
    }
}

impl<'a> Elaborator<'a, '_> {
    /// The node of a tensor in the graph that operators are being added to.
    pub fn import(&mut self, tensor: Tensor) -> NodeId {
        match &mut self.looped {
            Some(looped) if !tensor.inside => {
                looped.arg(Source::Const(tensor.id), self.graph.ty(tensor.id))
            }
            _ => tensor.id,
        }
    }

    /// A number per iteration, as a tensor in the body.
    pub fn table(&mut self, values: &Rc<[f64]>) -> Value<'a> {
        self.charge(values.len() / 16);
        let Some(looped) = &mut self.looped else {
            return Value::Poison;
        };
        let known = looped.tables.iter().find(|(table, _)| table == values);
        if let Some((_, id)) = known {
            let id = *id;
            return self.stacked(id);
        }
        let floats = values.iter().map(|n| *n as f32).collect();
        match self.graph.add(Op::Table(floats), &[], 0) {
            Ok(id) => {
                looped.tables.push((Rc::clone(values), id));
                self.stacked(id)
            }
            Err(_) => Value::Poison,
        }
    }

    /// Element `i` of a stacked tensor of the model, in iteration `i` of the body.
    pub fn stacked(&mut self, id: NodeId) -> Value<'a> {
        let ty = self.graph.ty(id).unstacked();
        match &mut self.looped {
            Some(looped) => {
                let id = looped.arg(Source::Stacked(id), ty);
                Value::Tensor(Tensor { inside: true, id })
            }
            None => Value::Poison,
        }
    }

    /// Elaborates a repeat.
    pub fn repeat(&mut self, repeat: &'a Repeat, span: Span) {
        let mut assigned = Vec::new();
        assignments(&repeat.body, &mut assigned);
        let defined = self.frame().vars.len();
        let Some(numbers) = self.iterations(repeat, span) else {
            return self.poison(&assigned);
        };
        if assigned.is_empty() {
            let message = "the repeat changes no variable, so it has no effect";
            let help = "assign to a variable from outside: `h = ..` without `let`";
            self.report(
                Diagnostic::new("W0502", message)
                    .at(repeat.var.span())
                    .help(help),
            );
        }
        if numbers.is_empty() {
            return;
        }
        let count = numbers.len() as u32;
        self.looped = Some(Loop {
            graph: Graph::body(self.facts.features, Vec::new()),
            count,
            frame: self.frames.len(),
            scopes: BTreeMap::from([(String::new(), 0)]),
            args: Vec::new(),
            known: BTreeMap::new(),
            tables: Vec::new(),
        });
        let carries = self.start_carries(&assigned);
        self.define(&repeat.var.name, Value::Table(numbers));
        self.stmts(&repeat.body);
        self.frame().vars.truncate(defined);
        let results = self.carry_results(&carries);
        let Some(mut looped) = self.looped.take() else {
            return;
        };
        let Some(results) = results else {
            return self.poison(&assigned);
        };
        if carries.is_empty() {
            return;
        }
        looped.graph.results = results;
        let (scan, operands) = looped.finish();
        let outside = |id: NodeId| Tensor { inside: false, id };
        let operands: Vec<Tensor> = operands.into_iter().map(outside).collect();
        let scan = self.emit(Op::Scan(Box::new(scan)), &operands, span);
        for (k, carry) in carries.iter().enumerate() {
            let result = match &scan {
                Value::Tensor(scan) => self.emit(Op::Out(k as u32), &[*scan], span),
                _ => Value::Poison,
            };
            self.frame().vars[carry.var].1 = result;
        }
    }

    /// Values of the loop variable.
    fn iterations(&mut self, repeat: &'a Repeat, span: Span) -> Option<Rc<[f64]>> {
        let from = self.whole(&repeat.from);
        let to = self.whole(&repeat.to);
        if self.looped.is_some() {
            let message = "a repeat inside a repeat is not supported";
            let help = "write out the inner steps, or include them in the outer range";
            self.report(
                Diagnostic::new("E0306", message)
                    .at(repeat.var.span())
                    .help(help),
            );
            return None;
        }
        let (from, to) = (from?, to?);
        let count = (to - from + f64::from(u8::from(repeat.inclusive))).max(0.0);
        if count > MAX_COUNT {
            let message = format!("{count} iterations are more than {MAX_COUNT}");
            self.report(Diagnostic::new("E0310", message).at(span));
            return None;
        }
        Some((0..count as u32).map(|k| from + f64::from(k)).collect())
    }

    fn whole(&mut self, expr: &'a Expr) -> Option<f64> {
        let value = self.eval(expr);
        let number = self.compile_time(&value, expr.span())?;
        if number.fract() == 0.0 && number.abs() <= MAX_BOUND {
            return Some(number);
        }
        let message = format!(
            "the range of a repeat needs whole numbers from -{MAX_BOUND} to {MAX_BOUND}, found {number}"
        );
        self.report(Diagnostic::new("E0303", message).at(expr.span()));
        None
    }

    fn start_carries(&mut self, assigned: &[(&'a str, Span)]) -> Vec<Carry> {
        let mut carries: Vec<Carry> = Vec::new();
        for (name, span) in assigned {
            if carries.iter().any(|c| c.name == *name) {
                continue;
            }
            let Some(var) = self.frame().vars.iter().rposition(|(n, _)| n == name) else {
                continue;
            };
            let value = self.frame().vars[var].1.clone();
            let start = match &value {
                Value::Tensor(tensor) => Some(tensor.id),
                Value::Poison => None,
                other => {
                    let message = format!(
                        "`{name}` is {}; only tensors change from one iteration to the next",
                        self.describe(other)
                    );
                    let help = "compute numbers from the variable of the repeat";
                    self.report(Diagnostic::new("E0305", message).at(*span).help(help));
                    None
                }
            };
            let inside = match (start, &mut self.looped) {
                (Some(id), Some(looped)) => {
                    let id = looped.arg(Source::Carry(id), self.graph.ty(id));
                    Value::Tensor(Tensor { inside: true, id })
                }
                _ => Value::Poison,
            };
            self.frame().vars[var].1 = inside;
            carries.push(Carry {
                name: (*name).to_owned(),
                var,
                start,
                span: *span,
            });
        }
        carries
    }

    /// Values of the carries at the end of the body, in the body's graph.
    fn carry_results(&mut self, carries: &[Carry]) -> Option<Vec<NodeId>> {
        let mut results = Vec::new();
        let mut fine = true;
        for carry in carries {
            let value = self.frame().vars[carry.var].1.clone();
            let Some(start) = carry.start else {
                fine = false;
                continue;
            };
            let before = self.graph.ty(start);
            match value {
                Value::Tensor(tensor) if self.ty(tensor) == before => {
                    results.push(self.import(tensor));
                }
                Value::Poison => fine = false,
                other => {
                    let message = format!(
                        "`{}` is a tensor {before} before the repeat and {} after an iteration",
                        carry.name,
                        self.describe(&other)
                    );
                    let help = "a repeated layer must keep the shape of what it changes";
                    self.report(Diagnostic::new("E0305", message).at(carry.span).help(help));
                    fine = false;
                }
            }
        }
        fine.then_some(results)
    }

    fn poison(&mut self, assigned: &[(&'a str, Span)]) {
        for (name, _) in assigned {
            let vars = &mut self.frame().vars;
            if let Some(var) = vars.iter_mut().rev().find(|(n, _)| n == name) {
                var.1 = Value::Poison;
            }
        }
    }
}

/// Variables that a body assigns, in order, except those that it defines itself.
fn assignments<'a>(body: &'a Block<Stmt>, found: &mut Vec<(&'a str, Span)>) {
    for stmt in &body.body {
        match &stmt.kind {
            StmtKind::Assign(name, _) => found.push((&name.name, name.span())),
            StmtKind::Repeat(inner) => assignments(&inner.body, found),
            StmtKind::Let(..) | StmtKind::Return(_) | StmtKind::Loss(_) => {}
        }
    }
}
