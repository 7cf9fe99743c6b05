//! Where push-pull beats graph parallelism, and where it does not: `docs/cost-model.md`.

use gnnc::ir::cluster::Cluster;
use gnnc::ir::plan::{Candidate, Objective, Partitioner, Placement, Plan};
use gnnc::planner::search::Pin;
use gnnc::{LoadOptions, Loaded, PlanOptions, Source};

const VERTICES: u64 = 20_000;
const RANKS: u32 = 8;

/// A plan for a GCN on bags of words hashed to this many features.
fn planned(features: u64, hidden: u32, objective: Objective, pin: Pin) -> Plan {
    let text = format!(
        "graph words {{
           vertices = {VERTICES}  edges = 400_000  features = {features}  classes = 10
           feature_density = 0.01  train_fraction = 0.6  replication = {{ 2: 0.4, 4: 0.8, 8: 1.2 }}
         }}
         model gcn(hidden = {hidden}) on words {{
           let h = x |> dropout(0.5) |> gcn_conv(hidden) |> relu
           loss cross_entropy(h |> gcn_conv(classes), labels, on = train)
         }}
         train {{ optimizer = adam(lr = 0.01) }}"
    );
    let source = Source::new("words.gir", text);
    let loaded = Loaded::new(&source, &LoadOptions::default()).unwrap();
    let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
    let machines = Cluster::named("h100x8").unwrap();
    let options = PlanOptions {
        objective,
        pin,
        partitioners: vec![Partitioner::Metis],
        ..PlanOptions::new(machines.resized(Some(RANKS), None).unwrap())
    };
    gnnc::plan(&loaded, &compiled, &options).unwrap()
}

/// Push-pull and graph parallelism on all ranks, best first.
fn rivals(features: u64, hidden: u32, objective: Objective) -> [Candidate; 2] {
    let pin = Pin {
        ranks: Some(RANKS),
        ..Pin::default()
    };
    let mut candidates = planned(features, hidden, objective, pin).candidates;
    candidates.retain(|c| [Placement::Graph, Placement::PushPull].contains(&c.placement));
    candidates.try_into().unwrap()
}

#[test]
fn it_sends_less_if_there_are_more_features_than_vertices() {
    let others = u64::from(RANKS) - 1;
    for (features, best) in [
        (VERTICES - 1000, Placement::Graph),
        (VERTICES + 1000, Placement::PushPull),
    ] {
        let [first, second] = rivals(features, 16, Objective::Bytes);
        assert_eq!(first.placement, best, "{features} features");
        // The first layer's weights against partial activations, both in two directions.
        let saved = 4 * 2 * others * 16 * features.abs_diff(VERTICES);
        assert_eq!(second.bytes.0 - first.bytes.0, saved, "{features} features");
    }
}

#[test]
fn it_takes_less_memory_if_two_fifths_as_many() {
    for (features, best) in [(6000, Placement::Graph), (10_000, Placement::PushPull)] {
        for hidden in [8, 32, 128] {
            let [first, _] = rivals(features, hidden, Objective::Memory);
            assert_eq!(
                first.placement, best,
                "{features} features, {hidden} hidden"
            );
        }
    }
}

/// Two more collectives take time, which sending less must make up for.
#[test]
fn it_is_faster_if_layers_are_wide() {
    for (hidden, best) in [(4, Placement::Graph), (64, Placement::PushPull)] {
        let [first, _] = rivals(50_000, hidden, Objective::Time);
        assert_eq!(first.placement, best, "{hidden} hidden");
    }
}

#[test]
fn it_is_chosen_for_hashed_words_and_not_for_few_features() {
    let chosen = |features| {
        let plan = planned(features, 64, Objective::Time, Pin::default());
        plan.choice().unwrap().placement
    };
    assert_eq!(chosen(200_000), Placement::PushPull);
    assert_ne!(chosen(500), Placement::PushPull);
}

