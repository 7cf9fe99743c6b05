//! The plans of all examples, as snapshots: a change of a plan is seen in review.

use crate::examples::models;
use crate::support::{example, gnnc};
use gnnc::ir::cluster::Cluster;
use gnnc::planner::report;
use gnnc::{LoadOptions, Loaded, PlanOptions, Source};
use std::path::Path;
use std::time::Instant;

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

#[test]
fn a_deep_model_is_planned_for_64_gpus_within_a_second() {
    let model = example("gcnii_128_reddit.gir");
    let begin = Instant::now();
    let report = gnnc(["plan", &model, "--gpus", "64"]).report();
    let seconds = begin.elapsed().as_secs_f64();
    assert!(report.contains("graph x 64 metis"), "{report}");
    assert!(
        seconds < 1.0 || cfg!(debug_assertions),
        "it took {seconds:.2} s"
    );
}
