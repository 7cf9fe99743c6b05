//! `gnnc pilot`, and plans for the time to an accuracy.

use crate::data::{folder, ring};
use crate::reliability::{begun, ended, send};
use crate::support::{Folder, command, example, gnnc, refused, text};
use gnnc::ir::plan::{End, Method, Needed, Pilot, Piloted};
use gnnc::ir::words::units::Seconds;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const PERMITTED: [&str; 2] = ["--allow", "decouple,stale,sample"];

/// Batches of Cora, two of an epoch.
const BATCHES: [&str; 4] = ["--batch", "70", "--fanouts", "5,5"];

/// A pilot of GCN on Cora whose runs all come to their end.
fn piloted(folder: &Folder, more: &[&str]) -> (PathBuf, String) {
    let (cora, out) = (example("gcn_cora.gir"), folder.join("pilot.toml"));
    let args = [
        "pilot", &cora, "--target", "0.7", "--budget", "10min", "--out",
    ];
    let small = [text(&out), "--seeds", "2", "--lr", "0.03,0.01"];
    let report = gnnc([&args[..], &small, more].concat()).report();
    (out, report)
}

fn read(file: &Path) -> Pilot {
    Pilot::from_toml(&fs::read_to_string(file).unwrap()).unwrap()
}

fn write(pilot: &Pilot, file: &Path) {
    fs::write(file, pilot.to_toml().unwrap()).unwrap();
}

