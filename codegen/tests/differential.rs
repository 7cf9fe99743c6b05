//! Compiled kernels against the oracle, across bodies, shapes, operand layouts and expressions.
#![allow(clippy::unwrap_used)]

mod support;

use gnnc_codegen::args::{Buffer, KernelArgs};
use gnnc_codegen::cpu::Compiler;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, End, Kernel, Operand, Over, Reduce};
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::words::storage::Storage;
use gnnc_ir::words::types::EdgeSet;
use support::kernels::{Form, SHAPES, all_halves, dense_kernel, forms, in_halves, random_kernel};
use support::{Part, Random, check, check_with, packed, unpacked};

#[test]
fn every_body_and_shape_agrees_with_the_oracle() {
    let compiler = Compiler::new(None).unwrap();
    let random = &mut Random(1);
    let part = Part::random(random, 13, 6, 60);
    for form in forms() {
        for (heads, width) in SHAPES {
            let repeats = if heads * width > 100 { 2 } else { 4 };
            for seed in 0..repeats {
                let size = 1 + random.below(3);
                let kernel = random_kernel(random, form, heads, width, size);
                let name = format!("{form:?} {heads} x {width} seed {seed}");
                check(&compiler, &name, &kernel, &part, seed);
            }
        }
    }
}

#[test]
fn deep_expressions_agree_with_the_oracle() {
    let compiler = Compiler::new(None).unwrap();
    let random = &mut Random(2);
    let part = Part::random(random, 9, 4, 40);
    for form in forms() {
        for seed in 0..8 {
            let (heads, width) = random.pick(&[(1, 1), (1, 6), (3, 2), (8, 4)]);
            let kernel = random_kernel(random, form, heads, width, 9);
            check(
                &compiler,
                &format!("{form:?} {heads} x {width} deep {seed}"),
                &kernel,
                &part,
                seed,
            );
        }
    }
}

/// All shapes and layouts, with some or all operands in 16 bits.
#[test]
fn halves_agree_with_the_oracle() {
    let compiler = Compiler::new(None).unwrap();
    let random = &mut Random(8);
    let part = Part::random(random, 13, 6, 60);
    for form in forms() {
        for (heads, width) in SHAPES {
            for seed in 0..2 {
                let size = 1 + random.below(3);
                let kernel = random_kernel(random, form, heads, width, size);
                let kernel = in_halves(random, kernel);
                let name = format!("{form:?} {heads} x {width} halves {seed}");
                check(&compiler, &name, &kernel, &part, seed);
            }
        }
    }
}

/// A row with more neighbors than a block of edges holds: its sums must not be rounded in
/// between.
#[test]
fn sums_of_many_edges_are_rounded_once() {
    let compiler = Compiler::new(None).unwrap();
    let random = &mut Random(10);
    let part = Part::random(random, 40, 10, 3000);
    for (heads, width) in [(1, 64), (1, 130), (1, 602), (8, 40)] {
        for reduce in [Reduce::Sum, Reduce::Max] {
            let kernel = dense_kernel(Form::Gather(End::Dst, reduce), heads, width);
            let kernel = all_halves(kernel, Storage::Bf16);
            let name = format!("{reduce:?} {heads} x {width}");
            check(&compiler, &name, &kernel, &part, 1);
        }
    }
}

/// Every 16-bit number to 32 bits and back, and numbers between, above and far below them, bit
/// for bit.
#[test]
fn halves_are_rounded_as_they_are_defined() {
    let compiler = Compiler::new(None).unwrap();
    for storage in [Storage::Bf16, Storage::F16] {
        let compiled = compiler
            .compile(&support::kernels::rounding(storage))
            .unwrap();
        let every: Vec<f32> = (0..=u16::MAX).map(|bits| storage.decode(bits)).collect();
        for numbers in [support::awkward(), every] {
            let [float, half] = [Storage::F32, storage].map(|storage| Operand {
                storage,
                ..Operand::dense(At::Row, 1, 1)
            });
            let rounded: Vec<f32> = numbers.iter().map(|x| storage.round(*x)).collect();
            let inputs = [packed(&float, &numbers), packed(&half, &rounded)];
            let mut outputs = [packed(&half, &numbers), packed(&float, &numbers)];
            outputs.iter_mut().for_each(|words| words.fill(0.0));
            let args = KernelArgs {
                inputs: inputs.iter().map(|x| Buffer::input(x)).collect(),
                outputs: outputs.iter_mut().map(|x| Buffer::output(x)).collect(),
                ..KernelArgs::default()
            };
            // SAFETY: the buffers have this many rows.
            unsafe { compiled.run_args(&args, 0..numbers.len() as u64) }.unwrap();
            let found = [(half, &outputs[0]), (float, &outputs[1])];
            let found = found.map(|(o, words)| unpacked(&o, words, numbers.len()));
            support::rounded(storage, &numbers, &found);
        }
    }
}

