//! Training on sampled batches: with all neighbors it is training on the whole graph, and with
//! some it is what the interpreter computes on the batches that the sampler draws.

use crate::check::{Case, Way};
use crate::data::{
    Shape, planted, with_edge_features, with_numbers, with_several_labels, with_vertex_types,
};
use crate::descent::{LEARNING_RATE, differences};
use crate::models::{
    APPNP, EDGE_MODELS, GAT, GCN, GCNII, GIN, KINDS, OF_EDGES, RGCN, RGCN_WEIGHTS, SAGE, TYPED,
    WEIGHTS, shape,
};
use gnnc::graph::{EdgeFeatures, GraphData, Topology};
use gnnc::ir::graph::model::Optimizer;
use gnnc::ir::plan::Placement;
use gnnc::ir::words::sampling::{
    ALL, Cut, Exclude, Fanout, Kind, Negatives, Roots, Sampling, SamplingSettings,
};
use gnnc::planner::placement::PlacementSpec;

const POOL: &str = "layer pool(h, out) { return gather(h@src, max) |> linear(out) }";
const POOLED: &str = "let h = x |> pool(6) |> tanh
         loss cross_entropy(h |> dropout(0.3) |> pool(classes), labels, on = train)";

/// Attention whose scores are not sums of vertex scores.
const GATV2_LAYER: &str = "layer gatv2(h, out) on edges + loops {
       let l = linear(h, out)
       let r = linear(h, out)
       let score = dot(leaky_relu(l@src + r@dst, 0.2), parameter(out))
       return gather(softmax(score) * l@src, sum)
     }";
const GATV2: &str = "let h = x |> dropout(0.3) |> gatv2(5) |> elu
         loss cross_entropy(h |> dropout(0.3) |> gatv2(classes), labels, on = train)";
/// Layers that aggregate before they multiply.
const WIDE_GCN: &str = "let h = x |> dropout(0.3) |> gcn_conv(18) |> relu
         loss cross_entropy(h |> gcn_conv(classes), labels, on = train)";
pub const WIDE_SAGE: &str = "let h = x |> dropout(0.3) |> sage_conv(18) |> relu
         loss cross_entropy(h |> sage_conv(classes), labels, on = train)";
const SGC: &str = "let h = x |> propagate |> propagate
         loss cross_entropy(h |> dropout(0.3) |> linear(classes), labels, on = train)";

pub const ONE: Way = Way {
    placement: Placement::Minibatch,
    ranks: 1,
    partitioner: "range",
    threads: 1,
};

/// Several ranks, on each of the partitions that divide vertices differently.
pub const SEVERAL: [Way; 3] = [
    Way {
        ranks: 2,
        partitioner: "hash",
        ..ONE
    },
    Way {
        ranks: 3,
        partitioner: "metis",
        ..ONE
    },
    Way { ranks: 4, ..ONE },
];

/// The same with features in slices of their columns.
pub fn pushed() -> [Way; 3] {
    SEVERAL.map(|way| Way {
        placement: Placement::PushPull,
        ..way
    })
}

/// The same graph without types of edges.
pub fn untyped(mut data: GraphData) -> GraphData {
    let (indptr, indices) = (data.topology.indptr(), data.topology.indices());
    let mut edges = Vec::new();
    for (v, row) in indptr.windows(2).enumerate() {
        let sources = &indices[row[0] as usize..row[1] as usize];
        edges.extend(sources.iter().map(|u| (*u, v as u32)));
    }
    edges.dedup();
    data.topology = Topology::from_edges(data.vertices(), edges).unwrap().0;
    with_edge_features(data)
}

/// A model with steps that are small enough for several of them.
pub fn case(layers: &str, body: &str, data: GraphData) -> Case {
    let mut case = Case::new(layers, body, data);
    case.loaded.model.train.optimizer = Optimizer::Sgd {
        lr: LEARNING_RATE,
        momentum: 0.0,
    };
    case.compiled = gnnc::compile(&case.loaded.model, &case.loaded.workload).unwrap();
    case
}

pub fn with(mut case: Case, sampling: &Sampling) -> Case {
    case.knobs.sampling = SamplingSettings {
        batch: Some(sampling.batch),
        fanouts: sampling.fanouts.clone(),
        sampler: Some(sampling.kind),
        cut: Some(sampling.cut),
        roots: Some(sampling.roots),
        exclude: Some(sampling.exclude),
        negatives: Some(sampling.negatives),
        ..SamplingSettings::default()
    };
    case
}

