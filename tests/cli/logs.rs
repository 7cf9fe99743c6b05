//! What a run writes as it goes on, and what it leaves off the terminal.

use crate::data::{folder, ring};
use crate::support::{gnnc, text};
use serde_json::Value;
use std::path::Path;

/// The lines of a log.
fn lines(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    let value = |line: &str| serde_json::from_str(line).expect(line);
    text.lines().map(value).collect()
}

fn events(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|l| l["event"].as_str().unwrap()).collect()
}

#[test]
fn a_log_has_the_run_its_evaluated_epochs_and_its_summary() {
    let (folder, model) = folder(&ring());
    let (log, curve) = (folder.join("run.jsonl"), folder.join("curve.csv"));
    let args = [
        "train",
        text(&model),
        "--epochs",
        "5",
        "--evaluate-every",
        "2",
        "--schedule",
        "step:2/0.5",
        "--seed",
        "7",
        "--log",
        text(&log),
        "--curve",
        text(&curve),
        "--format",
        "json",
    ];
    let summary = gnnc(args).json();
    let lines = lines(&log);
    assert_eq!(
        events(&lines),
        ["run", "epoch", "epoch", "epoch", "summary"]
    );
    let run = &lines[0];
    assert_eq!(
        (&run["model"], &run["graph"], &run["seed"], &run["epochs"]),
        (&"m".into(), &"g".into(), &7.into(), &5.into())
    );
    assert_eq!(
        (&run["workers"], &run["placement"]),
        (&1.into(), &"graph".into())
    );
    let of = |key: &str| {
        lines[1..4]
            .iter()
            .map(|l| l[key].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("epoch"), [2, 4, 5].map(Value::from));
    // Half of it after every two epochs; Adam's own is 0.01.
    assert_eq!(of("learning_rate"), [0.01, 0.005, 0.0025].map(Value::from));
    let rows = std::fs::read_to_string(&curve).unwrap();
    for (line, row) in lines[1..4].iter().zip(rows.lines().skip(1)) {
        let row: Vec<f64> = row.split(',').map(|f| f.parse().unwrap()).collect();
        let keys = [
            "epoch",
            "loss",
            "train_accuracy",
            "val_accuracy",
            "test_accuracy",
        ];
        let logged = keys.map(|key| line[key].as_f64().unwrap());
        assert_eq!(logged, row[..]);
        assert!(line["seconds"].as_f64().unwrap() > 0.0 && line["val_loss"].is_f64());
    }
    let mut last = lines[4].clone();
    last.as_object_mut().unwrap().remove("event");
    assert_eq!(last, summary);
}

#[test]
fn a_resumed_run_adds_to_its_log_and_another_one_replaces_it() {
    let (folder, model) = folder(&ring());
    let (log, run) = (folder.join("run.jsonl"), folder.join("c"));
    let train = |more: &[&str]| {
        let args = ["train", text(&model), "--log", text(&log), "--quiet"];
        gnnc(args.iter().chain(more))
    };
    train(&["--checkpoint", text(&run)]).ok();
    let first = std::fs::read(&log).unwrap();
    // A run that was killed may have left a part of a line.
    std::fs::write(&log, &first[..first.len() - 20]).unwrap();
    train(&["--resume", text(&run), "--epochs", "5"]).ok();
    let all = std::fs::read_to_string(&log).unwrap();
    assert!(all.as_bytes().starts_with(&first[..first.len() - 20]));
    let broken = all.lines().nth(4).unwrap();
    assert!(serde_json::from_str::<Value>(broken).is_err(), "{broken}");
    let added: Vec<&str> = all.lines().skip(5).collect();
    let added: Vec<Value> = added
        .iter()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(events(&added), ["run", "epoch", "epoch", "summary"]);
    assert_eq!(
        (&added[0]["resume"], &added[1]["epoch"]),
        (&text(&run).into(), &4.into())
    );

    // A run that cannot start leaves the log alone; one that starts anew replaces it.
    train(&["--resume", text(&model)]).fails(1, &[]);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), all);
    train(&["--epochs", "1"]).ok();
    assert_eq!(events(&lines(&log)), ["run", "epoch", "summary"]);
}

#[test]
fn quiet_runs_print_only_their_summary() {
    let (_folder, model) = folder(&ring());
    let quiet = gnnc(["train", text(&model), "--quiet"]).report();
    let shown = gnnc(["train", text(&model)]).report();
    assert!(quiet.starts_with("run "), "{quiet}");
    assert_eq!(
        shown.matches("epoch").count() - quiet.matches("epoch").count(),
        2
    );
    assert!(shown.lines().count() > quiet.lines().count() + 4, "{shown}");
    let seeds = gnnc(["train", text(&model), "--seeds", "3", "--quiet"]).report();
    assert!(
        seeds.starts_with("val accuracy") && seeds.lines().count() == 3,
        "{seeds}"
    );
}

/// The events of a file for TensorBoard: the data of each record.
fn records(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        found.push(&bytes[12..][..length]);
        bytes = &bytes[length + 16..];
    }
    found
}

#[test]
fn tensorboard_gets_a_file_with_the_scalars_of_each_epoch() {
    let (folder, model) = folder(&ring());
    let boards = folder.join("boards/first");
    let args = ["train", text(&model), "--tensorboard", text(&boards)];
    gnnc(args).report();
    let files: Vec<_> = std::fs::read_dir(&boards).unwrap().collect();
    assert_eq!(files.len(), 1);
    let file = files[0].as_ref().unwrap();
    let name = file.file_name().into_string().unwrap();
    assert!(name.starts_with("events.out.tfevents."), "{name}");
    let bytes = std::fs::read(file.path()).unwrap();
    let records = records(&bytes);
    assert_eq!(records.len(), 4, "a version and three epochs");
    assert!(records[0].ends_with(b"brain.Event:2"));
    for (epoch, record) in (1..).zip(&records[1..]) {
        // Field 2, the step, follows the time.
        assert_eq!(record[9..11], [0x10, epoch]);
        let text = String::from_utf8_lossy(record);
        for tag in [
            "loss/train",
            "loss/val",
            "accuracy/train",
            "accuracy/val",
            "accuracy/test",
            "learning_rate",
        ] {
            assert!(text.contains(tag), "no {tag} in {text}");
        }
    }
    gnnc(["train", text(&model), "--tensorboard", text(&model)])
        .fails(1, &["it is a file; name a folder"]);
}

#[test]
fn each_seed_has_checkpoints_of_its_own() {
    let (folder, model) = folder(&ring());
    let run = folder.join("run.v1");
    let args = ["train", text(&model), "--checkpoint", text(&run)];
    let json = ["--format", "json"];
    let report = gnnc(
        args.iter()
            .chain(&["--seeds", "2", "--seed", "4"])
            .chain(&json),
    )
    .json();
    let names = [
        "g.npz",
        "m.gir",
        "run.v1.seed-4",
        "run.v1.seed-4.best",
        "run.v1.seed-5",
        "run.v1.seed-5.best",
    ];
    assert_eq!(folder.names(), names);
    // They are those of a run with that seed.
    let alone = gnnc(args.iter().chain(&["--seed", "5"]).chain(&json)).json();
    assert_eq!(alone["train_loss"], report["runs"][1]["train_loss"]);
    let bytes = |name| std::fs::read(folder.join(name)).unwrap();
    assert!(bytes("run.v1") == bytes("run.v1.seed-5"), "other bytes");
    assert!(bytes("run.v1") != bytes("run.v1.seed-4"));
}
