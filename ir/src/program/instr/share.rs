//! Giving all ranks the lower levels of each other's part of a batch (P3, section 3.1, step 2).

use super::{Collective, Instruction, Operand};
use crate::program::text::{Reader, Text, TextError, own_level};
use crate::program::trace::Phase;
use crate::program::traffic::{Reads, Traffic};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, INDEX, Terms, Work};
use crate::program::{Among, Extent, Instr, Program, RankSizes};
use crate::words::types::{EdgeSet, Level};
use serde::{Deserialize, Serialize};

/// Sends this rank's levels from one outwards, with the edges between them, to every other rank with a
/// slice of the same copy of the features, and puts those of all these ranks side by side: the rows of
/// [`Of::All`](crate::words::types::Of::All).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareLevels {
    /// The level next to the seeds of those that are sent.
    pub level: u8,
    /// Whether something asks which edges of the graph these are, for their types or features.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub places: bool,
}

impl Instruction for ShareLevels {
    fn name(&self, _: &Program) -> &'static str {
        "share-levels"
    }

    fn operands<'a>(&'a self, _: &mut impl FnMut(Operand<'a>)) {}

    fn each_ref(&mut self, _: &mut dyn FnMut(&mut crate::program::Ref)) {}

    fn check(&self, check: &Check) -> Checked {
        let hops = check.program.hops();
        match self.level <= hops {
            true => Ok(()),
            false => Err(format!(
                "shares levels from {} outwards, expected from one of 0 to {hops}",
                self.level
            )),
        }
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    unpriced!();

    fn traffic(&self, program: &Program, _: &Reads, sizes: &[RankSizes], sum: &mut Traffic) {
        let others = u64::from(program.group_ranks(Among::Slices) - 1);
        let numbers: u64 = sizes.iter().map(|sizes| self.numbers(sizes)).sum();
        sum.fetch += INDEX * others * numbers;
    }

    fn print(&self, _: &Program) -> String {
        let level = Extent::Level(Level::own(self.level)).text();
        let with = if self.places { " with places" } else { "" };
        format!("share-levels {level}{with}")
    }

    fn collective(&self) -> Option<Collective<'_>> {
        Some(Collective::ShareLevels(self))
    }
}

impl ShareLevels {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let level = own_level(from)?;
        let places = from.skip("with");
        if places {
            from.expect("places")?;
        }
        Ok(Self { level, places })
    }

    /// Numbers that a rank sends to each other one: the vertices of level 0, and for each layer the
    /// ends of the rows, one more, and the sources of the edges (with places, their positions too).
    pub fn numbers(&self, sizes: &RankSizes) -> u64 {
        let layers = (1..=self.level).map(Level::own);
        let of_edge = 1 + u64::from(self.places);
        let lists = layers.map(|layer| {
            let edges = sizes.batch.edges(layer, EdgeSet::Plain);
            sizes.batch.rows(layer) + 1 + of_edge * edges
        });
        sizes.batch.rows(Level::own(0)) + lists.sum::<u64>()
    }
}

impl Program {
    /// Which levels ranks have of each other's part of a list's batches, if they have any.
    pub fn shares(&self, phase: Phase) -> Option<ShareLevels> {
        self.batch_of(phase).find_map(|instr| {
            if let Instr::ShareLevels(share) = instr.whole() {
                Some(*share)
            } else {
                None
            }
        })
    }
}
