//! Layers over named sets of edges, graphs of many graphs, and pairs of vertices.

use crate::check::Case;
use crate::data::{RELATIONS, Shape, planted, with_edge_features};
use crate::descent::differences;
use crate::minibatch::{ONE, SEVERAL, case, hops, pushed, sampling, with};
use crate::models::{check_case, shape};
use gnnc::graph::links::{LinkOptions, with_pairs};
use gnnc::graph::{GraphData, Labels, Topology, many};
use gnnc::ir::plan::Placement;
use gnnc::ir::words::sampling::{ALL, Cut, Kind, Roots, Sampling};
use gnnc::planner::placement::PlacementSpec;

/// A graph whose last two types of edges are sets of their own.
pub fn with_sets(shape: Shape, names: [&str; 2]) -> GraphData {
    let mut data = planted(shape);
    let names = names.map(str::to_owned).to_vec();
    data.topology = data.topology.with_sets(names).unwrap();
    assert_eq!(data.topology.relations(), RELATIONS - 2);
    data
}

const UP_AND_DOWN: [&str; 2] = ["up", "down"];

const LAYERS: &str = "layer weighted(h, out) {
       let w = slice(edge_features, 0, 1)
       return gather(linear(h, out)@src * w, sum) * rsqrt(in_degree + 1)
     }
     layer upward(h, out) on \"up\" { return linear(h, out) + linear(gather(h@dst * h@src, mean), out) }";

