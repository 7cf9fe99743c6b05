//! Whole training runs on a device against the processor: models, placements on several ranks,
//! checkpoints.

use crate::batches::on_batches;
use crate::{device, open};
use gnnc::graph::generate::{Attributes, PlantedPartition};
use gnnc::graph::summary;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::{Knobs, Partitioner, Placement};
use gnnc::ir::program::trace::Phase;
use gnnc::ir::program::{Length, Rule};
use gnnc::ir::words::sampling::SamplingSettings;
use gnnc::ir::words::storage::Storage;
use gnnc::ir::workload::GraphFacts;
use gnnc::runtime::{Metrics, Tensor};
use gnnc::{Device, Loaded, Source, TrainOptions, Trainer};
use std::path::Path;

const EPOCHS: usize = 4;
/// Largest difference in losses and parameters, relative to 1 and to the largest parameter.
const CLOSE: f64 = 2e-4;

pub const GCN: &str = "let h = x |> dropout(0.4) |> gcn_conv(12) |> relu
  let z = h |> dropout(0.4) |> gcn_conv(classes)";
pub const SAGE: &str = "let h = x |> sage_conv(10) |> relu |> dropout(0.5)
  let z = h |> sage_conv(classes)";
pub const GAT: &str = "let h = x |> dropout(0.3) |> gat_conv(4, heads = 2, dropout = 0.3) |> elu
  let z = h |> gat_conv(classes, concat = false)";
pub const GIN: &str = "let h = x |> gin_conv(8) |> relu |> dropout(0.2)
  let z = h |> linear(classes)";
pub const GCNII: &str = "let h0 = x |> linear(8) |> relu
  let h = h0
  repeat i in 1..=4 {
    let beta = log(0.5 / i + 1)
    h = h |> dropout(0.4) |> gcnii_conv(h0, alpha = 0.1, beta = beta) |> relu
  }
  let z = h |> linear(classes)";
const APPNP: &str = "let u = x |> dropout(0.5) |> linear(8) |> relu |> linear(classes)
  let z = u
  repeat k in 1..=3 {
    z = z |> appnp_step(u, alpha = 0.1, dropout = 0.5)
  }";
/// Biases of 6 floats, one after the other: not all start at a multiple of 16 bytes.
const NARROW: &str = "let h = x |> linear(6) |> relu
  repeat l in 1..=3 {
    h = h |> linear(6) |> relu
  }
  let z = h |> gcn_conv(classes)";
const RES: &str = "let h = x |> linear(8) |> gcn_conv(8)
  repeat l in 2..=4 {
    h = res_plus(h, conv = gcn_conv, dropout = 0.5)
  }
  let z = h |> layer_norm |> relu |> linear(classes)";

/// A model on a small graph that it can learn.
fn loaded(body: &str) -> Loaded {
    on_features(body, 12)
}

/// The same on so many features.
fn on_features(body: &str, features: u32) -> Loaded {
    let graph = PlantedPartition {
        vertices: 150,
        edges: 1_400,
        attributes: Attributes {
            features,
            classes: 4,
            ..Attributes::default()
        },
        ..PlantedPartition::default()
    };
    let data = graph.generate().unwrap();
    let text = format!(
        "graph g {{ vertices = 2  edges = 1  features = 1  classes = 2 }}\n\
         model m() on g {{\n  {body}\n  loss cross_entropy(z, labels, on = train)\n}}\n\
         train {{ optimizer = adam(lr = 0.01)  epochs = 1 }}\n"
    );
    let source = Source::new("test.gir", text);
    let facts = GraphFacts {
        features,
        classes: 4,
        vertex_types: 0,
        relations: 0,
        edge_features: 0,
        edge_sets: None,
    };
    let (model, diagnostics) = source.check(&facts, &[]);
    Loaded {
        model: model.unwrap_or_else(|| panic!("{body}: {diagnostics:?}")),
        workload: summary::summarise(&data, &[]).unwrap(),
        data: Some(data),
        by_part: None,
        diagnostics: Vec::new(),
        not_used: Vec::new(),
    }
}

/// Results of a run.
struct Run {
    losses: Vec<f64>,
    metrics: Metrics,
    parameters: Vec<Tensor>,
    bytes: u64,
}

/// Trains on the same parts wherever it runs: the default of a GPU is not that of the processor.
fn run(loaded: &Loaded, options: &TrainOptions, epochs: usize) -> Run {
    let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
    let mut options = options.clone();
    options.knobs.partitioner = Some(Partitioner::Metis);
    let mut trainer = Trainer::new(loaded, &compiled, &options).unwrap();
    if let Some(path) = &options.resume {
        trainer.session.resume(path).unwrap();
    }
    let mut bytes = 0;
    let mut epoch = |_| {
        let epoch = trainer.epoch().unwrap();
        bytes += epoch.bytes_sent;
        epoch.loss
    };
    let losses = (0..epochs).map(&mut epoch).collect();
    let metrics = trainer.evaluate().unwrap();
    if let Some(path) = &options.checkpoint {
        trainer.session.save(path).unwrap();
    }
    Run {
        losses,
        metrics,
        parameters: trainer.session.parameters().unwrap(),
        bytes,
    }
}

