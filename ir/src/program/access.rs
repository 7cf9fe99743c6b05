//! What instructions read and write, as finely as needed to tell which of them may change places.

use crate::graph::op::Redistribute;
use crate::kernel::{At, Body, End};
use crate::program::instr;
use crate::program::{
    BufferId, Chunk, Extent, Instr, Launch, Matrix, Moved, Product, Program, Ref, Vertices,
};

/// Rows of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// All that there are.
    All,
    /// The rank's own vertices.
    Own,
    /// Vertices of other ranks, behind the own ones.
    Halo,
    /// The vertices of a chunk, or the edges into them.
    Rows(Chunk),
    /// Those that are new to a chunk; see [`Moved::New`].
    New(End, Chunk),
    /// All that a reduction of a chunk's edges to an end reads.
    Near(End, Chunk),
}

/// One use of a buffer by an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The buffer.
    pub buffer: BufferId,
    /// The slot; all of them if none.
    pub slot: Option<Ref>,
    /// The rows.
    pub rows: Touched,
    /// Whether they are written.
    pub writes: bool,
}

impl Touched {
    /// The rows of a chunk.
    fn of(chunk: Chunk) -> Self {
        match (chunk.reach(), chunk.index) {
            (Some(Vertices::Local), 0) => Self::Own,
            (Some(Vertices::Local), _) => Self::Halo,
            _ => Self::Rows(chunk),
        }
    }

    /// Whether some row may be in both.
    pub fn meets(self, other: Self) -> bool {
        match (self, other) {
            (Self::Own, Self::Halo) | (Self::Halo, Self::Own) => false,
            // A part of the own rows.
            (Self::Rows(chunk), Self::Halo) | (Self::Halo, Self::Rows(chunk))
                if chunk.even.is_some_and(|even| even.rows == Vertices::Inner) =>
            {
                false
            }
            // Chunks of one cut.
            (Self::Rows(a), Self::Rows(b)) if a.at(0) == b.at(0) => a == b,
            (Self::New(e, a), Self::New(f, b)) if e == f => a == b,
            // What is new to a chunk, no chunk before it reads, nor is it a part of one.
            (Self::New(e, new), Self::Near(f, read)) | (Self::Near(f, read), Self::New(e, new))
                if e == f =>
            {
                new.index <= read.index
            }
            (Self::New(_, new), Self::Rows(rows)) | (Self::Rows(rows), Self::New(_, new))
                if rows.even.is_none() =>
            {
                new.index <= rows.index
            }
            _ => true,
        }
    }
}

impl Access {
    /// Whether two uses must keep their order: one of them writes what the other touches.
    pub fn meets(&self, other: &Self, program: &Program) -> bool {
        (self.writes || other.writes)
            && self.buffer == other.buffer
            && self.rows.meets(other.rows)
            && self.same_slot(other, program)
    }

    fn same_slot(&self, other: &Self, program: &Program) -> bool {
        let (Some(a), Some(b)) = (self.slot, other.slot) else {
            return true;
        };
        let buffer = program.buffers.get(self.buffer.0 as usize);
        let slots = buffer.map_or(1, |b| b.slots);
        a.in_loop != b.in_loop || a.slot(0, slots) == b.slot(0, slots)
    }
}

/// Whether two instructions with these accesses must keep their order.
pub fn ordered(a: &[Access], b: &[Access], program: &Program) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.meets(y, program)))
}

/// The uses of buffers by an instruction; of a loop, those by its body in any iteration. Of the halves of a
/// communication see [`halves`].
pub fn accesses(instr: &Instr, program: &Program) -> Vec<Access> {
    let mut found = Found(Vec::new());
    found.instr(instr, program);
    of_runs(&mut found.0, program);
    found.0
}

/// What of it is found by rows of the program's buffers: those that hold a chunk at a time are used whole.
fn of_runs(found: &mut [Access], program: &Program) {
    for access in found {
        let buffer = program.buffers.get(access.buffer.0 as usize);
        if buffer
            .is_some_and(|buffer| matches!(buffer.extent, Extent::Run(..) | Extent::EdgeRun(..)))
        {
            access.rows = Touched::All;
        }
    }
}

/// The uses by the two halves of a communication: the whole's, but that a reduction of halos needs own rows only when
/// it adds to them. Between its halves everything has to be left alone that both of them use.
pub fn halves(instr: &Instr, program: &Program) -> [Vec<Access>; 2] {
    let finish = accesses(instr, program);
    let mut begin = finish.clone();
    if matches!(instr, Instr::HaloReduce(_)) {
        begin.retain(|access| access.rows == Touched::Halo);
    }
    [begin, finish]
}

