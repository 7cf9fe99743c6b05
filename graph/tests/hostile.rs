//! Damaged and hostile files give an error that names the problem, never a panic.

#![allow(clippy::unwrap_used, reason = "a test may stop and say why")]

mod arrays;

use arrays::{archive, array, i64s};
use gnnc_graph::import::{Import, Shares, import};
use gnnc_graph::read::{self, Format, npy, parse_bytes};
use gnnc_graph::{
    GraphData, GraphError, ListedEdge, LoadOptions, Problem, Topology, example, write,
};
use proptest::prelude::*;
use std::io::Cursor;

fn load(bytes: &[u8]) -> Result<GraphData, GraphError> {
    parse_bytes(Format::Npz, bytes, &LoadOptions::default())
}

/// A triangle 0 <-> 1 <-> 2 <-> 0 with some arrays replaced or added.
fn with(changes: &[(&str, Vec<u8>)]) -> Result<GraphData, GraphError> {
    let mut arrays = vec![
        ("indptr", i64s(&[0, 2, 4, 6])),
        ("indices", i64s(&[1, 2, 0, 2, 0, 1])),
    ];
    for (name, bytes) in changes {
        arrays.retain(|(n, _)| n != name);
        arrays.push((*name, bytes.clone()));
    }
    load(&archive(&arrays))
}

#[test]
fn the_triangle_itself_is_fine() {
    assert_eq!(with(&[]).unwrap().topology.edges(), 6);
}

#[test]
fn truncated_archives() {
    let bytes = write::npz(&example::g8(), Cursor::new(Vec::new()))
        .unwrap()
        .into_inner();
    for length in 0..bytes.len() {
        assert!(
            matches!(load(&bytes[..length]), Err(GraphError::Archive { .. })),
            "{length}"
        );
    }
}

#[test]
fn missing_arrays() {
    let error = load(&archive(&[("indptr", i64s(&[0])), ("x", i64s(&[]))])).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no array `indices` (there are: indptr, x)"),
        "{error}"
    );
    assert!(matches!(
        load(&archive(&[])),
        Err(GraphError::MissingArray { .. })
    ));
    let scipy = with(&[("format", array("|S3", "()", b"csr"))]);
    assert!(
        matches!(scipy, Err(GraphError::MissingArray { .. })),
        "no `shape`"
    );
}

#[test]
fn huge_claims() {
    let claims = [
        "(1000000000000,)",
        "(18446744073709551615, 18446744073709551615)",
        "(4294967296,)",
    ];
    for claim in claims {
        let result = with(&[("indices", array("<i4", claim, &[0; 24]))]);
        assert!(
            matches!(result, Err(GraphError::ClaimTooLarge { .. })),
            "{claim}"
        );
        let result = with(&[("features", array("<f4", claim, &[0; 24]))]);
        assert!(
            matches!(result, Err(GraphError::ClaimTooLarge { .. })),
            "{claim}"
        );
    }
    let empty = with(&[("features", array("<f4", "(1000000000000000000, 0)", &[]))]);
    assert!(matches!(empty, Err(GraphError::Invalid { .. })));
    let wide = [
        ("feat_indptr", i64s(&[0, 0, 0, 0])),
        ("feat_indices", i64s(&[])),
        ("feat_data", i64s(&[])),
        ("feat_shape", i64s(&[3, 1 << 40])),
    ];
    assert!(matches!(with(&wide), Err(GraphError::Shape { .. })));
}

/// Errors name labels and masks as such, with their values.
#[test]
fn labels_and_masks_are_no_indices() {
    let message = |arrays: &[(&str, Vec<u8>)]| with(arrays).unwrap_err().to_string();
    let label = message(&[("labels", i64s(&[0, 1 << 40, 1]))]);
    assert!(
        label.contains("`labels`: 1099511627776 at position 1, expected a class from 0"),
        "{label}"
    );
    let mask = message(&[("train_mask", i64s(&[0, 1, 1 << 40]))]);
    let expected = "`train_mask`: 1099511627776 at position 2, expected 0 or 1";
    assert!(mask.ends_with(expected), "{mask}");
}