#[track_caller]
fn same(name: &str, own: &Run, other: &Run) {
    for (a, b) in own.losses.iter().zip(&other.losses) {
        let apart = (a - b).abs();
        assert!(
            apart <= CLOSE * b.abs().max(1.0),
            "{name}: losses {:?} and {:?}",
            own.losses,
            other.losses
        );
    }
    assert_eq!(own.losses.len(), other.losses.len());
    assert_eq!(own.bytes, other.bytes, "{name}: bytes");
    assert_eq!(own.metrics.train.total, other.metrics.train.total, "{name}");
    for (a, b) in own.parameters.iter().zip(&other.parameters) {
        assert_eq!((&a.name, &a.shape), (&b.name, &b.shape), "{name}");
        let largest = b.values.iter().fold(1.0f32, |m, x| m.max(x.abs()));
        for (x, y) in a.values.iter().zip(&b.values) {
            // Adam divides by small numbers: a few steps of size 0.01 may differ.
            let close = (x - y).abs() <= 2e-3 * largest;
            assert!(close, "{name}: {} has {x} and {y}", a.name);
        }
    }
}

/// With tensors in 16 bits, losses match those in 32 bits on the processor up to rounding, and
/// repeat in every run.
#[test]
fn halves_train_as_floats_do() {
    let Some(device) = device("halves_train_as_floats_do") else {
        return;
    };
    let _alone = open::alone();
    let several = |placement| TrainOptions {
        workers: 2,
        placement,
        ..options()
    };
    let wide = |body: &str| {
        body.replace("(12)", "(32)")
            .replace("(10)", "(16)")
            .replace("(8)", "(32)")
    };
    for (name, body, several) in [
        ("gcn", GCN, options()),
        ("sage", SAGE, options()),
        ("gat", GAT, options()),
        ("gcnii", GCNII, options()),
        ("graph gcn", GCN, several(Placement::Graph)),
        ("tensor gcn", GCN, several(Placement::Tensor)),
        ("push-pull gcn", GCN, several(Placement::PushPull)),
    ] {
        let loaded = loaded(&wide(
            &body.replace("gat_conv(4, heads = 2", "gat_conv(8, heads = 4"),
        ));
        let expected = run(&loaded, &several, EPOCHS);
        for storage in [Storage::Bf16, Storage::F16] {
            let on_device = TrainOptions {
                device: device.clone(),
                knobs: Knobs {
                    storage,
                    ..several.knobs.clone()
                },
                ..several.clone()
            };
            let own = run(&loaded, &on_device, EPOCHS);
            for (a, b) in own.losses.iter().zip(&expected.losses) {
                let most = 4.0 * storage.roundoff() * b;
                assert!((a - b).abs() <= most, "{name} in {storage}: {a} and {b}");
            }
            assert_ne!(own.losses, expected.losses, "{name}: nothing was rounded");
            let again = run(&loaded, &on_device, EPOCHS);
            assert_eq!(own.losses, again.losses, "{name} differs from run to run");
        }
    }
}

/// Compares the device with the processor, and two runs on the device.
pub fn compare(name: &str, device: &Device, body: &str, options: &TrainOptions) {
    let loaded = loaded(body);
    let on_device = TrainOptions {
        device: device.clone(),
        ..options.clone()
    };
    let own = run(&loaded, &on_device, EPOCHS);
    same(name, &own, &run(&loaded, options, EPOCHS));
    let again = run(&loaded, &on_device, EPOCHS);
    assert_eq!(own.losses, again.losses, "{name} differs from run to run");
    assert!(
        own.parameters == again.parameters,
        "{name} differs from run to run"
    );
}

pub fn options() -> TrainOptions {
    TrainOptions {
        seed: Some(3),
        cache: Some(open::cache()),
        ..TrainOptions::default()
    }
}

#[test]
fn models_train_as_on_the_processor() {
    let Some(device) = device("models_train_as_on_the_processor") else {
        return;
    };
    let _alone = open::alone();
    for (name, body) in [
        ("gcn", GCN),
        ("sage", SAGE),
        ("gat", GAT),
        ("gin", GIN),
        ("gcnii", GCNII),
        ("appnp", APPNP),
        ("res", RES),
        ("narrow", NARROW),
    ] {
        compare(name, &device, body, &options());
    }
}

