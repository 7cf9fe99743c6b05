//! Checks of labels.

use crate::RuntimeError;
use gnnc_graph::{GraphData, Labels};
use gnnc_ir::graph::op::Loss;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Instr, Program};

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
            check_labels(data, labels.loss, labels.classes)?;
        }
        list_fits(instr.body().unwrap_or_default(), data)
    })
}

/// Checks that the labels suit a loss.
///
/// # Errors
/// If they do not; the error names the labels found and expected.
pub fn check_labels(data: &GraphData, loss: Loss, classes: u32) -> Result<(), RuntimeError> {
    let wrong = |found: String, expected: String| {
        Err(RuntimeError::Data {
            graph: data.name.clone(),
            found,
            expected,
        })
    };
    match (&data.labels, loss) {
        (Labels::None, _) => wrong("no labels".to_owned(), "labels to train on".to_owned()),
        (Labels::Single(labels), Loss::CrossEntropy) => {
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
        (Labels::Multi { classes: found, .. }, Loss::BinaryCrossEntropy) if *found == classes => {
            Ok(())
        }
        (Labels::Multi { classes: found, .. }, Loss::BinaryCrossEntropy) => wrong(
            format!("{found} labels per vertex"),
            format!("{classes}, the width of the logits"),
        ),
        (Labels::Single(_), Loss::BinaryCrossEntropy) => wrong(
            "one class per vertex".to_owned(),
            "several labels per vertex for `bce_with_logits`; use `cross_entropy`".to_owned(),
        ),
        (Labels::Multi { .. }, Loss::CrossEntropy) => wrong(
            "several labels per vertex".to_owned(),
            "one class per vertex for `cross_entropy`; use `bce_with_logits`".to_owned(),
        ),
    }
}
