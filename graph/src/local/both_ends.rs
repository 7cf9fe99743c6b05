//! Parts that have the edges into their vertices and those out of them.

use super::sums::Sums;
use crate::Topology;
use crate::partition::Partition;
use gnnc_ir::workload::TargetLoads;

/// The ends of all edges between parts, if each part has the edges into its vertices and those out of them.
pub(super) struct BothEnds {
    /// `[j][i]`: vertices of part `i` at which edges from part `j` end, ascending.
    targets: Vec<Vec<Vec<u32>>>,
}

impl BothEnds {
    pub(super) fn of(topology: &Topology, owner: &[u32], parts: u32) -> Self {
        let parts = parts as usize;
        let mut targets = vec![vec![Vec::new(); parts]; parts];
        for (v, &own) in (0u32..).zip(owner) {
            for &u in topology.in_neighbours(v) {
                let of_source: &mut Vec<u32> =
                    &mut targets[owner[u as usize] as usize][own as usize];
                if owner[u as usize] != own && of_source.last() != Some(&v) {
                    of_source.push(v);
                }
            }
        }
        Self { targets }
    }

    /// The targets of a part's edges, and its vertices that are targets of others, given the inner row of each vertex.
    pub(super) fn of_part(&self, rank: u32, inner_row: &[u32]) -> Sums {
        let own = rank as usize;
        let of_others = (0u32..)
            .zip(&self.targets)
            .filter(|(from, _)| *from != rank);
        let open = of_others.map(|(from, into)| {
            let rows = into[own].iter().map(|v| inner_row[*v as usize]);
            (from, rows.collect::<Vec<u32>>())
        });
        Sums {
            has_targets: true,
            ghosts: self.targets[own].concat(),
            open: open.filter(|(_, rows)| !rows.is_empty()).collect(),
            elsewhere: Vec::new(),
        }
    }
}

/// What the parts of a partition send and have.
pub(crate) fn loads(topology: &Topology, partition: &Partition) -> TargetLoads {
    let owner = partition.owner();
    let parts = partition.parts() as usize;
    let mut loads = TargetLoads::none(parts);
    let targets = BothEnds::of(topology, owner, partition.parts()).targets;
    for (from, into) in targets.iter().enumerate() {
        for (own, vertices) in into.iter().enumerate() {
            loads.targets[own][from] = vertices.len() as u64;
        }
    }
    // For each part, the last of its vertices that was found to read each vertex.
    let mut read_by = vec![u32::MAX; owner.len()];
    for (part, members) in (0u32..).zip(partition.members()) {
        for v in members {
            let sources = topology.in_neighbours(v);
            loads.edges[part as usize] += sources.len() as u64;
            for &u in sources.iter().filter(|u| owner[**u as usize] != part) {
                let other = owner[u as usize] as usize;
                loads.halo_edges[part as usize] += 1;
                loads.edges[other] += 1;
                if std::mem::replace(&mut read_by[u as usize], part) != part {
                    loads.messages[other][part as usize] += 1;
                }
            }
        }
    }
    loads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::{Hash, Partitioner};
    use crate::{LocalPart, RowOrder};
    use gnnc_ir::EdgeSet;
    use gnnc_ir::program::Halo;

    /// A directed graph: vertex `v` has edges from `v / 2`, `3 v + 1` and `v v`, modulo its 40 vertices.
    #[test]
    fn parts_have_all_edges_of_their_vertices_as_counted() {
        let sources = |v: u32| [v / 2, (3 * v + 1) % 40, v * v % 40];
        let edges = (0..40).flat_map(|v| sources(v).map(|u| (u, v)));
        let (topology, _) = Topology::from_edges(40, edges).unwrap();
        let partition = Hash.partition((&topology).into(), 3).unwrap();
        let order = RowOrder::Canonical;
        let parts = LocalPart::build(&topology, &partition, Halo::BothEnds, order).unwrap();
        let loads = loads(&topology, &partition);
        for part in &parts {
            let rank = part.rank as usize;
            let of_rank = |rows: &[Vec<u64>]| rows.iter().map(|row| row[rank]).sum::<u64>();
            let ghosts: usize = part.ghosts_of.iter().map(|(_, rows)| rows.len()).sum();
            assert_eq!(ghosts as u64, of_rank(&loads.targets));
            assert_eq!((part.halo() - ghosts) as u64, of_rank(&loads.messages));
            assert_eq!(part.edges_of(EdgeSet::Plain), loads.edges[rank]);
            assert_eq!(part.reach().halo_edges, loads.halo_edges[rank]);
            let local = part.edges(EdgeSet::Plain);
            for row in 0..part.inner {
                let u = part.global[row];
                let ends = local.out_csr.row(row).iter();
                let found: Vec<u32> = ends.map(|v| part.global[*v as usize]).collect();
                let all = (0..40).filter(|v| topology.in_neighbours(*v).contains(&u));
                assert_eq!(found, Vec::from_iter(all), "out of {u}");
                // The same edges, as the other list has them.
                let first = local.out_csr.indptr[row] as usize;
                for (n, v) in local.out_csr.row(row).iter().enumerate() {
                    let place = local.positions[first + n] as usize;
                    assert_eq!(local.destinations[place], *v);
                    assert_eq!(local.in_csr.indices[place] as usize, row);
                }
            }
        }
    }
}
