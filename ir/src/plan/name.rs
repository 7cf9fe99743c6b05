//! Names of candidates.

use super::{Candidate, Parameters, Partitioner, Placement};

impl Candidate {
    /// Placement, ranks and partitioner: `graph x 8 metis`.
    pub fn name(&self) -> String {
        candidate_name(self.placement, &self.parameters)
    }
}

/// Name of a candidate: placement, ranks (stages x ranks of each), virtual stages if there are
/// several per rank, partitioner, chunks if there are several, the rule for skipping, storage
/// unless 32-bit, and `host` if tensors are offloaded.
///
/// Examples: `graph x 8 metis`, `tensor x 8 hash / 4`, `hybrid 4x2 metis / 16`,
/// `pipeline 4x1 x 2 virtual / 4`, `skip-broadcast x 8 adaptive:1`, `graph x 8 metis bf16`,
/// `graph x 1 + host`.
pub fn candidate_name(placement: Placement, parameters: &Parameters) -> String {
    let mut name = match (parameters.stages, parameters.groups) {
        (Some(stages), Some(groups)) => format!("{placement} {stages}x{groups}"),
        _ => format!("{placement} x {}", parameters.ranks),
    };
    if let Some(turns) = parameters.turns {
        name = format!("{name} x {turns} virtual");
    }
    // Default with copies: METIS for `cut`, else consecutive rows (`range`).
    let usual = parameters.skip.map(|skipping| match skipping.cut {
        true => Partitioner::Metis,
        false => Partitioner::Range,
    });
    if let Some(partitioner) = parameters.partitioner.filter(|p| Some(*p) != usual) {
        name = format!("{name} {partitioner}");
    }
    if let Some(chunks) = parameters.chunks {
        name = format!("{name} / {chunks}");
    }
    if let Some(skipping) = parameters.skip {
        name = format!("{name} {skipping}");
    }
    if !parameters.storage.is_f32() {
        name = format!("{name} {}", parameters.storage);
    }
    if parameters.offload == Some(true) {
        name += " + host";
    }
    name
}
