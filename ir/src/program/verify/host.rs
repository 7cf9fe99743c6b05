//! Checks of buffers in host memory.

use super::{Check, Checked};
use crate::program::{BufferId, Chunk, Even, Extent, Instr, Ref, Role, Vertices};

impl Check<'_> {
    /// Checks that the hosted buffers are in order and may lie on the host.
    pub(super) fn hosted(&self) -> Checked {
        let hosted = &self.program.hosted;
        if !hosted.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err("the offloaded buffers are not in ascending order".to_owned());
        }
        let lists = [&self.program.setup, &self.program.step, &self.program.eval];
        for instr in lists.into_iter().flatten() {
            let (_, writes) = instr.accesses();
            let found = |at: &&Ref| {
                let buffer = self.program.buffers.get(at.buffer.0 as usize);
                buffer.is_some_and(|b| matches!(b.role, Role::EdgeEnds(_) | Role::EdgePlaces(_)))
            };
            if let Some(at) = writes.iter().find(found) {
                return Err(format!(
                    "a {} writes `{}`, which belongs to the graph",
                    instr.name(self.program),
                    self.name(at.buffer)
                ));
            }
        }
        for id in hosted {
            let Some(buffer) = self.program.buffers.get(id.0 as usize) else {
                return Err(format!(
                    "buffer {} on the host of {} buffers",
                    id.0,
                    self.program.buffers.len()
                ));
            };
            let read = self.program.logits.map(|at| at.buffer) == Some(*id);
            if read || matches!(buffer.role, Role::History(_) | Role::Result) {
                return Err(format!(
                    "`{}`, which is read after a run, is on the host, expected on the device",
                    buffer.name
                ));
            }
        }
        Ok(())
    }

    /// Checks that only moves use hosted buffers, and batches that read rows of them.
    pub(super) fn here(&self, instr: &Instr) -> Checked {
        let what = instr.whole();
        if matches!(what, Instr::Move(_)) {
            return Ok(());
        }
        let fetched = if let Instr::FetchRows(fetch) = what {
            Some(fetch.from)
        } else {
            None
        };
        let (reads, writes) = what.accesses();
        let away = |at: &&Ref| Some(**at) != fetched && self.program.is_hosted(at.buffer);
        match reads.iter().chain(&writes).find(away) {
            None => Ok(()),
            Some(at) => Err(format!(
                "a {} uses rows of `{}` that are on the host, not on the device; fetch them before",
                what.name(self.program),
                self.name(at.buffer)
            )),
        }
    }

    /// Checks that one end is on the rank and the other on the host, with rows of one kind.
    pub(in crate::program) fn host_move(
        &self,
        from: Ref,
        to: Ref,
        chunk: Option<Chunk>,
    ) -> Checked {
        self.at_least("what is moved", from, 0)?;
        self.at_least("where it goes", to, 0)?;
        let ends = [from, to].map(|at| self.program.buffer(at.buffer));
        let hosted = [from, to].map(|at| self.program.is_hosted(at.buffer));
        if hosted[0] == hosted[1] {
            return Err(format!(
                "a move from `{}` to `{}`, expected one of them on the host and one on the device",
                ends[0].name, ends[1].name
            ));
        }
        let edges = |cut: Even| {
            let all = cut.rows.extent();
            cut.edges.map_or(all, |edges| all.edges(edges.set))
        };
        if let Some(chunk) = chunk {
            self.host_chunk([from, to], chunk)?;
        }
        let rows = |extent: Extent| match chunk.and_then(|chunk| chunk.even) {
            Some(cut) if matches!(extent, Extent::Run(even, _) if even == cut) => {
                cut.rows.extent().without_halo()
            }
            Some(cut) if matches!(extent, Extent::EdgeRun(even, _) if even == cut) => edges(cut),
            _ => extent.without_halo(),
        };
        let shape = ends.map(|end| (rows(end.extent), end.columns, end.storage));
        match shape[0] == shape[1] {
            true => Ok(()),
            false => Err(format!(
                "a move of {} x {} in {} to {} x {} in {}, expected the same rows, columns and storage",
                ends[0].extent,
                ends[0].columns,
                ends[0].storage,
                ends[1].extent,
                ends[1].columns,
                ends[1].storage
            )),
        }
    }

    /// Checks that rows of a chunk are copied whole.
    fn host_chunk(&self, ends: [Ref; 2], chunk: Chunk) -> Checked {
        let known = chunk.index < chunk.of && chunk.even.is_some_and(|even| self.walks(even));
        let Some(even) = chunk.even.filter(|_| known) else {
            return Err(format!(
                "a move of chunk {} of {}, expected a chunk of rows or of their edges",
                chunk.index, chunk.of
            ));
        };
        for at in ends {
            let buffer = self.program.buffer(at.buffer);
            let halves = !buffer.columns.is_multiple_of(buffer.storage.in_word());
            let sizes = self.data.capacity.most();
            let whole = even.rows.extent();
            let rows = match Vertices::of(buffer.extent) {
                Some(Vertices::Inner | Vertices::Local) => {
                    even.rows != Vertices::All && sizes.rows(buffer.extent) >= sizes.rows(whole)
                }
                Some(Vertices::All) | None => {
                    let of_edges = even.edges.map(|edges| whole.edges(edges.set));
                    [Some(whole), of_edges].contains(&Some(buffer.extent))
                        || buffer.extent.chunk().is_some()
                }
            };
            if halves || !rows {
                return Err(format!(
                    "a move of {} rows of `{}`, which has {} x {} in {}",
                    even.rows.extent(),
                    buffer.name,
                    buffer.extent,
                    buffer.columns,
                    buffer.storage
                ));
            }
        }
        Ok(())
    }

    fn name(&self, id: BufferId) -> &str {
        let buffer = self.program.buffers.get(id.0 as usize);
        buffer.map_or("?", |buffer| &buffer.name)
    }
}
