//! What the passes of attention take on a GPU: registers of a thread, and the instructions and bytes
//! of an edge, counted in the PTX of the loop over edges.
//!
//! The kernels are those of the first layer of GAT and GATv2 in training.

use super::ptx::{Entry, Work};
use super::{ROOT, VERSION, nvrtc};
use gnnc::codegen::cuda::nvrtc::Usage;
use gnnc::codegen::cuda::schedule::WARP;
use gnnc::codegen::cuda::{EdgeLoop, Source, generate, module};
use gnnc::ir::kernel::{At, Body, EdgeResult, End, Kernel, Operand};
use gnnc::ir::plan::Placement;
use gnnc::ir::words::storage::Storage;
use gnnc::planner::placement::PlacementSpec;
use gnnc::{LoadOptions, Loaded};
use std::fmt::Write;
use std::path::Path;

const HEADS: [u32; 3] = [1, 4, 8];
/// Columns of all heads together.
const COLUMNS: [u32; 6] = [16, 32, 64, 128, 256, 512];

/// A pass of a model.
struct Pass {
    name: &'static str,
    kernel: Kernel,
    source: Source,
}

/// The passes of a layer, by the names of [`name`].
fn passes(storage: Storage) -> Vec<Pass> {
    let mut passes = Vec::new();
    let models = [
        (
            "examples/gat_cora.gir",
            ["gat forward", "", "gat by source"],
        ),
        (
            "benches/models/gatv2_3.gir",
            ["gatv2 forward", "gatv2 by destination", "gatv2 by source"],
        ),
    ];
    for (file, names) in models {
        let source = gnnc::Source::read(Path::new(ROOT).join(file)).unwrap();
        for heads in HEADS {
            for columns in COLUMNS {
                let width = columns / heads;
                // The hidden columns of GAT are those of one head.
                let hidden = if file.contains("v2") { columns } else { width };
                let set = [("heads", heads), ("hidden", hidden)];
                let options = LoadOptions {
                    set: set
                        .map(|(name, value)| (name.to_owned(), value.into()))
                        .to_vec(),
                    ..LoadOptions::default()
                };
                let loaded = Loaded::new(&source, &options).unwrap();
                let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
                let mut place = PlacementSpec::new(Placement::Graph, 1);
                place.knobs.storage = storage;
                let program = compiled.program(&place).unwrap();
                for (kind, name) in names.into_iter().enumerate() {
                    let of_kind = |kernel: &&Kernel| kind_of(kernel) == Some(kind);
                    let shaped = |kernel: &&Kernel| (kernel.heads, kernel.width) == (heads, width);
                    let mut found = program.kernels.iter().filter(shaped).filter(of_kind);
                    let Some(kernel) = found.next().cloned() else {
                        assert_eq!(name, "", "{file}: no such pass for {heads} x {width}");
                        continue;
                    };
                    assert!(found.next().is_none(), "{file}: two passes like {name}");
                    let source = generate(&kernel, &format!("k{}", passes.len())).unwrap();
                    passes.push(Pass {
                        name,
                        kernel,
                        source,
                    });
                }
            }
        }
    }
    passes
}

/// 0 for a forward pass in training, 1 for a backward pass by destination, 2 for one by source.
fn kind_of(kernel: &Kernel) -> Option<usize> {
    let Body::EdgePass(pass) = &kernel.body else {
        return None;
    };
    match pass.to {
        End::Src => Some(2),
        End::Dst if pass.softmax.is_none() => Some(1),
        End::Dst => pass.results.contains(&EdgeResult::LogSumExp).then_some(0),
    }
}

/// Bytes that an edge needs, apart from its row's own.
#[derive(Default)]
struct Needed {
    /// The vertex at the other end, its global id if a mask asks for it, and the edge's position.
    indices: u32,
    /// Numbers of a head.
    of_head: u32,
    /// Rows of all heads.
    rows: u32,
}

impl Needed {
    fn of(kernel: &Kernel) -> Self {
        let Body::EdgePass(pass) = &kernel.body else {
            panic!("expected a pass over edges");
        };
        let other = match pass.to {
            End::Dst => At::Src,
            End::Src => At::Dst,
        };
        let mut operands = kernel.inputs.iter().chain(&kernel.outputs);
        let by_position = pass.to == End::Src && operands.any(|o| o.at == At::Edge);
        let by_id = kernel.masks.iter().any(|mask| mask.at == At::Edge);
        let mut needed = Self {
            indices: 4 * (1 + u32::from(by_position) + u32::from(by_id)),
            ..Self::default()
        };
        let around = |input: &&Operand| input.at == other || input.at == At::Edge;
        for input in kernel.inputs.iter().filter(around) {
            let bytes = input.storage.bytes() as u32;
            match input.column_step {
                0 => needed.of_head += bytes,
                _ => needed.rows += bytes * kernel.heads * kernel.width,
            }
        }
        needed
    }

