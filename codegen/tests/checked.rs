//! Checked code stops at an out-of-bounds access and names the access.
#![allow(clippy::unwrap_used)]

use gnnc_codegen::args::checks::Memory;
use gnnc_codegen::args::{ArgsError, Buffer, KernelArgs};
use gnnc_codegen::cpu::Compiler;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, End, Kernel, Mask, Operand, Over, Reduce};
use gnnc_ir::words::scalar::Binary;
use gnnc_ir::words::storage::Storage;
use gnnc_ir::words::types::EdgeSet;

const ROWS: usize = 3;
const WIDTH: usize = 6;

/// `out[v] = sum over the edges of v of weight * mask * x[source] * scalar`.
fn gather(storage: Storage) -> Kernel {
    let mut value = Expr::leaf(Value::Load(0));
    let operands = [Value::Load(1), Value::Mask(0), Value::Scalar(0)];
    for operand in operands {
        let last = value.result();
        let factor = value.push(operand);
        value.push(Value::Binary(Binary::Mul, last, factor));
    }
    let width = WIDTH as u32;
    Kernel {
        body: Body::Gather {
            set: EdgeSet::Plain,
            to: End::Dst,
            reduce: Reduce::Sum,
            value,
            finish: Expr::leaf(Value::Acc),
        },
        heads: 1,
        width,
        inputs: vec![
            Operand {
                storage,
                ..Operand::dense(At::Src, 1, width)
            },
            Operand {
                column_step: 0,
                ..Operand::dense(At::Edge, 1, 1)
            },
        ],
        outputs: vec![Operand {
            storage,
            ..Operand::dense(At::Row, 1, width)
        }],
        masks: vec![Mask {
            p: 0.5,
            at: At::Src,
            first: 0,
            head_step: 0,
            column_step: 1,
        }],
        scalars: 1,
    }
}

/// Valid lists and buffers, for tests to corrupt.
struct Lists {
    indptr: Vec<u64>,
    indices: Vec<u32>,
    ids: Vec<u32>,
    x: Vec<f32>,
    weights: Vec<f32>,
    out: Vec<f32>,
    scalars: Vec<f32>,
    keys: Vec<u64>,
}

impl Lists {
    fn new(storage: Storage) -> Self {
        let words = ROWS * WIDTH / storage.in_word() as usize;
        Self {
            indptr: vec![0, 2, 2, 4],
            indices: vec![2, 0, 1, 2],
            ids: vec![5, 6, 7],
            x: vec![0.5; words],
            weights: vec![2.0; 4],
            out: vec![0.0; words],
            scalars: vec![1.0],
            keys: vec![9],
        }
    }

    fn run(&mut self, compiler: &Compiler, kernel: &Kernel) -> Result<(), ArgsError> {
        let args = KernelArgs {
            indptr: &self.indptr,
            indices: &self.indices,
            ids: &self.ids,
            inputs: vec![Buffer::input(&self.x), Buffer::input(&self.weights)],
            outputs: vec![Buffer::output(&mut self.out)],
            scalars: &self.scalars,
            keys: &self.keys,
            ..KernelArgs::default()
        };
        let compiled = compiler.compile(kernel).unwrap();
        // SAFETY: nothing else uses the output.
        unsafe { compiled.run_args(&args, 0..ROWS as u64) }
    }
}

/// Corrupts lists; the second part is the memory that is then accessed out of bounds.
type Mistake = (fn(&mut Lists), Memory);

#[test]
fn each_access_outside_is_named() {
    let mistakes: [Mistake; 9] = [
        (|lists| lists.indices[1] = ROWS as u32, Memory::Input(0)),
        (|lists| lists.indices[3] = u32::MAX, Memory::Input(0)),
        (|lists| lists.ids.truncate(2), Memory::Ids),
        (|lists| lists.indptr.truncate(ROWS), Memory::Indptr),
        (|lists| lists.indices.truncate(3), Memory::Indices),
        (|lists| lists.weights.truncate(3), Memory::Input(1)),
        (|lists| lists.out.truncate(8), Memory::Output(0)),
        (|lists| lists.scalars.clear(), Memory::Scalars),
        (|lists| lists.keys.clear(), Memory::Keys),
    ];
    let compiler = Compiler::checked(None).unwrap();
    for storage in [Storage::F32, Storage::Bf16, Storage::F16] {
        let kernel = gather(storage);
        Lists::new(storage).run(&compiler, &kernel).unwrap();
        for (number, (make, expected)) in mistakes.iter().enumerate() {
            let mut lists = Lists::new(storage);
            make(&mut lists);
            let found = lists.run(&compiler, &kernel);
            match found {
                Err(ArgsError::Outside { memory, .. }) if memory == *expected => {}
                other => panic!("{storage}, mistake {number}: {other:?}, expected {expected}"),
            }
        }
    }
}

/// Unchecked code never runs with such lists, in any build.
#[test]
fn code_without_checks_is_not_run() {
    let compiler = Compiler::new(None).unwrap();
    let kernel = gather(Storage::F32);
    Lists::new(Storage::F32).run(&compiler, &kernel).unwrap();
    let mut lists = Lists::new(Storage::F32);
    lists.indices[1] = ROWS as u32;
    let found = lists.run(&compiler, &kernel);
    assert!(matches!(found, Err(ArgsError::Short { .. })), "{found:?}");
    assert_eq!(lists.out, [0.0; ROWS * WIDTH]);
}

/// Row lists are checked too, and the message uses the name that users know.
#[test]
fn a_row_list_is_checked() {
    let width = WIDTH as u32;
    let kernel = Kernel {
        body: Body::Map {
            over: Over::Rows,
            values: vec![Expr::leaf(Value::Load(0))],
        },
        heads: 1,
        width,
        inputs: vec![Operand::dense(At::List, 1, width)],
        outputs: vec![Operand::dense(At::Row, 1, width)],
        masks: vec![],
        scalars: 0,
    };
    let compiler = Compiler::checked(None).unwrap();
    let compiled = compiler.compile(&kernel).unwrap();
    let (x, mut out) = ([1.0; ROWS * WIDTH], [0.0; ROWS * WIDTH]);
    let mut run = |list: &[u32]| {
        let args = KernelArgs {
            list,
            inputs: vec![Buffer::input(&x)],
            outputs: vec![Buffer::output(&mut out)],
            ..KernelArgs::default()
        };
        // SAFETY: nothing else uses the output.
        unsafe { compiled.run_args(&args, 0..ROWS as u64) }
    };
    run(&[2, 0, 1]).unwrap();
    let outside = run(&[2, 3, 1]).unwrap_err();
    assert_eq!(
        outside.to_string(),
        "the kernel reads or writes outside of input 0, which has 72 bytes"
    );
    let short = run(&[2, 0]).unwrap_err();
    assert_eq!(
        short.to_string(),
        "the kernel reads or writes outside of the row list, which has 8 bytes"
    );
}
