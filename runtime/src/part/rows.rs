//! The rows of a part that an instruction runs over: those of a chunk, or all.

use super::lists::{List, Over, Table};
use super::{Part, sliced};
use crate::chunks::Set;
use gnnc_graph::Csr;
use gnnc_ir::kernel::{End, Walk};
use gnnc_ir::program::instr;
use gnnc_ir::program::{Chunk, Even, Extent, Grouped, Instr, Moved, Program};
use std::ops::Range;

/// The rows that an exchange moves.
#[derive(Clone, Copy)]
pub(crate) struct Exchanged {
    /// Those of the rank, or of its group on the ranks with the same slice.
    pub(crate) of: Over,
    /// Sources of edges, or targets.
    pub(crate) end: End,
}

/// The rank's rows.
impl From<End> for Exchanged {
    fn from(end: End) -> Self {
        let of = Over::Own;
        Self { of, end }
    }
}

/// Own rows that another rank reads.
pub(crate) struct Sent<'a> {
    /// The rank that reads them.
    pub(crate) to: u32,
    pub(crate) rows: &'a [u32],
    /// The list they belong to, and their first position in it.
    pub(crate) list: List,
    pub(crate) first: usize,
}

impl Part {
    /// The chunk bounds of all rows that a program's instructions run over in chunks.
    pub(super) fn cuts(&self, program: &Program) -> Vec<(Even, u32, Vec<u64>)> {
        let mut found: Vec<(Even, u32, Vec<u64>)> = Vec::new();
        let mut chunks = Vec::new();
        for instrs in [&program.setup, &program.step, &program.eval] {
            chunks_of(instrs, &mut chunks);
        }
        for chunk in chunks {
            let Some(even) = chunk.even else { continue };
            if found.iter().any(|(e, of, _)| (*e, *of) == (even, chunk.of)) {
                continue;
            }
            let first = match even.edges {
                None => Some(&[][..]),
                Some(_) => self.first_edges(even),
            };
            if let Some(first) = first {
                let bounds = even.bounds(chunk.of, &self.sizes, first);
                found.push((even, chunk.of, bounds));
            }
        }
        found
    }

    /// The first edge of each row that is cut.
    fn first_edges(&self, even: Even) -> Option<&[u64]> {
        let Grouped { set, by } = even.edges?;
        let table = Table::edges(even.rows.extent(), set, Walk::by(by))?;
        let (walkable, _) = self.table(table)?;
        Some(&walkable.csr.indptr)
    }

    /// The rows of a chunk; `None` if no instruction runs over this chunk.
    pub(crate) fn rows_of_chunk(&self, chunk: Chunk) -> Option<Range<u64>> {
        let even = chunk.even?;
        let cut = self.cuts.iter();
        let (_, _, bounds) = cut
            .clone()
            .find(|(e, of, _)| (*e, *of) == (even, chunk.of))?;
        let bound = |n: u32| bounds.get(n as usize).copied();
        Some(bound(chunk.index)?..bound(chunk.index + 1)?)
    }

    /// The edges of the rows of a chunk.
    pub(crate) fn edges_of_chunk(&self, chunk: Chunk) -> Option<Range<u64>> {
        let rows = self.rows_of_chunk(chunk)?;
        let first = self.first_edges(chunk.even?)?;
        let edge = |row: u64| first.get(row as usize).copied();
        Some(edge(rows.start)?..edge(rows.end)?)
    }

    /// The own rows of a chunk, or all.
    pub(crate) fn own(&self, chunk: Option<u32>) -> Range<usize> {
        within(&self.chunks.own, chunk)
    }

    /// The rows of an extent that belong to a chunk, own rows first, or all rows. Rows that belong
    /// to no vertex of the part belong to every chunk. `None` if these are rows of edges or
    /// nonzeros the part lacks.
    pub(crate) fn rows(
        &self,
        extent: Extent,
        chunk: Option<u32>,
        ranges: &mut Vec<Range<u64>>,
    ) -> Option<()> {
        ranges.clear();
        if chunk.is_none() {
            ranges.push(0..self.sizes.rows(extent));
            return Some(());
        }
        let own = self.own(chunk);
        let entries = |csr: &Csr| csr.indptr[own.start]..csr.indptr[own.end];
        match extent {
            Extent::Inner => ranges.push(wide(own)),
            Extent::Local => {
                ranges.push(wide(own));
                ranges.extend(
                    self.halo(End::Src.into(), chunk, 0)
                        .map(|(_, rows)| wide(rows)),
                );
            }
            Extent::Halo => {
                let behind = |rows: Range<usize>| rows.start - self.inner..rows.end - self.inner;
                ranges.extend(
                    self.halo(End::Src.into(), chunk, 0)
                        .map(|(_, rows)| wide(behind(rows))),
                );
            }
            Extent::Edges(set) => {
                let edges = self.edges.of(set).as_ref()?;
                ranges.push(entries(&edges.by_destination.csr));
            }
            Extent::FeatureNonzeros => {
                let features = self.features[sliced(extent)].as_ref()?;
                ranges.push(entries(&features.by_row.csr));
            }
            Extent::Fixed(_)
            | Extent::All
            | Extent::AllLocal
            | Extent::AllEdges(_)
            | Extent::SliceNonzeros
            | Extent::Run(..)
            | Extent::EdgeRun(..)
            | Extent::Level(_)
            | Extent::LevelEdges(..) => {
                ranges.push(0..self.sizes.rows(extent));
            }
        }
        Some(())
    }

