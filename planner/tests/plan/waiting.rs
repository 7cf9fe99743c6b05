//! What hides messages, and who waits, by hand.

use crate::model::{HIDDEN, at, program};
use crate::simulate::{SHAPE, cluster, cost, measured, near};
use gnnc_ir::program::{Instr, Transfer};
use gnnc_ir::units::Seconds;
use gnnc_planner::simulate::PhaseCost;

/// An exchange that is cut in halves hides behind what stands between them, by hand.
#[test]
fn what_is_computed_meanwhile_hides_messages() {
    let mut cluster = cluster(2, 1);
    cluster.device.launch_floor = Seconds(0.0);
    cluster.calibration.link_efficiency = 1.0;
    (cluster.between.bandwidth, cluster.between.latency) = (1e9, Seconds(0.0));
    let parts = measured(vec![vec![0, 2000], vec![2000, 0]], &[1, 1]);
    let mut program = program(2, SHAPE);
    let what = Box::new(Instr::HaloExchange {
        buffer: at(HIDDEN.0),
        skip: None,
    });
    let transfer = Transfer { tag: 1, what };
    let other = program.step[0].clone();
    let mut step = |step: Vec<Instr>| {
        program.step = step;
        cost(&program, &cluster, &parts).epoch
    };
    let work = step(vec![other.clone()]).seconds.0;
    let whole = step(vec![*transfer.what.clone(), other.clone()]);
    let halves = step(vec![
        Instr::Begin(transfer.clone()),
        other,
        Instr::Finish(transfer),
    ]);
    let (messages, packing) = (
        2000.0 * 64.0 / 1e9,
        whole.seconds.0 - work - 2000.0 * 64.0 / 1e9,
    );
    assert!(work > 0.0 && packing > 0.0);
    assert!(near(
        whole.exposed_communication_seconds.0,
        packing + messages
    ));
    let exposed = packing + (messages - work).max(0.0);
    assert!(near(halves.exposed_communication_seconds.0, exposed));
    assert!(near(halves.seconds.0, packing + messages.max(work)));
    assert_eq!(whole.bytes, halves.bytes);
    let kind = |cost: &PhaseCost| {
        let found = cost.breakdown.iter().find(|k| k.name == "halo-exchange");
        found.map(|k| k.count)
    };
    assert_eq!((kind(&whole), kind(&halves)), (Some(1), Some(1)));
}

#[test]
fn a_slow_rank_makes_the_others_wait() {
    let even = measured(vec![vec![0, 10], vec![10, 0]], &[1_000_000, 1_000_000]);
    let skewed = measured(vec![vec![0, 10], vec![10, 0]], &[1_900_000, 100_000]);
    let (program, cluster) = (program(2, SHAPE), cluster(1, 2));
    let (even, skewed) = (
        cost(&program, &cluster, &even).epoch,
        cost(&program, &cluster, &skewed).epoch,
    );
    assert!(even.bubble_seconds.0 < 1e-9);
    assert!(
        skewed.bubble_seconds.0 > 0.2 * skewed.seconds.0,
        "{skewed:?}"
    );
    assert!(skewed.seconds > even.seconds);
}
