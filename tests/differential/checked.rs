//! Whole runs with kernels that check every access: all accesses are in bounds, and the numbers
//! match unchecked runs.

use crate::data::{Shape, planted, with_edge_features, with_numbers};
use crate::edge_sets::{many_graphs, with_sets};
use crate::minibatch::untyped;
use crate::storage::{options, placements};
use gnnc::Cache;
use gnnc::graph::links::{LinkOptions, with_pairs};
use gnnc::graph::summarise;
use gnnc::ir::program::{Instr, Program};
use gnnc::ir::words::storage::Storage;
use gnnc::{Compiled, Loaded, Source, TrainOptions, Trainer};
use std::path::{Path, PathBuf};

/// Depth of examples with a configurable number of layers.
const DEPTH: f64 = 4.0;

fn paths() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "gir"));
    paths.sort();
    paths
}

/// An example on a small graph instead of its own.
fn small(path: &Path, sparse: bool) -> (Loaded, Compiled) {
    let source = Source::read(path).unwrap();
    let shape = Shape {
        vertices: 90,
        edges: 500,
        directed: sparse,
        sparse,
        seed: 3,
    };
    let reads = |text: &str| source.text.contains(text);
    let data = if reads("pool(") {
        many_graphs(!reads("cross_entropy"))
    } else if reads("links = ") {
        with_pairs(&untyped(planted(shape)), &LinkOptions::default()).unwrap()
    } else if reads("to mesh") {
        with_numbers(with_edge_features(with_sets(shape, ["to mesh", "to grid"])))
    } else {
        planted(shape)
    };
    let depth = source.text.contains("depth = ");
    let set: &[_] = match depth {
        true => &[("depth".to_owned(), DEPTH)],
        false => &[],
    };
    let workload = summarise(&data, &[]).unwrap();
    let (model, diagnostics) = source.check(&workload.facts(), set);
    let loaded = Loaded {
        model: model.unwrap_or_else(|| panic!("{diagnostics:#?}")),
        workload,
        data: Some(data),
        by_part: None,
        not_used: Vec::new(),
        diagnostics,
    };
    let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
    (loaded, compiled)
}

/// Losses and logits as bits.
fn run(loaded: &Loaded, compiled: &Compiled, options: &TrainOptions) -> (Vec<u64>, Vec<u32>) {
    let failed = |error: gnnc::Error| -> ! { panic!("{}: {error}", options.placement) };
    let mut trainer = Trainer::new(loaded, compiled, options).unwrap_or_else(|error| failed(error));
    let mut epoch = || trainer.epoch().unwrap_or_else(|error| failed(error)).loss;
    let losses = (0..2).map(|_| epoch().to_bits()).collect();
    trainer.evaluate().unwrap_or_else(|error| failed(error));
    let logits = trainer.session.logits().unwrap();
    (losses, logits.iter().map(|x| x.to_bits()).collect())
}

fn sparse_products(programs: &[Program]) -> usize {
    let instrs = programs.iter().flat_map(|program| &program.step);
    let sparse = instrs.filter(|instr| matches!(instr, Instr::SparseMatMul(_)));
    sparse.count()
}

/// Runs every third example in every placement for which it has a form.
fn examples(first: usize) {
    let (mut trained, mut sparse) = (0, 0);
    for (n, path) in paths().into_iter().enumerate().skip(first).step_by(3) {
        let (loaded, compiled) = small(&path, n % 2 == 1);
        for (at, (placement, ranks)) in placements(&compiled).into_iter().enumerate() {
            let storage = [Storage::F32, Storage::Bf16, Storage::F16][(n + at) % 3];
            let options = options(placement, ranks, storage);
            let place = gnnc::place(&loaded, &compiled, &options).unwrap();
            sparse += sparse_products(&compiled.programs(&place).unwrap());
            let expected = run(&loaded, &compiled, &options);
            let checked = TrainOptions {
                checked: true,
                threads: 2,
                ..options
            };
            let found = run(&loaded, &compiled, &checked);
            assert!(
                found == expected,
                "{}, {placement} x {ranks} in {storage}: {:?}, not {:?}",
                path.display(),
                found.0,
                expected.0
            );
            trained += 1;
        }
    }
    assert!(
        trained > 40 && sparse > 10,
        "{trained} runs, {sparse} sparse products"
    );
}

#[test]
fn checked_examples_find_nothing() {
    examples(0);
}

#[test]
fn more_checked_examples_find_nothing() {
    examples(1);
}

#[test]
fn all_checked_examples_find_nothing() {
    examples(2);
}

/// The same kernels compile to different code.
#[test]
fn checked_runs_have_code_of_their_own() {
    let (loaded, compiled) = small(&paths()[0], false);
    let name = format!("checked-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let files = |checked| {
        let options = TrainOptions {
            checked,
            cache: Some(Cache::open(&folder).unwrap()),
            ..TrainOptions::default()
        };
        Trainer::new(&loaded, &compiled, &options).unwrap();
        std::fs::read_dir(&folder).unwrap().count()
    };
    let (unchecked, both) = (files(false), files(true));
    assert!(
        unchecked > 0 && both == 2 * unchecked,
        "{unchecked} and {both}"
    );
    assert_eq!(files(true), both);
    std::fs::remove_dir_all(&folder).unwrap();
}
