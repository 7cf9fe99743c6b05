//! Ranks in several processes, which `mpirun` starts. Without it, these tests are skipped and say so, unless
//! `GNNC_NEEDS_MPI` is set.

use crate::support::{Folder, Run, command, example, finished, gnnc, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The launcher with what it needs on a small machine; `None` without one.
fn launcher(processes: u32) -> Option<Command> {
    let has = |name: &str| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|answer| answer.status.success())
    };
    if !has("mpirun") {
        assert!(
            std::env::var_os("GNNC_NEEDS_MPI").is_none(),
            "there is no mpirun"
        );
        #[allow(clippy::print_stdout, reason = "a skipped test says so")]
        {
            println!("skipped a test with processes: there is no mpirun");
        }
        return None;
    }
    let own = command();
    let mut launcher = Command::new("mpirun");
    let environment = own
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    launcher.envs(environment).current_dir(crate::support::ROOT);
    // Open MPI refuses more processes than cores, and the system's administrator.
    launcher
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .stdin(Stdio::null());
    launcher.args(["-n", &processes.to_string(), env!("CARGO_BIN_EXE_gnnc")]);
    Some(launcher)
}

/// gnnc on several processes.
pub fn together(processes: u32, args: &[&str]) -> Option<Run> {
    let mut launcher = launcher(processes)?;
    Some(finished(launcher.args(args).output().unwrap()))
}

/// What a run says, but for what depends on how fast it is and on its messages' memory.
pub fn numbers(report: &str) -> Value {
    let mut said: Value = serde_json::from_str(report).unwrap();
    for varies in ["epoch_seconds", "peak_memory_bytes", "waited"] {
        said.as_object_mut().unwrap().remove(varies);
    }
    said
}

/// A launcher's process with two workers that may run on one core. Skipped where a process cannot be bound to core 0, or
/// the machine has no other core.
#[test]
fn a_process_on_too_few_cores_is_warned_of() {
    let bound = |launched: bool| {
        let own = command();
        let mut bound = Command::new("taskset");
        let environment = own
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        bound
            .envs(environment)
            .args(["-c", "0", env!("CARGO_BIN_EXE_gnnc")]);
        if launched {
            bound.envs([("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")]);
        }
        let cora = example("gcn_cora.gir");
        let run = bound
            .args(["train", &cora, "--workers", "2", "--epochs", "1"])
            .output();
        Some(finished(run.ok()?)).filter(|run| !run.stderr.contains("taskset"))
    };
    let (Some(alone), Some(launched)) = (bound(false), bound(true)) else {
        return;
    };
    let warning = "each process computes with 2 threads, but this one may run on 1 of";
    assert!(!alone.stderr.contains(warning), "{}", alone.stderr);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(
        launched.stderr.contains(warning),
        cores > 1,
        "{}",
        launched.stderr
    );
}

