//! Gradients of scans, and what their forward passes keep.

use crate::harness::{Build, FEATURES, check, context};
use gnnc_ir::graph::autodiff::{AutodiffError, TrainingGraph, differentiate};
use gnnc_ir::graph::op::Scan;
use gnnc_ir::{Binary, EdgeSet, Graph, NodeId, Op, Rows, Type, Unary};

/// The forward scan of a training graph.
fn forward_scan(training: &TrainingGraph) -> &Scan {
    let scan = training.graph.nodes.iter().find_map(|node| match &node.op {
        Op::Scan(scan) => Some(&**scan),
        _ => None,
    });
    scan.expect("a scan")
}

/// Types of the forward scan's results other than carries.
fn kept(training: &TrainingGraph) -> Vec<Type> {
    let scan = forward_scan(training);
    scan.result_types()[scan.carries as usize..].to_vec()
}

fn scan_of(body: Build, count: u32, reverse: bool, counts: [u32; 3]) -> Scan {
    let [carries, consts, xs] = counts;
    Scan {
        count,
        reverse,
        carries,
        consts,
        xs,
        body: body.graph,
    }
}

fn run(b: Build, z: NodeId) -> TrainingGraph {
    run_graph(&b.cross_entropy(z))
}

fn run_graph(graph: &Graph) -> TrainingGraph {
    check(graph, &context(graph, 3, false));
    check(graph, &context(graph, 3, true))
}

/// GCNII: `h' = relu((1 - beta) s + beta s W)`, `s = (1 - alpha) A dropout(h) + alpha h0`.
fn gcnii_body(width: u32) -> Build {
    let vertices = Type::vertices(width);
    let mut body = Build::body(&[vertices, vertices, Type::matrix(width, width), Type::SCALAR]);
    let (h, h0, w, beta) = (body.arg(0), body.arg(1), body.arg(2), body.arg(3));
    let h = body.dropout(0.4, 1, h);
    let a = body.propagate(h);
    let a = body.scale(0.9, a);
    let h0 = body.scale(0.1, h0);
    let s = body.add(a, h0);
    let product = body.matmul(s, w);
    let one = body.constant(1.0);
    let rest = body.binary(Binary::Sub, one, beta);
    let (own, product) = (body.mul(rest, s), body.mul(beta, product));
    let h = body.add(own, product);
    let h = body.relu(h);
    body.graph.results = vec![h];
    body
}

fn gcnii(reverse: bool) -> Graph {
    let mut b = Build::new(FEATURES);
    let x = b.features();
    let x = b.dropout(0.2, 0, x);
    let h0 = b.linear(x, 3);
    let h0 = b.relu(h0);
    let betas = (1..=4).map(|l| (0.5f32 / l as f32 + 1.0).ln()).collect();
    let betas = b.op(Op::Table(betas), &[]);
    let w = b.param(Type::matrix(3, 3).stacked(4));
    let h = b.scan(
        scan_of(gcnii_body(3), 4, reverse, [1, 1, 2]),
        &[h0, h0, w, betas],
    )[0];
    let h = b.dropout(0.3, 2, h);
    let z = b.linear(h, 2);
    b.cross_entropy(z)
}

#[test]
fn gcnii_keeps_two_tensors_a_layer() {
    for reverse in [false, true] {
        let training = run_graph(&gcnii(reverse));
        // s for the weight and the result for relu, but not the scaled degrees of every edge.
        assert_eq!(
            kept(&training),
            [Type::vertices(3).stacked(4); 2],
            "{}",
            training.graph
        );
    }
}

