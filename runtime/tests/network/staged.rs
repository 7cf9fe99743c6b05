//! A network with two aggregations as hand-written programs: one for all ranks, or one per
//! stage, with vertices in chunks.
//!
//! `x_0 = relu(X W1)`, then twice `x_l = relu((A x_(l-1)) U_l)`, and `x_2 W2`; `A` is the
//! symmetrically normalized adjacency matrix with self loops. Uses momentum, which starts as
//! plain gradient descent.

use super::builder::*;
use gnnc_ir::EdgeSet;
use gnnc_ir::Type;
use gnnc_ir::graph::op::Loss;
use gnnc_ir::graph::{Element, Init, ParamSpec};
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, End, Operand, Over, Reduce};
use gnnc_ir::program::instr;
use gnnc_ir::program::*;
use gnnc_ir::words::scalar::{Binary, Unary};

pub const LAYERS: u32 = 2;

/// Sizes and division of the network.
#[derive(Clone, Copy)]
pub struct Staged {
    pub features: u32,
    pub hidden: u32,
    pub classes: u32,
    /// 1 or [`LAYERS`].
    pub stages: u32,
    /// Ranks per stage.
    pub width: u32,
    /// `None` for a program without stages.
    pub chunks: Option<u32>,
    pub shuffle: bool,
    pub interval: u32,
}

/// A parameter and its state.
#[derive(Clone, Copy)]
struct Trained {
    value: BufferId,
    state: BufferId,
    grad: BufferId,
    rows: u32,
    columns: u32,
}

/// Buffers of a layer.
#[derive(Clone, Copy)]
struct Layer {
    u: Trained,
    /// The rows that edges read.
    x: BufferId,
    history: Option<BufferId>,
    z: BufferId,
    /// The result, by own rows.
    y: BufferId,
    d_x: BufferId,
    d_z: BufferId,
    d_y: BufferId,
}

struct Kernels {
    copy: KernelId,
    zero: KernelId,
    relu: KernelId,
    step: KernelId,
    gather: KernelId,
    scatter: KernelId,
}

impl Staged {
    /// The programs of all stages, or the one of all ranks.
    pub fn programs(&self) -> Vec<Program> {
        (0..self.stages).map(|stage| self.stage(stage)).collect()
    }

    pub fn ranks(&self) -> u32 {
        self.stages * self.width
    }

