//! Scores have the right names, and are absent if there is nothing to count.

use crate::data::{folder, ring};
use crate::support::{Folder, example, gnnc, text};
use gnnc::graph::{GraphData, Labels, write};
use std::path::PathBuf;

/// The ring with two labels per vertex, and a model that predicts each on its own.
fn several_labels() -> (Folder, PathBuf) {
    let mut data = ring();
    let values = (0..6).flat_map(|v| [1.0, (v % 2) as f32]).collect();
    data.labels = Labels::Values { width: 2, values };
    let folder = Folder::new();
    write::save(&data, folder.join("g.npz")).unwrap();
    let model = crate::data::model("g.npz").replace("cross_entropy", "bce_with_logits");
    let model = folder.file("m.gir", model);
    (folder, model)
}

/// The ring without the vertices of some splits.
fn without(change: fn(&mut GraphData)) -> (Folder, PathBuf) {
    let mut data = ring();
    change(&mut data);
    folder(&data)
}

#[test]
fn several_labels_a_vertex_are_scored_by_micro_f1() {
    let (folder, model) = several_labels();
    let curve = folder.join("curve.csv");
    let report = gnnc(["train", text(&model), "--curve", text(&curve)]).report();
    assert!(!report.contains("accuracy"), "{report}");
    for part in ["train micro-F1", "val micro-F1", "test micro-F1"] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
    let curve = std::fs::read_to_string(curve).unwrap();
    let head = "epoch,loss,train_micro_f1,val_micro_f1,test_micro_f1\n";
    assert!(curve.starts_with(head), "{curve}");
    let json = gnnc(["train", text(&model), "--format", "json"]).json();
    assert_eq!(json["metric"], "micro_f1");
    assert!(json["val_micro_f1"].is_f64() && json["test_micro_f1"].is_f64());
    assert!(json.get("test_accuracy").is_none(), "{json}");

    let seeds = ["train", text(&model), "--seeds", "2"];
    let report = gnnc(seeds).report();
    assert!(!report.contains("accuracy"), "{report}");
    assert!(report.contains("test micro-F1"), "{report}");
    let json = gnnc(seeds.iter().chain(&["--format", "json"])).json();
    assert!(json["test_micro_f1_deviation"].is_f64(), "{json}");
    assert!(json.get("test_accuracy").is_none(), "{json}");
}

#[test]
fn one_class_a_vertex_is_scored_by_accuracy() {
    let cora = example("gcn_cora.gir");
    let json = gnnc(["train", &cora, "--epochs", "1", "--format", "json"]).json();
    assert_eq!(json["metric"], "accuracy");
    assert!(json.get("test_micro_f1").is_none(), "{json}");
}

#[test]
fn without_validation_vertices_no_epoch_is_chosen() {
    let (folder, model) = without(|data| data.val = vec![false; 6]);
    let settings = std::fs::read_to_string(&model).unwrap();
    let settings = settings.replace("epochs = 3", "epochs = 9  patience = 1");
    std::fs::write(&model, settings).unwrap();
    let curve = folder.join("curve.csv");
    let args = ["train", text(&model), "--curve", text(&curve)];
    let run = gnnc(args.iter().chain(&["--evaluate-every", "4"]));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let warning = "no validation vertices to choose the best epoch by, so the test accuracy is from the \
                   last evaluation; the model's `patience` has no effect";
    assert!(run.stderr.contains(warning), "{}", run.stderr);
    assert!(!run.stdout.contains("\nval accuracy"), "{}", run.stdout);
    assert!(!run.stdout.contains("lowest"), "{}", run.stdout);
    let line = "test accuracy  ";
    let found = run.stdout.lines().find(|l| l.starts_with(line)).unwrap();
    assert!(found.ends_with("% at the last evaluation"), "{found}");
    let first = run
        .stdout
        .lines()
        .find(|l| l.starts_with("     4 "))
        .unwrap();
    let cells: Vec<&str> = first.split_whitespace().collect();
    assert_eq!(cells[4], "-", "no validation score: {first}");
    let rows = std::fs::read_to_string(&curve).unwrap();
    let rows: Vec<&str> = rows.lines().skip(1).collect();
    assert_eq!(rows.len(), 3, "patience ends nothing: {rows:?}");
    assert!(rows.iter().all(|row| row.split(',').nth(3) == Some("")));

    let run = gnnc(args.iter().chain(&["--format", "json"]));
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(json["best_epoch"].is_null() && json["val_accuracy"].is_null());
    assert!(json["test_accuracy"].is_f64(), "{json}");
    assert_eq!(json["stopped_early"], false);

    let seeds = ["train", text(&model), "--seeds", "2"];
    let report = gnnc(seeds).stdout;
    assert!(!report.contains("\nval accuracy"), "{report}");
    let json = gnnc(seeds.iter().chain(&["--format", "json"])).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["val_accuracy"].is_null() && json["val_accuracy_deviation"].is_null());
    assert!(json["test_accuracy"].is_f64(), "{json}");
}

#[test]
fn without_test_vertices_there_is_no_test_score() {
    let (_folder, model) = without(|data| data.test = vec![false; 6]);
    let report = gnnc(["train", text(&model)]).report();
    assert!(!report.contains("\ntest accuracy"), "{report}");
    assert!(report.contains("\nval accuracy"), "{report}");
    let json = gnnc(["train", text(&model), "--format", "json"]).json();
    assert!(json["test_accuracy"].is_null(), "{json}");
    assert!(json["best_epoch"].is_u64(), "{json}");
}
