//! Timelines: written, read back, compared.

use crate::support::{Folder, example, gnnc, plan_runs, refused, text, train_two};
use gnnc::ir::program::trace::{Event, Kind, Phase, Trace};
use std::collections::BTreeSet;
use std::path::Path;

/// A predicted and a measured trace of the same program: Cora on two ranks.
fn traces(folder: &Folder) -> [String; 2] {
    let cora = example("gcn_cora.gir");
    let [predicted, measured] = ["p.json", "m.json"].map(|name| folder.join(name));
    let args = [
        "plan",
        &cora,
        "--cluster",
        "cpu",
        "--pin",
        "ranks=2,partitioner=metis,interior=yes",
    ];
    gnnc(args.iter().chain(&["--trace", text(&predicted)])).report();
    let by = ["--partitioner", "metis"];
    let run = ["--interior", "--epochs", "5", "--trace", text(&measured)];
    train_two(&[&by[..], &run].concat()).report();
    [predicted, measured].map(|path| text(&path).to_owned())
}

fn read(path: &str) -> Trace {
    let text = std::fs::read_to_string(Path::new(path)).unwrap();
    Trace::from_chrome_json(&text).unwrap()
}

#[test]
fn predicted_and_measured_timelines_are_of_one_program() {
    let folder = Folder::new();
    let [predicted, measured] = traces(&folder).map(|path| read(&path));
    assert_eq!(
        (predicted.kind, measured.kind),
        (Kind::Predicted, Kind::Measured)
    );
    assert_eq!((measured.ranks, measured.graph.as_str()), (2, "cora"));
    let places = |trace: &Trace| -> BTreeSet<(Phase, u32, String, String)> {
        let place = |e: &Event| (e.phase, e.rank, e.at.clone(), e.name.clone());
        trace.events.iter().map(place).collect()
    };
    assert_eq!(places(&predicted), places(&measured));
    let sent = |trace: &Trace, epoch| -> u64 {
        let events = trace.events.iter();
        let step = events.filter(|e| e.phase == Phase::Step && e.epoch == epoch);
        step.map(|e| e.bytes_sent).sum()
    };
    assert_eq!(sent(&predicted, 1), sent(&measured, 1));
    let epochs = measured.events.iter().map(|e| e.epoch).max();
    assert_eq!(epochs, Some(5));
}

/// Stages in a ring too, with sender, receiver and chunk of every message.
#[test]
fn timelines_of_runs_of_layers_are_of_one_program() {
    let folder = Folder::new();
    let cora = example("gcnii_cora.gir");
    let [predicted, measured] = ["p.json", "m.json"].map(|name| folder.join(name));
    let six = ["--set", "depth=6", "--allow", "stale"];
    plan_runs(&[&six[..], &["--trace", text(&predicted)]].concat()).report();
    let train = ["train", &cora, "--workers", "3", "--placement", "pipeline"];
    let ways = ["--chunks", "4", "--virtual-stages", "2", "--epochs", "10"];
    let trace = ["--trace", text(&measured)];
    gnnc([&train[..], &ways, &six, &trace].concat()).report();
    let [predicted, measured] = [predicted, measured].map(|path| read(text(&path)));
    let events = |trace: &Trace| -> BTreeSet<String> {
        let event = |e: &Event| {
            let place = (e.phase, e.rank, e.stage, &e.at, e.iteration);
            format!("{place:?} {} {:?}", e.name, e.peer)
        };
        trace.events.iter().map(event).collect()
    };
    let found = events(&measured);
    assert_eq!(events(&predicted), found);
    for peer in ["send Some(To(0))", "receive Some(From(2))"] {
        assert!(found.iter().any(|event| event.ends_with(peer)), "{peer}");
    }
}

#[test]
fn traces_are_laid_side_by_side() {
    let folder = Folder::new();
    let [predicted, measured] = traces(&folder);
    let report = gnnc(["trace", "diff", &predicted, &measured]).report();
    for part in [
        "predicted, gcn on cora",
        "measured, gcn on cora, 2 ranks",
        "compute",
        "waiting for other ranks",
        "largest differences",
        "setup",
        "eval",
    ] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
    let short = gnnc(["trace", "diff", &predicted, &measured, "--top", "2"]).report();
    assert!(short.lines().count() < report.lines().count(), "{short}");
    assert!(short.contains("largest differences, 2 of "), "{short}");

    let json = gnnc(["trace", "diff", &measured, &measured, "--format", "json"]).json();
    assert_eq!(json["a"], json["b"]);
    for row in json["rows"].as_array().unwrap() {
        assert_eq!(row["seconds"][0], row["seconds"][1], "{row}");
    }
    let step = &json["totals"][1];
    assert_eq!(
        (step["phase"].as_str(), &step["runs"][0]),
        (Some("step"), &5.into())
    );
    assert!(step["bytes"][0].as_u64().unwrap() > 0, "{step}");
}

#[test]
fn files_that_are_no_traces_are_refused() {
    let folder = Folder::new();
    let good = traces(&folder)[1].clone();
    let content = std::fs::read_to_string(&good).unwrap();
    let broken = [
        ("empty", String::new(), "not JSON"),
        ("half", content[..content.len() / 2].to_owned(), "not JSON"),
        (
            "other",
            "{\"traceEvents\": []}".to_owned(),
            "is not a trace of gnnc",
        ),
        (
            "old",
            content.replace("\"version\":1", "\"version\":0"),
            "version 0",
        ),
        (
            "rank",
            content.replace("\"ranks\":2", "\"ranks\":1"),
            "expected a rank below 1",
        ),
        (
            "time",
            content.replace("\"dur\":", "\"dur\":-"),
            "expected numbers",
        ),
        (
            "key",
            content.replace("\"at\":", "\"to\":"),
            "missing field `at`",
        ),
    ];
    for (name, content, message) in broken {
        let file = folder.file(&format!("{name}.json"), content);
        refused(1, &["trace", "diff", text(&file), &good], &[name, message]);
        refused(1, &["trace", "diff", &good, text(&file)], &[name, message]);
    }
    let binary = folder.file("binary.json", [0xff, 0xfe, 0x00]);
    refused(1, &["trace", "diff", &good, text(&binary)], &["not UTF-8"]);
    refused(1, &["trace", "diff", &good, "none.json"], &["none.json"]);
    let cora = example("gcn_cora.gir");
    refused(
        1,
        &["plan", &cora, "--trace", text(&folder.join("no/t.json"))],
        &["no folder"],
    );
}
