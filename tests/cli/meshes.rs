//! Meshes of workers: groups that divide the vertices, and the workers of a group the columns.

use crate::support::{Folder, example, gnnc, refused, text};
use serde_json::Value;

fn train<'a>(model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let first = ["train", model, "--workers", "4", "--epochs", "1"];
    [&first[..], more].concat()
}

#[test]
fn slices_that_make_no_mesh_are_refused() {
    let model = example("gcn_cora.gir");
    for (options, reason) in [
        (
            &["--placement", "graph", "--slices", "2"][..],
            "found --slices 2 with placement graph, which does not divide the columns of rows; leave it out, or train with placement \
             tensor, tensor-decoupled, push-pull or mixed",
        ),
        (
            &["--placement", "tensor", "--slices", "3"],
            "found 3 slices of the columns for 4 workers, expected a number that divides them",
        ),
        (
            &["--placement", "tensor", "--slices", "2/apart"],
            "found --slices 2/apart on the whole graph, where consecutive workers have the slices of a group",
        ),
        (
            &["--placement", "tensor", "--slices", "0"],
            "found `0`, expected a number of slices",
        ),
    ] {
        refused(1, &train(&model, options), &[reason]);
    }
}

/// Of each mesh, the plan says how many bytes a run sends, and the run of the plan is the one of the options.
#[test]
fn meshes_are_planned_and_run() {
    let (model, folder) = (example("gcn_cora.gir"), Folder::new());
    let out = folder.join("plan.json");
    for slices in ["1", "2", "4"] {
        let pin = "ranks=4,placement=tensor,partitioner=metis,chunks=1";
        let plan = [
            "plan",
            &model,
            "--cluster",
            "nodes=2 gpus=2 gpu=t4",
            "--pin",
            pin,
        ];
        let last = ["--slices", slices, "--out", text(&out)];
        gnnc(plan.iter().chain(&last)).report();
        let plan: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
        let candidates = plan["candidates"].as_array().unwrap();
        assert_eq!(candidates.len(), 1, "{slices}");
        let knobs = [
            "--placement",
            "tensor",
            "--slices",
            slices,
            "--partitioner",
            "metis",
        ];
        let json = ["--evaluate-every", "1", "--format", "json"];
        let by_hand = gnnc(train(&model, &[&knobs[..], &json].concat())).json();
        assert_eq!(by_hand["bytes_sent"], candidates[0]["bytes"], "{slices}");
        let of_plan = gnnc(["train", text(&out), "--epochs", "1", "--format", "json"]).json();
        assert_eq!(of_plan["train_loss"], by_hand["train_loss"], "{slices}");
        assert_eq!(of_plan["bytes_sent"], by_hand["bytes_sent"], "{slices}");
    }
}

/// Every factorisation of the workers is a candidate, if groups do not lie across nodes.
#[test]
fn plans_try_all_meshes() {
    let model = example("gcn_reddit.gir");
    let found = |cluster: &str| -> Vec<String> {
        let pin = "placement=tensor,partitioner=metis";
        let plan = [
            "plan",
            &model,
            "--cluster",
            cluster,
            "--pin",
            pin,
            "--format",
            "json",
        ];
        let plan = gnnc(plan).json();
        let all = plan["candidates"].as_array().unwrap().iter();
        let ranks = plan["cluster"]["nodes"].as_u64().unwrap() * 4;
        let of_all = all.filter(|one| one["parameters"]["ranks"].as_u64() == Some(ranks));
        let slices = of_all.filter_map(|one| one["parameters"]["slices"].as_str());
        let mut slices: Vec<String> = slices.map(str::to_owned).collect();
        slices.sort_unstable_by_key(|slices| slices.parse::<u32>().unwrap());
        slices
    };
    assert_eq!(found("nodes=4 gpus=4 gpu=t4"), ["2", "4", "8"]);
    assert_eq!(found("nodes=3 gpus=4 gpu=t4"), ["2", "4"]);
}
