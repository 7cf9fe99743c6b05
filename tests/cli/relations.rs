//! Graphs with edge types, and graphs without features.

use crate::data::{longs, npz};
use crate::support::{Folder, gnnc, refused, text};
use std::path::PathBuf;

/// A ring of 12 vertices in both directions, one type each, without features.
fn ring(folder: &Folder, typed: bool) -> PathBuf {
    let graph = folder.join("ring.npz");
    let indptr: Vec<i64> = (0..=12).map(|v| 2 * v).collect();
    let sources = (0..12).flat_map(|v: i64| [(v + 11) % 12, (v + 1) % 12]);
    let indices: Vec<i64> = sources.collect();
    let kinds: Vec<i64> = (0..24).map(|edge| edge % 2).collect();
    let labels: Vec<i64> = (0..12).map(|v| v / 6).collect();
    let mask = |of: usize| (0..12).map(|v| u8::from(v % 3 == of)).collect::<Vec<u8>>();
    let mut arrays = vec![
        ("indptr", "<i8", "(13,)", longs(&indptr)),
        ("indices", "<i8", "(24,)", longs(&indices)),
        ("labels", "<i8", "(12,)", longs(&labels)),
        ("train_mask", "|b1", "(12,)", mask(0)),
        ("val_mask", "|b1", "(12,)", mask(1)),
        ("test_mask", "|b1", "(12,)", mask(2)),
    ];
    if typed {
        arrays.push(("edge_type", "<i8", "(24,)", longs(&kinds)));
    }
    npz(&graph, &arrays);
    graph
}

fn model(folder: &Folder, options: &str, bases: u32) -> PathBuf {
    let text = format!(
        "graph g = \"ring.npz\" {{ {options} }}
         model m(bases = {bases}) on g {{
           let h = x |> rgcn_conv(4, bases) |> relu
           loss cross_entropy(h |> rgcn_conv(classes), labels)
         }}
         train {{ epochs = 3 }}"
    );
    folder.file("m.gir", text)
}

#[test]
fn relations_are_trained_planned_and_counted() {
    let folder = Folder::new();
    let graph = ring(&folder, true);
    let report = gnnc(["graph", "stats", text(&graph)]).report();
    assert!(
        report.contains("24 edges, symmetric, 2 relations"),
        "{report}"
    );
    for bases in [0, 2] {
        let model = model(&folder, "features = identity", bases);
        let loss = |workers: &str| {
            let args = [
                "train",
                text(&model),
                "--workers",
                workers,
                "--format",
                "json",
            ];
            let summary = gnnc(args).json();
            summary["train_loss"].as_f64().unwrap_or(f64::NAN)
        };
        let (one, three) = (loss("1"), loss("3"));
        assert!((one - three).abs() < 1e-5, "{one} {three}");
        gnnc(["plan", text(&model), "--gpus", "4"]).report();
    }
}

#[test]
fn what_a_graph_lacks_is_said() {
    let folder = Folder::new();
    ring(&folder, true);
    let without = model(&folder, "", 2);
    let parts = ["has no input features", "`features = identity`"];
    refused(1, &["train", text(&without)], &parts);
    let misspelt = model(&folder, "features = identities", 2);
    refused(1, &["train", text(&misspelt)], &["E0403", "`identity`"]);

    ring(&folder, false);
    let untyped = model(&folder, "features = identity", 2);
    refused(1, &["train", text(&untyped)], &["E0312", "`edge_type`"]);
}

#[test]
fn reverses_have_relations_of_their_own() {
    let folder = Folder::new();
    let (graph, both) = (ring(&folder, true), folder.join("both.npz"));
    gnnc([
        "graph",
        "convert",
        text(&graph),
        text(&both),
        "--symmetrise",
    ])
    .ok();
    let report = gnnc(["graph", "stats", text(&both)]).report();
    assert!(
        report.contains("48 edges, symmetric, 4 relations"),
        "{report}"
    );
    let list = folder.join("both.csv");
    let said = gnnc(["graph", "convert", text(&both), text(&list)]).ok();
    assert!(said.contains("edge types"), "{said}");
}
