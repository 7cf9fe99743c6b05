//! Bad input is reported with the right exit code, and nothing panics.

use crate::data::{data, folder, longs, model, model_with, npz, ring};
use crate::support::{Folder, example, gnnc, refused, text};
use gnnc::graph::{Features, Labels};

/// Runs the commands that read a model on a broken one.
#[track_caller]
fn model_is_refused(content: impl AsRef<[u8]>, parts: &[&str]) {
    let folder = Folder::new();
    let file = folder.file("m.gir", content);
    for command in ["check", "plan", "train", "explain"] {
        refused(1, &[command, text(&file)], parts);
    }
}

/// Runs training, and the other commands that read a graph, on a broken one.
#[track_caller]
fn graph_is_refused(folder: &Folder, parts: &[&str]) {
    let model = folder.file("m.gir", model("g.npz"));
    for command in ["check", "train"] {
        refused(1, &[command, text(&model)], parts);
    }
    refused(1, &["graph", "stats", text(&folder.join("g.npz"))], parts);
}

#[test]
fn what_is_not_permitted_is_refused() {
    let cora = example("gcn_cora.gir");
    let decoupled = ["train", &cora, "--placement", "tensor-decoupled"];
    refused(1, &decoupled, &["--allow decouple", "not compute exactly"]);
    let wrong = ["train", &cora, "--allow", "cheat"];
    refused(1, &wrong, &["cheat", "decouple"]);
    let ranked = example("appnp_cora.gir");
    let decoupled = [
        "train",
        &ranked,
        "--placement",
        "tensor-decoupled",
        "--allow",
        "decouple",
    ];
    refused(1, &decoupled, &["already come before its aggregations"]);
}

#[test]
fn models_that_make_no_sense_are_refused() {
    model_is_refused(model_with("let h = x |> foo(3)"), &["E0202", "foo"]);
    model_is_refused(
        model_with("let h = linear(x, 3) + linear(x, 5)"),
        &["E0301", "3", "5"],
    );
    model_is_refused(model_with("let h = y |> linear(3)"), &["E0201", "y"]);
    model_is_refused(model_with("let h = x |> linear(0)"), &["E0"]);
    let circle = "layer a(h) {\n  return b(h)\n}\n\nlayer b(h) {\n  return a(h)\n}\n\n";
    let circle = format!("{circle}{}", model_with("let h = a(x)"));
    model_is_refused(circle, &["E0207"]);
    model_is_refused(model_with("let h = x |> linear("), &["E01"]);
    model_is_refused("", &["E0210"]);
}

#[test]
fn files_that_are_no_models_are_refused() {
    let binary: Vec<u8> = (0..=255).collect();
    model_is_refused(&binary, &["not UTF-8"]);
    model_is_refused(vec![0; 4096], &["E0"]);
    model_is_refused("(".repeat(200_000), &["E0"]);
    model_is_refused(
        model_with(&format!(
            "let h = {}x{}",
            "(".repeat(50_000),
            ")".repeat(50_000)
        )),
        &["E0103"],
    );
    let folder = Folder::new();
    let (missing, itself) = (folder.join("none.gir"), folder.join(""));
    for command in ["check", "fmt", "plan", "train", "explain"] {
        refused(1, &[command, text(&missing)], &["none.gir", "No such file"]);
        refused(1, &[command, text(&itself)], &["directory"]);
    }
    let npz = example("data/cora.npz");
    refused(1, &["fmt", &npz], &["not UTF-8"]);
}

#[test]
fn graphs_that_are_not_there_are_refused() {
    let folder = Folder::new();
    graph_is_refused(&folder, &["g.npz", "No such file"]);
    let model = example("gcn_reddit.gir");
    refused(1, &["train", &model], &["only statistics"]);
    let cora = example("gcn_cora.gir");
    refused(
        1,
        &["train", &cora, "--graph", text(&folder.join(""))],
        &["directory"],
    );
    refused(1, &["train", &cora, "--graph", &cora], &["gcn_cora.gir"]);
}

#[test]
fn budgets_that_mean_nothing_are_refused() {
    let cora = example("gcn_cora.gir");
    for wrong in ["0", "-1GiB", "8GB", "much"] {
        let budget = format!("--device-memory={wrong}");
        refused(1, &["train", &cora, &budget], &["--device-memory", "8GiB"]);
    }
    // Only commands that train accept it.
    let words = ["bench-kernel", &cora, "--device-memory", "8GiB"];
    refused(1, &words, &["unexpected argument"]);
    let words = ["train", &cora, "--device-memory", "100KiB"];
    refused(1, &words, &["100.00 KiB", "still missing", "more workers"]);
    let words = ["plan", &cora, "--pin", "offload=maybe"];
    refused(1, &words, &["offload=maybe", "offload= yes or no"]);
    let words = ["plan", &cora, "--pin", "interior=maybe"];
    refused(1, &words, &["interior=maybe", "interior= yes or no"]);
}

