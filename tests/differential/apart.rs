//! Ranks that hold the edges into their own vertices, and ask each other for the others: no result changes.

use crate::check::{Case, Way};
use crate::data::planted;
use crate::descent::differences;
use crate::minibatch::{ONE, SEVERAL, case, hops, models, sampling, untyped, with};
use crate::models::{GCN, SAGE, shape};
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::Placement;
use gnnc::ir::program::trace::Phase;
use gnnc::ir::words::sampling::{ALL, Cut, Fanout, Kind, Roots, Sampling, Topology};
use gnnc::ir::words::storage::Storage;
use gnnc::planner::placement::PlacementSpec;
use gnnc::{TrainOptions, Trainer};

fn apart(mut case: Case) -> Case {
    case.knobs.sampling.topology = Some(Topology::Own);
    case
}

/// Whether a model's batches read nothing of edges but their ends.
fn reads_ends_only(case: &Case) -> bool {
    let spec = PlacementSpec {
        knobs: case.knobs.clone(),
        ..PlacementSpec::new(Placement::Minibatch, 2)
    };
    case.compiled.programs(&spec).is_ok()
}

#[test]
fn batches_drawn_apart_compute_what_the_interpreter_computes() {
    let (mut found, mut checked) = (Vec::new(), 0);
    for (layers, body, typed) in models().into_iter().filter(|(.., typed)| !typed) {
        let data = untyped(planted(shape(typed)));
        for (way, roots) in SEVERAL
            .into_iter()
            .zip([Roots::Home, Roots::Dealt, Roots::Own])
        {
            let case = case(layers, body, data.clone());
            let kind = [Kind::Neighbor, Kind::Labor][checked % 2];
            let some = Sampling {
                roots,
                ..sampling(13, vec![2; hops(&case)], kind, Cut::Even)
            };
            let case = apart(with(case, &some));
            if !reads_ends_only(&case) {
                continue;
            }
            checked += 1;
            let why = differences(&case, &some, way);
            found.extend(why.map(|why| format!("{body}\n{roots} {kind}: {why}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(checked >= 30, "{checked} were checked");
}

/// Losses of two epochs and an evaluation, the bytes of the second epoch, and the trainer.
fn trained(case: Case, way: Way) -> (Vec<f64>, u64, Trainer) {
    let mut trainer = case.start(way);
    let first = trainer.epoch().unwrap();
    let second = trainer.epoch().unwrap();
    assert_eq!(second.bytes_sent, trainer.predicted().unwrap());
    let mut losses = vec![first.loss, second.loss];
    losses.extend(trainer.evaluate().unwrap().val_loss);
    (losses, second.bytes_sent, trainer)
}

/// A vertex of another rank in the frontier of a hop takes 4 bytes to name, 4 for its degree, and 4 for each of
/// its edges. With roots `home`, the seeds are a rank's own.
#[test]
fn no_bit_changes_and_bytes_are_those_of_the_formula() {
    let data = untyped(planted(shape(false)));
    let cases: [&dyn Fn(Case) -> Case; 4] = [
        &|case| case,
        &|mut case| {
            case.knobs.storage = Storage::Bf16;
            case
        },
        &|mut case| {
            case.knobs.sampling.eval_fanouts = vec![Fanout::Each(4); 2];
            case
        },
        &|mut case| {
            case.knobs.sampling.prefetch = Some(0);
            case
        },
    ];
    for (roots, kind) in [
        (Roots::Home, Kind::Neighbor),
        (Roots::Dealt, Kind::Labor),
        (Roots::Own, Kind::Neighbor),
    ] {
        let some = Sampling {
            roots,
            ..sampling(13, vec![3, 2], kind, Cut::Even)
        };
        for (way, change) in SEVERAL.into_iter().chain([SEVERAL[0]]).zip(cases) {
            let made = || change(with(case("", GCN, data.clone()), &some));
            let (losses, all, _) = trained(made(), way);
            let (found, sent, trainer) = trained(apart(made()), way);
            assert_eq!(found, losses, "{roots} {way:?}");
            let drawn = trainer.session.drawn(Phase::Step).unwrap();
            let hops = match roots {
                Roots::Home => 1..2,
                Roots::Dealt | Roots::Own => 1..3,
            };
            let of_level = |level: usize| {
                let each = drawn.iter().flatten();
                let words = each.map(|one| 2 * one.remote[level] + one.remote_edges[level]);
                words.sum::<u64>()
            };
            let edges: u64 = hops.map(of_level).sum();
            assert!(edges > 0);
            assert_eq!(sent, all + 4 * edges, "{roots} {way:?}");
        }
    }
}

/// With roots `home`, a single hop needs no edge of another rank.
#[test]
fn models_of_one_hop_are_drawn_too() {
    const ONE_HOP: &str = "loss cross_entropy(x |> sage_conv(classes), labels, on = train)";
    let data = untyped(planted(shape(false)));
    for roots in [Roots::Home, Roots::Dealt] {
        let some = Sampling {
            roots,
            ..sampling(13, vec![2], Kind::Neighbor, Cut::Even)
        };
        let case = apart(with(case("", ONE_HOP, data.clone()), &some));
        for way in SEVERAL {
            assert_eq!(differences(&case, &some, way), None, "{roots} {way:?}");
        }
    }
}

#[test]
fn one_rank_and_all_neighbors_need_nothing_else() {
    let data = untyped(planted(shape(false)));
    let all = sampling(1000, vec![ALL; 2], Kind::Full, Cut::Even);
    let mut whole = apart(with(Case::new("", SAGE, data), &all));
    whole.check(ONE);
    SEVERAL.into_iter().for_each(|way| whole.check(way));
}

#[test]
fn what_workers_cannot_ask_each_other_for_is_refused() {
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    let refused = |case: Case, placement: Placement| {
        let options = TrainOptions {
            workers: 2,
            placement,
            allow: Relaxation::ALL.to_vec(),
            knobs: case.knobs.clone(),
            ..TrainOptions::default()
        };
        let refused = Trainer::new(&case.loaded, &case.compiled, &options).err();
        refused.map_or(String::new(), |error| error.to_string())
    };
    let plain = || apart(with(case("", SAGE, untyped(planted(shape(false)))), &some));
    for placement in [Placement::PushPull, Placement::ModelMigration] {
        let said = refused(plain(), placement);
        assert!(said.contains("leave out --topology own"), "{said}");
    }
    let mut kept = plain();
    kept.knobs.sampling.cache = Some(3);
    let said = refused(kept, Placement::Minibatch);
    assert!(said.contains("ranked by all edges"), "{said}");
    let mut drawn = plain();
    drawn.knobs.sampling.samplers = Some(1);
    let said = refused(drawn, Placement::Minibatch);
    assert!(said.contains("--samplers"), "{said}");
    let typed = apart(with(case("", SAGE, planted(shape(true))), &some));
    let said = refused(typed, Placement::Minibatch);
    assert!(said.contains("edges with types"), "{said}");
}
