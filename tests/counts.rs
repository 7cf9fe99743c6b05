//! What the programs of all examples are made of, as a table that is committed: a change that alters a count shows here, and its
//! commit says why.

use gnnc::ir::plan::{Partitioner, Placement};
use gnnc::ir::program::memory::layout;
use gnnc::ir::program::traffic::traffic;
use gnnc::ir::program::{Capacity, Instr, Program};
use gnnc::planner::parts::parts;
use gnnc::planner::placement::PlacementSpec;
use gnnc::{LoadOptions, Loaded, Source};
use std::fmt::Write;
use std::fs;

/// Instructions, those inside of loops once.
fn instructions(list: &[Instr]) -> usize {
    let inside = |instr: &Instr| 1 + instructions(instr.body().unwrap_or_default());
    list.iter().map(inside).sum()
}

fn row(name: &str, program: &Program, placement: Placement, loaded: &Loaded) -> String {
    let parts = parts(&loaded.workload, program.ranks, Partitioner::Range)
        .expect("as many vertices as ranks");
    let parts = parts.of(program);
    let sent = traffic(&program.step, program, &parts.reads(), &parts.sizes);
    let memory = parts
        .sizes
        .iter()
        .map(|sizes| layout(program, &Capacity::of(*sizes)).total_bytes);
    format!(
        "{name:<22} {placement:<7} {:>5} {:>6} {:>5} {:>5} {:>8} {:>8} {:>14} {:>12}",
        program.ranks,
        instructions(&program.setup),
        instructions(&program.step),
        instructions(&program.eval),
        program.buffers.len(),
        program.kernels.len(),
        sent.total_bytes,
        memory.max().unwrap_or(0),
    )
}

#[test]
fn programs_of_the_examples() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "gir"));
    paths.sort();
    let mut table = format!(
        "{:<22} {:<7} {:>5} {:>6} {:>5} {:>5} {:>8} {:>8} {:>14} {:>12}\n",
        "example",
        "",
        "ranks",
        "setup",
        "step",
        "eval",
        "buffers",
        "kernels",
        "bytes sent",
        "memory"
    );
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let source = Source::read(&path).unwrap();
        let loaded = Loaded::new(&source, &LoadOptions::default()).unwrap();
        let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
        let ways = match loaded.data {
            Some(_) => vec![
                (Placement::Graph, 1),
                (Placement::Graph, 4),
                (Placement::Tensor, 4),
            ],
            None => vec![(Placement::Graph, 64), (Placement::Tensor, 64)],
        };
        for (placement, ranks) in ways {
            let program = compiled
                .program(&PlacementSpec::new(placement, ranks))
                .unwrap();
            writeln!(table, "{}", row(&name, &program, placement, &loaded)).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}
