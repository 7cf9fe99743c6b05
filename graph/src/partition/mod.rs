//! Partitions: which rank owns which vertex.

mod bisection;
mod blocks;
mod chunked;
mod hash;
mod input;
mod leaves;
mod metis;
mod metis_splits;
mod morton;
mod range;
mod stream;

pub use blocks::{Blocks, Centers};
pub use hash::Hash;
pub use input::PartitionInput;
pub use metis::Metis;
pub use metis_splits::MetisSplits;
pub use morton::{Morton, places};
pub use range::Range;
pub use stream::Streaming;

use crate::{GraphError, Topology};

/// A disjoint cover of the vertices, one part per rank. A part may be empty. Parts may be cut into
/// chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    parts: u32,
    owner: Vec<u32>,
    chunks: u32,
    /// The chunk of each vertex; empty if there is one chunk.
    chunk: Vec<u32>,
}

/// A way to partition a graph.
pub trait Partitioner {
    /// Its name in plans and on the command line.
    fn name(&self) -> &'static str;

    /// Divides the vertices among `parts` parts. The same input gives the same result.
    ///
    /// # Errors
    /// No parts, more parts than vertices, or a graph that the method cannot handle.
    fn partition(&self, graph: PartitionInput, parts: u32) -> Result<Partition, GraphError>;

    /// The same for several numbers of parts, which may share work.
    ///
    /// # Errors
    /// As [`partition`](Self::partition).
    fn partitions(
        &self,
        graph: PartitionInput,
        parts: &[u32],
    ) -> Result<Vec<Partition>, GraphError> {
        let each = parts.iter();
        each.map(|&parts| self.partition(graph, parts)).collect()
    }

    /// What determines a partition besides the number of parts: the method, and the content of all that it reads.
    /// `None` if partitioning is as fast as reading a stored partition.
    fn key(&self, _graph: PartitionInput) -> Option<String> {
        None
    }

    /// What reports should say of the way in which it divides a graph, besides its name.
    fn remark(&self, _graph: PartitionInput) -> Option<String> {
        None
    }

    /// The partition into `parts` parts, if it follows from one of this partitioner into more.
    fn merged(&self, _finer: &Partition, _parts: u32) -> Option<Partition> {
        None
    }
}

/// The partitioner with this name (one of [`NAMES`]), if any.
pub fn by_name(name: &str, seed: u64) -> Option<Box<dyn Partitioner>> {
    match name {
        "metis" => Some(Box::new(Metis {
            seed,
            balance_edges: false,
        })),
        "metis-edges" => Some(Box::new(Metis {
            seed,
            balance_edges: true,
        })),
        "metis-splits" => Some(Box::new(MetisSplits { seed })),
        "blocks" => Some(Box::new(Blocks::default())),
        "blocks-train" => Some(Box::new(Blocks {
            centers: Centers::Train,
            ..Blocks::default()
        })),
        "hash" => Some(Box::new(Hash)),
        "range" => Some(Box::new(Range)),
        "stream" => Some(Box::new(Streaming)),
        "morton" => Some(Box::new(Morton)),
        _ => None,
    }
}

/// The names [`by_name`] knows.
pub const NAMES: [&str; 9] = [
    "metis",
    "metis-edges",
    "metis-splits",
    "blocks",
    "blocks-train",
    "stream",
    "hash",
    "range",
    "morton",
];

impl Partition {
    /// A partition from the owner of each vertex.
    ///
    /// # Errors
    /// If `parts` is 0, or an owner is not below `parts`.
    pub fn new(parts: u32, owner: Vec<u32>) -> Result<Self, GraphError> {
        if parts == 0 {
            return Err(GraphError::NoParts);
        }
        match owner.iter().position(|&part| part >= parts) {
            Some(vertex) => Err(GraphError::NoSuchPart {
                vertex: vertex as u32,
                part: owner[vertex],
                parts,
            }),
            None => Ok(Self {
                parts,
                owner,
                chunks: 1,
                chunk: Vec::new(),
            }),
        }
    }

