//! Candidates of which some tensors rest on the host, since they do not fit otherwise.

use super::{PlanRequest, Ready};
use crate::lower::offload::{self, Short};
use crate::parts::Parts;
use crate::simulate::{budgets, host_memory};
use gnnc_ir::plan::Host;
use gnnc_ir::program::traffic::moved;
use gnnc_ir::program::{Instr, Program};
use gnnc_ir::words::units::Bytes;

/// Programs of ranks that have so many bytes of memory each: one that stands for all or one for each rank, or
/// one for each stage. What does not fit there rests on the host. Unchanged where everything fits.
///
/// # Errors
/// How much is missing when there is nothing left to move.
pub fn offload_to_fit(
    programs: &[Program],
    parts: &Parts,
    device: Bytes,
) -> Result<Vec<Program>, Short> {
    let staged = programs.first().is_some_and(|p| p.pipeline.is_some());
    let Some(first) = programs.first().filter(|_| !staged) else {
        let one = |program: &Program| {
            offload::offload(
                std::slice::from_ref(program),
                &budgets(program, parts, device),
            )
        };
        let stages: Result<Vec<Vec<Program>>, Short> = programs.iter().map(one).collect();
        return Ok(stages?.into_iter().flatten().collect());
    };
    offload::offload(programs, &budgets(first, parts, device))
}

/// What all ranks do with their hosts in an epoch, and what rests there in the node where most does; none if
/// nothing does.
pub(super) fn use_of_host(
    programs: &[Program],
    request: &PlanRequest,
    parts: &Parts,
) -> Option<Host> {
    programs.iter().find(|program| !program.hosted.is_empty())?;
    let mut host = Host {
        device: request.cluster.device.memory,
        memory: host_memory(programs, request.cluster, parts),
        ..Host::default()
    };
    // One program may stand for the ranks of all parts.
    for program in programs {
        for sizes in &parts.sizes {
            let [fetched, stored] = moved(&program.step, program, sizes);
            host.fetched += Bytes(fetched);
            host.stored += Bytes(stored);
        }
        let chunks = program.step.iter().filter_map(Instr::chunk);
        let rows = chunks.filter(|chunk| chunk.even.is_some() && chunk.reach().is_none());
        host.chunks = host.chunks.max(rows.map(|chunk| chunk.of).max());
    }
    Some(host)
}

impl Ready {
    /// The programs with what has to rest on the host there.
    ///
    /// # Errors
    /// Why that does not help.
    pub(super) fn rested(&self, request: &PlanRequest) -> Result<Vec<Program>, String> {
        let Some(host) = request.cluster.host else {
            return Err("the cluster has no host memory to offload to".to_owned());
        };
        let device = request.cluster.device.memory;
        let full = |program: &Program| {
            let budgets = budgets(program, &self.parts, device);
            budgets.iter().any(|budget| budget.bytes == 0)
        };
        let full = self.programs.iter().any(full);
        let programs = offload_to_fit(&self.programs, &self.parts, device).map_err(|short| match full {
            true => format!(
                "topology and messages alone are too large; with everything possible offloaded to the host, {} \
                 are still missing",
                Bytes(short.bytes)
            ),
            false => format!(
                "with everything possible offloaded to the host, {} are still missing",
                Bytes(short.bytes)
            ),
        })?;
        let needed = host_memory(&programs, request.cluster, &self.parts);
        match needed <= host.memory {
            true => Ok(programs),
            false => Err(format!(
                "a node would offload {needed} to the host, which has {}",
                host.memory
            )),
        }
    }
}
