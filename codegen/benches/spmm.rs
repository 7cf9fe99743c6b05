//! How fast compiled kernels are, beside plain Rust loops that the compiler vectorises.
//!
//! `cargo bench -p gnnc-codegen --bench spmm [-- NAME]` prints medians of one thread on a random graph
//! with heavy-tailed degrees (R-MAT), 100 K vertices and 2 M edges. The two sides of a line run in
//! turns, so that other load on the machine meets both.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod harness;

use gnnc_codegen::cpu::Compiler;
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Axis, Body, End, Kernel, Mask, Operand, Over, Reduce};
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::words::types::EdgeSet;
use harness::{
    Bench, EDGES, VERTICES, agree, expr, floats, graph, plain_spmm, report, spmm_bytes, time,
};

impl Bench {
    fn spmm(&self, width: usize) {
        let name = format!("spmm F={width}");
        if self.skips(&name) {
            return;
        }
        let kernel = Kernel {
            body: Body::Gather {
                set: EdgeSet::Plain,
                to: End::Dst,
                reduce: Reduce::Sum,
                value: Expr::leaf(Value::Load(0)),
                finish: Expr::leaf(Value::Acc),
            },
            heads: 1,
            width: width as u32,
            inputs: vec![Operand::dense(At::Src, 1, width as u32)],
            outputs: vec![Operand::dense(At::Row, 1, width as u32)],
            masks: vec![],
            scalars: 0,
        };
        let x = floats(VERTICES * width);
        let (mut ours, mut plain) = (floats(VERTICES * width), floats(VERTICES * width));
        let run = self.run(&kernel, &[&x], &mut [&mut ours], VERTICES);
        let graph = &self.graph;
        let times = time(run, || plain_spmm(graph, &x, width, &mut plain));
        agree(&ours, &plain);
        report(&name, spmm_bytes(width), times);
    }

    /// The finishing expression of a GCN layer.
    fn spmm_fused(&self, width: usize) {
        let name = format!("spmm relu F={width}");
        if self.skips(&name) {
            return;
        }
        let finish = expr(&[
            Value::Acc,
            Value::Load(1),
            Value::Binary(Binary::Mul, 0, 1),
            Value::Load(2),
            Value::Binary(Binary::Add, 2, 3),
            Value::Unary(Unary::Relu, 4),
        ]);
        let w = width as u32;
        let kernel = Kernel {
            body: Body::Gather {
                set: EdgeSet::Plain,
                to: End::Dst,
                reduce: Reduce::Sum,
                value: Expr::leaf(Value::Load(0)),
                finish,
            },
            heads: 1,
            width: w,
            inputs: vec![
                Operand::dense(At::Src, 1, w),
                Operand {
                    at: At::Row,
                    stride: 1,
                    offset: 0,
                    head_step: 0,
                    column_step: 0,
                    storage: Default::default(),
                    picked: None,
                },
                Operand::dense(At::One, 1, w),
            ],
            outputs: vec![Operand::dense(At::Row, 1, w)],
            masks: vec![],
            scalars: 0,
        };
        let (x, scale, bias) = (floats(VERTICES * width), floats(VERTICES), floats(width));
        let (mut ours, mut plain) = (floats(VERTICES * width), floats(VERTICES * width));
        let run = self.run(&kernel, &[&x, &scale, &bias], &mut [&mut ours], VERTICES);
        let graph = &self.graph;
        let times = time(run, || {
            plain_spmm(graph, &x, width, &mut plain);
            for (row, scale) in plain.chunks_exact_mut(width).zip(&scale) {
                row.iter_mut()
                    .zip(&bias)
                    .for_each(|(y, b)| *y = (*y * scale + b).max(0.0));
            }
        });
        agree(&ours, &plain);
        report(&name, spmm_bytes(width), times);
    }