#[test]
fn more_runs_of_layers_than_there_are_layers_are_refused() {
    let cora = example("gcnii_cora.gir");
    for wrong in ["virtual-stages=0", "turns=many", "virtual-stages=100000"] {
        let words = ["plan", &cora, "--pin", wrong];
        refused(
            1,
            &words,
            &[wrong, "virtual-stages= a number from 1 to 65536"],
        );
    }
    let six = ["--set", "depth=6", "--allow", "stale"];
    let staged = ["train", &cora, "--placement", "pipeline", "--workers"];
    for (code, more, parts) in [
        (
            1,
            &["3", "--virtual-stages", "0"][..],
            &["--virtual-stages", "expected a number from 1"][..],
        ),
        (
            1,
            &["3", "--virtual-stages", "4"],
            &[
                "3 stages with 4 virtual stages each",
                "only 6 layers",
                "at most 6 virtual stages",
            ],
        ),
        (
            1,
            &["3", "--virtual-stages", "2", "--layers", "2,2,2"],
            &["found 3 numbers of layers for 3 stages with 2 virtual stages each, expected 6"],
        ),
        (
            2,
            &["3", "--virtual-stages", "2", "--layers", "1,1,1,1,1,2"],
            &["found [1, 1, 1, 1, 1, 2] layers", "6 in total"],
        ),
        (
            1,
            &["1", "--virtual-stages", "2"],
            &["2 virtual stages for a single stage", "at least 2 stages"],
        ),
    ] {
        refused(code, &[&staged[..], more, &six].concat(), parts);
    }
    let pin = [
        "--pin",
        "placement=pipeline,ranks=3,turns=4",
        "--cluster",
        "cpu",
        "--gpus",
        "3",
    ];
    let plan = [&["plan", &cora][..], &pin, &six].concat();
    let report = gnnc(plan).unchosen();
    assert!(
        report.contains("3 stages with 4 virtual stages each"),
        "{report}"
    );
}

#[test]
fn numbers_that_are_none_are_refused() {
    let mut bad = ring();
    let mut values = vec![1.0; 12];
    values[5] = f32::NAN;
    bad.features = Features::dense(6, 2, values);
    graph_is_refused(&folder(&bad).0, &["NaN"]);

    for (label, part) in [(1000, "1000"), (-7, "-7")] {
        let mut bad = ring();
        bad.labels = Labels::Single(vec![0, 1, label, 1, 0, 1]);
        graph_is_refused(&folder(&bad).0, &["label", part]);
    }
    let mut bad = ring();
    bad.labels = Labels::Single(vec![-1; 6]);
    graph_is_refused(&folder(&bad).0, &["label"]);
}

#[test]
fn graphs_without_what_training_needs_are_refused() {
    for (what, part) in [
        ("features", "`features = identity`"),
        ("labels", "has no labels"),
        ("train", "has no training vertices"),
    ] {
        let mut bad = ring();
        match what {
            "features" => bad.features = Features::None,
            "labels" => {
                bad.labels = Labels::None;
                for mask in [&mut bad.train, &mut bad.val, &mut bad.test] {
                    mask.fill(false);
                }
            }
            _ => bad.train.fill(false),
        }
        let (_folder, model) = folder(&bad);
        for command in ["train", "check"] {
            refused(1, &[command, text(&model)], &[part]);
        }
    }
}

#[test]
fn a_graph_without_validation_is_trained_with_a_warning() {
    let mut graph = ring();
    graph.val.fill(false);
    let (_folder, model) = folder(&graph);
    let run = gnnc(["train", text(&model)]);
    assert_eq!(run.code, Some(0));
    assert!(
        run.stderr.contains("no validation vertices"),
        "{}",
        run.stderr
    );
}

#[test]
fn damaged_archives_are_refused() {
    let whole = std::fs::read(example("data/cora.npz")).unwrap();
    for cut in [0, 3, 100, whole.len() / 2, whole.len() - 1] {
        let folder = Folder::new();
        folder.file("g.npz", &whole[..cut]);
        graph_is_refused(&folder, &["g.npz"]);
    }
    let folder = Folder::new();
    folder.file("g.npz", "0 1\n1 2\n");
    graph_is_refused(&folder, &["g.npz"]);
}

