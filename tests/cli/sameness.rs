//! Several workers compute what one worker computes, including dropout.

use crate::support::{Folder, example, gnnc, plan_runs, refused, text};
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::{Knobs, Placement};
use gnnc::ir::program::Rule;
use gnnc::planner::placement::{TABLE, row};
use gnnc::{LoadOptions, Loaded, Source, TrainOptions};

/// Compares losses of ten epochs by placement and number of workers with those of one worker.
fn same_losses(model: &str, set: &[(&str, f64)]) {
    let source = Source::read(example(model)).unwrap();
    let set = set.iter().map(|(name, value)| ((*name).to_owned(), *value));
    let options = LoadOptions {
        set: set.collect(),
        ..LoadOptions::default()
    };
    let loaded = Loaded::new(&source, &options).unwrap();
    let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
    let losses = |placement: Placement, workers| {
        let options = TrainOptions {
            workers,
            placement,
            allow: Relaxation::ALL.to_vec(),
            knobs: Knobs {
                // Stale copies give another function.
                skip: row(placement)
                    .is_some_and(|row| row.skips)
                    .then_some(Rule::Fixed(0).into()),
                ..Knobs::default()
            },
            epochs: Some(10),
            evaluate_every: 10,
            ..TrainOptions::default()
        };
        let summary = gnnc::train(&loaded, &compiled, &options, &mut |_| ()).unwrap();
        assert_eq!(summary.bytes_sent, summary.bytes_predicted);
        assert_eq!(summary.bytes_sent > 0, workers > 1);
        summary.losses
    };
    let exact = losses(Placement::Graph, 1);
    assert_eq!(exact.len(), 10);
    // Histories in stages give another function: see `differential`.
    let whole = TABLE.iter().filter(|row| !row.staged() && !row.samples());
    for placement in whole.map(|row| row.placement) {
        // A placement that changes the function is compared with one worker that computes the
        // changed function.
        let decoupled = placement == Placement::TensorDecoupled;
        let one = match (decoupled, &compiled.decoupled) {
            (false, _) => exact.clone(),
            (_, Ok(_)) => losses(placement, 1),
            (_, Err(_)) => continue,
        };
        for workers in [2, 5] {
            let several = losses(placement, workers);
            for (epoch, (found, expected)) in several.iter().zip(&one).enumerate() {
                let error = (found - expected).abs() / expected.abs();
                assert!(
                    error < 1e-4,
                    "{model}, {placement} on {workers} workers, epoch {}: {found}, on one {expected}",
                    epoch + 1
                );
            }
        }
    }
}

/// A hybrid of one stage is graph parallelism, and a hybrid with groups of one rank is a
/// pipeline, bit for bit.
#[test]
fn hybrids_end_in_graph_and_pipeline() {
    let trained = |placement: &str, stages: &str| {
        let cora = example("gcnii_cora.gir");
        let args = [
            "train",
            &cora,
            "--set",
            "depth=6",
            "--epochs",
            "4",
            "--workers",
            "3",
            "--allow",
            "stale",
            "--format",
            "json",
            "--placement",
            placement,
            "--stages",
            stages,
        ];
        let trained = gnnc(args).json();
        (trained["train_loss"].clone(), trained["bytes_sent"].clone())
    };
    assert!(trained("graph", "1").0.is_f64());
    assert_eq!(trained("hybrid", "1"), trained("graph", "1"));
    assert_eq!(trained("hybrid", "3"), trained("pipeline", "3"));
    assert_ne!(trained("hybrid", "3"), trained("graph", "1"));
}

/// Virtual stages compute the same and send more, and such a plan runs as planned.
#[test]
fn runs_of_layers_are_trained_as_one() {
    let (cora, folder) = (example("gcnii_cora.gir"), Folder::new());
    let of = ["--set", "depth=6", "--allow", "stale"];
    let trained = |more: &[&str]| {
        let args = ["train", "--epochs", "4", "--format", "json"];
        let trained = gnnc(args.iter().chain(more)).json();
        let bytes = trained["bytes_sent"].as_u64().unwrap();
        (trained["train_loss"].clone(), bytes)
    };
    let by_hand = |turns: &str| {
        let args = [
            &cora,
            "--workers",
            "3",
            "--placement",
            "pipeline",
            "--chunks",
            "4",
            "--virtual-stages",
            turns,
        ];
        trained(&[&args[..], &of].concat())
    };
    let (one, two) = (by_hand("1"), by_hand("2"));
    assert_eq!(one.0, two.0);
    // Five borders instead of two; evaluations and the first pass cross each once more.
    assert!(two.1 > 2 * one.1, "{one:?} {two:?}");
    let plan = folder.join("plan.json");
    let report = plan_runs(&[&of[..], &["--out", text(&plan)]].concat()).report();
    assert!(report.contains("pipeline 3x1 x 2 virtual / 4"), "{report}");
    assert_eq!(trained(&[text(&plan)]), two);
}

