//! How many rows ranks read of each other.

use super::{Messages, Parts};
use gnnc_ir::program::traffic::Reads;

impl Parts {
    /// Rows that the ranks read from each other, in total.
    pub fn halo_rows(&self) -> u64 {
        match &self.messages {
            Messages::Matrix(rows) => rows.iter().flatten().sum(),
            Messages::Uniform => self.sizes.iter().map(|s| s.halo).sum(),
        }
    }

    /// The same by owner. If parts were not counted, all ranks that own vertices read from each
    /// other.
    pub fn reads(&self) -> Reads {
        let mut reads = self.reads_of_halos();
        if let Some(groups) = &self.groups {
            reads.of_groups = groups.parts.halo_rows();
        }
        let Some(targets) = &self.targets else {
            return reads;
        };
        if let Some(rows) = &targets.rows {
            reads.sums = rows.iter().flatten().sum();
        } else {
            for rows in &mut reads.rows {
                let sums = (targets.share * *rows as f64).round() as u64;
                *rows -= sums;
                reads.sums += sums;
            }
        }
        reads
    }

    /// The rows of halos; of sources alone, if those of targets were counted.
    fn reads_of_halos(&self) -> Reads {
        match &self.messages {
            Messages::Matrix(rows) => Reads::by_owner(rows.iter().map(Vec::as_slice)),
            Messages::Uniform => {
                let owners = self.sizes.iter().filter(|s| s.inner > 0).count() as u64;
                let others = self.sizes.len().saturating_sub(1) as u64;
                Reads {
                    rows: self.sizes.iter().map(|s| s.halo).collect(),
                    pairs: owners * others,
                    ..Reads::default()
                }
            }
        }
    }
}
