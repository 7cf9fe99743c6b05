//! Plans for the time to an accuracy, by pilots and without.

use crate::data::{folder, ring};
use crate::pilot::{
    BATCHES, PERMITTED, candidates, flat, kind, piloted, planned, read, standings, write,
};
use crate::support::{Folder, example, gnnc, refused, text};
use gnnc::ir::plan::{End, Needed, Pilot, Piloted};
use serde_json::Value;
use std::fs;

#[test]
fn a_pilot_of_something_else_is_refused_with_what_differs() {
    let folder = Folder::new();
    let (file, _) = piloted(&folder, &[]);
    gnnc(planned(&file, &[])).report();
    let refuse = |args: &[&str], said: &[&str]| {
        let objective = ["--objective", "time-to-accuracy", "--pilot", text(&file)];
        refused(1, &[&["plan"], args, &objective].concat(), said);
    };
    let cora = example("gcn_cora.gir");
    let wide = [cora.as_str(), "--set", "hidden=17"];
    let differs = [
        "pilot.toml: the pilot was made for something else",
        "the model is gcn (",
    ];
    refuse(&wide, &differs);
    let citeseer = example("gcn_citeseer.gir");
    refuse(
        &[&citeseer],
        &["the graph is cora (", "citeseer (", "the model is gcn ("],
    );
    refuse(
        &[&cora, "--set", "train.patience=20"],
        &["`patience` is none in the pilot, 20 here"],
    );
    refuse(&[&example("gcn_reddit.gir")], &["is only statistics"]);

    let edited = folder.join("edited.toml");
    let whole = fs::read_to_string(&file).unwrap();
    let refuse = |from: &str, to: &str, said: &[&str]| {
        assert!(whole.contains(from), "{from}");
        fs::write(&edited, whole.replacen(from, to, 1)).unwrap();
        let args = planned(&edited, &[]);
        refused(
            1,
            &args.iter().map(String::as_str).collect::<Vec<_>>(),
            said,
        );
    };
    let version = format!("gnnc = \"{}\"", env!("CARGO_PKG_VERSION"));
    refuse(
        &version,
        "gnnc = \"0.0.1\"",
        &["the version of gnnc is 0.0.1 in the pilot"],
    );
    refuse(
        "version = 1",
        "version = 9",
        &["edited.toml: it has version 9"],
    );
    refuse(
        "name = \"constant\"",
        "name = \"cosine\"\nwarmup = 2",
        &["schedule", "cosine:2 over 200 epochs"],
    );
    refuse(
        "seeds = [0, 1]",
        "seeds = [0]",
        &["has a seed that `seeds` does not list"],
    );
    refuse(
        "version = 1",
        "version = one",
        &["edited.toml: it is no pilot"],
    );
    fs::write(&edited, "{}").unwrap();
    let args = planned(&edited, &[]);
    refused(
        1,
        &args.iter().map(String::as_str).collect::<Vec<_>>(),
        &["is no pilot"],
    );
    let by_time = ["plan", &cora, "--pilot", text(&file)];
    refused(
        1,
        &by_time,
        &[
            "found --pilot with --objective time",
            "--objective time-to-accuracy",
        ],
    );
    let missing = [
        "plan",
        &cora,
        "--objective",
        "time-to-accuracy",
        "--pilot",
        "none.toml",
    ];
    refused(1, &missing, &["none.toml", "No such file"]);
    let sweep = ["sweep", &cora, "--objective", "time-to-accuracy"];
    refused(1, &sweep, &["expected time, memory or bytes"]);
}