#[test]
fn a_scan_equals_its_layers_written_out() {
    let scanned = run_graph(&gcnii(false));
    let context = context(&scanned.graph, 3, false);
    let results = gnnc_ir::graph::eval::evaluate(&scanned.graph, &context).unwrap();
    let mut b = Build::new(FEATURES);
    let x = b.features();
    let h0 = b.linear(x, 3);
    let h0 = b.relu(h0);
    let mut h = h0;
    for l in 1..=4 {
        let a = b.propagate(h);
        let (a, own) = (b.scale(0.9, a), b.scale(0.1, h0));
        let s = b.add(a, own);
        let beta = b.constant((0.5f32 / l as f32 + 1.0).ln());
        let one = b.constant(1.0);
        let rest = b.binary(Binary::Sub, one, beta);
        let product = b.linear(s, 3);
        let (own, product) = (b.mul(rest, s), b.mul(beta, product));
        h = b.add(own, product);
        h = b.relu(h);
    }
    let z = b.linear(h, 2);
    let graph = b.cross_entropy(z);
    // Parameters: W_in, the four layers separately, W_out.
    let mut unrolled = context.clone();
    let stack = unrolled.params.remove(1);
    for l in (0..4).rev() {
        unrolled.params.insert(1, stack.element(l));
    }
    let loss = gnnc_ir::graph::eval::evaluate(&graph, &unrolled).unwrap()[0].data[0];
    assert!((loss - results[0].data[0]).abs() < 1e-12);
}

#[test]
fn a_carry_that_is_needed_on_both_sides_is_kept_once() {
    // relu needs the result, the weight needs the argument.
    let mut body = Build::body(&[Type::vertices(3), Type::matrix(3, 3)]);
    let (h, w) = (body.arg(0), body.arg(1));
    let h = body.dropout(0.3, 1, h);
    let h = body.matmul(h, w);
    let h = body.propagate(h);
    let h = body.relu(h);
    body.graph.results = vec![h];
    let mut b = Build::new(FEATURES);
    let x = b.vertex(1, 3);
    let w = b.param(Type::matrix(3, 3).stacked(4));
    let h = b.scan(scan_of(body, 4, false, [1, 0, 1]), &[x, w])[0];
    let training = run(b, h);
    assert_eq!(
        kept(&training),
        [Type::vertices(3).stacked(4)],
        "{}",
        training.graph
    );
}

#[test]
fn attention_in_a_scan_keeps_no_messages() {
    let heads = Type::new(Rows::Fixed(1), 2, 2);
    let mut body = Build::body(&[Type::vertices(4), Type::matrix(4, 4), heads, heads]);
    let [h, w, a_src, a_dst] = [0, 1, 2, 3].map(|n| body.arg(n));
    let g = body.matmul(h, w);
    let g = body.op(Op::Reshape { heads: 2, width: 2 }, &[g]);
    let mut score = |a| {
        let a = body.mul(g, a);
        body.sum_cols(gnnc_ir::kernel::Axis::Width, a)
    };
    let (src, dst) = (score(a_src), score(a_dst));
    let src = body.take(EdgeSet::Looped, gnnc_ir::kernel::End::Src, src);
    let dst = body.take(EdgeSet::Looped, gnnc_ir::kernel::End::Dst, dst);
    let e = body.add(src, dst);
    let e = body.unary(Unary::LeakyRelu(0.2), e);
    let alpha = body.op(Op::EdgeSoftmax(EdgeSet::Looped), &[e]);
    let alpha = body.dropout(0.2, 4, alpha);
    let m = body.take(EdgeSet::Looped, gnnc_ir::kernel::End::Src, g);
    let m = body.mul(alpha, m);
    let sum = gnnc_ir::kernel::Reduce::Sum;
    let o = body.gather(EdgeSet::Looped, gnnc_ir::kernel::End::Dst, sum, m);
    let o = body.op(Op::Reshape { heads: 1, width: 4 }, &[o]);
    let o = body.unary(Unary::Elu, o);
    body.graph.results = vec![o];
    let mut b = Build::new(FEATURES);
    let x = b.vertex(1, 4);
    let w = b.param(Type::matrix(4, 4).stacked(3));
    let (a_src, a_dst) = (b.param(heads.stacked(3)), b.param(heads.stacked(3)));
    let h = b.scan(scan_of(body, 3, false, [1, 0, 3]), &[x, w, a_src, a_dst])[0];
    let training = run(b, h);
    let widest = kept(&training)
        .into_iter()
        .filter(|ty| matches!(ty.rows, Rows::Edges(_)))
        .map(|ty| ty.columns())
        .max();
    // Attention weights, one per head.
    assert_eq!(widest, Some(2), "{}", training.graph);
}

