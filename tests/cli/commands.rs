//! Every command, in both output formats.

use crate::data::{folder, model_with, ring};
use crate::support::{Folder, command, example, finished, gnnc, refused, text};
use serde_json::Value;
use std::process::Stdio;

#[test]
fn check_says_what_it_found() {
    let cora = example("gcn_cora.gir");
    let report = gnnc(["check", &cora]).report();
    assert!(
        report.ends_with("model gcn on graph cora: no errors\n"),
        "{report}"
    );

    let folder = Folder::new();
    let broken = folder.file(
        "broken.gir",
        model_with("let h = x |> foo(3)\n  let k = nope"),
    );
    let run = gnnc(["check", text(&broken), &cora]);
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains("E0202") && run.stderr.contains("E0201"),
        "{}",
        run.stderr
    );
    assert!(
        run.stdout.contains("no errors"),
        "the other file is checked too"
    );

    let run = gnnc(["check", text(&broken), &cora, "--format", "json"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["error"]["kind"], "model");
    assert_eq!(report["files"][0]["ok"], false);
    assert_eq!(report["files"][0]["diagnostics"][0]["code"], "E0202");
    assert_eq!(report["files"][0]["diagnostics"][0]["start"]["line"], 9);
    assert_eq!(report["files"][1]["ok"], true);
}

#[test]
fn fmt_changes_what_it_should() {
    let folder = Folder::new();
    let tidy = std::fs::read_to_string(example("gcn_cora.gir")).unwrap();
    let untidy = tidy.replace("  let h", "let   h");
    let file = folder.file("a.gir", &untidy);
    let content = || std::fs::read_to_string(&file).unwrap();

    let run = gnnc(["fmt", "--check", text(&file)]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    assert!(run.stdout.contains("a.gir"));
    assert_eq!(gnnc(["fmt", "--stdout", text(&file)]).ok(), tidy);
    assert_eq!(content(), untidy, "--check and --stdout change nothing");

    assert_eq!(gnnc(["fmt", text(&file)]).ok(), "");
    assert_eq!(content(), tidy);
    let report = gnnc(["fmt", text(&file), "--format", "json"]).json();
    assert_eq!(report["files"][0]["changed"], false);
    assert_eq!(gnnc(["fmt", "--check", text(&file)]).ok(), "");
    assert_eq!(folder.names(), ["a.gir"], "nothing is left aside");
}

#[test]
fn fmt_leaves_broken_and_linked_files_alone() {
    let folder = Folder::new();
    let broken = folder.file("b.gir", "model { let ");
    refused(1, &["fmt", text(&broken)], &["b.gir"]);
    assert_eq!(std::fs::read_to_string(&broken).unwrap(), "model { let ");

    let tidy = std::fs::read_to_string(example("gcn_cora.gir")).unwrap();
    let file = folder.file("a.gir", tidy.replace("  let h", "let   h"));
    let link = folder.join("link.gir");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    gnnc(["fmt", text(&link)]).ok();
    assert!(link.is_symlink(), "the file is replaced, not the link");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), tidy);
}

#[test]
fn plans_answer_in_text_json_and_a_file() {
    let folder = Folder::new();
    let out = folder.join("plan.json");
    let cora = example("gcn_cora.gir");
    let args = ["plan", &cora, "--gpus", "4", "--out", text(&out)];
    let report = gnnc(args).report();
    assert!(
        report.contains("graph x 4 metis") && report.contains("chosen"),
        "{report}"
    );
    let file = std::fs::read_to_string(&out).unwrap();
    let json = gnnc(args.iter().chain(&["--format", "json"])).ok();
    assert_eq!(json, file);
    let plan = gnnc::ir::plan::Plan::from_json(&json).unwrap();
    assert_eq!(plan.cluster.devices(), 4);
    assert!(plan.choice().is_some());

    let memory = gnnc(["plan", &cora, "--gpus", "4", "--objective", "memory"]).report();
    assert!(memory.contains("smallest peak memory"), "{memory}");
    let cluster = example("clusters/two-a5000-boxes.toml");
    let report = gnnc(["plan", &cora, "--cluster", &cluster]).report();
    assert!(report.contains("2 nodes of 4 x A5000"), "{report}");
    refused(1, &["plan", &cora, "--cluster", "h1000x8"], &["h1000x8"]);
    refused(
        1,
        &["plan", &cora, "--gpus", "7", "--nodes", "2"],
        &["7", "2"],
    );
    refused(1, &["plan", &cora, "--set", "hiden=3"], &["hiden"]);
}

