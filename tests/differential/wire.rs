//! Rows that travel in fewer bits: every placement trains nearly as with rows as they are, with bytes as predicted, on the
//! processor and on the fake device.
//!
//! In bf16 a number changes by at most 2^-8 of itself, in int8 by less than 1/254 of the range of its row. Losses are means
//! over many vertices after some tens of roundings, which mostly cancel.

use crate::check::{Case, Way};
use crate::data::{Shape, planted};
use crate::device::{Again, runs};
use crate::lazy;
use crate::minibatch::{self, sampling, untyped, with as batched};
use crate::storage::{GAT, GCN, GCNII, SAGE, case};
use gnnc::graph::{Features, GraphData};
use gnnc::ir::graph::model::Optimizer;
use gnnc::ir::plan::{Cover, Knobs, Placement};
use gnnc::ir::program::traffic::{Reads, traffic};
use gnnc::ir::words::sampling::{Cut, Kind};
use gnnc::ir::words::storage::Storage;
use gnnc::ir::words::wire::Wire;
use gnnc::planner::placement::PlacementSpec;
use gnnc::runtime::Tensor;
use gnnc::{TrainOptions, Trainer};
use std::sync::Arc;

/// Placements whose rows may travel in fewer bits. Slices of 32 columns are long enough for two ranks.
const PLACEMENTS: [(Placement, u32); 5] = [
    (Placement::Graph, 4),
    (Placement::Graph, 3),
    (Placement::Tensor, 2),
    (Placement::Broadcast, 4),
    (Placement::PushPull, 3),
];

/// Formats, with how far the loss of an epoch may be off, and the length of a step.
const FORMATS: [(Wire, f64, f64); 2] = [(Wire::Bf16, 0.004, 0.02), (Wire::Int8, 0.02, 0.1)];

fn options(placement: Placement, ranks: u32, wire: Wire) -> TrainOptions {
    let mut options = runs::options(placement, ranks);
    options.check_bytes = true;
    options.knobs.wire = Some(wire);
    options
}

fn start(case: &Case, options: &TrainOptions) -> Trainer {
    let mut trainer = Trainer::new(&case.loaded, &case.compiled, options)
        .unwrap_or_else(|e| panic!("{}: {e}", options.placement));
    trainer.session.set_learning_rate(0.02);
    trainer
}

/// How far two runs have come apart, relative to what one of them has changed.
fn apart(found: &[Tensor], expected: &[Tensor], before: &[Tensor]) -> f64 {
    let pairs = |a: &[Tensor], b: &[Tensor]| -> f64 {
        let both = a.iter().flat_map(|t| &t.values);
        let both = both.zip(b.iter().flat_map(|t| &t.values));
        let squares = both.map(|(a, b)| f64::from(a - b).powi(2));
        squares.sum::<f64>().sqrt()
    };
    pairs(found, expected) / pairs(expected, before)
}

/// The placements on which a model sends rows that are long enough.
fn placements(case: &Case) -> Vec<(Placement, u32)> {
    let sends = |(placement, ranks): &(Placement, u32)| {
        let mut spec = PlacementSpec::new(*placement, *ranks);
        spec.knobs.wire = Some(Wire::Int8);
        case.compiled.programs(&spec).is_ok()
    };
    let found: Vec<_> = PLACEMENTS.into_iter().filter(sends).collect();
    assert!(found.len() >= 4, "{found:?}");
    found
}

fn check(body: &str, sparse: bool) {
    let case = case(body, sparse);
    for (placement, ranks) in placements(&case) {
        let run = |wire| {
            let mut trainer = start(&case, &options(placement, ranks, wire));
            trainer.evaluate().unwrap();
            let logits = trainer.session.logits().unwrap();
            let before = trainer.session.parameters().unwrap();
            // The trainer checks the bytes of each epoch.
            let first = trainer.epoch().unwrap();
            let after = trainer.session.parameters().unwrap();
            let last = (0..4).map(|_| trainer.epoch().unwrap().loss).last();
            (logits, first, last.unwrap(), [before, after])
        };
        let (logits, first, last, [before, after]) = run(Wire::F32);
        for (wire, most, of_step) in FORMATS {
            let what = format!("{body}\n{placement} x {ranks} as {wire}");
            let found = run(wire);
            assert_eq!(found.0, logits, "{what}: evaluations send rows as they are");
            assert!(
                found.1.bytes_sent < first.bytes_sent,
                "{what}: {} bytes of {}",
                found.1.bytes_sent,
                first.bytes_sent
            );
            assert_ne!(
                found.2.to_bits(),
                last.to_bits(),
                "{what}: nothing was rounded"
            );
            for (a, b) in [(found.1.loss, first.loss), (found.2, last)] {
                assert!((a - b).abs() <= most * b, "{what}: loss {a}, not {b}");
            }
            // Adam's first step is the sign of each gradient, so small ones count as much as large ones.
            let far = apart(&found.3[1], &after, &before);
            assert!(far < 5.0 * of_step, "{what}: a step {far} apart");
        }
    }
}