/// Dense features may carry a shape array like sparse ones; it must match the matrix.
#[test]
fn shapes_of_dense_features_are_checked() {
    let dense = |shape: &[i64]| {
        let features = array("<f4", "(3, 2)", &[0; 24]);
        let arrays = [
            ("indptr", i64s(&[0, 2, 4, 6])),
            ("indices", i64s(&[1, 2, 0, 2, 0, 1])),
            ("features", features),
            ("feat_shape", i64s(shape)),
        ];
        let bytes = archive(&arrays);
        read::npz::read("t", Cursor::new(bytes), &LoadOptions::default())
    };
    let (data, dropped) = dense(&[3, 2]).unwrap();
    assert_eq!((data.features.columns(), dropped.not_used.len()), (2, 0));
    let message = dense(&[2, 3]).unwrap_err().to_string();
    let expected = "`feat_shape`: shape (2, 3), expected (3, 2), the shape of `features`";
    assert!(message.ends_with(expected), "{message}");
}

/// The zip crate keeps the last array with a name, and nobody knows which one is meant.
#[test]
fn an_array_is_there_once() {
    let arrays = [
        ("indptr", i64s(&[0, 2, 4, 6])),
        ("indices", i64s(&[1, 2, 0, 2, 0, 1])),
        ("labels", i64s(&[0, 1, 1])),
        ("labelz", i64s(&[1, 0, 0])),
    ];
    let mut bytes = archive(&arrays);
    assert!(load(&bytes).is_ok());
    for at in 0..bytes.len() - 6 {
        if bytes[at..].starts_with(b"labelz") {
            bytes[at + 5] = b's';
        }
    }
    let message = load(&bytes).unwrap_err().to_string();
    let expected = "an archive with two arrays `labels` is not supported; expected each array once";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn types_of_edges() {
    let typed = |types: &[i64]| with(&[("edge_type", i64s(types))]);
    let data = typed(&[0, 1, 2, 1, 0, 5]).unwrap();
    assert_eq!(
        (data.topology.relations(), data.topology.types()),
        (6, &[0, 1, 2, 1, 0, 5][..])
    );
    let message = |result: Result<GraphData, GraphError>| result.unwrap_err().to_string();
    assert!(message(typed(&[0, 1, 2])).contains("expected (6), one type per index"));
    assert!(
        message(typed(&[0, 1, -2, 1, 0, 5]))
            .contains("index -2 at position 2, expected 0 to 65534")
    );
    assert!(message(typed(&[0, 1, 65_535, 1, 0, 5])).contains("index 65535 at position 2"));
    let named = |count: usize| {
        let names = array("<U1", &format!("({count},)"), &vec![0; 4 * count]);
        with(&[
            ("edge_type", i64s(&[0, 1, 2, 1, 0, 2])),
            ("rel_names", names),
        ])
    };
    assert_eq!(named(7).unwrap().topology.relations(), 7);
    assert!(message(named(2)).contains("index 2 at position 2, expected 0 to 1"));
    let counted = |count: &[i64]| {
        with(&[
            ("edge_type", i64s(&[0, 1, 2, 1, 0, 2])),
            ("relations", i64s(count)),
        ])
    };
    assert_eq!(counted(&[3]).unwrap().topology.relations(), 3);
    assert!(
        message(counted(&[65_536]))
            .contains("65536 relations is not supported; expected 1 to 65535")
    );
    assert!(message(counted(&[1 << 40])).contains("1099511627776 relations"));
    assert!(message(counted(&[0])).contains("0 relations is not supported; expected 1 to 65535"));
    assert!(message(counted(&[3, 4])).contains("expected one number"));
    let floats = array("<f4", "(6,)", &[0; 24]);
    assert!(matches!(
        with(&[("edge_type", floats)]),
        Err(GraphError::ElementType { .. })
    ));
}

/// Two vertices may have an edge of each type between them, but only one of each.
#[test]
fn edges_of_several_types() {
    let data = with(&[
        ("indptr", i64s(&[0, 4, 6])),
        ("indices", i64s(&[1, 1, 0, 1, 0, 0])),
        ("edge_type", i64s(&[2, 0, 1, 2, 1, 0])),
    ]);
    let topology = data.unwrap().topology;
    let edges: Vec<_> = topology.typed_edges().collect();
    assert_eq!(edges, [(1, 0, 0), (1, 0, 2), (0, 1, 0), (0, 1, 1)]);
    assert_eq!(topology.relation_degrees(), [1, 1, 1, 1]);
}

#[test]
fn bad_row_pointers() {
    for bad in [
        [1, 2, 4, 6],
        [0, 4, 2, 6],
        [0, 2, 4, 5],
        [0, -2, 4, 6],
        [0, 2, 4, i64::MAX],
    ] {
        let result = with(&[("indptr", i64s(&bad))]);
        assert!(
            matches!(result, Err(GraphError::RowPointer { .. })),
            "{bad:?}"
        );
    }
    assert!(matches!(
        with(&[("indptr", i64s(&[]))]),
        Err(GraphError::Shape { .. })
    ));
    let empty = with(&[("indptr", i64s(&[0])), ("indices", i64s(&[]))]);
    assert!(
        matches!(empty, Err(GraphError::Invalid { problems, .. }) if problems == [Problem::Empty])
    );
}

#[test]
fn bad_indices() {
    for (bad, found) in [
        ([1, 2, 0, 3, 0, 1], 3),
        ([1, 2, 0, 2, -1, 1], -1),
        ([1, 2, 0, 1 << 40, 0, 1], 1 << 40),
    ] {
        match with(&[("indices", i64s(&bad))]) {
            Err(GraphError::IndexOutOfRange {
                found: f, limit: 3, ..
            }) => assert_eq!(f, found),
            other => panic!("{other:?}"),
        }
    }
    // Unsorted, repeated and looped edges are repaired, not refused.
    let mended = with(&[("indices", i64s(&[2, 1, 0, 0, 2, 1]))]).unwrap();
    assert_eq!(mended.topology.in_neighbours(0), [1, 2]);
    assert_eq!(mended.topology.edges(), 4);
}

#[test]
fn wrong_types_and_shapes() {
    assert!(matches!(
        with(&[("indices", array("<f4", "(6,)", &[0; 24]))]),
        Err(GraphError::ElementType { .. })
    ));
    assert!(matches!(
        with(&[("indptr", array("<U4", "(4,)", &[0; 64]))]),
        Err(GraphError::ElementType { .. })
    ));
    assert!(matches!(
        with(&[("features", array("<c8", "(3, 1)", &[0; 24]))]),
        Err(GraphError::ElementType { .. })
    ));
    assert!(matches!(
        with(&[("indices", array("<i4", "(3, 2)", &[0; 24]))]),
        Err(GraphError::Shape { .. })
    ));
    assert!(matches!(
        with(&[("train_mask", array("|b1", "(3, 10)", &[0; 30]))]),
        Err(GraphError::Shape { .. })
    ));
    assert!(matches!(
        with(&[("train_mask", i64s(&[0, 1, 2]))]),
        Err(GraphError::Element { .. })
    ));
    for (shape, bytes) in [("(5,)", 5), ("(6, 0)", 0), ("(3, 2)", 6), ("(6, 1, 1)", 6)] {
        let numbers = array("|u1", shape, &vec![0; bytes]);
        assert!(matches!(
            with(&[("edge_features", numbers)]),
            Err(GraphError::Shape { .. })
        ));
    }
    assert!(matches!(
        with(&[("indices", array("<i4", "(6,)", &[0; 20]))]),
        Err(GraphError::ClaimTooLarge { .. } | GraphError::WrongLength { .. })
    ));
    assert!(matches!(
        with(&[("indices", vec![0; 40])]),
        Err(GraphError::ArrayHeader { .. })
    ));
    let scipy = [
        ("adj_indptr", i64s(&[0, 0])),
        ("adj_indices", i64s(&[])),
        ("adj_shape", i64s(&[1, 2])),
    ];
    assert!(matches!(
        load(&archive(&scipy)),
        Err(GraphError::Shape { .. })
    ));
}

#[test]
fn invalid_content_is_listed() {
    let features: Vec<u8> = [1f32, f32::NAN, 0.5]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let error = with(&[
        ("features", array("<f4", "(3, 1)", &features)),
        ("labels", i64s(&[0, 7, -1])),
        ("train_mask", array("|b1", "(3,)", &[0, 0, 1])),
        ("val_mask", array("|b1", "(2,)", &[0, 0])),
    ])
    .unwrap_err()
    .to_string();
    for part in [
        "found 1 non-finite number in `features`, the first is NaN at vertex 1, column 0",
        "found 1 label out of range, the first is 7 of vertex 1; expected 0 to 2",
        "found 1 vertex of the train split without a label, the first is vertex 2",
        "`val_mask` has 2 rows, expected one for each of 3 vertices",
    ] {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
}

#[test]
fn a_lying_zip_directory_allocates_little() {
    // 100 MB of zeros in 100 KB, under a header that declares four bytes: read no more than
    // declared.
    let mut bomb = array("|u1", "(4,)", &[]);
    bomb.resize(100_000_000, 0);
    assert!(matches!(
        with(&[("indptr", bomb)]),
        Err(GraphError::WrongLength {
            found: 5,
            expected: 4,
            ..
        })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn corrupt_archives_never_panic(changes in prop::collection::vec((0usize..1 << 16, any::<u8>()), 1..6)) {
        let mut bytes = write::npz(&example::g8(), Cursor::new(Vec::new())).unwrap().into_inner();
        for (place, byte) in changes {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        if let Ok(data) = load(&bytes) {
            prop_assert_eq!(data.validate(), []);
        }
    }

    /// Bytes changed inside arrays, where no checksum detects it.
    #[test]
    fn corrupt_arrays_never_panic(
        which in 0usize..8,
        changes in prop::collection::vec((0usize..1 << 16, any::<u8>()), 1..6),
    ) {
        let mut arrays = vec![
            ("indptr", i64s(&[0, 2, 4, 6])),
            ("indices", i64s(&[1, 2, 0, 2, 0, 1])),
            ("feat_indptr", i64s(&[0, 1, 1, 2])),
            ("feat_indices", i64s(&[3, 0])),
            ("feat_shape", i64s(&[3, 4])),
            ("labels", i64s(&[0, -1, 1])),
            ("feat_data", array("|u1", "(2,)", &[1, 2])),
            ("edge_type", i64s(&[0, 1, 0, 2, 1, 1])),
        ];
        let bytes = &mut arrays[which].1;
        for (place, byte) in changes {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        if let Ok(data) = load(&archive(&arrays)) {
            prop_assert_eq!(data.validate(), []);
        }
    }

    #[test]
    fn random_text_never_panics(
        format in prop::sample::select(vec![Format::MatrixMarket, Format::Metis, Format::Edges]),
        text in "(%%MatrixMarket matrix coordinate (pattern|real) (general|symmetric)\n)?[-0-9 .,%#a-c\n]{0,80}",
    ) {
        if let Ok(data) = parse_bytes(format, text.as_bytes(), &LoadOptions::default()) {
            prop_assert_eq!(data.validate(), []);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for format in Format::ALL {
            if let Ok(data) = parse_bytes(format, &bytes, &LoadOptions::default()) {
                prop_assert_eq!(data.validate(), []);
            }
        }
        let _ = npy::parse("t", &bytes);
        let mut headed = b"\x93NUMPY\x01\x00".to_vec();
        headed.extend(&bytes);
        let _ = npy::parse("t", &headed);
    }
}

#[test]
fn edges_are_found_in_their_places() {
    let edge = |source, target, kind| ListedEdge {
        source,
        target,
        kind,
    };
    let (plain, _) = Topology::from_edges(3, [(0, 1), (2, 1)]).unwrap();
    assert_eq!(plain.place(edge(2, 1, 0)), Some(1));
    assert_eq!(plain.place(edge(2, 1, 1)), None);
    assert_eq!(plain.place(edge(1, 2, 0)), None);
    assert_eq!(plain.place(edge(1, 0, 0)), None);
    // One pair of vertices with an edge of each type but 7: a scan for each would be quadratic.
    let relations = 65_535u16;
    let kinds = (0..relations).filter(|kind| *kind != 7);
    let pair = kinds.map(|kind| (0, 1, kind)).chain([(2, 1, 3), (0, 2, 1)]);
    let (typed, _) = Topology::typed(3, u32::from(relations), pair).unwrap();
    for (place, listed) in typed.listed().into_iter().enumerate() {
        assert_eq!(typed.place(listed), Some(place));
    }
    assert_eq!(typed.place(edge(0, 1, 7)), None);
    assert_eq!(typed.place(edge(2, 1, 4)), None);
    assert_eq!(typed.place(edge(1, 0, 0)), None);
}

#[test]
fn labels_that_do_not_fit_are_not_divided() {
    let folder = tempfile::tempdir().unwrap();
    let [edges, labels] = ["edges.csv", "labels.npy"].map(|name| folder.path().join(name));
    std::fs::write(&edges, "0,1\n1,2\n").unwrap();
    for stratified in [false, true] {
        for (numbers, expected) in [
            (
                &[0i32, 1][..],
                "2 rows is not supported; expected 3, one for each",
            ),
            (
                &[0, 1, 0, 1],
                "4 rows is not supported; expected 3, one for each",
            ),
            (&[0, 1, i32::MAX], "the first is 2147483647 of vertex 2"),
        ] {
            let data: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            let shape = format!("({},)", numbers.len());
            std::fs::write(&labels, array("<i4", &shape, &data)).unwrap();
            let error = import(&Import {
                labels: Some(labels.clone()),
                shares: Some(Shares {
                    shares: [0.6, 0.2, 0.2],
                    stratified,
                    seed: 1,
                }),
                edges: edges.clone(),
                ..Import::default()
            });
            let error = error.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}\nexpected {expected}");
        }
    }
}
