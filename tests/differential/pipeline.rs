//! Pipelines: the meaning of chunks and histories.

use crate::check::Case;
use crate::data::{Shape, planted};
use gnnc::ir::graph::autodiff::{TrainingGraph, differentiate};
use gnnc::ir::graph::eval::{DropoutKey, EvalContext, Tensor, evaluate};
use gnnc::ir::graph::op::{Input, Op};
use gnnc::ir::{Graph, Rows};
use gnnc::planner::placement::pipeline_form;
use gnnc::planner::stale::{StaleError, cuts, form, stages, sums_features};

const GCN: &str = "let h = x |> dropout(0.3) |> gcn_conv(6) |> relu
     let h = h |> dropout(0.3) |> gcn_conv(5) |> relu
     let h = h |> dropout(0.3) |> gcn_conv(6) |> relu
     let z = h |> gcn_conv(classes)";
const SAGE: &str = "let h = x |> dropout(0.3) |> sage_conv(6) |> relu
     let h = h |> dropout(0.3) |> sage_conv(5) |> relu
     let z = h |> dropout(0.3) |> sage_conv(classes)";
const GIN: &str = "let h = x |> dropout(0.3) |> gin_conv(6) |> relu |> gin_conv(5) |> relu
     let z = gin_conv(h, classes)";
const GCNII: &str = "let h0 = x |> dropout(0.3) |> linear(6, init = kaiming) |> relu
     let h = h0
     repeat i in 1..=4 {
       let beta = log(0.5 / i + 1)
       h = h |> dropout(0.3) |> gcnii_conv(h0, alpha = 0.1, beta = beta) |> relu
     }
     let z = h |> dropout(0.3) |> linear(classes, init = kaiming)";
pub const RES_PLUS: &str = "let h = x |> linear(6, init = kaiming) |> sage_conv(6)
     repeat l in 2..=4 { h = res_plus(h, conv = sage_conv, dropout = 0.3) }
     let z = h |> layer_norm |> relu |> dropout(0.3) |> linear(classes, init = kaiming)";
const APPNP: &str = "let u = x |> dropout(0.3) |> linear(6) |> relu |> linear(classes)
     let z = u
     repeat i in 1..=4 { z = appnp_step(z, u, alpha = 0.2, dropout = 0.3) }";
const GAT: &str = "let h = x |> dropout(0.3) |> gat_conv(3, heads = 2, dropout = 0.3) |> elu
     let h = h |> dropout(0.3) |> gat_conv(2, heads = 3, dropout = 0.3) |> elu
     let h = h |> gat_conv(4) |> elu
     let z = h |> dropout(0.3) |> gat_conv(classes, heads = 2, concat = false)";
const GAT_LOOP: &str = "let h = x |> linear(6) |> relu
     repeat i in 1..=3 { h = h |> dropout(0.3) |> gat_conv(3, heads = 2) |> elu }
     let z = h |> linear(classes)";
/// The maximum over the neighbors' rows, the same after a layer on each, and products with
/// weights.
const MAXIMA: &str = "let h = x |> linear(6) |> relu |> sage_conv(6) |> tanh
     let h = concat(h, aggregate(h |> dropout(0.3), max)) |> linear(5) |> tanh
     let h = aggregate(h |> linear(6) |> relu, max) + linear(h, 6)
     let p = matmul(h, parameter(4, rows = 6))
     let h = h |> linear(4) |> tanh
     let h = h + gather(p@src, max)
     let z = h |> sage_conv(classes)";
/// Rows of neighbors, each scaled by its own number: edges read two aggregated tensors.
const SCALED: &str = "let h = x |> linear(6) |> relu |> gcn_conv(6) |> relu
     let m = h |> dropout(0.3)
     let c = h |> linear(1) |> tanh
     let h = gather(m@src * c@src, sum) |> linear(5) |> tanh
     let z = gather(tanh(dropout(h, 0.3)@src), sum) |> linear(classes)";
/// Attention to embeddings with dropout, without a weight in front.
const DROPPED: &str = "let h = x |> linear(6) |> relu |> attend(0.3)
     let h = h |> linear(6) |> relu |> attend(0.3) |> tanh
     let z = h |> gcn_conv(classes)";
/// Attention whose scores are not sums of vertex scores.
const GATV2: &str = "let h = x |> linear(6) |> gat2(3) |> elu |> dropout(0.3) |> gat2(4) |> elu
     let z = h |> gat2(classes)";
/// Relations with and without bases.
const RGCN: &str = "let h = x |> dropout(0.3) |> rgcn_conv(6, bases = 2) |> relu
     let h = h |> rgcn_conv(5) |> elu
     let h = h |> dropout(0.3) |> rgcn_conv(4, bases = 3) |> tanh
     let z = h |> rgcn_conv(classes)";