#[test]
fn convolutions_train_on_rows_of_fewer_bits() {
    check(GCN, false);
    check(GCNII, true);
}

#[test]
fn means_and_attention_train_on_rows_of_fewer_bits() {
    check(SAGE, false);
    check(GAT, true);
}

/// In two tiers, and where partial sums travel too.
#[test]
fn fewer_rows_of_fewer_bits() {
    for node_ranks in [None, Some(2)] {
        for cover in [None, Some(Cover::Joint)] {
            let knobs = Knobs {
                node_ranks,
                cover,
                ..Knobs::default()
            };
            // Placements by parts alone have covers.
            let case = case(GCN, false);
            for wire in [Wire::Bf16, Wire::Int8] {
                let train = |wire| {
                    let mut options = options(Placement::Graph, 4, wire);
                    options.knobs.node_ranks = knobs.node_ranks;
                    options.knobs.cover = knobs.cover;
                    let mut trainer = start(&case, &options);
                    trainer.epoch().unwrap()
                };
                let (found, whole) = (train(wire), train(Wire::F32));
                let what = format!("{knobs:?} as {wire}");
                assert!(
                    (found.loss - whole.loss).abs() < 0.02 * whole.loss,
                    "{what}"
                );
                let inside =
                    |report: &gnnc::runtime::EpochReport| report.bytes_sent - report.bytes_crossed;
                if node_ranks.is_some() {
                    // Inside nodes, rows travel as they are.
                    assert_eq!(inside(&found), inside(&whole), "{what}");
                    let share = found.bytes_crossed as f64 / whole.bytes_crossed as f64;
                    assert!(share < 0.6, "{what}: {share} of what crosses");
                }
            }
        }
    }
}

/// Rows of 32 numbers and of the 3 classes, forward and back.
#[test]
fn bytes_are_those_of_the_format() {
    let case = case(GCN, false);
    let halo = |wire| {
        let again = Again::new(&case, &options(Placement::Graph, 4, wire));
        let reads = Reads::by_owner([&[0, 1][..]].into_iter());
        let program = &again.programs[0];
        let [step, eval] =
            [&program.step, &program.eval].map(|list| traffic(list, program, &reads, &[]));
        assert_eq!(eval.halo_exchange % 4, 0);
        (
            step.halo_exchange + step.halo_reduce,
            step.all_reduce,
            eval.total_bytes,
        )
    };
    let (whole, sums, evaluation) = halo(Wire::F32);
    let short = 2 * 3 * 4;
    let wide = (whole - short) / 128;
    assert_eq!(whole, wide * 128 + short);
    assert_eq!(halo(Wire::Bf16), (wide * 64 + short, sums, evaluation));
    assert_eq!(halo(Wire::Int8), (wide * 36 + short, sums, evaluation));
}

/// The same programs on the fake device, which checks every access to the byte. A number next to where it is rounded the other
/// way may be rounded differently there.
#[test]
fn devices_round_as_the_processor_does() {
    for (n, body) in [GCN, SAGE, GAT, GCNII].into_iter().enumerate() {
        let case = case(body, n % 2 == 0);
        for (place, (placement, ranks)) in placements(&case).into_iter().enumerate() {
            let (wire, _, _) = FORMATS[(n + place) % 2];
            let again = Again::new(&case, &options(placement, ranks, wire));
            let [found, expected] =
                [again.on_device(&Arc::default()), again.on_processor()].map(|mut session| {
                    session.set_learning_rate(0.02);
                    [(); 4].map(|()| {
                        let report = session.epoch().unwrap();
                        (report.loss, report.bytes_sent)
                    })
                });
            for ((a, sent), (b, bytes)) in found.into_iter().zip(expected) {
                let what = format!("{body}\n{placement} x {ranks} as {wire}");
                assert_eq!(sent, bytes, "{what}");
                assert!((a - b).abs() < 1e-3 * b, "{what}: {a} on the device, {b}");
            }
        }
    }
}

