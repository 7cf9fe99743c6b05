//! Edge passes against the oracle: rows of several blocks, and the passes of attention.
#![allow(clippy::unwrap_used)]

mod support;

use gnnc_codegen::cpu::Compiler;
use gnnc_ir::kernel::End;
use support::kernels::in_halves;
use support::pass::{gat_backward, gat_forward, gatv2_backward, gatv2_forward, random_pass};
use support::{Part, Random, check};

/// Heads and widths.
const SHAPES: [(u32, u32); 10] = [
    (1, 1),
    (1, 7),
    (1, 64),
    (1, 602),
    (2, 1),
    (3, 5),
    (8, 8),
    (8, 16),
    (20, 9),
    (2, 150),
];

/// Rows with more edges than a block holds: sums are scaled whenever the maximum grows.
#[test]
fn rows_of_several_blocks() {
    let compiler = Compiler::new(None).unwrap();
    let random = &mut Random(21);
    let part = Part::random(random, 40, 10, 3000);
    for to in [End::Dst, End::Src] {
        for (heads, width) in SHAPES {
            for seed in 0..6 {
                let kernel = random_pass(random, to, heads, width, 2);
                let name = format!("{to:?} {heads} x {width} seed {seed}");
                check(&compiler, &name, &kernel, &part, seed);
            }
        }
    }
}

#[test]
fn attention_and_its_gradients() {
    let compiler = Compiler::new(None).unwrap();
    let random = &mut Random(22);
    for edges in [30, 3000] {
        let part = Part::random(random, 40, 10, edges);
        for (heads, width) in SHAPES {
            for (name, kernel) in [
                ("GAT forward", gat_forward(heads, width)),
                ("GAT by source", gat_backward(heads, width)),
                ("GATv2 forward", gatv2_forward(heads, width)),
                (
                    "GATv2 by destination",
                    gatv2_backward(End::Dst, heads, width),
                ),
                ("GATv2 by source", gatv2_backward(End::Src, heads, width)),
            ] {
                let name = format!("{name}, {heads} x {width}, {edges} edges");
                check(&compiler, &name, &kernel, &part, 3);
                let halves = in_halves(random, kernel);
                check(&compiler, &format!("{name}, halves"), &halves, &part, 4);
            }
        }
    }
}
