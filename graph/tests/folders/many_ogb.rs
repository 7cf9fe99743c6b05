//! Folders of OGB's graph-property data sets.

use super::{Folder, edge_numbers, edges_of, graphs_of, said};
use gnnc_graph::import::{Import, Shares, import, open};
use gnnc_graph::read::LoadOptions;
use gnnc_graph::{Features, Labels};

/// Graphs of 3, 1 and 2 vertices: a path, a vertex and an edge.
fn molecules() -> Folder {
    Folder::new(&[
        ("raw/edge.csv.gz", "0,1\n2,1\n1,0\n"),
        ("raw/num-node-list.csv.gz", "3\n1\n2\n"),
        ("raw/num-edge-list.csv.gz", "2\n0\n1\n"),
        ("raw/node-feat.csv.gz", "1,2\n3,4\n5,6\n7,8\n9,1\n2,3\n"),
        ("raw/edge-feat.csv.gz", "0,1\n2,3\n4,5\n"),
        ("raw/graph-label.csv.gz", "1\n0\n1\n"),
        ("split/scaffold/train.csv.gz", "0\n"),
        ("split/scaffold/valid.csv.gz", "2\n"),
        ("split/scaffold/test.csv.gz", "1\n"),
        ("mapping/mol.csv.gz", "smiles,mol_id\nC,a\nCC,b\nN,c\n"),
    ])
}

