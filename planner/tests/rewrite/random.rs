//! Random graphs: their forms compute the same.

use crate::{numbers, text};
use gnnc_ir::graph::eval::Tensor;
use gnnc_ir::graph::op::{Input, Relations};
use gnnc_ir::graph::{Init, Node, ParamSpec};
use gnnc_ir::kernel::{Axis, End, Reduce};
use gnnc_ir::words::types::NamedEdges;
use gnnc_ir::{Binary, EdgeSet, Graph, NodeId, Op, Rows, Type, Unary};
use gnnc_planner::facts::Facts;
use gnnc_planner::forms::{RewriteOptions, rewrite};
use proptest::prelude::*;

const FACTS: Facts = Facts {
    named_edges: NamedEdges::NONE,
    vertices: 2000,
    edges: 30_000,
    features: 4,
    feature_nonzeros: 8000,
    sparse_features: false,
    classes: 2,
    train: true,
};

/// Edge types of [`numbers`].
const RELATIONS: Relations = Relations {
    count: 3,
    all: false,
};

/// An operator and two picks among the values so far.
type Choice = (u8, u8, u8);

fn operator(choice: u8) -> Op {
    let set = if choice & 1 == 0 {
        EdgeSet::Plain
    } else {
        EdgeSet::Looped
    };
    let end = if choice & 2 == 0 { End::Src } else { End::Dst };
    match choice >> 2 {
        0..6 => Op::Take(set, end),
        6..11 => Op::Gather(set, end, Reduce::Sum),
        11 => Op::Gather(set, end, Reduce::Max),
        12 | 13 => Op::GatherMean(set),
        14..20 => Op::MatMul,
        20..26 => Op::Binary(Binary::Mul),
        26..31 => Op::Binary(Binary::Add),
        31 => Op::Binary(Binary::Sub),
        32 => Op::Binary(Binary::Div),
        33 => Op::Unary(Unary::Relu),
        34 => Op::Unary(Unary::Tanh),
        35 => Op::Unary(Unary::Rsqrt),
        36 => Op::Unary(Unary::Recip),
        37 => Op::Unary(Unary::Neg),
        38..42 => Op::Concat,
        42 | 43 => Op::SliceCols { start: 1, len: 2 },
        44 | 45 => Op::SliceCols { start: 0, len: 2 },
        46..48 => Op::ReduceCols(Axis::Width, Reduce::Sum),
        48 => Op::EdgeSoftmax(set),
        49 => Op::Dropout {
            p: 0.5,
            site: 0.into(),
            slice: None,
        },
        50 => Op::Reshape { heads: 2, width: 2 },
        51 => Op::Reshape { heads: 1, width: 4 },
        52 | 53 => Op::SliceRows { start: 0, len: 4 },
        54 => Op::Unary(Unary::Exp),
        56 => Op::Pick,
        57 => Op::PickHead,
        58 => Op::PickSum(RELATIONS.count),
        59 => Op::PlaceHead(RELATIONS.count),
        _ => Op::Binary(Binary::Mul),
    }
}

/// A graph from the choices that are legal; its results are the last values.
fn graph(choices: &[Choice]) -> Graph {
    let mut graph = Graph::new(4);
    let mut values: Vec<NodeId> = Vec::new();
    for (i, ty) in [
        Type::matrix(4, 4),
        Type::matrix(8, 4),
        Type::matrix(4, 3),
        Type::matrix(1, 4),
        Type::matrix(RELATIONS.count, 4),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("w{i}");
        let param = graph.param(ParamSpec {
            name,
            ty,
            init: Init::Zeros,
            decay: None,
            shard: None,
            element: None,
        });
        values.push(graph.add(Op::Param(param), &[], 0).unwrap());
    }
    for input in [
        Input::Features,
        Input::Features,
        Input::InDegree(EdgeSet::Plain),
        Input::OutDegree(EdgeSet::Looped),
        Input::InDegree(EdgeSet::Looped),
        Input::RelationDegree(RELATIONS),
    ] {
        values.push(graph.add(Op::Input(input), &[], 0).unwrap());
    }
    let types = graph
        .add(Op::Input(Input::Relation(RELATIONS)), &[], 0)
        .unwrap();
    for (op, a, b) in choices {
        let op = operator(*op);
        let pick = |choice: u8| values[choice as usize % values.len()];
        // Types must name existing rows and heads.
        let ty = graph.ty(pick(*a));
        let fits = match op {
            Op::Pick => ty.rows == Rows::Fixed(RELATIONS.count),
            Op::PickHead => ty.heads == RELATIONS.count,
            _ => true,
        };
        if !fits {
            continue;
        }
        let inputs = match op {
            Op::Binary(_) | Op::MatMul | Op::Concat => vec![pick(*a), pick(*b)],
            Op::Pick | Op::PickHead | Op::PickSum(_) | Op::PlaceHead(_) => vec![pick(*a), types],
            _ => vec![pick(*a)],
        };
        if let Ok(id) = graph.add(op, &inputs, 0) {
            // Wide tensors would only slow the test down.
            if graph.ty(id).columns() <= 16 {
                values.push(id);
            }
        }
    }
    graph.results = values.iter().rev().take(2).copied().collect();
    graph
}

