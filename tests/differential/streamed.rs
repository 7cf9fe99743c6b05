//! Programs that do not fit as a whole run over chunks of rows, one after the other, with the
//! same results.

use crate::check::Case;
use crate::data::{Shape, planted};
use crate::device::Again;
use crate::device::fake::Fake;
use crate::device::runs::{Found, close, options, run};
use crate::models::{APPNP, GAT, GCN, GCNII, GIN, SAGE};
use crate::offload::{copies, in_a_budget, rested};
use gnnc::TrainOptions;
use gnnc::ir::kernel::End;
use gnnc::ir::plan::Placement;
use gnnc::ir::program::instr;
use gnnc::ir::program::trace::Phase;
use gnnc::ir::program::traffic::moved;
use gnnc::ir::program::{Buffer, BufferId, Instr, Program, RankSizes, Ref, Role};
use gnnc::runtime::Session;
use std::collections::BTreeMap;
use std::sync::Arc;

const PLACED: [(Placement, u32); 3] = [
    (Placement::Graph, 1),
    (Placement::Graph, 3),
    (Placement::Tensor, 2),
];

/// Ever smaller shares of the memory, in percent.
fn shares() -> impl Iterator<Item = u32> {
    (4..76).rev().step_by(2)
}

fn case(body: &str, vertices: u32) -> Case {
    let shape = Shape {
        vertices,
        edges: 3 * u64::from(vertices),
        directed: false,
        sparse: false,
        seed: 5,
    };
    Case::new("", body, planted(shape))
}

/// Number of instructions that run over a chunk of rows, and the most chunks of one
/// instruction.
fn chunks(program: &Program) -> (usize, u32) {
    let works = |instr: &&Instr| matches!(instr, Instr::Launch(_) | Instr::MatMul(_));
    let all = program.step.iter().filter(works);
    let chunks = all.filter_map(|i| i.chunk()).filter(|c| c.even.is_some());
    let found: Vec<u32> = chunks.map(|chunk| chunk.of).collect();
    (found.len(), found.iter().copied().max().unwrap_or(0))
}

/// Bytes of edge ends that ranks keep on the host.
pub fn freed(programs: &[Program], sizes: &[RankSizes]) -> u64 {
    let pairs = programs.iter().cycle().zip(sizes);
    let of_rank = |(program, sizes): (&Program, &RankSizes)| -> u64 {
        let hosted = program.hosted.iter().map(|id| program.buffer(*id));
        let bytes = hosted.map(|buffer| match buffer.role {
            Role::EdgeEnds(edges) if edges.by == End::Src => 8 * sizes.rows(buffer.extent),
            Role::EdgeEnds(_) => 4 * sizes.rows(buffer.extent),
            _ => 0,
        });
        bytes.sum()
    };
    pairs.map(of_rank).sum()
}

/// The smallest memory shares in which a model ran.
struct Seen {
    /// Without chunks.
    whole: u32,
    /// With chunks.
    cut: u32,
    /// With edge ends on the host too.
    edges: u32,
    /// With loops written out.
    plain: u32,
    /// The most chunks of an instruction.
    most: u32,
}

fn shrink(case: &Case, options: &TrainOptions, device: bool) -> Seen {
    let mut again = Again::new(case, options);
    let programs = again.programs.clone();
    // A device first replays work in the second epoch.
    let epochs = if device { 2 } else { 3 };
    let what = format!("{} x {}", options.placement, options.workers);
    let found = |again: &Again| -> (Found, Session) {
        let mut session = match device {
            true => again.on_device(&Arc::default()),
            false => again.on_processor(),
        };
        (run(&mut session, epochs), session)
    };
    let (expected, before) = found(&again);
    again.options.checked = true;
    let sizes = before.sizes();
    let mut seen = Seen {
        whole: 100,
        cut: 100,
        edges: 100,
        plain: 100,
        most: 0,
    };
    let loops = |program: &Program| {
        let list = program.step.iter();
        list.filter(|instr| matches!(instr, Instr::Repeat(_)))
            .count()
    };
    for percent in shares() {
        let share = f64::from(percent) / 100.0;
        let Some(smaller) = rested(&programs, &sizes, share) else {
            break;
        };
        let (instrs, of) = chunks(&smaller[0]);
        if of == 0 {
            seen.whole = percent;
            continue;
        }
        let more = freed(&smaller, &sizes);
        let least = match more {
            0 => &mut seen.cut,
            _ => &mut seen.edges,
        };
        let mut first = std::mem::replace(least, percent) == 100;
        if loops(&smaller[0]) < loops(&programs[0]) {
            first |= std::mem::replace(&mut seen.plain, percent) == 100;
        }
        seen.most = seen.most.max(of);
        // Neighboring shares tell little more, and runs on the device take long.
        if !first && (device || percent % 6 != 0) {
            continue;
        }
        let what =
            format!("{what} in {percent} %, {instrs} instructions, {of} chunks, {more} bytes");
        again.programs = smaller;
        let (got, session) = found(&again);
        match device {
            true => close(&got, &expected, &what),
            false => assert!(got == expected, "{what}: other numbers"),
        }
        let allowed = before.buffer_bytes() as f64 * share + more as f64;
        assert!(session.buffer_bytes() as f64 <= allowed.ceil(), "{what}");
        let [copied, says] = copies(&session, &again, epochs as u64);
        assert!(copied == says, "{what}: copied {copied}, says {says}");
    }
    seen
}

