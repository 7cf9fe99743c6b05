//! `gnnc pilot`, and plans for the time to an accuracy.

use crate::data::ring;
use crate::reliability::{begun, ended, send};
use crate::support::{Folder, command, example, gnnc, refused, text};
use gnnc::ir::plan::{End, Method, Needed, Pilot};
use gnnc::ir::words::units::Seconds;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

pub const PERMITTED: [&str; 2] = ["--allow", "decouple,stale,sample"];

/// Batches of Cora, two of an epoch.
pub const BATCHES: [&str; 4] = ["--batch", "70", "--fanouts", "5,5"];

/// A pilot of GCN on Cora whose runs all come to their end.
pub fn piloted(folder: &Folder, more: &[&str]) -> (PathBuf, String) {
    let (cora, out) = (example("gcn_cora.gir"), folder.join("pilot.toml"));
    let args = [
        "pilot", &cora, "--target", "0.7", "--budget", "10min", "--out",
    ];
    let small = [text(&out), "--seeds", "2", "--lr", "0.03,0.01"];
    let report = gnnc([&args[..], &small, more].concat()).report();
    (out, report)
}

pub fn read(file: &Path) -> Pilot {
    Pilot::from_toml(&fs::read_to_string(file).unwrap()).unwrap()
}

pub fn write(pilot: &Pilot, file: &Path) {
    fs::write(file, pilot.to_toml().unwrap()).unwrap();
}

/// A plan of GCN on Cora for one core by a pilot.
pub fn planned<'a>(file: &'a Path, more: &[&'a str]) -> Vec<String> {
    let cora = example("gcn_cora.gir");
    let args = [
        "plan",
        &cora,
        "--objective",
        "time-to-accuracy",
        "--pilot",
        text(file),
    ];
    let here = ["--cluster", "cpu", "--gpus", "1"];
    let all = [&args[..], &here, more].concat();
    all.into_iter().map(str::to_owned).collect()
}

/// A report in one line, since terminals wrap it.
pub fn flat(report: &str) -> String {
    report.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub fn candidates(plan: &Value) -> &Vec<Value> {
    plan["candidates"].as_array().unwrap()
}

pub fn kind(candidate: &Value) -> &str {
    candidate["to_target"]["class"]["method"]["kind"]
        .as_str()
        .unwrap()
}

pub fn standings(plan: &Value) -> Vec<(String, String)> {
    let of = |candidate: &Value| {
        let standing = candidate["to_target"]["standing"].as_str()?;
        Some((kind(candidate).to_owned(), standing.to_owned()))
    };
    candidates(plan).iter().filter_map(of).collect()
}

#[test]
fn a_pilot_tells_what_each_permitted_class_needs() {
    let folder = Folder::new();
    let sizes = ["--batch", "70,140", "--fanouts", "5,5", "--delay", "2"];
    let (file, report) = piloted(&folder, &[&PERMITTED[..], &sizes].concat());
    let classes = [
        "whole graph",
        "decoupled",
        "histories of 16 chunks, updated every 10 epochs",
        "batches of 70, fanouts 5,5",
        "batches of 70, fanouts 5,5, delay 2",
        "batches of 140, fanouts 5,5",
        "batches of 140, fanouts 5,5, delay 2",
    ];
    let pilot = read(&file);
    let names: Vec<&str> = pilot.classes.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, classes);
    for name in classes {
        assert!(
            report.contains(&format!("\n{name}\n")),
            "no `{name}` in {report}"
        );
    }
    let reasons = [
        "target accuracy 70.00 % of the",
        "not piloted",
        "stale copies (skip-broadcast): ",
    ];
    let line = flat(&report);
    assert!(reasons.iter().all(|part| line.contains(part)), "{report}");
    for one in &pilot.classes {
        assert!(
            one.runs
                .iter()
                .all(|run| [End::Reached, End::Slower].contains(&run.end)),
            "{one:?}"
        );
        assert!(
            matches!(
                one.needed(&pilot.seeds, pilot.evaluate_every),
                Some(Needed::Measured { .. })
            ),
            "{one:?}"
        );
        assert!(
            one.runs
                .iter()
                .all(|run| run.curve.scores.len() as u64 == run.epochs)
        );
    }
    // The same runs again, but for the clock.
    let (again, _) = piloted(&folder, &[&PERMITTED[..], &sizes].concat());
    let timeless = |mut pilot: Pilot| {
        pilot.used_seconds = Seconds(0.0);
        for run in pilot.classes.iter_mut().flat_map(|one| &mut one.runs) {
            (run.seconds, run.evaluation_seconds) = (Seconds(0.0), Seconds(0.0));
        }
        pilot
    };
    assert_eq!(timeless(read(&again)), timeless(pilot));
}

