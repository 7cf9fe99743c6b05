//! Sampled batches on several ranks: the same losses as on one, and bytes that a formula gives.

use crate::check::{Case, Way};
use crate::data::{FEATURES, Shape, planted};
use crate::descent::differences;
use crate::minibatch::{ONE, SEVERAL, WIDE_SAGE, case, pushed, sampling, untyped, with};
use crate::models::{GAT, GCN, SAGE, shape};
use gnnc::graph::{EdgeFeatures, GraphData, Topology};
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::Placement;
use gnnc::ir::program::BatchSizes;
use gnnc::ir::program::trace::Phase;
use gnnc::ir::words::sampling::{ALL, Cut, Kind, Roots, Sampling};
use gnnc::ir::words::storage::Storage;
use gnnc::runtime::{OnBatch, RuntimeError, Stop};
use gnnc::{Error, TrainOptions, Trainer};
use std::sync::atomic::{AtomicU32, Ordering};

/// Sums over ranks are rounded in another order than on one, in every step.
const TOLERANCE: f64 = 1e-5;

/// Losses of some epochs, which check their bytes.
fn losses(case: &Case, way: Way, epochs: usize) -> Vec<f64> {
    let mut trainer = case.start(way);
    let epoch = |_| {
        let report = trainer.epoch().unwrap_or_else(|e| panic!("{way:?}: {e}"));
        report.loss
    };
    (0..epochs).map(epoch).collect()
}

/// Fails unless several ranks have the losses of one, whoever works on which seeds.
pub fn same(body: &str, data: &GraphData, batches: &Sampling, epochs: usize) {
    let of = |roots| {
        let sampling = Sampling {
            roots,
            ..batches.clone()
        };
        with(case("", body, data.clone()), &sampling)
    };
    let expected = losses(&of(Roots::Home), ONE, epochs);
    assert!(expected.iter().all(|loss| loss.is_finite() && *loss > 0.0));
    for way in [SEVERAL, pushed()].concat() {
        for roots in [Roots::Home, Roots::Dealt] {
            let found = losses(&of(roots), way, epochs);
            let pairs = found.iter().zip(&expected);
            let close = pairs.clone().all(|(a, b)| (a - b).abs() <= TOLERANCE * b);
            assert!(close, "{way:?} {roots}: {found:?}, not {expected:?}");
        }
    }
}

#[test]
fn twenty_steps_with_dropout_are_the_same_on_any_number_of_ranks() {
    let data = untyped(planted(shape(false)));
    let trained = data.train.iter().filter(|trains| **trains).count() as u32;
    // Five steps an epoch.
    let some = sampling(trained.div_ceil(5), vec![3, 3], Kind::Neighbor, Cut::Even);
    for body in [SAGE, GCN, GAT] {
        same(body, &data, &some, 4);
    }
}

#[test]
fn a_seed_more_than_batches_hold_makes_another_batch() {
    let mut data = untyped(planted(Shape {
        vertices: 4_200,
        edges: 9_000,
        ..shape(false)
    }));
    data.train = (0..4_200).map(|v| v < 4_097).collect();
    let thousand = sampling(1_024, vec![3, 2], Kind::Neighbor, Cut::Even);
    same(SAGE, &data, &thousand, 1);
    let four = SEVERAL[2];
    for roots in [Roots::Home, Roots::Dealt, Roots::Own] {
        let own = Sampling {
            roots,
            ..thousand.clone()
        };
        let mut trainer = with(case("", SAGE, data.clone()), &own).start(four);
        trainer.epoch().unwrap();
        assert_eq!(trainer.session.steps(), 5, "{roots}");
        let batches = trainer.session.drawn(Phase::Step).unwrap();
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [5; 4]);
    }
}

