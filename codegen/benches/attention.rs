//! How fast the passes of attention are, beside a plain sum of neighbors of the same width, which
//! moves the same rows.
//!
//! `cargo bench -p gnnc-codegen --bench attention [-- NAME]` prints medians of one thread on the
//! graph of the `spmm` benchmark. Ratios are the time of the plain sum over that of the pass.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod harness;
#[path = "../tests/support/mod.rs"]
mod support;

use gnnc_codegen::cpu::Compiler;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, End, Kernel, Operand, Reduce};
use gnnc_ir::words::types::EdgeSet;
use harness::{Bench, EDGES, VERTICES, floats, graph, report, spmm_bytes, time};
use support::pass::{gat_backward, gat_forward};

/// A sum of neighbors' rows.
fn plain(to: End, width: u32) -> Kernel {
    let far = match to {
        End::Dst => At::Src,
        End::Src => At::Dst,
    };
    Kernel {
        body: Body::Gather {
            set: EdgeSet::Plain,
            to,
            reduce: Reduce::Sum,
            value: Expr::leaf(Value::Load(0)),
            finish: Expr::leaf(Value::Acc),
        },
        heads: 1,
        width,
        inputs: vec![Operand::dense(far, 1, width)],
        outputs: vec![Operand::dense(At::Row, 1, width)],
        masks: vec![],
        scalars: 0,
    }
}

impl Bench {
    fn pass(&self, name: &str, kernel: &Kernel) {
        if self.skips(name) {
            return;
        }
        let buffer = |operand: &Operand| {
            let rows = if operand.at == At::Edge {
                EDGES
            } else {
                VERTICES
            };
            floats(rows * operand.stride as usize)
        };
        let inputs: Vec<Vec<f32>> = kernel.inputs.iter().map(buffer).collect();
        let mut outputs: Vec<Vec<f32>> = kernel.outputs.iter().map(buffer).collect();
        let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let mut outputs: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        let columns = kernel.heads * kernel.width;
        let Body::EdgePass(pass) = &kernel.body else {
            return;
        };
        let sum = plain(pass.to, columns);
        let x = floats(VERTICES * columns as usize);
        let mut y = floats(VERTICES * columns as usize);
        let ours = self.run(kernel, &inputs, &mut outputs, VERTICES);
        let other = self.run(&sum, &[&x], &mut [&mut y], VERTICES);
        report(name, spmm_bytes(columns as usize), time(ours, other));
    }
}

fn main() {
    let only = std::env::args().skip(1).find(|name| !name.starts_with('-'));
    let bench = Bench {
        graph: graph(),
        compiler: Compiler::new(None).unwrap(),
        only,
    };
    for (heads, width) in [(1, 16), (8, 8), (1, 64), (8, 16), (4, 32), (1, 256)] {
        let mut forward = gat_forward(heads, width);
        let dropout = format!("forward dropout {heads} x {width}");
        bench.pass(&dropout, &forward);
        // Without dropout, the value is the neighbor's element.
        if let Body::EdgePass(pass) = &mut forward.body {
            pass.numbers.truncate(1);
            pass.results[0] = gnnc_ir::kernel::EdgeResult::Sum {
                value: Expr::leaf(Value::Load(2)),
                finish: Expr::leaf(Value::Acc),
            };
        }
        forward.masks.clear();
        bench.pass(&format!("forward {heads} x {width}"), &forward);
        let backward = gat_backward(heads, width);
        bench.pass(&format!("backward {heads} x {width}"), &backward);
    }
}
