//! Checks of labels.

use crate::RuntimeError;
use gnnc_graph::{GraphData, Labels};
use gnnc_ir::graph::op::{LabelKind, Loss};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Instr, Program};
use gnnc_ir::words::spelling::counted;

/// Checks that the labels suit the losses of a program.
///
/// # Errors
/// If they do not; the error names the labels found and expected.
pub(crate) fn labels_fit(program: &Program, data: &GraphData) -> Result<(), RuntimeError> {
    Phase::ALL
        .iter()
        .try_for_each(|phase| list_fits(program.list(*phase), data))
}

fn list_fits(list: &[Instr], data: &GraphData) -> Result<(), RuntimeError> {
    list.iter().try_for_each(|instr| {
        if let Some(labels) = instr.labels() {
            check_labels(data, &labels.loss, labels.classes)?;
        }
        list_fits(instr.body().unwrap_or_default(), data)
    })
}

/// Checks that the labels suit a loss.
///
/// # Errors
/// If they do not; the error names the labels found and expected.
pub fn check_labels(data: &GraphData, loss: &Loss, classes: u32) -> Result<(), RuntimeError> {
    let wrong = |found: String, expected: String| {
        Err(RuntimeError::Data {
            graph: data.name.clone(),
            found,
            expected,
        })
    };
    match (&data.labels, loss.labels()) {
        (Labels::None, _) => wrong("no labels".to_owned(), "labels to train on".to_owned()),
        (Labels::Single(labels), LabelKind::Class) => {
            let split = |v: usize| {
                [&data.train, &data.val, &data.test]
                    .iter()
                    .any(|mask| mask.get(v) == Some(&true))
            };
            let known = |label: i32| (0..i64::from(classes)).contains(&i64::from(label));
            match labels
                .iter()
                .enumerate()
                .find(|&(v, &label)| !known(label) && split(v))
            {
                None => Ok(()),
                Some((v, label)) => wrong(
                    format!("label {label} at vertex {v}"),
                    format!("0 to {} at every vertex of a split", i64::from(classes) - 1),
                ),
            }
        }
        (Labels::Values { width, .. }, LabelKind::Several | LabelKind::Numbers)
            if *width != classes =>
        {
            wrong(
                format!("{width} labels per vertex"),
                format!("{classes}, the width of the logits"),
            )
        }
        (Labels::Values { width, values }, LabelKind::Several) => {
            let outside = |x: &f32| !x.is_nan() && !(0.0..=1.0).contains(x);
            match values.iter().position(outside) {
                None => Ok(()),
                Some(first) => wrong(
                    format!(
                        "the label {} at vertex {}",
                        values[first],
                        first / (*width).max(1) as usize
                    ),
                    format!(
                        "0 to 1 for `{}`; for other numbers the losses are `mse`, `mae` and `huber`",
                        loss.name()
                    ),
                ),
            }
        }
        (Labels::Values { .. }, LabelKind::Numbers) => Ok(()),
        (Labels::Single(_), LabelKind::Several | LabelKind::Numbers) => wrong(
            "one class per vertex".to_owned(),
            format!(
                "numbers for `{}`: labels of a floating-point type, or a row of them per vertex; use \
                 `cross_entropy` for classes",
                loss.name()
            ),
        ),
        (Labels::Values { width, .. }, LabelKind::Class) => wrong(
            format!("{} per vertex", counted(*width, "number")),
            "one class per vertex for `cross_entropy`, a whole number; use `bce_with_logits` for several \
             labels, or `mse`, `mae` or `huber` for numbers"
                .to_owned(),
        ),
    }
}
