//! Tests of which uses may be reordered.

use super::*;
use crate::program::instr;
use crate::program::{Buffer, Role};
use crate::program::{Matrix, Product};

fn program() -> Program {
    let buffer = |slots| Buffer {
        name: String::new(),
        extent: Extent::Local,
        columns: 4,
        slots,
        role: Role::Temp,
        storage: Default::default(),
    };
    Program {
        ranks: 2,
        buffers: vec![buffer(1), buffer(1), buffer(3)],
        ..Program::default()
    }
}

fn product(a: u32, out: u32, rows: Extent) -> Instr {
    let matrix = |id| Matrix {
        at: Ref::first(BufferId(id)),
        offset: 0,
        stride: 4,
    };
    Instr::MatMul(instr::MatMul {
        product: Product::Nn,
        a: matrix(a),
        b: matrix(9),
        out: matrix(out),
        rows,
        inner: 4,
        columns: 4,
        finish: None,
        chunk: None,
    })
}

#[test]
fn own_rows_may_be_read_while_halos_are_filled() {
    let program = program();
    let exchange = Instr::HaloExchange(instr::HaloExchange::of(Ref::first(BufferId(0))));
    let meets = |instr: Instr| {
        let (a, b) = (accesses(&exchange, &program), accesses(&instr, &program));
        assert_eq!(ordered(&a, &b, &program), ordered(&b, &a, &program));
        ordered(&a, &b, &program)
    };
    assert!(!meets(product(0, 1, Extent::Inner)));
    assert!(meets(product(0, 1, Extent::Local)));
    assert!(meets(product(1, 0, Extent::Inner)));
    assert!(!meets(product(1, 2, Extent::Local)));
    assert!(meets(Instr::HaloReduce(instr::HaloReduce::of(Ref::first(
        BufferId(0)
    )))));
    let body = vec![product(0, 1, Extent::Inner)];
    assert!(!meets(Instr::Repeat(instr::Repeat {
        count: 2,
        reverse: false,
        body
    })));
}

#[test]
fn a_part_of_the_own_rows_is_no_halo() {
    let part = |rows| {
        let (grain, edges) = (crate::program::Grain::Lines, None);
        Touched::Rows(Chunk {
            index: 1,
            of: 4,
            even: Some(crate::program::Even { rows, grain, edges }),
        })
    };
    let own = part(crate::program::Vertices::Inner);
    assert!(!own.meets(Touched::Halo) && !Touched::Halo.meets(own));
    assert!(own.meets(Touched::Own) && own.meets(Touched::All));
    assert!(part(crate::program::Vertices::Local).meets(Touched::Halo));
}

#[test]
fn a_chunk_waits_for_what_it_reads() {
    let chunk = |index| Chunk {
        index,
        of: 4,
        even: None,
    };
    let new = |n| Touched::New(End::Dst, chunk(n));
    let near = |n| Touched::Near(End::Dst, chunk(n));
    let rows = |n| Touched::Rows(chunk(n));
    for (a, b, expected) in [
        (new(1), near(1), true),
        (new(0), near(1), true),
        (new(2), near(1), false),
        (new(2), rows(1), false),
        (new(0), rows(1), true),
        (new(0), new(1), false),
        (new(1), new(1), true),
        (rows(0), rows(1), false),
        (rows(0), near(1), true),
        (Touched::New(End::Src, chunk(2)), near(1), true),
        (rows(0), Touched::Own, true),
        (rows(0), Touched::All, true),
    ] {
        assert_eq!(
            (a.meets(b), b.meets(a)),
            (expected, expected),
            "{a:?} {b:?}"
        );
    }
}

#[test]
fn slots_of_a_buffer_are_apart() {
    let program = program();
    let access = |base, in_loop, writes| Access {
        buffer: BufferId(2),
        slot: Some(Ref {
            buffer: BufferId(2),
            base,
            in_loop,
        }),
        rows: Touched::All,
        writes,
    };
    let meets = |a: Access, b: Access| a.meets(&b, &program);
    assert!(!meets(access(0, true, false), access(1, true, true)));
    assert!(meets(access(0, true, false), access(3, true, true)));
    assert!(meets(access(0, false, false), access(1, true, true)));
    assert!(!meets(access(0, true, false), access(0, true, false)));
    let all = Access {
        slot: None,
        ..access(0, true, true)
    };
    assert!(meets(access(1, false, false), all));
}

/// Own and halo rows are disjoint, and so are interior and boundary rows: uses of one do not
/// order uses of the other.
#[test]
fn sums_of_halo_rows_go_before_own_rows_are_here() {
    use crate::program::{Even, Grain};
    let program = program();
    let part = |rows: Vertices, index| {
        let mut instr = product(1, 0, rows.extent());
        let even = Even {
            rows,
            grain: Grain::Reach,
            edges: None,
        };
        instr.set_chunk(Chunk {
            index,
            of: 2,
            even: Some(even),
        });
        accesses(&instr, &program)
    };
    let buffer = Ref::first(BufferId(0));
    let [begin, finish] = halves(&Instr::HaloReduce(instr::HaloReduce::of(buffer)), &program);
    let [own, halo] = [0, 1].map(|index| part(Vertices::Local, index));
    let meets = |a: &[Access], b: &[Access]| ordered(a, b, &program);
    assert!(!meets(&begin, &own) && meets(&finish, &own));
    assert!(meets(&begin, &halo) && meets(&finish, &halo));
    assert!(!meets(&own, &halo));
    let [interior, boundary] = [0, 1].map(|index| part(Vertices::Inner, index));
    assert!(!meets(&interior, &boundary) && meets(&interior, &own));
    assert!(!meets(&interior, &halo) && !meets(&boundary, &halo));
    let skip = None;
    for half in halves(
        &Instr::HaloExchange(instr::HaloExchange {
            skip,
            ..instr::HaloExchange::of(buffer)
        }),
        &program,
    ) {
        assert!(meets(&half, &own) && meets(&half, &halo));
    }
}
