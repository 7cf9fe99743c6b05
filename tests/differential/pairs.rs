//! Training on batches of pairs: their ends are hops of their own.

use crate::batches::same;
use crate::check::{Case, Way};
use crate::data::{Shape, planted};
use crate::descent::differences;
use crate::edge_sets::with_sets;
use crate::minibatch::{ONE, SEVERAL, case, hops, pushed, sampling, untyped, with};
use crate::models::shape;
use gnnc::graph::GraphData;
use gnnc::graph::links::{LinkOptions, with_pairs};
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::Placement;
use gnnc::ir::words::sampling::{ALL, Cut, Exclude, Kind, Negatives, Roots, Sampling};
use gnnc::planner::placement::PlacementSpec;
use gnnc::{TrainOptions, Trainer};

/// A graph with pairs to train on, of which a third are links.
pub fn pairs(shape: Shape, typed: bool) -> GraphData {
    let data = planted(shape);
    let mut data = if typed { data } else { untyped(data) };
    data.edge_features = Default::default();
    let options = LinkOptions {
        val: 0.1,
        test: 0.2,
        negatives: 2,
        eval_negatives: 1,
        same_source: false,
        seed: 3,
    };
    with_pairs(&data, &options).unwrap()
}

/// Models that go to their seeds, of which each rank draws several sets.
pub const MIGRATING: Way = Way {
    placement: Placement::ModelMigration,
    ranks: 3,
    partitioner: "hash",
    threads: 1,
};

/// Encoders and decoders, and whether they read types of edges.
pub const MODELS: [(&str, bool); 5] = [
    (
        "let h = x |> dropout(0.3) |> gcn_conv(6) |> relu |> gcn_conv(5)
         loss bce_with_logits(h |> dot_decoder, labels, on = train)",
        false,
    ),
    (
        "let h = x |> dropout(0.3) |> sage_conv(6) |> relu |> sage_conv(5)
         loss bce_with_logits(h |> mlp_decoder(5), labels, on = train)",
        false,
    ),
    (
        "let h = x |> linear(5) |> gat_conv(4, heads = 2) |> elu
         loss bce_with_logits(h |> distmult_decoder, labels, on = train)",
        false,
    ),
    (
        "let h = x |> rgcn_conv(6) |> relu |> rgcn_conv(5)
         loss bce_with_logits(h |> dot_decoder, labels, on = train)",
        true,
    ),
    (
        "let h = x |> gin_conv(6) |> relu
         loss bce_with_logits(concat(h, x) |> mlp_decoder(4), labels, on = train)",
        false,
    ),
];

#[test]
fn all_neighbors_and_one_batch_of_pairs_are_the_whole_graph() {
    for (body, typed) in MODELS {
        for sparse in [false, true] {
            let whole = Case::new("", body, pairs(shape(sparse), typed));
            let all = vec![ALL; hops(&whole)];
            let mut all = with(
                whole,
                &Sampling {
                    exclude: Exclude::Nothing,
                    ..sampling(100_000, all, Kind::Full, Cut::Even)
                },
            );
            for way in [&[ONE][..], &SEVERAL, &pushed()].concat() {
                all.check(way);
            }
        }
    }
}

