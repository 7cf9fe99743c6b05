//! Folders of TU Dortmund's data sets.

use super::{Folder, edge_numbers, edges_of, graphs_of, said};
use gnnc_graph::import::{Import, Shares, import};
use gnnc_graph::{Features, Labels};

/// A triangle's path and an edge, in both directions.
fn pair() -> Folder {
    Folder::new(&[
        ("TWO_A.txt", "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n"),
        ("TWO_graph_indicator.txt", "1\n1\n1\n2\n2\n"),
        ("TWO_graph_labels.txt", "1\n-1\n"),
        ("TWO_node_labels.txt", "2\n0\n2\n0\n1\n"),
        ("TWO_edge_labels.txt", "5\n5\n6\n6\n5\n5\n"),
        ("README.txt", "A data set.\n"),
    ])
}

#[test]
fn labels_become_columns_and_classes() {
    let folder = pair();
    let found = folder.read().unwrap();
    let data = &found.data;
    assert_eq!(data.validate(), []);
    assert_eq!(
        edges_of(data),
        [(1, 0), (0, 1), (2, 1), (1, 2), (4, 3), (3, 4)]
    );
    assert_eq!(graphs_of(data), [vec![0, 1, 2], vec![3, 4]]);
    assert_eq!(data.labels, Labels::Single(vec![-1, -1, -1, -1, -1, 1, 0]));
    assert_eq!(data.class_names.iter().collect::<Vec<_>>(), ["-1", "1"]);
    let rows = [
        [0.0, 0.0, 1.0],
        [1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0],
        [1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0],
        [0.0; 3],
        [0.0; 3],
    ];
    let expected = Features::dense(7, 3, rows.concat()).in_best_storage();
    assert_eq!(data.features, expected);
    let rows = [
        [1.0, 0.0],
        [1.0, 0.0],
        [0.0, 1.0],
        [0.0, 1.0],
        [1.0, 0.0],
        [1.0, 0.0],
    ];
    assert_eq!(edge_numbers(data), rows.concat());
    assert!(said(&found).contains("--split makes a random one"));
    // Classes that count from 0 need no names.
    folder.file("TWO_graph_labels.txt", "0\n1\n");
    assert!(folder.read().unwrap().data.class_names.is_empty());
    // The folder as PyTorch Geometric keeps it.
    let nested = Folder::new(&[]);
    let raw = nested.path().join("raw");
    std::fs::create_dir(&raw).unwrap();
    for entry in folder.path().read_dir().unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, raw.join(path.file_name().unwrap())).unwrap();
    }
    assert_eq!(graphs_of(&nested.read().unwrap().data).len(), 2);
}

#[test]
fn attributes_come_before_labels() {
    let folder = pair();
    folder.file(
        "TWO_node_attributes.txt",
        "0.5, 0\n-1, 2\n0, 0\n3e1, 4\n5, 6\n",
    );
    folder.file("TWO_edge_attributes.txt", "1\n2\n3\n4\n5\n6\n");
    folder.file("TWO_graph_attributes.txt", "1, 2.5\n3, 4\n");
    let found = folder.read().unwrap();
    let data = &found.data;
    assert_eq!(data.features.columns(), 5);
    // By target, then source: 2 -> 1, 1 -> 2, 3 -> 2, ..
    assert_eq!(edge_numbers(data)[..6], [2.0, 1.0, 0.0, 1.0, 1.0, 0.0]);
    let Labels::Values { width: 2, values } = &data.labels else {
        panic!("no numbers");
    };
    assert_eq!(values[10..], [1.0, 2.5, 3.0, 4.0]);
    assert!(said(&found).contains("TWO_graph_labels.txt: not used"));
    for table in [
        "node_labels",
        "edge_labels",
        "edge_attributes",
        "graph_labels",
    ] {
        folder.remove(&format!("TWO_{table}.txt"));
    }
    let data = folder.read().unwrap().data;
    assert_eq!(
        (data.features.columns(), data.edge_features.columns),
        (2, 0)
    );
    folder.remove("TWO_node_attributes.txt");
    let found = folder.read().unwrap();
    assert_eq!(found.data.features, Features::None);
    assert!(said(&found).contains("vertices without features"));
}

