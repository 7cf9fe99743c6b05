//! A failure stops all ranks with one message and loses nothing on disk.

#![allow(clippy::unwrap_used)]

mod network;

use gnnc_graph::partition::{Partitioner, Range};
use gnnc_graph::{GraphData, Partition, example};
use gnnc_ir::program::{Buffer, BufferId, Extent, Role};
use gnnc_ir::words::storage::Storage;
use gnnc_runtime::transport::threads::Threads;
use gnnc_runtime::transport::watched::{Call, Watched};
use gnnc_runtime::transport::{Transport, TransportError};
use gnnc_runtime::{RunOptions, RuntimeError, Session, Tensor};
use network::Network;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const G8: Network = Network {
    ranks: 1,
    features: 4,
    hidden: 5,
    classes: 2,
    sparse: false,
    dropout: true,
};

/// Rank 2 fails, or panics, after some messages.
fn faulty(inner: Threads, fail_at: usize, panics: bool) -> Box<dyn Transport> {
    let (rank, mut calls) = (inner.rank(), 0);
    let watch = move |call| {
        calls += 1;
        if rank != 2 || calls <= fail_at {
            return Ok(());
        }
        assert!(!panics, "the cable caught fire");
        let (Call::Send { to: rank, .. }
        | Call::Await { from: rank, .. }
        | Call::Receive { from: rank, .. }) = call;
        Err(TransportError::Broken {
            rank,
            reason: "no carrier".to_owned(),
        })
    };
    Box::new(Watched::new(inner, Box::new(watch)))
}

#[test]
fn ranks_that_need_more_memory_than_there_is_are_refused() {
    let data = example::g8();
    let network = Network { ranks: 4, ..G8 };
    let partition = Range.partition((&data.topology).into(), 4).unwrap();
    let with_limit = |limit| {
        let options = RunOptions {
            memory_limit: Some(limit),
            ..RunOptions::default()
        };
        Session::new(network.program(), &data, &partition, options)
    };
    let Err(RuntimeError::MachineMemory {
        ranks,
        needed,
        available,
        ..
    }) = with_limit(0)
    else {
        panic!("found a session in no memory");
    };
    assert_eq!((ranks, available), (4, 0));
    let session = with_limit(needed).unwrap();
    let largest = session.buffer_bytes();
    assert!((largest..=4 * largest).contains(&needed), "{needed}");
    assert!(with_limit(needed - 1).is_err());
}

