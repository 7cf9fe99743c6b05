//! Parts of groups of ranks, if the ranks of a group divide the columns of its vertices.

use super::{Messages, Parts, PartsError, measured, parts};
use gnnc_ir::cluster::Basis;
use gnnc_ir::program::{Program, RankSizes};
use gnnc_ir::workload::{Origin, Workload};

/// The parts of groups of consecutive ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    /// Ranks of a group.
    pub ranks: u32,
    /// Their parts.
    pub parts: Parts,
}

impl Parts {
    /// The same parts on groups of so many ranks. If the vertices of groups were not counted, they are taken to be those of as
    /// many parts, which for METIS and powers of two they are.
    ///
    /// # Errors
    /// As [`parts`].
    pub fn in_groups(mut self, workload: &Workload, ranks: u32) -> Result<Self, PartsError> {
        let all = self.sizes.len() as u32;
        let count = all / ranks.max(1);
        let partition = workload.partition(all, self.partitioner.name());
        let counted = partition.and_then(|summary| {
            let mut groups = summary.groups.iter();
            groups.find(|groups| groups.parts.len() as u32 == count)
        });
        let of_groups = match counted {
            Some(summary) => {
                let basis = match workload.origin {
                    Origin::Measured => Basis::Measured,
                    Origin::Declared => Basis::Declared,
                };
                measured(summary, self.partitioner, count, workload, basis)?
            }
            None => parts(workload, count, self.partitioner)?,
        };
        self.groups = Some(Box::new(Groups {
            ranks,
            parts: of_groups,
        }));
        Ok(self)
    }

    /// The replication factor, how it was obtained and by which factor it may be off belong to the parts that exchange most
    /// rows: those of groups, if there are any.
    pub fn exchanged(&self) -> &Self {
        self.groups.as_ref().map_or(self, |groups| &groups.parts)
    }

    /// Gives the ranks of a program the vertices and edges of their groups.
    pub(super) fn hold_groups(&mut self, program: &Program) {
        let Some(groups) = self.groups.as_ref().filter(|_| program.in_groups()) else {
            return;
        };
        let nonzeros: u64 = self.sizes.iter().map(|sizes| sizes.feature_nonzeros).sum();
        for (rank, sizes) in self.sizes.iter_mut().enumerate() {
            let group = groups.parts.sizes.get(rank / groups.ranks.max(1) as usize);
            let Some(group) = group else { continue };
            let of_group = |all: u64| {
                let all = u128::from(all) * u128::from(group.feature_nonzeros);
                (all / u128::from(nonzeros.max(1))) as u64
            };
            *sizes = RankSizes {
                vertices: group.inner,
                elsewhere: group.vertices - group.inner,
                all_halo: group.halo,
                all_edges: group.edges,
                all_named_edges: group.named_edges,
                slice_nonzeros: of_group(sizes.slice_nonzeros),
                ..*sizes
            };
        }
    }
}

impl Groups {
    /// Rows that the ranks of a group send to those with the same slice of others, by owner and reader; `None` if each group
    /// reads as many of every other.
    pub(crate) fn messages(&self) -> Option<Vec<Vec<u64>>> {
        let Messages::Matrix(rows) = &self.parts.messages else {
            return None;
        };
        let slices = self.ranks as usize;
        let ranks = rows.len() * slices;
        let mut all = vec![vec![0; ranks]; ranks];
        for (owner, readers) in rows.iter().enumerate() {
            for (reader, rows) in readers.iter().enumerate() {
                for slice in 0..slices {
                    all[owner * slices + slice][reader * slices + slice] = *rows;
                }
            }
        }
        Some(all)
    }
}
