//! Checks that a program fits its data, so that running it touches only its own memory.

mod buffers;
mod chunk;
mod error;
mod features;
mod flight;
mod host;
mod pipeline;
mod reach;
mod redistribute;
mod skip;
mod storage;
mod window;

use self::reach::Reach;
use super::{
    BufferId, Extent, Instr, Launch, METRICS, Matrix, Product, Program, RankSizes, Ref, Returned,
    Role,
};
use crate::kernel::{Body, Walk, result_shape};
use crate::program::instr;
use crate::program::trace::Phase;
use std::ops::Deref;
use std::sync::Arc;

pub use error::ProgramError;

/// What one rank has of the data graph, as far as its program depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankData {
    /// The rank.
    pub rank: u32,
    /// How many rows of each kind it has.
    pub sizes: RankSizes,
    /// Columns of the input features; as many as the program says, where that is not known.
    pub features: Option<u32>,
    /// Types of edges; 0 where edges have none.
    pub relations: u32,
    /// Chunks by edges that the whole graph is cut into; as many as the program says, where that is not known.
    pub chunks: Option<u32>,
}

impl RankData {
    /// A rank of some graph, whose features have so many columns if that is known. What a program does must fit the data of every graph;
    /// this one has no two sizes alike, but for those that one rank alone has to have.
    pub fn typical(program: &Program, features: Option<u32>) -> Self {
        let relations = program.buffers.iter().find_map(|buffer| match buffer.role {
            Role::Relation(types) | Role::RelationDegree(types) => Some(types),
            _ => None,
        });
        let parts = program
            .pipeline
            .map_or(program.ranks, |p| p.width(program.ranks));
        let alone = parts <= 1;
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
            feature_nonzeros: nonzeros,
            slice_nonzeros: of_part(nonzeros, 409),
            vertices: of_part(inner, 401),
            all_edges: of_part(edges, 4001),
            max_degree: 37,
            reach: super::Reach {
                interior: of_part(inner, 61),
                interior_edges: of_part(edges, 211),
                halo_edges: of_part(0, 307),
            },
        };
        Self {
            rank: program.rank,
            sizes,
            features,
            relations: relations.unwrap_or(0),
            chunks: None,
        }
    }
}

/// A program that was found to fit the data of one rank: running it there touches only its own memory. Sessions take
/// nothing else.
#[derive(Clone, Debug)]
pub struct VerifiedProgram(Arc<Program>);

impl VerifiedProgram {
    /// Checks a program.
    ///
    /// # Errors
    /// The first thing that does not fit, and the instruction that it is about.
    pub fn new(program: Arc<Program>, data: &RankData) -> Result<Self, ProgramError> {
        verify(&program, data)?;
        Ok(Self(program))
    }

    /// A program that was not checked, for tests of what stands behind these checks.
    ///
    /// # Safety
    /// Whoever runs it stops at the first access outside of its memory.
    pub unsafe fn new_unchecked(program: Arc<Program>) -> Self {
        Self(program)
    }

    /// The program, to share.
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
/// The first thing that does not fit, and the instruction that it is about.
pub fn verify(program: &Program, data: &RankData) -> Result<(), ProgramError> {
    let check = Check { program, data };
    check.hosted()?;
    check.buffers()?;
    for phase in Phase::ALL {
        check.list(phase.name(), program.list(phase))?;
    }
    skip::verify(program)?;
    pipeline::verify(program)?;
    window::verify(program)?;
    flight::verify(program)
}

struct Check<'a> {
    program: &'a Program,
    data: &'a RankData,
}

type Checked = Result<(), String>;

/// The place of an instruction of a list, behind that of the list: `step 3.1`.
fn inside(above: &str, index: usize) -> String {
    let separator = if above.contains(' ') { '.' } else { ' ' };
    format!("{above}{separator}{index}")
}

