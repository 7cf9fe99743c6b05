//! Tensors in 16 bits: every placement trains as in 32 bits, with bytes and memory as
//! predicted, on the processor and on the fake device.
//!
//! Storing a number changes it by at most 2^-8 of itself in bf16, and 2^-11 in f16. Losses are
//! means over many vertices after some tens of roundings, which mostly cancel; their tolerance
//! is 4 times that. Logits are single numbers after four steps of Adam, which divides by small
//! numbers; their tolerance is 16 times that, relative to the largest logit.

use crate::check::Case;
use crate::data::{Shape, planted};
use crate::device::{Again, runs};
use gnnc::graph::Features;
use gnnc::ir::plan::Placement;
use gnnc::ir::program::traffic::{Reads, traffic};
use gnnc::ir::program::{Buffer, Extent, Program, Role, Rule};
use gnnc::ir::words::storage::Storage;
use gnnc::planner::placement::PlacementSpec;
use gnnc::runtime::Session;
use gnnc::{Compiled, TrainOptions, Trainer};
use std::sync::Arc;

const EPOCHS: usize = 4;

pub const GCN: &str = "let h = x |> gcn_conv(32) |> relu |> dropout(0.2)
     let g = h |> gcn_conv(32) |> relu
     loss cross_entropy(g |> gcn_conv(classes), labels, on = train)";
pub const SAGE: &str = "let h = x |> linear(32) |> relu |> sage_conv(24) |> layer_norm |> relu
     let g = h |> dropout(0.2) |> sage_conv(16)
     loss cross_entropy(linear(g, classes), labels, on = train)";
pub const GAT: &str = "let h = x |> gat_conv(8, heads = 4, dropout = 0.2) |> elu
     let g = h |> gat_conv(8, heads = 4) |> elu
     loss cross_entropy(linear(g, classes), labels, on = train)";
const RGCN: &str = "let h = x |> linear(16) |> relu |> rgcn_conv(16, bases = 4) |> relu
     let g = h |> dropout(0.2) |> rgcn_conv(12) |> elu
     loss cross_entropy(linear(g, classes), labels, on = train)";
pub const GCNII: &str = "let h0 = x |> linear(32) |> relu
     let h = h0
     repeat i in 1..=4 {
       h = h |> dropout(0.2) |> gcnii_conv(h0, alpha = 0.1, beta = 0.5 / i) |> relu
     }
     loss cross_entropy(linear(h, classes), labels, on = train)";

pub fn case(body: &str, sparse: bool) -> Case {
    let shape = Shape {
        vertices: 160,
        edges: 1200,
        directed: true,
        sparse,
        seed: 21,
    };
    Case::new("", body, planted(shape))
}

/// Every placement for which the model has a form with 4 ranks (for a pipeline, one per layer,
/// up to 4), and one rank.
pub fn placements(compiled: &Compiled) -> Vec<(Placement, u32)> {
    let all = gnnc::planner::placement::TABLE.iter();
    let all = all.filter(|row| !row.samples());
    let several = all.map(|row| match row.placement {
        Placement::Pipeline => (row.placement, compiled.layers().min(4)),
        placement => (placement, 4),
    });
    let formed = several.filter(|(placement, _)| match placement {
        Placement::Pipeline | Placement::Hybrid => compiled.layers() > 1,
        placement => compiled
            .training(&PlacementSpec::new(*placement, 4))
            .is_ok(),
    });
    formed.chain([(Placement::Graph, 1)]).collect()
}

pub fn options(placement: Placement, ranks: u32, storage: Storage) -> TrainOptions {
    let staged = matches!(placement, Placement::Pipeline | Placement::Hybrid);
    let stages = if placement == Placement::Hybrid {
        2
    } else {
        ranks
    };
    let mut options = runs::options(placement, ranks);
    if staged {
        options.knobs.stages = Some(stages);
        options.knobs.chunks = Some(3);
        options.knobs.interval = Some(2);
    }
    if placement == Placement::SkipBroadcast {
        options.knobs.skip = Some(Rule::Fixed(1).into());
    }
    options.knobs.storage = storage;
    options
}

/// Results of some epochs.
struct Found {
    losses: Vec<f64>,
    bytes: u64,
    memory: u64,
    logits: Vec<f32>,
}

