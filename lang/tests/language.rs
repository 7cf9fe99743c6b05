//! Properties of the front end: it reads any text without a panic, and prints what it read.

#[path = "language/modules.rs"]
mod modules;

use gnnc_ir::graph::model::{GraphSource, Model, Optimizer};
use gnnc_ir::workload::GraphFacts;
use gnnc_lang::check::{self, STANDARD_LAYERS, builtins::BUILTINS, elaborate};
use gnnc_lang::diagnostic::{CODES, Diagnostic, has_errors, render, to_json};
use gnnc_lang::syntax::{Module, parse, print};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Names and texts of the examples.
fn examples() -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join("examples")).expect("the examples");
    let paths = entries.map(|e| e.expect("an entry").path());
    let mut found: Vec<(String, String)> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "gir"))
        .map(|path| {
            (
                path.display().to_string(),
                fs::read_to_string(path).expect("a text"),
            )
        })
        .collect();
    found.sort();
    found
}

fn facts(module: &Module) -> GraphFacts {
    let source = module.graph_source();
    let links = match &source {
        Some(GraphSource::Data { options, .. }) => options.links,
        Some(GraphSource::Statistics(_)) | None => None,
    };
    let known = source.and_then(|s| s.facts());
    known.unwrap_or(GraphFacts {
        features: 1433,
        classes: if links.is_some() { 1 } else { 7 },
        vertex_types: 3,
        relations: 5,
        edge_features: 3,
        edge_sets: None,
    })
}

fn model(text: &str, overrides: &[(String, f64)]) -> Model {
    let (module, diagnostics) = parse(text);
    assert_eq!(diagnostics, []);
    let (model, diagnostics) = elaborate(&module, &facts(&module), overrides);
    assert_eq!(diagnostics, []);
    model.expect("a model")
}

#[test]
fn examples_are_correct_and_formatted() {
    let examples = examples();
    assert!(examples.len() >= 17);
    for (name, text) in examples {
        let model = model(&text, &[]);
        model
            .graph
            .verify()
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(print(&parse(&text).0), text, "{name} is not formatted");
        let json = serde_json::to_value(&model).expect("a serializable model");
        assert_eq!(json["graph_name"], model.graph_name.as_str());
    }
}

/// Parameter counts of the published models, by the formulas of their papers.
#[test]
fn parameters_are_counted_as_in_the_papers() {
    let trainable = |name: &str| {
        let text = fs::read_to_string(root().join("examples").join(name)).expect("an example");
        model(&text, &[]).graph.trainable()
    };
    let (f, c) = (1433, 7);
    assert_eq!(trainable("gcn_cora.gir"), f * 16 + 16 + 16 * c + c);
    assert_eq!(trainable("sgc_cora.gir"), f * c + c);
    assert_eq!(trainable("appnp_cora.gir"), f * 64 + 64 + 64 * c + c);
    assert_eq!(
        trainable("gat_cora.gir"),
        f * 64 + 2 * 64 + 64 + 64 * c + 2 * c + c
    );
    assert_eq!(trainable("sage_cora.gir"), 2 * f * 64 + 64 + 2 * 64 * c + c);
    assert_eq!(
        trainable("gcnii_cora.gir"),
        f * 64 + 64 + 64 * 64 * 64 + 64 * c + c
    );
    let mlp = |d: u64| 1 + d * 64 + 64 + 2 * 64 + 64 * 64 + 64;
    assert_eq!(trainable("gin_cora.gir"), mlp(f) + mlp(64) + 64 * c + c);
}

#[test]
fn repeats_stay_loops_of_any_depth() {
    let text = fs::read_to_string(root().join("examples/gcnii_cora.gir")).expect("an example");
    let [short, long] = [2.0, 512.0].map(|d| model(&text, &[("depth".to_owned(), d)]));
    assert_eq!(short.graph.nodes.len(), long.graph.nodes.len());
    assert_eq!(long.parameters[1], ("depth".to_owned(), 512.0));
    let stacked = long
        .graph
        .params
        .iter()
        .filter(|p| p.ty.stack == 512)
        .count();
    assert_eq!(stacked, 1);
}

#[test]
fn decay_and_start_values_follow_the_text() {
    let text = fs::read_to_string(root().join("examples/gcn_cora.gir")).expect("an example");
    let params = model(&text, &[]).graph.params;
    let names: Vec<&str> = params.iter().map(|p| p.name.as_str()).collect();
    let expected = [
        "gcn_conv_1.weight",
        "gcn_conv_1.bias",
        "gcn_conv_2.weight",
        "gcn_conv_2.bias",
    ];
    assert_eq!(names, expected);
    assert_eq!(params[0].decay, Some(5e-4));
    assert_eq!(params[2].decay, None);
    let bound = (6.0f64 / (1433.0 + 16.0)).sqrt() as f32;
    assert_eq!(params[0].init, gnnc_ir::graph::Init::Uniform(bound));
    assert_eq!(params[1].init, gnnc_ir::graph::Init::Zeros);
}