impl Check<'_> {
    fn list(&self, above: &str, instrs: &[Instr]) -> Result<(), ProgramError> {
        for (index, instr) in instrs.iter().enumerate() {
            let place = inside(above, index);
            let at = |what| ProgramError::new(what).at(&place, instr, self.program);
            self.one(instr).map_err(at)?;
            if let Instr::Repeat(instr::Repeat { body, .. })
            | Instr::Chunks(instr::Chunks { body, .. }) = instr
            {
                self.list(&place, body)?;
            }
        }
        Ok(())
    }

    fn one(&self, instr: &Instr) -> Checked {
        self.here(instr)?;
        let sizes = &self.data.sizes;
        match instr {
            Instr::Launch(launch) => self.launch(launch),
            Instr::MatMul(instr::MatMul {
                product,
                a,
                b,
                out,
                rows,
                inner,
                columns,
                finish,
                chunk,
            }) => {
                self.cut(*chunk, *rows)?;
                let by_rows = *rows;
                let (rows, inner, columns) =
                    (sizes.rows(*rows), u64::from(*inner), u64::from(*columns));
                let (b_size, out_size) = match product {
                    Product::Nn => ((inner, columns), (rows, columns)),
                    Product::Nt => ((columns, inner), (rows, columns)),
                    Product::Tn => ((rows, columns), (inner, columns)),
                };
                // Of what holds a chunk at a time, its rows.
                let here = |m: &Matrix, size: (u64, u64)| match self.runs(m.at) {
                    Some(rows) => (rows, size.1),
                    None => size,
                };
                self.matrix("a", a, here(a, (rows, inner)))?;
                self.matrix("b", b, here(b, b_size))?;
                self.matrix("out", out, here(out, out_size))?;
                self.factors([a.at, b.at, out.at])?;
                let Some(finish) = finish else { return Ok(()) };
                if finish.chunk != *chunk || chunk.is_some() && finish.rows != by_rows {
                    return Err(
                        "a product and its finishing kernel run over other chunks".to_owned()
                    );
                }
                self.launch(finish)?;
                let (kernel, rows) = (self.program.kernel(finish.kernel), sizes.rows(finish.rows));
                let over_rows = matches!(kernel.body, Body::Map { .. } | Body::RowReduce { .. })
                    && Walk::of(&kernel.body) == Walk::Rows;
                match over_rows && rows == out_size.0 {
                    true => Ok(()),
                    false => Err(format!(
                        "a finishing kernel over {rows} rows of a product with {}",
                        out_size.0
                    )),
                }
            }
            Instr::SparseMatMul(instr::SparseMatMul {
                product,
                values,
                b,
                out,
                inner,
                columns,
            }) => {
                let (vertices, features) = self.sparse(*values)?;
                let (inner, columns) = (u64::from(*inner), u64::from(*columns));
                if let Some(features) = features.filter(|features| *features != inner) {
                    return Err(format!("{inner} features, the rank has {features}"));
                }
                match product {
                    Product::Nn => self.matrix("b", b, (inner, columns))?,
                    Product::Tn => self.matrix("b", b, (vertices, columns))?,
                    Product::Nt => return Err("a sparse product cannot be Nt".to_owned()),
                }
                let rows = if *product == Product::Tn {
                    inner
                } else {
                    vertices
                };
                self.matrix("out", out, (rows, columns))?;
                self.in_words("b", b.at, &[b.offset])?;
                self.in_words("out", out.at, &[out.offset])
            }
            Instr::SparseDropout(instr::SparseDropout { values, out, p, .. }) => {
                self.sparse(*values)?;
                self.at_least("out", *out, self.stored(*values))?;
                self.floats("out", *out)?;
                if (0.0..1.0).contains(p) {
                    Ok(())
                } else {
                    Err(format!("dropout {p}, expected 0 to below 1"))
                }
            }
            Instr::Densify(instr::Densify { values, out }) => {
                let (rows, features) = self.sparse(*values)?;
                self.floats("out", *out)?;
                self.at_least("out", *out, rows.saturating_mul(features.unwrap_or(0)))
            }
            Instr::HaloExchange(instr::HaloExchange { buffer, .. })
            | Instr::HaloReduce(instr::HaloReduce { buffer, .. }) => {
                if let Instr::HaloReduce(instr::HaloReduce {
                    skip:
                        Some(Returned {
                            left: Some(left), ..
                        }),
                    ..
                }) = instr
                {
                    self.at_least("left", *left, 0)?;
                }
                self.at_least("buffer", *buffer, 0)?;
                self.moved_rows("buffer", *buffer)?;
                match self.program.buffer(buffer.buffer).extent {
                    Extent::Local => Ok(()),
                    other => Err(format!("an exchange of {other} rows, expected local ones")),
                }
            }
            Instr::AllReduce(instr::AllReduce { buffers }) => buffers.iter().try_for_each(|&id| {
                self.at_least("buffer", Ref::first(id), 0)?;
                self.floats("buffer", Ref::first(id))?;
                match self.program.buffer(id).extent {
                    Extent::Fixed(_) => Ok(()),
                    other => Err(format!(
                        "an all-reduction of {other} rows, expected fixed ones"
                    )),
                }
            }),
            Instr::Redistribute(instr::Redistribute {
                how,
                from,
                to,
                heads,
                width,
                moved,
            }) => (self.moved(*moved))
                .and_then(|()| self.redistribute(*how, from, *to, (*heads, *width))),
            Instr::Begin(transfer) | Instr::Finish(transfer) => self.one(&transfer.what),
            Instr::Send(stage_message) | Instr::Receive(stage_message) => {
                self.stage_message(stage_message)
            }
            Instr::Remember(instr::Remember { from, history }) => self.remember(*from, *history),
            Instr::Move(instr::Move { from, to, chunk }) => self.host_move(*from, *to, *chunk),
            Instr::Loss(instr::Loss {
                logits,
                out,
                grad,
                classes,
                ..
            }) => {
                self.logits("logits", *logits, *classes)?;
                for (what, at) in [("out", *out), ("grad", *grad)] {
                    at.map_or(Ok(()), |at| self.floats(what, at))?;
                }
                out.map_or(Ok(()), |out| self.at_least("out", out, 1))?;
                grad.map_or(Ok(()), |grad| self.logits("grad", grad, *classes))
            }
            Instr::Metrics(instr::Metrics {
                logits,
                out,
                classes,
                ..
            }) => {
                self.logits("logits", *logits, *classes)?;
                self.floats("out", *out)?;
                self.at_least("out", *out, METRICS.into())
            }
            Instr::Repeat(_) | Instr::Chunks(_) => Ok(()),
        }
    }

    fn launch(&self, launch: &Launch) -> Checked {
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

    /// Rows of a buffer that holds a chunk at a time.
    fn runs(&self, at: Ref) -> Option<u64> {
        let extent = self.program.buffers.get(at.buffer.0 as usize)?.extent;
        matches!(extent, Extent::Run(..) | Extent::EdgeRun(..))
            .then(|| self.data.sizes.rows(extent))
    }

    fn matrix(&self, what: &str, matrix: &Matrix, (rows, columns): (u64, u64)) -> Checked {
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

    fn logits(&self, what: &str, at: Ref, classes: u32) -> Checked {
        self.rows(what, at)?;
        self.floats(what, at)?;
        match self.program.buffer(at.buffer).columns {
            columns if columns == classes => Ok(()),
            columns => Err(format!(
                "{what} has {columns} columns, expected {classes} classes"
            )),
        }
    }

    /// Checks that a buffer begins with the rank's own rows.
    fn rows(&self, what: &str, at: Ref) -> Checked {
        self.at_least(what, at, 0)?;
        self.extent(what, at, false)
    }

    fn at_least(&self, what: &str, at: Ref, floats: u64) -> Checked {
        let BufferId(id) = at.buffer;
        let Some(buffer) = self.program.buffers.get(id as usize) else {
            return Err(format!(
                "{what} is buffer {id} of {}",
                self.program.buffers.len()
            ));
        };
        let found = buffer.slot_elements(&self.data.sizes);
        match found >= floats {
            true => Ok(()),
            false => Err(format!(
                "{what} reaches {floats} floats into `{}`, which has {found}",
                buffer.name
            )),
        }
    }
}
