//! The standard layers against values computed by hand: row 0 (or 3) of each operator on G8,
//! the eight-vertex graph with `x[v][j] = ((3 v + 5 j) mod 7) - 3`.

use gnnc_ir::graph::eval::{EvalContext, Tensor, evaluate};
use gnnc_ir::graph::{Init, ParamSpec};
use gnnc_ir::words::types::{Rows, Type};
use gnnc_ir::workload::GraphFacts;
use gnnc_lang::check::elaborate;
use gnnc_lang::syntax::parse;

const INDPTR: [u64; 9] = [0, 2, 4, 7, 10, 13, 16, 18, 20];
const INDICES: [u32; 20] = [1, 2, 0, 2, 0, 1, 3, 2, 4, 5, 3, 5, 6, 3, 4, 7, 4, 7, 5, 6];

/// Start values: weights are the identity (repeated vertically if there are several), attention
/// vectors select the first column, everything else starts as declared.
fn value(spec: &ParamSpec) -> Tensor {
    let Rows::Fixed(rows) = spec.ty.rows else {
        panic!("{} has no fixed rows", spec.name)
    };
    let (rows, columns) = (rows as usize, spec.ty.columns() as usize);
    let one = |at: usize| {
        let (row, column) = (at / columns % rows, at % columns);
        match spec.init {
            Init::Ones => 1.0,
            Init::Uniform(_) if spec.name.ends_with("attention") => f64::from(column % 4 == 0),
            Init::Uniform(_) if spec.name.ends_with("bias") => 0.0,
            // The first is the identity, the second twice that.
            Init::Uniform(_)
                if ["rgcn_conv_1.bases", "rgcn_conv_1.weight"].contains(&spec.name.as_str()) =>
            {
                f64::from(column % 4 == row) * (1 + column / 4) as f64
            }
            Init::Uniform(_) => f64::from(row % columns == column),
            Init::Zeros | Init::Constant(_) => 0.0,
        }
    };
    let count = rows * columns * spec.ty.stack.max(1) as usize;
    Tensor::new(spec.ty, rows, (0..count).map(one).collect())
}

/// Edge types: 0 from a lower to a higher vertex, else 1.
fn types() -> Vec<u16> {
    let rows = INDPTR.windows(2).zip(0..);
    let edges = rows.flat_map(|(ends, dst)| {
        let sources = &INDICES[ends[0] as usize..ends[1] as usize];
        sources.iter().map(move |src| u16::from(*src > dst))
    });
    edges.collect()
}

/// The loss and the logits of a model body; labels are 0 for the first half of the vertices.
fn run(body: &str, classes: u32, train: &[usize]) -> (f64, Tensor) {
    run_typed(body, classes, train, types())
}

fn run_typed(body: &str, classes: u32, train: &[usize], types: Vec<u16>) -> (f64, Tensor) {
    let relations = types.iter().max().map_or(0, |most| u32::from(*most) + 1);
    let text = format!(
        "graph g8 {{ vertices = 8 edges = 20 features = 4 classes = {classes} }}
         model m() on g8 {{ {body} }}"
    );
    let (module, diagnostics) = parse(&text);
    assert_eq!(diagnostics, []);
    let (model, diagnostics) = elaborate(
        &module,
        &GraphFacts {
            features: 4,
            classes,
            vertex_types: 0,
            relations,
            edge_features: 0,
            edge_sets: None,
        },
        &[],
    );
    assert_eq!(diagnostics, []);
    let model = model.expect("a model");
    let x = (0..32)
        .map(|k| f64::from((3 * (k / 4) + 5 * (k % 4)) % 7 - 3))
        .collect();
    let context = EvalContext {
        edge_features: Vec::new(),
        sets: Vec::new(),
        indptr: INDPTR.to_vec(),
        indices: INDICES.to_vec(),
        types,
        features: Tensor::new(Type::vertices(4), 8, x),
        labels: (0..8).map(|v| f64::from(u8::from(v >= 4))).collect(),
        train: (0..8).map(|v| train.contains(&v)).collect(),
        params: model.graph.params.iter().map(value).collect(),
        dropout: None,
        histories: Vec::new(),
        order: Vec::new(),
        blocks: Vec::new(),
        batch: None,
    };
    let mut results = evaluate(&model.graph, &context).expect("a value");
    let logits = results.pop().expect("logits");
    (results[0].data[0], logits)
}

