//! Skippable exchanges (SANCUS, section 7).

use crate::check::Case;
use crate::data::{Shape, planted};
use crate::flow::delayed;
use gnnc::graph::example;
use gnnc::graph::partition::{Partitioner, Range};
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::{Knobs, Placement};
use gnnc::ir::program::Skipping;
use gnnc::ir::program::trace::Phase;
use gnnc::planner::placement::PlacementSpec;
use gnnc::runtime::transport::{Transport, threads::Threads};
use gnnc::runtime::{LayerStaleness, RunOptions, Session};
use gnnc::{TrainOptions, Trainer};

/// GCN, GraphSAGE, GAT, GIN, GCNII and APPNP.
pub const MODELS: [&str; 6] = [
    "let h = x |> dropout(0.2) |> gcn_conv(8) |> relu |> dropout(0.2)
     loss cross_entropy(h |> gcn_conv(classes), labels, on = train)",
    "let h = x |> sage_conv(8) |> relu |> dropout(0.2)
     loss cross_entropy(h |> sage_conv(classes), labels, on = train)",
    "let h = x |> gat_conv(4, heads = 2, dropout = 0.2) |> elu |> dropout(0.2)
     loss cross_entropy(h |> gat_conv(classes), labels, on = train)",
    "let h = x |> gin_conv(8) |> relu |> dropout(0.2) |> gin_conv(8) |> relu
     loss cross_entropy(linear(h, classes), labels, on = train)",
    "let h0 = x |> linear(8) |> relu
     let h = h0
     repeat i in 1..=4 {
       h = h |> dropout(0.2) |> gcnii_conv(h0, alpha = 0.1, beta = 0.5 / i) |> relu
     }
     loss cross_entropy(linear(h, classes), labels, on = train)",
    "let u = x |> linear(8) |> relu |> dropout(0.2) |> linear(classes)
     let z = u
     repeat k in 1..=5 {
       z = z |> appnp_step(u, alpha = 0.1, dropout = 0.2)
     }
     loss cross_entropy(z, labels, on = train)",
];

pub fn case(body: &str, sparse: bool) -> Case {
    let shape = Shape {
        vertices: 60,
        edges: 300,
        directed: true,
        sparse,
        seed: 5,
    };
    Case::new("", body, planted(shape))
}

/// A run by blocks of rows; without a rule, nothing is skipped.
pub fn trainer(case: &Case, rule: Option<&str>, ranks: u32) -> Trainer {
    let placement = match rule {
        Some(_) => Placement::SkipBroadcast,
        None => Placement::Broadcast,
    };
    placed(placement, None, case, rule, ranks)
}

fn placed(
    placement: Placement,
    device_memory: Option<u64>,
    case: &Case,
    rule: Option<&str>,
    ranks: u32,
) -> Trainer {
    let options = TrainOptions {
        device_memory,
        workers: ranks,
        placement,
        knobs: Knobs {
            partitioner: Some(gnnc::ir::plan::Partitioner::Range),
            skip: rule.map(|rule| rule.parse().unwrap()),
            ..Knobs::default()
        },
        allow: vec![Relaxation::Stale],
        ..TrainOptions::default()
    };
    let mut trainer = Trainer::new(&case.loaded, &case.compiled, &options).unwrap();
    trainer.session.set_learning_rate(0.5);
    trainer
}

/// Losses of epochs as bits, and the bytes sent in each.
fn run(trainer: &mut Trainer, epochs: usize) -> (Vec<u64>, Vec<u64>) {
    let one = |_| {
        let report = trainer.epoch().unwrap();
        (report.loss.to_bits(), report.bytes_sent)
    };
    (0..epochs).map(one).unzip()
}

fn bits(trainer: &mut Trainer) -> Vec<u32> {
    let logits = trainer.session.logits().unwrap();
    logits.iter().map(|x| x.to_bits()).collect()
}

/// The only skippable exchange.
fn layer(trainer: &Trainer) -> LayerStaleness {
    let layers = trainer.session.staleness().unwrap().layers;
    assert_eq!(layers.len(), 1, "{layers:?}");
    layers[0].clone()
}

