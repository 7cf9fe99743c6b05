//! Offload changes no result, and the rest fits in the given memory.

use crate::check::Case;
use crate::data::{FEATURES, Shape, planted};
use crate::device::fake::Seen;
use crate::device::runs::{Found, in_turns, options, run, staged};
use crate::device::{Again, shape};
use crate::minibatch::{sampling, with};
use crate::models::{APPNP, GAT, GCN, GCNII, GIN, SAGE};
use crate::random;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::{Knobs, Placement};
use gnnc::ir::program::instr;
use gnnc::ir::program::memory::layout;
use gnnc::ir::program::trace::Phase;
use gnnc::ir::program::traffic::moved;
use gnnc::ir::program::{BatchSizes, Capacity, Instr, Program, RankSizes};
use gnnc::ir::words::sampling::{Cut, Fanout, Kind};
use gnnc::ir::words::units::Bytes;
use gnnc::planner::lower::offload::{MemoryBudget, offload};
use gnnc::planner::placement;
use gnnc::runtime::Session;
use gnnc::{TrainOptions, Trainer};
use proptest::prelude::*;
use std::cell::Cell;
use std::sync::{Arc, Mutex};

/// A deep model whose layers form a loop.
const DEEP: &str = "let h0 = x |> linear(8) |> relu
     let h = h0
     repeat i in 1..=9 {
       h = h |> dropout(0.2) |> gcnii_conv(h0, alpha = 0.1, beta = 0.5 / i) |> relu
     }
     loss cross_entropy(linear(h, classes), labels, on = train)";

/// Attention and a residual in a loop.
const DEEP_GAT: &str = "let h = x |> linear(8)
     repeat i in 1..=7 {
       h = h + (h |> dropout(0.2) |> gat_conv(4, heads = 2) |> elu)
     }
     loss cross_entropy(linear(h, classes), labels, on = train)";

fn case(body: &str, sparse: bool) -> Case {
    Case::new("", body, planted(shape(sparse)))
}

/// Memory budgets for each program's ranks: a share of what they need.
pub fn budgets(program: &Program, sizes: &[RankSizes], share: f64) -> Vec<MemoryBudget> {
    let budget = |capacity| MemoryBudget {
        capacity,
        bytes: (layout(program, &capacity).total_bytes as f64 * share) as u64,
        lacking: 0,
        lists: true,
    };
    sizes
        .iter()
        .copied()
        .map(Capacity::of)
        .map(budget)
        .collect()
}

/// The programs in a share of their memory; `None` if that is impossible.
pub fn rested(programs: &[Program], sizes: &[RankSizes], share: f64) -> Option<Vec<Program>> {
    if programs[0].pipeline.is_none() {
        // Ranks of column slices have programs of their own.
        let of_rank = |(rank, sizes): (usize, &RankSizes)| {
            let program = &programs[rank.min(programs.len() - 1)];
            budgets(program, std::slice::from_ref(sizes), share)
        };
        let budgets: Vec<MemoryBudget> = sizes.iter().enumerate().flat_map(of_rank).collect();
        return offload(programs, &budgets).ok();
    }
    let one = |program: &Program| {
        let budgets = budgets(program, sizes, share);
        Some(
            offload(std::slice::from_ref(program), &budgets)
                .ok()?
                .remove(0),
        )
    };
    programs.iter().map(one).collect()
}

/// Bytes that a session copies in epochs and evaluations; checks them against the prediction.
pub fn copies(session: &Session, again: &Again, epochs: u64) -> [u64; 2] {
    let sizes = session.sizes();
    let each = sizes.len() / again.programs.len().min(sizes.len());
    let of = |phase: Phase| -> u64 {
        let ranks = sizes.iter().enumerate().map(|(rank, sizes)| {
            let program = &again.programs[(rank / each).min(again.programs.len() - 1)];
            moved(program.list(phase), program, sizes)
                .iter()
                .sum::<u64>()
        });
        ranks.sum()
    };
    let all = of(Phase::Setup) + epochs * (of(Phase::Step) + of(Phase::Eval));
    [session.bytes_moved(), all]
}

fn halves(list: &[Instr]) -> usize {
    let one = |instr: &Instr| match instr {
        Instr::Begin(transfer) => usize::from(!transfer.what.communicates()),
        Instr::Repeat(instr::Repeat { body, .. }) => halves(body),
        _ => 0,
    };
    list.iter().map(one).sum()
}

