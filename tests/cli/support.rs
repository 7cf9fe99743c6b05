//! Runs gnnc as a process, in its own folder.

use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Root of the repository.
pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A folder that is removed on drop.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cli-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Names of the files in the folder, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The result of a run of gnnc.
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Path of a file in `examples/`.
pub fn example(name: &str) -> String {
    format!("{ROOT}/examples/{name}")
}

/// gnnc with the cache shared by all tests.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnnc"));
    command
        .current_dir(ROOT)
        .env_remove("COLUMNS")
        .env(
            "GNNC_CACHE",
            concat!(env!("CARGO_TARGET_TMPDIR"), "/kernels"),
        )
        .stdin(Stdio::null());
    command
}

/// Runs gnnc and waits for it.
pub fn gnnc<T: AsRef<OsStr>>(args: impl IntoIterator<Item = T>) -> Run {
    finished(command().args(args).output().unwrap())
}

/// Trains GCN on Cora with two workers.
pub fn train_two(more: &[&str]) -> Run {
    let cora = example("gcn_cora.gir");
    gnnc(["train", &cora, "--workers", "2"].iter().chain(more))
}

/// Plans GCNII on Cora for three stages with two runs of layers each.
pub fn plan_runs(more: &[&str]) -> Run {
    let cora = example("gcnii_cora.gir");
    let pin = "placement=pipeline,ranks=3,chunks=4,virtual-stages=2";
    let plan = [
        "plan",
        &cora,
        "--cluster",
        "cpu",
        "--gpus",
        "3",
        "--pin",
        pin,
    ];
    gnnc(plan.iter().chain(more))
}

/// Like [`gnnc`], and also returns the processor seconds.
pub fn gnnc_seconds<T: AsRef<OsStr>>(args: impl IntoIterator<Item = T>) -> (Run, f64) {
    let mut command = command();
    let command = command.args(args).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    // A process that has ended stays until it is waited for; its report is shorter than a
    // pipe's buffer.
    let ticks = loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields = stat.rsplit(')').next().unwrap().split_whitespace();
        let fields: Vec<&str> = fields.collect();
        if fields[0] == "Z" {
            break fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    // A hundred ticks per second on every machine.
    (finished(child.wait_with_output().unwrap()), ticks / 100.0)
}

pub fn finished(output: Output) -> Run {
    let run = Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

impl Run {
    /// The report of a successful run, which printed nothing to standard error.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(
            (self.code, self.stderr.as_str()),
            (Some(0), ""),
            "{}",
            self.stdout
        );
        self.stdout
    }

    /// Like `ok`, for readable text: no color, and under 100 columns (apart from the folder of
    /// the checkout, whose length may be anything).
    #[track_caller]
    pub fn report(self) -> String {
        let text = self.ok();
        for line in text.lines() {
            let own = line
                .replace(env!("CARGO_TARGET_TMPDIR"), "")
                .replace(ROOT, "");
            assert!(own.chars().count() < 100, "a long line: {line}");
            assert!(!line.contains('\u{1b}'), "colour in a pipe: {line}");
            assert_eq!(line, line.trim_end(), "spaces at the end");
        }
        assert!(text.ends_with('\n'));
        text
    }

    /// Like `ok`, for JSON: one value.
    #[track_caller]
    pub fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// The report of a plan or sweep that chooses nothing.
    #[track_caller]
    pub fn unchosen(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(3), ""));
        self.stdout
    }

    /// A plan as JSON; the exit code says whether it chooses anything.
    #[track_caller]
    pub fn plan(self) -> Value {
        let plan: Value = serde_json::from_str(&self.stdout).unwrap();
        let code = if plan["chosen"].is_null() { 3 } else { 0 };
        assert_eq!((self.code, self.stderr.as_str()), (Some(code), ""));
        plan
    }

    /// Expects a failed run: this exit code, no report, and messages that contain all `parts`.
    #[track_caller]
    pub fn fails(self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "", "a failure has no report");
        for part in parts {
            assert!(
                self.stderr.contains(part),
                "no `{part}` in: {}",
                self.stderr
            );
        }
        assert!(!self.stderr.contains('\u{1b}'), "colour in a pipe");
    }

    /// Expects a failed run with this exit code and an error as JSON; returns the error.
    #[track_caller]
    pub fn fails_json(self, code: i32) -> Value {
        assert_eq!(
            (self.code, self.stderr.as_str()),
            (Some(code), ""),
            "{}",
            self.stdout
        );
        let report: Value = serde_json::from_str(&self.stdout).unwrap();
        let error = report["error"].clone();
        assert_eq!(error["exit_code"], code);
        assert!(
            error["kind"].is_string() && error["message"].is_string(),
            "{error}"
        );
        error
    }
}

/// Expects both formats to fail with the same code and messages that contain `parts`.
#[track_caller]
pub fn refused(code: i32, args: &[&str], parts: &[&str]) {
    gnnc(args).fails(code, parts);
    let json = gnnc(args.iter().chain(&["--format", "json"]));
    json.fails_json(code);
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
