//! Bad input of tasks about many graphs, samples, pairs and trained models. Each is refused with what was found.

use super::data::{longs, npz};
use super::journeys::folder_of;
use super::support::{Folder, example, gnnc, refused, text};

type Array<'a> = (&'a str, &'a str, &'a str, Vec<u8>);

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Two graphs of two vertices, with an edge each, and other arrays in place of these or beside them.
fn two_graphs<'a>(other: &[Array<'a>]) -> Vec<Array<'a>> {
    let mut arrays: Vec<Array> = vec![
        ("edge_index", "<i8", "(2, 2)", longs(&[0, 2, 1, 3])),
        ("x", "<f4", "(4, 1)", floats(&[1.0, 2.0, 3.0, 4.0])),
        ("batch", "<i8", "(4,)", longs(&[0, 0, 1, 1])),
        ("y", "<i8", "(2,)", longs(&[0, 1])),
        ("train_mask", "|b1", "(2,)", vec![1, 1]),
    ];
    arrays.retain(|array| other.iter().all(|new| new.0 != array.0));
    arrays.extend_from_slice(other);
    arrays
}

/// Fails unless a model of the archive is refused.
fn archive_is_refused(arrays: &[Array], parts: &[&str]) {
    let folder = Folder::new();
    npz(&folder.join("g.npz"), arrays);
    let model = folder.file(
        "m.gir",
        "graph g = \"g.npz\"\nmodel m() on g { loss cross_entropy(linear(x, classes), labels, on = train) }\n",
    );
    refused(1, &["train", text(&model), "--epochs", "1"], parts);
}

#[test]
fn files_of_many_graphs_that_do_not_fit_are_refused() {
    let folder = Folder::new();
    npz(&folder.join("g.npz"), &two_graphs(&[]));
    gnnc(["graph", "stats", text(&folder.join("g.npz"))]).ok();
    let cases: [(Array, &[&str]); 8] = [
        (
            ("batch", "<i8", "(3,)", longs(&[0, 0, 1])),
            &["`batch`", "(4)"],
        ),
        (
            ("batch", "<i8", "(2, 2)", longs(&[0, 0, 1, 1])),
            &["`batch`", "one dimension"],
        ),
        (
            ("batch", "<i8", "(4,)", longs(&[0, 0, 1, -1])),
            &["`batch`", "-1"],
        ),
        (
            ("batch", "<i8", "(4,)", longs(&[0, 0, 1, 90])),
            &["`batch`", "90"],
        ),
        (
            ("batch", "<i8", "(4,)", longs(&[0, 1, 1, 1])),
            &["an edge from vertex 0 of graph 0"],
        ),
        (
            ("y", "<i8", "(4,)", longs(&[0, 1, 0, 1])),
            &["labels", "4 rows", "2, one for each graph"],
        ),
        (
            ("train_mask", "|b1", "(4,)", vec![1; 4]),
            &["train_mask", "4 rows", "2, one for each graph"],
        ),
        (
            ("vertex_ids", "|u1", "(8,)", b"a\nb\nc\nd\n".to_vec()),
            &["`vertex_ids` beside `batch`"],
        ),
    ];
    for (array, parts) in cases {
        archive_is_refused(&two_graphs(&[array]), parts);
    }
}

#[test]
fn samples_that_do_not_fit_are_refused() {
    let samples = |other: &[Array<'static>]| {
        let mut arrays: Vec<Array> = vec![
            ("edge_index", "<i8", "(2, 2)", longs(&[0, 1, 1, 2])),
            ("x", "<f4", "(2, 3, 1)", floats(&[1.0; 6])),
            ("y", "<i8", "(2, 3)", longs(&[0, 1, 0, 1, 0, 1])),
            ("train_mask", "|b1", "(2,)", vec![1, 1]),
        ];
        arrays.retain(|array| other.iter().all(|new| new.0 != array.0));
        arrays.extend_from_slice(other);
        arrays
    };
    let folder = Folder::new();
    npz(&folder.join("g.npz"), &samples(&[]));
    gnnc(["graph", "stats", text(&folder.join("g.npz"))]).ok();
    let cases: [(Array, &[&str]); 6] = [
        (
            ("y", "<i8", "(6,)", longs(&[0; 6])),
            &["`y`", "for each vertex of each sample"],
        ),
        (
            ("train_mask", "|b1", "(3,)", vec![1; 3]),
            &["`train_mask`", "one for each sample"],
        ),
        (
            ("train_mask", "|b1", "(2, 3)", vec![7; 6]),
            &["`train_mask`", "7"],
        ),
        (
            ("val_idx", "<i8", "(1,)", longs(&[1])),
            &["`val_idx` beside samples"],
        ),
        (
            ("curve_places", "<i8", "(3,)", longs(&[0, 0, 1])),
            &["place 0 twice"],
        ),
        (
            ("x", "<f4", "(1000000000, 3, 0)", Vec::new()),
            &["`x`", "samples"],
        ),
    ];
    for (array, parts) in cases {
        archive_is_refused(&samples(&[array]), parts);
    }
}

