//! Published formulas on the eight-vertex graph of the specification, to four decimals.

use crate::harness::Build;
use gnnc_ir::graph::autodiff::differentiate;
use gnnc_ir::graph::eval::{DropoutKey, EvalContext, EvalError, Tensor, evaluate};
use gnnc_ir::graph::op::{ClassWeights, Clip, Input, LabelKind, Loss, Scan};
use gnnc_ir::kernel::{Axis, End, Reduce, mask_key};
use gnnc_ir::words::number::Number;
use gnnc_ir::{Binary, EdgeSet, NodeId, Op, Rows, Type, Unary};

/// G8: ten undirected edges, `x[v][j] = ((3v + 5j) mod 7) - 3`, label 0 below vertex 4. A fifth
/// feature is the vertex number, for formulas that compare vertices.
fn g8() -> EvalContext {
    let x = |v: usize, j: usize| {
        if j == 4 {
            v as f64
        } else {
            ((3 * v + 5 * j) % 7) as f64 - 3.0
        }
    };
    let data = (0..8).flat_map(|v| (0..5).map(move |j| x(v, j))).collect();
    EvalContext {
        indptr: vec![0, 2, 4, 7, 10, 13, 16, 18, 20],
        indices: vec![1, 2, 0, 2, 0, 1, 3, 2, 4, 5, 3, 5, 6, 3, 4, 7, 4, 7, 5, 6],
        edge_features: Vec::new(),
        sets: Vec::new(),
        types: Vec::new(),
        features: Tensor::new(Type::vertices(5), 8, data),
        labels: vec![0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0],
        train: (0..8).map(|v| v == 0 || v == 7).collect(),
        params: Vec::new(),
        dropout: None,
        histories: Vec::new(),
        order: Vec::new(),
        blocks: Vec::new(),
        batch: None,
    }
}

fn x(b: &mut Build) -> NodeId {
    let x = b.features();
    b.op(Op::SliceCols { start: 0, len: 4 }, &[x])
}

fn value(make: impl Fn(&mut Build) -> NodeId) -> Tensor {
    let mut b = Build::new(5);
    let y = make(&mut b);
    b.graph.results = vec![y];
    evaluate(&b.graph, &g8()).unwrap().remove(0)
}

/// Compares row `row` of a value.
fn golden(row: usize, expected: &[f64], make: impl Fn(&mut Build) -> NodeId) {
    let found = value(make);
    let found = found.row(row);
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        // Half of the last printed digit, and the rounding of 32-bit constants.
        assert!(
            (a - b).abs() <= 0.5001e-4,
            "found {found:?}, expected {expected:?}"
        );
    }
}

#[test]
fn normalised_aggregation() {
    let once = |b: &mut Build| {
        let x = x(b);
        b.propagate(x)
    };
    golden(0, &[-0.1340, 0.2887, 0.7113, -1.1994], once);
    golden(3, &[0.5, 0.25, 0.0, -0.25], once);
    golden(0, &[-0.1950, 0.0481, 0.7964, -1.0994], |b| {
        let h = once(b);
        b.propagate(h)
    });
    let sums = [0.9553, 0.9553, 1.0774, 1.0, 1.0387, 1.0387, 0.9553, 0.9553];
    for (v, sum) in sums.into_iter().enumerate() {
        golden(v, &[sum], |b| {
            let one = b.constant(1.0);
            let one = b.op(Op::Broadcast(Type::vertices(1)), &[one]);
            b.propagate(one)
        });
    }
}

#[test]
fn sum_mean_sage_and_gin() {
    let sum = |b: &mut Build| {
        let x = x(b);
        b.neighbour_sum(EdgeSet::Plain, x)
    };
    let mean = |b: &mut Build| {
        let x = x(b);
        b.neighbour_mean(x)
    };
    golden(0, &[3.0, -1.0, 2.0, -2.0], sum);
    golden(0, &[1.5, -0.5, 1.0, -1.0], mean);
    golden(0, &[-1.5, 1.5, 1.0, -3.0], |b| {
        let (x, mean) = (x(b), mean(b));
        b.add(x, mean)
    });
    golden(0, &[0.0, 1.0, 2.0, -4.0], |b| {
        let (x, sum) = (x(b), sum(b));
        b.add(x, sum)
    });
}