#[test]
fn batches_of_pairs_compute_what_the_interpreter_computes() {
    let mut found = Vec::new();
    for (body, typed) in MODELS {
        let (given, fresh, targets) = (Negatives::Given, Negatives::Fresh, Negatives::Targets);
        for (kind, cut, roots, negatives, way) in [
            (Kind::Neighbor, Cut::Even, Roots::Home, given, ONE),
            (Kind::Labor, Cut::Short, Roots::Home, fresh, ONE),
            (Kind::Full, Cut::Even, Roots::Home, targets, ONE),
            (Kind::Neighbor, Cut::Even, Roots::Own, fresh, SEVERAL[0]),
            (Kind::Labor, Cut::Drop, Roots::Dealt, targets, SEVERAL[1]),
            (Kind::Neighbor, Cut::Short, Roots::Home, given, SEVERAL[2]),
            (Kind::Neighbor, Cut::Even, Roots::Own, fresh, pushed()[0]),
            (Kind::Labor, Cut::Drop, Roots::Dealt, targets, pushed()[1]),
            (Kind::Full, Cut::Short, Roots::Home, given, pushed()[2]),
            (Kind::Neighbor, Cut::Even, Roots::Home, fresh, MIGRATING),
        ] {
            let case = case("", body, pairs(shape(typed), typed));
            let fanout = if kind == Kind::Full { ALL } else { 2 };
            let sampling = sampling(150, vec![fanout; hops(&case)], kind, cut);
            let sampling = Sampling {
                roots,
                negatives,
                ..sampling
            };
            let case = with(case, &sampling);
            found.extend(differences(&case, &sampling, way).map(|why| format!("{body}\n{why}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Layers over several sets as far from the loss as each other, one of which reads another's result.
#[test]
fn layers_over_several_sets() {
    let bodies = [
        "let h = sage_conv(x, 4, over = \"up\") + sage_conv(x, 4, over = \"down\") |> linear(4)
         loss cross_entropy(sage_conv(h, classes), labels, on = train)",
        "let h = x |> dropout(0.3) |> sage_conv(6, over = \"up\") |> relu
         loss cross_entropy(gcn_conv(h, classes) + sage_conv(h, classes, over = \"down\"), labels, on = train)",
    ];
    for body in bodies {
        let data = with_sets(shape(false), ["up", "down"]);
        let whole = Case::new("", body, data.clone());
        let all = vec![ALL; hops(&whole)];
        assert_eq!(all.len(), 3, "{body}");
        let mut all = with(whole, &sampling(1000, all, Kind::Full, Cut::Even));
        for way in [&[ONE][..], &SEVERAL, &pushed()].concat() {
            all.check(way);
        }
        for way in [ONE, SEVERAL[1], pushed()[2]] {
            let some = sampling(13, vec![2; 3], Kind::Neighbor, Cut::Even);
            let case = with(case("", body, data.clone()), &some);
            assert_eq!(differences(&case, &some, way), None, "{body}");
        }
    }
}

#[test]
fn steps_on_drawn_pairs_are_the_same_on_any_number_of_ranks() {
    for (body, typed) in [MODELS[0], MODELS[1], MODELS[3]] {
        for negatives in [Negatives::Fresh, Negatives::Targets] {
            let batches = Sampling {
                negatives,
                ..sampling(
                    100,
                    vec![3; hops_of(body, typed)],
                    Kind::Neighbor,
                    Cut::Even,
                )
            };
            same(body, &pairs(shape(false), typed), &batches, 2);
        }
    }
}

fn hops_of(body: &str, typed: bool) -> usize {
    hops(&Case::new("", body, pairs(shape(false), typed)))
}

/// Hops over plain edges may have the only fanouts.
#[test]
fn the_ends_of_pairs_need_no_fanout() {
    let batches = sampling(100, vec![3; 2], Kind::Neighbor, Cut::Even);
    let case = with(case("", MODELS[0].0, pairs(shape(false), false)), &batches);
    let spec = PlacementSpec {
        knobs: case.knobs.clone(),
        ..PlacementSpec::new(Placement::Minibatch, 1)
    };
    let found = case.compiled.program(&spec).unwrap().sampling.unwrap();
    let text: Vec<String> = found.fanouts.iter().map(ToString::to_string).collect();
    assert_eq!(text, ["all", "all", "3", "3"]);
}

/// What is aggregated beforehand would include the edges that a batch asks about.
#[test]
fn aggregations_beforehand_would_tell_the_answer() {
    let body = "let h = x |> sage_conv(6) |> relu |> sage_conv(5)
                loss bce_with_logits(h |> dot_decoder, labels, on = train)";
    let of = |exclude| {
        let batches = Sampling {
            exclude,
            ..sampling(100, vec![3], Kind::Neighbor, Cut::Even)
        };
        let mut case = with(case("", body, pairs(shape(false), false)), &batches);
        case.knobs.sampling.beforehand = Some(true);
        let spec = PlacementSpec {
            knobs: case.knobs.clone(),
            ..PlacementSpec::new(Placement::Minibatch, 1)
        };
        case.compiled.program(&spec).map(|_| ())
    };
    let refused = of(Exclude::Seeds).unwrap_err().to_string();
    assert!(refused.contains("leave out --static"), "{refused}");
    of(Exclude::Nothing).unwrap();
}

/// Ends are drawn of pairs only.
#[test]
fn graphs_without_pairs_have_none_to_draw() {
    let body = "let h = x |> sage_conv(6)
                loss cross_entropy(linear(h, classes), labels, on = train)";
    let batches = Sampling {
        negatives: Negatives::Fresh,
        ..sampling(13, vec![3], Kind::Neighbor, Cut::Even)
    };
    let case = with(case("", body, untyped(planted(shape(false)))), &batches);
    let options = TrainOptions {
        placement: Placement::Minibatch,
        allow: Relaxation::ALL.to_vec(),
        knobs: case.knobs.clone(),
        ..TrainOptions::default()
    };
    let refused = Trainer::new(&case.loaded, &case.compiled, &options);
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("no pairs"), "{refused}");
}
