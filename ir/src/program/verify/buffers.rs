//! Checks that each buffer fits its role.

use super::features::element;
use super::storage::always_floats;
use super::{Check, Checked};
use crate::program::trace::Phase;
use crate::program::{BufferId, Extent, Grouped, Instr, METRICS, Ref, Role, Vertices};
use crate::words::types::EdgeSet;

impl Check<'_> {
    pub(super) fn buffers(&self) -> Checked {
        let sizes = self.data.capacity.most();
        let mut total = 0u128;
        for buffer in &self.program.buffers {
            let name = &buffer.name;
            let fixed = matches!(buffer.extent, Extent::Fixed(_));
            let floats = u128::from(sizes.rows(buffer.extent))
                * u128::from(buffer.columns)
                * u128::from(buffer.slots);
            total += floats;
            let columns = |extent| match self.feature_columns(extent) {
                Ok(columns) => columns.is_none_or(|columns| columns == u64::from(buffer.columns)),
                Err(_) => false,
            };
            let fits = match buffer.role {
                Role::Features => {
                    Vertices::of(buffer.extent.without_halo()).is_some() && columns(buffer.extent)
                }
                Role::FeatureValues => {
                    let nonzeros = [Extent::FeatureNonzeros, Extent::SliceNonzeros];
                    nonzeros.contains(&buffer.extent)
                        && buffer.columns == 1
                        && self.feature_columns(buffer.extent).is_ok()
                }
                Role::Degree(..) => {
                    buffer.columns == 1 && matches!(buffer.extent, Extent::Inner | Extent::Local)
                }
                Role::EdgeEnds(Grouped { set, .. }) | Role::EdgePlaces(set) => {
                    let extents = [Extent::Edges(set), Extent::AllEdges(set)];
                    buffer.columns == 1 && buffer.slots == 1 && extents.contains(&buffer.extent)
                }
                Role::Relation(count) | Role::RelationDegree(count) => {
                    self.typed(count)?;
                    let by_edge = matches!(
                        buffer.extent,
                        Extent::Edges(EdgeSet::Plain) | Extent::AllEdges(EdgeSet::Plain)
                    );
                    (buffer.columns, buffer.slots) == (1, 1) && by_edge
                }
                Role::EdgeFeatures(count) => {
                    self.edge_features(count)?;
                    let by_edge = buffer.extent.edge_set().is_some_and(|set| set.loops() == 0);
                    let by_edge = by_edge && buffer.extent.level().is_none();
                    (buffer.columns, buffer.slots) == (count, 1) && by_edge
                }
                Role::Table(n) => {
                    let table = self.program.tables.get(n as usize);
                    table.is_some_and(|t| t.len() as u128 == floats) && fixed
                }
                Role::Param(n) | Role::State(n, _) => match self.program.params.get(n as usize) {
                    Some(spec) => {
                        let whole = fixed && self.shard(spec, buffer.extent);
                        (whole || self.owned(spec, buffer.extent)) && element(spec, buffer)
                    }
                    None => false,
                },
                // Copies are checked with their exchanges.
                Role::History(_) => {
                    let by_rows = matches!(buffer.extent, Extent::Inner | Extent::Local);
                    self.program.pipeline.is_none() || buffer.slots == 1 && by_rows
                }
                Role::Static | Role::Result | Role::Temp => true,
            };
            let rounded = !buffer.storage.is_f32();
            let fits = fits && !(rounded && always_floats(buffer.role));
            if !fits || buffer.slots == 0 {
                return Err(format!(
                    "buffer `{name}` ({} x {} {}) does not fit its role {}",
                    buffer.extent, buffer.columns, buffer.storage, buffer.role
                ));
            }
        }
        if total > u128::from(u64::MAX >> 8) {
            return Err(format!("its buffers have {total} floats"));
        }
        Ok(())
    }

    /// Checks the results that callers read.
    pub(super) fn results(&self) -> Checked {
        for (what, id, floats, phase) in [
            ("loss", self.program.loss, 1, Phase::Step),
            ("metrics", self.program.metrics, METRICS.into(), Phase::Eval),
        ] {
            if let Some(id) = id {
                self.at_least(what, Ref::first(id), floats)?;
                self.written(what, id, phase)?;
            }
        }
        match self.program.logits {
            Some(logits) => {
                self.rows("logits", logits)?;
                self.written("logits", logits.buffer, Phase::Eval)
            }
            None => Ok(()),
        }
    }

    /// Checks that the graph has so many edge types.
    pub(in crate::program) fn typed(&self, count: u32) -> Checked {
        match self.data.relations {
            found if found == count => Ok(()),
            found => Err(format!(
                "it is for a graph with {count} edge types, but this one has {found}; make a plan for this graph"
            )),
        }
    }

    /// Checks that edges have so many features.
    pub(in crate::program) fn edge_features(&self, count: u32) -> Checked {
        match self.data.edge_features {
            found if found == count => Ok(()),
            found => Err(format!(
                "it is for a graph whose edges have {count} features, but this one's have {found}; make a plan for this graph"
            )),
        }
    }

    /// Checks that a list writes a result, which otherwise has no memory of its own.
    fn written(&self, what: &str, id: BufferId, phase: Phase) -> Checked {
        fn writes(list: &[Instr], id: BufferId) -> bool {
            list.iter().any(|instr| {
                let mut found = writes(instr.body().unwrap_or_default(), id);
                instr.each_access(&mut |at, writes| found |= writes && at.buffer == id);
                found
            })
        }
        match writes(self.program.list(phase), id) {
            true => Ok(()),
            false => Err(format!(
                "no instruction of {} writes the {what}",
                phase.name()
            )),
        }
    }
}