#[test]
fn pairs_that_do_not_fit_are_refused() {
    let folder = Folder::new();
    let cora = example("data/cora.npz");
    let out = folder.join("p.npz");
    let links = |more: &[&str], parts: &[&str]| {
        let base = ["graph", "links", &cora, "--out", text(&out)];
        refused(1, &[&base[..], more].concat(), parts);
        assert!(!out.exists());
    };
    for (table, parts) in [
        (
            "source,target\n0,2708\n",
            &["pairs.csv:2", "`2708`", "from 0 to 2707"][..],
        ),
        ("source,target\n0,-1\n", &["`-1`"]),
        ("source,target\n0,\n", &["id ``"]),
        (
            "source,target,label\n0,1,maybe\n",
            &["`maybe` in column `label`", "1 or 0"],
        ),
        (
            "source,target,split\n0,1,later\n",
            &["`later`", "train, val, test"],
        ),
        ("source,target\n", &["no pairs"]),
        ("source\n0\n", &["1 field"]),
        ("source,target\n0,1,2\n", &["pairs.csv:2", "3 fields"]),
    ] {
        let file = folder.file("pairs.csv", table);
        links(&["--pairs", text(&file)], parts);
    }
    links(&["--pairs", text(&folder.join("none.csv"))], &["none.csv"]);
    links(&["--pairs", &cora, "--val", "0.2"], &["--pairs", "--val"]);
    links(&["--val", "0.6", "--test", "0.6"], &["smaller shares"]);
    let molecules = example("data/solubility.npz");
    let args = ["graph", "links", &molecules, "--out", text(&out)];
    refused(1, &args, &["named sets of edges (graphs)"]);
}

#[test]
fn sets_that_are_not_there_are_refused() {
    let folder = Folder::new();
    let molecules = example("data/solubility.npz");
    let model = |body: &str| {
        let text = format!("graph g = \"{molecules}\"\n{body}");
        let file = folder.file("m.gir", text);
        super::support::text(&file).to_owned()
    };
    let over = "model m() on g { loss mse(linear(sage_conv(x, 8, over = \"rings\"), classes), labels, on = train) }";
    refused(1, &["check", &model(over)], &["rings", "graphs"]);
    let on = "layer up(h) on \"rings\" { return gather(h@src, sum) }
model m() on g { loss mse(linear(up(x), classes), labels, on = train) }";
    refused(1, &["check", &model(on)], &["rings", "graphs"]);
    let batches = ["--allow", "sample", "--batch", "9", "--fanouts", "all,all"];
    let solubility = example("gine_solubility.gir");
    let args = [&["train", &solubility][..], &batches].concat();
    refused(1, &args, &["2 fanouts", "aggregates 4 times"]);
    let args = [
        "train",
        &solubility,
        "--workers",
        "2",
        "--partitioner",
        "morton",
    ];
    refused(1, &args, &["a graph without coordinates", "`pos`"]);
}

#[test]
fn folders_of_many_graphs_that_do_not_fit_are_refused() {
    let folder = Folder::new();
    let said = |name: &str, files: &[(&str, &str)], part: &str| {
        let data = folder_of(&folder, name, files);
        refused(1, &["graph", "stats", &data], &[part]);
    };
    let edge = ("R_A.txt", "1, 2\n");
    let indicator = |text| ("R_graph_indicator.txt", text);
    let labels = |text| ("R_graph_labels.txt", text);
    said("a", &[edge, labels("1\n")], "R_graph_indicator.txt");
    let far = ("R_A.txt", "1, 9\n");
    said("b", &[far, indicator("1\n1\n"), labels("1\n")], "R_A.txt");
    let falling = indicator("2\n1\n");
    said(
        "c",
        &[edge, falling, labels("1\n1\n")],
        "R_graph_indicator.txt",
    );
    let three = labels("1\n2\n3\n");
    said(
        "d",
        &[edge, indicator("1\n1\n"), three],
        "R_graph_labels.txt",
    );
}