#[test]
fn attention() {
    let alpha = |b: &mut Build| {
        let x = x(b);
        let score = b.op(Op::SliceCols { start: 0, len: 1 }, &[x]);
        let src = b.take(EdgeSet::Looped, End::Src, score);
        let dst = b.take(EdgeSet::Looped, End::Dst, score);
        let e = b.add(src, dst);
        let e = b.unary(Unary::LeakyRelu(0.2), e);
        b.op(Op::EdgeSoftmax(EdgeSet::Looped), &[e])
    };
    // The edges into vertex 0 come first, with its self loop in sorted position.
    for (edge, expected) in [0.1628, 0.2967, 0.5405].into_iter().enumerate() {
        golden(edge, &[expected], alpha);
    }
    golden(0, &[1.1332, 0.2728, 0.3494, -1.6506], |b| {
        let (alpha, x) = (alpha(b), x(b));
        let x = b.take(EdgeSet::Looped, End::Src, x);
        let m = b.mul(alpha, x);
        b.gather(EdgeSet::Looped, End::Dst, Reduce::Sum, m)
    });
}

/// SANCUS's clip: blocks of length 1 on four ranks, with a bound of 1 on all rows, are halved.
#[test]
fn blocks_have_equal_shares_of_a_bound() {
    let clipped = |most: f32, blocks: Vec<u32>| {
        let mut b = Build::new(5);
        let x = b.features();
        let y = b.op(Op::Clip(Clip::Rows, most), &[x]);
        b.graph.results = vec![y];
        // Two rows per block, with five columns.
        let features = Tensor::full(Type::vertices(5), 8, 0.1f64.sqrt());
        let context = EvalContext {
            features,
            blocks,
            ..g8()
        };
        evaluate(&b.graph, &context).unwrap().remove(0).data
    };
    let length = |data: &[f64]| data.iter().map(|x| x * x).sum::<f64>().sqrt();
    let quarters = || (0..8).map(|v| v / 2).collect();
    let halved = clipped(0.5, quarters());
    let half = 0.5 * 0.1f64.sqrt();
    assert!(halved.iter().all(|x| (x - half).abs() < 1e-12));
    assert!((length(&halved) - 1.0).abs() < 1e-12);
    assert_eq!(clipped(1.5, quarters()), vec![0.1f64.sqrt(); 40]);
    assert!((length(&clipped(0.5, Vec::new())) - 0.5).abs() < 1e-12);
    let mut b = Build::new(5);
    let x = b.features();
    b.graph.results = vec![x];
    let blocks = vec![0; 3];
    let context = EvalContext { blocks, ..g8() };
    let error = evaluate(&b.graph, &context).unwrap_err().to_string();
    assert_eq!(error, "expected 8 blocks of vertices, found 3");
}

/// The weights' gradient is computed from the clipped one.
#[test]
fn clipped_gradients_are_scaled_by_blocks() {
    let model = |most: Option<f32>| {
        let mut b = Build::new(5);
        let (x, w) = (b.features(), b.param(Type::matrix(5, 2)));
        let mut z = b.matmul(x, w);
        if let Some(most) = most {
            z = b.op(Op::Clip(Clip::Gradient, most), &[z]);
        }
        b.cross_entropy(z)
    };
    let weights = (0..10).map(|n| 0.2 - 0.05 * f64::from(n)).collect();
    let context = EvalContext {
        params: vec![Tensor::new(Type::matrix(5, 2), 5, weights)],
        blocks: vec![0, 0, 0, 0, 0, 1, 1, 1],
        ..g8()
    };
    let gradient = |most: Option<f32>, train: &dyn Fn(usize) -> bool| {
        let training = differentiate(&model(most)).unwrap();
        // One vertex of each block is in the training set; the other does not count.
        let kept = (0..8).map(train).collect();
        let context = EvalContext {
            train: kept,
            ..context.clone()
        };
        let results = evaluate(&training.graph, &context).unwrap();
        results[training.grads[0].unwrap()].data.clone()
    };
    let most = 0.25;
    let found = gradient(Some(most), &|v| v == 0 || v == 7);
    // Each vertex contributes half of its own mean to the mean over two.
    let alone = [0, 7].map(|only| gradient(None, &move |v| v == only));
    let lengths = [0, 7].map(|v| {
        let x: f64 = context.features.row(v).iter().map(|x| x * x).sum();
        let one = alone[usize::from(v == 7)].iter().map(|g| g * g / 4.0);
        (one.sum::<f64>() / x).sqrt()
    });
    assert!(lengths.iter().any(|l| *l > 0.3), "{lengths:?}");
    for (n, found) in found.iter().enumerate() {
        let share = |b: usize| 0.5 * alone[b][n] * (f64::from(most) / lengths[b]).min(1.0);
        assert!((found - share(0) - share(1)).abs() < 1e-12);
    }
}

