//! The plans of all examples, as snapshots: a change of a plan is seen in review.

use crate::examples::models;
use crate::support::{example, gnnc, gnnc_seconds};
use gnnc::ir::cluster::Cluster;
use gnnc::planner::lower::offload::offload_counted;
use gnnc::planner::parts::parts;
use gnnc::planner::report;
use gnnc::planner::search::Lower;
use gnnc::planner::simulate::rooms;
use gnnc::{LoadOptions, Loaded, PlanOptions, Planner, Source};
use std::path::Path;

#[test]
fn plans_of_the_examples() {
    for path in models() {
        let stem = Path::new(&path)
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let source = Source::read(&path).unwrap();
        let loaded = Loaded::new(&source, &LoadOptions::default()).unwrap();
        let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
        let mut tables = String::new();
        for devices in [2, 8, 64] {
            let machines = Cluster::named("h100x8").unwrap();
            let options = PlanOptions::new(machines.resized(Some(devices), None).unwrap());
            let plan = gnnc::plan(&loaded, &compiled, &options).unwrap();
            tables += &format!("{devices} GPUs\n{}\n", report::table(&plan));
        }
        insta::assert_snapshot!(stem, tables);
    }
}

#[test]
fn a_plan_as_text_and_json() {
    let source = Source::read(example("gcn_cora.gir")).unwrap();
    let loaded = Loaded::new(&source, &LoadOptions::default()).unwrap();
    let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
    for (cluster, devices) in [("cpu", 1), ("h100x8", 8)] {
        let machines = Cluster::named(cluster).unwrap();
        let options = PlanOptions::new(machines.resized(Some(devices), None).unwrap());
        let plan = gnnc::plan(&loaded, &compiled, &options).unwrap();
        let name = |form: &str| format!("gcn_cora-{cluster}-{form}");
        insta::assert_snapshot!(name("text"), report::text(&plan));
        insta::assert_snapshot!(name("json"), report::json(&plan).unwrap());
    }
}

#[test]
fn the_command_plans_what_the_library_plans() {
    let cora = example("gcn_cora.gir");
    let stored = |name: &str| {
        let path = example(&format!(
            "../tests/cli/snapshots/cli__plans__gcn_cora-{name}.snap"
        ));
        let snapshot = std::fs::read_to_string(path).unwrap();
        snapshot
            .splitn(3, "---\n")
            .nth(2)
            .unwrap()
            .trim()
            .to_owned()
    };
    let json = gnnc(["plan", &cora, "--gpus", "8", "--format", "json"]).ok();
    // A file says where it comes from as well; the library was not told.
    let mut plan = gnnc::ir::plan::Plan::from_json(&json).unwrap();
    assert_eq!(plan.source.take().unwrap().model, cora);
    assert_eq!(report::json(&plan).unwrap().trim(), stored("h100x8-json"));
    let text = gnnc(["plan", &cora, "--cluster", "cpu", "--gpus", "1"]).report();
    assert_eq!(text.trim(), stored("cpu-text"));
}

/// Seconds that a processor works for the answer, the fewest of three times: on a busy machine the answer takes
/// longer, and a processor that shares its core works up to twice as long.
#[test]
fn models_are_planned_for_64_gpus_within_a_second() {
    for (name, part, most) in [
        ("gcnii_128_reddit", "graph x 64 metis", 1.0),
        ("gat_papers100m", "tensor-decoupled x 64 range + host", 2.0),
    ] {
        let model = example(&format!("{name}.gir"));
        let fewest = (0..3).fold(f64::MAX, |fewest, _| {
            let (run, seconds) = gnnc_seconds(["plan", &model, "--gpus", "64"]);
            let report = run.ok();
            assert!(report.contains(part), "{report}");
            fewest.min(seconds)
        });
        assert!(
            fewest < most || cfg!(debug_assertions),
            "{name} took {fewest:.2} s of {most}"
        );
    }
}

/// What does not fit is what takes time to plan: how often it is found what a program takes, as some tensors after
/// the other rest on the host, in all candidates together.
#[test]
fn what_rests_on_the_host_is_found_in_few_steps() {
    let source = Source::read(example("gat_papers100m.gir")).unwrap();
    let loaded = Loaded::new(&source, &LoadOptions::default()).unwrap();
    let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
    let machines = Cluster::named("h100x8").unwrap();
    let mut found = Vec::new();
    for devices in [8, 64] {
        let cluster = machines.clone().resized(Some(devices), None).unwrap();
        let memory = cluster.device.memory;
        let options = PlanOptions::new(cluster);
        let planner = Planner::new(&loaded, &compiled, &options).unwrap();
        let (mut looks, mut tried, mut rested) = (0, 0, 0);
        for spec in planner.candidates() {
            // Layouts and layers that are to be chosen are nobody's to lower.
            let Some(programs) = planner.programs(&spec).ok().filter(|all| all.len() == 1) else {
                continue;
            };
            let parts = parts(&loaded.workload, spec.parts(), spec.partitioner).unwrap();
            let parts = parts.of(&programs[0]);
            let rooms = rooms(&programs[0], &parts, memory);
            tried += 1;
            match offload_counted(&programs, &rooms, &mut looks) {
                Ok(_) => rested += 1,
                // What is known to be in vain is.
                Err(short) => assert!(short.bytes > 0),
            }
        }
        assert!(tried > 10 && rested < tried, "{rested} of {tried} fit");
        found.push(looks);
    }
    assert!(found[0] < 1 && found[1] < 1, "{found:?} looks");
}
