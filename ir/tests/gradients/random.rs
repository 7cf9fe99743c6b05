//! Gradients of random programs with nested scans. They use smooth functions only, because
//! nothing keeps random points away from kinks.

use crate::harness::{Build, FEATURES, compare, context, next};
use gnnc_ir::graph::op::Scan;
use gnnc_ir::kernel::{Axis, End, Reduce};
use gnnc_ir::{Binary, EdgeSet, NodeId, Op, Rows, Type, Unary};

/// Type of every vertex tensor in a random program.
const VERTEX: Type = Type::vertices(2);
/// Type of every matrix.
const MATRIX: Type = Type::matrix(2, 2);

/// Values that the next operators may read.
#[derive(Clone, Default)]
struct Pool {
    vertices: Vec<NodeId>,
    matrices: Vec<NodeId>,
    /// Stacks of [`COUNT`] matrices.
    stacks: Vec<NodeId>,
}

/// Iterations of every scan.
const COUNT: u32 = 3;

struct Program {
    state: u64,
    site: u32,
}

impl Program {
    fn below(&mut self, n: usize) -> usize {
        (next(&mut self.state) >> 33) as usize % n
    }

    fn pick(&mut self, list: &[NodeId]) -> NodeId {
        list[self.below(list.len())]
    }

    /// Adds a vertex tensor with elements near -1 .. 1.
    fn step(&mut self, b: &mut Build, pool: &mut Pool, depth: u32) {
        let x = self.pick(&pool.vertices);
        let y = self.pick(&pool.vertices);
        let w = self.pick(&pool.matrices);
        let node = match self.below(if depth == 0 { 16 } else { 22 }) {
            0 | 12..16 => {
                let h = b.matmul(x, w);
                b.unary(Unary::Tanh, h)
            }
            1 => b.propagate(x),
            2 => b.mul(x, y),
            3 => {
                let sum = b.add(x, y);
                b.scale(0.5, sum)
            }
            4 => {
                self.site += 1;
                let site = self.site;
                let h = b.dropout(0.3, site, x);
                b.unary(Unary::Sigmoid, h)
            }
            5 => b.neighbour_mean(x),
            6 => {
                let score = b.take(EdgeSet::Looped, End::Src, x);
                let alpha = b.op(Op::EdgeSoftmax(EdgeSet::Looped), &[score]);
                let m = b.take(EdgeSet::Looped, End::Src, y);
                let m = b.mul(alpha, m);
                b.gather(EdgeSet::Looped, End::Dst, Reduce::Sum, m)
            }
            7 => {
                let both = b.op(Op::Concat, &[x, y]);
                b.op(Op::SliceCols { start: 1, len: 2 }, &[both])
            }
            8 => {
                let sum = b.sum_cols(Axis::Width, x);
                let sum = b.unary(Unary::Tanh, sum);
                b.binary(Binary::Sub, y, sum)
            }
            9 => b.unary(Unary::Elu, x),
            10 => {
                let own = b.op(Op::MatMulTN, &[x, y]);
                let own = b.unary(Unary::Tanh, own);
                pool.matrices.push(own);
                let h = b.op(Op::MatMulNT, &[x, own]);
                b.unary(Unary::Tanh, h)
            }
            11 => {
                let m = b.take(EdgeSet::Plain, End::Src, x);
                let sum = b.gather(EdgeSet::Plain, End::Dst, Reduce::Sum, m);
                b.unary(Unary::Tanh, sum)
            }
            _ => return self.scan(b, pool, depth),
        };
        pool.vertices.push(node);
    }

    /// Adds a scan with random carries, constants, xs and ys.
    fn scan(&mut self, b: &mut Build, pool: &mut Pool, depth: u32) {
        let (carries, consts) = (1 + self.below(2), self.below(3));
        let mut operands: Vec<NodeId> = (0..carries + consts)
            .map(|_| self.pick(&pool.vertices))
            .collect();
        let mut args = vec![VERTEX; carries + consts];
        // A matrix and a stack of matrices as constants, for inner scans; a stack as xs.
        operands.extend([self.pick(&pool.matrices), self.pick(&pool.stacks)]);
        args.extend([MATRIX, MATRIX.stacked(COUNT)]);
        operands.push(self.pick(&pool.stacks));
        args.push(MATRIX);
        let mut body = Build::body(&args);
        let mut inner = Pool::default();
        for (n, ty) in args.iter().enumerate() {
            let arg = body.arg(n as u32);
            match (ty.rows, ty.stack) {
                (Rows::Vertices, _) => inner.vertices.push(arg),
                (_, 0) => inner.matrices.push(arg),
                _ => inner.stacks.push(arg),
            }
        }
        for _ in 0..2 + self.below(5) {
            self.step(&mut body, &mut inner, depth - 1);
        }
        // The last values are the likeliest carries; a matrix is returned as ys.
        let mut results = Vec::new();
        for _ in 0..carries {
            let late = self.below(inner.vertices.len().min(4));
            results.push(inner.vertices[inner.vertices.len() - 1 - late]);
        }
        let y = self.pick(&inner.matrices);
        let y = body.unary(Unary::Tanh, y);
        results.push(y);
        body.graph.results = results;
        let scan = Scan {
            count: COUNT,
            reverse: self.below(2) == 0,
            carries: carries as u32,
            consts: consts as u32 + 2,
            xs: 1,
            body: body.graph,
        };
        let out = b.scan(scan, &operands);
        pool.vertices.extend(&out[..carries]);
        pool.stacks.push(out[carries]);
    }
}

#[test]
fn random_programs() {
    let mut trained = 0;
    for seed in 0..150 {
        let mut program = Program {
            state: seed,
            site: 0,
        };
        let mut b = Build::new(FEATURES);
        let x = b.vertex(1, 2);
        let x = b.unary(Unary::Tanh, x);
        let mut pool = Pool {
            vertices: vec![x],
            ..Pool::default()
        };
        pool.matrices.push(b.param(MATRIX));
        pool.stacks.push(b.param(MATRIX.stacked(COUNT)));
        for _ in 0..2 + program.below(3) {
            program.step(&mut b, &mut pool, 2);
        }
        program.scan(&mut b, &mut pool, 2);
        let all = b.op(Op::Concat, &pool.vertices);
        let graph = b.squares(all);
        let (_, largest) = compare(&graph, &context(&graph, seed, seed % 2 == 0), 1e-2);
        trained += largest.iter().filter(|g| **g > 1e-2).count();
    }
    // Not all matrices of all programs matter, but most do.
    assert!(trained > 250, "{trained} gradients of 450");
}