    fn stage(&self, stage: u32) -> Program {
        let (h, c) = (self.hidden, self.classes);
        let (first, last) = (stage == 0, stage + 1 == self.stages);
        let (inner, local) = (Extent::Inner, Extent::Local);
        let mut b = Builder {
            program: Program {
                ranks: self.ranks(),
                pipeline: self.chunks.map(|chunks| Pipeline {
                    stages: self.stages,
                    stage,
                    chunks,
                    shuffle: self.shuffle,
                    interval: self.interval,
                }),
                ..Program::default()
            },
        };
        let degree = Role::Degree(EdgeSet::Looped, End::Dst);
        let degree = b.buffer("degree", local, 1, 1, degree);
        let scale = b.buffer("scale", local, 1, 1, Role::Static);
        let kernels = kernels(&mut b, h);
        let mut setup = vec![rsqrt(&mut b, degree, scale)];
        let features = first.then(|| {
            let x = b.buffer("features", inner, self.features, 1, Role::Features);
            (x, trained(&mut b, "w1", (self.features, h), None))
        });
        let own = LAYERS / self.stages;
        let numbers = stage * own..(stage + 1) * own;
        let layers: Vec<Layer> = numbers.map(|l| self.layer(&mut b, l)).collect();
        let (start, end) = (layers[0], layers[layers.len() - 1]);
        let head = last.then(|| {
            let w2 = trained(&mut b, "w2", (h, c), None);
            let logits = b.buffer("logits", inner, c, 1, Role::Temp);
            let d_logits = b.buffer("d logits", inner, c, 1, Role::Temp);
            let loss = b.buffer("loss", Extent::Fixed(1), 1, 1, Role::Result);
            let metrics = b.buffer("metrics", Extent::Fixed(METRICS), 1, 1, Role::Result);
            (w2, logits, d_logits, loss, metrics)
        });
        let run = |kernel, rows, inputs: &[BufferId], output: BufferId| {
            let inputs: Vec<Ref> = inputs.iter().map(|&b| at(b)).collect();
            Instr::Launch(launch(kernel, rows, &inputs, &[at(output)]))
        };
        let product =
            |product, a: (BufferId, u32), b: (BufferId, u32), out: BufferId, columns, finish| {
                let (inner_size, out_stride) = (a.1, columns);
                Instr::MatMul(instr::MatMul {
                    product,
                    a: matrix(at(a.0), a.1),
                    b: matrix(at(b.0), b.1),
                    out: matrix(at(out), out_stride),
                    rows: inner,
                    inner: inner_size,
                    columns,
                    finish,
                    chunk: None,
                })
            };
        let relu = |out| Some(launch(kernels.relu, inner, &[at(out)], &[at(out)]));
        let stage_message = |with, tensor| StageMessage::of(with, vec![at(tensor)]);
        let kind = Loss::CROSS_ENTROPY;

        let forward = |remember: bool| {
            let mut list = Vec::new();
            match features {
                Some((x, w1)) => list.push(product(
                    Product::Nn,
                    (x, self.features),
                    (w1.value, h),
                    start.x,
                    h,
                    relu(start.x),
                )),
                None => list.push(Instr::Receive(stage_message(Neighbour::Previous, start.x))),
            }
            for layer in &layers {
                if layer.x != start.x {
                    let before = layers[0].y;
                    list.push(run(kernels.copy, inner, &[before], layer.x));
                }
                list.push(Instr::HaloExchange(instr::HaloExchange::of(at(layer.x))));
                if let (Some(history), true) = (layer.history, remember) {
                    list.push(Instr::Remember(instr::Remember {
                        from: at(layer.x),
                        history: at(history),
                    }));
                }
                list.push(run(
                    kernels.gather,
                    inner,
                    &[layer.x, scale, scale],
                    layer.z,
                ));
                let (z, u) = ((layer.z, h), (layer.u.value, h));
                list.push(product(Product::Nn, z, u, layer.y, h, relu(layer.y)));
            }
            match head {
                Some((w2, logits, ..)) => {
                    let w2 = (w2.value, c);
                    list.push(product(Product::Nn, (end.y, h), w2, logits, c, None));
                }
                None => list.push(Instr::Send(stage_message(Neighbour::Next, end.y))),
            }
            list
        };
        let mut backward = Vec::new();
        match head {
            Some((w2, logits, d_logits, ..)) => {
                backward.push(Instr::Loss(instr::Loss {
                    loss: kind.clone(),
                    logits: at(logits),
                    out: None,
                    grad: Some(at(d_logits)),
                    classes: c,
                }));
                let (d, w2) = ((d_logits, c), (w2.value, c));
                backward.push(product(Product::Nt, d, w2, end.d_y, h, None));
            }
            None => backward.push(Instr::Receive(stage_message(Neighbour::Next, end.d_y))),
        }
        for layer in layers.iter().rev() {
            backward.push(run(kernels.step, inner, &[layer.d_y, layer.y], layer.d_y));
            let (d, u) = ((layer.d_y, h), (layer.u.value, h));
            backward.push(product(Product::Nt, d, u, layer.d_z, h, None));
            let inputs = [layer.d_z, scale, scale];
            backward.push(run(kernels.scatter, local, &inputs, layer.d_x));
            backward.push(Instr::HaloReduce(instr::HaloReduce::of(at(layer.d_x))));
            if layer.x != start.x {
                backward.push(run(kernels.copy, inner, &[layer.d_x], layers[0].d_y));
            }
        }
        match features {
            Some(_) => backward.push(run(kernels.step, inner, &[start.d_x, start.x], start.d_x)),
            None => backward.push(Instr::Send(stage_message(Neighbour::Previous, start.d_x))),
        }

        setup.extend(forward(true));
        let mut step = Vec::new();
        match self.chunks {
            None => {
                step.extend(forward(false));
                step.extend(backward);
            }
            Some(_) => {
                for layer in &layers {
                    if let Some(history) = layer.history {
                        step.push(run(kernels.copy, local, &[history], layer.x));
                    }
                    step.push(run(kernels.zero, inner, &[layer.d_z], layer.d_z));
                }
                step.push(Instr::Chunks(instr::Chunks {
                    reverse: false,
                    body: forward(true),
                }));
                step.push(Instr::Chunks(instr::Chunks {
                    reverse: true,
                    body: backward,
                }));
            }
        }
        let mut sums = Vec::new();
        let mut all: Vec<Trained> = layers.iter().map(|layer| layer.u).collect();
        for layer in &layers {
            let (z, d) = ((layer.z, h), (layer.d_y, h));
            step.push(product(Product::Tn, z, d, layer.u.grad, h, None));
        }
        if let Some((x, w1)) = features {
            let (x, d) = ((x, self.features), (start.d_x, h));
            step.push(product(Product::Tn, x, d, w1.grad, h, None));
            all.push(w1);
        }
        if let Some((w2, logits, d_logits, loss, _)) = head {
            let (y, d) = ((end.y, h), (d_logits, c));
            step.push(product(Product::Tn, y, d, w2.grad, c, None));
            step.push(Instr::Loss(instr::Loss {
                loss: kind.clone(),
                logits: at(logits),
                out: Some(at(loss)),
                grad: None,
                classes: c,
            }));
            all.push(w2);
            sums.push(loss);
        }
        sums.extend(all.iter().map(|one| one.grad));
        step.push(Instr::AllReduce(instr::AllReduce::whole(sums)));
        for one in &all {
            step.push(descend(&mut b, *one));
        }
        let mut eval = forward(false);
        if let Some((_, logits, _, _, metrics)) = head {
            eval.push(Instr::Metrics(instr::Metrics {
                loss: kind.clone(),
                logits: at(logits),
                out: at(metrics),
                classes: c,
            }));
            eval.push(Instr::AllReduce(instr::AllReduce::whole(vec![metrics])));
        }
        let mut program = b.program;
        (program.setup, program.step, program.eval) = (setup, step, eval);
        if let Some((_, logits, _, loss, metrics)) = head {
            program.loss = Some(loss);
            program.metrics = Some(metrics);
            program.logits = Some(at(logits));
        }
        program
    }