/// What is permitted and what is not; models that have no decoupled form.
#[test]
fn classes_that_nothing_permits_or_that_cannot_be_are_not_piloted() {
    let folder = Folder::new();
    let names = |pilot: &Pilot| -> Vec<String> {
        pilot.classes.iter().map(|one| one.name.clone()).collect()
    };
    let (file, _) = piloted(&folder, &BATCHES);
    let pilot = read(&file);
    assert_eq!(names(&pilot), ["whole graph"]);
    assert!(pilot.left_out.is_empty());
    let (file, report) = piloted(&folder, &["--allow", "sample"]);
    assert_eq!(names(&read(&file)), ["whole graph"]);
    assert!(
        flat(&report).contains("give --batch 1000 --fanouts 25,10"),
        "{report}"
    );
    let own = [
        &BATCHES[..],
        &[
            "--allow", "sample", "--roots", "own", "--delay", "2", "--static",
        ],
    ]
    .concat();
    let (file, report) = piloted(&folder, &own);
    assert_eq!(
        names(&read(&file)),
        ["whole graph", "batches of 70, fanouts 5,5"]
    );
    for part in [
        "roots own on several workers",
        "--delay needs --allow stale",
        "static batches: minibatch needs",
    ] {
        assert!(flat(&report).contains(part), "no `{part}` in {report}");
    }
    // A model that aggregates raw features: with a fanout for each hop, both ways are tried.
    let (ring, model) = crate::data::folder(&ring());
    let sage = fs::read_to_string(&model)
        .unwrap()
        .replace("gcn_conv", "sage_conv");
    let (model, out) = (ring.file("sage.gir", sage), ring.join("pilot.toml"));
    let pilot = |fanouts: &str| {
        let args = [
            "pilot",
            text(&model),
            "--target",
            "0.5",
            "--budget",
            "1min",
            "--seeds",
            "1",
        ];
        let batches = [
            "--batch",
            "1",
            "--fanouts",
            fanouts,
            "--static",
            "--allow",
            "sample",
        ];
        gnnc([&args[..], &batches, &["--out", text(&out)]].concat()).report();
        names(&read(&out))
    };
    let both = [
        "whole graph",
        "batches of 1, fanouts 2,2",
        "batches of 1, fanouts 2, static",
    ];
    assert_eq!(pilot("2,2"), both);
    assert_eq!(pilot("2"), [both[0], both[2]]);
}

/// A run of a pilot is a run of `gnnc train` that stops at the target.
#[test]
fn runs_of_a_pilot_are_those_that_train_makes() {
    let folder = Folder::new();
    let (file, _) = piloted(&folder, &[&PERMITTED[..], &BATCHES].concat());
    let pilot = read(&file);
    let cora = example("gcn_cora.gir");
    for one in &pilot.classes {
        let placed: &[&str] = match one.class.method {
            Method::Exact => &["--workers", "2"],
            Method::Decoupled => &["--workers", "2", "--placement", "tensor-decoupled"],
            Method::Histories { .. } => &[
                "--workers",
                "2",
                "--placement",
                "pipeline",
                "--chunks",
                "16",
            ],
            Method::Sampled(_) => &["--workers", "2", "--placement", "minibatch"],
            Method::Copies { .. } => panic!("{one:?}"),
        };
        let batches = match one.class.sampled() {
            Some(_) => &BATCHES[..],
            None => &[],
        };
        let run = one.runs.iter().find(|run| run.end == End::Reached).unwrap();
        let (seed, rate) = (run.seed.to_string(), run.learning_rate.to_string());
        let args = [
            "train", &cora, "--seed", &seed, "--lr", &rate, "--target", "0.7",
        ];
        let json = ["--allow", "decouple,stale,sample", "--format", "json"];
        let summary = gnnc([&args[..], &json, placed, batches].concat()).json();
        let target = &summary["target"];
        assert_eq!(target["reached"], true, "{}", one.name);
        assert_eq!(target["epoch"], run.epochs, "{}", one.name);
        assert_eq!(target["steps"], run.steps, "{}", one.name);
        assert_eq!(run.steps, run.epochs * one.steps_per_epoch);
    }
}

/// A run that stops in between and goes on later has the curve of one that does not.
#[test]
fn little_time_leaves_shorter_curves() {
    let folder = Folder::new();
    let (cora, out) = (example("gcn_cora.gir"), folder.join("short.toml"));
    let args = [
        "pilot",
        &cora,
        "--target",
        "0.999",
        "--budget",
        "0.5s",
        "--out",
        text(&out),
    ];
    let more = ["--epochs", "1000000", "--seeds", "2", "--lr", "0.01"];
    gnnc(args.iter().chain(&more)).report();
    let pilot = read(&out);
    let runs = &pilot.classes[0].runs;
    assert!(pilot.used_seconds.0 < 5.0, "{:?}", pilot.used_seconds);
    assert!(runs.iter().all(|run| run.end == End::Time), "{runs:?}");
    let longest = runs.iter().map(|run| run.epochs).max().unwrap();
    assert!(matches!(
        pilot.classes[0].needed(&pilot.seeds, pilot.evaluate_every),
        Some(Needed::MoreThan { epochs }) if epochs == longest
    ));
    let curve = folder.join("curve");
    let epochs = runs[0].epochs.to_string();
    let train = [
        "train", &cora, "--lr", "0.01", "--seed", "0", "--epochs", &epochs,
    ];
    gnnc(train.iter().chain(&["--curve", text(&curve), "--quiet"])).ok();
    let curve = fs::read_to_string(curve).unwrap();
    let val = |line: &str| line.split(',').nth(3).unwrap().parse::<f64>().unwrap();
    let scores: Vec<f64> = curve.lines().skip(1).map(val).collect();
    assert_eq!(scores, runs[0].curve.scores);
}

