//! Predictions about graphs and about pairs of vertices, from files to tables.

use super::support::{Folder, example, gnnc, refused, text};
use serde_json::Value;
use std::fs::read_to_string;

/// Runs a command and reads its report.
fn report(command: &[&str]) -> Value {
    gnnc(command.iter().copied().chain(["--format", "json"])).json()
}

fn near(a: &Value, b: &Value) {
    let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
    assert!((a - b).abs() <= 1e-4 * a.abs(), "{a} and {b}");
}

/// Graph regression: pools rows of atoms, trains on 1, 2 and 4 workers, and predicts each molecule by its
/// number.
#[test]
fn each_graph_has_a_prediction() {
    let folder = Folder::new();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (model, run, table) = (
        example("gine_solubility.gir"),
        path("run.ckpt"),
        path("p.csv"),
    );
    let train = |workers: &str, more: &[&str]| {
        let base = ["train", &model, "--epochs", "3", "--workers", workers];
        report(&[&base, more].concat())
    };
    let one = train("1", &["--checkpoint", &run, "--placement", "graph"]);
    assert_eq!(one["metric"], "rmse", "{one}");
    for (workers, placement) in [
        ("2", "graph"),
        ("4", "graph"),
        ("2", "tensor"),
        ("4", "mixed"),
    ] {
        near(
            &one["train_loss"],
            &train(workers, &["--placement", placement])["train_loss"],
        );
    }
    let predict = ["predict", &model, "--checkpoint", &run, "--out", &table];
    assert_eq!(report(&predict)["predictions"], 1274);
    let text = read_to_string(&table).unwrap();
    let ids: Vec<&str> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap())
        .collect();
    let numbers: Vec<String> = (0..1274).map(|n: u32| n.to_string()).collect();
    assert_eq!(ids, numbers);
    let stats = gnnc(["graph", "stats", &example("data/solubility.npz")]).ok();
    assert!(stats.contains("16_508 edges of graphs"), "{stats}");
    // Embeddings of molecules, or of their atoms.
    let rows = |vertices: &str| {
        let more = ["--embeddings", "h", "--vertices", vertices];
        report(&[&predict[..], &more].concat())["embeddings"].clone()
    };
    assert_eq!((rows("all"), rows("inside")), (1274.into(), 16508.into()));
    let text = read_to_string(&table).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("16507,"), "{last}");
}

/// Batches of graphs: each keeps all edges inside its molecules.
#[test]
fn batches_of_graphs_train_alike_on_any_number_of_workers() {
    let model = example("gine_solubility.gir");
    let train = |workers: &str, placement: &str| {
        let base = ["train", &model, "--epochs", "2", "--workers", workers];
        let batches = [
            "--allow",
            "sample",
            "--batch",
            "32",
            "--fanouts",
            "all,all,all,all",
        ];
        report(
            &[
                &base[..],
                &batches,
                &["--placement", placement, "--check", "bytes"],
            ]
            .concat(),
        )
    };
    let one = train("1", "minibatch");
    for (workers, placement) in [("2", "minibatch"), ("4", "minibatch"), ("2", "push-pull")] {
        near(&one["train_loss"], &train(workers, placement)["train_loss"]);
    }
    // Two epochs of 32 steps are worth more than two steps.
    let whole = report(&["train", &model, "--epochs", "2", "--placement", "graph"]);
    assert!(
        one["test_rmse"].as_f64() < whole["test_rmse"].as_f64(),
        "{one} {whole}"
    );
    let plan = ["plan", &model, "--gpus", "4", "--allow", "sample"];
    let batches = [
        "--pin",
        "placement=minibatch",
        "--batch",
        "32",
        "--fanouts",
        "all,all,all,all",
    ];
    let planned = report(&[&plan[..], &batches].concat());
    assert_eq!(
        planned["candidates"][0]["placement"], "minibatch",
        "{planned}"
    );
}

