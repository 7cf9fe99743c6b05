//! `gnnc graph partition --out FOLDER/`, and training from the parts in the folder.

use crate::processes::{numbers, together};
use crate::support::{Folder, example, gnnc, refused, text};
use std::path::PathBuf;

/// A folder with the parts of an example's graph.
fn parts(folder: &Folder, graph: &str, count: &str, partitioner: &str) -> PathBuf {
    let path = folder.join(graph);
    let out = format!("{}/", text(&path));
    let file = example(&format!("data/{graph}.npz"));
    let args = [
        "graph",
        "partition",
        &file,
        "--parts",
        count,
        "--partitioner",
        partitioner,
        "--out",
        &out,
    ];
    gnnc(args).ok();
    path
}

#[test]
fn parts_train_what_the_whole_graph_trains() {
    let folder = Folder::new();
    for (model, graph, partitioner, placement) in [
        ("gcn_cora.gir", "cora", "metis-edges", "graph"),
        ("gat_cora.gir", "squirrel", "hash", "graph"),
        ("gcn_cora.gir", "cora", "hash", "push-pull"),
        ("sage_cora.gir", "photo", "metis", "push-pull"),
        ("gat_cora.gir", "squirrel", "hash", "push-pull"),
    ] {
        let parts = parts(&folder, graph, "4", partitioner);
        let (model, file) = (example(model), example(&format!("data/{graph}.npz")));
        let train = [
            "train",
            &model,
            "--epochs",
            "4",
            "--workers",
            "4",
            "--placement",
            placement,
            "--format",
            "json",
        ];
        let whole = [
            &train[..],
            &["--graph", &file, "--partitioner", partitioner],
        ]
        .concat();
        let by_part = [&train[..], &["--graph", text(&parts)]].concat();
        let expected = numbers(&gnnc(whole).ok());
        let what = format!("{model} on {graph}, {placement}");
        assert_eq!(numbers(&gnnc(by_part.clone()).ok()), expected, "{what}");
        let Some(run) = together(2, &by_part) else {
            continue;
        };
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert_eq!(numbers(&run.stdout), expected, "{what}, in processes");
    }
}

/// Batches are drawn by asking for edges, without an option that says so.
#[test]
fn batches_on_parts_are_those_of_the_whole_graph() {
    let folder = Folder::new();
    for (model, graph, partitioner, more) in [
        ("gcn_cora.gir", "cora", "metis", ""),
        (
            "sage_cora.gir",
            "cora",
            "hash",
            "--roots dealt --sampler labor",
        ),
        (
            "gat_cora.gir",
            "squirrel",
            "hash",
            "--eval-fanouts 4,4 --roots own",
        ),
    ] {
        let parts = parts(&folder, graph, "4", partitioner);
        let (model, file) = (example(model), example(&format!("data/{graph}.npz")));
        let options = "--placement minibatch --allow sample --batch 70 --fanouts 4,3 --workers 4 --epochs 3 --format json";
        let words: Vec<&str> = options.split(' ').chain(more.split_whitespace()).collect();
        let train = [&["train", &model][..], &words].concat();
        let whole = [
            "--graph",
            &file,
            "--partitioner",
            partitioner,
            "--topology",
            "own",
        ];
        let by_part = [&train[..], &["--graph", text(&parts)]].concat();
        let mut expected = numbers(&gnnc([&train[..], &whole[..]].concat()).ok());
        let mut found = vec![numbers(&gnnc(by_part.clone()).ok())];
        if let Some(run) = together(2, &by_part) {
            assert_eq!(run.code, Some(0), "{}", run.stderr);
            found.push(numbers(&run.stdout));
        }
        for mut found in found {
            // Nobody knows beforehand how large batches are.
            for said in [&mut expected, &mut found] {
                said.as_object_mut().unwrap().remove("grown");
            }
            assert_eq!(found, expected, "{graph}");
        }
    }
}

#[test]
fn plans_of_parts_know_their_statistics() {
    let folder = Folder::new();
    let parts = parts(&folder, "cora", "4", "metis");
    let model = example("gcn_cora.gir");
    let plan = |graph: &str, cluster: &[&str]| {
        let args = [
            "plan",
            &model,
            "--graph",
            graph,
            "--pin",
            "placement=graph,ranks=4,partitioner=metis",
        ];
        gnnc(args.iter().chain(cluster).chain(&["--format", "json"])).json()
    };
    let cluster = ["--cluster", "cpu", "--gpus", "4"];
    let found = plan(text(&parts), &cluster);
    let whole = plan(&example("data/cora.npz"), &cluster);
    for key in ["bytes_sent", "epoch_seconds", "parameters"] {
        assert_eq!(
            found["candidates"][0][key], whole["candidates"][0][key],
            "{key}"
        );
    }
}

#[test]
fn what_parts_cannot_do_is_refused() {
    let folder = Folder::new();
    let parts = parts(&folder, "cora", "2", "metis");
    let model = example("gcn_cora.gir");
    let with = |more: &[&'static str], part: &str| {
        let train = ["train", &model, "--graph", text(&parts), "--epochs", "1"];
        refused(1, &[&train[..], more].concat(), &[part]);
    };
    with(&["--workers", "3"], "expected 2, one for each part");
    with(
        &["--workers", "2", "--partitioner", "hash"],
        "made by metis",
    );
    with(
        &["--workers", "2", "--device-memory", "1GiB"],
        "--device-memory with a folder of parts",
    );
    let batches = [
        "--allow",
        "sample",
        "--batch",
        "70",
        "--fanouts",
        "5,5",
        "--workers",
        "2",
        "--placement",
    ];
    with(
        &[&batches[..], &["minibatch", "--topology", "all"]].concat(),
        "placement minibatch: it draws batches from all edges",
    );
    with(
        &[&batches[..], &["minibatch", "--check", "bytes"]].concat(),
        "--check bytes with a folder of parts",
    );
    with(
        &[&batches[..], &["push-pull"]].concat(),
        "placement push-pull: it draws batches from all edges",
    );
    with(
        &["--workers", "2", "--placement", "tensor"],
        "placement tensor: it walks the edges of all vertices",
    );
    with(
        &["--workers", "2", "--placement", "broadcast"],
        "placement broadcast: it has rows of all vertices",
    );
    let lost = folder.join("cora").join("part-1.npz");
    std::fs::write(&lost, "nothing").unwrap();
    with(&["--workers", "2"], "write the folder again");
}