#[test]
fn residual_layers_with_norms() {
    // ResGCN+: h' = h + A dropout(relu(norm(h) g)) W, with a scan over stacked parameters.
    let gain = Type::matrix(1, 3);
    let mut body = Build::body(&[Type::vertices(3), Type::matrix(3, 3), gain]);
    let [h, w, g] = [0, 1, 2].map(|n| body.arg(n));
    let n = body.layer_norm(h);
    let n = body.mul(n, g);
    let n = body.relu(n);
    let n = body.dropout(0.3, 9, n);
    let n = body.propagate(n);
    let n = body.matmul(n, w);
    let h = body.add(h, n);
    body.graph.results = vec![h];
    let mut b = Build::new(FEATURES);
    let x = b.vertex(1, 3);
    let (w, g) = (
        b.param(Type::matrix(3, 3).stacked(5)),
        b.param(gain.stacked(5)),
    );
    let h = b.scan(scan_of(body, 5, false, [1, 0, 2]), &[x, w, g])[0];
    let h = b.layer_norm(h);
    let z = b.linear(h, 2);
    let training = run(b, z);
    // Centered rows, the inverse deviation, relu's result and A n.
    let widths: Vec<u32> = kept(&training).iter().map(Type::columns).collect();
    assert!(
        widths.iter().sum::<u32>() <= 3 * 3 + 3,
        "{widths:?}\n{}",
        training.graph
    );
}

#[test]
fn every_layer_may_be_read_outside() {
    // Jumping knowledge, with DAGNN's gates: the loss reads a stack of ys, a carry and a
    // constant.
    let ty = Type::vertices(2);
    let mut body = Build::body(&[ty, ty, Type::matrix(2, 1)]);
    let [h, total, s] = [0, 1, 2].map(|n| body.arg(n));
    let h = body.propagate(h);
    let gate = body.matmul(h, s);
    let gate = body.unary(Unary::Sigmoid, gate);
    let gated = body.mul(gate, h);
    let total = body.add(total, gated);
    body.graph.results = vec![h, total, gate];
    let mut b = Build::new(FEATURES);
    let x = b.vertex(1, 2);
    let zero = b.constant(0.0);
    let zero = b.op(Op::Broadcast(ty), &[zero]);
    let s = b.param(Type::matrix(2, 1));
    let results = b.scan(scan_of(body, 3, false, [2, 1, 0]), &[x, zero, s]);
    let gates = b.unary(Unary::Exp, results[2]);
    // A second scan reads the stack of gates.
    let mut sum = Build::body(&[ty, Type::vertices(1)]);
    let (acc, gate) = (sum.arg(0), sum.arg(1));
    let acc = sum.mul(acc, gate);
    sum.graph.results = vec![acc];
    let z = b.scan(scan_of(sum, 3, true, [1, 0, 1]), &[results[1], gates])[0];
    run(b, z);
}

#[test]
fn carries_that_change_places() {
    let ty = Type::vertices(2);
    let mut body = Build::body(&[ty, ty, Type::matrix(2, 2)]);
    let [a, c, w] = [0, 1, 2].map(|n| body.arg(n));
    let product = body.mul(a, c);
    let product = body.matmul(product, w);
    let product = body.unary(Unary::Tanh, product);
    body.graph.results = vec![c, a, product];
    let mut b = Build::new(FEATURES);
    let (x, y, w) = (b.vertex(1, 2), b.vertex(1, 2), b.param(Type::matrix(2, 2)));
    let results = b.scan(scan_of(body, 3, false, [2, 1, 0]), &[x, y, w]);
    let mut sum = Build::body(&[ty, ty]);
    let (acc, item) = (sum.arg(0), sum.arg(1));
    let acc = sum.add(acc, item);
    sum.graph.results = vec![acc];
    let z = b.scan(scan_of(sum, 3, false, [1, 0, 1]), &[results[0], results[2]])[0];
    run(b, z);
}

