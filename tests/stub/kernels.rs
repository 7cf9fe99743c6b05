//! Single kernels: their arguments, hubs and outputs.

use crate::live;
use gnnc::graph::generate::Rmat;
use gnnc::kernels::{Aggregation, Request, copy_bandwidth, measure};

#[test]
fn aggregations_are_right() {
    let Some(mut live) = live("aggregations_are_right") else {
        return;
    };
    // A power law, so that some rows are hubs.
    let topology = Rmat::default().generate().unwrap().topology;
    for (kernel, width, heads) in [
        (Aggregation::Spmm, 16, 1),
        (Aggregation::Sddmm, 12, 1),
        (Aggregation::Attend, 32, 8),
    ] {
        let request = Request {
            kernel,
            width,
            heads,
            times: 1,
            rounds: 2,
        };
        let before = live.allocated_bytes();
        let answer = measure(&mut *live, &topology, &request).unwrap();
        assert!(answer.error < 1e-5, "{kernel:?}: {}", answer.error);
        assert_eq!(answer.seconds.len(), 2);
        assert!(answer.bytes > 4 * topology.edges());
        assert_eq!(live.allocated_bytes(), before, "given back");
    }
    let wrong = Request {
        kernel: Aggregation::Attend,
        width: 20,
        heads: 8,
        times: 1,
        rounds: 1,
    };
    let error = measure(&mut *live, &topology, &wrong).unwrap_err();
    assert!(
        error.to_string().contains("width 20 and 8 heads"),
        "{error}"
    );
    assert!(
        copy_bandwidth(&mut *live, 2)
            .unwrap()
            .iter()
            .all(|rate| *rate > 0.0)
    );
}
