//! Checks of chunks.

use super::{Check, Checked};
use crate::kernel::{Body, End, Kernel, Walk};
use crate::program::instr;
use crate::program::trace::Phase;
use crate::program::{BufferId, Chunk, Even, Extent, Grouped, Instr, Launch, Moved, Ref, Role};

impl Check<'_> {
    /// Checks that a launch over a chunk writes its own rows: rows of the whole graph, or of a
    /// division of its rows.
    pub(super) fn chunk(&self, launch: &Launch, kernel: &Kernel) -> Checked {
        let Some(chunk) = launch.chunk else {
            return Ok(());
        };
        if chunk.even.is_some() {
            if chunk.reach().is_some() && kernel.body.sums_rows() {
                return Err(format!(
                    "a {} over some of the rows, which would change the order of its sum; let it run over all rows",
                    kernel.body.name()
                ));
            }
            return self.cut(Some(chunk), launch.rows);
        }
        self.known(chunk)?;
        match launch.rows.of_whole_graph() && !kernel.body.sums_rows() {
            true => Ok(()),
            false => Err(format!(
                "a {} over {} rows in chunks, expected rows of the whole graph, each with its own result",
                kernel.body.name(),
                launch.rows
            )),
        }
    }

    /// Checks that edge lists passed to a launch are those of its chunk.
    pub(super) fn lists(&self, launch: &Launch, kernel: &Kernel) -> Checked {
        let Some(set) = kernel.body.edge_set().filter(|_| !launch.lists.is_empty()) else {
            return match launch.lists.is_empty() {
                true => Ok(()),
                false => Err("edge lists for a kernel that walks no edges".to_owned()),
            };
        };
        let by = Walk::of(&kernel.body).end();
        let edges = Grouped { set, by };
        let cut = launch.chunk.and_then(|chunk| chunk.even);
        let roles = [Role::EdgeEnds(edges), Role::EdgePlaces(set)];
        let known = launch.lists.len() <= if by == End::Src { 2 } else { 1 };
        if !known || cut.and_then(|even| even.edges) != Some(edges) {
            return Err(format!(
                "{} lists over {}, expected a chunk of the edges it walks: the edges, their ends and, by source, their places",
                launch.lists.len(),
                launch
                    .chunk
                    .map_or("all rows".to_owned(), |chunk| chunk.to_string())
            ));
        }
        for (at, role) in launch.lists.iter().zip(roles) {
            self.filled_from(at.buffer, role, launch.rows.edges(set))?;
        }
        Ok(())
    }

    /// Checks that only copies of a buffer with `role` write a buffer.
    fn filled_from(&self, id: BufferId, role: Role, extent: Extent) -> Checked {
        let window = self.program.buffers.get(id.0 as usize);
        if !window.is_some_and(|buffer| matches!(buffer.extent, Extent::EdgeRun(..))) {
            return Err(format!("buffer {} is not an edge list of a chunk", id.0));
        }
        let right = |at: &Ref| {
            let from = self.program.buffers.get(at.buffer.0 as usize);
            from.is_some_and(|from| from.role == role && from.extent == extent)
        };
        let lists = [&self.program.setup, &self.program.step, &self.program.eval];
        for instr in lists.into_iter().flatten() {
            let what = instr.whole();
            let (_, writes) = what.accesses();
            let allowed = matches!(what, Instr::Move(instr::Move { from, .. }) if right(from));
            if writes.iter().any(|at| at.buffer == id) && !allowed {
                return Err(format!(
                    "`{}`, which a kernel uses to find rows, is written by a {}; expected copies of {role}",
                    self.program.buffer(id).name,
                    what.name(self.program)
                ));
            }
        }
        Ok(())
    }

    /// Checks the rows of a redistribution.
    pub(in crate::program) fn moved(&self, moved: Moved) -> Checked {
        moved.chunk().map_or(Ok(()), |chunk| self.known(chunk))
    }

    /// Checks that a chunk divides the rows that an instruction runs over.
    pub(super) fn cut(&self, chunk: Option<Chunk>, rows: Extent) -> Checked {
        let Some(chunk) = chunk else {
            return Ok(());
        };
        let Chunk { index, of, even } = chunk;
        let cut = even.map(|even| even.rows.extent());
        if index >= of || chunk.reach().is_some() && of != 2 {
            return Err(format!("chunk {index} of {of}"));
        }
        if cut == Some(rows) && !even.is_some_and(|even| self.walks(even)) {
            return Err(format!(
                "{chunk}, of edges that no kernel of the program walks"
            ));
        }
        match cut == Some(rows) {
            true => Ok(()),
            false => Err(format!(
                "{rows} rows over {chunk}, expected a chunk of the rows it runs over"
            )),
        }
    }

    /// Whether some kernel walks the edges by which rows are divided, so that ranks know the
    /// boundaries.
    pub(super) fn walks(&self, even: Even) -> bool {
        let Some(Grouped { set, by }) = even.edges else {
            return true;
        };
        let whole = even.rows.extent().of_whole_graph();
        let mut found = false;
        for phase in Phase::ALL {
            each_launch(self.program.list(phase), &mut |launch| {
                let kernel = self.program.kernels.get(launch.kernel.0 as usize);
                let body = kernel.map(|kernel| &kernel.body);
                found |= launch.rows.of_whole_graph() == whole
                    && body.and_then(Body::edge_set) == Some(set)
                    && (by == End::Dst || body.map(Walk::of) == Some(Walk::EdgesBySource));
            });
        }
        found
    }

    fn known(&self, chunk: Chunk) -> Checked {
        let Chunk { index, of, .. } = chunk;
        let count = self.data.chunks.unwrap_or(of);
        match of == count && index < count && chunk.even.is_none() {
            true => Ok(()),
            false => Err(format!(
                "chunk {index} of {of}, but the graph is cut into {count} chunks"
            )),
        }
    }
}

/// Visits the launches of a list, including those in products and loops.
fn each_launch(list: &[Instr], visit: &mut dyn FnMut(&Launch)) {
    for instr in list {
        instr.launch().into_iter().for_each(&mut *visit);
        each_launch(instr.body().unwrap_or_default(), visit);
    }
}