    /// All vertices in one part.
    pub fn whole(vertices: u32) -> Self {
        Self {
            parts: 1,
            owner: vec![0; vertices as usize],
            chunks: 1,
            chunk: Vec::new(),
        }
    }

    /// The groups of `size` consecutive parts, as parts.
    ///
    /// # Errors
    /// A size of 0.
    pub fn groups(&self, size: u32) -> Result<Self, GraphError> {
        let group = |part: &u32| part.checked_div(size).unwrap_or(0);
        let groups = self.parts.checked_div(size).unwrap_or(0);
        Self::new(groups, self.owner.iter().map(group).collect())
    }

    /// Number of parts.
    pub fn parts(&self) -> u32 {
        self.parts
    }

    /// The part that owns each vertex.
    pub fn owner(&self) -> &[u32] {
        &self.owner
    }

    /// The vertices of each part, ascending.
    pub fn members(&self) -> Vec<Vec<u32>> {
        let mut counts = vec![0; self.parts as usize];
        for part in &self.owner {
            counts[*part as usize] += 1;
        }
        let mut members: Vec<Vec<u32>> = counts.into_iter().map(Vec::with_capacity).collect();
        for (v, &part) in self.owner.iter().enumerate() {
            members[part as usize].push(v as u32);
        }
        members
    }

    /// Checks that this is a partition of `topology`.
    pub(crate) fn check(&self, topology: &Topology) -> Result<(), GraphError> {
        let (found, expected) = (self.owner.len(), topology.vertices() as usize);
        if found == expected {
            Ok(())
        } else {
            Err(GraphError::PartitionLength { found, expected })
        }
    }
}

