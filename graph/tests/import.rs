//! Graphs from tables of edges and vertices.

#![allow(clippy::unwrap_used, reason = "a test may stop and say why")]

use gnnc_graph::import::{Import, Imported, Shares, import};
use gnnc_graph::read::Format;
use gnnc_graph::{Features, GraphData, GraphError, Labels, LoadOptions, load, write};
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Files of a test.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

fn of(edges: &Path, nodes: Option<&Path>) -> Import {
    Import {
        edges: edges.to_owned(),
        nodes: nodes.map(Path::to_owned),
        ..Import::default()
    }
}

fn edges_of(data: &GraphData) -> Vec<(u32, u32)> {
    let into = |v| data.topology.in_neighbours(v).iter().map(move |u| (*u, v));
    (0..data.vertices()).flat_map(into).collect()
}

#[test]
fn edges_come_with_any_separator_header_and_compression() {
    let files = Files::new();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"source,target\n2,0\n0,1\n").unwrap();
    let texts: [&[u8]; 6] = [
        b"2,0\n0,1\n",
        b"\xef\xbb\xbfSource;Target\r\n2;0\r\n0;1\r\n",
        b"# made by hand\nfrom\tto\tweight\n2\t0\t0.5\n0\t1\t1\n",
        b"left right\n 2   0\n0 1  \n",
        b"x|target|source\na|0|2\nb|1|0\n",
        &gzip.finish().unwrap(),
    ];
    for text in texts {
        let path = files.file("edges.csv", text);
        let Imported { data, .. } = import(&of(&path, None)).unwrap();
        assert_eq!(
            edges_of(&data),
            [(2, 0), (0, 1)],
            "{}",
            String::from_utf8_lossy(text)
        );
        assert!(data.ids.is_empty(), "numbers are the vertices");
    }
    let named = files.file("edges.txt", "b a\na c\nb a\nc c\n");
    let Imported { data, dropped, .. } = import(&of(&named, None)).unwrap();
    assert_eq!(data.ids.iter().collect::<Vec<_>>(), ["b", "a", "c"]);
    assert_eq!(edges_of(&data), [(0, 1), (1, 2)]);
    assert_eq!((dropped.repeats, dropped.self_loops), (1, 1));
}

const NODES: &str = "\
name,age,city,label,split
zoe,31,\"Paris, FR\",red,train
ann,4.5,Oslo,blue,val
bob,-1e2,Rome,,test
eve,0,Oslo,red,
";

#[test]
fn vertices_have_ids_features_labels_and_splits() {
    let files = Files::new();
    let nodes = files.file("nodes.csv", NODES);
    let edges = files.file(
        "edges.csv",
        "src,dst,kind,rel\nbob,zoe,1,knows\nann,zoe,1,likes\n",
    );
    let options = Import {
        symmetrise: false,
        ..of(&edges, Some(&nodes))
    };
    let Imported { data, notes, .. } = import(&options).unwrap();
    assert_eq!(
        data.ids.iter().collect::<Vec<_>>(),
        ["zoe", "ann", "bob", "eve"]
    );
    assert_eq!(data.labels, Labels::Single(vec![1, 0, -1, 1]));
    assert_eq!(data.class_names.iter().collect::<Vec<_>>(), ["blue", "red"]);
    let expected = Features::dense(4, 1, vec![31.0, 4.5, -100.0, 0.0]);
    assert_eq!(data.features, expected.in_best_storage());
    assert_eq!(data.train, [true, false, false, false]);
    // Bob has no label to be tested on.
    assert_eq!((data.val[1], data.test[2]), (true, false));
    assert_eq!(
        (data.topology.relations(), edges_of(&data)),
        (2, vec![(1, 0), (2, 0)])
    );
    let notes: Vec<&str> = notes.iter().map(|note| note.0.as_str()).collect();
    let said = notes.join("\n");
    assert!(
        said.contains("left out column `city`, which is no number at line 2"),
        "{said}"
    );
    assert!(said.contains("features of edges in `kind`"), "{said}");
    assert!(
        said.contains("1 vertex of the test split without a label"),
        "{said}"
    );
    // What is written is read again.
    let file = files.0.path().join("g.npz");
    write::save(&data, &file).unwrap();
    let again = load(&file, &LoadOptions::default()).unwrap();
    assert_eq!(
        (&again.ids, &again.class_names),
        (&data.ids, &data.class_names)
    );
    assert_eq!((again.labels, again.features), (data.labels, data.features));
    assert_eq!(Format::of_name(&file), Some(Format::Npz));
}

