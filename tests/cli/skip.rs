//! Skip-broadcast: planned, run, refused.

use crate::support::{Folder, example, gnnc, refused, text};
use gnnc::ir::program::trace::{Decision, Trace};
use serde_json::{Value, json};

const SKIPPING: [&str; 6] = [
    "--workers",
    "3",
    "--placement",
    "skip-broadcast",
    "--allow",
    "stale",
];

fn planned(more: &[&str]) -> Value {
    let cora = example("gcn_cora.gir");
    let args = ["plan", &cora, "--cluster", "a5000x4", "--format", "json"];
    gnnc(args.iter().chain(more)).json()
}

fn candidate(plan: &Value) -> &Value {
    let candidates = plan["candidates"].as_array().unwrap();
    let found = candidates
        .iter()
        .find(|c| c["placement"] == "skip-broadcast");
    found.unwrap()
}

#[test]
fn what_skipping_would_win_is_said() {
    let plan = planned(&[]);
    let skipping = candidate(&plan);
    assert_eq!(skipping["allowed"], false);
    assert_eq!(skipping["relaxations"], json!(["stale-embeddings"]));
    let reason = skipping["reason"].as_str().unwrap();
    assert!(reason.starts_with("needs --allow stale; "), "{reason}");
    assert!(
        reason.ends_with("times as fast as the best allowed candidate"),
        "{reason}"
    );
    let allowed = planned(&["--allow", "stale"]);
    let allowed = candidate(&allowed);
    assert_eq!(allowed["allowed"], true);
    // With METIS, the rows of the cut are fewer than whole blocks.
    assert_eq!(allowed["parameters"]["skip"], "adaptive:1/cut");
    assert_eq!(allowed["parameters"]["partitioner"], "metis");
    let whole = planned(&["--allow", "stale", "--pin", "skip=adaptive:1"]);
    let whole = candidate(&whole);
    assert!(allowed["bytes"].as_u64() < whole["bytes"].as_u64());
    let (cut, allowed) = (allowed, whole);
    assert_eq!(allowed["parameters"]["skip"], "adaptive:1");
    let broadcast = planned(&["--pin", "placement=broadcast,ranks=4"]);
    let broadcast = &broadcast["candidates"][0];
    // Half of the forward messages, a quarter of the rows of all layers, is skipped.
    assert!(allowed["bytes"].as_u64() < broadcast["bytes"].as_u64());
    assert!(allowed["peak_memory_bytes"].as_u64() > broadcast["peak_memory_bytes"].as_u64());
    assert!(cut["peak_memory_bytes"].as_u64() < broadcast["peak_memory_bytes"].as_u64());
    // Clipping takes time but sends no message.
    let clipped = planned(&["--allow", "stale", "--pin", "skip=adaptive:1/clip:0.5"]);
    let clipped = candidate(&clipped);
    assert_eq!(clipped["parameters"]["skip"], "adaptive:1/clip:0.5");
    assert_eq!(clipped["bytes"], allowed["bytes"]);
    assert!(clipped["epoch_seconds"].as_f64() > allowed["epoch_seconds"].as_f64());
    let gap = planned(&[
        "--pin",
        "placement=skip-broadcast,skip=gap:0.01,ranks=4",
        "--allow",
        "stale",
    ]);
    let gap = candidate(&gap);
    assert!(
        gap["bytes"].as_u64() >= broadcast["bytes"].as_u64(),
        "nobody knows before"
    );
    assert!(
        gap["reason"]
            .as_str()
            .unwrap()
            .contains("priced without skipping")
    );
}

#[test]
fn a_rule_of_a_plan_is_run() {
    let folder = Folder::new();
    let file = folder.join("plan.json");
    let file = text(&file);
    for rule in [
        "fixed:3/cut",
        "fixed:3/stop",
        "fixed:3/clip:0.01",
        "fixed:3",
    ] {
        let pin = format!("placement=skip-broadcast,ranks=4,skip={rule}");
        a_rule_is_run(file, &pin, rule);
    }
    let written = std::fs::read_to_string(file).unwrap();
    for (rule, parts) in [
        ("\"adaptive:1\"", &["does not verify", "`bytes`"][..]),
        ("\"often:1\"", &["the rule `often:1`", "adaptive:EPOCHS"]),
        ("null", &["does not verify"]),
    ] {
        let edited = written.replacen("\"skip\": \"fixed:3\"", &format!("\"skip\": {rule}"), 1);
        assert_ne!(edited, written);
        let edited = folder.file("edited.json", edited);
        refused(1, &["train", text(&edited), "--epochs", "1"], parts);
    }
}

