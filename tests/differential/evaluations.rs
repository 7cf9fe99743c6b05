//! Evaluations on sampled batches: with all neighbors they are those of the whole graph, and with some
//! they are what the interpreter computes on the neighborhoods that the sampler draws.

use crate::batches::FIXED;
use crate::check::{Case, Way};
use crate::data::{planted, with_numbers, with_several_labels};
use crate::descent::{elements, read, sampler};
use crate::minibatch::{ONE, SEVERAL, case, hops, models, pushed, sampling, untyped, with};
use crate::models::{GAT, GCN, SAGE, shape};
use gnnc::Trainer;
use gnnc::graph::sample::{Blocks, seeds};
use gnnc::graph::{GraphData, Labels};
use gnnc::ir::graph::eval::evaluate;
use gnnc::ir::plan::Placement;
use gnnc::ir::program::trace::Phase;
use gnnc::ir::words::sampling::{ALL, Cut, Fanout, Kind, Roots, Sampling};
use gnnc::ir::words::storage::Storage;
use gnnc::planner::lower::evaluation;
use gnnc::planner::sampled::sampled;
use gnnc::runtime::Metrics;

/// Losses in 32 bits, of some hundred vertices.
const TOLERANCE: f64 = 1e-4;

/// The case with evaluations on batches of so many seeds.
pub fn evaluated(layers: &str, body: &str, data: &GraphData, fanout: u32, batch: u32) -> Case {
    let case = case(layers, body, data.clone());
    let hops = hops(&case);
    let some = sampling(batch, vec![3; hops], Kind::Neighbor, Cut::Even);
    let mut case = with(case, &some);
    case.knobs.sampling.eval_fanouts = vec![Fanout::Each(fanout); hops];
    case
}

/// Evaluates a run twice, after its first epoch.
pub fn metrics(case: &Case, way: Way) -> (Trainer, Metrics) {
    let mut trainer = case.start(way);
    trainer.epoch().unwrap_or_else(|e| panic!("{way:?}: {e}"));
    let found = trainer
        .evaluate()
        .unwrap_or_else(|e| panic!("{way:?}: {e}"));
    // Every evaluation draws the same neighbors.
    assert_eq!(trainer.evaluate().unwrap(), found, "{way:?}");
    (trainer, found)
}

/// Whether two evaluations count the same vertices, and have about the same loss.
pub fn close(found: &Metrics, expected: &Metrics) -> bool {
    let scores = |one: &Metrics| [one.train, one.val, one.test];
    let near = |a: f64, b: f64| (a - b).abs() <= TOLERANCE * b.abs();
    let losses = [found.val_loss, expected.val_loss].map(Option::unwrap);
    // Errors are sums of floats, what is correct is counted.
    let mut pairs = scores(found).into_iter().zip(scores(expected));
    let same = pairs.all(|(a, b)| {
        let whole = b.correct.fract() == 0.0;
        a.total == b.total && (a.correct == b.correct || !whole && near(a.correct, b.correct))
    });
    same && near(losses[0], losses[1])
}

/// Fails unless a run on batches has the metrics of one that evaluates on the whole graph.
fn check_whole(case: &mut Case, way: Way) {
    let sampled = metrics(case, way).1;
    let fanouts = std::mem::take(&mut case.knobs.sampling.eval_fanouts);
    let whole = metrics(case, way).1;
    case.knobs.sampling.eval_fanouts = fanouts;
    assert!(
        close(&sampled, &whole),
        "{way:?}: {sampled:?}, not {whole:?}\n{}",
        case.text
    );
}

#[test]
fn all_neighbors_give_the_metrics_of_the_whole_graph() {
    for (layers, body, typed) in models() {
        let data = planted(shape(typed));
        let data = if typed { data } else { untyped(data) };
        let mut case = evaluated(layers, body, &data, ALL, 13);
        for way in [&[ONE][..], &SEVERAL, &pushed()].concat() {
            check_whole(&mut case, way);
        }
    }
}

