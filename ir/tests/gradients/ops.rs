//! The gradient of every operator, one at a time.

use crate::harness::{Build, check, context};
use crate::{losses, sampled};
use gnnc_ir::graph::autodiff::{AutodiffError, differentiate};
use gnnc_ir::graph::op::{Copies, History, Input, Loss, Scan};
use gnnc_ir::kernel::{Axis, End, Reduce};
use gnnc_ir::{Binary, EdgeSet, Graph, Op, Rows, Type, Unary};
use std::collections::BTreeSet;

/// An exhaustive match that doubles as a list: a new variant compiles only once it is named
/// here, and then fails [`every_operator_has_a_gradient_test`] until it has a case.
macro_rules! registry {
    ($name:ident, $list:ident, $ty:ty, $($pattern:pat => $key:literal),+ $(,)?) => {
        fn $name(value: &$ty) -> &'static str {
            match value { $($pattern => $key),+ }
        }
        const $list: &[&str] = &[$($key),+];
    };
}

registry!(op_key, OPS, Op,
    Op::Input(_) => "input",
    Op::Param(_) => "param",
    Op::Const(_) => "const",
    Op::Table(_) => "table",
    Op::Arg(_) => "arg",
    Op::Unary(_) => "unary",
    Op::Binary(_) => "binary",
    Op::Dropout { .. } => "dropout",
    Op::Broadcast(_) => "broadcast",
    Op::Take(..) => "take",
    Op::Gather(_, _, Reduce::Sum) => "gather sum",
    Op::Gather(_, _, Reduce::Max) => "gather max",
    Op::GatherMean(_) => "gather mean",
    Op::EdgeSoftmax(_) => "edge softmax",
    Op::Pick => "pick",
    Op::PickSum(_) => "pick sum",
    Op::PickHead => "pick head",
    Op::PlaceHead(_) => "place head",
    Op::MatMul => "matmul",
    Op::MatMulNT => "matmul nt",
    Op::MatMulTN => "matmul tn",
    Op::Reshape { .. } => "reshape",
    Op::Blend => "blend",
    Op::Sampled(_) => "sampled",
    Op::Concat => "concat",
    Op::SliceCols { .. } => "slice cols",
    Op::PadCols { .. } => "pad cols",
    Op::SliceRows { .. } => "slice rows",
    Op::PadRows { .. } => "pad rows",
    Op::ReduceCols(_, Reduce::Sum) => "reduce sum",
    Op::ReduceCols(_, Reduce::Max) => "reduce max",
    Op::SumRows => "sum rows",
    Op::Loss(Loss::CrossEntropy { .. }) => "cross entropy",
    Op::Loss(_) => "losses of numbers",
    Op::LossGrad(_) => "loss grad",
    Op::Redistribute(_) => "redistribute",
    Op::SumRanks => "sum_ranks",
    Op::Clip(..) => "clip",
    Op::Copies(..) => "copies",
    Op::Scan(_) => "scan",
    Op::Out(_) => "out",
);
registry!(unary_key, UNARIES, Unary,
    Unary::Neg => "neg",
    Unary::Relu => "relu",
    Unary::Step => "step",
    Unary::LeakyRelu(_) => "leaky relu",
    Unary::LeakyStep(_) => "leaky step",
    Unary::Elu => "elu",
    Unary::EluStep => "elu step",
    Unary::Exp => "exp",
    Unary::Log => "log",
    Unary::Sigmoid => "sigmoid",
    Unary::Tanh => "tanh",
    Unary::Sqrt => "sqrt",
    Unary::Rsqrt => "rsqrt",
    Unary::Recip => "recip",
);
registry!(binary_key, BINARIES, Binary,
    Binary::Add => "add",
    Binary::Sub => "sub",
    Binary::Mul => "mul",
    Binary::Div => "div",
    Binary::Max => "max",
    Binary::Eq => "eq",
);

/// Operators without a gradient to compare, with the test that covers them instead.
const WITHOUT: &[&str] = &[
    "input",
    "const",
    "table", // no operands, not trainable
    "unary",
    "binary", // their functions have cases
    "step",
    "leaky step",
    "eq",           // `derivatives_of_steps_are_zero`
    "loss grad",    // `the_gradient_of_a_gradient_is_refused`
    "redistribute", // layouts come after differentiation
    "sum_ranks",
    "clip", // `clipped_gradients_are_scaled_by_blocks`
];