#[test]
fn plans_take_epochs_and_the_learning_rate_from_a_pilot() {
    let folder = Folder::new();
    let (file, _) = piloted(&folder, &[&PERMITTED[..], &BATCHES].concat());
    let pilot = read(&file);
    let plan = gnnc(planned(
        &file,
        &[&PERMITTED[..], &["--format", "json"]].concat(),
    ))
    .json();
    let goal = &plan["goal"];
    assert_eq!(
        (&goal["target"], &goal["metric"]),
        (&0.7.into(), &"accuracy".into())
    );
    assert_eq!(plan["objective"], "time-to-accuracy");
    for candidate in candidates(&plan) {
        let known = &candidate["to_target"];
        let one = pilot
            .classes
            .iter()
            .find(|one| serde_json::to_value(&one.class).unwrap() == known["class"]);
        let Some(one) = one else {
            assert!(
                known["needed"].is_null() && known["seconds"].is_null(),
                "{known}"
            );
            continue;
        };
        let needed = one.needed(&pilot.seeds, pilot.evaluate_every).unwrap();
        assert_eq!(known["needed"], serde_json::to_value(needed).unwrap());
        let Needed::Measured {
            fastest,
            slowest,
            likely: Some(likely),
            ..
        } = needed
        else {
            panic!("{needed:?}");
        };
        assert!(
            likely.low <= fastest && slowest <= likely.high,
            "{needed:?}"
        );
        assert_eq!(known["steps_per_epoch"], one.steps_per_epoch);
        // Evaluations are after every epoch.
        let number = |value: &Value| value.as_f64().unwrap();
        let (epoch, low, high) = (
            number(&candidate["epoch_seconds"]),
            number(&candidate["range"]["low"]),
            number(&candidate["range"]["high"]),
        );
        let eval = number(&candidate["eval_seconds"]);
        let (seconds, expected) = (&known["seconds"], epoch + eval);
        let bounds = [number(&seconds["low"]), number(&seconds["high"])];
        let [fewest, most] = [likely.low, likely.high].map(|epochs| epochs as f64);
        assert!(
            fewest * low < bounds[0] && bounds[0] <= fewest * expected,
            "{known}"
        );
        assert!(
            most * high < bounds[1] && most * expected <= bounds[1],
            "{known}"
        );
    }
    let report = gnnc(planned(&file, &PERMITTED)).report();
    for part in [
        "time-to-accuracy: accuracy 70.00 %",
        "train with --lr 0.03 --target 0.7\n",
        "classes    A  ",
    ] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
    // What is not permitted has no candidates, and the plan says so.
    let forbidden = gnnc(planned(&file, &[])).report();
    assert!(
        flat(&forbidden).contains("fanouts 5,5: the pilot tried it, but it needs --allow sample"),
        "{forbidden}"
    );
    let why = gnnc(planned(&file, &[&PERMITTED[..], &["--why"]].concat())).report();
    assert!(flat(&why).contains("with learning rate 0.03"), "{why}");
}

/// A pilot whose classes needed other epochs than they did. `None` ends all runs short of the target.
fn with_epochs(pilot: &Pilot, epochs: &dyn Fn(&Piloted) -> Option<u64>) -> Pilot {
    let mut other = pilot.clone();
    for one in &mut other.classes {
        let wanted = epochs(one);
        for run in &mut one.runs {
            (run.end, run.epochs) = match wanted {
                Some(epochs) => (End::Reached, epochs),
                None => (End::Time, 100),
            };
            run.steps = run.epochs * one.steps_per_epoch;
            run.curve.steps = vec![run.steps];
            run.curve.scores = vec![if wanted.is_some() { 0.7 } else { 0.6999 }];
        }
    }
    other
}

#[test]
fn ties_lower_bounds_and_losses_are_told_apart() {
    let folder = Folder::new();
    let (file, _) = piloted(&folder, &[&["--allow", "sample"], &BATCHES[..]].concat());
    let (pilot, edited) = (read(&file), folder.join("edited.toml"));
    let plan = |exact: Option<u64>, sampled: Option<u64>| {
        let epochs = |one: &Piloted| match one.class.sampled() {
            Some(_) => sampled,
            None => exact,
        };
        write(&with_epochs(&pilot, &epochs), &edited);
        let more = ["--allow", "sample", "--format", "json"];
        gnnc(planned(&edited, &more)).plan()
    };
    let pairs = |plan: &Value| -> Vec<String> {
        let all = standings(plan);
        all.iter()
            .map(|(kind, standing)| format!("{kind} {standing}"))
            .collect()
    };
    // A mini-batch epoch takes several times as long as one of the whole graph.
    assert_eq!(
        pairs(&plan(Some(10), Some(1000))),
        ["exact fastest", "sampled slower"]
    );
    assert_eq!(
        pairs(&plan(Some(10_000), Some(10))),
        ["sampled fastest", "exact slower"]
    );
    // Ranges overlap; the whole graph takes less memory.
    for sampled in [10, 12] {
        let tied = plan(Some(60), Some(sampled));
        assert_eq!(pairs(&tied), ["exact tied", "sampled tied"]);
        let memory = |n: usize| tied["candidates"][n]["peak_memory_bytes"].as_u64().unwrap();
        assert!(memory(0) < memory(1));
    }
    // A class that did not reach the target can lose ..
    assert_eq!(
        pairs(&plan(Some(10), None)),
        ["exact fastest", "sampled slower"]
    );
    // .. but not win, though a hundred of its epochs take less than those of the other class.
    let undecided = plan(None, Some(10_000));
    assert_eq!(pairs(&undecided), ["sampled fastest", "exact undecided"]);
    assert_eq!(undecided["chosen"], 0);
    let bound = &undecided["candidates"][1]["to_target"];
    assert_eq!(
        bound["needed"],
        serde_json::json!({ "known": "more-than", "epochs": 100 })
    );
    assert!(bound["seconds"]["low"].is_f64() && bound["seconds"]["high"].is_null());
    let said = undecided["candidates"][1]["reason"].as_str().unwrap();
    assert!(said.contains("only a longer pilot tells"), "{said}");
    let report = gnnc(planned(&edited, &["--allow", "sample"])).report();
    assert!(report.contains("> 100"), "{report}");
    // Nothing reached it: nothing is chosen.
    assert!(plan(None, None)["chosen"].is_null());
    let report = gnnc(planned(&edited, &["--allow", "sample"])).unchosen();
    assert!(
        report.contains("chosen     nothing: no candidate"),
        "{report}"
    );
    assert!(
        flat(&report).contains("reached accuracy 70.00 %"),
        "{report}"
    );
}

