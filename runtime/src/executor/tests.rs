//! Checked kernels find buffers that are too short, even when the session's other checks are
//! bypassed.
#![allow(clippy::unwrap_used)]

#[path = "../../tests/network/mod.rs"]
mod network;

use crate::options::RunOptions;
use crate::programs::Programs;
use crate::rank_set::{RankSet, Workers};
use crate::start;
use crate::step_context::StepContext;
use crate::transport::threads::Threads;
use gnnc_graph::{Partition, example};
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, Operand, Over};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::verify::VerifiedProgram;
use gnnc_ir::program::{Extent, Instr, Program, Role};
use network::Network;
use network::builder::{Builder, at, launch};
use std::sync::Arc;

/// Prepares and evaluates a program of one rank, or trains an epoch. The buffer named `short`, if
/// any, has one row less than the program was checked with.
fn run(program: Program, short: Option<&str>, last: Phase) -> Result<(), String> {
    let mut data = example::g8();
    if program.sparse_features {
        data.features = data.features.to_sparse();
    }
    let options = RunOptions {
        checked: true,
        ..RunOptions::default()
    };
    let programs = Programs::from(program);
    let whole = Partition::whole(data.vertices());
    let ends = Threads::connect(1).into_iter();
    let ends = ends.map(|end| Box::new(end) as _).collect();
    let mut workers = start::workers(&programs, &data, &whole, &options, ends).unwrap();
    let own = &mut workers[0].own;
    if let Some(name) = short {
        let mut program = Program::clone(&own.program);
        let mut named = program.buffers.iter_mut().filter(|b| b.name == name);
        let buffer = named.next().unwrap();
        let rows = own.part.sizes.rows(buffer.extent);
        buffer.extent = Extent::Fixed(rows as u32 - 1);
        // SAFETY: kernels are checked, and stop at the buffer's end.
        own.program = unsafe { VerifiedProgram::new_unchecked(Arc::new(program)) };
    }
    let step_context = StepContext {
        draw: 0,
        seed: options.seed,
        epoch: 0,
        step: 1,
        learning_rate: options.learning_rate,
    };
    let mut rank_set = Workers::new(workers, None).unwrap();
    let prepared = rank_set.run(Phase::Setup, step_context);
    let done = prepared.and_then(|()| rank_set.run(last, step_context));
    done.map_err(|failure| failure.to_string())
}

/// An epoch of a small network.
fn epoch(short: Option<&str>) -> Result<(), String> {
    let network = Network {
        ranks: 1,
        features: 4,
        hidden: 5,
        classes: 2,
        sparse: false,
        dropout: true,
    };
    run(network.program(), short, Phase::Step)
}

/// A sum of the rows of the features.
fn sum(short: Option<&str>) -> Result<(), String> {
    let program = Program {
        ranks: 1,
        ..Program::default()
    };
    let mut b = Builder { program };
    let x = b.buffer("x", Extent::Inner, 4, 1, Role::Features);
    let out = b.buffer("sum", Extent::Fixed(1), 4, 1, Role::Temp);
    let body = Body::ColReduce {
        over: Over::Rows,
        value: Expr::leaf(Value::Load(0)),
    };
    let [row, one] = [At::Row, At::One].map(|at| Operand::dense(at, 1, 4));
    let kernel = b.kernel(body, 4, vec![row], vec![one]);
    let launch = launch(kernel, Extent::Inner, &[at(x)], &[at(out)]);
    b.program.eval.push(Instr::Launch(launch));
    run(b.program, short, Phase::Eval)
}

/// Asserts that the kernel at `at` is caught outside of `memory`, and only if a buffer is short.
fn caught(run: impl Fn(Option<&str>) -> Result<(), String>, short: &str, at: &str, memory: &str) {
    run(None).unwrap();
    let error = run(Some(short)).unwrap_err();
    let expected = format!("{at}: the kernel reads or writes outside of {memory} bytes");
    assert!(error.contains(&expected), "{short}: {error}");
}

#[test]
fn launches_beyond_a_short_buffer_are_caught() {
    let caught = |short, at, memory| caught(epoch, short, at, memory);
    caught("degree", "setup 0 (map)", "input 0, which has 28");
    caught("scale", "setup 0 (map)", "output 0, which has 28");
    caught("b", "step 2 (spmm)", "input 3, which has 0");
    caught("hs", "step 2 (spmm)", "output 0, which has 140");
    caught("dropped", "step 4 (map)", "output 0, which has 140");
    caught("d hw", "step 9 (spmm-t)", "output 0, which has 56");
}

/// Each of the sum's blocks of rows has its own checks.
#[test]
fn sums_of_columns_beyond_a_short_buffer_are_caught() {
    caught(sum, "x", "eval 0 (col-reduce)", "input 0, which has 112");
}