/// `(operators under test, model)`.
fn cases() -> Vec<(&'static [&'static str], Graph)> {
    use EdgeSet::{Looped, Plain};
    let mut cases = Vec::new();
    cases.extend(sampled::cases().map(|graph| (&["sampled"] as &[_], graph)));
    let mut case = |keys: &'static [&'static str], make: &dyn Fn(&mut Build) -> gnnc_ir::NodeId| {
        let mut b = Build::new(crate::harness::FEATURES);
        let y = make(&mut b);
        cases.push((keys, b.squares(y)));
    };
    let square = Type::matrix(4, 3);

    for (key, f) in [
        (&["neg"] as &'static [&'static str], Unary::Neg),
        (&["relu"], Unary::Relu),
        (&["leaky relu"], Unary::LeakyRelu(0.2)),
        (&["leaky relu"], Unary::LeakyRelu(-0.5)),
        (&["elu"], Unary::Elu),
        (&["elu step"], Unary::EluStep),
        (&["exp"], Unary::Exp),
        (&["sigmoid"], Unary::Sigmoid),
        (&["tanh"], Unary::Tanh),
        (&["recip"], Unary::Recip),
        (&["param"], Unary::Tanh),
    ] {
        case(key, &|b| {
            let x = b.param(square);
            b.unary(f, x)
        });
    }
    for set in [Plain, Looped] {
        case(&["blend"], &|b| {
            let (number, heads, width) = (0, 1, 2);
            let history = History {
                number,
                heads,
                width,
            };
            let x = b.vertex(1, 2);
            let old = b.op(Op::Input(Input::History(history)), &[]);
            let twice = b.binary(Binary::Add, old, old);
            let blend = b.op(Op::Blend, &[x, twice, x, old]);
            let edges = b.op(Op::Take(set, End::Src), &[blend]);
            b.op(Op::Gather(set, End::Dst, Reduce::Sum), &[edges])
        });
    }
    // One rank has no copies.
    for seen in [Copies::Seen, Copies::Through] {
        case(&["copies"], &|b| {
            let x = b.vertex(1, 2);
            let kept = b.op(Op::Copies(Copies::Kept, 0), &[x]);
            let twice = b.binary(Binary::Add, kept, kept);
            let seen = b.op(Op::Copies(seen, 0), &[twice]);
            let edges = b.op(Op::Take(Plain, End::Src), &[seen]);
            let sum = b.op(Op::Gather(Plain, End::Dst, Reduce::Sum), &[edges]);
            b.binary(Binary::Add, sum, twice)
        });
    }
    for (key, f) in [
        (&["log"] as &'static [&'static str], Unary::Log),
        (&["sqrt"], Unary::Sqrt),
        (&["rsqrt"], Unary::Rsqrt),
    ] {
        case(key, &|b| {
            let x = b.positive(square);
            b.unary(f, x)
        });
    }
    // Binary operators, with every broadcast: rows, heads, columns, all of them.
    let full = Type::new(Rows::Fixed(4), 2, 3);
    for (key, f) in [
        (&["add"] as &'static [&'static str], Binary::Add),
        (&["sub"], Binary::Sub),
        (&["mul"], Binary::Mul),
        (&["div"], Binary::Div),
        (&["max"], Binary::Max),
    ] {
        // A divisor must stay away from 0; a maximum must have both sides.
        let operand = |b: &mut Build, ty| {
            if f != Binary::Max {
                return b.positive(ty);
            }
            let x = b.param(ty);
            b.scale(if ty == full { 1.0 } else { 0.2 }, x)
        };
        for small in [
            full,
            Type::new(Rows::Fixed(1), 2, 3),
            Type::new(Rows::Fixed(4), 1, 3),
            Type::new(Rows::Fixed(4), 2, 1),
            Type::SCALAR,
        ] {
            for swap in [false, true] {
                case(key, &|b| {
                    let (x, y) = (operand(b, full), operand(b, small));
                    if swap {
                        b.binary(f, y, x)
                    } else {
                        b.binary(f, x, y)
                    }
                });
            }
        }
        // Vertex and edge rows against a shared row, and equal operands.
        case(key, &|b| {
            let (x, y) = (b.vertex(2, 3), operand(b, Type::new(Rows::Fixed(1), 1, 3)));
            b.binary(f, x, y)
        });
        case(key, &|b| {
            let (x, y) = (
                b.edges(Looped, 2, 3),
                operand(b, Type::new(Rows::Fixed(1), 2, 1)),
            );
            b.binary(f, x, y)
        });
    }
    for (key, f) in [
        (&["mul"] as &'static [&'static str], Binary::Mul),
        (&["max"], Binary::Max), // every element ties
    ] {
        case(key, &|b| {
            let x = b.vertex(1, 2);
            b.binary(f, x, x)
        });
    }
    for to in [Rows::Fixed(1), Rows::Vertices, Rows::Edges(Plain)] {
        case(&["broadcast"], &|b| {
            let x = b.param(Type::new(Rows::Fixed(1), 1, 3));
            let x = b.op(Op::Broadcast(Type::new(to, 2, 3)), &[x]);
            b.unary(Unary::Sigmoid, x)
        });
    }
    case(&["dropout"], &|b| {
        let x = b.param(square);
        b.dropout(0.5, 3, x)
    });
    case(&["dropout"], &|b| {
        let x = b.vertex(2, 2);
        b.dropout(0.3, 4, x)
    });
    case(&["dropout"], &|b| {
        let x = b.edges(Looped, 2, 2);
        b.dropout(0.3, 5, x)
    });
    for set in [Plain, Looped] {
        for end in [End::Src, End::Dst] {
            case(&["take"], &|b| {
                let x = b.vertex(2, 2);
                b.take(set, end, x)
            });
            for (key, reduce) in [
                (&["gather sum"] as &'static [&'static str], Reduce::Sum),
                (&["gather max"], Reduce::Max),
            ] {
                case(key, &|b| {
                    let x = b.edges(set, 2, 2);
                    b.gather(set, end, reduce, x)
                });
            }
            // Edges into a vertex tie: all have the same value.
            case(&["gather max"], &|b| {
                let x = b.vertex(1, 2);
                let x = b.take(set, end, x);
                b.gather(set, end, Reduce::Max, x)
            });
        }
        case(&["gather mean"], &|b| {
            let x = b.edges(set, 2, 2);
            b.op(Op::GatherMean(set), &[x])
        });
        case(&["edge softmax"], &|b| {
            let x = b.edges(set, 2, 2);
            b.op(Op::EdgeSoftmax(set), &[x])
        });
    }
    for (keys, make) in crate::relations::CASES {
        case(keys, &make);
    }
    case(&["matmul"], &|b| {
        let (x, w) = (b.vertex(2, 2), b.param(Type::new(Rows::Fixed(4), 2, 3)));
        b.matmul(x, w)
    });
    case(&["matmul nt"], &|b| {
        let (x, w) = (b.vertex(2, 2), b.param(Type::new(Rows::Fixed(3), 2, 2)));
        b.op(Op::MatMulNT, &[x, w])
    });
    case(&["matmul tn"], &|b| {
        let (x, w) = (b.vertex(2, 2), b.vertex(1, 3));
        b.op(Op::MatMulTN, &[x, w])
    });
    case(&["reshape"], &|b| {
        let x = b.param(Type::new(Rows::Fixed(2), 2, 3));
        let x = b.op(Op::Reshape { heads: 3, width: 2 }, &[x]);
        let y = b.param(Type::new(Rows::Fixed(1), 3, 1));
        b.mul(x, y)
    });
    case(&["concat"], &|b| {
        let (x, y) = (b.vertex(2, 1), b.vertex(2, 3));
        let z = b.op(Op::Concat, &[x, y, x]);
        let w = b.param(Type::new(Rows::Fixed(1), 2, 5));
        b.mul(z, w)
    });
    case(&["slice cols"], &|b| {
        let x = b.vertex(2, 4);
        b.op(Op::SliceCols { start: 1, len: 2 }, &[x])
    });
    case(&["pad cols"], &|b| {
        let x = b.vertex(2, 2);
        let x = b.op(
            Op::PadCols {
                before: 1,
                after: 2,
            },
            &[x],
        );
        let y = b.vertex(2, 5);
        b.add(x, y)
    });
    case(&["slice rows"], &|b| {
        let x = b.param(square);
        let x = b.op(Op::SliceRows { start: 1, len: 2 }, &[x]);
        b.unary(Unary::Exp, x)
    });
    case(&["pad rows"], &|b| {
        let (x, y) = (b.param(Type::matrix(2, 3)), b.param(square));
        let x = b.op(
            Op::PadRows {
                before: 1,
                after: 1,
            },
            &[x],
        );
        b.add(x, y)
    });
    for axis in [Axis::Heads, Axis::Width] {
        for (key, reduce) in [
            (&["reduce sum"] as &'static [&'static str], Reduce::Sum),
            (&["reduce max"], Reduce::Max),
        ] {
            case(key, &|b| {
                let x = b.vertex(3, 2);
                b.op(Op::ReduceCols(axis, reduce), &[x])
            });
        }
    }
    case(&["sum rows"], &|b| {
        let x = b.vertex(2, 2);
        b.op(Op::SumRows, &[x])
    });
    case(&["sum rows"], &|b| {
        let x = b.edges(Looped, 2, 2);
        b.op(Op::SumRows, &[x])
    });
    case(&["scan", "out", "arg"], &|b| {
        let mut body = Build::body(&[Type::vertices(2), Type::matrix(2, 2)]);
        let (h, w) = (body.arg(0), body.arg(1));
        let h = body.matmul(h, w);
        let h = body.unary(Unary::Tanh, h);
        body.graph.results = vec![h];
        let scan = Scan {
            count: 3,
            reverse: false,
            carries: 1,
            consts: 0,
            xs: 1,
            body: body.graph,
        };
        let (h, w) = (b.vertex(1, 2), b.param(Type::matrix(2, 2).stacked(3)));
        b.scan(scan, &[h, w])[0]
    });
    // Losses in the middle of a graph: the incoming gradient is not 1.
    for (key, loss) in losses::all() {
        case(key, &|b| {
            let z = b.vertex(1, 2);
            b.op(Op::Loss(loss.clone()), &[z])
        });
    }
    cases
}