#[test]
fn a_variable_that_hides_a_word_is_pointed_at() {
    let hidden = |line: &str| {
        let text = format!(
            "graph g {{ vertices = 100 edges = 400 features = 8 classes = 3 }}
             model m() on g {{ {line}
               loss cross_entropy(linear(z, classes), labels) }}"
        );
        let (module, _) = parse(&text);
        let (_, found) = elaborate(&module, &GraphFacts::PLACEHOLDER, &[]);
        let found = found.into_iter().find(|d| d.is_error()).expect("an error");
        (found.message, found.help)
    };
    let help = |word: &str| {
        let said = format!("the variable `{word}` hides the word `{word}`; rename the variable");
        Some(said)
    };
    let (message, said) = hidden("let mean = relu(x)  let z = mean + gather(x@src, mean)");
    assert!(
        message.starts_with("expected `sum`, `mean` or `max`, found a tensor"),
        "{message}"
    );
    assert_eq!(said, help("mean"));
    let (_, said) = hidden("let glorot = relu(x)  let z = linear(glorot, 8, init = glorot)");
    assert_eq!(said, help("glorot"));
    let (_, said) = hidden("let other = relu(x)  let z = gather(x@src, other)");
    assert_eq!(said, None, "its name is no reducer's");
}

#[test]
fn a_module_tells_where_its_graph_is() {
    let (module, _) = parse(
        "graph a = \"x.npz\" { normalize_features = true } graph b = \"y.npz\"
         model m() on a { loss cross_entropy(x, labels) }",
    );
    let Some(GraphSource::Data { path, options, .. }) = module.graph_source() else {
        panic!("no data")
    };
    assert_eq!((path.as_str(), options.normalize_features), ("x.npz", true));
}

#[test]
fn the_reference_has_every_function_layer_and_code() {
    let text = fs::read_to_string(root().join("docs/language.md")).expect("the reference");
    for builtin in BUILTINS {
        let row = format!("`{}` | {}", builtin.signature(), builtin.doc);
        assert!(text.contains(&row), "docs/language.md lacks the row {row}");
    }
    for code in CODES {
        let row = format!("| {} | {} |", code.code, code.meaning);
        assert!(text.contains(&row), "docs/language.md lacks the row {row}");
    }
    for layer in parse(STANDARD_LAYERS).0.layers() {
        let name = format!("`{}(", layer.name.name);
        assert!(text.contains(&name), "docs/language.md lacks {name}");
    }
    for word in check::builtins::WORDS {
        assert!(
            text.contains(&format!("`{word}`")),
            "docs/language.md lacks `{word}`"
        );
    }
}

/// Runs every stage on a text; none may panic, and they must agree on whether there is an
/// error.
fn survive(text: &str) {
    let (module, mut diagnostics) = parse(text);
    let errors = has_errors(&diagnostics);
    let _ = module.graph_source();
    let (found, more) = elaborate(
        &module,
        &GraphFacts::PLACEHOLDER,
        &[("depth".to_owned(), 2.0)],
    );
    if let Some(found) = found {
        found
            .graph
            .verify()
            .unwrap_or_else(|e| panic!("{e}\n{text}"));
    }
    if !errors {
        assert_eq!(parse(&print(&module)), (module, Vec::new()), "{text}");
    }
    diagnostics.extend(more);
    diagnostics.truncate(20);
    render(&diagnostics, "m.gir", text, false);
    to_json(&diagnostics, "m.gir", text);
}

#[test]
fn hostile_texts_are_survived() {
    let deep = 20_000;
    let texts = [
        "(".repeat(deep),
        "{".repeat(deep),
        format!("layer a(h) {{ return {} }}", "-".repeat(deep)),
        format!("layer a(h) {{ return {}h }}", "not ".repeat(deep)),
        format!("layer a(h) {{ return h{} }}", "@src".repeat(deep)),
        format!("layer a(h) {{ return h{} }}", " |> relu".repeat(deep)),
        format!("layer a(h) {{ return h{} }}", " + h".repeat(deep)),
        format!(
            "layer a(h) {{ return {}h{} }}",
            "f(".repeat(deep),
            ")".repeat(deep)
        ),
        format!("layer a(h) {{ return {} h", "if h { h } else ".repeat(deep)),
        format!("layer a(h) {{ {}", "repeat i in 1..=2 { ".repeat(deep)),
        format!("train {{ a = {} }}", "[".repeat(deep)),
        format!("train {{ a = {} }}", "{1:".repeat(deep)),
        "layer a() {".repeat(2_000),
        "graph g {\n".repeat(2_000),
        "let".repeat(deep),
        "\"".repeat(deep),
        "#".repeat(deep),
        "\r\u{feff}\u{2028}é".to_owned(),
    ];
    for text in texts {
        survive(&text);
    }
}

