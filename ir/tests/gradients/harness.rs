//! Small data graphs, a concise way to build models, and central differences.

use gnnc_ir::graph::Init;
use gnnc_ir::graph::autodiff::{TrainingGraph, differentiate};
use gnnc_ir::graph::eval::{DropoutKey, EvalBatch, EvalContext, EvalLayer, Tensor, evaluate};
use gnnc_ir::graph::op::{Input, Scan};
use gnnc_ir::kernel::{Axis, End, Reduce};
use gnnc_ir::{Binary, EdgeSet, Graph, NodeId, Op, ParamId, ParamSpec, Rows, Type, Unary};

/// One step of splitmix64.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number in -1 .. 1.
fn uniform(state: &mut u64) -> f64 {
    (next(state) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// A graph under construction.
pub struct Build {
    pub graph: Graph,
}

impl Build {
    pub fn new(features: u32) -> Self {
        Self {
            graph: Graph::new(features),
        }
    }

    pub fn body(args: &[Type]) -> Self {
        Self {
            graph: Graph::body(FEATURES, args.to_vec()),
        }
    }

    pub fn op(&mut self, op: Op, inputs: &[NodeId]) -> NodeId {
        self.graph.add(op, inputs, 0).unwrap()
    }

    pub fn param(&mut self, ty: Type) -> NodeId {
        let name = format!("p{}", self.graph.params.len());
        let id = self.graph.param(ParamSpec {
            name,
            ty,
            init: Init::Zeros,
            decay: None,
            shard: None,
            element: None,
        });
        self.op(Op::Param(id), &[])
    }

    pub fn constant(&mut self, value: f32) -> NodeId {
        self.op(Op::Const(value), &[])
    }

    pub fn features(&mut self) -> NodeId {
        self.op(Op::Input(Input::Features), &[])
    }

    pub fn arg(&mut self, n: u32) -> NodeId {
        self.op(Op::Arg(n), &[])
    }

    pub fn unary(&mut self, f: Unary, x: NodeId) -> NodeId {
        self.op(Op::Unary(f), &[x])
    }

    pub fn binary(&mut self, f: Binary, a: NodeId, b: NodeId) -> NodeId {
        self.op(Op::Binary(f), &[a, b])
    }

    pub fn add(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.binary(Binary::Add, a, b)
    }

    pub fn mul(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.binary(Binary::Mul, a, b)
    }

    pub fn scale(&mut self, factor: f32, x: NodeId) -> NodeId {
        let factor = self.constant(factor);
        self.mul(factor, x)
    }

    pub fn matmul(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.op(Op::MatMul, &[a, b])
    }

    /// `x . W` with a new parameter.
    pub fn linear(&mut self, x: NodeId, width: u32) -> NodeId {
        let columns = self.graph.ty(x).columns();
        let weight = self.param(Type::matrix(columns, width));
        self.matmul(x, weight)
    }

    pub fn relu(&mut self, x: NodeId) -> NodeId {
        self.unary(Unary::Relu, x)
    }

    pub fn dropout(&mut self, p: f32, site: u32, x: NodeId) -> NodeId {
        self.op(
            Op::Dropout {
                p,
                site: site.into(),
                slice: None,
            },
            &[x],
        )
    }

    pub fn take(&mut self, set: EdgeSet, end: End, x: NodeId) -> NodeId {
        self.op(Op::Take(set, end), &[x])
    }

    pub fn gather(&mut self, set: EdgeSet, end: End, reduce: Reduce, x: NodeId) -> NodeId {
        self.op(Op::Gather(set, end, reduce), &[x])
    }

    /// The sum over in-neighbors.
    pub fn neighbour_sum(&mut self, set: EdgeSet, x: NodeId) -> NodeId {
        let x = self.take(set, End::Src, x);
        self.gather(set, End::Dst, Reduce::Sum, x)
    }

    /// The mean over in-neighbors.
    pub fn neighbour_mean(&mut self, x: NodeId) -> NodeId {
        let x = self.take(EdgeSet::Plain, End::Src, x);
        self.op(Op::GatherMean(EdgeSet::Plain), &[x])
    }

    /// The symmetrically normalized sum with self loops.
    pub fn propagate(&mut self, x: NodeId) -> NodeId {
        let into = self.op(Op::Input(Input::InDegree(EdgeSet::Looped)), &[]);
        let out = self.op(Op::Input(Input::OutDegree(EdgeSet::Looped)), &[]);
        let (into, out) = (
            self.unary(Unary::Rsqrt, into),
            self.unary(Unary::Rsqrt, out),
        );
        let (dst, src) = (
            self.take(EdgeSet::Looped, End::Dst, into),
            self.take(EdgeSet::Looped, End::Src, out),
        );
        let weight = self.mul(dst, src);
        let x = self.take(EdgeSet::Looped, End::Src, x);
        let x = self.mul(weight, x);
        self.gather(EdgeSet::Looped, End::Dst, Reduce::Sum, x)
    }

    /// The sum over one axis of each row.
    pub fn sum_cols(&mut self, axis: Axis, x: NodeId) -> NodeId {
        self.op(Op::ReduceCols(axis, Reduce::Sum), &[x])
    }

    /// Layer norm over the columns of a row, without scale and shift.
    pub fn layer_norm(&mut self, x: NodeId) -> NodeId {
        let share = 1.0 / self.graph.ty(x).width as f32;
        let mean = self.sum_cols(Axis::Width, x);
        let mean = self.scale(share, mean);
        let centred = self.binary(Binary::Sub, x, mean);
        let square = self.mul(centred, centred);
        let variance = self.sum_cols(Axis::Width, square);
        let variance = self.scale(share, variance);
        let epsilon = self.constant(1e-5);
        let variance = self.add(variance, epsilon);
        let inverse = self.unary(Unary::Rsqrt, variance);
        self.mul(centred, inverse)
    }

    /// A vertex tensor that depends on a new parameter.
    pub fn vertex(&mut self, heads: u32, width: u32) -> NodeId {
        let x = self.features();
        let x = self.linear(x, heads * width);
        self.op(Op::Reshape { heads, width }, &[x])
    }

    /// An edge tensor that depends on two new parameters.
    pub fn edges(&mut self, set: EdgeSet, heads: u32, width: u32) -> NodeId {
        let (src, dst) = (self.vertex(heads, width), self.vertex(heads, width));
        let (src, dst) = (self.take(set, End::Src, src), self.take(set, End::Dst, dst));
        // A product, because a value added to all edges of a vertex would cancel in a softmax.
        self.mul(src, dst)
    }

    /// A parameter with positive elements.
    pub fn positive(&mut self, ty: Type) -> NodeId {
        let x = self.param(ty);
        let x = self.mul(x, x);
        let least = self.constant(0.3);
        self.add(x, least)
    }

    /// Adds a scan and returns its results.
    pub fn scan(&mut self, scan: Scan, operands: &[NodeId]) -> Vec<NodeId> {
        let count = scan.body.results.len() as u32;
        let id = self.op(Op::Scan(Box::new(scan)), operands);
        (0..count).map(|n| self.op(Op::Out(n), &[id])).collect()
    }

    /// Finishes with the sum of squares of all elements of `y` as the loss, and `y` as logits.
    pub fn squares(mut self, y: NodeId) -> Graph {
        let loss = self.mul(y, y);
        let loss = self.op(Op::SumRows, &[loss]);
        let loss = self.sum_cols(Axis::Heads, loss);
        let loss = self.sum_cols(Axis::Width, loss);
        self.graph.results = vec![loss, y];
        self.graph
    }

    /// Cross-entropy of logits.
    pub fn cross_entropy(mut self, z: NodeId) -> Graph {
        let loss = self.op(Op::Loss(gnnc_ir::graph::op::Loss::CROSS_ENTROPY), &[z]);
        self.graph.results = vec![loss, z];
        self.graph
    }
}

/// Width of the features of [`context`].
pub const FEATURES: u32 = 3;
/// Vertices of the random graph; 4 and 9 are isolated.
const VERTICES: u32 = 10;

/// A random directed graph with isolated vertices, vertices without in-edges or out-edges, and
/// random parameters.
pub fn context(graph: &Graph, seed: u64, dropout: bool) -> EvalContext {
    let mut state = seed;
    let (mut indptr, mut indices) = (vec![0], Vec::new());
    for dst in 0..VERTICES {
        for src in 0..VERTICES {
            let alone = [4, 9].contains(&src) || [4, 9].contains(&dst) || dst == 2 || src == 7;
            if src != dst && !alone && next(&mut state) % 5 < 2 {
                indices.push(src);
            }
        }
        indptr.push(indices.len() as u64);
    }
    let ty = Type::vertices(FEATURES);
    let rows = VERTICES as usize;
    let mut draw = |n: usize| (0..n).map(|_| uniform(&mut state)).collect::<Vec<f64>>();
    let features = Tensor::new(ty, rows, draw(rows * FEATURES as usize));
    let history = Tensor::new(Type::vertices(2), rows, draw(rows * 2));
    let params = graph.params.iter().map(|spec| {
        let Rows::Fixed(rows) = spec.ty.rows else {
            panic!("parameters have fixed rows")
        };
        let n = rows * spec.ty.columns() * spec.ty.stack.max(1);
        Tensor::new(spec.ty, rows as usize, draw(n as usize))
    });
    let batch = Some(batch(&indptr, &indices));
    EvalContext {
        batch,
        edge_features: Vec::new(),
        sets: Vec::new(),
        types: (0..indices.len())
            .map(|edge| (edge * 5 % 7 % 3) as u16)
            .collect(),
        indptr,
        indices,
        features,
        params: params.collect(),
        labels: (0..VERTICES)
            .map(|v| if v == 3 { -1.0 } else { (v % 2) as f64 })
            .collect(),
        train: (0..VERTICES).map(|v| v != 3 && v % 4 != 1).collect(),
        dropout: dropout.then_some(DropoutKey { seed: 11, epoch: 5 }),
        histories: vec![history],
        order: (0..VERTICES).map(|v| v * 7 % 4).collect(),
        blocks: (0..VERTICES).map(|v| v % 3).collect(),
    }
}

/// A batch of two hops that begins with two vertices and keeps at most two edges into each.
fn batch(indptr: &[u64], indices: &[u32]) -> EvalBatch {
    let (mut ids, mut levels, mut layers) = (vec![1, 5], vec![2], Vec::new());
    for _ in 0..2 {
        let mut layer = EvalLayer {
            indptr: vec![0],
            indices: Vec::new(),
            scales: Vec::new(),
            types: Vec::new(),
            degrees: Vec::new(),
            features: Vec::new(),
        };
        for v in ids.clone() {
            let sources = &indices[indptr[v as usize] as usize..indptr[v as usize + 1] as usize];
            let kept = sources.len().min(2);
            for source in &sources[..kept] {
                let place = ids.iter().position(|id| id == source).unwrap_or_else(|| {
                    ids.push(*source);
                    ids.len() - 1
                });
                layer.indices.push(place as u32);
                layer.scales.push(sources.len() as f64 / kept as f64);
            }
            layer.indptr.push(layer.indices.len() as u64);
        }
        levels.insert(0, ids.len());
        layers.insert(0, layer);
    }
    EvalBatch {
        ids,
        levels,
        layers,
    }
}

/// Compares the gradients of all parameters with central differences, to 1e-6 of the largest
/// element of a gradient. Every parameter must have a gradient that is not all zero.
pub fn check(graph: &Graph, context: &EvalContext) -> TrainingGraph {
    let (training, largest) = compare(graph, context, 0.0);
    for (spec, largest) in graph.params.iter().zip(largest) {
        let text = &training.graph;
        assert!(largest > 1e-6, "the gradient of {} is 0\n{text}", spec.name);
    }
    training
}

/// Returns the training graph and the largest element of every gradient. Gradients may be
/// absent or 0, and may differ from central differences by 1e-6 of `max(largest, floor)`.
pub fn compare(graph: &Graph, context: &EvalContext, floor: f64) -> (TrainingGraph, Vec<f64>) {
    let training = differentiate(graph).unwrap_or_else(|e| panic!("{e}\n{graph}"));
    training.graph.verify().unwrap();
    let results = evaluate(&training.graph, context).unwrap();
    let before = evaluate(graph, context).unwrap();
    for n in [training.loss, training.logits] {
        for (a, b) in before[n].data.iter().zip(&results[n].data) {
            let close = (a - b).abs() <= 1e-12 * a.abs().max(1.0);
            assert!(close, "result {n} changed: {a} {b}\n{graph}");
        }
    }
    let mut sizes = Vec::new();
    for (p, spec) in graph.params.iter().enumerate() {
        let zero = Tensor::full(spec.ty, context.params[p].rows, 0.0);
        let grad = training.grads[p].map_or(&zero, |n| &results[n]);
        assert_eq!(grad.ty, spec.ty);
        let largest = grad.data.iter().fold(0.0f64, |m, g| m.max(g.abs()));
        sizes.push(largest);
        for (i, found) in grad.data.iter().enumerate() {
            let expected = difference(graph, context, ParamId(p as u32), i);
            assert!(
                (found - expected).abs() <= 1e-6 * largest.max(floor),
                "{}[{i}]: gradient {found}, central difference {expected}\n{graph}\n{}",
                spec.name,
                training.graph
            );
        }
    }
    (training, sizes)
}

/// The central difference of the loss for one element of a parameter, extrapolated from two
/// steps (Richardson), so that steps large enough for the rounding of the loss are still
/// accurate.
fn difference(graph: &Graph, context: &EvalContext, param: ParamId, i: usize) -> f64 {
    let loss = |step: f64| {
        let mut context = context.clone();
        context.params[param.0 as usize].data[i] += step;
        evaluate(graph, &context).unwrap()[0].data[0]
    };
    let central = |h: f64| (loss(h) - loss(-h)) / (2.0 * h);
    let h = 2e-5;
    (4.0 * central(h / 2.0) - central(h)) / 3.0
}
