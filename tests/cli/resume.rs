//! A run that stops and resumes ends with the numbers of an uninterrupted one.

use crate::data::{folder, ring};
use crate::processes::together;
use crate::support::{Folder, command, example, finished, gnnc, refused, text};

#[test]
fn resumed_runs_end_with_the_same_numbers() {
    let cora = example("gcn_cora.gir");
    for workers in ["1", "2"] {
        let folder = Folder::new();
        let (whole, half) = (folder.join("whole"), folder.join("half"));
        let run = |epochs: &str, more: &[&str]| {
            let args = [
                "train",
                &cora,
                "--workers",
                workers,
                "--format",
                "json",
                "--epochs",
            ];
            gnnc(args.iter().chain(&[epochs]).chain(more)).json()
        };
        let expected = run("12", &["--checkpoint", text(&whole)]);
        run("5", &["--checkpoint", text(&half)]);
        let found = run(
            "12",
            &["--resume", text(&half), "--checkpoint", text(&half)],
        );
        for key in [
            "epochs",
            "train_loss",
            "val_accuracy",
            "test_accuracy",
            "best_epoch",
        ] {
            assert_eq!(found[key], expected[key], "{key}, {workers} workers");
        }
        for end in ["", ".best"] {
            let file = |name: &str| std::fs::read(folder.join(&format!("{name}{end}"))).unwrap();
            assert!(file("half") == file("whole"), "{workers} workers, {end}");
        }
        let names = ["half", "half.best", "half.previous", "whole", "whole.best"];
        assert_eq!(folder.names(), names);
    }
}

/// A run that goes on has the learning rates of one that never stopped.
#[test]
fn schedules_go_on_where_they_were() {
    let cora = example("gcn_cora.gir");
    let folder = Folder::new();
    let (whole, half) = (folder.join("whole"), folder.join("half"));
    let run = |epochs: &str, schedule: &str, more: &[&str]| {
        let args = [
            "train", &cora, "--format", "json", "--lr", "0.02", "--epochs", epochs,
        ];
        gnnc([&args, &["--schedule", schedule][..], more].concat()).json()
    };
    for schedule in ["step:3/0.5", "warmup:7"] {
        let expected = run("10", schedule, &["--checkpoint", text(&whole)]);
        run("5", schedule, &["--checkpoint", text(&half)]);
        let resume = ["--resume", text(&half), "--checkpoint", text(&half)];
        let found = run("10", schedule, &resume);
        assert_eq!(found["train_loss"], expected["train_loss"], "{schedule}");
        assert!(
            std::fs::read(&half).unwrap() == std::fs::read(&whole).unwrap(),
            "{schedule}"
        );
        let constant = run("10", "constant", &[]);
        assert_ne!(found["train_loss"], constant["train_loss"], "{schedule}");
    }
    // A model may say the same.
    let model = std::fs::read_to_string(&cora).unwrap();
    let data = format!("{}/data/cora.npz", example("").trim_end_matches('/'));
    let written = |schedule: &str| {
        let setting = format!("adam(lr = 0.01)  schedule = {schedule}");
        let model = model
            .replace("data/cora.npz", &data)
            .replace("adam(lr = 0.01)", &setting);
        folder.file("m.gir", model)
    };
    let scheduled = written("step(3, 0.5)");
    let args = [
        "train",
        text(&scheduled),
        "--format",
        "json",
        "--lr",
        "0.02",
        "--epochs",
        "10",
    ];
    let given = run("10", "step:3/0.5", &[]);
    assert_eq!(gnnc(args).json()["train_loss"], given["train_loss"]);
    let wrong = written("cosine(0.5)");
    gnnc(["check", text(&wrong)]).fails(1, &["E0403", "`cosine`, `cosine(10)` or `plateau("]);
    let wrong = ["train", &cora, "--schedule", "linear"];
    gnnc(wrong).fails(1, &["found `linear`", "step:EPOCHS/FACTOR"]);
}

/// Checkpoints hold whole parameters, even if ranks hold only parts of them.
#[test]
fn runs_go_on_with_other_placements_and_workers() {
    let cora = example("gcn_cora.gir");
    let folder = Folder::new();
    let file = folder.join("c");
    let run = |epochs: &str, workers: &str, placement: &str, more: &[&str]| {
        let args = ["train", &cora, "--format", "json", "--epochs", epochs];
        let placed = ["--workers", workers, "--placement", placement];
        gnnc(args.iter().chain(&placed).chain(more)).json()
    };
    let whole = run("9", "1", "graph", &[]);
    run("3", "3", "push-pull", &["--checkpoint", text(&file)]);
    let resume = ["--resume", text(&file), "--checkpoint", text(&file)];
    run("5", "2", "graph", &resume);
    run("7", "4", "push-pull", &resume);
    // Its first parameter is sharded too.
    let plan = folder.join("plan.json");
    let pin = "placement=mixed,ranks=3,features=columns,partitioner=metis";
    let cluster = ["--cluster", "cpu", "--gpus", "3", "--pin", pin];
    gnnc([&["plan", &cora, "--out", text(&plan)], &cluster[..]].concat()).report();
    let mixed = ["train", text(&plan), "--format", "json", "--epochs", "8"];
    gnnc([&mixed[..], &resume[..]].concat()).json();
    let found = run("9", "5", "push-pull", &resume);
    let (found, expected) = (&found["train_loss"], &whole["train_loss"]);
    let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
    assert!(
        (found - expected).abs() < 1e-4 * expected,
        "{found}, not {expected}"
    );
}

