//! How soon edges pick the same row again.
//!
//! A cache that keeps the rows used last has a row if fewer other rows were used since than it has room for. Counting
//! these for every edge is slow. The number of edges in between is easy to count, and how many rows so many edges use on
//! average follows from all of these numbers (Xiang, Ding, Luo and Bao, ASPLOS 2013, equation 5): of `n` stretches of `w`
//! edges, a row that is next used after `t` is missing in `t - w`.

use crate::Topology;

/// Most edges to look at; those of larger graphs after so many are left out.
const MOST_EDGES: usize = 1 << 24;
/// Classes of numbers of edges, for each power of two.
const FINE: u32 = 8;

/// Edges that pick a row again after about as many others.
#[derive(Clone, Copy, Default)]
struct Class {
    count: u64,
    /// The sum of these numbers.
    sum: u64,
    /// The largest of them.
    most: u64,
}

/// For each power of two up to the number of vertices, the share of the edges whose source is among so many sources used
/// last, if edges are walked by destination again and again. Empty without edges.
pub(crate) fn reuse(topology: &Topology) -> Vec<f64> {
    let sources = topology.indices();
    let sources = &sources[..sources.len().min(MOST_EDGES)];
    let count = sources.len() as u64;
    if count == 0 {
        return Vec::new();
    }
    // One plus the place of the last use; 0 is none. Those of the walk before come first.
    let mut last = vec![0u32; topology.vertices() as usize];
    for (place, source) in (1..).zip(sources) {
        last[*source as usize] = place;
    }
    let used = last.iter().filter(|place| **place > 0).count() as f64;
    let mut classes = vec![Class::default(); class_of(count) + 1];
    let mut before = std::mem::replace(&mut last, vec![0; topology.vertices() as usize]);
    for (place, source) in (1u32..).zip(sources) {
        let known = &mut before[*source as usize];
        let again = &mut last[*source as usize];
        let after = match *again {
            0 => u64::from(place) + count - u64::from(*known),
            earlier => u64::from(place - earlier),
        };
        *again = place;
        let class = &mut classes[class_of(after)];
        class.count += 1;
        class.sum += after;
        class.most = class.most.max(after);
    }
    curve(&classes, count, used, topology.vertices())
}

/// Classes grow by eighths of a power of two.
fn class_of(after: u64) -> usize {
    let power = after.max(1).ilog2();
    let eighth = match power.checked_sub(FINE.ilog2()) {
        Some(shift) => (after >> shift) - u64::from(FINE),
        None => (after << (FINE.ilog2() - power)) - u64::from(FINE),
    };
    (power * FINE) as usize + eighth as usize
}

/// A number of edges that are walked.
#[derive(Clone, Copy)]
struct Stretch {
    /// The rows that they use on average.
    rows: f64,
    /// The share of uses again after at most as many edges.
    again: f64,
}

/// The share of `count` uses of `used` rows that are among the last `2^n`.
fn curve(classes: &[Class], count: u64, used: f64, vertices: u32) -> Vec<f64> {
    let mut known = vec![Stretch {
        rows: 1.0,
        again: 0.0,
    }];
    let (mut later, mut sum): (u64, u64) = (count, classes.iter().map(|class| class.sum).sum());
    for class in classes.iter().filter(|class| class.count > 0) {
        later -= class.count;
        sum -= class.sum;
        let missing = (sum as f64 - later as f64 * class.most as f64) / count as f64;
        known.push(Stretch {
            rows: used - missing,
            again: 1.0 - later as f64 / count as f64,
        });
    }
    let powers = 0..=u64::from(vertices.max(1)).next_power_of_two().ilog2();
    let share = |rows: f64| {
        let above = known.partition_point(|stretch| stretch.rows <= rows);
        let below = known[above.saturating_sub(1)];
        let Some(above) = known.get(above) else {
            return below.again;
        };
        below.again + (rows - below.rows) / (above.rows - below.rows) * (above.again - below.again)
    };
    let rounded = |share: f64| (share.clamp(0.0, 1.0) * 1e4).round() / 1e4;
    powers
        .map(|power| rounded(share(2f64.powi(power as i32))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GraphData;
    use crate::generate::{Attributes, Mesh, PlantedPartition, Rmat};
    use std::collections::BTreeMap;

    /// The same, by keeping the rows used last.
    fn kept(topology: &Topology, room: usize) -> f64 {
        let (mut last, mut order) = (BTreeMap::new(), BTreeMap::new());
        let (mut hits, mut uses) = (0, 0);
        let sources = topology.indices();
        for (now, source) in sources.iter().chain(sources.iter()).enumerate() {
            let found = last
                .insert(*source, now)
                .is_some_and(|then| order.remove(&then).is_some());
            order.insert(now, *source);
            if order.len() > room {
                order.pop_first();
            }
            if now >= sources.len() {
                uses += 1;
                hits += usize::from(found);
            }
        }
        hits as f64 / uses as f64
    }

    /// A graph with hubs, one whose neighbors are near, and one with neither.
    fn graphs(vertices: u32, edges: u64) -> [GraphData; 3] {
        let rmat = Rmat {
            vertices,
            edges,
            ..Rmat::default()
        };
        let mesh = Mesh {
            vertices,
            edges,
            attributes: Attributes::default(),
            seed: 1,
        };
        let planted = PlantedPartition {
            vertices,
            edges,
            ..PlantedPartition::default()
        };
        [rmat.generate(), mesh.generate(), planted.generate()].map(Result::unwrap)
    }

    #[test]
    fn what_a_cache_of_so_many_rows_answers_is_counted() {
        for graph in graphs(3000, 30_000) {
            let found = reuse(&graph.topology);
            assert_eq!(found.len(), 13);
            for power in [3, 6, 8, 10, 11] {
                let expected = kept(&graph.topology, 1 << power);
                let found = found[power];
                assert!(
                    (found - expected).abs() < 0.05,
                    "{}, 2^{power}: {found}, {expected}",
                    graph.name
                );
            }
        }
    }

    #[test]
    fn meshes_are_local_and_hubs_are_kept() {
        let [rmat, mesh, planted] = graphs(10_000, 80_000).map(|graph| reuse(&graph.topology)[10]);
        assert!(
            mesh > 0.85 && mesh > rmat && rmat > 0.3 && rmat > 2.0 * planted,
            "{mesh} {rmat} {planted}"
        );
        assert!((planted - 0.1).abs() < 0.03, "{planted}");
    }

    #[test]
    fn no_edges_and_one_vertex_are_fine() {
        let empty = Topology::new(vec![0, 0], Vec::new()).unwrap();
        assert!(reuse(&empty).is_empty());
        let loops = Topology::new(vec![0, 1, 2], vec![1, 0]).unwrap();
        assert_eq!(reuse(&loops), [0.0, 1.0]);
    }

    #[test]
    fn classes_are_in_order() {
        let classes: Vec<usize> = (1..100_000).map(class_of).collect();
        assert!(classes.is_sorted());
        assert!(
            classes
                .windows(2)
                .all(|pair| pair[1] - pair[0] <= FINE as usize)
        );
    }
}
