//! The devices to train on, and messages if one is missing.

use crate::support::{Folder, example, gnnc, refused, text};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether this machine has a GPU. If so, tests of its absence are skipped and print that.
fn has_gpu(test: &str) -> bool {
    let listed: Value = serde_json::from_str(&gnnc(["devices", "--format", "json"]).ok()).unwrap();
    let here = !listed["gpus"].as_array().unwrap().is_empty();
    if here {
        #[allow(clippy::print_stdout, reason = "a skipped test says so")]
        {
            println!("skipped {test}: there is a GPU");
        }
    }
    here
}

/// Builds a library from C; `None` with a printed reason if there is no C compiler.
fn library(folder: &Folder, name: &str, source: &str) -> Option<PathBuf> {
    let (file, library) = (folder.file("stub.c", source), folder.join(name));
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-w", "-o"])
        .arg(&library)
        .arg(&file);
    // The name by which the loader finds it once it is loaded.
    cc.arg(format!("-Wl,-soname,{name}"));
    match cc.status() {
        Ok(status) if status.success() => Some(library),
        _ => {
            #[allow(clippy::print_stdout, reason = "a skipped test says so")]
            {
                println!("skipped a test with {name}: there is no C compiler `cc`");
            }
            None
        }
    }
}

/// Checks that training on a GPU with the libraries of a folder fails because of the machine.
#[track_caller]
fn cuda_is_refused(libraries: &Path, parts: &[&str]) {
    let cora = example("gcn_cora.gir");
    let words = ["--device", "cuda", "--cuda-libraries", text(libraries)];
    refused(2, &[&["train", &cora], &words[..]].concat(), parts);
    refused(2, &[&["bench-epoch", &cora], &words[..]].concat(), parts);
}

#[test]
fn devices_are_listed() {
    let report = gnnc(["devices"]).report();
    for word in ["CPU", "GPU", "NVIDIA driver", "NVRTC", "cuBLAS", "NCCL"] {
        assert!(report.contains(word), "{report}");
    }
    let json = gnnc(["devices", "--format", "json"]).ok();
    let listed: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(listed["libraries"].as_array().unwrap().len(), 5);
    let none = listed["gpus"].as_array().unwrap().is_empty();
    assert_eq!(none, listed["no_gpu"].is_string(), "{json}");
    assert!(listed["memory_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn a_missing_driver_is_said() {
    if has_gpu("a_missing_driver_is_said") {
        return;
    }
    let folder = Folder::new();
    let named = folder.join("nowhere");
    cuda_is_refused(
        &named,
        &[
            "NVIDIA driver is not here",
            "libcuda.so.1",
            text(&named),
            "--cuda-libraries",
        ],
    );
    let environment = "GNNC_CUDA_LIBRARIES";
    let mut command = crate::support::command();
    command.args(["train", &example("gcn_cora.gir"), "--device", "cuda"]);
    let output = command.env(environment, &named).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains(text(&named)), "{said}");
}

/// A driver that exists but is too old, or has no GPU.
#[test]
fn a_driver_that_is_no_use_is_said() {
    if has_gpu("a_driver_that_is_no_use_is_said") {
        return;
    }
    let version = "int cuDriverGetVersion(int *v) { *v = 12040; return 0; }\n";
    let old = Folder::new();
    let source = format!("int cuInit(unsigned f) {{ return 0; }}\n{version}");
    if library(&old, "libcuda.so.1", &source).is_none() {
        return;
    }
    cuda_is_refused(
        &old.join("."),
        &[
            "lacks the function",
            "cuEventElapsedTime_v2",
            "version 12.4",
            "12.8",
        ],
    );
    let none = Folder::new();
    let source = format!(
        "{version}int cuInit(unsigned f) {{ return 100; }}\n\
         int cuGetErrorName(int e, const char **s) {{ *s = \"CUDA_ERROR_NO_DEVICE\"; return 0; }}\n\
         int cuGetErrorString(int e, const char **s) {{ *s = \"no device\"; return 0; }}\n\
         void cuEventElapsedTime_v2(void) {{}}\nvoid cuFuncLoad(void) {{}}\n"
    );
    library(&none, "libcuda.so.1", &source).unwrap();
    cuda_is_refused(
        &none.join("."),
        &[
            "CUDA_ERROR_NO_DEVICE (no device)",
            "nvidia-smi",
            "--device cpu",
        ],
    );
    let listed = gnnc(["devices", "--cuda-libraries", text(&none.join("."))]).ok();
    assert!(listed.contains("12.4"), "{listed}");
}

#[test]
fn devices_and_processes_that_make_no_sense_are_refused() {
    let cora = example("gcn_cora.gir");
    let folder = Folder::new();
    let file = folder.join("rendezvous");
    let train = |words: &[&str], parts: &[&str]| {
        refused(1, &[&["train", &cora], words].concat(), parts);
    };
    train(&["--device", "gpu"], &["cpu, cuda or cuda:N"]);
    let processes = ["--ranks", "2", "--rendezvous", text(&file)];
    let with = |words: &[&str], parts: &[&str]| train(&[&processes, words].concat(), parts);
    with(&["--rank", "0"], &["--device cuda", "--workers"]);
    with(
        &["--rank", "2", "--device", "cuda"],
        &["--rank 2", "0 to 1"],
    );
    let both = ["--rank", "1", "--device", "cuda", "--workers", "3"];
    with(&both, &["3 workers", "2 processes"]);
    train(&["--rank", "0", "--device", "cuda"], &["--ranks"]);
    train(&["--ranks", "2", "--rank", "0"], &["--rendezvous"]);
    assert!(!file.exists());
}

#[test]
fn gpus_that_plans_know_are_listed_and_can_be_planned_for() {
    let report = gnnc(["gpus"]).report();
    for word in [
        "RTX4090",
        "H100-PCIe",
        "l40sx8",
        "nvlink5 900",
        "gnnc does not train",
    ] {
        assert!(report.contains(word), "no `{word}` in {report}");
    }
    let listed = gnnc(["gpus", "--format", "json"]).json();
    let cora = example("gcn_cora.gir");
    for device in listed["devices"].as_array().unwrap() {
        let name = device["name"].as_str().unwrap();
        assert!(report.contains(&format!("\n{name} ")), "{name}");
        let cluster = format!("{}x2", name.to_lowercase());
        let plan = gnnc(["plan", &cora, "--cluster", &cluster, "--format", "json"]).plan();
        assert_eq!(plan["cluster"]["device"]["name"], name);
        assert_eq!(device["trains"], name != "MI300X");
    }
}

#[test]
fn a_cluster_may_be_described_on_the_command_line() {
    let cora = example("gcn_cora.gir");
    let planned = |line: &str| gnnc(["plan", &cora, "--cluster", line]);
    let report = planned("nodes=2 gpus=4 gpu=a100-40 link=25gb").report();
    let line = "cluster    a100-40: 2 nodes of 4 x A100-40, nvlink3 inside, 25gb between\n";
    assert!(report.contains(line), "{report}");
    let wrong = "nodes=2 gpu=a100-40 speed=2";
    let args = ["plan", &cora, "--cluster", wrong];
    refused(
        1,
        &args,
        &[
            "--cluster 'nodes=2 gpu=a100-40 speed=2'",
            "unknown key `speed`",
        ],
    );
}
