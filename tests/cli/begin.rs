//! The first steps: a model for a data file, completions and pages of the manual.

use crate::support::{Folder, ROOT, example, gnnc, refused, text};
use std::fs;

/// Writes a model for a data file, and checks, formats and trains it.
#[track_caller]
fn begun(data: &str, layer: Option<&str>, parts: &[&str]) {
    let folder = Folder::new();
    let model = folder.join("model.gir");
    let layer = layer.map_or_else(Vec::new, |layer| vec!["--layer", layer]);
    let args = ["new", data, "--out", text(&model)];
    gnnc(args.iter().chain(&layer)).report();
    let written = fs::read_to_string(&model).unwrap();
    for part in parts {
        assert!(written.contains(part), "no `{part}` in {written}");
    }
    let check = gnnc(["check", text(&model)]);
    assert_eq!((check.code, check.stderr.as_str()), (Some(0), ""));
    gnnc(["fmt", "--check", text(&model)]).ok();
    let run = gnnc(["train", text(&model), "--epochs", "2"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[test]
fn a_new_model_is_checked_and_trains() {
    let (cora, aifb) = (example("data/cora.npz"), example("data/aifb.npz"));
    begun(
        &cora,
        None,
        &[
            "gcn_conv(hidden)",
            "normalize_features",
            "cross_entropy",
            "1_433",
        ],
    );
    for layer in ["sage", "gat", "gin"] {
        begun(&cora, Some(layer), &[&format!("{layer}_conv(hidden")]);
    }
    begun(
        &aifb,
        None,
        &["rgcn_conv", "features = identity", "90 edge types"],
    );
    begun(&aifb, Some("gcn"), &["gcn_conv"]);
    let mines = format!("{ROOT}/../shared/data/minesweeper.npz");
    if fs::exists(&mines).unwrap() {
        begun(&mines, None, &["gcn_conv", "7 features"]);
    }
}

#[test]
fn a_new_model_for_an_imported_table() {
    let folder = Folder::new();
    let edges = folder.file("edges.csv", "source,target\nann,bob\nbob,eve\neve,ann\n");
    let nodes = "id,age,label\nann,1,red\nbob,2,blue\neve,3,red\n";
    let (nodes, data) = (
        folder.file("nodes.csv", nodes),
        folder.join("my people.npz"),
    );
    let import = [
        "graph",
        "import",
        text(&edges),
        "--nodes",
        text(&nodes),
        "--out",
        text(&data),
    ];
    let run = gnnc(import.iter().chain(&["--split", "1,0,0"]));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    begun(text(&data), None, &["gcn_conv", "1 feature,"]);
    // Labels of numbers are a regression.
    let numbers = folder.file(
        "numbers.csv",
        "id,age,label\nann,1,0.5\nbob,2,1.5\neve,3,2\n",
    );
    let (numbers, other) = (text(&numbers), folder.join("n.npz"));
    let all = [
        "--nodes",
        numbers,
        "--split",
        "1,0,0",
        "--out",
        text(&other),
    ];
    let run = gnnc(["graph", "import", text(&edges)].iter().chain(&all));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    begun(text(&other), None, &["mse(z, labels", "1 target."]);
    gnnc(import).code.unwrap();
    let model = folder.join("other.gir");
    let new = ["new", text(&data), "--out", text(&model)];
    refused(1, &new, &["no training vertices", "--split 0.6,0.2,0.2"]);
    assert!(!model.exists());
}

#[test]
fn a_new_model_overwrites_nothing_and_says_what_is_missing() {
    let folder = Folder::new();
    let cora = example("data/cora.npz");
    let model = folder.file("model.gir", "mine");
    let new = ["new", &cora, "--out", text(&model)];
    refused(1, &new, &["exists already", "--force"]);
    assert_eq!(fs::read_to_string(&model).unwrap(), "mine");
    gnnc(new.iter().chain(&["--force"])).report();
    assert!(fs::read_to_string(&model).unwrap().contains("gcn_conv"));
    let other = folder.join("other.gir");
    let out = ["--out", text(&other)];
    let graph = folder.file("edges.txt", "0 1\n1 2\n");
    refused(
        1,
        &[&["new", text(&graph)], &out[..]].concat(),
        &["has no labels"],
    );
    let typed = ["new", &cora, "--layer", "rgcn"];
    refused(
        1,
        &[&typed[..], &out].concat(),
        &["rgcn needs types of edges"],
    );
    refused(1, &[&["new", "none.npz"], &out[..]].concat(), &["none.npz"]);
    assert!(!other.exists());
}

#[test]
fn shells_and_manuals_are_told_the_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = gnnc(["completions", shell]).ok();
        for word in ["gnnc", "sweep", "no-overlap"] {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
    }
    // A shell can read it.
    let folder = Folder::new();
    let script = folder.file("gnnc.bash", gnnc(["completions", "bash"]).ok());
    if let Ok(bash) = std::process::Command::new("bash")
        .arg("-n")
        .arg(&script)
        .output()
    {
        assert!(bash.status.success(), "{bash:?}");
    }
    refused(1, &["completions", "dos"], &["dos", "bash"]);
    let page = gnnc(["man"]).ok();
    assert!(page.contains(".TH gnnc 1"), "{page}");
    let page = gnnc(["man", "graph", "import"]).ok();
    assert!(
        page.contains(".SH OPTIONS") && page.contains("nodes"),
        "{page}"
    );
    refused(
        1,
        &["man", "grph"],
        &["found `grph`, expected one of new, check"],
    );
    refused(
        1,
        &["man", "plan", "x"],
        &["found `x`, expected no further word"],
    );
}
