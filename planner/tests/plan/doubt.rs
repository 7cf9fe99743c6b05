//! Ranges of predicted times: simulations with what is uncertain drawn.

use crate::model::{program, workload};
use crate::simulate::{SHAPE, any_parts, calibrated, cluster, cost, near};
use crate::waiting::staged;
use gnnc_ir::cluster::Cluster;
use gnnc_ir::plan::Partitioner;
use gnnc_ir::program::trace::Phase;
use gnnc_planner::parts::parts;
use gnnc_planner::simulate::{Doubts, Draws, range, simulate_all};
use proptest::prelude::*;

/// The cluster with these factors for the machine, classes of kernels and links.
fn spread(mut cluster: Cluster, [machine, classes, links]: [f64; 3]) -> Cluster {
    let calibration = &mut cluster.calibration;
    (
        calibration.spread,
        calibration.class_spread,
        calibration.link_spread,
    ) = (machine, classes, links);
    cluster
}

fn extremes(draws: &[f64]) -> (f64, f64) {
    let low = draws.iter().copied().fold(f64::INFINITY, f64::min);
    (low, draws.iter().copied().fold(0.0, f64::max))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_certain_takes_what_is_predicted((nodes, per_node, parts) in any_parts(), measured in any::<bool>()) {
        let program = program(parts.sizes.len() as u32, SHAPE);
        let mut cluster = spread(cluster(nodes, per_node), [1.0; 3]);
        if measured {
            cluster = calibrated(cluster);
        }
        let epoch = cost(&program, &cluster, &parts).epoch.seconds;
        let draws = Doubts::of(&cluster).seconds(&[program], &parts, Phase::Step, epoch, Draws::All).unwrap();
        prop_assert!(draws.iter().all(|draw| near(*draw, epoch.0)), "{epoch} {draws:?}");
        let found = range(epoch, &draws);
        prop_assert!(near(found.low.0, epoch.0) && near(found.high.0, epoch.0));
    }

    #[test]
    fn more_doubt_never_narrows_the_draws((nodes, per_node, parts) in any_parts(), more in 1.01f64..3.0, which in 0usize..3) {
        let program = [program(parts.sizes.len() as u32, SHAPE)];
        let factors = [1.3, 1.2, 1.1];
        let mut wider = factors;
        wider[which] *= more;
        let drawn = |factors| {
            let cluster = spread(cluster(nodes, per_node), factors);
            let epoch = cost(&program[0], &cluster, &parts).epoch.seconds;
            extremes(&Doubts::of(&cluster).seconds(&program, &parts, Phase::Step, epoch, Draws::All).unwrap())
        };
        let ((low, high), (lower, higher)) = (drawn(factors), drawn(wider));
        // A part that is slow may be so in a draw in which others are fast.
        prop_assert!(higher / lower >= 0.9 * high / low, "{low} {high}, {lower} {higher}");
    }
}

/// Alone, a rank waits for nobody, so all its times are off by the machine's factor.
#[test]
fn the_machine_scales_everything_that_a_rank_computes() {
    let program = program(1, SHAPE);
    let graph = workload("w", 5000, 10_000, SHAPE, &[]);
    let parts = parts(&graph, 1, Partitioner::Range).unwrap();
    for cluster in [cluster(1, 1), calibrated(cluster(1, 1))] {
        let cluster = spread(cluster, [2.0, 1.0, 1.0]);
        let epoch = cost(&program, &cluster, &parts).epoch.seconds;
        let draws = Doubts::of(&cluster)
            .seconds(
                std::slice::from_ref(&program),
                &parts,
                Phase::Step,
                epoch,
                Draws::All,
            )
            .unwrap();
        let (low, high) = extremes(&draws);
        // The outermost of 20 equal parts of the interval.
        let most = 2.0f64.powf(19.0 / 20.0);
        assert!(
            near(low, epoch.0 / most) && near(high, epoch.0 * most),
            "{low} {epoch} {high}"
        );
        let found = range(epoch, &draws);
        assert!(
            near(found.high.0 / epoch.0, 2.0f64.powf(17.0 / 20.0)),
            "{found:?}"
        );
    }
}