#[test]
fn layers_have_their_golden_values() {
    let layer_norm = [-1.1717, 1.4321, 0.3906, -0.6509];
    let appnp = "let z = x repeat k in 1..=2 { z = appnp_step(z, x) } return z";
    let sgc = "return x |> propagate |> propagate";
    let gcnii = "return gcnii_conv(x, x, alpha = 0.1, beta = 0.3)";
    // GIN with eps = 0, reduced to the sum.
    let gin = "return x + gather(x@src, sum)";
    let sym = "return aggregate(x, sum, norm = sym, self_loops = true)";
    let cases: [(&str, usize, [f64; 4]); 14] = [
        ("return rgcn_conv(x, 4)", 2, [-0.5, -5.0, 4.5, -3.5]),
        (
            "return rgcn_conv(x, 4, bases = 2)",
            2,
            [-0.5, -5.0, 4.5, -3.5],
        ),
        (
            "return gcn_conv(x, 4)",
            0,
            [-0.1340, 0.2887, 0.7113, -1.1994],
        ),
        ("return gcn_conv(x, 4)", 3, [0.5, 0.25, 0.0, -0.25]),
        (sym, 0, [-0.1340, 0.2887, 0.7113, -1.1994]),
        (sgc, 0, [-0.1950, 0.0481, 0.7964, -1.0994]),
        ("return aggregate(x, sum)", 0, [3.0, -1.0, 2.0, -2.0]),
        ("return aggregate(x, mean)", 0, [1.5, -0.5, 1.0, -1.0]),
        ("return sage_conv(x, 4)", 0, [-1.5, 1.5, 1.0, -3.0]),
        (gin, 0, [0.0, 1.0, 2.0, -4.0]),
        (
            "return gat_conv(x, 4)",
            0,
            [1.1332, 0.2728, 0.3494, -1.6506],
        ),
        (gcnii, 0, [-0.4206, 0.4598, 0.6402, -1.2794]),
        ("return layer_norm(x)", 0, layer_norm),
        (appnp, 0, [-0.4700, 0.2650, 0.7091, -1.1985]),
    ];
    for (body, row, expected) in cases {
        let (before, result) = body.split_once("return ").expect("a return");
        let loss = format!("{before} loss cross_entropy({result}, labels)");
        let (_, logits) = run(&loss, 4, &[0]);
        for (found, expected) in logits.row(row).iter().zip(expected) {
            let near = (found - expected).abs() < 6e-5;
            assert!(
                near,
                "{body}, row {row}: {:?}, expected {expected}",
                logits.row(row)
            );
        }
    }
}

#[test]
fn with_one_relation_a_basis_is_the_mean_of_sage() {
    let logits = |layer: &str| {
        let body = format!("loss cross_entropy({layer}, labels)");
        run_typed(&body, 4, &[0], vec![0; INDICES.len()]).1
    };
    let (typed, sage) = (
        logits("rgcn_conv(x, 4, bases = 1)"),
        logits("sage_conv(x, 4)"),
    );
    for (a, b) in typed.data.iter().zip(&sage.data) {
        assert!((a - b).abs() < 1e-9, "{typed:?} {sage:?}");
    }
}

#[test]
fn the_loss_is_a_mean_over_the_training_vertices() {
    let (loss, _) = run(
        "loss cross_entropy(slice(x, 0, 2), labels, on = train)",
        2,
        &[0, 7],
    );
    assert!((loss - 2.5067).abs() < 6e-5, "{loss}");
}

#[test]
fn tables_reach_their_iterations() {
    let body = "let h = 0 * x repeat i in 1..=64 { h = h + log(0.5 / i + 1) }
                loss cross_entropy(h, labels)";
    let (_, logits) = run(body, 4, &[0]);
    let expected: f64 = (1..=64).map(|i| (0.5 / f64::from(i) + 1.0).ln()).sum();
    assert!((logits.row(0)[0] - expected).abs() < 1e-5);
}
