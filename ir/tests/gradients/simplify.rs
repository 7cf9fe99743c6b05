//! What simplification removes, and that it changes no value.

use crate::harness::{Build, FEATURES, context};
use gnnc_ir::graph::eval::evaluate;
use gnnc_ir::graph::op::Scan;
use gnnc_ir::graph::simplify::simplify;
use gnnc_ir::{Binary, Graph, NodeId, Op, Rows, Type, Unary};

/// The simplified graph of a vertex tensor made from `x`; checks its value.
fn simplified(make: impl Fn(&mut Build, NodeId) -> NodeId) -> Graph {
    let mut b = Build::new(FEATURES);
    let x = b.features();
    let y = make(&mut b, x);
    b.graph.results = vec![y];
    let out = simplify(&b.graph);
    out.verify().unwrap();
    let context = context(&b.graph, 5, true);
    assert_eq!(
        evaluate(&out, &context).unwrap(),
        evaluate(&b.graph, &context).unwrap()
    );
    assert_eq!(simplify(&out), out, "simplifying again changes nothing");
    out
}

#[test]
fn trivial_operators_disappear() {
    type Make = fn(&mut Build, NodeId) -> NodeId;
    let cases: &[(&str, Make)] = &[
        ("x * 1", |b, x| b.scale(1.0, x)),
        ("x / 1", |b, x| {
            let one = b.constant(1.0);
            b.binary(Binary::Div, x, one)
        }),
        ("0 + x", |b, x| {
            let zero = b.constant(0.0);
            let zero = b.op(Op::Broadcast(Type::vertices(3)), &[zero]);
            b.add(zero, x)
        }),
        ("x - 0", |b, x| {
            let zero = b.constant(0.0);
            b.binary(Binary::Sub, x, zero)
        }),
        ("-(-x)", |b, x| {
            let y = b.unary(Unary::Neg, x);
            b.unary(Unary::Neg, y)
        }),
        ("broadcast to the same", |b, x| {
            b.op(Op::Broadcast(Type::vertices(3)), &[x])
        }),
        ("all columns", |b, x| {
            b.op(Op::SliceCols { start: 0, len: 3 }, &[x])
        }),
        ("pad and slice", |b, x| {
            let y = b.op(
                Op::PadCols {
                    before: 2,
                    after: 1,
                },
                &[x],
            );
            b.op(Op::SliceCols { start: 2, len: 3 }, &[y])
        }),
        ("pad by nothing", |b, x| {
            b.op(
                Op::PadCols {
                    before: 0,
                    after: 0,
                },
                &[x],
            )
        }),
        ("there and back", |b, x| {
            let y = b.op(Op::Reshape { heads: 3, width: 1 }, &[x]);
            b.op(Op::Reshape { heads: 1, width: 3 }, &[y])
        }),
        ("concat of one", |b, x| b.op(Op::Concat, &[x])),
        ("dropout of nothing", |b, x| b.dropout(0.0, 1, x)),
    ];
    for (name, make) in cases {
        let out = simplified(make);
        assert_eq!(out.nodes.len(), 1, "{name}\n{out}");
    }
}

#[test]
fn what_is_not_trivial_stays() {
    let of = |make: fn(&mut Build, NodeId) -> NodeId| simplified(make).nodes.len();
    // A single number times 1, but the result is a whole tensor.
    assert_eq!(
        of(|b, x| {
            let ones = b.constant(1.0);
            let ones = b.op(Op::Broadcast(Type::new(Rows::Vertices, 2, 3)), &[ones]);
            b.mul(x, ones)
        }),
        4
    );
    assert_eq!(of(|b, x| b.op(Op::SliceCols { start: 1, len: 2 }, &[x])), 2);
    assert_eq!(
        of(|b, x| {
            let y = b.op(
                Op::PadCols {
                    before: 2,
                    after: 1,
                },
                &[x],
            );
            b.op(Op::SliceCols { start: 1, len: 3 }, &[y])
        }),
        3
    );
    // Dropouts of different sites draw differently.
    assert_eq!(
        of(|b, x| {
            let (a, c) = (b.dropout(0.5, 1, x), b.dropout(0.5, 2, x));
            b.add(a, c)
        }),
        4
    );
    // 0 and -0 are different constants: 1 / x differs.
    assert_eq!(
        of(|b, x| {
            let (a, c) = (b.scale(0.0, x), b.scale(-0.0, x));
            b.binary(Binary::Max, a, c)
        }),
        6
    );
}

