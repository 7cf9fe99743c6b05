//! Plans of a hand-built model, as text and as JSON.

use crate::model::{Shape, program, workload};
use gnnc_ir::cluster::Cluster;
use gnnc_ir::plan::{Knobs, Objective, Partitioner, Placement, Plan};
use gnnc_ir::words::units::Bytes;
use gnnc_ir::workload::Workload;
use gnnc_planner::LowerError;
use gnnc_planner::report::{View, json, text};
use gnnc_planner::search::{Lower, Pin, PlacementSpec, PlanRequest, Programs, plan};
use std::sync::Arc;

const SHAPE: Shape = Shape {
    features: 602,
    hidden: 100,
    layers: 32,
    classes: 41,
};

fn reddit() -> Workload {
    workload(
        "reddit",
        232_965,
        114_615_892,
        SHAPE,
        &[(2, 0.96), (4, 1.95), (8, 2.61)],
    )
}

fn two_boxes() -> Cluster {
    Cluster::named("a5000x4")
        .unwrap()
        .resized(Some(8), None)
        .unwrap()
}

/// Programs of graph parallelism, on at most this many ranks.
struct UpTo(u32);

impl Lower for UpTo {
    fn programs(&self, spec: &PlacementSpec) -> Result<Programs, LowerError> {
        match spec.placement {
            Placement::Graph if spec.ranks <= self.0 => {
                Ok(Arc::new(vec![program(spec.ranks, SHAPE)]))
            }
            other => Err(LowerError::Illegal(format!("`{other}` is not made here"))),
        }
    }
}

/// Everything that a report can show.
const WHY: View = View {
    width: 99,
    most: None,
    why: true,
};

const ANY: UpTo = UpTo(u32::MAX);

fn planned(workload: &Workload, cluster: &Cluster, objective: Objective) -> Plan {
    let partitioners = &[
        Partitioner::Metis,
        Partitioner::MetisEdges,
        Partitioner::Hash,
    ];
    let request = PlanRequest {
        model: "gcn",
        workload,
        cluster,
        objective,
        partitioners,
        allow: &[],
        pin: Pin::default(),
        top: None,
        layers: 0,
        columns: 0,
        batches: &[],
        pilot: None,
        evaluate_every: None,
    };
    plan(&request, &ANY)
}

#[test]
fn a_plan_as_text() {
    insta::assert_snapshot!(text(
        &planned(&reddit(), &two_boxes(), Objective::Time),
        &WHY
    ));
}

#[test]
fn a_plan_as_json() {
    insta::assert_snapshot!(json(&planned(&reddit(), &two_boxes(), Objective::Time)).unwrap());
}

#[test]
fn nothing_fits() {
    let mut cluster = two_boxes();
    cluster.device.memory = Bytes(300 << 20);
    cluster.host = None;
    let plan = planned(&reddit(), &cluster, Objective::Time);
    assert_eq!(plan.chosen, None);
    assert!(plan.candidates.iter().all(|c| !c.fits));
    let best = &plan.candidates[0];
    let enough = best.ranks_to_fit.unwrap();
    assert!(enough > best.parameters.ranks);
    insta::assert_snapshot!(text(&plan, &WHY));
    // The remedy works: with that many devices, there is a plan.
    let larger = cluster.resized(Some(enough), None).unwrap();
    assert!(
        planned(&reddit(), &larger, Objective::Time)
            .chosen
            .is_some()
    );
}

#[test]
fn more_ranks_than_vertices_are_rejected_with_a_reason() {
    let tiny = workload("tiny", 5, 8, SHAPE, &[]);
    let plan = planned(&tiny, &two_boxes(), Objective::Time);
    assert_eq!(plan.choice().unwrap().parameters.ranks, 1);
    insta::assert_snapshot!(text(&plan, &WHY));
}

#[test]
fn failed_lowerings_are_rejected() {
    let (workload, cluster) = (reddit(), two_boxes());
    let partitioners = &[Partitioner::Metis];
    let objective = Objective::Time;
    let request = PlanRequest {
        model: "gcn",
        workload: &workload,
        cluster: &cluster,
        objective,
        partitioners,
        allow: &[],
        pin: Pin::default(),
        top: None,
        layers: 0,
        columns: 0,
        batches: &[],
        pilot: None,
        evaluate_every: None,
    };
    let plan = plan(&request, &UpTo(1));
    let flat = |spec: &PlacementSpec| spec.node_ranks().is_none();
    let candidates = request.candidates();
    let others = candidates.iter().filter(|spec| flat(spec)).count() - 1;
    assert!(others > 1);
    assert_eq!((plan.candidates.len(), plan.rejected.len()), (1, others));
    assert!(
        plan.rejected
            .iter()
            .all(|r| r.reason.ends_with("is not made here"))
    );
}

