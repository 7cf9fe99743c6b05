//! Edges of a batch that other ranks hold: asking for them, and drawing them for those who ask (Zheng et al.,
//! DistDGL, IA3 2020).

use super::{Collective, Instruction, Operand};
use crate::program::text::{Reader, Text, TextError, own_level};
use crate::program::traffic::{Reads, Traffic};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, INDEX, Terms, Work};
use crate::program::{Extent, Program, RankSizes};
use crate::words::sampling::Sampling;
use crate::words::types::Level;
use serde::{Deserialize, Serialize};

/// Draws the edges into a level, and so the next level, where ranks hold the edges into their own vertices.
/// Each rank names the level's other vertices to their owners, draws the edges into its own vertices and into
/// those that it is asked for, and answers with the degree of each vertex and the sources of its edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrawEdges {
    /// The level; [`Sample`](super::Sample) draws into those above it.
    pub level: u8,
}

impl Instruction for DrawEdges {
    fn name(&self, _: &Program) -> &'static str {
        "draw-edges"
    }

    fn operands<'a>(&'a self, _: &mut impl FnMut(Operand<'a>)) {}

    fn each_ref(&mut self, _: &mut dyn FnMut(&mut crate::program::Ref)) {}

    fn check(&self, check: &Check) -> Checked {
        let hops = check.program.hops();
        match (1..=hops).contains(&self.level) {
            true => Ok(()),
            false => Err(format!(
                "draws edges into level {}, expected one of 1 to {hops}",
                self.level
            )),
        }
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    unpriced!();

    fn traffic(&self, _: &Program, _: &Reads, sizes: &[RankSizes], sum: &mut Traffic) {
        let numbers = sizes.iter().map(|sizes| self.numbers(sizes));
        sum.fetch += INDEX * numbers.sum::<u64>();
    }

    fn print(&self, _: &Program) -> String {
        format!(
            "draw-edges {}",
            Extent::Level(Level::own(self.level)).text()
        )
    }

    fn collective(&self) -> Option<Collective<'_>> {
        Some(Collective::DrawEdges(self))
    }
}

impl DrawEdges {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            level: own_level(from)?,
        })
    }

    /// Numbers that a rank sends in its question and gets in the answers: each vertex of another rank, its
    /// degree, and the sources of its edges.
    pub fn numbers(&self, sizes: &RankSizes) -> u64 {
        let of_level = |numbers: &[u64]| numbers.get(usize::from(self.level)).copied();
        let batch = &sizes.batch;
        let vertices = batch.remote(self.level) + batch.cached(self.level);
        2 * vertices + of_level(&batch.remote_edges).unwrap_or(0)
    }
}

impl Program {
    /// Whether it trains or evaluates on sampled batches.
    pub fn samples(&self) -> bool {
        self.sampling.is_some() || self.evaluation.is_some()
    }

    /// Whether its ranks hold only the edges into their own vertices, to draw batches from.
    pub fn draws_apart(&self) -> bool {
        let lists = [&self.sampling, &self.evaluation];
        lists.into_iter().flatten().any(Sampling::draws_apart)
    }
}
