//! Checks that a program fits its data, so that it touches only its own memory when it runs.

mod batch;
mod buffers;
mod chunk;
mod encoded;
mod error;
mod features;
mod flight;
mod host;
mod pipeline;
mod ranks;
mod reach;
mod redistribute;
mod skip;
mod storage;
mod window;

use self::reach::Reach;
use super::instr::MatMul;
use super::{
    BatchSizes, Buffer, BufferId, Capacity, Extent, Instr, Launch, Matrix, Product, Program,
    RankSizes, Ref, Role,
};
use crate::graph::op::Slice;
use crate::kernel::{Body, End, Walk, result_shape};
use crate::program::trace::Phase;
use crate::words::mesh::Mesh;
use crate::words::sampling::{Drawn, MAX_HOPS};
use crate::words::spelling::counted;
use crate::words::types::NamedEdges;
use std::ops::Deref;
use std::sync::Arc;

pub use error::ProgramError;

/// A rank's data, as far as its program depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankData {
    /// The rank.
    pub rank: u32,
    /// The most rows of each kind.
    pub capacity: Capacity,
    /// Columns of the input features; `None` accepts whatever the program says.
    pub features: Option<u32>,
    /// Edge types; 0 if edges have none.
    pub relations: u32,
    /// Features of an edge; 0 if edges have none.
    pub edge_features: u32,
    /// Chunks by edges in the whole graph; `None` accepts whatever the program says.
    pub chunks: Option<u32>,
}

impl RankData {
    /// A rank of an example graph with `features` feature columns, if known. A program must fit
    /// the data of every graph, so no two sizes here are equal unless a single rank forces them
    /// to be.
    pub fn typical(program: &Program, features: Option<u32>) -> Self {
        let of_buffers = program.buffers.iter().find_map(|buffer| match buffer.role {
            Role::Relation(types) | Role::RelationDegree(types) => Some(types),
            _ => None,
        });
        let of_batches = program.of_batches().find_map(|instr| {
            let Instr::Numbers(numbers) = instr else {
                return None;
            };
            numbers.outputs.iter().find_map(|one| one.drawn.types())
        });
        let relations = of_buffers.or(of_batches);
        let alone = program.stage_ranks() <= 1;
        let (inner, edges, nonzeros) = (101, 1009, 397);
        let of_part = |alone_there_are: u64, else_there_are: u64| match alone {
            true => alone_there_are,
            false => else_there_are,
        };
        let sizes = RankSizes {
            inner,
            train: 53,
            halo: of_part(0, 83),
            edges,
            named_edges: NamedEdges::typical(of_part(503, 503)),
            feature_nonzeros: nonzeros,
            slice_nonzeros: of_part(nonzeros, 409),
            vertices: of_part(inner, 401),
            elsewhere: 0,
            all_halo: if program.in_groups() { 71 } else { 0 },
            all_edges: of_part(edges, 4001),
            all_named_edges: NamedEdges::typical(of_part(503, 2003)),
            max_degree: 37,
            reach: super::Reach {
                interior: of_part(inner, 61),
                interior_edges: of_part(edges, 211),
                halo_edges: of_part(0, 307),
            },
            batch: typical_batch(program),
        };
        Self {
            rank: program.rank,
            capacity: Capacity::of(sizes),
            features,
            relations: relations.unwrap_or(0),
            edge_features: edge_features(program),
            chunks: None,
        }
    }
}

/// Features of an edge that a program reads; 0 if it reads none.
fn edge_features(program: &Program) -> u32 {
    let of_buffer = |buffer: &Buffer| match buffer.role {
        Role::EdgeFeatures(columns) => Some(columns),
        _ => None,
    };
    let of_buffers = program.buffers.iter().find_map(of_buffer);
    let of_batches = || {
        program.of_batches().find_map(|instr| {
            let Instr::Numbers(numbers) = instr else {
                return None;
            };
            numbers.outputs.iter().find_map(|one| match one.drawn {
                Drawn::EdgeFeatures(.., columns) => Some(columns),
                _ => None,
            })
        })
    };
    of_buffers.or_else(of_batches).unwrap_or(0)
}