#[test]
fn explanations_are_checked() {
    let cora = example("gcn_cora.gir");
    let report = gnnc(["explain", &cora]).report();
    for part in [
        "as written",
        "rewritten",
        "decouple",
        "not permitted",
        "every step checked",
    ] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
    assert!(!report.contains("WRONG"));
    gnnc(["explain", &cora, "--steps"]).ok();
    let json = gnnc(["explain", &cora, "--format", "json"]).json();
    assert_eq!(json["checks"][0]["holds"], true);
    assert!(
        json["report"]["after"]["seconds"].as_f64() <= json["report"]["before"]["seconds"].as_f64()
    );
    assert!(
        !json["report"]["regions"][0]["rules"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn train_reports_progress_and_a_summary() {
    let cora = example("gcn_cora.gir");
    let report = gnnc(["train", &cora, "--epochs", "40", "--profile"]).report();
    let lines = report
        .lines()
        .filter(|l| l.contains(" ms") || l.contains(" us"))
        .count();
    assert!(lines > 20, "{report}");
    for part in [
        "train loss",
        "test accuracy",
        "epochs         40",
        "step:",
        "sparse",
    ] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
    let json = gnnc(["train", &cora, "--epochs", "40", "--format", "json"]).json();
    assert_eq!(json["epochs"], 40);
    assert_eq!(json["bytes_sent"], json["bytes_predicted"]);
    assert!(json["test_accuracy"].as_f64().unwrap() > 0.5, "{json}");
    for key in [
        "train_loss",
        "val_accuracy",
        "epoch_seconds",
        "peak_memory_bytes",
    ] {
        assert!(json[key].as_f64().unwrap() > 0.0, "{key} of {json}");
    }
    let again = gnnc([
        "train",
        &cora,
        "--epochs",
        "40",
        "--threads",
        "2",
        "--format",
        "json",
    ]);
    assert_eq!(
        again.json()["train_loss"],
        json["train_loss"],
        "the same on any number of threads"
    );
}

#[test]
fn seeds_give_mean_and_deviation() {
    let cora = example("gcn_cora.gir");
    let args = [
        "train", &cora, "--epochs", "5", "--seeds", "3", "--seed", "7",
    ];
    let report = gnnc(args).report();
    assert!(
        report.contains("mean of 3 seeds, standard deviation"),
        "{report}"
    );
    let json = gnnc(args.iter().chain(&["--format", "json"])).json();
    let runs = json["runs"].as_array().unwrap();
    let seeds: Vec<u64> = runs.iter().map(|r| r["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [7, 8, 9]);
    let accuracies = runs.iter().map(|r| r["test_accuracy"].as_f64().unwrap());
    let mean = accuracies.sum::<f64>() / 3.0;
    assert!((json["test_accuracy"].as_f64().unwrap() - mean).abs() < 1e-12);
}

#[test]
fn a_curve_has_the_epochs_that_were_evaluated() {
    let (folder, model) = folder(&ring());
    let curve = folder.join("curve.csv");
    let more = [
        "--epochs",
        "71",
        "--evaluate-every",
        "2",
        "--format",
        "json",
    ];
    let args = ["train", text(&model), "--curve", text(&curve)];
    let json = gnnc(args.iter().chain(&more)).json();
    let text = std::fs::read_to_string(&curve).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("epoch,loss,train_accuracy,val_accuracy,test_accuracy")
    );
    let rows = lines.map(|line| {
        line.split(',')
            .map(|field| field.parse().unwrap())
            .collect()
    });
    let rows: Vec<Vec<f64>> = rows.collect();
    let epochs = rows.iter().map(|row| row[0] as u32);
    assert!(epochs.eq((2..71).step_by(2).chain([71])), "{text}");
    assert_eq!(rows[rows.len() - 1][1], json["train_loss"]);
    let best = rows
        .iter()
        .find(|row| row[0] == json["best_epoch"])
        .unwrap();
    assert_eq!(
        (best[3], best[4]),
        (
            json["val_accuracy"].as_f64().unwrap(),
            json["test_accuracy"].as_f64().unwrap()
        )
    );
}

#[test]
fn traces_and_caches_are_written_where_they_should() {
    let (folder, model) = folder(&ring());
    let (trace, cache) = (folder.join("trace.json"), folder.join("cache"));
    let run = |more: &[&str]| {
        let mut command = command();
        let args = ["train", text(&model), "--trace", text(&trace)];
        command.args(args).args(more).env("GNNC_CACHE", &cache);
        finished(command.output().unwrap()).ok()
    };
    run(&["--no-cache"]);
    assert!(!cache.exists());
    run(&[]);
    assert!(cache.read_dir().unwrap().count() > 0);
    let text = std::fs::read_to_string(&trace).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 10);

    let mut command = command();
    command
        .args(["train", model.to_str().unwrap()])
        .env_remove("GNNC_CACHE");
    command.env("XDG_CACHE_HOME", folder.join("xdg"));
    finished(command.output().unwrap()).ok();
    assert!(folder.join("xdg/gnnc").is_dir());
}

#[test]
fn every_stage_is_emitted() {
    let cora = example("gcn_cora.gir");
    for (stage, part) in [
        ("graph", "param gcn_conv_1.weight"),
        ("forms", "param gcn_conv_1.weight"),
        ("program", "halo-exchange"),
        ("clif", "function "),
        ("cuda", "__global__"),
    ] {
        let args = ["emit", stage, &cora, "--workers", "2"];
        assert!(gnnc(args).ok().contains(part), "{stage}");
        gnnc(args.iter().chain(&["--format", "json"])).json();
    }
}

#[test]
fn epochs_are_timed_without_evaluations() {
    let cora = example("gcn_cora.gir");
    let args = ["bench-epoch", &cora, "--epochs", "4", "--set", "hidden=8"];
    gnnc(args).report();
    let json = gnnc(args.iter().chain(&["--format", "json"])).json();
    for key in ["epoch_seconds", "losses"] {
        assert_eq!(json[key].as_array().unwrap().len(), 4);
    }
    assert!(json["peak_memory_bytes"].as_u64().unwrap() > 0);
    let trained = gnnc([
        "train", &cora, "--epochs", "4", "--set", "hidden=8", "--format", "json",
    ]);
    assert_eq!(trained.json()["train_loss"], json["losses"][3]);
}

#[test]
fn epochs_are_timed_by_turns() {
    let cora = example("gcn_cora.gir");
    let folder = Folder::new();
    let turns = |lines: &str| {
        let lines = std::fs::File::open(folder.file("turns", lines)).unwrap();
        let args = ["bench-epoch", &cora, "--set", "hidden=8", "--interleave"];
        let mut run = command();
        run.args(args).args(["--format", "json"]).stdin(lines);
        finished(run.output().unwrap())
    };
    let text = turns("0\n0.01\n").ok();
    let times: Vec<Vec<f64>> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(times.len(), 2, "{text}");
    assert_eq!(times[0].len(), 1);
    assert!(times[1].iter().sum::<f64>() >= 0.01);
    let failed = turns("soon\n");
    assert_eq!(failed.code, Some(1));
    assert!(
        failed.stdout.contains("expected a number of seconds"),
        "{}",
        failed.stdout
    );
}

#[test]
fn usage_errors_are_the_users() {
    refused(1, &["trian"], &["trian"]);
    refused(1, &["train"], &["FILE"]);
    refused(
        1,
        &["train", "m.gir", "--set", "hidden=many"],
        &["expected a number"],
    );
    refused(
        1,
        &["train", "m.gir", "--workers", "x"],
        &["--workers", "x"],
    );
    for args in [
        &["--help"][..],
        &["--version"],
        &["train", "--help"],
        &["graph", "--help"],
    ] {
        let text = gnnc(args).ok();
        assert!(text.lines().all(|l| l.chars().count() < 100), "{text}");
    }
    assert!(!gnnc(["--help"]).ok().contains("bench-epoch"));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let cora = example("gcn_cora.gir");
    for args in [
        &["train", &cora, "--epochs", "30"][..],
        &["emit", "clif", &cora],
        &["plan", &cora],
    ] {
        let mut command = command();
        command
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let run = finished(child.wait_with_output().unwrap());
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    }
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let run = finished(
        command()
            .args(["plan", &cora])
            .stdout(full)
            .output()
            .unwrap(),
    );
    run.fails(2, &["cannot write standard output"]);
}
