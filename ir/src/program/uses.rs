//! What instructions are called and which buffers they use.

use super::{Instr, Launch, Program, Ref};

impl Instr {
    /// The buffers that the instruction reads, then those that it writes; a loop has none of its own.
    pub fn accesses(&self) -> (Vec<Ref>, Vec<Ref>) {
        match self {
            Self::Launch(launch) => {
                let reads = launch.inputs.iter().chain(&launch.lists);
                (reads.copied().collect(), launch.outputs.clone())
            }
            Self::MatMul {
                a, b, out, finish, ..
            } => {
                let (mut reads, mut writes) = (vec![a.at, b.at], vec![out.at]);
                if let Some(launch) = finish {
                    reads.extend(&launch.inputs);
                    writes.extend(&launch.outputs);
                }
                (reads, writes)
            }
            Self::SparseMatMul { values, b, out, .. } => (vec![*values, b.at], vec![out.at]),
            Self::SparseDropout { values, out, .. } | Self::Densify { values, out } => {
                (vec![*values], vec![*out])
            }
            Self::HaloExchange { buffer, skip } => {
                let copies = skip.iter().map(|skip| skip.copies);
                let all: Vec<Ref> = std::iter::once(*buffer).chain(copies).collect();
                (all.clone(), all)
            }
            Self::HaloReduce { buffer } => (vec![*buffer], vec![*buffer]),
            Self::AllReduce { buffers } => {
                let all: Vec<Ref> = buffers.iter().map(|b| Ref::first(*b)).collect();
                (all.clone(), all)
            }
            Self::Redistribute { from, to, .. } => (vec![from.at], vec![*to]),
            Self::Begin(transfer) | Self::Finish(transfer) => transfer.what.accesses(),
            Self::Loss {
                logits, out, grad, ..
            } => (vec![*logits], out.iter().chain(grad).copied().collect()),
            Self::Metrics { logits, out, .. } => (vec![*logits], vec![*out]),
            Self::Send(passage) => (passage.tensors.clone(), Vec::new()),
            Self::Receive(passage) => (Vec::new(), passage.tensors.clone()),
            Self::Remember { from, history } => (vec![*from], vec![*history]),
            Self::Move { from, to, .. } => (vec![*from], vec![*to]),
            Self::Repeat { .. } | Self::Chunks { .. } => (Vec::new(), Vec::new()),
        }
    }

    /// The name that traces and reports use; the halves of a communication have its name.
    pub fn name(&self, program: &Program) -> &'static str {
        match self {
            Self::Launch(launch) => program.kernels[launch.kernel.0 as usize].body.name(),
            Self::MatMul { .. } => "gemm",
            Self::SparseMatMul { .. } => "sparse-gemm",
            Self::SparseDropout { .. } => "sparse-dropout",
            Self::Densify { .. } => "densify",
            Self::HaloExchange { .. } => "halo-exchange",
            Self::HaloReduce { .. } => "halo-reduce",
            Self::AllReduce { .. } => "all-reduce",
            Self::Redistribute { how, .. } => how.name(),
            Self::Begin(transfer) | Self::Finish(transfer) => transfer.what.name(program),
            Self::Loss { .. } => "loss",
            Self::Metrics { .. } => "metrics",
            Self::Repeat { .. } => "repeat",
            Self::Chunks { .. } => "chunks",
            Self::Send(_) => "send",
            Self::Receive(_) => "receive",
            Self::Remember { .. } => "remember",
            Self::Move { from, .. } => match program.is_hosted(from.buffer) {
                true => "fetch",
                false => "store",
            },
        }
    }

    /// Visits every reference to a buffer, those inside of loops too, to change it.
    pub fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        match self {
            Self::Launch(launch) => launch.each_ref(visit),
            Self::MatMul {
                a, b, out, finish, ..
            } => {
                [a, b, out].into_iter().for_each(|m| visit(&mut m.at));
                finish.iter_mut().for_each(|launch| launch.each_ref(visit));
            }
            Self::SparseMatMul { values, b, out, .. } => {
                [values, &mut b.at, &mut out.at].into_iter().for_each(visit);
            }
            Self::SparseDropout { values, out, .. } | Self::Densify { values, out } => {
                [values, out].into_iter().for_each(visit);
            }
            Self::HaloExchange { buffer, skip } => {
                visit(buffer);
                skip.iter_mut().for_each(|skip| visit(&mut skip.copies));
            }
            Self::HaloReduce { buffer } => visit(buffer),
            Self::AllReduce { buffers } => {
                for buffer in buffers {
                    let mut at = Ref::first(*buffer);
                    visit(&mut at);
                    *buffer = at.buffer;
                }
            }
            Self::Redistribute { from, to, .. } => {
                [&mut from.at, to].into_iter().for_each(visit);
            }
            Self::Begin(transfer) | Self::Finish(transfer) => transfer.what.each_ref(visit),
            Self::Loss {
                logits, out, grad, ..
            } => {
                visit(logits);
                out.iter_mut().chain(grad).for_each(visit);
            }
            Self::Metrics { logits, out, .. } => [logits, out].into_iter().for_each(visit),
            Self::Send(passage) | Self::Receive(passage) => {
                passage.tensors.iter_mut().for_each(visit);
            }
            Self::Remember { from, history } => [from, history].into_iter().for_each(visit),
            Self::Move { from, to, .. } => [from, to].into_iter().for_each(visit),
            Self::Repeat { body, .. } | Self::Chunks { body, .. } => {
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
