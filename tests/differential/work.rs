//! The work that rewriting counts is the work of the instructions that a rank runs.

use crate::check::Case;
use crate::data::{Shape, planted};
use crate::random::{LAYERS, body, runner, shape};
use gnnc::ir::kernel::{Body, EdgeResult, Kernel};
use gnnc::ir::plan::{Partitioner, Placement};
use gnnc::ir::program::work::work;
use gnnc::ir::program::{BufferId, Instr, Program, RankSizes};
use gnnc::planner::cost::{EPOCHS, Work};
use gnnc::planner::parts::parts;
use gnnc::planner::placement::PlacementSpec;
use gnnc::{Compiled, LoadOptions, Loaded, Source};
use proptest::strategy::{Strategy, ValueTree};
use std::collections::BTreeSet;

/// Work of the classes that can be compared. Element-wise work is fused into whatever reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Compared {
    /// Floating-point operations of dense products.
    dense: f64,
    /// Floating-point operations of products with sparse features.
    sparse: f64,
    /// Numbers that are reduced over edges by vertex.
    gathered: f64,
}

impl From<Work> for Compared {
    fn from(work: Work) -> Self {
        Self {
            dense: work.dense_flops,
            sparse: work.sparse_flops,
            gathered: work.gathered,
        }
    }
}

impl Compared {
    /// The classes with more work than in `other`.
    fn above(&self, other: &Self) -> Vec<&'static str> {
        let classes = [
            ("dense", self.dense, other.dense),
            ("sparse", self.sparse, other.sparse),
            ("gathered", self.gathered, other.gathered),
        ];
        // Sums of up to some hundred numbers, in another order.
        let above = classes
            .into_iter()
            .filter(|(_, a, b)| *a > b * (1.0 + 1e-9));
        above.map(|(name, ..)| name).collect()
    }

    /// Adds `times` the work of instructions.
    fn add(&mut self, list: &[Instr], times: f64, program: &Program, sizes: &RankSizes) {
        let flops = |instr: &Instr| work(program, instr, sizes).map_or(0.0, |work| work.flops.0);
        for instr in list {
            if let Instr::Repeat(repeat) = instr {
                let times = times * f64::from(repeat.count);
                self.add(&repeat.body, times, program, sizes);
            } else if let Instr::MatMul(product) = instr {
                let mut alone = product.clone();
                alone.finish = None;
                self.dense += times * flops(&Instr::MatMul(alone));
            } else if let Instr::SparseMatMul(_) = instr {
                self.sparse += times * flops(instr);
            } else if let Instr::Launch(launch) = instr {
                let kernel = program.kernel(launch.kernel);
                let edges = launch.rows.walked(&kernel.body);
                let edges = edges.map_or(0, |edges| sizes.rows(edges));
                self.gathered += times * edges as f64 * gathered(kernel);
            }
        }
    }
}

/// Numbers that a kernel reduces for each edge.
fn gathered(kernel: &Kernel) -> f64 {
    let (heads, width) = (f64::from(kernel.heads), f64::from(kernel.width));
    match &kernel.body {
        Body::Gather { .. } => heads * width,
        Body::EdgePass(pass) => {
            let results = pass.results.iter().zip(&kernel.outputs);
            results
                .map(|(result, output)| match result {
                    EdgeResult::Sum { .. } if output.column_step == 0 => heads,
                    EdgeResult::Sum { .. } => heads * width,
                    EdgeResult::Number(_) | EdgeResult::LogSumExp => 0.0,
                })
                .sum()
        }
        Body::Map { .. } | Body::RowReduce { .. } | Body::ColReduce { .. } => 0.0,
        Body::TypeSum { .. } => 0.0,
    }
}

/// The instructions of `setup` whose results an epoch needs; an evaluation may need others.
fn for_epochs(program: &Program) -> Vec<Instr> {
    let mut needed: BTreeSet<BufferId> = BTreeSet::new();
    reads(&program.step, &mut needed);
    let mut found = Vec::new();
    for instr in program.setup.iter().rev() {
        let mut written = Vec::new();
        instr.each_access(&mut |at, writes| {
            if writes {
                written.push(at.buffer);
            }
        });
        if written.iter().any(|buffer| needed.contains(buffer)) {
            reads(std::slice::from_ref(instr), &mut needed);
            found.push(instr.clone());
        }
    }
    found
}

/// Adds the buffers that instructions read.
fn reads(list: &[Instr], found: &mut BTreeSet<BufferId>) {
    for instr in list {
        instr.each_access(&mut |at, writes| {
            if !writes {
                found.insert(at.buffer);
            }
        });
        reads(instr.body().unwrap_or_default(), found);
    }
}

