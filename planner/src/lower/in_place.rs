//! Reads rows of all vertices where they are, in place of copies for a batch.
//!
//! A tensor of all vertices, such as the features, is fetched for the vertices of a level. If edges
//! are all that reads the lowest level, the copy is the largest buffer of a batch, and each of its
//! rows is read only once or twice. So the aggregation walks edges that end at vertices, and what is
//! fetched shrinks to the rows that others read, those of a higher level. If nothing else reads it,
//! nothing is fetched.

use gnnc_ir::kernel::{At, Kernel, Walk};
use gnnc_ir::program::instr::{self, FetchRows, Launch, MatMul};
use gnnc_ir::program::{BufferId, Extent, Instr, Program, Ref};
use gnnc_ir::words::types::Level;
use std::collections::BTreeMap;

/// A tensor that is fetched.
struct Fetched {
    /// Where all rows are.
    from: Ref,
    /// The level whose rows are fetched.
    level: Level,
    /// The lowest level above it whose rows something reads one by one, if anything does.
    rows: Option<Level>,
}

/// The program without copies of rows that only edges read.
pub fn in_place(mut program: Program) -> Program {
    for (phase, index) in program.batch_loops() {
        let Instr::Batches(instr::Batches { body }) = &program.list(phase)[index] else {
            continue;
        };
        let fetched = fetched(body, &program);
        let mut body = body.clone();
        body.retain_mut(|instr| {
            if let Instr::FetchRows(fetch) = instr {
                return fetched
                    .get(&fetch.to.buffer)
                    .is_none_or(|one| one.rows.is_some());
            }
            if let Some(launch) = instr.launch_mut() {
                read_in_place(launch, &program, &fetched);
            }
            true
        });
        for (id, one) in &fetched {
            if let Some(level) = one.rows {
                program.buffers[id.0 as usize].extent = Extent::Level(level);
            }
        }
        program.list_mut(phase)[index] = Instr::Batches(instr::Batches { body });
    }
    program
}

/// The tensors whose lowest level is read only by edges, and where all their rows are.
fn fetched(body: &[Instr], program: &Program) -> BTreeMap<BufferId, Fetched> {
    let mut found: BTreeMap<BufferId, Fetched> = BTreeMap::new();
    for instr in body {
        if let Instr::FetchRows(FetchRows { from, to }) = instr
            && has_all(program, *from)
            && let Some(level) = program.buffer(to.buffer).extent.level()
        {
            let (from, rows) = (*from, None);
            found.insert(to.buffer, Fetched { from, level, rows });
        }
    }
    // What a launch cannot read in place keeps other tensors that it reads from being read so.
    loop {
        let before = found.len();
        for instr in body {
            restrict(instr, program, &mut found);
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Whether this rank has the rows of all vertices.
fn has_all(program: &Program, from: Ref) -> bool {
    let extent = program.buffer(from.buffer).extent;
    let own = matches!(extent, Extent::Inner | Extent::Local);
    extent == Extent::All || own && program.ranks <= 1
}

/// Drops tensors of which an instruction reads rows of the lowest level.
fn restrict(instr: &Instr, program: &Program, found: &mut BTreeMap<BufferId, Fetched>) {
    if matches!(instr, Instr::FetchRows(_)) {
        return;
    }
    if let Instr::MatMul(MatMul { a, b, rows, .. }) = instr {
        for at in [a.at, b.at] {
            reads_rows(found, at.buffer, *rows);
        }
    }
    let Some(launch) = instr.launch() else {
        if !matches!(instr, Instr::MatMul(_)) {
            instr.each_access(&mut |at, _| {
                found.remove(&at.buffer);
            });
        }
        return;
    };
    let kernel = program.kernel(launch.kernel);
    let fits = takes_in_place(launch, kernel, found);
    for (operand, at) in kernel.inputs.iter().zip(&launch.inputs) {
        match operand.at {
            At::Src if fits => {}
            At::Row | At::Dst => reads_rows(found, at.buffer, launch.rows),
            At::Src | At::Edge | At::One | At::List => {
                found.remove(&at.buffer);
            }
        }
    }
}

/// Records that rows of an extent are read, or drops the tensor if these are all it has.
fn reads_rows(found: &mut BTreeMap<BufferId, Fetched>, id: BufferId, rows: Extent) {
    let Some(one) = found.get_mut(&id) else {
        return;
    };
    match rows.level().filter(|level| level.number > one.level.number) {
        Some(level) => one.rows = Some(one.rows.map_or(level, |known| known.min(level))),
        None => {
            found.remove(&id);
        }
    }
}

/// Whether a launch walks edges into the level above what it reads at their sources, all of which is
/// fetched, and needs no vertex ids of sources.
fn takes_in_place(launch: &Launch, kernel: &Kernel, found: &BTreeMap<BufferId, Fetched>) -> bool {
    let walk = Walk::of(&kernel.body);
    let by_destination = matches!(walk, Walk::Edges | Walk::EdgesByDestination);
    let sources = kernel.inputs.iter().zip(&launch.inputs);
    let mut sources = sources.filter(|(operand, _)| operand.at == At::Src);
    by_destination
        && kernel.masks.is_empty()
        && sources.all(|(_, at)| {
            let level = found.get(&at.buffer).map(|one| one.level.above());
            level.is_some() && level == launch.rows.level()
        })
}

/// Makes a launch read sources where all rows are.
fn read_in_place(launch: &mut Launch, program: &Program, fetched: &BTreeMap<BufferId, Fetched>) {
    let kernel = program.kernel(launch.kernel);
    if !takes_in_place(launch, kernel, fetched) {
        return;
    }
    for (operand, at) in kernel.inputs.iter().zip(&mut launch.inputs) {
        if let (At::Src, Some(one)) = (operand.at, fetched.get(&at.buffer)) {
            *at = one.from;
        }
    }
}
