//! Runs that are judged by a metric, and scores of trained models.

use crate::data::{data, folder, ring};
use crate::support::{Folder, gnnc, refused, text};
use gnnc::graph::{Features, GraphData, Labels};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A ring of vertices whose features say a little about their class.
fn noisy_data() -> GraphData {
    let n = 60u32;
    let mut data = data(n, (0..n).flat_map(|v| [(v, (v + 2) % n), ((v + 2) % n, v)]));
    let value = |i: u32| ((i * 7 + i * i / 3) % 11) as f32 / 5.0 + (i / 2 % 2) as f32 * 0.7;
    data.features = Features::dense(n as usize, 2, (0..2 * n).map(value).collect());
    data
}

/// The same with a model on it.
fn noisy() -> (Folder, PathBuf) {
    folder(&noisy_data())
}

fn train(model: &Path, more: &[&str]) -> Value {
    let args = ["train", text(model), "--format", "json"];
    gnnc(args.iter().chain(more)).json()
}

/// The rows of a curve: epoch, loss, scores.
fn rows(curve: &Path) -> Vec<Vec<f64>> {
    let text = std::fs::read_to_string(curve).unwrap();
    let row = |line: &str| line.split(',').map(|f| f.parse().unwrap()).collect();
    text.lines().skip(1).map(row).collect()
}

#[test]
fn a_run_is_judged_by_its_metric_and_scored_the_same_later() {
    let (folder, model) = noisy();
    let (curve, run) = (folder.join("curve.csv"), folder.join("run"));
    let asked = ["--metric", "roc-auc", "--epochs", "60", "--lr", "0.2"];
    let files = ["--curve", text(&curve), "--checkpoint", text(&run)];
    let json = train(&model, &[&asked[..], &files].concat());
    assert_eq!(
        (&json["metric"], &json["chosen_by"]),
        (&"roc_auc".into(), &"roc_auc".into())
    );
    let head = std::fs::read_to_string(&curve).unwrap();
    assert!(
        head.starts_with("epoch,loss,train_roc_auc,val_roc_auc,test_roc_auc\n"),
        "{head}"
    );
    let rows = rows(&curve);
    let highest = rows.iter().map(|row| row[3]).fold(0.0, f64::max);
    let best = rows.iter().find(|row| row[3] == highest).unwrap();
    assert_eq!(json["best_epoch"], best[0] as u64);
    assert_eq!(
        (json["val_roc_auc"].as_f64(), json["test_roc_auc"].as_f64()),
        (Some(best[3]), Some(best[4]))
    );
    // The validation loss chooses another epoch.
    let by_loss = train(&model, &asked[2..]);
    assert_ne!(by_loss["best_epoch"], json["best_epoch"]);
    assert!(by_loss.get("chosen_by").is_none());

    // `eval` finds the same on any number of workers, from the best parameters or the last.
    let eval = |more: &[&str]| {
        let args = [
            "eval",
            text(&model),
            "--checkpoint",
            text(&run),
            "--format",
            "json",
        ];
        gnnc(args.iter().chain(more)).json()
    };
    for workers in ["1", "3"] {
        let found = eval(&[
            "--metric",
            "roc-auc,accuracy",
            "--vertices",
            "val",
            "--workers",
            workers,
        ]);
        assert_eq!(
            (&found["vertices"], &found["epochs"]),
            (&20.into(), &json["best_epoch"])
        );
        let score = found["scores"]["roc_auc"].as_f64().unwrap();
        assert!((score - best[3]).abs() < 1e-9, "{found}");
        assert!(found["scores"]["accuracy"].is_f64());
    }
    let last = eval(&["--metric", "ROC_AUC", "--last"]);
    assert_eq!(last["scores"]["roc_auc"].as_f64(), Some(rows[59][4]));
    let report = gnnc([
        "eval",
        text(&model),
        "--checkpoint",
        text(&run),
        "--vertices",
        "all",
    ]);
    assert!(
        report.report().contains("\naccuracy  "),
        "by default what fits the labels"
    );

    // Models name metrics too, and patience waits for them.
    let said = std::fs::read_to_string(&model).unwrap();
    let patient = said.replace(
        "epochs = 3",
        "metric = \"roc-auc\" patience = 5 epochs = 60",
    );
    let patient = folder.file("patient.gir", patient);
    let stopped = train(&patient, &["--lr", "0.2"]);
    let mut since = (0.0, 0.0);
    for row in &rows {
        if row[3] > since.1 {
            since = (row[0], row[3]);
        }
        if row[0] == since.0 + 5.0 {
            assert_eq!(stopped["epochs"], row[0] as u64);
            break;
        }
    }
    assert_eq!(stopped["best_epoch"], since.0 as u64);
    let report = gnnc(["train", text(&patient)]).report();
    assert!(
        report.contains("val ROC-AUC") && report.contains("the best validation ROC-AUC"),
        "{report}"
    );
}