/// Attention in two stages; the second one reads histories.
#[test]
fn attention_is_trained_in_stages() {
    let trained = |more: &[&str]| {
        let cora = example("gat_cora.gir");
        let args = [
            "train", &cora, "--epochs", "40", "--allow", "stale", "--format", "json",
        ];
        let run = gnnc(args.iter().chain(more)).json();
        let share = |name: &str| run[name].as_f64().unwrap();
        (share("train_loss"), share("val_accuracy"))
    };
    let (alone, _) = trained(&[]);
    for more in [
        &["--workers", "2", "--placement", "pipeline"][..],
        &["--workers", "4", "--placement", "hybrid", "--stages", "2"],
    ] {
        let (loss, accuracy) = trained(more);
        assert!((loss - alone).abs() < 0.1 * alone, "{loss} {alone}");
        assert!(loss != alone && accuracy > 0.7, "{loss} {accuracy}");
    }
}

#[test]
fn numbers_of_a_pipeline_that_are_seldom_meant_are_warned_of() {
    let cora = example("gcnii_cora.gir");
    let warned = |more: &[&str]| {
        let args = [
            "train",
            &cora,
            "--set",
            "depth=6",
            "--epochs",
            "3",
            "--allow",
            "stale",
            "--workers",
            "3",
        ];
        gnnc(args.iter().chain(more)).stderr
    };
    let staged = ["--placement", "pipeline", "--chunks", "2"];
    let found = warned(&staged);
    for part in [
        "warning: with 2 chunks for 3 stages",
        "histories are updated every 10 epochs, but there are only 3",
    ] {
        assert!(found.contains(part), "{found}");
    }
    let staged = [
        "--placement",
        "pipeline",
        "--chunks",
        "3",
        "--interval",
        "3",
    ];
    for found in [warned(&staged), warned(&["--placement", "graph"])] {
        assert!(!found.contains("warning"), "{found}");
    }
}

#[test]
fn a_hybrid_without_groups_is_refused_with_what_to_do() {
    let cora = example("gcnii_cora.gir");
    refused(
        1,
        &[
            "train",
            &cora,
            "--workers",
            "3",
            "--placement",
            "hybrid",
            "--allow",
            "stale",
        ],
        &[
            "found placement hybrid on 3 workers",
            "such as 4; or use placement pipeline or graph",
        ],
    );
}

#[test]
fn gcn_is_the_same_on_several_workers() {
    same_losses("gcn_cora.gir", &[]);
}

#[test]
fn sage_is_the_same_on_several_workers() {
    same_losses("sage_cora.gir", &[]);
}

#[test]
fn gat_is_the_same_on_several_workers() {
    same_losses("gat_cora.gir", &[]);
}

#[test]
fn gin_is_the_same_on_several_workers() {
    same_losses("gin_cora.gir", &[]);
}

#[test]
fn gcnii_is_the_same_on_several_workers() {
    same_losses("gcnii_cora.gir", &[("depth", 16.0)]);
}

#[test]
fn appnp_is_the_same_on_several_workers() {
    same_losses("appnp_cora.gir", &[]);
}

#[test]
fn workers_report_what_they_sent() {
    let cora = example("gcn_cora.gir");
    let args = [
        "train",
        &cora,
        "--workers",
        "3",
        "--epochs",
        "3",
        "--partitioner",
        "hash",
    ];
    assert!(
        gnnc(args)
            .report()
            .contains("bytes in the epochs of this run, as predicted")
    );
    let args = ["train", &cora, "--workers", "2", "--partitioner", "kahip"];
    crate::support::refused(
        1,
        &args,
        &[
            "kahip",
            "expected one of metis, metis-edges, metis-splits, blocks",
        ],
    );
}