/// Number of placements in which chunks need less memory than whole tensors.
#[allow(clippy::print_stdout, reason = "docs tell what was reached")]
fn everywhere(body: &str, vertices: u32, device: bool) -> usize {
    let case = case(body, vertices);
    let mut smaller = 0;
    for (placement, ranks) in PLACED {
        let seen = shrink(&case, &options(placement, ranks), device);
        let Seen {
            whole,
            cut,
            edges,
            most,
            ..
        } = seen;
        let what = format!(
            "{placement} x {ranks}: {whole} % whole, {cut} % in up to {most} chunks, {edges} % with edges"
        );
        println!("{what}");
        smaller += usize::from(cut.min(edges) < whole);
    }
    smaller
}

#[test]
fn streamed_gcn() {
    assert_eq!(everywhere(GCN, 4000, false), PLACED.len());
}

#[test]
fn streamed_sage() {
    assert_eq!(everywhere(SAGE, 4000, false), PLACED.len());
}

#[test]
fn streamed_gin() {
    assert_eq!(everywhere(GIN, 4000, false), PLACED.len());
}

#[test]
fn streamed_gat() {
    assert_eq!(everywhere(GAT, 4000, false), PLACED.len());
}

/// Where nothing else fits, loops over layers are written out: their kernels run in chunks too, and fetch the ends of
/// edges.
#[test]
#[allow(clippy::print_stdout, reason = "docs tell what was reached")]
fn streamed_loops() {
    for body in [APPNP, GCNII] {
        let case = case(body, 4000);
        for (placement, ranks) in PLACED {
            let seen = shrink(&case, &options(placement, ranks), false);
            let (with, without) = (seen.whole.min(seen.cut), seen.plain);
            println!("{placement} x {ranks}: {with} % with loops, {without} % without");
            assert!(without < 100, "{placement} x {ranks}: {body}");
        }
    }
}

#[test]
fn streamed_on_the_device() {
    // Small graphs have few chunks.
    let all = [GCN, SAGE, GIN, GAT].map(|body| everywhere(body, 1500, true));
    assert!(all.iter().sum::<usize>() > 2 * PLACED.len(), "{all:?}");
}

/// A model on one rank with so little memory that edge ends are on the host.
fn smallest(case: &Case) -> (Again<'_>, Vec<RankSizes>) {
    let mut again = Again::new(case, &options(Placement::Graph, 1));
    let sizes = again.on_processor().sizes();
    let found = shares().find_map(|percent| {
        let smaller = rested(&again.programs, &sizes, f64::from(percent) / 100.0)?;
        (freed(&smaller, &sizes) > 0).then_some(smaller)
    });
    again.programs = found.unwrap();
    (again, sizes)
}

/// The copy of a chunk that an instruction makes or starts.
fn copy(instr: &Instr) -> Option<(Ref, Ref, u32)> {
    match instr {
        Instr::Begin(half) => copy(&half.what),
        Instr::Move(instr::Move { from, to, chunk }) => Some((*from, *to, (*chunk)?.index)),
        _ => None,
    }
}

/// All chunks together copy each row, or each edge's end, once: 4 bytes times rows times
/// columns.
#[test]
fn streamed_bytes_are_those_of_the_closed_form() {
    let case = case(GCN, 4000);
    let (again, sizes) = smallest(&case);
    let (program, sizes) = (&again.programs[0], &sizes[0]);
    let mut all: BTreeMap<(BufferId, BufferId), u64> = BTreeMap::new();
    for instr in &program.step {
        if let Some((from, to, _)) = copy(instr) {
            let bytes: u64 = moved(std::slice::from_ref(instr), program, sizes)
                .iter()
                .sum();
            *all.entry((from.buffer, to.buffer)).or_default() += bytes;
        }
    }
    let mut edges = 0;
    for ((from, to), bytes) in all {
        let ends = [from, to].map(|id| program.buffer(id));
        let whole = if program.is_hosted(from) {
            ends[0]
        } else {
            ends[1]
        };
        let listed = matches!(whole.role, Role::EdgeEnds(_) | Role::EdgePlaces(_));
        let rows = match listed {
            // Self loops are stored.
            true => sizes.edges + sizes.inner,
            false => sizes.inner,
        };
        edges += u64::from(listed);
        assert_eq!(bytes, 4 * rows * u64::from(whole.columns), "{}", whole.name);
    }
    // Two layers forward and one backward; counting degrees needs none.
    assert_eq!(edges, 4, "lists of edges");
}