/// A sum of products takes one instruction per term if the processor supports it, and never a
/// call.
#[test]
fn sums_of_products_are_fused() {
    let compiler = Compiler::new(None).unwrap();
    let mut product = Expr::leaf(Value::Load(0));
    product.push(Value::Load(1));
    product.push(Value::Binary(Binary::Mul, 0, 1));
    let weight = Operand {
        column_step: 0,
        ..Operand::dense(At::Edge, 1, 1)
    };
    let kernel = Kernel {
        body: Body::Gather {
            set: EdgeSet::Plain,
            to: End::Dst,
            reduce: Reduce::Sum,
            value: product,
            finish: Expr::leaf(Value::Acc),
        },
        heads: 1,
        width: 16,
        inputs: vec![Operand::dense(At::Src, 1, 16), weight],
        outputs: vec![Operand::dense(At::Row, 1, 16)],
        masks: vec![],
        scalars: 0,
    };
    let assembly = compiler.assembly(&kernel).unwrap();
    #[cfg(target_arch = "x86_64")]
    let (fused, has) = ("vfmadd", std::arch::is_x86_feature_detected!("fma"));
    #[cfg(not(target_arch = "x86_64"))]
    let (fused, has) = ("fmla", cfg!(target_arch = "aarch64"));
    assert_eq!(assembly.contains(fused), has, "{assembly}");
    let part = Part::random(&mut Random(5), 9, 4, 40);
    check(&compiler, "fused", &kernel, &part, 1);
}

#[test]
fn graphs_without_edges_or_rows() {
    let compiler = Compiler::new(None).unwrap();
    let random = &mut Random(3);
    for (inner, edges) in [(3, 0), (0, 0), (5, 1)] {
        let part = Part::random(random, inner, 2, edges);
        for form in forms() {
            let kernel = random_kernel(random, form, 2, 5, 2);
            check(
                &compiler,
                &format!("{form:?} on {inner} vertices, {edges} edges"),
                &kernel,
                &part,
                5,
            );
        }
    }
}

/// Hubs have more edges than one block, and wide rows more columns than one window.
#[test]
fn hubs_and_wide_rows() {
    let compiler = Compiler::new(None).unwrap();
    let random = &mut Random(4);
    let part = Part::random(random, 6, 3, 700);
    for form in forms() {
        for (heads, width) in [(1, 64), (1, 300), (8, 8), (6, 40)] {
            let kernel = random_kernel(random, form, heads, width, 2);
            check(
                &compiler,
                &format!("{form:?} {heads} x {width} hubs"),
                &kernel,
                &part,
                7,
            );
        }
    }
}

fn map(over: Over, width: u32, inputs: Vec<Operand>, values: Vec<Expr>) -> Kernel {
    let outputs = values
        .iter()
        .map(|_| Operand::dense(At::Row, 1, width))
        .collect();
    Kernel {
        body: Body::Map { over, values },
        heads: 1,
        width,
        inputs,
        outputs,
        masks: vec![],
        scalars: 3,
    }
}

/// Momentum: two outputs replace two of the inputs.
#[test]
fn element_wise_kernels_work_in_place() {
    let compiler = Compiler::new(None).unwrap();
    let mut momentum = Expr::default();
    let [g, m] = [1, 2].map(|n| momentum.push(Value::Load(n)));
    let beta = momentum.push(Value::Scalar(0));
    let kept = momentum.push(Value::Binary(Binary::Mul, beta, m));
    momentum.push(Value::Binary(Binary::Add, kept, g));
    let mut weight = momentum.clone();
    let sum = weight.result();
    let (w, step) = (weight.push(Value::Load(0)), weight.push(Value::Scalar(1)));
    let moved = weight.push(Value::Binary(Binary::Mul, step, sum));
    weight.push(Value::Binary(Binary::Sub, w, moved));
    for width in [1, 3, 8, 33] {
        let row = Operand::dense(At::Row, 1, width);
        let kernel = map(
            Over::Rows,
            width,
            vec![row; 3],
            vec![weight.clone(), momentum.clone()],
        );
        let compiled = compiler.compile(&kernel).unwrap();
        let rows = 7;
        let len = rows * width as usize;
        let random = &mut Random(u64::from(width));
        let mut fill = || (0..len).map(|_| random.float()).collect::<Vec<f32>>();
        let (mut w, g, mut m) = (fill(), fill(), fill());
        let expected_m: Vec<f32> = m.iter().zip(&g).map(|(m, g)| 0.9 * m + g).collect();
        let expected_w: Vec<f32> = w
            .iter()
            .zip(&expected_m)
            .map(|(w, m)| w - 0.1 * m)
            .collect();
        let (w_buffer, m_buffer) = (Buffer::output(&mut w), Buffer::output(&mut m));
        let args = KernelArgs {
            inputs: vec![w_buffer, Buffer::input(&g), m_buffer],
            outputs: vec![w_buffer, m_buffer],
            scalars: &[0.9, 0.1, 0.0],
            ..Default::default()
        };
        args.check(&kernel, 0..rows as u64).unwrap();
        // SAFETY: the buffers hold `rows * columns` floats.
        unsafe { compiled.run_args(&args, 0..3).unwrap() };
        // SAFETY: the buffers hold `rows * columns` floats.
        unsafe { compiled.run_args(&args, 3..rows as u64).unwrap() };
        for i in 0..len {
            assert!(
                (w[i] - expected_w[i]).abs() < 1e-5,
                "w[{i}] = {}, expected {}",
                w[i],
                expected_w[i]
            );
            assert!(
                (m[i] - expected_m[i]).abs() < 1e-5,
                "m[{i}] = {}, expected {}",
                m[i],
                expected_m[i]
            );
        }
    }
}