/// Weights by the type of a vertex.
const TYPED: &str = "let h = x |> dropout(0.3) |> rgcn_conv(6, bases = 2, typed = true) |> relu
     let h = h |> sage_conv(5) |> typed_linear(5) |> elu
     let z = h |> rgcn_conv(classes, typed = true)";
pub const LAYERS: &str = "layer gat2(h, out) on edges + loops {
       let l = linear(h, out)
       let r = linear(h, out)
       let score = dot(tanh(l@src + r@dst), parameter(out))
       return gather(softmax(score) * l@src, sum)
     }
     layer attend(h, drop) on edges + loops {
       let m = dropout(h, drop)
       let score = dot(m@src, parameter(6)) + dot(m@dst, parameter(6))
       return gather(softmax(tanh(score)) * m@src, sum)
     }";
pub const MODELS: [&str; 14] = [
    GCN, SAGE, GIN, GCNII, RES_PLUS, APPNP, GAT, GAT_LOOP, MAXIMA, GATV2, RGCN, TYPED, SCALED,
    DROPPED,
];

pub fn case(body: &str) -> Case {
    scored(body, "")
}

/// A case whose loss has more arguments.
pub fn scored(body: &str, arguments: &str) -> Case {
    let shape = Shape {
        vertices: 40,
        edges: 160,
        directed: true,
        sparse: false,
        seed: 5,
    };
    let end = format!("loss cross_entropy(z, labels, on = train{arguments})");
    Case::new(LAYERS, &format!("{body}\n{end}"), planted(shape))
}

/// Pseudo-random numbers.
fn draw(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(2) + 1;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as f64 / f64::from(1u32 << 31) - 0.5
    }
}

/// Random histories that fit a form.
pub fn histories(form: &Graph, rows: usize, seed: u64) -> Vec<Tensor> {
    let mut next = draw(seed);
    let mut found: Vec<Tensor> = Vec::new();
    for node in &form.nodes {
        if let Op::Input(Input::History(history)) = node.op {
            assert_eq!(found.len(), history.number as usize);
            let floats = rows * history.columns() as usize;
            let values = (0..floats).map(|_| next()).collect();
            found.push(Tensor::new(history.ty(), rows, values));
        }
    }
    found
}

/// Parameters of an unrolled model from those of one with loops.
pub fn elements(form: &Graph, model: &Graph, params: &[Tensor]) -> Vec<Tensor> {
    let mut out = Vec::new();
    for spec in &form.params {
        let n = model
            .params
            .iter()
            .position(|p| p.name == spec.name)
            .unwrap();
        let Rows::Fixed(rows) = spec.ty.rows else {
            panic!("{} has rows of the data graph", spec.name)
        };
        let floats = (rows * spec.ty.columns()) as usize;
        let first = spec
            .element
            .map_or(0, |element| element.index as usize * floats);
        let values = params[n].data[first..first + floats].to_vec();
        out.push(Tensor::new(spec.ty, rows as usize, values));
    }
    out
}

#[test]
fn one_chunk_is_the_model() {
    for (body, features_first) in MODELS
        .iter()
        .flat_map(|body| [(*body, false), (*body, true)])
    {
        let mut case = case(body);
        case.loss();
        let model = case.loaded.model.graph.clone();
        let form = form(&model, features_first).unwrap();
        form.verify().unwrap();
        let dropout = Some(DropoutKey { seed: 3, epoch: 2 });
        let context = case.context().clone();
        let of_form = EvalContext {
            params: elements(&form, &model, &context.params),
            histories: histories(&form, 40, 1),
            dropout,
            ..context.clone()
        };
        let of_model = EvalContext { dropout, ..context };
        let found = evaluate(&form, &of_form).unwrap();
        let expected = evaluate(&model, &of_model).unwrap();
        for (a, b) in found.iter().zip(&expected) {
            for (a, b) in a.data.iter().zip(&b.data) {
                assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} {b}\n{body}");
            }
        }
    }
}

#[test]
fn the_gradient_is_that_of_the_loss_with_histories_held() {
    for (seed, body) in (0..).zip(MODELS) {
        let mut case = case(body);
        case.loss();
        let model = case.loaded.model.graph.clone();
        let form = form(&model, false).unwrap();
        let mut next = draw(seed);
        let context = EvalContext {
            params: elements(&form, &model, &case.context().params),
            histories: histories(&form, 40, seed),
            order: (0..40).map(|_| ((next() + 0.5) * 5.0) as u32).collect(),
            dropout: Some(DropoutKey { seed: 3, epoch: 2 }),
            ..case.context().clone()
        };
        let training = differentiate(&form).unwrap();
        check_gradients(&form, &training, &context, body);
    }
}

