//! From a user's own tables to predictions.

use super::support::{Folder, example, gnnc};
use serde_json::Value;
use std::fmt::Write;

/// Two groups of people, each of which knows mostly its own, as tables.
fn tables(folder: &Folder) -> [String; 2] {
    let (people, mut edges) = (120, "who;whom;since\n".to_owned());
    let name = |n: usize| format!("person-{:03}", (n * 7) % people);
    let mut nodes = "name;height;mood;group\n".to_owned();
    for n in 0..people {
        let group = n % 2;
        let height = group as f64 + ((n * 37) % 100) as f64 / 60.0;
        let known = if n % 10 == 9 {
            ""
        } else {
            ["north", "south"][group]
        };
        writeln!(nodes, "{};{height};{};{known}", name(n), (n * 13) % 11).unwrap();
        for step in [2, 6, 14, 22] {
            writeln!(
                edges,
                "{};{};{}",
                name(n),
                name((n + step) % people),
                1990 + n % 20
            )
            .unwrap();
        }
    }
    let file = |name: &str, text: &str| folder.file(name, text).to_str().unwrap().to_owned();
    [file("edges.csv", &edges), file("people.csv", &nodes)]
}

#[test]
fn tables_with_names_become_predictions_by_name() {
    let folder = Folder::new();
    let [edges, people] = tables(&folder);
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (graph, run, table) = (path("g.npz"), path("run.ckpt"), path("p.csv"));
    let import = [
        "graph",
        "import",
        &edges,
        "--nodes",
        &people,
        "--source",
        "who",
        "--target",
        "whom",
        "--label",
        "group",
        "--split",
        "0.5,0.2,0.3",
        "--stratified",
        "--symmetrize",
        "--out",
        &graph,
        "--format",
        "json",
    ];
    let report: Value = serde_json::from_str(&gnnc(import).ok()).unwrap();
    assert_eq!(
        (&report["vertices"], &report["classes"]),
        (&120.into(), &2.into())
    );
    assert_eq!(report["split"], serde_json::json!([54, 22, 32]));
    let model = folder.file(
        "model.gir",
        format!(
            "graph people = \"{graph}\"\n\
             model m(hidden = 8) on people {{ let h = x |> sage_conv(hidden) |> relu\n\
             loss cross_entropy(h |> sage_conv(classes), labels, on = train) }}\n\
             train {{ optimizer = adam(lr = 0.02) epochs = 60 }}\n"
        ),
    );
    let model = model.to_str().unwrap();
    let trained = gnnc(["train", model, "--checkpoint", &run, "--format", "json"]).ok();
    let trained: Value = serde_json::from_str(&trained).unwrap();
    let predict = |more: &[&str]| {
        let command = [
            "predict",
            model,
            "--checkpoint",
            &run,
            "--out",
            &table,
            "--format",
            "json",
        ];
        let report: Value = serde_json::from_str(&gnnc([&command, more].concat()).ok()).unwrap();
        report
    };
    for workers in ["1", "3"] {
        predict(&["--probabilities", "--workers", workers]);
        let text = std::fs::read_to_string(&table).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(rows[0], ["id", "class", "p(north)", "p(south)"]);
        assert_eq!(rows.len(), 121);
        let right = |row: &&Vec<&str>| {
            let place: usize = row[0].strip_prefix("person-").unwrap().parse().unwrap();
            let n = (0..120).find(|n| (n * 7) % 120 == place).unwrap();
            row[1] == ["north", "south"][n % 2]
        };
        let found = rows[1..].iter().filter(right).count();
        assert!(
            found >= 108,
            "{found} of 120 on {workers} workers\n{trained}"
        );
        for row in &rows[1..] {
            let [north, south] = [row[2], row[3]].map(|p| p.parse::<f64>().unwrap());
            assert!((north + south - 1.0).abs() < 1e-5);
            assert_eq!(row[1], if north >= south { "north" } else { "south" });
        }
    }
    // The report quotes the parameters that are kept.
    let best = predict(&[]);
    assert_eq!(best["epochs"], trained["best_epoch"]);
    for score in ["val_accuracy", "test_accuracy"] {
        assert_eq!(best["scores"][score], trained[score], "{trained}");
    }
    assert_eq!(predict(&["--last"])["epochs"], 60);
    // People whose group is not known are in no split.
    predict(&["--vertices", "rest"]);
    assert_eq!(std::fs::read_to_string(&table).unwrap().lines().count(), 13);
    // The best parameters of another run are not taken for those of this one.
    let seeded = [
        "train",
        model,
        "--checkpoint",
        &path("other"),
        "--seed",
        "9",
    ];
    gnnc(seeded).ok();
    std::fs::rename(folder.join("other.best"), folder.join("run.ckpt.best")).unwrap();
    let command = ["predict", model, "--checkpoint", &run, "--out", &table];
    gnnc(command).fails(1, &["they are of two runs", "--last"]);
    assert_eq!(predict(&["--last"])["epochs"], 60);
}

#[test]
fn predictions_are_refused_with_a_reason() {
    let folder = Folder::new();
    let [edges, people] = tables(&folder);
    let out = folder.join("p.csv");
    let out = out.to_str().unwrap();
    let tables = ["graph", "import", &edges, "--nodes", &people];
    let with = |more: &[&str]| gnnc([&tables, more].concat());
    with(&["--out", out]).fails(1, &["expected a name that ends with .npz"]);
    let graph = folder.join("g.npz");
    let graph = graph.to_str().unwrap();
    // Nobody knows that the first row has names.
    with(&["--out", graph]).fails(1, &["id `who`", "an id of the table of vertices"]);
    with(&["--header", "yes", "--split", "0.9,0.9,0", "--out", graph])
        .fails(1, &["expected three shares"]);
    let missing = [
        "predict",
        &example("gcn_cora.gir"),
        "--checkpoint",
        "nothing",
        "--out",
        out,
    ];
    gnnc(missing).fails(1, &["nothing"]);
}
