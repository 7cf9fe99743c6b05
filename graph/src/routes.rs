//! How rows reach the nodes that read them in two tiers: a row crosses to a node once, to one of its readers there, which
//! passes it on inside (SHIRO, arXiv 2512.20178). Consecutive ranks share a node.

use crate::{LocalPart, Replication};
use gnnc_ir::kernel::End;
use gnnc_ir::workload::{NodeLoads, TierLoad};
use std::collections::BTreeMap;
use std::ops::Range;

/// Local rows that go to a rank or come from one, in the order of their message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The other rank.
    pub peer: u32,
    /// The rows.
    pub rows: Vec<u32>,
}

/// The routes of a rank's rows that cross between nodes. Each list ascends by peer. What ranks of a node read of each other
/// goes straight to its readers ([`LocalPart::send`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// Ranks of a node.
    pub node_ranks: u32,
    /// Own rows that go to ranks of other nodes.
    pub crossing: Vec<Leg>,
    /// Halo rows that come from their owners in other nodes.
    pub arriving: Vec<Leg>,
    /// Those of them that are passed on to ranks of the own node.
    pub passed: Vec<Leg>,
    /// Halo rows of other nodes that ranks of the own node pass on.
    pub forwarded: Vec<Leg>,
}

/// A row that a rank reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Read {
    /// The vertex of the row.
    vertex: u32,
    reader: u32,
    /// Number of the row among those that the reader reads from its owner.
    place: usize,
}

/// The vertices that a rank reads from an owner, ascending.
struct Reader {
    rank: u32,
    vertices: Vec<u32>,
}

/// Calls `visit` for each row of an owner and each other node that reads it, ascending by node and row: with the read of
/// the rank that receives it, and with those of the ranks that get it from there. The receiver is the reader with the
/// fewest rows of this owner so far, and the lowest of these.
fn each_crossing(
    owner: u32,
    node_ranks: u32,
    readers: &[Reader],
    mut visit: impl FnMut(Read, &[Read]),
) {
    let node = |rank: u32| rank / node_ranks.max(1);
    let by_node = readers.chunk_by(|a, b| node(a.rank) == node(b.rank));
    for readers in by_node.filter(|readers| node(readers[0].rank) != node(owner)) {
        let mut reads: Vec<Read> = Vec::new();
        for reader in readers {
            let vertices = reader.vertices.iter().enumerate();
            reads.extend(vertices.map(|(place, vertex)| Read {
                vertex: *vertex,
                reader: reader.rank,
                place,
            }));
        }
        reads.sort_unstable();
        let mut received: BTreeMap<u32, u64> = BTreeMap::new();
        for of_row in reads.chunk_by(|a, b| a.vertex == b.vertex) {
            let so_far = |read: &Read| received.get(&read.reader).copied().unwrap_or(0);
            let fewest = of_row.iter().min_by_key(|read| (so_far(read), read.reader));
            let Some(receiver) = fewest.copied() else {
                continue;
            };
            *received.entry(receiver.reader).or_default() += 1;
            let others: Vec<Read> = of_row
                .iter()
                .filter(|read| **read != receiver)
                .copied()
                .collect();
            visit(receiver, &others);
        }
    }
}

/// The own rows of a part that others have in their halo.
fn sent(part: &LocalPart, end: End) -> &[(u32, Vec<u32>)] {
    match end {
        End::Src => &part.send,
        End::Dst => &part.open,
    }
}

/// The halo rows of a part, by owner.
fn held(part: &LocalPart, end: End) -> &[(u32, Range<usize>)] {
    match end {
        End::Src => &part.halo_of,
        End::Dst => &part.ghosts_of,
    }
}

/// Rows by peer while they are collected.
type Legs = BTreeMap<u32, Vec<u32>>;

/// The routes of a rank while they are collected.
#[derive(Clone, Default)]
struct Collected {
    crossing: Legs,
    arriving: Legs,
    passed: Legs,
    forwarded: Legs,
}

