//! Several copies of the slices of features: ranks that share a copy compute what all ranks compute
//! with one.

use crate::check::{Case, Way};
use crate::data::{FEATURES, planted};
use crate::descent::differences;
use crate::minibatch::{
    ONE, WIDE_SAGE, case, hops, models, numbers as numbers_of, sampling, untyped, with,
};
use crate::models::{GAT, GCN, SAGE, shape};
use gnnc::graph::Features;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::Placement;
use gnnc::ir::program::BatchSizes;
use gnnc::ir::program::trace::Phase;
use gnnc::ir::words::mesh::Mesh;
use gnnc::ir::words::sampling::{ALL, Cut, Fanout, Kind, Roots, Sampling};
use gnnc::ir::words::storage::Storage;
use gnnc::{TrainOptions, Trainer};

/// Ranks, and the slices of each copy.
const MESHES: [(u32, &str); 6] = [
    (2, "1"),
    (4, "2"),
    (4, "2/apart"),
    (3, "1/apart"),
    (6, "2"),
    (6, "3/apart"),
];

fn way(ranks: u32) -> Way {
    Way {
        placement: Placement::PushPull,
        ranks,
        partitioner: "hash",
        ..ONE
    }
}

fn on_mesh(mut case: Case, mesh: &str) -> Case {
    case.knobs.slices = Some(mesh.parse().unwrap());
    case
}