/// Losses of some epochs and of an evaluation, and how often batches outgrew their memory.
pub fn numbers(case: Case, way: Way) -> (Vec<f64>, u64) {
    let mut trainer = case.start(way);
    trainer.session.set_learning_rate(0.02);
    let losses = (0..4).map(|_| trainer.epoch().unwrap().loss);
    let mut numbers: Vec<f64> = losses.collect();
    numbers.extend(trainer.evaluate().unwrap().val_loss);
    (numbers, trainer.session.grown().unwrap())
}

pub fn sampling(batch: u32, fanouts: Vec<u32>, kind: Kind, cut: Cut) -> Sampling {
    Sampling {
        batch,
        fanouts: fanouts.into_iter().map(Fanout::Each).collect(),
        over: Vec::new(),
        kind,
        cut,
        roots: Roots::Home,
        merges: None,
        exclude: Exclude::Seeds,
        negatives: Negatives::Given,
        cache: None,
        topology: Default::default(),
    }
}

/// Hops of a model.
pub fn hops(case: &Case) -> usize {
    let spec = PlacementSpec::new(Placement::Minibatch, 1);
    let batches = case.compiled.training(&spec).unwrap().batches.as_ref();
    batches.unwrap().hops.len()
}

/// Every model, with the layers it needs, and whether it reads types of edges.
pub fn models() -> Vec<(&'static str, &'static str, bool)> {
    vec![
        ("", GCN, false),
        ("", SAGE, false),
        ("", GAT, false),
        ("", GIN, false),
        ("", GCNII, false),
        ("", APPNP, false),
        ("", RGCN, true),
        ("", TYPED, true),
        (KINDS, RGCN_WEIGHTS, true),
        (POOL, POOLED, false),
        (GATV2_LAYER, GATV2, false),
        ("", SGC, false),
        ("", WIDE_GCN, false),
        ("", WIDE_SAGE, false),
        (OF_EDGES, EDGE_MODELS[0], false),
        (OF_EDGES, EDGE_MODELS[1], true),
        (OF_EDGES, EDGE_MODELS[2], false),
        (OF_EDGES, EDGE_MODELS[3], true),
    ]
}

#[test]
fn all_neighbors_and_one_batch_are_the_whole_graph() {
    for (layers, body, typed) in models() {
        for sparse in [false, true] {
            let data = planted(shape(sparse));
            let data = if typed { data } else { untyped(data) };
            let whole = Case::new(layers, body, data);
            let fanouts = vec![ALL; hops(&whole)];
            let all = sampling(1000, fanouts, Kind::Full, Cut::Even);
            let mut batches = with(whole, &all);
            batches.check(ONE);
            SEVERAL.into_iter().for_each(|way| batches.check(way));
            pushed().into_iter().for_each(|way| batches.check(way));
        }
    }
    let several = with_several_labels(planted(shape(false)));
    let body = GCN.replace("cross_entropy", "bce_with_logits");
    let all = sampling(1000, vec![ALL; 2], Kind::Neighbor, Cut::Even);
    let mut several = with(Case::new("", &body, several), &all);
    several.check(ONE);
    several.check(SEVERAL[0]);
    let body = GCN.replace("cross_entropy", "mse");
    let mut numbers = with(
        Case::new("", &body, with_numbers(planted(shape(false)))),
        &all,
    );
    numbers.check(ONE);
    numbers.check(SEVERAL[0]);
}

/// Fails unless epochs of a session compute what the interpreter computes.
fn compare(case: &Case, sampling: &Sampling) {
    for way in [&[ONE][..], &SEVERAL, &pushed()].concat() {
        assert_eq!(differences(case, sampling, way), None);
    }
}

