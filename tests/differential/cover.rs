//! The fewest rows and partial sums in place of rows: against the interpreter, and in the bytes sent.

use crate::check::{Case, Way};
use crate::data::{Shape, planted};
use crate::models::{APPNP, GAT, GCN, GCNII, GIN, RGCN, SAGE, shape};
use gnnc::graph::cover::exchanges;
use gnnc::graph::routes::Routes;
use gnnc::graph::{Kept, LocalPart, RowOrder};
use gnnc::ir::kernel::End;
use gnnc::ir::plan::{Cover, Knobs, Placement};
use gnnc::ir::program::Halo;
use gnnc::ir::words::storage::Storage;
use gnnc::planner::placement::PlacementSpec;

/// Models that only sum what is a function of an edge's source.
const MODELS: [&str; 5] = [GCN, SAGE, GIN, GCNII, SCALED];

/// An edge adds a function of its source, which is no tensor of its own.
const SCALED: &str = "let h = x |> linear(6) |> tanh
     let s = sigmoid(h |> linear(1))
     let h = gather(s@src * h@src + 0.1 * relu(h@src), sum) * 0.2
     loss cross_entropy(h |> linear(classes), labels, on = train)";

const PLACEMENTS: [Placement; 3] = [Placement::Graph, Placement::PushPull, Placement::Mixed];

fn joint(interior: bool, overlap: bool) -> Knobs {
    Knobs {
        cover: Some(Cover::Joint),
        interior: Some(interior),
        overlap: Some(overlap),
        ..Knobs::default()
    }
}

#[test]
fn joint_covers_are_what_the_interpreter_computes() {
    for body in MODELS {
        // Directed graphs have other sums than rows.
        for sparse in [false, true] {
            let mut case = Case::new("", body, planted(shape(sparse)));
            for ranks in [2, 3, 5, 8] {
                for placement in PLACEMENTS {
                    // A mixture may have no sums by rows.
                    if placement == Placement::Mixed && ranks != 5 {
                        continue;
                    }
                    case.layouts = Some(Default::default());
                    case.knobs = joint(ranks == 3, ranks != 5);
                    case.check(Way::varied(placement, ranks));
                }
            }
        }
    }
}

#[test]
fn joint_covers_on_a_device_are_what_the_interpreter_computes() {
    for body in [GCN, GIN, GCNII] {
        let mut case = Case::new("", body, planted(shape(true)));
        (case.device, case.knobs) = (true, joint(true, true));
        for ranks in [2, 5] {
            case.check(Way::varied(Placement::Graph, ranks));
        }
    }
}

/// Both kinds of rows cross to a node once.
#[test]
fn joint_covers_in_two_tiers_are_what_the_interpreter_computes() {
    for (n, body) in MODELS.into_iter().enumerate() {
        let mut case = Case::new("", body, planted(shape(n % 2 == 0)));
        for (ranks, node_ranks) in [(4, 2), (6, 3), (8, 2)] {
            for placement in [Placement::Graph, Placement::PushPull] {
                case.device = ranks == 6 && n == 0;
                case.knobs = joint(ranks == 6, true);
                case.knobs.node_ranks = Some(node_ranks);
                case.check(Way::varied(placement, ranks));
            }
        }
    }
}

/// As many rows and sums cross, and stay inside, as were counted.
#[test]
fn parts_have_the_covers_between_nodes_that_were_counted() {
    let data = planted(Shape {
        vertices: 400,
        edges: 3000,
        directed: true,
        sparse: false,
        seed: 6,
    });
    let partition = gnnc::graph::partition::by_name("metis", 0).unwrap();
    let partition = partition.partition((&data.topology).into(), 8).unwrap();
    for nodes in [2, 4] {
        let kept = Kept {
            halo: Halo::Cover,
            node_ranks: Some(8 / nodes),
        };
        let order = RowOrder::ByDegree;
        let parts = LocalPart::build(&data.topology, &partition, kept, order).unwrap();
        let routes = [End::Src, End::Dst].map(|end| Routes::of(&parts, 8 / nodes, end));
        let crossing: u64 = routes.iter().flatten().map(Routes::crossing_rows).sum();
        let all: usize = parts.iter().map(LocalPart::halo).sum();
        let counted = exchanges(&data.topology, &partition, nodes)
            .unwrap()
            .two_tiers;
        assert_eq!(crossing, counted.between.cover);
        assert_eq!(all as u64, counted.between.cover + counted.inside.cover);
    }
}