    /// The own rows, of a chunk or all, for each rank (or group) that has any in its halo: as sources of edges, or as
    /// targets. Starts with rank `first` and wraps around, so that not everyone begins with rank 0.
    pub(crate) fn sent(
        &self,
        exchanged: Exchanged,
        chunk: Option<u32>,
        first: u32,
    ) -> impl Iterator<Item = Sent<'_>> + use<'_> {
        let Exchanged { of, end } = exchanged;
        let all = match (of, end) {
            (Over::All, _) => &self.whole.send,
            (_, End::Src) => &self.send,
            (_, End::Dst) => &self.open,
        };
        let rows = move |i: usize| {
            let (to, rows) = &all[i];
            let places = match (of, end) {
                (Over::Own, End::Src) => within(&self.chunks.send[i], chunk),
                _ => 0..rows.len(),
            };
            let list = match end {
                End::Src => List::Sent(of, i as u32),
                End::Dst => List::Open(i as u32),
            };
            Sent {
                to: *to,
                list,
                first: places.start,
                rows: &rows[places],
            }
        };
        let peers = from(first, all).map(rows);
        peers.filter(|sent| !sent.rows.is_empty())
    }

    /// The rows a redistribution moves: for each rank, the numbers of its rows among those of all.
    pub(crate) fn moved(&self, moved: Moved) -> &[Vec<u32>] {
        if let Moved::Level(level) = moved {
            return (self.batches.at_hand()).map_or(&[], |batch| batch.rows_of(level));
        }
        let set = Set::of(moved).and_then(|set| self.whole.chunks.set(set));
        set.map_or(&self.whole.owned, |set| &set.ids)
    }

    /// The halo rows, of a chunk or all, for each rank (or group) that owns any, in the same order.
    pub(crate) fn halo(
        &self,
        exchanged: Exchanged,
        chunk: Option<u32>,
        first: u32,
    ) -> impl Iterator<Item = (u32, Range<usize>)> + use<'_> {
        let Exchanged { of, end } = exchanged;
        let all = match (of, end) {
            (Over::All, _) => &self.whole.halo_of,
            (_, End::Src) => &self.halo_of,
            (_, End::Dst) => &self.ghosts_of,
        };
        let rows = move |i: usize| {
            let (owner, rows) = &all[i];
            let rows = match (of, end) {
                (Over::Own, End::Src) => within(&self.chunks.halo[i], chunk),
                _ => rows.clone(),
            };
            (*owner, rows)
        };
        let owners = from(first, all).map(rows);
        owners.filter(|(_, rows)| !rows.is_empty())
    }
}

/// The chunks that instructions run over, including those in loops.
fn chunks_of(instrs: &[Instr], found: &mut Vec<Chunk>) {
    for instr in instrs {
        if let Instr::Repeat(instr::Repeat { body, .. }) = instr {
            chunks_of(body, found);
        }
        found.extend(instr.chunk().filter(|chunk| !found.contains(chunk)));
    }
}

fn wide(rows: Range<usize>) -> Range<u64> {
    rows.start as u64..rows.end as u64
}

/// The range between the bounds of a chunk, or between the outermost bounds.
fn within(bounds: &[usize], chunk: Option<u32>) -> Range<usize> {
    let bound = |n: usize| bounds.get(n).or(bounds.last()).copied().unwrap_or(0);
    match chunk {
        None => bound(0)..bound(bounds.len()),
        Some(chunk) => bound(chunk as usize)..bound(chunk as usize + 1),
    }
}

/// Indices into a list sorted by rank: from a rank on, then those before it.
fn from<T>(first: u32, peers: &[(u32, T)]) -> impl Iterator<Item = usize> + use<T> {
    let split = peers.partition_point(|(other, _)| *other < first);
    (split..peers.len()).chain(0..split)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_begin_with_the_next_rank() {
        let peers = [(0, 'a'), (2, 'b'), (5, 'c')];
        let order = |rank| from(rank, &peers).map(|i| peers[i].0).collect::<Vec<u32>>();
        assert_eq!(order(1), [2, 5, 0]);
        assert_eq!(order(6), [0, 2, 5]);
        assert_eq!(order(0), [0, 2, 5]);
    }

    #[test]
    fn chunks_lie_between_bounds() {
        assert_eq!(within(&[3, 3, 7], None), 3..7);
        assert_eq!(within(&[3, 3, 7], Some(0)), 3..3);
        assert_eq!(within(&[3, 3, 7], Some(1)), 3..7);
        assert_eq!(within(&[3, 3, 7], Some(2)), 7..7);
        assert_eq!(within(&[], Some(2)), 0..0);
    }
}
