//! Settings of the `train` block from outside, such as `train.lr`.

use crate::diagnostic::Diagnostic;
use crate::syntax::ast::{Arg, Block, Call, Expr, ExprKind, Ident, Loc, Setting};
use gnnc_ir::words::spelling::one_of;

/// What begins the name of such a setting.
const PREFIX: &str = "train.";

/// The learning rate, which is an argument of the optimizer.
const LEARNING_RATE: &str = "lr";

/// Settings that are numbers.
const NUMBERS: [&str; 9] = [
    LEARNING_RATE,
    "weight_decay",
    "clip_norm",
    "epochs",
    "patience",
    "seed",
    "batch",
    "prefetch",
    "delay",
];

/// Whether a name from outside is that of a setting, not of a parameter of the model.
pub(super) fn is_setting(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The settings with those from outside in place of those of the block, if it has them. The last of several counts.
pub(super) fn overridden(
    block: &Block<Setting>,
    overrides: &[(String, f64)],
    diagnostics: &mut Vec<Diagnostic>,
) -> Block<Setting> {
    let mut block = block.clone();
    for (name, value) in overrides {
        let Some(key) = name.strip_prefix(PREFIX) else {
            continue;
        };
        if !NUMBERS.contains(&key) {
            let message = format!("`{name}` cannot be set from outside");
            let help = format!("numbers of the `train` block can: {}", one_of(NUMBERS));
            diagnostics.push(Diagnostic::new("E0404", message).help(help));
        } else if key == LEARNING_RATE {
            set_learning_rate(&mut block, *value);
        } else {
            set(&mut block, key, number(*value));
        }
    }
    block
}

/// An expression at the beginning of the file, since it has no place in it.
fn expression(kind: ExprKind) -> Expr {
    let loc = Loc::default();
    Expr { kind, loc }
}

fn number(value: f64) -> Expr {
    expression(ExprKind::Number(value, value.to_string()))
}

fn identifier(name: &str) -> Ident {
    Ident {
        name: name.to_owned(),
        loc: Loc::default(),
    }
}

/// Sets a key of a block.
fn set(block: &mut Block<Setting>, key: &str, value: Expr) {
    block.body.retain(|setting| setting.key.name != key);
    block.body.push(Setting {
        notes: Default::default(),
        key: identifier(key),
        value,
    });
}

/// Sets the learning rate of the block's optimizer, or of Adam if it names none.
fn set_learning_rate(block: &mut Block<Setting>, value: f64) {
    let optimizer = (block.body.iter_mut()).find(|setting| setting.key.name == "optimizer");
    let Some(optimizer) = optimizer else {
        let call = Call {
            callee: identifier("adam"),
            args: vec![learning_rate(value)],
        };
        return set(block, "optimizer", expression(ExprKind::Call(call)));
    };
    // What is no call is reported as what it is.
    if let ExprKind::Call(call) = &mut optimizer.value.kind {
        let named = |arg: &Arg| {
            arg.name
                .as_ref()
                .is_some_and(|name| name.name == LEARNING_RATE)
        };
        match call.args.first().filter(|arg| arg.name.is_none()) {
            // The learning rate is the first argument of every optimizer.
            Some(_) => call.args[0].value = number(value),
            None => {
                call.args.retain(|arg| !named(arg));
                call.args.push(learning_rate(value));
            }
        }
    }
}

fn learning_rate(value: f64) -> Arg {
    Arg {
        name: Some(identifier(LEARNING_RATE)),
        value: number(value),
    }
}
