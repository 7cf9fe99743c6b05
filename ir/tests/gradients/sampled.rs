//! Models on a batch of two hops, whose gradients are compared with differences.

use crate::harness::{Build, FEATURES};
use gnnc_ir::graph::op::{Input, Sampled};
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::words::sampling::Drawn;
use gnnc_ir::words::types::Level;
use gnnc_ir::{EdgeSet, Graph, NodeId, Op, Type, Unary};

/// The models.
pub fn cases() -> impl Iterator<Item = Graph> {
    [layers(EdgeSet::Plain), layers(EdgeSet::Looped), prefixes()].into_iter()
}

/// Features of level 0 times a weight.
fn transformed(b: &mut Build) -> NodeId {
    let x = b.op(Op::Input(Input::Features), &[]);
    let x = b.op(Op::Sampled(Sampled::Fetch(Level::own(0))), &[x]);
    let w = b.param(Type::matrix(FEATURES, 2));
    b.matmul(x, w)
}

/// Two layers whose vertices also read their own rows.
fn layers(set: EdgeSet) -> Graph {
    let mut b = Build::new(FEATURES);
    let mut h = transformed(&mut b);
    for level in 1..=2 {
        let edges = b.take(set, End::Src, h);
        let scale = b.op(
            Op::Input(Input::Drawn(Drawn::Scale(Level::own(level), set))),
            &[],
        );
        let edges = b.mul(edges, scale);
        let sum = b.gather(set, End::Dst, Reduce::Sum, edges);
        let kept = b.op(
            Op::Input(Input::Drawn(Drawn::Kept(Level::own(level), set))),
            &[],
        );
        let mean = b.mul(sum, kept);
        let own = b.op(Op::Sampled(Sampled::Prefix(Level::own(level))), &[h]);
        let own = b.mul(own, own);
        let sum = b.add(mean, own);
        h = b.unary(Unary::Tanh, sum);
    }
    b.squares(h)
}

/// Rows that only upper levels read: their gradient is zero elsewhere.
fn prefixes() -> Graph {
    let mut b = Build::new(FEATURES);
    let h = transformed(&mut b);
    let [near, far] =
        [2, 1].map(|level| b.op(Op::Sampled(Sampled::Prefix(Level::own(level))), &[h]));
    let edges = b.take(EdgeSet::Plain, End::Src, far);
    let sum = b.gather(EdgeSet::Plain, End::Dst, Reduce::Sum, edges);
    let product = b.mul(sum, near);
    b.squares(product)
}
