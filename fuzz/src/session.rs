//! Models trained on one rank and on several; the results must agree.

use crate::changes::Random;
use crate::data::{Shape, planted};
use crate::models::{Choices, model};
use gnnc::graph::{GraphData, summarise};
use gnnc::ir::plan::{Knobs, Layout, Layouts, Partitioner, Placement};
use gnnc::planner::LowerError;
use gnnc::planner::lower::pure;
use gnnc::{Compiled, Error, Loaded, Source, TrainOptions, Trainer};

/// Largest difference of two losses relative to the loss, as in `tests/differential`.
const TOLERANCE: f64 = 1e-4;

/// Epochs; the loss of the second depends on the gradients of the first.
const EPOCHS: usize = 2;

/// Placements that compute the same as one rank.
const PLACEMENTS: &[Placement] = &[
    Placement::Graph,
    Placement::Tensor,
    Placement::Broadcast,
    Placement::Mixed,
    Placement::PushPull,
];

/// Trains a model derived from the bytes, on a graph derived from them, on one rank and on
/// several; the latter with kernels that check every access.
///
/// # Panics
/// If the losses differ, if an access is out of bounds, or if the bytes sent are not the
/// predicted ones (which a trainer checks).
pub fn session(data: &[u8]) {
    let mut choices = Choices::new(data);
    let options = TrainOptions {
        placement: choices.pick(PLACEMENTS),
        workers: 2 + choices.below(4) as u32,
        knobs: Knobs {
            partitioner: Some(choices.pick(&[
                Partitioner::Metis,
                Partitioner::Hash,
                Partitioner::Range,
            ])),
            ..Knobs::default()
        },
        threads: 1 + choices.below(2),
        checked: true,
        ..TrainOptions::default()
    };
    let vertices = 20 + choices.below(50) as u32;
    let graph = planted(Shape {
        vertices,
        edges: u64::from(vertices) * (2 + choices.below(7) as u64),
        directed: choices.below(2) == 1,
        sparse: choices.below(2) == 1,
        seed: choices.below(256) as u64,
    });
    let mut layouts = Random::new(1 + choices.below(256) as u64);
    let text = model(&mut choices);
    let (loaded, compiled) = compiled(&text, graph);
    let layouts = mixture(&compiled, &options, &mut layouts);
    let options = TrainOptions {
        knobs: options.knobs.clone().with_layouts(layouts),
        ..options
    };
    let Some(several) = losses(&loaded, &compiled, &options, &text) else {
        return;
    };
    let one = losses(&loaded, &compiled, &TrainOptions::default(), &text);
    let one = one.expect("one rank runs every model");
    for (epoch, (found, expected)) in several.iter().zip(&one).enumerate() {
        let difference = (found - expected).abs();
        assert!(
            difference <= TOLERANCE * expected.abs().max(1e-3),
            "epoch {epoch}: loss {found} on {} ranks ({}), {expected} on one\n{text}",
            options.workers,
            options.placement
        );
    }
}

pub(crate) fn compiled(text: &str, graph: GraphData) -> (Loaded, Compiled) {
    let workload = summarise(&graph, &[]).expect("a valid graph has a summary");
    let (model, diagnostics) = Source::new("m.gir", text.to_owned()).check(&workload.facts(), &[]);
    let model = model.unwrap_or_else(|| panic!("a model is refused: {diagnostics:#?}\n{text}"));
    let loaded = Loaded {
        model,
        workload,
        data: Some(graph),
        by_part: None,
        not_used: Vec::new(),
        diagnostics,
    };
    let compiled = gnnc::compile(&loaded.model, &loaded.workload);
    let compiled = compiled.unwrap_or_else(|e| panic!("{e}\n{text}"));
    (loaded, compiled)
}

/// Layouts of a mixed placement: some tensors by rows and some by columns.
fn mixture(compiled: &Compiled, options: &TrainOptions, random: &mut Random) -> Layouts {
    if options.placement != Placement::Mixed {
        return Layouts::default();
    }
    let mut layouts = pure(&compiled.training, options.workers)
        .expect("layouts")
        .graph;
    for layout in layouts.epoch.iter_mut().chain(&mut layouts.eval) {
        *layout = match random.below(2) {
            0 => Layout::Rows,
            _ => Layout::Columns,
        };
    }
    layouts
}

/// The losses of a training run; `None` if the placement does not support this form of the
/// model, which only push-pull reports.
fn losses(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &TrainOptions,
    text: &str,
) -> Option<Vec<f64>> {
    let failed = |error: Error| -> ! { panic!("{}: {error}\n{text}", options.placement) };
    let mut trainer = match Trainer::new(loaded, compiled, options) {
        Ok(trainer) => trainer,
        Err(Error::Lower(LowerError::Illegal(_))) if options.placement == Placement::PushPull => {
            return None;
        }
        Err(error) => failed(error),
    };
    let mut epoch = || trainer.epoch().unwrap_or_else(|error| failed(error)).loss;
    Some((0..EPOCHS).map(|_| epoch()).collect())
}
