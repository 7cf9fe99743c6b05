//! Halos of sources and targets: if parts send the fewest rows and partial sums, or have edges into and out of their vertices.

use super::{Messages, Parts};
use gnnc_ir::plan::AlphaBasis;
use gnnc_ir::workload::TargetLoads;

/// Rows and sums of smallest covers over the rows alone: the median of nine graphs in eight parts, which range from 0.32 to
/// 0.97.
pub(super) const COVER: f64 = 0.65;
/// Factor by which that may be off.
const COVER_SPREAD: f64 = 2.0;

/// What ranks have in their halos besides sources of edges.
#[derive(Clone, Debug, PartialEq)]
pub struct Targets {
    /// `[i][j]`: rows that rank `i` owns, for which rank `j` adds up edges; `None` if they were not counted.
    pub rows: Option<Vec<Vec<u64>>>,
    /// Their share of all halo rows.
    pub share: f64,
}

impl Parts {
    /// The parts as a program sees them whose halos have the fewest sources and targets, unless they are that already.
    pub(super) fn covered(&mut self) {
        if self.targets.is_some() {
            return;
        }
        self.forget_loads();
        match self.cover.take() {
            Some(cover) => self.have(cover),
            None => {
                let fewer = self.with_replication(COVER * self.alpha);
                *self = Self {
                    alpha_basis: AlphaBasis::Estimated,
                    alpha_spread: self.alpha_spread * COVER_SPREAD,
                    targets: Some(Targets {
                        rows: None,
                        share: 0.5,
                    }),
                    ..fewer
                };
                self.messages = Messages::Uniform;
            }
        }
    }

    /// The parts as a program sees them whose halos have the ends of edges both ways, unless they are that already. Where
    /// nothing was counted, as many rows are targets as sources, which is so in symmetric graphs.
    pub(super) fn with_both_ends(&mut self) {
        if self.targets.is_some() {
            return;
        }
        self.forget_loads();
        match self.both_ends.take() {
            Some(loads) => self.have(loads),
            None => {
                for sizes in &mut self.sizes {
                    sizes.halo *= 2;
                    sizes.edges += sizes.reach.halo_edges;
                }
                self.alpha *= 2.0;
                self.targets = Some(Targets {
                    rows: None,
                    share: 0.5,
                });
                self.messages = Messages::Uniform;
            }
        }
    }

    /// The parts with counted rows of sources and of targets.
    fn have(&mut self, loads: TargetLoads) {
        let vertices = self
            .sizes
            .first()
            .map_or(0, |sizes| sizes.of_graph())
            .max(1) as f64;
        let sum = |rows: &[Vec<u64>]| rows.iter().flatten().sum::<u64>() as f64;
        let (rows, targets) = (sum(&loads.messages), sum(&loads.targets));
        for (rank, sizes) in self.sizes.iter_mut().enumerate() {
            let of_rank = |all: &[Vec<u64>]| all.iter().map(|row| row[rank]).sum::<u64>();
            sizes.halo = of_rank(&loads.messages) + of_rank(&loads.targets);
            sizes.edges = loads.edges[rank];
            sizes.reach.halo_edges = loads.halo_edges[rank];
        }
        self.alpha = (rows + targets) / vertices;
        self.messages = Messages::Matrix(loads.messages);
        self.targets = Some(Targets {
            rows: Some(loads.targets),
            share: targets / (rows + targets).max(1.0),
        });
    }

    /// How many fewer rows ranks send if they send sums too, all ranks together.
    pub(crate) fn rows_saved_by_sums(&self) -> f64 {
        let rows = self.halo_rows() as f64;
        match &self.cover {
            Some(cover) => {
                let all = cover.messages.iter().chain(&cover.targets).flatten();
                rows - all.sum::<u64>() as f64
            }
            None => (1.0 - COVER) * rows,
        }
    }
}