#[test]
fn hostile_archives_are_refused() {
    let path = |folder: &Folder| folder.join("g.npz");
    let indices = |values: &[i64]| ("indices", "<i8", "(2,)", longs(values));
    let indptr = ("indptr", "<i8", "(3,)", longs(&[0, 1, 2]));
    for (values, part) in [([0, 99], "99"), ([0, -1], "-1"), ([0, i64::MAX], "922")] {
        let folder = Folder::new();
        npz(&path(&folder), &[indptr.clone(), indices(&values)]);
        graph_is_refused(&folder, &["indices", part]);
    }
    for shape in [
        "(4611686018427387904,)",
        "(99999999999999999999999,)",
        "(1000000000000,)",
    ] {
        let folder = Folder::new();
        let huge = ("indptr", "<i8", shape, longs(&[0, 1, 2]));
        npz(&path(&folder), &[huge, indices(&[1, 0])]);
        graph_is_refused(&folder, &["indptr"]);
    }
    let folder = Folder::new();
    let falling = ("indptr", "<i8", "(3,)", longs(&[0, 9, 2]));
    npz(&path(&folder), &[falling, indices(&[1, 0])]);
    graph_is_refused(&folder, &["indptr"]);
}

#[test]
fn odd_graphs_are_trained_or_refused() {
    let empty = Folder::new();
    let none = ("indices", "<i8", "(0,)", Vec::new());
    npz(
        &empty.join("g.npz"),
        &[("indptr", "<i8", "(1,)", longs(&[0])), none],
    );
    graph_is_refused(&empty, &["vert"]);

    // Vertices without edges see only themselves, or nothing; neither is an error.
    let isolated = data(9, [(0, 1), (1, 0), (1, 2), (2, 1)]);
    let edgeless = data(6, []);
    for graph in [&isolated, &edgeless] {
        let (_folder, model) = folder(graph);
        for workers in ["1", "3"] {
            let args = [
                "train",
                text(&model),
                "--workers",
                workers,
                "--partitioner",
                "hash",
            ];
            let json = gnnc(args.iter().chain(&["--format", "json"])).json();
            assert!(json["train_loss"].as_f64().unwrap().is_finite());
        }
    }

    // Self loops do not count as edges: they are dropped when a graph is read.
    let folder = Folder::new();
    let indptr = ("indptr", "<i8", "(3,)", longs(&[0, 2, 4]));
    let loops = ("indices", "<i8", "(4,)", longs(&[0, 1, 0, 1]));
    npz(&folder.join("g.npz"), &[indptr, loops]);
    let run = gnnc([
        "graph",
        "stats",
        text(&folder.join("g.npz")),
        "--format",
        "json",
    ]);
    assert_eq!(run.json()["edges"], 2);
}

#[test]
fn impossible_numbers_of_workers_are_refused() {
    let (_folder, model) = folder(&ring());
    let train = |option, number| ["train", text(&model), option, number];
    refused(1, &train("--workers", "7"), &["7 parts for 6 vertices"]);
    gnnc(train("--workers", "6")).report();
}

#[test]
fn numbers_out_of_range_are_refused_alike() {
    let (folder, model) = folder(&ring());
    let (model, graph) = (text(&model), folder.join("g.npz"));
    let (graph, out) = (text(&graph), folder.join("out.npz"));
    let out = text(&out);
    let (train, bench) = (&["train", model][..], &["bench-epoch", model][..]);
    let (plan, emit) = (&["plan", model][..], &["emit", "program", model][..]);
    let (stats, part) = (
        &["graph", "stats", graph][..],
        &["graph", "partition", graph][..],
    );
    let generate = &["graph", "generate", "rmat", "--out", out][..];
    let most = &["0", "-3", "1e3", "nan", "", "99999999999999999999999"][..];
    for (command, option, wrong) in [
        (train, "--workers", &["1000000"][..]),
        (train, "--threads", &["1000000"]),
        (train, "--epochs", &["4294967295"]),
        (train, "--seeds", &["10000000"]),
        (train, "--evaluate-every", &[]),
        (train, "--checkpoint-every", &[]),
        (bench, "--workers", &["1000000"]),
        (bench, "--threads", &["1000000"]),
        (bench, "--epochs", &[]),
        (emit, "--workers", &["1000000"]),
        (plan, "--gpus", &["1000000"]),
        (plan, "--nodes", &["1000000"]),
        (stats, "--parts", &["1000000", "2,0"]),
        (part, "--parts", &["1000000"]),
        (generate, "--vertices", &["4294967295"]),
    ] {
        for number in most.iter().chain(wrong) {
            let value = format!("{option}={number}");
            let args: Vec<&str> = command.iter().copied().chain([value.as_str()]).collect();
            refused(
                1,
                &args,
                &["invalid value", option, "expected a number from 1 to "],
            );
        }
    }
    for (option, wrong) in [
        ("--edges", "1e9"),
        ("--features", "2000000"),
        ("--classes", "-1"),
        ("--signal", "nan"),
        ("--homophily", "1.5"),
    ] {
        let value = format!("{option}={wrong}");
        let args: Vec<&str> = generate.iter().copied().chain([value.as_str()]).collect();
        refused(
            1,
            &args,
            &["invalid value", option, "expected a number from "],
        );
    }
    let huge = ["--vertices=4000000000", "--features=1000000"];
    let args: Vec<&str> = generate.iter().copied().chain(huge).collect();
    refused(2, &args, &["GiB", "available"]);
    assert_eq!(folder.names(), ["g.npz", "m.gir"]);
}