    fn layer(&self, b: &mut Builder, number: u32) -> Layer {
        let h = self.hidden;
        let (inner, local) = (Extent::Inner, Extent::Local);
        let element = Element {
            index: number,
            of: LAYERS,
        };
        let mut rows =
            |what: &str, extent, role| b.buffer(&format!("{what} {number}"), extent, h, 1, role);
        let history = Role::History(number);
        let history = self.chunks.map(|_| rows("history", local, history));
        let x = rows("x", local, Role::Temp);
        let (z, y) = (rows("z", inner, Role::Temp), rows("y", inner, Role::Temp));
        let d_x = rows("d x", local, Role::Temp);
        let (d_z, d_y) = (
            rows("d z", inner, Role::Temp),
            rows("d y", inner, Role::Temp),
        );
        Layer {
            u: trained(b, "u", (h, h), Some(element)),
            x,
            history,
            z,
            y,
            d_x,
            d_z,
            d_y,
        }
    }
}

fn trained(b: &mut Builder, name: &str, size: (u32, u32), element: Option<Element>) -> Trained {
    let n = b.program.params.len() as u32;
    let (rows, columns) = size;
    b.program.params.push(ParamSpec {
        name: name.to_owned(),
        ty: Type::matrix(rows, columns),
        init: Init::Uniform(0.8),
        decay: None,
        shard: None,
        element,
    });
    let extent = Extent::Fixed(rows);
    Trained {
        value: b.buffer(name, extent, columns, 1, Role::Param(n)),
        state: b.buffer(name, extent, columns, 1, Role::State(n, 0)),
        grad: b.buffer(&format!("d {name}"), extent, columns, 1, Role::Temp),
        rows,
        columns,
    }
}

