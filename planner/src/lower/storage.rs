//! Which buffers are stored in 16 bits.
//!
//! Tensors by rows of vertices are, wherever they come from: activations and their gradients, dense
//! features, tensors kept for the backward pass, histories, and so the messages with their rows.
//! The following stay in 32 bits: parameters, their gradients and optimizer states; the logits and
//! their gradient; values of edges (softmax keeps scores in its result); and rows of fewer than
//! `NARROW` numbers: degrees, scores and norms, whose errors many columns would share and which
//! take little room. So do sparse features, whose bytes are mostly positions.
//!
//! Rows are moved as whole four-byte words. A tensor whose messages would have an odd number of
//! columns stays in 32 bits, and so does any tensor its rows are moved to or from. Every sum within
//! a kernel or product is in 32 bits; partial sums added over ranks are rounded once per addition.
//!
//! A product takes both of its factors in the same storage: a parameter in 32 bits is copied once
//! per list of instructions, any other factor in 32 bits before the product that reads it.

mod rewrite;

use gnnc_ir::graph::op::{Redistribute, Slice};
use gnnc_ir::kernel::Axis;
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Among, Buffer, BufferId, Extent, Instr, Neighbour, Program, Ref, Role};
use gnnc_ir::words::storage::Storage;

use rewrite::Rewrite;

/// Columns from which rows are stored in 16 bits.
const NARROW: u32 = 16;

/// Stores the tensors of programs in 16 bits where allowed. Takes the stages of a pipeline, or one
/// program.
pub fn store(mut programs: Vec<Program>, storage: Storage) -> Vec<Program> {
    if storage.is_f32() {
        return programs;
    }
    let mut classes = Classes::new(&programs);
    classes.join_passages(&programs);
    let halves = classes.halves();
    for (program, halves) in programs.iter_mut().zip(halves) {
        apply(program, &halves, storage);
    }
    programs
}

/// The same for one of several ranks whose programs differ in the widths of slices. A tensor is
/// stored in 16 bits if all of `ranks` allow it, so that programs differ in nothing else.
pub fn store_alike(mut program: Program, ranks: &[Program], storage: Storage) -> Program {
    let mut halves = vec![true; program.buffers.len()];
    for rank in ranks {
        let own = Classes::new(std::slice::from_ref(rank)).halves().concat();
        for (all, own) in halves.iter_mut().zip(own) {
            *all &= own;
        }
    }
    apply(&mut program, &halves, storage);
    program
}

fn apply(program: &mut Program, halves: &[bool], storage: Storage) {
    for (buffer, half) in program.buffers.iter_mut().zip(halves) {
        if *half {
            buffer.storage = storage;
        }
    }
    Rewrite::new(program, storage).run();
}

/// Classes of buffers between which rows are moved, and which share a storage.
struct Classes {
    /// The index of each program's first buffer.
    first: Vec<usize>,
    /// For each buffer, another one of its class, or itself.
    parent: Vec<usize>,
    /// Whether it must stay in 32 bits.
    stays: Vec<bool>,
    /// The most columns of its rows.
    columns: Vec<u32>,
}

impl Classes {
    fn new(programs: &[Program]) -> Self {
        let buffers = || programs.iter().flat_map(|program| &program.buffers);
        let mut first = Vec::with_capacity(programs.len());
        let mut next = 0;
        for program in programs {
            first.push(next);
            next += program.buffers.len();
        }
        let mut classes = Self {
            first,
            parent: (0..next).collect(),
            stays: buffers().map(|buffer| !by_vertices(buffer)).collect(),
            columns: buffers().map(|buffer| buffer.columns).collect(),
        };
        for (at, program) in programs.iter().enumerate() {
            let kept = [program.loss, program.metrics];
            let logits = program.logits.map(|logits| logits.buffer);
            for id in kept.into_iter().flatten().chain(logits) {
                classes.stay(at, id);
            }
            for phase in Phase::ALL {
                classes.list((at, program), program.list(phase));
            }
        }
        classes
    }

    fn index(&self, program: usize, id: BufferId) -> usize {
        self.first[program] + id.0 as usize
    }

    fn root(&self, mut index: usize) -> usize {
        while self.parent[index] != index {
            index = self.parent[index];
        }
        index
    }

    fn stay(&mut self, program: usize, id: BufferId) {
        let index = self.index(program, id);
        self.stays[index] = true;
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
    }

