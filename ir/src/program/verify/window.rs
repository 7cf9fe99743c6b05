//! Checks of buffers that hold the rows of a chunk at a time: what reads them finds the chunk that it means.

use super::ProgramError;
use crate::kernel::At;
use crate::kernel::Walk;
use crate::program::instr;
use crate::program::trace::Phase;
use crate::program::{Chunk, Extent, Instr, Launch, Matrix, Product, Program, Ref};
use std::collections::BTreeMap;

/// Checks the instructions of all lists.
///
/// # Errors
/// The first that reads rows that are not here.
pub(super) fn verify(program: &Program) -> Result<(), ProgramError> {
    let runs = |buffer: &crate::program::Buffer| {
        matches!(buffer.extent, Extent::Run(..) | Extent::EdgeRun(..))
    };
    if !program.buffers.iter().any(runs) {
        return Ok(());
    }
    let windows = Windows { program };
    for phase in Phase::ALL {
        let mut held = BTreeMap::new();
        for (index, instr) in program.list(phase).iter().enumerate() {
            let checked = windows.one(instr, &mut held);
            checked.map_err(|what| {
                let what = format!("a {} {what}", instr.name(program));
                ProgramError::new(what).at(&format!("{phase} {index}"), instr, program)
            })?;
        }
    }
    Ok(())
}

/// The chunk that each slot of each buffer holds, if it is one.
type Held = BTreeMap<Ref, Chunk>;

struct Windows<'a> {
    program: &'a Program,
}

/// How an instruction uses an operand.
struct Use {
    at: Ref,
    writes: bool,
    /// Whether row `n` of the operand belongs to row `n` of the instruction.
    by_rows: bool,
    /// Elements from a row to the next.
    stride: u32,
}

impl Windows<'_> {
    fn one(&self, instr: &Instr, held: &mut Held) -> Result<(), String> {
        if let Instr::Repeat(instr::Repeat { body, .. })
        | Instr::Chunks(instr::Chunks { body, .. }) = instr
        {
            let mut inside = body.iter().map(|instr| self.one(instr, &mut Held::new()));
            return inside.try_for_each(|one| one);
        }
        let chunk = instr.chunk();
        let uses = self.uses(instr);
        let windows = uses.iter().filter(|one| self.run(one.at).is_some());
        for one in windows.clone() {
            self.fits(one, chunk)?;
            let found = held.get(&one.at);
            if !one.writes && found != chunk.as_ref() {
                let found = found.map_or("none".to_owned(), |c| format!("{} of {}", c.index, c.of));
                return Err(format!(
                    "reads chunk {} of `{}`, of which chunk {found} is here; fetch it before",
                    chunk.map_or(0, |chunk| chunk.index),
                    self.program.buffer(one.at.buffer).name
                ));
            }
        }
        for one in windows.filter(|one| one.writes) {
            match (instr, chunk) {
                (Instr::Begin(_), _) | (_, None) => held.remove(&one.at),
                (_, Some(chunk)) => held.insert(one.at, chunk),
            };
        }
        Ok(())
    }

    fn run(&self, at: Ref) -> Option<Chunk> {
        match self.program.buffers.get(at.buffer.0 as usize)?.extent {
            Extent::Run(even, of) | Extent::EdgeRun(even, of) => Some(Chunk {
                index: 0,
                of,
                even: Some(even),
            }),
            _ => None,
        }
    }

    /// An instruction uses rows of a chunk of the cut that a buffer is for.
    fn fits(&self, one: &Use, chunk: Option<Chunk>) -> Result<(), String> {
        let buffer = self.program.buffer(one.at.buffer);
        let name = &buffer.name;
        if !one.by_rows {
            return Err(format!(
                "uses rows of `{name}` that are not its own, of which only those of a chunk are here; fetch all"
            ));
        }
        if chunk.map(|chunk| chunk.at(0)) != self.run(one.at) || one.at.in_loop {
            return Err(format!(
                "over {} uses `{name}`, which holds rows of {}; expected a chunk of these",
                chunk.map_or("all rows".to_owned(), |chunk| chunk.to_string()),
                buffer.extent
            ));
        }
        match one.stride == buffer.columns {
            true => Ok(()),
            false => Err(format!(
                "walks rows of {} elements of `{name}`, which have {}",
                one.stride, buffer.columns
            )),
        }
    }

    /// What an instruction reads, then what it writes.
    fn uses(&self, instr: &Instr) -> Vec<Use> {
        let whole = |at: Ref, writes| Use {
            at,
            writes,
            by_rows: true,
            stride: self.program.buffer(at.buffer).columns,
        };
        match instr {
            Instr::Launch(launch) => self.of_launch(launch),
            Instr::MatMul(instr::MatMul {
                product,
                a,
                b,
                out,
                finish,
                ..
            }) => {
                let tn = *product == Product::Tn;
                let matrix = |m: &Matrix, by_rows, writes| Use {
                    at: m.at,
                    writes,
                    by_rows,
                    stride: m.stride,
                };
                let mut uses = vec![matrix(a, true, false), matrix(b, tn, false)];
                uses.push(matrix(out, !tn, true));
                // What the product wrote, its end may read.
                let end = finish.iter().flat_map(|launch| self.of_launch(launch));
                uses.extend(end.filter(|one| one.writes || one.at != out.at));
                uses
            }
            Instr::Move(instr::Move { from, to, .. }) => {
                vec![whole(*from, false), whole(*to, true)]
            }
            Instr::Begin(transfer) | Instr::Finish(transfer) => self.uses(&transfer.what),
            other => {
                let (reads, writes) = other.accesses();
                let read = reads.into_iter().map(|at| whole(at, false));
                read.chain(writes.into_iter().map(|at| whole(at, true)))
                    .collect()
            }
        }
    }

    fn of_launch(&self, launch: &Launch) -> Vec<Use> {
        let Some(kernel) = self.program.kernels.get(launch.kernel.0 as usize) else {
            return Vec::new();
        };
        let walk = Walk::of(&kernel.body);
        let of_rows = |at: At| match walk {
            Walk::EdgesByType => false,
            Walk::Rows => at == At::Row,
            Walk::Edges => at == At::Dst,
            Walk::EdgesByDestination => matches!(at, At::Row | At::Dst),
            Walk::EdgesBySource => matches!(at, At::Row | At::Src),
        };
        // Edges lie by destination.
        let of_edges = |at: At| match walk {
            Walk::Rows | Walk::EdgesBySource | Walk::EdgesByType => false,
            Walk::Edges => matches!(at, At::Row | At::Edge),
            Walk::EdgesByDestination => at == At::Edge,
        };
        let by_rows = |buffer: Ref, at: At| {
            let buffer = self.program.buffers.get(buffer.buffer.0 as usize);
            match buffer.map(|buffer| buffer.extent) {
                Some(Extent::EdgeRun(..)) => of_edges(at),
                _ => of_rows(at),
            }
        };
        let inputs = launch.inputs.iter().zip(&kernel.inputs);
        let outputs = launch.outputs.iter().zip(&kernel.outputs);
        let all = inputs
            .map(|pair| (pair, false))
            .chain(outputs.map(|pair| (pair, true)));
        let one = |((at, operand), writes): ((&Ref, &crate::kernel::Operand), bool)| Use {
            at: *at,
            writes,
            by_rows: by_rows(*at, operand.at),
            stride: operand.stride,
        };
        let lists = launch.lists.iter().map(|at| Use {
            at: *at,
            writes: false,
            by_rows: true,
            stride: 1,
        });
        lists.chain(all.map(one)).collect()
    }
}