#[test]
fn objectives_choose_differently_and_candidates_are_sorted() {
    let by = |objective| planned(&reddit(), &two_boxes(), objective);
    let (time, memory, bytes) = (
        by(Objective::Time),
        by(Objective::Memory),
        by(Objective::Bytes),
    );
    assert!(
        time.candidates
            .is_sorted_by(|a, b| (!a.fits, a.epoch_seconds) <= (!b.fits, b.epoch_seconds))
    );
    assert!(
        memory
            .candidates
            .is_sorted_by(|a, b| a.peak_memory_bytes <= b.peak_memory_bytes)
    );
    assert!(bytes.candidates.is_sorted_by(|a, b| a.bytes <= b.bytes));
    assert_eq!(bytes.choice().unwrap().parameters.ranks, 1);
    assert_eq!(memory.choice().unwrap().parameters.ranks, 8);
}

#[test]
fn plans_are_read_back_and_repeat_byte_for_byte() {
    let plan = planned(&reddit(), &two_boxes(), Objective::Time);
    let text = json(&plan).unwrap();
    let read = Plan::from_json(&text).unwrap();
    assert_eq!(read, plan);
    assert_eq!(
        json(&planned(&reddit(), &two_boxes(), Objective::Time)).unwrap(),
        text
    );
}

#[test]
fn reports_are_narrow_and_without_colour() {
    let mut long = reddit();
    long.name = "a graph with a name that is long enough for the line to be wrapped somewhere in its middle".to_owned();
    for cluster in ["cpu", "h100x8", "t4"] {
        let cluster = Cluster::named(cluster)
            .unwrap()
            .resized(None, Some(3))
            .unwrap();
        let report = text(&planned(&long, &cluster, Objective::Memory), &WHY);
        assert!(
            report.lines().all(|line| line.chars().count() < 100),
            "{report}"
        );
        assert!(!report.contains('\u{1b}') && !report.contains(" \n"));
    }
}

#[test]
fn what_is_pinned_is_all_that_is_priced() {
    let (workload, cluster) = (reddit(), two_boxes());
    let with = |pin| {
        let request = PlanRequest {
            model: "gcn",
            workload: &workload,
            cluster: &cluster,
            objective: Objective::Time,
            partitioners: &[Partitioner::Metis, Partitioner::Hash],
            allow: &[],
            pin,
            top: None,
            layers: 0,
            columns: 0,
            batches: &[],
            pilot: None,
            evaluate_every: None,
        };
        let plan = plan(&request, &ANY);
        let names = plan.candidates.iter().map(|c| c.name());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    };
    let ranks = Some(3);
    let three = with(Pin {
        ranks,
        ..Pin::default()
    });
    assert_eq!(three, ["graph x 3 hash", "graph x 3 metis"]);
    let ranges = with(Pin {
        ranks,
        knobs: Knobs {
            partitioner: Some(Partitioner::Range),
            ..Knobs::default()
        },
        ..Pin::default()
    });
    assert_eq!(ranges, ["graph x 3 range"]);
    let placement = Some(Placement::Graph);
    assert_eq!(
        with(Pin {
            placement,
            ..Pin::default()
        })
        .len(),
        // On 4 and 8 ranks with two partitioners, the latter on two nodes too, and one rank.
        7
    );
    let placement = Some(Placement::Pipeline);
    assert!(
        with(Pin {
            placement,
            ..Pin::default()
        })
        .is_empty()
    );
    assert!(
        with(Pin {
            ranks: Some(9),
            ..Pin::default()
        })
        .is_empty()
    );
}

#[test]
fn a_short_report_says_what_fits_what_is_idle_and_what_is_close() {
    let plan = planned(&reddit(), &two_boxes(), Objective::Time);
    let short = text(&plan, &View::default());
    insta::assert_snapshot!(short);
    let narrow = View {
        width: 50,
        most: Some(1),
        ..View::default()
    };
    let tables = short.lines().filter(|l| l.contains("allowed")).count();
    let report = text(&plan, &narrow);
    assert!(report.contains("--all lists them"), "{report}");
    let wide = report.lines().filter(|l| l.chars().count() > 50).count();
    assert!(wide <= 2 && tables > 2, "{report}");
}

#[test]
fn idle_devices_are_counted() {
    let tiny = workload("tiny", 5, 8, SHAPE, &[]);
    let report = text(
        &planned(&tiny, &two_boxes(), Objective::Time),
        &View::default(),
    );
    assert!(report.contains("\nidle       7 of 8 devices: "), "{report}");
    assert!(report.contains("not possible: "), "{report}");
}

#[test]
fn a_price_gives_a_cost() {
    let mut cluster = two_boxes();
    cluster.price_per_hour = Some(1.0);
    let report = text(
        &planned(&reddit(), &cluster, Objective::Time),
        &View::default(),
    );
    let line = "\ncost       0.00124 an epoch, for 8 devices\n";
    assert!(report.contains(line), "{report}");
}
