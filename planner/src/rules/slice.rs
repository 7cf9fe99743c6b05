//! Column slices: aggregation and element-wise work act on each column separately.

use super::{Found, Rule, Term, View, apply, binary, matmul, slice_cols, take};
use egg::Id;
use gnnc_ir::Op;

#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    Rule { name: "slice-gather",
        equation: "gather(m)[:, i..j] = gather(m[:, i..j])",
        condition: "any reduction over edges, the mean included",
        source: "aggregation works column by column (NeutronTP's tensor parallelism)",
        search: slice_gather },
    Rule { name: "slice-take",
        equation: "take(x)[:, i..j] = take(x[:, i..j])",
        condition: "always",
        source: "copying rows commutes with functions of a row",
        search: slice_take },
    Rule { name: "slice-pointwise",
        equation: "f(a, b)[:, i..j] = f(a[:, i..j], b[:, i..j])",
        condition: "element-wise and not dropout, whose draws are keyed by column; single columns are not sliced",
        source: "element-wise work is done column by column",
        search: slice_pointwise },
    Rule { name: "slice-matmul",
        equation: "(h W)[:, i..j] = h W[:, i..j]",
        condition: "W has one head",
        source: "block matrix product",
        search: slice_matmul },
    Rule { name: "slice-concat",
        equation: "concat(a, b, ..)[:, i..j] = a[:, ..]",
        condition: "the slice lies in one part",
        source: "definition of concat",
        search: slice_concat },
    Rule { name: "slice-slice",
        equation: "x[:, i..j][:, k..l] = x[:, i+k..i+l]; a slice of all columns is x",
        condition: "always",
        source: "definition of slice",
        search: slice_slice },
    Rule { name: "concat-slices",
        equation: "concat(x[:, ..k], x[:, k..]) = x",
        condition: "consecutive slices that cover x",
        source: "definition of concat",
        search: concat_slices },
];

/// `(start, len, nodes of the sliced class)`.
fn slices<'a>(
    view: &View<'a>,
    op: &Op,
    kids: &[Id],
) -> impl Iterator<Item = (u32, u32, &'a Op, &'a [Id])> {
    let mut range = None;
    if let Op::SliceCols { start, len } = op {
        range = Some((*start, *len, kids[0]));
    }
    let view = View {
        egraph: view.egraph,
    };
    range.into_iter().flat_map(move |(start, len, class)| {
        view.nodes(class)
            .map(move |(op, kids)| (start, len, op, kids))
    })
}

fn slice_gather(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    for (start, len, inner, m) in slices(view, op, kids) {
        if let Op::Gather(..) | Op::GatherMean(_) = inner {
            found.push(
                slice_cols(start, len, apply(inner.clone(), [m[0].into()])),
                apply(inner.clone(), [slice_cols(start, len, m[0])]),
            );
        }
    }
}

fn slice_take(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    for (start, len, inner, x) in slices(view, op, kids) {
        if let Op::Take(set, end) = *inner {
            found.push(
                slice_cols(start, len, take(set, end, x[0])),
                take(set, end, slice_cols(start, len, x[0])),
            );
        }
    }
}

fn slice_pointwise(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    for (start, len, inner, parts) in slices(view, op, kids) {
        let part = |id: Id| match view.ty(id).width {
            1 => Term::Class(id),
            _ => slice_cols(start, len, id),
        };
        if let (Op::Unary(_), [x]) = (inner, parts) {
            found.push(
                slice_cols(start, len, apply(inner.clone(), [x.into()])),
                apply(inner.clone(), [slice_cols(start, len, x)]),
            )
        } else if let (Op::Binary(f), [a, b]) = (inner, parts) {
            found.push(
                slice_cols(start, len, binary(*f, a, b)),
                binary(*f, part(*a), part(*b)),
            )
        }
    }
}

fn slice_matmul(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    for (start, len, inner, factors) in slices(view, op, kids) {
        if let (Op::MatMul, [h, w]) = (inner, factors)
            && view.ty(*w).heads == 1
        {
            found.push(
                slice_cols(start, len, matmul(h, w)),
                matmul(h, slice_cols(start, len, w)),
            );
        }
    }
}

fn slice_concat(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    for (start, len, inner, parts) in slices(view, op, kids) {
        if *inner != Op::Concat {
            continue;
        }
        let mut first = 0;
        for part in parts {
            let width = view.ty(*part).width;
            if first <= start && start + len <= first + width {
                let concat = Term::Apply(Op::Concat, parts.iter().map(Into::into).collect());
                let right = match len == width {
                    true => Term::Class(*part),
                    false => slice_cols(start - first, len, part),
                };
                found.push(slice_cols(start, len, concat), right);
            }
            first += width;
        }
    }
}

fn slice_slice(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    for (start, len, inner, x) in slices(view, op, kids) {
        if let Op::SliceCols {
            start: outer,
            len: all,
        } = *inner
        {
            found.push(
                slice_cols(start, len, slice_cols(outer, all, x[0])),
                slice_cols(outer + start, len, x[0]),
            );
        }
    }
    if let Op::SliceCols { start: 0, len } = *op
        && len == view.ty(kids[0]).width
    {
        found.push(slice_cols(0, len, kids[0]), kids[0].into());
    }
}

fn concat_slices(view: &View<'_>, op: &Op, kids: &[Id], found: &mut Found) {
    let (Op::Concat, Some(first)) = (op, kids.first()) else {
        return;
    };
    for (inner, x) in view.nodes(*first) {
        let Op::SliceCols { start: 0, .. } = inner else {
            continue;
        };
        let mut next = 0;
        let mut parts = Vec::with_capacity(kids.len());
        for kid in kids {
            let len = view.ty(*kid).width;
            let wanted = Op::SliceCols { start: next, len };
            if !view
                .nodes(*kid)
                .any(|(op, of)| *op == wanted && of[0] == x[0])
            {
                break;
            }
            parts.push(slice_cols(next, len, x[0]));
            next += len;
        }
        if parts.len() == kids.len() && next == view.ty(x[0]).width {
            found.push(Term::Apply(Op::Concat, parts), x[0].into());
        }
    }
}