#[test]
fn processes_train_what_threads_train() {
    let folder = Folder::new();
    let embedded = format!(
        "graph cora = {:?} {{ features = identity }}
         model rows(hidden = 16) on cora {{
           let e = x |> linear(hidden, bias = false)
           loss cross_entropy(e |> sage_conv(hidden) |> relu |> sage_conv(classes), labels, on = train)
         }}
         train {{ optimizer = adam(lr = 0.01) }}",
        example("data/cora.npz")
    );
    folder.file("rows.gir", &embedded);
    let cases = [
        ("gcn_cora.gir", ""),
        ("gcn_cora.gir", "--placement tensor"),
        ("gat_cora.gir", "--placement broadcast --metric macro-f1"),
        (
            "gcn_cora.gir",
            "--placement skip-broadcast --allow stale --skip gap:0.05",
        ),
        (
            "gcnii_cora.gir",
            "--set depth=8 --placement pipeline --allow stale --chunks 4",
        ),
        (
            "gcnii_cora.gir",
            "--set depth=16 --placement pipeline --allow stale --chunks 4 --virtual-stages 2",
        ),
        (
            "sage_cora.gir",
            "--cache 300 --allow sample --batch 35 --fanouts 5,5",
        ),
        (
            "rows.gir",
            "--lazy-embeddings --cache 300 --cache-age 2 --allow sample,stale --batch 35 --fanouts 5,5",
        ),
        (
            "sage_cora.gir",
            "--placement push-pull --allow sample --batch 35 --fanouts 5,5",
        ),
        (
            "sage_cora.gir",
            "--placement model-migration --allow sample --batch 35 --fanouts 5,5",
        ),
    ];
    for (model, more) in cases {
        let made = folder.join(model);
        let model = match made.exists() {
            true => text(&made).to_owned(),
            false => example(model),
        };
        let more: Vec<&str> = more.split_whitespace().collect();
        for (processes, workers) in [(2, "2"), (2, "4")] {
            if workers == "4" && more.contains(&"--virtual-stages") {
                continue;
            }
            let [alone, file] = ["alone", "together"].map(|name| folder.join(name));
            let train = [
                "train",
                &model,
                "--epochs",
                "5",
                "--workers",
                workers,
                "--format",
                "json",
            ];
            let with = |file| [&train[..], &more, &["--checkpoint", text(file)]].concat();
            let expected = gnnc(with(&alone));
            let Some(found) = together(processes, &with(&file)) else {
                return;
            };
            assert_eq!(found.code, Some(0), "{more:?}: {}", found.stderr);
            assert_eq!(
                numbers(&found.stdout),
                numbers(&expected.stdout),
                "{more:?}, {workers}"
            );
            let read = |file| std::fs::read(file).unwrap();
            assert!(
                read(&file) == read(&alone),
                "{more:?}, {workers}: other checkpoints"
            );
        }
    }
}

#[test]
fn a_run_goes_on_with_other_processes() {
    let folder = Folder::new();
    let model = example("gcn_cora.gir");
    let file = folder.join("checkpoint");
    let train = |epochs, more: &[&'static str]| {
        let args = [
            "train",
            &model,
            "--placement",
            "tensor",
            "--format",
            "json",
            "--epochs",
            epochs,
        ];
        [&args[..], more]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<String>>()
    };
    let run = |processes, args: Vec<String>, more: &[&str]| {
        let args: Vec<&str> = args
            .iter()
            .map(String::as_str)
            .chain(more.iter().copied())
            .collect();
        together(processes, &args)
    };
    let Some(first) = run(2, train("3", &[]), &["--checkpoint", text(&file)]) else {
        return;
    };
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let resumed = run(4, train("6", &[]), &["--resume", text(&file)]).unwrap();
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    let loss = |report: &str| numbers(report)["train_loss"].as_f64().unwrap();
    let whole = gnnc(train("6", &["--workers", "4"])).ok();
    let distance = (loss(&resumed.stdout) - loss(&whole)).abs();
    assert!(distance < 1e-5, "{distance}");
}

#[test]
fn a_trace_has_the_ranks_of_all_processes() {
    let folder = Folder::new();
    let file = folder.join("trace.json");
    let model = example("gcn_cora.gir");
    let args = [
        "train",
        &model,
        "--epochs",
        "2",
        "--quiet",
        "--trace",
        text(&file),
    ];
    let Some(run) = together(3, &args) else {
        return;
    };
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let trace: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let spans = events.iter().filter(|event| event["ph"] == "X");
    let ranks: BTreeSet<u64> = spans.filter_map(|event| event["pid"].as_u64()).collect();
    assert_eq!(ranks.len(), 3, "{ranks:?}");
}

#[test]
fn commands_without_messages_run_once() {
    let Some(run) = together(2, &["plan", &example("gcn_cora.gir"), "--format", "json"]) else {
        return;
    };
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let plan: Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(plan["candidates"].is_array());
}

/// The errors that gnnc itself printed.
fn errors(run: &Run) -> Vec<&str> {
    run.stderr
        .lines()
        .filter(|line| line.starts_with("error:"))
        .collect()
}

