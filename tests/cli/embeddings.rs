//! Batches of graphs whose vertices have no features: the first weight has a row for each vertex.

use crate::support::{Folder, example, gnnc, text};
use std::path::{Path, PathBuf};

/// A model on Cora without its features, after `line`.
fn model(folder: &Folder, line: &str) -> PathBuf {
    let file = format!(
        "graph cora = {:?} {{ features = identity }}
         model rows(hidden = 16) on cora {{
           {line}
           let h = e |> gcn_conv(hidden) |> relu
           let z = h |> sage_conv(classes)
           loss cross_entropy(z, labels, on = train)
         }}
         train {{ optimizer = adam(lr = 0.01) epochs = 3 allow = [sample] }}",
        example("data/cora.npz")
    );
    folder.file("rows.gir", &file)
}

const ROWS: &str = "let e = x |> linear(hidden, bias = false)";

/// The training loss and the peak memory of three epochs.
fn trained(model: &str, more: &[&str]) -> (f64, u64) {
    let args = ["train", model, "--check", "bytes", "--format", "json"];
    let json = gnnc(args.iter().chain(more)).json();
    let peak = json["peak_memory_bytes"].as_u64().unwrap();
    (json["train_loss"].as_f64().unwrap(), peak)
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-5 + 1e-4 * expected.abs()
}

#[test]
fn a_batch_of_all_neighbors_trains_as_the_whole_graph() {
    let folder = Folder::new();
    for line in [ROWS, "let e = x |> linear(hidden) |> relu |> dropout(0.5)"] {
        let model = model(&folder, line);
        let whole = trained(text(&model), &["--placement", "graph"]).0;
        let batch = ["--batch", "140", "--fanouts", "all,all"];
        for placement in ["minibatch", "push-pull", "model-migration"] {
            for workers in ["2", "3"] {
                let args = ["--placement", placement, "--workers", workers];
                let (loss, _) = trained(text(&model), &[&args[..], &batch].concat());
                assert!(near(loss, whole), "{placement} {workers}: {loss}, {whole}");
            }
        }
    }
}

#[test]
fn rows_are_looked_up_on_any_number_of_workers() {
    let folder = Folder::new();
    let model = model(&folder, ROWS);
    let batches = [
        "--batch",
        "32",
        "--fanouts",
        "4,4",
        "--placement",
        "minibatch",
    ];
    let loss_with = |more: &[&str]| trained(text(&model), &[&batches, more].concat());
    let (alone, peak) = loss_with(&[]);
    // A dense matrix of features alone has 2,708 x 2,708 x 4 bytes.
    assert!(peak < 4_000_000, "{peak}");
    let two = ["--workers", "2"];
    for more in [
        &["--threads", "2"][..],
        &["--samplers", "2"],
        &["--eval-fanouts", "4,4"],
        &["--roots", "dealt"],
        &["--prefetch", "0"],
        &["--cache", "200"],
    ] {
        let (loss, _) = loss_with(&[&two, more].concat());
        assert!(near(loss, alone), "{more:?}: {loss}, {alone}");
    }
}

/// Batches of 32 of Cora, stepped lazily.
const LAZY: [&str; 7] = [
    "--batch",
    "32",
    "--fanouts",
    "4,4",
    "--placement",
    "minibatch",
    "--lazy-embeddings",
];

#[test]
fn embeddings_by_owner_train_the_same_on_any_number_of_workers() {
    let folder = Folder::new();
    let model = model(&folder, ROWS);
    let loss_with = |more: &[&str]| trained(text(&model), &[&LAZY, more].concat());
    let (alone, peak) = loss_with(&[]);
    for more in [
        &["--workers", "2"][..],
        &["--workers", "3", "--roots", "dealt"],
        &["--workers", "2", "--samplers", "1"],
        &["--workers", "2", "--eval-fanouts", "4,4"],
    ] {
        let (loss, of_one) = loss_with(more);
        assert!(near(loss, alone), "{more:?}: {loss}, {alone}");
        // Each worker has rows, and two moments of them, for its own vertices only.
        assert!(of_one < peak * 3 / 5, "{more:?}: {of_one}, {peak}");
    }
}