/// A batch of the program's number of levels, none of whose sizes are equal.
fn typical_batch(program: &Program) -> BatchSizes {
    let mut batch = BatchSizes::NONE;
    let hops = usize::from(program.hops());
    if hops == 0 {
        return batch;
    }
    for level in 0..=hops.min(MAX_HOPS) {
        let above = (hops - level) as u64;
        batch.levels[level] = 11 + 13 * above;
        batch.edges[level] = if level == 0 { 0 } else { 17 + 29 * above };
        batch.remote[level] = if program.ranks > 1 { 5 + 7 * above } else { 0 };
        batch.remote_edges[level] = batch.remote[level].min(batch.edges[level]);
    }
    batch.count = 3;
    batch
}

/// A program that fits the data of one rank: it touches only its own memory there. Sessions
/// accept nothing else.
#[derive(Clone, Debug)]
pub struct VerifiedProgram(Arc<Program>);

impl VerifiedProgram {
    /// Checks a program.
    ///
    /// # Errors
    /// The first problem, and the instruction that it concerns.
    pub fn new(program: Arc<Program>, data: &RankData) -> Result<Self, ProgramError> {
        verify(&program, data)?;
        Ok(Self(program))
    }

    /// Wraps a program without checking it, for tests of later checks.
    ///
    /// # Safety
    /// Whoever runs it must stop at the first access outside its memory.
    pub unsafe fn new_unchecked(program: Arc<Program>) -> Self {
        Self(program)
    }

    /// The program, shareable.
    pub fn shared(&self) -> &Arc<Program> {
        &self.0
    }
}

impl Deref for VerifiedProgram {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.0
    }
}

/// Checks everything that executors rely on, for one rank.
///
/// # Errors
/// The first problem, and the instruction that it concerns.
pub fn verify(program: &Program, data: &RankData) -> Result<(), ProgramError> {
    let check = Check { program, data };
    check.mesh()?;
    check.nodes()?;
    check.equal_bits()?;
    check.hosted()?;
    check.buffers()?;
    for phase in Phase::ALL {
        check.list(phase.name(), program.list(phase))?;
    }
    check.results()?;
    batch::verify(program)?;
    skip::verify(program)?;
    encoded::verify(program)?;
    pipeline::verify(program)?;
    window::verify(program)?;
    flight::verify(program)
}

pub(in crate::program) struct Check<'a> {
    pub(in crate::program) program: &'a Program,
    data: &'a RankData,
}

pub(in crate::program) type Checked = Result<(), String>;

/// Extends the place of a list by an instruction's index: `step 3.1`.
fn inside(above: &str, index: usize) -> String {
    let separator = if above.contains(' ') { '.' } else { ' ' };
    format!("{above}{separator}{index}")
}