#[test]
fn without_age_it_is_broadcast_or_graph() {
    for (n, body) in MODELS.into_iter().enumerate() {
        let case = case(body, n % 2 == 1);
        for ranks in [2, 3, 5] {
            let mut broadcast = trainer(&case, None, ranks);
            let whole = (run(&mut broadcast, 4).0, bits(&mut broadcast));
            let mut graph = placed(Placement::Graph, None, &case, None, ranks);
            let needed = (run(&mut graph, 4).0, bits(&mut graph));
            for rule in [
                "fixed:0",
                "adaptive:0",
                "gap:0",
                "fixed:0/cut",
                "gap:0/cut",
                "fixed:0/stop",
                "gap:0/cut/stop",
            ] {
                let (losses, logits) = match rule.contains("cut") {
                    true => needed.clone(),
                    false => whole.clone(),
                };
                let mut skipping = trainer(&case, Some(rule), ranks);
                assert_eq!(
                    run(&mut skipping, 4).0,
                    losses,
                    "{rule}, {ranks} ranks: {body}"
                );
                assert_eq!(bits(&mut skipping), logits, "{rule}, {ranks} ranks: {body}");
                let layers = skipping.session.staleness().unwrap().layers;
                assert!(!layers.is_empty());
                assert!(layers.iter().all(|l| l.oldest() == Some(0)), "{layers:?}");
            }
        }
    }
}

/// Copies are read and change the function.
#[test]
fn old_copies_are_another_function() {
    for body in MODELS {
        let case = case(body, false);
        let (exact, _) = run(&mut trainer(&case, None, 3), 4);
        for rule in [
            "fixed:1",
            "adaptive:2",
            "gap:100",
            "adaptive:1/cut",
            "fixed:1/stop",
        ] {
            let mut skipping = trainer(&case, Some(rule), 3);
            let (losses, _) = run(&mut skipping, 4);
            assert_eq!(losses[0], exact[0], "{rule}: {body}");
            assert_ne!(losses, exact, "{rule}: {body}");
        }
    }
}

/// The worked example: quarters of G8, GCN 4 -> 2 -> 2. Floats forward, rows read by age.
#[test]
fn the_worked_example_comes_out() {
    let body = "let h = x |> gcn_conv(2) |> relu
                loss cross_entropy(h |> gcn_conv(classes), labels, on = train)";
    let case = Case::new("", body, example::g8());
    // Parameters and the loss, as a ring would send them.
    let weights = 2 * 3 * (case.compiled.training.backward.graph.trainable() + 1);
    type Ages<'a> = &'a [(u64, u64)];
    let (all, none): ((u64, Ages), (u64, Ages)) = ((48, &[(0, 24)]), (0, &[(1, 24)]));
    let half: (u64, Ages) = (24, &[(0, 12), (1, 12)]);
    let two: (u64, Ages) = (0, &[(2, 24)]);
    // The 10 rows from which others have edges; quarters 0 and 2 have as many as quarters 1 and
    // 3.
    let (some, old): ((u64, Ages), (u64, Ages)) = ((20, &[(0, 10)]), (0, &[(1, 10)]));
    for (rule, expected) in [
        ("fixed:1", [all, none, all, none, all, none]),
        ("fixed:2", [all, none, two, all, none, two]),
        ("adaptive:1", [all, half, half, half, half, half]),
        ("fixed:1/cut", [some, old, some, old, some, old]),
        ("fixed:2/stop", [all, none, two, all, none, two]),
        ("adaptive:1/stop", [all, half, half, half, half, half]),
        ("fixed:1/cut/stop", [some, old, some, old, some, old]),
    ] {
        let rows = if rule.contains("cut") { 10 } else { 24 };
        let stops = rule.ends_with("stop");
        let mut trainer = trainer(&case, Some(rule), 4);
        let mut before = LayerStaleness::default();
        for (epoch, (forward, ages)) in expected.into_iter().enumerate() {
            let report = trainer.epoch().unwrap();
            // If gradients stop at copies they move as the rows did; otherwise they always
            // move.
            let backward = if stops { forward } else { 2 * rows };
            let floats = forward + backward + weights;
            assert_eq!(report.bytes_sent, 4 * floats, "{rule}, epoch {epoch}");
            let now = layer(&trainer);
            let since = |age: &u64| now.ages[age] - before.ages.get(age).copied().unwrap_or(0);
            let found = now.ages.keys().map(|age| (*age, since(age)));
            let found: Vec<_> = found.filter(|(_, rows)| *rows > 0).collect();
            assert_eq!(found, ages, "{rule}, epoch {epoch}");
            before = now;
        }
        // Layer 1 reads the features, which are sent once: 8 rows of 4 to 3 others. So are
        // norms.
        assert_eq!(trainer.session.setup_bytes(), Some(4 * (4 * rows + rows)));
        // Plans use the mean over epochs.
        let mean = match rule {
            "fixed:2" | "fixed:2/stop" => 16,
            _ => rows,
        };
        let backward = if stops { mean } else { 2 * rows };
        assert_eq!(trainer.step_bytes, 4 * (mean + backward + weights));
    }
}

