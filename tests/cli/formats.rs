//! Predictions in every format, embeddings, and graphs without labels.

use super::journeys::tables;
use super::support::{Folder, gnnc, text};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Rows of fields, the first of which has the names.
type Rows = Vec<Vec<String>>;

fn csv_rows(path: &Path) -> Rows {
    let text = fs::read_to_string(path).unwrap();
    let fields = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().map(fields).collect()
}

fn parquet_rows(path: &Path) -> Rows {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let schema = file.metadata().file_metadata().schema().get_fields();
    let names = schema.iter().map(|field| field.name().to_owned()).collect();
    let text = |field: &Field| match field {
        Field::Str(text) => text.clone(),
        Field::Long(number) => number.to_string(),
        Field::Float(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    let rows = file.get_row_iter(None).unwrap();
    let rows = rows.map(|row| {
        let row = row.unwrap();
        row.get_column_iter()
            .map(|(_, field)| text(field))
            .collect()
    });
    std::iter::once(names).chain(rows).collect()
}

/// An array of an archive.
struct Array {
    header: String,
    bytes: Vec<u8>,
}

impl Array {
    fn of(path: &Path, name: &str) -> Self {
        let mut archive = zip::ZipArchive::new(File::open(path).unwrap()).unwrap();
        let mut bytes = Vec::new();
        let mut entry = archive.by_name(&format!("{name}.npy")).unwrap();
        entry.read_to_end(&mut bytes).unwrap();
        let length = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        Self {
            header: String::from_utf8(bytes[10..length].to_vec()).unwrap(),
            bytes: bytes.split_off(length),
        }
    }

    fn floats(&self) -> Vec<f32> {
        assert!(self.header.contains("'<f4'"), "{}", self.header);
        let float = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
        self.bytes.chunks(4).map(float).collect()
    }

    fn whole(&self) -> Vec<i64> {
        assert!(self.header.contains("'<i8'"), "{}", self.header);
        let number = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap());
        self.bytes.chunks(8).map(number).collect()
    }

    fn lines(&self) -> Vec<String> {
        assert!(self.header.contains("'|u1'"), "{}", self.header);
        let text = String::from_utf8(self.bytes.clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// Names of the arrays of an archive.
    fn names(path: &Path) -> Vec<String> {
        let archive = zip::ZipArchive::new(File::open(path).unwrap()).unwrap();
        let mut names: Vec<String> = archive.file_names().map(str::to_owned).collect();
        names.sort();
        names
    }
}

/// A graph of people with names, a model of it, and a run.
struct Trained {
    folder: Folder,
    model: String,
    run: String,
}

impl Trained {
    fn new() -> Self {
        let folder = Folder::new();
        let [edges, people] = tables(&folder);
        let graph = text(&folder.join("g.npz")).to_owned();
        let columns = ["--source", "who", "--target", "whom", "--label", "group"];
        let import = [
            "graph", "import", &edges, "--nodes", &people, "--out", &graph,
        ];
        let split = ["--split", "0.5,0.2,0.3", "--symmetrize"];
        let run = gnnc([&import[..], &columns, &split].concat());
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let model = folder.file(
            "model.gir",
            format!(
                "graph people = \"{graph}\"\n\
                 model m(hidden = 8) on people {{ let h = x |> sage_conv(hidden) |> relu\n\
                 let _edges = h@src * 2\n\
                 let z = h |> dropout(0.2) |> sage_conv(classes)\n\
                 loss cross_entropy(z, labels, on = train) }}\n\
                 train {{ optimizer = adam(lr = 0.02) epochs = 20 }}\n"
            ),
        );
        let trained = Self {
            run: text(&folder.join("run.ckpt")).to_owned(),
            model: text(&model).to_owned(),
            folder,
        };
        gnnc(["train", &trained.model, "--checkpoint", &trained.run]).ok();
        trained
    }

    /// The command that predicts to a file, and the path of the file.
    fn command(&self, name: &str, more: &[&str]) -> (Vec<String>, std::path::PathBuf) {
        let path = self.folder.join(name);
        let base = ["predict", &self.model, "--checkpoint", &self.run, "--out"];
        let all = [&base[..], &[text(&path)], more].concat();
        (all.into_iter().map(str::to_owned).collect(), path)
    }

    /// Predicts to a file; returns its path.
    fn predict(&self, name: &str, more: &[&str]) -> std::path::PathBuf {
        let (command, path) = self.command(name, more);
        gnnc(command).report();
        path
    }
}

#[test]
fn every_format_holds_the_same_predictions() {
    let trained = Trained::new();
    let all = ["p.csv", "p.npz", "p.parquet"];
    let [csv, npz, parquet] = all.map(|name| trained.predict(name, &["--probabilities"]));
    let (csv, parquet) = (csv_rows(&csv), parquet_rows(&parquet));
    assert_eq!(csv[0], ["id", "class", "p(north)", "p(south)"]);
    let names = ["id", "class", "probability_north", "probability_south"];
    assert_eq!(parquet[0], names);
    assert_eq!((csv.len(), &csv[1..]), (121, &parquet[1..]));
    let column = |place: usize| csv[1..].iter().map(move |row| row[place].clone());
    let arrays = ["class", "class_names", "id", "probabilities"];
    assert_eq!(Array::names(&npz), arrays.map(|name| format!("{name}.npy")));
    assert!(column(0).eq(Array::of(&npz, "id").lines()));
    let names = Array::of(&npz, "class_names").lines();
    let classes = Array::of(&npz, "class").whole();
    assert!(column(1).eq(classes.iter().map(|class| names[*class as usize].clone())));
    let probabilities = Array::of(&npz, "probabilities");
    assert!(
        probabilities.header.contains("(120, 2,)"),
        "{}",
        probabilities.header
    );
    let floats = csv[1..].iter().flat_map(|row| &row[2..]);
    let floats: Vec<f32> = floats.map(|field| field.parse().unwrap()).collect();
    assert_eq!(floats, probabilities.floats());
    // Without probabilities, and of some vertices.
    let some = trained.predict("q.parquet", &["--vertices", "rest"]);
    let some = parquet_rows(&some);
    assert_eq!((some[0].len(), some.len()), (2, 13));
    // What was predicted can be read as labels by id.
    let [edges, people] = tables(&trained.folder);
    let labels = text(&trained.folder.join("p.parquet")).to_owned();
    let out = trained.folder.join("labeled.npz");
    let import = [
        "graph", "import", &edges, "--nodes", &people, "--labels", &labels,
    ];
    let columns = ["--source", "who", "--target", "whom", "--without", "group"];
    let run = gnnc([&import[..], &columns, &["--out", text(&out)]].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let read = Array::of(&out, "labels");
    let number = |bytes: &[u8]| i64::from(i32::from_le_bytes(bytes.try_into().unwrap()));
    assert_eq!(
        read.bytes.chunks(4).map(number).collect::<Vec<_>>(),
        classes
    );
}

#[test]
fn other_endings_are_refused_with_those_that_there_are() {
    let trained = Trained::new();
    for name in ["p.txt", "p", "p.npz.gz", "parquet"] {
        let (command, path) = trained.command(name, &[]);
        gnnc(command).fails(
            1,
            &["expected a name that ends with `.csv`, `.npz` or `.parquet`"],
        );
        assert!(!path.exists());
    }
}

#[test]
fn embeddings_are_the_same_on_any_number_of_workers() {
    let trained = Trained::new();
    let of = |name: &str, tensor: &str, more: &[&str]| {
        trained.predict(name, &[&["--embeddings", tensor], more].concat())
    };
    let mut rows: Vec<Vec<f32>> = Vec::new();
    for workers in ["1", "2", "4"] {
        let csv = csv_rows(&of("h.csv", "h", &["--workers", workers]));
        let parquet = parquet_rows(&of("h.parquet", "h", &["--workers", workers]));
        assert_eq!(csv, parquet);
        assert_eq!((csv.len(), csv[0].len()), (121, 9));
        assert_eq!((&*csv[0][0], &*csv[0][8]), ("id", "embedding_7"));
        let npz = of("h.npz", "h", &["--workers", workers]);
        assert!(
            csv[1..]
                .iter()
                .map(|row| &row[0])
                .eq(&Array::of(&npz, "id").lines())
        );
        let floats = csv[1..].iter().flat_map(|row| &row[1..]);
        let floats: Vec<f32> = floats.map(|field| field.parse().unwrap()).collect();
        let array = Array::of(&npz, "embeddings");
        assert!(array.header.contains("(120, 8,)"), "{}", array.header);
        assert_eq!(array.floats(), floats);
        rows.push(floats);
    }
    assert!(rows[0].iter().all(|x| *x >= 0.0) && rows[0].iter().any(|x| *x > 0.1));
    for other in &rows[1..] {
        for (one, other) in rows[0].iter().zip(other) {
            assert!(
                (one - other).abs() <= 1e-5 * one.abs().max(1.0),
                "{one} {other}"
            );
        }
    }
    // The logits by their name are those of the probabilities.
    let logits = Array::of(&of("z.npz", "z", &[]), "embeddings").floats();
    let found = trained.predict("p.npz", &["--probabilities"]);
    let found = Array::of(&found, "probabilities").floats();
    for (z, p) in logits.chunks(2).zip(found.chunks(2)) {
        let expected = 1.0 / (1.0 + (z[1] - z[0]).exp());
        assert!((p[0] - expected).abs() < 1e-5, "{z:?} {p:?}");
    }
    let refused = |tensor: &str, parts: &[&str]| {
        let (command, _) = trained.command("r.csv", &["--embeddings", tensor]);
        gnnc(command).fails(1, parts);
    };
    refused("g", &["no tensor `g`", "expected `h`, `_edges` or `z`"]);
    refused("hidden", &["no tensor `hidden`"]);
    refused("_edges", &["`_edges` is a tensor", "a row for each vertex"]);
    let (command, _) = trained.command("r.csv", &["--embeddings", "h", "--probabilities"]);
    gnnc(command).fails(1, &["--embeddings", "--probabilities"]);
}

/// People of whom nothing is known but what the model reads.
fn unlabeled(trained: &Trained) -> String {
    let [edges, people] = tables(&trained.folder);
    let graph = text(&trained.folder.join("u.npz")).to_owned();
    let columns = ["--source", "who", "--target", "whom", "--without", "group"];
    let import = [
        "graph", "import", &edges, "--nodes", &people, "--out", &graph,
    ];
    let run = gnnc([&import[..], &columns, &["--symmetrize"]].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    graph
}

/// The classes of another graph are those of the model's own, whatever their order there.
#[test]
fn classes_go_by_their_names() {
    let trained = Trained::new();
    let [edges, people] = tables(&trained.folder);
    let known = csv_rows(&trained.predict("p.csv", &[]));
    let table = fs::read_to_string(&people).unwrap();
    let import = |name: &str, table: &str| {
        let people = text(&trained.folder.file(&format!("{name}.csv"), table)).to_owned();
        let graph = text(&trained.folder.join(&format!("{name}.npz"))).to_owned();
        let columns = ["--source", "who", "--target", "whom", "--label", "group"];
        let import = [
            "graph", "import", &edges, "--nodes", &people, "--out", &graph,
        ];
        gnnc([&import[..], &columns, &["--symmetrize"]].concat());
        graph
    };
    // Only the class that comes second by name is left.
    let south = import("south", &table.replace(";north", ";"));
    let found = csv_rows(&trained.predict("s.csv", &["--graph", &south]));
    assert_eq!(found, known);
    let other = import("other", &table.replace(";north", ";east"));
    let (command, _) = trained.command("o.csv", &["--graph", &other]);
    gnnc(command).fails(1, &["the class `east`", "north, south"]);
    let wide = table.lines().map(|line| format!("{line};{}\n", line.len()));
    let wide = import(
        "wide",
        &wide.collect::<String>().replacen(";22", ";more", 1),
    );
    let (command, _) = trained.command("w.csv", &["--graph", &wide]);
    gnnc(command).fails(1, &["has 3 features a vertex, expected 2"]);
}

#[test]
fn graphs_without_labels_get_predictions() {
    let trained = Trained::new();
    let graph = unlabeled(&trained);
    let known = csv_rows(&trained.predict("p.csv", &["--probabilities"]));
    // The same people, so the same predictions, with the names of the classes.
    for workers in ["1", "2"] {
        let more = ["--graph", &graph, "--probabilities", "--workers", workers];
        let found = csv_rows(&trained.predict("u.csv", &more));
        assert_eq!(found[0], known[0]);
        let same = |(one, other): (&Vec<String>, &Vec<String>)| one[..2] == other[..2];
        assert_eq!(found.len(), known.len());
        assert!(found.iter().zip(&known).all(same));
    }
    let (command, _) = trained.command("u.csv", &["--graph", &graph, "--format", "json"]);
    let report: Value = serde_json::from_str(&gnnc(command).ok()).unwrap();
    assert_eq!(
        (&report["predictions"], &report["scores"]),
        (&120.into(), &Value::Null)
    );
    trained.predict("h.csv", &["--graph", &graph, "--embeddings", "h"]);
    // There is nothing to score and nothing to train on.
    let base = [&*trained.model, "--graph", &graph];
    let eval = [&["eval"], &base[..], &["--checkpoint", &trained.run]].concat();
    gnnc(eval).fails(
        1,
        &["the graph `u` has no labels, which predictions would be compared with"],
    );
    gnnc([&["train"], &base[..]].concat()).fails(1, &["u.npz has no labels"]);
    // Labels without a split are enough to predict and to score.
    let [edges, people] = tables(&trained.folder);
    let all = text(&trained.folder.join("all.npz")).to_owned();
    let columns = ["--source", "who", "--target", "whom", "--label", "group"];
    let import = ["graph", "import", &edges, "--nodes", &people, "--out", &all];
    gnnc([&import[..], &columns, &["--symmetrize"]].concat());
    trained.predict("a.csv", &["--graph", &all]);
    // Nobody else knows the classes.
    fs::remove_file(trained.folder.join("g.npz")).unwrap();
    let (command, _) = trained.command("u.csv", &["--graph", &graph]);
    gnnc(command).fails(
        1,
        &["the model's own graph says what its classes are", "g.npz"],
    );
}
