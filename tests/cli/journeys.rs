//! From a user's own tables to predictions.

use super::support::{Folder, example, gnnc};
use serde_json::Value;
use std::fmt::Write;

/// Two groups of people, each of which knows mostly its own, as tables.
pub fn tables(folder: &Folder) -> [String; 2] {
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

/// Writes the tables of a folder, compressed if their names say so.
pub fn folder_of(folder: &Folder, name: &str, files: &[(&str, &str)]) -> String {
    let root = folder.join(name);
    for (file, text) in files {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        if file.ends_with(".gz") {
            let file = std::fs::File::create(path).unwrap();
            let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            std::io::Write::write_all(&mut gzip, text.as_bytes()).unwrap();
            gzip.finish().unwrap();
        } else {
            std::fs::write(path, text).unwrap();
        }
    }
    root.to_str().unwrap().to_owned()
}

const MODEL: &str = "model m(hidden = 8) on g { let h = x |> sage_conv(hidden) |> relu\n\
    loss cross_entropy(h |> sage_conv(classes), labels, on = train) }\n\
    train { optimizer = adam(lr = 0.05) epochs = 60 }\n";

#[test]
fn a_folder_of_ogb_becomes_predictions_by_its_ids() {
    let folder = Folder::new();
    let papers = 90;
    let [mut edges, mut features, mut labels, mut ids] = [const { String::new() }; 4];
    let mut lists = [const { String::new() }; 3];
    ids += "node idx,paper id\n";
    for n in 0..papers {
        for step in [3, 9, 12] {
            writeln!(edges, "{n},{}", (n + step) % papers).unwrap();
        }
        writeln!(
            features,
            "{},{}",
            u8::from(n % 3 == 0),
            u8::from(n % 3 == 1)
        )
        .unwrap();
        let label = if n % 10 == 9 {
            "nan".to_owned()
        } else {
            (n % 3).to_string()
        };
        writeln!(labels, "{label}").unwrap();
        writeln!(ids, "{n},arxiv-{}", 1000 + n * 7).unwrap();
        if n % 10 < 9 {
            writeln!(lists[(n / 10) % 3], "{n}").unwrap();
        }
    }
    let [train, valid, test] = &lists;
    let sizes = (format!("{papers}\n"), format!("{}\n", 3 * papers));
    let data = folder_of(
        &folder,
        "ogbn_small",
        &[
            ("raw/edge.csv.gz", &edges),
            ("raw/node-feat.csv.gz", &features),
            ("raw/node-label.csv.gz", &labels),
            ("raw/num-node-list.csv.gz", &sizes.0),
            ("raw/num-edge-list.csv.gz", &sizes.1),
            ("split/time/train.csv.gz", train),
            ("split/time/valid.csv.gz", valid),
            ("split/time/test.csv.gz", test),
            ("mapping/nodeidx2paperid.csv.gz", &ids),
            (
                "mapping/labelidx2name.csv.gz",
                "label idx,name\n0,cs\n1,math\n2,physics\n",
            ),
        ],
    );
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (graph, run, table) = (path("g.npz"), path("run.ckpt"), path("p.csv"));
    let import = [
        "graph",
        "import",
        &data,
        "--symmetrize",
        "--out",
        &graph,
        "--format",
        "json",
    ];
    let report: Value = serde_json::from_str(&gnnc(import).ok()).unwrap();
    assert_eq!(
        (&report["vertices"], &report["edges"]),
        (&papers.into(), &(6 * papers).into())
    );
    assert_eq!(report["split"], serde_json::json!([27, 27, 27]));
    let model = folder.file("m.gir", format!("graph g = \"{graph}\"\n{MODEL}"));
    let model = model.to_str().unwrap();
    gnnc(["train", model, "--checkpoint", &run]).ok();
    gnnc(["predict", model, "--checkpoint", &run, "--out", &table]).ok();
    let text = std::fs::read_to_string(&table).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!((rows[0], rows.len()), ("id,class", 91));
    let right = |n: usize| {
        rows[n + 1]
            == format!(
                "arxiv-{},{}",
                1000 + n * 7,
                ["cs", "math", "physics"][n % 3]
            )
    };
    let found = (0..papers).filter(|n| right(*n)).count();
    assert!(found >= 80, "{found} of {papers}\n{text}");
    // A model may name the folder itself.
    let model = folder.file("folder.gir", format!("graph g = \"ogbn_small\"\n{MODEL}"));
    gnnc(["train", model.to_str().unwrap(), "--epochs", "2"]).ok();
}

#[test]
fn a_folder_of_dgl_is_trained_on() {
    let folder = Folder::new();
    let mut nodes = "node_id,label,train_mask,val_mask,test_mask,feat\n".to_owned();
    let mut edges = "src_id,dst_id\n".to_owned();
    for n in 0..60 {
        let [train, val, test] = [0, 1, 2].map(|set| n % 3 == set);
        writeln!(
            nodes,
            "{n},{},{train},{val},{test},\"{},{}\"",
            n % 2,
            n % 2,
            n % 7
        )
        .unwrap();
        writeln!(edges, "{n},{}\n{},{n}", (n + 2) % 60, (n + 2) % 60).unwrap();
    }
    let meta = "dataset_name: small\nedge_data:\n- file_name: edges.csv\nnode_data:\n- file_name: nodes.csv\n";
    folder_of(
        &folder,
        "small",
        &[
            ("meta.yaml", meta),
            ("nodes.csv", &nodes),
            ("edges.csv", &edges),
        ],
    );
    let model = folder.file("m.gir", format!("graph g = \"small/\"\n{MODEL}"));
    let trained = gnnc(["train", model.to_str().unwrap(), "--format", "json"]).ok();
    let trained: Value = serde_json::from_str(&trained).unwrap();
    assert!(
        trained["test_accuracy"].as_f64().unwrap() > 0.9,
        "{trained}"
    );
}
