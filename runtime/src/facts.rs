//! Facts on which processes that train together must agree.

use serde::{Deserialize, Serialize};

/// A fact all processes must agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Its subject, such as `graph`.
    pub about: String,
    /// This process's value.
    pub value: String,
}

/// How the facts of one process differ from those of another, each given with its name.
pub(crate) fn differences(
    (who, facts): (&str, &[Fact]),
    (other, expected): (&str, &[Fact]),
) -> Vec<String> {
    let value = |facts: &[Fact], about: &str| {
        let fact = facts.iter().find(|fact| fact.about == about);
        fact.map_or("nothing", |fact| &fact.value).to_owned()
    };
    let mut found: Vec<String> = Vec::new();
    for about in facts.iter().chain(expected).map(|fact| &fact.about) {
        let (own, wanted) = (value(facts, about), value(expected, about));
        let difference = format!("{about}: {own} on {who}, {wanted} on {other}");
        if own != wanted && !found.contains(&difference) {
            found.push(difference);
        }
    }
    found
}
