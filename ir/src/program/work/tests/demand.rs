//! Demands on a calibrated machine, counted by hand.

use super::*;
use crate::kernel::Mask;
use crate::program::instr;
use crate::program::{Matrix, Product};
use crate::words::sampling::{Cut, Exclude, Fanout, Kind, Negatives, Roots, Sampling};
use crate::words::scalar::Unary;
use crate::words::types::Level;
use crate::workload::Reuse;

/// The named counts; all others are 0.
fn named(terms: &[(&str, f64)]) -> [f64; TERM_COUNT] {
    let count = |name: &str| terms.iter().find(|(of, _)| *of == name);
    for (name, _) in terms {
        assert!(TERMS.contains(name), "{name}");
    }
    TERMS.map(|name| count(name).map_or(0.0, |(_, count)| *count))
}

/// The root of a value, with dropout.
fn dropped_root(value: Value) -> Expr {
    Expr {
        values: vec![
            value,
            Value::Unary(Unary::Sqrt, 0),
            Value::Mask(0),
            Value::Binary(Binary::Mul, 1, 2),
        ],
    }
}

/// Roots and draws of a kernel with eight columns and one mask, over everything in [`SIZES`] or
/// fused with a product.
fn roots_and_draws(body: Body, at_input: At, fused: bool) -> (f64, f64) {
    let mask = Mask {
        p: 0.5,
        at: At::Row,
        first: 0,
        head_step: 0,
        column_step: 1,
    };
    let dense = |at: At| Operand::dense(at, 1, 8);
    let kernel = Kernel {
        masks: vec![mask],
        ..kernel(body, 1, 8, vec![dense(at_input)], vec![dense(At::Row)])
    };
    let launch = launch(Extent::Inner, 1, 1);
    let matrix = |n: u32| Matrix {
        at: at(n),
        offset: 0,
        stride: 8,
    };
    let instr = match fused {
        false => Instr::Launch(launch),
        true => Instr::MatMul(instr::MatMul {
            product: Product::Nn,
            a: matrix(0),
            b: matrix(2),
            out: matrix(1),
            rows: Extent::Inner,
            inner: 8,
            columns: 8,
            finish: Some(launch),
            chunk: None,
        }),
    };
    let program = Program {
        ranks: 1,
        kernels: vec![kernel],
        buffers: vec![
            buffer(Extent::Local, 8),
            buffer(Extent::Inner, 8),
            buffer(Extent::Fixed(8), 8),
        ],
        ..Program::default()
    };
    let found = demand(&program, &instr, &SIZES, &SIZES, &Reuse::default())
        .unwrap()
        .terms;
    let count = |name: &str| {
        TERMS
            .iter()
            .position(|term| *term == name)
            .map(|n| found[n])
    };
    (count("slow").unwrap(), count("draw").unwrap())
}

/// Logits of vertices outside the training set are not read; their gradient is written as
/// zeros.
#[test]
fn a_loss_costs_by_training_vertex() {
    let program = Program {
        buffers: vec![buffer(Extent::Inner, 3)],
        ..Program::default()
    };
    let instr = Instr::Loss(instr::Loss {
        loss: Loss::CROSS_ENTROPY,
        logits: at(0),
        out: None,
        grad: Some(at(0)),
        classes: 3,
    });
    let sizes = RankSizes { train: 4, ..SIZES };
    let found = demand(&program, &instr, &sizes, &sizes, &Reuse::default()).unwrap();
    assert_eq!(found.group, "loss");
    let expected = [
        ("launch", 1.0),
        ("row", 10.0),
        ("edge", 4.0),
        ("exp", 12.0),
        ("stream_32k", f64::from(4 * 3 * (4 + 10))),
    ];
    assert_eq!(found.terms, named(&expected));
}

/// A draw takes longer than a root, so they are counted apart everywhere.
#[test]
fn draws_are_counted_by_themselves() {
    let map = || Body::Map {
        over: Over::Rows,
        values: vec![dropped_root(Value::Load(0))],
    };
    // Two vectors for each of 10 rows.
    assert_eq!(roots_and_draws(map(), At::Row, false), (20.0, 20.0));
    assert_eq!(roots_and_draws(map(), At::Row, true), (20.0, 20.0));
    let gather = |value: Expr, finish: Expr| Body::Gather {
        set: EdgeSet::Looped,
        to: End::Dst,
        reduce: Reduce::Sum,
        value,
        finish,
    };
    let after = gather(load(0), dropped_root(Value::Acc));
    assert_eq!(roots_and_draws(after, At::Src, false), (20.0, 20.0));
    // Two vectors for each of 40 edges.
    let before = gather(dropped_root(Value::Load(0)), acc());
    assert_eq!(roots_and_draws(before, At::Src, false), (80.0, 80.0));
}

#[test]
fn sparse_features_draw_for_each_non_zero() {
    let program = Program {
        ranks: 1,
        buffers: vec![
            buffer(Extent::FeatureNonzeros, 1),
            buffer(Extent::FeatureNonzeros, 1),
        ],
        ..Program::default()
    };
    let instr = Instr::SparseDropout(instr::SparseDropout {
        values: at(0),
        out: at(1),
        p: 0.5,
        site: 0.into(),
    });
    let found = demand(&program, &instr, &SIZES, &SIZES, &Reuse::default()).unwrap();
    assert_eq!(found.group, "copy");
    let expected = [
        ("launch", 1.0),
        ("row", 10.0),
        ("draw", 50.0),
        ("stream_32k", f64::from(12 * 50)),
    ];
    assert_eq!(found.terms, named(&expected));
}

