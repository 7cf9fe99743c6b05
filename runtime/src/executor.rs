//! Runs the instructions of a program on one rank.

mod communicate;
mod launch;
mod pipeline;

pub use pipeline::chunk_order;

use crate::device::cpu::{Arena, Call, Span};
use crate::error::Failure;
use crate::exchange::Reduction;
use crate::exchange::skip::Clocks;
use crate::gemm::{Dense, Multiply};
use crate::loss::{self, Rows};
use crate::moment::Moment;
use crate::part::Part;
use crate::sparse::{self, SomeRows, SparseKernels};
use crate::staleness::Staleness;
use crate::team::Team;
use crate::transport::{Group, Transport, TransportError};
use communicate::Half;
use gnnc_codegen::cpu::Compiled;
use gnnc_ir::memory::Layout;
use gnnc_ir::program::{BufferId, Extent, Instr, Matrix, Program, Ref, Rule, Transfer};
use gnnc_ir::trace::{Event, Phase, Resource};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// One rank: its data, memory, kernels and connections.
pub(crate) struct Rank {
    pub(crate) program: Arc<Program>,
    pub(crate) part: Part,
    pub(crate) layout: Layout,
    pub(crate) arena: Arena,
    pub(crate) kernels: Arc<Vec<Arc<Compiled>>>,
    pub(crate) sparse: SparseKernels,
    pub(crate) team: Arc<Team>,
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) events: Option<Vec<Event>>,
    pub(crate) began: Instant,
    pub(crate) memory: Memory,
    pub(crate) place: Place,
    pub(crate) clocks: Clocks,
    pub(crate) staleness: Staleness,
    /// The ranks of its stage.
    pub(crate) group: Group,
    /// Epoch in which each history was kept last.
    pub(crate) kept: BTreeMap<BufferId, u64>,
}

/// Memory that is kept between instructions so that they allocate nothing.
#[derive(Default)]
pub(crate) struct Memory {
    inputs: Vec<*const f32>,
    outputs: Vec<*mut f32>,
    scalars: Vec<f32>,
    keys: Vec<u64>,
    spans: Vec<Span>,
    ranges: Vec<Range<u64>>,
    bounds: Vec<u64>,
    sums: Vec<AtomicU64>,
    reduction: Reduction,
}

// SAFETY: the pointers are only those of the last call, which is over when `Memory` moves.
unsafe impl Send for Memory {}

/// The instruction at hand.
#[derive(Default)]
pub(crate) struct Place {
    phase: Option<Phase>,
    /// Indices through loop bodies.
    path: Vec<usize>,
    name: &'static str,
    /// The order of the chunks.
    order: Vec<u32>,
    /// The chunk at hand, if not all rows are.
    chunk: Option<u32>,
    /// Its place in what is run of the order; 0 outside.
    turn: u32,
}

/// Why an instruction did not finish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// Found by the checks of a session before anything runs.
    #[error("the program needs {0}, which this rank does not have")]
    Missing(&'static str),
    /// A copy that a rule does not allow would be read: a bug of whoever decides.
    #[error(
        "a copy of rank {block}'s rows of `{tensor}` would be read that was sent {}, which the rule {rule} \
         does not allow",
        age.map_or("never".to_owned(), |age| format!("{age} epochs ago"))
    )]
    Stale {
        /// What the rows are of.
        tensor: String,
        /// Whose rows they are.
        block: u32,
        /// Epochs since they were sent.
        age: Option<u64>,
        /// What they had to be.
        rule: Rule,
    },
    /// Values that are compared are no numbers.
    #[error("rows of `{0}` are not finite; try a smaller learning rate")]
    NoNumbers(String),
    #[error(
        "`{history}` would keep a value that is not finite in epoch {epoch}, chunk {chunk}; lower the learning rate"
    )]
    NotFinite {
        history: String,
        epoch: u64,
        /// Its number, or `all`.
        chunk: String,
    },
    #[error(
        "`{history}` was kept {age} epochs before epoch {epoch}, and the program reads none that is older than {interval}"
    )]
    TooOld {
        history: String,
        age: u64,
        epoch: u64,
        interval: u32,
    },
}

impl Rank {
    /// Runs one instruction list.
    pub(crate) fn run(&mut self, phase: Phase, moment: &Moment) -> Result<(), Fault> {
        let program = Arc::clone(&self.program);
        self.place = Place {
            phase: Some(phase),
            order: self.order(moment),
            ..Place::default()
        };
        let stale = match phase {
            Phase::Step => self.stale(moment)?,
            Phase::Setup | Phase::Eval => Staleness::default(),
        };
        self.list(&program, program.list(phase), 0, moment)?;
        self.staleness.add(&stale);
        Ok(())
    }

    /// What to say about a failure of the instruction at hand.
    pub(crate) fn failure(&self, reason: String) -> Failure {
        let phase = self.place.phase.unwrap_or(Phase::Setup);
        let instruction = format!("{phase} {} ({})", self.place.at(), self.place.name);
        Failure {
            rank: self.transport.rank(),
            instruction,
            reason,
        }
    }

