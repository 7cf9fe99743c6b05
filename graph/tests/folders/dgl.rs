//! Folders of DGL's CSVDataset, and matrices of SciPy.

use super::arrays::{archive, array, i64s};
use super::{Folder, said};
use gnnc_graph::read::{Format, parse_bytes};
use gnnc_graph::{Features, GraphData, GraphError, Labels, LoadOptions, Topology};

const META: &str = "\
dataset_name: small
edge_data:
- file_name: edges_0.csv
  etype: [person, likes, person]
- file_name: edges_1.csv
  etype: [person, knows, person]
  src_id_field: from
  dst_id_field: to
node_data:
- file_name: nodes.csv
  ntype: person
  node_id_field: who
";

const NODES: &str = "\
who,label,train_mask,val_mask,test_mask,feat
ann,1,True,False,False,\"0.5, 1\"
bob,0,False,True,False,\"2,3\"
eve,1,False,False,True,\"4,5e-1\"
";

fn small() -> Folder {
    Folder::new(&[
        ("meta.yaml", META),
        ("nodes.csv", NODES),
        ("edges_0.csv", "src_id,dst_id,feat\nann,bob,\"1,2\"\n"),
        ("edges_1.csv", "to,from\nann,bob\neve,bob\n"),
    ])
}

#[test]
fn tables_of_a_data_set_are_read() {
    let found = small().read().unwrap();
    let data = &found.data;
    assert_eq!(data.ids.iter().collect::<Vec<_>>(), ["ann", "bob", "eve"]);
    let edges: Vec<_> = data.topology.typed_edges().collect();
    assert_eq!(
        (edges, data.topology.relations()),
        (vec![(1, 0, 1), (0, 1, 0), (1, 2, 1)], 2)
    );
    let values = vec![0.5, 1.0, 2.0, 3.0, 4.0, 0.5];
    assert_eq!(
        data.features,
        Features::dense(3, 2, values).in_best_storage()
    );
    assert_eq!(data.labels, Labels::Single(vec![1, 0, 1]));
    assert_eq!(
        (data.train[0], data.val[1], data.test[2]),
        (true, true, true)
    );
    assert!(
        said(&found).contains("not used: `feat`"),
        "{}",
        said(&found)
    );
}

#[test]
fn what_gnnc_cannot_train_on_is_refused() {
    for (from, to, expected) in [
        (
            "ntype: person",
            "ntype: place",
            "edges of vertices of type `person`",
        ),
        ("dataset_name: small", "separator: '--'", "separator \"--\""),
        ("edge_data:", "edges:", "edge_data"),
        (
            "dataset_name: small",
            "graph_data: {file_name: graphs.csv}",
            "a table without the column `graph_id`",
        ),
        (
            "etype: [person, likes, person]",
            "etype: [person]",
            "not as DGL's",
        ),
        ("file_name: nodes.csv", "file_name: none.csv", "none.csv"),
        (
            "src_id_field: from",
            "src_id_field: start",
            "column `start`",
        ),
        ("dataset_name: small", "dataset_name: *x", "not as DGL's"),
    ] {
        let set = small();
        set.file("graphs.csv", "graph_id,label\n0,1\n1,0\n");
        set.file("meta.yaml", META.replacen(from, to, 1));
        let error = set.read().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nexpected {expected}");
    }
    let set = small();
    set.file("nodes.csv", "graph_id,who\n0,ann\n1,bob\n");
    let error = set.read().unwrap_err().to_string();
    assert!(error.contains("without a table of graphs"), "{error}");
    let set = small();
    set.file("edges_1.csv", "to,from\nann,zed\n");
    assert!(set.read().unwrap_err().to_string().contains("id `zed`"));
    // A description that doubles itself over and over.
    let mut bomb = "a0: &a0 [x, x]\n".to_owned();
    for n in 1..60 {
        bomb += &format!("a{n}: &a{n} [*a{}, *a{}]\n", n - 1, n - 1);
    }
    set.file("meta.yaml", &bomb);
    assert!(set.read().is_err());
}

fn matrix(more: &[(&str, Vec<u8>)], format: &str) -> Result<GraphData, GraphError> {
    let word = array(&format!("|S{}", format.len()), "()", format.as_bytes());
    let mut all = vec![("format", word), ("shape", i64s(&[3, 3]))];
    all.extend(more.iter().map(|(name, bytes)| (*name, bytes.clone())));
    parse_bytes(Format::Npz, &archive(&all), &LoadOptions::default())
}

#[test]
fn matrices_of_scipy_have_sources_as_rows() {
    let weights = |values: [f64; 3]| {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        ("data", array("<f8", "(3,)", &bytes))
    };
    // 0 -> 1, 0 -> 2, 2 -> 1
    let expected = Topology::from_edges(3, [(0, 1), (0, 2), (2, 1)]).unwrap().0;
    let [indptr, indices] = ["indptr", "indices"];
    for (format, arrays) in [
        (
            "csr",
            vec![(indptr, i64s(&[0, 2, 2, 3])), (indices, i64s(&[1, 2, 1]))],
        ),
        (
            "csc",
            vec![(indptr, i64s(&[0, 0, 2, 3])), (indices, i64s(&[2, 0, 0]))],
        ),
        (
            "coo",
            vec![("row", i64s(&[2, 0, 0])), ("col", i64s(&[1, 2, 1]))],
        ),
    ] {
        let with = |values| matrix(&[&arrays[..], &[weights(values)]].concat(), format);
        assert_eq!(with([1.0; 3]).unwrap().topology, expected, "{format}");
        assert_eq!(
            with([1.0, 0.0, 1.0]).unwrap().topology.edges(),
            2,
            "{format}"
        );
        assert_eq!(
            matrix(&arrays, format).unwrap().topology,
            expected,
            "{format}"
        );
        let short = ("data", i64s(&[1]));
        assert!(matrix(&[&arrays[..], &[short]].concat(), format).is_err());
        assert!(matrix(&arrays[..1], format).is_err());
    }
    for (format, arrays) in [
        ("bsr", vec![]),
        ("", vec![]),
        (
            "csr",
            vec![(indptr, i64s(&[0, 9, 2, 3])), (indices, i64s(&[1, 2, 1]))],
        ),
        (
            "csr",
            vec![(indptr, i64s(&[0, 2, 3])), (indices, i64s(&[1, 2, 1]))],
        ),
        ("coo", vec![("row", i64s(&[3])), ("col", i64s(&[1]))]),
        ("coo", vec![("row", i64s(&[0, 1])), ("col", i64s(&[1]))]),
    ] {
        assert!(matrix(&arrays, format).is_err(), "{format}");
    }
    let huge = [
        ("format", array("|S3", "()", b"coo")),
        ("shape", i64s(&[4_000_000_000, 4_000_000_000])),
        ("row", i64s(&[0])),
        ("col", i64s(&[1])),
    ];
    let huge = parse_bytes(Format::Npz, &archive(&huge), &LoadOptions::default());
    assert!(matches!(huge, Err(GraphError::TooManyVertices { .. })));
}
