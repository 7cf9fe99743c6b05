//! Operators that read the types of edges.

use crate::harness::Build;
use gnnc_ir::graph::op::{Input, Relations};
use gnnc_ir::{EdgeSet, NodeId, Op, Rows, Type, Unary};

/// Operators under test, and a model.
type Case = (&'static [&'static str], fn(&mut Build) -> NodeId);

/// The types of the edges of the random graphs.
const RELATIONS: Relations = Relations {
    count: 3,
    all: false,
};

pub const CASES: [Case; 4] = [
    (&["pick"], |b| {
        let table = b.param(Type::new(Rows::Fixed(3), 2, 2));
        let types = types(b);
        let picked = b.op(Op::Pick, &[table, types]);
        let x = b.edges(EdgeSet::Plain, 2, 1);
        b.mul(picked, x)
    }),
    (&["pick", "pick sum"], |b| {
        let x = b.edges(EdgeSet::Plain, 2, 2);
        let types = types(b);
        let degree = b.op(Op::Input(Input::RelationDegree(RELATIONS)), &[]);
        let x = b.mul(x, degree);
        let sums = b.op(Op::PickSum(4), &[x, types]);
        let sums = b.unary(Unary::Tanh, sums);
        b.op(Op::Pick, &[sums, types])
    }),
    (&["pick head"], |b| {
        let x = b.edges(EdgeSet::Plain, 3, 2);
        let types = types(b);
        b.op(Op::PickHead, &[x, types])
    }),
    (&["place head"], |b| {
        let x = b.edges(EdgeSet::Plain, 1, 2);
        let types = types(b);
        let placed = b.op(Op::PlaceHead(4), &[x, types]);
        let y = b.edges(EdgeSet::Plain, 4, 1);
        b.mul(placed, y)
    }),
];

fn types(b: &mut Build) -> NodeId {
    b.op(Op::Input(Input::Relation(RELATIONS)), &[])
}