    /// Bytes of memory in use: buffers, the share of the graph and of what all ranks keep once,
    /// and messages.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.layout.total_bytes
            + self.part.bytes()
            + self.part.whole.bytes() as u64 / u64::from(self.transport.ranks().max(1))
            + self.memory.reduction.bytes()
            + self.transport.memory_bytes()
    }

    /// The floats of a buffer, all slots.
    pub(crate) fn buffer(&self, id: BufferId) -> Span {
        let floats = self.program.buffer(id).floats(&self.part.sizes);
        self.arena
            .span(self.layout.offsets[id.0 as usize] as usize, floats as usize)
    }

    /// The floats of a buffer's slot.
    pub(crate) fn slot(&self, at: Ref, iteration: u32) -> Span {
        let buffer = self.program.buffer(at.buffer);
        let floats = buffer.slot_floats(&self.part.sizes) as usize;
        self.buffer(at.buffer)
            .part(at.slot(iteration, buffer.slots) as usize * floats, floats)
    }

    fn list(
        &mut self,
        program: &Program,
        instrs: &[Instr],
        iteration: u32,
        moment: &Moment,
    ) -> Result<(), Fault> {
        self.place.path.push(0);
        for (index, instr) in instrs.iter().enumerate() {
            if let Some(last) = self.place.path.last_mut() {
                *last = index;
            }
            if let Instr::Repeat {
                count,
                reverse,
                body,
            } = instr
            {
                for i in 0..*count {
                    let i = if *reverse { count - 1 - i } else { i };
                    self.list(program, body, iteration * count + i, moment)?;
                }
                continue;
            }
            if let Instr::Chunks { reverse, body } = instr {
                self.chunks(program, *reverse, body, moment)?;
                continue;
            }
            self.place.name = instr.name(program);
            if self.events.is_none() {
                self.one(program, instr, iteration, moment)?;
                continue;
            }
            let (begin, sent) = (self.microseconds(), self.transport.bytes_sent());
            self.one(program, instr, iteration, moment)?;
            let end = self.microseconds();
            let event = Event {
                rank: self.transport.rank(),
                phase: self.place.phase.unwrap_or(Phase::Setup),
                epoch: moment.epoch + u64::from(self.place.phase == Some(Phase::Step)),
                at: self.place.at(),
                iteration: iteration + self.place.turn,
                name: self.place.name.to_owned(),
                resource: Resource::of(instr, program),
                begin_us: begin,
                end_us: end,
                bytes_sent: self.transport.bytes_sent() - sent,
                stage: program.pipeline.map_or(0, |pipeline| pipeline.stage),
                peer: self.peer(instr),
            };
            self.events.get_or_insert_default().push(event);
        }
        self.place.path.pop();
        Ok(())
    }

    fn one(
        &mut self,
        program: &Program,
        instr: &Instr,
        iteration: u32,
        moment: &Moment,
    ) -> Result<(), Fault> {
        // SAFETY: a session checks every instruction against the sizes of buffers before it
        // runs any; instructions run one after the other, and none that writes to a buffer
        // reads it at another element.
        unsafe {
            match instr {
                Instr::Launch(launch) => self.launch(program, launch, iteration, moment)?,
                Instr::MatMul {
                    product,
                    a,
                    b,
                    out,
                    rows,
                    inner,
                    columns,
                    finish,
                } => {
                    let multiply = Multiply {
                        product: *product,
                        a: self.dense(a, iteration),
                        b: self.dense(b, iteration),
                        out: self.dense(out, iteration),
                        rows: self.part.sizes.rows(*rows),
                        inner: u64::from(*inner),
                        columns: u64::from(*columns),
                    };
                    let args = match finish {
                        None => None,
                        Some(launch) => Some((
                            launch.kernel,
                            self.args(program, launch, iteration, moment)?,
                        )),
                    };
                    let mut ranges = std::mem::take(&mut self.memory.ranges);
                    self.rows(*rows, &mut ranges)?;
                    let call = args.map(|(kernel, args)| Call {
                        kernel: &self.kernels[kernel.0 as usize],
                        args,
                    });
                    for range in &ranges {
                        let first = range.start;
                        let multiply = multiply.within(range);
                        let finish = call.map(|call| {
                            move |begin, end| call.run_once(first + begin, first + end)
                        });
                        let finish = finish.as_ref().map(|f| f as &(dyn Fn(u64, u64) + Sync));
                        multiply.run(&self.team, self.scratch(), finish);
                    }
                    self.memory.ranges = ranges;
                }
                Instr::SparseMatMul {
                    product,
                    values,
                    b,
                    out,
                    columns,
                    ..
                } => {
                    let features = self.features(program, *values)?;
                    let (key, values) = (
                        (*product, *columns, b.stride, out.stride),
                        self.slot(*values, iteration),
                    );
                    let (b, out) = (self.dense(b, iteration).at, self.dense(out, iteration).at);
                    if *columns > 0 {
                        let kernel = self
                            .sparse
                            .get(key)
                            .ok_or(Fault::Missing("a sparse kernel"))?;
                        sparse::multiply(&self.team, kernel, features, *product, values, b, out)
                            .ok_or(Fault::Missing("features by column"))?;
                    }
                }
                Instr::SparseDropout {
                    values,
                    out,
                    p,
                    site,
                } => {
                    let features = self.features(program, *values)?;
                    let key = site.key(moment.seed, moment.epoch as u32, iteration);
                    let ids = self.part.ids(program.sparse_rows(*values));
                    let (values, out) = (self.slot(*values, iteration), self.slot(*out, iteration));
                    sparse::dropout(&self.team, features, ids, values, out, *p, key);
                }
                Instr::Densify { values, out } => {
                    let features = self.features(program, *values)?;
                    let (values, out) = (self.slot(*values, iteration), self.slot(*out, iteration));
                    sparse::densify(&self.team, features, values, out);
                }
                Instr::HaloExchange { .. }
                | Instr::HaloReduce { .. }
                | Instr::AllReduce { .. }
                | Instr::Redistribute { .. } => {
                    self.communicate(Half::Begin, instr, Transfer::WHOLE, iteration, moment)?;
                    self.communicate(Half::Finish, instr, Transfer::WHOLE, iteration, moment)?;
                }
                Instr::Begin(Transfer { tag, what }) => {
                    self.communicate(Half::Begin, what, *tag, iteration, moment)?;
                }
                Instr::Finish(Transfer { tag, what }) => {
                    self.communicate(Half::Finish, what, *tag, iteration, moment)?;
                }
                Instr::Loss {
                    loss,
                    logits,
                    out,
                    grad,
                    classes,
                } => {
                    let rows = self.tensor(program, *logits, iteration);
                    let grad = grad.map(|grad| self.tensor(program, grad, iteration));
                    let sums = &mut self.memory.sums;
                    let share = loss::loss(
                        &self.team,
                        &self.part,
                        *loss,
                        rows,
                        grad,
                        *classes as usize,
                        sums,
                    );
                    if let Some(out) = out {
                        self.slot(*out, iteration).write()[0] = share as f32;
                    }
                }
                Instr::Metrics {
                    loss,
                    logits,
                    out,
                    classes,
                } => {
                    let rows = self.tensor(program, *logits, iteration);
                    let sums = &mut self.memory.sums;
                    let found =
                        loss::metrics(&self.team, &self.part, *loss, rows, *classes as usize, sums);
                    let out = self.slot(*out, iteration).write();
                    out.iter_mut()
                        .zip(found)
                        .for_each(|(out, value)| *out = value as f32);
                }
                Instr::Send(passage) => self.send(passage, iteration)?,
                Instr::Receive(passage) => self.receive(passage, iteration)?,
                Instr::Remember { from, history } => {
                    self.remember(*from, *history, iteration, moment)?;
                }
                Instr::Repeat { .. } | Instr::Chunks { .. } => {}
            }
        }
        Ok(())
    }

    /// The places of the sparse features whose values lie in a buffer, and the rows at hand.
    fn features(&self, program: &Program, values: Ref) -> Result<SomeRows<'_>, Fault> {
        let extent = program.buffer(values.buffer).extent;
        let features = self.part.features(extent);
        let rows = match program.sparse_rows(values) {
            Extent::All => 0..self.part.sizes.vertices,
            _ => {
                let own = self.part.own(self.place.chunk);
                own.start as u64..own.end as u64
            }
        };
        Ok(SomeRows {
            features: features.ok_or(Fault::Missing("sparse features"))?,
            rows,
        })
    }

    fn dense(&self, matrix: &Matrix, iteration: u32) -> Dense {
        let slot = self.slot(matrix.at, iteration);
        let offset = (matrix.offset as usize).min(slot.len);
        Dense {
            at: slot.part(offset, slot.len - offset),
            stride: matrix.stride as usize,
        }
    }

    /// A tensor by own rows, those at hand.
    fn tensor(&self, program: &Program, at: Ref, iteration: u32) -> Rows {
        let own = self.part.own(self.place.chunk);
        Rows {
            at: self.slot(at, iteration),
            stride: program.buffer(at.buffer).columns as usize,
            begin: own.start,
            end: own.end,
        }
    }

    fn scratch(&self) -> Span {
        let (begin, end) = (
            self.layout.scratch as usize,
            (self.layout.total_bytes / 4) as usize,
        );
        self.arena.span(begin, end - begin)
    }

    fn microseconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64() * 1e6
    }
}

impl Place {
    fn at(&self) -> String {
        let parts: Vec<String> = self.path.iter().map(usize::to_string).collect();
        parts.join(".")
    }
}