#[test]
fn signs_are_merged() {
    let out = simplified(|b, x| {
        let y = b.unary(Unary::Exp, x);
        let negative = b.unary(Unary::Neg, y);
        let difference = b.add(x, negative);
        let negative = b.unary(Unary::Neg, difference);
        b.binary(Binary::Sub, y, negative)
    });
    assert!(
        !out.nodes.iter().any(|n| n.op == Op::Unary(Unary::Neg)),
        "{out}"
    );
}

#[test]
fn element_wise_operators_broadcast_by_themselves() {
    let out = simplified(|b, x| {
        let half = b.constant(0.5);
        let half = b.op(Op::Broadcast(Type::vertices(3)), &[half]);
        b.mul(half, x)
    });
    assert_eq!(out.nodes.len(), 3, "{out}");
}

#[test]
fn equal_expressions_are_computed_once() {
    let out = simplified(|b, x| {
        let (p, q) = (b.propagate(x), b.propagate(x));
        let (p, q) = (b.dropout(0.5, 1, p), b.dropout(0.5, 1, q));
        b.add(p, q)
    });
    let gathers = out
        .nodes
        .iter()
        .filter(|n| matches!(n.op, Op::Gather(..)))
        .count();
    let dropouts = out
        .nodes
        .iter()
        .filter(|n| matches!(n.op, Op::Dropout { .. }))
        .count();
    assert_eq!((gathers, dropouts), (1, 1), "{out}");
}

#[test]
fn scans_lose_what_nobody_reads() {
    let out = simplified(|b, x| {
        let ty = Type::vertices(3);
        // Carries: used, dead, read by the used one. Constants: x, x, unused. Xs: read, unread.
        let args = [ty, ty, ty, ty, ty, ty, Type::SCALAR, Type::SCALAR];
        let mut body = Build::body(&args);
        let [a, dead, c, k, l, _, t] = [0, 1, 2, 3, 4, 5, 6].map(|n| body.arg(n));
        let a1 = body.add(a, c);
        let a1 = body.add(a1, k);
        let a1 = body.mul(a1, t);
        let dead1 = body.add(dead, a);
        let c1 = body.add(c, l);
        let y = body.unary(Unary::Exp, a);
        body.graph.results = vec![a1, dead1, c1, y, k];
        let scan = Scan {
            count: 3,
            reverse: false,
            carries: 3,
            consts: 3,
            xs: 2,
            body: body.graph,
        };
        let (t, u) = (
            b.op(Op::Table(vec![1.0, 2.0, 3.0]), &[]),
            b.op(Op::Table(vec![4.0; 3]), &[]),
        );
        let other = b.unary(Unary::Tanh, x);
        let out = b.scan(scan, &[x, x, x, x, x, other, t, u]);
        let mut last = Build::body(&[ty, ty]);
        let (sum, y) = (last.arg(0), last.arg(1));
        let sum = last.add(sum, y);
        last.graph.results = vec![sum];
        let last = Scan {
            count: 3,
            reverse: false,
            carries: 1,
            consts: 0,
            xs: 1,
            body: last.graph,
        };
        b.scan(last, &[out[0], out[3]])[0]
    });
    let Some(Op::Scan(scan)) = out
        .nodes
        .iter()
        .map(|n| &n.op)
        .find(|op| matches!(op, Op::Scan(_)))
    else {
        panic!("no scan\n{out}")
    };
    let counts = (scan.carries, scan.consts, scan.xs, scan.body.results.len());
    assert_eq!(counts, (2, 1, 1, 3), "{out}");
}
