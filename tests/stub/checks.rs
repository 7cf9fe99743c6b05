//! `scripts/gpu_check` on the stubs, with a suite in which one test hangs, one crashes and one
//! ends early.

use crate::stub;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Stand-in for the suite. The test that hangs does so in a process that it started.
const SUITE: &str = r#"#!/bin/sh
if [ "$1" = --list ]; then
    printf 'a::passes: test\nb::hangs: test\nc::crashes: test\nd::leaves: test\ne::fails: test\nf::skips: test\ng::ends: test\nh::passes: test\n'
    exit 0
fi
ok="test result: ok. 1 passed; 0 failed"
case "$1" in
    *::passes) echo "$ok" ;;
    b::hangs) echo "so far"; sleep 300 & echo $! > hanging; wait ;;
    c::crashes) kill -SEGV $$ ;;
    d::leaves) sleep 300 & echo $! > left; echo "$ok" ;;
    e::fails) echo "thread 'e::fails' panicked at x.rs:1:"; echo "found 1, expected 2"; exit 101 ;;
    f::skips) echo "skipped skips: no GPU"; echo "$ok" ;;
    g::ends) exit 0 ;;
esac
"#;

/// A folder as `build` makes it, with another suite.
struct Bundle {
    folder: PathBuf,
    libraries: PathBuf,
}

