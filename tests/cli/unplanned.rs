//! Plans without a choice say why, and what would help.

use crate::support::{Folder, example, gnnc, refused, text};
use serde_json::Value;

fn plan(args: &str) -> crate::support::Run {
    let cora = example("gcn_cora.gir");
    let words = args.split_whitespace();
    gnnc(["plan", &cora].into_iter().chain(words))
}

#[test]
fn a_lack_of_permission_is_not_a_lack_of_memory() {
    let run = plan("--gpus 2 --pin placement=pipeline --why");
    assert_eq!((run.code, run.stderr.as_str()), (Some(3), ""));
    assert!(!run.stdout.contains("times as fast"), "{}", run.stdout);
    let parts = [
        "needs --allow stale; no allowed candidate fits",
        "nothing: no candidate that fits is allowed; --allow stale would choose pipeline 2x1 / 8",
    ];
    for part in parts {
        assert!(run.stdout.contains(part), "no `{part}` in {}", run.stdout);
    }
    let allowed = plan("--gpus 2 --pin placement=pipeline --allow stale").report();
    assert!(
        allowed.contains("chosen     pipeline 2x1 / 8\n"),
        "{allowed}"
    );
    // Beside an allowed candidate, the possible gain is worth knowing.
    let both = plan("--gpus 2 --why --all").report();
    let gain = "times as fast as the best allowed candidate";
    assert!(both.contains(gain), "{both}");
}

#[test]
fn nothing_that_fits_ends_with_a_code_of_its_own() {
    let folder = Folder::new();
    let cluster = "version = 1\ndevices_per_node = 2\ndevice.profile = \"T4\"\n\
                   device.memory_bytes = 100_000\ninside.profile = \"pcie3\"\n";
    let small = folder.file("small.toml", cluster);
    let (cora, out) = (example("gcn_cora.gir"), folder.join("plan.json"));
    let args = [
        "plan",
        &cora,
        "--cluster",
        text(&small),
        "--out",
        text(&out),
    ];
    let run = gnnc(args);
    assert_eq!(run.code, Some(3), "{}{}", run.stdout, run.stderr);
    let line = "chosen     nothing: no candidate fits\nwhy        graph x ";
    assert!(run.stdout.contains(line), "{}", run.stdout);
    assert!(run.stdout.contains("does not fit: "), "{}", run.stdout);
    assert!(out.exists(), "the plan says why, so it is written");
    let run = gnnc(args.iter().chain(&["--format", "json"]));
    assert_eq!(run.code, Some(3));
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(json["chosen"].is_null() && json.get("error").is_none());
    let sweep = ["sweep", &cora, "--cluster", text(&small), "--gpus", "1..2"];
    let run = gnnc(sweep);
    assert_eq!(run.code, Some(3), "{}{}", run.stdout, run.stderr);
    assert!(
        run.stdout.contains("none of these device counts"),
        "{}",
        run.stdout
    );
    let help = gnnc(["--help"]).stdout;
    assert!(help.contains("3 no candidate"), "{help}");
}

#[test]
fn a_pin_that_leaves_nothing_says_why() {
    let cases = [
        (
            "--gpus 8 --pin placement=pipeline",
            "8 stages (one per rank) for 2 layers",
        ),
        (
            "--gpus 8 --pin placement=pipeline,stages=2",
            "ask for 2 ranks, or for placement hybrid",
        ),
        (
            "--gpus 8 --pin placement=hybrid,stages=8",
            "ask for fewer stages, or for placement pipeline",
        ),
        (
            "--gpus 7 --pin placement=hybrid",
            "7 ranks cannot be divided into stages of several ranks",
        ),
        (
            "--gpus 16 --pin placement=hybrid,ranks=9",
            "9 ranks make at least 3 stages, but the model has only 2",
        ),
        ("--gpus 4 --pin stages=3", "found 3 stages on 4 ranks"),
        (
            "--gpus 1 --pin placement=tensor",
            "placement tensor needs several ranks",
        ),
    ];
    let sgc = example("sgc_cora.gir");
    let pin = ["--gpus", "8", "--pin", "placement=pipeline"];
    let args = [&["plan", sgc.as_str()], &pin[..]].concat();
    refused(
        1,
        &args,
        &["the model has 1 layer to divide; ask for another placement"],
    );
    let cora = example("gcn_cora.gir");
    for (args, why) in cases {
        let args: Vec<&str> = args.split_whitespace().collect();
        let all = [&["plan", cora.as_str()], &args[..]].concat();
        refused(1, &all, &["--pin leaves no candidate", why]);
    }
}

