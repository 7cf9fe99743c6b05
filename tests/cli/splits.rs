//! Partitions for sampled batches: what is reported of them, who refuses them, and that plans and runs make the same.

use crate::support::{Folder, example, gnnc, refused, text};
use serde_json::Value;
use std::path::Path;

fn partition(graph: &str, partitioner: &str, more: &[&str]) -> Value {
    let args = ["graph", "partition", graph, "--parts", "4", "--partitioner"];
    let args = [&args[..], &[partitioner, "--format", "json"], more].concat();
    gnnc(args).json()
}

#[test]
fn parts_by_splits_are_even_in_all_that_they_balance() {
    let batches = ["--fanouts", "10,10", "--batch", "64"];
    for graph in ["cora", "squirrel", "minesweeper"] {
        let file = example(&format!("data/{graph}.npz"));
        let found = partition(&file, "metis-splits", &batches);
        let stats = gnnc(["graph", "stats", &file, "--format", "json"]).json();
        let sum = |key: &str| -> u64 {
            let loads = found["loads"].as_array().unwrap().iter();
            loads.map(|load| load[key].as_u64().unwrap()).sum()
        };
        let split = serde_json::json!([sum("train"), sum("val"), sum("test")]);
        assert_eq!(stats["split"], split);
        // By 5 %, or by the vertex with the most edges.
        let vertex = stats["max_degree"].as_f64().unwrap() / (sum("edges") as f64 / 4.0);
        for (key, most) in [
            ("vertices", 0.05),
            ("edges", vertex.max(0.05)),
            ("train", 0.05),
            ("val", 0.05),
            ("test", 0.05),
        ] {
            let imbalance = found["imbalance"][key].as_f64().unwrap();
            assert!(
                imbalance < (1.0 + most) * 1.01,
                "{graph} {key}: {imbalance}"
            );
        }
        assert_eq!(found["imbalance"]["edges"], found["edge_balance"]);
        let expected = found["remote_rows"]["expected"].as_f64().unwrap();
        let counted = found["remote_rows"]["counted"].as_f64().unwrap();
        assert!(
            (expected - counted).abs() < 0.04,
            "{graph}: {expected} {counted}"
        );
        let dealt = partition(&file, "hash", &batches);
        let dealt = dealt["remote_rows"]["counted"].as_f64().unwrap();
        assert!(counted < 0.85 * dealt, "{graph}: {counted} {dealt}");
    }
}

/// The more there is to balance, the further METIS stays from it; but types are far more even than without.
#[test]
fn types_of_vertices_are_balanced() {
    let aifb = example("data/aifb_types.npz");
    let worst = |partitioner| {
        let found = partition(&aifb, partitioner, &[]);
        let types = found["type_imbalance"].as_object().unwrap();
        assert_eq!(types.len(), 9, "{types:?}");
        types.values().filter_map(Value::as_f64).fold(1.0, f64::max)
    };
    let (even, uneven) = (worst("metis-splits"), worst("metis"));
    assert!(even < 1.5 && uneven > 2.0, "{even} {uneven}");
    let args = ["graph", "partition", &aifb, "--parts", "2"];
    assert!(gnnc(args).report().contains("of literal"));
}

#[test]
fn blocks_say_how_they_grow() {
    let cora = example("data/cora.npz");
    let said = |partitioner, more: &[&str]| {
        let found = partition(&cora, partitioner, more);
        found["remark"].as_str().unwrap().to_owned()
    };
    let all = said("blocks", &[]);
    assert!(
        all.starts_with("2 hops around 1640 labeled vertices;"),
        "{all}"
    );
    let three = ["--fanouts", "5,5,5", "--batch", "20"];
    let train = said("blocks-train", &three);
    assert_eq!(train, "3 hops around 140 training vertices");
    let args = [
        "graph",
        "partition",
        &cora,
        "--parts",
        "2",
        "--partitioner",
        "blocks-train",
    ];
    let report = gnnc(args.iter().chain(&three)).report();
    for part in [
        "2 by blocks-train",
        "largest / mean",
        "% expected",
        "over 4 batches",
    ] {
        assert!(report.contains(part), "{report}");
    }
}

#[test]
fn graphs_without_what_is_needed_are_refused() {
    let folder = Folder::new();
    let plain = folder.file("plain.csv", "0,1\n1,2\n2,3\n3,0\n");
    let of = |partitioner| {
        let args = [
            "graph",
            "partition",
            text(&plain),
            "--parts",
            "2",
            "--partitioner",
        ];
        [&args[..], &[partitioner]].concat()
    };
    let hint = "another partitioner, such as metis";
    refused(
        1,
        &of("blocks"),
        &["without training, validation or test vertices", hint],
    );
    refused(1, &of("blocks-train"), &["without training vertices", hint]);
    // Nothing to balance but vertices and edges.
    gnnc(of("metis-splits")).report();
    let batches = ["--fanouts", "2", "--batch", "2"];
    let args = [&of("hash")[..], &batches].concat();
    refused(1, &args, &["no training vertices", "--fanouts"]);
    refused(
        1,
        &[&of("hash")[..], &["--fanouts", "2"]].concat(),
        &["--batch"],
    );
    refused(
        1,
        &[&of("hash")[..], &["--batch", "2"]].concat(),
        &["--fanouts"],
    );
    let solubility = example("data/solubility.npz");
    let args = ["graph", "partition", &solubility, "--parts", "2"];
    refused(
        1,
        &[&args[..], &batches].concat(),
        &["named sets of edges", "graphs"],
    );
}

