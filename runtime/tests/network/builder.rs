//! Building blocks of hand-written programs.

use gnnc_ir::Type;
use gnnc_ir::graph::{Init, ParamSpec};
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{Body, Kernel, Operand};
use gnnc_ir::program::*;
use gnnc_ir::words::scalar::{Binary, Unary};

pub struct Builder {
    pub program: Program,
}

impl Builder {
    pub fn buffer(
        &mut self,
        name: &str,
        extent: Extent,
        columns: u32,
        slots: u32,
        role: Role,
    ) -> BufferId {
        self.program.buffers.push(Buffer {
            name: name.to_owned(),
            extent,
            columns,
            slots,
            role,
            storage: Default::default(),
        });
        BufferId(self.program.buffers.len() as u32 - 1)
    }

    pub fn kernel(
        &mut self,
        body: Body,
        width: u32,
        inputs: Vec<Operand>,
        outputs: Vec<Operand>,
    ) -> KernelId {
        self.program.kernels.push(Kernel {
            body,
            heads: 1,
            width,
            inputs,
            outputs,
            masks: vec![],
            scalars: 0,
        });
        KernelId(self.program.kernels.len() as u32 - 1)
    }

    pub fn param(
        &mut self,
        name: &str,
        rows: u32,
        columns: u32,
        slots: u32,
    ) -> (BufferId, BufferId, BufferId) {
        let n = self.program.params.len() as u32;
        let ty = Type::matrix(rows, columns);
        self.program.params.push(ParamSpec {
            name: name.to_owned(),
            ty,
            init: Init::Uniform(0.8),
            decay: None,
            shard: None,
            element: None,
        });
        let extent = Extent::Fixed(rows);
        let value = self.buffer(name, extent, columns, slots, Role::Param(n));
        let state = self.buffer(name, extent, columns, slots, Role::State(n, 0));
        let grad = self.buffer(&format!("d {name}"), extent, columns, slots, Role::Temp);
        (value, state, grad)
    }
}

pub fn expr(build: impl FnOnce(&mut Expr)) -> Expr {
    let mut expr = Expr::default();
    build(&mut expr);
    expr
}

/// `a * b`, then the functions.
pub fn scaled(a: Value, b: Value, functions: &[Unary]) -> Expr {
    expr(|e| {
        let (a, b) = (e.push(a), e.push(b));
        let mut result = e.push(Value::Binary(Binary::Mul, a, b));
        for &f in functions {
            result = e.push(Value::Unary(f, result));
        }
    })
}

pub fn launch(kernel: KernelId, rows: Extent, inputs: &[Ref], outputs: &[Ref]) -> Launch {
    Launch {
        kernel,
        rows,
        inputs: inputs.to_vec(),
        outputs: outputs.to_vec(),
        scalars: vec![],
        sites: vec![],
        lists: Vec::new(),
        chunk: None,
    }
}

pub fn at(buffer: BufferId) -> Ref {
    Ref::first(buffer)
}

pub fn looped(buffer: BufferId, base: u32) -> Ref {
    Ref {
        buffer,
        base,
        in_loop: true,
    }
}

pub fn matrix(at: Ref, stride: u32) -> Matrix {
    Matrix {
        at,
        offset: 0,
        stride,
    }
}
