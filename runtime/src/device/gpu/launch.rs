//! Launches of generated kernels: over which rows, with which arguments.

use super::code::Loaded;
use super::device_rank::DeviceRank;
use super::driver::{Address, DriverError, Launch, Matrix};
use super::state::Gpu;
use super::step_contexts::Moments;
use super::tables::{Section, Tables};
use super::touched::touched;
use crate::fault::Fault;
use crate::part::Part;
use crate::part::lists::{List, Numbers, Over, Table};
use crate::sparse;
use crate::steps::Step;
use gnnc_codegen::cuda::{Parameter, Size};
use gnnc_ir::kernel::Walk;
use gnnc_ir::kernel::{Body, Kernel};
use gnnc_ir::program::instr;
use gnnc_ir::program::memory::ALIGN;
use gnnc_ir::program::{self, Chunk, Extent, Instr, Product};
use std::ops::Range;

/// The edges a kernel walks.
#[derive(Clone, Copy, Default)]
pub(super) struct Edges<'a> {
    /// Their table; `None` if the kernel walks rows.
    pub(super) table: Option<Table>,
    /// The list of `indices`, if it is not that of the table.
    ends: Option<List>,
    pub(super) indptr: &'a [u64],
    pub(super) indices: &'a [u32],
    pub(super) positions: &'a [u32],
}

/// Sources of a launch's arguments, except for its rows.
#[derive(Clone, Default)]
pub(super) struct Operands {
    pub(super) inputs: Vec<Address>,
    pub(super) outputs: Vec<Address>,
    /// Fetched lists of the ends of edges and their positions, if the kept ones are not used.
    pub(super) lists: Vec<Address>,
    pub(super) ids: Address,
    pub(super) scalars: Address,
    pub(super) keys: Address,
}

/// Why a launch failed.
pub(super) enum Stop {
    Fault(Fault),
    Driver(DriverError),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<DriverError> for Stop {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::Driver(error) => error.fmt(f),
        }
    }
}

impl From<Stop> for crate::RuntimeError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Fault(fault) => Self::Program(fault.to_string()),
            Stop::Driver(error) => Self::Device(error),
        }
    }
}

impl<'a> Edges<'a> {
    /// The edges of a table, if the rank has it.
    fn of(part: &'a Part, table: Option<Table>) -> Option<Self> {
        let (walkable, positions) = part.table(table?)?;
        Some(Self {
            table,
            ends: None,
            indptr: &walkable.csr.indptr,
            indices: &walkable.csr.indices,
            positions,
        })
    }
}

impl DeviceRank {
    /// The sections over which an instruction launches generated kernels; empty if it launches
    /// none.
    pub(super) fn sections(&mut self, gpu: &mut Gpu, step: &Step) -> Result<Vec<Section>, Stop> {
        let missing = || Stop::Fault(Fault::Missing("a kernel"));
        let (loaded, ranges) = if let Some(launch) = step.instr.launch() {
            let number = launch.kernel.0 as usize;
            let loaded = gpu.code.kernel(self.program, number).ok_or_else(missing)?;
            (loaded, self.own.ranges(launch)?)
        } else if let Instr::SparseMatMul(one) = step.instr
            && one.columns > 0
        {
            let matrices = [&one.b, &one.out];
            let key = sparse::key(&self.own.program, one.product, one.columns, matrices);
            let loaded = gpu.code.sparse(key).ok_or_else(missing)?;
            let rows = match one.product {
                Product::Tn => {
                    let columns = self.sparse_edges(one.product, one.values)?.indptr.len();
                    0..columns.saturating_sub(1) as u64
                }
                Product::Nn | Product::Nt => self.sparse_rows(one.values),
            };
            (loaded, vec![rows])
        } else {
            return Ok(Vec::new());
        };
        let mut tables = std::mem::replace(&mut self.tables, Tables::new(0));
        let sections = self.edges(&loaded, step.instr).and_then(|edges| {
            let section = |rows: Range<u64>| self.section(gpu, &mut tables, (&loaded, edges), rows);
            ranges.into_iter().map(section).collect()
        });
        self.tables = tables;
        sections
    }

