//! Programs with a column layout compute what programs with a row layout compute, and send the
//! bytes they claim.

#![allow(clippy::unwrap_used)]

mod network;

use gnnc_graph::generate::PlantedPartition;
use gnnc_graph::partition::{Hash, Partitioner, Range};
use gnnc_graph::{GraphData, LocalPart, Partition, Topology, example};
use gnnc_ir::EdgeSet;
use gnnc_ir::graph::op::{Redistribute, Site, Slice};
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{At, Axis, Body, End, Mask, Operand, Over, Reduce};
use gnnc_ir::program::instr;
use gnnc_ir::program::traffic::{Reads, traffic};
use gnnc_ir::program::*;
use gnnc_ir::words::scalar::Binary;
use gnnc_runtime::{Programs, RunOptions, RuntimeError, Session};
use network::builder::*;

const SET: EdgeSet = EdgeSet::Looped;

/// `x` with vertex dropout (in place, so evaluate only once), sent along the edges twice: to
/// destinations with edge dropout, and back to sources times a number per edge.
struct Spread {
    ranks: u32,
    features: u32,
}

impl Spread {
    /// The program of a rank that holds a slice of the columns of all rows.
    fn by_columns(&self, rank: u32) -> Program {
        let slice = Slice::new(Axis::Width, self.features, self.ranks, rank);
        let mut b = self.builder(rank);
        let (f, width) = (self.features, slice.len);
        let x = b.buffer("x", Extent::Inner, f, 1, Role::Features);
        let degree = b.buffer("degree", Extent::Inner, 1, 1, Role::Degree(SET, End::Dst));
        let all_degree = b.buffer("all degrees", Extent::All, 1, 1, Role::Static);
        let all_x = b.buffer("all x", Extent::All, width, 1, Role::Temp);
        let out = b.buffer("out", Extent::Inner, f, 1, Role::Temp);
        let all_out = self.kernels(&mut b, Extent::All, width, all_x, all_degree);
        let step = |how, (from, stride), to, width| {
            Instr::Redistribute(instr::Redistribute {
                how,
                from: matrix(at(from), stride),
                to: at(to),
                heads: 1,
                width,
                moved: Moved::All,
                encoded: None,
            })
        };
        let mut program = b.program;
        let replicate = step(Redistribute::Replicate, (degree, 1), all_degree, 1);
        program.setup.push(replicate);
        let split = step(Redistribute::Split(slice), (x, f), all_x, f);
        program.eval.insert(0, split);
        let join = step(Redistribute::Join(slice), (all_out, width), out, f);
        program.eval.push(join);
        program.logits = Some(at(out));
        program
    }

    /// The program of ranks that hold their own rows.
    fn by_rows(&self) -> Program {
        let mut b = self.builder(0);
        let x = b.buffer("x", Extent::Local, self.features, 1, Role::Features);
        let degree = b.buffer("degree", Extent::Local, 1, 1, Role::Degree(SET, End::Dst));
        let out = self.kernels(&mut b, Extent::Inner, self.features, x, degree);
        let mut program = b.program;
        // After dropout of own rows.
        program
            .eval
            .insert(1, Instr::HaloExchange(instr::HaloExchange::of(at(x))));
        program
            .eval
            .push(Instr::HaloReduce(instr::HaloReduce::of(at(out))));
        program.logits = Some(at(out));
        program
    }

    fn builder(&self, rank: u32) -> Builder {
        let program = Program {
            ranks: self.ranks,
            rank,
            ..Program::default()
        };
        Builder { program }
    }