/// Many samples on one graph: grid, mesh and grid, with parts by coordinates or by METIS.
#[test]
fn samples_on_one_graph_train_alike_on_any_number_of_workers() {
    let folder = Folder::new();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (run, table) = (path("run.ckpt"), path("p.csv"));
    let model = example("mesh_tracer.gir");
    let train = |workers: &str, more: &[&str]| {
        let base = ["train", &model, "--epochs", "3", "--workers", workers];
        report(&[&base, more].concat())
    };
    let one = train("1", &["--checkpoint", &run]);
    assert_eq!(one["metric"], "r2", "{one}");
    for (workers, partitioner, placement) in [
        ("2", "metis", "graph"),
        ("4", "morton", "graph"),
        ("2", "morton", "tensor"),
    ] {
        let more = ["--partitioner", partitioner, "--placement", placement];
        near(&one["train_loss"], &train(workers, &more)["train_loss"]);
    }
    let predict = [
        "predict",
        &model,
        "--checkpoint",
        &run,
        "--out",
        &table,
        "--vertices",
        "test",
    ];
    assert_eq!(report(&predict)["predictions"], 4 * 576);
    let text = read_to_string(&table).unwrap();
    let first: usize = text
        .lines()
        .nth(1)
        .unwrap()
        .split(',')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(first, 20 * 720);
    let stats = |name: &str| {
        let graph = example("data/tracer.npz");
        let stats = report(&[
            "graph",
            "stats",
            &graph,
            "--parts",
            "3",
            "--partitioner",
            name,
        ]);
        stats["partitions"]["3"][0]["alpha"].as_f64().unwrap()
    };
    // Eight samples a part: no part reads rows of another.
    assert_eq!(stats("morton"), 0.0);
    assert!(stats("hash") > 0.5);
    let cora = example("gcn_cora.gir");
    let args = ["train", &cora, "--workers", "2", "--partitioner", "morton"];
    refused(1, &args, &["a graph without coordinates", "`pos`"]);
}

