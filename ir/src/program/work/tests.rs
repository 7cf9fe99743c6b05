//! Costs counted by hand.

mod demand;
mod picks;

use super::*;
use crate::kernel::expr::{Expr, Value};
use crate::kernel::{EdgeNumber, EdgePass, EdgeResult, Operand, Reduce};
use crate::program::BatchSizes;
use crate::program::instr;
use crate::program::{Buffer, BufferId, KernelId, Role};
use crate::program::{Matrix, Product};
use crate::words::scalar::{Binary, Unary};
use crate::words::types::EdgeSet;
use crate::words::types::NamedEdges;

/// 10 own vertices, 4 in the halo, 30 edges, 50 feature non-zeros.
const SIZES: RankSizes = RankSizes {
    elsewhere: 0,
    all_halo: 0,
    max_degree: 4,
    batch: BatchSizes::NONE,
    inner: 10,
    train: 10,
    halo: 4,
    edges: 30,
    named_edges: NamedEdges::NONE,
    all_named_edges: NamedEdges::NONE,
    feature_nonzeros: 50,
    slice_nonzeros: 40,
    vertices: 0,
    all_edges: 0,
    reach: crate::program::Reach {
        interior: 0,
        interior_edges: 0,
        halo_edges: 0,
    },
};

fn at(n: u32) -> Ref {
    Ref::first(BufferId(n))
}

fn load(n: u16) -> Expr {
    Expr::leaf(Value::Load(n))
}

fn product(a: u16, b: u16) -> Expr {
    Expr {
        values: vec![
            Value::Load(a),
            Value::Load(b),
            Value::Binary(Binary::Mul, 0, 1),
        ],
    }
}

fn acc() -> Expr {
    Expr::leaf(Value::Acc)
}

fn launch(rows: Extent, inputs: u32, outputs: u32) -> Launch {
    Launch {
        kernel: KernelId(0),
        rows,
        inputs: (0..inputs).map(at).collect(),
        outputs: (inputs..inputs + outputs).map(at).collect(),
        scalars: Vec::new(),
        sites: Vec::new(),
        lists: Vec::new(),
        chunk: None,
    }
}

fn kernel(
    body: Body,
    heads: u32,
    width: u32,
    inputs: Vec<Operand>,
    outputs: Vec<Operand>,
) -> Kernel {
    Kernel {
        body,
        heads,
        width,
        inputs,
        outputs,
        masks: Vec::new(),
        scalars: 0,
    }
}

fn cost(kernel: Kernel, rows: Extent) -> Work {
    let launch = launch(
        rows,
        kernel.inputs.len() as u32,
        kernel.outputs.len() as u32,
    );
    let program = Program {
        ranks: 1,
        kernels: vec![kernel],
        ..Program::default()
    };
    work(&program, &Instr::Launch(launch), &SIZES).unwrap()
}

fn expect(found: Work, class: KernelClass, flops: f64, read: u64, written: u64) {
    let wanted = Work {
        class,
        flops: Flops(flops),
        read: Bytes(read),
        written: Bytes(written),
    };
    assert_eq!(found, wanted);
}

#[test]
fn a_gather_reads_a_source_row_for_every_edge() {
    let body = Body::Gather {
        set: EdgeSet::Looped,
        to: End::Dst,
        reduce: Reduce::Sum,
        value: load(0),
        finish: Expr {
            values: vec![Value::Acc, Value::Load(1), Value::Binary(Binary::Mul, 0, 1)],
        },
    };
    let inputs = vec![Operand::dense(At::Src, 1, 8), Operand::dense(At::Row, 1, 1)];
    let found = cost(
        kernel(body, 1, 8, inputs, vec![Operand::dense(At::Row, 1, 8)]),
        Extent::Inner,
    );
    // 40 edges of 8 floats, a scale for each of 10 rows, 11 offsets, 40 indices.
    let read = 40 * 8 * 4 + 10 * 4 + 11 * 8 + 40 * 4;
    expect(
        found,
        KernelClass::Spmm,
        40.0 * 8.0 + 10.0 * 8.0,
        read,
        10 * 8 * 4,
    );
}

#[test]
fn a_weighted_transposed_gather_reads_the_permutation() {
    let body = Body::Gather {
        set: EdgeSet::Plain,
        to: End::Src,
        reduce: Reduce::Sum,
        value: product(0, 1),
        finish: acc(),
    };
    // 2 heads of 4 columns, one weight for each edge and head, a value of the source itself.
    let weight = Operand {
        column_step: 0,
        ..Operand {
            head_step: 1,
            ..Operand::dense(At::Edge, 2, 1)
        }
    };
    let inputs = vec![Operand::dense(At::Dst, 2, 4), weight];
    let found = cost(
        kernel(body, 2, 4, inputs, vec![Operand::dense(At::Row, 2, 4)]),
        Extent::Local,
    );
    let read = 30 * 8 * 4 + 30 * 2 * 4 + 15 * 8 + 2 * 30 * 4;
    expect(
        found,
        KernelClass::SpmmT,
        30.0 * 8.0 * 2.0,
        read,
        14 * 8 * 4,
    );
}