#[test]
fn a_carry_that_starts_from_a_constant() {
    // The sum starts without a gradient and later gets one; one carry never does.
    let ty = Type::vertices(2);
    let mut body = Build::body(&[ty, Type::SCALAR, ty, Type::matrix(2, 2)]);
    let [sum, step, x, w] = [0, 1, 2, 3].map(|n| body.arg(n));
    let x = body.mul(x, step);
    let x = body.matmul(x, w);
    let x = body.unary(Unary::Tanh, x);
    let sum = body.add(sum, x);
    let one = body.constant(1.0);
    let step = body.add(step, one);
    body.graph.results = vec![sum, step];
    let mut b = Build::new(FEATURES);
    let (one, zero) = (b.constant(1.0), b.constant(0.0));
    let zero = b.op(Op::Broadcast(ty), &[zero]);
    let x = b.vertex(1, 2);
    let w = b.param(Type::matrix(2, 2));
    let results = b.scan(scan_of(body, 3, false, [2, 2, 0]), &[zero, one, x, w]);
    let z = b.mul(results[0], results[1]);
    run(b, z);
}

#[test]
fn stacked_parameters_may_be_computed_with() {
    let mut body = Build::body(&[Type::vertices(2), Type::matrix(2, 2)]);
    let (h, w) = (body.arg(0), body.arg(1));
    let h = body.matmul(h, w);
    body.graph.results = vec![h];
    let mut b = Build::new(FEATURES);
    let x = b.vertex(1, 2);
    let stack = Type::matrix(2, 2).stacked(3);
    let mut w = b.param(stack);
    for f in [Unary::Tanh, Unary::Exp, Unary::Rsqrt] {
        w = b.unary(f, w);
    }
    let h = b.scan(scan_of(body, 3, false, [1, 0, 1]), &[x, w])[0];
    run(b, h);
}

#[test]
fn nested_scans() {
    // Outer layers with one matrix each, inner hops with one coefficient each; dropout in both.
    let ty = Type::vertices(2);
    let mut hop = Build::body(&[ty, ty, Type::SCALAR, Type::matrix(2, 2)]);
    let [z, u, a, v] = [0, 1, 2, 3].map(|n| hop.arg(n));
    let next = hop.propagate(z);
    let next = hop.dropout(0.3, 6, next);
    let next = hop.matmul(next, v);
    let next = hop.unary(Unary::Tanh, next);
    let u = hop.mul(a, u);
    let next = hop.add(next, u);
    hop.graph.results = vec![next];
    let coefficients = Type::SCALAR.stacked(2);
    let matrices = Type::matrix(2, 2).stacked(2);
    let mut layer = Build::body(&[ty, coefficients, matrices, Type::matrix(2, 2)]);
    let [h, a, v, w] = [0, 1, 2, 3].map(|n| layer.arg(n));
    let h = layer.dropout(0.2, 5, h);
    let h = layer.matmul(h, w);
    let h = layer.scan(scan_of(hop, 2, false, [1, 1, 2]), &[h, h, a, v])[0];
    let h = layer.unary(Unary::Elu, h);
    layer.graph.results = vec![h];
    let mut b = Build::new(FEATURES);
    let x = b.vertex(1, 2);
    let (a, v) = (b.param(coefficients), b.param(matrices));
    let w = b.param(Type::matrix(2, 2).stacked(3));
    let h = b.scan(scan_of(layer, 3, false, [1, 2, 1]), &[x, a, v, w])[0];
    let h = b.dropout(0.3, 7, h);
    let z = b.linear(h, 2);
    run(b, z);
}

#[test]
fn a_stack_of_stacks_is_refused() {
    let stack = Type::SCALAR.stacked(2);
    let mut body = Build::body(&[stack]);
    let c = body.arg(0);
    let square = body.mul(c, c);
    body.graph.results = vec![square];
    let mut b = Build::new(FEATURES);
    let c = b.param(stack);
    let last = b.scan(scan_of(body, 3, false, [1, 0, 0]), &[c])[0];
    let mut product = Build::body(&[Type::vertices(2), Type::SCALAR]);
    let (h, c) = (product.arg(0), product.arg(1));
    let h = product.mul(h, c);
    product.graph.results = vec![h];
    let x = b.vertex(1, 2);
    let z = b.scan(scan_of(product, 2, false, [1, 0, 1]), &[x, last])[0];
    let error = differentiate(&b.cross_entropy(z)).unwrap_err();
    assert_eq!(
        error,
        AutodiffError::StackedCarry {
            carry: 0,
            ty: stack
        }
    );
}
