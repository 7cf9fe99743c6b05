//! What prices depend on of a program, so that stages that are alike are priced once.

use gnnc_ir::expr::{Expr, Value};
use gnnc_ir::kernel::Body;
use gnnc_ir::op::Site;
use gnnc_ir::program::{Instr, Program, Role};

/// The program without what no price depends on: what tensors are called and which parameter or history they
/// are, the values of constants, the keys of masks, and which of the stages this is.
pub(super) fn outline(program: &Program) -> Program {
    let mut outline = program.clone();
    outline.params.clear();
    outline.tables.clear();
    for buffer in &mut outline.buffers {
        buffer.name.clear();
        buffer.role = match buffer.role {
            Role::Param(_) => Role::Param(0),
            Role::State(..) => Role::State(0, 0),
            Role::History(_) => Role::History(0),
            Role::Table(_) => Role::Table(0),
            role => role,
        };
    }
    for kernel in &mut outline.kernels {
        without_constants(&mut kernel.body);
    }
    for list in [&mut outline.setup, &mut outline.step, &mut outline.eval] {
        without_sites(list);
    }
    if let Some(pipeline) = &mut outline.pipeline {
        pipeline.stage = 0;
    }
    outline
}

fn without_constants(body: &mut Body) {
    let exprs: Vec<&mut Expr> = match body {
        Body::Map { values, .. } => values.iter_mut().collect(),
        Body::Gather { value, finish, .. } | Body::RowReduce { value, finish, .. } => {
            vec![value, finish]
        }
        Body::ColReduce { value, .. }
        | Body::TypeSum { value, .. }
        | Body::EdgeSoftmax { value, .. } => vec![value],
    };
    for value in exprs.into_iter().flat_map(|expr| &mut expr.values) {
        if let Value::Const(constant) = value {
            *constant = 0.0;
        }
    }
}

fn without_sites(instrs: &mut [Instr]) {
    for instr in instrs {
        match instr {
            Instr::Launch(launch) => launch.sites.clear(),
            Instr::MatMul {
                finish: Some(launch),
                ..
            } => launch.sites.clear(),
            Instr::SparseDropout { site, .. } => *site = Site::default(),
            Instr::Repeat { body, .. } | Instr::Chunks { body, .. } => without_sites(body),
            _ => {}
        }
    }
}
