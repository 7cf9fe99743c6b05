//! Rows that are picked one by one, counted by hand.

use super::*;

/// What sums over edges grouped by `to` pick, of rows of 8 numbers of the other end, and a number of each edge.
fn picked(to: End) -> Vec<Pick> {
    let (other, rows) = match to {
        End::Dst => (At::Src, Extent::Inner),
        End::Src => (At::Dst, Extent::Local),
    };
    let body = Body::Gather {
        set: EdgeSet::Plain,
        to,
        reduce: Reduce::Sum,
        value: product(0, 1),
        finish: acc(),
    };
    let inputs = vec![Operand::dense(other, 1, 8), Operand::dense(At::Edge, 1, 1)];
    let buffer = |extent: Extent, columns: u32| Buffer {
        name: String::new(),
        extent,
        columns,
        slots: 1,
        role: Role::Temp,
        storage: Default::default(),
    };
    let program = Program {
        ranks: 2,
        kernels: vec![kernel(
            body,
            1,
            8,
            inputs,
            vec![Operand::dense(At::Row, 1, 8)],
        )],
        buffers: vec![
            buffer(Extent::Local, 8),
            buffer(Extent::Edges(EdgeSet::Plain), 1),
            buffer(Extent::Local, 8),
        ],
        ..Program::default()
    };
    let instr = Instr::Launch(launch(rows, 2, 1));
    Counts::of(&program, &instr).picks(&SIZES, &SIZES)
}

#[test]
fn sums_pick_rows_of_the_other_end_and_by_source_values_of_edges() {
    // 30 edges, 10 own rows and 4 of the halo.
    let rows = Pick {
        reads: 30,
        row: 32,
        of: 14 * 32,
    };
    assert_eq!(picked(End::Dst), [rows]);
    let values = Pick {
        reads: 30,
        row: 4,
        of: 30 * 4,
    };
    assert_eq!(picked(End::Src), [rows, values]);
    assert_eq!((rows.rows(), rows.bytes()), (14, 960));
}