#[test]
fn random_splits_have_the_shares_that_are_asked_for() {
    let files = Files::new();
    let row = |n: u32| format!("{n},{}\n", n % 4 / 3);
    let rows: String = (0..400).map(row).collect();
    let nodes = files.file("nodes.csv", format!("id,label\n{rows}"));
    let edges = files.file("edges.csv", "0,1\n");
    let split = |stratified, seed| {
        let shares = Shares {
            shares: [0.6, 0.2, 0.2],
            stratified,
            seed,
        };
        let options = Import {
            shares: Some(shares),
            ..of(&edges, Some(&nodes))
        };
        let data = import(&options).unwrap().data;
        [data.train, data.val, data.test]
    };
    let sizes = |masks: &[Vec<bool>; 3], class: u32| {
        let of_class = |mask: &Vec<bool>| {
            let own = (0..400).filter(|n| mask[*n as usize] && n % 4 / 3 == class);
            own.count()
        };
        masks.each_ref().map(of_class)
    };
    let even = split(true, 1);
    assert_eq!(
        (sizes(&even, 0), sizes(&even, 1)),
        ([180, 60, 60], [60, 20, 20])
    );
    let mixed = split(false, 1);
    let all: Vec<usize> = sizes(&mixed, 0)
        .iter()
        .zip(sizes(&mixed, 1))
        .map(|(a, b)| a + b)
        .collect();
    assert_eq!(all, [240, 80, 80]);
    assert_eq!(split(true, 1), even);
    assert_ne!(split(true, 2), even);
}

#[test]
fn mistakes_are_named_with_their_place() {
    let files = Files::new();
    let good = files.file("good.csv", "a,b\n");
    let nodes = files.file("nodes.csv", "id,x\na,1\nb,2\n");
    let refused = |options: &Import, expected: &str| {
        let error = import(options).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nexpected {expected}");
    };
    for (text, expected) in [
        ("a,b\na\n", "edges.csv:2: found a row of 1 field"),
        ("a,b\na,b,c\n", "expected 2 fields, as in the first row"),
        ("a,zz\n", "id `zz`, expected an id of the table of vertices"),
        ("a,\n", "no id"),
        ("a\nb\n", "expected a source and a target"),
        ("a,\u{0}\n", "expected an id of the table of vertices"),
    ] {
        let path = files.file("edges.csv", text);
        refused(&of(&path, Some(&nodes)), expected);
    }
    for (text, expected) in [
        ("x,y\n1,2\n", "a table without a column of ids (x, y)"),
        ("id,x\na,1\na,2\n", "bad.csv:3: found id `a` again"),
        ("id,x\na,1\nb,\n", "no value of `x`"),
        ("id,x\na,1\nb,inf\n", "expected a finite number"),
        ("id,split\na,train\nb,other\n", "split `other`"),
        ("id,x\na,1\nb\n", "expected 2 fields"),
    ] {
        let path = files.file("bad.csv", text);
        refused(&of(&good, Some(&path)), expected);
    }
    let missing = Import {
        source: Some("from".to_owned()),
        ..of(&good, None)
    };
    refused(
        &missing,
        "column `from` of --source is not supported; expected one of a, b",
    );
    let nothing = import(&of(&files.file("empty.csv", ""), None));
    assert!(matches!(nothing, Err(GraphError::Invalid { .. })));
    assert!(import(&of(Path::new("/nowhere/edges.csv"), None)).is_err());
}

#[test]
fn columns_may_hold_lists_and_masks() {
    let files = Files::new();
    let edges = files.file("edges.csv", "0,1\n");
    let text = "id,feat,age,pair,label,train_mask,val_mask,test_mask\n\
                0,\"1,2,3\",7,\"1,5\",2.0,True,0,0\n\
                1,\"[4 5 6]\",8,\"2,5\",,0,1,False\n\
                2,\"7, 8,9\",9,\"3,5\",0.0,0,,1.0\n";
    let read = |text: &str| import(&of(&edges, Some(&files.file("nodes.csv", text))));
    let Imported { data, notes, .. } = read(text).unwrap();
    let values = [1, 2, 3, 7, 4, 5, 6, 8, 7, 8, 9, 9].map(|x| x as f32);
    let expected = Features::dense(3, 4, values.to_vec()).in_best_storage();
    assert_eq!(data.features, expected);
    assert_eq!(data.labels, Labels::Single(vec![2, -1, 0]));
    assert_eq!(data.train, [true, false, false]);
    // The second vertex has no label.
    assert_eq!((data.val, data.test[2]), (vec![false; 3], true));
    let said: Vec<&str> = notes.iter().map(|note| note.0.as_str()).collect();
    // A comma between two numbers may be that of a decimal.
    assert!(
        said.join("\n").contains("left out column `pair`"),
        "{said:?}"
    );
    for (text, expected) in [
        (
            "id,f\n0,\"1,2,3\"\n1,\"1,2,3,4\"\n",
            "found 4 numbers in `f`, expected 3",
        ),
        (
            "id,f\n0,\"1,2,3\"\n1,4\n",
            "found 1 number in `f`, expected 3",
        ),
        ("id,f\n0,\"1,nan,3\"\n", "expected a finite number"),
        (
            "id,test_mask\n0,maybe\n",
            "found `maybe` in a mask, expected 1 or 0",
        ),
        (
            "id,label,train_mask,val_mask\n0,1,1,1\n1,0,0,0\n",
            "both the train and the val split",
        ),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nexpected {expected}");
    }
}