#[test]
fn graphs_stand_beside_each_other() {
    let found = molecules().read().unwrap();
    let data = &found.data;
    assert_eq!((data.validate(), data.subjects()), (vec![], 6..9));
    assert_eq!(edges_of(data), [(0, 1), (2, 1), (5, 4)]);
    assert_eq!(edge_numbers(data), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(graphs_of(data), [vec![0, 1, 2], vec![3], vec![4, 5]]);
    let classes = vec![-1, -1, -1, -1, -1, -1, 1, 0, 1];
    assert_eq!(data.labels, Labels::Single(classes));
    assert!(data.train[6] && data.test[7] && data.val[8]);
    assert_eq!((data.id_of(8), data.features.columns()), ("2".into(), 2));
    let said = said(&found);
    assert!(said.contains("3 graphs of 6 vertices"), "{said}");
    assert!(said.contains("ogbg-molhiv"), "{said}");
}

#[test]
fn reverse_edges_have_the_numbers_of_their_edges() {
    let folder = molecules();
    let both = import(&Import {
        symmetrise: true,
        ..folder.options()
    });
    let data = both.unwrap().data;
    assert_eq!(
        edges_of(&data),
        [(1, 0), (0, 1), (2, 1), (1, 2), (5, 4), (4, 5)]
    );
    assert_eq!(
        edge_numbers(&data),
        [0.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0, 3.0, 4.0, 5.0, 4.0, 5.0]
    );
    assert_eq!(graphs_of(&data).concat(), [0, 1, 2, 3, 4, 5]);
    // Other commands name the folder itself.
    let reading = LoadOptions {
        symmetrise: true,
        ..LoadOptions::default()
    };
    let (named, _) = open(folder.path(), &reading).unwrap();
    assert_eq!(named.topology, data.topology);
}

#[test]
fn labels_may_be_numbers_of_all_tasks() {
    let folder = molecules();
    let known = |numbers: &[f32]| {
        let Labels::Values { values, .. } = folder.read().unwrap().data.labels else {
            panic!("no numbers");
        };
        let (of_vertices, of_graphs) = values.split_at(values.len() - numbers.len());
        assert!(of_vertices.iter().all(|value| value.is_nan()));
        assert_eq!(of_graphs, numbers);
    };
    folder.file("raw/graph-label.csv.gz", "-0.5\n2\n1\n");
    known(&[-0.5, 2.0, 1.0]);
    folder.file("raw/graph-label.csv.gz", "1,0\n0,0\n1,1\n");
    known(&[1.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
    // A graph without any label is in no split.
    folder.file("raw/graph-label.csv.gz", "1,0\nnan,\n1,1\n");
    let found = folder.read().unwrap();
    assert!(!found.data.test[7]);
    assert!(said(&found).contains("1 graph of the test split"));
    // One with some labels stays, and those that are unknown stay so.
    folder.file("raw/graph-label.csv.gz", "1,0\n0,nan\n1,1\n");
    let data = folder.read().unwrap().data;
    let known = [6, 7, 8].map(|graph| data.labels.known_share(graph));
    assert_eq!((known, data.test[7]), ([1.0, 0.5, 1.0], true));
    folder.file("task.csv", "1\nnan\n0\n");
    let found = import(&Import {
        labels: Some(folder.path().join("task.csv")),
        ..folder.options()
    });
    let Labels::Single(classes) = found.unwrap().data.labels else {
        panic!("no classes");
    };
    assert_eq!(classes[6..], [1, -1, 0]);
}

#[test]
fn other_splits_labels_and_features_have_rows_for_graphs() {
    let folder = molecules();
    let [mut sizes, mut labels, mut edges] = [const { String::new() }; 3];
    for graph in 0..20 {
        sizes += "2\n";
        labels += ["0\n", "1\n"][usize::from(graph % 4 == 3)];
        edges += "1\n";
    }
    for (file, text) in [
        ("num-node-list", &sizes),
        ("num-edge-list", &edges),
        ("graph-label", &labels),
        ("edge", &"0,1\n".repeat(20)),
        ("edge-feat", &"1\n".repeat(20)),
        ("node-feat", &"1\n".repeat(40)),
    ] {
        folder.file(&format!("raw/{file}.csv.gz"), text);
    }
    let shares = |seed| Shares {
        shares: [0.6, 0.2, 0.2],
        stratified: true,
        seed,
    };
    let split = |seed| {
        let found = import(&Import {
            shares: Some(shares(seed)),
            ..folder.options()
        });
        found.unwrap().data
    };
    let data = split(1);
    let Labels::Single(classes) = &data.labels else {
        panic!("no classes");
    };
    let count = |mask: &[bool], class| {
        let own = mask.iter().zip(classes).filter(|(own, _)| **own);
        own.filter(|(_, own)| **own == class).count()
    };
    let counts = [&data.train, &data.val, &data.test].map(|mask| [0, 1].map(|c| count(mask, c)));
    assert_eq!(counts, [[9, 3], [3, 1], [3, 1]]);
    assert_eq!(split(1).train, data.train);
    assert_ne!(split(2).train, data.train);
    // Without labels, all graphs are split, and no vertices.
    let mut none = data.clone();
    none.labels = Labels::None;
    gnnc_graph::import::divide(&mut none, shares(1));
    let total = |mask: &[bool]| mask.iter().filter(|own| **own).count();
    assert_eq!((total(&none.train), total(&none.train[..40])), (12, 0));
    // Lists, labels and features in files of their own.
    for (list, text) in [("train", "0\n1\n"), ("val", "2\n"), ("test", "19\n")] {
        folder.file(&format!("own/{list}.csv"), text);
    }
    let given = Import {
        splits: Some(folder.path().join("own")),
        ..folder.options()
    };
    let data = import(&given).unwrap().data;
    assert!(data.train[40] && data.train[41] && data.val[42] && data.test[59]);
    folder.file("labels.csv", "0\n".repeat(19));
    let few = Import {
        labels: Some(folder.path().join("labels.csv")),
        ..given
    };
    let error = import(&few).unwrap_err().to_string();
    assert!(
        error.contains("19 rows") && error.contains("20, one for each graph"),
        "{error}"
    );
    let array = folder.path().join("x.npy");
    let mut header = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let shape = "{'descr': '<f4', 'fortran_order': False, 'shape': (40, 1), }";
    header.extend(format!("{shape:<117}\n").bytes());
    header.extend((0..40).flat_map(|n| (n as f32).to_le_bytes()));
    std::fs::write(&array, header).unwrap();
    let own = Import {
        features: Some(array),
        ..folder.options()
    };
    folder.file("split/scaffold/train.csv.gz", "3\n");
    let features = import(&own).unwrap().data.features;
    let expected = (0..40).map(|n| n as f32).chain([0.0; 20]).collect();
    assert_eq!(features, Features::dense(60, 1, expected));
}

#[test]
fn what_does_not_fit_is_refused() {
    for (file, text, expected) in [
        (
            "num-node-list",
            "3\n1\n",
            "3 rows is not supported; expected 2, as many as",
        ),
        (
            "num-node-list",
            "3\n1\n4000000000\n",
            "expected 4000000004, as many as",
        ),
        ("num-node-list", "4294967294\n9\n9\n", "4294967312 vertices"),
        (
            "num-edge-list",
            "2\n1\n",
            "2 rows is not supported; expected 3",
        ),
        (
            "num-edge-list",
            "2\n0\n2\n",
            "3 rows is not supported; expected 4",
        ),
        (
            "num-edge-list",
            "2\n0\n0\n",
            "3 rows is not supported; expected 2",
        ),
        (
            "num-edge-list",
            "1\n1\n1\n",
            "expected a number from 0 to 0: graph 1 has 1 vertex",
        ),
        (
            "edge",
            "0,1\n3,1\n1,0\n",
            "found `3`, expected a number from 0 to 2: graph 0 has 3",
        ),
        ("edge", "0,1\n2,1\n", "2 rows is not supported; expected 3"),
        ("edge", "0,1\n2,1\n-1,0\n", "found `-1`, expected a number"),
        ("edge", "0\n2\n1\n", "found ``, expected a number"),
        ("edge-feat", "1\n2\n", "2 rows is not supported; expected 3"),
        ("node-feat", "1\n2\n", "2 rows is not supported; expected 6"),
        (
            "graph-label",
            "1\n2\n",
            "2 rows is not supported; expected 3",
        ),
        ("graph-label", "1\ninf\n0\n", "the label inf in row 2"),
        ("graph-label", "1\n-7\n0\n", "the first is -7 of graph 1"),
        (
            "graph-label",
            "a b\nc d\ne f\n",
            "found `a`, expected a number",
        ),
    ] {
        let folder = molecules();
        folder.file(&format!("raw/{file}.csv.gz"), text);
        folder.refused(expected);
    }
    let folder = molecules();
    folder.file("split/scaffold/test.csv.gz", "3\n");
    folder.refused("found `3`, expected a number from 0 to 2");
    folder.file("split/scaffold/test.csv.gz", "0\n");
    folder.refused("1 graph in both the train and the test split, the first is graph 0");
    for (file, expected) in [
        (
            "graph-label",
            "a data set of 3 graphs without graph-label.csv.gz",
        ),
        (
            "num-edge-list",
            "a data set of 3 graphs without num-edge-list.csv.gz",
        ),
        ("edge", "a folder without a graph"),
    ] {
        let folder = molecules();
        folder.remove(&format!("raw/{file}.csv.gz"));
        folder.refused(expected);
    }
    // A number of vertices claims no memory.
    let folder = molecules();
    folder.remove("raw/node-feat.csv.gz");
    folder.file("raw/num-node-list.csv.gz", "3\n1\n4000000000\n");
    folder.refused("4000000004 vertices for 3 edges");
    let folder = molecules();
    folder.file("raw/edge.csv", "");
    let path = folder.path().join("raw/edge.csv.gz");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    folder.refused("edge.csv.gz");
}

#[test]
fn a_graph_may_have_no_vertices() {
    let folder = molecules();
    folder.file("raw/num-node-list.csv.gz", "3\n0\n3\n");
    let found = folder.read().unwrap();
    assert!(graphs_of(&found.data)[1].is_empty());
    assert!(said(&found).contains("1 graph without vertices"));
    folder.file("raw/num-edge-list.csv.gz", "1\n1\n1\n");
    folder.refused("no edges of graph 1, which has 0 vertices");
}
