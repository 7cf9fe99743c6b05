//! What software takes to start kernels.

use crate::model::{program, workload};
use crate::simulate::{SHAPE, cluster, cost, near};
use gnnc_ir::plan::Partitioner;
use gnnc_ir::words::units::Seconds;
use gnnc_planner::parts::parts;

/// On a small graph every kernel takes what software takes to start it; on a large one the device is slower.
#[test]
fn software_starts_kernels() {
    let seconds = |vertices: u64, launch: f64| {
        let graph = workload("w", vertices, 10 * vertices, SHAPE, &[]);
        let parts = parts(&graph, 1, Partitioner::Metis).unwrap();
        let mut cluster = cluster(1, 1);
        cluster.device.launch_floor = Seconds(1e-5);
        cluster.software.launch = Seconds(launch);
        let epoch = cost(&program(1, SHAPE), &cluster, &parts).epoch;
        // All of the small graph's kernels end before another one could start, none of the large one's.
        let floor = if vertices == 100 {
            epoch.compute_seconds.0
        } else {
            0.0
        };
        assert!((epoch.floor_seconds.0 - floor).abs() <= 1e-3 * epoch.compute_seconds.0);
        epoch.seconds.0
    };
    assert!(near(seconds(100, 2e-4), 20.0 * seconds(100, 1e-5)));
    assert!(near(seconds(100, 0.0), seconds(100, 1e-5)));
    let large = [0.0, 2e-4].map(|launch| seconds(100_000_000, launch));
    assert!(
        large[0] <= large[1] && large[1] < 1.01 * large[0],
        "{large:?}"
    );
}
