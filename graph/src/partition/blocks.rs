//! Blocks of vertices around labeled ones, dealt to parts (ByteGNN).

use super::{Partition, PartitionInput, Partitioner, check_parts};
use crate::{GraphError, Topology};
use gnnc_ir::words::spelling::counted;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// No block, or no part.
const NONE: u32 = u32::MAX;

/// ByteGNN's partitioner for sampled batches (Zheng et al., PVLDB 15(6), 2022): it keeps the neighborhood
/// of a labeled vertex in one part, and gives parts as many labeled vertices each. Nothing balances vertices or edges.
///
/// *Blocks.* A search along the edges into vertices starts at all centers at once, and goes as many hops as a batch
/// has. A vertex belongs to the block of the center that reaches it first, the one with the smallest number of
/// several.
///
/// *Parts.* Blocks go to parts one by one, those with most vertices of a split first, then the largest. A block goes
/// to the part with the largest product of the edges between them over the part's vertices, and of how far the
/// part's labeled vertices are below their share; ties go to the latter, then to the smaller part. Vertices that no
/// center reaches are dealt to the smallest parts. It takes time linear in vertices and edges, and for each block in
/// parts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Blocks {
    /// The vertices around which blocks grow.
    pub centers: Centers,
    /// What training, validation and test vertices count in the balance, in sum 1. If `None`, each labeled vertex
    /// counts the same.
    pub shares: Option<[f64; 3]>,
}

/// The vertices around which blocks grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Centers {
    /// Those of all splits.
    #[default]
    Labeled,
    /// Those to train on. Where most vertices are labeled, blocks around all of them have few vertices besides.
    Train,
}

impl Centers {
    /// The centers, ascending.
    fn of(self, graph: PartitionInput) -> Vec<u32> {
        let splits = graph.splits();
        let splits = match self {
            Self::Labeled => &splits[..],
            Self::Train => &splits[..1],
        };
        let is_center = |v: &u32| splits.iter().any(|split| is_in(split, *v));
        (0..graph.vertices()).filter(is_center).collect()
    }
}

fn is_in(split: &[bool], v: u32) -> bool {
    split.get(v as usize) == Some(&true)
}

impl Partitioner for Blocks {
    fn name(&self) -> &'static str {
        match self.centers {
            Centers::Labeled => "blocks",
            Centers::Train => "blocks-train",
        }
    }

    fn partition(&self, graph: PartitionInput, parts: u32) -> Result<Partition, GraphError> {
        check_parts(graph, parts)?;
        if parts == 1 {
            return Ok(Partition::whole(graph.vertices()));
        }
        let centers = self.centers.of(graph);
        if centers.is_empty() {
            let needed = match self.centers {
                Centers::Labeled => "training, validation or test vertices",
                Centers::Train => "training vertices",
            };
            return Err(GraphError::Unsupported {
                at: format!("partitioner {}", self.name()),
                found: format!("a graph without {needed}"),
                expected: "some, as blocks grow around them; or another partitioner, such as metis"
                    .to_owned(),
            });
        }
        let blocks = Grown::new(graph.topology(), &centers, graph.hops());
        Partition::new(parts, self.deal(graph, &blocks, parts))
    }

    fn remark(&self, graph: PartitionInput) -> Option<String> {
        let number = self.centers.of(graph).len();
        let kind = match self.centers {
            Centers::Labeled => " labeled ",
            Centers::Train => " training ",
        };
        let hops = counted(graph.hops(), "hop");
        let centers = counted(number, "vertex").replacen(' ', kind, 1);
        let most = self.centers == Centers::Labeled && 2 * number > graph.vertices() as usize;
        let hint = match most {
            true => {
                "; as these are most vertices, blocks are small, and those of blocks-train larger"
            }
            false => "",
        };
        Some(format!("{hops} around {centers}{hint}"))
    }
}

/// Blocks, each around a center.
#[derive(Debug, PartialEq, Eq)]
struct Grown {
    /// The block of each vertex, [`NONE`] if no center reaches it.
    of: Vec<u32>,
    /// Where the vertices of each block begin and end in `members`.
    begins: Vec<u32>,
    members: Vec<u32>,
}

