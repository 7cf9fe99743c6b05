//! Tasks besides one class per vertex, from a user's tables to predictions.

use super::support::{Folder, gnnc};
use serde_json::Value;
use std::fmt::Write;

/// A number from -1 to 1 that looks random.
fn noise(n: usize) -> f64 {
    let hash = (n as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash >> 32) as f64 / f64::from(u32::MAX) * 2.0 - 1.0
}

/// Runs a command and reads its report.
fn report(command: &[&str]) -> Value {
    let run = gnnc(command.iter().copied().chain(["--format", "json"]));
    assert_eq!(
        run.code,
        Some(0),
        "{command:?}\n{}{}",
        run.stdout,
        run.stderr
    );
    serde_json::from_str(&run.stdout).unwrap()
}

/// A grid of sensors of a smooth field, whose readings are noisy: the temperature is to be found.
#[test]
fn regression_predicts_numbers() {
    const SIDE: usize = 20;
    let field = |n: usize| {
        let (x, y) = ((n % SIDE) as f64 / 5.0, (n / SIDE) as f64 / 7.0);
        20.0 + 3.0 * x.sin() + 2.0 * y.cos()
    };
    let folder = Folder::new();
    let mut nodes = "sensor,reading,temperature\n".to_owned();
    let mut edges = "src,dst\n".to_owned();
    for n in 0..SIDE * SIDE {
        let reading = (field(n) - 20.0) / 3.0 + noise(n);
        let known = match n % 10 {
            9 => String::new(),
            _ => field(n).to_string(),
        };
        writeln!(nodes, "s{n},{reading},{known}").unwrap();
        if n % SIDE + 1 < SIDE {
            writeln!(edges, "s{n},s{}", n + 1).unwrap();
        }
        if n + SIDE < SIDE * SIDE {
            writeln!(edges, "s{n},s{}", n + SIDE).unwrap();
        }
    }
    let file = |name: &str, text: &str| folder.file(name, text).to_str().unwrap().to_owned();
    let (nodes, edges) = (file("nodes.csv", &nodes), file("edges.csv", &edges));
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (graph, run, table) = (path("g.npz"), path("run.ckpt"), path("p.csv"));
    let columns = ["--id", "sensor", "--label", "temperature"];
    let split = ["--split", "0.5,0.2,0.3", "--symmetrize", "--out", &graph];
    let import = ["graph", "import", &edges, "--nodes", &nodes];
    let imported = report(&[&import[..], &columns, &split].concat());
    assert_eq!(imported["classes"], 1, "{imported}");
    let model = folder.file(
        "model.gir",
        format!(
            "graph grid = \"{graph}\"\n\
             model m(hidden = 16) on grid {{ let h = x |> sage_conv(hidden) |> relu |> sage_conv(hidden) |> relu\n\
             loss mse(20 + linear(h, classes), labels, on = train) }}\n\
             train {{ optimizer = adam(lr = 0.02) epochs = 200 }}\n"
        ),
    );
    let model = model.to_str().unwrap();
    let trained = report(&["train", model, "--checkpoint", &run]);
    assert_eq!(trained["metric"], "mae");
    let predict = ["predict", model, "--checkpoint", &run, "--out", &table];
    let text = |path: &str| std::fs::read_to_string(path).unwrap();
    let mut tables = Vec::new();
    for workers in ["1", "4"] {
        let command = [&predict[..], &["--workers", workers]].concat();
        let best = report(&command);
        assert_eq!(best["scores"]["test_mae"], trained["test_mae"]);
        tables.push(text(&table));
    }
    let rows = |table: &str| -> Vec<(usize, f64)> {
        let row = |line: &str| {
            let (id, value) = line.split_once(',').unwrap();
            (id[1..].parse().unwrap(), value.parse().unwrap())
        };
        table.lines().skip(1).map(row).collect()
    };
    assert!(tables[0].starts_with("id,value\ns0,"), "{}", tables[0]);
    let found = rows(&tables[0]);
    for (one, four) in found.iter().zip(rows(&tables[1])) {
        assert!(one.0 == four.0 && (one.1 - four.1).abs() < 1e-4);
    }
    // The sensors whose temperature was not given, against a guess from the own reading.
    let unknown: Vec<_> = found.iter().filter(|(n, _)| n % 10 == 9).collect();
    let mean = |error: &dyn Fn(usize, f64) -> f64| {
        let sum: f64 = unknown.iter().map(|(n, value)| error(*n, *value)).sum();
        sum / unknown.len() as f64
    };
    let model_error = mean(&|n, value| (value - field(n)).abs());
    let own_error = mean(&|n, _| 3.0 * noise(n).abs());
    assert!(model_error < 0.6 * own_error, "{model_error} {own_error}");
    // What the report says is what the table says.
    let _ = report(&[&predict[..], &["--vertices", "test"]].concat());
    let test = rows(&text(&table));
    let errors: f64 = test
        .iter()
        .map(|(n, value)| (value - field(*n)).abs())
        .sum();
    let said = trained["test_mae"].as_f64().unwrap();
    assert!((errors / test.len() as f64 - said).abs() < 1e-5);
    let words = gnnc(["train", model, "--epochs", "2"]).report();
    assert!(
        words.contains("test MAE") && !words.contains('%'),
        "{words}"
    );
}