/// Every function at points of its whole domain, against double precision.
#[test]
fn functions_are_accurate_to_units_in_the_last_place() {
    let compiler = Compiler::new(None).unwrap();
    let random = &mut Random(11);
    let mut points: Vec<f32> = (0..4000).map(|i| (i as f32 - 2000.0) * 0.05).collect();
    points.extend((0..4000).map(|_| random.float()));
    points.extend((-149..128).flat_map(|e| [1.0f32, 1.3, -1.7].map(|m| m * 2f32.powi(e))));
    points.extend([
        0.0,
        88.722_83,
        88.722_84,
        -87.336_55,
        -103.972_08,
        -103.972_1,
        f32::MAX,
        f32::MIN,
    ]);
    points.extend([f32::INFINITY, f32::NEG_INFINITY]);
    let unaries = [
        Unary::Neg,
        Unary::Relu,
        Unary::Step,
        Unary::LeakyRelu(0.2),
        Unary::LeakyRelu(0.0),
        Unary::LeakyRelu(-2.0),
        Unary::LeakyRelu(1.5),
        Unary::LeakyStep(0.3),
        Unary::Elu,
        Unary::EluStep,
        Unary::Exp,
        Unary::Log,
        Unary::Sigmoid,
        Unary::Tanh,
        Unary::Sqrt,
        Unary::Rsqrt,
        Unary::Recip,
    ];
    for unary in unaries {
        let mut expr = Expr::leaf(Value::Load(0));
        expr.push(Value::Unary(unary, 0));
        let kernel = map(
            Over::Rows,
            1,
            vec![Operand::dense(At::Row, 1, 1)],
            vec![expr],
        );
        let compiled = compiler.compile(&kernel).unwrap();
        let mut out = vec![0f32; points.len()];
        let args = KernelArgs {
            inputs: vec![Buffer::input(&points)],
            outputs: vec![Buffer::output(&mut out)],
            scalars: &[0.0; 3],
            ..Default::default()
        };
        // SAFETY: the buffers hold `rows * columns` floats.
        unsafe { compiled.run_args(&args, 0..points.len() as u64).unwrap() };
        for (&x, &found) in points.iter().zip(&out) {
            let exact = unary.eval(f64::from(x));
            let rounded = exact as f32;
            let relative = match unary {
                // A sum of numbers that cancel.
                Unary::Elu => 1e-7,
                // 1 + exp(-x) and the quotient each round once more.
                _ => 4.0 * f64::from(f32::EPSILON) * exact.abs(),
            };
            let smallest = f64::from(f32::MIN_POSITIVE);
            let close = found == rounded
                || (found.is_nan() && rounded.is_nan())
                || (f64::from(found) - exact).abs() <= relative + smallest;
            assert!(close, "{unary:?}({x:e}) = {found:e}, expected {exact:e}");
        }
    }
}

#[test]
fn what_is_not_a_number_stays_so() {
    let compiler = Compiler::new(None).unwrap();
    for unary in [
        Unary::Exp,
        Unary::Log,
        Unary::Tanh,
        Unary::Sigmoid,
        Unary::Sqrt,
        Unary::Relu,
        Unary::LeakyRelu(0.1),
        Unary::Elu,
    ] {
        let mut expr = Expr::leaf(Value::Load(0));
        expr.push(Value::Unary(unary, 0));
        let kernel = map(
            Over::Rows,
            1,
            vec![Operand::dense(At::Row, 1, 1)],
            vec![expr],
        );
        let mut out = [0f32; 9];
        let args = KernelArgs {
            inputs: vec![Buffer::input(&[f32::NAN; 9])],
            outputs: vec![Buffer::output(&mut out)],
            scalars: &[0.0; 3],
            ..Default::default()
        };
        // SAFETY: the buffers hold `rows * columns` floats.
        unsafe {
            compiler
                .compile(&kernel)
                .unwrap()
                .run_args(&args, 0..9)
                .unwrap()
        };
        assert!(out.iter().all(|x| x.is_nan()), "{unary:?}: {out:?}");
    }
}

