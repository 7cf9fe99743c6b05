//! Data about the whole graph that every rank keeps, if columns are cut instead of rows.

use crate::chunks::{ChunkNeeds, ChunkRows};
use crate::part::{Edges, Needs, Ways};
use gnnc_graph::parts::WholeGraph;
use gnnc_graph::{GraphError, LocalEdges, LocalPart, Topology};
use gnnc_ir::program::Program;
use gnnc_ir::words::types::BySet;

/// Data read by kernels over all vertices and by redistributions; empty if a program has neither.
/// The ranks of one machine share it.
#[derive(Default)]
pub(crate) struct Whole {
    /// Its numbers of edges, which are known even if its edges are elsewhere.
    pub(crate) graph: WholeGraph,
    /// Edges by edge set; `None` for sets that no kernel walks. Rows are global ids.
    pub(crate) edges: BySet<Option<Edges>>,
    /// The id of every vertex, in order.
    pub(crate) ids: Vec<u32>,
    /// For each rank, the ids of its own vertices, in the order of its rows.
    pub(crate) owned: Vec<Vec<u32>>,
    /// The chunks that kernels run over, and the rows moved with each.
    pub(crate) chunks: ChunkRows,
}

impl Whole {
    /// Extracts from the graph what the programs need.
    ///
    /// # Errors
    /// If kernels walk edges, and there are too many for their integer type.
    pub(crate) fn new<'a>(
        programs: impl Iterator<Item = &'a Program>,
        topology: &Topology,
        graph: WholeGraph,
        parts: &[LocalPart],
    ) -> Result<Self, GraphError> {
        let mut walked = BySet::<Ways>::default();
        let (mut ids, mut owned) = (false, false);
        let mut chunks = ChunkNeeds::default();
        for needs in programs.map(Needs::of) {
            for (set, needed) in needs.all_edges.each() {
                let walked = walked.of_mut(set);
                *walked = walked.or(*needed);
            }
            ids |= needs.ids;
            owned |= needs.owned;
            chunks.add(&needs.chunks);
        }
        let mut whole = Self {
            graph,
            ..Self::default()
        };
        for (set, ways) in walked.each().filter(|(_, ways)| ways.walked) {
            let edges = LocalEdges::whole(topology, set)?;
            *whole.edges.of_mut(set) = Some(Edges::new(edges, *ways, topology.relations()));
        }
        if ids {
            whole.ids = (0..topology.vertices()).collect();
        }
        if owned {
            let own = |part: &LocalPart| part.global[..part.inner].to_vec();
            whole.owned = parts.iter().map(own).collect();
        }
        whole.chunks = ChunkRows::new(&chunks, topology, &whole.owned);
        Ok(whole)
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let edges = self.edges.values().flatten().map(Edges::bytes);
        let owned = self.owned.iter().map(Vec::len);
        edges.sum::<usize>() + 4 * (self.ids.len() + owned.sum::<usize>()) + self.chunks.bytes()
    }
}
