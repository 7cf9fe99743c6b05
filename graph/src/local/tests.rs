//! Tests of parts.

use super::build::{MANY, skewed};
use super::*;
use crate::example;
use crate::partition::{Partitioner, Range as ByRange};
use crate::replication::replication;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn the_halves_of_g8() {
    let g8 = example::g8().topology;
    let parts = LocalPart::build_all(&g8, &ByRange.partition((&g8).into(), 2).unwrap()).unwrap();
    let [left, right] = &parts[..] else { panic!() };
    assert_eq!(left.global, [0, 1, 2, 3, 4, 5]);
    // The interior comes first.
    assert_eq!(right.global, [6, 7, 4, 5, 3]);
    assert_eq!(
        (&left.halo_of[..], &right.halo_of[..]),
        (&[(1, 4..6)][..], &[(0, 4..5)][..])
    );
    assert_eq!(left.send, [(1, vec![3])]);
    assert_eq!(right.send, [(0, vec![2, 3])]);
    let reach = |interior, interior_edges| Reach {
        interior,
        interior_edges,
        halo_edges: 2,
    };
    assert_eq!((left.reach(), right.reach()), (reach(3, 7), reach(2, 4)));
    assert_eq!(right.in_degrees(EdgeSet::Plain), [2, 2, 3, 3, 3]);
    assert_eq!(right.out_degrees(EdgeSet::Looped), [3, 3, 4, 4, 4]);

    let plain = right.edges(EdgeSet::Plain);
    assert_eq!(plain.in_csr.row(2), [4, 3, 0]); // 3, 5, 6
    let looped = right.edges(EdgeSet::Looped);
    assert_eq!(looped.in_csr.row(2), [4, 2, 3, 0]); // 3, 4, 5, 6
    assert_eq!(looped.out_csr.row(4), [2, 3]); // 3 -> 4, 5
    assert_eq!(looped.destinations[..5], [0, 0, 0, 1, 1]);
}

#[test]
fn hubs_of_a_large_graph_come_first() {
    let vertices = MANY as u32;
    let star = (1..vertices).flat_map(|v| [(v, 7), (v - 1, v)]);
    let (topology, _) = Topology::from_edges(vertices, star).unwrap();
    let parts = LocalPart::build_all(
        &topology,
        &ByRange.partition((&topology).into(), 2).unwrap(),
    )
    .unwrap();
    // After the interior.
    let hub = parts[0].reach().interior as usize;
    assert_eq!(parts[0].global[hub], 7);
    let sources =
        |row: &[u32]| -> Vec<u32> { row.iter().map(|&u| parts[0].global[u as usize]).collect() };
    let edges = parts[0].edges(EdgeSet::Looped);
    assert_eq!(
        sources(edges.in_csr.row(hub)),
        (1..vertices).collect::<Vec<_>>()
    );
    assert!(!skewed(&[3; MANY]) && !skewed(&[0, 0, 900]));
}