    /// The edges the kernel of an instruction walks; none if it walks rows.
    pub(super) fn edges(&self, loaded: &Loaded, instr: &Instr) -> Result<Edges<'_>, Stop> {
        let body = &loaded.kernel.body;
        let (walk, set) = (Walk::of(body), body.edge_set());
        if let Instr::SparseMatMul(instr::SparseMatMul {
            product, values, ..
        }) = instr
        {
            return Ok(self.sparse_edges(*product, *values)?);
        }
        if let (Instr::Launch(launch), Some(set)) = (instr, set)
            && walk != Walk::Rows
        {
            let edges = Edges::of(&self.own.part, Table::edges(launch.rows, set, walk));
            let mut edges = edges.ok_or(Fault::Missing("edges"))?;
            edges.ends = List::vertices(&self.own.program, launch, set);
            let vertices = edges.ends.and_then(|list| self.own.part.list(list));
            edges.indices = vertices.and_then(Numbers::rows).unwrap_or(edges.indices);
            return Ok(edges);
        }
        Ok(Edges::default())
    }

    /// The nonzeros of sparse features by row, or by column for a transposed product.
    pub(super) fn sparse_edges(
        &self,
        product: Product,
        values: program::Ref,
    ) -> Result<Edges<'_>, Fault> {
        let extent = self.own.program.buffer(values.buffer).extent;
        let edges = Edges::of(&self.own.part, Some(Table::features(extent, product)));
        edges.ok_or(Fault::Missing("sparse features"))
    }

    /// Addresses of the first entries of rows and of the ends of entries; 0 if no edges are walked.
    pub(super) fn entries(&self, gpu: &mut Gpu, edges: &Edges) -> Result<[Address; 2], Stop> {
        let Some(table) = edges.table else {
            return Ok(Default::default());
        };
        Ok([
            self.list(gpu, List::First(table))?,
            self.list(gpu, List::Ends(table))?,
        ])
    }

    /// The current rows of the sparse features.
    pub(super) fn sparse_rows(&self, values: program::Ref) -> Range<u64> {
        if self.own.program.sparse_rows(values) == Extent::All {
            0..self.own.part.sizes.vertices
        } else {
            self.rows_at_hand()
        }
    }

    /// The operands of a launch.
    pub(super) fn operands(
        &self,
        gpu: &mut Gpu,
        launch: &program::Launch,
        iteration: u32,
        step_contexts: &Moments,
    ) -> Result<Operands, Stop> {
        let first = |at: &program::Ref| {
            let skipped = self.own.skipped_bytes(*at, launch.chunk);
            Address(self.slot(*at, iteration).0.wrapping_sub(skipped))
        };
        let slots = |refs: &[program::Ref]| -> Vec<Address> { refs.iter().map(first).collect() };
        Ok(Operands {
            inputs: slots(&launch.inputs),
            outputs: slots(&launch.outputs),
            lists: slots(&launch.lists),
            ids: self.list(gpu, List::Ids(Over::of(launch.rows).whole()))?,
            scalars: step_contexts.scalars(&launch.scalars),
            keys: step_contexts.keys(&launch.sites, iteration),
        })
    }

    /// Launches the kernel of an instruction over all its sections.
    pub(super) fn launch(
        &mut self,
        gpu: &mut Gpu,
        step: &Step,
        operands: &Operands,
    ) -> Result<(), Stop> {
        let sections = self.sections(gpu, step)?;
        for Section { loaded, size, .. } in &sections {
            self.scratch_of(gpu, 4 * scratch_floats(loaded, size, step.instr.chunk()))?;
        }
        for section in sections {
            self.launch_section(gpu, step.instr, &section, operands)?;
        }
        Ok(())
    }

    fn launch_section(
        &self,
        gpu: &mut Gpu,
        instr: &Instr,
        section: &Section,
        operands: &Operands,
    ) -> Result<(), Stop> {
        let Section { loaded, size, .. } = section;
        let schedule = &loaded.source.schedule;
        if schedule.launches(size).is_empty() {
            return Ok(());
        }
        if let Some(alignment) = loaded.misplaced(&operands.inputs, &operands.outputs) {
            return Err(Fault::Alignment(alignment).into());
        }
        let sums = added(&loaded.kernel, instr.chunk());
        if let (Some(floats), Some(out)) = (sums, operands.outputs.first()) {
            return self.launch_added(gpu, instr, section, operands, (floats, *out));
        }
        self.launch_onto(gpu, instr, section, operands)
    }

    /// Launches a kernel that sums over rows, and adds its `floats` sums to the existing ones.
    fn launch_added(
        &self,
        gpu: &mut Gpu,
        instr: &Instr,
        section: &Section,
        operands: &Operands,
        (floats, out): (u64, Address),
    ) -> Result<(), Stop> {
        let apart = Operands {
            outputs: vec![self.scratch],
            ..operands.clone()
        };
        self.launch_onto(gpu, instr, section, &apart)?;
        let (at, stride) = (out, floats);
        Ok(self.add(gpu, (1, floats), Matrix { at, stride })?)
    }

    fn launch_onto(
        &self,
        gpu: &mut Gpu,
        instr: &Instr,
        section: &Section,
        operands: &Operands,
    ) -> Result<(), Stop> {
        let Section {
            loaded, rows, size, ..
        } = section;
        let schedule = &loaded.source.schedule;
        // Behind the sums to be added.
        let before = added(&loaded.kernel, instr.chunk()).unwrap_or(0);
        let own_scratch = self.scratch.plus(4 * before.next_multiple_of(ALIGN));
        let edges = self.edges(loaded, instr)?;
        let pointer = |list: &[Address], n: u16| list.get(usize::from(n)).map_or(0, |at| at.0);
        let hubs = section.hubs;
        let mut lists = [Address::default(); 3];
        if let Some(table) = edges.table {
            let ends = edges.ends.unwrap_or(List::Ends(table));
            let read = [List::First(table), ends, List::Positions(table)];
            for (n, (at, list)) in lists.iter_mut().zip(read).enumerate() {
                // A launch may fetch the last two, which the device then does not keep. One that it neither
                // fetches nor keeps is not read.
                let fetched = n.checked_sub(1).and_then(|n| operands.lists.get(n));
                *at = match fetched {
                    Some(fetched) => *fetched,
                    None if n == 0 || operands.lists.is_empty() => self.list(gpu, list)?,
                    None => Address::default(),
                };
            }
        }
        let [indptr, indices, positions] = lists;
        let argument = |parameter: &Parameter| match *parameter {
            Parameter::Indptr => indptr.0,
            Parameter::Indices => indices.0,
            Parameter::Positions => positions.0,
            Parameter::Ids => operands.ids.0,
            Parameter::List => 0,
            Parameter::Scalars => operands.scalars.0,
            Parameter::Keys => operands.keys.0,
            Parameter::Begin => rows.start,
            Parameter::End => rows.end,
            Parameter::Input(n) => pointer(&operands.inputs, n),
            Parameter::Output(n) => pointer(&operands.outputs, n),
            Parameter::HubEdges => self.tables.most,
            Parameter::Order => section.order.0,
            Parameter::HubRows => hubs.rows.0,
            Parameter::HubCount => size.hubs,
            Parameter::FirstChunks => hubs.first_chunks.0,
            Parameter::ChunkRows => hubs.chunk_rows.0,
            Parameter::ChunkEdges => hubs.chunk_edges.0,
            Parameter::ChunkCount => size.chunks,
            Parameter::Scratch => own_scratch.0,
            Parameter::PartialItems => schedule.partial_items(size),
            Parameter::PartialCount => schedule.partials(size),
        };
        let arguments: Vec<u64> = loaded.source.parameters.iter().map(argument).collect();
        let touched = match gpu.checks {
            true => {
                let mut all = touched(&loaded.kernel, edges, rows, operands);
                let scratch = 4 * schedule.scratch_floats(size);
                all.extend((scratch > 0).then(|| super::state::written(own_scratch, scratch)));
                let listed = [
                    (indptr, size_of_val(edges.indptr)),
                    (indices, size_of_val(edges.indices)),
                    (positions, size_of_val(edges.positions)),
                ];
                // Those that are fetched are operands.
                let listed = listed.into_iter().filter(|_| operands.lists.is_empty());
                let listed = listed.filter(|(at, bytes)| at.0 > 0 && *bytes > 0);
                all.extend(listed.map(|(at, bytes)| super::state::read(at, bytes as u64)));
                all
            }
            false => Vec::new(),
        };
        for launch in schedule.launches(size) {
            let function = loaded.entry(&launch.entry);
            let launch = Launch {
                function: function.ok_or(Fault::Missing("an entry point"))?,
                grid: launch.grid,
                block: launch.block,
                arguments: &arguments,
                touched: &touched,
            };
            gpu.driver.launch(self.streams.compute, &launch)?;
        }
        Ok(())
    }
}

/// Number of floats a kernel adds to the sums of earlier chunks, if it sums over the rows of a
/// later chunk.
fn added(kernel: &Kernel, chunk: Option<Chunk>) -> Option<u64> {
    let later = chunk.is_some_and(|chunk| chunk.index > 0);
    let sums = later && matches!(kernel.body, Body::ColReduce { .. });
    sums.then(|| u64::from(kernel.heads) * u64::from(kernel.width))
}

/// Floats of scratch memory for a launch.
pub(super) fn scratch_floats(loaded: &Loaded, size: &Size, chunk: Option<Chunk>) -> u64 {
    let before = added(&loaded.kernel, chunk).unwrap_or(0);
    before.next_multiple_of(ALIGN) + loaded.source.schedule.scratch_floats(size)
}
