//! Work on edges that can move to vertices, above all in attention.

use super::{Found, Rule, Term, View, apply, binary, both, mul, slice_cols, sum, take};
use egg::Id;
use gnnc_ir::Op;
use gnnc_ir::kernel::{Axis, Reduce};
use gnnc_ir::words::scalar::Binary;

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    Rule { name: "attention-split",
        equation: "reduce_sum(concat(a, b, ..) * p) = reduce_sum(a * p[a's columns]) + ..",
        condition: "over the width; p has the columns of the concatenation, or one",
        source: "a^T [W u, W v] = a_l^T W u + a_r^T W v (GAT, Velickovic et al. 2018)",
        search: attention_split },
    Rule { name: "reduce-concat",
        equation: "reduce_sum(concat(a, b, ..)) = reduce_sum(a) + reduce_sum(b) + ..",
        condition: "over the width",
        source: "commutativity of sums",
        search: reduce_concat },
    Rule { name: "scale-take",
        equation: "take(x) * c = take(x * c)",
        condition: "c is one row; the product is finite on vertices",
        source: "copying rows commutes with functions of a row",
        search: scale_take },
    Rule { name: "pointwise-take",
        equation: "f(take(x)) = take(f(x)), f(take(x), take(y)) = take(f(x, y)), f(take(x), c) = take(f(x, c))",
        condition: "element-wise and not dropout; takes at one end of the same edges; with c, which is one row, f is not a product; f is finite on vertices",
        source: "copying rows commutes with element-wise functions",
        search: pointwise_take },
    Rule { name: "sum-take",
        equation: "reduce_sum(take(x)) = take(reduce_sum(x))",
        condition: "sums columns or heads, not edges",
        source: "copying rows commutes with functions of a row",
        search: sum_take },
    Rule { name: "reduce-take",
        equation: "reduce(take(x)) = take(reduce(x))",
        condition: "reduces columns or heads, not edges, by anything but a sum",
        source: "copying rows commutes with functions of a row",
        search: reduce_take },
    Rule { name: "concat-take",
        equation: "concat(take(x), take(y), ..) = take(concat(x, y, ..))",
        condition: "takes at one end of the same edges",
        source: "copying rows commutes with functions of a row",
        search: concat_take },
    Rule { name: "reshape-take",
        equation: "reshape(take(x)) = take(reshape(x))",
        condition: "always",
        source: "copying rows commutes with functions of a row",
        search: reshape_take },
];

fn attention_split(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::ReduceCols(Axis::Width, Reduce::Sum) = op else {
        return;
    };
    for pair in view.factors(kids[0]) {
        let (joined, p) = (pair.a, pair.b);
        let (total, columns) = (view.ty(joined).width, view.ty(p).width);
        for (inner, parts) in view.nodes(joined) {
            if *inner != Op::Concat || parts.is_empty() || (columns != total && columns != 1) {
                continue;
            }
            let mut start = 0;
            let mut terms = Vec::with_capacity(parts.len());
            for part in parts {
                let len = view.ty(*part).width;
                let weights = match columns {
                    1 => Term::Class(p),
                    _ => slice_cols(start, len, p),
                };
                terms.push(apply(op.clone(), [mul(part, weights)]));
                start += len;
            }
            let concat = Term::Apply(Op::Concat, parts.iter().map(Into::into).collect());
            if let Some(right) = sum(terms) {
                found.push(apply(op.clone(), [pair.of(concat, p)]), right);
            }
        }
    }
}

fn reduce_concat(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::ReduceCols(Axis::Width, Reduce::Sum) = op else {
        return;
    };
    for (inner, parts) in view.nodes(kids[0]) {
        if *inner != Op::Concat {
            continue;
        }
        let concat = Term::Apply(Op::Concat, parts.iter().map(Into::into).collect());
        if let Some(right) = sum(parts.iter().map(|x| apply(op.clone(), [x.into()]))) {
            found.push(apply(op.clone(), [concat]), right);
        }
    }
}

/// A vertex without edges is never taken; moving work to it must not make its value infinite.
fn finite(view: &View<'_>, term: &Term) -> bool {
    view.known_of(term).is_some_and(|known| known.finite)
}

fn scale_take(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    if let Op::Binary(Binary::Mul) = op {
        with_one_row(view, Binary::Mul, kids, found);
    }
}

/// `f(take(x), c) = take(f(x, c))` where `c` is one row.
fn with_one_row(view: &View<'_>, f: Binary, kids: &[Id], found: &mut Found) {
    for pair in both(f, kids) {
        if !view.one_row(pair.b) {
            continue;
        }
        for (set, end, x) in view.takes(pair.a) {
            let moved = pair.of(x, pair.b);
            if finite(view, &moved) {
                let left = pair.of(take(set, end, x), pair.b);
                found.push(left, take(set, end, moved));
            }
        }
    }
}

fn pointwise_take(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    if matches!(op, Op::Unary(_)) {
        for (set, end, x) in view.takes(kids[0]) {
            let moved = apply(op.clone(), [x.into()]);
            if finite(view, &moved) {
                let left = apply(op.clone(), [take(set, end, x)]);
                found.push(left, take(set, end, moved));
            }
        }
    } else if let Op::Binary(f) = op {
        for (set, end, x) in view.takes(kids[0]) {
            for (other, at, y) in view.takes(kids[1]) {
                let moved = binary(*f, x, y);
                if (set, end) == (other, at) && finite(view, &moved) {
                    let left = binary(*f, take(set, end, x), take(set, end, y));
                    found.push(left, take(set, end, moved));
                }
            }
        }
        if *f != Binary::Mul {
            with_one_row(view, *f, kids, found);
        }
    }
}

fn sum_take(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    if let Op::ReduceCols(_, Reduce::Sum) = op {
        row_function(view, op, kids, found);
    }
}

fn reduce_take(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    if let Op::ReduceCols(_, by) = op
        && *by != Reduce::Sum
    {
        row_function(view, op, kids, found);
    }
}

fn reshape_take(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    if let Op::Reshape { .. } = op {
        row_function(view, op, kids, found);
    }
}

/// `f(take(x)) = take(f(x))` for a function of a single row.
fn row_function(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    for (set, end, x) in view.takes(kids[0]) {
        found.push(
            apply(op.clone(), [take(set, end, x)]),
            take(set, end, apply(op.clone(), [x.into()])),
        );
    }
}

fn concat_take(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let (Op::Concat, Some(first)) = (op, kids.first()) else {
        return;
    };
    for (set, end, _) in view.takes(*first) {
        let taken = |kid: &Id| {
            view.takes(*kid)
                .find(|(of, at, _)| (*of, *at) == (set, end))
                .map(|(.., x)| x)
        };
        let Some(parts) = kids.iter().map(taken).collect::<Option<Vec<Id>>>() else {
            continue;
        };
        let left = parts.iter().map(|x| take(set, end, x)).collect();
        let right = parts.iter().map(Into::into).collect();
        found.push(
            Term::Apply(Op::Concat, left),
            take(set, end, Term::Apply(Op::Concat, right)),
        );
    }
}