/// Standard layers over sets, a layer that names its set, edge features and degrees of sets, attention,
/// and types of the other edges.
#[test]
fn named_sets() {
    let bodies = [
        "let h = x |> dropout(0.3) |> sage_conv(6, over = \"up\") |> relu
         loss cross_entropy(gcn_conv(h, classes) + sage_conv(h, classes, over = \"down\"), labels, on = train)",
        "let h = x |> linear(5) |> weighted(5, over = \"down\") |> relu
         let g = h |> upward(6) |> rgcn_conv(5, bases = 2) |> elu
         loss cross_entropy(g |> weighted(classes), labels, on = train)",
        "let h = x |> linear(4)
         repeat k in 1..=3 { h = h + 0.5 * gin_conv(h, 4, over = \"up\") }
         let s = concat(aggregate(h, max), h)
         loss cross_entropy(linear(s, classes), labels, on = train)",
    ];
    for (n, body) in bodies.iter().enumerate() {
        check_case(Case::new(
            LAYERS,
            body,
            with_sets(shape(n % 2 == 0), UP_AND_DOWN),
        ));
    }
}

/// Many graphs: the vertices in runs of five to eight, with the edges inside each run.
pub fn many_graphs(numbers: bool) -> GraphData {
    let mut data = planted(shape(true));
    let mut graph_of: Vec<u32> = Vec::new();
    while graph_of.len() < data.vertices() as usize {
        let graph = graph_of.last().map_or(0, |last| last + 1);
        graph_of.extend(std::iter::repeat_n(graph, 5 + graph as usize % 4));
    }
    graph_of.truncate(data.vertices() as usize);
    let graphs = graph_of.last().unwrap() + 1;
    let inside = |(u, v, _): &(u32, u32, u16)| graph_of[*u as usize] == graph_of[*v as usize];
    let near = (0..data.vertices()).flat_map(|v| [(v, v / 2, 0), (v / 3, v, 1)]);
    let edges = data.topology.typed_edges().chain(near).filter(inside);
    data.topology = Topology::typed(data.vertices(), RELATIONS, edges)
        .unwrap()
        .0;
    data = with_edge_features(data);
    data.labels = match numbers {
        true => Labels::Values {
            width: 1,
            values: (0..graphs).map(|g| (g as f32 * 0.7).sin()).collect(),
        },
        false => Labels::Single((0..graphs).map(|g| g as i32 % 3).collect()),
    };
    let split = |part: u32| (0..graphs).map(|g| g % 3 == part).collect();
    (data.train, data.val, data.test) = (split(0), split(1), split(2));
    let joined = many::join(data, &graph_of, graphs).unwrap();
    assert_eq!(joined.validate(), vec![]);
    joined
}

/// Graph classification and regression: layers inside graphs, and each way to pool.
#[test]
fn graphs_of_many() {
    for how in ["sum", "mean", "max"] {
        let body = format!(
            "let h = x |> dropout(0.3) |> rgcn_conv(6) |> relu |> gin_conv(5) |> relu
             loss cross_entropy(h |> pool({how}) |> linear(classes), labels, on = train)"
        );
        check_case(Case::new("", &body, many_graphs(false)));
    }
    let gine =
        "layer gine(h) { return h + gather(relu(h@src + linear(edge_features, width(h))), sum) }";
    let body = "let h = x |> linear(5) |> gine
                loss huber(concat(pool(h), pool(h, max)) |> linear(classes), labels, on = train)";
    check_case(Case::new(gine, body, many_graphs(true)));
}

/// Models of graphs: their layers, what they do, and graphs.
pub fn of_graphs() -> [(&'static str, &'static str, GraphData); 2] {
    let gine =
        "layer gine(h) { return h + gather(relu(h@src + linear(edge_features, width(h))), sum) }";
    [
        (
            gine,
            "let h = x |> dropout(0.3) |> rgcn_conv(6) |> relu |> gin_conv(5) |> relu
             let g = concat(pool(h, mean), pool(h, max))
             loss cross_entropy(linear(g, classes), labels, on = train)",
            many_graphs(false),
        ),
        (
            gine,
            "let h = x |> linear(5) |> gine |> gine
             loss huber(h |> pool(sum) |> linear(classes), labels, on = train)",
            many_graphs(true),
        ),
    ]
}

/// Batches of graphs: each hop is drawn from the set of edges that its layer runs over.
#[test]
fn batches_of_graphs() {
    for (gine, body, data) in &of_graphs() {
        let whole = Case::new(gine, body, data.clone());
        let hops = hops(&whole);
        let all = sampling(1000, vec![ALL; hops], Kind::Full, Cut::Even);
        let mut batches = with(whole, &all);
        for way in [&[ONE][..], &SEVERAL, &pushed()].concat() {
            batches.check(way);
        }
        for (fanout, kind, cut, roots, way) in [
            (ALL, Kind::Full, Cut::Even, Roots::Home, ONE),
            (2, Kind::Neighbor, Cut::Short, Roots::Home, ONE),
            (ALL, Kind::Full, Cut::Even, Roots::Dealt, SEVERAL[0]),
            (3, Kind::Labor, Cut::Drop, Roots::Own, SEVERAL[1]),
            (ALL, Kind::Neighbor, Cut::Even, Roots::Home, pushed()[0]),
            (2, Kind::Labor, Cut::Short, Roots::Dealt, pushed()[2]),
        ] {
            let cut = if roots == Roots::Own { Cut::Even } else { cut };
            let sampling = sampling(4, vec![fanout; hops], kind, cut);
            let sampling = Sampling { roots, ..sampling };
            let case = with(case(gine, body, data.clone()), &sampling);
            assert_eq!(differences(&case, &sampling, way), None, "{body}");
        }
    }
}

/// Degrees over a set that no hop runs over.
#[test]
fn degrees_of_sets_that_no_hop_runs_over() {
    let layers = "layer sizes() on \"up\" { return rsqrt(in_degree + out_degree + 1) }";
    let body = "let h = sage_conv(x * sizes(), 6, over = \"down\") |> relu
                loss cross_entropy(linear(h, classes), labels, on = train)";
    let data = with_sets(shape(false), UP_AND_DOWN);
    for (fanout, way) in [(ALL, ONE), (2, SEVERAL[0]), (2, pushed()[0])] {
        let sampling = sampling(13, vec![fanout], Kind::Neighbor, Cut::Even);
        let case = with(case(layers, body, data.clone()), &sampling);
        assert_eq!(differences(&case, &sampling, way), None, "{way:?}");
    }
}

/// A layer over one set is read by a layer over another one, and both are read as far from the loss.
#[test]
fn hops_without_an_order_are_refused() {
    let layers = "layer times(h, g) on \"down\" { return gather(h@src * g@dst, sum) }
                  layer swapped(h, g) on \"up\" { return gather(h@src * g@dst, sum) }
                  layer ups(h) on \"up\" { return gather(h@src, sum) }
                  layer downs(h) on \"down\" { return gather(h@src, sum) }";
    let body = "let h = linear(x, 4)
                loss cross_entropy(linear(times(h, ups(h)) + swapped(h, downs(h)), classes), labels, on = train)";
    let case = Case::new(layers, body, with_sets(shape(false), UP_AND_DOWN));
    let spec = PlacementSpec::new(Placement::Minibatch, 1);
    let refused = case.compiled.training(&spec).err().unwrap().to_string();
    assert!(refused.contains("different sets of edges"), "{refused}");
}

/// Batch norm over all vertices, over those inside graphs, and sums of rows of edges.
#[test]
fn batch_norm() {
    let contrast = "layer contrast(h) {
           let e = tanh(h@src * h@dst)
           return gather(e - mean_rows(e), sum) + sum_rows(h)
         }";
    let bodies = [
        "let h = x |> dropout(0.3) |> linear(6) |> batch_norm |> relu
         loss cross_entropy(h |> gcn_conv(5) |> batch_norm |> relu |> linear(classes), labels, on = train)",
        "let g = x |> linear(6) |> contrast
         loss cross_entropy(linear(g, classes), labels, on = train)",
    ];
    for body in bodies {
        check_case(Case::new(contrast, body, planted(shape(false))));
    }
    let body = "let h = x |> sage_conv(6) |> batch_norm_of(inside_graphs()) |> relu
                loss cross_entropy(h |> pool |> linear(classes), labels, on = train)";
    check_case(Case::new("", body, many_graphs(false)));
}

/// Pairs of vertices, with every decoder.
#[test]
fn links() {
    let options = LinkOptions {
        val: 0.1,
        test: 0.2,
        negatives: 2,
        eval_negatives: 1,
        same_source: false,
        seed: 3,
    };
    let mut data = planted(shape(false));
    data.edge_features = Default::default();
    let pairs = with_pairs(&data, &options).unwrap();
    for decoder in ["dot_decoder", "distmult_decoder", "mlp_decoder(5)"] {
        let body = format!(
            "let h = x |> dropout(0.3) |> gcn_conv(6) |> relu |> sage_conv(5)
             loss bce_with_logits(h |> {decoder}, labels, on = train)"
        );
        check_case(Case::new("", &body, pairs.clone()));
    }
}
