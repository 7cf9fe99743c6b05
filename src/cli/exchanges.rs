//! What the parts of a graph send each other, as `gnnc graph stats` prints it.

use super::text::{Table, count, grouped};
use gnnc::graph::cover::Exchanges;
use serde::Serialize;

/// What the parts of a graph send each other.
#[derive(Serialize)]
pub struct SentByParts {
    /// Number of parts.
    pub parts: u32,
    /// Nodes that have them.
    pub nodes: u32,
    /// What they send.
    #[serde(flatten)]
    pub exchanges: Exchanges,
}

/// What parts send each other in one direction of an aggregation.
pub fn sent_text(all: &[SentByParts]) -> String {
    let Some(first) = all.first() else {
        return String::new();
    };
    let mut table = Table::new(1, 2);
    table.row([
        "parts",
        "rows",
        "or sums",
        "or the fewest of both",
        "fewest / rows",
    ]);
    for one in all {
        let found = &one.exchanges;
        table.row([
            one.parts.to_string(),
            grouped(found.rows),
            grouped(found.sums),
            grouped(found.cover),
            format!("{:.3}", found.cover as f64 / found.rows.max(1) as f64),
        ]);
    }
    let mut text = format!("\nsent each way in an aggregation\n{}", table.lines());
    if first.nodes == 1 {
        return text;
    }
    let mut table = Table::new(2, 2);
    table.row([
        "parts",
        "sent",
        "between nodes",
        "or the fewest",
        "inside nodes",
        "or the fewest",
    ]);
    for one in all {
        let tiers = [
            ("by each pair", &one.exchanges.one_tier),
            ("to nodes once", &one.exchanges.two_tiers),
        ];
        for (name, tiers) in tiers {
            table.row([
                one.parts.to_string(),
                name.to_owned(),
                grouped(tiers.between.rows),
                grouped(tiers.between.cover),
                grouped(tiers.inside.rows),
                grouped(tiers.inside.cover),
            ]);
        }
    }
    let nodes = count(first.nodes.into(), "node");
    text.push_str(&format!("\nwith the parts on {nodes}\n{}", table.lines()));
    text
}
