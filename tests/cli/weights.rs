//! Weights of classes from a user's tables to validation losses, on any number of workers.

use super::support::{Folder, gnnc};
use serde_json::Value;
use std::fmt::Write;

const VERTICES: usize = 210;
/// For each seven vertices, their classes.
const CLASSES: [usize; 7] = [0, 0, 0, 0, 1, 1, 2];
/// For each five vertices, their splits.
const SPLITS: [&str; 5] = ["train", "train", "val", "train", "test"];

fn class(v: usize) -> usize {
    CLASSES[v % 7]
}

fn split(v: usize) -> &'static str {
    SPLITS[v % 5]
}

/// A folder with the graph.
fn graph() -> Folder {
    let folder = Folder::new();
    let (mut nodes, mut edges) = ("id,x,y,label,split\n".to_owned(), "a,b\n".to_owned());
    for v in 0..VERTICES {
        let noise = (
            (v * 37 % 101) as f64 / 50.0 - 1.0,
            (v * 53 % 97) as f64 / 48.0 - 1.0,
        );
        let (x, y) = (
            class(v) as f64 * 0.5 + noise.0,
            (class(v) % 2) as f64 + noise.1,
        );
        writeln!(nodes, "{v},{x},{y},{},{}", class(v), split(v)).unwrap();
        for step in [7, 14, 23] {
            writeln!(edges, "{v},{}", (v + step) % VERTICES).unwrap();
        }
    }
    let (nodes, edges) = (folder.file("n.csv", nodes), folder.file("e.csv", edges));
    let out = folder.join("g.npz");
    let names = ["graph", "import", edges.to_str().unwrap(), "--nodes"];
    let paths = [nodes.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let run = gnnc([&names[..], &paths].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    folder
}

/// The weighted mean of the cross-entropy, with smoothing, over the validation vertices of a table of probabilities.
fn by_hand(table: &str, weights: [f64; 3], smoothing: f64) -> f64 {
    let (mut sum, mut all) = (0.0, 0.0);
    for row in table
        .lines()
        .skip(1)
        .map(|row| row.split(',').collect::<Vec<_>>())
    {
        let v: usize = row[0].parse().unwrap();
        if split(v) != "val" {
            continue;
        }
        let terms = [2, 3, 4].map(|column| -row[column].parse::<f64>().unwrap().ln());
        sum += (1.0 - smoothing) * weights[class(v)] * terms[class(v)];
        sum += (0..3)
            .map(|c| smoothing / 3.0 * weights[c] * terms[c])
            .sum::<f64>();
        all += weights[class(v)];
    }
    sum / all
}

#[test]
fn validation_losses_are_weighted_by_hand() {
    let folder = graph();
    let trained = |c| {
        (0..VERTICES)
            .filter(|v| split(*v) == "train" && class(*v) == c)
            .count() as f64
    };
    let counts = [trained(0), trained(1), trained(2)];
    let balanced = counts.map(|count| counts.iter().sum::<f64>() / (3.0 * count));
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (run, table, log) = (path("run"), path("p.csv"), path("log"));
    for (numbers, weights, smoothing) in [
        ("weights = [0.3, 1, 2.5]", [0.3, 1.0, 2.5], 0.0),
        ("weights = balanced, smoothing = 0.1", balanced, 0.1),
        ("smoothing = 0.2", [1.0; 3], 0.2),
    ] {
        let text = format!(
            "graph g = \"g.npz\"\n\
             model m() on g {{ let h = x |> sage_conv(8) |> relu\n\
             loss cross_entropy(h |> gcn_conv(classes), labels, on = train, {numbers}) }}\n\
             train {{ optimizer = adam(lr = 0.02) epochs = 12 }}\n"
        );
        let model = folder.file("m.gir", text);
        let model = model.to_str().unwrap();
        let mut losses: Vec<f64> = Vec::new();
        for (workers, placement) in [
            ("1", "graph"),
            ("2", "graph"),
            ("4", "graph"),
            ("2", "tensor"),
            ("4", "tensor"),
        ] {
            let place = ["--workers", workers, "--placement", placement];
            let files = ["--checkpoint", &run, "--log", &log, "--format", "json"];
            let report = gnnc([&["train", model][..], &place, &files].concat()).json();
            losses.push(report["train_loss"].as_f64().unwrap());
            let lines = std::fs::read_to_string(&log).unwrap();
            let mut lines = lines
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap());
            let last = lines.rfind(|line| line["event"] == "epoch").unwrap();
            let predict = [
                "predict",
                model,
                "--checkpoint",
                &run,
                "--last",
                "--probabilities",
            ];
            let written = gnnc([&predict[..], &["--out", &table]].concat());
            assert_eq!(written.code, Some(0), "{}", written.stderr);
            let table = std::fs::read_to_string(&table).unwrap();
            let (found, expected) = (
                last["val_loss"].as_f64().unwrap(),
                by_hand(&table, weights, smoothing),
            );
            let what = format!("{numbers} on {workers} {placement}: {found} {expected}");
            assert!((found - expected).abs() < 1e-5 * expected, "{what}");
            let same = (losses[0] - losses[losses.len() - 1]).abs() < 1e-4 * losses[0];
            assert!(same, "{what}: {losses:?}");
        }
    }
}

#[test]
fn balanced_weights_find_rare_classes() {
    let folder = graph();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (run, table) = (path("run"), path("p.csv"));
    let rare = |weights: &str| {
        let text = format!(
            "graph g = \"g.npz\"\n\
             model m() on g {{ loss cross_entropy(x |> linear(classes), labels, on = train, weights = {weights}) }}\n\
             train {{ optimizer = adam(lr = 0.05) epochs = 150 }}\n"
        );
        let model = folder.file("m.gir", text);
        let files = [model.to_str().unwrap(), "--checkpoint", &run];
        let trained = gnnc([&["train"][..], &files].concat());
        assert_eq!(trained.code, Some(0), "{}", trained.stderr);
        gnnc([&["predict"][..], &files, &["--last", "--out", &table]].concat()).ok();
        let table = std::fs::read_to_string(&table).unwrap();
        table.lines().filter(|row| row.ends_with(",2")).count()
    };
    let (plain, balanced) = (rare("none"), rare("balanced"));
    assert!(balanced > 2 * plain, "{balanced} {plain}");
    let two = folder.file(
        "two.gir",
        "graph g = \"g.npz\"\n\
         model m() on g { loss cross_entropy(linear(x, classes), labels, weights = [1, 2]) }\n",
    );
    gnnc(["train", two.to_str().unwrap()]).fails(1, &["E0313", "found 2 weights, expected 3"]);
}