/// Trains some epochs; the trainer checks in each that the bytes sent are the predicted ones.
fn train(case: &Case, options: &TrainOptions) -> Found {
    let what = format!("{} in {}", options.placement, options.knobs.storage);
    let mut trainer = Trainer::new(&case.loaded, &case.compiled, options)
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    trainer.session.set_learning_rate(0.02);
    let mut bytes = 0;
    let mut losses = Vec::new();
    for _ in 0..EPOCHS {
        let epoch = trainer.epoch().unwrap_or_else(|e| panic!("{what}: {e}"));
        bytes += epoch.bytes_sent;
        losses.push(epoch.loss);
    }
    trainer.evaluate().unwrap_or_else(|e| panic!("{what}: {e}"));
    Found {
        losses,
        bytes,
        memory: trainer.session.peak_memory_bytes().unwrap(),
        logits: trainer.session.logits().unwrap(),
    }
}

fn close(found: &Found, expected: &Found, storage: Storage, what: &str) {
    let most = 4.0 * storage.roundoff();
    for (a, b) in found.losses.iter().zip(&expected.losses) {
        assert!(
            (a - b).abs() <= most * b.abs(),
            "{what}: losses {:?}, expected {:?}",
            found.losses,
            expected.losses
        );
    }
    let scale = expected.logits.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    for (a, b) in found.logits.iter().zip(&expected.logits) {
        let apart = f64::from((a - b).abs());
        assert!(
            apart <= 4.0 * most * f64::from(scale),
            "{what}: logits {a} {b} ({scale})"
        );
    }
}

fn check(body: &str, sparse: bool) {
    let case = case(body, sparse);
    for (placement, ranks) in placements(&case.compiled) {
        let whole = options(placement, ranks, Storage::F32);
        let expected = train(&case, &whole);
        for storage in [Storage::Bf16, Storage::F16] {
            let what = format!("{body}\n{placement} x {ranks} in {storage}");
            let found = train(&case, &options(placement, ranks, storage));
            close(&found, &expected, storage, &what);
            assert_ne!(found.losses, expected.losses, "{what}: nothing was rounded");
            assert!(found.memory < expected.memory, "{what}: as much memory");
            let share = found.bytes as f64 / expected.bytes.max(1) as f64;
            // The last aggregations have only the few columns of the classes.
            let narrow = placement == Placement::TensorDecoupled;
            assert!(
                ranks == 1 || narrow || share < 0.95,
                "{what}: {share} of the bytes"
            );
        }
    }
}

#[test]
fn convolutions_train_in_16_bits_on_every_placement() {
    check(GCN, false);
    check(GCN, true);
}

#[test]
fn means_and_norms_train_in_16_bits_on_every_placement() {
    check(SAGE, false);
}

#[test]
fn attention_trains_in_16_bits_on_every_placement() {
    check(GAT, true);
}

#[test]
fn relations_train_in_16_bits_on_every_placement() {
    check(RGCN, false);
}

#[test]
fn loops_train_in_16_bits_on_every_placement() {
    check(GCNII, false);
}

/// What the last stage hands to the first has the same format on both.
#[test]
fn runs_of_layers_train_in_16_bits() {
    let case = case(GCNII, false);
    let of = |storage| runs::in_turns(2, options(Placement::Hybrid, 4, storage));
    let expected = train(&case, &of(Storage::F32));
    for storage in [Storage::Bf16, Storage::F16] {
        let found = train(&case, &of(storage));
        close(
            &found,
            &expected,
            storage,
            &format!("two runs in {storage}"),
        );
        assert!(found.memory < expected.memory && 10 * found.bytes < 7 * expected.bytes);
    }
}

/// Only vertex rows that are wide and evenly divided are stored in 16 bits.
#[test]
fn what_lies_in_16_bits() {
    let case = case(GCN, false);
    for (placement, ranks) in placements(&case.compiled) {
        let of = |storage| Again::new(&case, &options(placement, ranks, storage)).programs;
        for (whole, halves) in of(Storage::F32).iter().zip(&of(Storage::Bf16)) {
            assert!(whole.buffers.iter().all(|b| b.storage.is_f32()));
            for buffer in &halves.buffers {
                let rows = !matches!(
                    buffer.extent,
                    Extent::Fixed(_)
                        | Extent::Edges(_)
                        | Extent::AllEdges(_)
                        | Extent::FeatureNonzeros
                        | Extent::SliceNonzeros
                );
                let copy = buffer.name.ends_with(".bf16");
                let wide = buffer.columns >= 16;
                match buffer.storage.is_f32() {
                    true => assert!(!(rows && wide) || buffer.columns % 2 == 1, "{buffer:?}"),
                    false => assert!(rows || copy, "{buffer:?}"),
                }
                let kept = matches!(buffer.role, Role::Param(_) | Role::State(..) | Role::Result);
                assert!(!kept || buffer.storage.is_f32(), "{buffer:?}");
            }
        }
    }
}

