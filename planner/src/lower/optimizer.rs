//! Optimizer steps: one element-wise kernel per parameter, over all of it or over the rows that a batch has,
//! after gradients are clipped.

mod clip;

use crate::lower::Lowerer;
use crate::lower::kernel::intern;
use crate::lower::lazy::{on_rows, over_rows};
use gnnc_ir::graph::model::{Optimizer, TrainSettings};
use gnnc_ir::kernel::expr::{Expr, Value as Scalar, ValueId};
use gnnc_ir::kernel::{At, Body, Kernel, Operand, Over};
use gnnc_ir::program::instr;
use gnnc_ir::program::{BufferId, Extent, Instr, Launch, Ref, Role, ScalarRef};
use gnnc_ir::{Binary, Unary};

/// Operands and run-time scalars of a step kernel, in this order: weight, gradient, clipping factor
/// (if gradients are clipped), states.
const WEIGHT: u16 = 0;
const GRADIENT: u16 = 1;
const FACTOR: u16 = 2;
const RATE: u16 = 0;

/// The gradient of a parameter.
#[derive(Clone, Copy, Debug)]
pub struct Gradient {
    /// Where it is.
    pub at: Ref,
    /// Its rows, if it has only those that a batch has; the others are 0, and are not stepped.
    pub rows: Option<Extent>,
}

impl Gradient {
    /// A gradient of all of the parameter.
    pub fn whole(at: Ref) -> Self {
        Self { at, rows: None }
    }
}

/// How an optimizer reads the gradient.
#[derive(Clone, Copy)]
struct Reading {
    /// Weight decay added to it.
    decay: f32,
    /// Whether it is first multiplied by the clipping factor.
    clipped: bool,
    /// Whether steps are counted for each row.
    lazy: bool,
}

impl Reading {
    /// The operand of the first state.
    fn first(self) -> u16 {
        FACTOR + u16::from(self.clipped)
    }
}

/// What a step computes.
struct Update {
    /// The new weight and states.
    values: Vec<Expr>,
    /// Number of states that are as large as the parameter.
    states: u32,
    /// Run-time scalars.
    scalars: Vec<ScalarRef>,
    /// Decays of means over the steps of a row, by whose weights the means are divided. A weight is a
    /// state with a number for each row: it is `1 - decay ^ steps`, and each step makes it
    /// `decay * weight + (1 - decay)`.
    means: Vec<f64>,
}

/// Appends the updates of all parameters with a gradient.
pub fn step(
    lowerer: &mut Lowerer,
    settings: &TrainSettings,
    grads: &[Option<Gradient>],
    code: &mut Vec<Instr>,
) {
    let clip = settings.clip_norm;
    let clip = clip.map(|most| clip::factor(lowerer, most as f32, grads, code));
    for (n, grad) in grads.iter().enumerate() {
        let Some(grad) = grad else { continue };
        let spec = &lowerer.program.params[n];
        let reading = Reading {
            decay: spec.decay.unwrap_or(settings.weight_decay) as f32,
            clipped: clip.is_some(),
            lazy: grad.rows.is_some(),
        };
        let update = update(&settings.optimizer, reading);
        match grad.rows {
            None => code.push(whole(lowerer, n, grad.at, clip, update)),
            Some(rows) => code.extend(of_rows(lowerer, n, (grad.at, rows), clip, update)),
        }
    }
}

/// Steps all rows of a parameter.
fn whole(lowerer: &mut Lowerer, n: usize, grad: Ref, clip: Option<Ref>, update: Update) -> Instr {
    let spec = lowerer.program.params[n].clone();
    // The parameters of a repeated layer are updated in a loop over its iterations.
    let (count, in_loop) = (spec.ty.stack, spec.ty.stack != 0);
    let floats = gnnc_ir::graph::floats(spec.ty.unstacked()) as u32;
    let slot = |buffer| Ref {
        buffer,
        base: 0,
        in_loop,
    };
    let param = slot(lowerer.params[n].at.buffer);
    let mut inputs = vec![param, slot(grad.buffer)];
    inputs.extend(clip);
    let mut outputs = vec![param];
    for state in 0..update.states {
        let state = slot(new_state(lowerer, n, state, spec.ty.columns()));
        inputs.push(state);
        outputs.push(state);
    }
    let flat = Operand::dense(At::Row, 1, 1);
    let mut operands = vec![flat; inputs.len()];
    if clip.is_some() {
        operands[usize::from(FACTOR)] = clip::number();
    }
    let kernel = Kernel {
        body: Body::Map {
            over: Over::Rows,
            values: update.values,
        },
        heads: 1,
        width: 1,
        inputs: operands,
        outputs: vec![flat; outputs.len()],
        masks: Vec::new(),
        scalars: update.scalars.len() as u16,
    };
    let launch = Instr::Launch(Launch {
        kernel: intern(&mut lowerer.program, kernel),
        rows: Extent::Fixed(floats),
        inputs,
        outputs,
        scalars: update.scalars,
        sites: Vec::new(),
        lists: Vec::new(),
        chunk: None,
    });
    match in_loop {
        true => Instr::Repeat(instr::Repeat {
            count,
            reverse: false,
            body: vec![launch],
        }),
        false => launch,
    }
}

