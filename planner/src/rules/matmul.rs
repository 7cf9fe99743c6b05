//! Matrix products: reassociation and distribution.

use super::{
    Found, Pair, Rule, Term, View, add, apply, both, gather_sum, matmul, slice_rows, sum, take,
};
use crate::facts::Sign;
use egg::Id;
use gnnc_ir::kernel::Reduce;
use gnnc_ir::{Binary, Op, Rows};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    Rule { name: "matmul-gather",
        equation: "gather_sum(take(h)) W = gather_sum(take(h W)), both ways",
        condition: "the reduction is a sum and nothing lies between; W is finite",
        source: "(A H) W = A (H W), associativity; GCN implementations choose by width",
        search: matmul_gather },
    Rule { name: "matmul-take",
        equation: "take(h) W = take(h W)",
        condition: "always",
        source: "a product by rows commutes with copying rows",
        search: matmul_take },
    Rule { name: "matmul-rowscale",
        equation: "(s * h) W = s * (h W) and (h / s) W = (h W) / s, both ways",
        condition: "s has one column and is finite; as a divisor it is positive instead",
        source: "(D H) W = D (H W) for a diagonal D",
        search: matmul_rowscale },
    Rule { name: "matmul-concat",
        equation: "concat(a, b, ..) W = a W[a's rows] + b W[b's rows] + ..",
        condition: "one head",
        source: "block matrix product; GraphSAGE's [h, mean] W",
        search: matmul_concat },
    Rule { name: "matmul-assoc",
        equation: "(x A) B = x (A B), both ways",
        condition: "A has fixed rows, x is finite",
        source: "associativity",
        search: matmul_assoc },
    Rule { name: "matmul-add",
        equation: "(a + b) W = a W + b W, both ways",
        condition: "a and b have one type",
        source: "distributivity",
        search: matmul_add },
    Rule { name: "matmul-add-weights",
        equation: "x A + x B = x (A + B)",
        condition: "A and B have one type and fixed rows; x is finite",
        source: "distributivity: weights have fewer rows than x",
        search: matmul_add_weights },
    Rule { name: "bias-last",
        equation: "(x A + c) + y = (x A + y) + c",
        condition: "c is one row; y is x B, or x B plus one row",
        source: "associativity: products of one left factor come together",
        search: bias_last },
    Rule { name: "matmul-reshape",
        equation: "reshape(h) W = h W",
        condition: "always: heads count as columns",
        source: "definition of the product",
        search: matmul_reshape },
    Rule { name: "matmul-gather-weighted",
        equation: "gather_sum(w * take(h)) W = gather_sum(w * take(h W)), both ways",
        condition: "w has one column for each edge, or is one number; it and W are finite",
        source: "(A H) W = A (H W) with edge weights in A",
        search: matmul_gather_weighted },
];

/// `W` is finite: a vertex without edges has a sum of 0, and 0 times an infinite number is NaN.
fn matmul_gather(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    if matches!(op, Op::MatMul) {
        if !view.known(kids[1]).finite {
            return;
        }
        for (gather, messages) in view.nodes(kids[0]) {
            let Op::Gather(set, end, Reduce::Sum) = *gather else {
                continue;
            };
            for (of, from, h) in view.takes(messages[0]) {
                found.push(
                    matmul(gather_sum(set, end, take(of, from, h)), kids[1]),
                    gather_sum(set, end, take(of, from, matmul(h, kids[1]))),
                );
            }
        }
    } else if let Op::Gather(set, end, Reduce::Sum) = op {
        for (of, from, product) in view.takes(kids[0]) {
            for (op, factors) in view.nodes(product) {
                let (Op::MatMul, [h, w]) = (op, factors) else {
                    continue;
                };
                if !view.known(*w).finite {
                    continue;
                }
                found.push(
                    gather_sum(*set, *end, take(of, from, matmul(h, w))),
                    matmul(gather_sum(*set, *end, take(of, from, h)), w),
                );
            }
        }
    }
}

