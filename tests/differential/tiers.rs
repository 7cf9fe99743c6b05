//! Halo rows that cross to a node once, and whose gradients are added inside nodes first: against the interpreter, against
//! exchanges in one tier, and in the bytes that cross.

use crate::check::{Case, Way};
use crate::data::{Shape, planted};
use crate::models::{APPNP, GAT, GCN, GCNII, GIN, RGCN, SAGE, TYPED, shape};
use gnnc::graph::routes::Routes;
use gnnc::graph::{Kept, LocalPart, RowOrder};
use gnnc::ir::kernel::End;
use gnnc::ir::plan::{Knobs, Placement};
use gnnc::planner::placement::PlacementSpec;

const MODELS: [&str; 8] = [GCN, SAGE, GAT, GIN, GCNII, APPNP, RGCN, TYPED];

/// Placements with exchanges in two tiers.
const PLACEMENTS: [Placement; 4] = [
    Placement::Graph,
    Placement::Broadcast,
    Placement::PushPull,
    Placement::Mixed,
];

/// Ranks, and ranks of a node.
const NODES: [(u32, u32); 5] = [(4, 2), (6, 2), (6, 3), (8, 4), (9, 3)];

fn tiers(node_ranks: u32, interior: bool) -> Knobs {
    Knobs {
        node_ranks: Some(node_ranks),
        interior: Some(interior),
        ..Knobs::default()
    }
}

#[test]
fn two_tiers_are_what_the_interpreter_computes() {
    for (n, body) in MODELS.into_iter().enumerate() {
        let mut case = Case::new("", body, planted(shape(n % 2 == 0)));
        for (ranks, node_ranks) in NODES {
            for placement in PLACEMENTS {
                case.knobs = tiers(node_ranks, ranks == 6);
                case.check(Way::varied(placement, ranks));
            }
        }
    }
}

#[test]
fn two_tiers_on_a_device_are_what_the_interpreter_computes() {
    for body in [GCN, GAT, GCNII] {
        let mut case = Case::new("", body, planted(shape(true)));
        case.device = true;
        for (placement, ranks, node_ranks) in [(Placement::Graph, 4, 2), (Placement::Mixed, 6, 3)] {
            case.knobs = tiers(node_ranks, true);
            case.check(Way::varied(placement, ranks));
        }
    }
}

/// Rows arrive as their owners have them, so only sums of gradients can differ.
#[test]
fn rows_are_the_same_bits_in_one_tier() {
    for body in MODELS {
        let mut case = Case::new("", body, planted(shape(false)));
        for placement in PLACEMENTS {
            let mut logits = |node_ranks| {
                case.knobs = tiers(node_ranks, false);
                let mut trainer = case.start(Way::varied(placement, 8));
                trainer.evaluate().unwrap();
                trainer.session.logits().unwrap()
            };
            assert_eq!(logits(1), logits(4), "{placement}: {body}");
        }
    }
}

/// The same losses at any number of threads.
#[test]
fn threads_change_no_bit() {
    let mut case = Case::new("", GAT, planted(shape(false)));
    case.knobs = tiers(2, true);
    let losses = |threads| {
        let mut trainer = case.start(Way {
            threads,
            ..Way::varied(Placement::Graph, 6)
        });
        [(); 3].map(|()| trainer.epoch().unwrap().loss.to_bits())
    };
    assert_eq!(losses(1), losses(3));
}

/// As many bytes cross as rows of the routes say, fewer than in one tier, and all bytes stay the same.
#[test]
fn fewer_bytes_cross_and_no_more_are_sent() {
    let data = planted(Shape {
        vertices: 400,
        edges: 6000,
        directed: false,
        sparse: false,
        seed: 5,
    });
    let mut case = Case::new("", GCN, data);
    let sent = |case: &mut Case, node_ranks: u32| {
        case.knobs = tiers(node_ranks, false);
        let mut trainer = case.start(Way {
            placement: Placement::Graph,
            ranks: 8,
            partitioner: "hash",
            threads: 1,
        });
        let report = trainer.epoch().unwrap();
        (report.bytes_sent, report.bytes_crossed)
    };
    let (flat, none) = sent(&mut case, 1);
    assert_eq!(none, 0);
    let data = case.loaded.data.as_ref().unwrap();
    let partition = gnnc::graph::partition::by_name("hash", 0).unwrap();
    let partition = partition.partition((&data.topology).into(), 8).unwrap();
    let order = RowOrder::ByDegree;
    let parts = LocalPart::build(&data.topology, &partition, Kept::default(), order).unwrap();
    for node_ranks in [2, 4] {
        let far = |part: &LocalPart| -> usize {
            let node = |rank: u32| rank / node_ranks;
            let far = part.send.iter();
            let far = far.filter(|(to, _)| node(*to) != node(part.rank));
            far.map(|(_, rows)| rows.len()).sum()
        };
        let one_tier: usize = parts.iter().map(far).sum();
        let routes = Routes::of(&parts, node_ranks, End::Src);
        let rows: u64 = routes.iter().map(Routes::crossing_rows).sum();
        assert!(rows < one_tier as u64, "{rows} of {one_tier}");
        let (all, crossed) = sent(&mut case, node_ranks);
        assert_eq!(all, flat);
        // Hidden rows of 6 floats and rows of 3 classes, forward and back.
        assert_eq!(crossed % (4 * rows), 0, "{crossed} bytes of {rows} rows");
        assert!(crossed > 0);
    }
}

#[test]
fn nodes_that_do_not_divide_the_ranks_are_refused() {
    let case = Case::new("", GCN, planted(shape(false)));
    let mut spec = PlacementSpec::new(Placement::Graph, 8);
    spec.knobs.node_ranks = Some(3);
    let error = case.compiled.programs(&spec).unwrap_err().to_string();
    assert!(error.contains("do not divide 8 ranks"), "{error}");
    // One node, or one rank a node, is one tier.
    for node_ranks in [1, 8, 64] {
        spec.knobs.node_ranks = Some(node_ranks);
        let programs = case.compiled.programs(&spec).unwrap();
        assert!(programs.iter().all(|program| program.node_ranks.is_none()));
    }
}
