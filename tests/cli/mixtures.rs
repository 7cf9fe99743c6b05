//! Mixed placements that start like push-pull: where they win, and how plans describe them.

use crate::support::{Folder, example, gnnc, refused, text};
use gnnc::ir::plan::{Layout, Placement, Plan};

const MODEL: &str = "gat_ppr_citeseer.gir";
const CLUSTER: [&str; 4] = ["--cluster", "a5000x8", "--gpus", "8"];

/// The plan, read back from a file.
fn planned(folder: &Folder, model: &str, more: &[&str]) -> Plan {
    let model = example(model);
    let out = folder.join("plan.json");
    let args = [&["plan", &model, "--out", text(&out)], &CLUSTER[..], more].concat();
    gnnc(args).report();
    Plan::from_json(&std::fs::read_to_string(out).unwrap()).unwrap()
}

/// The bytes that an epoch of a plan sends when it runs.
fn sent(folder: &Folder, plan: &Plan) -> u64 {
    let file = folder.file("run.json", plan.to_json().unwrap());
    let run = gnnc(["train", text(&file), "--epochs", "1", "--format", "json"]).json();
    run["bytes_sent"].as_u64().unwrap()
}

/// A wide layer as push-pull, attention by rows, propagation on slices: faster and fewer bytes than anything else
/// on 8 ranks. Checked by simulation and by running every candidate.
#[test]
fn beginning_with_push_pull_is_best_by_time_and_by_bytes() {
    let folder = Folder::new();
    for objective in ["time", "bytes"] {
        let goal = ["--objective", objective];
        let plan = planned(&folder, MODEL, &[&goal[..], &["--pin", "ranks=8"]].concat());
        let best = plan.choice().unwrap();
        assert_eq!(best.name(), "mixed x 8 metis");
        assert_eq!(best.parameters.knobs.features, Layout::Columns);
        let layouts = &best.parameters.knobs.layouts;
        assert!(layouts.contains(&Layout::Rows) && layouts.contains(&Layout::Columns));
        let without = planned(
            &folder,
            MODEL,
            &[&goal[..], &["--pin", "features=rows,ranks=8"]].concat(),
        );
        let rivals = plan.candidates[1..].iter().filter(|c| c.allowed);
        for other in rivals.chain(&without.candidates) {
            let behind = match objective {
                "time" => best.epoch_seconds < other.epoch_seconds,
                _ => best.bytes < other.bytes,
            };
            assert!(behind, "{objective}: {}", other.name());
        }
        if objective == "bytes" {
            let least = sent(&folder, &plan);
            assert_eq!(least, best.bytes.0);
            for placement in ["graph", "tensor", "broadcast", "push-pull", "mixed"] {
                let mut pin = format!("placement={placement},ranks=8");
                if placement == "mixed" {
                    pin += ",features=rows";
                }
                let plan = planned(&folder, MODEL, &[&goal[..], &["--pin", &pin]].concat());
                assert_eq!(plan.choice().unwrap().placement.name(), placement);
                let more = sent(&folder, &plan);
                assert!(
                    more > least,
                    "{placement} sends {more}, the mixture {least}"
                );
            }
        }
    }
}

#[test]
fn reports_say_where_the_features_lie() {
    let model = example(MODEL);
    let args = [&["plan", &model], &CLUSTER[..]].concat();
    let report = gnnc(args).report();
    insta::assert_snapshot!("features", report);
}

/// The layout of the features is part of a plan. Changing it gives another plan; for placements
/// other than mixed, the name implies it.
#[test]
fn a_plan_that_says_otherwise_is_refused() {
    let folder = Folder::new();
    let fails = |plan: &Plan, parts: &[&str]| {
        let file = folder.file("edited.json", plan.to_json().unwrap());
        gnnc(["train", text(&file), "--epochs", "1"]).fails(1, parts);
    };
    let pin = ["--pin", "placement=mixed,ranks=2,features=columns"];
    let plan = planned(&folder, "gcn_citeseer.gir", &pin);
    let mut edited = plan.clone();
    edited.candidates[0].parameters.knobs.features = Layout::Rows;
    fails(&edited, &["`bytes` of mixed x 2", "expected"]);
    let mut edited = plan.clone();
    edited.candidates[0].parameters.knobs.layouts.pop();
    fails(
        &edited,
        &["`layouts` of mixed x 2", "each `rows` or `columns`"],
    );
    let mut edited = planned(
        &folder,
        "gcn_citeseer.gir",
        &["--pin", "placement=graph,ranks=2"],
    );
    edited.candidates[0].parameters.knobs.features = Layout::Columns;
    let parts = [
        "`feature_layout` of graph x 2",
        "is columns, expected none, except in a mixture",
    ];
    fails(&edited, &parts);
}