#[test]
fn an_edge_map_reads_the_destination_once_a_vertex() {
    let add = Expr {
        values: vec![
            Value::Load(0),
            Value::Load(1),
            Value::Binary(Binary::Add, 0, 1),
        ],
    };
    let body = Body::Map {
        over: Over::Edges(EdgeSet::Plain),
        values: vec![add],
    };
    let inputs = vec![Operand::dense(At::Src, 1, 2), Operand::dense(At::Dst, 1, 2)];
    let found = cost(
        kernel(body, 1, 2, inputs, vec![Operand::dense(At::Row, 1, 2)]),
        Extent::Inner,
    );
    let read = 30 * 2 * 4 + 10 * 2 * 4 + 11 * 8 + 30 * 4;
    expect(found, KernelClass::Edges, 60.0, read, 30 * 2 * 4);
}

#[test]
fn a_map_loads_each_operand_once_and_a_bias_once_in_all() {
    let square = Expr {
        values: vec![
            Value::Load(0),
            Value::Load(1),
            Value::Binary(Binary::Add, 0, 1),
        ],
    };
    let exp = Expr {
        values: vec![Value::Load(0), Value::Unary(Unary::Exp, 0)],
    };
    let body = Body::Map {
        over: Over::Rows,
        values: vec![square, exp],
    };
    let inputs = vec![
        Operand::dense(At::Row, 1, 16),
        Operand::dense(At::One, 1, 16),
    ];
    let out = Operand::dense(At::Row, 1, 16);
    let found = cost(kernel(body, 1, 16, inputs, vec![out, out]), Extent::Local);
    expect(
        found,
        KernelClass::Map,
        14.0 * 16.0 * 9.0,
        14 * 64 + 64,
        2 * 14 * 64,
    );
}

#[test]
fn a_row_reduction_writes_one_value_a_head() {
    let body = Body::RowReduce {
        over: Over::Rows,
        axis: Axis::Width,
        reduce: Reduce::Sum,
        value: product(0, 1),
        finish: acc(),
    };
    let inputs = vec![Operand::dense(At::Row, 2, 4), Operand::dense(At::One, 2, 4)];
    let found = cost(
        kernel(body, 2, 4, inputs, vec![Operand::dense(At::Row, 2, 1)]),
        Extent::Inner,
    );
    expect(
        found,
        KernelClass::Reduce,
        10.0 * 8.0 * 2.0,
        10 * 32 + 32,
        10 * 2 * 4,
    );
}

#[test]
fn a_column_reduction_writes_one_row() {
    let body = Body::ColReduce {
        over: Over::Rows,
        value: load(0),
    };
    let inputs = vec![Operand::dense(At::Row, 1, 4)];
    let found = cost(
        kernel(body, 1, 4, inputs, vec![Operand::dense(At::One, 1, 4)]),
        Extent::Inner,
    );
    expect(found, KernelClass::Reduce, 40.0, 160, 16);
}

/// Attention with 2 heads of 4 columns: scores, sums weighted by their softmax, log-sum-exps.
#[test]
fn an_edge_pass_reads_each_row_once_for_all_its_results() {
    let score = Expr {
        values: vec![
            Value::Load(0),
            Value::Load(1),
            Value::Binary(Binary::Add, 0, 1),
            Value::Unary(Unary::LeakyRelu(0.2), 2),
        ],
    };
    let body = Body::EdgePass(EdgePass {
        set: EdgeSet::Plain,
        to: End::Dst,
        numbers: vec![EdgeNumber {
            value: score,
            dot: false,
        }],
        softmax: Some(0),
        results: vec![
            EdgeResult::Sum {
                value: load(2),
                finish: acc(),
            },
            EdgeResult::LogSumExp,
        ],
    });
    let number = |at| Operand {
        head_step: 1,
        column_step: 0,
        ..Operand::dense(at, 2, 1)
    };
    let inputs = vec![
        number(At::Src),
        number(At::Dst),
        Operand::dense(At::Src, 2, 4),
    ];
    let outputs = vec![Operand::dense(At::Row, 2, 4), number(At::Row)];
    let found = cost(kernel(body, 2, 4, inputs, outputs), Extent::Inner);
    // For each edge: the score, maximum, difference, exponential and sum, and 4 columns that are
    // weighted and added. For each row: 4 columns times the inverse sum, and a logarithm.
    let flops = 2.0 * (30.0 * (2.0 + 11.0 + 8.0) + 10.0 * (4.0 + 9.0));
    let read = 30 * 2 * 4 + 10 * 2 * 4 + 30 * 8 * 4 + 11 * 8 + 30 * 4;
    expect(
        found,
        KernelClass::EdgePass,
        flops,
        read,
        10 * 8 * 4 + 10 * 2 * 4,
    );
}