/// Every factor that a cluster file states reaches the draws, those of measured groups too.
#[test]
fn each_stated_factor_widens_the_draws() {
    let graph = workload("w", 500_000, 4_000_000, SHAPE, &[(2, 0.5)]);
    let program = [program(2, SHAPE)];
    let parts = parts(&graph, 2, Partitioner::Metis).unwrap();
    let width = |cluster: &Cluster| {
        let epoch = cost(&program[0], cluster, &parts).epoch.seconds;
        let draws = Doubts::of(cluster).seconds(&program, &parts, Phase::Step, epoch, Draws::All);
        let (low, high) = extremes(&draws.unwrap());
        high / low
    };
    assert!(near(width(&spread(cluster(2, 1), [1.0; 3])), 1.0));
    for factors in [[2.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 2.0]] {
        let found = width(&spread(cluster(2, 1), factors));
        assert!(found > 1.2, "{factors:?}: {found}");
    }
    let mut grouped = spread(calibrated(cluster(2, 1)), [1.0; 3]);
    let measured = grouped.calibration.measured.as_mut().unwrap();
    for group in measured.costs[0].groups.values_mut() {
        group.spread = Some(2.0);
    }
    assert!(width(&grouped) > 1.2, "{}", width(&grouped));
}

/// Half of the draws are every second one of all.
#[test]
fn half_of_the_draws_are_among_all() {
    let graph = workload("w", 5000, 10_000, SHAPE, &[]);
    let (program, cluster) = ([program(1, SHAPE)], cluster(1, 1));
    let parts = parts(&graph, 1, Partitioner::Range).unwrap();
    let epoch = cost(&program[0], &cluster, &parts).epoch.seconds;
    let drawn = |draws| Doubts::of(&cluster).seconds(&program, &parts, Phase::Step, epoch, draws);
    let (all, half) = (drawn(Draws::All).unwrap(), drawn(Draws::Half).unwrap());
    assert!(all.len() == 2 * half.len() && all.iter().step_by(2).eq(&half));
}

/// Stages that wait for each other are off by the machine's factor too.
#[test]
fn the_machine_scales_what_stages_compute() {
    let graph = workload("w", 5000, 10_000, SHAPE, &[]);
    let parts = parts(&graph, 1, Partitioner::Range).unwrap();
    let mut cluster = spread(cluster(1, 2), [2.0, 1.0, 1.0]);
    cluster.inside.latency.0 = 0.0;
    cluster.inside.bandwidth = 1e18;
    let programs = staged(2, 1, 5);
    let epoch = simulate_all(&programs, &cluster, &parts)
        .unwrap()
        .epoch
        .seconds;
    let draws = Doubts::of(&cluster).seconds(&programs, &parts, Phase::Step, epoch, Draws::All);
    let (low, high) = extremes(&draws.unwrap());
    let most = 2.0f64.powf(19.0 / 20.0);
    assert!(
        (low * most / epoch.0 - 1.0).abs() < 1e-3 && (high / most / epoch.0 - 1.0).abs() < 1e-3,
        "{low} {epoch} {high}"
    );
}

/// A replication factor that was not counted widens the range of what waits for halos, one that was does not.
#[test]
fn halos_that_were_not_counted_widen_the_range() {
    let graph = workload("w", 500_000, 4_000_000, SHAPE, &[]);
    let (program, cluster) = (program(4, SHAPE), spread(cluster(4, 1), [1.0; 3]));
    let mut parts = parts(&graph, 4, Partitioner::Metis).unwrap();
    assert!(parts.alpha_spread > 1.5);
    let epoch = cost(&program, &cluster, &parts).epoch;
    let drawn = |parts: &_| {
        let draws = Doubts::of(&cluster).seconds(
            std::slice::from_ref(&program),
            parts,
            Phase::Step,
            epoch.seconds,
            Draws::All,
        );
        extremes(&draws.unwrap())
    };
    let (low, high) = drawn(&parts);
    assert!(
        low < 0.95 * epoch.seconds.0 && high > 1.05 * epoch.seconds.0,
        "{low} {epoch:?} {high}"
    );
    parts.alpha_spread = 1.0;
    let (low, high) = drawn(&parts);
    assert!(near(low, epoch.seconds.0) && near(high, epoch.seconds.0));
}