/// Whether every intermediate number is moderate, so that 1e-9 means something, and no result
/// depends on the sign of a zero.
fn is_tame(graph: &Graph) -> bool {
    let mut all = graph.clone();
    all.results = graph.iter().map(|(id, _)| id).collect();
    let values = numbers::evaluate(&all);
    let moderate = |x: &f64| x.is_nan() || x.abs() < 1e4 || x.is_infinite();
    values.iter().all(|value| value.data.iter().all(moderate))
        && !inverts_a_signed_zero(graph, &values)
}

/// Whether a divisor or the argument of an inverse root is a zero that can have either sign.
///
/// Rules are exact up to the order of sums and products, which determines the sign of a zero: a
/// sum over no edge is 0, and `0 * -1` is -0. Degrees have no sign.
fn inverts_a_signed_zero(graph: &Graph, values: &[Tensor]) -> bool {
    let mut signed = vec![false; graph.nodes.len()];
    for (id, node) in graph.iter() {
        let of_inputs = node.inputs.iter().any(|input| signed[input.0 as usize]);
        signed[id.0 as usize] = match node.op {
            Op::Param(_) | Op::Input(Input::Features) => true,
            Op::Binary(Binary::Sub) | Op::Unary(Unary::Neg) => true,
            _ => of_inputs,
        };
        let inverted = match node.op {
            Op::Binary(Binary::Div) => node.inputs[1],
            Op::Unary(Unary::Rsqrt) => node.inputs[0],
            _ => continue,
        };
        let zero = values[inverted.0 as usize].data.contains(&0.0);
        if zero && signed[inverted.0 as usize] {
            return true;
        }
    }
    false
}

/// The degree of a vertex without edges is 0: a row divided by it is infinite, and a product of
/// the row is NaN unless the division comes last.
#[test]
fn a_division_by_a_degree_of_0_stays_where_it_is() {
    for scaled in [
        "(div features in_degree)",
        "(mul features (rsqrt in_degree))",
    ] {
        let graph = text::graph(&format!(
            "features 8\nparams w: 8 x 2\nresult (add (tanh (matmul {scaled} w)) (matmul features w))"
        ));
        let form = rewrite(&graph, &FACTS, &RewriteOptions::default()).unwrap();
        assert!(
            numbers::agree(&graph, &form.graph),
            "{graph}\n{}",
            form.graph
        );
    }
}

/// The operators of a graph with their types, in an order that depends on neither layers nor numbers.
fn operators(graph: &Graph) -> Vec<String> {
    let line = |(id, node): (NodeId, &Node)| format!("{} {}", graph.text(&node.op), graph.ty(id));
    let mut lines: Vec<String> = graph.iter().map(line).collect();
    lines.sort();
    lines
}

/// The same graph as if layers of `size` operators had been called.
fn in_layers(graph: &Graph, size: usize) -> Graph {
    let mut graph = graph.clone();
    for n in 0..graph.nodes.len() {
        if n % size == 0 {
            graph.scopes.push(format!("layer{n}"));
        }
        graph.nodes[n].scope = graph.scopes.len() as u32 - 1;
    }
    graph
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_graphs_compute_the_same(
        choices in prop::collection::vec((0u8..240, any::<u8>(), any::<u8>()), 8..40)
    ) {
        let graph = graph(&choices);
        prop_assume!(is_tame(&graph));
        let options = RewriteOptions { iterations: 6, nodes: 1000, ..RewriteOptions::default() };
        let form = rewrite(&graph, &FACTS, &options).unwrap();
        prop_assert!(numbers::agree(&graph, &form.graph), "{graph}\n{}", form.graph);
        prop_assert!(form.report.after.seconds <= form.report.before.seconds * (1.0 + 1e-9));
    }

    /// Layer calls are written out where they stand, so a model's layers are scopes of its nodes.
    #[test]
    fn how_a_model_is_split_into_layers_does_not_matter(
        choices in prop::collection::vec((0u8..240, any::<u8>(), any::<u8>()), 30..120),
        size in 1usize..9,
        region in prop_oneof![Just(6usize), Just(96)],
    ) {
        let graph = graph(&choices);
        let options = RewriteOptions { iterations: 4, nodes: 500, region, ..RewriteOptions::default() };
        let whole = rewrite(&graph, &FACTS, &options).unwrap();
        let layered = rewrite(&in_layers(&graph, size), &FACTS, &options).unwrap();
        prop_assert_eq!(operators(&whole.graph), operators(&layered.graph));
        prop_assert_eq!(whole.report.after, layered.report.after);
    }
}
