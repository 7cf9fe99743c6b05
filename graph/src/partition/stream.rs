//! Parts by streaming (Stanton and Kliot, KDD 2012; restreamed as by Nishimura and Ugander, KDD 2013).

use super::{Partition, PartitionInput, Partitioner, check_parts};
use crate::GraphError;

/// Passes over the vertices. Each begins with the parts of the one before.
const PASSES: u32 = 6;
/// How much larger than the mean a part may be.
const SLACK: f64 = 0.05;

/// Goes through the vertices by their numbers, several times. Each goes to the part that has most of the vertices with an
/// edge into it, times the share of the part that is still free. A part is full by edges into its vertices, each
/// vertex counted as one more. Takes one number a vertex besides the graph, and time linear in vertices, edges and
/// parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Streaming;

impl Partitioner for Streaming {
    fn name(&self) -> &'static str {
        "stream"
    }

    fn partition(&self, graph: PartitionInput, parts: u32) -> Result<Partition, GraphError> {
        check_parts(graph, parts)?;
        let topology = graph.topology();
        let weight = |v: u32| 1 + topology.in_neighbours(v).len() as u64;
        let total = u64::from(graph.vertices()) + topology.indices().len() as u64;
        let room = (1.0 + SLACK) * total as f64 / f64::from(parts);
        let mut stream = Stream {
            owner: vec![None; graph.vertices() as usize],
            loads: vec![0; parts as usize],
            room,
        };
        let mut near = vec![0u32; parts as usize];
        for _ in 0..PASSES {
            for v in 0..graph.vertices() {
                let weight = weight(v);
                if let Some(before) = stream.owner[v as usize].take() {
                    stream.loads[before as usize] -= weight;
                }
                near.fill(0);
                let sources = topology.in_neighbours(v).iter();
                for part in sources.filter_map(|u| stream.owner[*u as usize]) {
                    near[part as usize] += 1;
                }
                let part = stream.best(&near, weight);
                stream.loads[part as usize] += weight;
                stream.owner[v as usize] = Some(part);
            }
        }
        let owner = stream.owner.into_iter().map(Option::unwrap_or_default);
        Partition::new(parts, owner.collect())
    }
}

/// The parts so far.
struct Stream {
    /// The part of each vertex, if it has one already.
    owner: Vec<Option<u32>>,
    loads: Vec<u64>,
    room: f64,
}

impl Stream {
    /// The part for a vertex with so many sources in each part: of several that are as good, the emptiest, then the
    /// first. Parts without room are left out if others have some.
    fn best(&self, near: &[u32], weight: u64) -> u32 {
        let mut best: Option<(f64, u64, u32)> = None;
        let mut emptiest = (u64::MAX, 0);
        for ((part, load), near) in (0u32..).zip(&self.loads).zip(near) {
            emptiest = emptiest.min((*load, part));
            let left = 1.0 - (load + weight) as f64 / self.room;
            if left < 0.0 {
                continue;
            }
            let score = f64::from(*near) * left;
            let better = best
                .is_none_or(|(most, least, _)| score > most || (score == most && *load < least));
            if better {
                best = Some((score, *load, part));
            }
        }
        best.map_or(emptiest.1, |(.., part)| part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{PlantedPartition, Rmat};
    use crate::partition::Hash;
    use crate::replication;

    #[test]
    fn parts_are_even_and_better_than_dealt_ones() {
        let planted = PlantedPartition::default().generate().unwrap();
        let rmat = Rmat::default().generate().unwrap();
        for data in [planted, rmat] {
            let parts = 4;
            let found = Streaming.partition((&data).into(), parts).unwrap();
            let dealt = Hash.partition((&data).into(), parts).unwrap();
            let cut = |partition| replication(&data.topology, partition).unwrap().cut;
            assert!(cut(&found) < cut(&dealt), "{}", data.name);
            let degrees = data.topology.in_degrees();
            let mut loads = vec![0u64; parts as usize];
            for (part, degree) in found.owner().iter().zip(&degrees) {
                loads[*part as usize] += 1 + u64::from(*degree);
            }
            let mean = loads.iter().sum::<u64>() as f64 / f64::from(parts);
            let largest = loads.iter().copied().max().unwrap() as f64;
            assert!(largest <= (1.0 + SLACK) * mean + 1.0, "{loads:?}");
        }
    }
}
