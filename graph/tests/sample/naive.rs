//! A naive sampler, written from the definition and sharing no code with the fast one.

use gnnc_graph::Topology;
use gnnc_ir::kernel::{mask_key, mix32, vertex_hash};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Neighbor,
    Labor,
    Full,
}

#[derive(Debug, Default, PartialEq)]
pub struct Block {
    pub offsets: Vec<u64>,
    pub ends: Vec<u32>,
    pub positions: Vec<u32>,
    pub degrees: Vec<u32>,
}

/// Positions of the kept edges into `v`; `fanouts` by type, or one.
fn kept(
    topology: &Topology,
    way: Way,
    fanouts: &[u32],
    seed: u64,
    at: (u32, u32),
    v: u32,
) -> Vec<u32> {
    let sources = topology.in_neighbours(v);
    let types = topology.types_into(v);
    let mut kept = Vec::new();
    for (kind, fanout) in fanouts.iter().enumerate() {
        let of_type = |p: &u32| types.is_empty() || types[*p as usize] as usize == kind;
        let edges: Vec<u32> = (0..sources.len() as u32).filter(of_type).collect();
        let (d, f) = (edges.len() as u64, u64::from(*fanout));
        let key = mask_key(seed, at.0, 0x8000_0000 | (kind as u32) << 8 | at.1, 0);
        if d <= f || way == Way::Full {
            kept.extend(edges);
        } else if way == Way::Labor {
            let mut ranked = edges.clone();
            ranked.sort_by_key(|p| {
                (
                    mix32(vertex_hash(key, sources[*p as usize])),
                    sources[*p as usize],
                )
            });
            kept.extend(&ranked[..f as usize]);
        } else {
            let mut taken: Vec<u64> = Vec::new();
            for j in 0..f {
                let top = d - f + j;
                let bits = mix32(vertex_hash(key, v) ^ (j as u32).wrapping_mul(0x9e37_79b9));
                let p = (u64::from(bits) * (top + 1)) >> 32;
                taken.push(if taken.contains(&p) { top } else { p });
            }
            kept.extend(taken.iter().map(|p| edges[*p as usize]));
        }
    }
    kept.sort_unstable();
    kept
}

/// The ids of all levels, the levels' sizes and the blocks, from the seeds outwards. `fanouts` has a
/// list by hop of fanouts by type.
pub fn blocks(
    topology: &Topology,
    way: Way,
    fanouts: &[Vec<u32>],
    seed: u64,
    step: u32,
    seeds: &[u32],
) -> (Vec<u32>, Vec<usize>, Vec<Block>) {
    let (mut ids, mut sizes, mut blocks) = (seeds.to_vec(), vec![seeds.len()], Vec::new());
    for (hop, fanouts) in (1..).zip(fanouts) {
        let mut block = Block {
            offsets: vec![0],
            ..Block::default()
        };
        for v in ids.clone() {
            for p in kept(topology, way, fanouts, seed, (step, hop), v) {
                let u = topology.in_neighbours(v)[p as usize];
                let place = ids.iter().position(|id| *id == u).unwrap_or_else(|| {
                    ids.push(u);
                    ids.len() - 1
                });
                block.ends.push(place as u32);
                block.positions.push(p);
            }
            block.offsets.push(block.ends.len() as u64);
            block.degrees.push(topology.in_neighbours(v).len() as u32);
        }
        sizes.push(ids.len());
        blocks.push(block);
    }
    (ids, sizes, blocks)
}
