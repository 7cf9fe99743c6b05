//! Sets of the seeds of a batch: which models visit a rank, in which order, and with which seeds (Chen et
//! al., HopGNN, sections 3.1 and 3.2).
//!
//! Of a batch for `M` ranks, model `d` has the `d`-th of `M` runs of equal length. In time step `t` it is on
//! rank `(d + t) mod M`, where it is trained on those of its seeds that the rank owns. So every rank has one
//! model in every step. A merge leaves out the step with the fewest seeds of all models together; its seeds
//! go to the other steps of their models, and are then trained on by ranks that do not own them.

use super::cache::count_remote;
use super::{Blocks, Cached};
use crate::partition::Partition;
use gnnc_ir::program::BatchSizes;
use gnnc_ir::words::types::share;

/// The sets of a rank's seeds, one for each time step that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetSeeds {
    /// The time steps that are kept, ascending.
    kept: Vec<u32>,
    /// For each, the seeds of the model that is on the rank then.
    sets: Vec<Vec<u32>>,
}

impl SetSeeds {
    /// Sets of a batch on `ranks` ranks with so many merges; at least one is left.
    pub fn count(ranks: u32, merges: u32) -> u32 {
        ranks.saturating_sub(merges).max(1)
    }

    /// The sets of a rank, given the seeds of the batch on all ranks, in order.
    pub fn of(seeds: &[u32], partition: &Partition, rank: u32, merges: u32) -> Self {
        let ranks = partition.parts();
        let mut table = Table::new(seeds, partition);
        let kept = Self::count(ranks, merges) as usize;
        while table.kept.len() > kept {
            table.merge();
        }
        let mut sets = Vec::with_capacity(kept);
        for time in &table.kept {
            let model = (rank + ranks - time) % ranks;
            sets.push(std::mem::take(
                &mut table.seeds[model as usize][*time as usize],
            ));
        }
        Self {
            kept: table.kept,
            sets,
        }
    }

    /// The seeds of each set.
    pub fn sets(&self) -> &[Vec<u32>] {
        &self.sets
    }

    /// How many ranks further a set's model goes on; `None` after its last set.
    pub fn distance(&self, set: usize) -> Option<u32> {
        let next = self.kept.get(set + 1)?;
        Some(next - self.kept.get(set)?)
    }
}

/// The seeds of all models in all time steps.
struct Table {
    kept: Vec<u32>,
    /// By model and time step.
    seeds: Vec<Vec<Vec<u32>>>,
}

impl Table {
    fn new(seeds: &[u32], partition: &Partition) -> Self {
        let ranks = partition.parts();
        let owner = partition.owner();
        let mut table = vec![vec![Vec::new(); ranks as usize]; ranks as usize];
        for model in 0..ranks {
            let run = share(seeds.len() as u32, ranks, model);
            for seed in &seeds[run.start as usize..run.end as usize] {
                let time = (owner[*seed as usize] + ranks - model) % ranks;
                table[model as usize][time as usize].push(*seed);
            }
        }
        Self {
            kept: (0..ranks).collect(),
            seeds: table,
        }
    }

    /// Leaves out the time step with the fewest seeds, of several the last one.
    fn merge(&mut self) {
        let total = |time: &u32| -> usize {
            let models = self.seeds.iter();
            models.map(|of_model| of_model[*time as usize].len()).sum()
        };
        let fewest = self.kept.iter().rev().copied().min_by_key(total);
        let Some(fewest) = fewest else {
            return;
        };
        self.kept.retain(|time| *time != fewest);
        for of_model in &mut self.seeds {
            let moved = std::mem::take(&mut of_model[fewest as usize]);
            deal(moved, &self.kept, of_model);
        }
    }
}

/// Deals the seeds of a model's time step out over those that are kept: runs of equal length, then what is
/// left one by one to the step with the fewest seeds, of several the first one.
fn deal(moved: Vec<u32>, kept: &[u32], of_model: &mut [Vec<u32>]) {
    let each = moved.len() / kept.len().max(1);
    let mut rest = moved.into_iter();
    for time in kept {
        of_model[*time as usize].extend(rest.by_ref().take(each));
    }
    for seed in rest {
        let fewest = kept
            .iter()
            .min_by_key(|time| of_model[**time as usize].len());
        if let Some(time) = fewest {
            of_model[*time as usize].push(seed);
        }
    }
}

/// The vertices of all sets of a rank's part of a batch, each once: those of level `L`, then those that the
/// next level out adds, and so on.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    ids: Vec<u32>,
    /// Vertices up to each level, from the seeds outwards.
    ends: Vec<usize>,
    /// For each set, the place of each vertex of its level 0.
    places: Vec<Vec<u32>>,
    /// For each vertex of the graph one more than its place; 0 if it has none.
    number: Vec<u32>,
}

