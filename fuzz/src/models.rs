//! Models derived from arbitrary bytes; nearly all are valid.

use crate::layers::{CHEAP, CONVOLUTIONS, FIRST, LAST, LAYERS};
use gnnc_ir::workload::GraphFacts;

/// Facts of the graph that the models use.
pub const FACTS: GraphFacts = GraphFacts {
    features: 12,
    classes: 3,
    vertex_types: 0,
    relations: 5,
    edge_features: 3,
    edge_sets: None,
};

/// Most steps of a model.
const STEPS: usize = 4;

/// Choices derived from bytes, one byte each; after the last byte, always the first choice.
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Choices derived from `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// A number below `n`, which is at most 256.
    pub fn below(&mut self, n: usize) -> usize {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                usize::from(*first) % n
            }
            None => 0,
        }
    }

    /// One of several values.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// The bytes not used by choices.
    pub fn rest(self) -> &'a [u8] {
        self.bytes
    }
}

/// A whole model.
pub fn model(choices: &mut Choices) -> String {
    let mut text = format!("graph g = \"g.npz\"\n{LAYERS}\nmodel m() on g {{\n");
    text += &format!("let h0 = x |> {}\nlet h = h0\n", choices.pick(FIRST));
    for _ in 0..=choices.below(STEPS) {
        text += &step(choices);
    }
    text += &format!(
        "loss cross_entropy(h |> {}, labels, on = train)\n}}\n",
        choices.pick(LAST)
    );
    text + "train { optimizer = sgd(lr = 0.25) weight_decay = 0.01 seed = 7 }\n"
}

fn call(choices: &mut Choices) -> &'static str {
    match choices.below(3) {
        0 => choices.pick(CHEAP),
        _ => choices.pick(CONVOLUTIONS),
    }
}

/// Statements from `h` and `h0` to a new `h`.
fn step(choices: &mut Choices) -> String {
    let (kind, a, b) = (choices.below(14), call(choices), call(choices));
    match kind {
        0..4 => format!("let h = h |> {a}\n"),
        4 => format!("let h = h + (h |> {a})\n"),
        5 => format!("let h = concat(h |> {a}, h0, h |> {b}) |> linear(6)\n"),
        6 => format!("let h = concat(slice(h, 0, 2), h |> {a} |> slice(1, 4))\n"),
        7 => format!("let h = (h |> {a}) * sigmoid(h |> {b})\n"),
        8 => format!("let h = max(h |> {a}, h0)\n"),
        9 => format!("let h = (h |> {a}) + (x |> dropout(0.4) |> linear(6))\n"),
        10 => format!("let h = h |> dropout(0.2) |> {a} |> {b}\nlet h = h + (h0 |> {b})\n"),
        11 => format!("let h = (h |> {a}) / sqrt(1 + dot(h, h)) - 0.5 * (h0 |> {b})\n"),
        12 => repeated(choices, &format!("h = h |> {a} |> {b}")),
        _ => repeated(choices, &format!("h = 0.8 / i * (h |> {a}) + 0.2 * h0")),
    }
}

fn repeated(choices: &mut Choices, body: &str) -> String {
    format!("repeat i in 1..={} {{ {body} }}\n", 1 + choices.below(3))
}
