//! Cuts work over all vertices into chunks, so that messages of one chunk are in flight while
//! another is computed (NeutronTP, section 3.5).
//!
//! If a tensor is split and then aggregated, rows new to a chunk are moved before it; if results
//! are joined, rows of a chunk are moved after it. The backward pass sums over edges by source, one
//! row of the result at a time, so its chunks consist of sources: the rows new to a chunk are the
//! destinations of its edges, and the chunk completes its own rows. So every row moves once, as
//! without chunks. Every number is also the same, because a row is still computed in one go.
//! [`super::overlap`] then reorders the pieces so that they overlap. Chunks do not extend across
//! the border of a loop.

use gnnc_ir::graph::op::Redistribute;
use gnnc_ir::kernel::{At, End, Walk};
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{BufferId, Chunk, Extent, Instr, Launch, Moved, Program};
use std::collections::BTreeSet;

/// Most chunks of a program: each one costs a launch of every kernel, and latencies.
pub const MOST_CHUNKS: u32 = 16;

/// Cuts a program into chunks.
pub fn chunks(mut program: Program, of: u32) -> Program {
    for phase in [Phase::Step, Phase::Eval] {
        let instrs = std::mem::take(program.list_mut(phase));
        *program.list_mut(phase) = list(instrs, &program, of);
    }
    program
}

fn list(instrs: Vec<Instr>, program: &Program, of: u32) -> Vec<Instr> {
    let cuts = cuts(&instrs, program);
    let mut out = Vec::with_capacity(instrs.len());
    for (mut instr, cut) in instrs.into_iter().zip(cuts) {
        let chunks = (0..of).map(|index| Chunk {
            index,
            of,
            even: None,
        });
        if let Instr::Repeat(repeat) = &mut instr {
            repeat.body = list(std::mem::take(&mut repeat.body), program, of);
        }
        if let Instr::Launch(launch) = &instr
            && matches!(cut, Cut::Rows)
        {
            out.extend(chunks.map(|chunk| {
                let chunk = Some(chunk);
                Instr::Launch(Launch {
                    chunk,
                    ..launch.clone()
                })
            }));
        } else if let Instr::Redistribute(whole) = &instr
            && matches!(cut, Cut::Rows | Cut::New(_))
        {
            out.extend(chunks.map(|chunk| {
                Instr::Redistribute(instr::Redistribute {
                    moved: match cut {
                        Cut::New(end) => Moved::New(end, chunk),
                        _ => Moved::Rows(chunk),
                    },
                    ..whole.clone()
                })
            }));
        } else {
            out.push(instr);
        }
    }
    out
}

/// How an instruction is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// Not at all.
    Whole,
    /// By the vertices of the chunks.
    Rows,
    /// By the rows new to a reduction to an end.
    New(End),
}

/// How the instructions of a list are cut: redistributions next to a kernel of the same list, and
/// these kernels.
fn cuts(instrs: &[Instr], program: &Program) -> Vec<Cut> {
    let mut cuts = vec![Cut::Whole; instrs.len()];
    for (i, instr) in instrs.iter().enumerate() {
        let Instr::Redistribute(instr::Redistribute { how, from, to, .. }) = instr else {
            continue;
        };
        match how {
            Redistribute::Split(_) | Redistribute::Replicate => {
                let reader = (i + 1..instrs.len()).find(|&n| touches(&instrs[n], to.buffer));
                let Some((n, launch)) = reader.and_then(|n| cuttable(n, instrs, program)) else {
                    continue;
                };
                cuts[i] = first_read(launch, to.buffer, program);
                cuts[n] = Cut::Rows;
            }
            Redistribute::Join(_) | Redistribute::Reduce => {
                let writer = (0..i).rev().find(|&n| writes(&instrs[n], from.at.buffer));
                if let Some((n, _)) = writer.and_then(|n| cuttable(n, instrs, program)) {
                    cuts[i] = Cut::Rows;
                    cuts[n] = Cut::Rows;
                }
            }
            Redistribute::Own => {}
        }
    }
    cuts
}

/// The launch at index `n`, if it can run over part of the vertices: it runs over all of them and
/// gives one row per vertex (or per in-edge).
fn cuttable<'a>(n: usize, instrs: &'a [Instr], program: &Program) -> Option<(usize, &'a Launch)> {
    let Instr::Launch(launch) = &instrs[n] else {
        return None;
    };
    let kernel = program.kernels.get(launch.kernel.0 as usize)?;
    let by_row = !kernel.body.sums_rows();
    (launch.rows == Extent::All && by_row).then_some((n, launch))
}

/// Which rows of a buffer a launch over a chunk is the first to read.
fn first_read(launch: &Launch, buffer: BufferId, program: &Program) -> Cut {
    let Some(kernel) = program.kernels.get(launch.kernel.0 as usize) else {
        return Cut::Rows;
    };
    let by_source = Walk::of(&kernel.body) == Walk::EdgesBySource;
    let (other, end) = match by_source {
        true => (At::Dst, End::Src),
        false => (At::Src, End::Dst),
    };
    let operands = launch.inputs.iter().zip(&kernel.inputs);
    let mut reads = operands.filter(|(at, _)| at.buffer == buffer);
    match reads.any(|(_, operand)| operand.at == other) {
        true => Cut::New(end),
        false => Cut::Rows,
    }
}

/// Whether an instruction uses a buffer.
fn touches(instr: &Instr, buffer: BufferId) -> bool {
    buffers(instr).contains(&(buffer, false)) || writes(instr, buffer)
}

fn writes(instr: &Instr, buffer: BufferId) -> bool {
    buffers(instr).contains(&(buffer, true))
}

/// The buffers that an instruction uses, including those in loops, and whether it writes them.
fn buffers(instr: &Instr) -> BTreeSet<(BufferId, bool)> {
    if let Instr::Repeat(instr::Repeat { body, .. }) = instr {
        return body.iter().flat_map(buffers).collect();
    }
    let (reads, writes) = instr.accesses();
    let read = reads.iter().map(|at| (at.buffer, false));
    read.chain(writes.iter().map(|at| (at.buffer, true)))
        .collect()
}