/// Programs that read absent rows or edge ends are refused.
#[test]
fn streamed_is_checked() {
    let case = case(GCN, 4000);
    let (mut again, _) = smallest(&case);
    let good = again.programs.remove(0);
    let mut refused = |change: &dyn Fn(&mut Program), part: &str| {
        let mut program = good.clone();
        change(&mut program);
        again.programs = vec![program];
        let error = again.try_on_device(Box::new(Fake::new(&Arc::default())));
        let error = error.err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    };
    let launch = |program: &mut Program, index: u32| -> usize {
        let reads = |instr: &Instr| match instr {
            Instr::Launch(launch) => {
                !launch.lists.is_empty() && launch.chunk.is_some_and(|c| c.index == index)
            }
            _ => false,
        };
        program.step.iter().position(reads).unwrap()
    };
    // The second chunk's input is never fetched.
    refused(
        &|program| {
            let place = launch(program, 1);
            let Instr::Launch(launch) = &program.step[place] else {
                return;
            };
            let list = launch.lists[0];
            let fetches = |instr: &Instr| match instr {
                Instr::Finish(half) => copy(&half.what),
                instr => copy(instr),
            };
            let gone = |instr: &Instr| fetches(instr).is_some_and(|c| c.1 == list && c.2 == 1);
            program.step.retain(|instr| !gone(instr));
        },
        "fetch it before",
    );
    refused(
        &|program| {
            let place = launch(program, 1);
            let chunk = program.step[place].chunk().unwrap();
            program.step[place].set_chunk(chunk.at(2));
        },
        "reads chunk 2 of",
    );
    refused(
        &|program| {
            let place = launch(program, 1);
            if let Instr::Launch(launch) = &mut program.step[place] {
                launch.chunk = None;
            }
        },
        "expected a chunk of the edges",
    );
    refused(
        &|program| {
            let place = launch(program, 1);
            let chunk = program.step[place].chunk().unwrap();
            program.step[place].set_chunk(chunk.at(chunk.of));
        },
        "chunk 4 of 4",
    );
    refused(
        &|program| {
            let ends = |buffer: &&mut Buffer| matches!(buffer.role, Role::EdgeEnds(_));
            program
                .buffers
                .iter_mut()
                .filter(ends)
                .for_each(|b| b.role = Role::Static);
        },
        "expected copies of edge-ends",
    );
    refused(
        &|program| {
            let place = launch(program, 0);
            if let Instr::Launch(launch) = &mut program.step[place] {
                let list = launch.lists[0];
                launch.outputs[0] = list;
            }
        },
        "a spmm",
    );
}

/// Set by a run's options; the run checks the bytes of each epoch. Edges of the graph may lack
/// their reverse.
#[test]
fn streamed_trains_in_a_budget() {
    for directed in [false, true] {
        let shape = Shape {
            vertices: 4000,
            edges: 16_000,
            directed,
            sparse: false,
            seed: 8,
        };
        let case = Case::new("", GCN, planted(shape));
        let trained = |device_memory| in_a_budget(&case, device_memory, 2);
        let (expected, whole) = trained(None).unwrap();
        // Both workers together.
        let all = whole.session.peak_memory_bytes().unwrap() / 2;
        let mut fitted = Vec::new();
        for percent in (20..95).rev().step_by(5) {
            let budget = all * percent / 100;
            let (losses, trainer) = match trained(Some(budget)) {
                Ok(found) => found,
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains("still missing"), "{error}");
                    continue;
                }
            };
            assert_eq!(losses, expected, "{percent} %");
            let here = trainer.session.peak_memory_bytes().unwrap() - trainer.session.host_bytes();
            assert!(here <= 2 * budget, "{here} of {all}, {percent} %");
            assert!(trainer.moves(Phase::Step).unwrap() > 0, "{percent} %");
            fitted.push(percent);
        }
        println!("directed {directed}: {fitted:?} %");
        assert!(!fitted.is_empty());
    }
}