#[test]
fn files_of_other_programs_are_refused_with_what_to_do() {
    let files = Files::new();
    let torch = files.file("data.pt", b"PK\x03\x04 and so on");
    let hdf = files.file("edges.csv", b"\x89HDF\r\n\x1a\n and so on");
    let nodes = files.file("nodes.csv", "id\n0\n");
    let of_name = files.file("graph.bin", b"what DGL writes");
    for (options, found) in [
        (of(&hdf, None), "HDF5"),
        (of(&nodes, Some(&hdf)), "HDF5"),
        (of(&of_name, None), "DGL"),
    ] {
        let error = import(&options).unwrap_err();
        assert!(matches!(error, GraphError::Foreign { .. }), "{error}");
        assert!(error.to_string().contains(found), "{error}");
    }
    let error = load(&of_name, &LoadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("dgl.load_graphs"), "{error}");
    let error = load(&torch, &LoadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("torch.load"), "{error}");
}

#[test]
fn labels_and_splits_come_from_files_of_their_own() {
    let files = Files::new();
    let numbered = files.file("edges.csv", "0,1\n1,2\n");
    let named = files.file("named.csv", "a,b\nb,c\n");
    let npy = |descr: &str, values: &[u8]| {
        let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (3,), }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(values);
        bytes
    };
    let lists = files.0.path().join("lists");
    std::fs::create_dir(&lists).unwrap();
    for (list, text) in [
        ("train.csv", "b\n"),
        ("valid.txt", "a\n"),
        ("test.csv", "c\n"),
    ] {
        std::fs::write(lists.join(list), text).unwrap();
    }
    let read = |edges: &Path, labels: Vec<u8>, splits: PathBuf| {
        let name = if labels.starts_with(b"\x93") {
            "y.npy"
        } else {
            "y.csv"
        };
        import(&Import {
            labels: Some(files.file(name, labels)),
            splits: Some(splits),
            ..of(edges, None)
        })
    };
    let by_id = files.file("splits.csv", "id,split\n2,test\n0,train\n");
    let data = read(&numbered, b"red\n\"\"\nblue\n".to_vec(), by_id)
        .unwrap()
        .data;
    assert_eq!(data.labels, Labels::Single(vec![1, -1, 0]));
    assert_eq!((data.train[0], data.test[2]), (true, true));
    let sets = files.file("splits.npy", npy("|i1", &[0, 255, 1]));
    let data = read(&numbered, npy("|i1", &[1, 0, 2]), sets).unwrap().data;
    assert_eq!(data.labels, Labels::Single(vec![1, 0, 2]));
    assert_eq!((data.train, data.val[2]), (vec![true, false, false], true));
    let text = b"node,label\nc,7\na,0\nb,1\n".to_vec();
    // There are three vertices, so that classes are below 3, and 7 is a number.
    let values = vec![0.0, 1.0, 7.0];
    assert_eq!(
        read(&named, text, lists.clone()).unwrap().data.labels,
        Labels::Values { width: 1, values }
    );
    let text = b"node,label\nc,2\na,0\nb,1\n".to_vec();
    let data = read(&named, text, lists.clone()).unwrap().data;
    assert_eq!(data.labels, Labels::Single(vec![0, 1, 2]));
    assert_eq!(
        (data.train[1], data.val[0], data.test[2]),
        (true, true, true)
    );
    for (labels, splits, expected) in [
        ("0\n1\n", "train\n", "found 2 rows"),
        ("0\n1\n0\n", "train\nx\ntest\n", "split `x`"),
        (
            "id,label\nz,1\n",
            "train\n",
            "id `z`, expected the id of a vertex",
        ),
        ("id,label\na,1\na,1\n", "train\n", "id `a` again"),
        (
            "id,other\na,1\n",
            "train\n",
            "--labels with the columns id, other",
        ),
    ] {
        let expected = expected.replace("found 2 rows", "2 rows is not supported; expected 3");
        let splits = files.file("s.csv", splits);
        let error = read(&named, labels.as_bytes().to_vec(), splits)
            .unwrap_err()
            .to_string();
        assert!(error.contains(&expected), "{error}\nexpected {expected}");
    }
    std::fs::remove_file(lists.join("test.csv")).unwrap();
    let error = read(&named, b"0\n1\n0\n".to_vec(), lists)
        .unwrap_err()
        .to_string();
    assert!(error.contains("without a list `test`"), "{error}");
}

/// Any bytes give a graph or an error.
#[test]
fn damaged_tables_do_no_harm() {
    let files = Files::new();
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize
    };
    let pieces: [&[u8]; 14] = [
        b",",
        b"\n",
        b"\"",
        b"a",
        b"7",
        b";",
        b"\t",
        b" ",
        b"#",
        b"\xff",
        b"id",
        b"\r\n",
        b"src,dst",
        b"\x1f\x8b",
    ];
    for _ in 0..300 {
        let mut text = Vec::new();
        for _ in 0..next() % 40 {
            text.extend(pieces[next() % pieces.len()]);
        }
        let path = files.file("edges.csv", &text);
        let nodes = files.file("nodes.csv", &text);
        drop(import(&of(&path, None)));
        drop(import(&of(&path, Some(&nodes))));
        for name in ["g.json", "g.graphml"] {
            drop(import(&of(&files.file(name, &text), None)));
        }
    }
}
