//! Reads and writes of instructions, precise enough to tell which instructions may be
//! reordered.

use crate::kernel::{At, Body, End, Kernel, Walk};
use crate::program::instr::{Operand, Use};
use crate::program::{BufferId, Chunk, Extent, Halo, Instr, Launch, Moved, Program, Ref, Vertices};

/// Rows of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// All rows.
    All,
    /// The rank's own vertices, or those of its group.
    Own,
    /// Vertices of other ranks or groups, stored after the own ones.
    Halo,
    /// The vertices of a chunk, or the edges into them.
    Rows(Chunk),
    /// The rows that are new to a chunk; see [`Moved::New`].
    New(End, Chunk),
    /// All rows that a reduction of a chunk's edges to an end reads.
    Near(End, Chunk),
}

/// One instruction's use of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The buffer.
    pub buffer: BufferId,
    /// The slot; `None` means all.
    pub slot: Option<Ref>,
    /// The rows.
    pub rows: Touched,
    /// Whether the rows are written.
    pub writes: bool,
}

impl Touched {
    /// The rows of a chunk.
    pub(in crate::program) fn of(chunk: Chunk) -> Self {
        match (chunk.reach(), chunk.index) {
            (Some(Vertices::Local), 0) => Self::Own,
            (Some(Vertices::Local), _) => Self::Halo,
            _ => Self::Rows(chunk),
        }
    }

    /// Whether a row may be in both.
    pub fn meets(self, other: Self) -> bool {
        match (self, other) {
            (Self::Own, Self::Halo) | (Self::Halo, Self::Own) => false,
            // The chunk holds own rows only.
            (Self::Rows(chunk), Self::Halo) | (Self::Halo, Self::Rows(chunk))
                if chunk.even.is_some_and(|even| even.rows == Vertices::Inner) =>
            {
                false
            }
            // Two chunks of the same division into chunks.
            (Self::Rows(a), Self::Rows(b)) if a.at(0) == b.at(0) => a == b,
            (Self::New(e, a), Self::New(f, b)) if e == f => a == b,
            // Rows new to a chunk are neither in an earlier chunk nor read by one.
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
    /// Whether two uses must keep their order: one writes what the other touches.
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

/// Whether two instructions with these uses must keep their order.
pub fn ordered(a: &[Access], b: &[Access], program: &Program) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.meets(y, program)))
}

/// The uses of buffers by an instruction; for a loop, by its body in any iteration. For halves
/// of a communication, see [`halves`].
pub fn accesses(instr: &Instr, program: &Program) -> Vec<Access> {
    let mut found = Vec::new();
    collect(instr, program, &mut found);
    of_runs(&mut found, program);
    found
}

fn collect(instr: &Instr, program: &Program, found: &mut Vec<Access>) {
    if let Some(body) = instr.body() {
        let first = found.len();
        body.iter().for_each(|instr| collect(instr, program, found));
        found[first..]
            .iter_mut()
            .for_each(|access| access.slot = None);
    } else if let Instr::Begin(transfer) = instr {
        let [begin, _] = halves(&transfer.what, program);
        found.extend(begin);
    } else if let Instr::Finish(transfer) = instr {
        let [_, finish] = halves(&transfer.what, program);
        found.extend(finish);
    } else {
        instr.operands(&mut |operand| found.push(access(operand, program)));
    }
}

/// The use of an operand; looks up the rows of kernel operands.
fn access(operand: Operand, program: &Program) -> Access {
    let Operand { at, writes, rows } = operand;
    let kernel = |launch: &Launch| program.kernels.get(launch.kernel.0 as usize);
    let rows = match rows {
        Use::Rows(rows) | Use::Matrix { rows, .. } => rows,
        Use::Slots => Touched::All,
        // The lists follow the order of the rows, so a chunk uses the part for its rows.
        Use::Ends(launch) => launch.chunk.map_or(Touched::All, Touched::Rows),
        Use::Shared(other) => shared(at, other, program),
        Use::Input(launch, n) => kernel(launch)
            .and_then(|kernel| Some((kernel, kernel.inputs.get(n)?.at)))
            .map_or(Touched::All, |(kernel, at)| {
                launched(kernel, launch, at, program)
            }),
        Use::Output(launch, n) => kernel(launch)
            .and_then(|kernel| Some((kernel, kernel.outputs.get(n)?.at)))
            .map_or(Touched::All, |(kernel, at)| {
                launched(kernel, launch, at, program)
            }),
    };
    Access {
        buffer: at.buffer,
        slot: (!matches!(operand.rows, Use::Slots)).then_some(at),
        rows,
        writes,
    }
}