/// `W` is finite as in [`matmul_gather`].
fn matmul_gather_weighted(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    if matches!(op, Op::MatMul) {
        if !view.known(kids[1]).finite {
            return;
        }
        for (gather, messages) in view.nodes(kids[0]) {
            let Op::Gather(set, end, Reduce::Sum) = *gather else {
                continue;
            };
            for pair in view.factors(messages[0]) {
                if !weight(view, pair.a) {
                    continue;
                }
                for (of, from, h) in view.takes(pair.b) {
                    let message = pair.of(pair.a, take(of, from, h));
                    let product = take(of, from, matmul(h, kids[1]));
                    found.push(
                        matmul(gather_sum(set, end, message), kids[1]),
                        gather_sum(set, end, pair.of(pair.a, product)),
                    );
                }
            }
        }
    } else if let Op::Gather(set, end, Reduce::Sum) = op {
        for pair in view.factors(kids[0]) {
            if !weight(view, pair.a) {
                continue;
            }
            for (of, from, product) in view.takes(pair.b) {
                for (op, factors) in view.nodes(product) {
                    let (Op::MatMul, [h, w]) = (op, factors) else {
                        continue;
                    };
                    if !view.known(*w).finite {
                        continue;
                    }
                    let message = pair.of(pair.a, take(of, from, matmul(h, w)));
                    let narrow = pair.of(pair.a, take(of, from, h));
                    found.push(
                        gather_sum(*set, *end, message),
                        matmul(gather_sum(*set, *end, narrow), w),
                    );
                }
            }
        }
    }
}

/// Whether a factor of messages scales whole rows and keeps finite rows finite.
fn weight(view: &View<'_>, factor: Id) -> bool {
    view.one_column(factor) && view.known(factor).finite
}

fn matmul_take(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::MatMul = op else { return };
    for (set, end, h) in view.takes(kids[0]) {
        found.push(
            matmul(take(set, end, h), kids[1]),
            take(set, end, matmul(h, kids[1])),
        );
    }
}

fn matmul_rowscale(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    if matches!(op, Op::MatMul) {
        for (inner, parts) in view.nodes(kids[0]) {
            let Op::Binary(f) = inner else { continue };
            for pair in scalings(view, *f, parts) {
                found.push(
                    matmul(pair.of(pair.a, pair.b), kids[1]),
                    pair.of(pair.a, matmul(pair.b, kids[1])),
                );
            }
        }
    } else if let Op::Binary(f) = op {
        for pair in scalings(view, *f, kids) {
            for (inner, factors) in view.nodes(pair.b) {
                let (Op::MatMul, [h, w]) = (inner, factors) else {
                    continue;
                };
                let left = pair.of(pair.a, matmul(h, w));
                found.push(left, matmul(pair.of(pair.a, h), w));
            }
        }
    }
}

/// The ways to read a binary function as a scaling of the rows of `b` by `a`.
///
/// An infinite factor, or a divisor of 0, makes a row infinite. A product that follows adds
/// infinite numbers of both signs to NaN; one that comes before leaves the row infinite.
fn scalings(view: &View<'_>, f: Binary, kids: &[Id]) -> impl Iterator<Item = Pair> {
    let is_scaling = |pair: &Pair| {
        let known = view.known(pair.a);
        let exact = match f {
            Binary::Mul => known.finite,
            Binary::Div => pair.swapped && known.sign == Sign::Positive,
            _ => false,
        };
        exact && view.one_column(pair.a)
    };
    both(f, kids)
        .into_iter()
        .filter(is_scaling)
        .collect::<Vec<_>>()
        .into_iter()
}

fn matmul_concat(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::MatMul = op else { return };
    for (inner, parts) in view.nodes(kids[0]) {
        if *inner != Op::Concat || view.ty(kids[0]).heads != 1 {
            continue;
        }
        let mut start = 0;
        let products = parts.iter().map(|part| {
            let len = view.ty(*part).width;
            start += len;
            matmul(part, slice_rows(start - len, len, kids[1]))
        });
        if let Some(right) = sum(products.collect::<Vec<_>>()) {
            let concat = Term::Apply(Op::Concat, parts.iter().map(Into::into).collect());
            found.push(matmul(concat, kids[1]), right);
        }
    }
}