/// A model that normalizes features row by row before multiplying them cannot start this way.
#[test]
fn what_cannot_begin_so_is_named() {
    let folder = Folder::new();
    let model = "
        graph g { vertices = 2_000  edges = 9_000  features = 30  classes = 4 }
        model m() on g {
          let h = x |> layer_norm |> gcn_conv(8)
          loss cross_entropy(h |> gcn_conv(classes), labels, on = train)
        }
        train { optimizer = adam(lr = 0.01) }";
    let file = folder.file("normed.gir", model);
    let plan = |more: &[&str]| {
        let args = [&["plan", text(&file)], &CLUSTER[..], more].concat();
        let json = gnnc([&args[..], &["--format", "json"]].concat()).plan();
        Plan::from_json(&json.to_string()).unwrap()
    };
    let pinned = plan(&["--pin", "features=columns"]);
    assert!(pinned.candidates.is_empty() && !pinned.rejected.is_empty());
    for rejected in &pinned.rejected {
        assert_eq!(rejected.placement, Placement::Mixed);
        assert!(rejected.reason.contains("in layer_norm_1 reads columns"));
        assert!(rejected.reason.contains("without `feature_layout`"));
    }
    // Other mixtures are found for it all the same.
    let free = plan(&[]);
    assert!(
        free.rejected
            .iter()
            .all(|r| r.placement != Placement::Mixed)
    );
    assert!(free.choice().is_some());
    let model = text(&file);
    let pin = |pin| [&["plan", model], &CLUSTER[..], &["--pin", pin]].concat();
    refused(
        1,
        &pin("features=some"),
        &["features= one of rows, columns"],
    );
    let parts = ["--pin leaves no candidate", "features= needs a mixture"];
    refused(1, &pin("features=columns,placement=tensor"), &parts);
}

/// Plans that differ only in layouts are different.
#[test]
fn differences_name_the_layouts() {
    let folder = Folder::new();
    let file = |features: &str| {
        let pin = format!("placement=mixed,ranks=8,features={features},partitioner=metis");
        let plan = planned(&folder, MODEL, &["--pin", &pin]);
        folder.file(features, plan.to_json().unwrap())
    };
    let (rows, columns) = (file("rows"), file("columns"));
    let report = gnnc(["diff", text(&rows), text(&columns)]).report();
    let line =
        "training rows columns columns, evaluation rows columns -> features columns, training rows";
    assert!(report.contains(line), "{report}");
}

/// A model that chunks do not change is not listed with chunks.
#[test]
fn chunks_that_cut_nothing_are_not_listed() {
    let folder = Folder::new();
    let words = "
        graph g { vertices = 2_000  edges = 9_000  features = 30  classes = 4 }
        model m() on g {
          loss cross_entropy(x |> linear(8) |> relu |> linear(classes), labels, on = train)
        }
        train { optimizer = adam(lr = 0.01) }";
    let file = folder.file("words.gir", words);
    let names = |more: &[&str]| {
        let args = [
            &["plan", text(&file), "--format", "json"],
            &CLUSTER[..],
            more,
        ]
        .concat();
        let plan = Plan::from_json(&gnnc(args).ok()).unwrap();
        let names = plan.candidates.iter().map(|c| c.name());
        names
            .filter(|n| n.starts_with("tensor x 8 ") && !n.contains("slices"))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["tensor x 8 range"]);
    // A pinned candidate is listed even so.
    assert_eq!(names(&["--pin", "chunks=4"]), ["tensor x 8 hash / 4"]);
}