#[test]
fn gcnii_appnp_and_dagnn() {
    let hop = |b: &mut Build, h: NodeId, u: NodeId| {
        let a = b.propagate(h);
        let (a, u) = (b.scale(0.9, a), b.scale(0.1, u));
        b.add(a, u)
    };
    // With W = I, the layer's matrix changes nothing for any beta.
    golden(0, &[-0.4206, 0.4598, 0.6402, -1.2794], |b| {
        let x = x(b);
        hop(b, x, x)
    });
    golden(0, &[-0.4700, 0.2650, 0.7091, -1.1985], |b| {
        let u = x(b);
        let mut body = Build::new(5);
        body.graph.args = vec![Type::vertices(4); 2];
        let (z, own) = (body.arg(0), body.arg(1));
        let z = hop(&mut body, z, own);
        body.graph.results = vec![z];
        let scan = Scan {
            count: 2,
            reverse: false,
            carries: 1,
            consts: 1,
            xs: 0,
            body: body.graph,
        };
        b.scan(scan, &[u, u])[0]
    });
    let hops = |b: &mut Build| {
        let h0 = x(b);
        let h1 = b.propagate(h0);
        let h2 = b.propagate(h1);
        [h0, h1, h2]
    };
    let gate = |b: &mut Build, h: NodeId| {
        let sum = b.sum_cols(Axis::Width, h);
        b.unary(Unary::Sigmoid, sum)
    };
    for (k, expected) in [0.0474, 0.4174, 0.3894].into_iter().enumerate() {
        golden(0, &[expected], |b| {
            let h = hops(b)[k];
            gate(b, h)
        });
    }
    golden(0, &[-0.2741, 0.2341, 0.6070, -1.0236], |b| {
        let gated: Vec<NodeId> = hops(b)
            .into_iter()
            .map(|h| {
                let gate = gate(b, h);
                b.mul(gate, h)
            })
            .collect();
        let sum = b.add(gated[0], gated[1]);
        b.add(sum, gated[2])
    });
}

#[test]
fn norms_softmax_aggregation_and_film() {
    golden(0, &[-1.1717, 1.4321, 0.3906, -0.6509], |b| {
        let x = x(b);
        b.layer_norm(x)
    });
    for (beta, expected) in [
        (0.0, [1.5, 0.5, 1.5, 0.5]),
        (1.0, [2.8577, 0.7311, 2.8577, 0.7311]),
        (100.0, [3.0, 1.0, 3.0, 1.0]),
    ] {
        golden(0, &expected, |b| {
            let x = x(b);
            let m = b.take(EdgeSet::Plain, End::Src, x);
            let m = b.relu(m);
            let scaled = b.scale(beta, m);
            let w = b.op(Op::EdgeSoftmax(EdgeSet::Plain), &[scaled]);
            let m = b.mul(w, m);
            b.gather(EdgeSet::Plain, End::Dst, Reduce::Sum, m)
        });
    }
    golden(0, &[0.0, 3.0, 3.0, 0.0], |b| {
        let x = x(b);
        let src = b.take(EdgeSet::Plain, End::Src, x);
        let dst = b.take(EdgeSet::Plain, End::Dst, x);
        let m = b.add(src, dst);
        let m = b.relu(m);
        b.gather(EdgeSet::Plain, End::Dst, Reduce::Sum, m)
    });
}