/// Steps some rows of a parameter, of which the gradient has one each.
fn of_rows(
    lowerer: &mut Lowerer,
    n: usize,
    (grad, rows): (Ref, Extent),
    clip: Option<Ref>,
    update: Update,
) -> Vec<Instr> {
    let columns = lowerer.program.params[n].ty.columns();
    let mut tensors = vec![lowerer.params[n].at];
    for state in 0..update.states + update.means.len() as u32 {
        let columns = if state < update.states { columns } else { 1 };
        tensors.push(Ref::first(new_state(lowerer, n, state, columns)));
    }
    on_rows(lowerer, rows, &tensors, |lowerer, held| {
        let wide = 1 + update.states as usize;
        let mut code = Vec::new();
        for (weight, decay) in held[wide..].iter().zip(&update.means) {
            let value = Terms::build(|t| {
                let old = t.load(0);
                let kept = t.scale(old, *decay as f32);
                let one = t.0.push(Scalar::Const((1.0 - decay) as f32));
                t.binary(Binary::Add, kept, one)
            });
            let ends = (vec![*weight], vec![*weight]);
            code.push(over_rows(lowerer, rows, 1, (vec![value], vec![]), ends));
        }
        let mut inputs = vec![held[0], grad];
        inputs.extend(clip);
        inputs.extend(&held[1..]);
        let ends = (inputs, held[..wide].to_vec());
        let values = (update.values, update.scalars);
        code.push(over_rows(lowerer, rows, columns, values, ends));
        code.into_iter().map(Instr::Launch).collect()
    })
}

/// A new state of a parameter, with so many numbers for each row.
fn new_state(lowerer: &mut Lowerer, n: usize, state: u32, columns: u32) -> BufferId {
    let param = lowerer.program.buffer(lowerer.params[n].at.buffer);
    let (extent, slots) = (param.extent, param.slots);
    let name = format!("{}.state{state}", lowerer.program.params[n].name);
    lowerer.buffer(name, extent, columns, slots, Role::State(n as u32, state))
}

/// What an optimizer's step computes.
fn update(optimizer: &Optimizer, gradient: Reading) -> Update {
    let descent = |values: Vec<Expr>| Update {
        states: values.len() as u32 - 1,
        values,
        scalars: vec![ScalarRef::LearningRate],
        means: Vec::new(),
    };
    match *optimizer {
        Optimizer::Sgd { momentum, .. } => {
            let momentum = momentum as f32;
            if momentum == 0.0 {
                descent(vec![descend(|t| t.gradient(gradient))])
            } else {
                let velocity = |t: &mut Terms| {
                    let g = t.gradient(gradient);
                    let old = t.load(gradient.first());
                    let kept = t.scale(old, momentum);
                    t.binary(Binary::Add, kept, g)
                };
                let state = Terms::build(velocity);
                descent(vec![descend(velocity), state])
            }
        }
        Optimizer::Adagrad { eps, .. } => {
            let sum = |t: &mut Terms| {
                let g = t.gradient(gradient);
                let square = t.binary(Binary::Mul, g, g);
                let old = t.load(gradient.first());
                t.binary(Binary::Add, old, square)
            };
            let step = |t: &mut Terms| {
                let (g, sum) = (t.gradient(gradient), sum(t));
                let root = t.0.push(Scalar::Unary(Unary::Sqrt, sum));
                let eps = t.0.push(Scalar::Const(eps as f32));
                let root = t.binary(Binary::Add, root, eps);
                t.binary(Binary::Div, g, root)
            };
            descent(vec![descend(step), Terms::build(sum)])
        }
        Optimizer::Adam {
            beta1, beta2, eps, ..
        } => adam([beta1, beta2, eps], gradient, 0.0),
        Optimizer::AdamW {
            beta1, beta2, eps, ..
        } => {
            let (decay, bare) = (gradient.decay, 0.0);
            let gradient = Reading {
                decay: bare,
                ..gradient
            };
            adam([beta1, beta2, eps], gradient, decay)
        }
    }
}

