//! Clipping: the norm of the gradient of all parameters together, and the factor it gives.
//!
//! Every rank has the whole gradient of parameters that it has whole, a slice of those that are
//! cut or stepped by owner, and only the gradients of its own stage. So squares of these are added over the
//! ranks.
//! Stages pass their sum on, from the first to the last, which returns the total to the others.
//! Both orders go parameter by parameter, so the stages do not change the sum.

use super::{Gradient, Terms};
use crate::lower::Lowerer;
use crate::lower::blocks::at_most;
use crate::lower::kernel::{flat, intern};
use gnnc_ir::graph::floats;
use gnnc_ir::kernel::expr::{Expr, Value as Scalar};
use gnnc_ir::kernel::{At, Body, Kernel, Operand, Over};
use gnnc_ir::program::instr;
use gnnc_ir::program::{Among, Extent, Instr, Launch, Neighbour, Ref, Role, StageMessage};
use gnnc_ir::{Binary, Unary};

/// PyTorch's `clip_grad_norm_` adds this to a norm before it divides by it.
const LEAST: f32 = 1e-6;

/// A single number, the same for every row.
pub fn number() -> Operand {
    Operand::dense(At::One, 1, 1)
}

/// Computes `min(1, most / (norm + 1e-6))` of the gradients, whose sums over the ranks are
/// complete.
pub fn factor(
    lowerer: &mut Lowerer,
    most: f32,
    grads: &[Option<Gradient>],
    code: &mut Vec<Instr>,
) -> Ref {
    let total = scalar(lowerer, "gradient.squares");
    let pipeline = lowerer.program.pipeline;
    let before = pipeline.is_some_and(|p| p.stage > 0);
    let after = pipeline.is_some_and(|p| p.stage + 1 < p.stages);
    let stage_message = |with| StageMessage::of(with, vec![total]);
    let zero = Expr::leaf(Scalar::Const(0.0));
    match before {
        true => code.push(Instr::Receive(stage_message(Neighbour::Previous))),
        false => code.push(map(lowerer, zero.clone(), &[], total)),
    }
    let among = |lowerer: &Lowerer, n: usize| match (&lowerer.program.params[n].shard, grads[n]) {
        (Some(_), _) => Some(Among::Slices),
        (None, Some(Gradient { rows: Some(_), .. })) if lowerer.distributed => Some(Among::All),
        (None, _) => None,
    };
    for ranks in [None, Some(Among::Slices), Some(Among::All)] {
        let held = grads
            .iter()
            .enumerate()
            .filter_map(|(n, g)| Some((n, (*g)?)));
        let held: Vec<_> = held.filter(|(n, _)| among(lowerer, *n) == ranks).collect();
        let Some(ranks) = ranks else {
            for (n, grad) in held {
                squares(lowerer, n, grad, total, code);
            }
            continue;
        };
        if held.is_empty() {
            continue;
        }
        let part = scalar(lowerer, "gradient.squares_of_parts");
        code.push(map(lowerer, zero.clone(), &[], part));
        for (n, grad) in held {
            squares(lowerer, n, grad, part, code);
        }
        lowerer.all_reduce(code, vec![part.buffer], ranks);
        code.push(sum(lowerer, part, total));
    }
    if after {
        code.push(Instr::Send(stage_message(Neighbour::Next)));
        code.push(Instr::Receive(stage_message(Neighbour::Next)));
    }
    if before {
        code.push(Instr::Send(stage_message(Neighbour::Previous)));
    }
    let factor = scalar(lowerer, "gradient.factor");
    let value = Terms::build(|t| {
        let total = t.load(0);
        let length = t.0.push(Scalar::Unary(Unary::Sqrt, total));
        let least = t.0.push(Scalar::Const(LEAST));
        let length = t.binary(Binary::Add, length, least);
        at_most(&mut t.0, length, most)
    });
    code.push(map(lowerer, value, &[total], factor));
    factor
}

/// Adds the squares of a parameter's gradient to a number.
fn squares(lowerer: &mut Lowerer, n: usize, grad: Gradient, total: Ref, code: &mut Vec<Instr>) {
    let ty = lowerer.program.params[n].ty;
    let part = scalar(
        lowerer,
        &format!("{}.squares", lowerer.program.params[n].name),
    );
    let value = Terms::build(|t| {
        let g = t.load(0);
        t.binary(Binary::Mul, g, g)
    });
    let in_loop = ty.stack != 0;
    let from = Ref {
        in_loop,
        ..Ref::first(grad.at.buffer)
    };
    let mut body = Vec::new();
    match grad.rows {
        None => {
            let rows = Extent::Fixed(floats(ty.unstacked()) as u32);
            body.push(columns(lowerer, value, (rows, 1), from, part));
        }
        Some(rows) => {
            let width = ty.columns();
            let name = format!("{}.squares_by_column", lowerer.program.params[n].name);
            let each = Ref::first(lowerer.buffer(name, Extent::Fixed(1), width, 1, Role::Temp));
            body.push(columns(lowerer, value, (rows, width), from, each));
            let value = Expr::leaf(Scalar::Load(0));
            let rows = Extent::Fixed(width);
            body.push(columns(lowerer, value, (rows, 1), each, part));
        }
    }
    body.push(sum(lowerer, part, total));
    match in_loop {
        true => code.push(Instr::Repeat(instr::Repeat {
            count: ty.stack,
            reverse: false,
            body,
        })),
        false => code.extend(body),
    }
}

/// Sums of the columns of a matrix.
fn columns(
    lowerer: &mut Lowerer,
    value: Expr,
    (rows, width): (Extent, u32),
    from: Ref,
    out: Ref,
) -> Instr {
    let kernel = Kernel {
        body: Body::ColReduce {
            over: Over::Rows,
            value,
        },
        heads: 1,
        width,
        inputs: vec![Operand::dense(At::Row, 1, width)],
        outputs: vec![Operand::dense(At::One, 1, width)],
        masks: Vec::new(),
        scalars: 0,
    };
    launch(lowerer, kernel, rows, vec![from], out)
}

/// Adds a number to another.
fn sum(lowerer: &mut Lowerer, part: Ref, total: Ref) -> Instr {
    let value = Terms::build(|t| {
        let (total, part) = (t.load(0), t.load(1));
        t.binary(Binary::Add, total, part)
    });
    map(lowerer, value, &[total, part], total)
}

fn map(lowerer: &mut Lowerer, value: Expr, inputs: &[Ref], out: Ref) -> Instr {
    Instr::Launch(flat(&mut lowerer.program, 1, value, inputs.to_vec(), out))
}

fn launch(
    lowerer: &mut Lowerer,
    kernel: Kernel,
    rows: Extent,
    inputs: Vec<Ref>,
    out: Ref,
) -> Instr {
    Instr::Launch(Launch {
        kernel: intern(&mut lowerer.program, kernel),
        rows,
        inputs,
        outputs: vec![out],
        scalars: Vec::new(),
        sites: Vec::new(),
        lists: Vec::new(),
        chunk: None,
    })
}

fn scalar(lowerer: &mut Lowerer, name: &str) -> Ref {
    Ref::first(lowerer.buffer(name.to_owned(), Extent::Fixed(1), 1, 1, Role::Temp))
}
