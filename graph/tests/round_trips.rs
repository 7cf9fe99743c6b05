//! Written files read back the same.

#![allow(clippy::unwrap_used, reason = "a test may stop and say why")]

mod arrays;

use arrays::{archive, array, i64s};
use gnnc_graph::generate::{Attributes, PlantedPartition, Rmat};
use gnnc_graph::read::{Format, load_counting, npy, parse_bytes};
use gnnc_graph::{
    EdgeFeatures, Features, GraphData, GraphError, Labels, LoadOptions, Topology, example, load,
    write,
};
use proptest::prelude::*;
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// A private folder, removed with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gnnc-graph-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn npz(data: &GraphData) -> Vec<u8> {
    write::npz(data, Cursor::new(Vec::new()))
        .unwrap()
        .into_inner()
}

fn read(format: Format, bytes: &[u8]) -> GraphData {
    let data = parse_bytes(format, bytes, &LoadOptions::default()).unwrap();
    GraphData {
        name: "graph".into(),
        ..data
    }
}

#[test]
fn types_of_edges_are_kept_and_inverted() {
    let edges = [(0, 1, 2), (0, 1, 0), (2, 1, 2), (1, 0, 2)];
    let (topology, dropped) =
        Topology::typed(3, 4, edges.into_iter().chain([(2, 2, 1), (2, 1, 2)])).unwrap();
    assert_eq!((dropped.self_loops, dropped.repeats), (1, 1));
    assert_eq!(topology.relation_degrees(), [1, 1, 2, 2]);
    let data = GraphData::new("graph", topology);
    let bytes = npz(&data);
    assert_eq!(read(Format::Npz, &bytes), data);
    let both = LoadOptions {
        symmetrise: true,
        ..LoadOptions::default()
    };
    let both = parse_bytes(Format::Npz, &bytes, &both).unwrap().topology;
    let found: Vec<_> = both.typed_edges().collect();
    let expected = [
        (1, 0, 2),
        (1, 0, 4),
        (1, 0, 6),
        (0, 1, 0),
        (0, 1, 2),
        (0, 1, 6),
        (2, 1, 2),
        (1, 2, 6),
    ];
    assert_eq!(
        (both.relations(), found.as_slice()),
        (8, expected.as_slice())
    );
    let many = Topology::typed(2, 40_000, [(0, 1, 39_999)]).unwrap().0;
    let why = many.with_inverse_relations().unwrap_err().to_string();
    assert!(
        why.contains("80000 relations is not supported; expected at most 65535"),
        "{why}"
    );
}