/// Keys of all operators of a graph.
fn keys(graph: &Graph, found: &mut BTreeSet<&'static str>) {
    for node in &graph.nodes {
        found.insert(op_key(&node.op));
        match &node.op {
            Op::Unary(f) => _ = found.insert(unary_key(f)),
            Op::Binary(f) => _ = found.insert(binary_key(f)),
            Op::Scan(scan) => keys(&scan.body, found),
            _ => {}
        }
    }
}

#[test]
fn gradients_agree_with_central_differences() {
    for (names, graph) in cases() {
        let mut found = BTreeSet::new();
        keys(&graph, &mut found);
        assert!(
            names.iter().all(|name| found.contains(name)),
            "{names:?}\n{graph}"
        );
        for seed in [1, 2] {
            let mut context = context(&graph, seed, true);
            if names.contains(&"losses of numbers") {
                context.labels = (0..20).map(|i| f64::from(i % 3 % 2)).collect();
            }
            check(&graph, &context);
        }
    }
}

#[test]
fn every_operator_has_a_gradient_test() {
    let tested: BTreeSet<&str> = cases()
        .iter()
        .flat_map(|(names, _)| *names)
        .copied()
        .collect();
    for name in OPS.iter().chain(UNARIES).chain(BINARIES) {
        let exempt = WITHOUT.contains(name);
        assert!(
            tested.contains(name) != exempt,
            "{name}: tested or exempt, not both, not none"
        );
    }
}