#[test]
fn graphs_are_split_at_random() {
    let folder = Folder::new(&[]);
    let [mut edges, mut graphs, mut labels] = [const { String::new() }; 3];
    for graph in 0..30 {
        let first = 1 + 2 * graph;
        edges += &format!("{first}, {}\n{}, {first}\n", first + 1, first + 1);
        graphs += &format!("{0}\n{0}\n", graph + 1);
        labels += &format!("{}\n", 1 + graph % 3);
    }
    folder.file("T_A.txt", &edges);
    folder.file("T_graph_indicator.txt", &graphs);
    folder.file("T_graph_labels.txt", &labels);
    let found = import(&Import {
        shares: Some(Shares {
            shares: [0.8, 0.1, 0.1],
            stratified: true,
            seed: 3,
        }),
        ..folder.options()
    });
    let data = found.unwrap().data;
    assert_eq!(data.validate(), []);
    let count = |mask: &[bool]| mask.iter().filter(|own| **own).count();
    let counts = [&data.train, &data.val, &data.test].map(|mask| count(mask));
    assert_eq!((counts, count(&data.train[..60])), ([24, 3, 3], 0));
}

#[test]
fn what_does_not_fit_is_refused() {
    for (file, text, expected) in [
        (
            "A",
            "1, 2\n2, 6\n",
            "A.txt:2: found `6`, expected a number from 1 to 5",
        ),
        ("A", "0, 1\n", "found `0`, expected a number from 1 to 5"),
        (
            "A",
            "1, 2\n3, 4\n",
            "an edge from vertex 3 of graph 1 to vertex 4 of graph 2",
        ),
        ("A", "1, 2\n2\n", "expected 2 fields"),
        (
            "A",
            "1, 2\n2, 1\n",
            "6 rows is not supported; expected 2, as many as",
        ),
        (
            "graph_indicator",
            "1\n1\n2\n1\n2\n",
            ":4: found graph 1 behind graph 2",
        ),
        (
            "graph_indicator",
            "1\n1\n2\n3\n3\n",
            ":4: found graph 3, expected one of the graphs in",
        ),
        (
            "graph_indicator",
            "1\n1\n1\n1\n1\n",
            "2 rows is not supported; expected 1",
        ),
        (
            "graph_indicator",
            "1\n1\n1\n2\n",
            "expected a number from 1 to 4",
        ),
        (
            "graph_indicator",
            "1\n1\n1\n0\n2\n",
            "found `0`, expected a number from 1",
        ),
        ("graph_indicator", "", "2 rows is not supported; expected 0"),
        ("graph_labels", "1\n", "found graph 2"),
        ("graph_labels", "", "found graph 1"),
        (
            "graph_labels",
            "1\nx\n",
            "found `x`, expected a whole number",
        ),
        ("graph_labels", "1, 2\n1, 3\n", "rows of 2 numbers"),
        (
            "node_labels",
            "1\n2\n",
            "2 rows is not supported; expected 5",
        ),
        (
            "node_labels",
            "0\n0\n0\n0\n9000000000\n",
            "labels from 0 to 9000000000",
        ),
        (
            "node_labels",
            "0\n0\n0\n0.5\n0\n",
            "found `0.5`, expected a whole number",
        ),
        ("edge_labels", "0\n0\n0\n0\n0\n64\n", "labels from 0 to 64"),
        (
            "node_attributes",
            "1\n2\n",
            "2 rows is not supported; expected 5",
        ),
        (
            "node_attributes",
            "1\nnan\n1\n1\n1\n",
            "the first is NaN at vertex 1",
        ),
        (
            "edge_attributes",
            "1\n2\n",
            "2 rows is not supported; expected 6",
        ),
        ("graph_attributes", "1\ninf\n", "the label inf in row 2"),
    ] {
        let folder = pair();
        folder.file(&format!("TWO_{file}.txt"), text);
        folder.refused(expected);
    }
    for (file, expected) in [
        ("A", "a directory of another kind"),
        ("graph_indicator", "without TWO_graph_indicator.txt"),
        ("graph_labels", "without TWO_graph_labels.txt"),
    ] {
        let folder = pair();
        folder.remove(&format!("TWO_{file}.txt"));
        folder.refused(expected);
    }
    // A number of a graph claims no memory, where nothing says how many graphs there are.
    let folder = pair();
    folder.file(
        "TWO_graph_indicator.txt",
        "1\n1\n1\n4294967294\n4294967294\n",
    );
    let own = import(&Import {
        labels: Some(folder.path().join("TWO_graph_labels.txt")),
        ..folder.options()
    });
    let error = own.unwrap_err().to_string();
    assert!(error.contains("no more graphs than vertices"), "{error}");
    let folder = pair();
    folder.file("ONE_A.txt", "");
    folder.refused("a folder of 2 data sets");
    let named = import(&Import {
        split_name: Some("a".to_owned()),
        ..pair().options()
    });
    let error = named.unwrap_err().to_string();
    assert!(error.contains("--split-name with this source"), "{error}");
}
