//! What `check` refuses, and its messages.

use crate::data::{folder, ring};
use crate::support::{Folder, example, gnnc, text};
use gnnc::graph::{GraphData, Labels};

/// `check` refuses what `train` refuses, with the same message, and names functions that exist.
#[test]
fn check_passes_nothing_that_cannot_be_trained() {
    let several = |data: &mut GraphData| {
        let values = vec![1.0; 18];
        data.labels = Labels::Values { width: 3, values };
    };
    type Change = fn(&mut GraphData);
    let cases: [(Change, &str, &str); 3] = [
        (
            |_| (),
            "bce_with_logits",
            "has one class per vertex, expected numbers for `bce_with_logits`: labels of a floating-point type, or a row of \
             them per vertex; use `cross_entropy` for classes",
        ),
        (
            several,
            "cross_entropy",
            "has 3 numbers per vertex, expected one class per vertex for `cross_entropy`, a whole number; use \
             `bce_with_logits` for several labels",
        ),
        (
            |_| (),
            "cross_entropy(dropout(parameter(2), 0.5) + ",
            "dropout of a parameter cannot be run yet",
        ),
    ];
    for (change, loss, why) in cases {
        let mut data = ring();
        change(&mut data);
        let (folder, model) = folder(&data);
        let text_of = std::fs::read_to_string(&model).unwrap();
        let loss = if loss.ends_with(' ') {
            loss.to_owned()
        } else {
            format!("{loss}(")
        };
        let model = folder.file("m.gir", text_of.replace("cross_entropy(", &loss));
        let refusals = ["check", "train"].map(|command| {
            let run = gnnc([command, text(&model)]);
            assert_eq!(run.code, Some(1), "{command}: {}", run.stdout);
            run.stderr
        });
        assert!(refusals[0].contains(why), "{refusals:?}");
        assert_eq!(refusals[0], refusals[1]);
    }
}

/// Users who run programs never see types or functions of the library.
#[test]
fn messages_name_no_types_of_rust() {
    let folder = Folder::new();
    let model = example("gcn_cora.gir");
    let far = folder.file("far.csv", "0,3000000000\n");
    let run = gnnc(["graph", "stats", text(&far)]);
    assert_eq!(run.code, Some(1));
    assert!(!run.stderr.contains("::"), "{}", run.stderr);
    assert!(
        run.stderr.contains("save the graph as .npz"),
        "{}",
        run.stderr
    );
    let stats = [
        "graph",
        "stats",
        &format!("{}/examples/data/cora.npz", crate::support::ROOT),
        "--format",
        "json",
    ];
    let stats = gnnc(stats).ok();
    for (old, new) in [
        ("\"features\": 1433", "\"features\": 1099511627776"),
        ("\"features\": 1433", "\"features\": 2.5"),
    ] {
        let file = folder.file("w.json", stats.replace(old, new));
        let run = gnnc(["plan", &model, "--workload", text(&file)]);
        assert_eq!(run.code, Some(1), "{}", run.stdout);
        assert!(!run.stderr.contains("u32"), "{}", run.stderr);
        let expected = "expected a whole number from 0 to 4294967295";
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    }
}
