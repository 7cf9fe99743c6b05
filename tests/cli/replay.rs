//! Plan files: run, verified, compared; and how many devices a model needs.

use crate::data::{folder, ring};
use crate::support::{Folder, example, gnnc, refused, text, train_two};
use serde_json::{Value, json};

/// The plan of Cora on two cores, as a file.
fn plan(folder: &Folder, more: &[&str]) -> String {
    let out = folder.join("plan.json");
    let cora = example("gcn_cora.gir");
    let args = ["plan", &cora, "--cluster", "cpu", "--gpus", "2"];
    let file = ["--out", text(&out)];
    gnnc(args.iter().chain(&file).chain(more)).report();
    text(&out).to_owned()
}

fn value(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_plan_is_run_as_it_says() {
    let folder = Folder::new();
    let plan = plan(
        &folder,
        &[
            "--pin",
            "placement=graph,ranks=2,partitioner=metis",
            "--set",
            "hidden=8",
        ],
    );
    let run = gnnc(["train", &plan, "--epochs", "3", "--format", "json"]).json();
    assert_eq!(run["workers"], 2);
    let by = ["--partitioner", "metis"];
    let small = ["--set", "hidden=8", "--epochs", "3", "--format", "json"];
    let by_hand = train_two(&[&by[..], &small].concat()).json();
    assert_eq!(run["train_loss"], by_hand["train_loss"]);
    let bytes = value(&plan)["candidates"][0]["bytes"].as_u64().unwrap();
    assert_eq!(run["bytes_sent"], 3 * bytes, "what was planned is sent");
    let report = gnnc(["train", &plan, "--epochs", "2"]).report();
    assert!(report.contains("plan   graph x 2 metis, "), "{report}");
    gnnc(["train", &plan, "--epochs", "2", "--seeds", "2"]).report();
}

/// One command plans for the available workers and runs the chosen plan.
#[test]
fn the_best_placement_is_run_at_once() {
    let folder = Folder::new();
    let cora = example("gcn_cora.gir");
    let plan = plan(&folder, &["--pin", "ranks=2", "--set", "hidden=32"]);
    let chosen = value(&plan)["candidates"][0].clone();
    let best = [
        "train",
        &cora,
        "--set",
        "hidden=32",
        "--workers",
        "2",
        "--placement",
        "best",
    ];
    let short = ["--epochs", "2"];
    let report = gnnc(best.iter().chain(&short)).report();
    let line = |report: &str| {
        let plans = report.lines().find(|line| line.starts_with("plan"));
        plans
            .map(str::to_owned)
            .unwrap_or_else(|| panic!("{report}"))
    };
    let planned = gnnc(["train", &plan, "--epochs", "2"]).report();
    assert_eq!(line(&report), line(&planned));
    let json = ["--epochs", "2", "--format", "json"];
    let run = gnnc(best.iter().chain(&json)).json();
    assert_eq!(run["bytes_sent"], 2 * chosen["bytes"].as_u64().unwrap());
    // Explicit options are kept.
    let hash = ["--partitioner", "hash", "--no-overlap", "--storage", "bf16"];
    let report = gnnc(best.iter().chain(&short).chain(&hash)).report();
    for word in ["hash", "bf16"] {
        assert!(line(&report).contains(word), "{report}");
    }
    for (more, says) in [
        (&["--no-shuffle"][..], "--no-shuffle with --placement best"),
        (&["--partitioner", "luck"], "metis, metis-edges"),
        (&["--cluster", "nowhere"], "nowhere"),
        (&["--stages", "2"], "no placement to choose for 2 workers"),
    ] {
        let args: Vec<&str> = best.iter().chain(more).copied().collect();
        refused(1, &args, &[says]);
    }
    refused(
        1,
        &["train", &plan, "--chunks", "3"],
        &["leave out --chunks"],
    );
    let stale = ["--stages", "2", "--allow", "stale", "--interval", "1"];
    let report = gnnc(best.iter().chain(&short).chain(&stale)).report();
    assert!(line(&report).contains("pipeline"), "{report}");
}

/// If it is faster, interior rows are computed while halos are in flight. The plan says so, and
/// such a run has the same losses and bytes.
#[test]
fn plans_say_what_is_computed_while_halos_are_under_way() {
    let mesh = example("gcn_8_mesh.gir");
    let pinned = |pin: &str| {
        let pin = format!("placement=graph,ranks=8,partitioner=metis{pin}");
        let args = ["plan", &mesh, "--cluster", "t4x8", "--pin", &pin];
        let plan = gnnc(args.iter().chain(&["--format", "json"])).json();
        plan["candidates"][0].clone()
    };
    let (free, yes, no) = (pinned(""), pinned(",interior=yes"), pinned(",interior=no"));
    assert_eq!(free, yes);
    assert_eq!(
        (
            &yes["parameters"]["interior"],
            &no["parameters"]["interior"]
        ),
        (&json!(true), &Value::Null)
    );
    let seconds = |plan: &Value| plan["epoch_seconds"].as_f64().unwrap();
    assert!(seconds(&yes) < 0.9 * seconds(&no), "{yes} {no}");
    assert_eq!(yes["bytes"], no["bytes"]);
    let alone = [
        "plan",
        &mesh,
        "--cluster",
        "t4x8",
        "--pin",
        "ranks=1,interior=yes",
    ];
    assert_eq!(
        gnnc(alone.iter().chain(&["--format", "json"])).plan()["candidates"],
        json!([])
    );

    let folder = Folder::new();
    let run = |pin: &str| {
        let pin = format!("placement=graph,ranks=2,partitioner=metis,interior={pin}");
        let file = plan(&folder, &["--pin", &pin]);
        let choice = value(&file)["candidates"][0].clone();
        assert_eq!(
            choice["parameters"]["interior"] == json!(true),
            pin.ends_with("yes")
        );
        gnnc(["train", &file, "--epochs", "3", "--format", "json"]).json()
    };
    let (cut, whole) = (run("yes"), run("no"));
    assert_eq!(cut["train_loss"], whole["train_loss"]);
    assert_eq!(cut["bytes_sent"], whole["bytes_sent"]);
    let by_hand = train_two(&[
        "--interior",
        "--partitioner",
        "metis",
        "--epochs",
        "3",
        "--format",
        "json",
    ])
    .json();
    assert_eq!(by_hand["train_loss"], cut["train_loss"]);
}

/// The plan names the storage, and a 16-bit plan runs in 16 bits.
#[test]
fn plans_say_how_tensors_lie_in_memory() {
    let folder = Folder::new();
    let pin = ["--pin", "placement=graph,ranks=2,partitioner=metis"];
    let floats = value(&plan(&folder, &pin))["candidates"][0].clone();
    assert!(floats["parameters"]["storage"].is_null(), "{floats}");
    let bytes = |candidate: &Value, what: &str| candidate[what].as_u64().unwrap();
    for storage in ["bf16", "f16"] {
        let plan = plan(&folder, &[&pin[..], &["--storage", storage]].concat());
        let planned = value(&plan)["candidates"][0].clone();
        assert_eq!(planned["parameters"]["storage"], storage);
        for what in ["bytes", "peak_memory_bytes"] {
            assert!(bytes(&planned, what) < bytes(&floats, what), "{what}");
        }
        let run = gnnc(["train", &plan, "--epochs", "3", "--format", "json"]).json();
        assert_eq!(run["bytes_sent"], 3 * bytes(&planned, "bytes"));
        let cora = example("gcn_cora.gir");
        let args = [
            "train",
            &cora,
            "--workers",
            "2",
            "--partitioner",
            "metis",
            "--storage",
            storage,
        ];
        let by_hand = gnnc(args.iter().chain(&["--epochs", "3", "--format", "json"])).json();
        assert_eq!(run["train_loss"], by_hand["train_loss"]);
        let report = gnnc(["train", &plan, "--epochs", "1"]).report();
        assert!(
            report.contains(&format!("graph x 2 metis {storage}")),
            "{report}"
        );
        let args = ["train", &plan, "--storage", "f32"];
        refused(1, &args, &["plan.json", "leave out --storage"]);
        let mut edited = value(&plan);
        edited["candidates"][0]["parameters"]["storage"] = json!("f32");
        let file = folder.file("edited.json", edited.to_string());
        refused(1, &["train", text(&file)], &["does not verify: `bytes`"]);
    }
    let cora = example("gcn_cora.gir");
    for command in ["train", "plan", "bench-epoch"] {
        let run = gnnc([command, &cora, "--storage", "bf8"]);
        run.fails(1, &["bf8", "expected one of f32, bf16, f16"]);
    }
    let listed = gnnc(["emit", "program", &cora, "--storage", "bf16"]).report();
    assert!(listed.contains("inner x 16 bf16"), "{listed}");
}

#[test]
fn plans_of_every_placement_are_run() {
    let folder = Folder::new();
    for placement in ["graph", "tensor", "broadcast", "mixed", "push-pull"] {
        let pin = format!("placement={placement},ranks=2");
        let plan = plan(&folder, &["--pin", &pin]);
        let planned = value(&plan);
        let bytes = planned["candidates"][0]["bytes"].as_u64().unwrap();
        assert_eq!(planned["candidates"][0]["placement"], placement);
        let run = gnnc(["train", &plan, "--epochs", "2", "--format", "json"]).json();
        assert_eq!(run["bytes_sent"], 2 * bytes, "{placement}");
    }
}

#[test]
fn another_candidate_can_be_chosen_in_the_file() {
    let folder = Folder::new();
    let plan = plan(&folder, &["--pin", "placement=graph,partitioner=metis"]);
    let mut edited = value(&plan);
    assert_eq!(edited["candidates"].as_array().unwrap().len(), 2);
    for chosen in [0, 1] {
        edited["chosen"] = json!(chosen);
        let file = folder.file("edited.json", edited.to_string());
        let run = gnnc(["train", text(&file), "--epochs", "2", "--format", "json"]).json();
        assert_eq!(
            run["workers"],
            edited["candidates"][chosen]["parameters"]["ranks"]
        );
    }
}

#[test]
fn plans_that_do_not_verify_are_refused() {
    let folder = Folder::new();
    let plan = plan(
        &folder,
        &["--pin", "placement=graph,ranks=2,partitioner=metis"],
    );
    let good = value(&plan);
    let bytes = good["candidates"][0]["bytes"].to_string();
    let edits: [(&str, Value, &[&str]); 15] = [
        ("/version", json!(9), &["version 9", "reads version 1"]),
        ("/chosen", json!(1), &["candidate 1", "lists only 1"]),
        ("/chosen", Value::Null, &["chooses no candidate"]),
        (
            "/workload/edges",
            json!(10_557),
            &["`workload.edges` is 10557", "10556"],
        ),
        (
            "/workload/features",
            json!(3),
            &["`workload.features` is 3", "1433"],
        ),
        (
            "/source/fingerprint",
            json!("00"),
            &["`source.fingerprint` is \"00\"", "gcn"],
        ),
        (
            "/source/model",
            json!("none.gir"),
            &["none.gir", "neither here nor"],
        ),
        (
            "/source/set",
            json!({ "hidden": 8 }),
            &["`source.fingerprint`"],
        ),
        ("/source", Value::Null, &["`source` is missing"]),
        ("/candidates/0/bytes", json!(1), &["is 1, expected", &bytes]),
        (
            "/candidates/0/peak_memory_bytes",
            json!(1),
            &["peak_memory_bytes", "is 1"],
        ),
        (
            "/candidates/0/parameters/ranks",
            json!(1),
            &["`partitioner`", "none on one rank"],
        ),
        (
            "/candidates/0/parameters/ranks",
            json!(3),
            &["`ranks`", "at most 2"],
        ),
        (
            "/candidates/0/parameters/partitioner",
            json!("hash"),
            &["`bytes` of graph x 2 hash"],
        ),
        (
            "/candidates/0/relaxations",
            json!(["sample"]),
            &["[sample]", "expected []"],
        ),
    ];
    for (pointer, to, parts) in edits {
        let mut edited = good.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        edited.pointer_mut(parent).unwrap()[key] = to;
        let file = folder.file("edited.json", edited.to_string());
        refused(1, &["train", text(&file)], parts);
    }
    let mut edited = good.clone();
    edited["candidates"][0]["compute_seconds"] = json!(5e-6);
    let file = folder.file("edited.json", edited.to_string());
    for (file, warns) in [(text(&file), true), (plan.as_str(), false)] {
        let run = gnnc(["train", file, "--epochs", "2"]);
        let warned = run
            .stderr
            .contains("`compute_seconds` of graph x 2 metis is 5.0 us");
        assert_eq!((run.code, warned), (Some(0), warns), "{}", run.stderr);
        assert_eq!(run.stderr.contains("warning"), warns, "{}", run.stderr);
    }
    refused(1, &["train", &plan, "--workers", "2"], &["--workers"]);
    refused(1, &["train", &plan, "--set", "hidden=8"], &["--set"]);
    let half = std::fs::read_to_string(&plan).unwrap();
    let half = folder.file("half.json", &half[..half.len() / 2]);
    refused(1, &["train", text(&half)], &["half.json", "cannot be read"]);
    refused(1, &["train", "none.json"], &["none.json"]);
}

#[test]
fn a_plan_finds_its_model_beside_it() {
    let (folder, model) = folder(&ring());
    let out = folder.join("plan.json");
    gnnc(["plan", text(&model), "--out", text(&out)]).report();
    let name = model.file_name().unwrap().to_str().unwrap();
    let mut plan = value(text(&out));
    plan["source"]["model"] = json!(name);
    let moved = folder.file("moved.json", plan.to_string());
    gnnc(["train", text(&moved)]).ok();
}

#[test]
fn plans_are_laid_side_by_side() {
    let folder = Folder::new();
    let a = plan(&folder, &[]);
    let report = gnnc(["diff", &a, &a]).report();
    assert!(report.contains("the plans are equal"), "{report}");
    let b = folder.join("b.json");
    let cora = example("gcn_cora.gir");
    let args = ["plan", &cora, "--gpus", "4", "--set", "hidden=64"];
    gnnc(args.iter().chain(&["--out", text(&b)])).report();
    let report = gnnc(["diff", &a, text(&b)]).report();
    for part in [
        "1 x 2 cpu-core -> 1 x 4 H100",
        "model's operators",
        "the chosen ones",
        "epoch times of all candidates",
        "graph x 4 metis",
    ] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
    let json = gnnc(["diff", &a, text(&b), "--format", "json"]).json();
    assert_eq!(json["equal"], false);
    let pairs = json["candidates"].as_array().unwrap();
    let one = pairs.iter().find(|p| p["name"] == "graph x 1").unwrap();
    let of_a = value(&a)["candidates"].as_array().unwrap().clone();
    let one_of_a = of_a.iter().find(|c| c["parameters"]["ranks"] == 1).unwrap();
    assert_eq!(one["seconds"][0], one_of_a["epoch_seconds"]);

    let trace = folder.join("t.json");
    gnnc(["plan", &cora, "--trace", text(&trace)]).report();
    refused(
        1,
        &["diff", &a, text(&trace)],
        &["is a trace", "gnnc trace diff"],
    );
    let broken = folder.file("broken.json", "{}");
    refused(
        1,
        &["diff", text(&broken), &a],
        &["broken.json", "no `version`"],
    );
    refused(1, &["diff", &a, "none.json"], &["none.json"]);
}

#[test]
fn a_sweep_says_how_many_devices_are_needed() {
    let reddit = example("gcnii_128_reddit.gir");
    let report = gnnc(["sweep", &reddit, "--gpus", "1..48"]).report();
    for part in ["x 48 ", "#", "fits on", "worthwhile", "fastest"] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
    let args = ["sweep", &reddit, "--gpus", "1..16", "--format", "json"];
    let json = gnnc(args).json();
    let points = json["points"].as_array().unwrap();
    let devices: Vec<u64> = points
        .iter()
        .map(|p| p["devices"].as_u64().unwrap())
        .collect();
    assert_eq!(devices, [1, 2, 4, 8, 16]);
    // Each point is the plan for that many devices.
    let plan = gnnc(["plan", &reddit, "--gpus", "16", "--format", "json"]).json();
    assert_eq!(points[4]["choice"], plan["candidates"][0]);
    assert_eq!((&json["fewest"], &json["fastest"]), (&json!(1), &json!(16)));

    // The device is too small for one rank, so more are needed.
    let cluster = "version = 1\ndevices_per_node = 8\ndevice.profile = \"T4\"\n\
                   device.memory_bytes = 4_000_000_000\ninside.profile = \"pcie3\"\nnodes = 2\n\
                   between.profile = \"50gb\"\n";
    let folder = Folder::new();
    let small = folder.file("small.toml", cluster);
    let args = [
        "sweep",
        &reddit,
        "--gpus",
        "1..16",
        "--cluster",
        text(&small),
        "--pin",
        "offload=no",
    ];
    let json = gnnc(args.iter().chain(&["--format", "json"])).json();
    assert!(json["fewest"].as_u64().unwrap() > 1, "{json}");
    assert_eq!(json["points"][0]["choice"], Value::Null);
    let report = gnnc(args).report();
    assert!(report.contains("does not fit"), "{report}");
    // With host memory, one is enough.
    let with_host = &args[..6];
    let json = gnnc(with_host.iter().chain(&["--format", "json"])).json();
    assert_eq!(json["fewest"], 1, "{json}");

    let cora = example("gcn_cora.gir");
    gnnc(["sweep", &cora, "--gpus", "2,3", "--cluster", "cpu"]).report();
    refused(
        1,
        &["sweep", &cora, "--gpus", "0..4"],
        &["0..4", "from 1 to 65536"],
    );
    refused(1, &["sweep", &cora, "--gpus", "8..4"], &["8..4"]);
    refused(1, &["sweep", &cora, "--cluster", "h1000x8"], &["h1000x8"]);
}

#[test]
fn a_pin_leaves_what_was_asked_for() {
    let cora = example("gcn_cora.gir");
    let pinned = |pin: &str| {
        let args = [
            "plan", &cora, "--gpus", "8", "--pin", pin, "--format", "json",
        ];
        let plan = gnnc(args).json();
        let candidates = plan["candidates"].as_array().unwrap().clone();
        let name = |c: &Value| {
            (
                c["parameters"]["ranks"].clone(),
                c["parameters"]["partitioner"].clone(),
            )
        };
        candidates.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(
        pinned("placement=graph,ranks=5"),
        ["metis", "metis-edges"].map(|by| (json!(5), json!(by)))
    );
    assert_eq!(
        pinned("placement=graph,ranks=3,partitioner=hash"),
        [(json!(3), json!("hash"))]
    );
    assert_eq!(pinned("placement=graph").len(), 3);
    let top = [
        "plan", &cora, "--gpus", "8", "--top", "1", "--format", "json",
    ];
    assert_eq!(gnnc(top).json()["candidates"].as_array().unwrap().len(), 1);
    for (pin, parts) in [
        ("ranks=9", &["ranks=9", "at most 8"][..]),
        ("ranks=0", &["ranks=0", "ranks= a number from 1 to 65536"]),
        ("placement=grpah", &["placement=grpah", "graph, tensor"]),
        ("ranks=99999999999", &["ranks= a number from 1 to 65536"]),
        ("interval=99999999999", &["interval= a number from 1 to"]),
        ("partitioner=x", &["metis-edges"]),
        ("colour=red", &["colour=red", "placement=NAME"]),
    ] {
        refused(1, &["plan", &cora, "--gpus", "8", "--pin", pin], parts);
    }
}
