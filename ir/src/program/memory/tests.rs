//! Tests of [`super`].

use super::*;
use crate::program::BatchSizes;
use crate::program::RankSizes;
use crate::program::instr;
use crate::program::{Buffer, Extent, KernelId, Launch, Ref, Role};
use proptest::prelude::*;

fn program(columns: &[u32], step: Vec<Instr>) -> Program {
    let buffer = |(i, &columns): (usize, &u32)| Buffer {
        name: format!("b{i}"),
        extent: Extent::Inner,
        columns,
        slots: 1,
        role: Role::Temp,
        storage: Default::default(),
    };
    Program {
        ranks: 1,
        buffers: columns.iter().enumerate().map(buffer).collect(),
        step,
        ..Program::default()
    }
}

fn at(buffer: u32) -> Ref {
    Ref::first(BufferId(buffer))
}

fn launch(inputs: &[Ref], outputs: &[Ref]) -> Instr {
    Instr::Launch(Launch {
        kernel: KernelId(0),
        rows: Extent::Inner,
        inputs: inputs.to_vec(),
        outputs: outputs.to_vec(),
        scalars: vec![],
        sites: vec![],
        lists: Vec::new(),
        chunk: None,
    })
}

fn repeat(body: Vec<Instr>) -> Instr {
    Instr::Repeat(instr::Repeat {
        count: 3,
        reverse: false,
        body,
    })
}

fn capacity() -> Capacity {
    Capacity::of(RankSizes {
        elsewhere: 0,
        all_halo: 0,
        max_degree: 4,
        batch: BatchSizes::NONE,
        inner: 10,
        train: 10,
        halo: 2,
        edges: 20,
        named_edges: Default::default(),
        all_named_edges: Default::default(),
        feature_nonzeros: 0,
        slice_nonzeros: 0,
        vertices: 0,
        all_edges: 0,
        reach: crate::program::Reach {
            interior: 0,
            interior_edges: 0,
            halo_edges: 0,
        },
    })
}

#[test]
fn sizes_beyond_64_bits_stay_large() {
    let mut program = program(&[u32::MAX; 3], vec![]);
    for buffer in &mut program.buffers {
        (buffer.role, buffer.slots) = (Role::Static, u32::MAX);
    }
    assert_eq!(layout(&program, &capacity()).total_bytes, u64::MAX);
    for buffer in &mut program.buffers {
        buffer.role = Role::Temp;
    }
    program.step = vec![launch(&[at(0), at(1)], &[at(2)])];
    assert_eq!(layout(&program, &capacity()).total_bytes, u64::MAX);
}

#[test]
fn a_chain_takes_two_buffers() {
    let step = (0..5).map(|i| launch(&[at(i)], &[at(i + 1)])).collect();
    let layout = layout(&program(&[8; 6], step), &capacity());
    assert_eq!(layout.total_bytes, 2 * 80 * 4);
    assert_eq!(layout.persistent_bytes, 0);
}

#[test]
fn loops_hold_what_crosses_an_iteration() {
    // Buffer 0 crosses iterations (read first), 1 lives within one, 2 is indexed, 3 is read
    // after the loop.
    let indexed = Ref {
        buffer: BufferId(2),
        base: 0,
        in_loop: true,
    };
    let body = vec![
        launch(&[at(0)], &[at(1)]),
        launch(&[at(1)], &[indexed]),
        launch(&[at(1)], &[at(0)]),
        launch(&[at(0)], &[at(3)]),
    ];
    let step = vec![
        launch(&[], &[at(0)]),
        repeat(body),
        launch(&[at(3)], &[at(4)]),
    ];
    let lives = lifetimes(&program(&[1; 5], step));
    // Phases do not overlap: `step` starts at 2.
    let want = [(2, 6), (3, 5), (3, 6), (3, 7), (7, 7)];
    for (life, want) in lives.iter().zip(want) {
        assert_eq!(*life, Lifetime::During([None, Some(want), None]));
    }
}

#[test]
fn inner_loops_count_for_what_they_hold() {
    let inner = repeat(vec![launch(&[at(0)], &[at(1)]), launch(&[at(1)], &[at(0)])]);
    let body = vec![
        launch(&[], &[at(0)]),
        inner,
        launch(&[at(0)], &[at(2)]),
        launch(&[at(2)], &[at(3)]),
    ];
    let lives = lifetimes(&program(&[1; 4], vec![repeat(body)]));
    let want = [(2, 5), (3, 4), (5, 6), (6, 6)];
    for (life, want) in lives.iter().zip(want) {
        assert_eq!(*life, Lifetime::During([None, Some(want), None]));
    }
}

