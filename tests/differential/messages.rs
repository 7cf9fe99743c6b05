//! Every message of an epoch on G8, the eight-vertex graph on which the published systems are
//! worked out, against messages counted by hand.
//!
//! Each file in `messages/` is a model whose comments say how to run it and what is sent:
//!
//! | comment | meaning |
//! | --- | --- |
//! | `# placement: NAME` | how the work is placed |
//! | `# parts: 0 0 1 ..` | the rank of each vertex |
//! | `# cover: joint` | if partial sums are sent where they are fewer |
//! | `# equal-bits: yes` | if bits do not depend on the ranks; vertex `v` is leaf `v` |
//! | `# node-ranks: N` | ranks of a node, if rows cross to a node once |
//! | `# messages:` | what follows, in comments to the end, are all messages |
//!
//! Messages are listed under the instruction that sends them, by sender and receiver, as rows
//! times columns. Consecutive instructions that send the same are one entry. Phases are
//! numbered by their sending instructions and end with the bytes of all ranks. Nothing rewrites
//! these files: the numbers come from the specifications.

use gnnc::graph::partition::Partition;
use gnnc::graph::{LocalPart, example};
use gnnc::ir::graph::op::Redistribute;
use gnnc::ir::plan::{Cover, Placement};
use gnnc::ir::program::instr;
use gnnc::ir::program::trace::{Event, Phase};
use gnnc::ir::program::{Instr, Program};
use gnnc::planner::placement::PlacementSpec;
use gnnc::runtime::transport::Transport;
use gnnc::runtime::transport::threads::Threads;
use gnnc::runtime::transport::watched::{Call, Watched};
use gnnc::runtime::{RunOptions, Session};
use gnnc::{LoadOptions, Loaded, Source};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/messages");

/// The comments of a file.
struct Case {
    placement: Placement,
    owner: Vec<u32>,
    node_ranks: Option<u32>,
    cover: Option<Cover>,
    equal_bits: bool,
    expected: String,
}

/// One message.
#[derive(Clone, Copy, Debug)]
struct Sent {
    to: u32,
    floats: u64,
}

/// Messages from one rank that another one announces, and those that it receives.
#[derive(Debug, Default)]
struct From {
    announced: Vec<usize>,
    received: Vec<usize>,
}

/// Messages of one instruction: sender, receiver, rows and columns.
type Sends = (String, Vec<[u64; 4]>);

fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(FOLDER).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut models: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "gir"))
        .collect();
    models.sort();
    models
}

fn case(text: &str) -> Case {
    let found = |key: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(&format!("# {key}: ")))
    };
    let value = |key: &str| found(key).unwrap_or_else(|| panic!("no `# {key}: ..`"));
    let (_, expected) = text
        .split_once("# messages:\n")
        .expect("a line `# messages:`");
    let line = |line: &str| {
        let text = line.strip_prefix('#').expect("comments to the end");
        format!("{}\n", text.strip_prefix(' ').unwrap_or(text))
    };
    Case {
        placement: Placement::ALL
            .iter()
            .copied()
            .find(|p| p.name() == value("placement"))
            .expect("a placement"),
        owner: value("parts")
            .split(' ')
            .map(|part| part.parse().unwrap())
            .collect(),
        cover: found("cover").map(|name| name.parse().unwrap()),
        equal_bits: found("equal-bits") == Some("yes"),
        node_ranks: found("node-ranks").map(|ranks| ranks.parse().unwrap()),
        expected: expected.lines().map(line).collect(),
    }
}

/// Runs an epoch; returns the messages of all ranks by phase and position among the
/// instructions.
fn sends(path: &Path, case: &Case) -> BTreeMap<(Phase, usize), Sends> {
    let loaded = Loaded::new(&Source::read(path).unwrap(), &LoadOptions::default()).unwrap();
    let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
    let data = loaded.data.as_ref().unwrap();
    let ranks = case.owner.iter().max().unwrap() + 1;
    let mut partition = Partition::new(ranks, case.owner.clone()).unwrap();
    if case.equal_bits {
        let leaves = Partition::new(8, (0..8).collect()).unwrap();
        let of_leaves = Partition::of_leaves(&leaves, ranks).unwrap();
        assert_eq!(of_leaves.owner(), partition.owner());
        partition = of_leaves;
    }
    let parts = LocalPart::build_all(&data.topology, &partition).unwrap();
    let inner: Vec<u64> = parts.iter().map(|part| part.inner as u64).collect();
    // Not split, so that instructions stay in the order of the model.
    let mut place = PlacementSpec::new(case.placement, ranks);
    place.knobs.overlap = Some(false);
    (place.knobs.node_ranks, place.knobs.cover) = (case.node_ranks, case.cover);
    place.knobs.equal_bits = Some(case.equal_bits);
    let programs = compiled.programs(&place).unwrap();
    let seen: Vec<Arc<Mutex<Vec<Sent>>>> = (0..ranks).map(|_| Arc::default()).collect();
    let pairs: Arc<Mutex<BTreeMap<(u32, u32), From>>> = Arc::default();
    let watched = |(end, seen): (Threads, &Arc<Mutex<Vec<Sent>>>)| {
        let (seen, pairs, rank) = (Arc::clone(seen), Arc::clone(&pairs), end.rank());
        let watch = move |call| {
            let mut pairs = pairs.lock().unwrap();
            match call {
                Call::Send { to, floats } => {
                    let floats = floats as u64;
                    seen.lock().unwrap().push(Sent { to, floats });
                }
                Call::Await { from, floats } => {
                    let pair = pairs.entry((from, rank)).or_default();
                    pair.announced.push(floats);
                }
                Call::Receive { from, floats } => {
                    let pair = pairs.entry((from, rank)).or_default();
                    pair.received.push(floats);
                }
            }
            Ok(())
        };
        Box::new(Watched::new(end, Box::new(watch))) as Box<dyn Transport>
    };
    let ends = Threads::connect(ranks).into_iter().zip(&seen).map(watched);
    let options = RunOptions {
        trace: true,
        ..RunOptions::default()
    };
    let ends = ends.collect();
    let mut session =
        Session::with_transports(programs.clone(), data, &partition, options, ends).unwrap();
    session.epoch().unwrap();
    for (pair, from) in pairs.lock().unwrap().iter() {
        assert_eq!(
            from.announced,
            from.received,
            "{}: {pair:?}",
            path.display()
        );
    }
    let events = session.take_trace().unwrap().events;
    let mut sends = BTreeMap::new();
    for (rank, seen) in (0..ranks).zip(seen) {
        let program = &programs[rank as usize % programs.len()];
        let mut seen = seen.lock().unwrap().clone().into_iter();
        let mut places: BTreeMap<Phase, usize> = BTreeMap::new();
        for event in events.iter().filter(|e| e.rank == rank) {
            let place = places.entry(event.phase).or_default();
            *place += 1;
            let mut bytes = 0;
            while bytes < event.bytes_sent {
                let sent = seen.next().expect("a message for the bytes");
                bytes += 4 * sent.floats;
                let entry = sends.entry((event.phase, *place));
                let (_, list): &mut Sends = entry.or_insert((event.name.clone(), Vec::new()));
                let [rows, columns] =
                    shape(instruction(program, event), program, &inner, rank, sent);
                list.push([rank.into(), sent.to.into(), rows, columns]);
            }
            assert_eq!(bytes, event.bytes_sent, "{event:?}");
        }
        assert_eq!(seen.count(), 0, "rank {rank} sent what no instruction did");
    }
    sends
}