#[test]
fn relations() {
    // r0: edges u < v, W = I; r1: edges u > v, W = 2I; W_0 = I; a mean per relation.
    golden(2, &[-0.5, -5.0, 4.5, -3.5], |b| {
        let (x, all) = (x(b), b.features());
        let number = b.op(Op::SliceCols { start: 4, len: 1 }, &[all]);
        let src = b.take(EdgeSet::Plain, End::Src, number);
        let dst = b.take(EdgeSet::Plain, End::Dst, number);
        let message = b.take(EdgeSet::Plain, End::Src, x);
        let mut sum = x;
        for (less, more, weight) in [(src, dst, 1.0), (dst, src, 2.0)] {
            let forward = b.binary(Binary::Sub, more, less);
            let member = b.unary(Unary::Step, forward);
            let m = b.mul(member, message);
            let m = b.gather(EdgeSet::Plain, End::Dst, Reduce::Sum, m);
            let count = b.gather(EdgeSet::Plain, End::Dst, Reduce::Sum, member);
            let inverse = b.unary(Unary::Recip, count);
            let m = b.mul(inverse, m);
            let m = b.scale(weight, m);
            sum = b.add(sum, m);
        }
        sum
    });
}

#[test]
fn losses() {
    let logits = |b: &mut Build| {
        let x = b.features();
        b.op(Op::SliceCols { start: 0, len: 2 }, &[x])
    };
    golden(0, &[2.5067], |b| {
        let z = logits(b);
        b.op(Op::Loss(Loss::CROSS_ENTROPY), &[z])
    });
    // Binary: labels (1, 0) for vertex 0 and (0, 1) for vertex 7; logits (-3, 2) for both.
    let mut b = Build::new(5);
    let z = logits(&mut b);
    let loss = b.op(Op::Loss(Loss::BINARY_CROSS_ENTROPY), &[z]);
    b.graph.results = vec![loss];
    let mut context = g8();
    context.labels = vec![0.0; 16];
    (context.labels[0], context.labels[15]) = (1.0, 1.0);
    let softplus = |z: f64| z.exp().ln_1p();
    let expected = (softplus(3.0) + softplus(2.0) + softplus(-3.0) + softplus(-2.0)) / 4.0;
    let found = evaluate(&b.graph, &context).unwrap()[0].data[0];
    assert!((found - expected).abs() < 1e-12);
    // What PyTorch 2 gives for the same logits and labels.
    let numbers = |numbers: [f64; 2]| numbers.map(Number).to_vec();
    let cross_entropy = |smoothing, weights| Loss::CrossEntropy {
        smoothing: Number(smoothing),
        weights,
    };
    let given = ClassWeights::Given(numbers([0.3, 2.5]));
    let positive = numbers([4.0, 0.5]);
    for (loss, expected) in [
        (
            cross_entropy(0.1, ClassWeights::Equal),
            2.506_715_348_489_118,
        ),
        (cross_entropy(0.1, given), 0.542_429_634_203_403_7),
        (
            cross_entropy(0.0, ClassWeights::Balanced),
            2.506_715_348_489_118,
        ),
        (
            Loss::BinaryCrossEntropy { positive },
            3.608_332_193_608_292_4,
        ),
        (Loss::Huber { delta: Number(2.5) }, 3.4375),
    ] {
        let mut context = context.clone();
        if loss.labels() == LabelKind::Class {
            context.labels = g8().labels;
        }
        let mut b = Build::new(5);
        let z = logits(&mut b);
        let node = b.op(Op::Loss(loss.clone()), &[z]);
        b.graph.results = vec![node];
        let found = evaluate(&b.graph, &context).unwrap()[0].data[0];
        assert!((found - expected).abs() < 1e-12, "{loss}: {found}");
    }
}

