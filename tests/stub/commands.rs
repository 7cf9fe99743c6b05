//! The command line on the stubs: training, processes, failures of every call, measurements.

use crate::stub;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than any run here takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder with a graph and a model, and the stubs.
struct Place {
    folder: PathBuf,
    libraries: PathBuf,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Place {
    fn new(test: &str) -> Option<Self> {
        let libraries = stub::folder(test)?;
        let name = format!("stub-{}-{test}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let place = Self { folder, libraries };
        let graph = place.folder.join("g.npz");
        let words = [
            "graph",
            "generate",
            "planted",
            "--vertices",
            "90",
            "--edges",
            "700",
        ];
        let mut command = Command::new(env!("CARGO_BIN_EXE_gnnc"));
        command
            .args(words)
            .args(["--features", "6", "--out"])
            .arg(&graph);
        assert!(command.output().unwrap().status.success());
        let model = "graph g = \"g.npz\"\n\nmodel gcn(hidden = 8) on g {\n  \
                     let h = x |> dropout(0.2) |> gcn_conv(hidden) |> relu |> linear(hidden) |> relu\n  \
                     let z = h |> gcn_conv(classes)\n  \
                     loss cross_entropy(z, labels, on = train)\n}\n\n\
                     train {\n  optimizer = adam(lr = 0.01)\n  epochs = 3\n}\n";
        std::fs::write(place.folder.join("m.gir"), model).unwrap();
        Some(place)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gnnc"));
        command
            .current_dir(&self.folder)
            .args(words)
            .args(["--format", "json"])
            .env("GNNC_CACHE", self.folder.join("cache"))
            .env("GNNC_CUDA_LIBRARIES", &self.libraries)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        ended(self.command(words).spawn().unwrap())
    }

    /// The report of a run that leaves nothing allocated on the device.
    #[track_caller]
    fn report(&self, words: &[&str]) -> Value {
        report(&self.run(words))
    }
}

#[track_caller]
fn report(output: &Output) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), said.as_str()),
        (Some(0), ""),
        "{}",
        text(&output.stdout)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Waits for a process, with a limit.