/// Adam (Kingma and Ba 2015, algorithm 1); `decoupled` is AdamW's direct decay of the weight.
///
/// Lazily, the means of a row and their corrections count the steps that the row had.
fn adam([beta1, beta2, eps]: [f64; 3], gradient: Reading, decoupled: f32) -> Update {
    let first = move |t: &mut Terms| {
        let g = t.gradient(gradient);
        let old = t.load(gradient.first());
        let (old, new) = (t.scale(old, beta1 as f32), t.scale(g, (1.0 - beta1) as f32));
        t.binary(Binary::Add, old, new)
    };
    let second = move |t: &mut Terms| {
        let g = t.gradient(gradient);
        let square = t.binary(Binary::Mul, g, g);
        let old = t.load(gradient.first() + 1);
        let (old, new) = (
            t.scale(old, beta2 as f32),
            t.scale(square, (1.0 - beta2) as f32),
        );
        t.binary(Binary::Add, old, new)
    };
    let weight = Terms::build(|t| {
        let (m, v) = (first(t), second(t));
        let (m, v) = match gradient.lazy {
            true => {
                let (c1, c2) = (t.load(gradient.first() + 2), t.load(gradient.first() + 3));
                (t.binary(Binary::Div, m, c1), t.binary(Binary::Div, v, c2))
            }
            false => {
                let (c1, c2) = (t.0.push(Scalar::Scalar(1)), t.0.push(Scalar::Scalar(2)));
                (t.binary(Binary::Mul, m, c1), t.binary(Binary::Mul, v, c2))
            }
        };
        let root = t.0.push(Scalar::Unary(Unary::Sqrt, v));
        let eps = t.0.push(Scalar::Const(eps as f32));
        let root = t.binary(Binary::Add, root, eps);
        let mut direction = t.binary(Binary::Div, m, root);
        if decoupled != 0.0 {
            let w = t.load(WEIGHT);
            let shrink = t.scale(w, decoupled);
            direction = t.binary(Binary::Add, direction, shrink);
        }
        t.descend(direction)
    });
    let values = vec![weight, Terms::build(first), Terms::build(second)];
    let mut scalars = vec![ScalarRef::LearningRate];
    let mut means = Vec::new();
    match gradient.lazy {
        true => means.extend([beta1, beta2]),
        false => scalars.extend([beta1, beta2].map(ScalarRef::BiasCorrection)),
    }
    Update {
        values,
        states: 2,
        scalars,
        means,
    }
}

fn descend(direction: impl Fn(&mut Terms) -> ValueId) -> Expr {
    Terms::build(|t| {
        let direction = direction(t);
        t.descend(direction)
    })
}

/// An expression under construction.
struct Terms(Expr);

impl Terms {
    fn build(root: impl Fn(&mut Self) -> ValueId) -> Expr {
        let mut terms = Self(Expr::default());
        root(&mut terms);
        terms.0
    }

    fn load(&mut self, operand: u16) -> ValueId {
        self.0.push(Scalar::Load(operand))
    }

    fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> ValueId {
        self.0.push(Scalar::Binary(op, a, b))
    }

    fn scale(&mut self, value: ValueId, by: f32) -> ValueId {
        let by = self.0.push(Scalar::Const(by));
        self.binary(Binary::Mul, value, by)
    }

    /// The gradient, clipped and with weight decay.
    fn gradient(&mut self, how: Reading) -> ValueId {
        let mut g = self.load(GRADIENT);
        if how.clipped {
            let factor = self.load(FACTOR);
            g = self.binary(Binary::Mul, g, factor);
        }
        if how.decay == 0.0 {
            return g;
        }
        let w = self.load(WEIGHT);
        let w = self.scale(w, how.decay);
        self.binary(Binary::Add, g, w)
    }

    fn descend(&mut self, direction: ValueId) -> ValueId {
        let (w, rate) = (self.load(WEIGHT), self.0.push(Scalar::Scalar(RATE)));
        let by = self.binary(Binary::Mul, direction, rate);
        self.binary(Binary::Sub, w, by)
    }
}
