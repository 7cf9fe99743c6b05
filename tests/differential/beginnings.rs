//! Mixed placements that start like push-pull: the first layer on slices of the features, the
//! rest by rows or by columns.

use crate::check::{Case, Way};
use crate::data::{Shape, planted};
use crate::models;
use gnnc::ir::plan::{Layout, Layouts, Placement};
use gnnc::ir::program::Program;
use gnnc::planner::LowerError;
use gnnc::planner::lower::pure;
use gnnc::planner::placement::{PlacementSpec, lower};

const RANKS: [u32; 4] = [2, 3, 5, 8];

fn case(body: &str, sparse: bool) -> Case {
    let shape = Shape {
        vertices: 90,
        edges: 500,
        directed: sparse,
        sparse,
        seed: 3,
    };
    Case::new("", body, planted(shape))
}

fn programs(case: &Case, ranks: u32, layouts: &Layouts) -> Result<Vec<Program>, LowerError> {
    let mut place = PlacementSpec::new(Placement::Mixed, ranks);
    place.knobs = place.knobs.with_layouts(layouts.clone());
    lower(&case.compiled.training, &place)
}

/// Layouts that start like push-pull and continue by rows, by columns, or alternating. Omits
/// layouts without a product of slices.
fn beginnings(case: &Case, ranks: u32) -> Vec<Layouts> {
    let pure = pure(&case.compiled.training, ranks).unwrap();
    let features = Layout::Columns;
    let mut turns = pure.push_pull.clone();
    let lists = turns.epoch.iter_mut().enumerate();
    for (n, layout) in lists.chain(turns.eval.iter_mut().enumerate()) {
        if n % 2 == 0 {
            *layout = Layout::Columns;
        }
    }
    let columns = Layouts {
        features,
        ..pure.tensor
    };
    // The epoch and the evaluation may use different layouts.
    let apart = Layouts {
        features,
        epoch: columns.epoch.clone(),
        eval: pure.push_pull.eval.clone(),
    };
    let mut found = vec![pure.push_pull, columns, turns, apart];
    found.sort_unstable();
    found.dedup();
    found
}

/// Checks a model at every number of ranks, and that its first parameter is sharded.
fn check(body: &str) {
    for (sparse, ranks) in [false, true].into_iter().zip([&RANKS[..], &RANKS[1..3]]) {
        let mut case = case(body, sparse);
        for &ranks in ranks {
            for layouts in beginnings(&case, ranks) {
                let programs = programs(&case, ranks, &layouts).unwrap();
                let cut = programs[0]
                    .params
                    .iter()
                    .filter(|p| p.shard.is_some())
                    .count();
                assert!(cut > 0, "{layouts:?}\n{body}");
                case.layouts = Some(layouts);
                case.check(Way {
                    placement: Placement::Mixed,
                    ranks,
                    partitioner: if ranks == 3 { "hash" } else { "metis" },
                    threads: 1,
                });
            }
        }
    }
}

#[test]
fn gcn() {
    check(models::GCN);
}

#[test]
fn sage() {
    check(models::SAGE);
}

#[test]
fn gat() {
    check(models::GAT);
}

#[test]
fn gin() {
    check(models::GIN);
}

#[test]
fn gcnii() {
    check(models::GCNII);
}

#[test]
fn appnp() {
    check(models::APPNP);
}

/// Other readers of features on slices: an aggregation that is then multiplied, an aggregation
/// of an equally wide hidden tensor, a loop, and copies side by side (as one tensor, a rank
/// would hold other columns of them).
#[test]
fn features_that_several_read() {
    let bodies = [
        "let h = x |> linear(12) |> tanh
         let m = gather(h@src * x@src, sum) + gather(x@src, max)
         loss cross_entropy(linear(m, classes) + linear(x, classes), labels, on = train)",
        "let h = gather(concat(x, 2 * x)@src, max)
         loss cross_entropy(linear(h, classes) + linear(x, classes), labels, on = train)",
        "let t = x |> tanh
         let z = 0.5 * x
         repeat k in 1..=3 { z = 0.9 * propagate(z) + 0.1 * t }
         loss cross_entropy(linear(z, classes) + linear(t, classes), labels, on = train)",
        "let c = concat(x, tanh(x))
         let z = c
         repeat k in 1..=2 { z = 0.9 * propagate(z) + 0.1 * c }
         loss cross_entropy(linear(z, classes) + linear(x, classes), labels, on = train)",
        "let h = concat(x, tanh(x)) |> dropout(0.4)
         let m = gather(h@src, max)
         loss cross_entropy(linear(m, classes) + linear(x, classes), labels, on = train)",
        "let h = propagate(x) |> linear(12) |> tanh
         let g = propagate(h) + tanh(x)
         loss cross_entropy(gcn_conv(g |> dropout(0.3), classes), labels, on = train)",
    ];
    bodies.into_iter().for_each(check);
}

/// A mixture with features by columns, although nothing contracts them there, is refused.
#[test]
fn features_that_nothing_contracts_are_refused() {
    let case = case(
        "let h = x |> propagate |> layer_norm |> linear(6) |> gcn_conv(classes)
         loss cross_entropy(h, labels, on = train)",
        false,
    );
    let pure = pure(&case.compiled.training, 3).unwrap();
    for layouts in [&pure.push_pull, &pure.graph] {
        let layouts = Layouts {
            features: Layout::Columns,
            ..layouts.clone()
        };
        let refused = programs(&case, 3, &layouts).unwrap_err().to_string();
        assert!(
            refused.contains("a mixture that begins with it"),
            "{refused}"
        );
        assert!(refused.contains("without `feature_layout`"), "{refused}");
    }
}

/// With features by rows and one layout throughout, a mixture equals the pure placement; with
/// push-pull's layouts it equals push-pull.
#[test]
fn mixtures_of_one_kind_are_that_placement() {
    let case = case(
        "let h = x |> dropout(0.5) |> sage_conv(7) |> relu
         loss cross_entropy(h |> gcn_conv(classes), labels, on = train)",
        false,
    );
    let pure = pure(&case.compiled.training, 3).unwrap();
    for (placement, layouts) in [
        (Placement::Tensor, &pure.tensor),
        (Placement::PushPull, &pure.push_pull),
    ] {
        let alone = lower(&case.compiled.training, &PlacementSpec::new(placement, 3)).unwrap();
        assert_eq!(programs(&case, 3, layouts).unwrap(), alone, "{placement}");
    }
}