    /// Attention-weighted sum; to the source, weights are found through edge positions.
    fn weighted(&self, to: End, heads: usize, width: usize) {
        let name = format!("weighted {to:?} {heads} x {width}");
        if self.skips(&name) {
            return;
        }
        let (h, w) = (heads as u32, width as u32);
        let (other, columns) = (
            if to == End::Dst { At::Src } else { At::Dst },
            heads * width,
        );
        let weight = Operand {
            at: At::Edge,
            stride: h,
            offset: 0,
            head_step: u32::from(heads > 1),
            column_step: 0,
            storage: Default::default(),
            picked: None,
        };
        let kernel = Kernel {
            body: Body::Gather {
                set: EdgeSet::Plain,
                to,
                reduce: Reduce::Sum,
                value: expr(&[
                    Value::Load(0),
                    Value::Load(1),
                    Value::Binary(Binary::Mul, 0, 1),
                ]),
                finish: Expr::leaf(Value::Acc),
            },
            heads: h,
            width: w,
            inputs: vec![weight, Operand::dense(other, h, w)],
            outputs: vec![Operand::dense(At::Row, h, w)],
            masks: vec![],
            scalars: 0,
        };
        let (weights, x) = (floats(EDGES * heads), floats(VERTICES * columns));
        let (mut ours, mut plain) = (floats(VERTICES * columns), floats(VERTICES * columns));
        let run = self.run(&kernel, &[&weights, &x], &mut [&mut ours], VERTICES);
        let graph = &self.graph;
        let times = time(run, || {
            for v in 0..VERTICES {
                let out = &mut plain[v * columns..(v + 1) * columns];
                out.fill(0.0);
                for k in graph.indptr[v] as usize..graph.indptr[v + 1] as usize {
                    let u = graph.indices[k] as usize;
                    let edge = if to == End::Dst {
                        k
                    } else {
                        graph.positions[k] as usize
                    };
                    let row = &x[u * columns..(u + 1) * columns];
                    let weights = &weights[edge * heads..(edge + 1) * heads];
                    for (h, weight) in weights.iter().enumerate() {
                        let span = h * width..(h + 1) * width;
                        out[span.clone()]
                            .iter_mut()
                            .zip(&row[span])
                            .for_each(|(y, x)| *y += weight * x);
                    }
                }
            }
        });
        agree(&ours, &plain);
        report(
            &name,
            spmm_bytes(columns) + (EDGES * heads * 4) as f64,
            times,
        );
    }

    fn sddmm(&self, heads: usize, width: usize) {
        let name = format!("sddmm {heads} x {width}");
        if self.skips(&name) {
            return;
        }
        let (h, w, columns) = (heads as u32, width as u32, heads * width);
        let kernel = Kernel {
            body: Body::RowReduce {
                over: Over::Edges(EdgeSet::Plain),
                axis: Axis::Width,
                reduce: Reduce::Sum,
                value: expr(&[
                    Value::Load(0),
                    Value::Load(1),
                    Value::Binary(Binary::Mul, 0, 1),
                ]),
                finish: Expr::leaf(Value::Acc),
            },
            heads: h,
            width: w,
            inputs: vec![Operand::dense(At::Src, h, w), Operand::dense(At::Dst, h, w)],
            outputs: vec![Operand::dense(At::Edge, h, 1)],
            masks: vec![],
            scalars: 0,
        };
        let (x, y) = (floats(VERTICES * columns), floats(VERTICES * columns));
        let (mut ours, mut plain) = (floats(EDGES * heads), floats(EDGES * heads));
        let run = self.run(&kernel, &[&x, &y], &mut [&mut ours], VERTICES);
        let graph = &self.graph;
        let times = time(run, || {
            for v in 0..VERTICES {
                let own = &y[v * columns..(v + 1) * columns];
                for k in graph.indptr[v] as usize..graph.indptr[v + 1] as usize {
                    let u = graph.indices[k] as usize;
                    let row = &x[u * columns..(u + 1) * columns];
                    for h in 0..heads {
                        let span = h * width..(h + 1) * width;
                        plain[k * heads + h] = row[span.clone()]
                            .iter()
                            .zip(&own[span])
                            .map(|(a, b)| a * b)
                            .sum();
                    }
                }
            }
        });
        agree(&ours, &plain);
        report(
            &name,
            spmm_bytes(columns) + (EDGES * heads * 4) as f64,
            times,
        );
    }

    fn map(&self, width: usize) {
        let name = format!("map dropout relu {width}");
        if self.skips(&name) {
            return;
        }
        let w = width as u32;
        let value = expr(&[
            Value::Load(0),
            Value::Load(1),
            Value::Binary(Binary::Add, 0, 1),
            Value::Unary(Unary::Relu, 2),
            Value::Mask(0),
            Value::Binary(Binary::Mul, 3, 4),
        ]);
        let kernel = Kernel {
            body: Body::Map {
                over: Over::Rows,
                values: vec![value],
            },
            heads: 1,
            width: w,
            inputs: vec![Operand::dense(At::Row, 1, w), Operand::dense(At::One, 1, w)],
            outputs: vec![Operand::dense(At::Row, 1, w)],
            masks: vec![Mask {
                p: 0.5,
                at: At::Row,
                first: 0,
                head_step: 0,
                column_step: 1,
            }],
            scalars: 0,
        };
        let (x, bias) = (floats(VERTICES * width), floats(width));
        let (mut ours, mut plain) = (floats(VERTICES * width), floats(VERTICES * width));
        let run = self.run(&kernel, &[&x, &bias], &mut [&mut ours], VERTICES);
        let times = time(run, || {
            for v in 0..VERTICES {
                let hash = gnnc_ir::kernel::vertex_hash(0x1234_5678_9abc_def0, v as u32);
                for c in 0..width {
                    let kept = gnnc_ir::kernel::keep(hash, c as u32, 0.5);
                    let y = (x[v * width + c] + bias[c]).max(0.0);
                    plain[v * width + c] = if kept { 2.0 * y } else { 0.0 };
                }
            }
        });
        agree(&ours, &plain);
        report(&name, (VERTICES * width * 8) as f64, times);
    }

