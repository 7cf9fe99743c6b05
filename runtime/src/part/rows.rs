//! The rows of a part that an instruction runs over: those of a chunk, or all.

use super::{Part, index, sliced};
use gnnc_graph::Csr;
use gnnc_ir::program::Extent;
use std::ops::Range;

impl Part {
    /// The own rows of a chunk, or all.
    pub(crate) fn own(&self, chunk: Option<u32>) -> Range<usize> {
        within(&self.chunks.own, chunk)
    }

    /// The rows of an extent that belong to a chunk, own ones first, or all; rows that belong to no vertex
    /// of the part belong to every chunk. None if they are rows of arcs or non-zeros that the part lacks.
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
                ranges.extend(self.halo(chunk, 0).map(|(_, rows)| wide(rows)));
            }
            Extent::Halo => {
                let behind = |rows: Range<usize>| rows.start - self.inner..rows.end - self.inner;
                ranges.extend(self.halo(chunk, 0).map(|(_, rows)| wide(behind(rows))));
            }
            Extent::Edges(set) => {
                let arcs = self.arcs[index(set)].as_ref()?;
                ranges.push(entries(&arcs.by_destination.csr));
            }
            Extent::FeatureNonzeros => {
                let features = self.features[sliced(extent)].as_ref()?;
                ranges.push(entries(&features.by_row.csr));
            }
            Extent::Fixed(_) | Extent::All | Extent::AllEdges(_) | Extent::SliceNonzeros => {
                ranges.push(0..self.sizes.rows(extent));
            }
        }
        Some(())
    }

    /// The own rows of a chunk, or all, that each rank reads that reads some, from rank `first` on and then
    /// those before it: so that not all begin with rank 0.
    pub(crate) fn sent(
        &self,
        chunk: Option<u32>,
        first: u32,
    ) -> impl Iterator<Item = (u32, &[u32])> {
        let rows = move |i: usize| {
            let (other, rows) = &self.send[i];
            (*other, &rows[within(&self.chunks.send[i], chunk)])
        };
        let peers = from(first, &self.send).map(rows);
        peers.filter(|(_, rows)| !rows.is_empty())
    }

    /// The halo rows of a chunk, or all, of each rank that owns some, in the same order.
    pub(crate) fn halo(
        &self,
        chunk: Option<u32>,
        first: u32,
    ) -> impl Iterator<Item = (u32, Range<usize>)> + use<'_> {
        let rows = move |i: usize| (self.halo_of[i].0, within(&self.chunks.halo[i], chunk));
        let owners = from(first, &self.halo_of).map(rows);
        owners.filter(|(_, rows)| !rows.is_empty())
    }
}

fn wide(rows: Range<usize>) -> Range<u64> {
    rows.start as u64..rows.end as u64
}

/// What lies between the bounds of a chunk, or all of them.
fn within(bounds: &[usize], chunk: Option<u32>) -> Range<usize> {
    let bound = |n: usize| bounds.get(n).or(bounds.last()).copied().unwrap_or(0);
    match chunk {
        None => bound(0)..bound(bounds.len()),
        Some(chunk) => bound(chunk as usize)..bound(chunk as usize + 1),
    }
}

/// Places in a list by ranks, from a rank on and then those before it.
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
