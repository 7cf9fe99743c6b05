//! The gradients of whole models, with dropout.

use crate::harness::{Build, FEATURES, check, context};
use gnnc_ir::graph::eval::evaluate;
use gnnc_ir::kernel::{Axis, End, Reduce};
use gnnc_ir::{EdgeSet, NodeId, Op, Type, Unary};

fn check_model(make: impl Fn(&mut Build) -> NodeId) {
    let mut b = Build::new(FEATURES);
    let z = make(&mut b);
    let graph = b.cross_entropy(z);
    for dropout in [true, false] {
        check(&graph, &context(&graph, 7, dropout));
    }
    // The draws are real.
    if graph
        .nodes
        .iter()
        .any(|n| matches!(n.op, Op::Dropout { .. }))
    {
        let loss = |dropout| evaluate(&graph, &context(&graph, 7, dropout)).unwrap()[0].clone();
        assert_ne!(loss(true), loss(false));
    }
}

/// One head of attention per `heads`: `[V x K x d]`.
pub fn gat(b: &mut Build, x: NodeId, heads: u32, width: u32, site: u32) -> NodeId {
    let x = b.dropout(0.3, site, x);
    let g = b.linear(x, heads * width);
    let g = b.op(Op::Reshape { heads, width }, &[g]);
    let one = gnnc_ir::Rows::Fixed(1);
    let score = |b: &mut Build| {
        let a = b.param(Type::new(one, heads, width));
        let a = b.mul(g, a);
        b.sum_cols(Axis::Width, a)
    };
    let (src, dst) = (score(b), score(b));
    let src = b.take(EdgeSet::Looped, End::Src, src);
    let dst = b.take(EdgeSet::Looped, End::Dst, dst);
    let e = b.add(src, dst);
    let e = b.unary(Unary::LeakyRelu(0.2), e);
    let alpha = b.op(Op::EdgeSoftmax(EdgeSet::Looped), &[e]);
    let alpha = b.dropout(0.3, site + 1, alpha);
    let g = b.take(EdgeSet::Looped, End::Src, g);
    let message = b.mul(alpha, g);
    b.gather(EdgeSet::Looped, End::Dst, Reduce::Sum, message)
}

#[test]
fn gcn() {
    check_model(|b| {
        let x = b.features();
        let x = b.dropout(0.2, 0, x);
        let h = b.linear(x, 4);
        let h = b.propagate(h);
        let bias = b.param(Type::matrix(1, 4));
        let h = b.add(h, bias);
        let h = b.relu(h);
        let h = b.dropout(0.5, 1, h);
        let h = b.linear(h, 2);
        b.propagate(h)
    });
}

#[test]
fn graph_sage() {
    check_model(|b| {
        let mut h = b.features();
        for width in [4, 2] {
            let mean = b.neighbour_mean(h);
            let both = b.op(Op::Concat, &[h, mean]);
            h = b.linear(both, width);
            if width != 2 {
                h = b.relu(h);
                h = b.dropout(0.4, width, h);
            }
        }
        h
    });
}

#[test]
fn gat_with_heads() {
    check_model(|b| {
        let x = b.features();
        let h = gat(b, x, 3, 2, 0);
        let h = b.unary(Unary::Elu, h);
        let h = b.op(Op::Reshape { heads: 1, width: 6 }, &[h]);
        let z = gat(b, h, 2, 2, 2);
        let z = b.sum_cols(Axis::Heads, z);
        b.scale(0.5, z)
    });
}

#[test]
fn gin_with_learned_epsilon_and_layer_norm() {
    check_model(|b| {
        let mut h = b.features();
        for _ in 0..2 {
            let epsilon = b.param(Type::SCALAR);
            let one = b.constant(1.0);
            let weight = b.add(one, epsilon);
            let own = b.mul(weight, h);
            let sum = b.neighbour_sum(EdgeSet::Plain, h);
            h = b.add(own, sum);
            h = b.linear(h, 4);
            h = b.layer_norm(h);
            h = b.relu(h);
        }
        b.linear(h, 2)
    });
}

#[test]
fn softmax_and_max_aggregation() {
    check_model(|b| {
        let x = b.features();
        let h = b.linear(x, 3);
        let m = b.take(EdgeSet::Plain, End::Src, h);
        let beta = b.param(Type::SCALAR);
        let scaled = b.mul(beta, m);
        let w = b.op(Op::EdgeSoftmax(EdgeSet::Plain), &[scaled]);
        let weighted = b.mul(w, m);
        let soft = b.gather(EdgeSet::Plain, End::Dst, Reduce::Sum, weighted);
        let own = b.take(EdgeSet::Plain, End::Dst, h);
        let relative = b.binary(gnnc_ir::Binary::Sub, m, own);
        let top = b.gather(EdgeSet::Plain, End::Dst, Reduce::Max, relative);
        let all = b.op(Op::Concat, &[h, soft, top]);
        b.linear(all, 2)
    });
}

#[test]
fn film() {
    check_model(|b| {
        let x = b.features();
        let modulation = b.linear(x, 8);
        let gamma = b.op(Op::SliceCols { start: 0, len: 4 }, &[modulation]);
        let beta = b.op(Op::SliceCols { start: 4, len: 4 }, &[modulation]);
        let h = b.linear(x, 4);
        let h = b.take(EdgeSet::Looped, End::Src, h);
        let gamma = b.take(EdgeSet::Looped, End::Dst, gamma);
        let beta = b.take(EdgeSet::Looped, End::Dst, beta);
        let h = b.mul(gamma, h);
        let h = b.add(h, beta);
        let h = b.relu(h);
        let h = b.gather(EdgeSet::Looped, End::Dst, Reduce::Sum, h);
        b.linear(h, 2)
    });
}