#[test]
fn ranks_without_seeds_work_for_others() {
    // The first ranks own all training vertices.
    let mut data = untyped(planted(shape(false)));
    data.train = (0..90).map(|v| v < 20).collect();
    for batch in [1, 7, 1_000] {
        let few = sampling(batch, vec![3, 3], Kind::Neighbor, Cut::Even);
        same(SAGE, &data, &few, 2);
    }
}

/// A row is fetched once a step: its number goes one way and its columns come back. Gradients and
/// the loss of the epoch go to the rank that sums them and back.
#[test]
fn bytes_are_those_of_the_formula() {
    let data = untyped(planted(shape(false)));
    for (way, roots) in SEVERAL
        .into_iter()
        .zip([Roots::Own, Roots::Dealt, Roots::Home])
    {
        let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
        let own = Sampling { roots, ..some };
        let mut trainer = with(case("", SAGE, data.clone()), &own).start(way);
        let sent = trainer.epoch().unwrap().bytes_sent;
        let parameters = trainer.session.parameters().unwrap();
        let floats: usize = parameters.iter().map(|tensor| tensor.values.len()).sum();
        let drawn = trainer.session.drawn(Phase::Step).unwrap();
        let rows: u64 = drawn.iter().flatten().map(|sizes| sizes.remote[0]).sum();
        assert!(rows > 0);
        let reduced = trainer.session.steps() * u64::from(way.ranks - 1) * 8 * floats as u64;
        let loss = u64::from(way.ranks - 1) * 8;
        assert_eq!(
            sent,
            rows * u64::from(4 * FEATURES + 4) + reduced + loss,
            "{way:?}"
        );
    }
}

/// The lists of a part of a batch go to all other ranks, sums of the first layer come back, and their
/// gradients go out again: `(M - 1) (4 (V_0 + V_1 + 1 + E_1) + 8 V_1 d_1)` bytes for each part. Weights of
/// the first layer stay where they are.
#[test]
fn push_pull_sends_no_row_of_features() {
    const HIDDEN: u64 = 18;
    let data = untyped(planted(shape(false)));
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    let roots = [Roots::Own, Roots::Dealt, Roots::Home];
    for (way, roots) in pushed().into_iter().zip(roots) {
        let own = Sampling {
            roots,
            ..some.clone()
        };
        let mut trainer = with(case("", WIDE_SAGE, data.clone()), &own).start(way);
        let sent = trainer.epoch().unwrap().bytes_sent;
        let part = |sizes: &BatchSizes| {
            let lists = sizes.levels[0] + sizes.levels[1] + 1 + sizes.edges[1];
            4 * lists + 8 * sizes.levels[1] * HIDDEN
        };
        let parts: u64 = trainer
            .session
            .drawn(Phase::Step)
            .unwrap()
            .iter()
            .flatten()
            .map(part)
            .sum();
        let parameters = trainer.session.parameters().unwrap();
        let floats: usize = parameters.iter().map(|tensor| tensor.values.len()).sum();
        let replicated = floats as u64 - 2 * u64::from(FEATURES) * HIDDEN;
        let steps = trainer.session.steps();
        let others = u64::from(way.ranks - 1);
        let expected = others * (parts + 8 * steps * replicated + 8);
        assert_eq!(sent, expected, "{way:?}");
    }
}

/// Large graphs with hubs have their rows sorted by degree, which batches must not read by vertex.
#[test]
fn rows_sorted_by_degree_change_nothing() {
    const VERTICES: u32 = 1 << 14;
    let mut data = untyped(planted(Shape {
        vertices: VERTICES,
        edges: u64::from(VERTICES),
        ..shape(false)
    }));
    let edges = data.topology.listed().into_iter();
    let hub = (0..VERTICES).step_by(7).map(|v| (v, 9_000));
    let all = edges.map(|edge| (edge.source, edge.target)).chain(hub);
    data.topology = Topology::from_edges(VERTICES, all).unwrap().0;
    data.edge_features = EdgeFeatures::default();
    let some = sampling(3_000, vec![3, 3], Kind::Neighbor, Cut::Even);
    let of = |way| losses(&with(case("", SAGE, data.clone()), &some), way, 2);
    let expected = of(ONE);
    for way in [SEVERAL[0], pushed()[0]] {
        for (a, b) in of(way).iter().zip(&expected) {
            assert!((a - b).abs() < TOLERANCE * b, "{way:?}: {a} instead of {b}");
        }
    }
    let case = with(case("", SAGE, data), &some);
    assert_eq!(differences(&case, &some, ONE), None);
}

