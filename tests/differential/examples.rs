//! Every example can be lowered: those with data for a few ranks, the others for many.

use gnnc::ir::plan::Placement;
use gnnc::ir::program::instr;
use gnnc::ir::program::text::Listing;
use gnnc::ir::program::{Instr, Program};
use gnnc::planner::placement::PlacementSpec;
use gnnc::{LoadOptions, Loaded, Source};

fn exchanges(program: &Program) -> bool {
    let code = program.setup.iter().chain(&program.step);
    code.into_iter().any(has_exchange)
}

fn has_exchange(instr: &Instr) -> bool {
    match instr {
        Instr::HaloExchange(_) => true,
        Instr::Begin(transfer) => has_exchange(&transfer.what),
        Instr::Repeat(instr::Repeat { body, .. }) => body.iter().any(has_exchange),
        _ => false,
    }
}

/// Checks that the listing of a program is complete: reading it gives the same program.
pub fn reads_back(programs: &[Program]) {
    for program in programs {
        let text = program.to_string();
        let read = text.parse::<Program>();
        let read = read.unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read, *program);
        assert_eq!(read.to_string(), text);
        assert_eq!(Listing(program).to_string().parse::<Program>(), Ok(read));
    }
}

#[test]
fn examples_are_lowered() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "gir"));
    paths.sort();
    let (mut data, mut statistics) = (0, 0);
    for path in paths {
        let name = path.display();
        let source = Source::read(&path).unwrap();
        let loaded = Loaded::new(&source, &LoadOptions::default()).unwrap();
        let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
        let counts: &[u32] = if loaded.data.is_some() {
            data += 1;
            &[1, 4]
        } else {
            statistics += 1;
            &[64]
        };
        for &ranks in counts {
            let program = compiled
                .program(&PlacementSpec::new(Placement::Graph, ranks))
                .unwrap_or_else(|e| panic!("{name} for {ranks} ranks: {e}"));
            assert_eq!(program.ranks, ranks, "{name}");
            assert_eq!(exchanges(&program), ranks > 1, "{name} for {ranks} ranks");
            assert_eq!(program.params, loaded.model.graph.params, "{name}");
            let cut = compiled
                .program(&PlacementSpec::new(Placement::Tensor, ranks))
                .unwrap_or_else(|e| panic!("{name} by columns for {ranks} ranks: {e}"));
            // What messages are made of lies by rows if they read features of edges.
            let of_edges = ["gine_solubility.gir", "gine_barrier.gir", "mesh_tracer.gir"];
            let of_edges = of_edges.iter().any(|file| name.to_string().ends_with(file));
            assert_eq!(
                exchanges(&cut),
                of_edges && ranks > 1,
                "{name} reads halos by columns"
            );
            reads_back(&[program.clone(), cut]);
            let (loss, logits) = (program.loss, program.logits);
            assert!(loss.is_some() && logits.is_some(), "{name}");
        }
    }
    assert!(data > 10 && statistics > 2, "{data} and {statistics}");
}