/// Runs in ever smaller shares of the memory until that is impossible. Returns the smallest
/// share in percent, and the number of copies that overlapped computation.
fn check(case: &Case, options: &TrainOptions, device: bool) -> (u32, usize) {
    let again = Again::new(case, options);
    let what = format!("{} x {}", options.placement, options.workers);
    shrink(again, &[85, 60, 35], device, &what)
}

/// The same for given programs, in these shares.
fn shrink(mut again: Again, shares: &[u32], device: bool, what: &str) -> (u32, usize) {
    let programs = again.programs.clone();
    let found = |again: &Again| -> (Found, Session) {
        let mut session = match device {
            true => again.on_device(&Arc::default()),
            false => again.on_processor(),
        };
        (run(&mut session, 3), session)
    };
    let (expected, before) = found(&again);
    assert_eq!((before.host_bytes(), before.bytes_moved()), (0, 0));
    again.options.checked = true;
    let (mut least, mut beside) = (100, 0);
    let sizes = before.sizes();
    for &percent in shares {
        let share = f64::from(percent) / 100.0;
        let Some(smaller) = rested(&programs, &sizes, share) else {
            continue;
        };
        again.programs = smaller;
        let (got, session) = found(&again);
        assert!(got == expected, "{what} in {percent} %: other numbers");
        let freed = crate::streamed::freed(&again.programs, &sizes);
        let most = before.buffer_bytes() as f64 * share + freed as f64;
        assert!(session.buffer_bytes() as f64 <= most.ceil(), "{what}");
        assert!(session.host_bytes() > 0, "{what} in {percent} %");
        let [copied, says] = copies(&session, &again, 3);
        assert!(
            copied > 0 && copied == says,
            "{what}: copied {copied}, says {says}"
        );
        beside = beside.max(halves(&again.programs[0].step));
        least = percent;
    }
    (least, beside)
}

const PLACED: [(Placement, u32); 7] = [
    (Placement::Graph, 1),
    (Placement::Graph, 3),
    (Placement::Tensor, 2),
    (Placement::PushPull, 2),
    (Placement::Broadcast, 3),
    (Placement::Mixed, 2),
    (Placement::SkipBroadcast, 2),
];

fn everywhere(body: &str, most: u32, device: bool) {
    for (n, (placement, ranks)) in PLACED.into_iter().enumerate() {
        let case = case(body, n % 2 == 1);
        let overlap = n != 3;
        let mut options = options(placement, ranks);
        options.knobs.overlap = Some(overlap);
        let (least, beside) = check(&case, &options, device);
        let what = format!("{placement} x {ranks}: {body}");
        assert!(least <= most, "needs {least} %: {what}");
        assert!(beside > 0, "{what}");
    }
}

#[test]
fn offload_convolutions() {
    everywhere(GCN, 85, false);
    everywhere(SAGE, 85, false);
    everywhere(GIN, 85, false);
}

#[test]
fn offload_attention() {
    everywhere(GAT, 85, false);
    everywhere(DEEP_GAT, 70, false);
}

#[test]
fn offload_loops() {
    everywhere(GCNII, 85, false);
    everywhere(APPNP, 85, false);
    everywhere(DEEP, 60, false);
}

#[test]
fn offload_on_the_device() {
    everywhere(GCN, 85, true);
    everywhere(DEEP, 60, true);
}

#[test]
fn offload_attention_on_the_device() {
    everywhere(GAT, 85, true);
}

#[test]
fn offload_pipelines() {
    let mut smaller = 0;
    for (n, body) in crate::pipeline::MODELS.into_iter().enumerate() {
        let case = crate::pipeline::case(body);
        let options = [staged(3, 2, 2), staged(4, 2, 4), staged(4, 1, 2)];
        let (least, _) = check(&case, &options[n % 3], n == 0);
        smaller += usize::from(least <= 85);
    }
    // Histories stay on the rank; if they take most of the memory, little can be offloaded.
    let all = crate::pipeline::MODELS.len();
    assert!(2 * smaller > all, "{smaller} of {all}");
}

#[test]
fn offload_runs_of_layers() {
    for (n, (body, _)) in crate::stages::DEEP.into_iter().enumerate() {
        let case = crate::stages::deep(body, 40, 5);
        let options = in_turns(3, staged(3, 2, 2 + 2 * (n as u32 % 2)));
        let (least, _) = check(&case, &options, n == 0);
        assert!(least <= 85, "needs {least} %: {body}");
    }
}