/// Halo bytes of wide rows are half of those in 32 bits.
#[test]
fn exchanged_rows_are_half_as_long() {
    let case = case(GCN, false);
    let halo = |storage| {
        let again = Again::new(&case, &options(Placement::Graph, 4, storage));
        let reads = Reads::by_owner([&[0, 1][..]].into_iter());
        let traffic = traffic(&again.programs[0].step, &again.programs[0], &reads, &[]);
        (
            traffic.halo_exchange + traffic.halo_reduce,
            traffic.all_reduce,
        )
    };
    let ((whole, sums), (halves, same)) = (halo(Storage::F32), halo(Storage::Bf16));
    // Rows of the three classes stay in 32 bits: 12 bytes in each direction.
    assert_eq!(sums, same);
    assert!(
        2 * halves >= whole && 2 * halves <= whole + 2 * 24,
        "{halves} of {whole}"
    );
}

/// The same programs on the fake device, which checks every access to the byte.
#[test]
fn device_halves_agree_with_the_processor() {
    for (n, body) in [GCN, SAGE, GAT, GCNII].into_iter().enumerate() {
        let case = case(body, n % 2 == 0);
        for (place, (placement, ranks)) in placements(&case.compiled).into_iter().enumerate() {
            let storage = [Storage::Bf16, Storage::F16][(n + place) % 2];
            let options = options(placement, ranks, storage);
            let again = Again::new(&case, &options);
            let found = [again.on_device(&Arc::default()), again.on_processor()];
            let [found, expected] = found.map(|mut session| {
                session.set_learning_rate(0.02);
                let epochs: Vec<_> = (0..EPOCHS).map(|_| session.epoch().unwrap()).collect();
                session.evaluate().unwrap();
                Found {
                    losses: epochs.iter().map(|epoch| epoch.loss).collect(),
                    bytes: epochs.iter().map(|epoch| epoch.bytes_sent).sum(),
                    memory: 0,
                    logits: session.logits().unwrap(),
                }
            });
            let what = format!("{body}\n{placement} x {ranks} in {storage} on a device");
            assert_eq!(found.bytes, expected.bytes, "{what}");
            close(&found, &expected, storage, &what);
        }
    }
}

/// Ranks hold bit-identical parameters at any number of threads.
#[test]
fn halves_do_not_depend_on_threads() {
    let shape = Shape {
        vertices: 8000,
        edges: 40_000,
        directed: true,
        sparse: false,
        seed: 5,
    };
    let case = Case::new("", GCN, planted(shape));
    for (placement, ranks) in [
        (Placement::Graph, 2),
        (Placement::Tensor, 2),
        (Placement::Graph, 1),
    ] {
        let bits = |threads| {
            let options = TrainOptions {
                threads,
                ..options(placement, ranks, Storage::Bf16)
            };
            let mut trainer = Trainer::new(&case.loaded, &case.compiled, &options).unwrap();
            let losses: Vec<u64> = (0..3)
                .map(|_| trainer.epoch().unwrap().loss.to_bits())
                .collect();
            let tensors = trainer.session.parameters().unwrap();
            let values = tensors.iter().flat_map(|t| &t.values).map(|x| x.to_bits());
            (losses, values.collect::<Vec<u32>>())
        };
        assert_eq!(bits(1), bits(3), "{placement} x {ranks}");
    }
}

/// Slices of 31 columns have 16 or 15 columns: even and odd, on both sides of the minimum
/// width.
#[test]
fn slices_of_two_widths_lie_alike() {
    let mut data = planted(Shape {
        vertices: 120,
        edges: 700,
        directed: true,
        sparse: false,
        seed: 5,
    });
    let rows = data.vertices() as usize;
    let values = (0..31 * rows).map(|n| (n * 37 % 61) as f32 / 61.0 - 0.5);
    data.features = Features::dense(rows, 31, values.collect());
    let case = Case::new("", GCN, data);
    for placement in [Placement::PushPull, Placement::Tensor] {
        let expected = train(&case, &options(placement, 2, Storage::F32));
        let found = train(&case, &options(placement, 2, Storage::Bf16));
        close(&found, &expected, Storage::Bf16, &placement.to_string());
    }
}

