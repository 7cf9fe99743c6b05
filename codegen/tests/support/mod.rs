//! Random graphs, buffers and kernels, and the comparison of compiled code with the oracle.
#![allow(dead_code, clippy::unwrap_used)]

pub mod kernels;
mod part;
pub mod pass;

pub use part::{Part, TYPES};

use gnnc_codegen::args::{Buffer, KernelArgs};
use gnnc_codegen::cpu::{Compiled, Compiler};
use gnnc_codegen::oracle::{self, OracleArgs};
use gnnc_ir::kernel::Walk;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, Kernel, Mask, Operand};
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::words::storage::Storage;
use std::sync::LazyLock;

/// SplitMix64.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// In -2 .. 2; one in eight is a small integer, so that zeros and ties occur.
    pub fn float(&mut self) -> f32 {
        if self.below(8) == 0 {
            return self.below(5) as f32 - 2.0;
        }
        (self.next() >> 40) as f32 / (1u32 << 24) as f32 * 4.0 - 2.0
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

fn buffer_len(part: &Part, kernel: &Kernel, operand: &Operand) -> usize {
    let rows = part.buffer_rows(operand.at, Walk::of(&kernel.body));
    let row = operand.offset
        + (kernel.heads - 1) * operand.head_step
        + (kernel.width - 1) * operand.column_step
        + operand
            .picked
            .map_or(0, |picked| (picked.count - 1) * picked.step)
        + 1;
    rows.saturating_sub(1) * operand.stride as usize + row as usize
}

/// As many numbers as 16 bits can hold: around every power of 2, special values, and random
/// bits.
pub fn awkward() -> Vec<f32> {
    let mut random = Random(77);
    let mut numbers = vec![
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
    ];
    numbers.extend([65504.0, 65519.99, 65520.0, -65536.0, 65535.996]);
    for exponent in -149..128 {
        let power = 2f32.powi(exponent);
        let steps = [-12, -9, -8, 8, 9, 12].map(|n: i32| n.signum() as f32 * 2f32.powi(-n.abs()));
        numbers.extend([power, power.next_up(), power.next_down()]);
        numbers.extend(steps.map(|step| power * (1.0 + step)));
        numbers.extend(steps.map(|step| -power * (1.0 + step) * (1.0 + f32::EPSILON)));
    }
    numbers.resize_with(1 << 16, || f32::from_bits(random.next() as u32));
    numbers
}

/// Checks the results of [`kernels::rounding`].
pub fn rounded(storage: Storage, numbers: &[f32], found: &[Vec<f32>]) {
    for ((n, &x), found_of) in numbers.iter().enumerate().zip(&found[0]) {
        for (found, expected) in [
            (*found_of, storage.round(x)),
            (found[1][n], storage.round(x)),
        ] {
            let same = found.to_bits() == expected.to_bits() || (found.is_nan() && x.is_nan());
            assert!(
                same,
                "{storage}: {x:e} became {found:e}, expected {expected:e}"
            );
        }
    }
}

/// Packs numbers as they are stored in memory.
pub fn packed(operand: &Operand, numbers: &[f32]) -> Vec<f32> {
    let mut words = vec![0.0; numbers.len().div_ceil(operand.storage.in_word() as usize)];
    operand.storage.pack(numbers, &mut words);
    words
}

/// Unpacks `count` numbers from words.
pub fn unpacked(operand: &Operand, words: &[f32], count: usize) -> Vec<f32> {
    let mut numbers = vec![0.0; count];
    operand.storage.unpack(words, &mut numbers);
    numbers
}

/// Value of elements that no kernel may touch.
pub const UNTOUCHED: f32 = 12345.5;

/// A kernel with its arguments, and the oracle's results.
pub struct Case<'a> {
    pub kernel: &'a Kernel,
    pub part: &'a Part,
    pub inputs: Vec<Vec<f32>>,
    pub scalars: Vec<f32>,
    pub keys: Vec<u64>,
    pub expected: Vec<Vec<f64>>,
}

impl<'a> Case<'a> {
    /// Random inputs.
    pub fn random(kernel: &'a Kernel, part: &'a Part, random: &mut Random) -> Self {
        let floats = |operand: &Operand, random: &mut Random| {
            (0..buffer_len(part, kernel, operand))
                .map(|_| random.float())
                .collect::<Vec<f32>>()
        };
        let inputs = kernel
            .inputs
            .iter()
            .map(|operand| floats(operand, random))
            .collect();
        Self::new(kernel, part, inputs, random)
    }

