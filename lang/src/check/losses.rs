//! The loss of a model, with its numbers.

use super::args::Args;
use super::bind::Bound;
use super::builtins::Builtin;
use super::elaborator::Elaborator;
use super::value::Value;
use crate::diagnostic::{Diagnostic, Span};
use gnnc_ir::graph::op::{ClassWeights, Loss, Op};
use gnnc_ir::words::number::Number;
use gnnc_ir::words::spelling::counted;
use gnnc_ir::words::types::Type;

/// The largest weight of a class.
const MOST: f64 = 1e6;

impl<'a> Elaborator<'a, '_> {
    /// Sets the loss of the model.
    pub fn set_loss(
        &mut self,
        usual: &Loss,
        builtin: &'static Builtin,
        bound: Bound<'a>,
        span: Span,
    ) {
        let Some(args) = self.arguments(builtin, bound, span) else {
            return;
        };
        let Some(logits) = self.tensor(&args, 0) else {
            return;
        };
        let words = [self.choice(&args, 1, &["labels"])];
        if words[0].is_none() || (args.given(2) && self.choice(&args, 2, &["train"]).is_none()) {
            return;
        }
        let (found, expected) = (self.ty(logits), Type::vertices(self.facts.classes));
        if found != expected {
            let message = format!("the logits are {found}, expected {expected}");
            let help = "end the network with `classes` columns and one head";
            self.report(
                Diagnostic::new("E0307", message)
                    .at(args.span_of(0))
                    .help(help),
            );
            return;
        }
        let Some(loss) = self.with_numbers(usual, &args) else {
            return;
        };
        if let Value::Tensor(node) = self.emit(Op::Loss(loss.clone()), &[logits], span)
            && self.loss.is_none()
        {
            self.loss = Some((loss, node, logits));
        }
    }

    /// A loss with the numbers of its call.
    fn with_numbers(&mut self, usual: &Loss, args: &Args<'a>) -> Option<Loss> {
        let mut loss = usual.clone();
        match &mut loss {
            Loss::CrossEntropy { smoothing, weights } => {
                if args.given(3) {
                    *smoothing = Number(self.number_in(args, 3, 0.0..=1.0)?);
                }
                *weights = self.class_weights(args, 4)?;
            }
            Loss::BinaryCrossEntropy { positive } => *positive = self.label_weights(args, 3)?,
            Loss::Huber { delta } => {
                if args.given(3) {
                    *delta = Number(self.number_in(args, 3, 1e-6..=1e6)?);
                }
            }
            Loss::SquaredError | Loss::AbsoluteError => {}
        }
        Some(loss)
    }

    /// `none`, `balanced`, or a weight for each class, of which one is above 0.
    fn class_weights(&mut self, args: &Args<'a>, k: usize) -> Option<ClassWeights> {
        match args.value(k) {
            None => Some(ClassWeights::Equal),
            Some(Value::List(_)) => {
                let weights = self.one_for_each_class(args, k)?;
                if weights.iter().all(|weight| weight.0 == 0.0) {
                    let message = "all classes have the weight 0, expected one above 0";
                    self.report(Diagnostic::new("E0303", message).at(args.span_of(k)));
                    return None;
                }
                Some(ClassWeights::Given(weights))
            }
            Some(Value::Word(_)) => match self.choice(args, k, &["none", "balanced"])? {
                "balanced" => Some(ClassWeights::Balanced),
                _ => Some(ClassWeights::Equal),
            },
            Some(other) => {
                let other = other.clone();
                self.wrong_kind(
                    &other,
                    "a list of numbers, `balanced` or `none`",
                    args.span_of(k),
                );
                None
            }
        }
    }

    /// `none`, or a weight for each label.
    fn label_weights(&mut self, args: &Args<'a>, k: usize) -> Option<Vec<Number>> {
        match args.value(k) {
            None => Some(Vec::new()),
            Some(Value::List(_)) => self.one_for_each_class(args, k),
            Some(Value::Word(_)) => self.choice(args, k, &["none"]).map(|_| Vec::new()),
            Some(other) => {
                let other = other.clone();
                self.wrong_kind(&other, "a list of numbers or `none`", args.span_of(k));
                None
            }
        }
    }

    fn one_for_each_class(&mut self, args: &Args<'a>, k: usize) -> Option<Vec<Number>> {
        let (Value::List(weights), span) = args.pair(k) else {
            return None;
        };
        let classes = self.facts.classes;
        if weights.len() != classes as usize {
            let message = format!(
                "found {}, expected {classes}, one for each class",
                counted(weights.len() as u64, "weight")
            );
            self.report(Diagnostic::new("E0313", message).at(span));
            return None;
        }
        if let Some(wrong) = weights
            .iter()
            .find(|weight| !(0.0..=MOST).contains(*weight))
        {
            let message = format!("a weight must be a number from 0 to {MOST}, found {wrong}");
            self.report(Diagnostic::new("E0303", message).at(span));
            return None;
        }
        Some(weights.iter().copied().map(Number).collect())
    }
}