#[test]
fn fetching_ahead_changes_no_bit() {
    let data = untyped(planted(shape(false)));
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    for way in [SEVERAL, pushed()].concat() {
        let of = |ahead| {
            let mut case = with(case("", GAT, data.clone()), &some);
            case.knobs.sampling.prefetch = Some(ahead);
            losses(&case, way, 3)
        };
        let expected = of(0);
        for ahead in [1, 2, 3, 8] {
            assert_eq!(of(ahead), expected, "{way:?}, {ahead} ahead");
        }
    }
}

/// Models whose first aggregation reads features alone.
pub const FIXED: [(&str, bool); 3] = [
    (
        "let h = x |> sage_conv(7) |> relu
         loss cross_entropy(h |> dropout(0.3) |> sage_conv(classes), labels, on = train)",
        false,
    ),
    (
        "let h = x |> gcn_conv(30) |> relu
         loss cross_entropy(h |> dropout(0.3) |> gcn_conv(classes), labels, on = train)",
        false,
    ),
    (
        "let h = x |> gin_conv(8) |> relu
         loss cross_entropy(h |> dropout(0.3) |> sage_conv(classes), labels, on = train)",
        true,
    ),
];

#[test]
fn aggregations_of_features_may_come_beforehand() {
    for (body, typed) in FIXED {
        for sparse in [false, true] {
            let data = planted(shape(sparse));
            let data = if typed { data } else { untyped(data) };
            let all = sampling(1_000, vec![ALL], Kind::Full, Cut::Even);
            let mut whole = with(Case::new("", body, data.clone()), &all);
            whole.knobs.sampling.beforehand = Some(true);
            let few = sampling(13, vec![2], Kind::Neighbor, Cut::Even);
            let mut batches = with(case("", body, data), &few);
            batches.knobs.sampling.beforehand = Some(true);
            for way in [ONE, SEVERAL[0], SEVERAL[1]] {
                whole.check(way);
                assert_eq!(differences(&batches, &few, way), None);
            }
        }
    }
}

#[test]
fn what_cannot_be_computed_beforehand_is_refused() {
    let data = untyped(planted(shape(false)));
    let refused = |body: &str, fanouts: Vec<u32>| {
        let some = sampling(13, fanouts, Kind::Neighbor, Cut::Even);
        let mut case = with(case("", body, data.clone()), &some);
        case.knobs.sampling.beforehand = Some(true);
        error(&case)
    };
    // Dropout of the features comes first.
    assert!(refused(SAGE, vec![3]).contains("leave out --static"));
    let sgc = "let h = x |> propagate |> propagate
         loss cross_entropy(h |> linear(classes), labels, on = train)";
    assert!(refused(sgc, vec![3]).contains("nothing left to sample"));
    let two = refused(FIXED[0].0, vec![3, 3]);
    assert!(two.contains("1 time one after another besides"), "{two}");
}

/// Why a run does not begin.
fn error(case: &Case) -> String {
    let refused = Trainer::new(&case.loaded, &case.compiled, &options(case)).err();
    refused.unwrap().to_string()
}

fn options(case: &Case) -> TrainOptions {
    TrainOptions {
        placement: ONE.placement,
        allow: Relaxation::ALL.to_vec(),
        knobs: case.knobs.clone(),
        ..TrainOptions::default()
    }
}

