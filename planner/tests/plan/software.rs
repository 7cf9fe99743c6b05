//! What kernels take at least: to start them, and their longest row.

use crate::model::{program, workload};
use crate::simulate::{SHAPE, cluster, cost, near};
use gnnc_ir::cluster::{Calibration, DeviceKind};
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

/// However fast a GPU is, sums over edges take as long as the edges of their longest row, up to where hubs are cut.
/// Processors walk rows beside each other.
#[test]
fn the_longest_row_bounds_sums_over_edges_on_gpus() {
    let seconds = |degree: u64, kind: DeviceKind| {
        let graph = workload("w", 10_000, 10_000 * degree, SHAPE, &[]);
        let parts = parts(&graph, 1, Partitioner::Metis).unwrap();
        let mut cluster = cluster(1, 1);
        cluster.device.kind = kind;
        cluster.calibration.edge_latency = Calibration::profile(kind).edge_latency;
        cluster.device.launch_floor = Seconds(0.0);
        (cluster.device.flops, cluster.device.memory_bandwidth) = (1e25, 1e25);
        let epoch = cost(&program(1, SHAPE), &cluster, &parts).epoch;
        let all = epoch.breakdown.iter();
        let sums: Vec<_> = all.filter(|kind| kind.name.starts_with("spmm")).collect();
        let count: u64 = sums.iter().map(|kind| kind.count).sum();
        assert!(count > 0);
        sums.iter().map(|kind| kind.seconds.0).sum::<f64>() / count as f64
    };
    let short = seconds(16, DeviceKind::Gpu);
    assert!(short > 1e-6, "{short}");
    assert!(near(seconds(32, DeviceKind::Gpu), 2.0 * short));
    assert!(near(seconds(512, DeviceKind::Gpu), 32.0 * short));
    assert!(near(seconds(5000, DeviceKind::Gpu), 32.0 * short));
    assert!(seconds(512, DeviceKind::Cpu) < 1e-9);
}
