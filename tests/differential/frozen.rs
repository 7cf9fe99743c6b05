//! Pipelines that learn nothing read exact histories.

use crate::pipeline::{MODELS, case};
use crate::staged::Way;
use gnnc::Trainer;
use gnnc::ir::graph::model::Optimizer;

/// Without learning, rows of an earlier epoch equal those of the current one.
#[test]
fn frozen_weights_make_histories_exact() {
    for body in MODELS {
        let body = body.replace("0.3", "0");
        let mut frozen = case(&body);
        frozen.loaded.model.train.optimizer = Optimizer::Sgd {
            lr: 0.0,
            momentum: 0.0,
        };
        let run = |ranks, stages, chunks| {
            let interval = 2;
            let way = Way {
                ranks,
                stages,
                virtual_stages: 1,
                chunks,
                interval,
            };
            let mut trainer =
                Trainer::new(&frozen.loaded, &frozen.compiled, &way.options()).unwrap();
            let losses = (0..4).map(|_| trainer.epoch().unwrap().loss);
            losses.collect::<Vec<f64>>()
        };
        let exact = run(1, 1, 1)[0];
        for loss in [run(1, 1, 5), run(4, 2, 3)].concat() {
            assert!(
                (loss - exact).abs() <= 2e-6 * exact,
                "{loss} {exact}\n{body}"
            );
        }
    }
}