/// Losses that do not fit the labels are refused with the losses that do.
#[test]
fn losses_name_the_labels_that_they_need() {
    let folder = Folder::new();
    let edges = folder.file("e.csv", "a,b\n0,1\n1,2\n2,0\n");
    let numbers = folder.file("n.csv", "id,x,label\n0,1,0.5\n1,2,7.25\n2,3,\n");
    let classes = folder.file("c.csv", "id,x,label\n0,1,0\n1,2,1\n2,3,1\n");
    let graph = folder.join("g.npz");
    let train = |nodes: &std::path::Path, loss: &str| {
        let split = ["--split", "1,0,0", "--out", graph.to_str().unwrap()];
        let nodes = ["--nodes", nodes.to_str().unwrap()];
        let import = ["graph", "import", edges.to_str().unwrap()];
        report(&[&import[..], &nodes, &split].concat());
        let text = format!(
            "graph g = \"g.npz\"\nmodel m() on g {{ loss {loss}(linear(x, classes), labels, on = train) }}\n\
             train {{ epochs = 2 }}\n"
        );
        gnnc(["train", folder.file("m.gir", text).to_str().unwrap()])
    };
    for loss in ["mse", "mae", "huber"] {
        assert_eq!(train(&numbers, loss).code, Some(0));
        train(&classes, loss).fails(1, &["one class per vertex", "cross_entropy"]);
    }
    train(&numbers, "cross_entropy").fails(1, &["1 number per vertex", "`mse`, `mae` or `huber`"]);
    train(&numbers, "bce_with_logits").fails(1, &["7.25", "0 to 1", "`mse`, `mae` and `huber`"]);
    train(&classes, "crossentropy")
        .fails(1, &["expected `cross_entropy`, `bce_with_logits`, `mse`"]);
}

/// Roads that help or hinder: a vertex is busy if what its roads carry, by their weight, is positive.
#[test]
fn features_of_edges_decide() {
    const VERTICES: usize = 300;
    let folder = Folder::new();
    let load = |n: usize| noise(n * 7 + 1);
    let mut edges = "source,target,weight,name\n".to_owned();
    let mut carried = vec![0.0; VERTICES];
    for v in 0..VERTICES {
        for step in [1, 5, 17, 40] {
            let u = (v + step) % VERTICES;
            let weight = noise(v * 100 + step);
            writeln!(edges, "{u},{v},{weight},road {u}-{v}").unwrap();
            carried[v] += weight * load(u);
        }
    }
    let mut nodes = "id,load,label\n".to_owned();
    for (v, sum) in carried.iter().enumerate() {
        let label = ["calm", "busy"][usize::from(*sum > 0.0)];
        writeln!(nodes, "{v},{},{label}", load(v)).unwrap();
    }
    let file = |name: &str, text: &str| folder.file(name, text).to_str().unwrap().to_owned();
    let (nodes, edges) = (file("nodes.csv", &nodes), file("edges.csv", &edges));
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (graph, run) = (path("g.npz"), path("run.ckpt"));
    let import = [
        "graph", "import", &edges, "--nodes", &nodes, "--out", &graph,
    ];
    let said = gnnc([&import[..], &["--split", "0.6,0.2,0.2"]].concat());
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(
        said.stderr.contains("features of edges in `weight`"),
        "{}",
        said.stderr
    );
    assert!(
        said.stderr.contains("left out column `name`"),
        "{}",
        said.stderr
    );
    let model = |message: &str| {
        let text = format!(
            "graph roads = \"{graph}\"\n\
             layer carried(h, out) {{ return gather({message}, sum) |> linear(out) }}\n\
             model m(hidden = 16) on roads {{ loss cross_entropy(x |> carried(hidden) |> relu |> linear(classes), labels, on = train) }}\n\
             train {{ optimizer = adam(lr = 0.03) epochs = 200 }}\n"
        );
        folder.file("model.gir", text).to_str().unwrap().to_owned()
    };
    let blind = report(&["train", &model("h@src")]);
    let blind = blind["test_accuracy"].as_f64().unwrap();
    let model = model("edge_features * h@src");
    let trained = report(&["train", &model, "--checkpoint", &run]);
    let seeing = trained["test_accuracy"].as_f64().unwrap();
    assert!(seeing > 0.9 && seeing > blind + 0.2, "{seeing} {blind}");
    let mut tables = Vec::new();
    for workers in ["1", "2", "4"] {
        let table = path(&format!("p{workers}.csv"));
        let predict = ["predict", &model, "--checkpoint", &run, "--out", &table];
        report(&[&predict[..], &["--workers", workers]].concat());
        tables.push(std::fs::read_to_string(table).unwrap());
    }
    assert!(tables.iter().all(|table| *table == tables[0]));
    for (workers, placement) in [("2", "graph"), ("4", "tensor"), ("2", "minibatch")] {
        let run = [
            "train",
            &model,
            "--workers",
            workers,
            "--placement",
            placement,
        ];
        let batches: &[&str] = match placement {
            "minibatch" => &["--allow", "sample", "--fanouts", "4", "--batch", "60"],
            _ => &[],
        };
        let there = report(&[&run[..], batches].concat());
        let there = there["test_accuracy"].as_f64().unwrap();
        assert!(there > 0.85, "{placement} on {workers}: {there}");
    }
    // A plan prices them without the data, and what has none says so.
    let planned = gnnc(["plan", &model, "--gpus", "2", "--cluster", "h100x8"]);
    assert_eq!(planned.code, Some(0), "{}", planned.stderr);
    let plain = [
        &import[..],
        &["--split", "0.6,0.2,0.2", "--edge-features", "none"],
    ]
    .concat();
    report(&plain);
    gnnc(["train", &model]).fails(1, &["the edges of the graph have no features"]);
    gnnc([&import[..], &["--edge-features", "name"]].concat()).fails(
        1,
        &["`road 1-0` in column `name`", "a number for each edge"],
    );
    gnnc([&import[..], &["--edge-features", "length"]].concat()).fails(1, &["length", "weight"]);
}