    /// Bytes if each is loaded once.
    fn once(&self, heads: u32) -> u32 {
        self.indices + self.of_head * heads + self.rows
    }

    /// Bytes if each of `threads` loads what it needs once.
    fn by_threads(&self, threads: u32) -> u32 {
        (self.indices + self.of_head) * threads + self.rows
    }
}

/// The row of a pass in the table. Checks what has to hold on any version of NVRTC.
fn row(pass: &Pass, ptx: &str, usage: &Usage) -> String {
    let kernel = &pass.kernel;
    let heads = kernel.heads;
    let name = format!("{} {heads} x {}", pass.name, kernel.width);
    let entry = Entry::read(ptx, &pass.source.name);
    let over_edges = EdgeLoop::of(kernel).unwrap();
    // Around it is the loop over rows; behind it, one for the edges that are left.
    let mut loops = entry.loops.iter().filter(|l| l.depth == 1);
    let found = loops
        .next()
        .unwrap_or_else(|| panic!("{name}: no loop over edges"));
    assert_eq!(entry.has_inner(found), over_edges.dot_rounds > 1, "{name}");
    let Work {
        instructions,
        loaded,
        stored,
    } = entry.round(found, over_edges.dot_rounds);
    let threads = heads * over_edges.lanes * over_edges.slabs;
    let edge = |of_round: u32| f64::from(of_round) / f64::from(over_edges.edges);
    let warp_instructions = edge(instructions * threads) / f64::from(WARP);
    let (loaded, needed) = (edge(loaded * threads), Needed::of(kernel));
    // One thread of a head stores its numbers.
    let stored = edge(stored * heads);
    let outputs = kernel.outputs.iter().filter(|output| output.at == At::Edge);
    let numbers: u64 = outputs.map(|output| output.storage.bytes()).sum();
    assert_eq!(stored, numbers as f64 * f64::from(heads), "{name}: stored");
    let Body::EdgePass(edges) = &kernel.body else {
        panic!("expected a pass over edges");
    };
    // Otherwise, what a dot took is loaded again for the sums.
    let plain = !edges.numbers.iter().any(|number| number.dot)
        || (over_edges.dot_rounds == 1 && [1, WARP].contains(&over_edges.lanes));
    let expected = f64::from(needed.by_threads(threads));
    assert!(
        if plain {
            loaded == expected
        } else {
            loaded > expected
        },
        "{name}: {loaded} bytes are loaded, {expected} are needed"
    );
    let once = needed.once(heads);
    format!(
        "{name:27} {:9} {:6} {:5} {warp_instructions:17.1} {once:7} {loaded:7} {stored:6}",
        usage.registers, usage.shared_bytes, over_edges.edges
    )
}

/// Compiles the passes and keeps the table.
fn summarize(arch: &str, storage: Storage) {
    let Some(nvrtc) = nvrtc(&format!("passes of attention for {arch}")) else {
        return;
    };
    let mut table = format!(
        "{:27} registers shared edges warp instructions  needed  loaded stored\n",
        "pass"
    );
    let mut spilled = String::new();
    // In groups, because compile time grows faster than the text.
    for some in passes(storage).chunks(32) {
        let text = module(some.iter().map(|pass| &pass.source));
        let binary = nvrtc.compile(&text, "passes.cu", arch).unwrap();
        let ptx = String::from_utf8_lossy(&binary.ptx).into_owned();
        for pass in some {
            let usage = |entry: &str| {
                let usage = binary.usage.iter().find(|usage| usage.entry == entry);
                usage.unwrap_or_else(|| panic!("{entry}: {}", binary.log))
            };
            for entry in pass.source.schedule.entries() {
                let [stores, loads] = usage(entry).spills;
                if stores + loads > 0 {
                    writeln!(
                        spilled,
                        "{} {} x {}, {entry}: {stores} bytes stored, {loads} loaded",
                        pass.name, pass.kernel.heads, pass.kernel.width
                    )
                    .unwrap();
                }
            }
            writeln!(table, "{}", row(pass, &ptx, usage(&pass.source.name))).unwrap();
        }
    }
    assert_eq!(spilled, "", "{arch}: registers are spilled");
    let version = nvrtc.version();
    if version == VERSION {
        insta::assert_snapshot!(format!("{storage}-{arch}"), table);
    } else {
        println!("skipped the table of passes: made with NVRTC {VERSION:?}, this is {version:?}");
    }
}

#[test]
fn passes_of_attention_on_sm_80() {
    summarize("sm_80", Storage::F32);
}

#[test]
fn passes_of_attention_on_sm_90() {
    summarize("sm_90", Storage::F32);
}

#[test]
fn passes_of_attention_in_16_bits_on_sm_80() {
    summarize("sm_80", Storage::Bf16);
}

#[test]
fn passes_of_attention_in_16_bits_on_sm_90() {
    summarize("sm_90", Storage::Bf16);
}
