//! Checks of features and of sharded parameters.

use super::Check;
use crate::graph::{Element, ParamSpec, Shard};
use crate::kernel::Axis;
use crate::program::{Buffer, Extent, Ref, Role};
use crate::words::types::Rows;

/// Whether a buffer holds one element, if its parameter is an element of a stack.
pub(super) fn element(spec: &ParamSpec, buffer: &Buffer) -> bool {
    let within = |element: Element| element.index < element.of && buffer.slots == 1;
    spec.element.is_none_or(within)
}

impl Check<'_> {
    /// Whether a parameter's shard, if any, is this rank's and fits its buffer.
    pub(super) fn shard(&self, spec: &ParamSpec, extent: Extent) -> bool {
        spec.shard.is_none_or(|Shard { blocks, slice }| {
            let own = self.program.slice(slice.axis, slice.of, self.data.rank);
            slice == own && extent == Extent::Fixed(blocks * slice.len)
        })
    }

    /// Whether a parameter has a row for each vertex, of which each rank holds those of its own.
    pub(super) fn owned(&self, spec: &ParamSpec, extent: Extent) -> bool {
        let is_whole = spec.shard.is_none() && spec.element.is_none();
        let Rows::Fixed(rows) = spec.ty.rows else {
            return false;
        };
        is_whole && extent == Extent::Inner && self.has_all_vertices(Extent::Fixed(rows))
    }

    /// Whether a parameter's rows are those of all vertices of the graph.
    pub(in crate::program) fn has_all_vertices(&self, extent: Extent) -> bool {
        let vertices = self.data.capacity.most().of_graph();
        matches!(extent, Extent::Fixed(rows) if u64::from(rows) == vertices)
    }

    /// Rows and columns (if known) of the sparse features whose values are in a buffer.
    pub(in crate::program) fn sparse(&self, values: Ref) -> Result<(u64, Option<u64>), String> {
        self.at_least("values", values, 0)?;
        let extent = self.program.buffer(values.buffer).extent;
        let sliced = |extent| extent == Extent::SliceNonzeros;
        let known = self.program.buffers.iter().any(|buffer| {
            buffer.role == Role::FeatureValues && sliced(buffer.extent) == sliced(extent)
        });
        if !known || !self.program.sparse_features {
            return Err("sparse features in a program that declares dense ones".to_owned());
        }
        self.at_least("values", values, self.stored(values))?;
        let rows = self.data.capacity.rows(self.program.sparse_rows(values));
        Ok((rows, self.feature_columns(extent)?))
    }

    /// Non-zeros of the sparse features whose values are in a buffer.
    pub(in crate::program) fn stored(&self, values: Ref) -> u64 {
        let sizes = self.data.capacity.most();
        if self.program.sparse_rows(values) == Extent::All {
            sizes.slice_nonzeros
        } else {
            sizes.feature_nonzeros
        }
    }

    /// Feature columns in rows of an extent; `None` if unknown.
    pub(super) fn feature_columns(&self, extent: Extent) -> Result<Option<u64>, String> {
        let whole = self.data.features;
        if !extent.slices_features() {
            return Ok(whole.map(u64::from));
        }
        if self.program.rank != self.data.rank {
            return Err(format!(
                "rank {} has rank {}'s columns of the features",
                self.data.rank, self.program.rank
            ));
        }
        let slice = |of| self.program.slice(Axis::Width, of, self.data.rank);
        Ok(whole.map(|of| slice(of).len.into()))
    }
}