#[test]
fn processes_report_a_mistake_once() {
    let model = example("gcn_cora.gir");
    for (args, part) in [
        (vec!["train", "missing.gir"], "cannot read missing.gir"),
        (
            vec!["train", &model, "--workers", "3"],
            "expected a multiple of the 2 processes",
        ),
        (
            vec!["train", &model, "--resume", "missing.ckpt"],
            "missing.ckpt",
        ),
    ] {
        let Some(run) = together(2, &args) else {
            return;
        };
        assert_eq!(run.code, Some(1));
        let said = errors(&run);
        assert_eq!(said.len(), 1, "{}", run.stderr);
        assert!(said[0].contains(part), "{}", said[0]);
    }
}

#[test]
fn processes_that_differ_are_refused() {
    let Some(mut launcher) = launcher(1) else {
        return;
    };
    let model = example("gcn_cora.gir");
    let train = ["train", &model, "--epochs", "2"];
    let other = [":", "-n", "1", env!("CARGO_BIN_EXE_gnnc")];
    launcher
        .args(train)
        .args(other)
        .args(train)
        .args(["--seed", "5"]);
    let run = finished(launcher.output().unwrap());
    assert_eq!(run.code, Some(1));
    let said = errors(&run);
    assert_eq!(said.len(), 1, "{}", run.stderr);
    for part in [
        "the processes disagree",
        "seed: 5 on process 1",
        "0 on process 0",
    ] {
        assert!(said[0].contains(part), "{}", said[0]);
    }
}

/// How long processes may take to end. `scripts/faults.py` checks half of it; tests share the machine with others.
const PATIENCE: Duration = Duration::from_secs(20);

/// The processes of gnnc below a launcher.
fn below(launcher: &Child) -> Vec<i32> {
    let mut found = BTreeSet::from([launcher.id() as i32]);
    let mut named = Vec::new();
    let status = |pid: &i32, key: &str| -> Option<String> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let value = text.lines().find_map(|line| line.strip_prefix(key));
        value.map(|value| value.trim().to_owned())
    };
    let entries = std::fs::read_dir("/proc").unwrap();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let all: Vec<i32> = names.collect();
    for _ in 0..4 {
        for pid in &all {
            let parent = status(pid, "PPid:").and_then(|parent| parent.parse().ok());
            if parent.is_some_and(|parent: i32| found.contains(&parent)) && found.insert(*pid) {
                named.extend((status(pid, "Name:").as_deref() == Some("gnnc")).then_some(*pid));
            }
        }
    }
    named
}

#[test]
fn a_process_that_is_gone_ends_the_others() {
    let folder = Folder::new();
    let model = example("gcn_cora.gir");
    for (signal, how) in [
        (libc::SIGKILL, "ended without a message"),
        (libc::SIGSTOP, "has not answered"),
    ] {
        let Some(mut launcher) = launcher(3) else {
            return;
        };
        let log = folder.join("log.jsonl");
        let train = [
            "train",
            &model,
            "--epochs",
            "1000000",
            "--quiet",
            "--log",
            text(&log),
        ];
        let launcher = launcher
            .args(train)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let run = launcher.spawn().unwrap();
        let begin = Instant::now();
        let trains = || std::fs::read_to_string(&log).is_ok_and(|log| log.lines().count() > 3);
        while !trains() {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "it does not train"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let victims = below(&run);
        assert_eq!(victims.len(), 3);
        // SAFETY: the process is one of ours.
        assert_eq!(unsafe { libc::kill(victims[1], signal) }, 0);
        let hit = Instant::now();
        let run = finished(run.wait_with_output().unwrap());
        assert!(hit.elapsed() < PATIENCE, "it took {:?}", hit.elapsed());
        assert_ne!(run.code, Some(0));
        std::fs::remove_file(&log).unwrap();
        let said = errors(&run);
        // A launcher that kills the others first says so itself.
        if signal == libc::SIGSTOP || !said.is_empty() {
            let told = said.join("\n");
            assert!(
                told.contains(how) && told.contains("the process of rank"),
                "{}",
                run.stderr
            );
        }
    }
}
