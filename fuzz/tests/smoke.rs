//! Every target on its seeds and on some thousand mutated seeds, the same in every run.

use gnnc_fuzz::changes::{Random, changed};
use gnnc_fuzz::tables::graphs;
use gnnc_fuzz::{TARGETS, checkpoint, seeds};
use gnnc_graph::read::{Format, LoadOptions, parse_bytes};
use gnnc_ir::Workload;
use gnnc_ir::cluster::Cluster;
use gnnc_ir::plan::Plan;
use gnnc_lang::diagnostic::has_errors;
use gnnc_lang::syntax;
use gnnc_runtime::parse_checkpoint;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Mutated inputs per target.
const INPUTS: usize = 3000;
/// Mutated inputs per target that runs programs.
const SESSIONS: usize = 60;

#[test]
fn no_target_fails_on_changed_seeds() {
    for (name, target) in TARGETS {
        let seeds = seeds::of(name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for seed in &seeds {
            target(seed);
        }
        let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
        let inputs = match *name {
            "session" | "listing" => SESSIONS,
            _ => INPUTS,
        };
        for _ in 0..inputs {
            let input = changed(&mut random, &seeds);
            let outcome = catch_unwind(AssertUnwindSafe(|| target(&input)));
            let shown = input.escape_ascii();
            assert!(outcome.is_ok(), "{name} fails on b\"{shown}\"");
        }
    }
}

/// Seeds that every reader refuses would test little.
#[test]
fn readers_take_their_seeds() {
    let text = |seed: &Vec<u8>| String::from_utf8(seed.clone()).expect("a text");
    let graph = |format, seed: &[u8]| parse_bytes(format, seed, &LoadOptions::default()).is_ok();
    assert!(
        seeds::of("gir")
            .iter()
            .all(|s| !has_errors(&syntax::parse(&text(s)).1))
    );
    assert!(seeds::of("npz").iter().all(|s| graph(Format::Npz, s)));
    let whole = |seed: &Vec<u8>| seeds::archive_with(usize::from(seed[0]), &seed[1..]);
    assert!(
        seeds::of("npz_array")
            .iter()
            .all(|s| graph(Format::Npz, &whole(s)))
    );
    assert!(
        seeds::of("npy")
            .iter()
            .all(|s| gnnc_graph::read::npy::parse("x", s).is_ok())
    );
    assert!(
        seeds::of("mtx")
            .iter()
            .all(|s| graph(Format::MatrixMarket, s))
    );
    assert!(graph(Format::Metis, &seeds::of("metis")[0]));
    assert!(seeds::of("edges").iter().all(|s| graph(Format::Edges, s)));
    let tables: Vec<usize> = seeds::of("parquet").iter().map(|s| graphs(s)).collect();
    assert_eq!(tables, [2; 8]);
    assert!(
        seeds::of("cluster")
            .iter()
            .all(|s| Cluster::parse(&text(s)).is_ok())
    );
    assert!(
        seeds::of("plan")
            .iter()
            .all(|s| Plan::from_json(&text(s)).is_ok())
    );
    let workload = |s: &Vec<u8>| serde_json::from_slice::<Workload>(s).is_ok();
    assert!(seeds::of("workload").iter().all(workload));
    let seed = &seeds::of("checkpoint")[0];
    parse_checkpoint(seed, &seeds::tensors()).expect("a checkpoint");
    checkpoint(seed);
}
