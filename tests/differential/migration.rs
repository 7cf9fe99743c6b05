//! Models that go to the features (HopGNN): whatever moves, and however many visits are merged, ranks
//! compute what one rank computes on the same batches.

use crate::check::{Case, Way};
use crate::data::{FEATURES, planted};
use crate::descent::differences;
use crate::minibatch::{ONE, case, hops, models, numbers, sampling, untyped, with};
use crate::models::{GAT, GCN, SAGE, shape};
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::Placement;
use gnnc::ir::program::trace::Phase;
use gnnc::ir::words::sampling::{ALL, Cut, Fanout, Kind, Migrate, Roots, Sampling};
use gnnc::ir::words::storage::Storage;
use gnnc::{TrainOptions, Trainer};

/// Ranks, what moves, and how many visits are merged.
const MOVES: [(u32, Migrate, u32); 6] = [
    (2, Migrate::Full, 0),
    (3, Migrate::Gradient, 0),
    (4, Migrate::Off, 0),
    (4, Migrate::Full, 2),
    (3, Migrate::Gradient, 1),
    (2, Migrate::Full, 1),
];

fn way(ranks: u32, partitioner: &'static str) -> Way {
    Way {
        placement: Placement::ModelMigration,
        ranks,
        partitioner,
        ..ONE
    }
}

fn moving(mut case: Case, migrate: Migrate, merges: u32) -> Case {
    case.knobs.sampling.roots = None;
    case.knobs.sampling.migrate = Some(migrate);
    case.knobs.sampling.merges = Some(merges);
    case
}

