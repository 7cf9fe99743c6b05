//! Learning rates that fall when evaluations get no better.

use crate::data::{folder, ring};
use crate::support::{Folder, example, gnnc, text};
use serde_json::Value;
use std::path::Path;

/// The evaluated epochs of a log.
fn epochs(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|line: &Value| line["event"] == "epoch")
        .collect()
}

fn numbers(epochs: &[Value], key: &str) -> Vec<f64> {
    let number = |epoch: &Value| epoch[key].as_f64().unwrap();
    epochs.iter().map(number).collect()
}

/// The rates of `ReduceLROnPlateau(factor = 0.5, patience, threshold = 0)`, in the mode `min`.
fn reduced(first: f64, scores: &[f64], patience: usize) -> Vec<f64> {
    let (mut rate, mut best, mut bad) = (first, f64::INFINITY, 0);
    let step = |score: &f64| {
        let of_epoch = rate;
        match *score < best {
            true => (best, bad) = (*score, 0),
            false => bad += 1,
        }
        if bad > patience {
            (rate, bad) = (rate * 0.5, 0);
        }
        of_epoch
    };
    scores.iter().map(step).collect()
}

/// The rate of every epoch follows from the evaluations before it, by loss and by score, on any number of workers and
/// in sampled batches, and a run that goes on has those of one that never stopped.
#[test]
fn rates_are_those_of_pytorch_and_outlive_a_stop() {
    let cora = example("gcn_cora.gir");
    let sampled: &[&str] = &[
        "--placement",
        "minibatch",
        "--allow",
        "sample",
        "--fanouts",
        "4,4",
        "--batch",
        "70",
    ];
    for (workers, metric, way) in [
        ("1", None, &[][..]),
        ("2", Some("accuracy"), &[]),
        ("4", None, &["--placement", "tensor"]),
        ("2", None, sampled),
    ] {
        let folder = Folder::new();
        let (whole, half) = (folder.join("whole"), folder.join("half"));
        let (log, events) = (folder.join("log"), folder.join("events"));
        let run = |epochs: &str, more: &[&str]| {
            let args = [
                "train", &cora, "--format", "json", "--lr", "0.2", "--epochs", epochs,
            ];
            let schedule = [
                "--workers",
                workers,
                "--schedule",
                "plateau(factor = 0.5, patience = 1)",
            ];
            let metric = metric.map_or(Vec::new(), |metric| vec!["--metric", metric]);
            gnnc([&args[..], &schedule, way, &metric, more].concat()).json()
        };
        let files = ["--checkpoint", text(&whole), "--log", text(&log)];
        let expected = run(
            "24",
            &[&files[..], &["--tensorboard", text(&events)]].concat(),
        );
        let epochs = epochs(&log);
        let scores = match metric {
            None => numbers(&epochs, "val_loss"),
            Some(_) => numbers(&epochs, "val_accuracy")
                .iter()
                .map(|x| -x)
                .collect(),
        };
        let rates = numbers(&epochs, "learning_rate");
        let by_hand = reduced(0.2, &scores, 1);
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
        assert!(
            rates.iter().zip(&by_hand).all(near),
            "{rates:?} {by_hand:?}"
        );
        assert!(rates[23] < 0.06 && rates.len() == 24, "{rates:?}");
        // In the middle of a count.
        let stop = (8..20).find(|n| rates[*n] == rates[*n - 1] && scores[*n - 1] > scores[*n - 2]);
        let stop = stop.unwrap_or(9).to_string();
        run(&stop, &["--checkpoint", text(&half)]);
        let found = run(
            "24",
            &["--resume", text(&half), "--checkpoint", text(&half)],
        );
        assert_eq!(
            found["train_loss"], expected["train_loss"],
            "{workers} {way:?}"
        );
        assert!(std::fs::read(&half).unwrap() == std::fs::read(&whole).unwrap());
        let events: Vec<_> = std::fs::read_dir(&events).unwrap().collect();
        let bytes = std::fs::read(events[0].as_ref().unwrap().path()).unwrap();
        let last = (rates[23] as f32).to_le_bytes();
        assert!(
            bytes.windows(4).any(|window| window == last),
            "no rate {}",
            rates[23]
        );
    }
}

#[test]
fn a_plateau_needs_validation_vertices() {
    let mut none = ring();
    none.val = vec![false; 6];
    for (data, works) in [(ring(), true), (none, false)] {
        let (_folder, model) = folder(&data);
        let run = gnnc([
            "train",
            text(&model),
            "--schedule",
            "plateau",
            "--epochs",
            "2",
        ]);
        match works {
            true => assert_eq!(run.code, Some(0), "{}", run.stderr),
            false => run.fails(1, &["validation vertices"]),
        }
    }
    let (folder, model) = folder(&ring());
    let said = std::fs::read_to_string(&model).unwrap();
    for (schedule, error) in [
        ("plateau", None),
        ("plateau(0.1)", None),
        ("plateau(patience = 3)", None),
        ("plateau(factor = 2)", Some("with a factor below 1")),
        ("plateau(patience = 0.5)", Some("with a factor below 1")),
        ("plateau(threshold = 1)", Some("with a factor below 1")),
    ] {
        let with = said.replacen("train {", &format!("train {{ schedule = {schedule} "), 1);
        let file = folder.file("p.gir", with);
        let run = gnnc(["check", text(&file)]);
        match error {
            None => assert_eq!(run.code, Some(0), "{schedule}: {}", run.stderr),
            Some(error) => run.fails(1, &["E0403", error]),
        }
    }
}
