//! Folders of the Open Graph Benchmark.

use super::arrays::{archive, array, i64s};
use super::{Folder, edges_of, said};
use gnnc_graph::import::{Import, import};
use gnnc_graph::{Features, Labels};

/// A path of 0 -> 1 -> 2 with two features a vertex, and the labels 1, none and 0.
fn path() -> Folder {
    Folder::new(&[
        ("raw/edge.csv.gz", "0,1\n1,2\n"),
        ("raw/num-node-list.csv.gz", "3\n"),
        ("raw/num-edge-list.csv.gz", "2\n"),
        ("raw/node-feat.csv.gz", "0.5,1\n-2,3\n4,5e-1\n"),
        ("raw/node-label.csv.gz", "1\nnan\n0\n"),
        ("split/time/train.csv.gz", "0\n1\n"),
        ("split/time/valid.csv.gz", "2\n"),
        ("split/time/test.csv.gz", ""),
    ])
}

#[test]
fn tables_of_a_data_set_are_read() {
    let set = path();
    set.file("raw/edge-feat.csv.gz", "0.1\n0.2\n");
    set.file(
        "mapping/nodeidx2paperid.csv.gz",
        "node idx,paper id\n0,p9\n1,p7\n2,p8\n",
    );
    set.file(
        "mapping/labelidx2name.csv.gz",
        "label idx,name\n0,cs.AI\n1,\"cs.A, b\"\n2,none\n",
    );
    let found = set.read().unwrap();
    let data = &found.data;
    assert_eq!(edges_of(data), [(0, 1), (1, 2)]);
    assert_eq!(data.labels, Labels::Single(vec![1, -1, 0]));
    let values = vec![0.5, 1.0, -2.0, 3.0, 4.0, 0.5];
    assert_eq!(
        data.features,
        Features::dense(3, 2, values).in_best_storage()
    );
    // The second vertex has no label.
    assert_eq!(
        (&data.train[..], data.val[2]),
        (&[true, false, false][..], true)
    );
    assert_eq!(data.ids.iter().collect::<Vec<_>>(), ["p9", "p7", "p8"]);
    assert_eq!(
        data.class_names.iter().collect::<Vec<_>>(),
        ["cs.AI", "cs.A, b"]
    );
    assert_eq!(data.edge_features.values, [0.1, 0.2]);
    assert_eq!(found.dropped.not_used, [""; 0]);
    assert!(said(&found).contains("--symmetrize"), "{}", said(&found));
    let both = import(&Import {
        symmetrise: true,
        ..set.options()
    });
    assert_eq!(both.unwrap().data.topology.edges(), 4);
}