/// Losses of epochs on two workers, as bits; a run checks the bytes of each epoch.
pub fn in_a_budget(
    case: &Case,
    device_memory: Option<u64>,
    epochs: usize,
) -> Result<(Vec<u64>, Trainer), gnnc::Error> {
    let options = TrainOptions {
        device_memory,
        ..options(Placement::Graph, 2)
    };
    let mut trainer = Trainer::new(&case.loaded, &case.compiled, &options)?;
    trainer.session.set_learning_rate(0.05);
    let mut losses = Vec::new();
    for _ in 0..epochs {
        losses.push(trainer.epoch()?.loss.to_bits());
        trainer.evaluate()?;
    }
    Ok((losses, trainer))
}

/// Set by a run's options; the run checks the bytes of each epoch.
#[test]
fn offload_trains_in_a_budget() {
    let data = planted(Shape {
        vertices: 400,
        edges: 1600,
        directed: false,
        sparse: false,
        seed: 3,
    });
    let case = Case::new("", DEEP, data);
    let trained = |device_memory| in_a_budget(&case, device_memory, 3);
    let (expected, whole) = trained(None).unwrap();
    let all = whole.session.peak_memory_bytes().unwrap();
    // The same program, with enough memory.
    let (losses, roomy) = trained(Some(2 * all)).unwrap();
    assert_eq!(
        (losses, roomy.moves(Phase::Step).unwrap()),
        (expected.clone(), 0)
    );
    for part in [4, 3] {
        let (losses, trainer) = trained(Some(all * part / 5)).unwrap();
        assert_eq!(losses, expected);
        let here = trainer.session.peak_memory_bytes().unwrap() - trainer.session.host_bytes();
        assert!(here <= all * part / 5, "{here} of {all}, {part} of 5");
        assert!(trainer.moves(Phase::Step).unwrap() > 0);
    }
    let error = trained(Some(all / 50)).err().unwrap().to_string();
    let bytes = Bytes(all / 50).to_string();
    for part in [bytes.as_str(), "still missing", "--device-memory"] {
        assert!(error.contains(part), "{error}");
    }
}

/// Features that do not fit rest on the host, and batches read their rows there.
#[test]
fn rows_of_batches_come_from_the_host() {
    let data = planted(Shape {
        vertices: 4_000,
        edges: 6_000,
        directed: false,
        sparse: false,
        seed: 3,
    });
    let some = sampling(16, vec![2, 2], Kind::Neighbor, Cut::Even);
    let features = u64::from(4 * FEATURES) * 4_000;
    for (body, placement) in [
        (SAGE, Placement::Minibatch),
        (GAT, Placement::Minibatch),
        (SAGE, Placement::PushPull),
    ] {
        let mut case = with(Case::new("", body, data.clone()), &some);
        case.knobs.sampling.eval_fanouts = vec![Fanout::Each(2); 2];
        let trained = |device_memory| {
            let options = TrainOptions {
                device_memory,
                allow: vec![Relaxation::Sample],
                check_bytes: true,
                knobs: case.knobs.clone(),
                ..options(placement, 1)
            };
            let mut trainer = Trainer::new(&case.loaded, &case.compiled, &options)?;
            trainer.session.set_learning_rate(0.05);
            let mut found = Vec::new();
            for _ in 0..2 {
                let loss = trainer.epoch()?.loss.to_bits();
                found.push((loss, trainer.evaluate()?));
            }
            Ok::<_, gnnc::Error>((found, trainer))
        };
        let (expected, whole) = trained(None).unwrap();
        let all = whole.session.peak_memory_bytes().unwrap();
        let (found, roomy) = trained(Some(2 * all)).unwrap();
        assert_eq!(
            (found, roomy.moves(Phase::Step).unwrap()),
            (expected.clone(), 0)
        );
        let budget = all - features / 2;
        let (found, trainer) = trained(Some(budget)).unwrap();
        assert_eq!(found, expected, "{body} {placement}");
        let host = trainer.session.host_bytes();
        assert!(host >= features, "{host} of {features} bytes: {body}");
        assert!(trainer.session.peak_memory_bytes().unwrap() - host <= budget);
        // A row is read once for each batch that has it.
        let rows = |sizes: &[BatchSizes]| sizes.iter().map(|one| one.levels[0]).sum::<u64>();
        let drawn = trainer.session.drawn(Phase::Step).unwrap();
        let read = rows(&drawn[0]) * u64::from(4 * FEATURES);
        assert_eq!(
            trainer.moves(Phase::Step).unwrap(),
            read,
            "{body} {placement}"
        );
    }
}