    pub fn new(
        kernel: &'a Kernel,
        part: &'a Part,
        inputs: Vec<Vec<f32>>,
        random: &mut Random,
    ) -> Self {
        let rounded = |(operand, x): (&Operand, Vec<f32>)| {
            x.into_iter().map(|x| operand.storage.round(x)).collect()
        };
        let mut inputs: Vec<Vec<f32>> = kernel.inputs.iter().zip(inputs).map(rounded).collect();
        // Numbers that pick are edge types.
        let operands = kernel.inputs.iter().chain(&kernel.outputs);
        for by in operands.filter_map(|operand| operand.picked.map(|picked| picked.by)) {
            let by = usize::from(by);
            let operand = &kernel.inputs[by];
            for (edge, kind) in part.types.iter().enumerate() {
                let at = edge * operand.stride as usize + operand.offset as usize;
                inputs[by][at] = *kind as f32;
            }
        }
        let mut case = Self {
            kernel,
            part,
            inputs,
            scalars: (0..kernel.scalars).map(|_| random.float()).collect(),
            keys: kernel.masks.iter().map(|_| random.next()).collect(),
            expected: Vec::new(),
        };
        case.expected = case.oracle();
        case
    }

    /// The offsets and neighbors that the kernel walks.
    pub fn edges(&self) -> (&'a [u64], &'a [u32]) {
        match Walk::of(&self.kernel.body) {
            Walk::EdgesBySource => (&self.part.out_indptr, &self.part.out_indices),
            Walk::EdgesByType => (&self.part.type_indptr, &self.part.type_indices),
            _ => (&self.part.in_indptr, &self.part.in_indices),
        }
    }

    /// Outputs before the kernel runs.
    pub fn outputs(&self) -> Vec<Vec<f32>> {
        let column = matches!(self.kernel.body, Body::ColReduce { .. });
        let length = |operand| match column {
            true => (self.kernel.heads * self.kernel.width) as usize,
            false => buffer_len(self.part, self.kernel, operand),
        };
        let outputs = self.kernel.outputs.iter().map(length);
        outputs.map(|length| vec![UNTOUCHED; length]).collect()
    }

    fn oracle(&self) -> Vec<Vec<f64>> {
        let wide = |x: &Vec<f32>| x.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
        let inputs: Vec<Vec<f64>> = self.inputs.iter().map(wide).collect();
        let mut expected: Vec<Vec<f64>> = self.outputs().iter().map(wide).collect();
        let (indptr, indices) = self.edges();
        let args = OracleArgs {
            indptr,
            indices,
            positions: &self.part.positions,
            ids: &self.part.ids,
            list: &self.part.list,
            inputs: inputs.iter().map(Vec::as_slice).collect(),
            scalars: &self.scalars,
            keys: &self.keys,
        };
        let rows = self.part.rows(self.kernel);
        oracle::run(self.kernel, &args, 0..rows, &mut expected).unwrap();
        expected
    }

    /// Compares results with the oracle's. Sums of tens of terms in single precision are good
    /// to about 1e-6 of their largest term (unit roundoff 6e-8), and the polynomials to 3e-7.
    /// Elements must therefore agree to 1e-5 of the largest result, or of 1. Results in 16 bits
    /// may differ by their unit roundoff more.
    pub fn compare(&self, name: &str, found: &[Vec<f32>]) {
        let kernel = self.kernel;
        for (output, (found, expected)) in found.iter().zip(&self.expected).enumerate() {
            let largest = expected
                .iter()
                .filter(|&&x| x != f64::from(UNTOUCHED))
                .fold(1.0f64, |m, x| m.max(x.abs()));
            let storage = kernel.outputs[output].storage;
            for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
                let stored = match storage {
                    Storage::F32 => 0.0,
                    // Half of the smallest step of binary16.
                    storage => storage.roundoff() * e.abs() + 2f64.powi(-25),
                };
                let close = (f64::from(f) - e).abs() <= 1e-5 * largest + stored
                    || f == storage.round(e as f32)
                    || (f.is_nan() && e.is_nan());
                assert!(
                    close,
                    "{name}: output {output}[{i}] is {f}, expected {e} (largest {largest})\n{kernel:?}"
                );
            }
        }
    }
}

