//! Rewrites the instructions of a program that stores some buffers in 16 bits.

use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, Kernel, Operand, Over};
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{
    Buffer, BufferId, Extent, Instr, KernelId, Launch, Matrix, Product, Program, Ref, Role,
};
use gnnc_ir::words::storage::Storage;

/// A matrix copied to 16 bits: its original, its rows and columns, and the copy.
type Copied = (Matrix, Extent, u32, BufferId);

/// Gives kernels the storage of their buffers, and products two factors with the same storage.
pub(super) struct Rewrite<'a> {
    program: &'a mut Program,
    storage: Storage,
    /// The original kernels.
    before: Vec<Kernel>,
    /// Copies of parameters, at the start of the list or of what is done for a batch.
    head: Vec<Instr>,
    params: Vec<(BufferId, BufferId)>,
}

impl<'a> Rewrite<'a> {
    pub(super) fn new(program: &'a mut Program, storage: Storage) -> Self {
        let before = std::mem::take(&mut program.kernels);
        Self {
            program,
            storage,
            before,
            head: Vec::new(),
            params: Vec::new(),
        }
    }

    pub(super) fn run(mut self) {
        for phase in Phase::ALL {
            let instrs = std::mem::take(self.program.list_mut(phase));
            let instrs = self.list(instrs);
            self.params.clear();
            let mut all = std::mem::take(&mut self.head);
            all.extend(instrs);
            *self.program.list_mut(phase) = all;
        }
    }

    fn list(&mut self, instrs: Vec<Instr>) -> Vec<Instr> {
        let (mut out, mut copied) = (Vec::with_capacity(instrs.len()), Vec::new());
        for mut instr in instrs {
            if let Instr::MatMul(instr::MatMul {
                product,
                a,
                b,
                out: to,
                rows,
                inner,
                columns,
                ..
            }) = &mut instr
                && [a.at, b.at, to.at].iter().any(|r| self.is_half(r.buffer))
            {
                let shape = match product {
                    Product::Nn => (Extent::Fixed(*inner), *columns),
                    Product::Nt => (Extent::Fixed(*columns), *inner),
                    Product::Tn => (*rows, *columns),
                };
                self.factor(a, (*rows, *inner), &mut copied, &mut out);
                self.factor(b, shape, &mut copied, &mut out);
            }
            if let Some(launch) = instr.launch_mut() {
                self.launch(launch);
            }
            let steps = matches!(instr, Instr::Batches(_));
            if let Some(body) = instr.body_mut() {
                let all = std::mem::take(body);
                *body = match steps {
                    true => self.batch(all),
                    false => self.list(all),
                };
                copied.clear();
            }
            let (_, writes) = instr.accesses();
            copied.retain(|(from, ..): &Copied| writes.iter().all(|w| w.buffer != from.at.buffer));
            out.push(instr);
        }
        out
    }

    /// What is done for a batch. Each changes the parameters, so they are copied in each: after the
    /// sample, which comes first.
    fn batch(&mut self, instrs: Vec<Instr>) -> Vec<Instr> {
        let head = std::mem::take(&mut self.head);
        let params = std::mem::take(&mut self.params);
        let mut body = self.list(instrs);
        let behind = body.len().min(1);
        body.splice(behind..behind, std::mem::replace(&mut self.head, head));
        self.params = params;
        body
    }

    fn is_half(&self, id: BufferId) -> bool {
        !self.program.buffer(id).storage.is_f32()
    }

    /// Copies a factor of a product to 16 bits, unless it already is.
    fn factor(
        &mut self,
        matrix: &mut Matrix,
        (rows, columns): (Extent, u32),
        copied: &mut Vec<Copied>,
        out: &mut Vec<Instr>,
    ) {
        let id = matrix.at.buffer;
        if self.is_half(id) {
            return;
        }
        if matches!(self.program.buffer(id).role, Role::Param(_)) {
            matrix.at.buffer = self.param(id);
            return;
        }
        let known = copied
            .iter()
            .find(|(from, r, c, _)| (*from, *r, *c) == (*matrix, rows, columns));
        let copy = match known {
            Some((.., copy)) => *copy,
            None => {
                let copy = self.buffer(id, (rows, columns, 1));
                let from = Operand {
                    stride: matrix.stride,
                    offset: matrix.offset,
                    ..Operand::dense(At::Row, 1, columns)
                };
                let launch = self.copy((from, columns), rows, [matrix.at, Ref::first(copy)]);
                out.push(launch);
                copied.push((*matrix, rows, columns, copy));
                copy
            }
        };
        *matrix = Matrix {
            at: Ref::first(copy),
            offset: 0,
            stride: columns,
        };
    }

    /// The copy of a parameter with all its slots, made at the start of the list.
    fn param(&mut self, id: BufferId) -> BufferId {
        if let Some((_, copy)) = self.params.iter().find(|(param, _)| *param == id) {
            return *copy;
        }
        let Buffer {
            extent,
            columns,
            slots,
            ..
        } = *self.program.buffer(id);
        let copy = self.buffer(id, (extent, columns, slots));
        for base in 0..slots {
            let slot = |buffer| Ref {
                base,
                ..Ref::first(buffer)
            };
            let from = Operand::dense(At::Row, 1, columns);
            let launch = self.copy((from, columns), extent, [slot(id), slot(copy)]);
            self.head.push(launch);
        }
        self.params.push((id, copy));
        copy
    }

    /// A buffer in 16 bits for a copy of another one.
    fn buffer(&mut self, of: BufferId, (extent, columns, slots): (Extent, u32, u32)) -> BufferId {
        let name = format!("{}.{}", self.program.buffer(of).name, self.storage);
        self.program.buffers.push(Buffer {
            name,
            extent,
            columns,
            slots,
            role: Role::Temp,
            storage: self.storage,
        });
        BufferId(self.program.buffers.len() as u32 - 1)
    }

    fn copy(&mut self, (from, width): (Operand, u32), rows: Extent, ends: [Ref; 2]) -> Instr {
        let kernel = Kernel {
            body: Body::Map {
                over: Over::Rows,
                values: vec![Expr::leaf(Value::Load(0))],
            },
            heads: 1,
            width,
            inputs: vec![from],
            outputs: vec![Operand {
                storage: self.storage,
                ..Operand::dense(At::Row, 1, width)
            }],
            masks: Vec::new(),
            scalars: 0,
        };
        Instr::Launch(Launch {
            kernel: self.kernel(kernel),
            rows,
            inputs: vec![ends[0]],
            outputs: vec![ends[1]],
            scalars: Vec::new(),
            sites: Vec::new(),
            lists: Vec::new(),
            chunk: None,
        })
    }

    /// Makes a launch use the kernel for the storage of its operands.
    fn launch(&mut self, launch: &mut Launch) {
        let mut kernel = self.before[launch.kernel.0 as usize].clone();
        let refs = launch.inputs.iter().chain(&launch.outputs);
        for (operand, at) in kernel
            .inputs
            .iter_mut()
            .chain(&mut kernel.outputs)
            .zip(refs)
        {
            operand.storage = self.program.buffer(at.buffer).storage;
        }
        launch.kernel = self.kernel(kernel);
    }

    fn kernel(&mut self, kernel: Kernel) -> KernelId {
        let kernels = &mut self.program.kernels;
        let known = kernels.iter().position(|known| *known == kernel);
        let at = known.unwrap_or(kernels.len());
        if at == kernels.len() {
            kernels.push(kernel);
        }
        KernelId(at as u32)
    }
}