/// Link prediction: a split without leaks, the same loss on 1, 2 and 4 workers, scores of rankings, and a
/// prediction for each pair by the ids of its ends.
#[test]
fn links_are_ranked() {
    let folder = Folder::new();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (pairs, run, table) = (path("pairs.npz"), path("run.ckpt"), path("p.csv"));
    let cora = example("data/cora.npz");
    let negatives = [
        "--negatives",
        "2",
        "--eval-negatives",
        "20",
        "--same-source",
    ];
    let links = ["graph", "links", &cora, "--out", &pairs];
    let made = report(&[&links[..], &negatives].concat());
    // 5,278 links: 263 to validate and 527 to test on, each with 20 pairs beside it.
    assert_eq!(
        (&made["edges"], &made["links"]),
        (&8976.into(), &5278.into())
    );
    assert_eq!(
        (&made["val"], &made["test"]),
        (&(263 * 21).into(), &(527 * 21).into())
    );
    let text = "graph g = \"pairs.npz\" { normalize_features = true }
model gae() on g {
  let z = x |> gcn_conv(32) |> relu |> gcn_conv(16)
  loss bce_with_logits(dot_decoder(z), labels, on = train, weights = [2])
}
train { optimizer = adam(lr = 0.01)  epochs = 60  metric = \"mrr\" }\n";
    let model = folder.file("gae.gir", text).to_str().unwrap().to_owned();
    let train = |workers: &str, more: &[&str]| {
        report(&[&["train", &model, "--workers", workers][..], more].concat())
    };
    let one = train("1", &["--checkpoint", &run]);
    // Of 21 pairs in random order, the mean of one over the rank of one of them is 0.174.
    assert!(one["test_mrr"].as_f64().unwrap() > 0.35, "{one}");
    let first = train("1", &["--epochs", "3"]);
    for (workers, placement) in [("2", "graph"), ("4", "graph"), ("2", "tensor")] {
        let more = ["--epochs", "3", "--placement", placement];
        near(&first["train_loss"], &train(workers, &more)["train_loss"]);
    }
    let eval = [
        "eval",
        &model,
        "--checkpoint",
        &run,
        "--metric",
        "hits@50,roc-auc",
        "--vertices",
        "test",
    ];
    assert!(gnnc(eval).ok().contains("Hits@50"));
    let predict = [
        "predict",
        &model,
        "--checkpoint",
        &run,
        "--vertices",
        "test",
        "--out",
        &table,
    ];
    report(&predict);
    let row = read_to_string(&table)
        .unwrap()
        .lines()
        .nth(1)
        .unwrap()
        .to_owned();
    let ends: Vec<u32> = row
        .split(',')
        .next()
        .unwrap()
        .split(' ')
        .map(|id| id.parse().unwrap())
        .collect();
    assert!(ends.len() == 2 && ends.iter().all(|id| *id < 2708), "{row}");
    // Pairs of one's own: two links of the graph, and two vertices that nothing connects.
    let table = folder.file("own.csv", "source,target\n0,633\n1,2\n0,1900\n");
    let own = path("own.npz");
    let links = [
        "graph",
        "links",
        &cora,
        "--out",
        &own,
        "--pairs",
        table.to_str().unwrap(),
    ];
    assert_eq!(report(&links)["pairs"], 3);
    let table = path("own_p.csv");
    let predict = [
        "predict",
        &model,
        "--checkpoint",
        &run,
        "--graph",
        &own,
        "--out",
        &table,
    ];
    report(&[&predict[..], &["--probabilities"]].concat());
    let text = read_to_string(&table).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0], ["id", "class", "p(link)"]);
    let of = |row: usize| (rows[row][0], rows[row][1]);
    assert_eq!(
        (of(1), of(3)),
        (("0 633", "link"), ("0 1900", "")),
        "{text}"
    );
    let sampled = [
        "--placement",
        "minibatch",
        "--allow",
        "sample",
        "--batch",
        "9",
        "--fanouts",
        "2,2,2",
    ];
    refused(
        1,
        &[&["train", &model][..], &sampled].concat(),
        &["found 3 fanouts", "or 2, for those over plain edges alone"],
    );
    // Each link of the test is ranked among all vertices, from both of its ends.
    let eval = ["eval", &model, "--checkpoint", &run, "--rank"];
    let all = report(&[&eval[..], &["all"]].concat());
    assert_eq!(
        (&all["candidates"], &all["ranks"]),
        (&2708.into(), &1054.into())
    );
    let few = folder.file("few.txt", "5\n\n700\n2707\n");
    let few = report(&[&eval[..], &[few.to_str().unwrap(), "--metric", "mrr"]].concat());
    assert_eq!(
        (&few["candidates"], &few["ranks"]),
        (&3.into(), &1054.into())
    );
    let mrr = |of: &serde_json::Value| of["scores"]["mrr"].as_f64().unwrap();
    assert!(
        mrr(&few) > 2.0 * mrr(&all) && mrr(&all) > 0.01,
        "{few} {all}"
    );
    let wrong = folder.file("wrong.txt", "5\nnobody\n");
    let wrong = wrong.to_str().unwrap();
    refused(
        1,
        &[&eval[..], &[wrong]].concat(),
        &["line 2", "\"nobody\""],
    );
    let other = [&eval[..], &["all", "--metric", "roc-auc"]].concat();
    refused(1, &other, &["expected one of mrr"]);
}

/// A model to begin with pools the rows of each graph, or compares those of the ends of each pair.
#[test]
fn models_to_begin_with_are_about_graphs_and_pairs() {
    let folder = Folder::new();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (pairs, model) = (path("pairs.npz"), path("model.gir"));
    report(&["graph", "links", &example("data/cora.npz"), "--out", &pairs]);
    let molecules = example("data/solubility.npz");
    for (data, last, about) in [
        (&molecules, "|> pool", "Numbers for each graph"),
        (&pairs, "|> dot_decoder", "Whether each pair is a link"),
    ] {
        for layer in ["gcn", "sage", "gat", "gin"] {
            report(&["new", data, "--layer", layer, "--force", "--out", &model]);
            let text = read_to_string(&model).unwrap();
            assert!(text.contains(last) && text.contains(about), "{text}");
            report(&["train", &model, "--epochs", "1"]);
        }
    }
}