/// The same losses at any number of threads, and others in another epoch and for another seed.
#[test]
fn draws_are_functions_of_their_keys() {
    let data = planted(Shape {
        vertices: 3000,
        edges: 20_000,
        directed: true,
        sparse: false,
        seed: 5,
    });
    // Without dropout, epochs of equal weights differ in what was rounded how alone.
    let model = "let h = x |> gcn_conv(32) |> relu |> gcn_conv(32) |> relu
         loss cross_entropy(h |> gcn_conv(classes), labels, on = train)";
    let case = Case::new("", model, data);
    let losses = |threads, seed| {
        let options = TrainOptions {
            threads,
            seed: Some(seed),
            ..options(Placement::Graph, 3, Wire::Int8)
        };
        let mut trainer = start(&case, &options);
        trainer.session.set_learning_rate(0.0);
        [(); 2].map(|()| trainer.epoch().unwrap().loss.to_bits())
    };
    assert_eq!(losses(1, 7), losses(3, 7));
    let [first, second] = losses(1, 7);
    assert_ne!(first, second);
}

/// Rows that go to other stages, and halo rows of chunks within one, on the processor and on the fake device.
#[test]
fn stages_pass_on_rows_of_fewer_bits() {
    let case = case(GCNII, false);
    for (placement, ranks) in [(Placement::Pipeline, 4), (Placement::Hybrid, 4)] {
        let of = |wire| {
            let mut options = crate::storage::options(placement, ranks, Storage::F32);
            options.check_bytes = true;
            options.knobs.wire = Some(wire);
            options
        };
        let train = |wire| {
            let mut trainer = start(&case, &of(wire));
            let epochs = [(); 6].map(|()| trainer.epoch().unwrap());
            (
                epochs.each_ref().map(|epoch| epoch.loss),
                epochs[0].bytes_sent,
            )
        };
        let (losses, bytes) = train(Wire::F32);
        for (wire, most, _) in FORMATS {
            let what = format!("{placement} x {ranks} as {wire}");
            let (found, sent) = train(wire);
            assert!(10 * sent < 7 * bytes, "{what}: {sent} bytes of {bytes}");
            assert_ne!(found, losses, "{what}: nothing was rounded");
            for (a, b) in found.into_iter().zip(losses) {
                assert!((a - b).abs() <= most * b, "{what}: loss {a}, not {b}");
            }
            let again = Again::new(&case, &of(wire));
            let mut device = again.on_device(&Arc::default());
            device.set_learning_rate(0.02);
            for a in found {
                let b = device.epoch().unwrap().loss;
                assert!((a - b).abs() < 1e-3 * b, "{what}: {b} on the device, {a}");
            }
        }
    }
}

/// Rows that may be left out travel as they are; rows that are too short leave nothing to do.
#[test]
fn what_has_no_wire_is_left_as_it_is() {
    let deep = case(GCNII, false);
    let mut spec = PlacementSpec::new(Placement::SkipBroadcast, 4);
    spec.knobs.wire = Some(Wire::Int8);
    assert!(spec.wire().is_f32());
    let narrow =
        "loss cross_entropy(x |> gcn_conv(6) |> relu |> gcn_conv(classes), labels, on = train)";
    let narrow = case(narrow, false);
    spec = PlacementSpec::new(Placement::Graph, 4);
    spec.knobs.wire = Some(Wire::Int8);
    let error = narrow.compiled.programs(&spec).unwrap_err().to_string();
    assert!(error.contains("rows of 16 numbers or more"), "{error}");
    assert!(deep.compiled.programs(&spec).is_ok());
}

/// A graph whose features have 24 columns.
fn wide() -> GraphData {
    let mut data = untyped(planted(Shape {
        vertices: 160,
        edges: 1200,
        directed: true,
        sparse: false,
        seed: 21,
    }));
    let rows = data.vertices() as usize;
    let value = |n: usize| ((n as f32) * 0.37).sin();
    data.features = Features::dense(rows, 24, (0..rows * 24).map(value).collect());
    data
}

