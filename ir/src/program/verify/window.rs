//! Checks of buffers that hold one chunk at a time: readers find the chunk that they expect.

use super::ProgramError;
use crate::kernel::{At, Kernel, Operand, Walk};
use crate::program::instr;
use crate::program::trace::Phase;
use crate::program::{Chunk, Extent, Instr, Launch, Program, Ref};
use std::collections::BTreeMap;

/// Checks the instructions of all lists.
///
/// # Errors
/// The first instruction that reads absent rows.
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

/// The chunk in each slot of each such buffer, if there is one.
type Held = BTreeMap<Ref, Chunk>;

struct Windows<'a> {
    program: &'a Program,
}

/// An instruction's use of an operand.
struct Use {
    at: Ref,
    writes: bool,
    /// Whether row `n` of the operand belongs to row `n` of the instruction.
    by_rows: bool,
    /// Elements from one row to the next.
    stride: u32,
}

impl Windows<'_> {
    fn one(&self, instr: &Instr, held: &mut Held) -> Result<(), String> {
        if let Some(body) = instr.body() {
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
                    "reads chunk {} of `{}`, but chunk {found} is on the device; fetch it before",
                    chunk.map_or(0, |chunk| chunk.index),
                    self.program.buffer(one.at.buffer).name
                ));
            }
        }
        for one in windows.filter(|one| one.writes) {
            match chunk.filter(|_| !matches!(instr, Instr::Begin(_))) {
                None => held.remove(&one.at),
                Some(chunk) => held.insert(one.at, chunk),
            };
        }
        Ok(())
    }

    fn run(&self, at: Ref) -> Option<Chunk> {
        let buffer = self.program.buffers.get(at.buffer.0 as usize)?;
        buffer.extent.chunk()
    }

    /// Checks that an instruction uses rows of a chunk that the buffer is divided into.
    fn fits(&self, one: &Use, chunk: Option<Chunk>) -> Result<(), String> {
        let buffer = self.program.buffer(one.at.buffer);
        let name = &buffer.name;
        if !one.by_rows {
            return Err(format!(
                "uses rows of `{name}` outside its chunk, but only one chunk is on the device; fetch all rows"
            ));
        }
        if chunk.map(|chunk| chunk.at(0)) != self.run(one.at) || one.at.in_loop {
            return Err(format!(
                "over {} uses `{name}`, which holds rows of {}; expected a chunk of those rows",
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

    /// The reads of an instruction, then its writes.
    fn uses(&self, instr: &Instr) -> Vec<Use> {
        let mut uses = Vec::new();
        instr.operands(&mut |operand| {
            let (by_rows, stride) = match operand.rows {
                instr::Use::Matrix {
                    by_rows, stride, ..
                } => (by_rows, stride),
                instr::Use::Input(launch, n) => {
                    self.kernel_operand(launch, operand.at, |k| k.inputs.get(n))
                }
                instr::Use::Output(launch, n) => {
                    self.kernel_operand(launch, operand.at, |k| k.outputs.get(n))
                }
                instr::Use::Ends(_) => (true, 1),
                instr::Use::Rows(_) | instr::Use::Shared(_) | instr::Use::Slots => {
                    (true, self.program.buffer(operand.at.buffer).columns)
                }
            };
            uses.push(Use {
                at: operand.at,
                writes: operand.writes,
                by_rows,
                stride,
            });
        });
        // A product's finishing kernel may read what the product wrote.
        if let Instr::MatMul(instr::MatMul { a, b, out, .. }) = instr.whole() {
            let factors = [a.at, b.at];
            uses.retain(|one| one.writes || one.at != out.at || factors.contains(&one.at));
        }
        uses
    }

    /// Whether row `n` of a kernel's operand belongs to row `n` of its launch, and the elements
    /// from one row to the next.
    fn kernel_operand<'k>(
        &'k self,
        launch: &Launch,
        at: Ref,
        operand: impl Fn(&'k Kernel) -> Option<&'k Operand>,
    ) -> (bool, u32) {
        let kernel = self.program.kernels.get(launch.kernel.0 as usize);
        let found = kernel.and_then(|kernel| Some((kernel, operand(kernel)?)));
        let Some((kernel, operand)) = found else {
            return (false, 0);
        };
        let buffer = self.program.buffers.get(at.buffer.0 as usize);
        let of_edges = buffer.is_some_and(|b| matches!(b.extent, Extent::EdgeRun(..)));
        let by_rows = match (Walk::of(&kernel.body), of_edges) {
            (Walk::EdgesByType, _) => false,
            (Walk::Rows, false) => operand.at == At::Row,
            (Walk::Edges, false) => operand.at == At::Dst,
            (Walk::EdgesByDestination, false) => matches!(operand.at, At::Row | At::Dst),
            (Walk::EdgesBySource, false) => matches!(operand.at, At::Row | At::Src),
            // Edges are stored by destination.
            (Walk::Rows | Walk::EdgesBySource, true) => false,
            (Walk::Edges, true) => matches!(operand.at, At::Row | At::Edge),
            (Walk::EdgesByDestination, true) => operand.at == At::Edge,
        };
        (by_rows, operand.stride)
    }
}