    /// Records that rows of a buffer are moved.
    fn moves(&mut self, (at, program): (usize, &Program), id: BufferId) {
        if !program.buffer(id).columns.is_multiple_of(2) {
            self.stay(at, id);
        }
    }

    fn list(&mut self, of: (usize, &Program), instrs: &[Instr]) {
        instrs.iter().for_each(|instr| self.instr(of, instr));
    }

    fn instr(&mut self, of: (usize, &Program), instr: &Instr) {
        let (at, program) = of;
        match instr {
            Instr::Loss(instr::Loss {
                logits, out, grad, ..
            }) => {
                let all = std::iter::once(logits).chain(out).chain(grad);
                all.for_each(|r| self.stay(at, r.buffer));
            }
            Instr::Metrics(instr::Metrics { logits, out, .. }) => {
                let all = [logits, out].into_iter();
                all.for_each(|r| self.stay(at, r.buffer));
            }
            Instr::Densify(instr::Densify { out, .. }) => self.stay(at, out.buffer),
            Instr::AllReduce(instr::AllReduce { buffers, .. }) => {
                buffers.iter().for_each(|one| self.stay(at, one.buffer))
            }
            Instr::Launch(launch) => {
                let kernel = program.kernel(launch.kernel);
                let body = &kernel.body;
                let placed = kernel.outputs.iter().any(|output| output.picked.is_some());
                if body.sums_rows() || placed {
                    launch.outputs.iter().for_each(|r| self.stay(at, r.buffer));
                }
            }
            Instr::HaloExchange(instr::HaloExchange { buffer, skip, .. }) => {
                self.moves(of, buffer.buffer);
                if let Some(skip) = skip {
                    self.alike(of, buffer.buffer, skip.copies.buffer);
                }
            }
            Instr::HaloReduce(instr::HaloReduce { buffer, skip, .. }) => {
                self.moves(of, buffer.buffer);
                if let Some(left) = skip.and_then(|skip| skip.left) {
                    self.alike(of, buffer.buffer, left.buffer);
                }
            }
            Instr::Remember(instr::Remember { from, history }) => {
                self.alike(of, from.buffer, history.buffer)
            }
            Instr::Move(instr::Move { from, to, .. }) => self.alike(of, from.buffer, to.buffer),
            Instr::Redistribute(instr::Redistribute {
                how,
                from,
                to,
                heads,
                width,
                ..
            }) => {
                let ends = [self.index(at, from.at.buffer), self.index(at, to.buffer)];
                self.join(ends[0], ends[1]);
                self.columns[ends[0]] = self.columns[ends[0]].max(heads * width);
                let whole = [from.offset, from.stride, heads * width];
                let even = whole.iter().all(|n| n.is_multiple_of(2));
                if !even || !even_slices(*how, (*heads, *width), program.group_ranks(Among::Slices))
                {
                    self.stay(at, to.buffer);
                }
            }
            Instr::Begin(transfer) | Instr::Finish(transfer) => self.instr(of, &transfer.what),
            Instr::Send(stage_message) | Instr::Receive(stage_message) => {
                (stage_message.tensors.iter()).for_each(|r| self.moves(of, r.buffer));
            }
            Instr::Repeat(instr::Repeat { body, .. })
            | Instr::Chunks(instr::Chunks { body, .. })
            | Instr::Batches(instr::Batches { body })
            | Instr::Sets(instr::Sets { body }) => self.list(of, body),
            Instr::Shift(shift) => shift.buffers.iter().for_each(|r| self.stay(at, r.buffer)),
            Instr::Numbers(instr::Numbers { outputs }) => {
                outputs.iter().for_each(|one| self.stay(at, one.at.buffer));
            }
            Instr::Lag(_) | Instr::Sample(_) => {}
            Instr::DrawEdges(_) | Instr::AskRows(_) | Instr::ShareLevels(_) => {}
            Instr::FetchRows(instr::FetchRows { from, to })
            | Instr::CacheRows(instr::CacheRows { from, to }) => {
                self.alike(of, from.buffer, to.buffer);
            }
            Instr::AddRows(instr::AddRows { from, to })
            | Instr::PushRows(instr::PushRows { from, to, .. })
            | Instr::PutRows(instr::PutRows { from, to }) => {
                self.stay(at, from.buffer);
                self.stay(at, to.buffer);
            }
            Instr::ServeRows(instr::ServeRows {
                from, to, cache, ..
            }) => {
                self.alike(of, from.buffer, to.buffer);
                if let Some(cache) = cache {
                    self.alike(of, from.buffer, cache.buffer);
                }
            }
            Instr::SparseMatMul(instr::SparseMatMul { b, out, .. }) => {
                // The matrix must begin at a word.
                for matrix in [b, out] {
                    if !matrix.offset.is_multiple_of(2) {
                        self.stay(at, matrix.at.buffer);
                    }
                }
            }
            Instr::MatMul(_) | Instr::SparseDropout(_) => {}
        }
    }