#[test]
fn rows_of_several_labels_are_kept() {
    let set = path();
    set.file("raw/node-label.csv.gz", "1,0,1\n0,0,0\n0,1,0\n");
    let values = vec![1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
    let data = set.read().unwrap().data;
    assert_eq!(data.labels, Labels::Values { width: 3, values });
    set.file("raw/node-label.csv.gz", "1,0,1\n0,inf,0\n0,1,0\n");
    set.refused("in `labels`, the first is inf at vertex 1");
}

#[test]
fn arrays_of_a_large_data_set_are_read() {
    let set = path();
    for table in [
        "edge",
        "num-node-list",
        "num-edge-list",
        "node-feat",
        "node-label",
    ] {
        set.remove(&format!("raw/{table}.csv.gz"));
    }
    set.refused("a folder without a graph");
    let floats =
        |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let ends: Vec<u8> = [0i64, 1, 1, 2]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let arrays = |sizes: &[i64], ends: &[u8]| {
        archive(&[
            ("edge_index", array("<i8", "(2, 2)", ends)),
            (
                "node_feat",
                array("<f4", "(3, 1)", &floats(&[1.0, 2.0, 3.0])),
            ),
            ("num_nodes_list", i64s(sizes)),
            ("num_edges_list", i64s(&[2])),
            ("node_year", i64s(&[1990, 1991, 1992])),
        ])
    };
    set.file("raw/data.npz", arrays(&[3], &ends));
    let labels =
        |values: &[f32]| archive(&[("node_label", array("<f4", "(3, 1)", &floats(values)))]);
    set.file("raw/node-label.npz", labels(&[2.0, f32::NAN, 0.0]));
    let found = set.read().unwrap();
    assert_eq!(edges_of(&found.data), [(0, 1), (1, 2)]);
    assert_eq!(found.data.labels, Labels::Single(vec![2, -1, 0]));
    assert_eq!(found.data.features.columns(), 1);
    assert_eq!(found.dropped.not_used, ["`node_year`"]);
    set.file("raw/node-label.npz", labels(&[2.5, 0.0, 0.0]));
    let values = vec![2.5, 0.0, 0.0];
    let labels = set.read().unwrap().data.labels;
    assert_eq!(labels, Labels::Values { width: 1, values });
    set.file("raw/data.npz", arrays(&[3, 4], &ends));
    set.refused("a data set of 2 graphs");
    set.file("raw/data.npz", arrays(&[2], &ends));
    set.refused("index 2");
    // Only the number of vertices says that there are many: rows of no numbers prove nothing.
    for rows in ["(3, 1)", "(4000000000, 0)"] {
        let bytes = match rows {
            "(3, 1)" => floats(&[1.0, 2.0, 3.0]),
            _ => Vec::new(),
        };
        let file = archive(&[
            ("edge_index", array("<i8", "(2, 2)", &ends)),
            ("node_feat", array("<f4", rows, &bytes)),
            ("num_nodes_list", i64s(&[4_000_000_000])),
        ]);
        set.file("raw/data.npz", &file);
        set.refused("4000000000 vertices for 2 edges");
    }
    set.file("raw/data.npz", b"PK\x03\x04 and no more");
    set.refused("damaged archive");
}

#[test]
fn one_of_several_splits_is_chosen_by_name() {
    let set = path();
    for (list, text) in [("train", "2\n"), ("valid", "0\n"), ("test", "")] {
        set.file(&format!("split/random/{list}.csv.gz"), text);
    }
    set.refused(
        "a data set with 2 splits is not supported; expected one of random, time as --split-name",
    );
    let named = |name: &str| {
        import(&Import {
            split_name: Some(name.to_owned()),
            ..set.options()
        })
    };
    assert_eq!(named("random").unwrap().data.train, [false, false, true]);
    assert!(
        named("other")
            .unwrap_err()
            .to_string()
            .contains("split `other`")
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    for (file, text, expected) in [
        (
            "raw/num-node-list.csv.gz",
            "3\n4\n",
            "a data set of 2 graphs",
        ),
        (
            "raw/num-node-list.csv.gz",
            "4\n",
            "3 rows is not supported; expected 4",
        ),
        ("raw/num-node-list.csv.gz", "x\n", "found `x`"),
        ("raw/num-node-list.csv.gz", "", "a data set of 0 graphs"),
        ("raw/num-edge-list.csv.gz", "7\n", "2 rows"),
        (
            "raw/edge.csv.gz",
            "0,1\n1,3\n",
            "found `3`, expected a number from 0 to 2",
        ),
        ("raw/edge.csv.gz", "0,1\n1\n", "expected 2 fields"),
        ("raw/edge.csv.gz", "0\n1\n", "expected a number"),
        (
            "raw/node-feat.csv.gz",
            "1\n2\nx\n",
            "found `x`, expected a number",
        ),
        (
            "raw/node-feat.csv.gz",
            "1\n2\n\"\"\n",
            "1 non-finite number in `features`",
        ),
        (
            "split/time/test.csv.gz",
            "3\n",
            "expected a number from 0 to 2",
        ),
        (
            "raw/num-node-dict.csv.gz",
            "3,4\n",
            "a data set of 0 graphs",
        ),
    ] {
        let set = path();
        set.file(file, text);
        set.refused(expected);
    }
    let set = path();
    set.remove("split/time/valid.csv.gz");
    set.refused("a split without valid.csv.gz");
    // Few bytes claim no memory.
    let set = path();
    for table in ["node-feat", "node-label"] {
        set.remove(&format!("raw/{table}.csv.gz"));
    }
    set.file("raw/num-node-list.csv.gz", "4000000000\n");
    set.refused("4000000000 vertices for 2 edges");
    let empty = Folder::new(&[]);
    empty.refused("a directory of another kind");
    let nodes = Some("nodes.csv".into());
    let error = import(&Import {
        nodes,
        ..path().options()
    })
    .unwrap_err();
    assert!(
        error.to_string().contains("--nodes with this source"),
        "{error}"
    );
}