#[test]
fn models_that_move_compute_what_the_interpreter_computes() {
    let mut found = Vec::new();
    for (layers, body, typed) in models() {
        for ((ranks, migrate, merges), partitioner) in MOVES
            .into_iter()
            .zip(["hash", "metis", "range"].into_iter().cycle())
        {
            let data = planted(shape(typed || ranks == 4));
            let data = if typed { data } else { untyped(data) };
            let case = case(layers, body, data);
            let some = sampling(13, vec![2; hops(&case)], Kind::Neighbor, Cut::Even);
            let case = moving(with(case, &some), migrate, merges);
            let why = differences(&case, &some, way(ranks, partitioner));
            let name = format!("{body}\n{migrate} of {ranks}, {merges} merges");
            found.extend(why.map(|why| format!("{name}: {why}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn with_all_neighbors_models_that_move_train_on_the_whole_graph() {
    for (layers, body, typed) in models() {
        for (ranks, migrate, merges) in [(4, Migrate::Full, 0), (3, Migrate::Gradient, 2)] {
            let data = planted(shape(typed));
            let data = if typed { data } else { untyped(data) };
            let whole = Case::new(layers, body, data);
            let all = sampling(1000, vec![ALL; hops(&whole)], Kind::Full, Cut::Even);
            moving(with(whole, &all), migrate, merges).check(way(ranks, "metis"));
        }
    }
}

/// What a rank fetches for all its sets at once, what goes on with the models, and gradients at the end
/// (hopgnn: closed forms; roots cost nothing, since all ranks know who owns them).
#[test]
fn bytes_are_those_of_rows_of_models_and_of_gradients() {
    let data = untyped(planted(shape(false)));
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    for (ranks, migrate, merges) in MOVES {
        for partitioner in ["hash", "metis"] {
            let case = with(case("", SAGE, data.clone()), &some);
            let case = moving(case, migrate, merges);
            let mut trainer = case.start(way(ranks, partitioner));
            let sent = trainer.epoch().unwrap().bytes_sent;
            let drawn = trainer.session.drawn(Phase::Step).unwrap();
            let remote: u64 = drawn.iter().flatten().map(|one| one.remote[0]).sum();
            let parameters = trainer.session.parameters().unwrap();
            let floats: usize = parameters.iter().map(|tensor| tensor.values.len()).sum();
            let (floats, steps) = (floats as u64, trainer.session.steps());
            let (all, visits) = (u64::from(ranks), u64::from(ranks - merges));
            let moved = match migrate {
                Migrate::Full => 2,
                Migrate::Gradient => 1,
                Migrate::Off => 0,
            };
            let expected = remote * (4 * u64::from(FEATURES) + 4)
                + steps * 4 * moved * floats * all * (visits - 1)
                + 8 * (all - 1) * (steps * floats + 1);
            assert_eq!(sent, expected, "{migrate} of {ranks}, {merges} merges");
        }
    }
}

/// Clipped gradients, evaluations on batches, 16 bits, no prefetching; some batches outgrow their memory.
#[test]
fn models_that_move_agree_in_whatever_else_is_asked_for() {
    let data = untyped(planted(shape(false)));
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    let of = |body| with(case("", body, data.clone()), &some);
    let halves = |mut case: Case| {
        case.knobs.storage = Storage::Bf16;
        case
    };
    let evaluated = |mut case: Case| {
        case.knobs.sampling.eval_fanouts = vec![Fanout::Each(4); 2];
        case
    };
    let waiting = |mut case: Case| {
        case.knobs.sampling.prefetch = Some(0);
        case
    };
    type Made<'a> = &'a dyn Fn() -> Case;
    let cases: [(Made, f64); 4] = [
        (&|| of(GAT).with_clip(0.05), 1e-5),
        (&|| evaluated(of(GCN)), 1e-5),
        (&|| waiting(of(SAGE)), 1e-5),
        (&|| halves(of(SAGE)), 4.0 * Storage::Bf16.roundoff()),
    ];
    let mut grown = 0;
    for (n, (made, most)) in cases.iter().enumerate() {
        let still = Way {
            placement: Placement::Minibatch,
            ..way(3, "hash")
        };
        let (expected, _) = numbers(made(), still);
        for (migrate, merges) in [
            (Migrate::Full, 0),
            (Migrate::Gradient, 1),
            (Migrate::Off, 2),
        ] {
            let (found, more) = numbers(moving(made(), migrate, merges), way(3, "hash"));
            grown += more;
            let far = |(a, b): (&f64, &f64)| (a - b).abs() > most * b.abs();
            let differs = found.iter().zip(&expected).any(far);
            assert!(
                !differs,
                "case {n}, {migrate}: {found:?}, expected {expected:?}"
            );
        }
    }
    assert!(grown > 0);
}

#[test]
fn runs_whose_models_move_repeat_and_resume_to_the_same_bits() {
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    let of = || {
        let case = with(case("", SAGE, untyped(planted(shape(false)))), &some);
        moving(case, Migrate::Full, 1)
    };
    let way = way(3, "metis");
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("migration.safetensors");
    let mut whole = of().start(way);
    let losses: Vec<f64> = (0..4).map(|_| whole.epoch().unwrap().loss).collect();
    let mut first = of().start(way);
    for _ in 0..2 {
        first.epoch().unwrap();
    }
    first.session.save(&path).unwrap();
    let mut second = of().start(way);
    second.session.resume(&path).unwrap();
    let rest: Vec<f64> = (0..2).map(|_| second.epoch().unwrap().loss).collect();
    assert_eq!(rest, losses[2..]);
}

#[test]
fn moves_that_cannot_be_are_refused() {
    let refused = |placement, change: &dyn Fn(&mut Sampling, &mut Case)| {
        let mut some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
        let mut case = case("", SAGE, untyped(planted(shape(false))));
        change(&mut some, &mut case);
        let mut made = with(case, &some);
        made.knobs.sampling.merges = Some(3);
        if placement == Placement::ModelMigration && some.roots == Roots::Home {
            made.knobs.sampling.roots = None;
        }
        let options = TrainOptions {
            workers: 3,
            placement,
            allow: Relaxation::ALL.to_vec(),
            knobs: made.knobs.clone(),
            ..TrainOptions::default()
        };
        let refused = Trainer::new(&made.loaded, &made.compiled, &options).err();
        refused.unwrap().to_string()
    };
    let said = refused(Placement::ModelMigration, &|_, _| {});
    assert!(said.contains("found 3 merges for 3 workers"), "{said}");
    let said = refused(Placement::ModelMigration, &|some, _| {
        some.roots = Roots::Dealt
    });
    assert!(said.contains("leave out --roots"), "{said}");
    for placement in [Placement::Minibatch, Placement::PushPull] {
        let said = refused(placement, &|_, _| {});
        assert!(said.contains("leave out --merges and --migrate"), "{said}");
    }
}