/// With constant weights, copies are exact after the first epoch. Dropout after the embedding
/// does not matter, because copies hold embeddings before dropout.
#[test]
fn constant_weights_need_no_second_broadcast() {
    for body in [
        "let h = x |> gcn_conv(8) |> relu |> dropout(0.4)
         loss cross_entropy(h |> gcn_conv(classes), labels, on = train)",
        "let h = x |> gat_conv(4, heads = 2) |> elu |> dropout(0.4)
         loss cross_entropy(h |> gat_conv(classes), labels, on = train)",
        "let h = x |> sage_conv(8) |> relu |> dropout(0.4)
         loss cross_entropy(h |> sage_conv(classes), labels, on = train)",
    ] {
        let case = case(body, false);
        let mut exact = trainer(&case, None, 3);
        exact.session.set_learning_rate(0.0);
        let (losses, _) = run(&mut exact, 5);
        assert_ne!(losses[0], losses[1], "dropout is on");
        for rule in ["fixed:1", "adaptive:2", "gap:0.01", "fixed:1/stop"] {
            let mut skipping = trainer(&case, Some(rule), 3);
            skipping.session.set_learning_rate(0.0);
            let (found, bytes) = run(&mut skipping, 5);
            assert_eq!(found, losses, "{rule}: {body}");
            if rule.starts_with("gap") {
                assert!(
                    bytes[1..].iter().all(|b| *b < bytes[0] && *b == bytes[1]),
                    "{bytes:?}"
                );
                for layer in skipping.session.staleness().unwrap().layers {
                    assert_eq!(
                        (layer.oldest(), layer.gap),
                        (Some(4), Some(0.0)),
                        "{layer:?}"
                    );
                }
            }
        }
    }
}

/// Every read meets the bounds of the rule; the executor would refuse it otherwise.
#[test]
fn bounds_hold() {
    for body in MODELS {
        let case = case(body, false);
        for (text, most) in [
            ("fixed:2", 2),
            ("adaptive:3/cut", 3),
            ("gap:0.3:4", 4),
            ("gap:0.3:4/cut", 4),
            ("gap:0.3:4/stop", 4),
        ] {
            let mut skipping = trainer(&case, Some(text), 3);
            run(&mut skipping, 12);
            let Skipping { rule, .. } = text.parse().unwrap();
            for layer in skipping.session.staleness().unwrap().layers {
                assert!(layer.oldest().unwrap() <= most, "{text}: {layer:?}");
                let gap = layer.gap.unwrap_or(0.0);
                assert!(gap <= rule.limit().unwrap_or(0.0), "{text}: {layer:?}");
            }
        }
    }
}

/// Losses of nine epochs, logits and bytes, with or without random pauses in the transport.
fn with_delays(case: &Case, rule: &str, delays: Option<u64>) -> (Vec<u64>, Vec<u32>, u64) {
    let mut place = PlacementSpec::new(Placement::SkipBroadcast, 4);
    place.knobs.skip = Some(rule.parse().unwrap());
    let programs = case.compiled.programs(&place).unwrap();
    let data = case.loaded.data.as_ref().unwrap();
    let partition = Range.partition((&data.topology).into(), 4).unwrap();
    let end = |inner: Threads| match delays {
        None => Box::new(inner) as Box<dyn Transport>,
        Some(seed) => {
            let state = seed * 1000 + u64::from(inner.rank());
            Box::new(delayed(inner, state))
        }
    };
    let ends = Threads::connect(4).into_iter().map(end).collect();
    let options = RunOptions {
        learning_rate: 0.5,
        ..RunOptions::default()
    };
    let mut session = Session::with_transports(programs, data, &partition, options, ends).unwrap();
    let losses = (0..9).map(|_| session.epoch().unwrap().loss.to_bits());
    let losses = losses.collect();
    let logits = session.logits().unwrap();
    let bits = logits.iter().map(|x| x.to_bits()).collect();
    (losses, bits, session.bytes_sent())
}

