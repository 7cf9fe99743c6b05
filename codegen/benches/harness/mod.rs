//! The graph, the clock and the plain loop of the kernel benchmark.
#![allow(dead_code)]

use gnnc_codegen::args::{Buffer, KernelArgs, RawArgs};
use gnnc_codegen::cpu::Compiler;
use gnnc_ir::kernel::Kernel;
use gnnc_ir::kernel::expr::{Expr, Value};
use std::time::Instant;

pub const VERTICES: usize = 100_000;
pub const EDGES: usize = 2_000_000;
const ROUNDS: usize = 7;

pub struct Graph {
    pub indptr: Vec<u64>,
    pub indices: Vec<u32>,
    pub ids: Vec<u32>,
    pub positions: Vec<u32>,
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub fn graph() -> Graph {
    let mut state = 1;
    // R-MAT with the usual probabilities 0.57, 0.19, 0.19, 0.05.
    let mut draw = || loop {
        let (mut dst, mut src) = (0u32, 0u32);
        for bit in 0..17 {
            let quadrant = next(&mut state) % 100;
            dst |= u32::from(quadrant >= 76) << bit;
            src |= u32::from((57..76).contains(&quadrant) || quadrant >= 95) << bit;
        }
        if (dst.max(src) as usize) < VERTICES {
            return (dst, src);
        }
    };
    let mut edges: Vec<(u32, u32)> = (0..EDGES).map(|_| draw()).collect();
    edges.sort_unstable();
    let mut indptr = vec![0u64; VERTICES + 1];
    edges
        .iter()
        .for_each(|edge| indptr[edge.0 as usize + 1] += 1);
    (0..VERTICES).for_each(|v| indptr[v + 1] += indptr[v]);
    let indices = edges.iter().map(|edge| edge.1).collect();
    let positions = (0..EDGES as u32)
        .map(|i| (u64::from(i) * 7919 % EDGES as u64) as u32)
        .collect();
    Graph {
        indptr,
        indices,
        ids: (0..VERTICES as u32).collect(),
        positions,
    }
}

/// A buffer on huge pages, where the system has them.
pub fn floats(len: usize) -> Vec<f32> {
    let mut floats: Vec<f32> = Vec::with_capacity(len + 1024);
    let (start, bytes) = (floats.as_mut_ptr() as usize, floats.capacity() * 4);
    let aligned = start.div_ceil(4096) * 4096;
    if bytes > 4 << 20 {
        // SAFETY: advice on memory that this vector owns.
        unsafe {
            libc::madvise(
                aligned as *mut libc::c_void,
                (bytes - 4096) & !4095,
                libc::MADV_HUGEPAGE,
            )
        };
    }
    floats.extend((0..len).map(|i| (i % 1013) as f32 * 0.001 - 0.5));
    floats
}

/// Medians of both sides in seconds.
pub fn time(mut ours: impl FnMut(), mut plain: impl FnMut()) -> (f64, f64) {
    let once = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    once(&mut ours);
    let (mut a, mut b): (Vec<f64>, Vec<f64>) = (0..ROUNDS)
        .map(|_| (once(&mut ours), once(&mut plain)))
        .unzip();
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    (a[ROUNDS / 2], b[ROUNDS / 2])
}

pub fn report(name: &str, bytes: f64, (ours, plain): (f64, f64)) {
    println!(
        "{name:<28} {:>8.2} ms {:>7.2} GB/s   plain loop {:>8.2} ms {:>7.2} GB/s   x{:.2}",
        ours * 1e3,
        bytes / ours / 1e9,
        plain * 1e3,
        bytes / plain / 1e9,
        plain / ours
    );
}

pub fn expr(values: &[Value]) -> Expr {
    Expr {
        values: values.to_vec(),
    }
}

pub struct Bench {
    pub graph: Graph,
    pub compiler: Compiler,
    pub only: Option<String>,
}

impl Bench {
    pub fn skips(&self, name: &str) -> bool {
        self.only
            .as_ref()
            .is_some_and(|only| !name.contains(only.as_str()))
    }

    pub fn run(
        &self,
        kernel: &Kernel,
        inputs: &[&[f32]],
        outputs: &mut [&mut [f32]],
        rows: usize,
    ) -> impl FnMut() + use<> {
        let args = KernelArgs {
            indptr: &self.graph.indptr,
            indices: &self.graph.indices,
            positions: &self.graph.positions,
            ids: &self.graph.ids,
            inputs: inputs.iter().map(|x| Buffer::input(x)).collect(),
            outputs: outputs.iter_mut().map(|x| Buffer::output(x)).collect(),
            scalars: &[0.9, 0.1, 0.999, 0.01],
            keys: &[0x1234_5678_9abc_def0],
            ..KernelArgs::default()
        };
        args.check(kernel, 0..rows as u64).unwrap();
        let start = Instant::now();
        let compiled = self.compiler.compile(kernel).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        print!("[{:>4.1} ms {:>5} B] ", seconds * 1e3, compiled.code_len());
        let (inputs, outputs): (Vec<_>, Vec<_>) = (
            inputs.iter().map(|x| x.as_ptr()).collect(),
            outputs.iter_mut().map(|x| x.as_mut_ptr()).collect(),
        );
        let raw = args.pack().raw();
        static SCALARS: [f32; 4] = [0.9, 0.1, 0.999, 0.01];
        static KEYS: [u64; 1] = [0x1234_5678_9abc_def0];
        move || {
            let raw = RawArgs {
                inputs: inputs.as_ptr(),
                outputs: outputs.as_ptr(),
                scalars: SCALARS.as_ptr(),
                keys: KEYS.as_ptr(),
                ..raw
            };
            // SAFETY: checked above; the buffers outlive the measurement.
            unsafe { compiled.run(&raw, 0, rows as u64) };
        }
    }
}

pub fn spmm_bytes(width: usize) -> f64 {
    (EDGES * (4 * width + 8) + 4 * VERTICES * width) as f64
}

pub fn plain_spmm(graph: &Graph, x: &[f32], width: usize, out: &mut [f32]) {
    for v in 0..VERTICES {
        let out = &mut out[v * width..(v + 1) * width];
        out.fill(0.0);
        for &u in &graph.indices[graph.indptr[v] as usize..graph.indptr[v + 1] as usize] {
            let row = &x[u as usize * width..(u as usize + 1) * width];
            out.iter_mut().zip(row).for_each(|(y, x)| *y += x);
        }
    }
}

pub fn agree(ours: &[f32], plain: &[f32]) {
    for (i, (a, b)) in ours.iter().zip(plain).enumerate() {
        assert!(
            (a - b).abs() <= 1e-3 * b.abs().max(1.0),
            "element {i}: {a}, plain {b}"
        );
    }
}