    /// Adds the steps over rows `rows`; changes `x`, and the result is by source.
    fn kernels(
        &self,
        b: &mut Builder,
        rows: Extent,
        width: u32,
        x: BufferId,
        degree: BufferId,
    ) -> BufferId {
        let sources = match rows {
            Extent::All => Extent::All,
            _ => Extent::Local,
        };
        let number = |at| Operand {
            column_step: 0,
            ..Operand::dense(at, 1, 1)
        };
        let mask = |p, at| Mask {
            p,
            at,
            first: 0,
            head_step: 0,
            column_step: 0,
        };
        let dense = |at| Operand::dense(at, 1, width);
        let (load, masked) = (Value::Load, Value::Mask(0));
        let sum = |to, value| Body::Gather {
            set: SET,
            to,
            reduce: Reduce::Sum,
            value,
            finish: Expr::leaf(Value::Acc),
        };
        let drop = Body::Map {
            over: Over::Rows,
            values: vec![scaled(load(0), masked, &[])],
        };
        let drop = b.kernel(drop, width, vec![dense(At::Row)], vec![dense(At::Row)]);
        b.program.kernels[drop.0 as usize].masks = vec![mask(0.25, At::Row)];
        let weigh = Body::Map {
            over: Over::Edges(SET),
            values: vec![expr(|e| {
                let (s, d) = (e.push(load(0)), e.push(load(1)));
                e.push(Value::Binary(Binary::Div, s, d));
            })],
        };
        let ends = vec![number(At::Src), number(At::Dst)];
        let weigh = b.kernel(weigh, 1, ends, vec![number(At::Edge)]);
        let there = sum(End::Dst, scaled(load(0), masked, &[]));
        let there = b.kernel(there, width, vec![dense(At::Src)], vec![dense(At::Row)]);
        b.program.kernels[there.0 as usize].masks = vec![mask(0.5, At::Edge)];
        let back = sum(End::Src, scaled(load(0), load(1), &[]));
        let read = vec![dense(At::Dst), number(At::Edge)];
        let back = b.kernel(back, width, read, vec![dense(At::Row)]);

        let weight = b.buffer("weight", rows.edges(SET), 1, 1, Role::Temp);
        let middle = b.buffer("middle", rows, width, 1, Role::Temp);
        let out = b.buffer("out by source", sources, width, 1, Role::Temp);
        let dropout = |kernel, site, x, out| Launch {
            sites: vec![Site::from(site)],
            ..launch(kernel, rows, &[at(x)], &[at(out)])
        };
        let launches = [
            dropout(drop, 1, x, x),
            launch(weigh, rows, &[at(degree), at(degree)], &[at(weight)]),
            dropout(there, 2, x, middle),
            launch(back, sources, &[at(middle), at(weight)], &[at(out)]),
        ];
        b.program.eval.extend(launches.map(Instr::Launch));
        out
    }

    fn all_programs(&self) -> Vec<Program> {
        (0..self.ranks).map(|rank| self.by_columns(rank)).collect()
    }
}

fn session(programs: impl Into<Programs>, data: &GraphData, partition: &Partition) -> Session {
    let options = RunOptions {
        seed: 11,
        threads_per_rank: 2,
        ..RunOptions::default()
    };
    Session::new(programs, data, partition, options).unwrap()
}

fn check(data: &GraphData, partition: &Partition) {
    let features = data.features.columns();
    let one = Spread { ranks: 1, features };
    let whole = Partition::whole(data.vertices());
    let want = session(one.by_rows(), data, &whole).logits().unwrap();
    assert!(want.iter().filter(|x| x.abs() > 0.1).count() > want.len() / 4);
    let close = |got: &[f32]| {
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * (1.0 + b.abs());
        got.len() == want.len() && got.iter().zip(&want).all(near)
    };
    let network = Spread {
        ranks: partition.parts(),
        features,
    };
    let by_rows = session(network.by_rows(), data, partition)
        .logits()
        .unwrap();
    assert!(close(&by_rows), "by rows");

    let programs = network.all_programs();
    let mut session = session(programs.clone(), data, partition);
    let sent = session.evaluate().unwrap().bytes_sent;
    assert!(close(&session.logits().unwrap()), "by columns");
    let parts = LocalPart::build_all(&data.topology, partition).unwrap();
    let size = |part: &LocalPart| RankSizes {
        inner: part.inner as u64,
        ..RankSizes::default()
    };
    let sizes: Vec<RankSizes> = parts.iter().map(size).collect();
    let bytes = |instrs: &[Instr]| traffic(instrs, &programs[0], &Reads::default(), &sizes);
    assert_eq!(sent, bytes(&programs[0].eval).redistribute);
    let setup = bytes(&programs[0].setup).redistribute;
    assert_eq!(session.setup_bytes(), Some(setup));
    assert!(sent > 0 && setup > 0 || partition.parts() == 1);
}

#[test]
fn columns_give_what_rows_give() {
    let data = example::g8();
    // With four features, some ranks have fewer columns than others or none; zeros pad them.
    for ranks in 1..=6 {
        for partitioner in [&Range as &dyn Partitioner, &Hash] {
            check(
                &data,
                &partitioner
                    .partition((&data.topology).into(), ranks)
                    .unwrap(),
            );
        }
    }
    check(
        &data,
        &Partition::new(3, vec![0, 2, 0, 2, 2, 2, 0, 0]).unwrap(),
    );
}

/// In such graphs, own rows are ordered by degree and all rows by ID.
#[test]
fn columns_of_a_graph_with_a_hub_give_what_rows_give() {
    let vertices = 1 << 14;
    let planted = PlantedPartition {
        vertices,
        edges: 4 * u64::from(vertices),
        ..PlantedPartition::default()
    };
    let mut data = planted.generate().unwrap();
    let star = (1..vertices).flat_map(|v| [(v, 7), (v - 1, v)]);
    data.topology = Topology::from_edges(vertices, star).unwrap().0;
    let partition = Hash.partition((&data.topology).into(), 3).unwrap();
    // Slices of two widths.
    assert!(data.features.columns() > 6 && !data.features.columns().is_multiple_of(3));
    let parts = LocalPart::build_all(&data.topology, &partition).unwrap();
    let by_id = |part: &LocalPart| part.global[..part.inner].is_sorted();
    assert!(!parts.iter().all(by_id));
    check(&data, &partition);
    check(&data, &Partition::whole(vertices));
}

