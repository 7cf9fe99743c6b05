//! Loops.

use super::{Instr, Instruction, Operand};
use crate::program::memory::scratch_floats;
use crate::program::text::{Reader, TextError};
use crate::program::traffic::{Reads, Traffic, traffic};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, Terms, Work};
use crate::program::{Capacity, Program, RankSizes, Ref};
use serde::{Deserialize, Serialize};

/// A loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// Number of iterations.
    pub count: u32,
    /// Whether the index runs from `count - 1` down to 0.
    pub reverse: bool,
    /// What an iteration does.
    pub body: Vec<Instr>,
}

/// Runs the body for every chunk of the epoch's order: whatever runs over own rows, local rows or
/// the edges into own rows, and whatever is exchanged of them, is restricted to the vertices of the
/// chunk, halo vertices included. Neither nested nor around or inside of a [`Instr::Repeat`]; the
/// body has no [`Product::Tn`](super::Product::Tn), no reduction over rows, no [`Instr::AllReduce`] and no
/// [`Instr::Begin`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chunks {
    /// Whether the order is run backwards.
    pub reverse: bool,
    /// What is done for a chunk.
    pub body: Vec<Instr>,
}

/// Runs the body for every batch of the epoch, each of which is an optimizer step. Not inside of
/// another loop; the body begins with [`Sample`](super::Sample).
///
/// With a [`Lag`] several batches are under way. In period `k` an instruction with lag `g` works on
/// batch `k - g`, and is left out if there is none. So the loop has as many periods more than
/// batches as the last lag says, and at its end no batch is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batches {
    /// What is done for a batch.
    pub body: Vec<Instr>,
}

/// From here on in the body of [`Batches`], instructions work on the batch so many periods earlier.
/// Lags ascend, and a buffer is used with the lag with which it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lag {
    /// Periods.
    pub by: u32,
}

/// The largest [`Lag`].
pub const MOST_LAG: u32 = 8;

impl Instruction for Repeat {
    a_loop!("repeat");

    fn traffic(&self, program: &Program, reads: &Reads, sizes: &[RankSizes], sum: &mut Traffic) {
        sum.add(
            traffic(&self.body, program, reads, sizes),
            self.count.into(),
        );
    }

    fn print(&self, _: &Program) -> String {
        format!("repeat {}{}", self.count, order(self.reverse))
    }
}

impl Repeat {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            count: from.number()?,
            reverse: from.skip("reversed"),
            body: block(from)?,
        })
    }
}

impl Instruction for Chunks {
    a_loop!("chunks");

    fn traffic(&self, program: &Program, reads: &Reads, sizes: &[RankSizes], sum: &mut Traffic) {
        // All chunks together have all rows.
        sum.add(traffic(&self.body, program, reads, sizes), 1);
    }

    fn print(&self, _: &Program) -> String {
        format!("chunks{}", order(self.reverse))
    }
}

impl Chunks {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            reverse: from.skip("reversed"),
            body: block(from)?,
        })
    }
}

impl Instruction for Batches {
    a_loop!("batches");

    fn traffic(&self, program: &Program, reads: &Reads, sizes: &[RankSizes], sum: &mut Traffic) {
        let count = sizes.first().map_or(1, |sizes| sizes.batch.count.max(1));
        sum.add(traffic(&self.body, program, reads, sizes), count);
    }

    fn print(&self, _: &Program) -> String {
        "batches".to_owned()
    }
}

impl Batches {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self { body: block(from)? })
    }
}

impl Batches {
    /// Periods beyond the number of batches.
    pub fn lag(body: &[Instr]) -> u32 {
        let lags = body.iter().filter_map(|instr| {
            if let Instr::Lag(lag) = instr {
                Some(lag.by)
            } else {
                None
            }
        });
        lags.max().unwrap_or(0)
    }
}

impl Instruction for Lag {
    fn name(&self, _: &Program) -> &'static str {
        "lag"
    }

    fn operands<'a>(&'a self, _: &mut impl FnMut(Operand<'a>)) {}

    fn each_ref(&mut self, _: &mut dyn FnMut(&mut Ref)) {}

    fn check(&self, _: &Check) -> Checked {
        match self.by <= MOST_LAG {
            true => Ok(()),
            false => Err(format!("a lag of {}, expected at most {MOST_LAG}", self.by)),
        }
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    unpriced!();

    fn print(&self, _: &Program) -> String {
        format!("lag {}", self.by)
    }
}

impl Lag {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self { by: from.number()? })
    }
}

fn order(reverse: bool) -> &'static str {
    if reverse { " reversed" } else { "" }
}

pub(super) fn block(from: &mut Reader<'_>) -> Result<Vec<Instr>, TextError> {
    from.expect("{")?;
    let body = from.deeper(Reader::instructions)?;
    from.expect("}")?;
    Ok(body)
}