#[test]
fn derivatives_of_steps_are_zero() {
    for f in [Unary::Step, Unary::LeakyStep(0.2)] {
        let mut b = Build::new(3);
        let x = b.vertex(1, 2);
        let y = b.unary(f, x);
        assert_eq!(differentiate(&b.squares(y)).unwrap().grads, [None]);
    }
    let mut b = Build::new(3);
    let (x, y) = (b.vertex(1, 2), b.vertex(1, 2));
    let y = b.binary(Binary::Eq, x, y);
    assert_eq!(differentiate(&b.squares(y)).unwrap().grads, [None, None]);
}

#[test]
fn the_gradient_of_a_gradient_is_refused() {
    let mut b = Build::new(3);
    let z = b.vertex(1, 2);
    let y = b.op(Op::LossGrad(Loss::CROSS_ENTROPY), &[z]);
    let error = differentiate(&b.squares(y)).unwrap_err();
    assert!(
        matches!(error, AutodiffError::NotDifferentiable { .. }),
        "{error}"
    );
}

#[test]
fn graphs_that_are_no_models_are_refused() {
    let mut b = Build::new(3);
    let z = b.vertex(1, 2);
    b.graph.results = vec![z, z];
    assert!(matches!(
        differentiate(&b.graph),
        Err(AutodiffError::Loss { .. })
    ));
    b.graph.results = vec![z];
    assert!(matches!(
        differentiate(&b.graph),
        Err(AutodiffError::Results { found: 1 })
    ));
}

#[test]
fn only_what_parameters_need_is_differentiated() {
    let mut b = Build::new(3);
    let x = b.features();
    let x = b.propagate(x);
    let unused = b.param(Type::SCALAR);
    let z = b.linear(x, 2);
    let _ = unused;
    let training = differentiate(&b.cross_entropy(z)).unwrap();
    assert_eq!(training.grads, [None, Some(2)]);
    // One aggregation, forward; no gradient of the features.
    let gathers = training
        .graph
        .nodes
        .iter()
        .filter(|n| matches!(n.op, Op::Gather(..)))
        .count();
    assert_eq!(gathers, 1, "{}", training.graph);
}
