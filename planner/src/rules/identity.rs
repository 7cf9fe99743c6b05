//! Identities and constants.

use super::{Found, Rule, Term, View, apply, binary, both};
use crate::facts::Sign;
use egg::Id;
use gnnc_ir::{Binary, Op, Unary};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    Rule { name: "commute",
        equation: "a + b = b + a, a * b = b * a",
        condition: "both are already in the model",
        source: "commutativity",
        search: commute },
    Rule { name: "mul-one",
        equation: "x * 1 = x, x / 1 = x",
        condition: "always",
        source: "identity",
        search: mul_one },
    Rule { name: "add-zero",
        equation: "x + 0 = x, x - 0 = x",
        condition: "always",
        source: "identity",
        search: add_zero },
    Rule { name: "neg-neg",
        equation: "-(-x) = x",
        condition: "always",
        source: "identity",
        search: neg_neg },
    Rule { name: "relu-relu",
        equation: "relu(x) = x",
        condition: "x is a relu, or positive and finite (at 0 the gradients would differ)",
        source: "definition of relu",
        search: relu_relu },
    Rule { name: "reshape-reshape",
        equation: "a reshape of a reshape is one reshape, and to the own shape none",
        condition: "always",
        source: "definition of reshape",
        search: reshape_reshape },
    Rule { name: "broadcast-drop",
        equation: "f(broadcast(x), y) = f(x, y)",
        condition: "y has the shape of the result; a broadcast to its own type is x",
        source: "element-wise operators broadcast",
        search: broadcast_drop },
    Rule { name: "dropout-zero",
        equation: "dropout(x) = x",
        condition: "p = 0",
        source: "definition of dropout",
        search: dropout_zero },
    Rule { name: "const-fold",
        equation: "f(c), f(c, d) = their value",
        condition: "the value is finite and exact as a 32-bit float",
        source: "arithmetic",
        search: const_fold },
];

fn commute(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Binary(f @ (Binary::Add | Binary::Mul)) = op else {
        return;
    };
    // Only from the smaller id, so that each pair is found once.
    if kids[0] < kids[1] && view.contains(op.clone(), vec![kids[1], kids[0]]) {
        found.push(binary(*f, kids[0], kids[1]), binary(*f, kids[1], kids[0]));
    }
}

fn mul_one(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    neutral(view, op, kids, 1.0, Binary::Mul, Binary::Div, found);
}

fn add_zero(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    neutral(view, op, kids, 0.0, Binary::Add, Binary::Sub, found);
}

/// `f(x, e) = f(e, x) = x` and `inverse(x, e) = x`.
fn neutral(
    view: &View<'_>,
    op: &Op,
    kids: &[Id],
    element: f32,
    f: Binary,
    inverse: Binary,
    found: &mut Found,
) {
    let Op::Binary(g) = *op else { return };
    let is_neutral = |id: Id| view.constant(id) == Some(element);
    let constant = || apply(Op::Const(element), []);
    if (g == f || g == inverse) && is_neutral(kids[1]) {
        found.push(binary(g, kids[0], constant()), kids[0].into());
    }
    if g == f && is_neutral(kids[0]) {
        found.push(binary(g, constant(), kids[1]), kids[1].into());
    }
}

fn neg_neg(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Unary(Unary::Neg) = op else { return };
    for (inner, x) in view.nodes(kids[0]) {
        if *inner == *op {
            found.push(
                apply(op.clone(), [apply(op.clone(), [x[0].into()])]),
                x[0].into(),
            );
        }
    }
}

fn relu_relu(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Unary(Unary::Relu) = op else { return };
    let known = view.known(kids[0]);
    if known.sign == Sign::Positive && known.finite {
        found.push(apply(op.clone(), [kids[0].into()]), kids[0].into());
    }
    for (inner, x) in view.nodes(kids[0]) {
        if inner == op {
            let relu = || apply(op.clone(), [x[0].into()]);
            found.push(apply(op.clone(), [relu()]), relu());
        }
    }
}

fn reshape_reshape(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Reshape { heads, width } = *op else {
        return;
    };
    for (inner, x) in view.nodes(kids[0]) {
        if let Op::Reshape { .. } = inner {
            found.push(
                apply(op.clone(), [apply(inner.clone(), [x[0].into()])]),
                apply(op.clone(), [x[0].into()]),
            );
        }
    }
    let ty = view.ty(kids[0]);
    if (ty.heads, ty.width) == (heads, width) {
        found.push(apply(op.clone(), [kids[0].into()]), kids[0].into());
    }
}

fn broadcast_drop(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    if let Op::Broadcast(ty) = op
        && view.ty(kids[0]) == *ty
    {
        found.push(apply(op.clone(), [kids[0].into()]), kids[0].into());
    } else if let Op::Binary(f) = op {
        for pair in both(*f, kids) {
            for (inner, x) in view.nodes(pair.a) {
                if let Op::Broadcast(_) = inner {
                    let wide = apply(inner.clone(), [x[0].into()]);
                    found.push(pair.of(wide, pair.b), pair.of(x[0], pair.b));
                }
            }
        }
    }
}

fn dropout_zero(_: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    if let Op::Dropout { p, .. } = op
        && *p == 0.0
    {
        found.push(apply(op.clone(), [kids[0].into()]), kids[0].into());
    }
}

fn const_fold(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let constants: Option<Vec<f32>> = kids.iter().map(|id| view.constant(*id)).collect();
    let value = if let (Op::Unary(f), Some([x])) = (op, constants.as_deref()) {
        f.eval(f64::from(*x))
    } else if let (Op::Binary(f), Some([a, b])) = (op, constants.as_deref()) {
        f.eval(f64::from(*a), f64::from(*b))
    } else {
        return;
    };
    let constants = constants
        .into_iter()
        .flatten()
        .map(|c| apply(Op::Const(c), []))
        .collect();
    let rounded = value as f32;
    if value.is_finite() && f64::from(rounded) == value {
        found.push(
            Term::Apply(op.clone(), constants),
            apply(Op::Const(rounded), []),
        );
    }
}
