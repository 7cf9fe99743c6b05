//! Attacks on the binary that take seconds; `scripts/attack.py` makes the longer ones.

use crate::data::{folder, longs, model, model_with, npz, ring};
use crate::support::{Folder, Run, command, example, finished, gnnc, refused, text};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs gnnc in a shell that runs `before` first, such as a limit.
fn limited(before: &str, args: &[&str]) -> Run {
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(format!("{before}; exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_gnnc"))
        .args(args)
        .env(
            "GNNC_CACHE",
            concat!(env!("CARGO_TARGET_TMPDIR"), "/kernels"),
        );
    finished(shell.output().unwrap())
}

fn pipe(folder: &Folder) -> String {
    let path = folder.join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    text(&path).to_owned()
}

fn with_cache(cache: &Path, model: &Path) -> Run {
    let mut command = command();
    command
        .args(["train", text(model)])
        .env("GNNC_CACHE", cache);
    finished(command.output().unwrap())
}

#[test]
fn kernels_that_others_may_have_written_are_not_used() {
    let (folder, model) = folder(&ring());
    let cache = folder.join("cache");
    let quiet = with_cache(&cache, &model);
    assert!(!quiet.stderr.contains("warning"), "{}", quiet.stderr);
    let kept = fs::read_dir(&cache)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();

    fs::set_permissions(&kept, Permissions::from_mode(0o666)).unwrap();
    let warned = with_cache(&cache, &model);
    assert_eq!(
        warned.stderr.matches("compiled again").count(),
        1,
        "{}",
        warned.stderr
    );
    assert!(warned.stderr.contains("others can write to it"));
    assert!(
        !with_cache(&cache, &model).stderr.contains("compiled again"),
        "it was replaced"
    );

    fs::set_permissions(&cache, Permissions::from_mode(0o777)).unwrap();
    let warned = with_cache(&cache, &model);
    assert_eq!(warned.code, Some(0));
    assert_eq!(
        warned.stderr.matches("chmod go-w").count(),
        1,
        "{}",
        warned.stderr
    );

    let relative = with_cache(Path::new("cache"), &model);
    relative.fails(1, &["GNNC_CACHE", "absolute path"]);
}

#[test]
fn what_is_no_file_is_refused_everywhere_at_once() {
    let (folder, model) = folder(&ring());
    let (pipe, model) = (pipe(&folder), text(&model));
    let graph = folder.join("g.npz");
    for (odd, said) in [(pipe.as_str(), "a pipe"), ("/dev/zero", "a device")] {
        for args in [
            &["check", odd][..],
            &["fmt", odd],
            &["explain", odd],
            &["plan", odd],
            &["train", odd],
            &["diff", odd, odd],
            &["trace", "diff", odd, odd],
            &["graph", "stats", odd],
            &["check", model, "--graph", odd],
            &["plan", model, "--workload", odd],
            &["plan", model, "--cluster", odd],
            &["train", model, "--resume", odd],
            &[
                "graph",
                "convert",
                text(&graph),
                "out.npz",
                "--features",
                odd,
            ],
        ] {
            refused(1, args, &[said, "expected a regular file"]);
        }
    }
}

#[test]
fn a_model_may_come_from_standard_input() {
    let check = |content: &[u8]| {
        let mut command = command();
        command.args(["check", "-"]).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A reader that has seen enough closes its end.
        let _ = child.stdin.take().unwrap().write_all(content);
        finished(child.wait_with_output().unwrap())
    };
    check(model_with("let h = x |> linear(3)").as_bytes()).ok();
    check(&vec![b' '; 5 << 20]).fails(1, &["expected at most 4194304 bytes"]);
}

#[test]
fn small_files_take_little_memory() {
    let folder = Folder::new();
    let file = folder.join("g.npz");
    let wide = 1i64 << 31;
    npz(
        &file,
        &[
            ("indptr", "<i8", "(3,)", longs(&[0, 1, 2])),
            ("indices", "<i8", "(2,)", longs(&[1, 0])),
            ("feat_indptr", "<i8", "(3,)", longs(&[0, 0, 0])),
            ("feat_indices", "<i8", "(0,)", vec![]),
            ("feat_data", "<f4", "(0,)", vec![]),
            ("feat_shape", "<i8", "(2,)", longs(&[2, wide])),
        ],
    );
    let model = folder.file("m.gir", model("g.npz"));
    for args in [
        ["graph", "stats", text(&file)].as_slice(),
        &["check", text(&model)],
    ] {
        let run = limited("ulimit -v 500000", args);
        run.fails(1, &["2147483648", "at most 1048576 columns"]);
    }
}