impl Gathered {
    /// Gathers the vertices of some sets with the same number of hops.
    pub(super) fn gather<'a>(
        &mut self,
        sets: impl Iterator<Item = &'a Blocks> + Clone,
        vertices: usize,
    ) {
        self.number.resize(vertices, 0);
        for id in self.ids.drain(..) {
            self.number[id as usize] = 0;
        }
        self.ends.clear();
        self.places.resize_with(sets.clone().count(), Vec::new);
        let hops = sets.clone().map(Blocks::layers).max().unwrap_or(0);
        for level in (0..=hops).rev() {
            for set in sets.clone().filter(|set| set.layers() >= level) {
                let known = match level < set.layers() {
                    true => set.level(level + 1).len(),
                    false => 0,
                };
                for id in &set.level(level)[known..] {
                    let number = &mut self.number[*id as usize];
                    if *number == 0 {
                        self.ids.push(*id);
                        *number = self.ids.len() as u32;
                    }
                }
            }
            self.ends.push(self.ids.len());
        }
        for (places, set) in self.places.iter_mut().zip(sets) {
            places.clear();
            places.extend(set.ids().iter().map(|id| self.number[*id as usize] - 1));
        }
    }

    /// The vertices of a level; none if there is no such level.
    pub fn level(&self, level: usize) -> &[u32] {
        let from_seeds = (self.ends.len().checked_sub(1)).and_then(|hops| hops.checked_sub(level));
        let end = from_seeds.and_then(|level| self.ends.get(level));
        &self.ids[..end.copied().unwrap_or(0)]
    }

    /// The places of a set's vertices among all; those of its levels are the first ones.
    pub fn places(&self, set: usize) -> &[u32] {
        self.places.get(set).map_or(&[], Vec::as_slice)
    }

    /// Counts the vertices of all levels, and those that other ranks own.
    pub(super) fn count(
        &self,
        elsewhere: impl Fn(u32) -> bool,
        cached: Option<&Cached>,
        sizes: &mut BatchSizes,
    ) {
        let Some(hops) = self.ends.len().checked_sub(1) else {
            return;
        };
        for (level, end) in (0..=hops).rev().zip(&self.ends) {
            sizes.of_sets[level] = *end as u64;
        }
        let mut known = 0;
        let levels =
            (self.ends.iter()).map(|end| &self.ids[std::mem::replace(&mut known, *end)..*end]);
        count_remote(levels, elsewhere, cached, sizes, hops);
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        let places: usize = self.places.iter().map(Vec::len).sum();
        4 * (self.ids.len() + places + self.number.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::g8;
    use crate::sample::{Fanout, Kind, Rule, Sampler};

    /// Seeds of each model on each rank, as lists of vertices of a partition.
    fn table(counts: [[usize; 3]; 3]) -> Table {
        let lists = counts.map(|row| row.map(|n| (0..n as u32).collect()).to_vec());
        Table {
            kept: vec![0, 1, 2],
            seeds: lists.to_vec(),
        }
    }

    #[test]
    fn a_merge_deals_the_seeds_of_the_smallest_step_out() {
        let mut table = table([[2, 1, 3], [4, 2, 2], [3, 2, 3]]);
        table.merge();
        assert_eq!(table.kept, [0, 2]);
        let lengths: Vec<Vec<usize>> = (table.seeds.iter())
            .map(|row| table.kept.iter().map(|t| row[*t as usize].len()).collect())
            .collect();
        assert_eq!(lengths, [[3, 3], [5, 3], [4, 4]]);
    }

    #[test]
    fn of_equal_steps_the_last_one_is_merged() {
        let owner = vec![0, 0, 0, 0, 1, 1, 1, 1];
        let partition = Partition::new(2, owner).unwrap();
        let seeds = [1, 6, 0, 7];
        let sets = |rank, merges| SetSeeds::of(&seeds, &partition, rank, merges);
        assert_eq!(sets(0, 0).sets(), [vec![1], vec![0]]);
        assert_eq!(sets(1, 0).sets(), [vec![7], vec![6]]);
        assert_eq!(sets(0, 0).distance(0), Some(1));
        assert_eq!(sets(0, 0).distance(1), None);
        assert_eq!(sets(0, 1).sets(), [vec![1, 6]]);
        assert_eq!(sets(1, 1).sets(), [vec![7, 0]]);
    }

    #[test]
    fn every_seed_is_in_one_set_of_one_rank() {
        for ranks in 1..7u32 {
            let owner: Vec<u32> = (0..97).map(|v| v * v % ranks).collect();
            let partition = Partition::new(ranks, owner).unwrap();
            let seeds: Vec<u32> = (0..97).filter(|v| v % 3 != 1).collect();
            for merges in 0..ranks {
                let of_rank = |rank| SetSeeds::of(&seeds, &partition, rank, merges);
                let ranks: Vec<SetSeeds> = (0..ranks).map(of_rank).collect();
                let mut all: Vec<u32> = (ranks.iter())
                    .flat_map(|one| one.sets().iter().flatten().copied())
                    .collect();
                all.sort_unstable();
                assert_eq!(all, seeds);
                assert!(ranks.iter().all(|one| one.kept == ranks[0].kept));
                if merges == 0 {
                    let home = |(rank, one): (u32, &SetSeeds)| {
                        let mut seeds = one.sets().iter().flatten();
                        seeds.all(|seed| partition.owner()[*seed as usize] == rank)
                    };
                    assert!((0..).zip(&ranks).all(home));
                }
            }
        }
    }

    /// The blocks of each set, drawn on the graph of eight vertices in step 1.
    fn drawn(sets: &[Vec<u32>]) -> Vec<Blocks> {
        let topology = g8().topology;
        let rule = Rule::new(Kind::Neighbor, vec![Fanout::Each(2); 2], 0).unwrap();
        let mut sampler = Sampler::new(&topology, &rule, 1).unwrap();
        let mut of_set = |seeds: &Vec<u32>| {
            let mut blocks = Blocks::default();
            sampler.sample(seeds, 1, &mut blocks).unwrap();
            blocks
        };
        sets.iter().map(&mut of_set).collect()
    }

    fn halves() -> Partition {
        Partition::new(2, vec![0, 0, 0, 0, 1, 1, 1, 1]).unwrap()
    }

    /// The rows that a rank fetches for its sets.
    fn remote(seeds: &[u32], rank: u32, merges: u32) -> u64 {
        let partition = halves();
        let sets = SetSeeds::of(seeds, &partition, rank, merges);
        let blocks = drawn(sets.sets());
        let mut gathered = Gathered::default();
        gathered.gather(blocks.iter(), 8);
        let mut sizes = BatchSizes::NONE;
        let elsewhere = |v: u32| partition.owner()[v as usize] != rank;
        gathered.count(elsewhere, None, &mut sizes);
        assert_eq!(sizes.of_sets[0], gathered.level(0).len() as u64);
        sizes.remote[0]
    }

    #[test]
    fn sets_of_the_graph_of_eight_vertices_fetch_these_rows() {
        // Models with seeds 1, 6 and 0, 7; each half of the vertices on a rank of its own.
        let seeds = [1, 6, 0, 7];
        let sets = SetSeeds::of(&seeds, &halves(), 1, 0);
        let blocks = drawn(sets.sets());
        assert_eq!(blocks[0].level(0), [7, 5, 6, 3, 4]);
        assert_eq!(blocks[1].level(0), [6, 4, 7, 3, 5]);
        let mut gathered = Gathered::default();
        for _ in 0..2 {
            gathered.gather(blocks.iter(), 8);
            assert_eq!(gathered.level(2), [7, 6]);
            assert_eq!(gathered.level(1), [7, 6, 5, 4]);
            assert_eq!(gathered.level(0), [7, 6, 5, 4, 3]);
            assert_eq!(gathered.places(1), [1, 3, 0, 4, 2]);
        }
        // Both sets need row 3, which is fetched once.
        assert_eq!([remote(&seeds, 0, 0), remote(&seeds, 1, 0)], [0, 1]);
        // With one visit a model, each rank fetches half of the graph.
        assert_eq!([remote(&seeds, 0, 1), remote(&seeds, 1, 1)], [4, 4]);
    }

    #[test]
    fn sets_have_the_vertices_of_all_their_seeds() {
        for seeds in [vec![], vec![3], vec![5, 0, 2], (0..8).collect::<Vec<u32>>()] {
            let (left, right) = seeds.split_at(seeds.len() / 2);
            let sets = [left.to_vec(), right.to_vec()];
            let mut gathered = Gathered::default();
            gathered.gather(drawn(&sets).iter(), 8);
            let whole = drawn(std::slice::from_ref(&seeds));
            for level in 0..=2 {
                let sorted = |ids: &[u32]| {
                    let mut ids = ids.to_vec();
                    ids.sort_unstable();
                    ids
                };
                assert_eq!(sorted(gathered.level(level)), sorted(whole[0].level(level)));
            }
        }
    }
}
