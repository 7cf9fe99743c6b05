//! Types of vertices in tables and archives.

#![allow(clippy::unwrap_used, reason = "a test may stop and say why")]

#[path = "arrays/mod.rs"]
mod arrays;

use arrays::{archive, array, i64s};
use gnnc_graph::import::{Import, Imported, import};
use gnnc_graph::read::{Format, parse_bytes};
use gnnc_graph::{GraphData, GraphError, LoadOptions, write};
use std::io::Cursor;

fn table(nodes: &str, more: Import) -> Result<Imported, GraphError> {
    let folder = tempfile::tempdir().unwrap();
    let [edges, vertices] = ["edges.csv", "nodes.csv"].map(|name| folder.path().join(name));
    std::fs::write(&edges, "source,target\np,a\nq,a\n").unwrap();
    std::fs::write(&vertices, nodes).unwrap();
    import(&Import {
        edges,
        nodes: Some(vertices),
        ..more
    })
}

const NODES: &str = "id,type,age,price\np,person,30,\nq,person,40,\na,article,,1.5\nb,shop,,\n";

#[test]
fn a_column_of_types_is_read() {
    let found = table(NODES, Import::default()).unwrap();
    let data = &found.data;
    let types: Vec<_> = data.vertex_types.iter().collect();
    assert_eq!(types, ["article", "person", "shop"]);
    #[rustfmt::skip]
    let values = [
        30.0, 0.0, 0.0, 1.0, 0.0,
        40.0, 0.0, 0.0, 1.0, 0.0,
        0.0, 1.5, 1.0, 0.0, 0.0,
        0.0, 0.0, 0.0, 0.0, 1.0,
    ];
    assert_eq!(data.features.to_dense().values(), values);
    let notes: String = found
        .notes
        .iter()
        .map(|note| note.0.clone() + "\n")
        .collect();
    assert!(
        notes.contains("4 vertices of 3 types, 2 features"),
        "{notes}"
    );
    // What is written is read again, bit for bit.
    let bytes = write::npz(data, Cursor::new(Vec::new()))
        .unwrap()
        .into_inner();
    let again = parse_bytes(Format::Npz, &bytes, &LoadOptions::default()).unwrap();
    assert_eq!(
        (&again.features, &again.vertex_types),
        (&data.features, &data.vertex_types)
    );
}

#[test]
fn types_can_be_left_out_or_have_another_name() {
    let with = |options| {
        table(&NODES.replace(",,", ",0,").replace(",\n", ",0\n"), options)
            .unwrap()
            .data
    };
    let without = with(Import {
        without: vec!["type".to_owned()],
        ..Import::default()
    });
    assert_eq!(
        (without.vertex_types.len(), without.features.columns()),
        (0, 2)
    );
    let by_age = with(Import {
        vertex_type: Some("age".to_owned()),
        ..Import::default()
    });
    let ages: Vec<_> = by_age.vertex_types.iter().collect();
    assert_eq!(ages, ["0", "30", "40"]);
}

#[test]
fn values_that_some_of_a_type_lack_are_refused() {
    for (from, to, expected) in [
        ("40", "", "no value of `age` for a vertex of type `person`"),
        ("article,,1.5", "article,x,1.5", ""),
    ] {
        let nodes = NODES.to_owned() + "c,shop,,\n";
        let found = table(&nodes.replacen(from, to, 1), Import::default());
        let Err(error) = found else {
            assert!(expected.is_empty(), "{expected}");
            continue;
        };
        let error = error.to_string();
        assert!(!expected.is_empty() && error.contains(expected), "{error}");
    }
    let later = "id,type,age\np,person,\nq,person,40\na,article,1\n";
    let error = table(later, Import::default()).unwrap_err().to_string();
    assert!(
        error.contains("a value of `age` for a vertex of type `person`"),
        "{error}"
    );
    let error = table("id,age\np,\nq,1\na,2\n", Import::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no value of `age`, expected a number"),
        "{error}"
    );
}