impl Routes {
    /// The routes of all parts of a partition, in rank order: of the sources in halos, or of the targets.
    pub fn of(parts: &[LocalPart], node_ranks: u32, end: End) -> Vec<Self> {
        let mut all = vec![Collected::default(); parts.len()];

        for (owner, part) in (0u32..).zip(parts) {
            let reader = |(rank, rows): &(u32, Vec<u32>)| Reader {
                rank: *rank,
                vertices: rows.iter().map(|row| part.global[*row as usize]).collect(),
            };
            let readers: Vec<Reader> = sent(part, end).iter().map(reader).collect();
            let own_row = |read: Read| {
                let of_reader = sent(part, end)
                    .iter()
                    .find(|(rank, _)| *rank == read.reader);
                of_reader.map_or(0, |(_, rows)| rows[read.place])
            };
            let halo_row = |read: Read| {
                let halo = held(&parts[read.reader as usize], end);
                let of_owner = halo.iter().find(|(rank, _)| *rank == owner);
                of_owner.map_or(0, |(_, rows)| (rows.start + read.place) as u32)
            };
            each_crossing(owner, node_ranks, &readers, |receiver, others| {
                let add = |legs: &mut Legs, peer, row| legs.entry(peer).or_default().push(row);
                let at = receiver.reader as usize;
                add(
                    &mut all[owner as usize].crossing,
                    receiver.reader,
                    own_row(receiver),
                );
                add(&mut all[at].arriving, owner, halo_row(receiver));
                for other in others {
                    add(&mut all[at].passed, other.reader, halo_row(receiver));
                    let forwarded = &mut all[other.reader as usize].forwarded;
                    add(forwarded, receiver.reader, halo_row(*other));
                }
            });
        }
        let listed = |legs: Legs| {
            let legs = legs.into_iter();
            legs.map(|(peer, rows)| Leg { peer, rows }).collect()
        };
        let routes = |collected: Collected| Self {
            node_ranks,
            crossing: listed(collected.crossing),
            arriving: listed(collected.arriving),
            passed: listed(collected.passed),
            forwarded: listed(collected.forwarded),
        };
        all.into_iter().map(routes).collect()
    }

    /// Whether two ranks are in one node.
    pub fn together(&self, a: u32, b: u32) -> bool {
        a / self.node_ranks.max(1) == b / self.node_ranks.max(1)
    }

    /// Own rows that cross to other nodes.
    pub fn crossing_rows(&self) -> u64 {
        let rows = self.crossing.iter().map(|leg| leg.rows.len() as u64);
        rows.sum()
    }

    /// Number of rows in all lists.
    pub fn rows(&self) -> usize {
        let lists = [
            &self.crossing,
            &self.arriving,
            &self.passed,
            &self.forwarded,
        ];
        lists.into_iter().flatten().map(|leg| leg.rows.len()).sum()
    }
}