/// What one rank computes in an epoch; what is computed beforehand is spread over epochs.
fn emitted(loaded: &Loaded, compiled: &Compiled) -> Compared {
    let place = PlacementSpec::new(Placement::Graph, 1);
    let program = compiled.program(&place).unwrap();
    let parts = parts(&loaded.workload, 1, Partitioner::Range).unwrap();
    let sizes = parts.of(&program).sizes[0];
    let mut found = Compared::default();
    found.add(&for_epochs(&program), 1.0 / EPOCHS, &program, &sizes);
    found.add(&program.step, 1.0, &program, &sizes);
    found
}

/// What rewriting counts, and what one rank computes.
#[derive(Clone, Copy, Debug)]
struct Both {
    counted: Compared,
    emitted: Compared,
}

impl Both {
    fn of(loaded: &Loaded, compiled: &Compiled) -> Self {
        Self {
            counted: compiled.form.report.after.into(),
            emitted: emitted(loaded, compiled),
        }
    }

    /// The classes of which one rank computes more than rewriting counts.
    fn more(&self) -> Vec<&'static str> {
        self.emitted.above(&self.counted)
    }

    /// The classes of which one rank computes less.
    fn less(&self) -> Vec<&'static str> {
        self.counted.above(&self.emitted)
    }
}

#[test]
fn examples_compute_what_rewriting_counts() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "gir"));
    let mut compared = [false; 3];
    for path in paths {
        let source = Source::read(&path).unwrap();
        let loaded = Loaded::new(&source, &LoadOptions::default()).unwrap();
        let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
        let both = Both::of(&loaded, &compiled);
        let differ = [both.more(), both.less()].concat();
        assert!(
            differ.is_empty(),
            "{}: {differ:?}: {both:#?}",
            path.display()
        );
        let Compared {
            dense,
            sparse,
            gathered,
        } = both.emitted;
        let found = [dense > 0.0, sparse > 0.0, gathered > 0.0];
        compared.iter_mut().zip(found).for_each(|(c, f)| *c |= f);
    }
    assert_eq!(compared, [true; 3], "some class occurs in no example");
}

/// A reason why a rank reduces more numbers over edges than rewriting counts.
struct Reason {
    /// The layers to which it applies.
    layers: &'static [&'static str],
    why: &'static str,
    /// A model that needs it.
    witness: &'static str,
}

const MORE: [Reason; 2] = [
    Reason {
        layers: &["weigh"],
        why: "the gradient of a row that edges add is summed by vertex, in the pass that has what it needs, before \
              it is summed over vertices",
        witness: "let h = x |> linear(6) |> weigh |> dropout(0.2)
                  loss cross_entropy(h |> gat_conv(classes), labels, on = train)",
    },
    Reason {
        layers: &["attend", "gat_conv", "attract", "pull"],
        why: "the gradient of a softmax takes its sums over edges from the sum that the softmax weights; it has \
              sums of its own where that one is in another loop or joined with another sum",
        witness: "let h = x |> linear(6)
                  repeat i in 1..=2 { h = h |> attend(2) }
                  loss cross_entropy(h |> linear(classes), labels, on = train)",
    },
];

impl Reason {
    fn applies(&self, model: &str) -> bool {
        self.layers.iter().any(|layer| model.contains(layer))
    }
}

/// Random models compute what rewriting counts, with few exceptions. They compute less where summands
/// share a gradient, or regions a value that is the same in every epoch.
#[test]
fn random_models_compute_what_rewriting_counts() {
    const MODELS: usize = 400;
    let mut runner = runner(1);
    let (mut equal, mut less) = (0, 0);
    for _ in 0..MODELS {
        let (text, shape) = (body(), shape()).new_tree(&mut runner).unwrap().current();
        let case = Case::new(LAYERS, &text, planted(shape));
        let both = Both::of(&case.loaded, &case.compiled);
        let more = both.more();
        less += usize::from(!both.less().is_empty());
        equal += usize::from(more.is_empty() && both.less().is_empty());
        if more.is_empty() {
            continue;
        }
        let explained = more == ["gathered"] && MORE.iter().any(|reason| reason.applies(&text));
        assert!(explained, "{more:?}: {both:#?}\n{shape:?}\n{text}");
    }
    println!("{equal} of {MODELS} models compute what is counted, {less} less in some class");
    assert!(
        equal >= MODELS * 9 / 10,
        "{equal} models compute what is counted"
    );
    assert!(less > 0, "compare for equality: no model computes less");
}

#[test]
fn every_exception_is_needed() {
    let shape = Shape {
        vertices: 40,
        edges: 200,
        directed: false,
        sparse: false,
        seed: 1,
    };
    for Reason { why, witness, .. } in &MORE {
        let case = Case::new(LAYERS, witness, planted(shape));
        let both = Both::of(&case.loaded, &case.compiled);
        assert_eq!(
            both.more(),
            ["gathered"],
            "not needed any more: {why}\n{both:#?}"
        );
    }
}
