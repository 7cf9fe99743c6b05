//! Random models from a small grammar, on random graphs.

use crate::check::{Case, Way};
use crate::data::{Shape, planted};
pub use crate::layers::LAYERS;
use crate::layers::{CHEAP, CONVOLUTIONS, FIRST, LAST};
use gnnc::ir::plan::Placement;
use gnnc::planner::decouple::DecoupleError;
use gnnc::planner::placement::{PlacementSpec, TABLE};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// Columns of the state; divisible by 2 and 3.
const WIDTH: u32 = 6;

/// A step of a model: from `h` (and `h0`) to a new `h` with the same width.
fn step() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => convolution().prop_map(str::to_owned),
        2 => cheap().prop_map(str::to_owned),
        2 => combined(),
        1 => repeated(),
    ]
}

/// Calls on `h` that return `WIDTH` columns, over edges.
fn convolution() -> impl Strategy<Value = &'static str> {
    prop::sample::select(CONVOLUTIONS)
}

/// Calls on `h` that return `WIDTH` columns, row by row.
fn cheap() -> impl Strategy<Value = &'static str> {
    prop::sample::select(CHEAP)
}

fn call() -> impl Strategy<Value = &'static str> {
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

/// A whole model body.
pub fn body() -> impl Strategy<Value = String> {
    let (first, last) = (prop::sample::select(FIRST), prop::sample::select(LAST));
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
            edges: u64::from(vertices) * degree,
            directed,
            sparse,
            seed,
        },
    )
}

pub fn way() -> impl Strategy<Value = Way> {
    let partitioner = prop::sample::select(vec!["metis", "hash", "range"]);
    // Pipelines are tested in `pipeline`.
    let whole: Vec<Placement> = (TABLE.iter().filter(|row| !row.staged() && !row.samples()))
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

/// Runs the same cases every time: `cases` many, or `PROPTEST_CASES`. The derivative of `relu`
/// jumps, so a case where f32 and f64 round to different sides of 0 is possible but rare.
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
        if way.placement == Placement::TensorDecoupled {
            match case.decoupled() {
                Ok(decoupled) => case = decoupled,
                // Not every model has a decoupled form, but none may fail because of a bug.
                Err(why) => {
                    prop_assert!(!matches!(why, DecoupleError::Type(_)), "{why}\n{body}");
                    return Ok(());
                }
            }
        }
        case.checked = shape.seed % 2 == 1;
        let tiers = PlacementSpec::new(way.placement, way.ranks).has_tiers();
        if tiers && way.ranks % 2 == 0 && shape.seed % 3 == 0 {
            case.knobs.node_ranks = Some(2);
        }
        let found = case.differences(way);
        prop_assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    });
    passed(result);
}

/// Fails with the model, the graph and the way of the first case that failed.
pub fn passed<W: std::fmt::Debug>(result: Result<(), TestError<(String, Shape, W)>>) {
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, (body, shape, way))) => {
            panic!("{why}\n{body}\n{shape:?}\n{way:?}")
        }
        Err(e) => panic!("{e}"),
    }
}
