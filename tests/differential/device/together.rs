//! The updates of all parameters, in one launch per kernel.

use super::fake::Seen;
use super::runs::{close, options, run};
use super::{Again, RES_PLUS, case};
use crate::check::Case;
use gnnc::ir::graph::model::Optimizer;
use gnnc::ir::plan::Placement;
use gnnc::ir::program::together;
use gnnc::runtime::Session;
use std::sync::{Arc, Mutex};

const ADAM: Optimizer = Optimizer::Adam {
    lr: 0.01,
    beta1: 0.9,
    beta2: 0.999,
    eps: 1e-8,
};

fn with(optimizer: Optimizer, body: &str) -> Case {
    let mut case = case(body, false);
    case.loaded.model.train.optimizer = optimizer;
    case.compiled = gnnc::compile(&case.loaded.model, &case.loaded.workload).unwrap();
    case
}

/// Launches of updates in an epoch, and what their number would be without grouping.
fn launches(again: &Again) -> [usize; 2] {
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let mut session: Session = again.on_device(&seen);
    session.evaluate().unwrap();
    seen.lock().unwrap().listed = Some(Vec::new());
    session.epoch().unwrap();
    let listed = seen.lock().unwrap().listed.take().unwrap();
    let merged = listed.iter().filter(|line| line.contains("_together "));
    let program = &again.programs[0];
    let alone = together(&program.step, program)
        .into_iter()
        .map(|together| together.launches.len());
    [merged.count(), alone.sum()]
}

#[test]
fn device_updates_all_parameters_at_once() {
    let gcn = "let a = x |> gcn_conv(6) |> relu
         let b = a |> gcn_conv(5) |> relu
         loss cross_entropy(b |> gcn_conv(classes), labels, on = train)";
    let decayed = "let a = x |> gcn_conv(6, decay = 5e-3) |> relu
         loss cross_entropy(a |> gcn_conv(classes), labels, on = train)";
    let momentum = Optimizer::Sgd {
        lr: 0.01,
        momentum: 0.9,
    };
    let plain = Optimizer::Sgd {
        lr: 0.01,
        momentum: 0.0,
    };
    for (optimizer, body, expected) in [
        // Weights and biases of three layers.
        (ADAM, gcn, [1, 6]),
        (momentum, gcn, [1, 6]),
        (plain, gcn, [1, 6]),
        // Two decay values.
        (ADAM, decayed, [2, 4]),
        // Eight, plus four per iteration of a loop of three, in slots of one buffer.
        (ADAM, RES_PLUS, [1, 20]),
    ] {
        let case = with(optimizer, body);
        let again = Again::new(&case, &options(Placement::Graph, 1));
        assert_eq!(launches(&again), expected, "{body}");
        let expected = run(&mut again.on_processor(), 3);
        close(
            &run(&mut again.on_device(&Arc::default()), 3),
            &expected,
            body,
        );
    }
}