/// An archive of three vertices with one feature each.
fn read(more: &[(&str, Vec<u8>)]) -> Result<GraphData, GraphError> {
    let floats = |values: &[f32]| {
        values
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let mut all = vec![
        (
            "edge_index",
            array(
                "<i8",
                "(2, 1)",
                &[[0u8; 8], [1, 0, 0, 0, 0, 0, 0, 0]].concat(),
            ),
        ),
        (
            "x",
            array("<f4", "(3, 2)", &floats(&[5.0, 0.0, 6.0, 1.0, 7.0, 1.0])),
        ),
    ];
    all.retain(|(name, _)| more.iter().all(|(new, _)| new != name));
    all.extend(more.iter().map(|(name, bytes)| (*name, bytes.clone())));
    parse_bytes(Format::Npz, &archive(&all), &LoadOptions::default())
}

/// NumPy's strings of five characters.
fn strings(words: &[&str]) -> Vec<u8> {
    let character = |word: &str, place| word.chars().nth(place).map_or(0, u32::from).to_le_bytes();
    let bytes = |word: &&str| {
        (0..5)
            .flat_map(|place| character(word, place))
            .collect::<Vec<u8>>()
    };
    let all: Vec<u8> = words.iter().flat_map(bytes).collect();
    array("<U5", &format!("({},)", words.len()), &all)
}

#[test]
fn archives_have_numbers_and_names_of_types() {
    let data = read(&[("node_type", i64s(&[1, 0, 1]))]).unwrap();
    assert_eq!(data.vertex_types.iter().collect::<Vec<_>>(), ["0", "1"]);
    assert_eq!(
        (data.own_features(), data.vertices_of_type("1")),
        (2, Some(vec![0, 2]))
    );
    let names = ("node_type_names", strings(&["paper", "á", "shop"]));
    let data = read(&[("node_type", i64s(&[1, 0, 1])), names]).unwrap();
    assert_eq!(
        data.vertex_types.iter().collect::<Vec<_>>(),
        ["paper", "á", "shop"]
    );
    assert_eq!(data.vertices_of_type("shop"), Some(vec![]));
    // One type is none.
    let data = read(&[("vertex_type", i64s(&[0, 0, 0]))]).unwrap();
    assert_eq!((data.vertex_types.len(), data.features.columns()), (0, 2));
    // Without numbers, the last features are those of the types.
    let data = read(&[("vertex_type_names", strings(&["b"]))]).unwrap();
    assert_eq!(
        (data.own_features(), data.vertices_of_type("b")),
        (1, Some(vec![1, 2]))
    );
}

#[test]
fn archives_with_other_types_are_refused() {
    let names = |words: &[&str]| ("vertex_type_names", strings(words));
    for (arrays, expected) in [
        (
            vec![("node_type", i64s(&[1, 0]))],
            "(3), the type of each vertex",
        ),
        (vec![("node_type", i64s(&[1, 0, -1]))], "-1"),
        (
            vec![("node_type", i64s(&[1, 0, 2])), names(&["a", "b"])],
            "2",
        ),
        (vec![("node_type", i64s(&[1, 0, 5000]))], "5000"),
        (vec![names(&["a", "b"])], "without `vertex_type`"),
        (
            vec![("node_type", i64s(&[1, 0, 1])), names(&["a", "a"])],
            "the name `a`",
        ),
        (
            vec![("node_type", i64s(&[1, 0, 1])), names(&["a", ""])],
            "different names",
        ),
        (vec![names(&["a", "b", "c"])], "without `vertex_type`"),
        (
            vec![("vertex_type_names", i64s(&[1]))],
            "an array of strings",
        ),
        (
            vec![("vertex_type_names", array("<U0", "(9,)", &[]))],
            "empty texts",
        ),
        (
            vec![("vertex_type_names", array("<U2", "(9000000,)", &[0; 8]))],
            "bytes",
        ),
        (
            vec![("vertex_type_names", array("<U1", "(1,)", &[0xff; 4]))],
            "not valid Unicode",
        ),
        (
            vec![("vertex_type_names", array("|S2", "(1, 1)", b"ab"))],
            "one dimension",
        ),
    ] {
        let error = read(&arrays).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nexpected {expected}");
    }
}

#[test]
fn lists_may_come_after_types_without_them() {
    let nodes = "id,type,feat,last\np,person,,1\nq,person,,2\na,article,\"[1,2,3]\",3\n";
    let data = table(nodes, Import::default()).unwrap().data;
    #[rustfmt::skip]
    let values = [
        0.0, 0.0, 0.0, 1.0, 0.0, 1.0,
        0.0, 0.0, 0.0, 2.0, 0.0, 1.0,
        1.0, 2.0, 3.0, 3.0, 1.0, 0.0,
    ];
    assert_eq!(data.features.to_dense().values(), values);
    // Two such columns, the second of which is known first.
    let nodes =
        "id,type,f,g\np,person,,\"[7,8]\"\na,article,\"[1,2,3]\",\"[9,9]\"\nq,person,,\"[5,6]\"\n";
    let data = table(nodes, Import::default()).unwrap().data;
    #[rustfmt::skip]
    let values = [
        0.0, 0.0, 0.0, 7.0, 8.0, 0.0, 1.0,
        1.0, 2.0, 3.0, 9.0, 9.0, 1.0, 0.0,
        0.0, 0.0, 0.0, 5.0, 6.0, 0.0, 1.0,
    ];
    assert_eq!(data.features.to_dense().values(), values);
    let error = table(&nodes.replace("[7,8]", "[]"), Import::default()).unwrap_err();
    assert!(
        error.to_string().contains("an empty list in `g`"),
        "{error}"
    );
    let error = table(&nodes.replace("[5,6]", "5"), Import::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("found 1 number in `g`, expected 2"),
        "{error}"
    );
}

/// What says something else of a vertex is no type of it: labels among the features would be learned by heart.
#[test]
fn labels_and_splits_are_no_types() {
    let of = |options: Import| table("id,type\np,x\nq,y\na,x\n", options);
    for options in [
        Import {
            label: Some("type".to_owned()),
            ..Import::default()
        },
        Import {
            id: Some("type".to_owned()),
            ..Import::default()
        },
    ] {
        let Ok(found) = of(options) else { continue };
        assert_eq!(
            (found.data.vertex_types.len(), found.data.features.columns()),
            (0, 0)
        );
    }
    let error = of(Import {
        label: Some("type".to_owned()),
        vertex_type: Some("type".to_owned()),
        ..Import::default()
    });
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("--vertex-type type")
    );
    let error = table("id,type\np,x\nq,\na,x\n", Import::default()).unwrap_err();
    assert!(error.to_string().contains("no `type`"), "{error}");
}

