//! Typed access to the arguments of a function.

use super::builtins::Builtin;
use super::elaborator::Elaborator;
use super::value::{Tensor, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::ast::Expr;
use gnnc_ir::words::spelling::{did_you_mean, one_of};
use gnnc_ir::words::types::{EdgeSet, Rows};
use std::ops::RangeInclusive;

/// Limit on the width of a head, the heads of a tensor, and the rows of a parameter.
pub const MAX_SIZE: f64 = 1_048_576.0;

/// The arguments of a function in the order of its parameters.
pub struct Args<'a> {
    /// The function.
    pub builtin: &'static Builtin,
    /// The values and their places; `None` for omitted arguments.
    pub values: Vec<Option<(Value<'a>, Span)>>,
    /// Names of the arguments that are a bare name.
    pub names: Vec<Option<&'a str>>,
    /// The call.
    pub span: Span,
}

impl<'a> Args<'a> {
    /// Whether argument `k` is given.
    pub fn given(&self, k: usize) -> bool {
        self.values[k].is_some()
    }

    /// Argument `k`.
    pub fn value(&self, k: usize) -> Option<&Value<'a>> {
        self.values[k].as_ref().map(|(value, _)| value)
    }

    /// Place of argument `k`; the call if it is omitted.
    pub fn span_of(&self, k: usize) -> Span {
        self.values[k].as_ref().map_or(self.span, |(_, span)| *span)
    }

    /// The name, if argument `k` is a bare name.
    pub fn name(&self, k: usize) -> Option<&'a str> {
        self.names.get(k).copied().flatten()
    }

    /// Argument `k` and its place.
    pub fn pair(&self, k: usize) -> (Value<'a>, Span) {
        self.values[k].clone().unwrap_or((Value::Poison, self.span))
    }
}

impl<'a> Elaborator<'a, '_> {
    /// Argument `k` as a tensor.
    pub fn tensor(&mut self, args: &Args<'a>, k: usize) -> Option<Tensor> {
        match args.pair(k) {
            (Value::Tensor(tensor), _) => Some(tensor),
            (other, span) => {
                self.wrong_kind(&other, "a tensor", span);
                None
            }
        }
    }

    pub fn edges(&mut self, args: &Args<'a>, k: usize) -> Option<(Tensor, EdgeSet)> {
        let tensor = self.tensor(args, k)?;
        match self.ty(tensor).rows {
            Rows::Edges(set) => Some((tensor, set)),
            _ => {
                let what = format!("`{}` takes an edge tensor", args.builtin.name);
                self.wrong_domain(&what, tensor, args.span_of(k));
                None
            }
        }
    }

    /// Reports a vertex tensor in place of an edge tensor, or the reverse.
    pub fn wrong_domain(&mut self, what: &str, found: Tensor, span: Span) -> Value<'a> {
        let message = format!("{what}, found {}", self.ty(found));
        let help =
            "`h@src` and `h@dst` turn vertex tensors into edge tensors, `gather` turns them back";
        self.report(Diagnostic::new("E0309", message).at(span).help(help));
        Value::Poison
    }

    /// Argument `k` as a number.
    pub fn number(&mut self, args: &Args<'a>, k: usize) -> Option<f64> {
        let (value, span) = args.pair(k);
        self.compile_time(&value, span)
    }

    /// Numbers in brackets.
    pub fn list(&mut self, entries: &'a [Expr]) -> Option<Value<'a>> {
        let mut numbers = Vec::with_capacity(entries.len());
        for entry in entries {
            let value = self.eval(entry);
            numbers.push(self.compile_time(&value, entry.span())?);
        }
        Some(Value::List(numbers.into()))
    }

    /// Argument `k` as a number in a range.
    pub fn number_in(
        &mut self,
        args: &Args<'a>,
        k: usize,
        range: RangeInclusive<f64>,
    ) -> Option<f64> {
        let number = self.number(args, k)?;
        if range.contains(&number) {
            return Some(number);
        }
        self.out_of_range(args, k, number, "a number", &range)
    }

    pub fn count_in(
        &mut self,
        args: &Args<'a>,
        k: usize,
        range: RangeInclusive<f64>,
    ) -> Option<u32> {
        let number = self.number(args, k)?;
        if range.contains(&number) && number.fract() == 0.0 {
            return Some(number as u32);
        }
        self.out_of_range(args, k, number, "a whole number", &range)
    }

    /// Argument `k` as a width, or as a number of heads or rows.
    pub fn size(&mut self, args: &Args<'a>, k: usize) -> Option<u32> {
        self.count_in(args, k, 1.0..=MAX_SIZE)
    }

    fn out_of_range<T>(
        &mut self,
        args: &Args<'a>,
        k: usize,
        found: f64,
        kind: &str,
        range: &RangeInclusive<f64>,
    ) -> Option<T> {
        let name = args.builtin.params.get(k).map_or("argument", |p| p.name);
        let (least, most) = (range.start(), range.end());
        let message = format!("`{name}` must be {kind} from {least} to {most}, found {found}");
        self.report(Diagnostic::new("E0303", message).at(args.span_of(k)));
        None
    }

    /// Argument `k` as `true` or `false`.
    pub fn boolean(&mut self, args: &Args<'a>, k: usize) -> Option<bool> {
        match args.pair(k) {
            (Value::Bool(value), _) => Some(value),
            (other, span) => {
                self.wrong_kind(&other, "`true` or `false`", span);
                None
            }
        }
    }

    /// Argument `k` as one of some words.
    pub fn choice(
        &mut self,
        args: &Args<'a>,
        k: usize,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let choices = one_of(words.iter().copied());
        match args.pair(k) {
            (Value::Word(word), span) => {
                let found = words.iter().find(|w| **w == word);
                if found.is_none() {
                    let message = format!("expected {choices}, found `{word}`");
                    let help = did_you_mean(&word, words.iter().copied());
                    self.report(Diagnostic::new("E0311", message).at(span).maybe_help(help));
                }
                found.copied()
            }
            (other, span) => {
                let hidden = args.name(k).filter(|name| words.contains(name));
                self.wrong_word(&other, &choices, hidden, span);
                None
            }
        }
    }
}
