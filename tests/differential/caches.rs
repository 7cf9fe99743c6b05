//! Rows of other ranks that a rank keeps: no result changes, and what is sent is what is not kept.

use crate::check::{Case, Way};
use crate::data::{FEATURES, planted};
use crate::descent::differences;
use crate::minibatch::{SEVERAL, case, hops, models, sampling, untyped, with};
use crate::models::{GCN, SAGE, shape};
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::Placement;
use gnnc::ir::program::trace::Phase;
use gnnc::ir::words::sampling::{CacheBy, Cut, Fanout, Kind, Roots, Sampling};
use gnnc::ir::words::storage::Storage;
use gnnc::{TrainOptions, Trainer};

fn keeping(mut case: Case, rows: u32, by: CacheBy) -> Case {
    case.knobs.sampling.cache = Some(rows);
    case.knobs.sampling.cache_by = Some(by);
    case
}

/// The way of a placement in which a batch fetches rows.
fn of(placement: Placement, way: Way) -> Way {
    Way { placement, ..way }
}

const FETCHING: [Placement; 2] = [Placement::Minibatch, Placement::ModelMigration];

#[test]
fn batches_with_caches_compute_what_the_interpreter_computes() {
    let mut found = Vec::new();
    for (layers, body, typed) in models() {
        for ((way, by), placement) in SEVERAL
            .into_iter()
            .zip(CacheBy::ALL)
            .zip(FETCHING.into_iter().cycle())
        {
            let data = planted(shape(typed));
            let data = if typed { data } else { untyped(data) };
            let case = case(layers, body, data);
            let some = sampling(13, vec![2; hops(&case)], Kind::Neighbor, Cut::Even);
            let case = keeping(with(case, &some), 9, *by);
            let why = differences(&case, &some, of(placement, way));
            found.extend(why.map(|why| format!("{body}\n{by} {placement}: {why}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Losses of two epochs and bytes of the second, with so many rows kept.
fn trained(case: Case, way: Way) -> (Vec<f64>, u64, Trainer) {
    let mut trainer = case.start(way);
    let first = trainer.epoch().unwrap();
    let second = trainer.epoch().unwrap();
    (vec![first.loss, second.loss], second.bytes_sent, trainer)
}

#[test]
fn a_cache_changes_no_bit_and_saves_the_rows_that_it_has() {
    let data = untyped(planted(shape(false)));
    let rows = data.vertices();
    for roots in [Roots::Home, Roots::Dealt, Roots::Own] {
        let some = Sampling {
            roots,
            ..sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even)
        };
        for way in SEVERAL {
            let made = || with(case("", SAGE, data.clone()), &some);
            let (losses, all, _) = trained(made(), way);
            let mut before = all;
            for by in CacheBy::ALL {
                for kept in [1, 20, rows] {
                    let (found, sent, trainer) = trained(keeping(made(), kept, *by), way);
                    assert_eq!(found, losses, "{roots} {by} {kept}");
                    let drawn = trainer.session.drawn(Phase::Step).unwrap();
                    let hits: u64 = drawn.iter().flatten().map(|one| one.cached[0]).sum();
                    let saved = hits * (4 * u64::from(FEATURES) + 4);
                    assert_eq!(sent, all - saved, "{roots} {by} {kept}");
                    before = if kept == 1 { all } else { before };
                    assert!(sent <= before, "{roots} {by} {kept}");
                    before = sent;
                }
                // Whatever other ranks own is kept, so only gradients are sent.
                let parameters = 8 * u64::from(way.ranks - 1);
                assert_eq!(before % parameters, 0);
            }
        }
    }
}

/// 16 bits, evaluations on batches, and a run that goes on.
#[test]
fn caches_agree_in_whatever_else_is_asked_for() {
    let data = untyped(planted(shape(false)));
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    let halves = |mut case: Case| {
        case.knobs.storage = Storage::Bf16;
        case
    };
    let evaluated = |mut case: Case| {
        case.knobs.sampling.eval_fanouts = vec![Fanout::Each(4); 2];
        case
    };
    let made = |body| with(case("", body, data.clone()), &some);
    type Made<'a> = &'a dyn Fn() -> Case;
    let cases: [Made; 2] = [&|| halves(made(SAGE)), &|| evaluated(made(GCN))];
    for (n, made) in cases.iter().enumerate() {
        let numbers = |case: Case| {
            let (mut losses, _, mut trainer) = trained(case, SEVERAL[0]);
            losses.extend(trainer.evaluate().unwrap().val_loss);
            losses
        };
        let expected = numbers(made());
        let found = numbers(keeping(made(), 20, CacheBy::Degree));
        assert_eq!(found, expected, "case {n}");
    }
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache.safetensors");
    let (_, _, mut first) = trained(keeping(made(SAGE), 20, CacheBy::Counts), SEVERAL[1]);
    first.session.save(&path).unwrap();
    let next = first.epoch().unwrap().loss;
    let mut second = keeping(made(SAGE), 30, CacheBy::Degree).start(SEVERAL[1]);
    second.session.resume(&path).unwrap();
    assert_eq!(second.epoch().unwrap().loss, next);
}

#[test]
fn a_cache_where_no_row_moves_is_refused() {
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    let made = with(case("", SAGE, untyped(planted(shape(false)))), &some);
    let made = keeping(made, 5, CacheBy::Degree);
    let options = TrainOptions {
        workers: 3,
        placement: Placement::PushPull,
        allow: Relaxation::ALL.to_vec(),
        knobs: made.knobs.clone(),
        ..TrainOptions::default()
    };
    let refused = Trainer::new(&made.loaded, &made.compiled, &options).err();
    let said = refused.unwrap().to_string();
    assert!(said.contains("leave out --cache"), "{said}");
}
