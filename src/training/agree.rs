//! The facts on which processes that train together must agree.

use super::TrainOptions;
use crate::Loaded;
use gnnc_graph::{GraphData, Partition};
use gnnc_runtime::Fact;

/// The facts of this process: version, model, graph, division of the vertices and options.
pub(super) fn facts(
    loaded: &Loaded,
    data: &GraphData,
    options: &TrainOptions,
    partition: &Partition,
    program: u64,
) -> Vec<Fact> {
    let fact = |about: &str, value: String| Fact {
        about: about.to_owned(),
        value,
    };
    let settings = &loaded.model.train;
    let key = match &loaded.by_part {
        Some(by_part) => by_part.parts.manifest.graph.clone(),
        None => data.fingerprint(),
    };
    let bytes = |memory: Option<u64>| memory.map_or("all".to_owned(), |bytes| bytes.to_string());
    vec![
        fact("version of gnnc", crate::version().to_owned()),
        fact("model", format!("{} ({program:016x})", loaded.model.name)),
        fact("graph", format!("{} ({})", loaded.workload.name, key)),
        fact("partition", partition.fingerprint()),
        fact(
            "optimizer",
            format!(
                "{:?}, weight decay {}, clipped at {:?}",
                settings.optimizer, settings.weight_decay, settings.clip_norm
            ),
        ),
        fact(
            "learning rate",
            format!("{}, {}", options.rate(loaded), options.schedule(loaded)),
        ),
        fact(
            "epochs",
            options.epochs.unwrap_or(settings.epochs).to_string(),
        ),
        fact(
            "early stop",
            format!("{:?}, by {:?}", settings.patience, settings.metric),
        ),
        fact("seed", options.seed.unwrap_or(settings.seed).to_string()),
        fact("storage", options.knobs.storage.name().to_owned()),
        fact(
            "equal bits",
            (options.knobs.equal_bits == Some(true)).to_string(),
        ),
        fact(
            "wire",
            options.knobs.wire.unwrap_or_default().name().to_owned(),
        ),
        fact(
            "epochs between evaluations",
            options.evaluate_every.to_string(),
        ),
        fact("device memory", bytes(options.device_memory)),
        fact(
            "checkpoint to resume from",
            options.resume.is_some().to_string(),
        ),
    ]
}
