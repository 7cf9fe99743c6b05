//! The optimizer of a `train` block.

use super::Reader;
use crate::check::bind::{Signature, bind};
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::ast::{Call, Expr, ExprKind};
use gnnc_ir::graph::model::Optimizer;

impl<'a> Reader<'a, '_> {
    pub(super) fn optimizer(&mut self, value: &'a Expr) -> Option<Optimizer> {
        let help = "`sgd(lr = 0.1)`, `adam(lr = 0.01)`, `adamw(lr = 0.01)` or `adagrad(lr = 0.01)`";
        let ExprKind::Call(call) = &value.kind else {
            return self.wrong("optimizer", value, help);
        };
        let name = call.callee.name.as_str();
        let params: &[&str] = match name {
            "sgd" => &["lr", "momentum"],
            "adam" | "adamw" => &["lr", "beta1", "beta2", "eps"],
            "adagrad" => &["lr", "eps"],
            other => {
                let message = format!("there is no optimizer `{other}`");
                let unknown = Diagnostic::new("E0403", message).at(call.callee.span());
                self.diagnostics.push(unknown.help(format!("write {help}")));
                return None;
            }
        };
        let values = self.optimizer_values(params, call, value.span())?;
        let lr = values[0]?;
        let or = |key: &str, default: f64| {
            let place = params.iter().position(|param| *param == key);
            place.and_then(|place| values[place]).unwrap_or(default)
        };
        let (beta1, beta2) = (or("beta1", 0.9), or("beta2", 0.999));
        Some(match name {
            "sgd" => Optimizer::Sgd {
                lr,
                momentum: or("momentum", 0.0),
            },
            "adagrad" => Optimizer::Adagrad {
                lr,
                eps: or("eps", 1e-10),
            },
            "adam" => Optimizer::Adam {
                lr,
                beta1,
                beta2,
                eps: or("eps", 1e-8),
            },
            _ => Optimizer::AdamW {
                lr,
                beta1,
                beta2,
                eps: or("eps", 1e-8),
            },
        })
    }

    fn optimizer_values(
        &mut self,
        params: &[&str],
        call: &'a Call,
        span: Span,
    ) -> Option<Vec<Option<f64>>> {
        let params: Vec<(&str, bool)> = params.iter().map(|p| (*p, *p == "lr")).collect();
        let signature = Signature {
            name: &call.callee.name,
            params,
            variadic: false,
            over: false,
        };
        let bound = match bind(&signature, None, call, span) {
            Ok(bound) => bound,
            Err(errors) => {
                self.diagnostics.extend(errors);
                return None;
            }
        };
        let mut values = Vec::new();
        for ((name, _), value) in signature.params.iter().zip(bound) {
            let range = match *name {
                "lr" | "eps" => 0.0..=1e6,
                _ => 0.0..=1.0 - f64::EPSILON,
            };
            values.push(match value {
                Some(value) => Some(self.number_of(name, value, range, false)?),
                None => None,
            });
        }
        Some(values)
    }
}
