//! Pages of `--html`: their data is that of the reports, in a file that needs nothing else. What they look like is checked in a
//! browser, by `tests/pictures/run`.

use crate::processes::together;
use crate::support::{Folder, example, gnnc, refused, text, train_two};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// The data of a page.
fn data(page: &Path) -> Value {
    let page = std::fs::read_to_string(page).unwrap();
    let (_, after) = page.split_once("application/json\">").unwrap();
    let (data, _) = after.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

/// A plan without what only its page says of candidates.
fn of_report(page: &Value) -> Value {
    let mut plan = page["plan"].clone();
    for candidate in plan["candidates"].as_array_mut().unwrap() {
        let candidate = candidate.as_object_mut().unwrap();
        assert!(
            candidate
                .remove("name")
                .is_some_and(|name| name.is_string())
        );
        assert!(
            candidate
                .remove("needs")
                .is_some_and(|needs| needs.is_array())
        );
    }
    plan
}

fn total(rows: &Value) -> u64 {
    let cells = rows.as_array().unwrap().iter();
    let cells = cells.flat_map(|row| row.as_array().unwrap());
    cells.map(|bytes| bytes.as_u64().unwrap()).sum()
}

#[test]
fn a_page_has_the_plan_of_the_report_and_needs_no_network() {
    let folder = Folder::new();
    let [first, second] = ["a.html", "b.html"].map(|name| folder.join(name));
    let cora = example("gcn_cora.gir");
    let args = ["plan", &cora, "--gpus", "4", "--pin", "ranks=4", "--html"];
    let plan = |page: &Path| gnnc(args.iter().chain(&[text(page), "--format", "json"])).plan();
    let report = plan(&first);
    assert_eq!(report, plan(&second));
    let page = std::fs::read_to_string(&first).unwrap();
    assert_eq!(page, std::fs::read_to_string(&second).unwrap());
    let page = page.replace("http://www.w3.org/2000/svg", "");
    for elsewhere in ["http:", "https:", "src=", "@import", "url(http"] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    let found = data(&first);
    assert_eq!(of_report(&found), report);
    let best = &report["candidates"][0];
    let pictured = &found["pictured"];
    assert_eq!(pictured["number"], 0);
    let sent = &pictured["sent"];
    assert_eq!(
        (&sent["ranks"], &sent["by_pair"]),
        (&json!(4), &json!(true))
    );
    assert_eq!(Some(total(&sent["bytes"])), best["bytes"].as_u64());
    let own = pictured["parts"].as_array().unwrap().iter();
    let own: u64 = own.map(|part| part["own"].as_u64().unwrap()).sum();
    assert_eq!(own, 2708);
    let memory = &pictured["memory"];
    assert_eq!(memory["peak_bytes"], best["peak_memory_bytes"]);
    assert_eq!(memory["limit_bytes"], report["cluster"]["device"]["memory"]);
    assert_eq!(found["left_out"], json!([]));
    assert_eq!(pictured["left_out"], json!([]));
}

#[test]
fn names_cannot_end_the_data_of_a_page() {
    let folder = Folder::new();
    let name = "</script><script>alert(1)</script><!--";
    let lab = std::fs::read_to_string(example("clusters/described.toml")).unwrap();
    let hostile = lab.replace("name = \"described\"", &format!("name = '{name}'"));
    assert_ne!(lab, hostile);
    let cluster = folder.file("hostile.toml", hostile);
    let page = folder.join("p.html");
    let (cora, cluster) = (example("gcn_cora.gir"), text(&cluster));
    gnnc(["plan", &cora, "--cluster", cluster, "--html", text(&page)]).report();
    assert_eq!(data(&page)["plan"]["cluster"]["name"], name);
    let text = std::fs::read_to_string(&page).unwrap();
    let ends = text.matches("</script").count();
    assert_eq!(ends, 2, "the data and the script end once each");
    assert!(!text.contains("<script>alert") && !text.contains("<!--"));
}

#[test]
fn pages_that_cannot_be_written_are_refused_before_work() {
    let folder = Folder::new();
    let checkpoint = folder.join("run.ckpt");
    let (cora, here) = (example("gcn_cora.gir"), folder.join(""));
    let nowhere = folder.join("no/p.html");
    let run = ["train", &cora, "--epochs", "1000000", "--checkpoint"];
    let run = [&run[..], &[text(&checkpoint)]].concat();
    let commands = [&["plan", &cora][..], &["sweep", &cora], &run];
    for command in commands {
        for (page, why) in [
            (text(&nowhere), "there is no folder"),
            (text(&here), "it is a folder; name a file in it"),
            ("/dev/null", "it is not a regular file"),
        ] {
            let args = [command, &["--html", page]].concat();
            refused(1, &args, &["cannot write the page to", why]);
        }
    }
    assert!(!checkpoint.exists());
    let page = folder.join("p.html");
    let seeds = ["train", &cora, "--seeds", "2", "--html", text(&page)];
    gnnc(seeds).fails(1, &["--seeds", "--html"]);
    assert!(!page.exists());
}

#[test]
fn a_page_of_a_run_has_its_numbers_beside_the_predicted_ones() {
    let folder = Folder::new();
    let [page, curve, trace] = ["r.html", "r.csv", "t.json"].map(|name| folder.join(name));
    let files = ["--html", text(&page), "--curve", text(&curve)];
    let more = ["--epochs", "12", "--format", "json"];
    let summary = train_two(&[&files[..], &more].concat()).json();
    let found = data(&page);
    let run = &found["run"];
    assert_eq!(run["summary"], summary);
    let losses = run["losses"].as_array().unwrap();
    let lines = std::fs::read_to_string(&curve).unwrap();
    let lines: Vec<String> = lines.lines().skip(1).map(str::to_owned).collect();
    assert_eq!(losses.len(), lines.len());
    for (point, line) in losses.iter().zip(&lines) {
        let of_line: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        let of_page = [0, 1].map(|n| point[n].as_f64().unwrap());
        // Reading the page here may round the last bit.
        let same = (0..2).all(|n| (of_line[n] - of_page[n]).abs() <= 1e-14 * of_line[n].abs());
        assert!(same, "{line} and {point}");
    }
    let sent: u64 = losses.iter().map(|point| point[4].as_u64().unwrap()).sum();
    assert_eq!(Some(sent), summary["bytes_sent"].as_u64());
    // The last epochs only, one of which is shown.
    let epoch = run["timeline"]["epoch"].as_u64().unwrap();
    assert!((8..=12).contains(&epoch), "{epoch}");
    let predicted = &found["pictured"]["timeline"];
    assert_eq!(
        (&run["timeline"]["kind"], &predicted["kind"]),
        (&json!("measured"), &json!("predicted"))
    );
    assert_eq!(run["compared"]["totals"].as_array().unwrap().len(), 3);
    // With --trace, the trace still has all epochs.
    let both = [
        "--html",
        text(&page),
        "--trace",
        text(&trace),
        "--epochs",
        "12",
    ];
    train_two(&both).report();
    let trace: Value = serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap();
    let epochs = trace["traceEvents"].as_array().unwrap().iter();
    let first = epochs
        .filter_map(|event| event["args"]["epoch"].as_u64())
        .filter(|n| *n > 0)
        .min();
    assert_eq!(first, Some(1));
}

#[test]
fn a_run_of_a_plan_shows_the_whole_plan() {
    let folder = Folder::new();
    let [plan, page] = ["p.json", "r.html"].map(|name| folder.join(name));
    let cora = example("gcn_cora.gir");
    let args = ["plan", &cora, "--cluster", "cpu", "--gpus", "2", "--out"];
    let report = gnnc(args.iter().chain(&[text(&plan), "--format", "json"])).plan();
    // A target that is missed has a page too.
    let run = [
        "train",
        text(&plan),
        "--epochs",
        "3",
        "--target",
        "0.99",
        "--html",
    ];
    let run = gnnc(run.iter().chain(&[text(&page)]));
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    let found = data(&page);
    assert_eq!(of_report(&found), report);
    assert_eq!(found["pictured"]["number"], report["chosen"]);
    let best = ["train", &cora, "--workers", "2", "--placement", "best"];
    let more = ["--epochs", "3", "--html", text(&page)];
    gnnc(best.iter().chain(&more)).report();
    let found = data(&page);
    let candidates = found["plan"]["candidates"].as_array().unwrap();
    assert!(candidates.len() > 2, "only {} candidates", candidates.len());
    assert_eq!(found["pictured"]["number"], found["plan"]["chosen"]);
}

/// Events are those of `--trace`, for chunks, stages and batches too, and few enough if they are many.
#[test]
fn timelines_of_pages_are_those_of_traces() {
    let folder = Folder::new();
    let [page, trace] = ["p.html", "t.json"].map(|name| folder.join(name));
    let (gcnii, sage) = (example("gcnii_cora.gir"), example("sage_cora.gir"));
    let stages = "placement=pipeline,ranks=3,chunks=4,virtual-stages=2";
    let cases = [
        vec![
            "plan",
            &gcnii,
            "--cluster",
            "cpu",
            "--gpus",
            "3",
            "--allow",
            "stale",
            "--pin",
            stages,
        ],
        vec![
            "plan",
            &sage,
            "--gpus",
            "2",
            "--allow",
            "sample",
            "--pin",
            "placement=minibatch,ranks=2",
        ],
    ];
    for case in cases {
        let batches = ["--batch", "20", "--fanouts", "5,5"];
        let batches = if case.contains(&"sample") {
            &batches[..]
        } else {
            &[]
        };
        let files = ["--html", text(&page), "--trace", text(&trace)];
        gnnc([&case[..], batches, &files].concat()).report();
        let trace: Value = serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap().iter();
        let events: Vec<&Value> = events.filter(|event| event["ph"] == "X").collect();
        let found = data(&page);
        let timeline = &found["pictured"]["timeline"];
        let (mut count, mut sent, mut busy) = (0, 0, 0);
        for lane in timeline["lanes"].as_array().unwrap() {
            let ranks = lane["ranks"].as_array().unwrap().len() as u64;
            let numbers = lane["events"].as_array().unwrap();
            for event in numbers.chunks(5) {
                count += ranks;
                busy += ranks * event[2].as_u64().unwrap();
                sent += ranks * event[4].as_u64().unwrap();
            }
        }
        assert_eq!(count, events.len() as u64);
        let bytes = |event: &&Value| event["args"]["bytes_sent"].as_u64().unwrap();
        assert_eq!(sent, events.iter().map(bytes).sum::<u64>());
        let micros: f64 = events
            .iter()
            .map(|event| event["dur"].as_f64().unwrap())
            .sum();
        assert!((busy as f64 / 1e3 - micros).abs() < 1e-3 * count as f64 + 1e-6 * micros);
    }
}

#[test]
fn one_of_several_processes_writes_the_page() {
    let folder = Folder::new();
    let page = folder.join("r.html");
    let cora = example("gcn_cora.gir");
    let args = [
        "train",
        &cora,
        "--workers",
        "2",
        "--epochs",
        "8",
        "--html",
        text(&page),
    ];
    let Some(run) = together(2, &args) else {
        return;
    };
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let timeline = &data(&page)["run"]["timeline"];
    let lanes = timeline["lanes"].as_array().unwrap().iter();
    let ranks: usize = lanes
        .map(|lane| lane["ranks"].as_array().unwrap().len())
        .sum();
    assert_eq!(ranks, 2);
}

#[test]
fn a_sweep_has_a_page() {
    let folder = Folder::new();
    let page = folder.join("s.html");
    let reddit = example("gcn_reddit.gir");
    let args = ["sweep", &reddit, "--gpus", "1..4", "--html", text(&page)];
    let report = gnnc(args.iter().chain(&["--format", "json"])).json();
    let found = data(&page);
    assert_eq!(found["sweep"], report);
    assert_eq!(found["names"].as_array().unwrap().len(), 3);
}

/// The script is what browsers run, if there is Node.js to say whether it can be read.
#[test]
fn the_script_can_be_read() {
    let folder = Folder::new();
    let page = folder.join("p.html");
    let cora = example("gcn_cora.gir");
    gnnc(["plan", &cora, "--html", text(&page)]).report();
    let page = std::fs::read_to_string(&page).unwrap();
    let (_, script) = page.rsplit_once("<script>").unwrap();
    let (script, _) = script.split_once("</script>").unwrap();
    let file = folder.file("script.js", script);
    let Ok(checked) = Command::new("node").arg("--check").arg(&file).output() else {
        #[allow(clippy::print_stdout, reason = "a skipped test says so")]
        {
            println!("skipped a test of scripts: there is no node");
        }
        return;
    };
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
}
