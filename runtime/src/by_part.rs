//! What programs read that a folder of parts does not hold.

use crate::part::Needs;
use gnnc_ir::program::{Halo, Program, Role};

/// Refuses a program whose ranks read edges of all vertices, or halos other than those of the parts, which no folder has.
///
/// # Errors
/// What it does, and what to do.
pub fn runs_on_parts(program: &Program) -> Result<(), String> {
    let needs = Needs::of(program);
    let walks = needs.all_edges.each().any(|(_, ways)| ways.walked);
    let whole = program.buffers.iter().any(|buffer| {
        let of_edges = matches!(buffer.role, Role::Relation(_) | Role::RelationDegree(_));
        of_edges && buffer.extent.of_whole_graph()
    });
    let what = if program.hops() > 0 && !program.draws_apart() {
        "draws batches from all edges"
    } else if program.pipeline.is_some() {
        "cuts parts into chunks"
    } else if program.node_ranks.is_some() {
        "sends rows once for each node, to ranks that follow from what all parts read"
    } else if program.equal_bits {
        "adds up vertices leaf by leaf, in the order of the whole graph"
    } else if program.halo == Halo::Cover {
        "sends partial sums, for vertices that follow from the edges between all parts"
    } else if program.in_groups() {
        "divides the vertices among groups of ranks"
    } else if walks || whole {
        "walks the edges of all vertices on each rank"
    } else if program.halo != Halo::Boundary {
        "has rows of all vertices on each rank"
    } else {
        return Ok(());
    };
    Err(format!(
        "it {what}, but a folder of parts holds the edges of each part by itself; train with --placement graph, or on \
         batches with --placement minibatch --topology own, or from the file of the whole graph"
    ))
}