/// The instruction of an event.
fn instruction<'a>(program: &'a Program, event: &Event) -> &'a Instr {
    let mut list = match event.phase {
        Phase::Setup => &program.setup,
        Phase::Step => &program.step,
        Phase::Eval => &program.eval,
    };
    let (path, last) = event.at.rsplit_once('.').unwrap_or(("", &event.at));
    for index in path.split('.').filter(|index| !index.is_empty()) {
        let Instr::Repeat(instr::Repeat { body, .. }) = &list[index.parse::<usize>().unwrap()]
        else {
            panic!("{} is in no loop", event.at)
        };
        list = body;
    }
    &list[last.parse::<usize>().unwrap()]
}

/// Rows and columns of a message.
fn shape(instr: &Instr, program: &Program, inner: &[u64], from: u32, sent: Sent) -> [u64; 2] {
    let Sent { to, floats } = sent;
    let rows = match instr {
        Instr::HaloExchange(instr::HaloExchange { buffer, .. })
        | Instr::HaloReduce(instr::HaloReduce { buffer, .. }) => {
            floats / u64::from(program.buffer(buffer.buffer).columns)
        }
        Instr::Redistribute(instr::Redistribute { how, .. }) => match how {
            Redistribute::Split(_) | Redistribute::Replicate => inner[from as usize],
            _ => inner[to as usize],
        },
        _ => 1,
    };
    assert_eq!(floats % rows, 0, "{instr:?}");
    [rows, floats / rows]
}

/// Prints messages in the format of the files.
fn print(sends: &BTreeMap<(Phase, usize), Sends>) -> String {
    let mut text = String::new();
    for phase in Phase::ALL {
        let of_phase = sends.range((phase, 0)..=(phase, usize::MAX));
        let mut runs: Vec<(usize, Sends)> = Vec::new();
        let mut bytes = 0;
        for (_, (name, list)) in of_phase {
            let mut list = list.clone();
            list.sort_by_key(|[from, to, ..]| (*from, *to));
            bytes += list
                .iter()
                .map(|[.., rows, columns]| 4 * rows * columns)
                .sum::<u64>();
            match runs.last_mut() {
                Some((count, last)) if *last == (name.clone(), list.clone()) => *count += 1,
                _ => runs.push((1, (name.clone(), list))),
            }
        }
        let mut next = 1;
        for (count, (name, list)) in runs {
            let numbers = match count {
                1 => next.to_string(),
                _ => format!("{next}-{}", next + count - 1),
            };
            next += count;
            writeln!(text, "{phase} {numbers} {name}").unwrap();
            for [from, to, rows, columns] in list {
                let floats = rows * columns;
                let size = format!("{floats} floats, {} bytes", 4 * floats);
                writeln!(text, "  {from} -> {to}  {rows} x {columns}  {size}").unwrap();
            }
        }
        if bytes > 0 {
            writeln!(text, "{phase} sends {bytes} bytes").unwrap();
        }
    }
    text
}

#[test]
fn messages_are_those_counted_by_hand() {
    let mut wrong = String::new();
    let files = files();
    assert!(!files.is_empty(), "no file in {FOLDER}");
    for path in files {
        let case = case(&std::fs::read_to_string(&path).unwrap());
        let found = print(&sends(&path, &case));
        if found != case.expected {
            let (name, expected) = (path.display(), &case.expected);
            write!(wrong, "\n{name}\nfound\n{found}expected\n{expected}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_file_holds_g8() {
    let path = Path::new(FOLDER).join("g8.npz");
    let (mut found, expected) = (
        gnnc::graph::load(&path, &gnnc::graph::LoadOptions::default()).unwrap(),
        example::g8(),
    );
    found.name.clone_from(&expected.name);
    assert_eq!(found, expected);
}