#[test]
fn placements_train_as_on_the_processor() {
    let Some(device) = device("placements_train_as_on_the_processor") else {
        return;
    };
    let _alone = open::alone();
    let stages = |count, chunks| Knobs {
        stages: Some(count),
        chunks: Some(chunks),
        ..Knobs::default()
    };
    let skip = |rule: Rule| Knobs {
        skip: Some(rule.into()),
        ..Knobs::default()
    };
    let several = |placement| TrainOptions {
        workers: 3,
        placement,
        ..options()
    };
    let stale = |placement| TrainOptions {
        workers: 4,
        allow: vec![Relaxation::Stale],
        ..several(placement)
    };
    let all = [
        ("graph gcn", GCN, several(Placement::Graph)),
        ("graph gat", GAT, several(Placement::Graph)),
        ("graph gcnii", GCNII, several(Placement::Graph)),
        ("tensor gcn", GCN, several(Placement::Tensor)),
        ("tensor gat", GAT, several(Placement::Tensor)),
        (
            "tensor gcn in chunks",
            GCN,
            TrainOptions {
                knobs: Knobs {
                    chunks: Some(3),
                    ..Knobs::default()
                },
                ..several(Placement::Tensor)
            },
        ),
        ("broadcast sage", SAGE, several(Placement::Broadcast)),
        ("push-pull gcn", GCN, several(Placement::PushPull)),
        ("mixed gcn", GCN, several(Placement::Mixed)),
        (
            "tensor-decoupled gcn",
            GCN,
            TrainOptions {
                allow: vec![Relaxation::Decouple],
                ..several(Placement::TensorDecoupled)
            },
        ),
        (
            "skip-broadcast gcn",
            GCN,
            TrainOptions {
                knobs: skip(Rule::Fixed(1)),
                ..stale(Placement::SkipBroadcast)
            },
        ),
        (
            "skip-broadcast gcn by distance",
            GCN,
            TrainOptions {
                knobs: skip(Rule::Gap(Length(0.02), Some(3))),
                ..stale(Placement::SkipBroadcast)
            },
        ),
        (
            "pipeline gcnii",
            GCNII,
            TrainOptions {
                knobs: stages(4, 5),
                ..stale(Placement::Pipeline)
            },
        ),
        (
            "pipeline gcnii, two runs of layers a stage",
            GCNII,
            TrainOptions {
                workers: 2,
                knobs: Knobs {
                    virtual_stages: Some(2),
                    ..stages(2, 4)
                },
                ..stale(Placement::Pipeline)
            },
        ),
        (
            "hybrid gcnii",
            GCNII,
            TrainOptions {
                knobs: stages(2, 3),
                ..stale(Placement::Hybrid)
            },
        ),
    ];
    for (name, body, options) in all {
        compare(name, &device, body, &options);
    }
}

/// What does not fit on the device is offloaded, and nothing else changes.
#[test]
fn a_small_device_trains_as_a_large_one() {
    let Some(device) = device("a_small_device_trains_as_a_large_one") else {
        return;
    };
    let _alone = open::alone();
    let on = |workers| TrainOptions {
        workers,
        ..options()
    };
    let mut batches = on_batches(2, Placement::Minibatch, 2, SamplingSettings::default());
    batches.knobs.sampling.batch = Some(4);
    for (name, body, features, here) in [
        ("gcn", GCN, 12, on(1)),
        ("gcnii", GCNII, 12, on(1)),
        ("gat", GAT, 12, on(2)),
        ("sage on batches", SAGE, 500, batches),
    ] {
        let loaded = on_features(body, features);
        let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
        let all = Trainer::new(&loaded, &compiled, &here).unwrap();
        let all = all.session.peak_memory_bytes().unwrap();
        let large = TrainOptions {
            device: device.clone(),
            ..here
        };
        // The largest budget that is too small: the peak also counts memory outside buffers.
        let mut small = (20..45).rev().map(|share| TrainOptions {
            device_memory: Some(all * share / 50),
            ..large.clone()
        });
        let moves = |options: &TrainOptions| {
            let trainer = Trainer::new(&loaded, &compiled, options);
            trainer.is_ok_and(|trainer| trainer.moves(Phase::Step).unwrap() > 0)
        };
        let small = small.find(|options| moves(options)).expect(name);
        let (large, small) = (run(&loaded, &large, EPOCHS), run(&loaded, &small, EPOCHS));
        assert_eq!(large.losses, small.losses, "{name}");
        assert!(large.parameters == small.parameters, "{name}");
    }
}

/// A checkpoint of one device resumes on the other.
#[test]
fn checkpoints_change_devices() {
    let Some(device) = device("checkpoints_change_devices") else {
        return;
    };
    let _alone = open::alone();
    let loaded = loaded(GCN);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = if folder.is_dir() {
        folder
    } else {
        Path::new(".")
    };
    let file = folder.join(format!("gpu-{}.safetensors", std::process::id()));
    let whole = run(&loaded, &options(), 2 * EPOCHS);
    for (first, second) in [(&device, &Device::Cpu), (&Device::Cpu, &device)] {
        let begun = TrainOptions {
            device: first.clone(),
            checkpoint: Some(file.clone()),
            workers: 2,
            ..options()
        };
        run(&loaded, &begun, EPOCHS);
        let resumed = TrainOptions {
            device: second.clone(),
            resume: Some(file.clone()),
            ..options()
        };
        let rest = run(&loaded, &resumed, EPOCHS);
        for (a, b) in rest.losses.iter().zip(&whole.losses[EPOCHS..]) {
            assert!(
                (a - b).abs() <= 1e-3,
                "{:?} and {:?}",
                rest.losses,
                whole.losses
            );
        }
    }
    std::fs::remove_file(&file).unwrap();
}