#[test]
fn edges_of_the_whole_graph_are_in_order_of_ids() {
    let vertices = MANY as u32;
    let star = (1..vertices).flat_map(|v| [(v, 7), (v - 1, v)]);
    let (topology, _) = Topology::from_edges(vertices, star).unwrap();
    let plain = LocalEdges::whole(&topology, EdgeSet::Plain).unwrap();
    assert_eq!(plain.in_csr.indptr, topology.indptr());
    assert_eq!(plain.in_csr.indices, topology.indices());
    assert_eq!(plain.out_csr.row(3), [4, 7]);
    let looped = LocalEdges::whole(&topology, EdgeSet::Looped).unwrap();
    for v in [0, 6, 7, 8, vertices - 1] {
        let mut want = topology.in_neighbours(v).to_vec();
        want.push(v);
        want.sort_unstable();
        assert_eq!(looped.in_csr.row(v as usize), want);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// With ghosts, every edge is in one part, and the two ends of a sum list the same vertices.
    #[test]
    fn covers_compute_each_edge_once(
        edges in prop::collection::vec((0u32..30, 0u32..30), 0..200),
        owner in prop::collection::vec(0u32..5, 30),
    ) {
        let (topology, _) = Topology::from_edges(30, edges).unwrap();
        let partition = Partition::new(5, owner).unwrap();
        let parts = LocalPart::build(&topology, &partition, Halo::Cover, RowOrder::ByDegree).unwrap();
        let mut found = Vec::new();
        let mut sent = 0;
        for part in &parts {
            let local = part.edges(EdgeSet::Plain);
            prop_assert_eq!(local.in_csr.rows(), part.rows());
            for v in 0..local.in_csr.rows() {
                found.extend(local.in_csr.row(v).iter().map(|&u| (part.global[u as usize], part.global[v])));
            }
            let loops = part.edges(EdgeSet::Looped).in_csr;
            prop_assert_eq!(loops.indices.len(), local.in_csr.indices.len() + part.inner);
            sent += part.halo();
            for (to, ghosts) in &part.ghosts_of {
                let other = &parts[*to as usize];
                let (_, rows) = other.open.iter().find(|(from, _)| *from == part.rank).unwrap();
                let open: Vec<u32> = rows.iter().map(|row| other.global[*row as usize]).collect();
                prop_assert_eq!(&part.global[ghosts.clone()], &open[..]);
                prop_assert!(open.is_sorted());
            }
            let ghosts: usize = part.ghosts_of.iter().map(|(_, rows)| rows.len()).sum();
            let halo: usize = part.halo_of.iter().map(|(_, rows)| rows.len()).sum();
            prop_assert_eq!(halo + ghosts, part.halo());
        }
        found.sort_unstable();
        let mut want: Vec<(u32, u32)> = Vec::new();
        for v in 0..30 {
            want.extend(topology.in_neighbours(v).iter().map(|&u| (u, v)));
        }
        want.sort_unstable();
        prop_assert_eq!(found, want);
        let counted = crate::cover::exchanges(&topology, &partition, 1).unwrap();
        prop_assert_eq!(sent as u64, counted.cover);
    }

    #[test]
    fn parts_fit_together(
        edges in prop::collection::vec((0u32..30, 0u32..30), 0..150),
        owner in prop::collection::vec(0u32..5, 30),
    ) {
        let (topology, _) = Topology::from_edges(30, edges).unwrap();
        let partition = Partition::new(5, owner).unwrap();
        let parts = LocalPart::build_all(&topology, &partition).unwrap();
        let boundary = replication(&topology, &partition).unwrap().boundary;
        let mut seen = BTreeSet::new();
        for part in &parts {
            let mut halo = part.global[part.inner..].to_vec();
            halo.sort_unstable();
            prop_assert_eq!(&halo, &boundary[part.rank as usize]);
            prop_assert!(part.halo_of.is_sorted_by(|a, b| a.0 < b.0));
            prop_assert!(part.send.is_sorted_by(|a, b| a.0 < b.0));
            for other in &parts {
                let of_other = part.halo_of.iter().find(|(rank, _)| *rank == other.rank);
                let received = of_other.map_or(&[][..], |(_, rows)| &part.global[rows.clone()]);
                let to_part = other.send.iter().find(|(rank, _)| *rank == part.rank);
                let sent = to_part.map_or(&[][..], |(_, rows)| rows);
                prop_assert_eq!(to_part.is_some(), !sent.is_empty());
                let sent: Vec<u32> = sent.iter().map(|&row| other.global[row as usize]).collect();
                prop_assert_eq!(received, &sent[..]);
                prop_assert!(received.is_sorted());
            }
            for set in [EdgeSet::Plain, EdgeSet::Looped] {
                let edges = part.edges(set);
                prop_assert_eq!(edges.out_csr.rows(), part.rows());
                for v in 0..part.inner {
                    let sources: Vec<u32> =
                        edges.in_csr.row(v).iter().map(|&u| part.global[u as usize]).collect();
                    let mut want = topology.in_neighbours(part.global[v]).to_vec();
                    if set == EdgeSet::Looped {
                        want.push(part.global[v]);
                        want.sort_unstable();
                    } else {
                        seen.extend(want.iter().map(|&u| (u, part.global[v])));
                    }
                    prop_assert_eq!(part.in_degrees(set)[v] as usize, want.len());
                    prop_assert_eq!(sources, want);
                }
                for u in 0..part.rows() {
                    prop_assert!(edges.out_csr.row(u).is_sorted());
                    for p in edges.out_csr.indptr[u]..edges.out_csr.indptr[u + 1] {
                        let position = edges.positions[p as usize] as usize;
                        prop_assert_eq!(edges.in_csr.indices[position] as usize, u);
                        prop_assert_eq!(edges.destinations[position], edges.out_csr.indices[p as usize]);
                    }
                }
            }
        }
        prop_assert_eq!(seen.len() as u64, topology.edges());
        let out: Vec<u32> = topology.out_degrees();
        for part in &parts {
            for (row, &v) in part.global.iter().enumerate() {
                prop_assert_eq!(part.out_degrees(EdgeSet::Plain)[row], out[v as usize]);
            }
        }
    }
}