#[track_caller]
fn ended(mut child: Child) -> Output {
    let begin = Instant::now();
    drop(child.stdin.take());
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the process hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

#[track_caller]
fn close(own: &Value, other: &Value) {
    let loss = |run: &Value| run["train_loss"].as_f64().unwrap();
    assert_eq!(own["epochs"], other["epochs"]);
    assert_eq!(own["val_accuracy"], other["val_accuracy"]);
    assert!((loss(own) - loss(other)).abs() < 1e-4, "{own} and {other}");
}

#[test]
fn a_run_is_that_of_the_processor() {
    let Some(place) = Place::new("a_run_is_that_of_the_processor") else {
        return;
    };
    let listed = place.report(&["devices"]);
    assert_eq!(listed["gpus"][0]["name"], "Stub");
    assert_eq!(listed["gpus"][0]["arch"], "sm_90");
    let file = |n: usize| listed["libraries"][n]["file"].as_str().unwrap();
    assert!((0..5).all(|n| Path::new(file(n)).starts_with(&place.libraries)));
    let cpu = place.report(&["train", "m.gir"]);
    let own = place.report(&["train", "m.gir", "--device", "cuda"]);
    close(&own, &cpu);
    // The second time, machine code is cached.
    let failing = ["train", "m.gir", "--device", "cuda"];
    let mut again = place.command(&failing);
    again.env("GNNC_STUB_FAIL", "nvrtcCompileProgram:1");
    let again = report(&ended(again.spawn().unwrap()));
    assert_eq!(again["train_loss"], own["train_loss"]);
    let trace = place.folder.join("trace.json");
    let traced = [
        "train",
        "m.gir",
        "--device",
        "cuda",
        "--workers",
        "2",
        "--trace",
    ];
    let traced = place.report(&[&traced[..], &[trace.to_str().unwrap()]].concat());
    close(
        &traced,
        &place.report(&["train", "m.gir", "--workers", "2"]),
    );
    assert!(std::fs::metadata(&trace).unwrap().len() > 1000);
    let bench = place.report(&[
        "bench-epoch",
        "m.gir",
        "--device",
        "cuda:0",
        "--epochs",
        "2",
    ]);
    assert_eq!(bench["epoch_seconds"].as_array().unwrap().len(), 2);
    let missing = place.run(&["train", "m.gir", "--device", "cuda:1"]);
    let said: Value = serde_json::from_slice(&missing.stdout).unwrap();
    assert_eq!(said["error"]["kind"], "device");
    assert!(
        said["error"]["message"]
            .as_str()
            .unwrap()
            .contains("GPU number 1")
    );
}

/// The third epoch is captured work done again: it counts what the epoch before sent, also between nodes.
#[test]
fn layouts_of_halos_are_those_of_the_processor() {
    let Some(place) = Place::new("layouts_of_halos_are_those_of_the_processor") else {
        return;
    };
    let layouts: [&[&str]; 4] = [
        &["graph", "--node-ranks", "2"],
        &["graph", "--node-ranks", "2", "--cover", "joint"],
        &["graph", "--interior"],
        &["tensor", "--slices", "2"],
    ];
    for layout in layouts {
        let words = ["train", "m.gir", "--set", "hidden=16", "--workers", "4"];
        let partition = ["--partitioner", "metis", "--placement"];
        let words = [&words[..], &partition, layout].concat();
        let own = place.report(&[&words[..], &["--device", "cuda"]].concat());
        let cpu = place.report(&words);
        close(&own, &cpu);
        for bytes in ["bytes_sent", "bytes_crossed"] {
            assert_eq!(own[bytes], cpu[bytes], "{layout:?}: {bytes}");
        }
    }
}

/// A model that says how its batches are trains on them on a device too.
#[test]
fn batches_are_those_of_the_processor() {
    let Some(place) = Place::new("batches_are_those_of_the_processor") else {
        return;
    };
    let batches = ["--allow", "sample", "--batch", "20", "--fanouts", "3,3"];
    for workers in ["1", "3"] {
        let words = [&["train", "m.gir", "--workers", workers][..], &batches].concat();
        let cpu = place.report(&words);
        let own = place.report(&[&words[..], &["--device", "cuda"]].concat());
        close(&own, &cpu);
        let whole = ["train", "m.gir", "--workers", workers, "--device", "cuda"];
        let whole = place.report(&whole);
        assert_ne!(whole["train_loss"], own["train_loss"]);
    }
}

/// Processes of one rank each.
fn together(place: &Place, words: &[&str], fails: Option<&str>) -> Vec<Output> {
    let file = place.folder.join(format!("rendezvous-{}", words.concat()));
    let file = file.to_str().unwrap();
    let words = [&["train", "m.gir", "--device", "cuda"], words].concat();
    let ranks = ["--ranks", "2", "--rendezvous", file, "--rank"];
    let started: Vec<Child> = ["0", "1"]
        .into_iter()
        .map(|rank| {
            let mut command = place.command(&[&words[..], &ranks, &[rank]].concat());
            command.env("NCCL_HOSTID", rank);
            if let Some(fails) = fails.filter(|_| rank == "1") {
                command.env("GNNC_STUB_FAIL", fails);
            }
            command.spawn().unwrap()
        })
        .collect();
    let outputs = started.into_iter().map(ended).collect();
    assert!(!Path::new(file).exists(), "rank 0 removes the file");
    outputs
}

#[test]
fn processes_train_together() {
    let Some(place) = Place::new("processes_train_together") else {
        return;
    };
    for placement in [
        "--placement graph",
        "--placement tensor",
        "--placement broadcast",
        "--placement push-pull",
        "--placement pipeline --allow stale",
        "--placement skip-broadcast --allow stale --skip fixed:2",
    ] {
        let words: Vec<&str> = placement.split(' ').collect();
        let cpu = place.report(&[&["train", "m.gir", "--workers", "2"], &words[..]].concat());
        for output in together(&place, &words, None) {
            let own = report(&output);
            assert_eq!(own["workers"], 2);
            close(&own, &cpu);
        }
    }
}

/// Processes with different options are refused at once, and the message names the difference.
#[test]
fn processes_that_differ_are_refused() {
    let Some(place) = Place::new("processes_that_differ_are_refused") else {
        return;
    };
    let file = place.folder.join("rendezvous-differ");
    let name = file.to_str().unwrap();
    let started: Vec<Child> = ["0", "1"]
        .into_iter()
        .map(|rank| {
            let words = ["train", "m.gir", "--device", "cuda", "--seed", rank];
            let ranks = ["--ranks", "2", "--rank", rank, "--rendezvous", name];
            let mut command = place.command(&[&words[..], &ranks].concat());
            command.env("NCCL_HOSTID", rank);
            command.spawn().unwrap()
        })
        .collect();
    for output in started.into_iter().map(ended) {
        assert_eq!(output.status.code(), Some(2));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let message = said["error"]["message"].as_str().unwrap().to_owned();
        for part in ["the processes disagree", "seed: 1 on", "0 on rank 0"] {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains("graph:"), "{message}");
    }
    assert!(!file.exists());
}

/// A failure in one process ends both.
#[test]
fn a_process_that_fails_ends_all() {
    let Some(place) = Place::new("a_process_that_fails_ends_all") else {
        return;
    };
    for output in together(&place, &[], Some("ncclGroupEnd:3")) {
        assert_eq!(output.status.code(), Some(2));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let message = said["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("remote process exited"), "{message}");
    }
}

/// Every failing call ends the run with the call's name and exit code 2.
#[test]
fn every_call_that_fails_is_said() {
    let Some(place) = Place::new("every_call_that_fails_is_said") else {
        return;
    };
    let words = ["train", "m.gir", "--device", "cuda", "--workers", "2"];
    place.report(&words);
    for (call, said) in [
        ("cuInit:1", "cannot be used"),
        ("cuDeviceGetCount:1", "cuDeviceGetCount"),
        ("cuDeviceGetName:1", "cuDeviceGetName"),
        ("cuDevicePrimaryCtxRetain:1", "cuDevicePrimaryCtxRetain"),
        ("cuCtxSetCurrent:1", "cuCtxSetCurrent"),
        ("cuCtxSetCurrent:40", "cuCtxSetCurrent"),
        ("cuMemAlloc_v2:2", "cuMemAlloc"),
        ("cuMemHostAlloc:1", "cuMemHostAlloc"),
        ("cuMemcpyHtoDAsync_v2:3", "cuMemcpyHtoDAsync"),
        ("cuMemcpyDtoHAsync_v2:1", "cuMemcpyDtoHAsync"),
        ("cuMemsetD8Async:1", "cuMemsetD8Async"),
        ("cuModuleLoadData:1", "cuModuleLoadData"),
        ("cuModuleGetFunction:2", "cuModuleGetFunction"),
        ("cuFuncLoad:1", "cuFuncLoad"),
        ("cuStreamCreateWithPriority:1", "cuStreamCreate"),
        ("cuEventCreate:1", "cuEventCreate"),
        ("cuEventRecord:2", "cuEventRecord"),
        ("cuStreamWaitEvent:2", "cuStreamWaitEvent"),
        ("cuLaunchKernel:1", "cuLaunchKernel"),
        ("cuLaunchKernel:30", "cuLaunchKernel"),
        ("cuStreamSynchronize:2", "cuStreamSynchronize"),
        ("cublasCreate:1", "cublasCreate"),
        ("cublasSgemm:2", "cublasSgemm"),
        ("cublasLtCreate:1", "cublasLtCreate"),
        (
            "cublasLtMatmulAlgoGetHeuristic:1",
            "cublasLtMatmulAlgoGetHeuristic",
        ),
        ("cublasLtMatmul:1", "cublasLtMatmul"),
    ] {
        let mut command = place.command(&words);
        command.env("GNNC_STUB_FAIL", call);
        let output = ended(command.spawn().unwrap());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(2), "{call}: {text}");
        let report: Value = serde_json::from_str(&text).unwrap();
        let message = report["error"]["message"].as_str().unwrap();
        assert!(message.contains(said), "{call}: {message}");
        // Everything allocated before the failure is freed.
        let left = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(left, "", "{call}");
    }
}

/// If cuBLASLt has no algorithm for a product with its epilogue, a launch applies it: for the
/// first shape, or for a later one. One that does not take fewer rows is replaced.
#[test]
fn ends_without_an_algorithm_are_launched() {
    let Some(place) = Place::new("ends_without_an_algorithm_are_launched") else {
        return;
    };
    let words = ["train", "m.gir", "--device", "cuda"];
    let expected = place.report(&words);
    for answer in [
        "none found:1",
        "unsupported:1",
        "none found:2",
        "other columns:1",
        "other columns:3",
    ] {
        let mut command = place.command(&words);
        command.env("GNNC_STUB_FAIL", answer);
        close(&report(&ended(command.spawn().unwrap())), &expected);
    }
}

/// With less memory, training gives the same result, and a refusal of host memory is reported.
#[test]
fn a_small_device_trains_with_the_host() {
    let Some(place) = Place::new("a_small_device_trains_with_the_host") else {
        return;
    };
    let words = ["train", "m.gir", "--device", "cuda", "--set", "hidden=32"];
    let roomy = place.report(&words);
    assert!(roomy["host_memory_bytes"].is_null(), "{roomy}");
    let share = roomy["peak_memory_bytes"].as_f64().unwrap() * 0.75;
    let share = format!("{}", share as u64);
    let less = [&words[..], &["--device-memory", &share]].concat();
    let small = place.report(&less);
    assert_eq!(small["train_loss"], roomy["train_loss"]);
    for number in ["host_memory_bytes", "epoch_moved_bytes"] {
        assert!(small[number].as_u64().unwrap() > 0, "{small}");
    }
    for (call, said) in [
        ("cuMemHostAlloc:1", "cuMemHostAlloc"),
        ("cuMemcpyHtoDAsync_v2:36", "cuMemcpyHtoDAsync"),
    ] {
        let mut command = place.command(&less);
        command.env("GNNC_STUB_FAIL", call);
        let output = ended(command.spawn().unwrap());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(2), "{call}: {text}");
        assert!(text.contains(said), "{call}: {text}");
        let left = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(left, "", "{call}");
    }
}