/// Parameters are saved exactly, and 16-bit histories lose nothing in a checkpoint.
#[test]
fn a_run_in_16_bits_goes_on_from_its_checkpoint() {
    let case = case(GCN, false);
    for (placement, ranks) in [
        (Placement::Graph, 4),
        (Placement::SkipBroadcast, 4),
        (Placement::Pipeline, 3),
        (Placement::PushPull, 4),
    ] {
        let options = options(placement, ranks, Storage::Bf16);
        let start = || {
            let mut trainer = Trainer::new(&case.loaded, &case.compiled, &options).unwrap();
            trainer.session.set_learning_rate(0.02);
            trainer
        };
        let losses = |trainer: &mut Trainer, epochs: usize| -> Vec<u64> {
            let epochs = (0..epochs).map(|_| trainer.epoch().unwrap().loss.to_bits());
            epochs.collect()
        };
        let expected = losses(&mut start(), 5);
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = path.join(format!("halves-{placement}.safetensors"));
        let mut first = start();
        let mut found = losses(&mut first, 3);
        first.session.save(&path).unwrap();
        let mut second = start();
        second.session.resume(&path).unwrap();
        second.session.set_learning_rate(0.02);
        found.extend(losses(&mut second, 2));
        assert_eq!(found, expected, "{placement}");
    }
}

/// A program whose buffers and kernels disagree on storage is refused before it runs.
#[test]
fn programs_that_mix_storages_up_are_refused() {
    let case = case(GCN, false);
    let again = Again::new(&case, &options(Placement::Graph, 4, Storage::Bf16));
    let refused = |change: &dyn Fn(&mut Program)| {
        let mut programs = again.programs.clone();
        programs.iter_mut().for_each(change);
        let data = case.loaded.data.as_ref().unwrap();
        let session = Session::new(programs, data, &again.partition, again.options.clone());
        session.err().unwrap().to_string()
    };
    let half = |buffer: &&mut Buffer| !buffer.storage.is_f32();
    let whole = |program: &mut Program| {
        let mut buffers = program.buffers.iter_mut();
        buffers.find(half).unwrap().storage = Storage::F32;
    };
    assert!(refused(&whole).contains("expected"), "{}", refused(&whole));
    let other = |program: &mut Program| {
        let operands = program
            .kernels
            .iter_mut()
            .flat_map(|kernel| &mut kernel.outputs);
        let halves = operands.filter(|operand| !operand.storage.is_f32());
        halves.for_each(|operand| operand.storage = Storage::F16);
    };
    let message = refused(&other);
    assert!(message.contains("in bf16, expected f16"), "{message}");
    let parameter = |program: &mut Program| {
        let mut buffers = program.buffers.iter_mut();
        let found = buffers.find(|b| matches!(b.role, Role::Param(_)));
        found.unwrap().storage = Storage::Bf16;
    };
    let message = refused(&parameter);
    assert!(message.contains("bf16) does not fit its role"), "{message}");
    let logits = |program: &mut Program| {
        let logits = program.logits.unwrap().buffer;
        program.buffers[logits.0 as usize].storage = Storage::Bf16;
    };
    let message = refused(&logits);
    assert!(message.contains("expected f32"), "{message}");
}

/// Rules by values: distances of 16-bit rows from what was sent last.
#[test]
fn copies_in_16_bits_are_as_close_as_a_rule_says() {
    let case = case(GCN, false);
    for (storage, rule) in [
        (Storage::F32, "gap:0.3:2"),
        (Storage::Bf16, "gap:0.3:2"),
        (Storage::Bf16, "gap:0.3:2/stop"),
        (Storage::Bf16, "gap:0.3:2/clip:0.05"),
        (Storage::F16, "gap:0.3:2"),
    ] {
        let mut options = options(Placement::SkipBroadcast, 3, storage);
        options.knobs.skip = Some(rule.parse().unwrap());
        let again = Again::new(&case, &options);
        let gaps = [again.on_device(&Arc::default()), again.on_processor()].map(|mut session| {
            session.set_learning_rate(0.02);
            for _ in 0..EPOCHS {
                session.epoch().unwrap();
            }
            let layers = session.staleness().unwrap().layers;
            let gaps = layers.iter().map(|layer| layer.gap.unwrap_or(0.0));
            gaps.fold(0.0, f64::max)
        });
        let apart = (gaps[0] - gaps[1]).abs();
        assert!(gaps[1] > 0.0 && gaps[1] <= 0.3, "{storage}: {gaps:?}");
        assert!(
            apart <= 4.0 * storage.roundoff().max(1e-5),
            "{storage}: {gaps:?}"
        );
    }
}
