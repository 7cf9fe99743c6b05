//! Vertices that lie near each other in one part.

use super::{Partition, PartitionInput, Partitioner, check_parts};
use crate::GraphError;

/// Bits of each coordinate in a Morton code.
const BITS: u32 = 21;

/// Cuts the vertices into runs along a Morton curve (Morton, 1966) through their coordinates. The sizes of
/// parts differ by at most one. It takes time linear in vertices, and needs no edges.
#[derive(Clone, Copy, Debug, Default)]
pub struct Morton;

impl Partitioner for Morton {
    fn name(&self) -> &'static str {
        "morton"
    }

    fn partition(&self, graph: PartitionInput, parts: u32) -> Result<Partition, GraphError> {
        check_parts(graph, parts)?;
        let places = graph.topology().places_on_curve();
        if places.is_empty() && parts > 1 {
            return Err(GraphError::Unsupported {
                at: "partitioner morton".to_owned(),
                found: "a graph without coordinates".to_owned(),
                expected: "an array `pos` with two or three for each vertex (not in files of many graphs or of pairs), or \
                           another partitioner"
                    .to_owned(),
            });
        }
        let (n, k) = (u64::from(graph.vertices()), u64::from(parts));
        let mut owner = vec![0; n as usize];
        let mut ends = (1..=k).map(|part| part * n / k);
        let (mut end, mut part) = (ends.next().unwrap_or(n), 0);
        for (place, vertex) in (0..).zip(in_order(places)) {
            while place >= end {
                (end, part) = (ends.next().unwrap_or(n), part + 1);
            }
            owner[vertex as usize] = part;
        }
        Partition::new(parts, owner)
    }
}

/// The vertices by their places.
fn in_order(places: &[u32]) -> Vec<u32> {
    let mut order = vec![0; places.len()];
    for (vertex, place) in (0..).zip(places) {
        order[*place as usize] = vertex;
    }
    order
}

/// The place of each vertex on a Morton curve, from its two or three coordinates (`[V x dimensions]`, row by
/// row). Equal codes are in the order of the vertices; a coordinate that is no number counts as the
/// smallest.
pub fn places(coordinates: &[f32], dimensions: usize) -> Vec<u32> {
    let mut least = vec![f32::INFINITY; dimensions];
    let mut most = vec![f32::NEG_INFINITY; dimensions];
    for row in coordinates.chunks_exact(dimensions) {
        for (axis, x) in row.iter().enumerate().filter(|(_, x)| x.is_finite()) {
            least[axis] = least[axis].min(*x);
            most[axis] = most[axis].max(*x);
        }
    }
    // One scale for all axes keeps shapes as they are.
    let widths = least
        .iter()
        .zip(&most)
        .map(|(a, b)| f64::from(*b) - f64::from(*a));
    let width = widths.fold(0.0, f64::max);
    let cells = f64::from((1u32 << BITS) - 1);
    let scale = if width > 0.0 { cells / width } else { 0.0 };
    let code = |row: &[f32]| {
        let cell = |axis: usize| ((f64::from(row[axis]) - f64::from(least[axis])) * scale) as u64;
        (0..dimensions).fold(0, |code, axis| {
            code | spread(cell(axis).min((1 << BITS) - 1)) << axis
        })
    };
    let mut order: Vec<(u64, u32)> = coordinates
        .chunks_exact(dimensions)
        .map(code)
        .zip(0..)
        .collect();
    order.sort_unstable();
    let mut places = vec![0; order.len()];
    for (place, (_, vertex)) in (0..).zip(&order) {
        places[*vertex as usize] = place;
    }
    places
}

/// The bits of a number with two zeros between each pair.
fn spread(cell: u64) -> u64 {
    (0..BITS).fold(0, |code, bit| code | (cell >> bit & 1) << (3 * bit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Topology, replication};

    #[test]
    fn the_curve_visits_quarter_after_quarter() {
        let grid: Vec<f32> = (0..16)
            .flat_map(|n| [(n % 4) as f32, (n / 4) as f32])
            .collect();
        let places = places(&grid, 2);
        assert_eq!(places[..8], [0, 1, 4, 5, 2, 3, 6, 7]);
        assert_eq!(places[8..], [8, 9, 12, 13, 10, 11, 14, 15]);
        assert_eq!(
            super::places(&[1.0, f32::NAN, 1.0, 2.0, 0.0, 0.0], 3),
            [1, 0]
        );
        assert_eq!(super::places(&[5.0; 8], 2), [0, 1, 2, 3]);
    }

    /// A grid of 32 x 32 whose vertices are numbered at random: its four parts are quarters.
    #[test]
    fn parts_are_near() {
        let number = |n: u32| n * 389 % 1024;
        let mut coordinates = vec![0.0; 2048];
        let mut edges = Vec::new();
        for n in 0..1024 {
            let v = number(n) as usize;
            (coordinates[2 * v], coordinates[2 * v + 1]) = ((n % 32) as f32, (n / 32) as f32);
            for near in [n + 1, n + 32] {
                if near < 1024 && (near % 32 != 0 || near == n + 32) {
                    edges.extend([(number(n), number(near)), (number(near), number(n))]);
                }
            }
        }
        let topology = Topology::from_edges(1024, edges).unwrap().0;
        let refused = Morton
            .partition((&topology).into(), 4)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("`pos`"), "{refused}");
        let topology = topology.on_curve(places(&coordinates, 2)).unwrap();
        let partition = Morton.partition((&topology).into(), 4).unwrap();
        assert_eq!(
            partition.members().iter().map(Vec::len).collect::<Vec<_>>(),
            [256; 4]
        );
        // Each quarter reads the 16 vertices beyond each of two sides.
        let found = replication(&topology, &partition).unwrap();
        assert_eq!(found.alpha, 4.0 * 32.0 / 1024.0);
        let sizes = Morton.partition((&topology).into(), 3).unwrap().members();
        assert_eq!(
            sizes.iter().map(Vec::len).collect::<Vec<_>>(),
            [341, 341, 342]
        );
    }
}
