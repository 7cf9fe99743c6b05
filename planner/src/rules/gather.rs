//! Reductions over edges: factors that can be pulled out of them.

use super::{Found, Rule, View, add, apply, gather_sum, mul, take};
use egg::Id;
use gnnc_ir::graph::op::Input;
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::{Binary, Op, Unary};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    Rule { name: "gather-dst-factor",
        equation: "gather_sum(m * take(s)) = gather_sum(m) * s",
        condition: "gathered and taken at the same end of the same edges; s is finite",
        source: "normalization factoring: the factor is the same for all edges of a sum",
        search: gather_dst_factor },
    Rule { name: "gather-const-factor",
        equation: "gather_sum(m * c) = gather_sum(m) * c",
        condition: "c is one row and finite",
        source: "distributivity",
        search: gather_const_factor },
    Rule { name: "gather-add",
        equation: "gather_sum(a + b) = gather_sum(a) + gather_sum(b), both ways",
        condition: "a and b have one type",
        source: "commutativity of sums",
        search: gather_add },
    Rule { name: "gather-own",
        equation: "gather_sum(take(s)) = degree * s",
        condition: "gathered and taken at the same end of the same edges; s is finite",
        source: "a sum of equal terms",
        search: gather_own },
    Rule { name: "mean-as-sum",
        equation: "gather_mean(m) = recip(in_degree) * gather_sum(m)",
        condition: "always: recip(0) = 0",
        source: "definition of the mean",
        search: mean_as_sum },
];

fn gather_dst_factor(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Gather(set, end, Reduce::Sum) = *op else {
        return;
    };
    for pair in view.factors(kids[0]) {
        for (of, from, s) in view.takes(pair.b) {
            // An infinite factor at a vertex without edges would turn its 0 into NaN.
            if (of, from) == (set, end) && view.known(s).finite && view.on_edges(pair.a) {
                found.push(
                    gather_sum(set, end, pair.of(pair.a, take(of, from, s))),
                    pair.of(gather_sum(set, end, pair.a), s),
                );
            }
        }
    }
}

fn gather_const_factor(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Gather(set, end, Reduce::Sum) = *op else {
        return;
    };
    for pair in view.factors(kids[0]) {
        let (m, c) = (pair.a, pair.b);
        if view.one_row(c) && view.on_edges(m) && view.known(c).finite {
            found.push(
                gather_sum(set, end, pair.of(m, c)),
                pair.of(gather_sum(set, end, m), c),
            );
        }
    }
}

fn gather_add(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    if let Op::Gather(set, end, Reduce::Sum) = op {
        for (inner, parts) in view.nodes(kids[0]) {
            let (Op::Binary(Binary::Add), [a, b]) = (inner, parts) else {
                continue;
            };
            if view.ty(*a) == view.ty(*b) {
                found.push(
                    gather_sum(*set, *end, add(a, b)),
                    add(gather_sum(*set, *end, a), gather_sum(*set, *end, b)),
                );
            }
        }
    } else if matches!(op, Op::Binary(Binary::Add)) {
        for (left, a) in view.nodes(kids[0]) {
            let Op::Gather(set, end, Reduce::Sum) = *left else {
                continue;
            };
            for (right, b) in view.nodes(kids[1]) {
                if left == right && view.ty(a[0]) == view.ty(b[0]) {
                    found.push(
                        add(gather_sum(set, end, a[0]), gather_sum(set, end, b[0])),
                        gather_sum(set, end, add(a[0], b[0])),
                    );
                }
            }
        }
    }
}

fn gather_own(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Gather(set, end, Reduce::Sum) = *op else {
        return;
    };
    for (of, from, s) in view.takes(kids[0]) {
        if (of, from) == (set, end) && view.known(s).finite {
            let degree = match end {
                End::Dst => Input::InDegree(set),
                End::Src => Input::OutDegree(set),
            };
            found.push(
                gather_sum(set, end, take(of, from, s)),
                mul(apply(Op::Input(degree), []), s),
            );
        }
    }
}

fn mean_as_sum(_: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::GatherMean(set) = *op else { return };
    let degree = apply(Op::Input(Input::InDegree(set)), []);
    found.push(
        apply(op.clone(), [kids[0].into()]),
        mul(
            apply(Op::Unary(Unary::Recip), [degree]),
            gather_sum(set, End::Dst, kids[0]),
        ),
    );
}