#[test]
fn every_format_keeps_the_topology_through_files() {
    let folder = Folder::new("formats");
    let graph = example::g8();
    for name in [
        "a.npz",
        "a.mtx",
        "a.graph",
        "a.csv",
        "a.tsv",
        "a.txt",
        "a.edges",
        "a.csv.gz",
        "a.mtx.gz",
        "a.graph.gz",
    ] {
        let file = folder.file(name);
        let left_out = write::save(&graph, &file).unwrap();
        let again = load(&file, &LoadOptions::default()).unwrap();
        assert_eq!(again.topology, graph.topology, "{name}");
        assert_eq!(again.name, "a");
        if name.ends_with("npz") {
            assert_eq!(left_out, [""; 0]);
            assert_eq!(
                GraphData {
                    name: "G8".into(),
                    ..again
                },
                graph
            );
        } else {
            assert_eq!(left_out, ["features", "labels", "split"]);
        }
    }
    let files: Vec<_> = std::fs::read_dir(&folder.0).unwrap().collect();
    assert_eq!(files.len(), 10, "nothing is left beside the files");
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let folder = Folder::new("failed");
    let file = folder.file("a.graph");
    write::save(&example::g8(), &file).unwrap();
    let before = std::fs::read(&file).unwrap();
    let directed = GraphData::new("d", Topology::from_edges(2, [(0, 1)]).unwrap().0);
    assert!(matches!(
        write::save(&directed, &file),
        Err(GraphError::NotSymmetric {
            source_vertex: 0,
            destination: 1,
            ..
        })
    ));
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert!(matches!(
        write::save(&directed, folder.file("nowhere/a.npz")),
        Err(GraphError::Io { .. })
    ));
    assert!(matches!(
        write::save(&directed, folder.file("a.pdf")),
        Err(GraphError::UnknownFormat { .. })
    ));
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn attributes_survive_an_archive() {
    let mut graph = PlantedPartition::default().generate().unwrap();
    graph.name = "graph".into();
    assert_eq!(read(Format::Npz, &npz(&graph)), graph);
    assert_eq!(npz(&graph), npz(&graph));
    graph.features = Features::Sparse {
        columns: 9,
        indptr: (0..=1000).map(|v| v * 2).collect(),
        indices: (0..2000).map(|i| i % 2 * 5 + 1).collect(),
        values: (0..2000).map(|i| i as f32 + 0.5).collect(),
    };
    graph.edge_features = EdgeFeatures {
        columns: 2,
        values: (0..2 * graph.topology.edges())
            .map(|i| i as f32 * 0.25)
            .collect(),
    };
    graph.labels = Labels::Values {
        width: 3,
        values: (0..3000).map(|i| (i % 2) as f32).collect(),
    };
    assert_eq!(read(Format::Npz, &npz(&graph)), graph);
}

#[test]
fn the_scipy_layout_is_read() {
    // Rows 0 -> 1, 0 -> 2, 1 -> 1 (a loop), 2 -> 0 with weight 0.
    let weights: Vec<u8> = [1f32, 2.0, 1.0, 0.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let bytes = archive(&[
        ("adj_indptr", i64s(&[0, 2, 3, 4])),
        ("adj_indices", i64s(&[1, 2, 1, 0])),
        ("adj_shape", i64s(&[3, 3])),
        ("adj_data", array("<f4", "(4,)", &weights)),
        (
            "attr_matrix",
            array(
                "<f8",
                "(3, 1)",
                &[1.5f64, -2.0, 3.0].map(f64::to_le_bytes).concat(),
            ),
        ),
        ("labels", array("|u1", "(3,)", &[0, 1, 0])),
        ("node_names", array("|O", "(3,)", b"junk")),
    ]);
    let folder = Folder::new("scipy");
    let file = folder.file("bench.npz");
    std::fs::write(&file, bytes).unwrap();
    let (data, dropped) = load_counting(&file, &LoadOptions::default()).unwrap();
    assert_eq!(
        (
            data.topology.in_neighbours(1),
            data.topology.in_neighbours(2)
        ),
        (&[0][..], &[0][..])
    );
    assert_eq!(
        (
            data.topology.edges(),
            dropped.self_loops,
            dropped.zero_weights
        ),
        (2, 1, 1)
    );
    assert_eq!(data.features.values(), [1.5, -2.0, 3.0]);
    assert_eq!(data.labels, Labels::Single(vec![0, 1, 0]));
    let both = load(
        &file,
        &LoadOptions {
            symmetrise: true,
            ..LoadOptions::default()
        },
    )
    .unwrap();
    assert_eq!(both.topology.edges(), 4);
}

#[test]
fn dense_features_are_mapped_where_they_can_be() {
    let folder = Folder::new("mapped");
    let (file, edges) = (folder.file("x.npy"), folder.file("g.csv"));
    std::fs::write(&edges, "0,1\n1,2\n").unwrap();
    let values: Vec<u8> = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let options = LoadOptions {
        features: Some(file.clone()),
        ..LoadOptions::default()
    };
    let is_mapped =
        |f: &Features| matches!(f, Features::Dense { values, .. } if values.is_mapped());

    // Padded as by NumPy, so that the elements are aligned.
    let mut text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }".to_owned();
    text.push_str(&" ".repeat(117 - text.len()));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(&values);
    std::fs::write(&file, &bytes).unwrap();
    let data = load(&edges, &options).unwrap();
    assert!(is_mapped(&data.features));
    assert_eq!(data.features.values(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(data.features, npy::parse("t", &bytes).unwrap());
    assert!(!is_mapped(&data.features.row_normalized(u32::MAX)));

    std::fs::write(&file, array("|i1", "(3, 1)", &[1, 255, 3])).unwrap();
    let data = load(&edges, &options).unwrap();
    assert_eq!(
        (data.features.values(), is_mapped(&data.features)),
        (&[1.0, -1.0, 3.0][..], false)
    );

    std::fs::write(&file, array("<f4", "(2, 3)", &values)).unwrap();
    assert!(
        matches!(load(&edges, &options), Err(GraphError::Invalid { .. })),
        "two rows for three vertices"
    );
    std::fs::write(&file, array("<f4", "(6,)", &values)).unwrap();
    assert!(matches!(
        load(&edges, &options),
        Err(GraphError::Shape { .. })
    ));
    std::fs::write(&file, b"").unwrap();
    assert!(load(&edges, &options).is_err());
}

#[test]
fn the_format_is_that_of_the_content() {
    let folder = Folder::new("content");
    let file = folder.file("matrix.txt");
    let mut text = Vec::new();
    write::matrix_market(&example::g8().topology, &mut text).unwrap();
    std::fs::write(&file, text).unwrap();
    assert_eq!(
        load(&file, &LoadOptions::default()).unwrap().topology,
        example::g8().topology
    );
    for (name, content) in [
        ("a", &b"0 1\n"[..]),
        ("b.npy", b"\x93NUMPY\x01\x00"),
        ("c.dat", b""),
    ] {
        std::fs::write(folder.file(name), content).unwrap();
        assert!(
            matches!(
                load(folder.file(name), &LoadOptions::default()),
                Err(GraphError::UnknownFormat { .. })
            ),
            "{name}"
        );
    }
    assert!(matches!(
        load(Path::new("/nowhere/a.npz"), &LoadOptions::default()),
        Err(GraphError::Io { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn random_graphs_survive_every_format(
        n in 1u32..40,
        edges in prop::collection::vec((0u32..40, 0u32..40), 0..120),
    ) {
        let (topology, _) = Topology::from_edges(n, edges.into_iter().map(|(u, v)| (u % n, v % n))).unwrap();
        let data = GraphData::new("graph", topology);
        prop_assert_eq!(&read(Format::Npz, &npz(&data)), &data);
        let mut text = Vec::new();
        write::matrix_market(&data.topology, &mut text).unwrap();
        prop_assert_eq!(&read(Format::MatrixMarket, &text), &data);
        for separator in [' ', ',', '\t'] {
            text.clear();
            write::edges(&data.topology, separator, &mut text).unwrap();
            prop_assert_eq!(&read(Format::Edges, &text), &data);
        }
        let both = GraphData::new("graph", data.topology.symmetrised());
        text.clear();
        write::metis(&both.topology, &mut text).unwrap();
        prop_assert_eq!(&read(Format::Metis, &text), &both);
    }
}

#[test]
fn a_large_graph_is_generated_in_good_time() {
    let start = std::time::Instant::now();
    let attributes = Attributes {
        features: 128,
        classes: 16,
        ..Attributes::default()
    };
    let graph = Rmat {
        vertices: 200_000,
        edges: 4_000_000,
        attributes,
        ..Rmat::default()
    }
    .generate()
    .unwrap();
    let elapsed = start.elapsed();
    println!("200 K vertices, 4 M edges, 128 features in {elapsed:?}");
    assert_eq!(graph.topology.edges(), 4_000_000);
    assert!(elapsed.as_secs() < 20, "{elapsed:?}");
}