#[test]
fn one_program_serves_slices_of_one_width() {
    let data = example::g8();
    let network = Spread {
        ranks: 2,
        features: 4,
    };
    let partition = Hash.partition((&data.topology).into(), 2).unwrap();
    let several = session(network.all_programs(), &data, &partition).logits();
    let one = session(network.by_columns(0), &data, &partition).logits();
    assert_eq!(several.unwrap(), one.unwrap());
}

/// The parts of the first instruction of `eval`, a split.
struct Parts<'a> {
    slice: &'a mut Slice,
    from: &'a mut Matrix,
    to: &'a mut Ref,
    width: &'a mut u32,
}

fn parts(program: &mut Program) -> Parts<'_> {
    match &mut program.eval[0] {
        Instr::Redistribute(instr::Redistribute {
            how: Redistribute::Split(slice),
            from,
            to,
            width,
            ..
        }) => Parts {
            slice,
            from,
            to,
            width,
        },
        _ => panic!("no split"),
    }
}

type Change = fn(&mut Program);

/// The answer of a three-rank session to changed programs.
fn answer(change: Change) -> Result<(), String> {
    let data = example::g8();
    let partition = Range.partition((&data.topology).into(), 3).unwrap();
    let network = Spread {
        ranks: 3,
        features: 4,
    };
    let mut programs = network.all_programs();
    programs.iter_mut().for_each(change);
    match Session::new(programs, &data, &partition, RunOptions::default()) {
        Ok(_) => Ok(()),
        Err(RuntimeError::Program(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn redistributions_that_do_not_fit_are_refused() {
    const X: BufferId = BufferId(0);
    const OUT: BufferId = BufferId(4);
    let cases: &[(&str, Change)] = &[
        ("slice is 3 of 4", |p| parts(p).slice.len = 3),
        ("expected 2 of 4", |p| parts(p).slice.of = 5),
        ("slice is 2 of 4 width", |p| *parts(p).width = 5),
        ("4 heads, expected 1 of 1", |p| {
            parts(p).slice.axis = Axis::Heads
        }),
        ("the operand reaches", |p| parts(p).from.offset = 1),
        ("the operand reaches", |p| parts(p).from.stride = 400),
        ("the operand reaches", |p| {
            parts(p).from.at.buffer = BufferId(1)
        }),
        ("buffer 99 of", |p| parts(p).to.buffer = BufferId(99)),
        ("the result reaches", |p| parts(p).to.buffer = BufferId(2)),
        ("the result has", |p| {
            parts(p).to.buffer = OUT;
            p.buffers[OUT.0 as usize].extent = Extent::Local;
            p.buffers[OUT.0 as usize].slots = 1;
            p.buffers[OUT.0 as usize].columns = 400;
        }),
        ("expected own rows", |p| {
            p.buffers[X.0 as usize].extent = Extent::All;
            p.buffers[X.0 as usize].role = Role::Temp;
        }),
        ("columns in `all x`", |p| {
            p.buffers[3].columns += 1;
        }),
        ("floats into `x`", |p| match &mut p.eval[3] {
            Instr::Launch(launch) => launch.inputs[0] = at(X),
            _ => panic!("no launch"),
        }),
        ("logits has all rows", |p| p.logits = Some(at(BufferId(2)))),
        ("expected 8", |p| match &mut p.eval[3] {
            Instr::Launch(launch) => launch.rows = Extent::AllEdges(SET),
            _ => panic!("no launch"),
        }),
        ("the result has all rows, expected own rows", |p| {
            p.eval.push(Instr::Redistribute(instr::Redistribute {
                how: Redistribute::Own,
                from: matrix(at(BufferId(3)), 1),
                to: at(BufferId(3)),
                heads: 1,
                width: 1,
                moved: Moved::All,
                encoded: None,
            }))
        }),
    ];
    assert_eq!(answer(|_| {}), Ok(()));
    for (n, (part, change)) in cases.iter().enumerate() {
        let error = answer(*change).expect_err(part);
        assert!(error.contains(part), "{n}: {error}\nexpected: {part}");
    }
    // In the wrong order, each rank has another rank's program.
    let network = Spread {
        ranks: 3,
        features: 4,
    };
    let mut programs = network.all_programs();
    programs.swap(0, 1);
    let data = example::g8();
    let partition = Range.partition((&data.topology).into(), 3).unwrap();
    let result = Session::new(programs, &data, &partition, RunOptions::default());
    assert!(matches!(result, Err(RuntimeError::Program(_))));
}
