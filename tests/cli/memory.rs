//! A plan's memory against what a run needs, for every placement.

use crate::support::{Folder, command, example, finished, gnnc, text};
use gnnc::planner::placement::TABLE;
use serde_json::Value;

/// The memory per rank in a plan for the ranks of this machine.
fn planned(model: &[&str], placement: &str, ranks: u32) -> f64 {
    // A run picks the chunks of stages itself.
    let chunks = match placement {
        "pipeline" | "hybrid" => "",
        // A run also sends whole blocks by default.
        "skip-broadcast" => ",chunks=1,skip=adaptive:1",
        _ => ",chunks=1",
    };
    let (count, pin) = (
        ranks.to_string(),
        format!("placement={placement},ranks={ranks},partitioner=metis{chunks}"),
    );
    let args = [
        "--cluster",
        "cpu",
        "--gpus",
        &count,
        "--pin",
        &pin,
        "--allow",
        "decouple,stale",
    ];
    let args = ["plan"].iter().chain(model).chain(&args);
    let plan = gnnc(args.chain(&["--format", "json"])).json();
    let candidate = &plan["candidates"][0];
    assert_eq!(candidate["placement"], placement);
    candidate["peak_memory_bytes"].as_f64().unwrap()
}

/// Runs a few epochs. The allocator returns freed memory at once, so that resident memory
/// excludes what was used only briefly while building the ranks.
fn run(model: &[&str], placement: &str, ranks: u32) -> Value {
    let count = ranks.to_string();
    let args = [
        "--workers",
        &count,
        "--partitioner",
        "metis",
        "--placement",
        placement,
        "--allow",
        "decouple,stale",
    ];
    let args = ["bench-epoch"].iter().chain(model).chain(&args);
    let mut command = command();
    command.args(args.chain(&["--epochs", "3", "--format", "json"]));
    for threshold in ["MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"] {
        command.env(threshold, "65536");
    }
    finished(command.output().unwrap()).json()
}

/// Numbers of ranks to try. Includes one rank if the placement allows it; two layers allow two
/// stages.
fn ranks(placement: &str, several: &[u32]) -> Vec<u32> {
    match placement {
        "graph" => [&[1], several].concat(),
        "pipeline" => vec![2],
        "hybrid" => vec![4],
        _ => several.to_vec(),
    }
}

/// The peak includes buffers of the first epoch, and messages kept from then on.
#[test]
fn the_memory_of_a_run_is_what_its_plan_says() {
    let cora = example("gcn_cora.gir");
    let whole = TABLE.iter().filter(|row| !row.samples());
    for placement in whole.map(|row| row.placement.name()) {
        for ranks in ranks(placement, &[2, 5]) {
            let says = planned(&[&cora], placement, ranks);
            let needs = run(&[&cora], placement, ranks)["peak_memory_bytes"].as_f64();
            let quotient = says / needs.unwrap();
            assert!(
                (0.999..1.05).contains(&quotient),
                "{placement}, {ranks} ranks: planned {says}, {quotient} times what is needed"
            );
        }
    }
}

/// Memory has room for batches that are a quarter larger than the largest drawn beforehand, and so does
/// the plan.
#[test]
fn the_memory_of_batches_is_what_their_plan_says() {
    let cora = example("sage_cora.gir");
    let options = [
        "--allow",
        "sample,stale",
        "--batch",
        "70",
        "--fanouts",
        "5,5",
    ];
    for (placement, delay, cache) in [
        ("minibatch", "0", "0"),
        ("minibatch", "0", "500"),
        ("push-pull", "0", "0"),
        ("push-pull", "2", "0"),
        ("push-pull", "3", "0"),
    ] {
        for ranks in ["2", "4"] {
            let pin = format!("placement={placement},ranks={ranks},partitioner=metis");
            let plan = [
                "plan",
                &cora,
                "--cluster",
                "cpu",
                "--gpus",
                ranks,
                "--pin",
                &pin,
            ];
            let delayed = ["--delay", delay, "--cache", cache, "--format", "json"];
            let plan = gnnc(plan.iter().chain(&options).chain(&delayed)).json();
            let candidates = plan["candidates"].as_array().unwrap();
            let on_batches = |candidate: &&Value| !candidate["parameters"]["sampling"].is_null();
            let planned = candidates.iter().find(on_batches).unwrap();
            let train = [
                "train",
                &cora,
                "--epochs",
                "2",
                "--workers",
                ranks,
                "--placement",
                placement,
            ];
            let run = gnnc(train.iter().chain(&options).chain(&delayed)).json();
            let quotient = planned["peak_memory_bytes"].as_f64().unwrap()
                / run["peak_memory_bytes"].as_f64().unwrap();
            assert!(
                (0.98..1.06).contains(&quotient),
                "{placement}, {ranks} ranks, delay {delay}, cache {cache}: planned {quotient} times what is needed"
            );
        }
    }
}

/// Growth of the process, without the graph from which the ranks are built.
#[test]
fn a_process_grows_by_what_its_plan_says() {
    let folder = Folder::new();
    let graph = folder.join("g.npz");
    let graph = text(&graph);
    let args = [
        "graph",
        "generate",
        "planted",
        "--vertices",
        "60000",
        "--edges",
    ];
    let sizes = [
        "600000",
        "--features",
        "32",
        "--classes",
        "8",
        "--out",
        graph,
    ];
    gnnc(args.iter().chain(&sizes)).ok();
    let cora = example("gcn_cora.gir");
    let model = [&cora, "--graph", graph, "--set", "hidden=256"];
    // A plan gives the memory of the stage that needs most; others may need much less.
    let alike = TABLE.iter().filter(|row| !row.staged() && !row.samples());
    for placement in alike.map(|row| row.placement.name()) {
        for ranks in ranks(placement, &[3]) {
            let says = planned(&model, placement, ranks) * f64::from(ranks);
            assert!(says > 1e8, "{says} bytes are too few to tell");
            let Some(grown) = run(&model, placement, ranks)["resident_bytes"].as_f64() else {
                eprintln!("skipped: the system does not say what the process holds");
                return;
            };
            let quotient = says / grown;
            assert!(
                (0.9..1.1).contains(&quotient),
                "{placement}, {ranks} ranks: planned {says}, {quotient} times what the process grew by"
            );
        }
    }
}