#[test]
fn batches_compute_what_the_interpreter_computes_on_them() {
    let mut found = Vec::new();
    for (layers, body, typed) in models() {
        for sparse in [false, true] {
            let data = planted(shape(sparse));
            // Models that read no types are also sampled on graphs that have some.
            let data = if typed || sparse { data } else { untyped(data) };
            // Other numbers in place of types grow from layer to layer, and rounding with them.
            let data = if body == TYPED {
                with_vertex_types(data)
            } else {
                data
            };
            let case = case(layers, body, data);
            let hops = hops(&case);
            for (kind, cut, roots, way) in [
                (Kind::Neighbor, Cut::Even, Roots::Home, ONE),
                (Kind::Labor, Cut::Short, Roots::Home, ONE),
                (Kind::Full, Cut::Drop, Roots::Home, ONE),
                (Kind::Neighbor, Cut::Even, Roots::Own, SEVERAL[0]),
                (Kind::Labor, Cut::Drop, Roots::Dealt, SEVERAL[1]),
                (Kind::Neighbor, Cut::Short, Roots::Home, SEVERAL[2]),
                (Kind::Neighbor, Cut::Even, Roots::Own, pushed()[0]),
                (Kind::Labor, Cut::Drop, Roots::Dealt, pushed()[1]),
                (Kind::Neighbor, Cut::Short, Roots::Home, pushed()[2]),
            ] {
                let fanout = if kind == Kind::Full { ALL } else { 2 };
                let sampling = sampling(13, vec![fanout; hops], kind, cut);
                let sampling = Sampling { roots, ..sampling };
                let case = with(copy(&case, layers, body), &sampling);
                if let Some(why) = differences(&case, &sampling, way) {
                    found.push(format!("{body}\nsparse {sparse}: {why}"));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Parts that follow from the split: with few labeled vertices some parts have none, and with several types of vertices
/// there is more to balance.
#[test]
fn partitions_by_splits_compute_what_others_do() {
    let mut few = untyped(planted(shape(false)));
    for v in 6..few.vertices() as usize {
        (few.train[v], few.val[v], few.test[v]) = (false, false, false);
    }
    few.train[3] = true;
    let mut typed = with_vertex_types(planted(shape(false)));
    typed.vertex_types = ["a", "b", "c"].into_iter().collect();
    let some = sampling(13, vec![2, 2], Kind::Neighbor, Cut::Even);
    for data in [few, typed] {
        for partitioner in ["metis-splits", "blocks", "blocks-train"] {
            for roots in [Roots::Home, Roots::Own] {
                let some = Sampling {
                    roots,
                    ..some.clone()
                };
                let case = with(case("", SAGE, data.clone()), &some);
                for placement in [Placement::Minibatch, Placement::PushPull] {
                    let way = Way {
                        placement,
                        partitioner,
                        ..SEVERAL[2]
                    };
                    assert_eq!(differences(&case, &some, way), None);
                }
            }
        }
    }
}

/// The mean over a batch is weighted by the seeds that all ranks have of it.
#[test]
fn weights_of_classes_are_those_of_all_seeds_of_a_batch() {
    for (weights, roots) in WEIGHTS.iter().zip([Roots::Home, Roots::Dealt, Roots::Own]) {
        let weighed = format!("on = train, {weights}");
        let body = SAGE.replace("on = train", &weighed);
        let case = case("", &body, planted(shape(false)));
        let some = sampling(13, vec![2, 2], Kind::Neighbor, Cut::Even);
        let some = Sampling { roots, ..some };
        compare(&with(case, &some), &some);
    }
}

/// A case of its own for other knobs.
fn copy(of: &Case, layers: &str, body: &str) -> Case {
    case(layers, body, of.loaded.data.clone().unwrap())
}

#[test]
fn late_weights_are_those_of_delayed_gradient_descent() {
    let mut found = Vec::new();
    for (layers, body, typed) in models() {
        for (delay, batch) in [(2, 13), (3, 13), (3, 2)] {
            let data = planted(shape(typed));
            let data = if typed { data } else { untyped(data) };
            let case = case(layers, body, data);
            let some = sampling(batch, vec![2; hops(&case)], Kind::Neighbor, Cut::Even);
            let mut case = with(case, &some);
            case.knobs.sampling.delay = Some(delay);
            let one = Way {
                placement: Placement::PushPull,
                ..ONE
            };
            for way in [&[one][..], &pushed()].concat() {
                let why = differences(&case, &some, way);
                found.extend(why.map(|why| format!("{body}\ndelay {delay}: {why}")));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// So many weights that several ranks sum parts of their gradients: a rank then sends sums of one batch
/// after its shares of the next.
#[test]
fn sums_of_batches_in_flight_are_not_mixed_up() {
    let body = "let h = x |> sage_conv(48) |> relu |> sage_conv(48) |> relu
         loss cross_entropy(h |> linear(classes), labels, on = train)";
    let some = sampling(13, vec![2; 2], Kind::Neighbor, Cut::Even);
    let mut case = with(case("", body, untyped(planted(shape(false)))), &some);
    case.knobs.sampling.delay = Some(3);
    for way in pushed() {
        assert_eq!(differences(&case, &some, way), None);
    }
}

#[test]
fn no_edges_are_kept_with_a_fanout_of_zero() {
    let none = sampling(13, vec![2, 0], Kind::Neighbor, Cut::Even);
    for body in [GCN, SAGE, GAT] {
        let data = untyped(planted(shape(false)));
        compare(&with(case("", body, data), &none), &none);
    }
}

/// Threads that draw a batch together, and threads that draw batches ahead, which also make their numbers.
#[test]
fn threads_change_no_bit() {
    for (n, (layers, body, typed)) in models().into_iter().enumerate() {
        let way = [ONE, SEVERAL[1], pushed()[0]][n % 3];
        let losses = |threads: usize, samplers: u32| {
            let data = planted(shape(typed));
            let data = if typed { data } else { untyped(data) };
            let case = case(layers, body, data);
            let some = sampling(13, vec![3; hops(&case)], Kind::Neighbor, Cut::Even);
            let mut case = with(case, &some);
            case.knobs.sampling.samplers = Some(samplers);
            let mut trainer = case.start(Way { threads, ..way });
            let losses: Vec<f64> = (0..3).map(|_| trainer.epoch().unwrap().loss).collect();
            (losses, trainer.session.parameters().unwrap())
        };
        let expected = losses(1, 0);
        for (threads, samplers) in [(2, 0), (1, 1), (1, 2)] {
            let found = losses(threads, samplers);
            assert_eq!(found, expected, "{body} {threads} {samplers}");
        }
    }
}

#[test]
fn a_batch_that_is_larger_than_those_before_gets_more_memory() {
    // One hub has most edges, and a batch that holds it is larger than the first ones.
    let mut data = untyped(planted(Shape {
        vertices: 400,
        edges: 600,
        ..shape(false)
    }));
    let mut edges: Vec<(u32, u32)> = (0..400).map(|u| (u, 77)).filter(|(u, v)| u != v).collect();
    for v in 0..400 {
        edges.extend(data.topology.in_neighbours(v).iter().map(|u| (*u, v)));
    }
    data.topology = Topology::from_edges(400, edges).unwrap().0;
    data.edge_features = EdgeFeatures::default();
    data.train = vec![true; 400];
    let all = sampling(8, vec![ALL; 2], Kind::Neighbor, Cut::Even);
    for body in [SAGE, WIDE_SAGE] {
        let mut case = with(case("", body, data.clone()), &all);
        compare(&case, &all);
        let grows = |case: &Case, way: Way| {
            let mut trainer = case.start(way);
            trainer.epoch().unwrap();
            assert!(trainer.session.grown().unwrap() > 0, "{body} {way:?}");
        };
        grows(&case, ONE);
        // Batches in flight keep what they have computed.
        for delay in [2, 3] {
            case.knobs.sampling.delay = Some(delay);
            for way in pushed() {
                assert_eq!(differences(&case, &all, way), None);
                grows(&case, way);
            }
        }
    }
}

#[test]
fn resumed_runs_draw_the_same_batches() {
    resumes(ONE, None);
    for delay in [0, 2, 3] {
        resumes(pushed()[1], Some(delay));
    }
}

fn resumes(way: Way, delay: Option<u32>) {
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    let mut case = with(case("", SAGE, untyped(planted(shape(false)))), &some);
    case.knobs.sampling.delay = delay;
    let path = std::env::temp_dir().join(format!("gnnc-batches-{}.ckpt", std::process::id()));
    let mut whole = case.start(way);
    let losses: Vec<f64> = (0..4).map(|_| whole.epoch().unwrap().loss).collect();
    let mut first = case.start(way);
    for _ in 0..2 {
        first.epoch().unwrap();
    }
    first.session.save(&path).unwrap();
    // The checkpoint's seed counts.
    case.loaded.model.train.seed += 1;
    let mut second = case.start(way);
    second.session.resume(&path).unwrap();
    let rest: Vec<f64> = (0..2).map(|_| second.epoch().unwrap().loss).collect();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(rest, losses[2..]);
    assert_eq!(
        second.session.parameters().unwrap(),
        whole.session.parameters().unwrap()
    );
}