    /// Records that rows of one buffer are copied to the other.
    fn alike(&mut self, of: (usize, &Program), a: BufferId, b: BufferId) {
        self.moves(of, a);
        self.moves(of, b);
        self.join(self.index(of.0, a), self.index(of.0, b));
    }

    /// Joins the classes of tensors that one stage sends and another receives. Messages are
    /// received in the order in which they are sent.
    fn join_passages(&mut self, programs: &[Program]) {
        let stages = programs.len() as u32;
        let ring = (0..stages).filter_map(|at| Some((at, Neighbour::Next.of(at, stages)?)));
        for (at, next) in ring.map(|(at, next)| (at as usize, next as usize)) {
            for phase in Phase::ALL {
                let ends = [(at, Neighbour::Next), (next, Neighbour::Previous)];
                let [up, mut down] = ends.map(|(n, with)| {
                    let (mut sent, mut received) = (Vec::new(), Vec::new());
                    stage_messages(programs[n].list(phase), with, &mut sent, &mut received);
                    [sent, received]
                });
                down.reverse();
                for (here, there) in up.iter().zip(&down) {
                    for (a, b) in here.iter().zip(there) {
                        self.join(self.index(at, *a), self.index(next, *b));
                    }
                }
            }
        }
    }

    /// For each program, the buffers stored in 16 bits.
    fn halves(&self) -> Vec<Vec<bool>> {
        let count = self.parent.len();
        let (mut stays, mut columns) = (vec![false; count], vec![0; count]);
        for index in 0..count {
            let root = self.root(index);
            stays[root] |= self.stays[index];
            columns[root] = columns[root].max(self.columns[index]);
        }
        let half = |index: usize| {
            let root = self.root(index);
            !stays[root] && columns[root] >= NARROW
        };
        let ends = self.first.iter().copied().skip(1).chain([count]);
        (self.first.iter().zip(ends))
            .map(|(&first, end)| (first..end).map(half).collect())
            .collect()
    }
}

/// The tensors a list sends to a stage, and those it receives from it, in order.
fn stage_messages(
    instrs: &[Instr],
    other: Neighbour,
    sent: &mut Vec<BufferId>,
    received: &mut Vec<BufferId>,
) {
    let ids = |tensors: &[Ref]| tensors.iter().map(|r| r.buffer).collect::<Vec<_>>();
    for instr in instrs {
        if let Some(end) = instr.stage_end()
            && end.message.with == other
        {
            let list = if end.sends {
                &mut *sent
            } else {
                &mut *received
            };
            list.extend(ids(&end.message.tensors));
        }
        stage_messages(instr.body().unwrap_or_default(), other, sent, received);
    }
}

/// Whether a buffer has rows of vertices that may be stored in 16 bits.
fn by_vertices(buffer: &Buffer) -> bool {
    let rows = matches!(
        buffer.extent,
        Extent::Inner | Extent::Local | Extent::Halo | Extent::All | Extent::Level(_)
    );
    let role = matches!(
        buffer.role,
        Role::Features | Role::Static | Role::History(_) | Role::Temp
    );
    rows && role
}

/// Whether every rank's slice begins and ends at a word boundary.
fn even_slices(how: Redistribute, (heads, width): (u32, u32), ranks: u32) -> bool {
    match how {
        Redistribute::Split(slice) | Redistribute::Join(slice) => match slice.axis {
            Axis::Heads => width.is_multiple_of(2),
            Axis::Width => {
                let Slice { of, len, .. } = slice;
                let shares = of.is_multiple_of(2 * ranks.max(1)) && len.is_multiple_of(2);
                shares && (heads == 1 || width.is_multiple_of(2))
            }
        },
        Redistribute::Replicate | Redistribute::Reduce | Redistribute::Own => true,
    }
}
