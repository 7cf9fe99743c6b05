//! `gnnc train --measure-merges`: how many visits of a model are merged, by timing epochs.

use crate::support::{example, gnnc, refused};

const BATCHES: [&str; 6] = ["--allow", "sample", "--batch", "35", "--fanouts", "5,5"];

#[test]
fn a_run_finds_its_merges_by_timing_epochs() {
    let model = example("sage_cora.gir");
    let moves = [
        "--placement",
        "model-migration",
        "--workers",
        "3",
        "--epochs",
        "6",
    ];
    let run = |more: &[&str]| {
        let args = ["train", &model, "--format", "json"];
        gnnc(args.iter().chain(&BATCHES).chain(&moves).chain(more)).json()
    };
    let found = run(&["--measure-merges", "--check", "bytes"]);
    let timed = found["merges"]["epoch_seconds"].as_array().unwrap();
    let seconds: Vec<f64> = timed.iter().map(|s| s.as_f64().unwrap()).collect();
    let chosen = found["merges"]["merges"].as_u64().unwrap() as usize;
    // Faster until the last, which is either slower or the one with a single visit.
    let faster = |n: &usize| seconds[n + 1] < 0.98 * seconds[*n];
    assert!((0..chosen).all(|n| faster(&n)), "{seconds:?}");
    assert!(
        chosen == 2 || !faster(&chosen),
        "{seconds:?}, chosen {chosen}"
    );
    // Sums are those of any number of merges, in another order.
    let fixed = run(&[]);
    assert!(fixed["merges"].is_null());
    let loss = |run: &serde_json::Value| run["train_loss"].as_f64().unwrap();
    assert!((loss(&found) - loss(&fixed)).abs() < 1e-5 * loss(&fixed));
    assert_eq!(found["epochs"], 6);
}

#[test]
fn merges_are_measured_only_where_models_move() {
    let model = example("sage_cora.gir");
    let train = ["train", &model, "--measure-merges"];
    let with = |more: &[&'static str], why: &str| {
        refused(1, &[&train[..], &BATCHES, more].concat(), &[why]);
    };
    with(&["--placement", "minibatch"], "no model moves");
    let moves = ["--placement", "model-migration", "--workers", "3"];
    with(
        &[&moves[..], &["--merges", "1"]].concat(),
        "leaves nothing to measure",
    );
}
