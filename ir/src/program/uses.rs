//! What instructions are called and which buffers they use.

use super::{Instr, Program, Ref};

impl Instr {
    /// The buffers that the instruction reads, then those that it writes; a loop has none of its own.
    pub fn accesses(&self) -> (Vec<Ref>, Vec<Ref>) {
        match self {
            Self::Launch(launch) => (launch.inputs.clone(), launch.outputs.clone()),
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
        }
    }
}
