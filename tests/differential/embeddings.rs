//! Named tensors of trained models on any number of ranks, against the interpreter.

use crate::check::{Case, Way};
use crate::data::planted;
use crate::models::{APPNP, GAT, GCN, GCNII, GIN, RGCN, SAGE, shape};
use gnnc::ir::graph::eval::{EvalContext, evaluate};
use gnnc::ir::plan::Placement;
use gnnc::{TrainOptions, Weights, embeddings};
use std::path::{Path, PathBuf};

/// Relative to the largest number of the tensor, which is computed in 32 bits.
const TOLERANCE: f64 = 1e-5;

/// Writes a checkpoint of a model, and keeps its parameters for the interpreter.
fn trained(case: &Case, name: &str) -> (PathBuf, EvalContext) {
    let one = Way {
        placement: Placement::Graph,
        ranks: 1,
        partitioner: "range",
        threads: 1,
    };
    let trainer = case.start(one);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("embeddings-{name}"));
    trainer.session.save(&path).unwrap();
    let params = case.parameters(&trainer.session.parameters().unwrap());
    let context = EvalContext {
        params,
        ..case.context().clone()
    };
    (path, context)
}

/// Compares the named tensors of a model, with dense and with sparse features.
#[track_caller]
/// The best parameters of a run.
fn of_run(checkpoint: &Path) -> Weights<'_> {
    Weights::Run {
        checkpoint,
        last: false,
    }
}

fn check(model: &str, body: &str, names: &[&str]) {
    for sparse in [false, true] {
        let case = Case::new("", body, planted(shape(sparse)));
        let (path, context) = trained(&case, &format!("{model}-{sparse}"));
        let run = of_run(&path);
        for name in names {
            let graph = case.loaded.model.forward_to(name).unwrap();
            let expected = evaluate(&graph, &context).unwrap().remove(0);
            let largest = expected.data.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
            for (workers, threads) in [(1, 1), (2, 1), (4, 2)] {
                let options = TrainOptions {
                    workers,
                    threads,
                    checked: true,
                    ..TrainOptions::default()
                };
                let found = embeddings(&case.loaded, name, &options, run).unwrap();
                assert_eq!(
                    found.width,
                    expected.ty.columns() as usize,
                    "{model} {name}"
                );
                assert_eq!(found.values.len(), expected.data.len(), "{model} {name}");
                for (k, (x, e)) in found.values.iter().zip(&expected.data).enumerate() {
                    assert!(
                        (f64::from(*x) - e).abs() <= TOLERANCE * largest,
                        "{model} {name} on {workers} workers, number {k}: {x}, not {e}"
                    );
                }
            }
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn layers_are_those_of_the_interpreter() {
    check("gcn", GCN, &["h"]);
    check("sage", SAGE, &["h"]);
    check("gin", GIN, &["h", "g"]);
    check("rgcn", RGCN, &["h"]);
}

#[test]
fn heads_of_attention_are_columns() {
    check("gat", GAT, &["h", "z"]);
}

#[test]
fn tensors_of_loops_are_those_of_the_last_iteration() {
    check("gcnii", GCNII, &["h0", "h"]);
    check("appnp", APPNP, &["u", "z"]);
}

/// Tensors that are views of others, or the same in every epoch.
#[test]
fn tensors_need_no_kernel_of_their_own() {
    let body = "let mean = gather(x@src, mean)
         let wide = concat(x |> linear(6), mean)
         let twice = mean
         let plus = (wide |> linear(4)) + 1
         loss cross_entropy(plus |> dropout(0.5) |> linear(classes), labels, on = train)";
    check("views", body, &["mean", "wide", "twice", "plus"]);
}

#[test]
fn other_names_are_refused_with_what_they_are() {
    let body = "let k = 3
         let same = x |> dropout(0.5)
         let e = x@src + x@dst
         let h = gather(e, sum) |> linear(k)
         loss cross_entropy(h |> linear(classes), labels, on = train)";
    let case = Case::new("", body, planted(shape(false)));
    let (path, _) = trained(&case, "refused");
    let run = of_run(&path);
    let options = TrainOptions::default();
    let refused = |name: &str| {
        let found = embeddings(&case.loaded, name, &options, run);
        found.map(|found| found.width).unwrap_err().to_string()
    };
    for name in ["k", "nothing", "x", "classes"] {
        let said = refused(name);
        let expected =
            format!("the model computes no tensor `{name}`, expected `same`, `e` or `h`");
        assert_eq!(said, expected);
    }
    let edges = refused("e");
    assert!(edges.contains("`e` is a tensor ["), "{edges}");
    assert!(
        edges.contains("expected one with a row for each vertex"),
        "{edges}"
    );
    let same = refused("same");
    assert!(
        same.contains("`same` are the features of the graph"),
        "{same}"
    );
    std::fs::remove_file(path).unwrap();
}