/// Rows of one end of a copy that the other end has too.
fn shared(at: Ref, other: Ref, program: &Program) -> Touched {
    let extent = |at: Ref| program.buffers.get(at.buffer.0 as usize).map(|b| b.extent);
    let other = extent(other);
    if extent(at).is_some_and(|at| at.has_halo() && Some(at.without_halo()) == other) {
        Touched::Own
    } else {
        Touched::All
    }
}

fn launched(kernel: &Kernel, launch: &Launch, at: At, program: &Program) -> Touched {
    let walk = Walk::of(&kernel.body);
    let edges = kernel.body.edge_set().is_some();
    // Whether edges lead into rows of other ranks too.
    let beyond = match program.halo {
        Halo::Boundary | Halo::Everything => false,
        Halo::Cover => edges,
        Halo::BothEnds => walk == Walk::EdgesBySource,
    };
    match launch.chunk {
        _ if beyond && at == At::Dst => Touched::All,
        Some(chunk) => of_chunk(&kernel.body, chunk, at),
        None => touched(&kernel.body, launch.rows, at),
    }
}

/// Widens uses of buffers that hold one chunk at a time to all rows.
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

/// The uses by the two halves of a communication. Both have those of the whole, except that the
/// first half of a halo reduction does not use own rows: only the second half adds to them. Nor does
/// the first half of [`ServeRows`](crate::program::instr::ServeRows), or of a redistribution of rows of
/// a batch, use the rows that it fills. A [`ServeRows`](crate::program::instr::ServeRows) that fills own
/// rows first has read all that it reads after the first half.
/// Between the halves, nothing may disturb what they use.
pub fn halves(instr: &Instr, program: &Program) -> [Vec<Access>; 2] {
    let mut finish = accesses(instr, program);
    let mut begin = finish.clone();
    if matches!(instr, Instr::HaloReduce(_)) {
        begin.retain(|access| access.rows == Touched::Halo);
    }
    let mut fills = matches!(instr, Instr::ServeRows(_));
    if let Instr::Redistribute(one) = instr {
        fills = matches!(one.moved, Moved::Level(_));
    } else if let Instr::ServeRows(serve) = instr
        && serve.fills_first()
    {
        finish.retain(|access| access.writes);
        fills = false;
    }
    if fills {
        begin.retain(|access| !access.writes);
    }
    [begin, finish]
}

/// The rows of an operand that a kernel over `extent` touches.
fn touched(body: &Body, extent: Extent, at: At) -> Touched {
    let edges = body.edge_set().is_some();
    let by_source = Walk::of(body) == Walk::EdgesBySource;
    let grouped = Walk::of(body).by_vertex();
    match at {
        // The rows of a sum by type are types.
        _ if Walk::of(body) == Walk::EdgesByType => Touched::All,
        // The rows of a kernel over edges are edges, unless edges are reduced.
        At::Row if !edges => over(extent),
        At::Row if grouped && !by_source => over(extent),
        // Own edges end in own vertices.
        At::Dst if by_source => Touched::Own,
        At::Dst => over(extent),
        _ => Touched::All,
    }
}

/// The rows of an operand that a kernel over a chunk touches.
fn of_chunk(body: &Body, chunk: Chunk, at: At) -> Touched {
    let by_source = Walk::of(body) == Walk::EdgesBySource;
    let (rows, reach) = (Touched::of(chunk), chunk.reach());
    match at {
        At::Row => rows,
        // Interior rows have edges only from own rows, and all own edges end in own rows.
        At::Src if !by_source && reach == Some(Vertices::Inner) && chunk.index == 0 => Touched::Own,
        // A rank adds up its own rows for targets of others.
        At::Src if !by_source && reach == Some(Vertices::Local) && chunk.index == 1 => Touched::Own,
        At::Dst if by_source && reach.is_some() => Touched::Own,
        // The neighbors of a chunk of rows are not known here.
        At::Src if chunk.even.is_some() && !by_source => Touched::All,
        At::Dst if chunk.even.is_some() && by_source => Touched::All,
        At::Src if by_source => rows,
        At::Dst if by_source => Touched::Near(End::Src, chunk),
        At::Src => Touched::Near(End::Dst, chunk),
        At::Dst => rows,
        // Edges are stored by destination.
        At::Edge if !by_source => Touched::Rows(chunk),
        At::Edge | At::One | At::List => Touched::All,
    }
}

/// The rows that a kernel or product over `extent` covers.
pub(in crate::program) fn over(extent: Extent) -> Touched {
    if matches!(extent, Extent::Inner | Extent::All) {
        Touched::Own
    } else {
        Touched::All
    }
}

#[cfg(test)]
mod tests;
