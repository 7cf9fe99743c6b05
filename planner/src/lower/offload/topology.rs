//! The ends of edges on the host: every kernel that walks edges runs over one chunk of its rows
//! after another, and fetches the ends of the chunk's edges (NeutronTP, sections 2 and 3.4: the
//! topology lives in host memory).
//!
//! The offset of each row's first edge stays where it was, 8 bytes per row.

use super::stream::{chunks, cut};
use super::{Means, MemoryBudget, add};
use gnnc_ir::kernel::{At, End, Kernel, Walk};
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{
    Buffer, BufferId, Chunk, Extent, Grouped, Instr, Launch, Program, Ref, Role,
};

/// A kind of edges: rows, edge set, and grouping.
type Kind = (Extent, Grouped);

/// Makes kernels fetch the ends of edges, for each kind of edges where all kernels can. Adds the
/// freed memory to budgets that it counts against.
pub(super) fn topology(programs: &mut [Program], budgets: &mut [MemoryBudget], means: Means) {
    let (Some(count), Some(first)) = (means.chunks, programs.first()) else {
        return;
    };
    for kind in kinds(first) {
        let (extent, Grouped { set, by }) = kind;
        for budget in budgets.iter_mut().filter(|budget| budget.lists) {
            // Ends and, by source, positions.
            let each = if by == End::Src { 8 } else { 4 };
            let freed = each * budget.capacity.rows(extent.edges(set));
            let more = freed.saturating_sub(budget.lacking);
            budget.lacking = budget.lacking.saturating_sub(freed);
            budget.bytes = budget.bytes.saturating_add(more);
        }
        for program in programs.iter_mut() {
            fetched(program, kind, (count, means.slots()));
        }
    }
}

/// The kinds of edges walked only by kernels that are outside of loops and can run in chunks.
fn kinds(program: &Program) -> Vec<Kind> {
    let (mut found, mut kept) = (Vec::new(), Vec::new());
    for phase in Phase::ALL {
        for instr in program.list(phase) {
            if let Some(body) = instr.body() {
                nested(body, program, &mut kept);
            }
            let Instr::Launch(launch) = instr else {
                continue;
            };
            let Some(kind) = kind(launch, program) else {
                continue;
            };
            let cut = cut(instr, program).and_then(|even| even.edges);
            if cut == Some(kind.1) && launch.chunk.is_none() && !found.contains(&kind) {
                found.push(kind);
            } else if cut != Some(kind.1) || launch.chunk.is_some() {
                kept.push(kind);
            }
        }
    }
    found.retain(|kind| !kept.contains(kind));
    found
}

fn nested(body: &[Instr], program: &Program, kept: &mut Vec<Kind>) {
    for instr in body {
        if let Instr::Launch(launch) = instr {
            kept.extend(kind(launch, program));
        }
        nested(instr.body().unwrap_or_default(), program, kept);
    }
}

/// The kind of edges a launch walks. Edges of own vertices are one kind, whatever rows they are
/// grouped by.
fn kind(launch: &Launch, program: &Program) -> Option<Kind> {
    let body = &program.kernel(launch.kernel).body;
    let set = body.edge_set()?;
    let walk = Walk::of(body);
    if walk == Walk::EdgesByType {
        // It reads the positions by type, which stay, and nothing of these lists.
        return None;
    }
    let by = walk.end();
    let extent = match launch.rows.of_whole_graph() {
        true => Extent::All,
        false => Extent::Inner,
    };
    Some((extent, Grouped { set, by }))
}

/// Whether a kernel reads or writes edge tensors.
fn uses_edges(kernel: &Kernel) -> bool {
    kernel.uses(At::Edge)
}

/// Makes all kernels that walk one kind of edges fetch their ends.
fn fetched(program: &mut Program, wanted: Kind, (count, slots): (u32, u32)) {
    let (extent, edges) = wanted;
    let list = |name: &str, role| Buffer {
        name: format!("edges.{name}"),
        extent: extent.edges(edges.set),
        columns: 1,
        slots: 1,
        role,
        storage: Default::default(),
    };
    let ends = add(program, list("ends", Role::EdgeEnds(edges)), true);
    let mut places = None;
    for phase in Phase::ALL {
        for at in 0..program.list(phase).len() {
            let instr = &program.list(phase)[at];
            let Instr::Launch(launch) = instr else {
                continue;
            };
            if kind(launch, program) != Some(wanted) {
                continue;
            }
            let Some(even) = cut(instr, program) else {
                continue;
            };
            let of = chunks(even, count);
            let chunk = Chunk {
                index: 0,
                of,
                even: Some(even),
            };
            let mut launch = launch.clone();
            let placed = edges.by == End::Src && uses_edges(program.kernel(launch.kernel));
            let mut homes = vec![ends];
            if placed {
                let place = |program: &mut Program| {
                    add(program, list("places", Role::EdgePlaces(edges.set)), true)
                };
                homes.push(*places.get_or_insert_with(|| place(program)));
            }
            let mut body = Vec::new();
            for home in homes {
                let window = window(program, home, chunk, slots);
                launch.lists.push(window);
                body.push(Instr::Move(instr::Move {
                    from: Ref::first(home),
                    to: window,
                    chunk: Some(chunk),
                }));
            }
            launch.chunk = Some(chunk);
            body.push(Instr::Launch(launch));
            let reverse = false;
            program.list_mut(phase)[at] = Instr::Chunks(instr::Chunks { reverse, body });
        }
    }
}

/// A buffer for the chunk's part of a list.
fn window(program: &mut Program, home: BufferId, chunk: Chunk, slots: u32) -> Ref {
    let whole = program.buffer(home);
    let buffer = Buffer {
        name: format!("{}.here", whole.name),
        extent: chunk
            .even
            .map_or(whole.extent, |even| Extent::EdgeRun(even, chunk.of)),
        slots,
        role: Role::Temp,
        ..whole.clone()
    };
    Ref {
        buffer: add(program, buffer, false),
        base: 0,
        in_loop: true,
    }
}
