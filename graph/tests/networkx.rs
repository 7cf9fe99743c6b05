//! Files that NetworkX writes: JSON in node-link form, and GraphML.

#![allow(clippy::unwrap_used, reason = "a test may stop and say why")]

use gnnc_graph::import::{Import, Imported, import};
use gnnc_graph::{Features, GraphData, GraphError, Labels};
use tempfile::TempDir;

fn edges_of(data: &GraphData) -> Vec<(u32, u32)> {
    let into = |v| data.topology.in_neighbours(v).iter().map(move |u| (*u, v));
    (0..data.vertices()).flat_map(into).collect()
}

/// Imports a text as a file of this name.
fn of(name: &str, text: &str) -> Result<Imported, GraphError> {
    let folder: TempDir = tempfile::tempdir().unwrap();
    let edges = folder.path().join(name);
    std::fs::write(&edges, text).unwrap();
    import(&Import {
        edges,
        ..Import::default()
    })
}

#[test]
fn node_link_files_of_networkx_are_read() {
    let text = |directed: &str, edges: &str| {
        format!(
            "{{{directed}\"multigraph\": false, \"graph\": {{\"made\": [1, {{}}]}}, \"nodes\": [\
             {{\"note\": \"hi\", \"label\": \"red\", \"x\": [0.5, 1], \"old\": true, \"id\": \"a\"}},\
             {{\"id\": 7, \"x\": [2, 3], \"old\": false, \"label\": null}},\
             {{\"id\": \"c,\\\"d\\\"\", \"x\": [4, 5e-1], \"old\": true, \"label\": \"blue\"}}],\
             \"{edges}\": [{{\"source\": \"a\", \"target\": 7, \"weight\": 2}},\
             {{\"target\": \"a\", \"source\": \"c,\\\"d\\\"\"}}]}}"
        )
    };
    let read = |text: &str| of("g.json", text);
    let Imported { data, notes, .. } = read(&text("\"directed\": true, ", "links")).unwrap();
    assert_eq!(data.ids.iter().collect::<Vec<_>>(), ["a", "7", "c,\"d\""]);
    assert_eq!(edges_of(&data), [(2, 0), (0, 1)]);
    assert_eq!(data.labels, Labels::Single(vec![1, -1, 0]));
    let values = vec![0.5, 1.0, 1.0, 2.0, 3.0, 0.0, 4.0, 0.5, 1.0];
    assert_eq!(
        data.features,
        Features::dense(3, 3, values).in_best_storage()
    );
    let said: Vec<&str> = notes.iter().map(|note| note.0.as_str()).collect();
    assert!(
        said.join("\n").contains("left out column `weight`"),
        "{said:?}"
    );
    assert!(
        said.join("\n").contains("left out column `note`"),
        "{said:?}"
    );
    for directed in ["\"directed\": false, ", ""] {
        let data = read(&text(directed, "edges")).unwrap().data;
        assert_eq!(edges_of(&data), [(1, 0), (2, 0), (0, 1), (0, 2)]);
    }
    for (text, expected) in [
        ("{\"nodes\": []}", "missing field `links`"),
        ("[1]", "expected a graph as networkx"),
        ("7", "expected an object with nodes and links"),
        (
            "{\"nodes\": [{}], \"links\": []}",
            "an object without fields",
        ),
        (
            "{\"nodes\": [{\"a\": 1}], \"links\": []}",
            "without a column of ids (a)",
        ),
        (
            "{\"nodes\": [{\"id\": 1}, {\"id\": 1}], \"links\": []}",
            "id `1` again",
        ),
        (
            "{\"nodes\": [{\"id\": 1}], \"links\": [{\"source\": 1}]}",
            "a source and a target",
        ),
        (
            "{\"nodes\": [{\"id\": 1}], \"links\": [{\"source\": 1, \"target\": 2}]}",
            "id `2`",
        ),
        (
            "{\"nodes\": [{\"id\": 1}], \"links\": [], \"edges\": []}",
            "duplicate field",
        ),
        ("{\"nodes\": [{\"id\": NaN}]}", "g.json:1: found"),
        ("", "g.json:1: found EOF"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nexpected {expected}");
    }
    // An attribute `ID` is none of the vertices' own.
    let data = read(
        "{\"nodes\": [{\"ID\": 5, \"id\": \"a\"}, {\"ID\": 6, \"id\": \"b\"}], \
         \"links\": [{\"source\": \"a\", \"target\": \"b\"}]}",
    )
    .unwrap()
    .data;
    assert_eq!(data.ids.iter().collect::<Vec<_>>(), ["a", "b"]);
    let deep = format!("{{\"nodes\": {}", "[".repeat(100_000));
    assert!(read(&deep).is_err());
    let names: Vec<String> = (0..5000)
        .map(|n| format!("{{\"id\": {n}, \"n{n}\": 1}}"))
        .collect();
    let wide = format!("{{\"nodes\": [{}], \"links\": []}}", names.join(","));
    assert!(
        read(&wide)
            .unwrap_err()
            .to_string()
            .contains("more than 4096 attributes")
    );
}

#[test]
fn graphml_is_read() {
    let text = |default: &str, more: &str| {
        format!(
            "<?xml version='1.0' encoding='utf-8'?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\
             <key id=\"d0\" for=\"node\" attr.name=\"label\" attr.type=\"string\"/>\
             <key id=\"d1\" for=\"node\" attr.name=\"x\" attr.type=\"double\"><default>1.5</default></key>\
             <key id=\"d2\" for=\"node\" attr.name=\"old\" attr.type=\"boolean\"><default>false</default></key>\
             <key id=\"d3\" for=\"edge\" attr.name=\"weight\" attr.type=\"double\"/>\
             <graph edgedefault=\"{default}\"><!-- who -->\
             <node id=\"a &amp; b\"><data key=\"d0\">red &lt;1&gt;</data><data key=\"d2\">true</data></node>\
             <node id=\"c\"><data key=\"d0\">\n  <![CDATA[blue]]>\n</data><data key=\"d1\"> -2 </data></node>\
             <node id=\"d\"/>\
             <edge source=\"a &amp; b\" target=\"c\"><data key=\"d3\">0.5</data></edge>\
             <edge id=\"e1\" source=\"d\" target=\"a &amp; b\"/>{more}</graph></graphml>"
        )
    };
    let read = |text: &str| of("g.graphml", text);
    let Imported { data, notes, .. } = read(&text("directed", "")).unwrap();
    assert_eq!(data.ids.iter().collect::<Vec<_>>(), ["a & b", "c", "d"]);
    assert_eq!(edges_of(&data), [(2, 0), (0, 1)]);
    assert_eq!(data.labels, Labels::Single(vec![1, 0, -1]));
    assert_eq!(
        data.class_names.iter().collect::<Vec<_>>(),
        ["blue", "red <1>"]
    );
    let expected = Features::dense(3, 2, vec![1.5, 1.0, -2.0, 0.0, 1.5, 0.0]);
    assert_eq!(data.features, expected.in_best_storage());
    let said: Vec<&str> = notes.iter().map(|note| note.0.as_str()).collect();
    assert!(
        said.join("\n").contains("left out column `weight`"),
        "{said:?}"
    );
    let data = read(&text("undirected", "")).unwrap().data;
    assert_eq!(edges_of(&data), [(1, 0), (2, 0), (0, 1), (0, 2)]);
    let inside = |more: &str| text("directed", more);
    for (text, expected) in [
        (inside("<edge source=\"c\"/>"), "`edge` without `target`"),
        (inside("<edge source=\"c\" target=\"z\"/>"), "id `z`"),
        (inside("<node id=\"c\"/>"), "id `c` again"),
        (
            inside("<edge source=\"c\" target=\"d\" directed=\"false\"/>"),
            "directed unlike",
        ),
        (inside("<hyperedge/>"), "more than two ends"),
        (
            inside("<node id=\"n\"><graph/></node>"),
            "a graph within a vertex",
        ),
        (
            inside("<node id=\"n\"><data key=\"d9\">1</data></node>"),
            "the key `d9`",
        ),
        (
            inside("<node id=\"n\"><data key=\"d0\">&bomb;</data></node>"),
            "the unknown entity `&bomb;`",
        ),
        (inside("</graph><graph>"), "a data set of 2 graphs"),
        (inside("<node>"), "`node` without `id`"),
        (inside("</node>"), "g.graphml: byte"),
        ("<html></html>".to_owned(), "a file of `html`"),
        ("<graphml><graph>".to_owned(), "without a whole graph"),
        ("".to_owned(), "without a whole graph"),
        ("<graphml><".to_owned(), "g.graphml"),
        (
            format!("<graphml>{}", "<a>".repeat(1000)),
            "within more than 64",
        ),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nexpected {expected}");
    }
}

#[test]
fn small_files_do_not_become_large_tables() {
    let nodes: String = (0..2000).map(|n| format!("<node id=\"{n}\"/>")).collect();
    let text = format!(
        "<graphml><key id=\"d\" for=\"node\"><default>{}</default></key>\
         <graph edgedefault=\"directed\">{nodes}</graph></graphml>",
        "x".repeat(100_000)
    );
    let error = of("g.graphml", &text).unwrap_err().to_string();
    assert!(error.contains("more than 64 MiB"), "{error}");
    let text = format!("<graphml><key id=\"d\">{}", "x".repeat(17 << 20));
    let error = of("g.graphml", &format!("{text}</key></graphml>"));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("a text of more than 16 MiB"), "{error}");
}
