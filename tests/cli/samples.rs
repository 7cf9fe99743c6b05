//! `gnnc graph sample`.

use crate::data::{data, longs, npz};
use crate::support::{Folder, example, gnnc, refused, text};
use gnnc::graph::write;

/// `graph sample` on a file with two fanouts and more arguments.
fn sample<'a>(file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = ["graph", "sample", file, "--fanouts", "25,10", "--batch"];
    args.iter().chain(more).copied().collect()
}

#[test]
fn sizes_are_counted_and_estimated() {
    let cora = example("data/cora.npz");
    let report = gnnc(sample(&cora, &["70"])).report();
    for part in [
        "cora: 2_708 vertices, 10_556 edges",
        "140 training vertices in 2 batches of an epoch, cut even",
        "neighbor, fanouts 25, 10, seed 0",
        "over 8 batches with 1 thread",
        "vertices of level 2 ",
        "edges of layer 1",
        "by degrees",
    ] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }

    let all = ["1000", "--on", "all", "--batches", "3", "--format", "json"];
    let json = gnnc(sample(&cora, &all)).json();
    assert_eq!(
        (&json["batches"], &json["batches_of_epoch"]),
        (&3.into(), &3.into())
    );
    assert_eq!(json["fanouts"][1], 10);
    let levels = json["levels"].as_array().unwrap();
    let numbers: Vec<u64> = levels
        .iter()
        .map(|l| l["level"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [2, 1, 0]);
    for (level, within) in levels.iter().zip([0.01, 0.02, 0.1]) {
        let mean = level["mean"].as_f64().unwrap();
        let estimate = level["by_edges"].as_f64().unwrap();
        assert!((estimate / mean - 1.0).abs() < within, "{level}");
    }
    assert!(json["edges_per_second"].as_f64().unwrap() > 0.0);
}

/// The mean seeds and vertices of level 0 over four batches.
fn vertices_of(file: &str, more: &[&str]) -> (f64, f64) {
    let args = ["graph", "sample", file, "--batch", "900", "--on", "all"];
    let four = ["--batches", "4", "--format", "json"];
    let json = gnnc(args.iter().chain(&four).chain(more)).json();
    let level = |n: usize| json["levels"][n]["mean"].as_f64().unwrap();
    (level(0), level(2))
}

#[test]
fn kinds_and_cuts_do_what_they_say() {
    let cora = example("data/cora.npz");
    let vertices = |more: &[&str]| {
        let numbers = ["--fanouts", "25,10"];
        vertices_of(&cora, &[&numbers[..], more].concat())
    };
    let (seeds, neighbor) = vertices(&[]);
    assert_eq!(seeds, 677.0);
    assert_eq!(vertices(&["--threads", "2"]), (seeds, neighbor));
    assert_ne!(vertices(&["--seed", "5"]).1, neighbor);
    assert_eq!(vertices(&["--cut", "drop"]).0, 900.0);
    assert_eq!(vertices(&["--cut", "short"]).0, 677.0);
    let more = ["--kind", "labor", "--cut", "even"];
    assert!(vertices(&more).1 < neighbor);
    let full = vertices_of(&cora, &["--kind", "full", "--fanouts", "all,all"]);
    assert!(full.1 > neighbor);
}

#[test]
fn a_batch_is_printed() {
    let folder = Folder::new();
    let mut graph = data(4, [(1, 0), (2, 0), (3, 1)]);
    graph.train = vec![true, false, false, false];
    let file = folder.join("g.npz");
    write::save(&graph, &file).unwrap();
    let args = sample(text(&file), &["5", "--dump", "--batches", "1"]);
    let report = gnnc(&args).report();
    let (_, dump) = report.split_once("\nlevel 2  ").unwrap();
    let expected = "0\nlayer 2\n  offsets    0 2\n  places     1 2\n  positions  0 1\n  degrees    2\n  \
                    scales     1\nlevel 1  0 1 2\nlayer 1\n  offsets    0 2 3 3\n  places     1 2 3\n  \
                    positions  0 1 0\n  degrees    2 1 0\n  scales     1 1 0\nlevel 0  0 1 2 3\n";
    assert_eq!(dump, expected);
    let json = gnnc(args.iter().chain(&["--format", "json"])).json();
    assert_eq!(json["first"]["ids"], serde_json::json!([0, 1, 2, 3]));
    assert_eq!(json["first"]["sizes"], serde_json::json!([1, 3, 4]));
    assert_eq!(
        json["first"]["layers"][0]["places"],
        serde_json::json!([1, 2])
    );
}