/// A model of three layers on Cora.
const DEEP: &str = "graph cora = \"cora.npz\"
model deep(hidden = 8) on cora {
  let h = x |> sage_conv(hidden) |> relu |> sage_conv(hidden) |> relu
  loss cross_entropy(h |> sage_conv(classes), labels, on = train)
}
train {
  optimizer = adam(lr = 0.01)
  epochs = 2
  batch = 20
  fanouts = [3, 3, 3]
  allow = [sample]
}
";

/// Makes the first candidate of this kind the choice of a plan in a file.
fn choose(file: &Path, kind: impl Fn(&Value) -> bool) {
    let mut plan: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let found = plan["candidates"].as_array().unwrap().iter().position(kind);
    plan["chosen"] = found.unwrap().into();
    std::fs::write(file, plan.to_string()).unwrap();
}

/// A plan for the whole graph trains on it, though the model says how its batches are.
#[test]
fn a_plan_without_batches_trains_on_the_whole_graph() {
    let folder = Folder::new();
    std::fs::copy(example("data/cora.npz"), folder.join("cora.npz")).unwrap();
    let model = folder.file("deep.gir", DEEP);
    let exact = folder.file("exact.gir", DEEP.replace("  allow = [sample]\n", ""));
    let out = folder.join("plan.json");
    let pin = "placement=push-pull,ranks=2,partitioner=hash";
    let plan = [
        "plan",
        text(&model),
        "--gpus",
        "2",
        "--cluster",
        "cpu",
        "--pin",
        pin,
    ];
    gnnc(plan.iter().chain(&["--out", text(&out)])).ok();
    choose(&out, |candidate| {
        candidate["parameters"]["sampling"].is_null()
    });
    let run = gnnc(["train", text(&out), "--check", "bytes", "--format", "json"]).json();
    let direct = [
        "train",
        text(&exact),
        "--workers",
        "2",
        "--placement",
        "push-pull",
    ];
    let direct = gnnc(
        direct
            .iter()
            .chain(&["--partitioner", "hash", "--format", "json"]),
    )
    .json();
    assert_eq!(run["train_loss"], direct["train_loss"]);
}

/// A run of a plan fails if its partition is not the plan's: bytes would differ.
#[test]
fn plans_and_runs_make_the_same_partition() {
    let folder = Folder::new();
    std::fs::copy(example("data/cora.npz"), folder.join("cora.npz")).unwrap();
    let model = folder.file("deep.gir", DEEP);
    let (model, out) = (text(&model), folder.join("plan.json"));
    for partitioner in ["metis-splits", "blocks", "blocks-train"] {
        for placement in ["minibatch", "push-pull"] {
            let pin = format!("placement={placement},ranks=3");
            let plan = [
                "plan",
                model,
                "--gpus",
                "3",
                "--cluster",
                "cpu",
                "--pin",
                &pin,
            ];
            let more = ["--partitioner", partitioner, "--out", text(&out)];
            gnnc(plan.iter().chain(&more)).ok();
            choose(&out, |candidate| {
                !candidate["parameters"]["sampling"].is_null()
            });
            let train = ["train", text(&out), "--check", "bytes"];
            let json = ["--format", "json"];
            let run = gnnc(train.iter().chain(&json)).json();
            let direct = ["train", model, "--workers", "3", "--placement", placement];
            let direct = gnnc(
                direct
                    .iter()
                    .chain(&["--partitioner", partitioner])
                    .chain(&json),
            );
            assert_eq!(
                run["train_loss"],
                direct.json()["train_loss"],
                "{partitioner} {placement}"
            );
        }
    }
}

#[test]
fn statistics_tell_no_blocks() {
    let reddit = example("gcn_reddit.gir");
    let plan = |partitioner: &str| {
        let args = ["plan", &reddit, "--gpus", "4", "--partitioner", partitioner];
        gnnc(args.iter().chain(&["--format", "json"])).plan()
    };
    let by_splits = plan("metis-splits");
    let names = by_splits["candidates"].to_string();
    assert!(names.contains("metis-splits"), "{names}");
    let rejected = plan("blocks")["rejected"].to_string();
    assert!(
        rejected.contains("partitioner blocks needs the graph"),
        "{rejected}"
    );
}
