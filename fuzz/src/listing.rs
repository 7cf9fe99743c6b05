//! Programs as text: verified programs run within their memory.

use crate::session::compiled;
use gnnc::Compiled;
use gnnc::graph::partition::{Partitioner, Range};
use gnnc::ir::plan::Placement;
use gnnc::planner::placement::PlacementSpec;
use gnnc::runtime::{RunOptions, Session};
use gnnc_graph::{Partition, example};
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Instr, Program};
use gnnc_ir::words::sampling::{Fanout, SamplingSettings};
use std::fs;
use std::path::{Path, PathBuf};

/// Most ranks of a program that is run.
const RANKS: u32 = 3;
/// Most instructions executed per list, and most columns of kernels, of a program that is run.
const MOST: u64 = 2000;
/// Most bytes of buffers of a program that is run.
const MEMORY: u64 = 16 << 20;

/// Listings: a program that was read prints to text that reads the same. If it also fits the
/// graph of the examples, it runs there for two epochs and an evaluation, with kernels that
/// check every access.
///
/// # Panics
/// If a verified program accesses memory outside its buffers.
pub fn listing(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(program) = text.parse::<Program>() else {
        return;
    };
    let printed = program.to_string();
    let again = printed.parse::<Program>();
    let again = again.unwrap_or_else(|error| panic!("{error}\n{printed}"));
    // As text, because a NaN in a listing is not equal to itself.
    assert_eq!(again.to_string(), printed, "printing is not stable");
    if is_small(&program) {
        run(program, &printed);
    }
}

fn is_small(program: &Program) -> bool {
    let wide = |kernel: &gnnc_ir::kernel::Kernel| {
        u64::from(kernel.heads).saturating_mul(kernel.width.into()) > MOST
    };
    let long = |phase: &Phase| executed(program.list(*phase)) > MOST;
    (1..=RANKS).contains(&program.ranks)
        && program.pipeline.is_none()
        && !program.kernels.iter().any(wide)
        && !Phase::ALL.iter().any(long)
}

/// Number of instructions that a list executes.
fn executed(list: &[Instr]) -> u64 {
    let counts = list.iter().map(|instr| {
        let Instr::Repeat(instr::Repeat { count, body, .. }) = instr else {
            return 1;
        };
        executed(body).saturating_mul((*count).into())
    });
    counts.fold(1, u64::saturating_add)
}

fn run(program: Program, text: &str) {
    let mut data = example::g8();
    if program.sparse_features {
        data.features = data.features.to_sparse();
    }
    let partition = match program.ranks {
        1 => Partition::whole(data.vertices()),
        ranks => Range
            .partition((&data.topology).into(), ranks)
            .expect("parts of eight vertices"),
    };
    let options = RunOptions {
        checked: true,
        memory_limit: Some(MEMORY),
        ..RunOptions::default()
    };
    let mut session = match Session::new(program, &data, &partition, options) {
        Ok(session) => session,
        Err(error) => return within(&error.to_string(), text),
    };
    for _ in 0..2 {
        if let Err(error) = session.epoch() {
            return within(&error.to_string(), text);
        }
    }
    if let Err(error) = session.evaluate() {
        within(&error.to_string(), text);
    }
}

/// A run may fail, but not because a kernel left its memory.
fn within(error: &str, text: &str) {
    assert!(
        !error.contains("reads or writes outside"),
        "{error}\n{text}"
    );
}

/// Programs of small models on the graph of the examples, on one rank and on two, and the listings
/// of the filetests, whose passes know more instructions.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = of_models();
    seeds.extend(of_filetests());
    seeds
}

/// The listings that filetests begin with.
fn of_filetests() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/filetests");
    let within = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let files = within(&root).into_iter().flat_map(|folder| within(&folder));
    let listings = files.filter(|path| path.extension().is_some_and(|end| end == "prog"));
    let texts = listings.filter_map(|path| fs::read_to_string(path).ok());
    let input = |text: String| {
        text.split("\n----")
            .next()
            .unwrap_or_default()
            .as_bytes()
            .to_vec()
    };
    texts.map(input).collect()
}

/// Small batches with as many hops as a placement of the model has, if it trains on some.
fn batches(compiled: &Compiled, spec: &PlacementSpec) -> SamplingSettings {
    let hops = compiled.training(spec).map_or(0, |training| {
        training.batches.as_ref().map_or(0, |one| one.hops.len())
    });
    SamplingSettings {
        batch: Some(3),
        fanouts: vec![Fanout::Each(2); hops],
        ..SamplingSettings::default()
    }
}

fn of_models() -> Vec<Vec<u8>> {
    let bodies = [
        "loss cross_entropy(x |> gcn_conv(3) |> relu |> gcn_conv(classes), labels, on = train)",
        "loss cross_entropy(x |> dropout(0.5) |> sage_conv(classes), labels, on = train)",
        "loss cross_entropy(x |> gat_conv(2, heads = 2) |> linear(classes), labels, on = train)",
    ];
    let mut seeds = Vec::new();
    for body in bodies {
        let text = format!(
            "graph g = \"g.npz\"\nmodel m() on g {{\n{body}\n}}\ntrain {{ optimizer = adam(lr = 0.01) }}\n"
        );
        let (_, compiled) = compiled(&text, example::g8());
        for placement in [Placement::Graph, Placement::Minibatch] {
            for ranks in [1, 2] {
                let mut spec = PlacementSpec::new(placement, ranks);
                spec.knobs.sampling = batches(&compiled, &spec);
                let program = compiled.program(&spec);
                let program = program.unwrap_or_else(|error| panic!("{error}\n{text}"));
                seeds.push(program.to_string().into_bytes());
            }
        }
    }
    seeds
}
