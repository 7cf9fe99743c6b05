//! Runs generated kernels.

use super::Worker;
use crate::arena::Span;
use crate::device::cpu::{Call, ColumnSum};
use crate::fault::Fault;
use crate::leaves::Leaves;
use crate::part::Walkable;
use crate::part::lists::{List, Numbers, Over, Table};
use crate::step_context::StepContext;
use gnnc_codegen::args::RawArgs;
use gnnc_codegen::args::checks::{Checks, Lists, MemoryRange};
use gnnc_ir::EdgeSet;
use gnnc_ir::graph::op::Site;
use gnnc_ir::kernel::Body;
use gnnc_ir::kernel::Walk;
use gnnc_ir::program::{Chunk, Launch, Program, Ref};

/// Floats touched by a piece of rows. Affects no result.
const PIECE: u64 = 32 * 1024;

impl Worker {
    /// Runs a kernel over its rows, those of the current chunk if there is one.
    ///
    /// # Safety
    /// The launch fits the buffers.
    pub(super) unsafe fn launch(
        &mut self,
        program: &Program,
        launch: &Launch,
        iteration: u32,
        step_context: &StepContext,
    ) -> Result<(), Fault> {
        let args = self.args(program, launch, iteration, step_context)?;
        let checks = self.checks(program, launch, iteration)?;
        let mut ranges = std::mem::take(&mut self.memory.ranges);
        let mut bounds = std::mem::take(&mut self.memory.bounds);
        self.own.fill_ranges(launch, &mut ranges)?;
        let kernel = &self.kernels[launch.kernel.0 as usize];
        let call = Call::new(kernel, args, checks.as_ref());
        let spec = program.kernel(launch.kernel);
        let rows: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let columns = u64::from(spec.heads) * u64::from(spec.width);
        let walk = Walk::of(&spec.body);
        let walkable = match spec.body.edge_set() {
            Some(set) if walk != Walk::Rows => Some(self.edges(launch, set, walk)?.0),
            _ => None,
        };
        let edges = walkable.map_or(0, |walkable| {
            let indptr = &walkable.csr.indptr;
            let entries = ranges
                .iter()
                .map(|range| indptr[range.end as usize] - indptr[range.start as usize]);
            entries.sum()
        });
        let accesses = (edges + rows) * columns * (spec.inputs.len() + spec.outputs.len()) as u64;
        // SAFETY: as the caller promised.
        unsafe {
            if matches!(spec.body, Body::ColReduce { .. }) {
                let leaves = self.leaves(program, launch.rows);
                let one = Leaves::one(ranges.first().cloned().unwrap_or_default());
                let sum = ColumnSum {
                    leaves: leaves.unwrap_or(&one),
                    adds: launch.chunk.is_some_and(|chunk| chunk.index > 0),
                    scratch: self.scratch(),
                };
                let out = |share| self.share(launch.outputs[0], iteration, share);
                let shares: Vec<Span> = (0..sum.leaves.shared()).map(out).collect();
                call.reduce_columns(&self.team, sum, &shares, accesses);
            } else if let Some(walkable) = walkable {
                for range in &ranges {
                    bounds.clear();
                    bounds.extend(walkable.pieces_within(range));
                    call.run(&self.team, &bounds, accesses);
                }
            } else {
                let piece = (PIECE / columns.max(1)).max(64).next_multiple_of(64);
                for range in &ranges {
                    call.run_rows(&self.team, range.clone(), piece, accesses);
                }
            }
        }
        let outcome = call.result();
        (self.memory.ranges, self.memory.bounds) = (ranges, bounds);
        Ok(outcome?)
    }