/// Kernels that check each access.
#[test]
fn joint_covers_touch_only_their_own_memory() {
    let mut case = Case::new("", GCNII, planted(shape(false)));
    (case.checked, case.knobs) = (true, joint(false, true));
    case.check(Way::varied(Placement::Graph, 4));
}

/// A sum of sums: the order of additions is another, but the same at any number of threads.
#[test]
fn threads_change_no_bit() {
    let mut case = Case::new("", GIN, planted(shape(false)));
    case.knobs = joint(true, true);
    let losses = |threads| {
        let mut trainer = case.start(Way {
            threads,
            ..Way::varied(Placement::Graph, 6)
        });
        [(); 3].map(|()| trainer.epoch().unwrap().loss.to_bits())
    };
    assert_eq!(losses(1), losses(3));
}

/// Halo bytes are those of rows, times rows and sums of the smallest covers over rows.
#[test]
fn bytes_are_those_of_the_cover() {
    let data = planted(Shape {
        vertices: 400,
        edges: 3000,
        directed: false,
        sparse: false,
        seed: 5,
    });
    // Sums over edges of 6 columns, and of 3 as the product with classes comes first; forward and back.
    let body = "let h = x |> linear(6) |> tanh
         let h = h + 0.1 * (h |> aggregate(sum))
         let h = tanh(h) + 0.1 * (tanh(h) |> aggregate(mean))
         loss cross_entropy(h |> linear(classes), labels, on = train)";
    let mut case = Case::new("", body, data);
    let mut sent = |cover| {
        case.knobs = Knobs {
            cover: Some(cover),
            ..Knobs::default()
        };
        let mut trainer = case.start(Way {
            placement: Placement::Graph,
            ranks: 8,
            partitioner: "metis",
            threads: 1,
        });
        trainer.epoch().unwrap().bytes_sent
    };
    let (rows, fewest) = (sent(Cover::Rows), sent(Cover::Joint));
    let data = case.loaded.data.as_ref().unwrap();
    let partition = gnnc::graph::partition::by_name("metis", 0).unwrap();
    let partition = partition.partition((&data.topology).into(), 8).unwrap();
    let counted = exchanges(&data.topology, &partition, 1).unwrap();
    assert!(counted.cover < counted.rows);
    assert_eq!(
        rows - fewest,
        (counted.rows - counted.cover) * 2 * (6 + 3) * 4
    );
}

#[test]
fn partial_sums_stay_in_32_bits() {
    let case = Case::new("", GCN, planted(shape(false)));
    let mut spec = PlacementSpec::new(Placement::Graph, 4);
    spec.knobs.cover = Some(Cover::Joint);
    spec.knobs.storage = Storage::Bf16;
    let programs = case.compiled.programs(&spec).unwrap();
    let sums = programs[0]
        .buffers
        .iter()
        .filter(|b| b.name.ends_with(".sum"));
    assert!(sums.clone().count() > 0);
    assert!(sums.clone().all(|buffer| buffer.storage.is_f32()));
    assert_eq!(programs[0].halo, Halo::Cover);
}

#[test]
fn what_reads_both_ends_of_an_edge_is_refused() {
    for body in [GAT, RGCN, APPNP] {
        let case = Case::new("", body, planted(shape(true)));
        let mut spec = PlacementSpec::new(Placement::Graph, 4);
        spec.knobs.cover = Some(Cover::Joint);
        let error = case.compiled.programs(&spec).unwrap_err().to_string();
        assert!(error.contains("cover=joint replaces rows"), "{error}");
        spec.placement = Placement::Broadcast;
        let error = case.compiled.programs(&spec).unwrap_err().to_string();
        assert!(error.contains("whole blocks"), "{error}");
    }
}
