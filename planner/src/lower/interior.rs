//! Computes interior rows while rows of other ranks are in flight.
//!
//! A kernel that reads halo rows has to wait for them, although most of its rows may need none; and
//! before halo rows are sent to their owners all rows have to be summed, although the own ones
//! stay. So such a kernel is launched twice: over interior rows ([`Grain::Reach`]; a rank numbers
//! them first) and over the others, or over own rows and over halo rows. [`super::overlap`] then
//! runs one launch while messages are in flight, and the other before or after. Every row is still
//! computed in one go, so numbers stay the same; sums over rows are not cut.

use gnnc_ir::kernel::{At, Kernel, Walk};
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{
    Chunk, Even, Extent, Grain, Halo, Instr, Launch, Product, Program, Ref, Vertices,
};
use std::collections::BTreeSet;

/// Splits kernels that read or sum halo rows into two launches.
pub fn interior(mut program: Program) -> Program {
    for phase in [Phase::Step, Phase::Eval] {
        let instrs = std::mem::take(program.list_mut(phase));
        *program.list_mut(phase) = list(instrs, &program);
    }
    program
}

/// Whether a list has instructions over interior rows or over the rest.
pub fn is_cut(instrs: &[Instr]) -> bool {
    instrs.iter().any(|instr| match instr.body() {
        Some(body) => is_cut(body),
        None => instr.chunk().is_some_and(|chunk| chunk.reach().is_some()),
    })
}

fn list(instrs: Vec<Instr>, program: &Program) -> Vec<Instr> {
    let cuts = cuts(&instrs, program);
    let mut out = Vec::with_capacity(instrs.len());
    for (mut instr, cut) in instrs.into_iter().zip(cuts) {
        if let Instr::Repeat(repeat) = &mut instr {
            repeat.body = list(std::mem::take(&mut repeat.body), program);
        }
        match cut {
            None => out.push(instr),
            Some(Cut { rows, order }) => out.extend(order.map(|index| {
                let mut part = instr.clone();
                part.set_chunk(chunk(rows, index));
                part
            })),
        }
    }
    out
}

fn chunk(rows: Vertices, index: u32) -> Chunk {
    let even = Even {
        rows,
        grain: Grain::Reach,
        edges: None,
    };
    even.chunk(index, 2)
}

/// How an instruction is cut: which rows, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    rows: Vertices,
    order: [u32; 2],
}

/// Tensors that have to wait for messages at a position of a list.
#[derive(Default)]
struct Late {
    /// Tensors whose halo rows arrive in messages, or are computed from such rows.
    halos: BTreeSet<Ref>,
    /// Results of cut kernels, by own rows or by their in-edges.
    results: BTreeSet<Ref>,
}

fn cuts(instrs: &[Instr], program: &Program) -> Vec<Option<Cut>> {
    let mut late = Late::default();
    let mut cuts = Vec::with_capacity(instrs.len());
    for (i, instr) in instrs.iter().enumerate() {
        let cut = if let Instr::Launch(launch) = instr {
            late.launch(launch, program).or_else(|| {
                let sent = is_sent(launch, &instrs[i + 1..], program);
                sent.then_some(Cut {
                    rows: Vertices::Local,
                    order: [1, 0],
                })
            })
        } else {
            late.product(instr)
        };
        late.after(instr, cut);
        cuts.push(cut);
    }
    cuts
}

impl Late {
    /// Cuts a kernel some of whose rows wait for messages: own rows with their in-edges, or own and
    /// halo rows.
    fn launch(&self, launch: &Launch, program: &Program) -> Option<Cut> {
        let kernel = free(launch, program)?;
        let by_source = Walk::of(&kernel.body) == Walk::EdgesBySource;
        let rows = Vertices::of(launch.rows)?;
        let fits = match rows {
            Vertices::Inner => kernel.body.edge_set().is_some() && !by_source,
            Vertices::Local => kernel.body.edge_set().is_none(),
            Vertices::All => false,
        };
        if !fits {
            return None;
        }
        let mut reads = launch.inputs.iter().zip(&kernel.inputs);
        let waits = reads.any(|(at, operand)| match (rows, operand.at) {
            (Vertices::Inner, At::Src) => self.halos.contains(at),
            (Vertices::Inner, At::Row | At::Dst | At::Edge) => self.results.contains(at),
            (_, At::Row) => self.halos.contains(at),
            _ => false,
        });
        let order = [0, 1];
        waits.then_some(Cut { rows, order })
    }

    /// Cuts a product whose halo rows wait for messages.
    fn product(&self, instr: &Instr) -> Option<Cut> {
        let Instr::MatMul(instr::MatMul {
            product: Product::Nn | Product::Nt,
            a,
            rows: Extent::Local,
            finish,
            chunk: None,
            ..
        }) = instr
        else {
            return None;
        };
        let ends = finish.as_ref().is_none_or(|f| f.rows == Extent::Local);
        let (rows, order) = (Vertices::Local, [0, 1]);
        (ends && self.halos.contains(&a.at)).then_some(Cut { rows, order })
    }

    /// Updates the waiting tensors after an instruction.
    fn after(&mut self, instr: &Instr, cut: Option<Cut>) {
        if let Instr::HaloExchange(instr::HaloExchange { buffer, .. }) = instr {
            self.results.remove(buffer);
            self.halos.insert(*buffer);
            return;
        }
        for at in instr.accesses().1 {
            self.halos.remove(&at);
            self.results.remove(&at);
            match cut.map(|cut| cut.rows) {
                Some(Vertices::Inner) => self.results.insert(at),
                Some(_) => self.halos.insert(at),
                None => false,
            };
        }
    }
}

/// The kernel of a launch, if it can run over part of its rows and does not already.
fn free<'a>(launch: &Launch, program: &'a Program) -> Option<&'a Kernel> {
    let kernel = program.kernels.get(launch.kernel.0 as usize)?;
    let whole = launch.chunk.is_none() && launch.lists.is_empty();
    (whole && !kernel.body.sums_rows()).then_some(kernel)
}

/// Whether a kernel sums edge values at their sources, or at targets in the halo too, and the sums of halo rows are then
/// sent to their owners before anything else uses them.
fn is_sent(launch: &Launch, behind: &[Instr], program: &Program) -> bool {
    let to_halo = |kernel: &Kernel| match Walk::of(&kernel.body) {
        Walk::EdgesBySource => true,
        Walk::EdgesByDestination => program.halo == Halo::Cover,
        Walk::Rows | Walk::Edges | Walk::EdgesByType => false,
    };
    let sums = free(launch, program).is_some_and(to_halo) && launch.rows == Extent::Local;
    let [out] = launch.outputs[..] else {
        return false;
    };
    let uses = |instr: &&Instr| {
        let (reads, writes) = instr.accesses();
        reads
            .iter()
            .chain(&writes)
            .any(|at| at.buffer == out.buffer)
    };
    let next = behind.iter().find(uses);
    sums && matches!(next, Some(Instr::HaloReduce(instr::HaloReduce { buffer, .. })) if *buffer == out)
}