fn each(at: At) -> Operand {
    Operand {
        at,
        stride: 1,
        offset: 0,
        head_step: 0,
        column_step: 0,
        storage: Default::default(),
        picked: None,
    }
}

fn map(values: Vec<Expr>) -> Body {
    Body::Map {
        over: Over::Rows,
        values,
    }
}

fn rsqrt(b: &mut Builder, degree: BufferId, scale: BufferId) -> Instr {
    let value = expr(|e| {
        let x = e.push(Value::Load(0));
        e.push(Value::Unary(Unary::Rsqrt, x));
    });
    let row = Operand::dense(At::Row, 1, 1);
    let kernel = b.kernel(map(vec![value]), 1, vec![each(At::Row)], vec![row]);
    Instr::Launch(launch(kernel, Extent::Local, &[at(degree)], &[at(scale)]))
}

fn kernels(b: &mut Builder, h: u32) -> Kernels {
    let row = Operand::dense(At::Row, 1, h);
    let load = Value::Load;
    let relu = expr(|e| {
        let x = e.push(load(0));
        e.push(Value::Unary(Unary::Relu, x));
    });
    let step = expr(|e| {
        let (g, y) = (e.push(load(0)), e.push(load(1)));
        let step = e.push(Value::Unary(Unary::Step, y));
        e.push(Value::Binary(Binary::Mul, g, step));
    });
    let mut gather = |to, from| {
        let body = Body::Gather {
            set: EdgeSet::Looped,
            to,
            reduce: Reduce::Sum,
            value: scaled(load(0), load(1), &[]),
            finish: scaled(Value::Acc, load(2), &[]),
        };
        let inputs = vec![Operand::dense(from, 1, h), each(from), each(At::Row)];
        b.kernel(body, h, inputs, vec![row])
    };
    let (to_dst, to_src) = (gather(End::Dst, At::Src), gather(End::Src, At::Dst));
    let mut one = |value, inputs| b.kernel(map(vec![value]), h, vec![row; inputs], vec![row]);
    Kernels {
        copy: one(Expr::leaf(load(0)), 1),
        zero: one(Expr::leaf(Value::Const(0.0)), 1),
        relu: one(relu, 1),
        step: one(step, 2),
        gather: to_dst,
        scatter: to_src,
    }
}

/// `m = 0.9 m + g`, `p = p - rate m`.
fn descend(b: &mut Builder, one: Trained) -> Instr {
    let row = Operand::dense(At::Row, 1, one.columns);
    let momentum = expr(|e| {
        let (m, g) = (e.push(Value::Load(1)), e.push(Value::Load(2)));
        let keep = e.push(Value::Const(0.9));
        let m = e.push(Value::Binary(Binary::Mul, m, keep));
        e.push(Value::Binary(Binary::Add, m, g));
    });
    let update = expr(|e| {
        e.values = momentum.values.clone();
        let m = e.result();
        let (p, rate) = (e.push(Value::Load(0)), e.push(Value::Scalar(0)));
        let step = e.push(Value::Binary(Binary::Mul, m, rate));
        e.push(Value::Binary(Binary::Sub, p, step));
    });
    let values = map(vec![update, momentum]);
    let kernel = b.kernel(values, one.columns, vec![row; 3], vec![row; 2]);
    b.program.kernels[kernel.0 as usize].scalars = 1;
    let Trained {
        value, state, grad, ..
    } = one;
    let inputs = [at(value), at(state), at(grad)];
    let outputs = [at(value), at(state)];
    let mut launch = launch(kernel, Extent::Fixed(one.rows), &inputs, &outputs);
    launch.scalars = vec![ScalarRef::LearningRate];
    Instr::Launch(launch)
}