impl Grown {
    fn new(topology: &Topology, centers: &[u32], hops: u32) -> Self {
        let mut of = vec![NONE; topology.vertices() as usize];
        for (block, center) in (0..).zip(centers) {
            of[*center as usize] = block;
        }
        // By ascending block within each hop, so the first one that reaches a vertex is the smallest.
        let mut reached = centers.to_vec();
        let mut hop = 0;
        for _ in 0..hops {
            let end = reached.len();
            for place in hop..end {
                let v = reached[place];
                for u in topology.in_neighbours(v) {
                    if of[*u as usize] == NONE {
                        of[*u as usize] = of[v as usize];
                        reached.push(*u);
                    }
                }
            }
            if reached.len() == end {
                break;
            }
            hop = end;
        }
        let mut begins = vec![0u32; centers.len() + 1];
        for v in &reached {
            begins[of[*v as usize] as usize + 1] += 1;
        }
        for block in 0..centers.len() {
            begins[block + 1] += begins[block];
        }
        let mut next = begins.clone();
        let mut members = vec![0; reached.len()];
        for v in reached {
            let place = &mut next[of[v as usize] as usize];
            members[*place as usize] = v;
            *place += 1;
        }
        Self {
            of,
            begins,
            members,
        }
    }

    fn count(&self) -> usize {
        self.begins.len() - 1
    }

    fn members(&self, block: usize) -> &[u32] {
        &self.members[self.begins[block] as usize..self.begins[block + 1] as usize]
    }
}

/// A part to which blocks are dealt.
#[derive(Clone, Copy, Default)]
struct Part {
    vertices: u32,
    /// Training, validation and test vertices.
    labeled: [u32; 3],
    /// Edges between it and the block at hand.
    edges: u32,
}

/// How well a block fits a part; the largest is the best.
#[derive(Clone, Copy)]
struct Fit {
    /// Of edges and room together.
    score: f64,
    /// How far labeled vertices are below their share.
    room: f64,
    vertices: u32,
}

impl Fit {
    fn compare(&self, other: &Self) -> Ordering {
        let score = self.score.total_cmp(&other.score);
        let room = score.then(self.room.total_cmp(&other.room));
        room.then(other.vertices.cmp(&self.vertices))
    }
}

impl Blocks {
    /// Deals blocks to parts; returns the part of each vertex.
    fn deal(&self, graph: PartitionInput, blocks: &Grown, parts: u32) -> Vec<u32> {
        let splits = graph.splits();
        let labels = |vertices: &[u32]| {
            splits.map(|split| vertices.iter().filter(|v| is_in(split, **v)).count() as u32)
        };
        let of_blocks: Vec<[u32; 3]> = (0..blocks.count())
            .map(|block| labels(blocks.members(block)))
            .collect();
        let mut order: Vec<usize> = (0..blocks.count()).collect();
        order.sort_by_key(|block| {
            let most = of_blocks[*block].iter().max();
            Reverse((most, blocks.members(*block).len(), Reverse(*block)))
        });
        let all = splits.map(|split| split.iter().filter(|is_in| **is_in).count() as u32);
        let both = graph.topology().symmetrised();
        let mut owner = vec![NONE; graph.vertices() as usize];
        let mut dealt = vec![Part::default(); parts as usize];
        for block in order {
            let members = blocks.members(block);
            dealt.iter_mut().for_each(|part| part.edges = 0);
            for u in members.iter().flat_map(|v| both.in_neighbours(*v)) {
                if let Some(part) = dealt.get_mut(owner[*u as usize] as usize) {
                    part.edges += 1;
                }
            }
            let fits = dealt
                .iter()
                .map(|part| self.fit(part, all, parts))
                .enumerate();
            // Of equals, the last one is the largest, so parts come in reverse.
            let best = fits.rev().max_by(|a, b| a.1.compare(&b.1));
            let best = best.map_or(0, |(part, _)| part);
            for v in members {
                owner[*v as usize] = best as u32;
            }
            dealt[best].vertices += members.len() as u32;
            for (sum, more) in dealt[best].labeled.iter_mut().zip(of_blocks[block]) {
                *sum += more;
            }
        }
        let sizes = (0..)
            .zip(&dealt)
            .map(|(n, part)| Reverse((part.vertices, n)));
        let mut smallest: BinaryHeap<Reverse<(u32, u32)>> = sizes.collect();
        for owner in owner.iter_mut().filter(|owner| **owner == NONE) {
            if let Some(mut part) = smallest.peek_mut() {
                *owner = part.0.1;
                part.0.0 += 1;
            }
        }
        owner
    }