/// Compiles code that checks every access.
static CHECKED: LazyLock<Compiler> = LazyLock::new(|| Compiler::checked(None).unwrap());

/// Compares compiled code with the oracle: for all rows, for rows in several calls, and with
/// every access checked.
pub fn check(compiler: &Compiler, name: &str, kernel: &Kernel, part: &Part, seed: u64) {
    check_case(
        compiler,
        name,
        &Case::random(kernel, part, &mut Random(seed)),
    );
}

pub fn check_with(
    compiler: &Compiler,
    name: &str,
    kernel: &Kernel,
    part: &Part,
    inputs: &[Vec<f32>],
    random: &mut Random,
) {
    check_case(
        compiler,
        name,
        &Case::new(kernel, part, inputs.to_vec(), random),
    );
}

fn check_case(compiler: &Compiler, name: &str, case: &Case) {
    let (kernel, part) = (case.kernel, case.part);
    let (indptr, indices) = case.edges();
    let compile = |compiler: &Compiler| {
        let compiled = compiler.compile(kernel);
        compiled.unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    let inputs = kernel.inputs.iter().zip(&case.inputs);
    let inputs: Vec<Vec<f32>> = inputs.map(|(o, x)| packed(o, x)).collect();
    let run = |compiled: &Compiled, ranges: &[(usize, usize)]| {
        let before = case.outputs();
        let outputs = kernel.outputs.iter().zip(&before);
        let mut outputs: Vec<Vec<f32>> = outputs.map(|(o, x)| packed(o, x)).collect();
        let args = KernelArgs {
            indptr,
            indices,
            positions: &part.positions,
            ids: &part.ids,
            list: &part.list,
            inputs: inputs.iter().map(|x| Buffer::input(x)).collect(),
            outputs: outputs.iter_mut().map(|x| Buffer::output(x)).collect(),
            scalars: &case.scalars,
            keys: &case.keys,
        };
        for &(begin, end) in ranges {
            let rows = begin as u64..end as u64;
            args.check(kernel, rows.clone())
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            // SAFETY: the arguments were checked.
            unsafe { compiled.run_args(&args, rows) }.unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        let outputs = kernel.outputs.iter().zip(&outputs).zip(&before);
        let numbers = outputs.map(|((o, words), before)| unpacked(o, words, before.len()));
        numbers.collect::<Vec<_>>()
    };
    let rows = part.rows(kernel);
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let compiled = compile(compiler);
    let found = run(&compiled, &[(0, rows)]);
    case.compare(name, &found);
    // Checked code finds nothing wrong and computes the same.
    let checked = run(&compile(&CHECKED), &[(0, rows)]);
    for (found, checked) in found.iter().zip(&checked) {
        let same = bits(found) == bits(checked);
        assert!(same, "{name}: checked code differs\n{kernel:?}");
    }
    if matches!(kernel.body, Body::ColReduce { .. }) {
        return;
    }
    let (a, b) = (rows / 3, rows / 3 + rows / 2);
    let split = run(&compiled, &[(b, rows), (0, 0), (a, b), (b, b), (0, a)]);
    for (whole, split) in found.iter().zip(&split) {
        assert_eq!(
            bits(whole),
            bits(split),
            "{name}: rows in several calls differ\n{kernel:?}"
        );
    }
}

/// An operand with one of the layouts that the planner uses.
pub fn operand(random: &mut Random, at: At, heads: u32, width: u32) -> Operand {
    let columns = heads * width;
    let of = |stride, offset, head_step, column_step| Operand {
        at,
        stride,
        offset,
        head_step,
        column_step,
        storage: Default::default(),
        picked: None,
    };
    match random.below(9) {
        0..3 => of(columns, 0, width, 1),
        3 => of(heads, 0, 1, 0),
        4 => of(1, 0, 0, 0),
        5 => of(width, 0, 0, 1),
        6 => of(columns + 5, 3, width, 1),
        7 => of((width + 2) * heads + 1, 1, width + 2, 1),
        _ => Operand::dense(at, heads, width),
    }
}

/// An output: dense, or a part of wider rows.
pub fn output(random: &mut Random, at: At, heads: u32, width: u32) -> Operand {
    let of = |stride, offset, head_step, column_step| Operand {
        at,
        stride,
        offset,
        head_step,
        column_step,
        storage: Default::default(),
        picked: None,
    };
    match random.below(4) {
        0 => of(heads * width + 6, 5, width, 1),
        1 => of((width + 3) * heads, 2, width + 3, 1),
        _ => Operand::dense(at, heads, width),
    }
}

pub fn mask(random: &mut Random, at: At, width: u32) -> Mask {
    let (head_step, column_step) = random.pick(&[(width, 1), (1, 0), (0, 1), (0, 0)]);
    Mask {
        p: random.pick(&[0.1, 0.5, 0.6]),
        at,
        first: random.pick(&[0, 0, 7]),
        head_step,
        column_step,
    }
}

/// A random expression over leaves, continuous except where its argument is exact: steps and
/// comparisons take what is loaded, not numbers and sums that were rounded before.
pub fn expression(random: &mut Random, leaves: &[Value], size: usize) -> Expr {
    let mut expr = Expr::default();
    let is_exact = |leaf: &&Value| !matches!(leaf, Value::Number(_) | Value::Acc);
    let exact: Vec<Value> = leaves.iter().filter(is_exact).copied().collect();
    let mut smooth: Vec<u16> = Vec::new();
    let first = expr.push(leaves[random.below(leaves.len())]);
    smooth.push(first);
    for _ in 0..size {
        let leaf = expr.push(random.pick(leaves));
        let a = random.pick(&smooth);
        let id = match random.below(16) {
            0..3 => expr.push(Value::Binary(Binary::Add, a, leaf)),
            3..6 => expr.push(Value::Binary(Binary::Mul, a, leaf)),
            6 => expr.push(Value::Binary(Binary::Sub, leaf, a)),
            7 => expr.push(Value::Binary(Binary::Max, a, leaf)),
            8 => {
                let bounded = expr.push(Value::Unary(Unary::Tanh, a));
                let unary = random.pick(&[Unary::Exp, Unary::Neg, Unary::Sigmoid, Unary::Elu]);
                expr.push(Value::Unary(unary, bounded))
            }
            9 => expr.push(Value::Unary(Unary::Sigmoid, a)),
            10 => {
                let unary = random.pick(&[
                    Unary::Relu,
                    Unary::LeakyRelu(0.2),
                    Unary::Elu,
                    Unary::LeakyRelu(-0.5),
                ]);
                let bounded = expr.push(Value::Unary(Unary::Tanh, a));
                expr.push(Value::Unary(unary, bounded))
            }
            11 => {
                let unary = random.pick(&[Unary::Step, Unary::LeakyStep(0.1), Unary::EluStep]);
                let leaf = expr.push(random.pick(&exact));
                expr.push(Value::Unary(unary, leaf))
            }
            12 => {
                let (square, half) = (
                    expr.push(Value::Binary(Binary::Mul, leaf, leaf)),
                    expr.push(Value::Const(0.5)),
                );
                let positive = expr.push(Value::Binary(Binary::Add, square, half));
                let unary = random.pick(&[Unary::Log, Unary::Sqrt, Unary::Rsqrt, Unary::Recip]);
                expr.push(Value::Unary(unary, positive))
            }
            13 => {
                let (square, half) = (
                    expr.push(Value::Binary(Binary::Mul, leaf, leaf)),
                    expr.push(Value::Const(0.5)),
                );
                let positive = expr.push(Value::Binary(Binary::Add, square, half));
                expr.push(Value::Binary(Binary::Div, a, positive))
            }
            14 => {
                let pair = [random.pick(&exact), random.pick(&exact)].map(|leaf| expr.push(leaf));
                expr.push(Value::Binary(Binary::Eq, pair[0], pair[1]))
            }
            _ => expr.push(Value::Const(random.float())),
        };
        smooth.push(id);
    }
    // Reductions treat a top-level product specially, so generate both kinds.
    if random.below(2) == 0 {
        let last = expr.result();
        let scale = expr.push(Value::Const(0.75));
        expr.values.push(Value::Binary(Binary::Mul, last, scale));
    }
    expr
}
