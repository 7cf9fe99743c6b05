//! Embeddings that are stepped lazily: only the rows of a batch, each by the count of its own steps, on the
//! ranks that own them.

use crate::check::{Case, Way};
use crate::data::planted;
use crate::descent::differences;
use crate::minibatch::{ONE, SEVERAL, sampling, untyped, with};
use crate::models::shape;
use gnnc::graph::Features;
use gnnc::ir::graph::model::Optimizer;
use gnnc::ir::words::sampling::{ALL, CacheBy, Cut, Fanout, Kind, Roots, Sampling};
use gnnc::runtime::Tensor;

pub const ROWS: &str = "let e = x |> linear(6, bias = false)
         let h = e |> dropout(0.3) |> gcn_conv(6) |> tanh
         loss cross_entropy(h |> sage_conv(classes), labels, on = train)";

/// An embedding that is read in two levels, and an epilogue behind it.
pub const TWICE: &str = "let e = x |> linear(6) |> tanh
         let h = (e |> sage_conv(6)) + (e |> linear(6))
         loss cross_entropy(h |> tanh |> sage_conv(classes), labels, on = train)";

const RATE: f64 = 0.0625;

pub fn optimizers() -> [Optimizer; 5] {
    let (lr, beta1, beta2) = (0.01, 0.8, 0.9);
    // Small enough gradients are rounding errors, which must not decide the direction of a step.
    let eps = 1e-3;
    [
        Optimizer::Sgd {
            lr: RATE,
            momentum: 0.0,
        },
        Optimizer::Sgd {
            lr: RATE,
            momentum: 0.5,
        },
        Optimizer::Adagrad { lr, eps },
        Optimizer::Adam {
            lr,
            beta1,
            beta2,
            eps,
        },
        Optimizer::AdamW {
            lr,
            beta1,
            beta2,
            eps,
        },
    ]
}

pub fn case(body: &str, optimizer: Optimizer, batches: &Sampling, lazy: bool) -> Case {
    let mut data = untyped(planted(shape(false)));
    data.features = Features::identity(data.vertices());
    let mut case = with(Case::new("", body, data).with_optimizer(optimizer), batches);
    case.knobs.sampling.lazy = Some(lazy);
    case
}

pub fn few(roots: Roots) -> Sampling {
    Sampling {
        roots,
        ..sampling(11, vec![2, 2], Kind::Neighbor, Cut::Even)
    }
}

#[test]
fn rows_are_stepped_as_the_papers_say() {
    for optimizer in optimizers() {
        for body in [ROWS, TWICE] {
            for (way, roots) in [
                (ONE, Roots::Home),
                (SEVERAL[0], Roots::Dealt),
                (SEVERAL[1], Roots::Home),
                (SEVERAL[2], Roots::Own),
            ] {
                let some = few(roots);
                for lazy in [true, false] {
                    let case = case(body, optimizer, &some, lazy);
                    let found = differences(&case, &some, way);
                    assert_eq!(found, None, "{optimizer:?} {body}, lazy: {lazy}");
                }
                let clipped = case(body, optimizer, &some, true).with_clip(0.05);
                let found = differences(&clipped, &some, way);
                assert_eq!(found, None, "{optimizer:?} {body}, clipped");
            }
        }
    }
}

#[test]
fn late_rows_are_delayed_steps() {
    let ways = [ONE, SEVERAL[0], SEVERAL[1], SEVERAL[2]];
    for optimizer in optimizers() {
        for body in [ROWS, TWICE] {
            for (late, way) in [1, 2, 3, 7].into_iter().zip(ways) {
                let some = few(Roots::Home);
                let mut case = late_by(late, case(body, optimizer, &some, true));
                let found = differences(&case, &some, way);
                assert_eq!(found, None, "{optimizer:?} {body}, {late} late");
                case.knobs.sampling.prefetch = Some(8);
                let found = differences(&case, &some, way);
                assert_eq!(found, None, "{optimizer:?} {body}, {late} late, prefetched");
            }
        }
    }
}

/// Enough batches an epoch for copies to age.
fn many(roots: Roots) -> Sampling {
    Sampling {
        roots,
        ..sampling(3, vec![2, 2], Kind::Neighbor, Cut::Even)
    }
}

/// Workers read copies of rows of others, until these are too old.
#[test]
fn copies_lack_the_steps_since_they_were_fetched() {
    let roots = [Roots::Home, Roots::Dealt, Roots::Home];
    for (n, optimizer) in optimizers().into_iter().enumerate() {
        for body in [ROWS, TWICE] {
            for ((way, age), roots) in SEVERAL.into_iter().zip([1, 2, 5]).zip(roots) {
                let some = many(roots);
                let by = CacheBy::ALL[n % CacheBy::ALL.len()];
                let case = copying(8, age, by, case(body, optimizer, &some, true));
                let found = differences(&case, &some, way);
                assert_eq!(found, None, "{optimizer:?} {body}, age {age}, by {by}");
            }
        }
    }
}

