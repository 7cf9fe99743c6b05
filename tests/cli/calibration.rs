//! The machine at hand: measured, written to a file, used in plans.

use crate::support::{Folder, command, example, finished, gnnc, refused, text};
use gnnc::ir::cluster::{Basis, Cluster};
use gnnc::ir::program::work::{GROUPS, MESSAGES, TERMS};

#[test]
fn a_machine_is_measured_and_planned_for() {
    let folder = Folder::new();
    let file = folder.join("machine.toml");
    let samples = folder.join("samples.json");
    // Works whatever else runs on the test machine.
    let args = [
        "calibrate",
        "--quick",
        "--noisy",
        "--ranks",
        "2",
        "--out",
        text(&file),
    ];
    let more = ["--samples", text(&samples), "--format", "json"];
    let turns = |lines: &str| {
        let lines = std::fs::File::open(folder.file("turns", lines)).unwrap();
        let args = args.iter().chain(&more).chain(&["--interleave"]);
        finished(command().args(args).stdin(lines).output().unwrap())
    };
    let failed = turns("0\nsoon\n");
    assert_eq!(failed.code, Some(1));
    assert!(
        failed.stdout.contains("expected a number of seconds"),
        "{}",
        failed.stdout
    );

    let answer = turns("0\n0\n").ok();
    let begin = answer.find('{').unwrap();
    let shares: Vec<f64> = answer[..begin]
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert!(
        shares.len() == 3 && shares[0] == 0.0,
        "one before each turn: {shares:?}"
    );
    assert!(shares.is_sorted() && shares[2] < 1.0, "{shares:?}");
    let report: serde_json::Value = serde_json::from_str(&answer[begin..]).unwrap();
    assert_eq!(report["ranks"], 2);
    assert!(report["latency_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(report["rounds"], 2);
    for quality in report["quality"].as_array().unwrap() {
        assert!(quality["repeated"].as_f64().unwrap() > 0.0, "{quality}");
    }

    let content = std::fs::read_to_string(&file).unwrap();
    let cluster = Cluster::parse(&content).unwrap();
    assert_eq!(
        (cluster.devices(), cluster.calibration.basis),
        (2, Basis::Measured)
    );
    let written = cluster.to_toml();
    assert!(content.ends_with(&written), "what is written is read");
    let measured = cluster.calibration.measured.as_ref().unwrap();
    assert_eq!(measured.date.len(), 10, "{}", measured.date);
    let ranks: Vec<u32> = measured.costs.iter().map(|c| c.ranks).collect();
    assert_eq!(ranks, [1, 2]);
    for costs in &measured.costs {
        // Several workers get rows from each other.
        let fetched = |group: &str| group == "fetch-rows" && costs.ranks > 1;
        for group in GROUPS.iter().filter(|g| **g != "copy" && !fetched(g)) {
            let found = &costs.groups[*group];
            assert!(found.terms.values().any(|cost| *cost > 0.0), "{group}");
            // There are two graphs, each of which was left out once; one has sparse features.
            let known = found.spread.is_some_and(|factor| factor >= 1.0);
            assert_eq!(known, !group.starts_with("sparse-gemm"), "{group}");
        }
        let messages = costs.groups.keys().map(String::as_str);
        let messages: Vec<&str> = messages.filter(|name| MESSAGES.contains(name)).collect();
        let expected = match costs.ranks {
            1 => &[][..],
            _ => &[
                "all-reduce",
                "ask-rows",
                "halo-exchange",
                "halo-reduce",
                "join",
                "receive",
                "send",
                "serve-rows",
                "split",
            ],
        };
        assert_eq!(messages, expected);
    }
    let samples: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&samples).unwrap()).unwrap();
    let samples = samples.as_array().unwrap();
    assert!(samples.len() > 1000);
    // Counts are of what the rank holds.
    let edges = TERMS.iter().position(|term| *term == "edge").unwrap();
    let whole = |sample: &&serde_json::Value| {
        let what = sample["what"].as_str().unwrap();
        sample["group"] == "spmm" && !what.contains("batches")
    };
    for sample in samples.iter().filter(whole) {
        assert!(sample["terms"][edges].as_f64().unwrap() > 100.0, "{sample}");
    }

    // The estimate has the right order of magnitude even for a model that was not measured.
    let cora = example("gcn_cora.gir");
    let plan = ["plan", &cora, "--cluster", text(&file), "--pin", "ranks=1"];
    let report = gnnc(plan).report();
    // Lines break between words.
    let words: Vec<&str> = report.split_whitespace().collect();
    let from = format!("measured on {}, {}", measured.machine, measured.date);
    let from: Vec<&str> = from.split_whitespace().collect();
    assert!(words.windows(from.len()).any(|w| w == from), "{report}");
    let plan = gnnc(plan.iter().chain(&["--format", "json"])).json();
    let predicted = plan["candidates"][0]["epoch_seconds"].as_f64().unwrap();
    let run = gnnc(["train", &cora, "--epochs", "60", "--format", "json"]).json();
    let epoch = run["epoch_seconds"].as_f64().unwrap();
    assert!(
        (0.2..5.0).contains(&(predicted / epoch)),
        "{predicted} {epoch}"
    );
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let folder = Folder::new();
    refused(1, &["calibrate", "--ranks", "0"], &["--ranks 0", "1 to 64"]);
    refused(1, &["calibrate", "--ranks", "1000"], &["--ranks 1000"]);
    let nowhere = folder.join("no/machine.toml");
    refused(1, &["calibrate", "--out", text(&nowhere)], &["no folder"]);
    let cora = example("gcn_cora.gir");
    let head = "version = 1\ndevice.profile = \"cpu-core\"\n";
    for (costs, message) in [
        (
            "[calibration.measured.ranks.1.spmm]\nrow = -1\n",
            "spmm.row",
        ),
        ("[calibration.measured.ranks.1.spmm]\nrwo = 1\n", "rwo"),
        ("[calibration.measured.ranks.1.spm]\nrow = 1\n", "spm"),
        ("[calibration.measured.ranks.x.spmm]\nrow = 1\n", "x"),
        (
            "[calibration.measured.ranks.2.split]\nbandwidth = 1\n",
            "bandwidth",
        ),
        ("[calibration.measured.ranks.2.splt]\nlaunch = 1\n", "splt"),
        (
            "[calibration.measured]\ndate = \"today\"\n",
            "gnnc calibrate",
        ),
        (
            "[calibration.measured.ranks.1.spmm]\nrow = 1\n",
            "an older gnnc with other counts",
        ),
        (
            "[calibration.measured]\ncounts = 1\nranks.1.spmm.row = 1\n",
            "is 1, expected the number of counts of this gnnc",
        ),
    ] {
        let file = folder.file("machine.toml", format!("{head}{costs}"));
        refused(1, &["plan", &cora, "--cluster", text(&file)], &[message]);
    }
}