fn a_rule_is_run(file: &str, pin: &str, rule: &str) {
    let plan = planned(&["--pin", pin, "--allow", "stale", "--out", file]);
    let choice = candidate(&plan);
    assert_eq!(choice["parameters"]["skip"], rule);
    let run = gnnc(["train", file, "--epochs", "8", "--format", "json"]).json();
    let number = |key: &str| run[key].as_u64().unwrap();
    assert_eq!(number("bytes_sent"), number("bytes_predicted"));
    // Two periods: the mean matches the plan.
    assert_eq!(number("bytes_sent"), 8 * choice["bytes"].as_u64().unwrap());
    assert_eq!(4 * number("bytes_skipped"), 3 * number("bytes_skippable"));
    for layer in run["staleness"]["layers"].as_array().unwrap() {
        let ages = layer["ages"].as_object().unwrap();
        assert_eq!(ages.keys().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
        assert!(ages.values().all(|rows| *rows == ages["0"]), "{layer}");
    }
    let report = gnnc(["train", file, "--epochs", "4"]).report();
    for part in [
        "skipped",
        "(75.00 %)",
        "ages of rows in epochs: 0 (25.00 %), 1 (25.00 %)",
    ] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
}

/// A run that resumes from a checkpoint of another kind of training sends all copies again, and
/// says so.
#[test]
fn a_run_without_its_copies_says_so() {
    let folder = Folder::new();
    let state = folder.join("state");
    let cora = example("gcn_cora.gir");
    let first = [
        "train",
        &cora,
        "--epochs",
        "3",
        "--checkpoint",
        text(&state),
    ];
    gnnc(first).report();
    let on = ["train", &cora, "--epochs", "5", "--resume", text(&state)];
    let report = gnnc(on.iter().chain(&SKIPPING)).report();
    assert!(report.contains("all sent again in epoch 4"), "{report}");
    // A run that continues in another way needs no copies.
    let saved = [
        "train",
        &cora,
        "--epochs",
        "5",
        "--checkpoint",
        text(&state),
    ];
    gnnc(saved.iter().chain(&SKIPPING)).report();
    gnnc(["train", &cora, "--epochs", "6", "--resume", text(&state)]).report();
}

#[test]
fn rules_that_mean_nothing_are_refused() {
    let cora = example("gcn_cora.gir");
    let train = |rule: &str, parts: &[&str]| {
        let args = ["train", &cora, "--skip", rule];
        let args: Vec<&str> = args.into_iter().chain(SKIPPING).collect();
        refused(1, &args, parts);
    };
    for rule in [
        "fixed:-1",
        "adaptive:1.5",
        "gap:-0.1",
        "gap:nan",
        "gap:0.1:0",
        "fixed:1/clip:0",
        "fixed:1/clip:-1",
        "fixed:1/clip:nan",
        "clip:1",
        "sometimes:1",
        "",
    ] {
        train(rule, &["fixed:EPOCHS, adaptive:EPOCHS, gap:DISTANCE"]);
    }
    let pin = ["plan", &cora, "--pin", "skip=sometimes"];
    refused(1, &pin, &["skip=sometimes", "adaptive:EPOCHS"]);
    let pin = ["plan", &cora, "--pin", "stale_grad=stop"];
    refused(1, &pin, &["stale_grad=through", "skip=RULE/stop"]);
    let graph = ["train", &cora, "--workers", "2", "--skip", "fixed:1"];
    refused(
        1,
        &graph,
        &["placement graph", "skips no exchange", "skip-broadcast"],
    );
    let clipped = ["train", &cora, "--workers", "2", "--skip", "fixed:0/clip:1"];
    let broadcast = clipped.into_iter().chain(["--placement", "broadcast"]);
    let broadcast: Vec<&str> = broadcast.collect();
    refused(
        1,
        &broadcast,
        &[
            "fixed:0/clip:1 with placement broadcast",
            "skip-broadcast",
            "leave it out, or train with placement skip-broadcast",
        ],
    );
    let stale = [
        "train",
        &cora,
        "--workers",
        "2",
        "--placement",
        "skip-broadcast",
    ];
    refused(1, &stale, &["--allow stale", "not compute exactly"]);
    let far = ["train", &cora, "--epochs", "2", "--skip", "gap:1.5"];
    let run = gnnc(far.iter().chain(&SKIPPING));
    assert!(
        run.stderr.contains("warning: the rule gap:1.5"),
        "{}",
        run.stderr
    );
    let pin = "placement=skip-broadcast,skip=gap:2";
    let run = gnnc([
        "plan", &cora, "--gpus", "2", "--pin", pin, "--allow", "stale",
    ]);
    assert!(
        run.stderr.contains("warning: the rule gap:2"),
        "{}",
        run.stderr
    );
}

/// The trace holds decisions by values: the distance of a block from what was sent last, and
/// its bound.
#[test]
fn decisions_by_distance_are_traced() {
    let (folder, cora) = (Folder::new(), example("gcn_cora.gir"));
    let file = folder.join("trace.json");
    for (rule, bound) in [
        ("gap:1000000", 1e6),
        ("gap:0.000001", f64::from(1e-6f32)),
        ("fixed:1", 0.0),
    ] {
        let more = ["--set", "dropout=0", "--skip", rule, "--trace", text(&file)];
        let args = ["train", &cora, "--epochs", "12"];
        // Such large distances are warned of.
        let run = gnnc(args.iter().chain(&SKIPPING).chain(&more));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let trace = Trace::from_chrome_json(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let decisions: Vec<Decision> = trace.events.iter().filter_map(|e| e.decision).collect();
        // Where values decide, three ranks decide in each layer and epoch.
        assert_eq!(decisions.len() % 36, 0, "{rule}");
        assert_eq!(decisions.is_empty(), bound == 0.0, "{rule}");
        for decision in &decisions {
            assert!((decision.bound - bound).abs() <= 1e-9 * bound);
            let near = decision.gap.is_some_and(|gap| f64::from(gap) <= bound);
            assert_eq!(decision.sent, !near, "{decision:?}");
        }
        let first = decisions.iter().filter(|d| d.gap.is_none()).count();
        assert_eq!(first, decisions.len() / 12);
        let sent = decisions.iter().filter(|d| d.sent).count();
        assert_eq!(
            sent,
            if bound > 1.0 { first } else { decisions.len() },
            "{rule}"
        );
    }
}
