//! What every instruction answers for itself.

use super::{Collective, Encoded, Instr, Labels, Launch, Operand};
use crate::program::traffic::{Reads, Traffic};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, Terms, Work};
use crate::program::{Capacity, Chunk, Program, RankSizes, Ref};

/// What every instruction answers for itself.
pub(in crate::program) trait Instruction {
    /// The name that traces, reports and listings use; the halves of a transfer have that of the whole.
    fn name(&self, program: &Program) -> &'static str;

    /// Visits what the instruction reads and writes, in the order in which it does; a loop has no operands of its own.
    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>));

    /// Checks that it fits the buffers of a rank.
    ///
    /// # Errors
    /// The first thing that does not fit.
    fn check(&self, check: &Check) -> Checked;

    /// Whether it can run over the rows of one chunk of [`Chunks`].
    fn fits_chunks(&self, program: &Program) -> bool;

    /// Operations and bytes on a rank of these sizes; `None` for loops and for what communicates.
    fn work(&self, counts: &Counts, sizes: &RankSizes) -> Option<Work>;

    /// Counts what a calibrated machine prices, and says the group that it belongs to; `None` as above.
    fn demand(
        &self,
        terms: &mut Terms,
        program: &Program,
        sizes: &RankSizes,
    ) -> Option<&'static str>;

    /// Its line in a listing; of a loop, the first one.
    fn print(&self, program: &Program) -> String;

    /// Adds the bytes that all ranks send for it.
    fn traffic(&self, _: &Program, _: &Reads, _: &[RankSizes], _: &mut Traffic) {}

    /// Visits the buffers that it reads, then those that it writes (`true`).
    fn each_access(&self, visit: &mut dyn FnMut(&Ref, bool)) {
        self.operands(&mut |operand| visit(&operand.at, operand.writes));
    }

    /// Visits every reference to a buffer to change it.
    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref));

    /// Whether it runs over rows of the whole graph, which no stage of a pipeline holds.
    fn over_whole_graph(&self) -> bool {
        false
    }

    /// Bytes of each piece of a row that a message picks or adds up by itself; `None` if it takes whole blocks.
    fn strip_bytes(&self, _: &Program) -> Option<u64> {
        None
    }

    /// What a loop runs.
    fn body(&self) -> Option<&[Instr]> {
        None
    }

    /// What a loop runs, to change it.
    fn body_mut(&mut self) -> Option<&mut Vec<Instr>> {
        None
    }

    /// The kernel that it launches.
    fn launch(&self) -> Option<&Launch> {
        None
    }

    /// The kernel that it launches, to change it.
    fn launch_mut(&mut self) -> Option<&mut Launch> {
        None
    }

    /// The labels that it reads.
    fn labels(&self) -> Option<Labels> {
        None
    }

    /// The chunk of rows that it is restricted to.
    fn chunk(&self) -> Option<Chunk> {
        None
    }

    /// Restricts it to a chunk of rows, if it supports that.
    fn set_chunk(&mut self, _: Chunk) {}

    /// Floats of the partial sums that it adds up.
    fn scratch_floats(&self, _: &Program, _: &Capacity) -> u64 {
        0
    }

    /// How its rows travel, if it sends rows and these are encoded.
    fn encoded(&self) -> Option<Encoded> {
        None
    }

    /// Lets its rows travel so, if it sends rows that may.
    fn encode(&mut self, _: Encoded) {}

    /// What all ranks of a stage do together for it.
    fn collective(&self) -> Option<Collective<'_>> {
        None
    }

    /// Whether it sends and receives.
    fn communicates(&self) -> bool {
        self.collective().is_some()
    }
}
