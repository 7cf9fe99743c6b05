//! Checks of chunks.

use super::{Check, Checked};
use crate::whole::over_all;
use gnnc_ir::kernel::Kernel;
use gnnc_ir::program::{Chunk, Launch, Moved};

impl Check<'_> {
    /// A launch over a chunk writes rows of its own, of the whole graph.
    pub(super) fn chunk(&self, launch: &Launch, kernel: &Kernel) -> Checked {
        let Some(chunk) = launch.chunk else {
            return Ok(());
        };
        self.known(chunk)?;
        match over_all(launch.rows) && !kernel.body.sums_rows() {
            true => Ok(()),
            false => Err(format!(
                "a {} over {:?} rows in chunks, expected rows of the whole graph, each with a result",
                kernel.body.name(),
                launch.rows
            )),
        }
    }

    /// Rows that are moved.
    pub(super) fn moved(&self, moved: Moved) -> Checked {
        moved.chunk().map_or(Ok(()), |chunk| self.known(chunk))
    }

    fn known(&self, Chunk { index, of }: Chunk) -> Checked {
        let count = self.part.whole.chunks.count();
        match of == count && index < count {
            true => Ok(()),
            false => Err(format!(
                "chunk {index} of {of}, where the graph is cut into {count} chunks"
            )),
        }
    }
}
