//! Archives with the arrays of a PyTorch Geometric `Data`.

#![allow(clippy::unwrap_used, reason = "a test may stop and say why")]

mod arrays;

use arrays::{archive, array, i64s};
use gnnc_graph::read::{Format, parse_bytes};
use gnnc_graph::{Features, GraphData, GraphError, Labels, LoadOptions};

fn numbers(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn read(more: &[(&str, Vec<u8>)], edges: Vec<u8>) -> Result<GraphData, GraphError> {
    let mut all = vec![("edge_index", edges)];
    all.extend(more.iter().map(|(name, bytes)| (*name, bytes.clone())));
    parse_bytes(Format::Npz, &archive(&all), &LoadOptions::default())
}

fn edges_of(data: &GraphData) -> Vec<(u32, u32)> {
    let into = |v| data.topology.in_neighbours(v).iter().map(move |u| (*u, v));
    (0..data.vertices()).flat_map(into).collect()
}

/// The array that NumPy writes of a transposed one.
fn transposed(shape: &str, elements: &[u8]) -> Vec<u8> {
    let bytes = array("<i8", shape, elements);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let header = text.split('\n').next().unwrap()[10..].replace("False", "True");
    let mut again = b"\x93NUMPY\x01\x00".to_vec();
    again.extend((header.len() as u16 + 1).to_le_bytes());
    again.extend(header.as_bytes());
    again.push(b'\n');
    again.extend(elements);
    again
}

#[test]
fn edges_come_in_either_order() {
    // 2 -> 0, 0 -> 1, 1 -> 2
    let (rows, pairs) = ([2, 0, 1, 0, 1, 2], [2, 0, 0, 1, 1, 2]);
    for edges in [
        array("<i8", "(2, 3)", &numbers(&rows)),
        array("<i8", "(3, 2)", &numbers(&pairs)),
        transposed("(2, 3)", &numbers(&pairs)),
        transposed("(3, 2)", &numbers(&rows)),
    ] {
        let data = read(&[], edges).unwrap();
        assert_eq!(edges_of(&data), [(2, 0), (0, 1), (1, 2)]);
    }
}

#[test]
fn features_labels_types_and_splits_are_read() {
    let edges = || array("<i8", "(2, 2)", &numbers(&[0, 2, 1, 1]));
    let floats: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let data = read(
        &[
            ("x", array("<f4", "(4, 2)", &floats)),
            ("y", array("<i8", "(4, 1)", &numbers(&[1, 0, -1, 1]))),
            ("edge_type", i64s(&[1, 0])),
            ("train_idx", i64s(&[0])),
            ("valid_idx", i64s(&[3])),
            ("test_mask", array("|b1", "(4,)", &[0, 1, 0, 0])),
        ],
        edges(),
    )
    .unwrap();
    assert_eq!(
        (data.vertices(), edges_of(&data)),
        (4, vec![(0, 1), (2, 1)])
    );
    assert_eq!(data.labels, Labels::Single(vec![1, 0, -1, 1]));
    let values = (1..9u8).map(f32::from).collect();
    assert_eq!(
        data.features,
        Features::dense(4, 2, values).in_best_storage()
    );
    assert_eq!(
        (data.topology.relations(), data.topology.types()),
        (2, &[1, 0][..])
    );
    assert_eq!(
        (data.train[0], data.val[3], data.test[1]),
        (true, true, true)
    );
    let count = |mask: &[bool]| mask.iter().filter(|own| **own).count();
    assert_eq!(
        [&data.train, &data.val, &data.test].map(|mask| count(mask)),
        [1; 3]
    );
}

#[test]
fn mistakes_are_refused() {
    let two = |shape: &str, ends: &[i64]| array("<i8", shape, &numbers(ends));
    for (edges, more) in [
        (two("(3, 3)", &[0; 9]), vec![]),
        (two("(4,)", &[0, 1, 1, 0]), vec![]),
        (two("(2, 1)", &[0, -1]), vec![]),
        (two("(2, 1)", &[0, 1 << 40]), vec![]),
        (two("(2, 1)", &[0, 4_000_000_000]), vec![]),
        (two("(2, 1)", &[0, 5]), vec![("num_nodes", i64s(&[5]))]),
        (two("(2, 1)", &[0, 1]), vec![("edge_type", i64s(&[0, 0]))]),
        (two("(2, 1)", &[0, 1]), vec![("train_idx", i64s(&[2]))]),
        (array("<f4", "(2, 1)", &[0; 8]), vec![]),
    ] {
        assert!(read(&more, edges).is_err());
    }
}

/// A small archive cannot claim billions of vertices, in a number or in the header of an array.
#[test]
fn claims_of_many_vertices_are_refused() {
    let edges = || array("<i8", "(2, 1)", &numbers(&[0, 1]));
    for (name, bytes) in [
        ("num_nodes", i64s(&[4_294_967_290])),
        ("x", array("<f4", "(4294967290, 4)", &[])),
        ("y", array("<i8", "(4294967290,)", &[])),
    ] {
        let found = read(&[(name, bytes)], edges());
        assert!(
            matches!(
                found,
                Err(GraphError::TooManyVertices { .. } | GraphError::ClaimTooLarge { .. })
            ),
            "{name}: {found:?}"
        );
    }
    // Vertices without edges are fine where there are rows of them.
    let rows = array("|u1", "(3000000, 1)", &vec![1; 3_000_000]);
    assert_eq!(read(&[("x", rows)], edges()).unwrap().vertices(), 3_000_000);
    assert_eq!(
        read(&[("num_nodes", i64s(&[50]))], edges())
            .unwrap()
            .vertices(),
        50
    );
}