#[test]
fn every_batch_is_told_once() {
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    let case = with(case("", SAGE, untyped(planted(shape(false)))), &some);
    for workers in [1, 3] {
        let (send, told) = std::sync::mpsc::channel();
        let on_batch = OnBatch::new(move |done, all| send.send((done, all)).unwrap());
        let options = TrainOptions {
            workers,
            on_batch: Some(on_batch),
            ..options(&case)
        };
        let mut trainer = Trainer::new(&case.loaded, &case.compiled, &options).unwrap();
        for _ in 0..2 {
            trainer.epoch().unwrap();
        }
        let all = trainer.session.steps() as u32 / 2;
        let epoch = (1..=all).map(|done| (done, all));
        let expected: Vec<(u32, u32)> = epoch.clone().chain(epoch).collect();
        assert_eq!(told.try_iter().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn wide_rows_are_fetched_in_sixteen_bits() {
    let body = "let h = x |> linear(32) |> relu |> sage_conv(32) |> relu
         loss cross_entropy(h |> sage_conv(classes), labels, on = train)";
    let data = untyped(planted(shape(false)));
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    for way in [ONE, SEVERAL[0], pushed()[0]] {
        let of = |storage| {
            let mut case = with(case("", body, data.clone()), &some);
            case.knobs.storage = storage;
            losses(&case, way, 2)
        };
        let (whole, half) = (of(Storage::F32), of(Storage::Bf16));
        for (a, b) in half.iter().zip(&whole) {
            let apart = (a - b).abs();
            assert!(
                apart > 0.0 && apart <= 4.0 * Storage::Bf16.roundoff() * b,
                "{half:?} {whole:?}"
            );
        }
    }
}

#[test]
fn fanouts_that_are_not_one_for_each_hop_are_refused() {
    let data = untyped(planted(shape(false)));
    for fanouts in [vec![3], vec![3, 3, 3]] {
        let count = fanouts.len();
        let wrong = sampling(13, fanouts, Kind::Neighbor, Cut::Even);
        let case = with(case("", SAGE, data.clone()), &wrong);
        let said = error(&case);
        assert!(said.contains(&format!("found {count} fanout")), "{said}");
    }
    let all = sampling(u32::MAX, vec![ALL; 2], Kind::Full, Cut::Even);
    let mut trainer = with(case("", SAGE, data), &all).start(SEVERAL[1]);
    trainer.epoch().unwrap();
    assert_eq!(trainer.session.steps(), 1);
}

#[test]
fn an_epoch_that_is_stopped_between_batches_changes_nothing() {
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    let late = Some(3);
    for (workers, placement, delay) in [
        (1, ONE.placement, None),
        (3, ONE.placement, None),
        (3, Placement::PushPull, None),
        (3, Placement::PushPull, late),
    ] {
        let mut case = with(case("", SAGE, untyped(planted(shape(false)))), &some);
        case.knobs.sampling.delay = delay;
        let stop = Stop::default();
        let asks = stop.clone();
        // The second epoch has done two batches when it is asked to stop at once.
        let calls = AtomicU32::new(0);
        let on_batch = OnBatch::new(move |done, all| {
            if calls.fetch_add(1, Ordering::Relaxed) + 1 == all + 2 {
                assert_eq!(done, 2);
                asks.ask_at_once();
            }
        });
        let options = TrainOptions {
            workers,
            placement,
            on_batch: Some(on_batch),
            stop,
            ..options(&case)
        };
        let mut trainer = Trainer::new(&case.loaded, &case.compiled, &options).unwrap();
        trainer.epoch().unwrap();
        let before = trainer.session.parameters().unwrap();
        let stopped = trainer.epoch().unwrap_err();
        assert!(matches!(stopped, Error::Runtime(RuntimeError::Stopped)));
        assert_eq!(trainer.session.parameters().unwrap(), before);
        assert_eq!(trainer.session.epochs(), 1);
    }
}