impl Check<'_> {
    /// Checks that every rank has one slice.
    fn mesh(&self) -> Result<(), ProgramError> {
        let Some(Mesh { slices, .. }) = self.program.mesh else {
            return Ok(());
        };
        let ranks = self.program.ranks;
        let divides = slices > 0 && ranks.is_multiple_of(slices);
        match divides && self.program.pipeline.is_none() {
            true => Ok(()),
            false => Err(ProgramError::new(format!(
                "{} on {}, expected a number that divides the ranks, and no stages",
                counted(slices, "slice"),
                counted(ranks, "rank")
            ))),
        }
    }

    fn list(&self, above: &str, instrs: &[Instr]) -> Result<(), ProgramError> {
        for (index, instr) in instrs.iter().enumerate() {
            let place = inside(above, index);
            let at = |what| ProgramError::new(what).at(&place, instr, self.program);
            self.one(instr).map_err(at)?;
            if let Some(body) = instr.body() {
                self.list(&place, body)?;
            }
        }
        Ok(())
    }

    fn one(&self, instr: &Instr) -> Checked {
        self.exist(instr)?;
        self.here(instr)?;
        if let Instr::Begin(transfer) | Instr::Finish(transfer) = instr {
            return self.one(&transfer.what);
        }
        instr.check(self)
    }

    /// Checks that there are the buffers that an instruction uses, which all other checks look up.
    fn exist(&self, instr: &Instr) -> Checked {
        let count = self.program.buffers.len();
        let mut missing = None;
        instr.each_access(&mut |at, _| {
            if at.buffer.0 as usize >= count {
                missing = Some(at.buffer.0);
            }
        });
        match missing {
            None => Ok(()),
            Some(id) => Err(format!("buffer {id} of {count}")),
        }
    }

    /// Checks a product and its finishing kernel.
    pub(in crate::program) fn product(&self, one: &MatMul) -> Checked {
        let sizes = self.data.capacity.most();
        self.cut(one.chunk, one.rows)?;
        let (a, b, out) = (&one.a, &one.b, &one.out);
        let (inner, columns) = (u64::from(one.inner), u64::from(one.columns));
        let rows = sizes.rows(one.rows);
        let (b_size, out_size) = match one.product {
            Product::Nn => ((inner, columns), (rows, columns)),
            Product::Nt => ((columns, inner), (rows, columns)),
            Product::Tn => ((rows, columns), (inner, columns)),
        };
        // A buffer that holds one chunk at a time has that chunk's rows.
        let here = |m: &Matrix, size: (u64, u64)| match self.runs(m.at) {
            Some(rows) => (rows, size.1),
            None => size,
        };
        let by_rows = match one.product {
            Product::Nn | Product::Nt => [a, out],
            Product::Tn => [a, b],
        };
        for matrix in by_rows {
            let extent = self.program.buffer(matrix.at.buffer).extent;
            let whole = self.runs(matrix.at).is_none();
            if whole && extent.of_edges() != one.rows.of_edges() {
                return Err(format!(
                    "a product over {} rows of a matrix with {extent} rows",
                    one.rows
                ));
            }
        }
        self.matrix("a", a, here(a, (rows, inner)))?;
        self.matrix("b", b, here(b, b_size))?;
        self.matrix("out", out, here(out, out_size))?;
        self.factors([a.at, b.at, out.at])?;
        let Some(finish) = &one.finish else {
            return Ok(());
        };
        if finish.chunk != one.chunk || one.chunk.is_some() && finish.rows != one.rows {
            return Err("a product and its epilogue kernel run over different chunks".to_owned());
        }
        self.launch(finish)?;
        let (kernel, rows) = (self.program.kernel(finish.kernel), sizes.rows(finish.rows));
        let over_rows = matches!(kernel.body, Body::Map { .. } | Body::RowReduce { .. })
            && Walk::of(&kernel.body) == Walk::Rows;
        match over_rows && rows == out_size.0 {
            true => Ok(()),
            false => Err(format!(
                "an epilogue kernel over {rows} rows of a product with {}",
                out_size.0
            )),
        }
    }

    /// Checks that the rank has such halo rows.
    pub(in crate::program) fn halo_of(&self, end: End) -> Checked {
        match end == End::Src || self.program.halo.has_targets() {
            true => Ok(()),
            false => {
                Err("an exchange of targets, expected a halo of sources and targets".to_owned())
            }
        }
    }

    /// Checks a tensor by local rows whose halo is exchanged, whose columns are a slice.
    pub(in crate::program) fn halo(&self, at: Ref, slice: Option<Slice>) -> Checked {
        self.at_least("buffer", at, 0)?;
        if let Some(slice) = slice {
            self.slice(slice, slice.of)?;
            let buffer = self.program.buffer(at.buffer);
            if !buffer.columns.is_multiple_of(slice.len.max(1)) || !buffer.extent.of_whole_graph() {
                return Err(format!(
                    "an exchange of a slice of {} columns, expected {} columns of a group's rows in blocks of {}",
                    buffer.columns, slice.of, slice.len
                ));
            }
        }
        self.moved_rows("buffer", at)?;
        let extent = self.program.buffer(at.buffer).extent;
        let in_groups = self.program.in_groups();
        match extent == Extent::Local || extent == Extent::AllLocal && in_groups {
            true => Ok(()),
            false => Err(format!("an exchange of {extent} rows, expected local ones")),
        }
    }

    pub(in crate::program) fn launch(&self, launch: &Launch) -> Checked {
        let kernels = self.program.kernels.len();
        let Some(kernel) = self.program.kernels.get(launch.kernel.0 as usize) else {
            return Err(format!("kernel {} of {kernels}", launch.kernel.0));
        };
        for (what, found, expected) in [
            ("inputs", launch.inputs.len(), kernel.inputs.len()),
            ("outputs", launch.outputs.len(), kernel.outputs.len()),
            ("scalars", launch.scalars.len(), kernel.scalars.into()),
            ("dropout sites", launch.sites.len(), kernel.masks.len()),
        ] {
            if found != expected {
                return Err(format!("{found} {what} of a kernel with {expected}"));
            }
        }
        self.chunk(launch, kernel)?;
        self.lists(launch, kernel)?;
        let reach = self.reach(launch, kernel)?;
        for (n, (operand, at)) in kernel.inputs.iter().zip(&launch.inputs).enumerate() {
            let floats = match self.runs(*at) {
                Some(rows) => Reach::all(rows).floats(operand, kernel.heads, kernel.width)?,
                None => reach.floats(operand, kernel.heads, kernel.width)?,
            };
            let what = format!("input {n}");
            self.at_least(&what, *at, floats)?;
            self.stored_as(&what, *at, operand.storage)?;
            self.picked(&what, operand, launch)?;
        }
        let (heads, width) = result_shape(kernel);
        for (n, (operand, at)) in kernel.outputs.iter().zip(&launch.outputs).enumerate() {
            let floats = match kernel.body {
                Body::ColReduce { .. } => Reach::one(operand, heads, width),
                _ if self.runs(*at).is_some() => {
                    Reach::all(self.runs(*at).unwrap_or(0)).floats(operand, heads, width)?
                }
                _ => reach.floats(operand, heads, width)?,
            };
            let what = format!("output {n}");
            self.at_least(&what, *at, floats)?;
            self.stored_as(&what, *at, operand.storage)?;
            self.picked(&what, operand, launch)?;
        }
        Ok(())
    }

    /// Rows of a buffer that holds one chunk at a time; `None` for other buffers.
    fn runs(&self, at: Ref) -> Option<u64> {
        let extent = self.program.buffers.get(at.buffer.0 as usize)?.extent;
        matches!(extent, Extent::Run(..) | Extent::EdgeRun(..))
            .then(|| self.data.capacity.rows(extent))
    }

    pub(in crate::program) fn matrix(
        &self,
        what: &str,
        matrix: &Matrix,
        (rows, columns): (u64, u64),
    ) -> Checked {
        if rows == 0 || columns == 0 {
            return self.at_least(what, matrix.at, 0);
        }
        if rows > 1 && u64::from(matrix.stride) < columns {
            return Err(format!(
                "{what} has {columns} columns in rows of {}",
                matrix.stride
            ));
        }
        let floats = (rows - 1)
            .saturating_mul(u64::from(matrix.stride))
            .saturating_add(columns);
        self.at_least(
            what,
            matrix.at,
            floats.saturating_add(u64::from(matrix.offset)),
        )
    }

    pub(in crate::program) fn logits(&self, what: &str, at: Ref, classes: u32) -> Checked {
        self.rows(what, at)?;
        self.floats(what, at)?;
        match self.program.buffer(at.buffer).columns {
            columns if columns == classes => Ok(()),
            columns => Err(format!(
                "{what} has {columns} columns, expected {classes} classes"
            )),
        }
    }

    /// Checks that a buffer starts with the rank's own rows.
    fn rows(&self, what: &str, at: Ref) -> Checked {
        self.at_least(what, at, 0)?;
        self.extent(what, at, false)
    }

    pub(in crate::program) fn at_least(&self, what: &str, at: Ref, floats: u64) -> Checked {
        let BufferId(id) = at.buffer;
        let Some(buffer) = self.program.buffers.get(id as usize) else {
            return Err(format!(
                "{what} is buffer {id} of {}",
                self.program.buffers.len()
            ));
        };
        let found = buffer.slot_elements(self.data.capacity.most());
        match found >= floats {
            true => Ok(()),
            false => Err(format!(
                "{what} reaches {floats} floats into `{}`, which has {found}",
                buffer.name
            )),
        }
    }
}
