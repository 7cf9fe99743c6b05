//! Losses and metrics.

use super::{Instruction, Operand, Use};
use crate::graph::op;
use crate::program::access::Touched;
use crate::program::text::line::{after, arrow};
use crate::program::text::{Reader, Text, TextError};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, FLOAT, KernelClass, TRANSCENDENTAL, Terms, Work, label_bytes};
use crate::program::{METRICS, Program, RankSizes, Ref};
use crate::words::units::{Bytes, Flops};
use serde::{Deserialize, Serialize};

/// The rank's share of the loss, and the derivative by the logits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Which loss.
    pub loss: op::Loss,
    /// Logits of own vertices.
    pub logits: Ref,
    /// The loss, one float.
    pub out: Option<Ref>,
    /// The derivative, same shape as the logits.
    pub grad: Option<Ref>,
    /// Classes.
    pub classes: u32,
}

/// What an evaluation finds, [`METRICS`] floats: correct and all vertices of the training,
/// validation and test set, then the sum of the validation losses and how many they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Which loss, hence which kind of labels.
    pub loss: op::Loss,
    /// Logits of own vertices.
    pub logits: Ref,
    /// The counts.
    pub out: Ref,
    /// Classes.
    pub classes: u32,
}

/// The labels that logits are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Which loss, hence which kind of labels.
    pub loss: op::Loss,
    /// Classes.
    pub classes: u32,
}

const OWN: Use<'static> = Use::Rows(Touched::Own);
const ALL: Use<'static> = Use::Rows(Touched::All);

/// Rows of logits that are compared with labels.
fn scored_rows(program: &Program, logits: Ref, sizes: &RankSizes) -> u64 {
    sizes.rows(program.buffer(logits.buffer).extent.without_halo())
}

/// Checks that a loss has a weight for each class, if it has weights.
fn weighed(loss: &op::Loss, classes: u32) -> Checked {
    match loss.given_weights() {
        Some(weights) if weights.len() != classes as usize => Err(format!(
            "the loss has {} weights, expected {classes}, one for each class",
            weights.len()
        )),
        Some(_) | None => Ok(()),
    }
}

impl Instruction for Loss {
    fn name(&self, _: &Program) -> &'static str {
        "loss"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        visit(Operand::read(self.logits, OWN));
        if let Some(out) = self.out {
            visit(Operand::write(out, ALL));
        }
        if let Some(grad) = self.grad {
            visit(Operand::write(grad, OWN));
        }
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.logits);
        self.out.iter_mut().chain(&mut self.grad).for_each(visit);
    }

    fn check(&self, check: &Check) -> Checked {
        check.logits("logits", self.logits, self.classes)?;
        weighed(&self.loss, self.classes)?;
        if let Some(out) = self.out {
            check.floats("out", out)?;
            check.at_least("out", out, 1)?;
        }
        if let Some(grad) = self.grad {
            check.floats("grad", grad)?;
            check.logits("grad", grad, self.classes)?;
        }
        Ok(())
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        self.out.is_none()
    }

    fn work(&self, counts: &Counts, sizes: &RankSizes) -> Option<Work> {
        let rows = scored_rows(counts.program, self.logits, sizes);
        let logits = rows * u64::from(self.classes);
        let grad_floats = if self.grad.is_some() { logits } else { 0 };
        Some(Work {
            class: KernelClass::Loss,
            flops: Flops(logits as f64 * (TRANSCENDENTAL + 4.0)),
            read: Bytes(logits * FLOAT + label_bytes(&self.loss, rows, self.classes)),
            written: Bytes((grad_floats + u64::from(self.out.is_some())) * FLOAT),
        })
    }

    fn demand(
        &self,
        terms: &mut Terms,
        program: &Program,
        sizes: &RankSizes,
    ) -> Option<&'static str> {
        let rows = scored_rows(program, self.logits, sizes);
        // All vertices of a batch's last level are seeds.
        let seeds = program.buffer(self.logits.buffer).extent.of_batch();
        let trained = if seeds { rows } else { sizes.train };
        Some(terms.loss(rows, trained, self.classes))
    }

    fn print(&self, _: &Program) -> String {
        format!(
            "loss {} {}, {} classes ->{}{}",
            self.loss.text(),
            self.logits.text(),
            self.classes,
            after(" loss ", self.out.as_ref()),
            after(" grad ", self.grad.as_ref())
        )
    }

    fn labels(&self) -> Option<Labels> {
        Some(Labels {
            loss: self.loss.clone(),
            classes: self.classes,
        })
    }
}

impl Loss {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let (loss, logits, classes) = scored(from)?;
        from.expect("->")?;
        let mut result = |name| match from.skip(name) {
            true => Ref::parse(from).map(Some),
            false => Ok(None),
        };
        Ok(Self {
            loss,
            logits,
            out: result("loss")?,
            grad: result("grad")?,
            classes,
        })
    }
}

impl Instruction for Metrics {
    fn name(&self, _: &Program) -> &'static str {
        "metrics"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        visit(Operand::read(self.logits, OWN));
        visit(Operand::write(self.out, ALL));
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.logits);
        visit(&mut self.out);
    }

    fn check(&self, check: &Check) -> Checked {
        check.logits("logits", self.logits, self.classes)?;
        weighed(&self.loss, self.classes)?;
        check.floats("out", self.out)?;
        check.at_least("out", self.out, METRICS.into())
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    fn work(&self, counts: &Counts, sizes: &RankSizes) -> Option<Work> {
        let rows = scored_rows(counts.program, self.logits, sizes);
        let logits = rows * u64::from(self.classes);
        Some(Work {
            class: KernelClass::Loss,
            flops: Flops(logits as f64),
            read: Bytes(logits * FLOAT + label_bytes(&self.loss, rows, self.classes)),
            written: Bytes(u64::from(METRICS) * FLOAT),
        })
    }

    fn demand(
        &self,
        terms: &mut Terms,
        program: &Program,
        sizes: &RankSizes,
    ) -> Option<&'static str> {
        let rows = scored_rows(program, self.logits, sizes);
        Some(terms.loss(rows, rows, self.classes))
    }

    fn print(&self, _: &Program) -> String {
        format!(
            "metrics {} {}, {} classes -> {}",
            self.loss.text(),
            self.logits.text(),
            self.classes,
            self.out.text()
        )
    }

    fn labels(&self) -> Option<Labels> {
        Some(Labels {
            loss: self.loss.clone(),
            classes: self.classes,
        })
    }
}

impl Metrics {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let (loss, logits, classes) = scored(from)?;
        Ok(Self {
            loss,
            logits,
            out: arrow(from)?,
            classes,
        })
    }
}

/// Reads a loss, its logits and how many classes they have.
fn scored(from: &mut Reader<'_>) -> Result<(op::Loss, Ref, u32), TextError> {
    let loss = op::Loss::parse(from)?;
    let logits = Ref::parse(from)?;
    from.expect(",")?;
    let classes = from.number()?;
    from.expect("classes")?;
    Ok((loss, logits, classes))
}
