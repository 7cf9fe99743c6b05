//! Every target on its seeds and on some thousand changed seeds, always the same ones.

use gnnc_fuzz::{TARGETS, checkpoint, seeds};
use gnnc_graph::read::{Format, LoadOptions, parse_bytes};
use gnnc_ir::cluster::Cluster;
use gnnc_ir::diagnostic::has_errors;
use gnnc_ir::plan::Plan;
use gnnc_ir::{Workload, syntax};
use gnnc_runtime::parse_checkpoint;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Changed inputs of each target.
const INPUTS: usize = 3000;

/// What changes put in: numbers at borders, and what means something to one reader or another.
const TOKENS: &[&str] = &[
    "0",
    "-1",
    "1e999",
    "1e-999",
    "nan",
    "inf",
    "255",
    "65536",
    "4294967295",
    "18446744073709551616",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "\u{e9}",
    "\u{1f600}",
    "\"",
    "#",
    "%",
    ",",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "null",
    "[]",
    "{}",
    "repeat i in 1..=3 { x = x }",
    "@src",
    "@dst",
    "|> relu",
    "if true { 1 } else { 2 }",
];

/// Xorshift (Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

fn change(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    let at = random.below(input.len() + 1);
    let to = (at + 1 + random.below(32)).min(input.len());
    match random.below(7) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.below(256) as u8,
        2 => drop(input.drain(at.min(to)..to)),
        3 => {
            let token = TOKENS[random.below(TOKENS.len())];
            input.splice(at..at, token.bytes());
        }
        4 => {
            let copy = input[at.min(to)..to].to_vec();
            let place = random.below(input.len() + 1);
            input.splice(place..place, copy);
        }
        5 => input.truncate(at),
        _ => {
            let from = random.below(other.len() + 1);
            let until = (from + random.below(64)).min(other.len());
            input.splice(at..at, other[from..until].iter().copied());
        }
    }
}

#[test]
fn no_target_fails_on_changed_seeds() {
    for (name, target) in TARGETS {
        let seeds = seeds::of(name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for seed in &seeds {
            target(seed);
        }
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..INPUTS {
            let mut input = seeds[random.below(seeds.len())].clone();
            let other = &seeds[random.below(seeds.len())];
            for _ in 0..=random.below(3) {
                change(&mut random, &mut input, other);
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| target(&input)));
            let shown = input.escape_ascii();
            assert!(outcome.is_ok(), "{name} fails on b\"{shown}\"");
        }
    }
}

/// Seeds that no reader takes would test little.
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