/// Calibration trains on the device. All of it would take many minutes here, so it is ended
/// early.
#[test]
fn calibration_runs_on_the_device() {
    let Some(place) = Place::new("calibration_runs_on_the_device") else {
        return;
    };
    let mut command = place.command(&["calibrate", "--quick", "--device", "cuda"]);
    command.env("GNNC_STUB_FAIL", "cuLaunchKernel:400");
    let output = ended(command.spawn().unwrap());
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("cuLaunchKernel"), "{said}");
    assert!(!place.folder.join("machine.toml").exists());
}

#[test]
fn kernels_are_measured_line_by_line() {
    let Some(place) = Place::new("kernels_are_measured_line_by_line") else {
        return;
    };
    let mut child = place
        .command(&["bench-kernel", "g.npz", "--device", "cuda"])
        .spawn()
        .unwrap();
    let request = |kernel: &str, heads: u32| json!({"kernel": kernel, "width": 8, "heads": heads, "times": 1, "rounds": 2});
    let requests = [
        request("spmm", 1),
        request("attend", 2),
        json!({"kernel": "none"}),
    ];
    let mut stdin = child.stdin.take().unwrap();
    for line in requests {
        writeln!(stdin, "{line}").unwrap();
    }
    drop(stdin);
    let output = ended(child);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let about: Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!(about["device"], "Stub, sm_90");
    for line in &lines[1..3] {
        let answer: Value = serde_json::from_str(line).unwrap();
        assert!(answer["error"].as_f64().unwrap() < 1e-5, "{line}");
        assert_eq!(answer["seconds"].as_array().unwrap().len(), 2);
    }
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("expected a request such as"), "{text}");
}
