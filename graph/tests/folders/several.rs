//! Folders of data sets with several types of vertices.

use super::{Folder, said};
use gnnc_graph::import::{Import, import};
use gnnc_graph::{Features, GraphData, Labels};

/// Papers with two features and labels, authors with one feature, places with none.
fn ogb() -> Folder {
    Folder::new(&[
        ("raw/num-node-dict.csv.gz", "paper,author,place\n3,2,1\n"),
        (
            "raw/triplet-type-list.csv.gz",
            "paper,cites,paper\nauthor,writes,paper\nauthor,lives in,place\n",
        ),
        (
            "raw/relations/paper___cites___paper/edge.csv.gz",
            "0,1\n2,1\n",
        ),
        (
            "raw/relations/author___writes___paper/edge.csv.gz",
            "0,0\n1,2\n",
        ),
        (
            "raw/relations/author___lives in___place/edge.csv.gz",
            "1,0\n",
        ),
        ("raw/node-feat/paper/node-feat.csv.gz", "1,2\n3,4\n5,6\n"),
        ("raw/node-feat/author/node-feat.csv.gz", "7\n8\n"),
        ("raw/node-label/paper/node-label.csv.gz", "1\n0\n1\n"),
        ("split/time/paper/train.csv.gz", "0\n"),
        ("split/time/paper/valid.csv.gz", "1\n"),
        ("split/time/paper/test.csv.gz", "2\n"),
    ])
}

/// The graph of both folders: authors 0 and 1, papers 2 to 4, place 5.
#[track_caller]
fn check(data: &GraphData) {
    let types: Vec<_> = data.vertex_types.iter().collect();
    assert_eq!(types, ["author", "paper", "place"]);
    assert_eq!(data.vertices_of_type("paper"), Some(vec![2, 3, 4]));
    let edges: Vec<_> = data.topology.typed_edges().collect();
    // Types of edges: lives in, writes, cites.
    assert_eq!(
        edges,
        [(0, 2, 1), (2, 3, 2), (4, 3, 2), (1, 4, 1), (1, 5, 0)]
    );
    #[rustfmt::skip]
    let values = vec![
        7.0, 0.0, 0.0, 1.0, 0.0, 0.0,
        8.0, 0.0, 0.0, 1.0, 0.0, 0.0,
        0.0, 1.0, 2.0, 0.0, 1.0, 0.0,
        0.0, 3.0, 4.0, 0.0, 1.0, 0.0,
        0.0, 5.0, 6.0, 0.0, 1.0, 0.0,
        0.0, 0.0, 0.0, 0.0, 0.0, 1.0,
    ];
    assert_eq!(data.features.to_dense(), Features::dense(6, 6, values));
    assert_eq!(data.labels, Labels::Single(vec![-1, -1, 1, 0, 1, -1]));
    let masks = [&data.train, &data.val, &data.test];
    let places = masks.map(|mask| mask.iter().position(|own| *own));
    assert_eq!(places, [Some(2), Some(3), Some(4)]);
}

#[test]
fn folders_of_ogb_are_read() {
    let set = ogb();
    let found = set.read().unwrap();
    check(&found.data);
    let ids: Vec<_> = found.data.ids.iter().collect();
    assert_eq!(ids[1..4], ["author:1", "paper:0", "paper:1"]);
    assert!(said(&found).contains("--symmetrize"), "{}", said(&found));
    let both = Import {
        symmetrise: true,
        ..set.options()
    };
    let both = import(&both).unwrap().data;
    assert_eq!((both.topology.edges(), both.topology.relations()), (10, 6));
}

#[test]
fn folders_of_ogb_that_are_wrong_are_refused() {
    for (file, text, expected) in [
        (
            "raw/num-node-dict.csv.gz",
            "paper,author\n3,2\n",
            "vertices of type `place`",
        ),
        (
            "raw/num-node-dict.csv.gz",
            "paper\n3\n4\n",
            "a data set of 2 graphs",
        ),
        (
            "raw/num-node-dict.csv.gz",
            "paper,author,/tmp\n3,2,1\n",
            "the type `/tmp`",
        ),
        (
            "raw/num-node-dict.csv.gz",
            "paper,author,author\n3,2,1\n",
            "the type `author`",
        ),
        (
            "raw/triplet-type-list.csv.gz",
            "paper,cites,paper\npaper,cites,paper\n",
            "each type of edges once",
        ),
        (
            "raw/num-node-dict.csv.gz",
            "paper,author,place\n3,2,x\n",
            "`x`",
        ),
        (
            "raw/num-node-dict.csv.gz",
            "paper,author,place\n3,2,4000000000\n",
            "limit",
        ),
        (
            "raw/triplet-type-list.csv.gz",
            "paper,../cites,paper\n",
            "`../cites`",
        ),
        (
            "raw/triplet-type-list.csv.gz",
            "paper,cites\n",
            "expected the type",
        ),
        (
            "raw/triplet-type-list.csv.gz",
            "paper,reads,paper\n",
            "edge.csv.gz",
        ),
        (
            "raw/relations/author___writes___paper/edge.csv.gz",
            "2,0\n",
            "from 0 to 1",
        ),
        (
            "raw/node-feat/author/node-feat.csv.gz",
            "7\n",
            "1 row is not supported; expected 2",
        ),
        (
            "raw/node-label/author/node-label.csv.gz",
            "7\n7\n",
            "--label-type",
        ),
        ("split/time/paper/test.csv.gz", "3\n", "from 0 to 2"),
    ] {
        let set = ogb();
        set.file(file, text);
        set.refused(expected);
    }
}