struct Found(Vec<Access>);

impl Found {
    fn read(&mut self, at: Ref, rows: Touched) {
        self.push(at, rows, false);
    }

    fn write(&mut self, at: Ref, rows: Touched) {
        self.push(at, rows, true);
    }

    fn push(&mut self, at: Ref, rows: Touched, writes: bool) {
        self.0.push(Access {
            buffer: at.buffer,
            slot: Some(at),
            rows,
            writes,
        });
    }

    fn instr(&mut self, instr: &Instr, program: &Program) {
        match instr {
            Instr::Launch(launch) => self.launch(launch, program),
            Instr::MatMul(instr::MatMul {
                product,
                a,
                b,
                out,
                rows,
                finish,
                chunk,
                ..
            }) => {
                let rows = chunk.map_or(over(*rows), Touched::of);
                self.product(*product, [a, b, out], rows, finish.as_ref(), program);
            }
            Instr::HaloExchange(instr::HaloExchange { buffer, skip }) => {
                self.read(*buffer, Touched::Own);
                self.write(*buffer, Touched::Halo);
                skip.iter()
                    .for_each(|skip| self.write(skip.copies, Touched::All));
            }
            Instr::HaloReduce(instr::HaloReduce { buffer, skip }) => {
                self.read(*buffer, Touched::Halo);
                self.write(*buffer, Touched::Own);
                let left = skip.iter().filter_map(|skip| skip.left);
                left.for_each(|at| self.write(at, Touched::All));
            }
            Instr::AllReduce(instr::AllReduce { buffers }) => {
                self.0.extend(buffers.iter().map(|&buffer| Access {
                    buffer,
                    slot: None,
                    rows: Touched::All,
                    writes: true,
                }))
            }
            Instr::Redistribute(instr::Redistribute {
                how,
                from,
                to,
                moved,
                ..
            }) => {
                let (source, target) = match (moved, how) {
                    (Moved::Rows(chunk), _) => (Touched::Rows(*chunk), Touched::Rows(*chunk)),
                    (Moved::New(end, chunk), _) => {
                        let new = Touched::New(*end, *chunk);
                        (new, new)
                    }
                    (Moved::All, Redistribute::Split(_) | Redistribute::Replicate) => {
                        (Touched::Own, Touched::All)
                    }
                    (
                        Moved::All,
                        Redistribute::Join(_) | Redistribute::Reduce | Redistribute::Own,
                    ) => (Touched::All, Touched::Own),
                };
                self.read(from.at, source);
                self.write(*to, target);
            }
            Instr::Begin(transfer) => {
                let [begin, _] = halves(&transfer.what, program);
                self.0.extend(begin);
            }
            Instr::Finish(transfer) => self.instr(&transfer.what, program),
            Instr::Loss(instr::Loss {
                logits, out, grad, ..
            }) => {
                self.read(*logits, Touched::Own);
                out.iter().for_each(|at| self.write(*at, Touched::All));
                grad.iter().for_each(|at| self.write(*at, Touched::Own));
            }
            Instr::Metrics(instr::Metrics { logits, out, .. }) => {
                self.read(*logits, Touched::Own);
                self.write(*out, Touched::All);
            }
            Instr::SparseMatMul(_) | Instr::SparseDropout(_) | Instr::Densify(_) => {
                let (reads, writes) = instr.accesses();
                reads.iter().for_each(|at| self.read(*at, Touched::All));
                writes.iter().for_each(|at| self.write(*at, Touched::All));
            }
            Instr::Send(stage_message) => {
                stage_message
                    .tensors
                    .iter()
                    .for_each(|at| self.read(*at, Touched::Own));
            }
            Instr::Receive(stage_message) => {
                stage_message
                    .tensors
                    .iter()
                    .for_each(|at| self.write(*at, Touched::Own));
            }
            Instr::Remember(instr::Remember { from, history }) => {
                self.read(*from, Touched::All);
                self.write(*history, Touched::All);
            }
            Instr::Move(instr::Move {
                from,
                to,
                chunk: Some(chunk),
            }) => {
                self.read(*from, Touched::Rows(*chunk));
                self.write(*to, Touched::Rows(*chunk));
            }
            Instr::Move(instr::Move { from, to, .. }) => {
                let extent = |at: &Ref| program.buffers.get(at.buffer.0 as usize).map(|b| b.extent);
                // The rows that both have.
                let own = |at: &Ref, other: &Ref| match (extent(at), extent(other)) {
                    (Some(Extent::Local), Some(Extent::Inner)) => Touched::Own,
                    _ => Touched::All,
                };
                self.read(*from, own(from, to));
                self.write(*to, own(to, from));
            }
            Instr::Repeat(instr::Repeat { body, .. })
            | Instr::Chunks(instr::Chunks { body, .. }) => {
                let mut inner = Self(Vec::new());
                body.iter().for_each(|instr| inner.instr(instr, program));
                let any = |access| Access {
                    slot: None,
                    ..access
                };
                self.0.extend(inner.0.into_iter().map(any));
            }
        }
    }

