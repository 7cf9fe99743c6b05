//! Lowers calls of built-in functions to operators.

use super::args::{Args, MAX_SIZE};
use super::bind::Bound;
use super::builtins::{Builtin, Function};
use super::elaborator::{Elaborator, MAX_COLUMNS};
use super::value::{Tensor, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::ast::{Expr, ExprKind};
use gnnc_ir::graph::op::{Input, Op};
use gnnc_ir::kernel::{Axis, End, Reduce};
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::words::types::{EdgeSet, Rows, Type};

impl<'a> Elaborator<'a, '_> {
    /// Calls a function.
    pub fn call_builtin(
        &mut self,
        builtin: &'static Builtin,
        bound: Bound<'a>,
        span: Span,
    ) -> Value<'a> {
        self.arguments(builtin, bound, span)
            .and_then(|args| self.apply(&args))
            .unwrap_or(Value::Poison)
    }

    /// The values of a call's arguments; `None` after reporting a wrong one.
    pub(super) fn arguments(
        &mut self,
        builtin: &'static Builtin,
        bound: Bound<'a>,
        span: Span,
    ) -> Option<Args<'a>> {
        let name = |expr: &'a Expr| match &expr.kind {
            ExprKind::Name(name) => Some(name.as_str()),
            _ => None,
        };
        let names = bound.iter().map(|arg| arg.and_then(name)).collect();
        let values = bound
            .into_iter()
            .map(|arg| arg.map(|e| (self.eval(e), e.span())));
        let values: Vec<_> = values.collect();
        let poison = |(value, _): &(Value, Span)| matches!(value, Value::Poison);
        (!values.iter().flatten().any(poison)).then_some(Args {
            builtin,
            values,
            names,
            span,
        })
    }

    /// Applies the function; `None` after reporting an error.
    fn apply(&mut self, args: &Args<'a>) -> Option<Value<'a>> {
        let span = args.span;
        match args.builtin.function {
            Function::Unary(function) => self.elementwise(function, args),
            Function::Max => Some(self.combine(Binary::Max, args.pair(0), args.pair(1), span)),
            Function::Min => self.min(args),
            Function::Dropout => self.dropout(args),
            Function::Linear => self.linear(args),
            Function::Parameter => self.parameter(args),
            Function::Uniform => self.number_in(args, 0, 0.0..=1e6).map(Value::Uniform),
            Function::MatMul => {
                let (x, w) = (self.tensor(args, 0)?, self.tensor(args, 1)?);
                self.product(x, w, args)
            }
            Function::Gather => {
                let (e, set) = self.edges(args, 0)?;
                let reduce = self.choice(args, 1, &aggregations())?;
                Some(self.emit(gather(set, reduce), &[e], span))
            }
            Function::Softmax => {
                let (e, set) = self.edges(args, 0)?;
                Some(self.emit(Op::EdgeSoftmax(set), &[e], span))
            }
            Function::Aggregate => self.aggregate(args),
            Function::ByRelation => self.by_relation(args),
            Function::Concat => self.concat(args),
            Function::Slice => {
                let x = self.tensor(args, 0)?;
                let start = self.count_in(args, 1, 0.0..=MAX_SIZE)?;
                let len = self.size(args, 2)?;
                let ty = self.ty(x);
                if start + len > ty.width {
                    let end = start + len;
                    let message = format!("columns {start} to {end} of a tensor {ty}");
                    let wrong = Diagnostic::new("E0301", message).at(span);
                    let help =
                        format!("a head has {}, counted from 0", counted(ty.width, "column"));
                    self.report(wrong.help(help));
                    return None;
                }
                Some(self.emit(Op::SliceCols { start, len }, &[x], span))
            }
            Function::Dot => match self.combine(Binary::Mul, args.pair(0), args.pair(1), span) {
                Value::Tensor(product) => Some(self.reduce(Axis::Width, product, span)),
                Value::Poison => None,
                other => Some(self.wrong_kind(&other, "two tensors", span)),
            },
            Function::SumCols => {
                let x = self.tensor(args, 0)?;
                Some(self.reduce(Axis::Width, x, span))
            }
            Function::MeanCols => self.mean(Axis::Width, args),
            Function::SumRows => {
                let x = self.rows_of_graph(args)?;
                Some(self.emit(Op::SumRows, &[x], span))
            }
            Function::MeanRows => self.mean_rows(args),
            Function::SplitHeads => self.split_heads(args),
            Function::MergeHeads => {
                let x = self.tensor(args, 0)?;
                let width = self.ty(x).columns();
                Some(self.emit(Op::Reshape { heads: 1, width }, &[x], span))
            }
            Function::SumHeads => {
                let x = self.tensor(args, 0)?;
                Some(self.reduce(Axis::Heads, x, span))
            }
            Function::MeanHeads => self.mean(Axis::Heads, args),
            Function::Width => {
                let x = self.tensor(args, 0)?;
                Some(Value::Number(f64::from(self.ty(x).width)))
            }
            Function::Heads => {
                let x = self.tensor(args, 0)?;
                Some(Value::Number(f64::from(self.ty(x).heads)))
            }
            Function::Loss(_) => {
                let message = format!("`{}` can only follow `loss`", args.builtin.name);
                self.report(Diagnostic::new("E0104", message).at(span));
                None
            }
        }
    }

    fn elementwise(&mut self, function: Unary, args: &Args<'a>) -> Option<Value<'a>> {
        // The function's own number is its second argument, if it is given.
        let unary = match function.slope() {
            Some(_) if args.given(1) => {
                let slope = self.number_in(args, 1, -1e6..=1e6)?;
                function.with_slope(slope as f32)
            }
            _ => function,
        };
        let value = match args.value(0) {
            Some(Value::Number(n)) => Value::Number(unary.eval(*n)),
            Some(Value::Table(t)) => Value::Table(t.iter().map(|n| unary.eval(*n)).collect()),
            Some(Value::Tensor(t)) => return Some(self.emit(Op::Unary(unary), &[*t], args.span)),
            _ => {
                let (other, span) = args.pair(0);
                return Some(self.wrong_kind(&other, "a number or a tensor", span));
            }
        };
        Some(self.finite(value, args.span))
    }

    fn min(&mut self, args: &Args<'a>) -> Option<Value<'a>> {
        let [(a, a_span), (b, b_span)] = [args.pair(0), args.pair(1)];
        for (value, span) in [(&a, a_span), (&b, b_span)] {
            if !matches!(value, Value::Number(_) | Value::Table(_)) {
                self.wrong_kind(value, "a number", span);
                return None;
            }
        }
        // min(a, b) = -max(-a, -b)
        let negated = |value| match value {
            Value::Number(n) => Value::Number(-n),
            Value::Table(t) => Value::Table(t.iter().map(|n: &f64| -n).collect()),
            other => other,
        };
        let pair = ((negated(a), a_span), (negated(b), b_span));
        Some(negated(self.combine(
            Binary::Max,
            pair.0,
            pair.1,
            args.span,
        )))
    }

    fn dropout(&mut self, args: &Args<'a>) -> Option<Value<'a>> {
        let x = self.tensor(args, 0)?;
        let p = self.number(args, 1)?;
        if !(0.0..1.0).contains(&p) {
            let message =
                format!("the dropout probability must be at least 0 and below 1, found {p}");
            let help = "0 disables dropout";
            self.report(
                Diagnostic::new("E0303", message)
                    .at(args.span_of(1))
                    .help(help),
            );
            return None;
        }
        if p == 0.0 {
            return Some(Value::Tensor(x));
        }
        let site = self.sites.into();
        self.sites += 1;
        Some(self.emit(
            Op::Dropout {
                p: p as f32,
                site,
                slice: None,
            },
            &[x],
            args.span,
        ))
    }

    fn product(&mut self, x: Tensor, w: Tensor, args: &Args<'a>) -> Option<Value<'a>> {
        let (left, right) = (self.ty(x), self.ty(w));
        if right.rows == Rows::Fixed(left.columns()) {
            return Some(self.emit(Op::MatMul, &[x, w], args.span));
        }
        let message = format!(
            "a product of {left} and {right}: the left has {}, the right {} rows",
            counted(left.columns(), "column"),
            right.rows
        );
        let wrong = Diagnostic::new("E0301", message)
            .at(args.span)
            .label(args.span_of(0), format!("this is {left}"))
            .label(args.span_of(1), format!("this is {right}"))
            .help("the left must have as many columns as the right has rows");
        self.report(wrong);
        None
    }

    /// The edge-level form of an aggregation: reduces messages from the sources.
    fn aggregate(&mut self, args: &Args<'a>) -> Option<Value<'a>> {
        let h = self.tensor(args, 0)?;
        let reduce = self.choice(args, 1, &aggregations())?;
        let norm = if args.given(2) {
            self.choice(args, 2, &["none", "sym"])?
        } else {
            "none"
        };
        let loops = args.given(3) && self.boolean(args, 3)?;
        let set = match (loops, self.frame().over) {
            (true, EdgeSet::Named(_)) => {
                let message =
                    "`self_loops = true` in a layer on a named set of edges, which has none";
                let help = "leave it out, and add the vertex's own term";
                let wrong = Diagnostic::new("E0312", message).at(args.span_of(3));
                self.report(wrong.help(help));
                return None;
            }
            (true, EdgeSet::Plain | EdgeSet::Looped) => EdgeSet::Looped,
            (false, over) => over,
        };
        if self.ty(h).rows != Rows::Vertices {
            let what = "`aggregate` takes a vertex tensor";
            return Some(self.wrong_domain(what, h, args.span_of(0)));
        }
        let span = args.span;
        let mut message = self.op(Op::Take(set, End::Src), &[h], span)?;
        if norm == "sym" {
            if reduce != "sum" {
                let message = format!("`norm = sym` goes with `sum`, not with `{reduce}`");
                self.report(Diagnostic::new("E0311", message).at(args.span_of(1)));
                return None;
            }
            let out = self.op(Op::Input(Input::OutDegree(set)), &[], span)?;
            let out = self.op(Op::Take(set, End::Src), &[out], span)?;
            let into = self.op(Op::Input(Input::InDegree(set)), &[], span)?;
            let into = self.op(Op::Take(set, End::Dst), &[into], span)?;
            let degrees = self.op(Op::Binary(Binary::Mul), &[out, into], span)?;
            let scale = self.op(Op::Unary(Unary::Rsqrt), &[degrees], span)?;
            message = self.op(Op::Binary(Binary::Mul), &[message, scale], span)?;
        }
        Some(self.emit(gather(set, reduce), &[message], span))
    }

    fn concat(&mut self, args: &Args<'a>) -> Option<Value<'a>> {
        let mut parts = Vec::new();
        for k in 0..args.values.len() {
            parts.push(self.tensor(args, k)?);
        }
        let first = self.ty(parts[0]);
        for (k, part) in parts.iter().enumerate() {
            let ty = self.ty(*part);
            if (ty.rows, ty.heads) != (first.rows, first.heads) {
                let message = format!("{first} and {ty} cannot be concatenated");
                let wrong = Diagnostic::new("E0301", message)
                    .at(args.span)
                    .label(args.span_of(0), format!("this is {first}"))
                    .label(args.span_of(k), format!("this is {ty}"))
                    .help("rows and heads must be equal");
                self.report(wrong);
                return None;
            }
        }
        let width: u64 = parts
            .iter()
            .map(|part| u64::from(self.ty(*part).width))
            .sum();
        if width > u64::from(MAX_COLUMNS) {
            let message = format!("{width} columns are more than {MAX_COLUMNS}");
            self.report(Diagnostic::new("E0303", message).at(args.span));
            return None;
        }
        Some(self.emit(Op::Concat, &parts, args.span))
    }

    fn by_relation(&mut self, args: &Args<'a>) -> Option<Value<'a>> {
        let table = self.tensor(args, 0)?;
        let relations = self.typed_edges(args.builtin.name, args.span)?;
        let (ty, count) = (self.ty(table), relations.count);
        let taken = matches!(self.node(table).op, Op::Take(..));
        if ty.rows == Rows::Edges(EdgeSet::Plain) && ty.heads == count && taken {
            let types = self.op(Op::Input(Input::Relation(relations)), &[], args.span)?;
            return Some(self.emit(Op::PickHead, &[table, types], args.span));
        }
        if ty.rows != Rows::Fixed(count) {
            let message = format!(
                "`by_relation` takes a row for each of {count} relations, or `h@src` or `h@dst` of {count} heads, found {ty}"
            );
            let help = "make the parameter with `rows = relations`, or split `h` into `relations` heads before `@src`";
            let wrong = Diagnostic::new("E0301", message).at(args.span_of(0));
            self.report(wrong.help(help));
            return None;
        }
        let types = self.op(Op::Input(Input::Relation(relations)), &[], args.span)?;
        Some(self.emit(Op::Pick, &[table, types], args.span))
    }

    fn split_heads(&mut self, args: &Args<'a>) -> Option<Value<'a>> {
        let x = self.tensor(args, 0)?;
        let heads = self.size(args, 1)?;
        let columns = self.ty(x).columns();
        if !columns.is_multiple_of(heads) {
            let message = format!(
                "{} cannot be split into {heads} equal heads",
                counted(columns, "column")
            );
            self.report(Diagnostic::new("E0301", message).at(args.span));
            return None;
        }
        let width = columns / heads;
        Some(self.emit(Op::Reshape { heads, width }, &[x], args.span))
    }

    /// A tensor with a row for each vertex or edge; `None` after reporting another one.
    fn rows_of_graph(&mut self, args: &Args<'a>) -> Option<Tensor> {
        let x = self.tensor(args, 0)?;
        if !matches!(self.ty(x).rows, Rows::Fixed(_)) {
            return Some(x);
        }
        let what = format!(
            "`{}` takes a tensor of vertices or edges",
            args.builtin.name
        );
        self.wrong_domain(&what, x, args.span_of(0));
        None
    }

    /// The sum of the rows over the sum of as many ones.
    fn mean_rows(&mut self, args: &Args<'a>) -> Option<Value<'a>> {
        let x = self.rows_of_graph(args)?;
        let (span, rows) = (args.span, self.ty(x).rows);
        let one = self.op(Op::Const(1.0), &[], span)?;
        let ones = self.op(Op::Broadcast(Type::new(rows, 1, 1)), &[one], span)?;
        let count = self.op(Op::SumRows, &[ones], span)?;
        let share = self.op(Op::Unary(Unary::Recip), &[count], span)?;
        let sum = self.op(Op::SumRows, &[x], span)?;
        Some(self.emit(Op::Binary(Binary::Mul), &[sum, share], span))
    }

    fn reduce(&mut self, axis: Axis, x: Tensor, span: Span) -> Value<'a> {
        self.emit(Op::ReduceCols(axis, Reduce::Sum), &[x], span)
    }

    fn mean(&mut self, axis: Axis, args: &Args<'a>) -> Option<Value<'a>> {
        let x = self.tensor(args, 0)?;
        let ty = self.ty(x);
        let count = if axis == Axis::Width {
            ty.width
        } else {
            ty.heads
        };
        let sum = self.reduce(axis, x, args.span);
        let share = Value::Number(1.0 / f64::from(count));
        Some(self.combine(Binary::Mul, (sum, args.span), (share, args.span), args.span))
    }

    /// Adds an operator; `None` if it is none that makes a tensor.
    pub fn op(&mut self, op: Op, inputs: &[Tensor], span: Span) -> Option<Tensor> {
        match self.emit(op, inputs, span) {
            Value::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

/// The words for how edges are reduced.
fn aggregations() -> Vec<&'static str> {
    let mut names: Vec<&str> = Reduce::ALL.iter().map(|reduce| reduce.name()).collect();
    names.insert(1, "mean");
    names
}

fn gather(set: EdgeSet, reduce: &str) -> Op {
    match reduce {
        "mean" => Op::GatherMean(set),
        name => {
            let named = Reduce::ALL.iter().find(|reduce| reduce.name() == name);
            Op::Gather(set, End::Dst, *named.unwrap_or(&Reduce::Sum))
        }
    }
}
