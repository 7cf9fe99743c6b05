//! Groups of ranks that work together.

use super::{BatchSizes, Extent, Program};
use crate::graph::op::Slice;
use crate::kernel::Axis;
use crate::words::mesh::Mesh;
use serde::{Deserialize, Serialize};

/// Evenly spaced ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The first rank of the stage that they belong to.
    pub stage: u32,
    /// The first rank's part of the vertices.
    pub first: u32,
    /// Parts from one rank to the next.
    pub step: u32,
    /// Number of ranks.
    pub ranks: u32,
}

impl Group {
    /// Number of the rank at a place in the group.
    pub fn rank(self, place: u32) -> u32 {
        self.stage + self.part(place)
    }

    /// The part of the vertices that the rank at a place has.
    pub fn part(self, place: u32) -> u32 {
        self.first + self.step * place
    }

    /// The place of a rank of the group.
    pub fn place(self, rank: u32) -> u32 {
        rank.saturating_sub(self.stage + self.first) / self.step.max(1)
    }

    /// The other places, beginning with the next, so that not all send to the same one at once.
    pub fn others(self, place: u32) -> impl Iterator<Item = u32> {
        (1..self.ranks).map(move |step| (place + step) % self.ranks)
    }

    /// All places.
    pub fn places(self) -> impl Iterator<Item = u32> + Clone {
        0..self.ranks
    }
}

/// Which ranks a message stays among.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Among {
    /// All ranks of a stage.
    #[default]
    All,
    /// Those with the slices of one copy of the features. Without a mesh these are all.
    Slices,
    /// Those with copies of the same slice. Without a mesh every rank is alone.
    Copies,
}

impl Among {
    /// Whether messages go to all ranks.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }
}

impl Program {
    /// Ranks of a stage: all of them, if there are no stages.
    pub fn stage_ranks(&self) -> u32 {
        self.pipeline
            .map_or(self.ranks, |pipeline| pipeline.width(self.ranks))
    }

    /// Whether groups of ranks divide the vertices, and the ranks of a group the columns: a mesh of R x C ranks, with R groups
    /// of C consecutive ranks. A rank of a group exchanges halo rows of its slice with the ranks that have the same slice of
    /// other groups. (The copies of a mesh's slices on sampled batches have all vertices each.)
    pub fn in_groups(&self) -> bool {
        self.sampling.is_none() && self.group_ranks(Among::Copies) > 1
    }

    /// The ranks among which halo rows of a buffer with these rows are exchanged.
    pub fn exchange_among(&self, extent: Extent) -> Among {
        match extent.of_whole_graph() {
            true => Among::Copies,
            false => Among::All,
        }
    }

    /// How the slices of the features are spread over the ranks.
    pub fn whole_mesh(&self) -> Mesh {
        self.mesh.unwrap_or(Mesh::whole(self.stage_ranks()))
    }

    /// The ranks that a rank works with.
    pub fn group(&self, rank: u32, among: Among) -> Group {
        let width = self.stage_ranks().max(1);
        let (stage, part) = (rank - rank % width, rank % width);
        let mesh = self.whole_mesh();
        let (slices, copies) = (mesh.slices.max(1), mesh.copies(width));
        let (slice, copy) = (mesh.slice(width, part), mesh.copy(width, part));
        // From a slice to the next, and from a copy to the next.
        let (across, along) = match mesh.apart {
            true => (copies, 1),
            false => (1, slices),
        };
        let (first, step, ranks) = match among {
            Among::All => (0, 1, width),
            Among::Slices => (copy * along, across, slices),
            Among::Copies => (slice * across, along, copies),
        };
        Group {
            stage,
            first,
            step,
            ranks,
        }
    }

    /// The groups that the ranks of a stage form.
    pub fn groups(&self, among: Among) -> impl Iterator<Item = Group> {
        let groups = (0..self.stage_ranks()).map(move |rank| (rank, self.group(rank, among)));
        groups.filter_map(|(rank, group)| (group.rank(0) == rank).then_some(group))
    }

    /// A rank's slice of an axis with `of` elements.
    pub fn slice(&self, axis: Axis, of: u32, rank: u32) -> Slice {
        let group = self.group(rank, Among::Slices);
        Slice::new(axis, of, group.ranks, group.place(rank))
    }

    /// The sizes of a batch on each rank, given without those of other ranks: with those of all ranks
    /// that share their levels, and with the own vertices that ranks ask for. Those are counted as if each
    /// were asked for by one rank, and others' as if each rank owned as many, so there are at most as many
    /// in the mean.
    pub fn with_shared(&self, ranks: &[BatchSizes]) -> Vec<BatchSizes> {
        let mut all = ranks.to_vec();
        for group in self.groups(Among::Slices) {
            let parts = group.places().map(|place| group.part(place) as usize);
            let of_group: Vec<BatchSizes> = parts
                .clone()
                .filter_map(|n| ranks.get(n).copied())
                .collect();
            let sum = BatchSizes::sum(&of_group);
            for part in parts {
                if let Some(sizes) = all.get_mut(part) {
                    sizes.all_levels = sum.levels;
                    sizes.all_edges = sum.edges;
                }
            }
        }
        if let Some(level) = self.pushes() {
            let remote: u64 = ranks.iter().map(|sizes| sizes.remote(level.number)).sum();
            let others = (ranks.len() as u64).saturating_sub(1).max(1);
            for sizes in &mut all {
                let own = sizes.remote(level.number);
                let kept = sizes.rows(level).saturating_sub(own);
                sizes.owned = kept + (remote - own).div_ceil(others);
            }
        }
        all
    }

    /// Number of ranks in a group.
    pub fn group_ranks(&self, among: Among) -> u32 {
        self.group(self.rank, among).ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Pipeline;

    fn members(program: &Program, rank: u32, among: Among) -> Vec<u32> {
        let group = program.group(rank, among);
        let place = group.place(rank);
        assert_eq!(group.rank(place), rank);
        let others: Vec<u32> = group.others(place).collect();
        assert!(others.len() + 1 == group.ranks as usize && !others.contains(&place));
        group.places().map(|place| group.rank(place)).collect()
    }

    #[test]
    fn every_rank_is_in_one_group_of_each_kind() {
        let mut program = Program {
            ranks: 6,
            mesh: Some(Mesh {
                slices: 2,
                apart: false,
            }),
            ..Program::default()
        };
        assert_eq!(members(&program, 3, Among::All), [0, 1, 2, 3, 4, 5]);
        assert_eq!(members(&program, 3, Among::Slices), [2, 3]);
        assert_eq!(members(&program, 3, Among::Copies), [1, 3, 5]);
        program.mesh = Some(Mesh {
            slices: 2,
            apart: true,
        });
        assert_eq!(members(&program, 4, Among::Slices), [1, 4]);
        assert_eq!(members(&program, 4, Among::Copies), [3, 4, 5]);
        program.mesh = None;
        assert_eq!(members(&program, 4, Among::Slices), [0, 1, 2, 3, 4, 5]);
        assert_eq!(members(&program, 4, Among::Copies), [4]);
        program.pipeline = Some(Pipeline {
            stages: 2,
            stage: 1,
            chunks: 1,
            shuffle: false,
            interval: 1,
        });
        assert_eq!(members(&program, 4, Among::All), [3, 4, 5]);
        assert_eq!(program.group(4, Among::All).part(2), 2);
    }
}
