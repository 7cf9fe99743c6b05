//! `gnnc train --target`: runs that end when the validation vertices reach a score.

use crate::data::{folder, ring};
use crate::support::{Folder, example, gnnc, refused, text};
use gnnc::{LoadOptions, Loaded, Pause, Source, TrainOptions, train};
use serde_json::Value;
use std::fs;

/// Exit code of a run that ended before its target.
const MISSED: Option<i32> = Some(4);

#[test]
fn a_run_ends_at_the_first_evaluation_that_reaches_the_target() {
    let (cora, folder) = (example("gcn_cora.gir"), Folder::new());
    let curve = folder.join("curve");
    let args = [
        "train",
        &cora,
        "--evaluate-every",
        "3",
        "--curve",
        text(&curve),
    ];
    let target = ["--target", "0.7", "--format", "json"];
    let summary = gnnc(args.iter().chain(&target)).json();
    let way = &summary["target"];
    let rows = fs::read_to_string(&curve).unwrap();
    let val = |line: &str| line.split(',').nth(3).unwrap().parse::<f64>().unwrap();
    let scores: Vec<f64> = rows.lines().skip(1).map(val).collect();
    let (last, before) = scores.split_last().unwrap();
    assert!(
        *last >= 0.7 && before.iter().all(|score| *score < 0.7),
        "{scores:?}"
    );
    assert_eq!(
        (&way["reached"], &way["target"]),
        (&true.into(), &0.7.into())
    );
    assert_eq!(way["score"], *last);
    let epochs = 3 * scores.len();
    assert_eq!(
        (&way["epoch"], &summary["epochs"]),
        (&epochs.into(), &epochs.into())
    );
    assert_eq!(
        way["steps"], epochs,
        "an epoch of the whole graph is a step"
    );
    for seconds in ["seconds", "evaluation_seconds"] {
        assert!(way[seconds].as_f64().unwrap() > 0.0);
    }
    assert!(way["predicted"].is_null());
    let report = gnnc(["train", &cora, "--target", "0.7", "--quiet"]).report();
    assert!(report.contains("(reached the target)"), "{report}");
    assert!(
        report.contains("target         val accuracy 70.00 % reached with 7"),
        "{report}"
    );
    // On two batches an epoch.
    let batches = ["--allow", "sample", "--batch", "70", "--fanouts", "5,5"];
    let args = ["train", &cora, "--target", "0.7", "--format", "json"];
    let way = &gnnc(args.iter().chain(&batches)).json()["target"];
    assert_eq!(
        way["steps"].as_u64(),
        way["epoch"].as_u64().map(|epochs| 2 * epochs)
    );
}

#[test]
fn a_run_that_ends_before_its_target_says_so() {
    let cora = example("gcn_cora.gir");
    let args = [
        "train", &cora, "--target", "0.99", "--epochs", "5", "--quiet",
    ];
    let run = gnnc(args);
    assert_eq!(run.code, MISSED);
    assert!(
        run.stdout
            .contains("val accuracy 99.00 % not reached: the best is "),
        "{}",
        run.stdout
    );
    let run = gnnc(args.iter().chain(&["--format", "json"]));
    let summary: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        (run.code, &summary["target"]["reached"]),
        (MISSED, &false.into())
    );
    assert!(summary["target"]["score"].as_f64().unwrap() > 0.0);
    // Of several seeds, each is reported.
    let seeds = [
        "train", &cora, "--target", "0.5", "--epochs", "8", "--seeds", "3",
    ];
    let run = gnnc(seeds.iter().chain(&["--format", "json", "--lr", "0.03"]));
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let reached = report["runs"].as_array().unwrap().iter();
    let reached = reached
        .filter(|run| run["target"]["reached"] == true)
        .count();
    assert_eq!(run.code, if reached == 3 { Some(0) } else { MISSED });
    let text = gnnc(seeds.iter().chain(&["--quiet", "--lr", "0.03"])).stdout;
    assert!(
        text.contains(&format!(
            "val accuracy 50.00 % reached by {reached} of 3 seeds"
        )),
        "{text}"
    );
}

#[test]
fn errors_go_down_to_their_target() {
    let model = example("gine_solubility.gir");
    let run = |target: &str| {
        gnnc([
            "train", &model, "--target", target, "--epochs", "2", "--format", "json",
        ])
    };
    let summary = run("100").json();
    assert_eq!(
        (&summary["epochs"], &summary["target"]["reached"]),
        (&1.into(), &true.into())
    );
    assert_eq!(run("0").code, MISSED);
    refused(
        1,
        &["train", &model, "--target=-1"],
        &["found the target -1", "lower is better"],
    );
}

#[test]
fn targets_that_cannot_be_are_refused() {
    let cora = example("gcn_cora.gir");
    refused(
        1,
        &["train", &cora, "--target", "93"],
        &["found the target 93", "such as 0.9"],
    );
    refused(1, &["train", &cora, "--target", "high"], &["--target"]);
    let mut data = ring();
    data.val = vec![false; 6];
    let (_folder, model) = folder(&data);
    let args = ["train", text(&model), "--target", "0.5"];
    let run = gnnc(args);
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr
            .contains("the graph `g` has none; set some aside"),
        "{}",
        run.stderr
    );
    let pilot = ["train", &cora, "--pilot", "p.toml"];
    refused(1, &pilot, &["found --pilot without --placement best"]);
}