/// A small file with many vertices and types takes no memory for all columns of all vertices.
#[test]
fn many_types_are_stored_where_they_are() {
    let types: Vec<i64> = (0..3000).map(|v| v % 1000).collect();
    let ones: Vec<u8> = (0..3000).flat_map(|_| 1f32.to_le_bytes()).collect();
    let indptr = i64s(&[0; 3001]);
    let archive = archive(&[
        ("indptr", indptr),
        ("indices", i64s(&[])),
        ("features", array("<f4", "(3000, 1)", &ones)),
        ("vertex_type", i64s(&types)),
    ]);
    let data = parse_bytes(Format::Npz, &archive, &LoadOptions::default()).unwrap();
    assert_eq!(
        (data.features.columns(), data.features.stored()),
        (1001, 6000)
    );
    assert_eq!(data.vertices_by_type(), vec![3; 1000]);
    // Features of other vertices are not cut or filled up.
    let archive = arrays::archive(&[
        ("indptr", i64s(&[0; 3001])),
        ("indices", i64s(&[])),
        ("features", array("<f4", "(2, 1)", &[0; 8])),
        ("vertex_type", i64s(&types)),
    ]);
    let error = parse_bytes(Format::Npz, &archive, &LoadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("features of 2 rows"), "{error}");
}
