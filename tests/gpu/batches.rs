//! Training on sampled batches on a device against the processor.

use crate::programs::{GAT, GCN, GCNII, GIN, SAGE, compare, options};
use crate::{device, open};
use gnnc::TrainOptions;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::{Knobs, Placement};
use gnnc::ir::words::sampling::{CacheBy, Fanout, SamplingSettings};

/// Training on batches of 23 seeds, by 3 neighbors a layer.
pub fn on_batches(
    workers: u32,
    placement: Placement,
    layers: usize,
    sampling: SamplingSettings,
) -> TrainOptions {
    TrainOptions {
        workers,
        placement,
        allow: Relaxation::ALL.to_vec(),
        knobs: Knobs {
            sampling: SamplingSettings {
                batch: Some(23),
                fanouts: vec![Fanout::Each(3); layers],
                ..sampling
            },
            ..Knobs::default()
        },
        ..options()
    }
}

/// Batches of each placement: what the processor draws is what the device trains on.
#[test]
fn batches_train_as_on_the_processor() {
    let Some(device) = device("batches_train_as_on_the_processor") else {
        return;
    };
    let _alone = open::alone();
    let batches = on_batches;
    let plain = SamplingSettings::default;
    let late = SamplingSettings {
        delay: Some(2),
        ..plain()
    };
    let kept = SamplingSettings {
        cache: Some(20),
        cache_by: Some(CacheBy::Degree),
        ..plain()
    };
    let moves = SamplingSettings {
        merges: Some(1),
        ..plain()
    };
    let (minibatch, push, migrate) = (
        Placement::Minibatch,
        Placement::PushPull,
        Placement::ModelMigration,
    );
    for (name, body, options) in [
        ("sage", SAGE, batches(1, minibatch, 2, plain())),
        ("gat", GAT, batches(1, minibatch, 2, plain())),
        ("gin", GIN, batches(1, minibatch, 1, plain())),
        ("gcnii", GCNII, batches(1, minibatch, 4, plain())),
        ("sage on 3", SAGE, batches(3, minibatch, 2, plain())),
        ("gat on 3", GAT, batches(3, minibatch, 2, kept)),
        ("sage in slices", SAGE, batches(3, push, 2, plain())),
        ("late gcn in slices", GCN, batches(3, push, 2, late)),
        ("sage that moves", SAGE, batches(3, migrate, 2, moves)),
    ] {
        compare(&format!("{name} on batches"), &device, body, &options);
    }
}
