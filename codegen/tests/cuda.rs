//! The CUDA C of kernels, run on the processor, against the oracle.
//!
//! A shim defines CUDA's names and runs the threads of a block in turn. It finds wrong indices,
//! missing barriers, and shuffles that not all threads reach, without a GPU. It cannot show
//! speed, or effects of a GPU's memory model beyond barriers.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop, and says what it skips"
)]

mod support;

use gnnc_codegen::cuda::{Hubs, Parameter, Size, Source, by_degree, generate, module};
use gnnc_ir::kernel::Walk;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Body, End, Kernel, Operand, Over};
use gnnc_ir::words::scalar::Unary;
use gnnc_ir::words::storage::Storage;
use libloading::{Library, Symbol};
use std::fs;
use std::path::Path;
use std::process::Command;
use support::kernels::{
    DENSE_SHAPES, SHAPES, all_halves, dense_kernel, forms, in_halves, random_kernel,
};
use support::{Case, Part, Random, packed, pass, unpacked};

/// Floats at addresses suitable for vector loads.
#[derive(Clone)]
struct Aligned {
    quads: Vec<Quad>,
    len: usize,
}

#[repr(align(16))]
#[derive(Clone, Copy)]
struct Quad([f32; 4]);

impl Aligned {
    fn new(floats: &[f32]) -> Self {
        let quad = |chunk: &[f32]| {
            let mut quad = [0.0; 4];
            quad[..chunk.len()].copy_from_slice(chunk);
            Quad(quad)
        };
        Self {
            quads: floats.chunks(4).map(quad).collect(),
            len: floats.len(),
        }
    }

    fn floats(&self) -> Vec<f32> {
        let all = self.quads.iter().flat_map(|quad| quad.0);
        all.take(self.len).collect()
    }
}

/// Kernels compiled for the processor.
struct Host {
    library: Library,
    sources: Vec<Source>,
}

type Run = unsafe extern "C" fn(*const u64, u32, u32, i32) -> i32;

