//! Optimizer steps: one element-wise kernel per parameter, after gradients are clipped.

mod clip;

use crate::lower::Lowerer;
use crate::lower::kernel::intern;
use crate::lower::region::Value;
use gnnc_ir::graph::model::{Optimizer, TrainSettings};
use gnnc_ir::kernel::expr::{Expr, Value as Scalar, ValueId};
use gnnc_ir::kernel::{At, Body, Kernel, Operand, Over};
use gnnc_ir::program::instr;
use gnnc_ir::program::{Extent, Instr, Launch, Ref, Role, ScalarRef};
use gnnc_ir::{Binary, Unary};

/// Operands and run-time scalars of a step kernel, in this order: weight, gradient, clipping factor
/// (if gradients are clipped), states.
const WEIGHT: u16 = 0;
const GRADIENT: u16 = 1;
const FACTOR: u16 = 2;
const RATE: u16 = 0;

/// How an optimizer reads the gradient.
#[derive(Clone, Copy)]
struct Gradient {
    /// Weight decay added to it.
    decay: f32,
    /// Whether it is first multiplied by the clipping factor.
    clipped: bool,
}

impl Gradient {
    /// The operand of the first state.
    fn first(self) -> u16 {
        FACTOR + u16::from(self.clipped)
    }
}

/// Appends the updates of all parameters with a gradient.
pub fn step(
    lowerer: &mut Lowerer,
    settings: &TrainSettings,
    grads: &[Option<Value>],
    code: &mut Vec<Instr>,
) {
    let clip = settings.clip_norm;
    let clip = clip.map(|most| clip::factor(lowerer, most as f32, grads, code));
    for (n, grad) in grads.iter().enumerate() {
        let Some(grad) = grad else { continue };
        let spec = lowerer.program.params[n].clone();
        let decay = spec.decay.unwrap_or(settings.weight_decay) as f32;
        let clipped = clip.is_some();
        let (values, states, scalars) = update(&settings.optimizer, Gradient { decay, clipped });
        // The parameters of a repeated layer are updated in a loop over its iterations.
        let (count, in_loop) = (spec.ty.stack, spec.ty.stack != 0);
        let floats = gnnc_ir::graph::floats(spec.ty.unstacked()) as u32;
        let slot = |buffer| Ref {
            buffer,
            base: 0,
            in_loop,
        };
        let param = slot(lowerer.params[n].at.buffer);
        let mut inputs = vec![param, slot(grad.at.buffer)];
        inputs.extend(clip);
        let mut outputs = vec![param];
        for state in 0..states {
            let name = format!("{}.state{state}", spec.name);
            let extent = lowerer.extent(spec.ty);
            let (columns, slots) = (spec.ty.columns(), spec.ty.stack.max(1));
            let role = Role::State(n as u32, state);
            let buffer = lowerer.buffer(name, extent, columns, slots, role);
            inputs.push(slot(buffer));
            outputs.push(slot(buffer));
        }
        let flat = Operand::dense(At::Row, 1, 1);
        let mut operands = vec![flat; inputs.len()];
        if clip.is_some() {
            operands[usize::from(FACTOR)] = clip::number();
        }
        let kernel = Kernel {
            body: Body::Map {
                over: Over::Rows,
                values,
            },
            heads: 1,
            width: 1,
            inputs: operands,
            outputs: vec![flat; outputs.len()],
            masks: Vec::new(),
            scalars: scalars.len() as u16,
        };
        let kernel = intern(&mut lowerer.program, kernel);
        let rows = Extent::Fixed(floats);
        let sites = Vec::new();
        let launch = Instr::Launch(Launch {
            kernel,
            rows,
            inputs,
            outputs,
            scalars,
            sites,
            lists: Vec::new(),
            chunk: None,
        });
        code.push(match in_loop {
            true => Instr::Repeat(instr::Repeat {
                count,
                reverse: false,
                body: vec![launch],
            }),
            false => launch,
        });
    }
}

/// Expressions of the new weight and states, the number of states, and the run-time scalars.
fn update(optimizer: &Optimizer, gradient: Gradient) -> (Vec<Expr>, u32, Vec<ScalarRef>) {
    match *optimizer {
        Optimizer::Sgd { momentum, .. } => {
            let momentum = momentum as f32;
            if momentum == 0.0 {
                (
                    vec![descend(|t| t.gradient(gradient))],
                    0,
                    vec![ScalarRef::LearningRate],
                )
            } else {
                let velocity = |t: &mut Terms| {
                    let g = t.gradient(gradient);
                    let old = t.load(gradient.first());
                    let kept = t.scale(old, momentum);
                    t.binary(Binary::Add, kept, g)
                };
                let state = Terms::build(velocity);
                (
                    vec![descend(velocity), state],
                    1,
                    vec![ScalarRef::LearningRate],
                )
            }
        }
        Optimizer::Adam {
            beta1, beta2, eps, ..
        } => adam([beta1, beta2, eps], gradient, 0.0),
        Optimizer::AdamW {
            beta1, beta2, eps, ..
        } => {
            let (decay, bare) = (gradient.decay, 0.0);
            let gradient = Gradient {
                decay: bare,
                ..gradient
            };
            adam([beta1, beta2, eps], gradient, decay)
        }
    }
}

/// Adam (Kingma and Ba 2015, algorithm 1); `decoupled` is AdamW's direct decay of the weight.
fn adam(
    [beta1, beta2, eps]: [f64; 3],
    gradient: Gradient,
    decoupled: f32,
) -> (Vec<Expr>, u32, Vec<ScalarRef>) {
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
        let (c1, c2) = (t.0.push(Scalar::Scalar(1)), t.0.push(Scalar::Scalar(2)));
        let m = t.binary(Binary::Mul, m, c1);
        let v = t.binary(Binary::Mul, v, c2);
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
    let scalars = vec![
        ScalarRef::LearningRate,
        ScalarRef::BiasCorrection(beta1),
        ScalarRef::BiasCorrection(beta2),
    ];
    (values, 2, scalars)
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
    fn gradient(&mut self, how: Gradient) -> ValueId {
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