#[test]
fn delays_change_nothing() {
    for body in [MODELS[0], MODELS[4]] {
        let case = case(body, false);
        for rule in ["adaptive:2", "gap:0.2", "gap:0.2/cut"] {
            let calm = with_delays(&case, rule, None);
            for seed in [1, 2] {
                assert_eq!(with_delays(&case, rule, Some(seed)), calm, "{rule}: {body}");
            }
        }
    }
}

/// A resumed run has the copies, their ages and what was sent last. If vertices are divided
/// differently, it starts with new copies.
#[test]
fn runs_go_on_bit_for_bit() {
    let folder = std::env::temp_dir().join(format!("gnnc-skip-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("state");
    for body in MODELS {
        let case = case(body, true);
        for rule in [
            "fixed:2",
            "adaptive:2",
            "gap:0.3",
            "gap:0.3:3",
            "adaptive:2/cut",
            "gap:0.3/cut",
            "adaptive:2/stop",
        ] {
            let mut whole = trainer(&case, Some(rule), 3);
            let expected = run(&mut whole, 9);
            let mut first = trainer(&case, Some(rule), 3);
            run(&mut first, 4);
            first.session.save(&path).unwrap();
            let mut second = trainer(&case, Some(rule), 3);
            // Earlier state does not matter.
            run(&mut second, 2);
            let resumed = second.session.resume(&path).unwrap();
            assert!(resumed.same_program && resumed.copies);
            let found = run(&mut second, 5);
            let rest = (expected.0[4..].to_vec(), expected.1[4..].to_vec());
            assert_eq!(found, rest, "{rule}: {body}");
            assert_eq!(bits(&mut second), bits(&mut whole), "{rule}: {body}");

            let mut other = trainer(&case, Some(rule), 2);
            let resumed = other.session.resume(&path).unwrap();
            assert!(!resumed.copies);
            run(&mut other, 1);
            assert_eq!(other.session.copies_since(), 4);
            let layers = other.session.staleness().unwrap().layers;
            assert!(layers.iter().all(|l| l.oldest() == Some(0)), "{layers:?}");
            // Its rounds count from there.
            run(&mut other, 4);
        }
    }
    // Placements without copies can resume too.
    let mut broadcast = trainer(&case(MODELS[5], true), None, 3);
    assert!(broadcast.session.resume(&path).unwrap().copies);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Checkpoints do not depend on what is offloaded.
#[test]
fn copies_go_on_in_another_budget() {
    let folder = std::env::temp_dir().join(format!("gnnc-skip-host-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("state");
    let case = case(MODELS[0], true);
    for rule in [
        Some("fixed:2"),
        Some("fixed:2/stop"),
        Some("fixed:2/clip:0.05"),
    ] {
        let mut whole = trainer(&case, rule, 3);
        let expected = run(&mut whole, 9);
        let less = whole.session.peak_memory_bytes().unwrap() * 4 / 5;
        let mut first = placed(Placement::SkipBroadcast, Some(less), &case, rule, 3);
        assert!(first.moves(Phase::Step).unwrap() > 0);
        run(&mut first, 4);
        first.session.save(&path).unwrap();
        let mut second = trainer(&case, rule, 3);
        let resumed = second.session.resume(&path).unwrap();
        assert!(resumed.same_program && resumed.copies);
        assert_eq!(run(&mut second, 5).0, expected.0[4..]);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// If memory is short, the memory of copies is listed by tensor.
#[test]
fn copies_that_do_not_fit_are_named() {
    let case = case(MODELS[0], true);
    let mut place = PlacementSpec::new(Placement::SkipBroadcast, 3);
    place.knobs.skip = Some("gap:0.1".parse().unwrap());
    let programs = case.compiled.programs(&place).unwrap();
    let data = case.loaded.data.as_ref().unwrap();
    let partition = Range.partition((&data.topology).into(), 3).unwrap();
    let options = RunOptions {
        memory_limit: Some(1000),
        ..RunOptions::default()
    };
    let Err(error) = Session::new(programs, data, &partition, options) else {
        panic!("found a session in no memory")
    };
    let text = error.to_string();
    // 60 rows of 8 floats on each of 3 ranks.
    assert!(
        text.contains("rows of earlier epochs take 5.62 KiB for `"),
        "{text}"
    );
}
