//! `gnnc train --samplers`: batches drawn ahead on threads of their own.

use crate::support::{example, gnnc, refused};

/// The loss and the scores of three epochs on batches, with more arguments.
fn trained(model: &str, more: &[&str], samplers: &str) -> [String; 3] {
    let model = example(model);
    let args = ["train", &model, "--epochs", "3", "--allow", "sample"];
    let last = [
        "--samplers",
        samplers,
        "--check",
        "bytes",
        "--format",
        "json",
    ];
    let json = gnnc(args.iter().chain(more).chain(&last)).json();
    assert_eq!(json["bytes_sent"], json["bytes_predicted"], "{more:?}");
    ["train_loss", "val_accuracy", "test_accuracy"].map(|name| json[name].to_string())
}

#[test]
fn no_result_depends_on_the_threads_that_draw() {
    let batches = ["--batch", "16", "--fanouts", "5,5"];
    let two = ["--workers", "2", "--partitioner", "metis"];
    let alone: &[&str] = &["--placement", "minibatch"];
    let cases: [(&str, &[&str], &[&str]); 8] = [
        ("gcn_cora.gir", alone, &[]),
        ("gat_cora.gir", alone, &two),
        (
            "sage_cora.gir",
            alone,
            &["--workers", "2", "--roots", "own"],
        ),
        (
            "sage_cora.gir",
            alone,
            &["--workers", "2", "--prefetch", "0"],
        ),
        (
            "sage_cora.gir",
            alone,
            &["--workers", "2", "--cache", "300"],
        ),
        (
            "sage_cora.gir",
            alone,
            &["--eval-fanouts", "4,4", "--threads", "2"],
        ),
        ("sage_cora.gir", &["--placement", "push-pull"], &two),
        ("sage_cora.gir", &["--placement", "model-migration"], &two),
    ];
    for (model, placement, more) in cases {
        let args = [placement, &batches, more].concat();
        let expected = trained(model, &args, "0");
        for samplers in ["1", "3"] {
            assert_eq!(trained(model, &args, samplers), expected, "{args:?}");
        }
        // The second score is never reached, so each batch is drawn when the rank waits for it.
        for launch in ["scored:1/3", "scored:1e300/8"] {
            let args = [&args[..], &["--launch", launch]].concat();
            assert_eq!(trained(model, &args, "2"), expected, "{args:?}");
        }
    }
}

/// A level of these batches has several thousand rows, so several threads draw a hop together.
#[test]
fn large_batches_are_drawn_in_several_tasks() {
    let args = [
        "--placement",
        "minibatch",
        "--batch",
        "500",
        "--fanouts",
        "10,10",
    ];
    let expected = trained("sage_photo.gir", &args, "0");
    for samplers in ["1", "3"] {
        assert_eq!(trained("sage_photo.gir", &args, samplers), expected);
    }
}

#[test]
fn pairs_are_drawn_ahead_as_well() {
    let links = example("sage_links_cora.gir");
    let epochs = ["train", &links, "--epochs", "1", "--format", "json"];
    let loss = |samplers: &str| {
        let run = gnnc(epochs.iter().chain(&["--samplers", samplers])).json();
        run["train_loss"].to_string()
    };
    assert_eq!(loss("2"), loss("0"));
}

#[test]
fn placements_without_batches_have_none() {
    let model = example("gcn_cora.gir");
    let args = ["train", &model, "--epochs", "1", "--samplers", "1"];
    refused(
        1,
        &args,
        &["found options of sampled batches with placement graph"],
    );
}

#[test]
fn plans_count_draws_on_threads_of_their_own() {
    let model = example("sage_photo.gir");
    let plan = |samplers: &str, placement: &str| {
        let pin = format!("placement={placement},ranks=1");
        let args = [
            "plan",
            &model,
            "--allow",
            "sample",
            "--batch",
            "500",
            "--fanouts",
            "10,10",
            "--cluster",
            "cpu",
            "--gpus",
            "1",
            "--pin",
            &pin,
            "--samplers",
            samplers,
        ];
        let plan = gnnc(args.iter().chain(&["--format", "json"])).plan();
        let best = &plan["candidates"][0];
        ["epoch_seconds", "peak_memory_bytes"].map(|key| best[key].as_f64().unwrap())
    };
    let [none, one, two] = ["0", "1", "2"].map(|samplers| plan(samplers, "minibatch"));
    // Photo's edges take less time to draw than a batch takes to train on, so one thread hides all of it.
    assert!(one[0] < none[0], "{one:?}, {none:?}");
    assert!((two[0] / one[0] - 1.0).abs() < 0.02, "{two:?}, {one:?}");
    // Each thread has a table of all vertices, and two batches.
    assert!(
        none[1] < one[1] && one[1] < two[1],
        "{none:?} {one:?} {two:?}"
    );
    assert_eq!(plan("2", "graph"), plan("0", "graph"));
}
