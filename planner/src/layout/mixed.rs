//! Which aggregations to cut: those that cost fewer messages on slices than with halos.

use super::components::Choice;
use super::{Ranks, by_columns};
use crate::lower::{LowerError, analysis::fixed};
use gnnc_ir::kernel::End;
use gnnc_ir::op::{Op, Redistribute};
use gnnc_ir::{Graph, NodeId, Rows};

/// The choice whose graph sends the fewest floats, where ranks read `alpha` V rows of each other
/// (α, the replication factor). From all aggregations by rows and from all on slices, one after the
/// other is changed as long as that helps; the better end is taken.
///
/// # Errors
/// A bug in the layouts.
pub fn cheapest(graph: &Graph, ranks: u32, alpha: f64) -> Result<Choice, LowerError> {
    let counted = Choice::default();
    let first = Ranks { ranks, rank: 0 };
    by_columns(graph, first, &counted)?;
    let cost = |cut: &[bool]| -> Result<f64, LowerError> {
        let placed = by_columns(graph, first, &Choice::new(cut.to_vec()))?;
        Ok(floats(&placed.pruned(), ranks, alpha))
    };
    let mut best: Option<(f64, Vec<bool>)> = None;
    for start in [true, false] {
        let mut cut = vec![start; counted.found()];
        let mut least = cost(&cut)?;
        loop {
            let before = least;
            for n in 0..cut.len() {
                cut[n] = !cut[n];
                let changed = cost(&cut)?;
                if changed < least {
                    least = changed;
                } else {
                    cut[n] = !cut[n];
                }
            }
            if least >= before {
                break;
            }
        }
        if best.as_ref().is_none_or(|(cost, _)| least < *cost) {
            best = Some((least, cut));
        }
    }
    Ok(Choice::new(best.map(|(_, cut)| cut).unwrap_or_default()))
}

/// Floats that all ranks send in a run of a graph, for each vertex.
fn floats(graph: &Graph, ranks: u32, alpha: f64) -> f64 {
    let fixed = fixed(graph);
    let others = f64::from(ranks) - 1.0;
    let mut exchanged: Vec<NodeId> = Vec::new();
    let mut sum = 0.0;
    for (_, node) in graph.iter().filter(|(id, _)| !fixed[id.0 as usize]) {
        let columns = f64::from(node.ty.columns());
        sum += match &node.op {
            Op::Redistribute(how) => match how {
                Redistribute::Split(slice) | Redistribute::Join(slice) => {
                    // Columns of the tensor by rows, whatever this rank's slice is.
                    let slices = match how {
                        Redistribute::Split(_) => {
                            columns / f64::from(slice.len) * f64::from(slice.of)
                        }
                        _ => columns,
                    };
                    others / f64::from(ranks) * slices
                }
                Redistribute::Replicate | Redistribute::Reduce => others * columns,
                Redistribute::Own => 0.0,
            },
            Op::Take(_, End::Src) if matches!(node.ty.rows, Rows::Edges(_)) => {
                let operand = node.inputs[0];
                let known = fixed[operand.0 as usize] || exchanged.contains(&operand);
                exchanged.push(operand);
                if known { 0.0 } else { alpha * columns }
            }
            Op::Gather(_, End::Src, _) if node.ty.rows == Rows::Vertices => alpha * columns,
            Op::Scan(scan) => f64::from(scan.count) * floats(&scan.body, ranks, alpha),
            _ => 0.0,
        };
    }
    sum
}