#[test]
fn an_interrupt_keeps_what_is_done() {
    let folder = Folder::new();
    let (cora, out) = (example("gcn_cora.gir"), folder.join("pilot.toml"));
    let rest = folder.join("rest");
    fs::create_dir(&rest).unwrap();
    let mut command = command();
    command.env("TMPDIR", &rest);
    // A hundred runs of a tenth of a second each.
    command.args([
        "pilot", &cora, "--target", "0.999", "--budget", "10s", "--epochs", "1000000",
    ]);
    command.args(["--seeds", "25", "--out", text(&out)]);
    let checkpoints = || {
        let folders = fs::read_dir(&rest).unwrap();
        folders
            .flatten()
            .any(|entry| entry.path().join("0").exists())
    };
    let child = begun(command, checkpoints);
    send(&child, libc::SIGINT);
    let (output, _) = ended(child);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let pilot = read(&out);
    assert!(pilot.interrupted && pilot.used_seconds.0 < 10.0);
    let runs = &pilot.classes[0].runs;
    assert!(!runs.is_empty() && runs.len() < 100, "{}", runs.len());
    assert!(
        runs.iter().all(|run| run.end == End::Interrupted),
        "{runs:?}"
    );
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(report.contains("(interrupted)"), "{report}");
    assert!(
        fs::read_dir(&rest).unwrap().next().is_none(),
        "checkpoints are left"
    );
}

#[test]
fn bad_pilots_are_refused() {
    let cora = example("gcn_cora.gir");
    let folder = Folder::new();
    let out = folder.join("p.toml");
    let with = |target: &str, budget: &str, more: &[&str], said: &[&str]| {
        let options = [format!("--target={target}"), format!("--budget={budget}")];
        let args = [
            "pilot",
            &cora,
            &options[0],
            &options[1],
            "--out",
            text(&out),
        ];
        refused(1, &[&args[..], more].concat(), said);
    };
    let more = |target: &str, more: &[&str], said: &[&str]| with(target, "1s", more, said);
    more(
        "80",
        &[],
        &["found --target 80", "a share for accuracy", "such as 0.9"],
    );
    more("0", &[], &["a number above 0 and up to 1"]);
    more("nan", &[], &["expected a share"]);
    more("x", &[], &["--target"]);
    more("0.9", &["--metric", "mae"], &["MAE"]);
    for budget in ["0s", "10", "soon", "-1min", "9d"] {
        with("0.9", budget, &[], &["such as 90s, 10min or 1.5h"]);
    }
    more("0.9", &["--seeds", "0"], &["--seeds"]);
    more(
        "0.9",
        &["--seed", "18446744073709551615"],
        &["seeds from 18446744073709551615 on"],
    );
    more(
        "0.9",
        &["--seed", "9223372036854775806"],
        &["do not fit into the file"],
    );
    more("0.9", &["--lr=-1"], &["--lr"]);
    more("0.9", &["--batch", "0"], &["--batch"]);
    let one_hop = ["--allow", "sample", "--batch", "70", "--fanouts", "5"];
    more("0.9", &one_hop, &["found 1 fanout", "aggregates 2 times"]);
    assert!(!out.exists(), "nothing was run");
    let nowhere = [
        "pilot",
        &cora,
        "--target=0.9",
        "--budget=1s",
        "--out",
        "/nowhere/p.toml",
    ];
    refused(
        1,
        &nowhere,
        &["cannot write the pilot", "there is no folder /nowhere"],
    );

    let mut data = ring();
    data.val = vec![false; 6];
    let (_ring, model) = crate::data::folder(&data);
    let args = [
        "pilot",
        text(&model),
        "--target",
        "0.5",
        "--budget",
        "1s",
        "--out",
        text(&out),
    ];
    refused(1, &args, &["no validation vertices", "--split"]);
    let products = example("sage_products.gir");
    let args = [
        "pilot",
        &products,
        "--target",
        "0.5",
        "--budget",
        "1s",
        "--out",
        text(&out),
    ];
    refused(1, &args, &["is only statistics"]);
}