/// Checks that the graph can have `parts` parts.
fn check_parts(graph: PartitionInput, parts: u32) -> Result<(), GraphError> {
    let vertices = graph.vertices();
    match parts {
        0 => Err(GraphError::NoParts),
        _ if parts > vertices => Err(GraphError::TooManyParts { parts, vertices }),
        _ => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{GraphData, VertexTypes, example};
    use proptest::prelude::*;

    #[test]
    fn impossible_numbers_of_parts_are_refused() {
        let mut g8 = example::g8();
        g8.topology = g8.topology.on_curve((0..8).rev().collect()).unwrap();
        let g8 = PartitionInput::from(&g8);
        for name in NAMES {
            let partitioner = by_name(name, 1).unwrap();
            assert!(matches!(
                partitioner.partition(g8, 0),
                Err(GraphError::NoParts)
            ));
            assert!(matches!(
                partitioner.partition(g8, 9),
                Err(GraphError::TooManyParts {
                    parts: 9,
                    vertices: 8
                })
            ));
            assert_eq!(partitioner.partition(g8, 1).unwrap(), Partition::whole(8));
        }
        assert!(by_name("kahip", 1).is_none());
        assert!(Partition::new(2, vec![0, 2]).is_err());
        assert!(Partition::new(0, vec![]).is_err());
    }

    #[test]
    fn hash_and_range_are_as_documented() {
        let g8 = example::g8().topology;
        assert_eq!(
            Hash.partition((&g8).into(), 2).unwrap().owner(),
            [0, 1, 0, 1, 0, 1, 0, 1]
        );
        assert_eq!(
            Range.partition((&g8).into(), 2).unwrap().owner(),
            [0, 0, 0, 0, 1, 1, 1, 1]
        );
        assert_eq!(
            Range.partition((&g8).into(), 3).unwrap().owner(),
            [0, 0, 1, 1, 1, 2, 2, 2]
        );
    }

    #[test]
    fn metis_finds_the_halves_of_g8() {
        let g8 = example::g8().topology;
        let partition = Metis::default().partition((&g8).into(), 2).unwrap();
        let owner = partition.owner();
        assert!(owner[..4].iter().all(|&p| p == owner[0]), "{owner:?}");
        assert!(owner[4..].iter().all(|&p| p == 1 - owner[0]), "{owner:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_vertex_has_an_owner(
            n in 1u32..24,
            edges in prop::collection::vec((0u32..24, 0u32..24), 0..60),
            split in prop::collection::vec(0usize..6, 24),
            types in prop::collection::vec(0usize..3, 24),
            typed in any::<bool>(),
            parts in 1u32..24,
        ) {
            let parts = parts.min(n);
            let data = random(n, &edges, &split, typed.then_some(&types[..]));
            let graph = PartitionInput::from(&data);
            for name in NAMES {
                let partitioner = by_name(name, 3).unwrap();
                let found = partitioner.partition(graph, parts);
                let needed = match name {
                    "blocks" => split[..n as usize].iter().any(|split| *split < 3),
                    "blocks-train" => split[..n as usize].contains(&0),
                    _ => true,
                };
                if !needed && parts > 1 {
                    prop_assert!(found.is_err());
                    continue;
                }
                let partition = found.unwrap();
                prop_assert_eq!(partition.owner().len(), n as usize);
                prop_assert_eq!(partition.parts(), parts);
                prop_assert!(partition.owner().iter().all(|&p| p < parts));
                prop_assert_eq!(partition.members().iter().map(Vec::len).sum::<usize>(), n as usize);
                prop_assert_eq!(&partitioner.partition(graph, parts).unwrap(), &partition);
                // Sets of so few vertices are often dealt out, where merging would be wrong.
                for fewer in 1..parts {
                    if let Some(merged) = partitioner.merged(&partition, fewer) {
                        prop_assert_eq!(merged, partitioner.partition(graph, fewer).unwrap());
                    }
                }
            }
        }
    }

    /// Puts each vertex into the split of its number, 0 to 2; into none if that is larger.
    pub fn give_splits(data: &mut GraphData, split: &[usize]) {
        let splits = [&mut data.train, &mut data.val, &mut data.test];
        for (number, members) in splits.into_iter().enumerate() {
            for (member, split) in members.iter_mut().zip(split) {
                *member = *split == number;
            }
        }
    }

    /// A graph with splits (0 to 2, or none), and with types of vertices if there are some.
    fn random(n: u32, edges: &[(u32, u32)], split: &[usize], types: Option<&[usize]>) -> GraphData {
        let edges = edges.iter().map(|(u, v)| (u % n, v % n));
        let (topology, _) = Topology::from_edges(n, edges).unwrap();
        let curve = (0..n).map(|v| (v + 1) % n).collect();
        let mut data = GraphData::new("random", topology.on_curve(curve).unwrap());
        give_splits(&mut data, &split[..n as usize]);
        if let Some(types) = types {
            let texts = types[..n as usize]
                .iter()
                .map(|kind| ["a", "b", "c"][*kind]);
            let types = VertexTypes::of_texts("types", &texts.collect()).unwrap();
            types.give("types", &mut data).unwrap();
        }
        data
    }

    /// A cache finds a partition by all that it depends on.
    #[test]
    fn keys_differ_where_partitions_may() {
        let g8 = example::g8();
        let key = |name, data: &GraphData| by_name(name, 0).unwrap().key(data.into());
        let mut other = g8.clone();
        other.train.swap(0, 2);
        assert_eq!(key("metis", &g8), key("metis", &other));
        assert_ne!(key("metis-splits", &g8), key("metis-splits", &other));
        let mut typed = g8.clone();
        let texts = "b a b b a b a a".split(' ').collect();
        let types = VertexTypes::of_texts("t", &texts).unwrap();
        types.give("t", &mut typed).unwrap();
        assert_ne!(key("metis-splits", &g8), key("metis-splits", &typed));
        let mut rewired = g8.clone();
        rewired.topology = Topology::from_edges(8, [(0, 1)]).unwrap().0;
        assert_ne!(key("metis", &g8), key("metis", &rewired));
        assert_ne!(key("metis-splits", &g8), key("metis-splits", &rewired));
    }
}