fn buffer(extent: Extent, columns: u32) -> Buffer {
    Buffer {
        name: String::new(),
        extent,
        columns,
        slots: 1,
        role: Role::Temp,
        storage: Default::default(),
    }
}

#[test]
fn a_product_counts_its_three_matrices_and_not_what_is_fused() {
    let bias = Expr {
        values: vec![
            Value::Load(0),
            Value::Load(1),
            Value::Binary(Binary::Add, 0, 1),
        ],
    };
    let finish = kernel(
        Body::Map {
            over: Over::Rows,
            values: vec![bias],
        },
        1,
        3,
        vec![Operand::dense(At::Row, 1, 3), Operand::dense(At::One, 1, 3)],
        vec![Operand::dense(At::Row, 1, 3)],
    );
    let program = Program {
        ranks: 1,
        kernels: vec![finish],
        buffers: vec![
            buffer(Extent::Inner, 5),
            buffer(Extent::Fixed(5), 3),
            buffer(Extent::Inner, 3),
        ],
        ..Program::default()
    };
    let matrix = |n: u32, stride| Matrix {
        at: at(n),
        offset: 0,
        stride,
    };
    let mut instr = Instr::MatMul(instr::MatMul {
        product: Product::Nn,
        a: matrix(0, 5),
        b: matrix(1, 3),
        out: matrix(2, 3),
        rows: Extent::Inner,
        inner: 5,
        columns: 3,
        finish: None,
        chunk: None,
    });
    let plain = work(&program, &instr, &SIZES).unwrap();
    expect(plain, KernelClass::Gemm, 300.0, (50 + 15) * 4, 30 * 4);
    if let Instr::MatMul(instr::MatMul { finish, .. }) = &mut instr {
        let fused = Launch {
            inputs: vec![at(2), at(3)],
            outputs: vec![at(2)],
            ..launch(Extent::Inner, 0, 0)
        };
        *finish = Some(fused);
    }
    let fused = work(&program, &instr, &SIZES).unwrap();
    expect(fused, KernelClass::Gemm, 330.0, (50 + 15 + 3) * 4, 30 * 4);
    if let Instr::MatMul(instr::MatMul {
        product, finish, ..
    }) = &mut instr
    {
        (*product, *finish) = (Product::Tn, None);
    }
    let transposed = work(&program, &instr, &SIZES).unwrap();
    expect(transposed, KernelClass::Gemm, 300.0, (50 + 30) * 4, 15 * 4);
}

#[test]
fn sparse_features_cost_by_non_zero() {
    let program = Program {
        ranks: 1,
        buffers: vec![
            buffer(Extent::FeatureNonzeros, 1),
            buffer(Extent::Fixed(7), 2),
            buffer(Extent::Inner, 2),
        ],
        ..Program::default()
    };
    let matrix = |n: u32| Matrix {
        at: at(n),
        offset: 0,
        stride: 2,
    };
    let instr = |product| {
        Instr::SparseMatMul(instr::SparseMatMul {
            product,
            values: at(0),
            b: matrix(1),
            out: matrix(2),
            inner: 7,
            columns: 2,
        })
    };
    let forward = work(&program, &instr(Product::Nn), &SIZES).unwrap();
    expect(
        forward,
        KernelClass::SparseGemm,
        200.0,
        11 * 8 + 50 * 16,
        80,
    );
    let backward = work(&program, &instr(Product::Tn), &SIZES).unwrap();
    expect(
        backward,
        KernelClass::SparseGemm,
        200.0,
        8 * 8 + 50 * 16,
        56,
    );
}

#[test]
fn communication_and_loops_are_not_work() {
    let program = Program {
        ranks: 2,
        buffers: vec![buffer(Extent::Local, 1)],
        ..Program::default()
    };
    assert_eq!(
        work(
            &program,
            &Instr::HaloExchange(instr::HaloExchange::of(at(0))),
            &SIZES
        ),
        None
    );
    let repeat = Instr::Repeat(instr::Repeat {
        count: 3,
        reverse: false,
        body: Vec::new(),
    });
    assert_eq!(work(&program, &repeat, &SIZES), None);
}
