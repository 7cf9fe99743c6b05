//! Binding of arguments to parameters.

use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::ast::{Call, Expr};
use gnnc_ir::words::spelling::{counted, did_you_mean, one_of};

/// A callable, as far as passing arguments is concerned.
pub struct Signature<'a> {
    /// Its name in messages.
    pub name: &'a str,
    /// Parameters, each with whether it is required.
    pub params: Vec<(&'a str, bool)>,
    /// Whether further arguments may follow.
    pub variadic: bool,
    /// Whether `over = "NAME"` may name a set of edges. Its argument is bound behind the others.
    pub over: bool,
}

/// The argument that names the edges of a layer.
const OVER: &str = "over";

/// Arguments in the order of the parameters, then further ones.
pub type Bound<'a> = Vec<Option<&'a Expr>>;

/// Finds the argument of every parameter. `piped` is the value to the left of `|>`.
///
/// # Errors
/// Arguments that do not exist (`E0204`), are missing (`E0205`) or are too many (`E0206`).
pub fn bind<'a>(
    signature: &Signature,
    piped: Option<&'a Expr>,
    call: &'a Call,
    span: Span,
) -> Result<Bound<'a>, Vec<Diagnostic>> {
    let name = signature.name;
    let count = signature.params.len();
    let mut bound: Bound = vec![None; count + usize::from(signature.over)];
    let mut errors = Vec::new();
    let named = call.args.iter().map(|arg| (arg.name.as_ref(), &arg.value));
    let all = piped.map(|value| (None, value)).into_iter().chain(named);
    for (position, (key, value)) in all.enumerate() {
        let at = match key {
            None if position < count => position,
            None if signature.variadic => {
                bound.push(Some(value));
                continue;
            }
            None => {
                let takes = counted(count, "argument");
                let message = format!("`{name}` takes {takes}, this is number {}", position + 1);
                let help = format!("its arguments are {}", signature.list());
                errors.push(
                    Diagnostic::new("E0206", message)
                        .at(value.span())
                        .help(help),
                );
                continue;
            }
            Some(key) if signature.over && key.name == OVER => count,
            Some(key) => match signature.params.iter().position(|(p, _)| *p == key.name) {
                Some(at) => at,
                None => {
                    let message = format!("`{name}` has no argument `{}`", key.name);
                    let near = did_you_mean(&key.name, signature.params.iter().map(|p| p.0));
                    let help = near.unwrap_or_else(|| format!("it has {}", signature.list()));
                    errors.push(Diagnostic::new("E0204", message).at(key.span()).help(help));
                    continue;
                }
            },
        };
        if let Some(first) = bound[at] {
            let param = signature.params.get(at).map_or(OVER, |param| param.0);
            let message = format!("`{param}` is given twice");
            let twice = Diagnostic::new("E0206", message).at(value.span());
            errors.push(twice.label(first.span(), "first here"));
            continue;
        }
        bound[at] = Some(value);
    }
    // A misspelled name explains a missing one.
    if errors.is_empty() {
        for ((param, needed), value) in signature.params.iter().zip(&bound) {
            if *needed && value.is_none() {
                let message = format!("`{name}` needs an argument `{param}`");
                let help = format!("its arguments are {}", signature.list());
                errors.push(Diagnostic::new("E0205", message).at(span).help(help));
            }
        }
    }
    if errors.is_empty() {
        Ok(bound)
    } else {
        Err(errors)
    }
}

impl Signature<'_> {
    fn list(&self) -> String {
        let names = one_of(self.params.iter().map(|p| p.0));
        names.replacen(" or ", " and ", 1)
    }
}
