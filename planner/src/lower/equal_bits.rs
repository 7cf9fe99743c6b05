//! Programs that compute the same bits on any number of ranks (after TBIK, arXiv 2511.17826).
//!
//! Lowering adds the shares of a sum over vertices before anything reads it, and ranks add them along one tree
//! ([`gnnc_ir::program::leaves`]). What is left are sums over the edges out of vertices: instead of sending sums for vertices
//! of others, each rank adds up all edges out of its own, for which others send the rows of their targets.

use crate::error::LowerError;
use gnnc_ir::kernel::{At, End, Kernel, Walk};
use gnnc_ir::program::instr::HaloExchange;
use gnnc_ir::program::leaves::unequal;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{BufferId, Extent, Halo, Instr, Launch, Program, Ref, Role, access};
use std::collections::BTreeSet;

/// Lets a program whose shares are added at once compute the same bits on any number of ranks.
///
/// # Errors
/// What of it depends on their number.
pub fn equal_bits(mut program: Program) -> Result<Program, LowerError> {
    if program.ranks > 1 && program.halo == Halo::Boundary && program.pipeline.is_none() {
        let mut pass = Pass::default();
        for phase in Phase::ALL {
            pass.in_setup = phase == Phase::Setup;
            let instrs = std::mem::take(program.list_mut(phase));
            *program.list_mut(phase) = pass.list(instrs, &mut program)?;
        }
        program.setup.extend(pass.once.into_iter().map(exchange));
        if !pass.summed.is_empty() {
            program.halo = Halo::BothEnds;
        }
    }
    program.equal_bits = true;
    match unequal(&program) {
        None => Ok(program),
        Some(what) => Err(refused(what)),
    }
}

fn refused(what: &str) -> LowerError {
    LowerError::Illegal(format!(
        "equal bits on any number of workers cannot be combined with {what}; leave out --equal-bits, or choose another \
         placement if this one needs it"
    ))
}

/// An exchange of the targets of edges.
fn exchange(at: Ref) -> Instr {
    Instr::HaloExchange(HaloExchange {
        end: End::Dst,
        ..HaloExchange::of(at)
    })
}

#[derive(Default)]
struct Pass {
    /// Whether the list at hand is `setup`, which writes what is the same in all epochs.
    in_setup: bool,
    /// Tensors that kernels over the edges out of vertices write.
    summed: BTreeSet<BufferId>,
    /// Tensors of all epochs whose targets are exchanged once.
    once: Vec<Ref>,
}

impl Pass {
    fn list(
        &mut self,
        instrs: Vec<Instr>,
        program: &mut Program,
    ) -> Result<Vec<Instr>, LowerError> {
        let mut out = Vec::with_capacity(instrs.len());
        // Tensors whose targets are here.
        let mut here: Vec<Ref> = Vec::new();
        for mut instr in instrs {
            if let Instr::Repeat(repeat) = &mut instr {
                repeat.body = self.list(std::mem::take(&mut repeat.body), program)?;
                here.clear();
            }
            if let Instr::HaloReduce(one) = &instr
                && one.skip.is_none()
                && self.summed.contains(&one.buffer.buffer)
            {
                continue;
            }
            if let Instr::Launch(launch) = &mut instr
                && launch.rows == Extent::Local
                && Walk::of(&program.kernel(launch.kernel).body) == Walk::EdgesBySource
            {
                let outputs = launch.outputs.iter();
                self.summed.extend(outputs.map(|at| at.buffer));
                for at in targets(launch, program.kernel(launch.kernel))? {
                    let buffer = &mut program.buffers[at.buffer.0 as usize];
                    buffer.extent = buffer.extent.with_halo();
                    if buffer.role.is_filled() || here.contains(&at) || self.once.contains(&at) {
                        continue;
                    }
                    if buffer.role == Role::Static && !self.in_setup {
                        self.once.push(at);
                    } else {
                        out.push(exchange(at));
                        here.push(at);
                    }
                }
                // Who sums by target needs the number of every edge into an own vertex, wherever the edge comes from.
                let numbers = program.kernel(launch.kernel).outputs.iter();
                if !numbers.into_iter().any(|operand| operand.at == At::Edge) {
                    launch.rows = Extent::Inner;
                }
            }
            for access in access::accesses(&instr, program) {
                if access.writes {
                    here.retain(|at| at.buffer != access.buffer);
                }
            }
            out.push(instr);
        }
        Ok(out)
    }
}

/// The tensors that a kernel reads at the targets of edges.
fn targets(launch: &Launch, kernel: &Kernel) -> Result<Vec<Ref>, LowerError> {
    let mut found = Vec::new();
    for (operand, at) in kernel.inputs.iter().zip(&launch.inputs) {
        match operand.at {
            At::Edge => {
                return Err(refused(
                    "sums over the edges out of vertices that read a number of each edge, which only the worker of its \
                     target has",
                ));
            }
            At::Dst if !found.contains(at) => found.push(*at),
            At::Dst | At::Src | At::Row | At::One | At::List => {}
        }
    }
    Ok(found)
}