#[test]
fn late_rows_train_the_same_on_any_number_of_workers() {
    let folder = Folder::new();
    let model = model(&folder, ROWS);
    let late = ["--delay", "2", "--allow", "stale"];
    let loss_with = |more: &[&str]| trained(text(&model), &[&LAZY, &late[..], more].concat()).0;
    let alone = loss_with(&[]);
    assert!(!near(trained(text(&model), &LAZY).0, alone), "{alone}");
    for more in [
        &["--workers", "2"][..],
        &["--workers", "3", "--prefetch", "5"],
        &["--workers", "2", "--no-overlap"],
        &["--workers", "2", "--samplers", "1"],
    ] {
        let loss = loss_with(more);
        assert!(near(loss, alone), "{more:?}: {loss}, {alone}");
    }
}

#[test]
fn delays_that_no_batch_can_have_are_refused() {
    let folder = Folder::new();
    let model = model(&folder, ROWS);
    let refused = |more: &[&str], why| {
        gnnc(["train", text(&model)].iter().chain(more)).fails(1, &[why]);
    };
    let lazy = |more: &[&str], why| refused(&[&LAZY, more].concat(), why);
    lazy(&["--delay", "1"], "stale");
    let stale = ["--allow", "stale"];
    let few = [&stale[..], &["--delay", "2", "--prefetch", "2"]].concat();
    lazy(&few, "at least 3 batches ahead, found --prefetch 2");
    let many = [&stale[..], &["--delay", "8"]].concat();
    lazy(&many, "expected at most 7");
    let plain = [&LAZY[..6], &stale, &["--delay", "1"]].concat();
    refused(&plain, "--lazy-embeddings");
}

/// Copies of rows that may lack some steps.
const COPIES: [&str; 8] = [
    "--workers",
    "3",
    "--cache",
    "400",
    "--cache-age",
    "2",
    "--allow",
    "stale",
];

#[test]
fn copies_that_are_asked_for_wrongly_are_refused() {
    let folder = Folder::new();
    let model = model(&folder, ROWS);
    let refused = |batches: &[&str], more: &[&str], why| {
        let args = ["train", text(&model)];
        gnnc(args.iter().chain(batches).chain(more)).fails(1, &[why]);
    };
    refused(&LAZY, &COPIES[..6], "--allow stale");
    refused(&LAZY, &COPIES[..4], "change in every step");
    let none = [&COPIES[..2], &COPIES[4..]].concat();
    refused(&LAZY, &none, "but none are kept");
    refused(&LAZY[..6], &COPIES, "--cache-age is for embeddings");
    let late = [&COPIES[..], &["--delay", "1"]].concat();
    refused(&LAZY, &late, "leave out one of the two");
    let apart = [&COPIES[..], &["--topology", "own"]].concat();
    refused(&LAZY, &apart, "--cache");
}

#[test]
fn copies_go_on_after_a_resume() {
    let folder = Folder::new();
    let model = model(&folder, ROWS);
    let run = folder.join("run");
    let loss_with = |more: &[&str]| trained(text(&model), &[&LAZY, &COPIES[..], more].concat()).0;
    let whole = loss_with(&["--epochs", "6"]);
    loss_with(&["--epochs", "3", "--checkpoint", text(&run)]);
    let resumed = loss_with(&["--epochs", "6", "--resume", text(&run)]);
    assert_eq!(resumed, whole);
}

/// Ranks keep the rows that training reads most, in evaluations too.
#[test]
fn evaluations_on_batches_read_the_same_copies() {
    let folder = Folder::new();
    let model = model(&folder, ROWS);
    let evaluated = ["--eval-fanouts", "4,4"];
    for by in ["degree", "probability", "counts"] {
        let copies = [&COPIES[..], &["--cache-by", by], &evaluated].concat();
        let (loss, _) = trained(text(&model), &[&LAZY, &copies[..]].concat());
        assert!(loss.is_finite());
        let features = ["--workers", "3", "--cache", "300", "--cache-by", by];
        let batches = [&LAZY[..6], &features, &evaluated].concat();
        trained(
            &example("sage_cora.gir"),
            &[&batches[..], &["--allow", "sample"]].concat(),
        );
    }
}

#[test]
fn plans_try_copies_of_an_age() {
    let folder = Folder::new();
    let model = model(&folder, ROWS);
    let batches = [&LAZY[..4], &LAZY[6..]].concat();
    let plan = |cluster: &str| {
        let pin = "placement=minibatch,partitioner=metis";
        let args = [
            "plan",
            text(&model),
            "--cluster",
            cluster,
            "--pin",
            pin,
            "--all",
            "--why",
        ];
        let aged = ["--cache-age", "4", "--allow", "stale"];
        gnnc(args.iter().chain(&batches).chain(&aged)).ok()
    };
    let found = plan("nodes=1 gpus=3 gpu=cpu-core link=10gb memory=1GiB");
    assert!(found.contains("metis cache 2708 age 4"), "{found}");
    assert!(!found.contains("x 1 cache"), "{found}");
    let found = plan("nodes=1 gpus=3 gpu=a100 link=10gb memory=1GiB");
    assert!(
        found.contains("no copies of embeddings are kept on GPUs"),
        "{found}"
    );
}

