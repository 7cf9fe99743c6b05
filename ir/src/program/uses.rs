//! What instructions are called and which buffers they use.

use super::{Instr, Launch, Program, Ref};
use crate::program::instr;

impl Instr {
    /// The buffers that the instruction reads, then those that it writes; a loop has none of its own.
    pub fn accesses(&self) -> (Vec<Ref>, Vec<Ref>) {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        self.each_access(&mut |at, write| match write {
            true => writes.push(*at),
            false => reads.push(*at),
        });
        (reads, writes)
    }

    /// Visits the buffers that the instruction reads, then those that it writes (`true`); a loop has none of
    /// its own.
    pub fn each_access(&self, visit: &mut dyn FnMut(&Ref, bool)) {
        match self {
            Self::Launch(launch) => {
                let reads = launch.inputs.iter().chain(&launch.lists);
                reads.for_each(|at| visit(at, false));
                launch.outputs.iter().for_each(|at| visit(at, true));
            }
            Self::MatMul(instr::MatMul {
                a, b, out, finish, ..
            }) => {
                [a, b].into_iter().for_each(|m| visit(&m.at, false));
                let finish = || finish.iter();
                let inputs = finish().flat_map(|launch| &launch.inputs);
                inputs.for_each(|at| visit(at, false));
                visit(&out.at, true);
                let outputs = finish().flat_map(|launch| &launch.outputs);
                outputs.for_each(|at| visit(at, true));
            }
            Self::SparseMatMul(instr::SparseMatMul { values, b, out, .. }) => {
                [values, &b.at].into_iter().for_each(|at| visit(at, false));
                visit(&out.at, true);
            }
            Self::SparseDropout(instr::SparseDropout { values, out, .. })
            | Self::Densify(instr::Densify { values, out }) => {
                visit(values, false);
                visit(out, true);
            }
            Self::HaloExchange(instr::HaloExchange { buffer, skip }) => {
                for write in [false, true] {
                    visit(buffer, write);
                    skip.iter().for_each(|skip| visit(&skip.copies, write));
                }
            }
            Self::HaloReduce(instr::HaloReduce { buffer, skip }) => {
                visit(buffer, false);
                visit(buffer, true);
                let left = skip.iter().filter_map(|skip| skip.left.as_ref());
                left.for_each(|at| visit(at, true));
            }
            Self::AllReduce(instr::AllReduce { buffers }) => {
                for write in [false, true] {
                    let all = buffers.iter().map(|id| Ref::first(*id));
                    all.for_each(|at| visit(&at, write));
                }
            }
            Self::Redistribute(instr::Redistribute { from, to, .. }) => {
                visit(&from.at, false);
                visit(to, true);
            }
            Self::Begin(transfer) | Self::Finish(transfer) => transfer.what.each_access(visit),
            Self::Loss(instr::Loss {
                logits, out, grad, ..
            }) => {
                visit(logits, false);
                out.iter().chain(grad).for_each(|at| visit(at, true));
            }
            Self::Metrics(instr::Metrics { logits, out, .. }) => {
                visit(logits, false);
                visit(out, true);
            }
            Self::Send(stage_message) => {
                stage_message.tensors.iter().for_each(|at| visit(at, false))
            }
            Self::Receive(stage_message) => {
                stage_message.tensors.iter().for_each(|at| visit(at, true))
            }
            Self::Remember(instr::Remember { from, history }) => {
                visit(from, false);
                visit(history, true);
            }
            Self::Move(instr::Move { from, to, .. }) => {
                visit(from, false);
                visit(to, true);
            }
            Self::Repeat(_) | Self::Chunks(_) => {}
        }
    }

    /// The name that traces and reports use; the halves of a communication have its name.
    pub fn name(&self, program: &Program) -> &'static str {
        match self {
            Self::Launch(launch) => program.kernels[launch.kernel.0 as usize].body.name(),
            Self::MatMul(_) => "gemm",
            Self::SparseMatMul(_) => "sparse-gemm",
            Self::SparseDropout(_) => "sparse-dropout",
            Self::Densify(_) => "densify",
            Self::HaloExchange(_) => "halo-exchange",
            Self::HaloReduce(_) => "halo-reduce",
            Self::AllReduce(_) => "all-reduce",
            Self::Redistribute(instr::Redistribute { how, .. }) => how.name(),
            Self::Begin(transfer) | Self::Finish(transfer) => transfer.what.name(program),
            Self::Loss(_) => "loss",
            Self::Metrics(_) => "metrics",
            Self::Repeat(_) => "repeat",
            Self::Chunks(_) => "chunks",
            Self::Send(_) => "send",
            Self::Receive(_) => "receive",
            Self::Remember(_) => "remember",
            Self::Move(instr::Move { from, .. }) => match program.is_hosted(from.buffer) {
                true => "fetch",
                false => "store",
            },
        }
    }

    /// Visits every reference to a buffer, those inside of loops too, to change it.
    pub fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        match self {
            Self::Launch(launch) => launch.each_ref(visit),
            Self::MatMul(instr::MatMul {
                a, b, out, finish, ..
            }) => {
                [a, b, out].into_iter().for_each(|m| visit(&mut m.at));
                finish.iter_mut().for_each(|launch| launch.each_ref(visit));
            }
            Self::SparseMatMul(instr::SparseMatMul { values, b, out, .. }) => {
                [values, &mut b.at, &mut out.at].into_iter().for_each(visit);
            }
            Self::SparseDropout(instr::SparseDropout { values, out, .. })
            | Self::Densify(instr::Densify { values, out }) => {
                [values, out].into_iter().for_each(visit);
            }
            Self::HaloExchange(instr::HaloExchange { buffer, skip }) => {
                visit(buffer);
                skip.iter_mut().for_each(|skip| visit(&mut skip.copies));
            }
            Self::HaloReduce(instr::HaloReduce { buffer, skip }) => {
                visit(buffer);
                if let Some(skip) = skip {
                    visit(&mut skip.of.copies);
                    skip.left.iter_mut().for_each(visit);
                }
            }
            Self::AllReduce(instr::AllReduce { buffers }) => {
                for buffer in buffers {
                    let mut at = Ref::first(*buffer);
                    visit(&mut at);
                    *buffer = at.buffer;
                }
            }
            Self::Redistribute(instr::Redistribute { from, to, .. }) => {
                [&mut from.at, to].into_iter().for_each(visit);
            }
            Self::Begin(transfer) | Self::Finish(transfer) => transfer.what.each_ref(visit),
            Self::Loss(instr::Loss {
                logits, out, grad, ..
            }) => {
                visit(logits);
                out.iter_mut().chain(grad).for_each(visit);
            }
            Self::Metrics(instr::Metrics { logits, out, .. }) => {
                [logits, out].into_iter().for_each(visit)
            }
            Self::Send(stage_message) | Self::Receive(stage_message) => {
                stage_message.tensors.iter_mut().for_each(visit);
            }
            Self::Remember(instr::Remember { from, history }) => {
                [from, history].into_iter().for_each(visit)
            }
            Self::Move(instr::Move { from, to, .. }) => [from, to].into_iter().for_each(visit),
            Self::Repeat(instr::Repeat { body, .. }) | Self::Chunks(instr::Chunks { body, .. }) => {
                body.iter_mut().for_each(|instr| instr.each_ref(visit));
            }
        }
    }
}

impl Launch {
    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        self.inputs.iter_mut().for_each(&mut *visit);
        self.lists.iter_mut().for_each(&mut *visit);
        self.outputs.iter_mut().for_each(visit);
    }
}
