//! Skippable exchanges in loops against the same models written without loops. The backward pass of
//! a loop is a loop of its own, which has to read the rows that the forward pass read.

use crate::check::Case;
use crate::data::{Shape, planted};
use crate::skip::trainer;
use std::collections::BTreeMap;

/// Shared weights of all iterations.
const LAYERS: &str =
    "layer shared(h, out) { return parameter(out, rows = width(h), name = \"shared\") }";

/// A model as it is before its loop, the loop's body, and what follows.
struct Looped {
    before: &'static str,
    body: &'static str,
    after: &'static str,
}

/// Backward passes that read, at the source of edges:
const MODELS: [Looped; 5] = [
    // an element-wise function of the carry, which could be computed again;
    Looped {
        before: "let h = x |> linear(4)
                 let w = shared(h, 4)",
        body: "let t = h |> tanh
               h = matmul(h, w) + gather(sigmoid(dot(t@src, t@dst)) * t@src, sum)",
        after: "h |> linear(classes)",
    },
    // the carry itself;
    Looped {
        before: "let h = x |> linear(4) |> tanh",
        body: "h = 0.3 * h + 0.3 * gather(tanh(dot(h@src, h@dst)) * h@src, sum)",
        after: "h |> linear(classes)",
    },
    // a product of copies, which is the carry of the next iteration;
    Looped {
        before: "let h = x |> linear(4) |> tanh
                 let w = shared(h, 4)
                 let s = h",
        body: "h = matmul(h * tanh(s), w)
               s = tanh(s) + gather(sigmoid(dot(h@src, h@dst)) * h@src, sum)",
        after: "s |> linear(classes)",
    },
    // some columns of copies;
    Looped {
        before: "let h = x |> linear(4)
                 let w = shared(h, 4)",
        body: "let p = tanh(h)
               let k = slice(p, 0, 2)
               let v = slice(p, 2, 2)
               let g = gather(sigmoid(dot(k@src, v@dst)) * v@src, sum)
               h = matmul(h, w) + concat(g, g)",
        after: "h |> linear(classes)",
    },
    // an embedding beside one that is the same in every iteration.
    Looped {
        before: "let c = x |> linear(4) |> tanh
                 let w = shared(c, 4)
                 let h = c",
        body: "let t = 0.5 * tanh(h)
               h = matmul(h, w) + gather(sigmoid(dot(t@src, c@dst)) * c@src, sum)",
        after: "h |> linear(classes)",
    },
];

/// A product that is the same in every iteration, and is computed before the loop. With `/stop`,
/// it is exchanged itself, while its operand is in the model without a loop.
const INVARIANT: Looped = Looped {
    before: "let c = x |> linear(4) |> tanh
             let w = shared(c, 4)
             let h = c",
    body: "let t = matmul(c, w)
           h = tanh(h + gather(sigmoid(dot(t@src, h@dst)) * t@src, sum))",
    after: "h |> linear(classes)",
};

/// Rules that let gradients through to the owners of all rows.
const THROUGH: [&str; 4] = ["fixed:2", "adaptive:2", "gap:0.3", "fixed:2/cut"];

const ITERATIONS: usize = 3;

impl Looped {
    /// With the loop.
    fn looped(&self) -> String {
        let Self {
            before,
            body,
            after,
        } = self;
        format!(
            "{before}\nrepeat i in 1..={ITERATIONS} {{\n{body}\n}}\n{}",
            loss(after)
        )
    }

    /// With the lines of the loop written out. Every line defines a new variable.
    fn unrolled(&self) -> String {
        let mut latest: BTreeMap<&str, String> = BTreeMap::new();
        let mut lines = vec![self.before.to_owned()];
        for n in 0..ITERATIONS {
            for line in self.body.lines() {
                let (name, value) = line.split_once(" = ").unwrap();
                let name = name.trim().trim_start_matches("let ");
                let value = renamed(value, &latest);
                lines.push(format!("let {name}_{n} = {value}"));
                latest.insert(name, format!("{name}_{n}"));
            }
        }
        lines.push(loss(&renamed(self.after, &latest)));
        lines.join("\n")
    }
}

fn loss(logits: &str) -> String {
    format!("loss cross_entropy({logits}, labels, on = train)")
}

/// The same expression over other variables.
fn renamed(value: &str, names: &BTreeMap<&str, String>) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in value.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_') {
        let name = word.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_');
        let rest = &word[name.len()..];
        let name = names.get(name).map_or(name, String::as_str);
        words.push(format!("{name}{rest}"));
    }
    words.concat()
}

/// Losses of nine epochs.
fn losses(body: &str, rule: &str) -> Vec<f64> {
    let shape = Shape {
        vertices: 60,
        edges: 300,
        directed: true,
        sparse: false,
        seed: 5,
    };
    let case = Case::new(LAYERS, body, planted(shape));
    let mut trainer = trainer(&case, Some(rule), 3);
    trainer.session.set_learning_rate(0.1);
    (0..9).map(|_| trainer.epoch().unwrap().loss).collect()
}

/// Trains a model with a loop and the same one without.
fn compare(model: &Looped, rule: &str) {
    let body = model.looped();
    let (found, expected) = (losses(&body, rule), losses(&model.unrolled(), rule));
    let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-5 * b.abs();
    assert!(
        found.iter().zip(&expected).all(close),
        "{rule}: found {found:?}, expected {expected:?}: {body}"
    );
}

#[test]
fn loops_train_what_they_compute() {
    for model in &MODELS {
        for rule in THROUGH.into_iter().chain(["fixed:2/stop"]) {
            compare(model, rule);
        }
    }
}

#[test]
fn rows_that_are_the_same_in_every_iteration_are_read_as_they_are() {
    for rule in THROUGH {
        compare(&INVARIANT, rule);
    }
}
