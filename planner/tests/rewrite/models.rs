//! Models as graphs, as a person would write them: message by message.

use crate::text;
use gnnc_ir::graph::op::{Input, Loss, Scan};
use gnnc_ir::graph::{Init, ParamSpec};
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::{Binary, EdgeSet, Graph, NodeId, Op, Type, Unary};

/// The graph convolution with symmetric normalization as an edge weight, then the product.
pub fn gcn(features: u32, widths: &[u32], dropout: bool) -> Graph {
    let mut text = format!("features {features}\n");
    let mut h = "features".to_owned();
    let mut input = features;
    for (i, width) in widths.iter().enumerate() {
        let n = i + 1;
        text += &format!("scope gcn_{n}\nparams w{n}: {input} x {width}, b{n}: 1 x {width}\n");
        if dropout {
            text += &format!("let d{n} = (dropout 0.5 {i} {h})\n");
            h = format!("d{n}");
        }
        text += &format!(
            "let m{n} = (mul (take+ src {h}) (rsqrt (mul (take+ src out_degree+) (take+ dst in_degree+))))\n\
             let h{n} = (add (matmul (gather+ sum dst m{n}) w{n}) b{n})\n"
        );
        h = format!("h{n}");
        if n < widths.len() {
            text += &format!("let r{n} = (relu h{n})\n");
            h = format!("r{n}");
        }
        input = *width;
    }
    text += &format!("result (cross_entropy {h})\nresult {h}\n");
    text::graph(&text)
}

/// GraphSAGE with the mean and one matrix.
pub fn sage(features: u32, widths: &[u32], dropout: bool) -> Graph {
    let mut text = format!("features {features}\n");
    let mut h = "features".to_owned();
    let mut input = features;
    for (i, width) in widths.iter().enumerate() {
        let n = i + 1;
        text += &format!(
            "scope sage_{n}\nparams w{n}: {} x {width}, b{n}: 1 x {width}\n",
            2 * input
        );
        if dropout {
            text += &format!("let d{n} = (dropout 0.5 {i} {h})\n");
            h = format!("d{n}");
        }
        text +=
            &format!("let h{n} = (add (matmul (concat {h} (mean (take src {h}))) w{n}) b{n})\n");
        h = format!("h{n}");
        if n < widths.len() {
            text += &format!("let r{n} = (relu h{n})\n");
            h = format!("r{n}");
        }
        input = *width;
    }
    text += &format!("result (cross_entropy {h})\nresult {h}\n");
    text::graph(&text)
}

/// Graph attention, with scores from the concatenation of both ends; `(heads, width)` of each
/// layer.
pub fn gat(features: u32, layers: &[(u32, u32)]) -> Graph {
    let mut text = format!("features {features}\n");
    let mut h = "features".to_owned();
    let mut input = features;
    for (i, (heads, width)) in layers.iter().enumerate() {
        let (n, columns) = (i + 1, heads * width);
        let double = 2 * width;
        text += &format!(
            "scope gat_{n}\nparams w{n}: {input} x {columns}, a{n}: 1 x {heads} x {double}\n\
             let d{n} = (dropout 0.6 {i} {h})\n\
             let g{n} = (reshape {heads} {width} (matmul d{n} w{n}))\n\
             let s{n} = (reduce width sum (mul (concat (take+ dst g{n}) (take+ src g{n})) a{n}))\n\
             let p{n} = (softmax+ (leaky_relu 0.2 s{n}))\n\
             let o{n} = (gather+ sum dst (mul (dropout 0.6 {} p{n}) (take+ src g{n})))\n\
             let h{n} = (elu (reshape 1 {columns} o{n}))\n",
            i + 10
        );
        h = format!("h{n}");
        input = columns;
    }
    text += &format!("result (cross_entropy {h})\nresult {h}\n");
    text::graph(&text)
}

/// GIN with a two-layer perceptron.
pub fn gin(features: u32, hidden: u32, depth: u32) -> Graph {
    let mut text = format!("features {features}\n");
    let mut h = "features".to_owned();
    let mut input = features;
    for n in 1..=depth {
        text += &format!(
            "scope gin_{n}\nparams e{n}: 1 x 1, u{n}: {input} x {hidden}, v{n}: {hidden} x {hidden}\n\
             let s{n} = (add (mul (add 1 e{n}) {h}) (gather sum dst (take src {h})))\n\
             let h{n} = (relu (matmul (relu (matmul s{n} u{n})) v{n}))\n"
        );
        h = format!("h{n}");
        input = hidden;
    }
    text += &format!("result (cross_entropy {h})\nresult {h}\n");
    text::graph(&text)
}

/// SGC: two propagations, then one product.
pub fn sgc(features: u32, classes: u32) -> Graph {
    let norm = "(rsqrt (mul (take+ src out_degree+) (take+ dst in_degree+)))";
    text::graph(&format!(
        "features {features}\nparams w: {features} x {classes}\n\
         let a = (gather+ sum dst (mul (take+ src features) {norm}))\n\
         let b = (gather+ sum dst (mul (take+ src a) {norm}))\n\
         let z = (matmul b w)\nresult (cross_entropy z)\nresult z\n"
    ))
}

