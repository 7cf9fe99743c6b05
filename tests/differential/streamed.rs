//! What does not fit by itself runs over one chunk of its rows after the other, and comes to the same.

use crate::check::Case;
use crate::data::{Shape, planted};
use crate::device::Again;
use crate::device::runs::{Found, close, options, run};
use crate::models::{GAT, GCN, GIN, SAGE};
use crate::offload::{copies, rested};
use gnnc::TrainOptions;
use gnnc::ir::memory::layout;
use gnnc::ir::plan::Placement;
use gnnc::ir::program::{Instr, Program};
use gnnc::runtime::Session;
use std::sync::Arc;

const PLACED: [(Placement, u32); 3] = [
    (Placement::Graph, 1),
    (Placement::Graph, 3),
    (Placement::Tensor, 2),
];

/// Shares of the memory in percent, ever smaller.
fn shares() -> impl Iterator<Item = u32> {
    (10..76).rev().step_by(2)
}

fn case(body: &str, vertices: u32) -> Case {
    let shape = Shape {
        vertices,
        arcs: 3 * u64::from(vertices),
        directed: false,
        sparse: false,
        seed: 5,
    };
    Case::new("", body, planted(shape))
}

/// Instructions that run over a chunk of rows, and the most chunks of one.
fn chunks(program: &Program) -> (usize, u32) {
    let works = |instr: &&Instr| matches!(instr, Instr::Launch(_) | Instr::MatMul { .. });
    let all = program.step.iter().filter(works);
    let chunks = all.filter_map(|i| i.chunk()).filter(|c| c.even.is_some());
    let found: Vec<u32> = chunks.map(|chunk| chunk.of).collect();
    (found.len(), found.iter().copied().max().unwrap_or(0))
}

/// What was seen of a model in ever smaller memory.
struct Seen {
    /// The smallest share without chunks, and with.
    whole: u32,
    cut: u32,
    /// The most chunks of an instruction.
    most: u32,
}

fn shrink(case: &Case, options: &TrainOptions, device: bool) -> Seen {
    let mut again = Again::new(case, options);
    let programs = again.programs.clone();
    let what = format!("{} x {}", options.placement, options.workers);
    let found = |again: &Again| -> (Found, Session) {
        let mut session = match device {
            true => again.on_device(&Arc::default()),
            false => again.on_processor(),
        };
        (run(&mut session, 3), session)
    };
    let (expected, before) = found(&again);
    let sizes = before.sizes();
    let (mut whole, mut cut, mut most) = (100, 100, 0);
    for percent in shares() {
        let share = f64::from(percent) / 100.0;
        let Some(smaller) = rested(&programs, &sizes, share) else {
            break;
        };
        let (instrs, of) = chunks(&smaller[0]);
        if of == 0 {
            whole = percent;
            continue;
        }
        let what = format!("{what} in {percent} %, {instrs} instructions, {of} chunks");
        for (program, sizes) in smaller.iter().cycle().zip(&sizes) {
            let full = layout(&programs[0], sizes).total_bytes as f64;
            let here = layout(program, sizes).total_bytes as f64;
            assert!(
                here <= (full * share).ceil() || programs.len() > 1,
                "{what}"
            );
        }
        // Each share says as much as the next one; on the device they take long.
        if device && percent % 8 != 0 && cut < 100 {
            cut = percent;
            continue;
        }
        again.programs = smaller;
        let (got, session) = found(&again);
        match device {
            true => close(&got, &expected, &what),
            false => assert!(got == expected, "{what}: other numbers"),
        }
        let allowed = before.buffer_bytes() as f64 * share;
        assert!(session.buffer_bytes() as f64 <= allowed.ceil(), "{what}");
        let [copied, says] = copies(&session, &again, 3);
        assert!(copied == says, "{what}: copied {copied}, says {says}");
        (cut, most) = (percent, most.max(of));
    }
    Seen { whole, cut, most }
}

fn everywhere(body: &str, vertices: u32, device: bool) {
    let case = case(body, vertices);
    for (placement, ranks) in PLACED {
        let seen = shrink(&case, &options(placement, ranks), device);
        let Seen { whole, cut, most } = seen;
        let what =
            format!("{placement} x {ranks}: {whole} % whole, {cut} % in up to {most} chunks");
        println!("{what}");
        if cut >= whole {
            println!("NOT {body}")
        }
    }
}

#[test]
fn streamed_gcn() {
    everywhere(GCN, 4000, false);
}

#[test]
fn streamed_sage() {
    everywhere(SAGE, 4000, false);
}

#[test]
fn streamed_gin() {
    everywhere(GIN, 4000, false);
}

#[test]
fn streamed_gat() {
    everywhere(GAT, 4000, false);
}

#[test]
fn streamed_on_the_device() {
    for body in [GCN, SAGE, GIN, GAT] {
        everywhere(body, 2100, true);
    }
}