/// A plan of GCN on Cora for one core by a pilot.
fn planned<'a>(file: &'a Path, more: &[&'a str]) -> Vec<String> {
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
fn flat(report: &str) -> String {
    report.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn candidates(plan: &Value) -> &Vec<Value> {
    plan["candidates"].as_array().unwrap()
}

fn kind(candidate: &Value) -> &str {
    candidate["to_target"]["class"]["method"]["kind"]
        .as_str()
        .unwrap()
}

fn standings(plan: &Value) -> Vec<(String, String)> {
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
            matches!(one.needed(&pilot.seeds), Some(Needed::Measured { .. })),
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
    let out = ring.join("pilot.toml");
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
        pilot.classes[0].needed(&pilot.seeds),
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
    more("0.9", &one_hop, &["found 1 fanout", "expected 2"]);
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

#[test]
fn a_pilot_of_something_else_is_refused_with_what_differs() {
    let folder = Folder::new();
    let (file, _) = piloted(&folder, &[]);
    gnnc(planned(&file, &[])).report();
    let refuse = |args: &[&str], said: &[&str]| {
        let objective = ["--objective", "time-to-accuracy", "--pilot", text(&file)];
        refused(1, &[&["plan"], args, &objective].concat(), said);
    };
    let cora = example("gcn_cora.gir");
    let wide = [cora.as_str(), "--set", "hidden=17"];
    let differs = [
        "pilot.toml: the pilot was made for something else",
        "the model is gcn (",
    ];
    refuse(&wide, &differs);
    let citeseer = example("gcn_citeseer.gir");
    refuse(
        &[&citeseer],
        &["the graph is cora (", "citeseer (", "the model is gcn ("],
    );
    refuse(
        &[&cora, "--set", "train.patience=20"],
        &["`patience` is none in the pilot, 20 here"],
    );
    refuse(&[&example("gcn_reddit.gir")], &["is only statistics"]);

    let edited = folder.join("edited.toml");
    let whole = fs::read_to_string(&file).unwrap();
    let refuse = |from: &str, to: &str, said: &[&str]| {
        assert!(whole.contains(from), "{from}");
        fs::write(&edited, whole.replacen(from, to, 1)).unwrap();
        let args = planned(&edited, &[]);
        refused(
            1,
            &args.iter().map(String::as_str).collect::<Vec<_>>(),
            said,
        );
    };
    let version = format!("gnnc = \"{}\"", env!("CARGO_PKG_VERSION"));
    refuse(
        &version,
        "gnnc = \"0.0.1\"",
        &["the version of gnnc is 0.0.1 in the pilot"],
    );
    refuse(
        "version = 1",
        "version = 9",
        &["edited.toml: it has version 9"],
    );
    refuse(
        "name = \"constant\"",
        "name = \"cosine\"\nwarmup = 2",
        &["schedule", "cosine:2 over 200 epochs"],
    );
    refuse(
        "seeds = [0, 1]",
        "seeds = [0]",
        &["has a seed that `seeds` does not list"],
    );
    refuse(
        "version = 1",
        "version = one",
        &["edited.toml: it is no pilot"],
    );
    fs::write(&edited, "{}").unwrap();
    let args = planned(&edited, &[]);
    refused(
        1,
        &args.iter().map(String::as_str).collect::<Vec<_>>(),
        &["is no pilot"],
    );
    let by_time = ["plan", &cora, "--pilot", text(&file)];
    refused(
        1,
        &by_time,
        &[
            "found --pilot with --objective time",
            "--objective time-to-accuracy",
        ],
    );
    let missing = [
        "plan",
        &cora,
        "--objective",
        "time-to-accuracy",
        "--pilot",
        "none.toml",
    ];
    refused(1, &missing, &["none.toml", "No such file"]);
    let sweep = ["sweep", &cora, "--objective", "time-to-accuracy"];
    refused(1, &sweep, &["expected time, memory or bytes"]);
}

#[test]
fn plans_take_epochs_and_the_learning_rate_from_a_pilot() {
    let folder = Folder::new();
    let (file, _) = piloted(&folder, &[&PERMITTED[..], &BATCHES].concat());
    let pilot = read(&file);
    let plan = gnnc(planned(
        &file,
        &[&PERMITTED[..], &["--format", "json"]].concat(),
    ))
    .json();
    let goal = &plan["goal"];
    assert_eq!(
        (&goal["target"], &goal["metric"]),
        (&0.7.into(), &"accuracy".into())
    );
    assert_eq!(plan["objective"], "time-to-accuracy");
    for candidate in candidates(&plan) {
        let known = &candidate["to_target"];
        let one = pilot
            .classes
            .iter()
            .find(|one| serde_json::to_value(&one.class).unwrap() == known["class"]);
        let Some(one) = one else {
            assert!(
                known["needed"].is_null() && known["seconds"].is_null(),
                "{known}"
            );
            continue;
        };
        let needed = one.needed(&pilot.seeds).unwrap();
        assert_eq!(known["needed"], serde_json::to_value(needed).unwrap());
        let Needed::Measured {
            fastest, slowest, ..
        } = needed
        else {
            panic!("{needed:?}");
        };
        assert_eq!(known["steps_per_epoch"], one.steps_per_epoch);
        // Evaluations are after every epoch, and their range is as wide as that of an epoch.
        let number = |value: &Value| value.as_f64().unwrap();
        let (epoch, low, high) = (
            number(&candidate["epoch_seconds"]),
            number(&candidate["range"]["low"]),
            number(&candidate["range"]["high"]),
        );
        let eval = number(&candidate["eval_seconds"]);
        let at = |epochs: u64, bound: f64| epochs as f64 * (bound + eval * bound / epoch);
        let near = |found: &Value, expected: f64| {
            assert!(
                (number(found) / expected - 1.0).abs() < 1e-3,
                "{found}, {expected}"
            );
        };
        near(&known["seconds"]["low"], at(fastest, low));
        near(&known["seconds"]["high"], at(slowest, high));
    }
    let report = gnnc(planned(&file, &PERMITTED)).report();
    for part in [
        "time-to-accuracy: accuracy 70.00 %",
        "train with --lr 0.03 --target 0.7\n",
        "classes    A  ",
    ] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
    // What is not permitted has no candidates, and the plan says so.
    let forbidden = gnnc(planned(&file, &[])).report();
    assert!(
        flat(&forbidden).contains("fanouts 5,5: the pilot tried it, but it needs --allow sample"),
        "{forbidden}"
    );
    let why = gnnc(planned(&file, &[&PERMITTED[..], &["--why"]].concat())).report();
    assert!(flat(&why).contains("with learning rate 0.03"), "{why}");
}

/// A pilot whose classes needed other epochs than they did. `None` ends all runs short of the target.
fn with_epochs(pilot: &Pilot, epochs: &dyn Fn(&Piloted) -> Option<u64>) -> Pilot {
    let mut other = pilot.clone();
    for one in &mut other.classes {
        let wanted = epochs(one);
        for run in &mut one.runs {
            (run.end, run.epochs) = match wanted {
                Some(epochs) => (End::Reached, epochs),
                None => (End::Time, 100),
            };
            run.steps = run.epochs * one.steps_per_epoch;
            run.curve.steps = vec![run.steps];
            run.curve.scores = vec![if wanted.is_some() { 0.7 } else { 0.6999 }];
        }
    }
    other
}

#[test]
fn ties_lower_bounds_and_losses_are_told_apart() {
    let folder = Folder::new();
    let (file, _) = piloted(&folder, &[&["--allow", "sample"], &BATCHES[..]].concat());
    let (pilot, edited) = (read(&file), folder.join("edited.toml"));
    let plan = |exact: Option<u64>, sampled: Option<u64>| {
        let epochs = |one: &Piloted| match one.class.sampled() {
            Some(_) => sampled,
            None => exact,
        };
        write(&with_epochs(&pilot, &epochs), &edited);
        let more = ["--allow", "sample", "--format", "json"];
        gnnc(planned(&edited, &more)).plan()
    };
    let pairs = |plan: &Value| -> Vec<String> {
        let all = standings(plan);
        all.iter()
            .map(|(kind, standing)| format!("{kind} {standing}"))
            .collect()
    };
    // A mini-batch epoch takes several times as long as one of the whole graph.
    assert_eq!(
        pairs(&plan(Some(10), Some(1000))),
        ["exact fastest", "sampled slower"]
    );
    assert_eq!(
        pairs(&plan(Some(10_000), Some(10))),
        ["sampled fastest", "exact slower"]
    );
    // Ranges overlap; the whole graph takes less memory.
    for sampled in [10, 12] {
        let tied = plan(Some(60), Some(sampled));
        assert_eq!(pairs(&tied), ["exact tied", "sampled tied"]);
        let memory = |n: usize| tied["candidates"][n]["peak_memory_bytes"].as_u64().unwrap();
        assert!(memory(0) < memory(1));
    }
    // A class that did not reach the target can lose ..
    assert_eq!(
        pairs(&plan(Some(10), None)),
        ["exact fastest", "sampled slower"]
    );
    // .. but not win, though a hundred of its epochs take less than those of the other class.
    let undecided = plan(None, Some(10_000));
    assert_eq!(pairs(&undecided), ["sampled fastest", "exact undecided"]);
    assert_eq!(undecided["chosen"], 0);
    let bound = &undecided["candidates"][1]["to_target"];
    assert_eq!(
        bound["needed"],
        serde_json::json!({ "known": "more-than", "epochs": 100 })
    );
    assert!(bound["seconds"]["low"].is_f64() && bound["seconds"]["high"].is_null());
    let said = undecided["candidates"][1]["reason"].as_str().unwrap();
    assert!(said.contains("only a longer pilot tells"), "{said}");
    let report = gnnc(planned(&edited, &["--allow", "sample"])).report();
    assert!(report.contains("> 100"), "{report}");
    // Nothing reached it: nothing is chosen.
    assert!(plan(None, None)["chosen"].is_null());
    let report = gnnc(planned(&edited, &["--allow", "sample"])).unchosen();
    assert!(
        report.contains("chosen     nothing: no candidate"),
        "{report}"
    );
    assert!(
        flat(&report).contains("reached accuracy 70.00 %"),
        "{report}"
    );
}

#[test]
fn without_a_pilot_there_is_no_number_but_a_break_even() {
    let products = example("sage_products.gir");
    let sampled = [
        "--allow",
        "sample",
        "--batch",
        "1024",
        "--fanouts",
        "15,10,5",
    ];
    let args = [
        "plan",
        &products,
        "--objective",
        "time-to-accuracy",
        "--gpus",
        "1",
    ];
    let plan = gnnc([&args[..], &sampled, &["--format", "json"]].concat()).json();
    assert!(plan["goal"].is_null());
    for candidate in candidates(&plan) {
        let known = &candidate["to_target"];
        assert!(
            known["needed"].is_null() && known["seconds"].is_null(),
            "{known}"
        );
    }
    let [whole, batches] = &candidates(&plan)[..] else {
        panic!("{plan}");
    };
    assert_eq!([kind(whole), kind(batches)], ["exact", "sampled"]);
    let step = |candidate: &Value| candidate["to_target"]["step_seconds"].as_f64().unwrap();
    let times = batches["to_target"]["break_even"].as_f64().unwrap();
    assert!((step(whole) / step(batches) / times - 1.0).abs() < 1e-4);
    assert!(times > 100.0, "{times}");
    let report = gnnc([&args[..], &sampled].concat()).report();
    let line = flat(&report);
    let said = format!("mini-batches win if they need fewer than {times:.0} times the steps");
    assert!(line.contains(&said), "{report}");
    assert!(
        line.contains("without a pilot: no numbers but those of a step"),
        "{report}"
    );

    // Two batches of Cora: each takes longer than the whole graph.
    let cora = example("gcn_cora.gir");
    let args = [
        "plan",
        &cora,
        "--objective",
        "time-to-accuracy",
        "--cluster",
        "cpu",
        "--gpus",
        "1",
    ];
    let sampled = [
        &["--allow", "sample", "--batch", "70", "--fanouts", "25,25"][..],
        &["--why"],
    ]
    .concat();
    let report = gnnc([&args[..], &sampled].concat()).report();
    let line = flat(&report);
    assert!(
        line.contains("mini-batches are not proposed without a pilot"),
        "{report}"
    );
}

#[test]
fn several_sizes_of_batches_are_planned_beside_each_other() {
    let (_folder, model) = folder(&ring());
    let own = Folder::new();
    let out = own.join("pilot.toml");
    let args = [
        "pilot",
        text(&model),
        "--target",
        "0.5",
        "--budget",
        "1min",
        "--out",
        text(&out),
    ];
    let batches = [
        "--allow",
        "sample",
        "--batch",
        "1,2",
        "--fanouts",
        "2,2",
        "--seeds",
        "1",
    ];
    gnnc(args.iter().chain(&batches)).report();
    let plan = |more: &[&str]| {
        let args = [
            "plan",
            text(&model),
            "--objective",
            "time-to-accuracy",
            "--pilot",
            text(&out),
        ];
        let here = [
            "--cluster",
            "cpu",
            "--gpus",
            "1",
            "--allow",
            "sample",
            "--format",
            "json",
        ];
        gnnc([&args[..], &here, more].concat()).plan()
    };
    let sizes = |plan: &Value| -> Vec<u64> {
        let of = |candidate: &Value| candidate["to_target"]["class"]["method"]["batch"].as_u64();
        let mut sizes: Vec<u64> = candidates(plan).iter().filter_map(of).collect();
        sizes.sort_unstable();
        sizes
    };
    let all = plan(&[]);
    assert_eq!(sizes(&all), [1, 2]);
    for candidate in candidates(&all).iter().filter(|c| kind(c) == "sampled") {
        let batch = &candidate["to_target"]["class"]["method"]["batch"];
        assert_eq!(candidate["parameters"]["sampling"]["batch"], *batch);
    }
    // Batches on the command line are those to plan for.
    assert_eq!(sizes(&plan(&["--batch", "2", "--fanouts", "2,2"])), [2]);
    let untried = plan(&["--batch", "1", "--fanouts", "1,2"]);
    assert_eq!(sizes(&untried), [1]);
    let sampled = candidates(&untried)
        .iter()
        .find(|c| kind(c) == "sampled")
        .unwrap();
    assert_eq!(sampled["to_target"]["standing"], "unknown");
}
