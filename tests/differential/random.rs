//! Random models from a small grammar, on random graphs.

use crate::check::{Case, Way};
use crate::data::{Shape, planted};
use gnnc::ir::plan::{Placement, Relaxation};
use gnnc::planner::decouple::DecoupleError;
use gnnc::planner::placement::TABLE;
use gnnc::planner::search::relaxations;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// Layers that use what the standard ones do not. Their results are not much larger than
/// their operands: behind large scores a softmax is all but one-hot, and in its gradient
/// (`y (g - sum y g)`, as everywhere) f32 cancels.
pub const LAYERS: &str = "
layer pool(h, reduce = max) { return gather(h@src |> dropout(0.2), reduce) }
layer total(h) { return 0.2 * gather(h@src |> dropout(0.2), sum) }
layer slope(h, reduce = max) on edges + loops { return gather(h@dst - h@src, reduce) }
layer gate(h) on edges + loops {
  return gather(sigmoid(h@src + h@dst) * h@src, sum) * recip(in_degree)
}
layer back(h) { return gather(h@src * rsqrt(out_degree@src + 1), mean) + 0.1 * out_degree }
layer attend(h, n) on edges + loops {
  let q = split_heads(h, n)
  let share = dot(q@dst, q@src) * 0.3 |> softmax |> dropout(0.2)
  return merge_heads(gather(share * q@src, sum))
}
layer pull(h) {
  let share = tanh(sum_cols(h))@src |> softmax
  return gather(share * h@src, sum)
}
layer turn(h, k) { return concat(slice(h, k, width(h) - k), slice(h, 0, k)) }
layer weigh(h) {
  let near = exp(parameter(1) - 0.1 * dot(h@src - h@dst, h@src - h@dst))
  return gather(near * (h@src + parameter(width(h))), sum) / (1 + gather(near, sum))
}
layer related(h, reduce = sum) {
  let a = parameter(1, rows = relations, heads = 2, name = \"a\")
  let weight = tanh(by_relation(a)) * recip(relation_degree)
  return merge_heads(gather(weight * split_heads(h, 2)@src, reduce))
}
layer kinds(h) {
  let near = tanh(by_relation(parameter(width(h), rows = relations)) * h@src + h@dst)
  return gather(near |> dropout(0.2), mean) / (1 + gather(recip(relation_degree), sum))
}
layer picks(h) {
  let p = split_heads(linear(h, 6 * relations) |> dropout(0.2), relations)
  return gather(by_relation(p@src) * recip(relation_degree) * sigmoid(by_relation(p@dst)), mean)
}
layer attract(h) {
  let score = sum_cols(h)@src * by_relation(parameter(1, rows = relations))
  return gather((score * 0.2 |> softmax) * h@src, sum)
}
layer twice(h) on edges + loops {
  let e = tanh(h@src * h@dst) |> dropout(0.2)
  return gather(e, sum) * rsqrt(in_degree * out_degree) + gather(relu(e), max)
}
layer heads_of(h, n) {
  let q = split_heads(h, n) * parameter(width(h) / n, heads = n, name = \"scale\")
  return concat(mean_heads(q), tanh(sum_heads(q)))
}
";

/// Columns of the state; divisible by 2 and 3.
const WIDTH: u32 = 6;

/// A step of a model: from `h` (and `h0`) to a new `h` of the same width.
fn step() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => convolution(),
        2 => cheap(),
        2 => combined(),
        1 => repeated(),
    ]
}

/// Calls on `h` that return `WIDTH` columns, over arcs.
fn convolution() -> impl Strategy<Value = String> {
    let calls = vec![
        format!("gcn_conv({WIDTH})"),
        format!("gcn_conv({WIDTH}, bias = false)"),
        format!("sage_conv({WIDTH})"),
        format!("gat_conv({}, heads = 3, dropout = 0.2)", WIDTH / 3),
        format!("gat_conv({WIDTH}, heads = 2, concat = false)"),
        format!("gin_conv({WIDTH})"),
        "propagate(dropout = 0.2)".to_owned(),
        "aggregate(max, self_loops = true)".to_owned(),
        "aggregate(mean)".to_owned(),
        "aggregate(sum, norm = sym)".to_owned(),
        "pool".to_owned(),
        "pool(reduce = mean)".to_owned(),
        "slope".to_owned(),
        "slope(reduce = mean)".to_owned(),
        "gate".to_owned(),
        "back".to_owned(),
        "attend(2)".to_owned(),
        "pull".to_owned(),
        "weigh".to_owned(),
        "twice".to_owned(),
        "related".to_owned(),
        "related(reduce = mean)".to_owned(),
        "kinds".to_owned(),
        "attract".to_owned(),
        format!("rgcn_conv({WIDTH}, bases = 2)"),
        format!("rgcn_conv({WIDTH})"),
        "picks".to_owned(),
        "total".to_owned(),
        "matmul(parameter(6, rows = 6)) |> aggregate(mean, self_loops = true)".to_owned(),
        "gcnii_conv(h0, alpha = 0.2, beta = 0.4)".to_owned(),
        "res_plus(conv = sage_conv, dropout = 0.2)".to_owned(),
        "res_plus(dropout = 0.2)".to_owned(),
    ];
    prop::sample::select(calls)
}

/// Calls on `h` that return `WIDTH` columns, row by row.
fn cheap() -> impl Strategy<Value = String> {
    let calls = [
        "elu",
        "tanh",
        "sigmoid",
        "leaky_relu(0.1)",
        "relu",
        "dropout(0.3)",
        "layer_norm",
        "linear(6) |> relu",
        "linear(9) |> elu |> linear(6)",
        "turn(2)",
        "heads_of(2)",
    ];
    prop::sample::select(calls.map(str::to_owned).to_vec())
}