#[test]
fn a_failing_rank_stops_all_of_them() {
    let data = example::g8();
    let network = Network { ranks: 4, ..G8 };
    let partition = Range.partition((&data.topology).into(), 4).unwrap();
    for panics in [false, true] {
        for fail_at in [0, 1, 5, 9, 14, 30] {
            let transports = Threads::connect(4)
                .into_iter()
                .map(|inner| faulty(inner, fail_at, panics))
                .collect();
            let options = RunOptions {
                threads_per_rank: 2,
                ..RunOptions::default()
            };
            let begin = Instant::now();
            let mut session =
                Session::with_transports(network.program(), &data, &partition, options, transports)
                    .unwrap();
            let failure = (0..20)
                .find_map(|_| session.epoch().err())
                .expect("a failure");
            let RuntimeError::Rank(failure) = failure else {
                panic!("{failure}")
            };
            assert_eq!(failure.rank, 2);
            assert!(failure.instruction.starts_with("step "), "{failure}");
            let reason = if panics {
                "the cable caught fire"
            } else {
                "no carrier"
            };
            assert!(failure.reason.contains(reason), "{failure}");
            // The session stays failed.
            assert!(
                matches!(session.evaluate(), Err(RuntimeError::Rank(again)) if again == failure)
            );
            drop(session);
            assert!(begin.elapsed() < Duration::from_secs(10));
        }
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gnnc-runtime-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn session(network: &Network, data: &GraphData, seed: u64) -> Session {
    let partition = Range
        .partition((&data.topology).into(), network.ranks)
        .unwrap();
    let options = RunOptions {
        seed,
        learning_rate: 0.3,
        model: "net".to_owned(),
        ..RunOptions::default()
    };
    Session::new(network.program(), data, &partition, options).unwrap()
}

fn numbers(session: &mut Session, epochs: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    for _ in 0..epochs {
        numbers.push(session.epoch().unwrap().loss.to_bits());
        numbers.push(session.evaluate().unwrap().val.share().unwrap().to_bits());
    }
    numbers.extend(
        session
            .parameters()
            .unwrap()
            .iter()
            .flat_map(|t| &t.values)
            .map(|x| u64::from(x.to_bits())),
    );
    numbers
}

#[test]
fn a_resumed_run_has_the_same_numbers() {
    let folder = Folder::new("resume");
    let path = folder.0.join("run.safetensors");
    let data = example::g8();
    for ranks in [1, 2] {
        let network = Network { ranks, ..G8 };
        let mut first = session(&network, &data, 5);
        numbers(&mut first, 4);
        first.save(&path).unwrap();
        let want = numbers(&mut first, 4);
        let mut second = session(&network, &data, 99);
        numbers(&mut second, 1);
        let resumed = second.resume(&path).unwrap();
        assert_eq!((resumed.epoch, resumed.same_program), (4, true));
        assert_eq!(numbers(&mut second, 4), want);
        assert_eq!(second.best(), first.best());
        // Another number of ranks may resume, and is told that the program differs.
        let mut third = session(&Network { ranks: 4, ..G8 }, &data, 5);
        assert!(!third.resume(&path).unwrap().same_program);
        assert_eq!(third.epochs(), 4);
    }
    let left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().collect();
    assert_eq!(left.len(), 2, "the last two are kept: {left:?}");
}

fn refusal(session: &mut Session, path: &PathBuf) -> String {
    let before = session.parameters().unwrap();
    let error = session.resume(path).expect_err("a refusal");
    assert_eq!(session.parameters().unwrap(), before);
    assert!(
        matches!(
            error,
            RuntimeError::Checkpoint { .. } | RuntimeError::File { .. }
        ),
        "{error}"
    );
    error.to_string()
}

#[test]
fn damaged_and_foreign_checkpoints_are_refused() {
    let folder = Folder::new("refuse");
    let path = folder.0.join("run.safetensors");
    let data = example::g8();
    let mut s = session(&G8, &data, 5);
    s.epoch().unwrap();
    assert!(refusal(&mut s, &folder.0.join("absent")).contains("check the path"));
    s.save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(7) {
        std::fs::write(&path, &whole[..length]).unwrap();
        refusal(&mut s, &path);
    }
    let header = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let mut other = session(&G8, &data, 5);
    for place in 0..8 + header {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x15;
        std::fs::write(&path, &bytes).unwrap();
        // With a changed digit it may still be a checkpoint; anything else is refused, and
        // nothing panics.
        let _ = other.resume(&path);
        if place < 8 {
            refusal(&mut s, &path);
        }
    }
    for claim in [u64::MAX, 1 << 40, 1 << 27, 99_000_000] {
        let mut bytes = whole.clone();
        bytes[..8].copy_from_slice(&claim.to_le_bytes());
        std::fs::write(&path, &bytes).unwrap();
        assert!(refusal(&mut s, &path).contains("header"));
    }
    let longer: Vec<u8> = whole.iter().copied().chain([0; 64]).collect();
    std::fs::write(&path, longer).unwrap();
    refusal(&mut s, &path);
    let huge = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    huge.set_len(1 << 40).unwrap();
    refusal(&mut s, &path);

    let wider = Network { hidden: 400, ..G8 };
    session(&wider, &data, 5).save(&path).unwrap();
    assert!(
        refusal(&mut s, &path)
            .contains("`w1` has shape [1, 4, 400] there, but [1, 4, 5] in this model")
    );
    let narrower = Network { hidden: 2, ..G8 };
    session(&narrower, &data, 5).save(&path).unwrap();
    assert!(
        refusal(&mut s, &path)
            .contains("`w1` has shape [1, 4, 2] there, but [1, 4, 5] in this model")
    );
    let mut renamed = G8.program();
    renamed.params[0].name = "v1".to_owned();
    let other = Session::new(renamed, &data, &Partition::whole(8), RunOptions::default()).unwrap();
    other.save(&path).unwrap();
    assert!(refusal(&mut s, &path).contains("it lacks `w1`"));
    let options = RunOptions {
        model: "another".to_owned(),
        ..RunOptions::default()
    };
    let other = Session::new(G8.program(), &data, &Partition::whole(8), options).unwrap();
    other.save(&path).unwrap();
    assert!(refusal(&mut s, &path).contains("of the model `another`, not of `net`"));
    std::fs::write(&path, &whole).unwrap();
    assert!(s.resume(&path).is_ok());
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_old_one() {
    let folder = Folder::new("write");
    let data = example::g8();
    let s = session(&G8, &data, 5);
    let absent = folder.0.join("no").join("such").join("folder");
    let error = s.save(&absent).unwrap_err().to_string();
    assert!(
        error.contains("no/such/folder") && error.contains("create the folder first"),
        "{error}"
    );
    // A folder is in the way: the rename fails and leaves nothing beside it.
    let taken = folder.0.join("taken");
    std::fs::create_dir_all(taken.join("inside")).unwrap();
    assert!(matches!(s.save(&taken), Err(RuntimeError::File { .. })));
    assert!(taken.join("inside").exists());
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn parameters_are_checked_before_they_are_set() {
    let data = example::g8();
    let mut s = session(&Network { ranks: 2, ..G8 }, &data, 5);
    let before = s.parameters().unwrap();
    let mut new = before.clone();
    new[0].values.fill(0.25);
    s.set_parameters(&new[..1]).unwrap();
    assert_eq!(s.parameters().unwrap()[0].values, new[0].values);
    assert_eq!(s.parameters().unwrap()[1], before[1]);
    let unknown = Tensor {
        name: "w9".to_owned(),
        ..new[0].clone()
    };
    let wrong = Tensor {
        shape: [1, 5, 4],
        ..new[0].clone()
    };
    for bad in [unknown, wrong] {
        let zero = Tensor {
            values: vec![0.0; 20],
            ..new[0].clone()
        };
        assert!(matches!(
            s.set_parameters(&[zero, bad]),
            Err(RuntimeError::Parameters { .. })
        ));
        assert_eq!(s.parameters().unwrap()[0].values, new[0].values);
    }
}

/// A temporary buffer that no instruction uses has no memory, however large it is. So it cannot be
/// a result.
#[test]
fn buffers_that_nothing_uses_have_no_memory() {
    let data = example::g8();
    let mut program = G8.program();
    let unused = BufferId(program.buffers.len() as u32);
    program.buffers.push(Buffer {
        name: "unused".to_owned(),
        extent: Extent::Inner,
        columns: 1 << 16,
        slots: 1,
        role: Role::Temp,
        storage: Storage::F32,
    });
    let partition = Partition::whole(data.vertices());
    let session = |program| Session::new(program, &data, &partition, RunOptions::default());
    let mut runs = session(program.clone()).unwrap();
    assert!(runs.epoch().unwrap().loss > 0.0);
    program.loss = Some(unused);
    let Err(RuntimeError::Program(why)) = session(program) else {
        panic!("found a session whose loss nothing computes");
    };
    assert!(
        why.contains("no instruction of step writes the loss"),
        "{why}"
    );
}
