//! Copies between ranks and their hosts, computed by hand.

use crate::model::{HIDDEN, at, program};
use crate::simulate::{SHAPE, cluster, cost, measured, near};
use gnnc_ir::cluster::{Cluster, Host};
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::{Phase, Resource};
use gnnc_ir::program::traffic::moved;
use gnnc_ir::program::{
    Buffer, BufferId, Chunk, Even, Grain, Instr, Program, Role, Transfer, Vertices,
};
use gnnc_ir::words::units::{Bytes, Seconds};
use gnnc_planner::simulate::{bound, host_memory, timeline};

/// A program with a host buffer as large as the hidden rows, and a move to the rank and back.
fn with_host(mut program: Program) -> (Program, [Instr; 2]) {
    let there = BufferId(program.buffers.len() as u32);
    let buffer = Buffer {
        role: Role::Temp,
        ..program.buffer(HIDDEN).clone()
    };
    program.buffers.push(buffer);
    program.hosted.push(there);
    let (here, there) = (at(HIDDEN.0), at(there.0));
    let fetch = Instr::Move(instr::Move {
        from: there,
        to: here,
        chunk: None,
    });
    let store = Instr::Move(instr::Move {
        from: here,
        to: there,
        chunk: None,
    });
    (program, [fetch, store])
}

/// A device whose host copies one gigabyte per second, after a millisecond.
fn beside_a_host() -> Cluster {
    let mut cluster = cluster(1, 1);
    cluster.device.launch_floor = Seconds(0.0);
    cluster.host = Some(Host {
        cores: 8,
        memory: Bytes(1 << 40),
        bandwidth: 1e9,
        latency: Seconds(1e-3),
    });
    cluster
}

#[test]
fn copies_run_beside_computing_each_way_by_itself() {
    let cluster = beside_a_host();
    let parts = measured(vec![vec![0]], &[1_000_000]);
    let (mut program, [fetch, store]) = with_host(program(1, SHAPE));
    let work = program.step[0].clone();
    let bytes: u64 = moved(std::slice::from_ref(&fetch), &program, &parts.sizes[0])[0];
    assert!(bytes > 0);
    let once = 1e-3 + bytes as f64 / 1e9;
    let halves = |tag: u32, what: &Instr| {
        let what = Box::new(what.clone());
        let transfer = Transfer { tag, what };
        (Instr::Begin(transfer.clone()), Instr::Finish(transfer))
    };
    let ((fetching, fetched), (storing, stored)) = (halves(1, &fetch), halves(2, &store));
    let (again, there) = halves(3, &fetch);
    let mut step = |step: Vec<Instr>| {
        program.step = step;
        let estimate = cost(&program, &cluster, &parts);
        let least = bound(&program, &cluster, &parts).unwrap();
        assert!(least.seconds.0 <= estimate.epoch.seconds.0);
        estimate.epoch
    };
    let alone = step(vec![work.clone()]).seconds.0;
    let whole = step(vec![fetch.clone(), work.clone()]);
    assert!(near(whole.seconds.0, once + alone));
    assert!(near(whole.exposed_communication_seconds.0, once));
    let hidden = step(vec![fetching.clone(), work.clone(), fetched.clone()]);
    assert!(near(hidden.seconds.0, once.max(alone)));
    let both = step(vec![fetching.clone(), storing, fetched.clone(), stored]);
    assert!(near(both.seconds.0, once), "ways are apart");
    let queued = step(vec![fetching, again, fetched, there]);
    assert!(near(queued.seconds.0, 2.0 * once), "one after the other");
    assert_eq!(queued.bytes, Bytes(0));
    let kind = queued.breakdown.iter().find(|kind| kind.name == "fetch");
    assert_eq!(kind.map(|kind| kind.count), Some(2));
    let events = timeline(&program, &cluster, &parts, Phase::Step, 1).unwrap();
    assert!(events.iter().all(|event| event.resource == Resource::Host));
    let copies: Vec<f64> = events
        .iter()
        .map(|e| (e.end_us - e.begin_us) / 1e6)
        .collect();
    assert!(
        near(copies[0], once) && near(copies[1], 2.0 * once),
        "{copies:?}"
    );
    assert_eq!(
        host_memory(&[program], &cluster, &parts).0,
        bytes.next_multiple_of(64)
    );
}

/// Chunks of 2528 and 2472 rows take the time of their bytes, plus a latency each.
#[test]
fn chunks_of_copies_take_their_share() {
    let cluster = beside_a_host();
    let parts = measured(vec![vec![0]], &[1_000_000]);
    let (mut program, [fetch, _]) = with_host(program(1, SHAPE));
    let whole = moved(std::slice::from_ref(&fetch), &program, &parts.sizes[0])[0];
    let row = whole / parts.sizes[0].inner;
    let even = Even {
        rows: Vertices::Inner,
        grain: Grain::Lines,
        edges: None,
    };
    let mut seconds = 0.0;
    for (index, rows) in [(0, 2528), (1, 2472)] {
        let mut chunk = fetch.clone();
        chunk.set_chunk(Chunk {
            index,
            of: 2,
            even: Some(even),
        });
        program.step = vec![chunk];
        let bytes = moved(&program.step, &program, &parts.sizes[0])[0];
        assert_eq!(bytes, rows * row);
        let took = cost(&program, &cluster, &parts).epoch.seconds.0;
        assert!(near(took, 1e-3 + bytes as f64 / 1e9), "{took}");
        seconds += took;
    }
    assert!(near(seconds, 2e-3 + whole as f64 / 1e9));
}