fn matmul_assoc(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::MatMul = op else { return };
    let fixed = |id: &Id| matches!(view.ty(*id).rows, Rows::Fixed(_));
    for (inner, factors) in view.nodes(kids[0]) {
        if let (Op::MatMul, [x, a]) = (inner, factors)
            && fixed(a)
            && view.known(*x).finite
        {
            found.push(matmul(matmul(x, a), kids[1]), matmul(x, matmul(a, kids[1])));
        }
    }
    for (inner, factors) in view.nodes(kids[1]) {
        if let (Op::MatMul, [a, b]) = (inner, factors)
            && fixed(a)
            && view.known(kids[0]).finite
        {
            found.push(matmul(kids[0], matmul(a, b)), matmul(matmul(kids[0], a), b));
        }
    }
}

fn matmul_add(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    if matches!(op, Op::MatMul) {
        for (inner, parts) in view.nodes(kids[0]) {
            let (Op::Binary(Binary::Add), [a, b]) = (inner, parts) else {
                continue;
            };
            found.push(
                matmul(add(a, b), kids[1]),
                add(matmul(a, kids[1]), matmul(b, kids[1])),
            );
        }
    } else if matches!(op, Op::Binary(Binary::Add)) {
        for (left, [a, w]) in products(view, kids[0]) {
            for (right, [b, v]) in products(view, kids[1]) {
                if (left, w) == (right, v) {
                    found.push(add(matmul(a, w), matmul(b, v)), matmul(add(a, b), w));
                }
            }
        }
    }
}

/// `x` is finite: of infinite numbers with both signs, only the left side may add products.
fn matmul_add_weights(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Binary(Binary::Add) = op else { return };
    for (_, [x, a]) in products(view, kids[0]) {
        for (_, [y, b]) in products(view, kids[1]) {
            let weights = matches!(view.ty(a).rows, Rows::Fixed(_)) && view.ty(a) == view.ty(b);
            if x == y && weights && view.known(x).finite {
                found.push(add(matmul(x, a), matmul(x, b)), matmul(x, add(a, b)));
            }
        }
    }
}

fn bias_last(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Binary(Binary::Add) = op else { return };
    for outer in both(Binary::Add, kids) {
        let (biased, y) = (outer.a, outer.b);
        let others = products(view, y).chain(
            with_bias(view, y)
                .into_iter()
                .flat_map(|pair| products(view, pair.a).collect::<Vec<_>>()),
        );
        let others: Vec<Id> = others.map(|(_, [x, _])| x).collect();
        for inner in with_bias(view, biased) {
            let (product, c) = (inner.a, inner.b);
            if products(view, product).any(|(_, [x, _])| others.contains(&x)) {
                let left = outer.of(inner.of(product, c), y);
                found.push(left, add(add(product, y), c));
            }
        }
    }
}

/// The ways in which a class is a sum of `a` and a row `b`.
fn with_bias(view: &View<'_>, class: Id) -> Vec<Pair> {
    let sums = view
        .nodes(class)
        .filter(|(op, _)| **op == Op::Binary(Binary::Add));
    let pairs = sums.flat_map(|(_, kids)| both(Binary::Add, kids));
    pairs
        .filter(|pair| view.one_row(pair.b) && !view.one_row(pair.a))
        .collect()
}

/// The matrix products that compute a class, with the type of their first factor.
fn products<'a>(
    view: &View<'a>,
    class: Id,
) -> impl Iterator<Item = (gnnc_ir::Type, [Id; 2])> + use<'a> {
    let view = View {
        egraph: view.egraph,
    };
    view.nodes(class).filter_map(move |(op, kids)| {
        let (Op::MatMul, [a, w]) = (op, kids) else {
            return None;
        };
        Some((view.ty(*a), [*a, *w]))
    })
}

fn matmul_reshape(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::MatMul = op else { return };
    for (inner, h) in view.nodes(kids[0]) {
        if let Op::Reshape { .. } = inner {
            found.push(
                matmul(apply(inner.clone(), [h[0].into()]), kids[1]),
                matmul(h[0], kids[1]),
            );
        }
    }
}