/// Features that batches fetch, activations of push-pull, and models that move: on the processor, on the fake device, at any
/// number of threads, and with batches fetched ahead.
#[test]
fn batches_train_on_rows_of_fewer_bits() {
    let body = "let h = x |> sage_conv(32) |> relu |> dropout(0.2)
         loss cross_entropy(h |> sage_conv(classes), labels, on = train)";
    let batches = sampling(23, vec![4, 4], Kind::Neighbor, Cut::Even);
    for (n, placement) in [
        Placement::Minibatch,
        Placement::PushPull,
        Placement::ModelMigration,
    ]
    .into_iter()
    .enumerate()
    {
        let way = |threads| Way {
            placement,
            ranks: 3,
            partitioner: "hash",
            threads,
        };
        let run = |wire, device, threads, prefetch| {
            let mut case = batched(minibatch::case("", body, wide()), &batches);
            case.knobs.wire = Some(wire);
            case.knobs.sampling.prefetch = Some(prefetch);
            case.device = device;
            let mut trainer = case.start(way(threads));
            trainer.session.set_learning_rate(0.02);
            [(); 3].map(|()| {
                let report = trainer.epoch().unwrap();
                (report.loss, report.bytes_sent)
            })
        };
        let whole = run(Wire::F32, false, 1, 0);
        for (wire, most, _) in FORMATS {
            let what = format!("{placement} as {wire}");
            let found = run(wire, false, 1, 0);
            let bits = |all: [(f64, u64); 3]| all.map(|(loss, bytes)| (loss.to_bits(), bytes));
            assert_eq!(
                bits(run(wire, false, 2, 1 + n as u32 % 2)),
                bits(found),
                "{what}"
            );
            assert_ne!(bits(found), bits(whole), "{what}: nothing was rounded");
            for ((a, sent), (b, bytes)) in found.into_iter().zip(whole) {
                assert!((a - b).abs() <= most * b, "{what}: loss {a}, not {b}");
                assert!(sent < bytes, "{what}: {sent} bytes of {bytes}");
            }
            let device = run(wire, true, 1, n as u32 % 2);
            for ((a, sent), (b, bytes)) in device.into_iter().zip(found) {
                assert_eq!(sent, bytes, "{what}");
                assert!((a - b).abs() < 1e-3 * b, "{what}: {a} on the device, {b}");
            }
        }
    }
}

/// Rows of embeddings, and their gradients on the way back to the owners of the rows.
#[test]
fn embeddings_move_in_fewer_bits() {
    let body = "let e = x |> linear(24, bias = false)
         loss cross_entropy(e |> dropout(0.3) |> gcn_conv(classes), labels, on = train)";
    let lr = Optimizer::Sgd {
        lr: 0.5,
        momentum: 0.0,
    };
    let way = Way {
        placement: Placement::Minibatch,
        ranks: 3,
        partitioner: "hash",
        threads: 1,
    };
    let run = |wire, device| {
        let batches = sampling(11, vec![3], Kind::Neighbor, Cut::Even);
        let mut case = lazy::case(body, lr, &batches, true);
        case.knobs.wire = Some(wire);
        case.device = device;
        let mut trainer = case.start(way);
        let losses = [(); 3].map(|()| {
            let report = trainer.epoch().unwrap();
            (report.loss, report.bytes_sent)
        });
        (losses, trainer.session.parameters().unwrap())
    };
    let (whole, _) = run(Wire::F32, false);
    for (wire, most, _) in FORMATS {
        let ((found, there), (device, other)) = (run(wire, false), run(wire, true));
        for (((a, sent), (b, bytes)), (c, _)) in found.into_iter().zip(whole).zip(device) {
            assert!((a - b).abs() <= most * b, "{wire}: loss {a}, not {b}");
            assert!(sent < bytes, "{wire}: {sent} bytes of {bytes}");
            assert!((a - c).abs() < 1e-3 * c, "{wire}: {c} on the device, {a}");
        }
        let values = |all: &[Tensor]| {
            all.iter()
                .flat_map(|t| t.values.clone())
                .collect::<Vec<_>>()
        };
        for (a, b) in values(&there).into_iter().zip(values(&other)) {
            assert!((a - b).abs() < 2e-3, "{wire}: {b} on the device, {a}");
        }
    }
}
