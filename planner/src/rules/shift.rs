//! Maxima and softmaxes over edges: what is the same for all edges of a vertex moves past them.

use super::{Found, Pair, Rule, Term, View, apply, both, take};
use crate::facts::Sign;
use egg::Id;
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::{Binary, EdgeSet, Op};

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    Rule { name: "max-dst-term",
        equation: "gather_max(m + take(s)) = gather_max(m) + s, and for m - take(s)",
        condition: "gathered and taken at the same end of the same edges; with self loops, so that no vertex is without",
        source: "a sum grows with each term; EdgeConv's max of W (u - v) + V v (Wang et al. 2019)",
        search: max_dst_term },
    Rule { name: "max-dst-factor",
        equation: "gather_max(m * take(s)) = gather_max(m) * s",
        condition: "gathered and taken at the same end of the same edges; s is positive and finite",
        source: "a product with a positive factor grows with the other factor",
        search: max_dst_factor },
    Rule { name: "softmax-shift",
        equation: "softmax(m + take(s)) = softmax(m), and for m - take(s)",
        condition: "s is taken at the destination of the same edges and finite",
        source: "exp(m + s) = exp(m) exp(s), and exp(s) cancels: the bias of attention's keys",
        search: softmax_shift },
];

/// A value on edges, and the one that is the same for all edges of a vertex.
struct Shift {
    pair: Pair,
    shift: Id,
    /// The term as found.
    term: Term,
}

/// The ways in which a class is a function `f` of a value on edges and of rows taken at an end of a set.
fn shifts<'a>(
    view: &'a View<'_>,
    f: Binary,
    class: Id,
    set: EdgeSet,
    end: End,
) -> impl Iterator<Item = Shift> + 'a {
    let of_f = view
        .nodes(class)
        .filter(move |(op, _)| **op == Op::Binary(f));
    let pairs = of_f.flat_map(move |(_, kids)| {
        // Only the second operand is subtracted.
        let turned = f != Binary::Sub;
        let [plain, swapped] = both(f, kids);
        std::iter::once(plain).chain(turned.then_some(swapped))
    });
    pairs.flat_map(move |pair| {
        let here = view
            .takes(pair.b)
            .filter(move |(of, from, _)| (*of, *from) == (set, end));
        let fits = here.filter(move |_| view.on_edges(pair.a));
        fits.map(move |(of, from, shift)| Shift {
            pair,
            shift,
            term: pair.of(pair.a, take(of, from, shift)),
        })
    })
}

fn gather_max(set: EdgeSet, end: End, x: impl Into<Term>) -> Term {
    apply(Op::Gather(set, end, Reduce::Max), [x.into()])
}

fn max_dst_term(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Gather(set @ EdgeSet::Looped, end, Reduce::Max) = *op else {
        return;
    };
    for f in [Binary::Add, Binary::Sub] {
        for Shift { pair, shift, term } in shifts(view, f, kids[0], set, end) {
            found.push(
                gather_max(set, end, term),
                pair.of(gather_max(set, end, pair.a), shift),
            );
        }
    }
}

fn max_dst_factor(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::Gather(set, end, Reduce::Max) = *op else {
        return;
    };
    for Shift { pair, shift, term } in shifts(view, Binary::Mul, kids[0], set, end) {
        let known = view.known(shift);
        if known.sign == Sign::Positive && known.finite {
            found.push(
                gather_max(set, end, term),
                pair.of(gather_max(set, end, pair.a), shift),
            );
        }
    }
}

fn softmax_shift(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let Op::EdgeSoftmax(set) = *op else {
        return;
    };
    let softmax = |x: Term| apply(Op::EdgeSoftmax(set), [x]);
    for f in [Binary::Add, Binary::Sub] {
        for Shift { pair, shift, term } in shifts(view, f, kids[0], set, End::Dst) {
            // A sum may be wider than its first term.
            if view.known(shift).finite && view.ty(pair.a) == view.ty(kids[0]) {
                found.push(softmax(term), softmax(pair.a.into()));
            }
        }
    }
}
