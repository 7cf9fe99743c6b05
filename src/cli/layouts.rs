//! Tables of the decisions behind the layouts and messages of a plan.

use super::text::{Table, cut, facts};
use gnnc::ir::words::units::{Bytes, Seconds};
use gnnc::provenance::{Message, Origin, Provenance};

/// What `gnnc explain --layouts` prints.
pub fn layouts(found: &Provenance) -> String {
    let mut text = facts(&[("candidate", found.candidate.clone())]);
    text += "\ndecisions\n";
    let mut table = Table::new(3, 2);
    for decision in &found.decisions {
        let why = origin(&decision.origin);
        table.row([decision.name.to_owned(), decision.value.clone(), why]);
    }
    text += &table.lines();
    text += "\nlayouts of an epoch\n";
    let mut table = Table::new(3, 2);
    for one in &found.layouts {
        let name = match one.alike {
            1 => one.name.clone(),
            alike => format!("{} and {} alike", one.name, alike - 1),
        };
        table.row([name, one.layout.to_string(), origin(&one.origin)]);
    }
    text += &table.lines();
    if found.messages.is_empty() {
        return text + "\nno messages\n";
    }
    text += "\nmessages of an epoch\n";
    let mut table = Table::new(4, 2);
    for message in &found.messages {
        let Message {
            at,
            what,
            tensor,
            times,
            bytes,
            decisions: _,
        } = message;
        let what = match times {
            1 => what.clone(),
            times => format!("{what} x {times}"),
        };
        table.row([at.clone(), what, tensor.clone(), bytes.to_string()]);
    }
    for (line, message) in table.lines().lines().zip(&found.messages) {
        let decisions = message.decisions.join(", ");
        text += &format!("{line}\n{}\n", cut(&format!("      <- {decisions}")));
    }
    let sum = found.messages.iter().map(|message| message.bytes.0).sum();
    text + &format!("  {} in all\n", Bytes(sum))
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Pin { option } => format!("pin: {option}"),
        Origin::Search {
            against,
            saves_seconds: Seconds(saved),
        } => match *saved >= 0.0 {
            true => format!("search: {} less than {against}", Seconds(*saved)),
            false => format!("search: {} more than {against}", Seconds(-saved)),
        },
        Origin::Forced { reason } => format!("forced: {reason}"),
        Origin::Follows { decision } => format!("follows {decision}"),
    }
}