#[test]
fn results_live_to_the_end() {
    let mut p = program(&[4, 4], vec![]);
    p.eval = vec![
        launch(&[], &[at(0)]),
        launch(&[at(0)], &[at(1)]),
        launch(&[at(1)], &[at(1)]),
    ];
    p.logits = Some(at(0));
    let lives = lifetimes(&p);
    assert!(lives[0].meets(&lives[1]));
    let Lifetime::During(stretches) = &lives[0] else {
        panic!()
    };
    let Lifetime::During(other) = &lives[1] else {
        panic!()
    };
    assert!(stretches[2].unwrap().1 > other[2].unwrap().1);
}

#[test]
fn phases_share_memory() {
    let mut p = program(&[8, 8], vec![launch(&[], &[at(0)])]);
    p.eval = vec![launch(&[], &[at(1)])];
    assert_eq!(layout(&p, &capacity()).total_bytes, 80 * 4);
}

proptest! {
    /// Runs random programs on memory that records its writers: no read may see another
    /// buffer's value.
    #[test]
    fn no_value_is_overwritten_while_it_is_needed(
        columns in prop::collection::vec(0u32..40, 8),
        steps in prop::collection::vec((0u32..8, 0u32..8, 0u8..6), 1..30),
    ) {
        let mut blocks = vec![Vec::new()];
        for (from, to, kind) in steps {
            match kind {
                0 if blocks.len() < 3 => blocks.push(Vec::new()),
                1 if blocks.len() > 1 => {
                    let body = blocks.pop().unwrap();
                    blocks.last_mut().unwrap().push(repeat(body));
                }
                _ => blocks.last_mut().unwrap().push(launch(&[at(from)], &[at(to)])),
            }
        }
        while blocks.len() > 1 {
            let body = blocks.pop().unwrap();
            blocks.last_mut().unwrap().push(repeat(body));
        }
        let p = program(&columns, blocks.pop().unwrap());
        let layout = layout(&p, &capacity());
        let mut memory = vec![u32::MAX; (layout.total_bytes / 4) as usize];
        let mut written = [false; 8];
        let mut broken = None;
        run(&p.step, &mut |from, to| {
            let range = |b: u32| {
                let begin = layout.offsets[b as usize] as usize;
                begin..begin + p.buffers[b as usize].words(&capacity()) as usize
            };
            if written[from as usize] && memory[range(from)].iter().any(|&owner| owner != from) {
                broken = Some(from);
            }
            memory[range(to)].fill(to);
            written[to as usize] = true;
        });
        prop_assert_eq!(broken, None);
        let lives = lifetimes(&p);
        for (id, &offset) in layout.offsets.iter().enumerate() {
            let untouched = lives[id] == Lifetime::During([None; 3]);
            let end = offset + p.buffers[id].words(&capacity());
            prop_assert!(offset % ALIGN == 0 && (untouched || end * 4 <= layout.total_bytes));
        }
        let occupied: u64 = p.buffers.iter().zip(&lives)
            .filter(|(_, life)| **life != Lifetime::During([None; 3]))
            .map(|(b, _)| b.words(&capacity()).next_multiple_of(ALIGN) * 4).sum();
        prop_assert!(layout.total_bytes <= occupied);
    }
}

fn run(instrs: &[Instr], visit: &mut impl FnMut(u32, u32)) {
    for instr in instrs {
        match instr {
            Instr::Launch(l) => visit(l.inputs[0].buffer.0, l.outputs[0].buffer.0),
            Instr::Repeat(instr::Repeat { count, body, .. }) => {
                for _ in 0..*count {
                    run(body, visit);
                }
            }
            _ => unreachable!(),
        }
    }
}

#[test]
fn what_only_setup_reads_lives_no_longer() {
    let mut p = program(&[1; 5], vec![launch(&[at(2)], &[at(3)])]);
    p.setup = vec![launch(&[at(0)], &[at(1)]), launch(&[at(1)], &[at(2)])];
    p.buffers[0].role = Role::Features;
    (p.buffers[1].role, p.buffers[2].role) = (Role::Static, Role::Static);
    let lives = lifetimes(&p);
    assert_eq!(lives[0], Lifetime::During([Some((0, 0)), None, None]));
    assert_eq!(lives[1], Lifetime::During([Some((0, 1)), None, None]));
    assert_eq!(lives[2], Lifetime::Always);
    // With histories, `setup` may run again.
    p.buffers[4].role = Role::History(0);
    assert_eq!(lifetimes(&p)[0], Lifetime::Always);
}