fn check_gradients(form: &Graph, training: &TrainingGraph, context: &EvalContext, body: &str) {
    let results = evaluate(&training.graph, context).unwrap();
    let stale = EvalContext {
        order: Vec::new(),
        blocks: Vec::new(),
        ..context.clone()
    };
    let exact = evaluate(&training.graph, &stale).unwrap();
    let (loss, exact) = (results[0].data[0], exact[0].data[0]);
    assert!((loss - exact).abs() > 1e-6, "nothing is stale\n{body}");
    for (n, grad) in training.grads.iter().enumerate() {
        let grad = &results[grad.unwrap()].data;
        let scale = grad.iter().fold(1e-3, |m: f64, g| m.max(g.abs()));
        for k in (0..grad.len()).step_by(1 + grad.len() / 7) {
            let at = |step: f64| {
                let mut context = context.clone();
                context.params[n].data[k] += step;
                evaluate(form, &context).unwrap()[0].data[0]
            };
            let central = |h: f64| (at(h) - at(-h)) / (2.0 * h);
            let expected = (4.0 * central(1e-6) - central(2e-6)) / 3.0;
            let name = &form.params[n].name;
            assert!(
                (grad[k] - expected).abs() <= 1e-6 * scale,
                "{name}[{k}]: {}, central difference {expected}\n{body}",
                grad[k]
            );
        }
    }
}

#[test]
fn forms_can_be_cut_between_layers() {
    for (body, layers, width) in [
        (GCN, 4, vec![6, 5, 5]),
        (SAGE, 3, vec![6, 5]),
        (GIN, 3, vec![6, 5]),
        (GCNII, 4, vec![12, 12, 12]),
        (RES_PLUS, 4, vec![6, 6, 6]),
    ] {
        let form = form(&case(body).loaded.model.graph, false).unwrap();
        let cuts = cuts(&form);
        assert_eq!(cuts.len() + 1, layers, "{body}");
        let columns = |cut: &gnnc::planner::stale::Cut| {
            let tensors = cut.tensors.iter();
            tensors.map(|id| form.ty(*id).columns()).sum::<u32>()
        };
        assert_eq!(
            cuts.iter().map(columns).collect::<Vec<u32>>(),
            width,
            "{body}\n{form}"
        );
        let parts = stages(&form, 2, &[1, layers as u32 - 1]).unwrap().concat();
        let params: usize = parts.iter().map(|part| part.graph.params.len()).sum();
        assert_eq!(params, form.params.len());
        assert_eq!(parts[0].graph.results.len(), parts[1].graph.args.len());
        assert!(stages(&form, 1, &[layers as u32 + 1]).is_err());
        // One stage each for the first and last layers, and one for those between.
        let both = stages(&form, 2, &[1, layers as u32 - 2, 1]).unwrap();
        let [first, second] = &both[..] else {
            panic!("{} stages", both.len())
        };
        assert_eq!((first.len(), second.len()), (2, 1));
        assert_eq!(first[0].graph.params, first[1].graph.params);
        let own = [&first[0], &second[0]].map(|run| run.graph.params.len());
        assert_eq!(own.iter().sum::<usize>(), form.params.len());
        let ends = [&first[0], &second[0], &first[1]].map(|run| run.last);
        assert_eq!(ends, [false, false, true]);
        for (from, to) in [(&first[0], &second[0]), (&second[0], &first[1])] {
            assert_eq!(from.graph.results.len(), to.graph.args.len());
        }
    }
}

/// A pipeline aggregates features once and for all where rewriting does so: of features without
/// dropout that are not wider than what the layer makes of them, or stored as rows.
#[test]
fn pipelines_aggregate_features_where_the_form_does() {
    let sums = |body: &str| {
        let compiled = case(body).compiled;
        let found = [
            sums_features(&compiled.training.form),
            sums_features(&pipeline_form(&compiled.training).unwrap()),
        ];
        assert_eq!(found[0], found[1], "{body}");
        found[1]
    };
    let rest = "|> relu |> gcn_conv(6) |> relu |> gcn_conv(classes)";
    assert!(sums(&format!("let z = x |> gcn_conv(64) {rest}")));
    assert!(sums(&format!("let z = x |> sage_conv(2) {rest}")));
    assert!(!sums(&format!(
        "let z = x |> dropout(0.3) |> gcn_conv(2) {rest}"
    )));
    // Attention weighs the products of features with weights that are learned.
    assert!(!sums(&format!(
        "let z = x |> gat_conv(8, heads = 2) {rest}"
    )));
}

#[test]
fn what_has_no_form_is_refused() {
    let refused = |body: &str| form(&case(body).loaded.model.graph, false).unwrap_err();
    let of_two = "let h = x |> gcn_conv(4) |> relu
     let g = h |> gcn_conv(4) |> relu
     let p = matmul(h, parameter(3, rows = 4)) + matmul(g, parameter(3, rows = 4))
     let z = gather(p@src, max) |> linear(classes)";
    assert!(matches!(refused(of_two), StaleError::OldWeight(_)));
}