/// Options that would do nothing are not ignored in silence.
#[test]
fn an_option_that_a_placement_does_not_have_is_refused() {
    let cora = example("gcn_cora.gir");
    for (placement, options, why) in [
        (
            "graph",
            "--stages 2",
            "which has no stages; leave it out, or train with placement pipeline or hybrid",
        ),
        ("tensor", "--virtual-stages 2", "which has no stages"),
        ("push-pull", "--layers 1,1", "which has no stages"),
        ("graph", "--interval 3", "which keeps no histories"),
        (
            "broadcast",
            "--no-shuffle",
            "found --no-shuffle with placement broadcast, which shuffles no chunks",
        ),
        (
            "graph",
            "--chunks 2",
            "which has no work on all vertices to cut into chunks; leave it out, or train with another placement, such as tensor",
        ),
        (
            "tensor",
            "--node-ranks 2",
            "which sends no halo rows that could cross to a node once; leave it out",
        ),
        (
            "tensor",
            "--cover joint",
            "found --cover joint with placement tensor",
        ),
        (
            "pipeline",
            "--no-overlap --allow stale",
            "which sends rows on to the next stage while it computes, always; leave it out",
        ),
        (
            "hybrid",
            "--interior --allow stale",
            "which never computes interior rows apart",
        ),
        (
            "tensor",
            "--interior",
            "which never computes interior rows apart; leave it out, or train with another \
             placement, such as graph",
        ),
    ] {
        let mut args = vec![
            "train",
            cora.as_str(),
            "--workers",
            "4",
            "--placement",
            placement,
        ];
        args.extend(options.split(' '));
        refused(1, &args, &[why]);
    }
    // A hybrid of one stage is placement graph.
    let hybrid = [
        "train",
        &cora,
        "--workers",
        "4",
        "--placement",
        "hybrid",
        "--allow",
        "stale",
        "--stages",
        "1",
    ];
    let hybrid = [&hybrid[..], &["--interval", "3"]].concat();
    refused(
        1,
        &hybrid,
        &["with placement graph, which keeps no histories"],
    );
    // On one worker there are no messages, but stages are refused as well.
    let alone = ["train", &cora, "--placement", "graph", "--stages", "2"];
    refused(1, &alone, &["which has no stages"]);
}

#[test]
fn a_pin_that_a_placement_does_not_have_is_refused() {
    let cora = example("gcn_cora.gir");
    let cases = [
        (
            "placement=graph,skip=fixed:3",
            "placement graph skips no exchanges",
        ),
        (
            "placement=tensor,interval=5",
            "placement tensor keeps no histories",
        ),
        (
            "placement=graph,virtual-stages=2",
            "placement graph has no stages; leave out virtual-stages=2, or ask for placement pipeline or hybrid",
        ),
        (
            "placement=minibatch,slices=2",
            "placement minibatch does not divide the columns of rows; leave out slices=2",
        ),
        (
            "placement=tensor,interior=yes",
            "placement tensor never computes interior rows apart; leave out interior=yes",
        ),
        (
            "placement=graph,chunks=2",
            "placement graph has no work on all vertices to cut into chunks; leave out chunks=2, or ask for another placement, such as tensor",
        ),
        (
            "placement=tensor,cover=joint",
            "placement tensor sends no halo rows between parts that sums could replace; leave out cover=joint, or ask for placement graph, push-pull or mixed",
        ),
        (
            "placement=graph,slices=2",
            "placement graph does not divide the columns of rows; leave out slices=2, or ask for placement tensor, tensor-decoupled, push-pull or mixed",
        ),
    ];
    for (pin, why) in cases {
        refused(
            1,
            &["plan", &cora, "--gpus", "4", "--pin", pin],
            &["--pin cannot", why],
        );
    }
    let sweep = [
        "sweep",
        &cora,
        "--gpus",
        "2..4",
        "--pin",
        "placement=graph,interval=3",
    ];
    refused(
        1,
        &sweep,
        &["--pin cannot be followed", "keeps no histories"],
    );
    let none = plan("--gpus 2 --pin offload=yes").unchosen();
    assert!(
        none.contains("graph x 2 metis: offload=yes asks for"),
        "{none}"
    );
    let deep = plan("--gpus 8 --pin placement=pipeline,stages=8 --allow stale").unchosen();
    assert!(
        deep.contains("8 stages") && deep.contains("2 layers"),
        "{deep}"
    );
}