impl Host {
    /// Compiles kernels; `None` if there is no C compiler.
    fn compile(test: &str, kernels: &[Kernel]) -> Option<Self> {
        let sources: Vec<Source> = kernels
            .iter()
            .enumerate()
            .map(|(i, kernel)| generate(kernel, &format!("k{i}")).unwrap())
            .collect();
        let mut text = include_str!("cuda/shim.c").to_owned();
        text.push_str(&module(&sources).replace("extern \"C\" ", ""));
        for source in &sources {
            let argument = |(i, parameter): (usize, &Parameter)| match parameter {
                Parameter::Begin
                | Parameter::End
                | Parameter::HubEdges
                | Parameter::HubCount
                | Parameter::ChunkCount
                | Parameter::PartialItems
                | Parameter::PartialCount => format!("arguments[{i}]"),
                _ => format!("(void *)arguments[{i}]"),
            };
            let arguments: Vec<String> =
                source.parameters.iter().enumerate().map(argument).collect();
            let arguments = arguments.join(", ");
            for entry in source.schedule.entries() {
                text.push_str(&format!(
                    "static void call_{entry}(void) {{ {entry}({arguments}); }}\n\
                     int run_{entry}(const uint64_t *a, unsigned x, unsigned y, int reverse)\n\
                     {{ arguments = a; return run_grid(call_{entry}, x, y, reverse); }}\n"
                ));
            }
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (file, library) = (
            folder.join(format!("{test}.c")),
            folder.join(format!("{test}.so")),
        );
        fs::write(&file, text).unwrap();
        let mut cc = Command::new("cc");
        cc.args([
            "-std=gnu11",
            "-O1",
            "-w",
            "-shared",
            "-fPIC",
            "-ffp-contract=off",
            "-o",
        ]);
        let output = cc.arg(&library).arg(&file).arg("-lm").output();
        let Ok(output) = output else {
            println!("skipped {test}: there is no C compiler `cc`");
            return None;
        };
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{test}: {messages}");
        // SAFETY: the library was just made from generated C and has no initializers.
        let library = unsafe { Library::new(&library) }.unwrap();
        Some(Self { library, sources })
    }

    /// Runs kernel `number` over rows; rows with more than `most` edges are hubs. With
    /// `reverse`, threads run in the opposite order, and teams take rows by degree.
    fn run(&self, number: usize, case: &Case, most: u64, reverse: bool) -> Vec<Vec<f32>> {
        let source = &self.sources[number];
        let (indptr, indices) = case.edges();
        let rows = case.part.rows(case.kernel);
        let hubs = Hubs::of(indptr, 0..rows, most);
        let walks = Walk::of(&case.kernel.body) != Walk::Rows;
        let size = Size {
            rows: rows as u64,
            edges: if walks { indptr[rows] } else { 0 },
            chunks: hubs.chunk_rows.len() as u64,
            hubs: hubs.rows.len() as u64,
        };
        let schedule = &source.schedule;
        let aligned = |operands: &[Operand], numbers: &[Vec<f32>]| -> Vec<Aligned> {
            let all = operands.iter().zip(numbers);
            all.map(|(o, x)| Aligned::new(&packed(o, x))).collect()
        };
        let inputs = aligned(&case.kernel.inputs, &case.inputs);
        let before = case.outputs();
        let mut outputs = aligned(&case.kernel.outputs, &before);
        let starts = |x: &mut Aligned| x.quads.as_mut_ptr() as u64;
        let output_starts: Vec<u64> = outputs.iter_mut().map(starts).collect();
        let ordered = match schedule.ordered() && reverse {
            true => by_degree(indptr, 0..rows, most),
            false => Vec::new(),
        };
        let order = if ordered.is_empty() {
            0
        } else {
            ordered.as_ptr() as u64
        };
        let mut scratch = vec![f32::NAN; schedule.scratch_floats(&size) as usize];
        let scratch_start = scratch.as_mut_ptr() as u64;
        let value = |parameter: &Parameter| match *parameter {
            Parameter::Indptr => indptr.as_ptr() as u64,
            Parameter::Indices => indices.as_ptr() as u64,
            Parameter::Positions => case.part.positions.as_ptr() as u64,
            Parameter::Ids => case.part.ids.as_ptr() as u64,
            Parameter::List => case.part.list.as_ptr() as u64,
            Parameter::Scalars => case.scalars.as_ptr() as u64,
            Parameter::Keys => case.keys.as_ptr() as u64,
            Parameter::Begin => 0,
            Parameter::End => rows as u64,
            Parameter::Input(n) => inputs[usize::from(n)].quads.as_ptr() as u64,
            Parameter::Output(n) => output_starts[usize::from(n)],
            Parameter::HubEdges => most,
            Parameter::Order => order,
            Parameter::HubRows => hubs.rows.as_ptr() as u64,
            Parameter::HubCount => size.hubs,
            Parameter::FirstChunks => hubs.first_chunks.as_ptr() as u64,
            Parameter::ChunkRows => hubs.chunk_rows.as_ptr() as u64,
            Parameter::ChunkEdges => hubs.chunk_edges.as_ptr() as u64,
            Parameter::ChunkCount => size.chunks,
            Parameter::Scratch => scratch_start,
            Parameter::PartialItems => schedule.partial_items(&size),
            Parameter::PartialCount => schedule.partials(&size),
        };
        let arguments: Vec<u64> = source.parameters.iter().map(value).collect();
        for launch in schedule.launches(&size) {
            let name = format!("run_{}", launch.entry);
            // SAFETY: the function was generated with this type.
            let run: Symbol<Run> = unsafe { self.library.get(name.as_bytes()) }.unwrap();
            let [x, y] = launch.grid;
            // SAFETY: the arguments are those of the kernel and outlive the call.
            let ended = unsafe { run(arguments.as_ptr(), x, y, reverse.into()) };
            assert!(
                ended == 1,
                "{name}: threads wait for others\n{}",
                source.text
            );
        }
        let outputs = case.kernel.outputs.iter().zip(&outputs).zip(&before);
        outputs
            .map(|((o, words), before)| unpacked(o, &words.floats(), before.len()))
            .collect()
    }

    /// Compares a kernel with the oracle, with and without hubs, in both thread orders.
    fn check(&self, number: usize, name: &str, case: &Case) {
        let bits =
            |x: Vec<Vec<f32>>| -> Vec<u32> { x.concat().iter().map(|x| x.to_bits()).collect() };
        let found = self.run(number, case, 7, false);
        case.compare(&format!("{name} with hubs"), &found);
        let reversed = self.run(number, case, 7, true);
        let message = "depends on the order of threads or rows";
        assert_eq!(bits(found), bits(reversed), "{name}: {message}");
        let hubs = matches!(case.kernel.body, Body::Gather { .. } | Body::EdgePass(_));
        if hubs {
            let found = self.run(number, case, 1 << 40, false);
            case.compare(&format!("{name} without hubs"), &found);
        }
    }
}

#[test]
fn every_body_and_shape_agrees_with_the_oracle() {
    let random = &mut Random(1);
    let part = Part::random(random, 13, 6, 60);
    let mut kernels = Vec::new();
    for form in forms() {
        for (heads, width) in SHAPES {
            let size = 1 + random.below(3);
            let name = format!("{form:?} {heads} x {width}");
            kernels.push((name, random_kernel(random, form, heads, width, size)));
        }
    }
    check_all("shapes", &part, kernels, random);
}

#[test]
fn deep_expressions_agree_with_the_oracle() {
    let random = &mut Random(2);
    let part = Part::random(random, 70, 9, 500);
    let mut kernels = Vec::new();
    for form in forms() {
        for _ in 0..4 {
            let (heads, width) = random.pick(&[(1, 1), (1, 8), (3, 2), (8, 4)]);
            let name = format!("{form:?} {heads} x {width} deep");
            kernels.push((name, random_kernel(random, form, heads, width, 9)));
        }
    }
    check_all("deep", &part, kernels, random);
}

/// All shapes and layouts, with some or all operands in 16 bits.
#[test]
fn halves_agree_with_the_oracle() {
    let random = &mut Random(8);
    let part = Part::random(random, 13, 6, 60);
    let mut kernels = Vec::new();
    for form in forms() {
        for (heads, width) in SHAPES {
            let size = 1 + random.below(3);
            let name = format!("{form:?} {heads} x {width} halves");
            let kernel = random_kernel(random, form, heads, width, size);
            kernels.push((name, in_halves(random, kernel)));
        }
        for (heads, width) in DENSE_SHAPES {
            let name = format!("{form:?} {heads} x {width} contiguous halves");
            let kernel = in_halves(random, dense_kernel(form, heads, width));
            kernels.push((name, kernel));
        }
    }
    check_all("halves", &part, kernels, random);
}

/// Every 16-bit number to 32 bits and back, and numbers between, above and far below them, bit
/// for bit.
#[test]
fn halves_are_rounded_as_they_are_defined() {
    let random = &mut Random(9);
    let numbers = support::awkward();
    let part = Part::random(random, numbers.len(), 0, 0);
    for storage in [Storage::Bf16, Storage::F16] {
        let every: Vec<f32> = (0..=u16::MAX).map(|bits| storage.decode(bits)).collect();
        let every = &every[..numbers.len()];
        for (name, numbers) in [("between", &numbers[..]), ("every", every)] {
            let kernel = support::kernels::rounding(storage);
            let case = Case::new(&kernel, &part, vec![numbers.to_vec(); 2], random);
            let kernels = std::slice::from_ref(&kernel);
            let Some(host) = Host::compile(&format!("rounding_{storage}_{name}"), kernels) else {
                return;
            };
            let found = host.run(0, &case, 7, false);
            support::rounded(storage, numbers, &found);
        }
    }
}

/// Several blocks, several partial sums, and rows longer than a block's threads.
#[test]
fn larger_graphs_agree_with_the_oracle() {
    let random = &mut Random(3);
    let part = Part::random(random, 1500, 100, 6000);
    let mut kernels = Vec::new();
    for form in forms() {
        let (heads, width) = random.pick(&[(1, 1), (1, 4), (3, 2), (2, 2)]);
        let name = format!("{form:?} {heads} x {width} large");
        kernels.push((name, random_kernel(random, form, heads, width, 2)));
    }
    check_all("large", &part, kernels, random);
}

#[test]
fn graphs_without_edges_or_rows() {
    for (inner, edges) in [(3, 0), (0, 0), (5, 1)] {
        let random = &mut Random(4);
        let part = Part::random(random, inner, 2, edges);
        let kernel = |form| {
            let name = format!("{form:?} on {inner} vertices, {edges} edges");
            (name, random_kernel(random, form, 2, 5, 2))
        };
        let kernels = forms().into_iter().map(kernel).collect();
        check_all(&format!("empty{inner}"), &part, kernels, &mut Random(5));
    }
}

/// Vectors of all sizes, groups that share edges, several tiles and several slabs.
#[test]
fn contiguous_rows_agree_with_the_oracle() {
    let random = &mut Random(7);
    let part = Part::random(random, 20, 5, 150);
    let mut kernels = Vec::new();
    for form in forms() {
        for (heads, width) in DENSE_SHAPES {
            let name = format!("{form:?} {heads} x {width} contiguous");
            kernels.push((name, dense_kernel(form, heads, width)));
        }
    }
    check_all("contiguous", &part, kernels, random);
}

/// The passes of attention, with hubs and without, in 32 and in 16 bits.
#[test]
fn attention_agrees_with_the_oracle() {
    const SHAPES: [(u32, u32); 10] = [
        (1, 1),
        (1, 7),
        (1, 64),
        (8, 8),
        (8, 16),
        (4, 1),
        (2, 150),
        (1, 602),
        (3, 20),
        (1, 600),
    ];
    let random = &mut Random(10);
    let part = Part::random(random, 40, 8, 600);
    let mut kernels = Vec::new();
    for (heads, width) in SHAPES {
        let passes = [
            ("forward", pass::gat_forward(heads, width)),
            ("backward", pass::gat_backward(heads, width)),
        ];
        for (name, kernel) in passes {
            let name = format!("{name} {heads} x {width}");
            for storage in [Storage::Bf16, Storage::F16] {
                let halves = all_halves(kernel.clone(), storage);
                kernels.push((format!("{name} in {storage}"), halves));
            }
            kernels.push((format!("{name} mixed"), in_halves(random, kernel.clone())));
            kernels.push((name, kernel));
        }
    }
    check_all("attention", &part, kernels, random);
}

/// Several random passes of every shape, on rows from none to many chunks of edges.
#[test]
fn random_passes_agree_with_the_oracle() {
    for seed in 20..24 {
        let random = &mut Random(seed);
        let part = Part::random(random, 13, 6, 120);
        let mut kernels = Vec::new();
        for (heads, width) in SHAPES.into_iter().chain(DENSE_SHAPES) {
            let to = random.pick(&[End::Dst, End::Src]);
            let kernel = pass::random_pass(random, to, heads, width, 2);
            let halved = random.below(3) == 0;
            let kernel = if halved {
                in_halves(random, kernel)
            } else {
                kernel
            };
            kernels.push((format!("pass {heads} x {width} of {seed}"), kernel));
        }
        check_all(&format!("passes{seed}"), &part, kernels, random);
    }
}

fn check_all(test: &str, part: &Part, kernels: Vec<(String, Kernel)>, random: &mut Random) {
    let (names, kernels): (Vec<String>, Vec<Kernel>) = kernels.into_iter().unzip();
    let Some(host) = Host::compile(test, &kernels) else {
        return;
    };
    for (i, (name, kernel)) in names.iter().zip(&kernels).enumerate() {
        host.check(i, name, &Case::random(kernel, part, random));
    }
}

/// Every function of one number at zero, negative, infinite and NaN arguments.
#[test]
fn functions_treat_special_numbers_as_the_processor_does() {
    let unaries = [
        Unary::Neg,
        Unary::Relu,
        Unary::Step,
        Unary::LeakyRelu(0.2),
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
    let values = unaries.map(|unary| {
        let mut expr = Expr::leaf(Value::Load(0));
        expr.push(Value::Unary(unary, 0));
        expr
    });
    let kernel = Kernel {
        heads: 1,
        width: 1,
        inputs: vec![Operand::dense(At::Row, 1, 1)],
        outputs: vec![Operand::dense(At::Row, 1, 1); values.len()],
        masks: vec![],
        scalars: 0,
        body: Body::Map {
            over: Over::Rows,
            values: values.to_vec(),
        },
    };
    let points = vec![
        -2.5,
        -0.0,
        0.0,
        0.7,
        30.0,
        -30.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    let random = &mut Random(6);
    let part = Part::random(random, points.len(), 0, 0);
    let Some(host) = Host::compile("functions", std::slice::from_ref(&kernel)) else {
        return;
    };
    let case = Case::new(&kernel, &part, vec![points.clone()], random);
    let found = host.run(0, &case, 7, false);
    for ((unary, found), expected) in unaries.iter().zip(&found).zip(&case.expected) {
        for ((x, found), expected) in points.iter().zip(found).zip(expected) {
            let expected = *expected as f32;
            let same = *found == expected
                || (found - expected).abs() <= 1e-6 * expected.abs()
                || (found.is_nan() && expected.is_nan());
            assert!(same, "{unary:?}({x}) = {found}, expected {expected}");
        }
    }
}