/// The host has no memory that the device can copy from.
#[test]
fn offload_without_memory_of_the_host() {
    let case = case(GCN, false);
    let mut again = Again::new(&case, &options(Placement::Graph, 2));
    let sizes = again.on_processor().sizes();
    again.programs = rested(&again.programs, &sizes, 0.8).unwrap();
    let seen: Arc<Mutex<Seen>> = Arc::default();
    seen.lock().unwrap().no_host_memory = true;
    let driver = Box::new(crate::device::fake::Fake::new(&seen));
    let error = again.try_on_device(driver).err().unwrap().to_string();
    for part in ["the host refused", "locked memory", "more ranks"] {
        assert!(error.contains(part), "{error}");
    }
}

/// Programs that use absent data are refused.
#[test]
fn offload_is_checked() {
    let case = case(GCN, false);
    let mut again = Again::new(&case, &options(Placement::Graph, 1));
    let sizes = again.on_processor().sizes();
    let good = rested(&again.programs, &sizes, 0.8).unwrap().remove(0);
    let mut refused = |change: &dyn Fn(&mut Program), part: &str| {
        let mut program = good.clone();
        change(&mut program);
        again.programs = vec![program];
        let error = again.try_on_device(Box::new(crate::device::fake::Fake::new(&Arc::default())));
        let error = error.err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    };
    let fetch = |program: &Program| {
        let fetched = |instr: &Instr| match instr {
            Instr::Move(instr::Move { from, to, .. }) if program.is_hosted(from.buffer) => {
                Some((*from, *to))
            }
            Instr::Begin(half) => match &*half.what {
                Instr::Move(instr::Move { from, to, .. }) if program.is_hosted(from.buffer) => {
                    Some((*from, *to))
                }
                _ => None,
            },
            _ => None,
        };
        program.step.iter().find_map(fetched).unwrap()
    };
    refused(
        &|program| {
            let (from, to) = fetch(program);
            for instr in program.step.iter_mut() {
                if !matches!(instr, Instr::Move(_) | Instr::Begin(_) | Instr::Finish(_)) {
                    instr.each_ref(&mut |at| {
                        if at.buffer == to.buffer {
                            *at = from;
                        }
                    });
                }
            }
        },
        "on the host, not on the device; fetch them before",
    );
    refused(
        &|program| {
            let (from, _) = fetch(program);
            program.step.push(Instr::Move(instr::Move {
                from,
                to: from,
                chunk: None,
            }));
        },
        "expected one of them on the host and one on the device",
    );
    refused(
        &|program| {
            let (from, to) = fetch(program);
            program.buffers[to.buffer.0 as usize].columns += 1;
            program.step = vec![Instr::Move(instr::Move {
                from,
                to,
                chunk: None,
            })];
        },
        "expected the same rows, columns and storage",
    );
    refused(
        &|program| program.hosted.reverse(),
        "not in ascending order",
    );
    refused(
        &|program| {
            let loss = program.loss.unwrap();
            program.hosted = vec![loss];
        },
        "which is read after a run",
    );
}

/// Random models, graphs, placements and memory shares; every tenth runs on the fake device.
#[test]
fn offload_random_models() {
    let mut runner = random::runner(60);
    let flow = (any::<bool>(), 1..4u32);
    let shares = proptest::collection::vec(15..95u32, 2);
    let whole = (random::body(), random::shape(), random::way());
    let (rested, run) = (Cell::new(0), Cell::new(0));
    let result = runner.run(
        &(whole, flow, shares, 0..10u32),
        |((body, shape, way), flow, shares, place)| {
            let mut case = Case::new(random::LAYERS, &body, planted(shape));
            if way.placement == Placement::TensorDecoupled {
                let Ok(decoupled) = case.decoupled() else {
                    return Ok(());
                };
                case = decoupled;
            }
            let mut options = options(way.placement, way.ranks);
            let (overlap, chunks) = flow;
            let slices = placement::row(way.placement).is_some_and(|row| row.slices);
            options.knobs = Knobs {
                partitioner: way.partitioner.parse().ok(),
                overlap: Some(overlap),
                chunks: slices.then_some(chunks),
                ..Knobs::default()
            };
            let what = format!("{way:?} {flow:?} {shares:?}\n{body}");
            let device = place == 0 && way.ranks <= 4;
            let (least, _) = shrink(Again::new(&case, &options), &shares, device, &what);
            rested.set(rested.get() + u32::from(least < 100));
            run.set(run.get() + 1);
            Ok(())
        },
    );
    if let Err(e) = result {
        panic!("{e}");
    }
    let (rested, run) = (rested.get(), run.get());
    assert!(2 * rested > run, "something rested in {rested} of {run}");
}
