//! What ranks of each class hold.

use crate::parts::ChunkShare;
use crate::parts::Parts;
use crate::simulate::fabric::{Class, Fabric};
use gnnc_ir::program::{Program, RankSizes};

/// What ranks of each class hold of the vertices that edges lead from at a time: all, or in a pipeline, whose
/// rows are sorted by chunk, those that one chunk reads.
pub(super) fn reach(program: &Program, fabric: &Fabric, parts: &Parts) -> Vec<RankSizes> {
    let read = program.pipeline.map_or(1.0, |pipeline| {
        let groups = pipeline.width(program.ranks);
        parts
            .reads
            .of(groups.saturating_mul(pipeline.chunks.max(1)))
    });
    let of_class = |class: &Class| {
        let held = &class.sizes;
        let local = (held.inner + held.halo).max(1) as f64;
        let share = (read * held.vertices as f64 / local).min(1.0);
        let near = |rows: u64| (rows as f64 * share).ceil() as u64;
        RankSizes {
            inner: near(held.inner),
            halo: near(held.halo),
            ..*held
        }
    };
    fabric.classes.iter().map(of_class).collect()
}

/// This share of the sizes of each class of ranks.
pub(super) fn of_classes(fabric: &Fabric, share: ChunkShare) -> Vec<RankSizes> {
    let classes = fabric.classes.iter();
    classes.map(|class| share.of(&class.sizes)).collect()
}
