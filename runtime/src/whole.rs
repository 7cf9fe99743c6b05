//! What every rank knows of the whole graph, where columns are cut instead of rows.

use crate::chunks::{ChunkNeeds, ChunkRows};
use crate::part::{Arcs, Needs, Ways, index};
use gnnc_graph::{GraphError, LocalArcs, LocalPart, Topology};
use gnnc_ir::EdgeSet;
use gnnc_ir::program::Program;

/// What kernels over all vertices and redistributions read; empty where a program has neither.
/// The ranks of one machine share it.
#[derive(Default)]
pub(crate) struct Whole {
    /// Arcs by edge set, where a kernel walks them; rows are global ids.
    pub(crate) arcs: [Option<Arcs>; 2],
    /// The id of every vertex, in order.
    pub(crate) ids: Vec<u32>,
    /// For each rank the ids of its own vertices, in the order of its rows.
    pub(crate) owned: Vec<Vec<u32>>,
    /// The chunks that kernels run over and the rows that are moved with them.
    pub(crate) chunks: ChunkRows,
}

impl Whole {
    /// Takes from the graph what the programs need.
    ///
    /// # Errors
    /// More arcs than their numbers can hold, if they are walked.
    pub(crate) fn new<'a>(
        programs: impl Iterator<Item = &'a Program>,
        topology: &Topology,
        parts: &[LocalPart],
    ) -> Result<Self, GraphError> {
        let (mut walked, mut ids, mut owned) = ([Ways::default(); 2], false, false);
        let mut chunks = ChunkNeeds::default();
        for needs in programs.map(Needs::of) {
            for (walked, needed) in walked.iter_mut().zip(needs.all_arcs) {
                *walked = walked.or(needed);
            }
            ids |= needs.ids;
            owned |= needs.owned;
            chunks.add(&needs.chunks);
        }
        let mut whole = Self::default();
        for set in [EdgeSet::Plain, EdgeSet::Looped] {
            let ways = walked[index(set)];
            if ways.walked {
                let arcs = LocalArcs::whole(topology, set)?;
                whole.arcs[index(set)] = Some(Arcs::new(arcs, ways, topology.relations()));
            }
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

    /// Bytes of all this.
    pub(crate) fn bytes(&self) -> usize {
        let arcs = self.arcs.iter().flatten().map(Arcs::bytes);
        let owned = self.owned.iter().map(Vec::len);
        arcs.sum::<usize>() + 4 * (self.ids.len() + owned.sum::<usize>()) + self.chunks.bytes()
    }
}