/// GCNII: `depth` layers as one scan.
pub fn gcnii(features: u32, hidden: u32, classes: u32, depth: u32) -> Graph {
    let tensor = Type::vertices(hidden);
    let args = vec![tensor, tensor, Type::matrix(hidden, hidden), Type::SCALAR];
    let mut body = Graph::body(features, args);
    let scope = body.scope("gcnii_conv");
    let mut b = Writer {
        graph: &mut body,
        scope,
    };
    let (h, h0) = (b.op(Op::Arg(0), &[]), b.op(Op::Arg(1), &[]));
    let (w, beta) = (b.op(Op::Arg(2), &[]), b.op(Op::Arg(3), &[]));
    let h = b.op(
        Op::Dropout {
            p: 0.6,
            site: 1.into(),
            slice: None,
        },
        &[h],
    );
    let p = b.propagate(h);
    let p = b.scaled(0.9, p);
    let first = b.scaled(0.1, h0);
    let s = b.binary(Binary::Add, p, first);
    let transformed = b.op(Op::MatMul, &[s, w]);
    let one = b.op(Op::Const(1.0), &[]);
    let rest = b.binary(Binary::Sub, one, beta);
    let kept = b.binary(Binary::Mul, rest, s);
    let transformed = b.binary(Binary::Mul, beta, transformed);
    let sum = b.binary(Binary::Add, kept, transformed);
    let next = b.op(Op::Unary(Unary::Relu), &[sum]);
    body.results = vec![next];

    let mut graph = Graph::new(features);
    let mut param = |name: &str, ty: Type| {
        let spec = ParamSpec {
            name: name.into(),
            ty,
            init: Init::Zeros,
            decay: None,
            shard: None,
            element: None,
        };
        graph.param(spec)
    };
    let first = param("in", Type::matrix(features, hidden));
    let middle = param("conv", Type::matrix(hidden, hidden).stacked(depth));
    let last = param("out", Type::matrix(hidden, classes));
    let mut b = Writer {
        graph: &mut graph,
        scope: 0,
    };
    let x = b.op(Op::Input(Input::Features), &[]);
    let x = b.op(
        Op::Dropout {
            p: 0.6,
            site: 0.into(),
            slice: None,
        },
        &[x],
    );
    let w = b.op(Op::Param(first), &[]);
    let h = b.op(Op::MatMul, &[x, w]);
    let h0 = b.op(Op::Unary(Unary::Relu), &[h]);
    let w = b.op(Op::Param(middle), &[]);
    let betas = (1..=depth).map(|i| (0.5 / i as f32 + 1.0).ln()).collect();
    let betas = b.op(Op::Table(betas), &[]);
    let scan = Scan {
        count: depth,
        reverse: false,
        carries: 1,
        consts: 1,
        xs: 2,
        body,
    };
    let scan = b.op(Op::Scan(Box::new(scan)), &[h0, h0, w, betas]);
    let h = b.op(Op::Out(0), &[scan]);
    let h = b.op(
        Op::Dropout {
            p: 0.6,
            site: 2.into(),
            slice: None,
        },
        &[h],
    );
    let w = b.op(Op::Param(last), &[]);
    let z = b.op(Op::MatMul, &[h, w]);
    let loss = b.op(Op::Loss(Loss::CROSS_ENTROPY), &[z]);
    graph.results = vec![loss, z];
    graph.verify().unwrap();
    graph
}

struct Writer<'a> {
    graph: &'a mut Graph,
    scope: u32,
}

impl Writer<'_> {
    fn op(&mut self, op: Op, inputs: &[NodeId]) -> NodeId {
        self.graph.add(op, inputs, self.scope).unwrap()
    }

    fn binary(&mut self, f: Binary, a: NodeId, b: NodeId) -> NodeId {
        self.op(Op::Binary(f), &[a, b])
    }

    fn scaled(&mut self, by: f32, x: NodeId) -> NodeId {
        let by = self.op(Op::Const(by), &[]);
        self.binary(Binary::Mul, by, x)
    }

    /// The sum over neighbors and the vertex itself, with symmetric normalization on the edges.
    fn propagate(&mut self, h: NodeId) -> NodeId {
        let set = EdgeSet::Looped;
        let rows = self.op(Op::Take(set, End::Src), &[h]);
        let out = self.op(Op::Input(Input::OutDegree(set)), &[]);
        let into = self.op(Op::Input(Input::InDegree(set)), &[]);
        let out = self.op(Op::Take(set, End::Src), &[out]);
        let into = self.op(Op::Take(set, End::Dst), &[into]);
        let product = self.binary(Binary::Mul, out, into);
        let norm = self.op(Op::Unary(Unary::Rsqrt), &[product]);
        let message = self.binary(Binary::Mul, rows, norm);
        self.op(Op::Gather(set, End::Dst, Reduce::Sum), &[message])
    }
}
