//! Memory of the lists of a sampled batch, besides buffers.

use gnnc_ir::kernel::Walk;
use gnnc_ir::program::{BatchSizes, Extent, Instr, Program, RankSizes};

/// What a rank that samples keeps.
#[derive(Default)]
pub(super) struct BatchNeeds {
    /// Edges that kernels walk, and whether by source.
    walked: Vec<(Extent, bool)>,
    /// Edges whose sources are also named as vertices.
    vertices: Vec<Extent>,
}

impl BatchNeeds {
    /// Records the edges that an instruction walks.
    pub(super) fn collect(&mut self, instr: &Instr, program: &Program) {
        let Some(launch) = instr.launch().filter(|launch| launch.rows.of_batch()) else {
            return;
        };
        let body = &program.kernel(launch.kernel).body;
        let Some(edges) = launch.rows.walked(body) else {
            return;
        };
        let by_source = Walk::of(body) == Walk::EdgesBySource;
        if launch.reads_vertices(program) && !self.vertices.contains(&edges) {
            self.vertices.push(edges);
        }
        for one in [(edges, false), (edges, by_source)] {
            if !self.walked.contains(&one) {
                self.walked.push(one);
            }
        }
    }

    /// Bytes of the graph that is sampled, of the draws, and of the edges as kernels walk them.
    pub(super) fn bytes(&self, sizes: &RankSizes) -> u64 {
        if sizes.batch == BatchSizes::NONE {
            return 0;
        }
        // The graph, and a number for each vertex.
        let graph = 12 * sizes.vertices + 4 * sizes.all_edges;
        let edges: u64 = sizes.batch.edges.iter().sum();
        let blocks = 12 * edges + 4 * sizes.batch.levels[0];
        let lists = self.walked.iter().map(|(edges, by_source)| {
            let Extent::LevelEdges(layer, _) = *edges else {
                return 0;
            };
            let (above, below) = (usize::from(layer), usize::from(layer).saturating_sub(1));
            let count = sizes.rows(*edges);
            match by_source {
                false => 8 * (sizes.batch.levels[above] + 1) + 4 * count,
                true => 8 * (sizes.batch.levels[below] + 1) + 8 * count,
            }
        });
        let vertices = self.vertices.iter().map(|edges| 4 * sizes.rows(*edges));
        graph + blocks + lists.sum::<u64>() + vertices.sum::<u64>()
    }
}
