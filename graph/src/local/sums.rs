//! Edges into vertices of other parts: those that a part adds up for others, and those out of its vertices.

use crate::cover::Covers;

/// What a part sums for others, and others for it.
#[derive(Default)]
pub(super) struct Sums {
    /// Whether edges into vertices of other parts are here too, though there may be none.
    pub(super) has_targets: bool,
    /// Vertices of other parts that they lead into, by owner, then ascending.
    pub(super) ghosts: Vec<u32>,
    /// For each part that sums for vertices of this one, their inner rows, ascending by vertex.
    pub(super) open: Vec<(u32, Vec<u32>)>,
    /// Vertices of this part and the parts that sum for them, ascending.
    pub(super) elsewhere: Vec<(u32, u32)>,
}

impl Sums {
    /// What a part sums for others, and others for it, given the inner row of each vertex.
    pub(super) fn new(covers: &Covers, rank: u32, inner_row: &[u32]) -> Self {
        let mut sums = Self {
            has_targets: true,
            ..Self::default()
        };
        for into in &covers.of {
            sums.ghosts.extend(&into[rank as usize].sums);
        }
        for (from, cover) in (0u32..).zip(&covers.of[rank as usize]) {
            if !cover.sums.is_empty() {
                let rows = cover.sums.iter().map(|v| inner_row[*v as usize]);
                sums.open.push((from, rows.collect()));
                sums.elsewhere.extend(cover.sums.iter().map(|v| (*v, from)));
            }
        }
        sums.elsewhere.sort_unstable();
        sums
    }

    /// Whether another part sums some edges into a vertex of this one.
    pub(super) fn is_open(&self, vertex: u32) -> bool {
        let place = self.elsewhere.partition_point(|(v, _)| *v < vertex);
        self.elsewhere.get(place).is_some_and(|(v, _)| *v == vertex)
    }

    /// Whether edges from vertices of a part into a vertex of this one are summed here.
    pub(super) fn is_here(&self, part: u32, vertex: u32) -> bool {
        self.elsewhere.binary_search(&(vertex, part)).is_err()
    }
}