#[test]
fn a_resumed_run_keeps_the_epoch_that_its_metric_chose() {
    let (folder, model) = noisy();
    let run = folder.join("run");
    let asked = ["--metric", "average-precision", "--lr", "0.2"];
    let whole = train(&model, &[&asked[..], &["--epochs", "40"]].concat());
    let kept = ["--checkpoint", text(&run), "--epochs", "20"];
    train(&model, &[&asked[..], &kept].concat());
    let more = ["--resume", text(&run), "--epochs", "40"];
    let resumed = train(&model, &[&asked[..], &more].concat());
    for key in [
        "best_epoch",
        "val_average_precision",
        "test_average_precision",
        "train_loss",
    ] {
        assert_eq!(resumed[key], whole[key], "{key}");
    }
}

#[test]
fn scores_of_a_resumed_run_keep_their_name() {
    let (folder, model) = noisy();
    let run = folder.join("run");
    let first = train(&model, &["--checkpoint", text(&run)]);
    // All epochs are done, so nothing is scored anew.
    let again = train(&model, &["--resume", text(&run), "--metric", "roc-auc"]);
    assert_eq!(again["metric"], "accuracy");
    assert!(again["val_accuracy"].is_f64());
    for key in ["val_accuracy", "test_accuracy", "best_epoch"] {
        assert_eq!(again[key], first[key], "{key}");
    }
    assert!(again.get("val_roc_auc").is_none(), "{again}");
}

#[test]
fn a_run_goes_on_where_absolute_errors_are_large() {
    let mut data = data(6, (0..6).map(|v| (v, (v + 1) % 6)));
    let values = (0..6).map(|v| 100.0 * v as f32).collect();
    data.labels = Labels::Values { width: 1, values };
    let (folder, model) = folder(&data);
    let said = std::fs::read_to_string(&model).unwrap();
    std::fs::write(&model, said.replace("cross_entropy", "mse")).unwrap();
    let run = folder.join("run");
    let first = train(&model, &["--checkpoint", text(&run)]);
    assert!(first["val_mae"].as_f64().unwrap() > 1.0, "{first}");
    let more = train(&model, &["--resume", text(&run), "--epochs", "5"]);
    let whole = train(&model, &["--epochs", "5"]);
    assert_eq!(more["val_mae"], whole["val_mae"]);
    assert_eq!(more["best_epoch"], whole["best_epoch"]);
}

#[test]
fn a_split_that_cannot_be_scored_is_judged_by_its_loss() {
    let mut data = noisy_data();
    data.val = (0..60).map(|v| v % 6 == 1).collect();
    let (_folder, model) = folder(&data);
    let asked = ["--epochs", "20", "--lr", "0.1"];
    let judged = train(&model, &[&asked[..], &["--metric", "roc-auc"]].concat());
    let by_loss = train(&model, &asked);
    assert!(judged["val_roc_auc"].is_null(), "{judged}");
    assert_ne!(judged["best_epoch"], 1, "{judged}");
    assert_eq!(judged["best_epoch"], by_loss["best_epoch"]);
}

#[test]
fn a_metric_that_cannot_be_computed_is_refused_before_training() {
    let (folder, model) = noisy();
    let run = folder.join("run");
    let args = ["train", text(&model), "--metric", "roc-auc"];
    let batches = ["--placement", "minibatch", "--allow", "sample"];
    let sizes = ["--batch", "5", "--fanouts", "2,2", "--eval-fanouts", "2,2"];
    let every = ["--evaluate-every", "3", "--checkpoint-every", "1"];
    let kept = ["--checkpoint", text(&run)];
    let asked = [&args[..], &batches, &sizes, &every, &kept].concat();
    refused(1, &asked, &["ROC-AUC", "fanouts of evaluations"]);
    assert!(!run.exists(), "nothing was trained");
}

#[test]
fn metrics_that_do_not_fit_are_refused() {
    let (_folder, model) = folder(&ring());
    let args = ["train", text(&model), "--metric"];
    refused(
        1,
        &[&args[..], &["auc"]].concat(),
        &["found `auc`", "roc-auc"],
    );
    let mut data = ring();
    let values = (0..6).flat_map(|v| [1.0, (v % 2) as f32]).collect();
    data.labels = Labels::Values { width: 2, values };
    let (folder, model) = folder(&data);
    let said = std::fs::read_to_string(&model)
        .unwrap()
        .replace("cross_entropy", "bce_with_logits");
    std::fs::write(&model, &said).unwrap();
    let args = ["train", text(&model), "--metric"];
    refused(
        1,
        &[&args[..], &["accuracy"]].concat(),
        &["several labels", "micro-f1"],
    );
    let micro = train(&model, &["--metric", "micro-f1"]);
    let counted = train(&model, &[]);
    assert_eq!(micro["train_micro_f1"], counted["train_micro_f1"]);
    let wrong = folder.file("wrong.gir", said.replace("epochs = 3", "metric = 3"));
    gnnc(["check", text(&wrong)]).fails(1, &["E0403", "roc_auc"]);
}
