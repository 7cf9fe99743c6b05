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

/// What a batch of pairs differs in: plain edges that it lacks, as (source, destination), and ends of pairs.
pub struct OfPairs<'a> {
    /// The edges that each hop runs over.
    pub edges: Vec<&'a Topology>,
    /// Whether a hop runs over plain edges.
    pub plain: Vec<bool>,
    pub lacks: Vec<(u32, u32)>,
    /// The source that replaces that of the only edge into a vertex, by hop from 0.
    pub end: &'a dyn Fn(usize, u32) -> Option<u32>,
}

/// The ends of a pair without a link that is drawn among `vertices`: both, or the second one.
pub fn negative(
    linked: &dyn Fn(u32, u32) -> bool,
    (vertices, ordered): (u32, bool),
    kept_source: Option<u32>,
    (seed, step): (u64, u32),
    pair: u32,
) -> (u32, u32) {
    let row = vertex_hash(mask_key(seed, step, 0xc000_0000, 0), pair);
    let draw = |n: u32| {
        let bits = u64::from(mix32(row ^ n.wrapping_mul(0x9e37_79b9)));
        ((bits * u64::from(vertices)) >> 32) as u32
    };
    let tries = (0..8).map(|a| {
        let ends = (kept_source.unwrap_or(draw(2 * a)), draw(2 * a + 1));
        match kept_source {
            None if ordered => (ends.0.min(ends.1), ends.0.max(ends.1)),
            _ => ends,
        }
    });
    let tries: Vec<(u32, u32)> = tries.collect();
    let free = |ends: &&(u32, u32)| ends.0 != ends.1 && !linked(ends.0, ends.1);
    *tries.iter().find(free).unwrap_or(&tries[7])
}

/// Positions of the kept edges into `v`; `fanouts` by type, or one.
fn kept(
    topology: &Topology,
    lacks: &[(u32, u32)],
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
        let of_type = |p: &u32| {
            let is_there = !lacks.contains(&(sources[*p as usize], v));
            is_there && (types.is_empty() || types[*p as usize] as usize == kind)
        };
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
    let whole = OfPairs {
        edges: vec![topology; fanouts.len()],
        plain: vec![true; fanouts.len()],
        lacks: Vec::new(),
        end: &|_, _| None,
    };
    blocks_of_pairs(&whole, way, fanouts, seed, step, seeds)
}

/// The same for a batch of pairs.
pub fn blocks_of_pairs(
    of: &OfPairs,
    way: Way,
    fanouts: &[Vec<u32>],
    seed: u64,
    step: u32,
    seeds: &[u32],
) -> (Vec<u32>, Vec<usize>, Vec<Block>) {
    let (mut ids, mut sizes, mut blocks) = (seeds.to_vec(), vec![seeds.len()], Vec::new());
    for (hop, fanouts) in (1..).zip(fanouts) {
        let number = hop as usize - 1;
        let topology = of.edges[number];
        let lacks = if of.plain[number] { &of.lacks[..] } else { &[] };
        let mut block = Block {
            offsets: vec![0],
            ..Block::default()
        };
        for v in ids.clone() {
            for p in kept(topology, lacks, way, fanouts, seed, (step, hop), v) {
                let drawn = (of.end)(number, v);
                let u = drawn.unwrap_or(topology.in_neighbours(v)[p as usize]);
                let place = ids.iter().position(|id| *id == u).unwrap_or_else(|| {
                    ids.push(u);
                    ids.len() - 1
                });
                block.ends.push(place as u32);
                block.positions.push(p);
            }
            block.offsets.push(block.ends.len() as u64);
            let there = topology.in_neighbours(v).iter();
            let there = there.filter(|u| !lacks.contains(&(**u, v))).count();
            block.degrees.push(there as u32);
        }
        sizes.push(ids.len());
        blocks.push(block);
    }
    (ids, sizes, blocks)
}
