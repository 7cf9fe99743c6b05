//! Folders of DGL's CSVDataset with a table of graphs.

use super::{Folder, edge_numbers, edges_of, graphs_of, said};
use gnnc_graph::import::{Import, import};
use gnnc_graph::{Features, Labels};

const META: &str = "\
dataset_name: many
edge_data:
- file_name: edges.csv
node_data:
- file_name: nodes.csv
graph_data:
  file_name: graphs.csv
";

/// Two graphs, whose vertices have the same ids.
fn pair() -> Folder {
    Folder::new(&[
        ("meta.yaml", META),
        (
            "graphs.csv",
            "graph_id,label,train_mask,val_mask,test_mask,feat\na,1,True,False,False,\"1,2\"\n\
             b,0,False,True,False,\"3,4\"\n",
        ),
        (
            "nodes.csv",
            "graph_id,node_id,label,feat\na,0,0,\"1,2\"\nb,0,1,\"3,4\"\na,1,0,\"5,6\"\nb,1,1,\"7,8\"\n",
        ),
        (
            "edges.csv",
            "graph_id,src_id,dst_id,feat\na,0,1,0.5\nb,1,0,0.25\n",
        ),
    ])
}

#[test]
fn ids_are_those_of_a_graph() {
    let folder = pair();
    let found = folder.read().unwrap();
    let data = &found.data;
    assert_eq!(data.validate(), []);
    assert_eq!(edges_of(data), [(3, 1), (0, 2)]);
    assert_eq!(edge_numbers(data), [0.25, 0.5]);
    assert_eq!(graphs_of(data), [[0, 2], [1, 3]]);
    assert_eq!(data.labels, Labels::Single(vec![-1, -1, -1, -1, 1, 0]));
    assert_eq!((data.train[4], data.val[5]), (true, true));
    let values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 0.0, 0.0, 0.0, 0.0];
    let expected = Features::dense(6, 2, values).in_best_storage();
    assert_eq!(data.features, expected);
    assert_eq!([data.id_of(4), data.id_of(5)], ["a", "b"]);
    let notes = said(&found);
    assert!(
        notes.contains("left out column `feat`, since graphs have no features"),
        "{notes}"
    );
    assert!(
        notes.contains("graphs.csv: 2 graphs, 0 features"),
        "{notes}"
    );
    // Splits by the ids of the graphs.
    folder.file("splits.csv", "id,split\nb,test\na,val\n");
    let own = import(&Import {
        splits: Some(folder.path().join("splits.csv")),
        symmetrise: true,
        ..folder.options()
    });
    let own = own.unwrap().data;
    assert!(own.val[4] && own.test[5] && !own.train.contains(&true));
    assert_eq!(edges_of(&own).len(), 4);
    // Graphs that are numbered have no other ids.
    for file in ["graphs", "nodes", "edges"] {
        let path = folder.path().join(format!("{file}.csv"));
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace("\na,", "\n0,").replace("\nb,", "\n1,");
        std::fs::write(path, text).unwrap();
    }
    let found = folder.read().unwrap();
    assert!(found.data.ids.is_empty());
    assert_eq!(found.data.id_of(5), "1");
}

#[test]
fn several_tables_of_edges_are_types() {
    let folder = pair();
    let two = META.replace(
        "- file_name: edges.csv\n",
        "- file_name: edges.csv\n- file_name: more.csv\n  graph_id_field: g\n",
    );
    folder.file("meta.yaml", &two);
    folder.file("more.csv", "g,src_id,dst_id\na,1,0\n");
    let data = folder.read().unwrap().data;
    assert_eq!((data.topology.relations(), edges_of(&data).len()), (2, 3));
}

#[test]
fn what_does_not_fit_is_refused() {
    for (file, from, to, expected) in [
        (
            "nodes.csv",
            "b,1,1",
            "c,1,1",
            "nodes.csv:5: found graph `c`",
        ),
        (
            "nodes.csv",
            "b,1,1",
            "b,0,1",
            "found id `0` again, expected each id once in a graph",
        ),
        (
            "nodes.csv",
            "graph_id",
            "graph",
            "a table without the column `graph_id`",
        ),
        (
            "edges.csv",
            "graph_id",
            "graph",
            "a table without the column `graph_id`",
        ),
        (
            "edges.csv",
            "b,1,0",
            "c,1,0",
            "edges.csv:3: found graph `c`",
        ),
        (
            "edges.csv",
            "b,1,0",
            "b,7,0",
            "found id `7`, expected an id of the table of vertices",
        ),
        ("edges.csv", "b,1,0", "b,1", "expected 4 fields"),
        ("graphs.csv", "\nb,", "\na,", "found id `a` again"),
        ("graphs.csv", "\nb,", "\nc,", "found graph `b`"),
        (
            "graphs.csv",
            "graph_id",
            "graph",
            "column `graph_id` of --id",
        ),
        (
            "graphs.csv",
            "False,True,False",
            "False,x,False",
            "found `x` in a mask",
        ),
        (
            "graphs.csv",
            "False,True,False",
            "True,True,False",
            "1 graph in both the train and the val",
        ),
        ("meta.yaml", "graphs.csv", "none.csv", "none.csv"),
        (
            "meta.yaml",
            "graph_data",
            "more_data",
            "without a table of graphs",
        ),
    ] {
        let folder = pair();
        let path = folder.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file}: {from}");
        folder.file(file, text.replacen(from, to, 1));
        folder.refused(expected);
    }
}