#[test]
fn a_resumed_run_reports_the_seed_of_its_checkpoint() {
    let (folder, model) = folder(&ring());
    let file = folder.join("c");
    let train = ["train", text(&model), "--format", "json", "--epochs"];
    let run = |more: &[&str]| gnnc(train.iter().chain(more)).json();
    let first = run(&["3", "--seed", "5", "--checkpoint", text(&file)]);
    assert_eq!(first["seed"], 5);
    let resume = ["--resume", text(&file)];
    for more in [&["6"][..], &["6", "--seed", "5"]] {
        let again = run(&[more, &resume].concat());
        assert_eq!(again["seed"], 5, "{more:?}");
        assert_eq!(
            again["train_loss"],
            run(&[&["6", "--seed", "5"][..]].concat())["train_loss"]
        );
    }
    let other = ["train", text(&model), "--seed", "9", resume[0], resume[1]];
    let parts = ["seed 9", "of seed 5", "leave out the seed", text(&file)];
    refused(1, &other, &parts);
}

#[test]
fn a_finished_run_has_nothing_to_go_on_with() {
    let (folder, model) = folder(&ring());
    let file = folder.join("c");
    let trained = gnnc([
        "train",
        text(&model),
        "--checkpoint",
        text(&file),
        "--format",
        "json",
    ]);
    let trained = trained.json();
    let args = ["train", text(&model), "--resume", text(&file)];
    assert!(
        gnnc(args)
            .report()
            .contains("the checkpoint already has all requested epochs")
    );
    let again = gnnc(args.iter().chain(&["--format", "json"])).json();
    assert_eq!(again["epochs"], trained["epochs"]);
    assert_eq!(again["test_accuracy"], trained["test_accuracy"]);
    assert!(again["train_loss"].is_null());
}

#[test]
fn checkpoints_of_other_models_and_damaged_ones_are_refused() {
    let (folder, model) = folder(&ring());
    let file = folder.join("c");
    gnnc(["train", text(&model), "--checkpoint", text(&file)]).ok();
    let cora = example("gcn_cora.gir");
    refused(
        1,
        &["train", &cora, "--resume", text(&file)],
        &["cannot be used"],
    );
    let wider = [
        "train",
        text(&model),
        "--set",
        "hidden=5",
        "--resume",
        text(&file),
    ];
    refused(1, &wider, &["cannot be used"]);
    let whole = std::fs::read(&file).unwrap();
    for cut in [0, 7, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&file, &whole[..cut]).unwrap();
        let args = ["train", text(&model), "--resume", text(&file)];
        refused(1, &args, &["cannot be used"]);
    }
    refused(
        1,
        &[
            "train",
            text(&model),
            "--resume",
            text(&folder.join("none")),
        ],
        &["none"],
    );
}

/// A file size limit simulates a full disk: writing fails halfway.
#[test]
fn a_full_disk_loses_nothing() {
    let folder = Folder::new();
    let file = folder.file("c", "what was there before");
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$@\"";
    let gnnc = command();
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", script, "sh"]).arg(gnnc.get_program());
    limited.args([
        "train",
        &example("gcn_cora.gir"),
        "--epochs",
        "2",
        "--no-cache",
    ]);
    limited.args(["--checkpoint", text(&file), "--format", "json"]);
    let run = finished(limited.output().unwrap());
    let error = run.fails_json(2);
    assert!(
        error["message"].as_str().unwrap().contains("cannot write"),
        "{error}"
    );
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "what was there before"
    );
    assert_eq!(folder.names(), ["c"], "nothing is left aside");
}

#[test]
fn what_cannot_be_written_is_said_before_training() {
    let folder = Folder::new();
    let cora = example("gcn_cora.gir");
    let nowhere = folder.join("nowhere/c");
    for option in ["--checkpoint", "--curve", "--log", "--trace"] {
        let args = |path| ["train", &cora, option, path];
        refused(1, &args(text(&nowhere)), &["there is no folder"]);
        let itself = folder.join("");
        refused(1, &args(text(&itself)), &["it is a folder"]);
        refused(1, &args("/dev/full"), &["not a regular file"]);
    }
    refused(
        1,
        &["plan", &cora, "--out", text(&nowhere)],
        &["there is no folder"],
    );
    let args = ["graph", "generate", "rmat", "--out", "/proc/g.npz"];
    let run = gnnc(args);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("/proc/g.npz"), "{}", run.stderr);
}

#[test]
fn a_checkpoint_that_another_run_writes_is_refused() {
    let folder = Folder::new();
    let path = folder.join("run");
    let lock = folder.join(".run.lock");
    let train = [
        "train",
        &example("gcn_cora.gir"),
        "--epochs",
        "2",
        "--checkpoint",
        text(&path),
    ];
    let other = std::fs::File::create(&lock).unwrap();
    other.lock().unwrap();
    refused(1, &train, &["in use by another run"]);
    assert!(!path.exists());
    if let Some(run) = together(2, &train) {
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        assert_eq!(
            run.stderr.matches("in use by another run").count(),
            1,
            "{}",
            run.stderr
        );
    }
    drop(other);
    gnnc(train).ok();
    assert!(path.exists() && !lock.exists());
}