#[test]
fn memory_that_is_refused_ends_with_a_message() {
    let cora = example("gcn_cora.gir");
    // With less than the program takes itself, the system kills it before it starts.
    let program = fs::metadata(env!("CARGO_BIN_EXE_gnnc")).unwrap().len() as usize / 1024;
    for args in [
        &["check", &cora][..],
        &["train", &cora, "--epochs", "1"],
        &["train", &cora, "--epochs", "1", "--workers", "3"],
        &["plan", &cora],
    ] {
        let mut refused = 0;
        for kilobytes in (program..64_000).step_by(2000).chain([2_000_000]) {
            let run = limited(&format!("ulimit -v {kilobytes}"), args);
            // 127 comes from the loader, before the program starts.
            assert!(
                matches!(run.code, Some(0 | 2 | 127)),
                "{:?} {}",
                run.code,
                run.stderr
            );
            if run.code == Some(2) {
                refused += 1;
                let told = ["memory", "threads"]
                    .iter()
                    .any(|word| run.stderr.contains(word));
                // The C library may print a line about its own lack of memory first.
                let mut lines = run.stderr.lines();
                let error = lines.any(|line| line.starts_with("error: "));
                assert!(error && told, "{}", run.stderr);
            }
        }
        assert!(refused > 0, "{args:?} never lacked memory");
    }
}

/// Four times as many mistakes take about four times as long.
#[test]
fn thousands_of_mistakes_are_told_quickly() {
    let folder = Folder::new();
    let timed = |mistakes: usize| {
        let lines: Vec<String> = (0..mistakes).map(|n| format!("let a{n} = b{n}")).collect();
        let file = folder.file("m.gir", model_with(&lines.join("\n  ")));
        // The fastest of several, because other tests run at the same time.
        let times = (0..5).map(|_| {
            let begun = Instant::now();
            let run = gnnc(["check", text(&file)]);
            assert!(run.stderr.matches("E0201").count() <= 100);
            run.fails(1, &["E0201", "more are not shown"]);
            begun.elapsed()
        });
        times.min().unwrap()
    };
    let (few, many) = (timed(2_000), timed(8_000));
    assert!(many < 8 * few, "{many:?} instead of {few:?}");
}

/// A checkpoint that does not fit on the disk; a file size limit simulates a full disk.
#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_one_before() {
    let cora = example("gcn_cora.gir");
    let folder = Folder::new();
    let file = folder.join("c");
    let args = [
        "train",
        &cora,
        "--epochs",
        "2",
        "--no-cache",
        "--checkpoint",
        text(&file),
    ];
    gnnc(args).ok();
    let before = fs::read(&file).unwrap();
    let run = limited("trap '' XFSZ; ulimit -f 8", &args);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    for part in ["cannot write", "the previous checkpoint is intact"] {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_eq!(folder.names(), ["c", "c.best"], "nothing is left aside");
}

/// A run that would take hours, after it has started.
fn long_run(folder: &Folder, more: &[&str]) -> Child {
    shown_run(folder, &[&["--format", "json"], more].concat())
}

/// The same with a report as text.
fn shown_run(folder: &Folder, more: &[&str]) -> Child {
    let cora = example("gcn_cora.gir");
    let curve = folder.join("curve.csv");
    let args = [
        "train",
        &cora,
        "--epochs",
        "100000000",
        "--evaluate-every",
        "3",
    ];
    let mut command = command();
    command
        .args(args)
        .args(["--curve", text(&curve)])
        .args(more);
    let lines = || {
        fs::read_to_string(&curve)
            .unwrap_or_default()
            .lines()
            .count()
    };
    begun(command, || lines() >= 4)
}

/// A run that signals end, after it has come so far.
pub fn begun(mut command: Command, so_far: impl Fn() -> bool) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // A shell's background jobs ignore SIGINT, those of nohup SIGHUP, and children inherit that.
    // SAFETY: `signal` is safe to call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    let child = command.spawn().unwrap();
    let begun = Instant::now();
    while !so_far() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "files are written as epochs are done"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