#[test]
fn maxima_and_means_of_nothing_are_zero() {
    let mut context = g8();
    context.indptr = vec![0, 0, 1, 1, 1, 1, 1, 1, 1];
    context.indices = vec![7];
    let mut b = Build::new(5);
    let x = x(&mut b);
    let m = b.take(EdgeSet::Plain, End::Src, x);
    let top = b.gather(EdgeSet::Plain, End::Dst, Reduce::Max, m);
    let mean = b.op(Op::GatherMean(EdgeSet::Plain), &[m]);
    let back = b.gather(EdgeSet::Plain, End::Src, Reduce::Max, m);
    let degree = b.op(Op::Input(Input::OutDegree(EdgeSet::Looped)), &[]);
    b.graph.results = vec![top, mean, back, degree];
    let results = evaluate(&b.graph, &context).unwrap();
    let row = context.features.row(7)[..4].to_vec();
    for (result, full) in results.iter().zip([1, 1, 7]) {
        for v in 0..8 {
            assert_eq!(
                result.row(v),
                if v == full { row.as_slice() } else { &[0.0; 4] }
            );
        }
    }
    assert_eq!(results[3].data, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0]);
}

#[test]
fn dropout_masks_follow_site_epoch_and_iteration() {
    let mut b = Build::new(5);
    let one = b.constant(1.0);
    let ones = b.op(Op::Broadcast(Type::new(Rows::Vertices, 2, 8)), &[one]);
    let (d0, d1) = (b.dropout(0.25, 0, ones), b.dropout(0.25, 1, ones));
    b.graph.results = vec![ones, d0, d1];
    let run = |dropout| evaluate(&b.graph, &EvalContext { dropout, ..g8() }).unwrap();
    let off = run(None);
    assert_eq!((&off[0], &off[0]), (&off[1], &off[2]));
    let key = DropoutKey { seed: 3, epoch: 1 };
    let on = run(Some(key));
    assert_eq!(on, run(Some(key)));
    assert_ne!(on[1], on[2]);
    assert_ne!(on[1], run(Some(DropoutKey { epoch: 2, ..key }))[1]);
    assert!(
        on[1]
            .data
            .iter()
            .all(|x| *x == 0.0 || (*x - 1.0 / 0.75).abs() < 1e-12)
    );
    // The same element by the kernels' functions: row 5, head 1, column 2.
    let hash = gnnc_ir::kernel::vertex_hash(mask_key(3, 1, 0, 0), 5);
    let kept = gnnc_ir::kernel::keep(hash, 10, 0.25);
    assert_eq!(on[1].row(5)[10] != 0.0, kept);
    assert_ne!(mask_key(3, 1, 0, 1), mask_key(3, 1, 1, 0));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut b = Build::new(5);
    let z = x(&mut b);
    let loss = b.op(Op::Loss(Loss::CROSS_ENTROPY), &[z]);
    b.graph.results = vec![loss];
    let fails = |change: &dyn Fn(&mut EvalContext)| {
        let mut context = g8();
        change(&mut context);
        evaluate(&b.graph, &context).unwrap_err()
    };
    assert!(matches!(
        fails(&|c| c.labels[7] = 4.0),
        EvalError::Label { vertex: 7, .. }
    ));
    assert!(matches!(
        fails(&|c| c.labels[7] = -1.0),
        EvalError::Label { vertex: 7, .. }
    ));
    assert!(matches!(
        fails(&|c| _ = c.labels.pop()),
        EvalError::Count { what: "labels", .. }
    ));
    assert!(matches!(
        fails(&|c| c.indices[3] = 8),
        EvalError::Topology(_)
    ));
    assert!(matches!(
        fails(&|c| c.indptr[2] = 50),
        EvalError::Topology(_)
    ));
    assert!(matches!(
        fails(&|c| c.indptr.clear()),
        EvalError::Topology(_)
    ));
    assert!(matches!(
        fails(&|c| _ = c.features.data.pop()),
        EvalError::Tensor { .. }
    ));
    b.graph.nodes[2].ty = Type::vertices(1);
    assert!(matches!(
        evaluate(&b.graph, &g8()),
        Err(EvalError::Graph(_))
    ));
}
