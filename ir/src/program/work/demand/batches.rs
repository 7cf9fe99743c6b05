//! What sampled batches ask for.

use super::{EDGE, ROW, Terms, bytes};
use crate::program::traffic::row_bytes;
use crate::program::work::INDEX;
use crate::program::{Program, RankSizes, Ref};
use crate::words::sampling::Fanout;

/// Bytes of an edge of a batch in the lists that drawing writes and reads again: its position, its place in
/// the level below, and both ends as kernels walk them.
const LISTED: u64 = 4 * INDEX;

impl Terms {
    /// Counts a draw: for each edge, its position in the row and its source in a table with a number for each
    /// vertex of the graph are read at random places, one after the other; then edges are listed. If no vertex
    /// has more edges than the fanouts, rows are read from their beginnings to their ends.
    pub(in crate::program) fn sample(
        &mut self,
        program: &Program,
        sizes: &RankSizes,
    ) -> &'static str {
        let sets = sizes.batch.sets.max(1);
        let rows: u64 = sizes.batch.levels.iter().skip(1).sum();
        let edges = sets * sizes.batch.edges.iter().sum::<u64>();
        self.counts[ROW] = (sets * rows) as f64;
        self.counts[EDGE] = edges as f64;
        let keeps_all = |fanout: &Fanout| {
            let most = match fanout {
                Fanout::Each(most) => *most,
                Fanout::Types(most) => most.iter().copied().min().unwrap_or(0),
            };
            (1..=u64::from(most)).contains(&self.held.max_degree)
        };
        let mut samplings = [&program.sampling, &program.evaluation]
            .into_iter()
            .flatten();
        let (picked, bytes) = match samplings.all(|one| one.fanouts.iter().all(keeps_all)) {
            true => (sets * rows, INDEX * edges / (sets * rows).max(1)),
            false => (edges, INDEX),
        };
        self.pick(picked, bytes, INDEX * self.held.all_edges);
        self.wait(edges as f64, INDEX * self.held.vertices);
        self.reach = LISTED * edges;
        self.stream(LISTED * edges);
        "sample"
    }

    /// Counts rows of a level that are copied from, added to or put at random places of a tensor of `all` rows.
    pub(in crate::program) fn fetch_rows(
        &mut self,
        program: &Program,
        level: Ref,
        all: Ref,
        sizes: &RankSizes,
    ) -> &'static str {
        let row = row_bytes(program, level);
        let rows = sizes.rows(program.buffer(level.buffer).extent);
        let reach = bytes(program, all, &self.held);
        self.counts[ROW] = rows as f64;
        self.pick(rows, row, reach);
        self.reach = rows * row;
        self.stream(rows * row);
        "fetch-rows"
    }

    /// Counts numbers of a batch that are written one after the other.
    pub(in crate::program) fn numbers(&mut self, rows: u64) -> &'static str {
        self.counts[ROW] = rows as f64;
        self.stream(INDEX * rows);
        "numbers"
    }
}