    fn adam(&self) {
        if self.skips("adam") {
            return;
        }
        // m = b m + a g; v = b' v + a' g g; w = w - m / (sqrt(v) + eps).
        let load = |n| Value::Load(n);
        let m = [
            load(2),
            Value::Scalar(0),
            Value::Binary(Binary::Mul, 0, 1),
            load(1),
            Value::Scalar(1),
            Value::Binary(Binary::Mul, 3, 4),
            Value::Binary(Binary::Add, 2, 5),
        ];
        let v = [
            load(3),
            Value::Scalar(2),
            Value::Binary(Binary::Mul, 0, 1),
            load(1),
            Value::Scalar(3),
            Value::Binary(Binary::Mul, 3, 4),
            Value::Binary(Binary::Mul, 3, 5),
            Value::Binary(Binary::Add, 2, 6),
        ];
        let mut w = m.to_vec();
        w.extend([
            load(3),
            Value::Scalar(2),
            Value::Binary(Binary::Mul, 7, 8),
            Value::Scalar(3),
            Value::Binary(Binary::Mul, 3, 10),
            Value::Binary(Binary::Mul, 3, 11),
            Value::Binary(Binary::Add, 9, 12),
            Value::Unary(Unary::Sqrt, 13),
            Value::Const(1e-8),
            Value::Binary(Binary::Add, 14, 15),
            Value::Binary(Binary::Div, 6, 16),
            load(0),
            Value::Binary(Binary::Sub, 18, 17),
        ]);
        let row = Operand::dense(At::Row, 1, 1);
        let kernel = Kernel {
            body: Body::Map {
                over: Over::Rows,
                values: vec![expr(&w), expr(&m), expr(&v)],
            },
            heads: 1,
            width: 1,
            inputs: vec![row; 4],
            outputs: vec![row; 3],
            masks: vec![],
            scalars: 4,
        };
        let n = 4_000_000;
        let (w, g, m, v) = (floats(n), floats(n), floats(n), vec![1f32; n]);
        let mut ours = [floats(n), floats(n), floats(n)];
        let mut plain = [floats(n), floats(n), floats(n)];
        let [a, b, c] = &mut ours;
        let run = self.run(&kernel, &[&w, &g, &m, &v], &mut [a, b, c], n);
        let times = time(run, || {
            let [a, b, c] = &mut plain;
            for i in 0..n {
                b[i] = 0.9 * m[i] + 0.1 * g[i];
                c[i] = 0.999 * v[i] + 0.01 * g[i] * g[i];
                a[i] = w[i] - b[i] / (c[i].sqrt() + 1e-8);
            }
        });
        ours.iter().zip(&plain).for_each(|(a, b)| agree(a, b));
        report("adam", (n * 28) as f64, times);
    }

    fn col_reduce(&self, width: usize) {
        let name = format!("col-reduce {width}");
        if self.skips(&name) {
            return;
        }
        let w = width as u32;
        let kernel = Kernel {
            body: Body::ColReduce {
                over: Over::Rows,
                value: Expr::leaf(Value::Load(0)),
            },
            heads: 1,
            width: w,
            inputs: vec![Operand::dense(At::Row, 1, w)],
            outputs: vec![Operand::dense(At::One, 1, w)],
            masks: vec![],
            scalars: 0,
        };
        let rows = 1024;
        let x = floats(rows * width);
        let (mut ours, mut plain) = (floats(width), floats(width));
        let mut run = self.run(&kernel, &[&x], &mut [&mut ours], rows);
        let again = 100;
        let times = time(
            || (0..again).for_each(|_| run()),
            || {
                for _ in 0..again {
                    plain.fill(0.0);
                    for row in std::hint::black_box(&x).chunks_exact(width) {
                        plain.iter_mut().zip(row).for_each(|(y, x)| *y += x);
                    }
                }
            },
        );
        agree(&ours, &plain);
        report(&name, (again * rows * width * 4) as f64, times);
    }
}

fn main() {
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let bench = Bench {
        graph: graph(),
        compiler: Compiler::new(None).unwrap(),
        only,
    };
    [16, 64, 128, 256, 602]
        .into_iter()
        .for_each(|width| bench.spmm(width));
    [7, 41, 64]
        .into_iter()
        .for_each(|width| bench.spmm_fused(width));
    for to in [End::Dst, End::Src] {
        bench.weighted(to, 8, 8);
        bench.weighted(to, 1, 64);
    }
    bench.weighted(End::Src, 8, 1);
    [(8, 8), (1, 64)]
        .into_iter()
        .for_each(|(heads, width)| bench.sddmm(heads, width));
    [64, 41].into_iter().for_each(|width| bench.map(width));
    bench.adam();
    [16, 256]
        .into_iter()
        .for_each(|width| bench.col_reduce(width));
}