/// Copies that lack no step are the rows, so no bit and no byte changes; older ones save bytes.
#[test]
fn copies_that_lack_no_step_are_the_rows() {
    let way = SEVERAL[1];
    let of = |age: Option<u32>| {
        let mut case = case(ROWS, optimizers()[3], &many(Roots::Home), true);
        if let Some(age) = age {
            case = copying(100, age, CacheBy::Degree, case);
        }
        let mut trainer = case.start(way);
        let [first, second] = [(); 2].map(|()| trainer.epoch().unwrap());
        (
            [first.loss, second.loss],
            first.bytes_sent + second.bytes_sent,
        )
    };
    let (losses, bytes) = of(None);
    assert_eq!(of(Some(0)), (losses, bytes));
    let mut before = bytes;
    for age in [1, 3, 100] {
        let (older, fewer) = of(Some(age));
        assert_ne!(older, losses, "copies lack steps");
        assert!(
            fewer < before,
            "{fewer} bytes with age {age}, {before} with a lower one"
        );
        before = fewer;
    }
}

#[test]
fn copies_do_not_depend_on_how_batches_are_drawn() {
    let way = SEVERAL[2];
    let made = || {
        let case = case(ROWS, optimizers()[3], &many(Roots::Home), true);
        copying(8, 2, CacheBy::Probability, case)
    };
    let expected = trained(&made(), way);
    for (prefetch, samplers, threads) in [(0, 0, 1), (1, 0, 2), (6, 0, 1), (3, 2, 1)] {
        let mut other = made();
        let settings = &mut other.knobs.sampling;
        (settings.prefetch, settings.samplers) = (Some(prefetch), Some(samplers));
        let found = trained(&other, Way { threads, ..way });
        assert_eq!(found.0, expected.0, "{prefetch} {samplers} {threads}");
    }
}

/// An evaluation reads current rows, whatever copies training has left.
#[test]
fn evaluations_read_no_old_copies() {
    let of = |evaluated: bool| {
        let case = case(ROWS, optimizers()[3], &many(Roots::Home), true);
        let mut case = copying(100, 100, CacheBy::Degree, case);
        if evaluated {
            case.knobs.sampling.eval_fanouts = vec![Fanout::Each(ALL); 2];
        }
        trained(&case, SEVERAL[1]).0
    };
    let (whole, batches) = (of(false), of(true));
    assert_eq!(whole.len(), 4);
    for (a, b) in whole.iter().zip(&batches) {
        assert!((a - b).abs() < 1e-5, "{whole:?}, {batches:?}");
    }
}

pub fn copying(rows: u32, age: u32, by: CacheBy, mut case: Case) -> Case {
    let settings = &mut case.knobs.sampling;
    (settings.cache, settings.cache_by) = (Some(rows), Some(by));
    settings.cache_age = Some(age);
    case
}

pub fn late_by(late: u32, mut case: Case) -> Case {
    case.knobs.sampling.delay = Some(late);
    case
}

/// Losses of three epochs and of an evaluation, then the parameters and states.
fn trained(case: &Case, way: Way) -> (Vec<f64>, Vec<Tensor>) {
    let mut trainer = case.start(way);
    let mut losses: Vec<f64> = (0..3).map(|_| trainer.epoch().unwrap().loss).collect();
    losses.extend(trainer.evaluate().unwrap().val_loss);
    (losses, trainer.session.parameters().unwrap())
}

#[test]
fn optimizers_that_leave_rows_without_gradient_as_they_are_step_the_same() {
    for optimizer in &optimizers()[..3] {
        if matches!(optimizer, Optimizer::Sgd { momentum, .. } if *momentum > 0.0) {
            continue;
        }
        for way in [ONE, SEVERAL[1]] {
            let of = |lazy| {
                let mut case = case(ROWS, *optimizer, &few(Roots::Home), lazy);
                case.loaded.model.train.weight_decay = 0.0;
                trained(&case.with_optimizer(*optimizer), way)
            };
            let (lazy, dense) = (of(true), of(false));
            for (a, b) in lazy.0.iter().zip(&dense.0) {
                assert!((a - b).abs() < 1e-6, "{optimizer:?}: {a}, {b}");
            }
            for (a, b) in lazy.1.iter().zip(&dense.1) {
                assert_eq!((&a.name, a.shape), (&b.name, b.shape));
                let pairs = a.values.iter().zip(&b.values);
                let off = pairs.fold(0.0, |off: f32, (a, b)| off.max((a - b).abs()));
                assert!(off < 1e-6, "{} is off by {off}", a.name);
            }
        }
    }
}

#[test]
fn neither_threads_nor_periods_change_a_bit() {
    let adam = optimizers()[3];
    let way = SEVERAL[1];
    let others = [
        (0, vec![(0, 1), (1, 1), (4, 1), (2, 2)]),
        (2, vec![(3, 1), (6, 1), (3, 2)]),
    ];
    let mut losses = Vec::new();
    for (late, ways) in others {
        let case = || late_by(late, case(ROWS, adam, &few(Roots::Home), true));
        let expected = trained(&case(), way);
        for (prefetch, threads) in ways {
            let mut other = case();
            other.knobs.sampling.prefetch = Some(prefetch);
            let found = trained(&other, Way { threads, ..way });
            assert_eq!(found.0, expected.0, "{late} {prefetch} {threads}");
            for (a, b) in found.1.iter().zip(&expected.1) {
                assert_eq!(a.values, b.values, "{late} {prefetch} {threads}");
            }
        }
        losses.push(expected.0);
    }
    assert_ne!(losses[0], losses[1], "late rows train another function");
}
