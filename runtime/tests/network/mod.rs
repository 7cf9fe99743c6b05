//! A small network as a hand-written program, and the same in plain double precision.
//!
//! `relu(A x W1 + b)`, then two layers `relu(h U_i)` in a loop, dropout, `A h W2`; `A` is the
//! symmetrically normalized adjacency matrix with self loops. Uses momentum, whose first step
//! equals plain gradient descent.
#![allow(dead_code)]

pub mod builder;
mod reference;
pub mod staged;

use builder::*;
use gnnc_ir::EdgeSet;
use gnnc_ir::graph::op::Loss;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, End, Mask, Operand, Over, Reduce};
use gnnc_ir::program::instr;
use gnnc_ir::program::*;
use gnnc_ir::words::scalar::{Binary, Unary};

pub const LAYERS: u32 = 2;
const DROP: f32 = 0.5;

/// Sizes and kind of a network.
#[derive(Clone, Copy)]
pub struct Network {
    pub ranks: u32,
    pub features: u32,
    pub hidden: u32,
    pub classes: u32,
    pub sparse: bool,
    pub dropout: bool,
}

impl Network {
    pub fn program(&self) -> Program {
        let Network {
            features: f,
            hidden: h,
            classes: c,
            ..
        } = *self;
        let program = Program {
            ranks: self.ranks,
            sparse_features: self.sparse,
            ..Program::default()
        };
        let mut b = Builder { program };
        let (inner, local) = (Extent::Inner, Extent::Local);
        let x = match self.sparse {
            true => b.buffer("values", Extent::FeatureNonzeros, 1, 1, Role::FeatureValues),
            false => b.buffer("x", inner, f, 1, Role::Features),
        };
        let degree = b.buffer(
            "degree",
            local,
            1,
            1,
            Role::Degree(EdgeSet::Looped, End::Dst),
        );
        let scale = b.buffer("scale", local, 1, 1, Role::Static);
        let (w1, w1_state, w1_grad) = b.param("w1", f, h, 1);
        let (bias, bias_state, bias_grad) = b.param("b", 1, h, 1);
        let (u, u_state, u_grad) = b.param("u", h, h, LAYERS);
        let (w2, w2_state, w2_grad) = b.param("w2", h, c, 1);
        let loss = b.buffer("loss", Extent::Fixed(1), 1, 1, Role::Result);
        let metrics = b.buffer("metrics", Extent::Fixed(METRICS), 1, 1, Role::Result);
        let xw = b.buffer("xw", local, h, 1, Role::Temp);
        let hs = b.buffer("hs", inner, h, LAYERS + 1, Role::Temp);
        let dropped = b.buffer("dropped", inner, h, 1, Role::Temp);
        let hw = b.buffer("hw", local, c, 1, Role::Temp);
        let logits = b.buffer("logits", inner, c, 1, Role::Temp);
        let d_logits = b.buffer("d logits", inner, c, 1, Role::Temp);
        let d_hw = b.buffer("d hw", local, c, 1, Role::Temp);
        let dh = b.buffer("dh", inner, h, LAYERS + 1, Role::Temp);
        let d_xw = b.buffer("d xw", local, h, 1, Role::Temp);
        let dense_x = b.buffer("dense x", inner, f, 1, Role::Temp);

        let row = |w: u32| Operand::dense(At::Row, 1, w);
        let each = |at: At| Operand {
            at,
            stride: 1,
            offset: 0,
            head_step: 0,
            column_step: 0,
            storage: Default::default(),
            picked: None,
        };
        let map = |values: Vec<Expr>| Body::Map {
            over: Over::Rows,
            values,
        };
        let (load, acc) = (Value::Load, Value::Acc);

        let rsqrt = expr(|e| {
            let x = e.push(load(0));
            e.push(Value::Unary(Unary::Rsqrt, x));
        });
        let rsqrt = b.kernel(map(vec![rsqrt]), 1, vec![each(At::Row)], vec![row(1)]);
        b.program.setup.push(Instr::Launch(launch(
            rsqrt,
            local,
            &[at(degree)],
            &[at(scale)],
        )));

        let gather = |to, finish| Body::Gather {
            set: EdgeSet::Looped,
            to,
            reduce: Reduce::Sum,
            value: scaled(load(0), load(1), &[]),
            finish,
        };
        let spread = |end, w| Operand::dense(end, 1, w);
        let layer1 = gather(
            End::Dst,
            expr(|e| {
                let (a, s, bias) = (e.push(acc), e.push(load(2)), e.push(load(3)));
                let scaled = e.push(Value::Binary(Binary::Mul, a, s));
                let sum = e.push(Value::Binary(Binary::Add, scaled, bias));
                e.push(Value::Unary(Unary::Relu, sum));
            }),
        );
        let layer1 = b.kernel(
            layer1,
            h,
            vec![
                spread(At::Src, h),
                each(At::Src),
                each(At::Row),
                Operand::dense(At::One, 1, h),
            ],
            vec![row(h)],
        );
        let relu = expr(|e| {
            let x = e.push(load(0));
            e.push(Value::Unary(Unary::Relu, x));
        });
        let relu = b.kernel(map(vec![relu]), h, vec![row(h)], vec![row(h)]);
        let drop = b.kernel(
            map(vec![scaled(load(0), Value::Mask(0), &[])]),
            h,
            vec![row(h)],
            vec![row(h)],
        );
        let mask = Mask {
            p: DROP,
            at: At::Row,
            first: 0,
            head_step: 0,
            column_step: u32::from(h > 1),
        };
        b.program.kernels[drop.0 as usize].masks = vec![mask];
        let copy = b.kernel(
            map(vec![Expr::leaf(load(0))]),
            h,
            vec![row(h)],
            vec![row(h)],
        );
        let last = gather(End::Dst, scaled(acc, load(2), &[]));
        let last = b.kernel(
            last,
            c,
            vec![spread(At::Src, c), each(At::Src), each(At::Row)],
            vec![row(c)],
        );
        let back = |b: &mut Builder, w| {
            let body = gather(End::Src, scaled(acc, load(2), &[]));
            b.kernel(
                body,
                w,
                vec![spread(At::Dst, w), each(At::Dst), each(At::Row)],
                vec![row(w)],
            )
        };
        let (back_c, back_h) = (back(&mut b, c), back(&mut b, h));
        // Derivative of relu, from its result, in place.
        let step = expr(|e| {
            let (g, y) = (e.push(load(0)), e.push(load(1)));
            let step = e.push(Value::Unary(Unary::Step, y));
            e.push(Value::Binary(Binary::Mul, g, step));
        });
        let step = b.kernel(map(vec![step]), h, vec![row(h), row(h)], vec![row(h)]);
        let sum_rows = Body::ColReduce {
            over: Over::Rows,
            value: Expr::leaf(load(0)),
        };
        let sum_rows = b.kernel(
            sum_rows,
            h,
            vec![row(h)],
            vec![Operand::dense(At::One, 1, h)],
        );

        let x_product = |product, other: Matrix, out: Matrix| match self.sparse {
            true => Instr::SparseMatMul(instr::SparseMatMul {
                product,
                values: at(x),
                b: other,
                out,
                inner: f,
                columns: h,
            }),
            false => Instr::MatMul(instr::MatMul {
                product,
                a: matrix(at(x), f),
                b: other,
                out,
                rows: inner,
                inner: f,
                columns: h,
                finish: None,
                chunk: None,
            }),
        };
        let product =
            |product, a: Ref, b: (Ref, u32), out: (Ref, u32), sizes: (u32, u32), finish| {
                Instr::MatMul(instr::MatMul {
                    product,
                    a: matrix(a, sizes.0),
                    b: matrix(b.0, b.1),
                    out: matrix(out.0, out.1),
                    rows: inner,
                    inner: sizes.0,
                    columns: sizes.1,
                    finish,
                    chunk: None,
                })
            };
        let exchange = |buffer| Instr::HaloExchange(instr::HaloExchange::of(at(buffer)));
        let forward = |training: bool| {
            let over = launch(relu, inner, &[looped(hs, 1)], &[looped(hs, 1)]);
            let body = vec![product(
                Product::Nn,
                looped(hs, 0),
                (looped(u, 0), h),
                (looped(hs, 1), h),
                (h, h),
                Some(over),
            )];
            let mut drop = launch(
                if training { drop } else { copy },
                inner,
                &[Ref {
                    base: LAYERS,
                    ..at(hs)
                }],
                &[at(dropped)],
            );
            if training {
                drop.sites = vec![7.into()];
            }
            vec![
                x_product(Product::Nn, matrix(at(w1), h), matrix(at(xw), h)),
                exchange(xw),
                Instr::Launch(launch(
                    layer1,
                    inner,
                    &[at(xw), at(scale), at(scale), at(bias)],
                    &[at(hs)],
                )),
                Instr::Repeat(instr::Repeat {
                    count: LAYERS,
                    reverse: false,
                    body,
                }),
                Instr::Launch(drop),
                product(
                    Product::Nn,
                    at(dropped),
                    (at(w2), c),
                    (at(hw), c),
                    (h, c),
                    None,
                ),
                exchange(hw),
                Instr::Launch(launch(
                    last,
                    inner,
                    &[at(hw), at(scale), at(scale)],
                    &[at(logits)],
                )),
            ]
        };
        let kind = Loss::CROSS_ENTROPY;
        let reduce = |buffer| Instr::HaloReduce(instr::HaloReduce::of(at(buffer)));
        let mut train = forward(self.dropout);
        let last_h = |buffer| Ref {
            base: LAYERS,
            ..at(buffer)
        };
        train.push(Instr::Loss(instr::Loss {
            loss: kind.clone(),
            logits: at(logits),
            out: Some(at(loss)),
            grad: Some(at(d_logits)),
            classes: c,
        }));
        train.push(Instr::Launch(launch(
            back_c,
            local,
            &[at(d_logits), at(scale), at(scale)],
            &[at(d_hw)],
        )));
        train.push(reduce(d_hw));
        train.push(product(
            Product::Tn,
            at(dropped),
            (at(d_hw), c),
            (at(w2_grad), c),
            (h, c),
            None,
        ));
        let mut drop_back = launch(
            if self.dropout { drop } else { copy },
            inner,
            &[last_h(dh)],
            &[last_h(dh)],
        );
        if self.dropout {
            drop_back.sites = vec![7.into()];
        }
        train.push(product(
            Product::Nt,
            at(d_hw),
            (at(w2), c),
            (last_h(dh), h),
            (c, h),
            Some(drop_back),
        ));
        train.push(Instr::Repeat(instr::Repeat {
            count: LAYERS,
            reverse: true,
            body: vec![
                Instr::Launch(launch(
                    step,
                    inner,
                    &[looped(dh, 1), looped(hs, 1)],
                    &[looped(dh, 1)],
                )),
                product(
                    Product::Tn,
                    looped(hs, 0),
                    (looped(dh, 1), h),
                    (looped(u_grad, 0), h),
                    (h, h),
                    None,
                ),
                product(
                    Product::Nt,
                    looped(dh, 1),
                    (looped(u, 0), h),
                    (looped(dh, 0), h),
                    (h, h),
                    None,
                ),
            ],
        }));
        train.push(Instr::Launch(launch(
            step,
            inner,
            &[at(dh), at(hs)],
            &[at(dh)],
        )));
        train.push(Instr::Launch(launch(
            sum_rows,
            inner,
            &[at(dh)],
            &[at(bias_grad)],
        )));
        train.push(Instr::Launch(launch(
            back_h,
            local,
            &[at(dh), at(scale), at(scale)],
            &[at(d_xw)],
        )));
        train.push(reduce(d_xw));
        if self.sparse {
            train.push(Instr::Densify(instr::Densify {
                values: at(x),
                out: at(dense_x),
            }));
        }
        train.push(x_product(
            Product::Tn,
            matrix(at(d_xw), h),
            matrix(at(w1_grad), h),
        ));
        train.push(Instr::AllReduce(instr::AllReduce::whole(vec![
            loss, w1_grad, bias_grad, u_grad, w2_grad,
        ])));
        for (value, state, grad) in [
            (w1, w1_state, w1_grad),
            (bias, bias_state, bias_grad),
            (u, u_state, u_grad),
            (w2, w2_state, w2_grad),
        ] {
            let Buffer {
                extent: Extent::Fixed(rows),
                columns,
                slots,
                ..
            } = b.program.buffers[value.0 as usize]
            else {
                panic!()
            };
            let momentum = expr(|e| {
                let (m, g) = (e.push(load(1)), e.push(load(2)));
                let (keep, add) = (e.push(Value::Const(0.9)), e.push(Value::Const(0.1)));
                let (m, g) = (
                    e.push(Value::Binary(Binary::Mul, m, keep)),
                    e.push(Value::Binary(Binary::Mul, g, add)),
                );
                e.push(Value::Binary(Binary::Add, m, g));
            });
            let update = expr(|e| {
                e.values = momentum.values.clone();
                let m = e.result();
                let (p, rate, correction) = (
                    e.push(load(0)),
                    e.push(Value::Scalar(0)),
                    e.push(Value::Scalar(1)),
                );
                let step = e.push(Value::Binary(Binary::Mul, m, correction));
                let step = e.push(Value::Binary(Binary::Mul, step, rate));
                e.push(Value::Binary(Binary::Sub, p, step));
            });
            let kernel = b.kernel(
                map(vec![update, momentum]),
                columns,
                vec![row(columns); 3],
                vec![row(columns); 2],
            );
            b.program.kernels[kernel.0 as usize].scalars = 2;
            let each = |in_loop| {
                let r = |buffer| Ref {
                    buffer,
                    base: 0,
                    in_loop,
                };
                let mut l = launch(
                    kernel,
                    Extent::Fixed(rows),
                    &[r(value), r(state), r(grad)],
                    &[r(value), r(state)],
                );
                l.scalars = vec![
                    ScalarRef::LearningRate,
                    ScalarRef::BiasCorrection(f64::from(0.9f32)),
                ];
                Instr::Launch(l)
            };
            match slots {
                1 => train.push(each(false)),
                count => train.push(Instr::Repeat(instr::Repeat {
                    count,
                    reverse: false,
                    body: vec![each(true)],
                })),
            }
        }
        let mut eval = forward(false);
        eval.push(Instr::Metrics(instr::Metrics {
            loss: kind.clone(),
            logits: at(logits),
            out: at(metrics),
            classes: c,
        }));
        eval.push(Instr::AllReduce(instr::AllReduce::whole(vec![metrics])));
        let mut program = b.program;
        (program.step, program.eval) = (train, eval);
        (program.loss, program.metrics, program.logits) =
            (Some(loss), Some(metrics), Some(at(logits)));
        program
    }
}