/// Layers that call the next one twice, thirty deep: 2^30 calls unless stopped.
#[test]
fn models_that_explode_are_stopped() {
    for body in ["F(h) + F(h)", "concat(F(h), F(h))"] {
        let mut text = String::from("layer f0(h) { return h }\n");
        for k in 1..31 {
            let body = body.replace('F', &format!("f{}", k - 1));
            text.push_str(&format!("layer f{k}(h) {{ return {body} }}\n"));
        }
        text.push_str(
            "graph g { vertices = 1 edges = 0 features = 9 classes = 2 }
             model m() on g { loss cross_entropy(f30(x), labels) }",
        );
        let (module, _) = parse(&text);
        let (model, diagnostics) = elaborate(&module, &facts(&module), &[]);
        assert!(model.is_none());
        let codes: Vec<_> = diagnostics.iter().map(|d| d.code).collect();
        assert!(codes == ["E0310"] || codes == ["E0303"], "{codes:?}");
    }
}

const SOUP: &[&str] = &[
    "graph",
    "layer",
    "model",
    "train",
    "on",
    "edges",
    "loops",
    "let",
    "repeat",
    "in",
    "return",
    "loss",
    "if",
    "else",
    "and",
    "or",
    "not",
    "true",
    "x",
    "h",
    "g",
    "i",
    "sum",
    "relu",
    "linear",
    "gather",
    "gcn_conv",
    "classes",
    "labels",
    "cross_entropy",
    "dropout",
    "parameter",
    "1",
    "0.5",
    "64",
    "1..=3",
    "..=",
    "..",
    "|>",
    "@src",
    "@dst",
    "+",
    "-",
    "*",
    "/",
    "=",
    "==",
    "<",
    "(",
    ")",
    "(x",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "\n",
    "\n\n",
    "# c\n",
    "\"s\"",
    "\"",
    "é",
    "$",
];

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(512),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_printed_is_read_again(m in modules::module()) {
        let text = print(&m);
        let (read, diagnostics) = parse(&text);
        prop_assert_eq!(&diagnostics, &Vec::<Diagnostic>::new(), "{}", text);
        prop_assert_eq!(&read, &m, "{}", text);
        prop_assert_eq!(print(&read), text);
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survive(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_tokens_are_survived(words in prop::collection::vec(prop::sample::select(SOUP), 0..80)) {
        survive(&words.join(" "));
    }

    #[test]
    fn damaged_examples_are_survived(
        which in any::<prop::sample::Index>(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12,
            prop::sample::select(SOUP)), 1..4),
    ) {
        let examples = examples();
        let mut text = which.get(&examples).1.clone();
        for (at, len, word) in cuts {
            let start = at.index(text.len());
            let end = (start + len).min(text.len());
            if text.is_char_boundary(start) && text.is_char_boundary(end) {
                text.replace_range(start..end, word);
            }
        }
        survive(&text);
    }
}

#[test]
fn numbers_of_training_come_from_outside() {
    let of = |block: &str, overrides: &[(&str, f64)]| {
        let text = format!(
            "graph g = \"g.npz\" model m() on g {{ loss cross_entropy(linear(x, classes), labels) }} {block}"
        );
        let all: Vec<_> = overrides
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect();
        let (module, diagnostics) = parse(&text);
        assert_eq!(diagnostics, []);
        elaborate(&module, &facts(&module), &all)
    };
    let train = |block: &str, overrides: &[(&str, f64)]| {
        let (model, diagnostics) = of(block, overrides);
        assert_eq!(diagnostics, []);
        model.expect("a model").train
    };
    let sgd = "train { optimizer = sgd(0.5, momentum = 0.9) epochs = 7 patience = 3 }";
    let found = train(sgd, &[("train.epochs", 9.0), ("train.lr", 0.25)]);
    let expected = Optimizer::Sgd {
        lr: 0.25,
        momentum: 0.9,
    };
    assert_eq!(
        (found.epochs, found.patience, found.optimizer),
        (9, Some(3), expected)
    );
    let named = sgd.replace("sgd(0.5,", "sgd(lr = 0.5,");
    assert_eq!(train(&named, &[("train.lr", 0.25)]).optimizer, expected);
    // Without a block, and the last of two.
    let found = train(
        "",
        &[
            ("train.lr", 1.0),
            ("train.lr", 0.25),
            ("train.patience", 20.0),
        ],
    );
    let Optimizer::Adam { lr, .. } = found.optimizer else {
        panic!("{:?}", found.optimizer)
    };
    assert_eq!((lr, found.patience, found.epochs), (0.25, Some(20), 200));
    for (name, value, code) in [
        ("train.epochs", -1.0, "E0403"),
        ("train.epochs", 1.5, "E0403"),
        ("train.metric", 1.0, "E0404"),
        ("train.", 1.0, "E0404"),
        ("train.lr", -1.0, "E0403"),
    ] {
        let (model, diagnostics) = of(sgd, &[(name, value)]);
        assert!(model.is_none(), "{name}");
        assert_eq!(diagnostics[0].code, code, "{name}");
    }
}