fn call() -> impl Strategy<Value = String> {
    prop_oneof![convolution(), cheap()]
}

/// Statements that combine several values.
fn combined() -> impl Strategy<Value = String> {
    (call(), call(), 0..10).prop_map(|(a, b, kind)| match kind {
        0 => format!("=h + (h |> {a})"),
        1 => format!("=concat(h |> {a}, h0, h |> {b}) |> linear({WIDTH})"),
        2 => format!("=concat(slice(h, 0, 2), h |> {a} |> slice(1, 4))"),
        3 => format!("=(h |> {a}) * sigmoid(h |> {b})"),
        4 => format!("=max(h |> {a}, h0)"),
        5 => format!("=(h |> {a}) + (x |> dropout(0.4) |> linear({WIDTH}))"),
        6 => format!("=concat(x, h |> {a}) |> linear({WIDTH})"),
        7 => format!(
            "=(h |> {a}) * recip(2 + tanh((x |> aggregate(mean) |> sum_cols) * sum_cols(x)))"
        ),
        8 => format!("=h |> dropout(0.2) |> {a} |> {b}\nlet h = h + (h0 |> {b})"),
        _ => format!("=(h |> {a}) / sqrt(1 + dot(h, h)) - 0.5 * (h0 |> {b})"),
    })
}

/// A loop, which may read `h0`.
fn repeated() -> impl Strategy<Value = String> {
    (call(), call(), 1..4u32, 0..6).prop_map(|(a, b, count, kind)| {
        let body = match kind {
            0 => format!("h = h |> {a} |> {b}"),
            1 => format!("h = 0.8 / i * (h |> {a}) + 0.2 * h0"),
            2 => format!("let t = h |> {a}\nh = tanh(s)\ns = 0.5 * s + (t |> {b})"),
            3 => format!("s = s + (h |> {a})\nh = 0.5 * h + (h0 |> {b})"),
            4 => format!("h = tanh(matmul(h |> {a}, w) + (x |> linear({WIDTH})))"),
            _ => format!("h = tanh(h |> {a})\nh = h + (h |> {b})"),
        };
        let shared = format!("let s = h0\nlet w = parameter({WIDTH}, rows = {WIDTH})");
        format!("{shared}\nrepeat i in 1..={count} {{ {body} }}\nlet h = h - 0.5 * s")
    })
}

/// A whole body of a model.
pub fn body() -> impl Strategy<Value = String> {
    let first = prop::sample::select(vec![
        "linear(6)",
        "dropout(0.3) |> linear(6) |> elu",
        "gcn_conv(6)",
        "dropout(0.3) |> sage_conv(6)",
        "gat_conv(3, heads = 2, dropout = 0.2)",
        "propagate |> linear(6)",
    ]);
    let last = prop::sample::select(vec![
        "linear(classes)",
        "gcn_conv(classes)",
        "dropout(0.2) |> gat_conv(classes, heads = 2, concat = false)",
    ]);
    (first, prop::collection::vec(step(), 1..4), last).prop_map(|(first, steps, last)| {
        let mut text = format!("let h0 = x |> {first}\nlet h = h0\n");
        for step in steps {
            text += &match step.strip_prefix('=') {
                Some(value) => format!("let h = {value}\n"),
                None if step.contains("repeat") => format!("{step}\n"),
                None => format!("let h = h |> {step}\n"),
            };
        }
        text + &format!("loss cross_entropy(h |> {last}, labels, on = train)")
    })
}

pub fn shape() -> impl Strategy<Value = Shape> {
    (20..70u32, 2..9u64, any::<bool>(), any::<bool>(), 0..1000u64).prop_map(
        |(vertices, degree, directed, sparse, seed)| Shape {
            vertices,
            arcs: u64::from(vertices) * degree,
            directed,
            sparse,
            seed,
        },
    )
}

pub fn way() -> impl Strategy<Value = Way> {
    let partitioner = prop::sample::select(vec!["metis", "hash", "range"]);
    // Stages are in `pipeline`.
    let whole: Vec<Placement> = (TABLE.iter().filter(|row| !row.staged()))
        .map(|row| row.placement)
        .collect();
    let placement = proptest::sample::select(whole);
    (placement, 1..8u32, partitioner, 1..3usize).prop_map(
        |(placement, ranks, partitioner, threads)| Way {
            placement,
            ranks,
            partitioner,
            threads,
        },
    )
}

/// The same cases in every run, so many or PROPTEST_CASES: the derivative of `relu` jumps, so that a case in which f32
/// and f64 round to different sides of 0 is possible, if rare.
pub fn runner(cases: u32) -> TestRunner {
    let asked = std::env::var("PROPTEST_CASES").ok();
    let config = Config {
        cases: asked.and_then(|n| n.parse().ok()).unwrap_or(cases),
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

#[test]
fn random_models() {
    let mut runner = runner(100);
    let result = runner.run(&(body(), shape(), way()), |(body, shape, way)| {
        let mut case = Case::new(LAYERS, &body, planted(shape));
        if relaxations(way.placement).contains(&Relaxation::Decouple) {
            match case.decoupled() {
                Ok(decoupled) => case = decoupled,
                // Not every model has such a form; none fails for a bug.
                Err(why) => {
                    prop_assert!(!matches!(why, DecoupleError::Type(_)), "{why}\n{body}");
                    return Ok(());
                }
            }
        }
        let found = case.differences(way);
        prop_assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, (body, shape, way))) => {
            panic!("{why}\n{body}\n{shape:?}\n{way:?}")
        }
        Err(e) => panic!("{e}"),
    }
}
