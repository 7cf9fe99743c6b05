//! A deep graph convolution as a program, and graphs for it.

use gnnc_ir::graph::op::Loss;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, End, Kernel, Operand, Reduce};
use gnnc_ir::program::instr;
use gnnc_ir::program::{
    Buffer, BufferId, Extent, Instr, KernelId, Launch, Matrix, Product, Program, Ref, Role,
};
use gnnc_ir::words::types::EdgeSet;
use gnnc_ir::workload::{Origin, Workload};
use std::collections::BTreeMap;

/// Shape of the model.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub features: u32,
    pub hidden: u32,
    pub layers: u32,
    pub classes: u32,
}

impl Shape {
    /// Number of trainable floats.
    pub fn params(&self) -> u64 {
        let [f, h, l, c] = [self.features, self.hidden, self.layers, self.classes].map(u64::from);
        f * h + (l - 2) * h * h + h * c
    }
}

pub fn workload(
    name: &str,
    vertices: u64,
    edges: u64,
    shape: Shape,
    alpha: &[(u32, f64)],
) -> Workload {
    Workload {
        edge_sets: Vec::new(),
        name: name.to_owned(),
        origin: Origin::Declared,
        vertices,
        edges,
        features: shape.features,
        feature_nonzeros: vertices * u64::from(shape.features),
        identity_features: false,
        column_nonzeros: Vec::new(),
        classes: shape.classes,
        vertex_types: 0,
        relations: 0,
        edge_features: 0,
        split: [0; 3],
        max_degree: 0,
        max_out_degree: 0,
        degree_histogram: Vec::new(),
        reuse: Vec::new(),
        replication: BTreeMap::from_iter(alpha.iter().copied()),
        partitions: BTreeMap::new(),
    }
}

pub const HIDDEN: BufferId = BufferId(1);

pub fn at(buffer: u32) -> Ref {
    Ref::first(BufferId(buffer))
}

fn in_loop(buffer: u32) -> Ref {
    Ref {
        in_loop: true,
        ..at(buffer)
    }
}

fn gather(to: End, width: u32) -> Kernel {
    let source = if to == End::Dst { At::Src } else { At::Dst };
    Kernel {
        body: Body::Gather {
            set: EdgeSet::Plain,
            to,
            reduce: Reduce::Sum,
            value: Expr::leaf(Value::Load(0)),
            finish: Expr::leaf(Value::Acc),
        },
        heads: 1,
        width,
        inputs: vec![Operand::dense(source, 1, width)],
        outputs: vec![Operand::dense(At::Row, 1, width)],
        masks: Vec::new(),
        scalars: 0,
    }
}

fn launch(kernel: u32, rows: Extent, input: Ref, output: Ref) -> Instr {
    Instr::Launch(Launch {
        kernel: KernelId(kernel),
        rows,
        inputs: vec![input],
        outputs: vec![output],
        scalars: Vec::new(),
        sites: Vec::new(),
        lists: Vec::new(),
        chunk: None,
    })
}

fn product(product: Product, operands: [(Ref, u32); 3], inner: u32, columns: u32) -> Instr {
    let [a, b, out] = operands.map(|(at, stride)| Matrix {
        at,
        offset: 0,
        stride,
    });
    Instr::MatMul(instr::MatMul {
        product,
        a,
        b,
        out,
        rows: Extent::Inner,
        inner,
        columns,
        finish: None,
        chunk: None,
    })
}

/// `x W_in`, then `layers` aggregations of width `hidden`, each with a product, then `W_out`;
/// backward the same. Every aggregation exchanges halo rows, in both directions.
pub fn program(ranks: u32, shape: Shape) -> Program {
    let Shape {
        features: f,
        hidden: h,
        layers,
        classes: c,
    } = shape;
    let buffer = |name: &str, extent, columns, slots, role| Buffer {
        name: name.to_owned(),
        extent,
        columns,
        slots,
        role,
        storage: Default::default(),
    };
    let fixed = |rows| Extent::Fixed(rows);
    let buffers = vec![
        buffer("x", Extent::Inner, f, 1, Role::Features),
        buffer("h", Extent::Local, h, 1, Role::Temp),
        buffer("saved", Extent::Inner, h, layers, Role::Temp),
        buffer("w_in", fixed(f), h, 1, Role::Param(0)),
        buffer("w", fixed(h), h, layers - 2, Role::Param(1)),
        buffer("w_out", fixed(h), c, 1, Role::Param(2)),
        buffer("dw_in", fixed(f), h, 1, Role::Temp),
        buffer("dw", fixed(h), h, layers - 2, Role::Temp),
        buffer("dw_out", fixed(h), c, 1, Role::Temp),
        buffer("logits", Extent::Inner, c, 1, Role::Temp),
        buffer("d_logits", Extent::Inner, c, 1, Role::Temp),
        buffer("dh", Extent::Local, h, 1, Role::Temp),
        buffer("dp", Extent::Inner, h, 1, Role::Temp),
        buffer("loss", fixed(1), 1, 1, Role::Result),
        buffer("counts", fixed(6), 1, 1, Role::Result),
    ];
    let forward = || {
        let body = vec![
            Instr::HaloExchange(instr::HaloExchange::of(at(1))),
            launch(0, Extent::Inner, at(1), in_loop(2)),
            product(
                Product::Nn,
                [(in_loop(2), h), (in_loop(4), h), (at(1), h)],
                h,
                h,
            ),
        ];
        vec![
            product(Product::Nn, [(at(0), f), (at(3), h), (at(1), h)], f, h),
            Instr::Repeat(instr::Repeat {
                count: layers,
                reverse: false,
                body,
            }),
            product(Product::Nn, [(at(1), h), (at(5), c), (at(9), c)], h, c),
        ]
    };
    let mut step = forward();
    let backward = vec![
        product(
            Product::Tn,
            [(in_loop(2), h), (at(11), h), (in_loop(7), h)],
            h,
            h,
        ),
        product(
            Product::Nt,
            [(at(11), h), (in_loop(4), h), (at(12), h)],
            h,
            h,
        ),
        launch(1, Extent::Local, at(12), at(11)),
        Instr::HaloReduce(instr::HaloReduce::of(at(11))),
    ];
    let loss = Loss::CROSS_ENTROPY;
    step.extend([
        Instr::Loss(instr::Loss {
            loss: loss.clone(),
            logits: at(9),
            out: Some(at(13)),
            grad: Some(at(10)),
            classes: c,
        }),
        product(Product::Tn, [(at(1), h), (at(10), c), (at(8), c)], h, c),
        product(Product::Nt, [(at(10), c), (at(5), c), (at(11), h)], c, h),
        Instr::Repeat(instr::Repeat {
            count: layers,
            reverse: true,
            body: backward,
        }),
        product(Product::Tn, [(at(0), f), (at(11), h), (at(6), h)], f, h),
    ]);
    let mut eval = forward();
    eval.push(Instr::Metrics(instr::Metrics {
        loss,
        logits: at(9),
        out: at(14),
        classes: c,
    }));
    if ranks > 1 {
        step.push(Instr::AllReduce(instr::AllReduce::whole(vec![
            BufferId(6),
            BufferId(7),
            BufferId(8),
        ])));
        eval.push(Instr::AllReduce(instr::AllReduce::whole(vec![BufferId(
            14,
        )])));
    }
    Program {
        ranks,
        buffers,
        kernels: vec![gather(End::Dst, h), gather(End::Src, h)],
        step,
        eval,
        loss: Some(BufferId(13)),
        metrics: Some(BufferId(14)),
        ..Program::default()
    }
}