/// Two hops: 5 seeds have 20 edges kept, and the 15 vertices of level 1 have 40.
#[test]
fn a_draw_picks_edges_or_whole_rows() {
    let sizes = RankSizes {
        batch: BatchSizes {
            levels: std::array::from_fn(|n| [25, 15, 5].get(n).copied().unwrap_or(0)),
            edges: std::array::from_fn(|n| [0, 40, 20].get(n).copied().unwrap_or(0)),
            ..BatchSizes::NONE
        },
        vertices: 100,
        all_edges: 800,
        ..SIZES
    };
    let sampling = |fanout| Sampling {
        batch: 5,
        fanouts: vec![Fanout::Each(fanout); 2],
        over: Vec::new(),
        kind: Kind::Neighbor,
        cut: Cut::Even,
        roots: Roots::Home,
        merges: None,
        exclude: Exclude::Seeds,
        negatives: Negatives::Given,
        cache: None,
        topology: Default::default(),
    };
    let sample = Instr::Sample(instr::Sample {});
    let of = |fanout| {
        let program = Program {
            sampling: Some(sampling(fanout)),
            ..Program::default()
        };
        demand(&program, &sample, &sizes, &sizes, &Reuse::default()).unwrap()
    };
    // No vertex has more than 4 edges.
    let (drawn, whole) = (of(3), of(4));
    assert_eq!((drawn.group, whole.group), ("sample", "sample"));
    let counts = |lines: f64| {
        named(&[
            ("launch", 1.0),
            ("row", 20.0),
            ("edge", 60.0),
            ("line_32k", lines),
            ("wait_32k", 60.0),
            ("stream_32k", 16.0 * 60.0),
        ])
    };
    assert_eq!(drawn.terms, counts(60.0));
    // 20 rows of 3 edges, whose 12 bytes may begin anywhere in a line.
    assert_eq!(whole.terms, counts(20.0 * (1.0 + 8.0 / 64.0)));
}

/// Columns of rows of 64 KiB.
const WIDE: u32 = 1 << 14;

/// A sum over the edges into `rows`, of wide rows that are picked out of `from`.
fn wide_sum(rows: Extent, from: Extent) -> (Program, Instr) {
    let value = Expr {
        values: vec![Value::Load(0)],
    };
    let body = Body::Gather {
        set: EdgeSet::Looped,
        to: End::Dst,
        reduce: Reduce::Sum,
        value,
        finish: acc(),
    };
    let dense = |at: At| Operand::dense(at, 1, WIDE);
    let (input, output) = (vec![dense(At::Src)], vec![dense(At::Row)]);
    let program = Program {
        ranks: 1,
        kernels: vec![kernel(body, 1, WIDE, input, output)],
        buffers: vec![buffer(from, WIDE), buffer(rows, WIDE)],
        ..Program::default()
    };
    (program, Instr::Launch(launch(rows, 1, 1)))
}

/// The count of a term.
fn count(demand: &Demand, name: &str) -> f64 {
    let place = TERMS.iter().position(|term| *term == name);
    demand.terms[place.unwrap()]
}

/// Lines of picked rows come from the smallest memory that keeps them until they are picked again.
#[test]
fn picked_lines_come_from_what_still_has_them() {
    let (program, instr) = wide_sum(Extent::Inner, Extent::Local);
    let lines = |counted: &[f64]| {
        let reuse = Reuse {
            variation: 0.0,
            rows: 14.0,
            counted: counted.to_vec(),
        };
        let found = demand(&program, &instr, &SIZES, &SIZES, &reuse).unwrap();
        ["line_32k", "line_512k", "line_4m", "line_32m"].map(|name| count(&found, name))
    };
    // 40 edges with loops, of 64 KiB each, out of 14 rows: half a MiB has 8 of them.
    let all = 40.0 * f64::from(WIDE) / 16.0;
    let near = |found: [f64; 4], expected: [f64; 4]| {
        let same = found
            .iter()
            .zip(expected)
            .all(|(a, b)| (a / all - b).abs() < 1e-9);
        assert!(same, "{found:?}, expected {expected:?} of {all}");
    };
    near(lines(&[0.2, 0.4, 0.5, 0.6, 1.0]), [0.1, 0.5, 0.4, 0.0]);
    // In random order, the share that fits.
    near(
        lines(&[]),
        [1.0 / 28.0, 0.5357142857142857, 0.42857142857142855, 0.0],
    );
}

/// A row of a batch is not in a near memory when it is picked first, however soon rows of the graph are picked again.
#[test]
fn rows_of_a_batch_are_picked_for_the_first_time_too() {
    let level = |number| Extent::Level(Level::own(number));
    let (program, instr) = wide_sum(level(1), level(0));
    let sizes = RankSizes {
        batch: BatchSizes {
            levels: std::array::from_fn(|n| [32, 8].get(n).copied().unwrap_or(0)),
            edges: std::array::from_fn(|n| [0, 40].get(n).copied().unwrap_or(0)),
            ..BatchSizes::NONE
        },
        ..SIZES
    };
    let reuse = Reuse {
        variation: 0.0,
        rows: 32.0,
        counted: vec![1.0; 6],
    };
    let found = demand(&program, &instr, &sizes, &sizes, &reuse).unwrap();
    let again = count(&found, "edge") - 32.0;
    assert!(again > 0.0, "{found:?}");
    // 32 KiB have half a row of 32, at random.
    let expected = again * f64::from(WIDE) / 16.0 / 64.0;
    let near = count(&found, "line_32k");
    assert!((near - expected).abs() < 1e-6, "{near} {expected}");
}