#[test]
fn copies_of_slices_compute_what_the_interpreter_computes() {
    let mut found = Vec::new();
    for (layers, body, typed) in models() {
        for ((ranks, mesh), delay) in MESHES.into_iter().zip([0, 2, 3, 2, 0, 3]) {
            let data = planted(shape(typed || ranks == 6));
            let data = if typed { data } else { untyped(data) };
            let case = case(layers, body, data);
            let some = sampling(13, vec![2; hops(&case)], Kind::Neighbor, Cut::Even);
            let mut case = on_mesh(with(case, &some), mesh);
            case.knobs.sampling.delay = Some(delay);
            let why = differences(&case, &some, way(ranks));
            found.extend(why.map(|why| format!("{body}\n{mesh} of {ranks}, delay {delay}: {why}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn with_all_neighbors_copies_of_slices_train_on_the_whole_graph() {
    for (layers, body, typed) in models() {
        for (ranks, mesh) in [(4, "2"), (6, "3/apart"), (2, "1")] {
            let data = planted(shape(typed));
            let data = if typed { data } else { untyped(data) };
            let whole = Case::new(layers, body, data);
            let all = sampling(1000, vec![ALL; hops(&whole)], Kind::Full, Cut::Even);
            on_mesh(with(whole, &all), mesh).check(way(ranks));
        }
    }
}

/// The lists of a part go to the other slices of the copy, and sums and their gradients between them.
/// Weights of the first layer are summed among ranks with the same slice, the others among all ranks.
#[test]
fn bytes_are_those_between_slices_and_those_between_copies() {
    const HIDDEN: u64 = 18;
    let data = untyped(planted(shape(false)));
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    for (ranks, mesh) in MESHES {
        for roots in [Roots::Own, Roots::Dealt, Roots::Home] {
            let own = Sampling {
                roots,
                ..some.clone()
            };
            let case = with(case("", WIDE_SAGE, data.clone()), &own);
            let case = on_mesh(case, mesh);
            let mut trainer = case.start(way(ranks));
            let sent = trainer.epoch().unwrap().bytes_sent;
            let part = |sizes: &BatchSizes| {
                let lists = sizes.levels[0] + sizes.levels[1] + 1 + sizes.edges[1];
                4 * lists + 8 * sizes.levels[1] * HIDDEN
            };
            let drawn = trainer.session.drawn(Phase::Step).unwrap();
            let parts: u64 = drawn.iter().flatten().map(part).sum();
            let parameters = trainer.session.parameters().unwrap();
            let floats: usize = parameters.iter().map(|tensor| tensor.values.len()).sum();
            let first = 2 * u64::from(FEATURES) * HIDDEN;
            let slices: Mesh = mesh.parse().unwrap();
            let (slices, ranks) = (u64::from(slices.slices), u64::from(ranks));
            let copies = ranks / slices;
            // Slices are padded to equal widths.
            let of_slice = 2 * u64::from(FEATURES).div_ceil(slices) * HIDDEN;
            let steps = trainer.session.steps();
            let replicated = steps * (floats as u64 - first) + 1;
            let expected = (slices - 1) * parts
                + 8 * (ranks - 1) * replicated
                + 8 * (copies - 1) * slices * steps * of_slice;
            assert_eq!(sent, expected, "{mesh} of {ranks}");
        }
    }
}

/// Losses of some epochs and of an evaluation, on ranks with or without a mesh, and how often batches
/// outgrew their memory.
fn numbers(case: Case, mesh: Option<&str>) -> (Vec<f64>, u64) {
    let case = match mesh {
        Some(mesh) => on_mesh(case, mesh),
        None => case,
    };
    numbers_of(case, way(4))
}

/// Slices of two widths, clipped gradients, evaluations on batches, and 16 bits. Some batches are larger
/// than those before them, so what they have begun to compute moves to other memory.
#[test]
fn meshes_agree_in_whatever_else_is_asked_for() {
    let mut data = untyped(planted(shape(false)));
    let rows = data.vertices() as usize;
    let values = (0..31 * rows).map(|n| (n * 37 % 61) as f32 / 61.0 - 0.5);
    data.features = Features::dense(rows, 31, values.collect());
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
    type Made<'a> = &'a dyn Fn() -> Case;
    let cases: [(Made, f64); 4] = [
        (&|| of(GAT).with_clip(0.05), 1e-5),
        (&|| of(SAGE).with_clip(1e6), 1e-5),
        (&|| evaluated(of(GCN)), 1e-5),
        (&|| halves(of(SAGE)), 4.0 * Storage::Bf16.roundoff()),
    ];
    // Its evaluations need more room than any batch that it trains on.
    const EVALUATED: usize = 2;
    for (n, (made, most)) in cases.iter().enumerate() {
        let (expected, _) = numbers(made(), None);
        for mesh in ["2", "2/apart", "1"] {
            let (found, grown) = numbers(made(), Some(mesh));
            assert!(grown > 0 || n == EVALUATED, "case {n}, {mesh}");
            let far = |(a, b): (&f64, &f64)| (a - b).abs() > most * b.abs();
            let differs = found.iter().zip(&expected).any(far);
            assert!(
                !differs,
                "case {n}, {mesh}: {found:?}, expected {expected:?}"
            );
        }
    }
}

#[test]
fn runs_on_a_mesh_resume_to_the_same_bits() {
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    let of = || {
        on_mesh(
            with(case("", SAGE, untyped(planted(shape(false)))), &some),
            "2/apart",
        )
    };
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("mesh.safetensors");
    let mut whole = of().start(way(4));
    let losses: Vec<f64> = (0..4).map(|_| whole.epoch().unwrap().loss).collect();
    let mut first = of().start(way(4));
    for _ in 0..2 {
        first.epoch().unwrap();
    }
    first.session.save(&path).unwrap();
    let mut second = of().start(way(4));
    second.session.resume(&path).unwrap();
    let rest: Vec<f64> = (0..2).map(|_| second.epoch().unwrap().loss).collect();
    assert_eq!(rest, losses[2..]);
    // A run without copies goes on with the same parameters.
    let mut other = with(case("", SAGE, untyped(planted(shape(false)))), &some).start(way(4));
    other.session.resume(&path).unwrap();
    let next = other.epoch().unwrap().loss;
    assert!(
        (next - losses[2]).abs() < 1e-5 * losses[2],
        "{next} {}",
        losses[2]
    );
}

#[test]
fn slices_that_do_not_divide_the_ranks_are_refused() {
    let some = sampling(13, vec![3, 3], Kind::Neighbor, Cut::Even);
    let of = |mesh| {
        on_mesh(
            with(case("", SAGE, untyped(planted(shape(false)))), &some),
            mesh,
        )
    };
    let refused = |mesh, way: Way| {
        let case = of(mesh);
        let options = TrainOptions {
            workers: way.ranks,
            placement: way.placement,
            allow: Relaxation::ALL.to_vec(),
            knobs: case.knobs.clone(),
            ..TrainOptions::default()
        };
        let refused = Trainer::new(&case.loaded, &case.compiled, &options).err();
        refused.unwrap().to_string()
    };
    let said = refused("3", way(4));
    assert!(
        said.contains("found 3 slices of the features for 4 workers"),
        "{said}"
    );
    let rows = Way {
        placement: Placement::Minibatch,
        ..way(4)
    };
    let said = refused("2", rows);
    assert!(
        said.contains("found --slices 2 with placement minibatch"),
        "{said}"
    );
}
