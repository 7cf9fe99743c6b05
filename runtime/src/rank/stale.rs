//! How old the rows are that an epoch of a pipeline reads.

use super::Rank;
use crate::fault::Fault;
use crate::staleness::{LayerStaleness, Staleness};
use crate::step_context::StepContext;
use gnnc_ir::program::{BufferId, Role};

impl Rank {
    /// How old the data the current epoch reads is.
    pub(super) fn stale(&self, step_context: &StepContext) -> Result<Staleness, Fault> {
        let (mut found, epoch) = (Staleness::default(), step_context.epoch + 1);
        let Some(pipeline) = &self.program.pipeline else {
            return Ok(found);
        };
        let all = self.part.between.iter().sum::<u64>();
        let old = self.edges_from_later();
        for (buffer, n) in self.program.buffers.iter().zip(0..) {
            if !matches!(buffer.role, Role::History(_)) {
                continue;
            }
            let kept = self.kept.get(&BufferId(n)).copied();
            let age = epoch.saturating_sub(kept.unwrap_or(0));
            if age > u64::from(pipeline.interval) {
                return Err(Fault::TooOld {
                    history: buffer.name.clone(),
                    age,
                    epoch,
                    interval: pipeline.interval,
                });
            }
            let mut layer = LayerStaleness {
                name: buffer.name.clone(),
                ..LayerStaleness::default()
            };
            let reads = [(0, all - old), (age, old)];
            let reads = reads.into_iter().filter(|(_, reads)| *reads > 0);
            reads.for_each(|(age, reads)| layer.read(age, reads));
            found.layers.push(layer);
        }
        Ok(found)
    }

    /// Number of edges into own vertices from chunks later in the order.
    fn edges_from_later(&self) -> u64 {
        let order = &self.place.order;
        let edges = |d: u32, s: u32| {
            let place = d as usize * order.len() + s as usize;
            self.part.between.get(place).copied().unwrap_or(0)
        };
        let chunks = order.iter().enumerate();
        let later = chunks.flat_map(|(n, &d)| order[n + 1..].iter().map(move |&s| (d, s)));
        later.map(|(d, s)| edges(d, s)).sum()
    }
}
