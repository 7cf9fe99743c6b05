//! Plans for the time to an accuracy: what is to be reached, the candidates, and the classes that they are of.

use super::{View, permissions, rows, short_bytes, short_seconds, wrap};
use gnnc_ir::plan::{Candidate, EpochRange, Needed, Plan, StatisticalClass, ToTarget};
use gnnc_ir::words::spelling::counted;

/// What the objective is, and where the numbers come from.
pub(super) fn objective(plan: &Plan) -> String {
    let objective = plan.objective;
    match &plan.goal {
        None => format!("{objective}, without a pilot: no numbers but those of a step"),
        Some(goal) => format!(
            "{objective}: {} of the validation vertices, by a pilot with {}, evaluated every {}",
            goal.score(),
            counted(goal.seeds.len(), "seed"),
            match goal.evaluate_every {
                1 => "epoch".to_owned(),
                every => counted(every, "epoch"),
            }
        ),
    }
}

/// How many of the candidates are the best ones of their class, which come first.
pub(super) fn best_of_classes(plan: &Plan) -> usize {
    let known = plan.candidates.iter().map(|c| c.to_target.as_ref());
    let best = known.take_while(|known| known.is_some_and(|known| known.standing.is_some()));
    best.count()
}

/// The classes of the candidates, in the order of the best candidate of each.
fn classes(plan: &Plan) -> Vec<&ToTarget> {
    let mut found: Vec<&ToTarget> = Vec::new();
    for known in plan.candidates.iter().filter_map(|c| c.to_target.as_ref()) {
        if !found.iter().any(|other| other.class == known.class) {
            found.push(known);
        }
    }
    found
}

/// The letter of a class: `A` to `Z`, then `A1` and so on.
fn letter(number: usize) -> String {
    let letter = char::from(b'A' + (number % 26) as u8);
    match number / 26 {
        0 => letter.to_string(),
        more => format!("{letter}{more}"),
    }
}

/// The candidates with their class, and their time to the target or the time of a step.
pub(super) fn table(plan: &Plan, listed: &[Candidate]) -> String {
    let all: Vec<&StatisticalClass> = classes(plan).iter().map(|known| &known.class).collect();
    let class = |known: &ToTarget| {
        let place = all.iter().position(|class| **class == known.class);
        place.map_or_else(String::new, letter)
    };
    let piloted = plan.goal.is_some();
    rows(plan, listed, |candidate| {
        let known = candidate.and_then(|candidate| candidate.to_target.as_ref());
        let cells = match (candidate, piloted) {
            (None, true) => {
                ["class", "epoch", "epochs", "to the target", "memory", ""].map(str::to_owned)
            }
            (None, false) => ["class", "epoch", "steps", "a step", "memory", ""].map(str::to_owned),
            (Some(candidate), true) => [
                known.map_or_else(String::new, class),
                short_seconds(candidate.epoch_seconds.0),
                known
                    .and_then(|known| known.needed)
                    .map_or_else(|| "-".to_owned(), epochs),
                known.map_or_else(|| "-".to_owned(), time),
                short_bytes(candidate.peak_memory_bytes.0),
                state(candidate),
            ],
            (Some(candidate), false) => [
                known.map_or_else(String::new, class),
                short_seconds(candidate.epoch_seconds.0),
                known.map_or_else(|| "-".to_owned(), |known| known.steps_per_epoch.to_string()),
                known.map_or_else(
                    || "-".to_owned(),
                    |known| short_seconds(known.step_seconds.0),
                ),
                short_bytes(candidate.peak_memory_bytes.0),
                state(candidate),
            ],
        };
        let widths = match piloted {
            true => [5, 7, 10, 18, 8, 0],
            false => [5, 7, 6, 7, 8, 0],
        };
        cells.into_iter().zip(widths).collect()
    })
}

fn epochs(needed: Needed) -> String {
    match needed.expected() {
        None => format!("> {}", needed.fewest()),
        Some(EpochRange { low, high }) if low < high => format!("{low} to {high}"),
        Some(EpochRange { high, .. }) => high.to_string(),
    }
}

fn time(known: &ToTarget) -> String {
    match known.seconds {
        None => "-".to_owned(),
        Some(time) => match time.high {
            Some(high) => format!("{} to {}", short_seconds(time.low.0), short_seconds(high.0)),
            None => format!("> {}", short_seconds(time.low.0)),
        },
    }
}

/// Why a candidate cannot be chosen, or where its tensors are.
fn state(candidate: &Candidate) -> String {
    match (candidate.fits, candidate.allowed, candidate.host) {
        (false, ..) => "does not fit".to_owned(),
        (true, false, _) => format!("needs --allow {}", permissions(candidate)),
        (true, true, Some(_)) => "host".to_owned(),
        (true, true, None) => String::new(),
    }
}

/// Appends what is known of each class, and what was left out.
pub(super) fn write_classes(out: &mut String, plan: &Plan, view: &View) {
    let classes = classes(plan);
    let mut margin = "classes".to_owned();
    let mut line = |letter: &str, text: &str| {
        wrap(out, &format!("{margin:<11}{letter:<3}"), text, view.width);
        margin.clear();
    };
    for (number, known) in classes.iter().enumerate() {
        line(&letter(number), &about(plan, known));
    }
    let left_out = plan.goal.iter().flat_map(|goal| &goal.left_out);
    for left_out in left_out {
        line("-", &format!("{}: {}", left_out.what, left_out.reason));
    }
    if !margin.is_empty() {
        return;
    }
    out.push('\n');
}

/// A class, and what a pilot or arithmetic tells of it.
fn about(plan: &Plan, known: &ToTarget) -> String {
    let class = &known.class;
    let Some(goal) = &plan.goal else {
        return format!("{class}: {}", known.break_even());
    };
    let steps = |epochs: u64| counted(epochs.saturating_mul(known.steps_per_epoch), "step");
    match known.needed {
        None => format!("{class}: not in the pilot"),
        Some(needed @ Needed::MoreThan { epochs }) => format!(
            "{class}: {needed} ({}); {} was not reached",
            steps(epochs),
            goal.score()
        ),
        Some(
            needed @ Needed::Measured {
                learning_rate,
                slowest,
                ..
            },
        ) => format!(
            "{class}: the pilot needed {needed} (up to {}) with learning rate {learning_rate}",
            steps(slowest)
        ),
    }
}
