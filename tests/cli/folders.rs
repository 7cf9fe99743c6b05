//! Folders of data sets of many graphs, from import to predictions.

use super::journeys::folder_of;
use super::support::{Folder, gnnc};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs::read_to_string;

/// Rings of 3 to 6 atoms, in three classes by the kind of their atoms.
#[test]
fn a_folder_of_tu_becomes_a_prediction_for_each_graph() {
    let folder = Folder::new();
    let [mut edges, mut graphs, mut kinds, mut labels] = [const { String::new() }; 4];
    let (mut first, count) = (1, 60);
    for graph in 0..count {
        let size = 3 + graph % 4;
        for n in 0..size {
            let [a, b] = [first + n, first + (n + 1) % size];
            writeln!(edges, "{a}, {b}\n{b}, {a}").unwrap();
            writeln!(graphs, "{}", graph + 1).unwrap();
            writeln!(kinds, "{}", 4 + graph % 3).unwrap();
        }
        writeln!(labels, "{}", [-1, 1, 5][graph % 3]).unwrap();
        first += size;
    }
    let files = [
        ("RINGS_A.txt", &edges[..]),
        ("RINGS_graph_indicator.txt", &graphs),
        ("RINGS_graph_labels.txt", &labels),
        ("RINGS_node_labels.txt", &kinds),
    ];
    let data = folder_of(&folder, "RINGS", &files);
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (graph, model) = (path("g.npz"), path("m.gir"));
    let (run, table) = (path("run.ckpt"), path("p.csv"));
    let split = ["--split", "0.8,0.1,0.1", "--stratified", "--seed", "7"];
    let import = [
        "graph", "import", &data, "--out", &graph, "--format", "json",
    ];
    let report: Value = gnnc(import.iter().chain(&split)).json();
    assert_eq!(report["split"], json!([48, 6, 6]), "{report}");
    assert_eq!(
        (&report["features"], &report["classes"]),
        (&json!(3), &json!(3))
    );
    gnnc(["new", &graph, "--out", &model]).ok();
    assert!(read_to_string(&model).unwrap().contains("|> pool"));
    gnnc(["train", &model, "--epochs", "3", "--checkpoint", &run]).ok();
    gnnc(["predict", &model, "--checkpoint", &run, "--out", &table]).ok();
    let text = read_to_string(&table).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|row| row.split(',').collect()).collect();
    assert_eq!(
        (rows.len(), &rows[0][..]),
        (count + 1, &["id", "class"][..])
    );
    for (number, row) in rows[1..].iter().enumerate() {
        assert_eq!(row[0], number.to_string());
        assert!(["-1", "1", "5"].contains(&row[1]), "{row:?}");
    }
    // The folder itself has no split, and stands where a graph file does.
    let stats = gnnc(["graph", "stats", &data]).ok();
    assert!(stats.contains("edges of graphs"), "{stats}");
}

/// A model names the folder.
#[test]
fn a_folder_of_ogb_has_labels_of_graphs() {
    let folder = Folder::new();
    let [mut edges, mut features, mut bonds] = [const { String::new() }; 3];
    let [mut labels, mut two, mut one] = [const { String::new() }; 3];
    let mut lists = [const { String::new() }; 3];
    for graph in 0..30 {
        edges += "0,1\n";
        two += "2\n";
        one += "1\n";
        writeln!(features, "{},1\n{},0", graph % 2, graph % 5).unwrap();
        writeln!(bonds, "{}", graph % 3).unwrap();
        writeln!(labels, "{}", graph % 2).unwrap();
        writeln!(lists[graph % 3], "{graph}").unwrap();
    }
    let [train, valid, test] = &lists;
    let files = [
        ("raw/edge.csv.gz", &edges[..]),
        ("raw/num-node-list.csv.gz", &two),
        ("raw/num-edge-list.csv.gz", &one),
        ("raw/node-feat.csv.gz", &features),
        ("raw/edge-feat.csv.gz", &bonds),
        ("raw/graph-label.csv.gz", &labels),
        ("split/scaffold/train.csv.gz", train),
        ("split/scaffold/valid.csv.gz", valid),
        ("split/scaffold/test.csv.gz", test),
    ];
    folder_of(&folder, "ogbg_small", &files);
    let text = "graph g = \"ogbg_small\"
model m() on g {
  let h = x |> sage_conv(8) |> relu
  loss cross_entropy(h |> pool |> linear(classes), labels, on = train)
}
train { epochs = 3 }\n";
    let model = folder.file("m.gir", text);
    let trained = gnnc(["train", model.to_str().unwrap(), "--format", "json"]).json();
    assert!(trained["test_accuracy"].as_f64().is_some(), "{trained}");
}