/// What the ranks of a partition send in two tiers, for those of the numbers of ranks a node that divide them, but for a node
/// of one rank or of all.
pub fn node_loads(owner: &[u32], replication: &Replication, of_nodes: &[u32]) -> Vec<NodeLoads> {
    let parts = replication.boundary.len() as u32;
    let fits = |ranks: &u32| (2..parts).contains(ranks) && parts.is_multiple_of(*ranks);
    let sizes: Vec<u32> = of_nodes.iter().copied().filter(fits).collect();
    if sizes.is_empty() {
        return Vec::new();
    }
    // By owner.
    let mut readers: Vec<Vec<Reader>> = Vec::new();
    readers.resize_with(parts as usize, Vec::new);
    for (rank, boundary) in (0u32..).zip(&replication.boundary) {
        for vertex in boundary {
            let of_owner = &mut readers[owner[*vertex as usize] as usize];
            match of_owner.last_mut().filter(|last| last.rank == rank) {
                Some(last) => last.vertices.push(*vertex),
                None => of_owner.push(Reader {
                    rank,
                    vertices: vec![*vertex],
                }),
            }
        }
    }
    let load = |node_ranks: u32| {
        let mut ranks = vec![TierLoad::default(); parts as usize];
        for (owner, readers) in (0u32..).zip(&readers) {
            each_crossing(owner, node_ranks, readers, |receiver, others| {
                ranks[owner as usize].crossing += 1;
                ranks[receiver.reader as usize].arriving += 1;
                ranks[receiver.reader as usize].passed += others.len() as u64;
                for other in others {
                    ranks[other.reader as usize].forwarded += 1;
                }
            });
        }
        NodeLoads { node_ranks, ranks }
    };
    sizes.into_iter().map(load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::partition::{Hash, Partitioner, Range};
    use crate::{Partition, Topology, replication};
    use proptest::prelude::*;

    fn leg(peer: u32, rows: &[u32]) -> Leg {
        Leg {
            peer,
            rows: rows.to_vec(),
        }
    }

    /// The worked example: vertex v on rank v mod 4, ranks 0 and 1 in a node, 2 and 3 in the other.
    #[test]
    fn g8_crosses_as_counted_by_hand() {
        let g8 = example::g8().topology;
        let quarters = Hash.partition((&g8).into(), 4).unwrap();
        let parts = LocalPart::build_all(&g8, &quarters).unwrap();
        let routes = Routes::of(&parts, 2, End::Src);
        let count = |legs: fn(&Routes) -> &Vec<Leg>| -> usize {
            let all = routes.iter().flat_map(legs);
            all.map(|leg| leg.rows.len()).sum()
        };
        assert_eq!(count(|r| &r.crossing), 8);
        assert_eq!(count(|r| &r.arriving), 8);
        assert_eq!(count(|r| &r.passed), 3);
        assert_eq!(count(|r| &r.forwarded), 3);
        // Ranks 2 and 3 read vertex 4 of rank 0; it crosses to rank 2 or 3, whoever got fewer before.
        let to: Vec<u32> = routes[0].crossing.iter().map(|leg| leg.peer).collect();
        assert_eq!(to, [2, 3]);
    }

    #[test]
    fn consecutive_quarters_have_single_readers() {
        let g8 = example::g8().topology;
        let quarters = Range.partition((&g8).into(), 4).unwrap();
        let parts = LocalPart::build_all(&g8, &quarters).unwrap();
        let routes = Routes::of(&parts, 2, End::Src);
        // Vertices 4 and 5 of rank 2 go to rank 1, vertex 3 of rank 1 to rank 2.
        assert_eq!(routes[2].crossing, [leg(1, &[0, 1])]);
        assert_eq!(routes[1].crossing, [leg(2, &[1])]);
        assert!(routes.iter().all(|of_rank| of_rank.passed.is_empty()));
    }

    fn graphs() -> impl Strategy<Value = (Topology, Partition, u32)> {
        let sizes = (4u32..40, 1u32..4, 2u32..4);
        sizes.prop_flat_map(|(vertices, nodes, node_ranks)| {
            let parts = nodes * node_ranks;
            let edges = prop::collection::vec((0..vertices, 0..vertices), 0..200);
            let owners = prop::collection::vec(0..parts, vertices as usize);
            (edges, owners).prop_map(move |(edges, owners)| {
                let topology = Topology::from_edges(vertices, edges).unwrap().0;
                (topology, Partition::new(parts, owners).unwrap(), node_ranks)
            })
        })
    }

    proptest! {
        /// Every halo row comes exactly once: from its owner if that is in the node, else from its owner to one reader of
        /// the node, which passes it on to the others. Both ends of a message list the same vertices.
        #[test]
        fn every_row_arrives_once((topology, partition, node_ranks) in graphs()) {
            let parts = LocalPart::build_all(&topology, &partition).unwrap();
            let routes = Routes::of(&parts, node_ranks, End::Src);
            let vertices = |rank: usize, leg: &Leg| -> Vec<u32> {
                leg.rows.iter().map(|row| parts[rank].global[*row as usize]).collect()
            };
            for (rank, part) in parts.iter().enumerate() {
                let own = &routes[rank];
                let near = part.halo_of.iter().filter(|(of, _)| own.together(*of, rank as u32));
                let mut got: Vec<u32> = near.flat_map(|(_, rows)| rows.clone()).map(|row| row as u32).collect();
                got.extend(own.arriving.iter().chain(&own.forwarded).flat_map(|leg| &leg.rows));
                got.sort_unstable();
                let halo: Vec<u32> = (part.inner..part.rows()).map(|row| row as u32).collect();
                prop_assert_eq!(got, halo);
                for leg in &own.crossing {
                    let other = &routes[leg.peer as usize];
                    let there = other.arriving.iter().find(|there| there.peer == rank as u32).unwrap();
                    prop_assert_eq!(vertices(rank, leg), vertices(leg.peer as usize, there));
                }
                for leg in &own.passed {
                    let other = &routes[leg.peer as usize];
                    let there = other.forwarded.iter().find(|there| there.peer == rank as u32).unwrap();
                    prop_assert_eq!(vertices(rank, leg), vertices(leg.peer as usize, there));
                }
                let arriving: Vec<u32> = own.arriving.iter().flat_map(|leg| leg.rows.clone()).collect();
                prop_assert!(own.passed.iter().flat_map(|leg| &leg.rows).all(|row| arriving.contains(row)));
            }
        }

        /// What is counted for the planner is what the routes have, and the rows of both tiers are those of one.
        #[test]
        fn loads_are_those_of_routes((topology, partition, node_ranks) in graphs()) {
            let counted = replication(&topology, &partition).unwrap();
            let parts = LocalPart::build_all(&topology, &partition).unwrap();
            for loads in node_loads(partition.owner(), &counted, &[node_ranks]) {
                let routes = Routes::of(&parts, loads.node_ranks, End::Src);
                let rows = |legs: &[Leg]| legs.iter().map(|leg| leg.rows.len() as u64).sum::<u64>();
                for ((own, load), part) in routes.iter().zip(&loads.ranks).zip(&parts) {
                    let found = TierLoad {
                        crossing: rows(&own.crossing),
                        arriving: rows(&own.arriving),
                        passed: rows(&own.passed),
                        forwarded: rows(&own.forwarded),
                    };
                    prop_assert_eq!(found, *load);
                    let far = part.halo_of.iter().filter(|(of, _)| !own.together(*of, part.rank));
                    let far: u64 = far.map(|(_, rows)| rows.len() as u64).sum();
                    prop_assert_eq!(load.arriving + load.forwarded, far);
                }
            }
        }
    }
}
