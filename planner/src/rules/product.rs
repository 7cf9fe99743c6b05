//! Products, quotients and roots: moves factors to where they can be pulled out.

use super::{Found, Rule, Term, View, apply, binary, both, mul, take};
use crate::facts::Sign;
use egg::Id;
use gnnc_ir::graph::op::Input;
use gnnc_ir::kernel::End;
use gnnc_ir::{Binary, EdgeSet, Op, Unary};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    Rule { name: "mul-regroup",
        equation: "x * (y * z) = (x * y) * z",
        condition: "on edges: x and y take rows at the same end; or z is taken at the destination or is one row, and neither x nor y is",
        source: "associativity, directed so that factors of a sum come last",
        search: mul_regroup },
    Rule { name: "scale-merge",
        equation: "a * (b * x) = (a * b) * x",
        condition: "a and b have one column, x has more",
        source: "associativity: row scalings are combined before they touch the wide tensor",
        search: scale_merge },
    Rule { name: "sqrt-split",
        equation: "f(a * b) = f(a) * f(b) for f = sqrt, rsqrt, recip",
        condition: "a and b are at least 0 (any sign for recip)",
        source: "1/sqrt(d_u d_v) = 1/sqrt(d_u) 1/sqrt(d_v), Kipf and Welling 2017",
        search: sqrt_split },
    Rule { name: "div-sqrt",
        equation: "a / sqrt(b) = a * rsqrt(b)",
        condition: "always",
        source: "definition of rsqrt",
        search: div_sqrt },
    Rule { name: "div-as-mul",
        equation: "a / b = a * recip(b)",
        condition: "b is positive: recip(0) is 0",
        source: "definition of recip",
        search: div_as_mul },
    Rule { name: "degree-guard",
        equation: "take_src(out_degree) = take_src(max(out_degree, 1)), and for dst and in_degree",
        condition: "degree and edges belong to the same plain edge set, so a vertex with an edge has a degree",
        source: "makes a degree without self loops positive",
        search: degree_guard },
];

fn mul_regroup(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Binary(Binary::Mul) = op else { return };
    let at_dst = |id: Id| view.takes(id).filter(|(_, end, _)| *end == End::Dst);
    let outer = |id: Id| view.one_row(id) || at_dst(id).next().is_some();
    for first in both(Binary::Mul, kids) {
        let x = first.a;
        if !view.on_edges(first.b) {
            continue;
        }
        for second in view.factors(first.b) {
            let (y, z) = (second.a, second.b);
            let mut regroup = |x: Term, y: Term, z: Term| {
                let left = first.of(x.clone(), second.of(y.clone(), z.clone()));
                found.push(left, mul(mul(x, y), z));
            };
            for (set, end, a) in view.takes(x) {
                for (_, _, b) in view.takes(y).filter(|(of, at, _)| (*of, *at) == (set, end)) {
                    regroup(take(set, end, a), take(set, end, b), z.into());
                }
            }
            if outer(x) || outer(y) {
                continue;
            }
            if view.one_row(z) {
                regroup(x.into(), y.into(), z.into());
            }
            for (set, end, c) in at_dst(z) {
                regroup(x.into(), y.into(), take(set, end, c));
            }
        }
    }
}

fn scale_merge(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Binary(Binary::Mul) = op else { return };
    for first in both(Binary::Mul, kids) {
        let (a, rest) = (first.a, first.b);
        if !view.one_column(a) || view.one_column(rest) {
            continue;
        }
        for second in view.factors(rest) {
            let (b, x) = (second.a, second.b);
            if view.one_column(b) {
                found.push(first.of(a, second.of(b, x)), mul(mul(a, b), x));
            }
        }
    }
}

fn sqrt_split(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Unary(f @ (Unary::Sqrt | Unary::Rsqrt | Unary::Recip)) = op else {
        return;
    };
    let allowed = |id: &Id| *f == Unary::Recip || view.known(*id).sign >= Sign::NonNegative;
    for (inner, parts) in view.nodes(kids[0]) {
        let (Op::Binary(Binary::Mul), [a, b]) = (inner, parts) else {
            continue;
        };
        if allowed(a) && allowed(b) {
            let part = |x: &Id| apply(op.clone(), [x.into()]);
            found.push(apply(op.clone(), [mul(a, b)]), mul(part(a), part(b)));
        }
    }
}

fn div_sqrt(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Binary(Binary::Div) = op else { return };
    for (inner, x) in view.nodes(kids[1]) {
        if let Op::Unary(Unary::Sqrt) = inner {
            found.push(
                binary(Binary::Div, kids[0], apply(inner.clone(), [x[0].into()])),
                mul(kids[0], apply(Op::Unary(Unary::Rsqrt), [x[0].into()])),
            );
        }
    }
}

fn div_as_mul(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Binary(Binary::Div) = op else { return };
    if view.known(kids[1]).sign == Sign::Positive {
        found.push(
            binary(Binary::Div, kids[0], kids[1]),
            mul(kids[0], apply(Op::Unary(Unary::Recip), [kids[1].into()])),
        );
    }
}

fn degree_guard(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Take(EdgeSet::Plain, end) = *op else {
        return;
    };
    let input = match end {
        End::Src => Op::Input(Input::OutDegree(EdgeSet::Plain)),
        End::Dst => Op::Input(Input::InDegree(EdgeSet::Plain)),
    };
    if view.nodes(kids[0]).any(|(inner, _)| *inner == input) {
        let degree = || apply(input.clone(), []);
        let one = Term::Apply(Op::Const(1.0), Vec::new());
        found.push(
            take(EdgeSet::Plain, end, degree()),
            take(EdgeSet::Plain, end, binary(Binary::Max, degree(), one)),
        );
    }
}