    /// How far the labeled vertices of a part are below their share, of that; `all` are those of the graph.
    fn room(&self, labeled: [u32; 3], all: [u32; 3], parts: u32) -> f64 {
        let taken = |of_part: u64, all: u64| match all {
            0 => 0.0,
            _ => (of_part * u64::from(parts)) as f64 / all as f64,
        };
        let sum = |counts: [u32; 3]| counts.into_iter().map(u64::from).sum::<u64>();
        let Some(shares) = self.shares else {
            return 1.0 - taken(sum(labeled), sum(all));
        };
        let splits = shares.into_iter().zip(labeled).zip(all);
        let each = splits.map(|((share, part), all)| share * taken(part.into(), all.into()));
        1.0 - each.sum::<f64>()
    }

    /// How well a part fits the block at hand.
    fn fit(&self, part: &Part, all: [u32; 3], parts: u32) -> Fit {
        let room = self.room(part.labeled, all, parts);
        let edges = f64::from(part.edges) / f64::from(part.vertices.max(1));
        Fit {
            // Adding 0 turns -0 into 0.
            score: edges * room + 0.0,
            room,
            vertices: part.vertices,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::tests::give_splits;
    use crate::{GraphData, example};
    use proptest::prelude::*;

    /// G8 with the split of the worked example: training 0 and 7, validation 4, test 2.
    fn worked() -> GraphData {
        let mut g8 = example::g8();
        let of = |chosen: &[usize]| (0..8).map(|v| chosen.contains(&v)).collect();
        (g8.train, g8.val, g8.test) = (of(&[0, 7]), of(&[4]), of(&[2]));
        g8
    }

    #[test]
    fn g8_is_divided_as_written_down() {
        let g8 = worked();
        let equal = Blocks {
            shares: Some([1.0 / 3.0; 3]),
            ..Blocks::default()
        };
        for hops in [1, 2] {
            let graph = PartitionInput::from(&g8).over_hops(Some(hops));
            let centers = equal.centers.of(graph);
            assert_eq!(centers, [0, 2, 4, 7]);
            let blocks = Grown::new(&g8.topology, &centers, hops);
            assert_eq!(blocks.of, [0, 0, 1, 1, 2, 2, 2, 3]);
            assert_eq!(blocks.members(2), [4, 5, 6]);
            let partition = equal.partition(graph, 2).unwrap();
            assert_eq!(partition.owner(), [1, 1, 1, 1, 0, 0, 0, 0]);
        }
        // Without hops, every center is alone, and the other vertices are dealt out.
        let graph = PartitionInput::from(&g8).over_hops(Some(0));
        let blocks = Grown::new(&g8.topology, &equal.centers.of(graph), 0);
        assert_eq!(blocks.of, [0, NONE, 1, NONE, 2, NONE, NONE, 3]);
        let sizes = equal.partition(graph, 2).unwrap().members();
        assert_eq!(sizes.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4]);
    }

    #[test]
    fn training_vertices_alone_may_be_centers() {
        let by_train = Blocks {
            centers: Centers::Train,
            ..Blocks::default()
        };
        let g8 = example::g8();
        let (graph, few) = (PartitionInput::from(&g8), worked());
        assert_eq!(by_train.centers.of(graph), [0, 1, 4, 5]);
        let partition = by_train.partition(graph, 2).unwrap();
        assert_eq!(partition.owner(), [0, 1, 0, 0, 0, 1, 0, 1]);
        let said = by_train.remark(graph).unwrap();
        assert_eq!(said, "2 hops around 4 training vertices");
        let said = Blocks::default().remark((&few).into()).unwrap();
        assert_eq!(said, "2 hops around 4 labeled vertices");
        let said = Blocks::default().remark(graph).unwrap();
        assert!(said.ends_with("and those of blocks-train larger"), "{said}");
    }

    #[test]
    fn a_graph_without_labels_is_refused() {
        let mut g8 = example::g8();
        g8.train = vec![false; 8];
        let refused = |centers, graph| {
            let blocks = Blocks {
                centers,
                ..Blocks::default()
            };
            blocks.partition(graph, 2).unwrap_err().to_string()
        };
        let error = refused(Centers::Labeled, (&g8.topology).into());
        assert!(
            error.contains("without training, validation or test vertices"),
            "{error}"
        );
        assert!(
            error.contains("another partitioner, such as metis"),
            "{error}"
        );
        let error = refused(Centers::Train, (&g8).into());
        assert!(error.contains("without training vertices"), "{error}");
    }

    /// The block of each vertex hop by hop, as the definition says it.
    fn naive(topology: &Topology, centers: &[u32], hops: u32) -> Vec<u32> {
        let mut of = vec![NONE; topology.vertices() as usize];
        for (block, center) in (0..).zip(centers) {
            of[*center as usize] = block;
        }
        for _ in 0..hops {
            let before = of.clone();
            for v in 0..topology.vertices() {
                for u in topology.in_neighbours(v) {
                    let (from, to) = (before[v as usize], *u as usize);
                    if before[to] == NONE {
                        of[to] = of[to].min(from);
                    }
                }
            }
        }
        of
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn blocks_are_those_of_the_definition_and_connected(
            n in 1u32..24,
            edges in prop::collection::vec((0u32..24, 0u32..24), 0..60),
            centers in prop::collection::btree_set(0u32..24, 1..12),
            hops in 0u32..4,
        ) {
            let edges = edges.into_iter().map(|(u, v)| (u % n, v % n));
            let (topology, _) = Topology::from_edges(n, edges).unwrap();
            let centers: Vec<u32> = centers.into_iter().filter(|v| *v < n).collect();
            let blocks = Grown::new(&topology, &centers, hops);
            prop_assert_eq!(&blocks.of, &naive(&topology, &centers, hops));
            for (block, center) in centers.iter().enumerate() {
                let members = blocks.members(block);
                prop_assert_eq!(members.first(), Some(center));
                // Each vertex but the center has an edge into one of the block that was reached before.
                for (place, u) in members.iter().enumerate().skip(1) {
                    let leads = |v: &u32| topology.in_neighbours(*v).contains(u);
                    prop_assert!(members[..place].iter().any(leads));
                }
            }
        }

        #[test]
        fn labeled_vertices_are_balanced(
            n in 2u32..40,
            edges in prop::collection::vec((0u32..40, 0u32..40), 0..90),
            split in prop::collection::vec(0usize..5, 40),
            parts in 2u32..8,
            by_train in any::<bool>(),
        ) {
            let parts = parts.min(n);
            let blocks = Blocks {
                centers: if by_train { Centers::Train } else { Centers::Labeled },
                ..Blocks::default()
            };
            let edges = edges.into_iter().map(|(u, v)| (u % n, v % n));
            let mut data = GraphData::new("g", Topology::from_edges(n, edges).unwrap().0);
            give_splits(&mut data, &split[..n as usize]);
            let graph = PartitionInput::from(&data);
            let centers = blocks.centers.of(graph);
            let Ok(partition) = blocks.partition(graph, parts) else {
                prop_assert!(centers.is_empty());
                return Ok(());
            };
            prop_assert_eq!(partition.owner().len(), n as usize);
            // A part whose labeled vertices have reached their share gets no other block.
            let labeled = |v: usize| graph.splits().iter().any(|split| split[v]);
            let all = (0..n as usize).filter(|v| labeled(*v)).count();
            let grown = Grown::new(&data.topology, &centers, graph.hops());
            let of_block = |block| grown.members(block).iter().filter(|v| labeled(**v as usize)).count();
            let largest = (0..grown.count()).map(of_block).max().unwrap();
            let unreached = (0..n as usize).filter(|v| labeled(*v) && grown.of[*v] == NONE).count();
            for members in partition.members() {
                let found = members.iter().filter(|v| labeled(**v as usize)).count();
                prop_assert!(found <= all.div_ceil(parts as usize) + largest + unreached);
            }
        }
    }
}
