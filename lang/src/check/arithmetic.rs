//! Operators and conversions between the kinds of values.

use super::elaborator::Elaborator;
use super::value::{Tensor, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::ast::{BinaryOp, Expr, UnaryOp};
use gnnc_ir::graph::op::Op;
use gnnc_ir::words::scalar::{Binary, Unary};

impl<'a> Elaborator<'a, '_> {
    pub fn unary(&mut self, op: UnaryOp, operand: &'a Expr, span: Span) -> Value<'a> {
        match (op, self.eval(operand)) {
            (_, Value::Poison) => Value::Poison,
            (UnaryOp::Neg, Value::Number(n)) => Value::Number(-n),
            (UnaryOp::Neg, Value::Table(t)) => Value::Table(t.iter().map(|n| -n).collect()),
            (UnaryOp::Neg, Value::Tensor(t)) => self.emit(Op::Unary(Unary::Neg), &[t], span),
            (UnaryOp::Neg, other) => {
                self.wrong_kind(&other, "a number or a tensor", operand.span())
            }
            (UnaryOp::Not, Value::Bool(b)) => Value::Bool(!b),
            (UnaryOp::Not, other) => self.wrong_kind(&other, "`true` or `false`", operand.span()),
        }
    }

    pub fn binary(
        &mut self,
        op: BinaryOp,
        (a, a_span): (Value<'a>, Span),
        (b, b_span): (Value<'a>, Span),
        span: Span,
    ) -> Value<'a> {
        match (op, &a, &b) {
            (_, Value::Poison, _) | (_, _, Value::Poison) => Value::Poison,
            (BinaryOp::And, Value::Bool(a), Value::Bool(b)) => Value::Bool(*a && *b),
            (BinaryOp::Or, Value::Bool(a), Value::Bool(b)) => Value::Bool(*a || *b),
            (BinaryOp::And | BinaryOp::Or, Value::Bool(_), other) => {
                self.wrong_kind(other, "`true` or `false`", b_span)
            }
            (BinaryOp::And | BinaryOp::Or, other, _) => {
                self.wrong_kind(other, "`true` or `false`", a_span)
            }
            (BinaryOp::Eq | BinaryOp::Ne, ..) => match self.same(&a, &b, span) {
                Some(same) => Value::Bool(same == (op == BinaryOp::Eq)),
                None => Value::Poison,
            },
            (BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge, ..) => {
                let numbers = (self.compile_time(&a, a_span), self.compile_time(&b, b_span));
                let (Some(a), Some(b)) = numbers else {
                    return Value::Poison;
                };
                Value::Bool(match op {
                    BinaryOp::Lt => a < b,
                    BinaryOp::Le => a <= b,
                    BinaryOp::Gt => a > b,
                    _ => a >= b,
                })
            }
            (BinaryOp::Add, ..) => self.combine(Binary::Add, (a, a_span), (b, b_span), span),
            (BinaryOp::Sub, ..) => self.combine(Binary::Sub, (a, a_span), (b, b_span), span),
            (BinaryOp::Mul, ..) => self.combine(Binary::Mul, (a, a_span), (b, b_span), span),
            (BinaryOp::Div, ..) => self.combine(Binary::Div, (a, a_span), (b, b_span), span),
        }
    }

    /// Applies a function to two numbers, or element-wise to two tensors.
    pub fn combine(
        &mut self,
        op: Binary,
        (a, a_span): (Value<'a>, Span),
        (b, b_span): (Value<'a>, Span),
        span: Span,
    ) -> Value<'a> {
        if matches!(a, Value::Tensor(_)) || matches!(b, Value::Tensor(_)) {
            let pair = (self.tensor_from(a, a_span), self.tensor_from(b, b_span));
            let (Some(left), Some(right)) = pair else {
                return Value::Poison;
            };
            let (left_ty, right_ty) = (self.ty(left), self.ty(right));
            if left_ty.broadcast(right_ty).is_none() {
                let message = format!("{left_ty} and {right_ty} do not match");
                let help = "rows, heads and columns must be equal, or 1 on one side";
                let wrong = Diagnostic::new("E0301", message).at(span).help(help);
                let wrong = wrong.label(a_span, format!("this is {left_ty}"));
                self.report(wrong.label(b_span, format!("this is {right_ty}")));
                return Value::Poison;
            }
            return self.emit(Op::Binary(op), &[left, right], span);
        }
        let (left, right) = match (self.numbers(a, a_span), self.numbers(b, b_span)) {
            (Some(left), Some(right)) => (left, right),
            _ => return Value::Poison,
        };
        let result = match (left, right) {
            (Value::Number(a), Value::Number(b)) => Value::Number(op.eval(a, b)),
            (Value::Table(a), Value::Number(b)) => {
                Value::Table(a.iter().map(|a| op.eval(*a, b)).collect())
            }
            (Value::Number(a), Value::Table(b)) => {
                Value::Table(b.iter().map(|b| op.eval(a, *b)).collect())
            }
            (Value::Table(a), Value::Table(b)) => Value::Table(
                a.iter()
                    .zip(b.iter())
                    .map(|(a, b)| op.eval(*a, *b))
                    .collect(),
            ),
            _ => Value::Poison,
        };
        self.finite(result, span)
    }

    /// Checks that a calculated number is finite.
    pub fn finite(&mut self, value: Value<'a>, span: Span) -> Value<'a> {
        let fine = match &value {
            Value::Number(n) => n.is_finite(),
            Value::Table(t) => t.iter().all(|n| n.is_finite()),
            _ => true,
        };
        if fine {
            return value;
        }
        let message = "the result is not a finite number";
        let help = "look for a division by 0 or a logarithm of 0";
        self.report(Diagnostic::new("E0303", message).at(span).help(help));
        Value::Poison
    }

    /// The value, if it is a number or a table of numbers.
    fn numbers(&mut self, value: Value<'a>, span: Span) -> Option<Value<'a>> {
        match value {
            Value::Number(_) | Value::Table(_) => Some(value),
            Value::Poison => None,
            other => {
                self.wrong_kind(&other, "a number or a tensor", span);
                None
            }
        }
    }

    /// Converts to a tensor; numbers become constants.
    pub fn tensor_from(&mut self, value: Value<'a>, span: Span) -> Option<Tensor> {
        let value = match value {
            Value::Number(n) => self.emit(Op::Const(n as f32), &[], span),
            Value::Table(table) => self.table(&table),
            other => other,
        };
        match value {
            Value::Tensor(tensor) => Some(tensor),
            Value::Poison => None,
            other => {
                self.wrong_kind(&other, "a number or a tensor", span);
                None
            }
        }
    }

    /// The value as a number known at compile time and equal in all iterations of a repeat.
    pub fn compile_time(&mut self, value: &Value<'a>, span: Span) -> Option<f64> {
        match value {
            Value::Number(n) => Some(*n),
            Value::Poison => None,
            other => {
                self.wrong_kind(other, "a number", span);
                None
            }
        }
    }

    fn same(&mut self, a: &Value<'a>, b: &Value<'a>, span: Span) -> Option<bool> {
        match (a, b) {
            (Value::Number(a), Value::Number(b)) => Some(a == b),
            (Value::Bool(a), Value::Bool(b)) => Some(a == b),
            (Value::Word(a), Value::Word(b)) => Some(a == b),
            (Value::Layer(a), Value::Layer(b)) => Some(std::ptr::eq(a.item, b.item)),
            (Value::Uniform(a), Value::Uniform(b)) => Some(a == b),
            (Value::Tensor(_) | Value::Table(_), _) => {
                self.wrong_kind(a, "a value known at compile time", span);
                None
            }
            (_, Value::Tensor(_) | Value::Table(_)) => {
                self.wrong_kind(b, "a value known at compile time", span);
                None
            }
            // Values of different kinds, such as a number in `norm == none`, are unequal.
            _ => Some(false),
        }
    }

    /// Reports a value of the wrong kind.
    pub fn wrong_kind(&mut self, found: &Value<'a>, expected: &str, span: Span) -> Value<'a> {
        let report = match found {
            Value::Poison => return Value::Poison,
            Value::Table(_) => {
                let message = format!(
                    "expected {expected}, found a number that depends on the variable of a repeat"
                );
                let help = "shapes, probabilities and conditions are the same in all iterations";
                Diagnostic::new("E0304", message).help(help)
            }
            other => {
                let message = format!("expected {expected}, found {}", self.describe(other));
                Diagnostic::new("E0302", message)
            }
        };
        self.report(report.at(span));
        Value::Poison
    }

    /// Reports a value in place of one of some words. `hidden` is the word that a variable of
    /// the same name shadows.
    pub fn wrong_word(
        &mut self,
        found: &Value<'a>,
        expected: &str,
        hidden: Option<&str>,
        span: Span,
    ) -> Value<'a> {
        let Some(word) = hidden else {
            return self.wrong_kind(found, expected, span);
        };
        let message = format!("expected {expected}, found {}", self.describe(found));
        let help = format!("the variable `{word}` hides the word `{word}`; rename the variable");
        self.report(Diagnostic::new("E0302", message).at(span).help(help));
        Value::Poison
    }

    /// Describes a value in messages.
    pub fn describe(&self, value: &Value<'a>) -> String {
        match value {
            Value::Poison => "something with an error".to_owned(),
            Value::Tensor(tensor) => format!("a tensor {}", self.ty(*tensor)),
            Value::Number(n) => format!("the number {n}"),
            Value::Table(_) => "a number for each iteration".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Bool(b) => format!("`{b}`"),
            Value::Word(word) => format!("the word `{word}`"),
            Value::Layer(layer) => format!("the layer `{}`", layer.item.name.name),
            Value::Uniform(_) => "an initial value".to_owned(),
        }
    }
}
