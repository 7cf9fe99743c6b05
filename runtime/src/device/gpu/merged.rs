//! Merges independent launches of the same kernel into one, such as the updates of all parameters.

use super::device_rank::DeviceRank;
use super::driver::{Address, Function, Launch, Touched};
use super::launch::{Edges, Operands, Stop};
use super::state::{Gpu, read};
use super::step_contexts::Moments;
use super::touched::touched;
use crate::fault::Fault;
use gnnc_codegen::cuda::schedule::BLOCK;
use gnnc_codegen::cuda::together::Set;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Once, ScalarRef, together};

/// Merged launches that replace consecutive instructions of a list.
pub(super) struct Merged {
    /// One past the last of these instructions.
    pub(super) end: usize,
    launches: Vec<MergedLaunch>,
}

/// One launch that replaces several launches of the same kernel.
struct MergedLaunch {
    function: Function,
    table: Address,
    sets: u64,
    blocks: u32,
    scalars: Vec<ScalarRef>,
    touched: Vec<Touched>,
}

impl DeviceRank {
    /// Finds launches to merge, and copies their tables to the device. If buffers move, this is done anew.
    ///
    /// # Errors
    /// If the device fails.
    pub(super) fn merge(&mut self, gpu: &mut Gpu) -> Result<(), Stop> {
        let program = self.own.program.clone();
        for merged in std::mem::take(&mut self.merged).into_values() {
            for launch in merged.launches {
                gpu.driver.release(launch.table)?;
            }
        }
        for phase in Phase::ALL {
            for found in together(program.list(phase), &program) {
                let mut launches = Vec::new();
                for same in found.by_kernel() {
                    launches.extend(self.kept(gpu, &same)?);
                }
                let end = found.instrs.end;
                let merged = Merged { end, launches };
                self.merged.insert((phase, found.instrs.start), merged);
            }
        }
        Ok(())
    }

    /// Merges several launches of the same kernel; `None` if none of them has any rows.
    fn kept(&self, gpu: &mut Gpu, same: &[Once]) -> Result<Option<MergedLaunch>, Stop> {
        let missing = || Stop::Fault(Fault::Missing("a kernel"));
        let [first, ..] = same else {
            return Ok(None);
        };
        let number = first.launch.kernel.0 as usize;
        let loaded = gpu.code.kernel(self.program, number).ok_or_else(missing)?;
        let together = loaded.together.as_ref().ok_or_else(missing)?;
        let (mut sets, mut used) = (Vec::new(), Vec::new());
        for Once {
            launch, iteration, ..
        } in same
        {
            let place = |list: &[gnnc_ir::program::Ref]| -> Vec<Address> {
                list.iter().map(|at| self.slot(*at, *iteration)).collect()
            };
            let operands = Operands {
                inputs: place(&launch.inputs),
                outputs: place(&launch.outputs),
                ..Operands::default()
            };
            let rows = self.own.part.sizes.rows(launch.rows);
            let numbers = |list: &[Address]| list.iter().map(|at| at.0).collect();
            sets.push(Set {
                rows,
                inputs: numbers(&operands.inputs),
                outputs: numbers(&operands.outputs),
            });
            if gpu.checks {
                let edges = Edges::default();
                used.extend(touched(&loaded.kernel, edges, &(0..rows), &operands));
            }
        }
        let table = together.source.table(&sets);
        let blocks = u32::try_from(table.blocks).map_err(|_| missing())?;
        if blocks == 0 {
            return Ok(None);
        }
        let at = gpu.put_list(&table.numbers)?;
        used.push(read(at, 8 * table.numbers.len() as u64));
        Ok(Some(MergedLaunch {
            function: together.function,
            table: at,
            sets: sets.len() as u64,
            blocks,
            scalars: first.launch.scalars.clone(),
            touched: used,
        }))
    }

    /// Runs the merged launches that start at a position of a list, and returns where the list
    /// continues; `None` if none start there.
    ///
    /// # Errors
    /// If the device fails.
    pub(super) fn launch_merged(
        &self,
        gpu: &mut Gpu,
        place: (Phase, usize),
        step_contexts: &Moments,
    ) -> Result<Option<usize>, Stop> {
        let Some(merged) = self.merged.get(&place) else {
            return Ok(None);
        };
        for kept in &merged.launches {
            let scalars = step_contexts.scalars(&kept.scalars);
            let launch = Launch {
                function: kept.function,
                grid: [kept.blocks, 1],
                block: BLOCK,
                arguments: &[kept.table.0, kept.sets, scalars.0],
                touched: &kept.touched,
            };
            gpu.driver.launch(self.streams.compute, &launch)?;
        }
        Ok(Some(merged.end))
    }
}
