//! The commands on data graphs.

use crate::data::{folder, longs, model, npz};
use crate::support::{Folder, example, gnnc, refused, text};

#[test]
fn stats_are_a_workload() {
    let cora = example("data/cora.npz");
    let args = ["graph", "stats", &cora, "--parts", "2,4"];
    let report = gnnc(args).report();
    for part in [
        "2_708",
        "10_556 edges, symmetric",
        "140 train",
        "replication factor",
    ] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
    let json = gnnc(args.iter().chain(&["--format", "json"])).ok();
    let workload: gnnc::ir::Workload = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (workload.vertices, workload.edges, workload.classes),
        (2708, 10_556, 7)
    );
    assert_eq!(
        workload.partitions.keys().copied().collect::<Vec<_>>(),
        [2, 4]
    );

    let folder = Folder::new();
    let file = folder.file("cora.json", json);
    let model = example("gcn_cora.gir");
    let args = ["plan", &model, "--workload", text(&file), "--gpus", "4"];
    assert!(gnnc(args).report().contains("(measured)"));
    refused(
        1,
        &["train", &model, "--workload", text(&file)],
        &["only statistics"],
    );
    refused(1, &["plan", &model, "--workload", &cora], &["cora.npz"]);
}

/// Counted by another program.
#[test]
fn what_parts_send_each_other_is_counted() {
    let (cora, squirrel) = (example("data/cora.npz"), example("data/squirrel.npz"));
    for (graph, all, between, inside) in [
        (
            &cora,
            [827, 827, 658],
            [316, 270, 273, 210],
            [511, 388, 554, 458],
        ),
        (
            &squirrel,
            [11_236, 11_236, 5182],
            [4184, 1738, 2423, 1066],
            [7052, 3444, 8813, 4484],
        ),
    ] {
        let args = ["graph", "stats", graph, "--parts", "8", "--nodes", "2"];
        let report = gnnc(args).report();
        assert!(report.contains("with the parts on 2 nodes"), "{report}");
        let json = gnnc(args.iter().chain(&["--format", "json"])).json();
        let found = &json["exchanges"][0];
        assert_eq!(
            ["rows", "sums", "cover"].map(|key| found[key].as_u64().unwrap()),
            all
        );
        let tiers = |place: &str| {
            let ways = [&found["one_tier"][place], &found["two_tiers"][place]];
            ways.map(|way| ["rows", "cover"].map(|key| way[key].as_u64().unwrap()))
        };
        assert_eq!(tiers("between").concat(), between);
        assert_eq!(tiers("inside").concat(), inside);
    }
    let args = ["graph", "stats", &cora, "--parts", "4,6", "--nodes", "4"];
    refused(1, &args, &["--nodes 4 does not divide 6 parts"]);
    refused(1, &["graph", "stats", &cora, "--nodes", "2"], &["--parts"]);
}