    /// The arguments of a launch, valid until the next one.
    pub(super) fn args(
        &mut self,
        program: &Program,
        launch: &Launch,
        iteration: u32,
        step_context: &StepContext,
    ) -> Result<RawArgs, Fault> {
        let spec = program.kernel(launch.kernel);
        let mut memory = std::mem::take(&mut self.memory);
        memory.inputs.clear();
        memory.inputs.extend(
            launch
                .inputs
                .iter()
                .map(|&at| self.first(at, launch.chunk, iteration).cast_const()),
        );
        memory.outputs.clear();
        memory.outputs.extend(
            launch
                .outputs
                .iter()
                .map(|&at| self.first(at, launch.chunk, iteration)),
        );
        memory.scalars.clear();
        memory.scalars.extend(
            launch
                .scalars
                .iter()
                .map(|scalar| step_context.scalar(*scalar)),
        );
        memory.keys.clear();
        let key = |site: &Site| site.key(step_context.seed, step_context.draw, iteration);
        memory.keys.extend(launch.sites.iter().map(key));
        self.memory = memory;
        let mut args = RawArgs {
            indptr: std::ptr::null(),
            indices: std::ptr::null(),
            positions: std::ptr::null(),
            ids: self.own.part.ids(Over::of(launch.rows)).as_ptr(),
            list: std::ptr::null(),
            inputs: self.memory.inputs.as_ptr(),
            outputs: self.memory.outputs.as_ptr(),
            scalars: self.memory.scalars.as_ptr(),
            keys: self.memory.keys.as_ptr(),
            checks: std::ptr::null(),
        };
        if let Some(set) = spec.body.edge_set() {
            let (walkable, positions) = self.edges(launch, set, Walk::of(&spec.body))?;
            args.indptr = walkable.csr.indptr.as_ptr();
            args.indices = self.sources(program, launch, set, walkable).as_ptr();
            args.positions = positions.as_ptr();
            let list = |at: &Ref| self.first(*at, launch.chunk, iteration).cast_const().cast();
            if let Some(ends) = launch.lists.first() {
                args.indices = list(ends);
            }
            if let Some(places) = launch.lists.get(1) {
                args.positions = list(places);
            }
        }
        Ok(args)
    }

    /// Bounds for a checked kernel: the lists and slots its latest arguments point to. `None` if
    /// the kernel is not checked.
    pub(super) fn checks(
        &self,
        program: &Program,
        launch: &Launch,
        iteration: u32,
    ) -> Result<Option<Checks>, Fault> {
        if !self.kernels[launch.kernel.0 as usize].is_checked() {
            return Ok(None);
        }
        let slot = |at: &Ref| self.slot(*at, iteration).range();
        let slots = |refs: &[Ref]| -> Vec<MemoryRange> { refs.iter().map(slot).collect() };
        let mut lists = Lists {
            ids: MemoryRange::of(self.own.part.ids(Over::of(launch.rows))),
            scalars: MemoryRange::of(&self.memory.scalars),
            keys: MemoryRange::of(&self.memory.keys),
            ..Lists::default()
        };
        let body = &program.kernel(launch.kernel).body;
        if let Some(set) = body.edge_set() {
            let (walkable, positions) = self.edges(launch, set, Walk::of(body))?;
            let or = |list: Option<&Ref>, kept| list.map_or(MemoryRange::of(kept), slot);
            lists.indptr = MemoryRange::of(&walkable.csr.indptr);
            let sources = self.sources(program, launch, set, walkable);
            lists.indices = or(launch.lists.first(), sources);
            lists.positions = or(launch.lists.get(1), positions);
        }
        let (inputs, outputs) = (slots(&launch.inputs), slots(&launch.outputs));
        Ok(Some(Checks::new(&lists, &inputs, &outputs)))
    }

    /// Address of a buffer's row 0. If the buffer holds only a chunk's rows, this is where row 0
    /// would be.
    fn first(&self, at: Ref, chunk: Option<Chunk>, iteration: u32) -> *mut f32 {
        let bytes = self.own.skipped_bytes(at, chunk) as usize;
        let first = self.slot(at, iteration).ptr.cast::<u8>();
        first.wrapping_sub(bytes).cast()
    }

    /// The sources of the edges that a launch walks: rows, or vertices where it reads all of them.
    fn sources<'a>(
        &'a self,
        program: &Program,
        launch: &Launch,
        set: EdgeSet,
        walkable: &'a Walkable,
    ) -> &'a [u32] {
        let vertices = List::vertices(program, launch, set);
        let vertices = vertices.and_then(|list| self.own.part.list(list));
        let vertices = vertices.and_then(Numbers::rows);
        vertices.unwrap_or(&walkable.csr.indices)
    }

    /// The edges of a set that a launch walks, and their positions by destination.
    fn edges(
        &self,
        launch: &Launch,
        set: EdgeSet,
        walk: Walk,
    ) -> Result<(&Walkable, &[u32]), Fault> {
        let table = Table::edges(launch.rows, set, walk);
        let edges = table.and_then(|table| self.own.part.table(table));
        edges.ok_or(Fault::Missing("edges"))
    }
}