/// A plan of GraphSAGE on batches of a graph as large as ogbn-products, for four A5000.
fn products(features: u32, hidden: u32, delay: u32) -> Plan {
    let text = format!(
        "graph products {{
           vertices = 2_400_000  edges = 123_000_000  features = {features}  classes = 47
           train = 196_615
         }}
         model sage(hidden = {hidden}) on products {{
           let h = x |> sage_conv(hidden) |> relu
           loss cross_entropy(h |> sage_conv(classes), labels, on = train)
         }}
         train {{
           optimizer = adam(lr = 0.003)
           allow = [sample, stale]
           batch = 4000
           fanouts = [25, 10]
           delay = {delay}
         }}"
    );
    let source = Source::new("products.gir", text);
    let loaded = Loaded::new(&source, &LoadOptions::default()).unwrap();
    let compiled = gnnc::compile(&loaded.model, &loaded.workload).unwrap();
    let machines = Cluster::named("a5000x4").unwrap();
    let pin = Pin {
        ranks: Some(4),
        ..Pin::default()
    };
    let options = PlanOptions {
        pin,
        partitioners: vec![Partitioner::Metis],
        ..PlanOptions::new(machines.resized(Some(4), Some(4)).unwrap())
    };
    gnnc::plan(&loaded, &compiled, &options).unwrap()
}

/// Epoch times of `minibatch` and of `push-pull` on batches, on four machines of one GPU each.
fn on_batches(features: u32, hidden: u32, delay: u32) -> [f64; 2] {
    let plan = products(features, hidden, delay);
    [Placement::Minibatch, Placement::PushPull].map(|placement| {
        let batched = |c: &&Candidate| {
            let sampling = &c.parameters.knobs.sampling;
            let plain = sampling.cached().is_none();
            c.placement == placement && plain && sampling.sampling().is_some()
        };
        let found = plan.candidates.iter().find(batched).unwrap();
        assert!(found.allowed);
        found.epoch_seconds.0
    })
}

/// P3 finds push-pull faster where features are wide beside the first layer, and a pipeline of
/// batches faster by 30 to 50 %.
#[test]
fn on_batches_it_wins_where_features_are_wide() {
    for (features, hidden, wins) in [(1024, 32, true), (512, 32, true), (64, 512, false)] {
        let [fetching, pushing] = on_batches(features, hidden, 0);
        assert_eq!(
            pushing < fetching,
            wins,
            "{features} features, {hidden} hidden"
        );
    }
    let [_, waiting] = on_batches(1024, 32, 0);
    let [_, pipelined] = on_batches(1024, 32, 3);
    assert!(pipelined < waiting, "{pipelined} {waiting}");
}

/// What is cached and how often models move change messages, and not what a rank computes of its batches.
#[test]
fn caches_and_moves_of_models_cost_what_batches_cost() {
    let plan = products(512, 32, 0);
    let of = |placement: Placement| {
        let all = plan.candidates.iter();
        all.filter(move |c| c.placement == placement && c.parameters.ranks == 4)
            .filter(|c| c.parameters.knobs.sampling.sampling().is_some())
    };
    let is_plain = |c: &&Candidate| c.parameters.knobs.sampling.cached().is_none();
    let plain = of(Placement::Minibatch).find(is_plain).unwrap();
    let cached: Vec<_> = of(Placement::Minibatch).filter(|c| !is_plain(c)).collect();
    assert_eq!(cached.len(), 3);
    for candidate in cached {
        let [found, without] = [candidate, plain].map(|c| c.compute_seconds.0);
        assert!(
            (found - without).abs() < 1e-3 * without,
            "{}",
            candidate.name()
        );
        assert!(candidate.bytes < plain.bytes, "{}", candidate.name());
    }
    let moves: Vec<_> = of(Placement::ModelMigration).collect();
    assert!(moves.len() > 2);
    for candidate in moves {
        // Sets share fewer rows than whole batches do.
        let [found, without] = [candidate, plain].map(|c| c.compute_seconds.0);
        assert!(found > 0.9 * without, "{}", candidate.name());
    }
}
