//! `--equal-bits`: the same numbers and files on any number of workers, whoever runs them.

use crate::processes::together;
use crate::support::{Folder, example, gnnc, refused, text};
use serde_json::Value;
use std::path::Path;

/// What a run reports that does not depend on its workers.
fn results(report: &Value) -> Vec<&Value> {
    let keys = ["train_loss", "val_accuracy", "test_accuracy", "best_epoch"];
    keys.iter().map(|key| &report[key]).collect()
}

/// The tensors of a checkpoint: weights and the optimizer's numbers. Its head also says which program wrote it.
fn tensors(file: &Path) -> Vec<u8> {
    let bytes = std::fs::read(file).unwrap();
    let head = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    bytes[8 + head as usize..].to_vec()
}

fn train(model: &str, epochs: &str, more: &[&str]) -> Vec<String> {
    let words = [
        "train",
        model,
        "--epochs",
        epochs,
        "--equal-bits",
        "--format",
        "json",
    ];
    words
        .iter()
        .chain(more)
        .map(|word| (*word).to_owned())
        .collect()
}

#[test]
fn checkpoints_of_any_number_of_workers_are_the_same() {
    let folder = Folder::new();
    for name in ["gcn_cora.gir", "gat_cora.gir"] {
        let model = example(name);
        let run = |workers: &str, more: &[&str]| {
            let file = folder.join(&format!("run{}", more.len()));
            let words = ["--workers", workers, "--checkpoint", text(&file)];
            let report = gnnc(train(&model, "4", &[&words, more].concat())).json();
            (report, tensors(&file))
        };
        let (one, file) = run("1", &[]);
        let mut ways = vec![("3", &[][..]), ("4", &["--threads", "2"][..]), ("8", &[])];
        ways.push(("4", &["--node-ranks", "2"]));
        if name == "gcn_cora.gir" {
            ways.push(("5", &["--placement", "tensor"]));
        }
        for (workers, more) in ways {
            let (report, found) = run(workers, more);
            assert_eq!(
                results(&report),
                results(&one),
                "{name}, {workers} {more:?}"
            );
            assert!(found == file, "{name}, {workers} {more:?}");
        }
        for processes in [2, 3] {
            let path = folder.join("processes");
            let words = train(&model, "4", &["--checkpoint", text(&path)]);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let Some(found) = together(processes, &words) else {
                continue;
            };
            assert_eq!(found.code, Some(0), "{}", found.stderr);
            assert!(tensors(&path) == file, "{name}, {processes} processes");
        }
    }
}

#[test]
fn a_run_goes_on_with_other_workers_as_if_nothing_had_happened() {
    let folder = Folder::new();
    let model = example("sage_cora.gir");
    let (whole, half) = (folder.join("whole"), folder.join("half"));
    let run = |epochs: &str, more: &[&str]| gnnc(train(&model, epochs, more)).json();
    let expected = run("6", &["--checkpoint", text(&whole)]);
    run("3", &["--workers", "3", "--checkpoint", text(&half)]);
    let on = ["--resume", text(&half), "--checkpoint", text(&half)];
    let found = run(
        "6",
        &[&on[..], &["--workers", "2", "--placement", "tensor"]].concat(),
    );
    assert_eq!(results(&found), results(&expected));
    assert!(tensors(&half) == tensors(&whole));
}

/// The best plan of any number of workers, too.
#[test]
fn best_placements_train_the_same() {
    let model = example("gcn_cora.gir");
    let run = |workers: &str| {
        let words = ["--workers", workers, "--placement", "best"];
        gnnc(train(&model, "3", &words)).json()
    };
    let one = run("1");
    for workers in ["2", "3"] {
        assert_eq!(results(&run(workers)), results(&one), "{workers}");
    }
}

/// Bytes of a plan are those that its run sends, as every epoch checks; with three workers there are several shares.
#[test]
fn plans_say_what_runs_send() {
    let model = example("gin_cora.gir");
    for workers in ["2", "3"] {
        let pin = format!("ranks={workers},placement=graph");
        let cluster = format!("cpu-corex{workers}");
        let words = [
            "plan",
            &model,
            "--equal-bits",
            "--cluster",
            &cluster,
            "--pin",
            &pin,
        ];
        let plan = gnnc([&words[..], &["--format", "json"]].concat()).json();
        let candidate = &plan["candidates"][0];
        assert_eq!(candidate["parameters"]["equal_bits"], true);
        let report = gnnc(train(&model, "1", &["--workers", workers])).json();
        assert_eq!(
            candidate["bytes"], report["bytes_sent"],
            "{workers}: {candidate}"
        );
    }
}

#[test]
fn what_has_other_bits_is_refused() {
    let model = example("gcn_cora.gir");
    for (options, reason) in [
        (
            "--placement broadcast",
            "equal bits on any number of workers cannot be combined with blocks of rows",
        ),
        ("--cover joint", "cannot be combined with cover=joint"),
        ("--interior", "cannot be combined with interior=yes"),
        (
            "--allow quantise --wire bf16",
            "cannot be combined with fewer bits on the wire",
        ),
        (
            "--allow sample --placement minibatch --batch 35 --fanouts 5,5",
            "sampled batches",
        ),
        ("--device cuda", "found --equal-bits with a GPU"),
        (
            "--workers 16",
            "found 16 workers with --equal-bits, which divides a graph of 2708 vertices into 8 leaves",
        ),
    ] {
        let more = options.split_whitespace().collect::<Vec<_>>();
        let mut words = vec!["train", &model, "--epochs", "1", "--equal-bits"];
        words.extend(&more);
        if !options.contains("--workers") {
            words.extend(["--workers", "2"]);
        }
        refused(1, &words, &[reason]);
    }
}