/// The interpreter's metrics on one batch of all vertices of a split.
fn expected(case: &Case, trainer: &Trainer) -> Metrics {
    let data = case.loaded.data.as_ref().unwrap();
    let settings = &case.knobs.sampling;
    let sampling = settings.evaluation().unwrap();
    let seed = case.loaded.model.train.seed;
    let mut blocks = Blocks::default();
    let seeds = seeds(data, Phase::Eval);
    let typed = data.topology.relations() > 0;
    let beforehand = settings.beforehand == Some(true);
    let looked_up = case.loaded.workload.identity_features;
    let form = sampled(
        &evaluation(&case.loaded.model.graph),
        typed,
        beforehand,
        looked_up,
    )
    .unwrap();
    let sampling = Sampling {
        over: form.hops.clone(),
        ..sampling
    };
    let mut sampler = sampler(data, &sampling, seed);
    sampler.sample(&seeds, u32::MAX, &mut blocks).unwrap();
    let mut context = case.context().clone();
    context.batch = Some(read(data, &sampling, &blocks, &Default::default()));
    context.params = elements(&form.batch, &trainer.session.parameters().unwrap());
    let logits = evaluate(&form.batch, &context).unwrap().remove(0).data;
    let Labels::Single(labels) = &data.labels else {
        panic!("several labels a vertex")
    };
    let classes = logits.len() / seeds.len();
    let mut found = Metrics::default();
    let (mut loss, mut terms) = (0.0, 0.0);
    for (v, z) in seeds.iter().zip(logits.chunks(classes)) {
        let (v, label) = (*v as usize, labels[*v as usize] as usize);
        let most = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let right = z.iter().position(|one| *one == most) == Some(label);
        let score = if data.train[v] {
            &mut found.train
        } else if data.val[v] {
            &mut found.val
        } else {
            &mut found.test
        };
        score.correct += f64::from(u8::from(right));
        score.total += 1.0;
        if data.val[v] && !data.train[v] {
            let sum: f64 = z.iter().map(|one| (one - most).exp()).sum();
            loss += sum.ln() + most - z[label];
            terms += 1.0;
        }
    }
    found.val_loss = Some(loss / terms);
    found
}

/// Fails unless a run has the metrics of the interpreter.
fn check(case: &Case, way: Way) {
    let (trainer, found) = metrics(case, way);
    let expected = expected(case, &trainer);
    assert!(
        close(&found, &expected),
        "{way:?}: {found:?}, not {expected:?}\n{}",
        case.text
    );
}

#[test]
fn some_neighbors_give_the_metrics_of_the_interpreter_on_them() {
    for (layers, body, typed) in models() {
        for (kind, roots, batch, way) in [
            (Kind::Neighbor, Roots::Home, 13, ONE),
            (Kind::Labor, Roots::Home, 1_000, ONE),
            (Kind::Neighbor, Roots::Own, 7, SEVERAL[0]),
            (Kind::Labor, Roots::Dealt, 13, SEVERAL[1]),
            (Kind::Neighbor, Roots::Dealt, 13, pushed()[1]),
            (Kind::Neighbor, Roots::Home, 1, pushed()[2]),
        ] {
            let data = planted(shape(typed));
            let data = if typed { data } else { untyped(data) };
            let mut case = evaluated(layers, body, &data, 2, batch);
            case.knobs.sampling.sampler = Some(kind);
            case.knobs.sampling.roots = Some(roots);
            check(&case, way);
        }
    }
}

#[test]
fn delays_and_storage_go_with_evaluations_on_batches() {
    let data = untyped(planted(shape(false)));
    for body in [GCN, SAGE, GAT] {
        for delay in [2, 3] {
            let mut case = evaluated("", body, &data, 2, 13);
            case.knobs.sampling.delay = Some(delay);
            for way in pushed() {
                check(&case, way);
            }
        }
        let mut case = evaluated("", body, &data, ALL, 13);
        case.knobs.storage = Storage::Bf16;
        let (mut trainer, found) = metrics(&case, ONE);
        assert!(found.val_loss.unwrap().is_finite());
        assert!(
            trainer.session.logits().unwrap().is_empty(),
            "logits of batches are not kept"
        );
    }
}

#[test]
fn aggregations_beforehand_go_with_evaluations_on_batches() {
    for (body, typed) in FIXED {
        let data = planted(shape(false));
        let data = if typed { data } else { untyped(data) };
        let mut case = evaluated("", body, &data, 2, 13);
        case.knobs.sampling.fanouts.truncate(1);
        case.knobs.sampling.eval_fanouts.truncate(1);
        case.knobs.sampling.beforehand = Some(true);
        for way in [&[ONE][..], &SEVERAL, &pushed()].concat() {
            check(&case, way);
        }
    }
}

#[test]
fn several_labels_a_vertex_are_scored_on_batches() {
    let data = with_several_labels(planted(shape(false)));
    let body = GCN.replace("cross_entropy", "bce_with_logits");
    let mut case = evaluated("", &body, &untyped(data), ALL, 13);
    for way in [ONE, SEVERAL[1], pushed()[0]] {
        check_whole(&mut case, way);
    }
}

#[test]
fn errors_of_numbers_are_summed_over_batches() {
    let data = with_numbers(planted(shape(false)));
    let body = GCN.replace("cross_entropy", "huber");
    let mut case = evaluated("", &body, &untyped(data), ALL, 13);
    for way in [ONE, SEVERAL[1], pushed()[0]] {
        check_whole(&mut case, way);
    }
}

/// Evaluations that draw larger batches than training get the memory that they need.
#[test]
fn larger_batches_of_evaluations_are_planned_for() {
    let data = untyped(planted(shape(false)));
    let case = evaluated("", SAGE, &data, ALL, 1_000);
    for way in [&[ONE][..], &SEVERAL, &pushed()].concat() {
        assert_eq!(metrics(&case, way).0.session.grown().unwrap(), 0, "{way:?}");
    }
    let push = Way {
        placement: Placement::PushPull,
        ..ONE
    };
    assert_eq!(metrics(&case, push).0.session.grown().unwrap(), 0);
}
