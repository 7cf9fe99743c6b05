//! Parts of a batch that ranks drew, side by side.

use crate::oracle::{Numbers, random_graph};
use crate::{rule, sampled};
use gnnc_graph::Topology;
use gnnc_graph::example::g8;
use gnnc_graph::rng::Stream;
use gnnc_graph::sample::{
    AllBlocks, Blocks, HopEdges, Kind, LeftOut, message_length, write_message,
};
use gnnc_ir::EdgeSet;

fn message(blocks: &Blocks, top: u8, typed: bool) -> Vec<u32> {
    let mut words = vec![0; message_length(blocks, top, typed)];
    write_message(blocks, top, typed, &mut words);
    words
}

/// The messages of some ranks side by side; `None` if one is malformed.
fn merged(messages: &[Vec<u32>], top: u8, topology: &Topology) -> Option<AllBlocks> {
    let mut all = AllBlocks::default();
    for (rank, words) in (0..).zip(messages) {
        let room = all.message(rank, messages.len() as u32, words.len());
        room.copy_from_slice(words);
    }
    let (edges, plain) = (HopEdges::plain(topology), |_| EdgeSet::Plain);
    all.merge(
        top,
        topology.relations() > 0,
        &edges,
        &plain,
        &LeftOut::default(),
    )
    .then_some(all)
}

/// Eight vertices on two ranks, with the seeds 0 and 7: 14 numbers from each rank to the other.
#[test]
fn two_ranks_of_eight_vertices() {
    let topology = g8().topology;
    let rule = rule(Kind::Neighbor, &[2, 2], 0);
    let parts = [0, 7].map(|seed| sampled(&topology, &rule, &[seed], 0));
    let messages = parts.map(|blocks| message(&blocks, 1, false));
    assert_eq!(messages[0], [3, 2, 4, 6, 1, 2, 0, 2, 1, 3, 0, 1, 2, 3]);
    assert_eq!(messages.each_ref().map(Vec::len), [14, 14]);
    let all = merged(&messages, 1, &topology).unwrap();
    let blocks = all.blocks();
    assert_eq!(blocks.level(1), [0, 1, 2, 7, 5, 6]);
    assert_eq!(blocks.level(0), [0, 1, 2, 7, 5, 6, 3, 4]);
    assert_eq!(all.rows_by_rank(1), [vec![0, 1, 2], vec![3, 4, 5]]);
    assert_eq!(all.rows_by_rank(0), [vec![0, 1, 2, 6], vec![3, 4, 5, 7]]);
    let layer = blocks.layer(1);
    assert_eq!(layer.edges.indptr, [0, 2, 4, 6, 8, 10, 12]);
    let sources = layer
        .edges
        .indices
        .iter()
        .map(|row| blocks.level(0)[*row as usize]);
    let sources: Vec<u32> = sources.collect();
    assert_eq!(sources, [1, 2, 0, 2, 1, 3, 5, 6, 4, 7, 4, 7]);
}

/// For each row of a level: its vertex, then the vertices at the sources of its edges, with what they
/// count.
fn rows_of(blocks: &Blocks, layer: usize, row: usize) -> (u32, Vec<(u32, f32)>) {
    let (below, layer) = (blocks.level(layer - 1), blocks.layer(layer));
    let edges = layer.edges.indptr[row] as usize..layer.edges.indptr[row + 1] as usize;
    let scale = |at: usize| match layer.scales.len() == layer.degrees.len() {
        true => layer.scales[row],
        false => layer.scales[at],
    };
    let source = |at: usize| (below[layer.edges.indices[at] as usize], scale(at));
    (below[row], edges.map(source).collect())
}

#[test]
fn every_rank_finds_its_part_among_all() {
    for case in 0..300u64 {
        let numbers = &mut Numbers(Stream::new(case, 78), 0);
        let topology = random_graph(numbers);
        let typed = topology.relations() > 0;
        let hops = 1 + numbers.below(3) as usize;
        let fanouts: Vec<u32> = (0..hops).map(|_| numbers.below(4)).collect();
        let kind = [Kind::Neighbor, Kind::Labor][numbers.below(2) as usize];
        let rule = rule(kind, &fanouts, case);
        let ranks = 1 + numbers.below(4) as usize;
        let parts: Vec<Blocks> = (0..ranks)
            .map(|rank| {
                let mut seeds: Vec<u32> = (0..topology.vertices()).collect();
                seeds.retain(|_| numbers.below(4) as usize == rank);
                sampled(&topology, &rule, &seeds, 3)
            })
            .collect();
        let top = numbers.below(hops as u32 + 1) as u8;
        let messages: Vec<Vec<u32>> = parts.iter().map(|b| message(b, top, typed)).collect();
        let all = merged(&messages, top, &topology).unwrap();
        for level in 0..=top {
            let rows = all.rows_by_rank(level);
            let mut together: Vec<u32> = rows.iter().flatten().copied().collect();
            together.sort_unstable();
            let count = all.blocks().level(level.into()).len() as u32;
            assert_eq!(together, (0..count).collect::<Vec<_>>());
            for (rank, part) in parts.iter().enumerate() {
                let ids = rows[rank].iter();
                let ids: Vec<u32> = ids
                    .map(|row| all.blocks().level(level.into())[*row as usize])
                    .collect();
                assert_eq!(ids, part.level(level.into()));
                if level == 0 {
                    continue;
                }
                for (own, row) in rows[rank].iter().enumerate() {
                    let found = rows_of(all.blocks(), level.into(), *row as usize);
                    assert_eq!(found, rows_of(part, level.into(), own));
                }
            }
        }
    }
}

#[test]
fn malformed_messages_are_refused() {
    let (mut accepted, mut refused) = (0, 0);
    for case in 0..2_000u64 {
        let numbers = &mut Numbers(Stream::new(case, 79), 0);
        let topology = random_graph(numbers);
        let typed = topology.relations() > 0;
        let seeds: Vec<u32> = (0..topology.vertices().min(3)).collect();
        let blocks = sampled(&topology, &rule(Kind::Neighbor, &[2, 2], case), &seeds, 0);
        let good = message(&blocks, 2, typed);
        let mut bad = good.clone();
        let at = numbers.below(bad.len() as u32) as usize;
        match numbers.below(3) {
            0 => bad.truncate(at),
            1 => bad[at] = u32::MAX - numbers.below(2),
            _ => bad[at] = numbers.below(50),
        }
        match merged(&[good, bad], 2, &topology) {
            Some(_) => accepted += 1,
            None => refused += 1,
        }
    }
    // Some changes give another good message.
    assert!(accepted > 0 && refused > 1_000, "{accepted} {refused}");
}