#[test]
fn without_a_pilot_there_is_no_number_but_a_break_even() {
    let products = example("sage_products.gir");
    let sampled = [
        "--allow",
        "sample",
        "--batch",
        "1024",
        "--fanouts",
        "15,10,5",
    ];
    let args = [
        "plan",
        &products,
        "--objective",
        "time-to-accuracy",
        "--gpus",
        "1",
    ];
    let plan = gnnc([&args[..], &sampled, &["--format", "json"]].concat()).json();
    assert!(plan["goal"].is_null());
    for candidate in candidates(&plan) {
        let known = &candidate["to_target"];
        assert!(
            known["needed"].is_null() && known["seconds"].is_null(),
            "{known}"
        );
    }
    let [whole, batches] = &candidates(&plan)[..] else {
        panic!("{plan}");
    };
    assert_eq!([kind(whole), kind(batches)], ["exact", "sampled"]);
    let step = |candidate: &Value| candidate["to_target"]["step_seconds"].as_f64().unwrap();
    let times = batches["to_target"]["break_even"].as_f64().unwrap();
    assert!((step(whole) / step(batches) / times - 1.0).abs() < 1e-4);
    assert!(times > 100.0, "{times}");
    let report = gnnc([&args[..], &sampled].concat()).report();
    let line = flat(&report);
    let said = format!("mini-batches win if they need fewer than {times:.0} times the steps");
    assert!(line.contains(&said), "{report}");
    assert!(
        line.contains("without a pilot: no numbers but those of a step"),
        "{report}"
    );

    // Two batches of Cora: each takes longer than the whole graph.
    let cora = example("gcn_cora.gir");
    let args = [
        "plan",
        &cora,
        "--objective",
        "time-to-accuracy",
        "--cluster",
        "cpu",
        "--gpus",
        "1",
    ];
    let sampled = [
        &["--allow", "sample", "--batch", "70", "--fanouts", "25,25"][..],
        &["--why"],
    ]
    .concat();
    let report = gnnc([&args[..], &sampled].concat()).report();
    let line = flat(&report);
    assert!(
        line.contains("mini-batches are not proposed without a pilot"),
        "{report}"
    );
}

#[test]
fn several_sizes_of_batches_are_planned_beside_each_other() {
    let (_folder, model) = folder(&ring());
    let own = Folder::new();
    let out = own.join("pilot.toml");
    let args = [
        "pilot",
        text(&model),
        "--target",
        "0.5",
        "--budget",
        "1min",
        "--out",
        text(&out),
    ];
    let batches = [
        "--allow",
        "sample",
        "--batch",
        "1,2",
        "--fanouts",
        "2,2",
        "--seeds",
        "1",
    ];
    gnnc(args.iter().chain(&batches)).report();
    let plan = |more: &[&str]| {
        let args = [
            "plan",
            text(&model),
            "--objective",
            "time-to-accuracy",
            "--pilot",
            text(&out),
        ];
        let here = [
            "--cluster",
            "cpu",
            "--gpus",
            "1",
            "--allow",
            "sample",
            "--format",
            "json",
        ];
        gnnc([&args[..], &here, more].concat()).plan()
    };
    let sizes = |plan: &Value| -> Vec<u64> {
        let of = |candidate: &Value| candidate["to_target"]["class"]["method"]["batch"].as_u64();
        let mut sizes: Vec<u64> = candidates(plan).iter().filter_map(of).collect();
        sizes.sort_unstable();
        sizes
    };
    let all = plan(&[]);
    assert_eq!(sizes(&all), [1, 2]);
    for candidate in candidates(&all).iter().filter(|c| kind(c) == "sampled") {
        let batch = &candidate["to_target"]["class"]["method"]["batch"];
        assert_eq!(candidate["parameters"]["sampling"]["batch"], *batch);
    }
    // Batches on the command line are those to plan for.
    assert_eq!(sizes(&plan(&["--batch", "2", "--fanouts", "2,2"])), [2]);
    let untried = plan(&["--batch", "1", "--fanouts", "1,2"]);
    assert_eq!(sizes(&untried), [1]);
    let sampled = candidates(&untried)
        .iter()
        .find(|c| kind(c) == "sampled")
        .unwrap();
    assert_eq!(sampled["to_target"]["standing"], "unknown");
}