/// What a plan says that copies save, beside what they save.
#[test]
fn plans_know_how_old_copies_are() {
    let folder = Folder::new();
    let model = model(&folder, ROWS);
    let pin = "placement=minibatch,ranks=3,partitioner=metis";
    let batches = [&LAZY[..4], &LAZY[6..]].concat();
    let bytes = |copies: &[&str]| {
        let args = [
            "plan",
            text(&model),
            "--cluster",
            "nodes=1 gpus=3 gpu=cpu-core link=10gb memory=1GiB",
            "--pin",
            pin,
            "--format",
            "json",
        ];
        let plan = gnnc(args.iter().chain(&batches).chain(copies)).plan();
        let planned = plan["candidates"][0]["bytes"].as_f64().unwrap();
        let args = [
            "train",
            text(&model),
            "--workers",
            "3",
            "--partitioner",
            "metis",
            "--format",
            "json",
        ];
        let run = gnnc(args.iter().chain(&LAZY).chain(copies)).json();
        let sent = run["bytes_sent"].as_f64().unwrap();
        [planned, sent / run["epochs"].as_f64().unwrap()]
    };
    let without = bytes(&[]);
    for age in ["1", "3", "100"] {
        let copies = ["--cache", "400", "--cache-age", age, "--allow", "stale"];
        let with = bytes(&copies);
        let [planned, measured] = [0, 1].map(|n| 1.0 - with[n] / without[n]);
        assert!(measured > 0.0, "age {age}: {with:?} of {without:?}");
        assert!(
            (planned - measured).abs() < 0.02,
            "age {age}: {planned}, {measured}"
        );
    }
}

#[test]
fn embeddings_by_owner_resume_on_another_number_of_workers() {
    let folder = Folder::new();
    let model = model(&folder, ROWS);
    let run = folder.join("run");
    let loss_with = |more: &[&str]| trained(text(&model), &[&LAZY, more].concat()).0;
    let whole = loss_with(&["--epochs", "6"]);
    loss_with(&[
        "--epochs",
        "3",
        "--workers",
        "2",
        "--checkpoint",
        text(&run),
    ]);
    for workers in ["1", "3"] {
        let loss = loss_with(&[
            "--epochs",
            "6",
            "--workers",
            workers,
            "--resume",
            text(&run),
        ]);
        assert!(near(loss, whole), "{workers}: {loss}, {whole}");
    }
}

#[test]
fn embeddings_that_cannot_be_stepped_lazily_are_refused() {
    let folder = Folder::new();
    let embedded = model(&folder, ROWS);
    let refused = |model: &Path, more: &[&str], why: &str| {
        let args = [
            "train",
            text(model),
            "--workers",
            "2",
            "--lazy-embeddings",
            "--batch",
            "32",
        ];
        gnnc(args.iter().chain(more)).fails(1, &[why]);
    };
    let placed = |placement| ["--fanouts", "4,4", "--placement", placement];
    let cached = [&placed("minibatch")[..], &["--cache", "100"]].concat();
    refused(&embedded, &cached, "change in every step");
    refused(
        &embedded,
        &placed("push-pull"),
        "step all rows in placement push-pull",
    );
    refused(
        &embedded,
        &placed("model-migration"),
        "step all rows in placement model-migration",
    );
    // The layer reads the features of neighbors before it multiplies.
    let folder = Folder::new();
    let other = model(&folder, "let e = x |> sage_conv(hidden)");
    let hops = ["--fanouts", "4,4,4", "--placement", "minibatch"];
    refused(&other, &hops, "no parameter has a row for each vertex");
}

#[test]
fn features_that_more_than_products_read_are_rows_as_before() {
    let folder = Folder::new();
    // The layer reads the features of neighbors before it multiplies.
    let model = model(&folder, "let e = x |> sage_conv(hidden)");
    let batch = ["--batch", "140", "--fanouts", "all,all,all"];
    let whole = trained(text(&model), &["--placement", "graph"]).0;
    let more = ["--placement", "minibatch", "--workers", "2"];
    let (loss, _) = trained(text(&model), &[&more[..], &batch].concat());
    assert!(near(loss, whole), "{loss}, {whole}");
}