const META: &str = "\
edge_data:
- {file_name: cites.csv, etype: [paper, cites, paper]}
- {file_name: writes.csv, etype: [author, writes, paper]}
- {file_name: lives.csv, etype: [author, lives in, place]}
node_data:
- {file_name: papers.csv, ntype: paper}
- {file_name: authors.csv, ntype: author}
- {file_name: places.csv, ntype: place}
";

fn dgl() -> Folder {
    Folder::new(&[
        ("meta.yaml", META),
        (
            "papers.csv",
            "node_id,label,train_mask,val_mask,test_mask,feat\na,1,1,0,0,\"1,2\"\nb,0,0,1,0,\"3,4\"\n\
             c,1,0,0,1,\"5,6\"\n",
        ),
        ("authors.csv", "node_id,feat\na,7\nb,8\n"),
        ("places.csv", "node_id\na\n"),
        ("cites.csv", "src_id,dst_id\na,b\nc,b\n"),
        ("writes.csv", "src_id,dst_id\na,a\nb,c\n"),
        ("lives.csv", "src_id,dst_id\nb,a\n"),
    ])
}

#[test]
fn folders_of_dgl_are_read() {
    let found = dgl().read().unwrap();
    check(&found.data);
    let ids: Vec<_> = found.data.ids.iter().collect();
    assert_eq!(
        ids,
        [
            "author:a", "author:b", "paper:a", "paper:b", "paper:c", "place:a"
        ]
    );
}

#[test]
fn folders_of_dgl_that_are_wrong_are_refused() {
    let with = |from: &str, to: &str| {
        let set = dgl();
        set.file("meta.yaml", META.replace(from, to));
        set
    };
    with(", ntype: place", "").refused("places.csv without ntype");
    with(", etype: [paper, cites, paper]", "").refused("cites.csv without etype");
    with("ntype: place", "ntype: paper").refused("two tables of vertices of type `paper`");
    with("[author, writes, paper]", "[place, writes, paper]")
        .refused("an id of the table of `place`");
    with("node_data:", "graph_data: {file_name: g.csv}\nnode_data:").refused("many graphs");
    let set = dgl();
    set.file("authors.csv", "node_id,label\na,0\nb,1\n");
    set.refused("labels of the types author, paper");
    let of = |name: &str| {
        import(&Import {
            label_type: Some(name.to_owned()),
            ..set.options()
        })
    };
    let data = of("author").unwrap().data;
    assert_eq!(data.labels, Labels::Single(vec![0, 1, -1, -1, -1, -1]));
    assert!(!data.train.contains(&true));
    let error = of("reader").unwrap_err().to_string();
    assert!(error.contains("one of author, paper, place"), "{error}");
}

/// Colons in names and spaces in types of edges keep vertices and relations apart.
#[test]
fn names_of_types_may_hold_anything() {
    let meta = "\
edge_data:
- {file_name: one.csv, etype: ['a', 'b c', 'a:b']}
- {file_name: two.csv, etype: ['a', 'b', 'a:b']}
node_data:
- {file_name: a.csv, ntype: a}
- {file_name: b.csv, ntype: 'a:b'}
";
    let set = Folder::new(&[
        ("meta.yaml", meta),
        ("a.csv", "node_id,feat\nb:c,1\n"),
        ("b.csv", "node_id,feat\nc,2\n"),
        ("one.csv", "src_id,dst_id\nb:c,c\n"),
        ("two.csv", "src_id,dst_id\nb:c,c\n"),
    ]);
    let data = set.read().unwrap().data;
    let edges: Vec<_> = data.topology.typed_edges().collect();
    assert_eq!((data.vertices(), edges), (2, vec![(0, 1, 0), (0, 1, 1)]));
    assert_eq!(data.ids.iter().collect::<Vec<_>>(), ["a:b:c", "a:b:c"]);
}