#[test]
fn what_of_a_file_is_not_used_is_said() {
    let folder = Folder::new();
    let graph = folder.join("typed.npz");
    npz(
        &graph,
        &[
            ("indptr", "<i8", "(3,)", longs(&[0, 1, 2])),
            ("indices", "<i8", "(2,)", longs(&[1, 0])),
            ("features", "<i8", "(2, 1)", longs(&[1, 2])),
            ("labels", "<i8", "(2,)", longs(&[0, 1])),
            ("train_mask", "|b1", "(2,)", vec![1, 0]),
            ("val_mask", "|b1", "(2,)", vec![0, 1]),
            ("edge_weight", "<i8", "(2,)", longs(&[3, 1])),
            ("rel_names", "<i8", "(2,)", longs(&[3, 1])),
        ],
    );
    let model = folder.file("m.gir", model("typed.npz"));
    let said = "not used: edge weights (`edge_weight`), `rel_names`\n";
    for args in [
        ["graph", "stats", text(&graph)],
        ["train", text(&model), "--no-cache"],
    ] {
        let run = gnnc(args);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(run.stderr.ends_with(said), "{}", run.stderr);
    }
    let summary = gnnc(["train", text(&model), "--format", "json"]).json();
    assert_eq!(summary["not_used"][1], "`rel_names`");

    for (name, content, said) in [
        ("w.csv", "0,1,0.5\n1,0,2\n", "additional columns"),
        ("w.graph", "2 1 1\n2 9\n1 9\n", "edge weights"),
        (
            "w.mtx",
            "%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n2 1 3\n",
            "edge weights",
        ),
    ] {
        let file = folder.file(name, content);
        let run = gnnc(["graph", "stats", text(&file)]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let note = format!("{name}: not used: {said}\n");
        assert!(run.stderr.ends_with(&note), "{}", run.stderr);
    }
}

#[test]
fn partitions_are_counted_and_written() {
    let folder = Folder::new();
    let out = folder.join("parts.txt");
    let cora = example("data/cora.npz");
    for partitioner in ["metis", "metis-edges", "hash", "range"] {
        let args = [
            "graph",
            "partition",
            &cora,
            "--parts",
            "3",
            "--partitioner",
            partitioner,
            "--out",
            text(&out),
        ];
        let report = gnnc(args).report();
        assert!(report.contains("replication factor"), "{report}");
        let json = gnnc(args.iter().chain(&["--format", "json"])).json();
        assert_eq!(json["loads"].as_array().unwrap().len(), 3);
        let owners = std::fs::read_to_string(&out).unwrap();
        let owners: Vec<u32> = owners.lines().map(|l| l.parse().unwrap()).collect();
        assert_eq!(owners.len(), 2708);
        let first = owners.iter().filter(|&&part| part == 0).count();
        assert_eq!(json["loads"][0]["inner"], first);
    }
    let parts = |k| ["graph", "partition", &cora, "--parts", k];
    refused(1, &parts("2709"), &["2709 parts for 2708 vertices"]);
    let args = [
        "graph",
        "partition",
        &cora,
        "--parts",
        "2",
        "--partitioner",
        "kahip",
    ];
    refused(1, &args, &["unknown partitioner `kahip`", "metis"]);
}

#[test]
fn conversions_keep_the_graph() {
    let folder = Folder::new();
    let cora = example("data/cora.npz");
    let mut last = cora.clone();
    for name in ["a.csv", "b.mtx", "c.graph", "d.txt.gz", "e.npz"] {
        let out = folder.join(name);
        let report = gnnc(["graph", "convert", &last, text(&out)]).report();
        assert!(report.contains("2_708 vertices, 10_556 edges"), "{report}");
        assert_eq!(report.contains("not saved"), name == "a.csv", "{report}");
        last = text(&out).to_owned();
    }
    let directed = folder.file("d.csv", "0,1\n1,2\n2,2\n0,1\n");
    let out = folder.join("f.npz");
    let run = gnnc([
        "graph",
        "convert",
        text(&directed),
        text(&out),
        "--symmetrize",
    ]);
    assert_eq!(run.code, Some(0));
    assert!(run.stderr.contains("dropped 1 self loop"), "{}", run.stderr);
    assert!(
        run.stderr.contains("dropped 1 repeated edge"),
        "{}",
        run.stderr
    );
    assert!(run.stdout.contains("3 vertices, 4 edges"), "{}", run.stdout);
    refused(
        1,
        &["graph", "convert", &cora, text(&folder.join("x.zzz"))],
        &["x.zzz"],
    );
}

#[test]
fn generated_graphs_are_the_same_every_time() {
    let folder = Folder::new();
    let generate = |kind: &str, seed: &str, name: &str| {
        let out = folder.join(name);
        let sizes = [
            "--vertices",
            "500",
            "--edges",
            "4000",
            "--features",
            "8",
            "--classes",
            "3",
        ];
        let args = [
            "graph",
            "generate",
            kind,
            "--seed",
            seed,
            "--out",
            text(&out),
        ];
        let report = gnnc(args.iter().chain(&sizes)).report();
        assert!(
            report.contains("500 vertices, 4_000 edges, 8 features, 3 classes"),
            "{report}"
        );
        std::fs::read(out).unwrap()
    };
    for kind in ["rmat", "planted"] {
        let first = generate(kind, "1", "a.npz");
        assert_eq!(first, generate(kind, "1", "b.npz"));
        assert_ne!(first, generate(kind, "2", "c.npz"));
    }
    let model = folder.file("m.gir", crate::data::model("c.npz"));
    let json = gnnc(["train", text(&model), "--epochs", "60", "--format", "json"]).json();
    assert!(
        json["test_accuracy"].as_f64().unwrap() > 0.5,
        "a planted graph is learned: {json}"
    );
    let out = folder.join("d.npz");
    let args = [
        "graph",
        "generate",
        "rmat",
        "--vertices",
        "3",
        "--edges",
        "100",
        "--out",
        text(&out),
    ];
    refused(1, &args, &["cannot generate"]);
}

/// A mesh reads what it read last, an R-MAT graph its hubs; the more skewed, the more.
#[test]
fn kinds_of_generated_graphs_differ_in_degrees() {
    let folder = Folder::new();
    let largest = |name: &str, options: &[&str]| {
        let out = folder.join(&format!("{name}.npz"));
        let sizes = [
            "--vertices",
            "2000",
            "--edges",
            "16000",
            "--out",
            text(&out),
        ];
        let generate = ["graph", "generate"].iter().chain(options);
        gnnc(generate.chain(&sizes)).report();
        let stats = gnnc(["graph", "stats", text(&out), "--format", "json"]).json();
        assert_eq!(stats["edges"], 16_000, "{stats}");
        stats["max_degree"].as_u64().unwrap()
    };
    let mesh = largest("mesh", &["mesh"]);
    let mild = largest("mild", &["rmat", "--quadrants", "0.45,0.22,0.22,0.11"]);
    let usual = largest("usual", &["rmat"]);
    assert!(
        mesh <= 12 && 2 * mesh < mild && mild < usual,
        "{mesh} {mild} {usual}"
    );
    let out = folder.join("wrong.npz");
    let wrong = |quadrants: &str, expected: &str| {
        let args = [
            "graph",
            "generate",
            "rmat",
            "--quadrants",
            quadrants,
            "--out",
            text(&out),
        ];
        refused(1, &args, &[expected]);
    };
    wrong("0.5,0.1,0.1,0.1", "four probabilities with sum 1");
}

#[test]
fn types_of_generated_edges_tell_neighbors_apart() {
    let folder = Folder::new();
    let out = folder.join("typed.npz");
    let args = "graph generate planted --vertices 600 --edges 6000 --classes 3 --features 4 --signal 0.3 --homophily 0.5";
    let typed = ["--relations", "4", "--out", text(&out)];
    gnnc(args.split(' ').chain(typed)).report();
    let accuracy = |layer: &str| {
        let model = format!(
            "graph g = \"typed.npz\"
             model m(hidden = 16) on g {{
               let h = x |> {layer}(hidden) |> relu
               loss cross_entropy(h |> {layer}(classes), labels, on = train)
             }}
             train {{ optimizer = adam(lr = 0.02) epochs = 60 allow = [sample] }}"
        );
        let model = folder.file(&format!("{layer}.gir"), model);
        let batches = [
            "--placement",
            "minibatch",
            "--batch",
            "120",
            "--fanouts",
            "4,4",
        ];
        let args = ["train", text(&model), "--format", "json"];
        gnnc(args.iter().chain(&batches)).json()["test_accuracy"]
            .as_f64()
            .unwrap()
    };
    // Half of the neighbors have another class, and only their types say which.
    let (with, without) = (accuracy("rgcn_conv"), accuracy("sage_conv"));
    assert!(with > without + 0.05, "{with}, {without}");
}

#[test]
fn features_are_taken_from_a_file() {
    let (folder, _) = folder(&crate::data::ring());
    let edges = folder.file("g.csv", "0,1\n1,0\n");
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
    npy.extend((header.len() as u16).to_le_bytes());
    npy.extend(header.as_bytes());
    npy.extend((0..6u8).flat_map(|i| f32::from(i).to_le_bytes()));
    let features = folder.file("f.npy", npy);
    let args = [
        "graph",
        "stats",
        text(&edges),
        "--features",
        text(&features),
        "--format",
        "json",
    ];
    assert_eq!(gnnc(args).json()["features"], 3);
}