/// Reverse edges would mix the sets.
#[test]
fn sets_of_edges_get_no_reverse_edges() {
    let folder = Folder::new();
    let out = folder.join("both.npz").to_str().unwrap().to_owned();
    let molecules = example("data/solubility.npz");
    let convert = ["graph", "convert", &molecules, "--symmetrize", &out];
    refused(1, &convert, &["named sets of edges (graphs)"]);
    let stats = ["graph", "stats", &molecules, "--symmetrize"];
    refused(1, &stats, &["named sets of edges (graphs)"]);
}

#[test]
fn pairs_that_cannot_be_made_are_refused() {
    let folder = Folder::new();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (cora, out) = (example("data/cora.npz"), path("pairs.npz"));
    let links = |more: &[&str], parts: &[&str]| {
        refused(
            1,
            &[&["graph", "links", &cora, "--out", &out][..], more].concat(),
            parts,
        );
    };
    links(
        &["--val", "0.9", "--test", "0.9"],
        &["links are left to train on"],
    );
    links(&["--negatives", "0"], &["--negatives"]);
    let text = path("pairs.csv");
    refused(
        1,
        &["graph", "links", &cora, "--out", &text],
        &["ends in .npz"],
    );
    // A graph of pairs has no pairs of its own.
    report(&["graph", "links", &cora, "--out", &out]);
    let again = path("again.npz");
    refused(
        1,
        &["graph", "links", &out, "--out", &again],
        &["named sets of edges (sources, targets)"],
    );
}

/// `links = 5` makes the pairs that `gnnc graph links --negatives 5` makes.
#[test]
fn models_make_pairs_of_a_graph() {
    let folder = Folder::new();
    let (cora, pairs) = (
        example("data/cora.npz"),
        text(&folder.join("p.npz")).to_owned(),
    );
    gnnc(["graph", "links", &cora, "--negatives", "5", "--out", &pairs]).ok();
    let model = |graph: &str, option: &str| {
        let body = format!(
            "graph g = \"{graph}\" {{ normalize_features = true {option} }}
model gae() on g {{
  let z = x |> gcn_conv(16) |> relu |> gcn_conv(8)
  loss bce_with_logits(dot_decoder(z), labels, on = train, weights = [5])
}}
train {{ epochs = 3  metric = \"roc_auc\" }}\n"
        );
        text(&folder.file("m.gir", body)).to_owned()
    };
    let train = |model: String, more: &[&str]| report(&[&["train", &model], more].concat());
    let run = text(&folder.join("run.ckpt")).to_owned();
    let given = train(model(&pairs, ""), &[]);
    let made = train(model(&cora, "links = 5"), &["--checkpoint", &run]);
    for key in ["train_loss", "test_roc_auc"] {
        assert_eq!(
            (&made[key], made[key].is_null()),
            (&given[key], false),
            "{key}"
        );
    }
    // Pairs of a file stay what they are.
    let model = model(&cora, "links = 5");
    let table = text(&folder.join("t.csv")).to_owned();
    let predict = [
        "predict",
        &model,
        "--checkpoint",
        &run,
        "--graph",
        &pairs,
        "--out",
        &table,
    ];
    gnnc(predict.iter().chain(&["--vertices", "test"])).ok();
    assert_eq!(read_to_string(&table).unwrap().lines().count(), 1 + 2 * 527);
    let wrong = text(
        &folder.file(
            "w.gir",
            read_to_string(&model)
                .unwrap()
                .replace("links = 5", "links = 0"),
        ),
    )
    .to_owned();
    refused(1, &["check", &wrong], &["links"]);
}
