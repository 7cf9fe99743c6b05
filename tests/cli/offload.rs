//! Plans and runs of programs that do not fit on a device without offload.

use crate::support::{Folder, example, gnnc, text};
use serde_json::Value;

/// A GPU with this much memory.
fn cluster(folder: &Folder, bytes: u64) -> String {
    let lines = format!(
        "version = 1\nname = \"small\"\ndevice.profile = \"T4\"\ndevice.memory_bytes = {bytes}\n\
         [host]\nmemory_bytes = 100_000_000_000\n"
    );
    text(&folder.file("small.toml", &lines)).to_owned()
}

fn plan(words: &[&str]) -> Value {
    gnnc(["plan"].iter().chain(words).chain(&["--format", "json"])).plan()
}

#[test]
fn offload_of_a_deep_model_on_a_small_gpu() {
    let model = example("gcnii_128_reddit.gir");
    let report = gnnc(["plan", &model, "--cluster", "t4x1"]).report();
    insta::assert_snapshot!(report);
    let none = gnnc(["plan", &model, "--cluster", "t4x1", "--pin", "offload=no"]).unchosen();
    assert!(none.contains("does not fit: "), "{none}");
    assert!(!none.contains("+ host"), "{none}");
}

/// If offload does not help, the message says which memory lacks how much.
#[test]
fn offload_that_does_not_help_says_why() {
    let (folder, model) = (Folder::new(), example("gcnii_128_reddit.gir"));
    let reason = |file: &str| {
        let plan = plan(&[&model, "--cluster", file]);
        assert_eq!(plan["chosen"], Value::Null);
        plan["candidates"][0]["reason"].as_str().unwrap().to_owned()
    };
    let topology = reason(&cluster(&folder, 700_000_000));
    assert!(
        topology.contains("topology and messages alone are too large"),
        "{topology}"
    );
    let kernel = reason(&cluster(&folder, 2_200_000_000));
    assert!(kernel.contains("are still missing"), "{kernel}");
    let host = "version = 1\ndevice.profile = \"T4\"\n[host]\nmemory_bytes = 1e9\n";
    let host = reason(text(&folder.file("host.toml", host)));
    assert!(host.contains("to the host, which has"), "{host}");
}

/// A candidate that fits only without overlap of communication and computing is planned that way, on the device alone.
#[test]
fn what_fits_without_overlap_does_without_the_host() {
    let (folder, model) = (Folder::new(), example("gcn_reddit.gir"));
    let file = |bytes: u64| {
        let lines = format!(
            "version = 1\ndevices_per_node = 8\ndevice.profile = \"H100\"\ndevice.memory_bytes = {bytes}\n\
             inside.profile = \"nvlink4\"\n"
        );
        text(&folder.file("eight.toml", &lines)).to_owned()
    };
    let pin = "placement=graph,ranks=8,partitioner=metis,cover=rows";
    let best = |bytes: u64, more: &[&str]| {
        let cluster = file(bytes);
        let words = [&[&*model, "--cluster", &cluster, "--pin", pin], more].concat();
        plan(&words)["candidates"][0].clone()
    };
    let needs = |candidate: &Value| candidate["peak_memory_bytes"].as_u64().unwrap();
    let roomy = best(80_000_000_000, &[]);
    let leaner = best(80_000_000_000, &["--no-overlap"]);
    let between = (needs(&roomy) + needs(&leaner)) / 2;
    assert!(needs(&leaner) < between && between < needs(&roomy));
    let found = best(between, &[]);
    assert_eq!(found, leaner);
    assert_eq!(found["parameters"]["overlap"], false);
    // With less memory than that, tensors rest on the host.
    let host = best(needs(&leaner) * 9 / 10, &[]);
    assert_eq!(host["parameters"]["offload"], true, "{host}");
}

/// A plan with offload runs as planned.
#[test]
fn offload_plans_are_run() {
    let (folder, cora) = (Folder::new(), example("gcn_cora.gir"));
    let roomy = plan(&[&cora, "--cluster", "t4x1"]);
    let all = roomy["candidates"][0]["peak_memory_bytes"]
        .as_u64()
        .unwrap();
    let file = cluster(&folder, all * 8 / 10);
    let out = folder.join("plan.json");
    let planned = plan(&[&cora, "--cluster", &file, "--out", text(&out)]);
    let choice = &planned["candidates"][0];
    assert_eq!(choice["parameters"]["offload"], true, "{choice}");
    let moved = ["fetched", "stored"].map(|way| choice["host"][way].as_u64().unwrap());
    let epochs = ["--epochs", "4", "--format", "json"];
    let run = gnnc(["train", text(&out)].iter().chain(&epochs)).json();
    assert_eq!(run["epoch_moved_bytes"].as_u64(), Some(moved.iter().sum()));
    assert_eq!(run["host_memory_bytes"], choice["host"]["memory"]);
    let same = gnnc(["train", &cora].iter().chain(&epochs)).json();
    assert_eq!(run["train_loss"], same["train_loss"]);
    assert_eq!(same["host_memory_bytes"], Value::Null);
    // A pin selects the candidates that need offload, or those without.
    let pinned = |pin: &str| plan(&[&cora, "--cluster", &file, "--pin", pin]);
    assert_eq!(pinned("offload=no")["chosen"], Value::Null);
    assert_eq!(pinned("offload=yes")["candidates"][0], *choice);
    let roomy = plan(&[&cora, "--cluster", "t4x1", "--pin", "offload=yes"]);
    assert_eq!(roomy["candidates"].as_array().unwrap().len(), 0);
    // The report of a run mentions it.
    let budget = (all * 8 / 10).to_string();
    let words = ["train", &cora, "--epochs", "2", "--device-memory", &budget];
    let said = gnnc(words).ok();
    assert!(
        said.contains("on the host") && said.contains("copied per epoch"),
        "{said}"
    );
}

/// A graph whose edges alone exceed the GPU's memory is planned in chunks, and the plan says
/// so.
#[test]
fn offload_in_chunks_of_rows() {
    let (folder, model) = (Folder::new(), example("gcn_reddit.gir"));
    let file = cluster(&folder, 1_300_000_000);
    let choice = &plan(&[&model, "--cluster", &file])["candidates"][0];
    let reason = choice["reason"].as_str().unwrap();
    let chunks = choice["host"]["chunks"].as_u64();
    let chunks = chunks.unwrap_or_else(|| panic!("{reason}"));
    let part = format!("are streamed in up to {chunks} chunks of rows");
    assert!(reason.contains(&part), "{reason}");
    assert!(choice["peak_memory_bytes"].as_u64().unwrap() <= 1_300_000_000);
    // Refused without the host, and refused if both memories are too small.
    let none = plan(&[&model, "--cluster", &file, "--pin", "offload=no"]);
    assert_eq!(none["chosen"], Value::Null);
    let file = cluster(&folder, 20_000_000);
    let none = plan(&[&model, "--cluster", &file]);
    let reason = none["candidates"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("are still missing"), "{reason}");
}
