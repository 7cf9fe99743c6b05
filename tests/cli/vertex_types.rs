//! Types of vertices, from tables to predictions.

use super::support::{Folder, example, gnnc, refused, text};
use serde_json::Value;
use std::fmt::Write;
use std::fs::read_to_string;

const TRAIN: &str = "train { optimizer = adam(lr = 0.05)  epochs = 60 }\n";

/// Readers of 12 books that either all like or all dislike, told apart by the price of a book and the age of its
/// readers, which readers and books have in columns of their own.
fn tables(folder: &Folder) -> [String; 2] {
    let mut nodes = String::from("id,type,age,price,label,split\n");
    let mut edges = String::from("source,target,type\n");
    for book in 0..24 {
        let liked = book % 2;
        let split = ["train", "val", "test"][book / 2 % 3];
        let row = format!("book{book},book,,{},{liked},{split}\n", 1 + liked);
        writeln!(
            edges,
            "reader{book},book{book},reads\nbook{book},reader{book},read by"
        )
        .unwrap();
        let reader = format!("reader{book},reader,{},,,\n", 20 + book % 5);
        nodes += &(row + &reader);
    }
    let paths = [("nodes.csv", nodes), ("edges.csv", edges)];
    paths.map(|(name, content)| text(&folder.file(name, content)).to_owned())
}

fn import(folder: &Folder, name: &str, nodes: &str, edges: &str) -> (String, Value) {
    let out = text(&folder.join(name)).to_owned();
    let made = gnnc([
        "graph", "import", edges, "--nodes", nodes, "--out", &out, "--format", "json",
    ]);
    (out, made.json())
}

#[test]
fn tables_with_types_become_predictions_of_one_type() {
    let folder = Folder::new();
    let [nodes, edges] = tables(&folder);
    let (graph, made) = import(&folder, "g.npz", &nodes, &edges);
    let stats = gnnc(["graph", "stats", &graph]).ok();
    assert!(stats.contains("24 of book, 24 of reader"), "{stats}");
    // Age, price, and two types.
    assert_eq!(
        (&made["features"], &made["vertices"]),
        (&4.into(), &48.into())
    );
    let path = |name: &str| text(&folder.join(name)).to_owned();
    let (model, run, table) = (path("m.gir"), path("run.ckpt"), path("p.csv"));
    gnnc(["new", &graph, "--out", &model]).ok();
    let written = read_to_string(&model).unwrap();
    assert!(
        written.contains("typed = true") && written.contains("2 vertex types"),
        "{written}"
    );
    let body = format!(
        "graph g = \"g.npz\"
model m() on g {{
  let h = relu(rgcn_conv(x, 8, typed = true)) + by_type(parameter(8, rows = 2))
  loss cross_entropy(typed_linear(h, classes), labels, on = train)
}}
{TRAIN}"
    );
    let model = text(&folder.file("typed.gir", body)).to_owned();
    let train = |more: &[&str]| -> Value {
        let train = ["train", &model, "--format", "json"];
        gnnc(train.iter().chain(more)).json()
    };
    let one = train(&["--checkpoint", &run]);
    assert_eq!(one["test_accuracy"], 1.0);
    for more in [["--workers", "2"], ["--workers", "4"]] {
        let several = train(&more);
        let [a, b] = [&one, &several].map(|report| report["train_loss"].as_f64().unwrap());
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
    let sampled = [
        "--allow",
        "sample",
        "--batch",
        "4",
        "--fanouts",
        "all",
        "--placement",
    ];
    for placement in ["minibatch", "push-pull"] {
        let more = [&sampled[..], &[placement, "--workers", "2"]].concat();
        assert_eq!(train(&more)["test_accuracy"], 1.0);
    }
    let predict = ["predict", &model, "--checkpoint", &run, "--out", &table];
    gnnc(predict.iter().chain(&["--vertex-type", "book"])).ok();
    let rows = read_to_string(&table).unwrap();
    assert_eq!(rows.lines().count(), 25);
    assert!(
        rows.lines().skip(1).all(|row| row.starts_with("book")),
        "{rows}"
    );
    refused(
        1,
        &[&predict[..], &["--vertex-type", "shop"]].concat(),
        &["--vertex-type shop", "one of book, reader"],
    );
    // Another graph with these types, and one with other types.
    let few = "id,type,age,price,label,split\nann,reader,21,,,\nbook,book,,2,1,test\n";
    let other = text(&folder.file("few.csv", few)).to_owned();
    let links = text(&folder.file(
        "few_edges.csv",
        "source,target,type\nann,book,reads\nbook,ann,read by\n",
    ))
    .to_owned();
    let (given, _) = import(&folder, "few.npz", &other, &links);
    gnnc(
        predict
            .iter()
            .chain(&["--graph", &given, "--vertex-type", "book"]),
    )
    .ok();
    assert_eq!(read_to_string(&table).unwrap(), "id,class\nbook,1\n");
    let renamed = few.replace(",reader,", ",writer,");
    let other = text(&folder.file("few.csv", renamed)).to_owned();
    let (given, _) = import(&folder, "few.npz", &other, &links);
    refused(
        1,
        &[&predict[..], &["--graph", &given]].concat(),
        &["`writer`", "book, reader"],
    );
}

#[test]
fn models_without_types_are_told_so() {
    let folder = Folder::new();
    let cora = example("data/cora.npz");
    let body = format!(
        "graph g = \"{cora}\"
model m() on g {{ loss cross_entropy(typed_linear(x, classes), labels, on = train) }}\n"
    );
    let model = text(&folder.file("m.gir", body)).to_owned();
    refused(
        1,
        &["check", &model],
        &["E0312", "`vertex_types`", "vertex_type"],
    );
    let statistics = "graph g { vertices = 1_000 edges = 9_000 features = 8 classes = 3 vertex_types = 4 relations = 6 }
model m() on g {
  let h = x |> rgcn_conv(16, typed = true) |> relu
  loss cross_entropy(typed_linear(h, classes), labels, on = train)
}\n";
    let model = text(&folder.file("s.gir", statistics)).to_owned();
    let plan = gnnc(["plan", &model, "--gpus", "4"]).ok();
    assert!(plan.contains("12 features"), "{plan}");
    let wrong = statistics.replace("vertex_types = 4", "vertex_types = 1");
    let model = text(&folder.file("w.gir", wrong)).to_owned();
    refused(1, &["check", &model], &["vertex_types"]);
}
