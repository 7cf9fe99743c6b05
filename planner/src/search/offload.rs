//! Candidates that offload some tensors to the host because they do not fit otherwise.

use super::{Lower, PlanRequest, Ready};
use crate::lower::offload::{self, Short};
use crate::parts::Parts;
use crate::simulate::{Estimate, Room, budgets, host_memory};
use gnnc_ir::plan::Host;
use gnnc_ir::program::traffic::moved;
use gnnc_ir::program::{Instr, Program};
use gnnc_ir::words::units::Bytes;
use std::sync::Arc;

/// Offloads tensors of programs so that they fit ranks with so much memory each. Takes
/// one program that represents all ranks, one per rank, or one per stage. Programs that fit are
/// unchanged.
///
/// # Errors
/// How much memory is missing when nothing is left to move.
pub fn offload_to_fit(
    programs: &[Program],
    parts: &Parts,
    device: Room,
) -> Result<Vec<Program>, Short> {
    let all = groups(programs).into_iter();
    let found = all.map(|group| offload::offload(group, &budgets(&group[0], parts, device)));
    Ok(found.collect::<Result<Vec<_>, Short>>()?.concat())
}

/// The same in less time, with copies that overlap nothing; `None` if nothing makes them fit.
pub(super) fn offload_somehow(
    programs: &[Program],
    parts: &Parts,
    device: Room,
) -> Option<Vec<Program>> {
    let all = groups(programs).into_iter();
    let found =
        all.map(|group| offload::offload_somehow(group, &budgets(&group[0], parts, device)));
    Some(found.collect::<Option<Vec<_>>>()?.concat())
}

/// Programs that change alike: those of all ranks, or each stage's by itself.
fn groups(programs: &[Program]) -> Vec<&[Program]> {
    let staged = programs.first().is_some_and(|p| p.pipeline.is_some());
    let each = if staged { 1 } else { programs.len().max(1) };
    programs.chunks(each).collect()
}

/// The host traffic of all ranks in an epoch, and the host memory in the node that needs the most;
/// `None` if nothing is offloaded.
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
    // One program may represent the ranks of all parts.
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

/// A candidate that was to be made to fit.
pub(super) struct Fitted {
    pub ready: Ready,
    pub estimate: Estimate,
    /// Why the host does not help, if nothing makes it fit.
    pub helpless: Option<String>,
}

/// Why the host does not help.
struct Helpless {
    /// Bytes missing, on a rank or its host.
    lacking: u64,
    text: String,
}

impl Ready {
    /// Makes a candidate fit that does not: without overlap if that suffices, else with tensors on the host, with
    /// overlap or without. Without success it stays as it is.
    ///
    /// # Errors
    /// Why a candidate has no estimate.
    pub(super) fn fitted(
        self,
        estimate: Estimate,
        request: &PlanRequest,
        lower: &dyn Lower,
    ) -> Result<Fitted, String> {
        let fits = |ready: Self, estimate: Estimate| Fitted {
            ready,
            estimate,
            helpless: None,
        };
        let plain = self.without_overlap(request, lower);
        let host = request.pin.knobs.offload;
        if let Some(plain) = plain.as_ref().filter(|_| host != Some(true)) {
            let estimate = plain.estimate(request)?;
            if estimate.fits {
                return Ok(fits(plain.clone(), estimate));
            }
        }
        if host == Some(false) || self.spec.equal_bits() {
            return Ok(fits(self, estimate));
        }
        let mut whys = Vec::new();
        for ready in [Some(&self), plain.as_ref()].into_iter().flatten() {
            match ready.rested(request, lower) {
                Ok(programs) => {
                    let mut rested = Self {
                        programs: Arc::new(programs),
                        ..ready.clone()
                    };
                    rested.spec.knobs.offload = Some(true);
                    let estimate = rested.estimate(request)?;
                    return Ok(fits(rested, estimate));
                }
                Err(why) => whys.push(why),
            }
        }
        let nearest = whys.into_iter().min_by_key(|why| why.lacking);
        Ok(Fitted {
            ready: self,
            estimate,
            helpless: nearest.map(|why| why.text),
        })
    }

    /// The programs with tensors offloaded as necessary.
    ///
    /// # Errors
    /// Why offloading does not help.
    fn rested(&self, request: &PlanRequest, lower: &dyn Lower) -> Result<Vec<Program>, Helpless> {
        let helpless = |lacking: u64, text: String| Helpless { lacking, text };
        let Some(host) = request.cluster.host else {
            let text = "the cluster has no host memory to offload to";
            return Err(helpless(0, text.to_owned()));
        };
        let device = Room::from(&request.cluster.device);
        let full = |program: &Program| {
            let budgets = budgets(program, &self.parts, device);
            budgets.iter().any(|budget| budget.bytes == 0)
        };
        let full = self.programs.iter().any(full);
        // Batches then copy rows instead of reading them in place.
        let mut spec = self.spec.clone();
        spec.knobs.offload = Some(true);
        let programs = match self.spec.samples() {
            true => lower
                .programs(&spec)
                .map_err(|e| helpless(u64::MAX, e.to_string()))?,
            false => Arc::clone(&self.programs),
        };
        let programs = offload_to_fit(&programs, &self.parts, device).map_err(|short| {
            let first = if full {
                "topology and messages alone are too large; "
            } else {
                ""
            };
            let missing = Bytes(short.bytes);
            helpless(
                short.bytes,
                format!("{first}with everything possible offloaded to the host, {missing} are still missing"),
            )
        })?;
        let needed = host_memory(&programs, request.cluster, &self.parts);
        if needed > host.memory {
            let text = format!(
                "a node would offload {needed} to the host, which has {}",
                host.memory
            );
            return Err(helpless(needed.0 - host.memory.0, text));
        }
        Ok(programs)
    }
}
