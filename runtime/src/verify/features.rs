//! Checks of features and of parameters that ranks have shards of.

use super::Check;
use crate::features::slice;
use gnnc_ir::graph::{Element, ParamSpec, Shard};
use gnnc_ir::op::Slice;
use gnnc_ir::program::{Buffer, Extent, Ref};

/// Whether a buffer holds one element of a stack if its parameter is one.
pub(super) fn element(spec: &ParamSpec, buffer: &Buffer) -> bool {
    let within = |element: Element| element.index < element.of && buffer.slots == 1;
    spec.element.is_none_or(within)
}

impl Check<'_> {
    /// Whether a parameter's shard, if it has one, is this rank's and fits its buffer.
    pub(super) fn shard(&self, spec: &ParamSpec, extent: Extent) -> bool {
        spec.shard.is_none_or(|Shard { blocks, slice }| {
            let own = Slice::new(slice.axis, slice.of, self.program.ranks, self.rank);
            slice == own && extent == Extent::Fixed(blocks * slice.len)
        })
    }

    /// Rows and columns of the sparse features whose values a buffer holds.
    pub(super) fn sparse(&self, values: Ref) -> Result<(u64, u64), String> {
        self.at_least("values", values, 0)?;
        let extent = self.program.buffer(values.buffer).extent;
        if self.part.features(extent).is_none() {
            return Err("sparse features in a program that declares dense ones".to_owned());
        }
        self.at_least("values", values, self.stored(values))?;
        let rows = self.part.sizes.rows(self.program.sparse_rows(values));
        Ok((rows, self.feature_columns(extent)?))
    }

    /// Non-zeros of the sparse features whose values a buffer holds.
    pub(super) fn stored(&self, values: Ref) -> u64 {
        let sizes = &self.part.sizes;
        match self.program.sparse_rows(values) {
            Extent::All => sizes.slice_nonzeros,
            _ => sizes.feature_nonzeros,
        }
    }

    /// Columns of the features in rows of an extent.
    pub(super) fn feature_columns(&self, extent: Extent) -> Result<u64, String> {
        let features = &self.data.features;
        match extent {
            Extent::All | Extent::SliceNonzeros if self.program.rank == self.rank => {
                Ok(slice(self.program, features).len.into())
            }
            Extent::All | Extent::SliceNonzeros => Err(format!(
                "rank {} has rank {}'s columns of the features",
                self.rank, self.program.rank
            )),
            _ => Ok(features.columns().into()),
        }
    }
}