/// A plan by a pilot brings its learning rate and its prediction.
#[test]
fn a_planned_run_is_reported_beside_its_prediction() {
    let (cora, folder) = (example("gcn_cora.gir"), Folder::new());
    let (pilot, plan) = (folder.join("p.toml"), folder.join("plan.json"));
    let args = [
        "pilot",
        &cora,
        "--target",
        "0.6",
        "--budget",
        "1min",
        "--out",
        text(&pilot),
    ];
    let small = [
        "--seeds",
        "2",
        "--lr",
        "0.05",
        "--evaluate-every",
        "2",
        "--epochs",
        "300",
    ];
    gnnc(args.iter().chain(&small)).report();
    let args = [
        "plan",
        &cora,
        "--objective",
        "time-to-accuracy",
        "--pilot",
        text(&pilot),
    ];
    let here = ["--cluster", "cpu", "--gpus", "1", "--out", text(&plan)];
    let report = gnnc(args.iter().chain(&here)).report();
    let options = "train with --lr 0.05 --target 0.6 --evaluate-every 2 --epochs 300\n";
    assert!(report.contains(options), "{report}");
    let log = folder.join("log");
    let run = |more: &[&str]| {
        let args = ["train", text(&plan), "--log", text(&log), "--seed", "5"];
        let json = ["--format", "json"];
        gnnc([&args[..], &json, more].concat()).json()
    };
    let summary = run(&["--target", "0.6"]);
    let predicted = &summary["target"]["predicted"];
    assert_eq!(predicted["epochs"]["known"], "measured");
    assert!(predicted["seconds"]["low"].as_f64() < predicted["seconds"]["high"].as_f64());
    let facts = fs::read_to_string(&log).unwrap();
    let facts: Value = serde_json::from_str(facts.lines().next().unwrap()).unwrap();
    let of = |key: &str| facts[key].as_f64().unwrap();
    assert_eq!(
        [of("learning_rate"), of("evaluate_every"), of("epochs")],
        [0.05, 2.0, 300.0]
    );
    // What the command line says goes first, and another target was not predicted.
    let other = run(&["--target", "0.5", "--lr", "0.04", "--evaluate-every", "1"]);
    assert!(other["target"]["predicted"].is_null());
    let facts = fs::read_to_string(&log).unwrap();
    assert!(
        facts
            .lines()
            .next()
            .unwrap()
            .contains("\"learning_rate\":0.04")
    );
    let shown = gnnc(["train", text(&plan), "--target", "0.6"]).report();
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["with learning rate 0.05", " predicted "] {
        assert!(flat(&shown).contains(part), "no `{part}` in {shown}");
    }
    // The same without a file for the plan.
    let best = [
        "train",
        &cora,
        "--placement",
        "best",
        "--pilot",
        text(&pilot),
    ];
    let shown = gnnc(best.iter().chain(&["--target", "0.6"])).report();
    assert!(flat(&shown).contains("with learning rate 0.05"), "{shown}");
    // A class that is not that of the placement.
    let edited = fs::read_to_string(&plan)
        .unwrap()
        .replacen("\"exact\"", "\"decoupled\"", 1);
    fs::write(&plan, edited).unwrap();
    refused(
        1,
        &["train", text(&plan)],
        &["`to_target.class`", "`decoupled`", "`whole graph`"],
    );
}

/// A run that pauses and goes on is one that did not pause.
#[test]
fn a_pause_changes_no_number() {
    let source = Source::read(example("gcn_cora.gir")).unwrap();
    let loaded = Loaded::new(&source, &LoadOptions::default()).unwrap();
    let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
    let folder = Folder::new();
    let file = folder.join("c");
    let losses = |options: &TrainOptions| {
        let summary = train(&loaded, &compiled, options, &mut |_| ()).unwrap();
        (summary.losses, summary.interrupted)
    };
    let whole = TrainOptions {
        epochs: Some(12),
        ..TrainOptions::default()
    };
    let paused = TrainOptions {
        checkpoint: Some(file.clone()),
        pause: Pause {
            after: Some(5),
            at: None,
        },
        ..whole.clone()
    };
    let on = TrainOptions {
        resume: Some(file),
        ..whole.clone()
    };
    let (all, never) = losses(&whole);
    let (first, stopped) = losses(&paused);
    let (rest, ended) = losses(&on);
    assert_eq!((never, stopped, ended), (false, true, false));
    assert_eq!(first.len(), 5);
    assert_eq!([first, rest].concat(), all);
    // A time that is over leaves an epoch.
    let late = TrainOptions {
        pause: Pause {
            at: Some(std::time::Instant::now()),
            after: None,
        },
        ..whole
    };
    assert_eq!(losses(&late).0.len(), 1);
}