/// Batches of the example, and the permission to train on them.
const BATCHES: &str = "--allow sample --batch 20 --fanouts 5,5";

#[test]
fn batches_that_are_not_described_are_not_planned() {
    let of_plan = |args: &str, part: &str| {
        let run = plan(args);
        let told = run.stdout + &run.stderr;
        assert!(told.contains(part), "{args}: {told}");
        assert_ne!(run.code, Some(0), "{args}");
    };
    let pin = "--pin placement=minibatch";
    let missing = [
        "",
        "--allow sample",
        "--allow sample --batch 20",
        "--batch 20 --fanouts 5,5",
    ];
    for missing in missing {
        of_plan(&format!("{pin} {missing}"), "--allow sample --batch 1000");
    }
    let short = format!("{pin} --gpus 4 --pin ranks=2 {BATCHES} --roots own --cut short");
    of_plan(&short, "roots `own` go with cut `even`");
    let one_hop = format!("{pin} --allow sample --batch 20 --fanouts 5");
    of_plan(&one_hop, "found 1 fanout");
}

#[test]
fn a_pin_offers_what_can_be_planned() {
    let cora = example("gcn_cora.gir");
    let run = gnnc(["plan", &cora, "--pin", "placement=nothing"]);
    assert_eq!(run.code, Some(1));
    let (_, offered) = run
        .stderr
        .split_once("expected placement= one of ")
        .unwrap();
    for offered in offered.trim().split(", ") {
        let pin = format!("--gpus 4 --pin placement={offered}");
        let run = plan(&format!("{pin} --pin ranks=2 --allow stale,decouple"));
        let run = match offered {
            "hybrid" => plan(&format!("{pin} --allow stale")),
            "minibatch" | "model-migration" => plan(&format!("{pin} {BATCHES}")),
            _ => run,
        };
        assert_eq!(run.code, Some(0), "{offered}: {}", run.stderr);
    }
}

#[test]
fn less_memory_may_take_more_time_and_ties_do_not() {
    let photo = example("sage_photo.gir");
    let chosen = |more: &[&str]| {
        let args = ["plan", &photo, "--gpus", "4", "--format", "json"];
        let json = gnnc(args.iter().chain(more)).json();
        let chosen = json["chosen"].as_u64().unwrap() as usize;
        json["candidates"][chosen].clone()
    };
    let memory = chosen(&["--objective", "memory"]);
    let alone = chosen(&["--objective", "memory", "--no-overlap"]);
    assert_eq!(memory["peak_memory_bytes"], alone["peak_memory_bytes"]);
    assert_eq!(memory["parameters"]["overlap"], false);
    let report = gnnc(["plan", &photo, "--gpus", "4", "--objective", "memory"]).report();
    let line = "overlap    none: communication does not overlap with computation\n";
    assert!(report.contains(line), "{report}");
    let time = gnnc(["plan", &photo, "--gpus", "4"]).report();
    assert!(!time.contains("\noverlap "), "{time}");
    // Of two ways that need equal memory, it is the faster one, which computes interior rows
    // while halos are in flight.
    let reddit = example("gcn_reddit.gir");
    let args = [
        "plan",
        &reddit,
        "--cluster",
        "a5000x8",
        "--objective",
        "memory",
    ];
    let [free, whole] = ["", ",interior=no"].map(|more| {
        let pin = format!("placement=push-pull,ranks=8,partitioner=metis{more}");
        let more = ["--pin", &pin, "--format", "json"];
        gnnc(args.iter().chain(&more)).json()["candidates"][0].clone()
    });
    assert_eq!(free["peak_memory_bytes"], whole["peak_memory_bytes"]);
    let seconds = |plan: &Value| plan["epoch_seconds"].as_f64().unwrap();
    assert!(seconds(&free) < 0.99 * seconds(&whole), "{free} {whole}");
}
