//! Sampled batches on a device, against the interpreter on the batches that the sampler draws, and against the
//! processor.

use super::Again;
use super::fake::Fake;
use crate::check::{Case, Way};
use crate::data::planted;
use crate::descent::differences;
use crate::edge_sets::of_graphs;
use crate::evaluations::{close, evaluated, metrics};
use crate::lazy;
use crate::minibatch::{
    ONE, SEVERAL, case, hops, models, numbers, pushed, sampling, untyped, with,
};
use crate::models::{GCN, SAGE, shape};
use crate::pairs::{self, MIGRATING, pairs};
use gnnc::TrainOptions;
use gnnc::graph::GraphData;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::{Knobs, Placement};
use gnnc::ir::words::sampling::{
    ALL, CacheBy, Cut, Kind, Migrate, Negatives, Roots, Sampling, Topology,
};
use gnnc::ir::words::storage::Storage;
use std::sync::Arc;

fn some(hops: usize, roots: Roots) -> Sampling {
    Sampling {
        roots,
        ..sampling(13, vec![2; hops], Kind::Neighbor, Cut::Even)
    }
}

fn data(typed: bool) -> GraphData {
    let data = planted(shape(typed));
    if typed { data } else { untyped(data) }
}

/// Each model with one of the ways, and what else is changed.
fn each_model(ways: &[Way], mut change: impl FnMut(&mut Case, usize) -> Roots) {
    let mut found = Vec::new();
    for (n, (layers, body, typed)) in models().into_iter().enumerate() {
        let case = case(layers, body, data(typed));
        let batches = some(hops(&case), Roots::Home);
        let mut case = with(case, &batches);
        case.device = true;
        let roots = change(&mut case, n);
        let way = ways[n % ways.len()];
        let why = differences(&case, &Sampling { roots, ..batches }, way);
        found.extend(why.map(|why| format!("{body}\n{why}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Sets one of the ways to choose roots.
fn any_roots(case: &mut Case, n: usize) -> Roots {
    let roots = [Roots::Home, Roots::Own, Roots::Dealt][n % 3];
    case.knobs.sampling.roots = Some(roots);
    roots
}

#[test]
fn device_batches_compute_what_the_interpreter_computes() {
    each_model(&[ONE], any_roots);
    each_model(&SEVERAL, any_roots);
}

#[test]
fn device_batches_with_slices_compute_what_the_interpreter_computes() {
    each_model(&pushed(), any_roots);
    // Late weights, of which several versions are under way.
    each_model(&pushed(), |case, n| {
        case.knobs.sampling.delay = Some(2 + n as u32 % 2);
        Roots::Home
    });
}

#[test]
fn device_models_that_move_compute_what_the_interpreter_computes() {
    let ways = SEVERAL.map(|way| Way {
        placement: Placement::ModelMigration,
        ..way
    });
    each_model(&ways, |case, n| {
        let migrate = [Migrate::Full, Migrate::Gradient, Migrate::Off][n % 3];
        case.knobs.sampling.roots = None;
        case.knobs.sampling.migrate = Some(migrate);
        case.knobs.sampling.merges = Some(n as u32 % 2);
        Roots::Home
    });
}

#[test]
fn device_batches_with_caches_compute_what_the_interpreter_computes() {
    each_model(&SEVERAL, |case, n| {
        case.knobs.sampling.cache = Some(9);
        case.knobs.sampling.cache_by = Some(CacheBy::ALL[n % CacheBy::ALL.len()]);
        Roots::Home
    });
}

#[test]
fn device_batches_of_pairs_compute_what_the_interpreter_computes() {
    for (body, typed) in pairs::MODELS {
        for (negatives, way) in [
            (Negatives::Given, ONE),
            (Negatives::Fresh, SEVERAL[0]),
            (Negatives::Targets, pushed()[1]),
            (Negatives::Fresh, MIGRATING),
        ] {
            let case = case("", body, pairs(shape(typed), typed));
            let batches = Sampling {
                negatives,
                ..sampling(150, vec![2; hops(&case)], Kind::Neighbor, Cut::Even)
            };
            let mut case = with(case, &batches);
            case.device = true;
            assert_eq!(differences(&case, &batches, way), None, "{body}");
        }
    }
}

#[test]
fn device_batches_of_graphs_compute_what_the_interpreter_computes() {
    for (layers, body, data) in of_graphs() {
        for (kind, way) in [
            (Kind::Full, ONE),
            (Kind::Neighbor, SEVERAL[1]),
            (Kind::Labor, pushed()[2]),
        ] {
            let case = case(layers, body, data.clone());
            let fanout = if kind == Kind::Full { ALL } else { 2 };
            let batches = sampling(4, vec![fanout; hops(&case)], kind, Cut::Even);
            let mut case = with(case, &batches);
            case.device = true;
            assert_eq!(differences(&case, &batches, way), None, "{body}");
        }
    }
}

#[test]
fn device_rows_are_stepped_as_the_papers_say() {
    for optimizer in lazy::optimizers() {
        for (body, way, roots) in [
            (lazy::ROWS, ONE, Roots::Home),
            (lazy::TWICE, SEVERAL[1], Roots::Home),
            (lazy::ROWS, SEVERAL[2], Roots::Own),
        ] {
            let batches = lazy::few(roots);
            let mut case = lazy::case(body, optimizer, &batches, true);
            case.device = true;
            let found = differences(&case, &batches, way);
            assert_eq!(found, None, "{optimizer:?} {body}");
            let late = lazy::late_by(2, case);
            let found = differences(&late, &batches, way);
            assert_eq!(found, None, "{optimizer:?} {body}, late");
        }
    }
}

#[test]
fn device_evaluations_on_batches_are_those_of_the_processor() {
    for body in [GCN, SAGE] {
        for way in [ONE, SEVERAL[1], pushed()[0]] {
            let mut case = evaluated("", body, &data(false), 2, 13);
            let expected = metrics(&case, way).1;
            case.device = true;
            let found = metrics(&case, way).1;
            assert!(close(&found, &expected), "{found:?}, not {expected:?}");
        }
    }
}

/// Batches that outgrow their memory, 16-bit storage, batches drawn ahead and dropout: losses as on the processor.
#[test]
fn device_losses_are_those_of_the_processor() {
    let mut grown = 0;
    for (n, (layers, body, typed)) in models().into_iter().enumerate() {
        let way = [ONE, SEVERAL[1], pushed()[2]][n % 3];
        let of = |device| {
            let case = case(layers, body, data(typed));
            let batches = sampling(5, vec![3; hops(&case)], Kind::Labor, Cut::Short);
            let mut case = with(case, &batches);
            case.knobs.sampling.prefetch = Some(n as u32 % 3);
            // Threads that draw ahead also make the numbers of a batch.
            case.knobs.sampling.samplers = Some(u32::from(device) * (n as u32 / 2 % 3));
            case.knobs.storage = [Storage::F32, Storage::Bf16][n % 2];
            case.device = device;
            numbers(case, way)
        };
        let (found, expected) = (of(true), of(false));
        grown += found.1;
        assert_eq!(found.1, expected.1, "{body}");
        let tolerance = if n % 2 == 0 { 1e-4 } else { 2e-2 };
        for (a, b) in found.0.iter().zip(&expected.0) {
            assert!(
                (a - b).abs() <= tolerance * b,
                "{body} {way:?}: {a}, not {b}"
            );
        }
    }
    assert!(grown > 0);
}

fn again(topology: Option<Topology>) -> (Case, TrainOptions) {
    let case = with(case("", SAGE, data(false)), &some(2, Roots::Home));
    let mut knobs = case.knobs.clone();
    knobs.sampling.topology = topology;
    let options = TrainOptions {
        workers: 2,
        placement: Placement::Minibatch,
        allow: Relaxation::ALL.to_vec(),
        knobs: Knobs {
            partitioner: "hash".parse().ok(),
            ..knobs
        },
        ..TrainOptions::default()
    };
    (case, options)
}

#[test]
fn what_devices_do_not_draw_is_refused() {
    let (case, options) = again(None);
    let of_one = Again::new(&case, &options).on_device_of(1, Box::new(Fake::new(&Arc::default())));
    let why = of_one.err().unwrap().to_string();
    assert!(why.contains("--workers N"), "{why}");
    let (case, options) = again(Some(Topology::Own));
    let apart = Again::new(&case, &options).try_on_device(Box::new(Fake::new(&Arc::default())));
    let why = apart.err().unwrap().to_string();
    assert!(why.contains("topology own"), "{why}");
}