pub fn send(child: &Child, signal: i32) {
    // SAFETY: the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

pub fn ended(child: Child) -> (Output, Duration) {
    let begun = Instant::now();
    (child.wait_with_output().unwrap(), begun.elapsed())
}

#[test]
fn signals_end_a_run_in_order() {
    let cora = example("gcn_cora.gir");
    for (signal, code, placed) in [
        (libc::SIGINT, 130, &["--workers", "1"][..]),
        (libc::SIGTERM, 143, &["--workers", "3"]),
        (
            libc::SIGHUP,
            129,
            &[
                "--workers",
                "2",
                "--placement",
                "pipeline",
                "--allow",
                "stale",
            ],
        ),
    ] {
        let folder = Folder::new();
        let file = folder.join("c");
        let checkpoint = ["--checkpoint", text(&file)];
        let child = long_run(&folder, &[placed, &checkpoint].concat());
        send(&child, signal);
        let (output, waited) = ended(child);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(waited < Duration::from_secs(5), "{waited:?}");
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(summary["interrupted"], true);
        let epochs = summary["epochs"].as_u64().unwrap();
        let curve = fs::read_to_string(folder.join("curve.csv")).unwrap();
        assert_eq!(curve.lines().count() as u64, epochs / 3 + 1);

        // It continues as if nothing had happened.
        let more = (epochs + 2).to_string();
        let whole = folder.join("whole");
        let run = |words: &[&str]| {
            let args = ["train", &cora, "--epochs", &more, "--evaluate-every", "3"];
            gnnc([&args[..], placed, words].concat()).ok();
        };
        run(&["--checkpoint", text(&whole)]);
        run(&["--resume", text(&file), "--checkpoint", text(&file)]);
        assert!(
            fs::read(&file).unwrap() == fs::read(&whole).unwrap(),
            "other bytes"
        );
    }
}

#[test]
fn the_first_interrupt_lets_the_epoch_finish() {
    let folder = Folder::new();
    let log = folder.join("log");
    let child = shown_run(&folder, &["--log", text(&log), "--workers", "2"]);
    send(&child, libc::SIGINT);
    let (output, _) = ended(child);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let epoch = said
        .strip_prefix("finishing epoch ")
        .and_then(|rest| rest.strip_suffix("; press again to stop now\n"))
        .and_then(|number| number.parse::<u64>().ok())
        .expect(&said);
    let log = fs::read_to_string(log).unwrap();
    let summary: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&summary["event"], &summary["interrupted"]),
        (&"summary".into(), &true.into())
    );
    // The epoch may have ended while the note was written.
    let epochs = summary["epochs"].as_u64().unwrap();
    assert!(epochs == epoch || epochs == epoch + 1, "{epochs}, {said}");
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(report.contains("(interrupted)"), "{report}");
}

#[test]
fn an_interrupt_between_seeds_leaves_no_untrained_checkpoint() {
    let (folder, model) = folder(&ring());
    let run = folder.join("run");
    let mut command = command();
    command.args(["train", text(&model), "--seeds", "1000000"]);
    command.args(["--epochs", "1", "--format", "json"]);
    command.args(["--checkpoint", text(&run)]);
    let child = begun(command, || folder.join("run.seed-1").exists());
    send(&child, libc::SIGINT);
    let (output, _) = ended(child);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names = folder.names().into_iter();
    let kept = names.filter(|name| name.starts_with("run.") && !name.ends_with(".best"));
    assert_eq!(report["seeds"], kept.count());
}

#[test]
fn other_commands_end_at_once_and_nobody_blames_metis() {
    let folder = Folder::new();
    let graph = folder.join("g.npz");
    let sizes = [
        "--vertices",
        "100000",
        "--edges",
        "2000000",
        "--out",
        text(&graph),
    ];
    gnnc(["graph", "generate", "rmat"].iter().chain(&sizes)).ok();
    let mut command = command();
    command.args(["graph", "partition", text(&graph), "--parts", "64"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    send(&child, libc::SIGTERM);
    let (output, waited) = ended(child);
    assert_eq!(output.status.signal(), Some(libc::SIGTERM), "{output:?}");
    assert!(waited < Duration::from_secs(1), "{waited:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn signals_that_are_ignored_stay_so() {
    let folder = Folder::new();
    let cora = example("gcn_cora.gir");
    let mut shell = Command::new("sh");
    let script = "trap '' HUP; exec \"$0\" \"$@\"";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_gnnc"), "train", &cora]);
    shell.args([
        "--epochs",
        "3000",
        "--no-cache",
        "--checkpoint",
        text(&folder.join("c")),
    ]);
    shell.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = shell.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    send(&child, libc::SIGHUP);
    let (output, _) = ended(child);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// The C library aborts where it cannot allocate for itself. An abort of any other cause stays one.
#[test]
fn an_abort_without_memory_is_told_as_a_lack_of_memory() {
    for lacks in [false, true] {
        let folder = Folder::new();
        let child = long_run(&folder, &["--workers", "1"]);
        send(&child, libc::SIGSTOP);
        if lacks {
            let least = libc::rlimit {
                rlim_cur: 1,
                rlim_max: 1,
            };
            let of = child.id() as i32;
            // SAFETY: the limit is read, and the one before is not asked for.
            let set = unsafe { libc::prlimit(of, libc::RLIMIT_AS, &least, std::ptr::null_mut()) };
            assert_eq!(set, 0);
        }
        send(&child, libc::SIGABRT);
        send(&child, libc::SIGCONT);
        let (output, _) = ended(child);
        let told = String::from_utf8_lossy(&output.stdout);
        match lacks {
            true => {
                assert_eq!(output.status.code(), Some(2), "{output:?}");
                assert!(told.contains("refused 131072 bytes"), "{output:?}");
            }
            false => assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}"),
        }
    }
}
