//! One launch over several sets of operands against one launch each, bit for bit.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop, and says what it skips"
)]

use gnnc_codegen::cuda::together::{ARGUMENTS, Set, together};
use gnnc_codegen::cuda::{Parameter, Size, generate, module};
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, Kernel, Operand, Over};
use gnnc_ir::words::scalar::{Binary, Unary};
use libloading::{Library, Symbol};
use std::path::Path;
use std::process::Command;

type Run = unsafe extern "C" fn(*const u64, u32, u32, i32) -> i32;

/// `weight - rate * sqrt(state)` and `state * factor + gradient^2`, both in place.
fn update() -> Kernel {
    let flat = Operand::dense(At::Row, 1, 1);
    let factor = Operand {
        at: At::One,
        ..flat
    };
    let binary = |op, a, b| Value::Binary(op, a, b);
    let weight = Expr {
        values: vec![
            Value::Load(0),
            Value::Load(2),
            Value::Unary(Unary::Sqrt, 1),
            Value::Scalar(0),
            binary(Binary::Mul, 2, 3),
            binary(Binary::Sub, 0, 4),
        ],
    };
    let state = Expr {
        values: vec![
            Value::Load(1),
            Value::Load(2),
            Value::Load(3),
            binary(Binary::Mul, 1, 2),
            binary(Binary::Mul, 0, 0),
            binary(Binary::Add, 3, 4),
        ],
    };
    Kernel {
        body: Body::Map {
            over: Over::Rows,
            values: vec![weight, state],
        },
        heads: 1,
        width: 1,
        inputs: vec![flat, flat, flat, factor],
        outputs: vec![flat, flat],
        masks: Vec::new(),
        scalars: 1,
    }
}

/// Weights, gradients and states of `rows` numbers each.
fn tensors(rows: usize, salt: usize) -> [Vec<f32>; 3] {
    [3, 7, 11].map(|step| {
        let number = |n: usize| ((n * step + salt) % 97) as f32 * 0.013 + 0.1;
        (0..rows).map(number).collect()
    })
}

#[test]
fn sets_are_what_launches_of_their_own_are() {
    let kernel = update();
    let (source, all) = (
        generate(&kernel, "one").unwrap(),
        together(&kernel, "all").unwrap().unwrap(),
    );
    let mut text = include_str!("cuda/shim.c").to_owned();
    let body = module([&source]) + &all.text;
    text.push_str(&body.replace("extern \"C\" ", ""));
    for (name, count) in [("one", source.parameters.len()), ("all", ARGUMENTS)] {
        let types = vec!["uint64_t"; count].join(", ");
        let values: Vec<String> = (0..count).map(|n| format!("arguments[{n}]")).collect();
        let values = values.join(", ");
        text.push_str(&format!(
            "static void call_{name}(void) {{ ((void (*)({types})){name})({values}); }}\n\
             int run_{name}(const uint64_t *a, unsigned x, unsigned y, int reverse)\n\
             {{ arguments = a; return run_grid(call_{name}, x, y, reverse); }}\n"
        ));
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let [file, library] = ["together.c", "together.so"].map(|name| folder.join(name));
    std::fs::write(&file, text).unwrap();
    let flags = "-std=gnu11 -O1 -w -shared -fPIC -ffp-contract=off -o".split(' ');
    let mut cc = Command::new("cc");
    cc.args(flags).arg(&library).arg(&file).arg("-lm");
    let Ok(output) = cc.output() else {
        println!("skipped: there is no C compiler `cc`");
        return;
    };
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    // SAFETY: the library was just made from generated C and has no initializers.
    let library = unsafe { Library::new(&library) }.unwrap();
    let run = |name: &str, arguments: &[u64], blocks: u32| {
        // SAFETY: the function was generated with this type.
        let run: Symbol<Run> = unsafe { library.get(name.as_bytes()) }.unwrap();
        // SAFETY: the arguments are those of the kernel and outlive the call.
        assert_eq!(unsafe { run(arguments.as_ptr(), blocks, 1, 0) }, 1);
    };

    // Less than a block, none, several blocks, exactly one.
    let sizes = [5, 0, 1000, 256, 1];
    let (rate, factors) = ([0.03f32], [0.9f32, 0.8, 0.7, 0.6, 0.5]);
    let make = || -> Vec<[Vec<f32>; 3]> {
        let sizes = sizes.iter().enumerate();
        sizes.map(|(n, rows)| tensors(*rows, n)).collect()
    };
    let (mut alone, mut at_once) = (make(), make());
    let pointers = |tensors: &mut [Vec<f32>; 3], factor: &f32| {
        let [w, g, s] = tensors.each_mut().map(|list| list.as_mut_ptr() as u64);
        (vec![w, g, s, std::ptr::from_ref(factor) as u64], vec![w, s])
    };
    for ((tensors, factor), rows) in alone.iter_mut().zip(&factors).zip(sizes) {
        let (inputs, outputs) = pointers(tensors, factor);
        let value = |parameter: &Parameter| match *parameter {
            Parameter::End => rows as u64,
            Parameter::Input(n) => inputs[usize::from(n)],
            Parameter::Output(n) => outputs[usize::from(n)],
            Parameter::Scalars => rate.as_ptr() as u64,
            _ => 0,
        };
        let arguments: Vec<u64> = source.parameters.iter().map(value).collect();
        let rows = rows as u64;
        let size = Size {
            rows,
            ..Size::default()
        };
        for launch in source.schedule.launches(&size) {
            run("run_one", &arguments, launch.grid[0]);
        }
    }
    let sets: Vec<Set> = at_once
        .iter_mut()
        .zip(&factors)
        .zip(sizes)
        .map(|((tensors, factor), rows)| {
            let (inputs, outputs) = pointers(tensors, factor);
            Set {
                rows: rows as u64,
                inputs,
                outputs,
            }
        })
        .collect();
    let table = all.table(&sets);
    assert_eq!(table.blocks, 1 + 4 + 1 + 1);
    let arguments = [
        table.numbers.as_ptr() as u64,
        sets.len() as u64,
        rate.as_ptr() as u64,
    ];
    run("run_all", &arguments, table.blocks as u32);
    let bits = |all: &[[Vec<f32>; 3]]| -> Vec<u32> {
        let numbers = all.iter().flatten().flatten();
        numbers.map(|x| x.to_bits()).collect()
    };
    assert_eq!(bits(&alone), bits(&at_once));
    assert_ne!(bits(&alone), bits(&make()));
}

#[test]
fn kernels_that_walk_rows_have_no_sets() {
    let mut kernel = update();
    kernel.width = 2;
    for operand in kernel.inputs.iter_mut().chain(&mut kernel.outputs) {
        (operand.stride, operand.column_step) = (2, 1);
    }
    assert!(together(&kernel, "all").unwrap().is_none());
}