#[test]
fn a_model_larger_than_the_machine_is_refused() {
    let (folder, _) = folder(&ring());
    let wide = "hidden = 1048576";
    let content = model("g.npz")
        .replace("hidden = 4", wide)
        .replace("|> relu\n", "|> relu |> linear(hidden)\n");
    assert!(content.contains(wide) && content.contains("linear"));
    let model = folder.file("wide.gir", content);
    // A matrix of 2^40 floats, its gradient and two optimizer states.
    let said = ["GiB of memory", "1 worker", "available", "--set"];
    refused(2, &["train", text(&model)], &said);
    refused(2, &["bench-epoch", text(&model)], &said);
    let workers = ["train", text(&model), "--workers", "3"];
    refused(2, &workers, &["3 workers"]);
    gnnc(["train", text(&model), "--set", "hidden=4"]).report();
}

#[test]
fn a_loss_that_is_no_number_ends_the_run() {
    let mut huge = ring();
    huge.features = Features::dense(6, 2, vec![1e30; 12]);
    let (folder, _) = folder(&huge);
    let linear = model("g.npz")
        .replace("hidden) |> relu", "hidden)")
        .replace("epochs = 3", "optimizer = sgd(lr = 1e6)\n  epochs = 3");
    let model = folder.file("l.gir", linear);
    let run = gnnc(["train", text(&model), "--epochs", "50"]);
    assert_eq!(run.code, Some(1), "{}{}", run.stdout, run.stderr);
    assert!(
        run.stderr.contains("smaller learning rate"),
        "{}",
        run.stderr
    );
    let args = ["train", text(&model), "--epochs", "50", "--format", "json"];
    gnnc(args).fails_json(1);
}

#[test]
fn broken_clusters_and_workloads_are_refused() {
    let folder = Folder::new();
    let cora = example("gcn_cora.gir");
    for (content, part) in [("", "version"), ("version = 9", "9"), ("{", "c.toml")] {
        let cluster = folder.file("c.toml", content);
        refused(
            1,
            &["plan", &cora, "--cluster", text(&cluster)],
            &["c.toml", part],
        );
    }
    let workload = folder.file("w.json", "{\"name\": 3}");
    refused(
        1,
        &["plan", &cora, "--workload", text(&workload)],
        &["w.json", "not a workload"],
    );
}

#[test]
fn statistics_that_contradict_themselves_are_refused() {
    let folder = Folder::new();
    let stats = ["graph", "stats", &example("data/cora.npz"), "--parts", "2"];
    let sound = gnnc(stats.iter().chain(&["--format", "json"])).ok();
    let cora = example("gcn_cora.gir");
    let plan = |text: &str| folder.file("w.json", text).to_str().unwrap().to_owned();
    gnnc(["plan", &cora, "--workload", &plan(&sound)]).report();
    for (from, to, part) in [
        ("\"vertices\": 2708", "\"vertices\": -3", "`vertices`"),
        (
            "\"vertices\": 2708",
            "\"vertices\": 2709",
            "`degree_histogram` is 2708",
        ),
        ("\"edges\": 10556", "\"edges\": 1e99", "`edges`"),
        ("\"edges\": 10556", "\"edges\": 7", "`edges` is 7"),
        ("\"classes\": 7", "\"classes\": 0", "`classes` is 0"),
        ("\"features\": 1433", "\"features\": NaN", "`features`"),
        (
            "\"replication\": {\n    \"2\"",
            "\"replication\": {\n    \"2709\"",
            "`replication.2709`",
        ),
        (
            "\"parts\": [",
            "\"parts\": [], \"unused\": [",
            "`partitions.2[0].parts` is 0 parts",
        ),
    ] {
        assert!(sound.contains(from), "{from} in {sound}");
        let file = plan(&sound.replacen(from, to, 1));
        let said = ["w.json is not a workload", part, "graph stats"];
        refused(1, &["plan", &cora, "--workload", &file], &said);
    }
}