    fn product(
        &mut self,
        product: Product,
        [a, b, out]: [&Matrix; 3],
        by_rows: Touched,
        finish: Option<&Launch>,
        program: &Program,
    ) {
        let (second, result) = match product {
            Product::Tn => (by_rows, Touched::All),
            Product::Nn | Product::Nt => (Touched::All, by_rows),
        };
        self.read(a.at, by_rows);
        self.read(b.at, second);
        self.write(out.at, result);
        if let Some(launch) = finish {
            self.launch(launch, program);
        }
    }

    fn launch(&mut self, launch: &Launch, program: &Program) {
        let kernel = program.kernels.get(launch.kernel.0 as usize);
        let rows = |at: Option<At>| match (kernel, at) {
            (Some(kernel), Some(at)) => match launch.chunk {
                Some(chunk) => of_chunk(&kernel.body, chunk, at),
                None => touched(&kernel.body, launch.rows, at),
            },
            _ => Touched::All,
        };
        let inputs = kernel.map_or(&[][..], |k| &k.inputs);
        for (n, at) in launch.inputs.iter().enumerate() {
            self.read(*at, rows(inputs.get(n).map(|o| o.at)));
        }
        // Of what is grouped as the rows are, those of the rows.
        let of_rows = launch.chunk.map_or(Touched::All, Touched::Rows);
        launch.lists.iter().for_each(|at| self.read(*at, of_rows));
        let outputs = kernel.map_or(&[][..], |k| &k.outputs);
        for (n, at) in launch.outputs.iter().enumerate() {
            self.write(*at, rows(outputs.get(n).map(|o| o.at)));
        }
    }
}

/// The rows of an operand that a kernel over `extent` touches.
fn touched(body: &Body, extent: Extent, at: At) -> Touched {
    let edges = body.edge_set().is_some();
    let by_source = matches!(body, Body::Gather { to: End::Src, .. });
    let grouped = matches!(body, Body::Gather { .. });
    match at {
        // Of a sum by type a row is a type.
        _ if matches!(body, Body::TypeSum { .. }) => Touched::All,
        // The row of a kernel over edges is an edge, unless edges are reduced.
        At::Row if !edges => over(extent),
        At::Row if grouped && !by_source => over(extent),
        // Kernels over own edges end in own vertices.
        At::Dst if by_source => match extent {
            Extent::All | Extent::AllEdges(_) => Touched::All,
            _ => Touched::Own,
        },
        At::Dst => over(extent),
        _ => Touched::All,
    }
}

/// The rows of an operand that a kernel over a chunk touches.
fn of_chunk(body: &Body, chunk: Chunk, at: At) -> Touched {
    let by_source = matches!(body, Body::Gather { to: End::Src, .. });
    let (rows, reach) = (Touched::of(chunk), chunk.reach());
    match at {
        At::Row => rows,
        // Edges into rows that need no other rank begin in own rows, and all edges end in own rows.
        At::Src if !by_source && reach == Some(Vertices::Inner) && chunk.index == 0 => Touched::Own,
        At::Dst if by_source && reach.is_some() => Touched::Own,
        // What is near a chunk of rows is known to nobody.
        At::Src if chunk.even.is_some() && !by_source => Touched::All,
        At::Dst if chunk.even.is_some() && by_source => Touched::All,
        At::Src if by_source => rows,
        At::Dst if by_source => Touched::Near(End::Src, chunk),
        At::Src => Touched::Near(End::Dst, chunk),
        At::Dst => rows,
        // Edges lie by destination.
        At::Edge if !by_source => Touched::Rows(chunk),
        At::Edge | At::One | At::List => Touched::All,
    }
}

fn over(extent: Extent) -> Touched {
    match extent {
        Extent::Inner => Touched::Own,
        _ => Touched::All,
    }
}

#[cfg(test)]
mod tests;