#[test]
fn typed_edges_have_a_fanout_for_each_type() {
    let aifb = example("data/aifb.npz");
    let json = gnnc(sample(&aifb, &["140", "--format", "json"])).json();
    let edges = |n: usize| json["layers"][n]["mean"].as_f64().unwrap();
    // More than 25 edges a seed, as there are 90 types.
    assert!(edges(0) > 140.0 * 25.0, "{json}");
}

#[test]
fn what_cannot_be_sampled_is_refused() {
    let cora = example("data/cora.npz");
    let folder = Folder::new();
    let missing = folder.join("none.npz");
    refused(
        1,
        &sample(text(&missing), &["5"]),
        &["none.npz", "No such file"],
    );
    let edges = folder.file("g.csv", "0,1\n1,0\n");
    let said = ["g.csv: there are no training vertices", "--on all"];
    refused(1, &sample(text(&edges), &["5"]), &said);
    gnnc(sample(text(&edges), &["5", "--on", "all"])).report();
    let empty = folder.join("empty.npz");
    let arrays = [
        ("indptr", "<i8", "(1,)", longs(&[0])),
        ("indices", "<i8", "(0,)", longs(&[])),
    ];
    npz(&empty, &arrays);
    refused(
        1,
        &sample(text(&empty), &["5", "--on", "all"]),
        &["empty.npz"],
    );

    for (fanouts, said) in [
        ("25,x", "expected a number from 0 to 4294967294, or all"),
        ("", "--fanouts"),
        ("-1", "--fanouts"),
        (
            "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
            "--fanouts: found 17 fanouts, expected 1 to 16",
        ),
    ] {
        let option = format!("--fanouts={fanouts}");
        let args = ["graph", "sample", &cora, &option, "--batch", "5"];
        refused(1, &args, &[said]);
    }
    refused(
        1,
        &["graph", "sample", &cora, "--batch", "5"],
        &["--fanouts"],
    );
    let more = |more: &[&str], said: &[&str]| {
        let args = sample(&cora, &["200"]);
        refused(
            1,
            &args
                .into_iter()
                .chain(more.iter().copied())
                .collect::<Vec<_>>(),
            said,
        );
    };
    more(&["--kind", "full"], &["--kind full", "--fanouts all,all"]);
    more(
        &["--kind", "uniform"],
        &["expected one of neighbor, labor, full"],
    );
    more(&["--cut", "odd"], &["expected one of even, short, drop"]);
    more(&["--cut", "drop"], &["--cut drop", "200", "140"]);
    more(&["--on", "none"], &["--on"]);
    more(&["--threads", "0"], &["--threads"]);
    more(&["--batches", "0"], &["--batches"]);
    refused(1, &sample(&cora, &["0"]), &["--batch"]);
}

/// Options of a run on the batches of Cora.
fn on_batches<'a>(file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let run = ["train", file, "--epochs", "2", "--placement", "minibatch"];
    let batches = ["--allow", "sample", "--batch", "70", "--fanouts", "5,5"];
    [&run[..], &batches, more].concat()
}

#[test]
fn scores_of_evaluations_on_batches_are_called_sampled() {
    let model = example("gcn_cora.gir");
    let all = on_batches(&model, &["--eval-fanouts", "all,all", "--check", "bytes"]);
    let report = gnnc(all).report();
    assert!(
        report.contains("on sampled neighbors, fanouts all,all"),
        "{report}"
    );
    let json = |more: &[&str]| {
        gnnc([&on_batches(&model, &["--format", "json"])[..], more].concat()).json()
    };
    let (whole, all) = (json(&[]), json(&["--eval-fanouts", "all,all"]));
    for key in ["val_accuracy", "test_accuracy", "train_loss"] {
        assert_eq!(whole[key], all[key], "{key}");
    }
    assert!(whole.get("eval_fanouts").is_none(), "{whole}");
    assert_eq!(all["eval_fanouts"].as_array().unwrap().len(), 2);
}

#[test]
fn options_of_batches_that_fit_no_run_are_refused() {
    let model = example("gcn_cora.gir");
    let said = ["found 1 fanout of evaluations", "aggregates 2 times"];
    refused(1, &on_batches(&model, &["--eval-fanouts", "5"]), &said);
    let said = ["--eval-fanouts", "expected a number of edges or `all`"];
    refused(1, &on_batches(&model, &["--eval-fanouts", "5,x"]), &said);
    for option in [
        ["--eval-fanouts", "5,5"],
        ["--fanouts", "5,5"],
        ["--batch", "5"],
    ] {
        let graph = ["train", &model, "--placement", "graph"];
        let said = ["placement graph", "whole graph", "leave out --batch"];
        refused(1, &[&graph[..], &option].concat(), &said);
    }
}