impl Drop for Bundle {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn copy(from: &Path, to: &Path, ending: &str) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|found| ending.is_empty() || found == ending)
        {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

impl Bundle {
    /// `None` with a printed reason, if there is no Python or no C compiler.
    fn new(test: &str) -> Option<Self> {
        let libraries = stub::folder(test)?;
        if Command::new("python3").arg("--version").output().is_err() {
            println!("skipped {test}: there is no Python `python3`");
            return None;
        }
        let name = format!("check-{}-{test}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let root = Path::new(ROOT);
        copy(
            &root.join("scripts/gpu_checks"),
            &folder.join("gpu_checks"),
            "py",
        );
        copy(&root.join("benches/gpu"), &folder.join("benches/gpu"), "py");
        fs::copy(root.join("scripts/gpu_check"), folder.join("gpu_check")).unwrap();
        fs::create_dir_all(folder.join("examples")).unwrap();
        symlink(env!("CARGO_BIN_EXE_gnnc"), folder.join("gnnc")).unwrap();
        fs::write(folder.join("suite"), SUITE).unwrap();
        fs::set_permissions(folder.join("suite"), fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self { folder, libraries })
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new("python3");
        command
            .arg("gpu_check")
            .arg("run")
            .args(words)
            .args(["--out", "out"])
            .current_dir(&self.folder)
            .env("GNNC_CUDA_LIBRARIES", &self.libraries)
            .env_remove("LD_LIBRARY_PATH")
            .stdin(Stdio::null());
        command.output().unwrap()
    }

    /// Name, outcome and text of a step's rows.
    fn rows(&self, step: &str) -> Vec<[String; 3]> {
        let text = fs::read_to_string(self.folder.join("out/report.json")).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        let rows = report["steps"][step].as_array().cloned();
        let field = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
        let rows = rows.unwrap_or_default().into_iter();
        rows.map(|row| ["name", "outcome", "words"].map(|name| field(&row, name)))
            .collect()
    }

    /// Whether the process whose ID is in a file still runs.
    fn runs(&self, file: &str) -> bool {
        let number = fs::read_to_string(self.folder.join(file)).unwrap();
        Path::new("/proc").join(number.trim()).join("exe").exists()
    }

    #[track_caller]
    fn ends(&self, file: &str) {
        let until = Instant::now() + Duration::from_secs(5);
        while self.runs(file) {
            assert!(Instant::now() < until, "the process of {file} is left over");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_test_that_hangs_or_crashes_ends_no_other() {
    let Some(bundle) = Bundle::new("a_test_that_hangs_or_crashes_ends_no_other") else {
        return;
    };
    let done = bundle.run(&["--only", "suite,devices", "--seconds", "60", "--limit", "2"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{said}");
    let rows = bundle.rows("suite");
    let outcomes: Vec<[&str; 2]> = rows
        .iter()
        .map(|[name, found, _]| [&name[..], found])
        .collect();
    let expected = [
        ["a::passes", "passed"],
        ["b::hangs", "failed"],
        ["c::crashes", "failed"],
        ["d::leaves", "passed"],
        ["e::fails", "failed"],
        ["f::skips", "skipped"],
        ["g::ends", "failed"],
        ["h::passes", "passed"],
    ];
    assert_eq!(outcomes, expected);
    for (row, words) in [
        (1, "not done after 2 s"),
        (2, "SIGSEGV"),
        (4, "found 1, expected 2"),
        (5, "no GPU"),
        (6, "before its result"),
    ] {
        assert!(rows[row][2].contains(words), "{:?}", rows[row]);
    }
    let log = fs::read_to_string(bundle.folder.join("out/logs/suite-b-hangs.out")).unwrap();
    assert_eq!(log, "so far\n", "what it wrote is kept");
    bundle.ends("hanging");
    bundle.ends("left");
    let report = fs::read_to_string(bundle.folder.join("out/report.md")).unwrap();
    assert!(
        report.contains("## suite: 3 passed, 4 failed, 1 skipped"),
        "{report}"
    );
    assert_eq!(bundle.rows("devices")[0][..2], ["Stub", "passed"]);
}

/// The report names what the budget leaves no time for, and running work is ended.
#[test]
fn a_budget_is_kept() {
    let Some(bundle) = Bundle::new("a_budget_is_kept") else {
        return;
    };
    let begin = Instant::now();
    let done = bundle.run(&["--only", "suite", "--seconds", "8"]);
    // Far less than the 300 s for which the second test sleeps.
    assert!(begin.elapsed() < Duration::from_secs(30));
    assert_eq!(done.status.code(), Some(1));
    let rows = bundle.rows("suite");
    assert_eq!(rows.len(), 8);
    assert_eq!(rows[0][1], "passed");
    assert!(
        rows[1..].iter().all(|row| row[1] == "unfinished"),
        "{rows:?}"
    );
    assert!(rows[1][2].contains("cut off after"), "{rows:?}");
    assert!(rows[2][2].contains("not begun"), "{rows:?}");
    bundle.ends("hanging");
    // Steps that ran before stay in the report.
    bundle.run(&["--only", "devices", "--seconds", "20"]);
    assert_eq!(bundle.rows("suite"), rows);
    assert!(!bundle.rows("devices").is_empty());
}

/// A check that is terminated ends what it started, and keeps the rows that it has.
#[test]
fn a_check_that_is_ended_leaves_its_rows() {
    let Some(bundle) = Bundle::new("a_check_that_is_ended_leaves_its_rows") else {
        return;
    };
    let mut check = Command::new("python3")
        .args(["gpu_check", "run", "--only", "suite", "--out", "out"])
        .current_dir(&bundle.folder)
        .env("GNNC_CUDA_LIBRARIES", &bundle.libraries)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while !bundle.folder.join("hanging").exists() || !bundle.runs("hanging") {
        assert!(Instant::now() < until, "the suite does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Rows are written as they come, not at the end.
    assert_eq!(bundle.rows("suite").len(), 1);
    let number = check.id().to_string();
    let ended = Command::new("kill").arg(number).status().unwrap();
    assert!(ended.success());
    assert_eq!(check.wait().unwrap().code(), Some(143));
    bundle.ends("hanging");
    assert_eq!(bundle.rows("suite").len(), 1);
}

/// Unversioned names in the loader's path would win over the named folder for one of two
/// libraries, but both must have the same version.
#[test]
fn products_are_of_one_place() {
    let Some(bundle) = Bundle::new("products_are_of_one_place") else {
        return;
    };
    let toolkit = bundle.folder.join("toolkit");
    fs::create_dir(&toolkit).unwrap();
    let from = bundle.libraries.join("libcublas.so.13");
    fs::copy(from, toolkit.join("libcublas.so")).unwrap();
    let mut command = Command::new("python3");
    let words = ["gpu_check", "run", "--only", "devices", "--out", "out"];
    let done = command
        .args(words)
        .current_dir(&bundle.folder)
        .env("GNNC_CUDA_LIBRARIES", &bundle.libraries)
        .env("LD_LIBRARY_PATH", &toolkit)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let rows = bundle.rows("devices");
    for library in ["cuBLAS", "cuBLASLt"] {
        let row = rows.iter().find(|row| row[0] == library).unwrap();
        let file = Path::new(row[2].split(", ").last().unwrap());
        let file = file.canonicalize().unwrap();
        assert!(file.starts_with(&bundle.libraries), "{row:?}");
    }
}

/// Stand-ins for gnnc and PyTorch in the epoch benchmark: they record what they are asked.
const EPOCHS: &str = r#"#!/bin/sh
while read -r line; do
    echo gnnc >> asked
    case "$line" in *sage*) moved=8 ;; *) moved=0 ;; esac
    echo "{\"epoch_seconds\":[0.5],\"peak_bytes\":1,\"set_up_seconds\":1,\"moved_bytes\":$moved,\"host_bytes\":0}"
done
"#;
const PEER: &str = r#"
import json, sys
for line in sys.stdin:
    op = json.loads(line)["op"]
    open("asked", "a").write(op + "\n")
    print(json.dumps({"variants": ["v"], "epoch_seconds": [1.0], "peak_bytes": 2}), flush=True)
"#;

/// Neither side holds memory while the other trains, and a row whose epochs copy from the host
/// counts as failed.
#[test]
fn epochs_are_compared_on_an_empty_device() {
    let Some(bundle) = Bundle::new("epochs_are_compared_on_an_empty_device") else {
        return;
    };
    fs::write(bundle.folder.join("epochs"), EPOCHS).unwrap();
    fs::set_permissions(
        bundle.folder.join("epochs"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    fs::write(bundle.folder.join("benches/gpu/peer.py"), PEER).unwrap();
    fs::create_dir(bundle.folder.join("graphs")).unwrap();
    fs::write(bundle.folder.join("graphs/twitter-like.npz"), "").unwrap();
    let words = "-B benches/gpu/epochs.py --graphs twitter-like --models gcn,sage --hidden 64 --layers 2 \
                 --folder graphs --out out/gpu-epochs";
    let mut command = Command::new("python3");
    let command = command.args(words.split_whitespace());
    let done = command.current_dir(&bundle.folder).output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let asked = fs::read_to_string(bundle.folder.join("asked")).unwrap();
    let row = "variants epochs epochs empty gnnc epochs empty";
    let asked: Vec<&str> = asked.split_whitespace().collect();
    assert_eq!(asked.join(" "), format!("about {row} {row}"));
    let table = fs::read_to_string(bundle.folder.join("out/gpu-epochs.md")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    let [gcn, sage] = lines[lines.len() - 2..] else {
        panic!("{table}");
    };
    assert!(gcn.contains("| 500 | 1000 | 0.50 |"), "{table}");
    assert!(sage.contains("| – | 1000 | – |"), "{table}");
    assert!(sage.contains("moved 8 bytes"), "{table}");
}
