//! Checks of chunks.

use super::{Check, Checked};
use crate::whole::over_all;
use gnnc_ir::kernel::{Body, Kernel};
use gnnc_ir::program::{Chunk, Extent, Launch, Moved};

impl Check<'_> {
    /// A launch over a chunk writes rows of its own: of the whole graph, or of a cut of its rows.
    pub(super) fn chunk(&self, launch: &Launch, kernel: &Kernel) -> Checked {
        let Some(chunk) = launch.chunk else {
            return Ok(());
        };
        if chunk.even.is_some() {
            return self.cut(Some(chunk), launch.rows);
        }
        self.known(chunk)?;
        match over_all(launch.rows) && !matches!(kernel.body, Body::ColReduce { .. }) {
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

    /// A chunk of rows is one of these rows.
    pub(super) fn cut(&self, chunk: Option<Chunk>, rows: Extent) -> Checked {
        let Some(chunk) = chunk else {
            return Ok(());
        };
        let Chunk { index, of, even } = chunk;
        let cut = even.map(|even| even.rows.extent());
        if index >= of {
            return Err(format!("chunk {index} of {of}"));
        }
        match cut == Some(rows) {
            true => Ok(()),
            false => Err(format!(
                "{rows:?} rows in chunks of {cut:?}, expected chunks of the rows that it runs over"
            )),
        }
    }

    fn known(&self, chunk: Chunk) -> Checked {
        let Chunk { index, of, .. } = chunk;
        let count = self.part.whole.chunks.count();
        match of == count && index < count && chunk.even.is_none() {
            true => Ok(()),
            false => Err(format!(
                "chunk {index} of {of}, where the graph is cut into {count} chunks"
            )),
        }
    }
}