/// `relu` and maxima of NaN, and the derivative of `relu` there, in 32 bits and in 16.
#[test]
fn activations_hide_nothing_that_is_not_a_number() {
    let compiler = Compiler::new(None).unwrap();
    let value = |last: Value| Expr {
        values: vec![Value::Load(0), Value::Load(1), last],
    };
    let values = vec![
        value(Value::Unary(Unary::Relu, 0)),
        value(Value::Unary(Unary::Step, 0)),
        value(Value::Binary(Binary::Max, 0, 1)),
    ];
    let a = [f32::NAN, 1.0, f32::NAN, -2.0, 3.0];
    let b = [1.0, f32::NAN, f32::NAN, 4.0, -5.0];
    let expected = [
        [f32::NAN, 1.0, f32::NAN, 0.0, 3.0],
        [1.0, 1.0, 1.0, 0.0, 1.0],
        [f32::NAN, f32::NAN, f32::NAN, 4.0, 3.0],
    ];
    for storage in [Storage::F32, Storage::Bf16, Storage::F16] {
        let operand = Operand {
            storage,
            ..Operand::dense(At::Row, 1, 1)
        };
        let mut kernel = map(Over::Rows, 1, vec![operand; 2], values.clone());
        kernel.outputs = vec![operand; 3];
        let inputs = [packed(&operand, &a), packed(&operand, &b)];
        let mut outputs = [
            packed(&operand, &a),
            packed(&operand, &a),
            packed(&operand, &a),
        ];
        let args = KernelArgs {
            inputs: inputs.iter().map(|x| Buffer::input(x)).collect(),
            outputs: outputs.iter_mut().map(|x| Buffer::output(x)).collect(),
            scalars: &[0.0; 3],
            ..KernelArgs::default()
        };
        let compiled = compiler.compile(&kernel).unwrap();
        // SAFETY: the buffers have this many rows.
        unsafe { compiled.run_args(&args, 0..a.len() as u64) }.unwrap();
        for (n, (words, expected)) in outputs.iter().zip(&expected).enumerate() {
            let found = unpacked(&operand, words, a.len());
            let same = |(f, e): (&f32, &f32)| f == e || (f.is_nan() && e.is_nan());
            let all = found.iter().zip(expected).all(same);
            assert!(all, "{storage}, value {n}: {found:?}");
        }
    }
}

/// Integers tie often. The maximum of an all-negative neighborhood is not 0; that of an empty
/// one is.
#[test]
fn maxima_with_ties_and_empty_neighbourhoods() {
    let compiler = Compiler::new(None).unwrap();
    let random = &mut Random(17);
    let part = Part::random(random, 11, 3, 50);
    for (to, width) in [(End::Dst, 1), (End::Dst, 6), (End::Src, 5)] {
        let at = if to == End::Dst { At::Src } else { At::Dst };
        let kernel = Kernel {
            body: Body::Gather {
                set: EdgeSet::Plain,
                to,
                reduce: Reduce::Max,
                value: Expr::leaf(Value::Load(0)),
                finish: Expr::leaf(Value::Acc),
            },
            heads: 1,
            width,
            inputs: vec![Operand::dense(at, 1, width)],
            outputs: vec![Operand::dense(At::Row, 1, width)],
            masks: vec![],
            scalars: 0,
        };
        let x: Vec<f32> = (0..14 * width)
            .map(|_| -(random.below(3) as f32) - 1.0)
            .collect();
        check_with(&compiler, "negative maxima", &kernel, &part, &[x], random);
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_kernels_agree_with_the_oracle(
        seed in 0u64..1 << 40,
        form in 0usize..15,
        heads in 1u32..10,
        width in 1u32..40,
        size in 0usize..7,
        inner in 0usize..12,
        edges in 0usize..90,
    ) {
        let random = &mut Random(seed);
        let part = Part::random(random, inner, 3, if inner == 0 { 0 } else { edges });
        let forms = forms();
        let form = forms[form % forms.len()];
        let kernel = random_kernel(random, form, heads, width, size);
        check(&Compiler::new(None).unwrap(), "random kernel", &kernel, &part, seed);
    }
}
