//! Sampled blocks as text and as JSON.

use super::text::{facts, facts_behind};
use gnnc::graph::sample::Blocks;
use serde_json::{Value, json};

/// The levels and layers of a batch.
pub fn text(blocks: &Blocks) -> String {
    fn list<T: ToString>(numbers: &[T]) -> String {
        let words: Vec<String> = numbers.iter().map(T::to_string).collect();
        words.join(" ")
    }
    let mut text = String::new();
    for level in (0..=blocks.layers()).rev() {
        text.push_str(&facts(&[(
            &format!("level {level}"),
            list(blocks.level(level)),
        )]));
        if level > 0 {
            let layer = blocks.layer(level);
            text.push_str(&format!("layer {level}\n"));
            text.push_str(&facts_behind(
                2,
                &[
                    ("offsets", list(&layer.edges.indptr)),
                    ("places", list(&layer.edges.indices)),
                    ("positions", list(&layer.positions)),
                    ("degrees", list(&layer.degrees)),
                    ("scales", list(&layer.scales)),
                ],
            ));
        }
    }
    text
}

/// The same for programs.
pub fn json(blocks: &Blocks) -> Value {
    let layers = (1..=blocks.layers()).rev().map(|number| {
        let layer = blocks.layer(number);
        json!({
            "layer": number,
            "offsets": layer.edges.indptr,
            "places": layer.edges.indices,
            "positions": layer.positions,
            "degrees": layer.degrees,
            "scales": layer.scales,
        })
    });
    let sizes: Vec<usize> = (0..=blocks.layers())
        .rev()
        .map(|level| blocks.level(level).len())
        .collect();
    json!({
        "ids": blocks.level(0),
        "sizes": sizes,
        "layers": layers.collect::<Vec<_>>(),
    })
}
