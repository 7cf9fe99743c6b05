//! Draws batches from edges that ranks hold apart: each those into its own vertices.

use crate::error::LowerError;
use gnnc_ir::program::instr::{Batches, DrawEdges, DrawnBuffer};
use gnnc_ir::program::{Instr, Program};
use gnnc_ir::words::sampling::{Drawn, Topology};

/// The program that asks other ranks for edges, if its batches say so.
///
/// # Errors
/// A model that reads types or features of edges, or whose hops run over named sets of them.
pub fn apart(mut program: Program) -> Result<Program, LowerError> {
    if !program.draws_apart() {
        return Ok(program);
    }
    if program.ranks <= 1 {
        let lists = [&mut program.sampling, &mut program.evaluation];
        let lists = lists.into_iter().flatten();
        lists.for_each(|sampling| sampling.topology = Topology::All);
        return Ok(program);
    }
    for (phase, index) in program.batch_loops() {
        let Some(sampling) = program.batches_of(phase) else {
            continue;
        };
        let levels: Vec<u8> = sampling.asks_into().collect();
        let named = !sampling.over.is_empty();
        let Instr::Batches(Batches { body }) = &program.list(phase)[index] else {
            continue;
        };
        let mut body = body.clone();
        let outputs = body.iter().filter_map(|instr| {
            if let Instr::Numbers(numbers) = instr {
                Some(&numbers.outputs)
            } else {
                None
            }
        });
        let of_edge = |one: &DrawnBuffer| match one.drawn {
            Drawn::Relation(..) | Drawn::RelationDegree(..) => Some("types of edges"),
            Drawn::EdgeFeatures(..) => Some("features of edges"),
            Drawn::Kept(..) | Drawn::Scale(..) | Drawn::Degree(..) => None,
        };
        let read = outputs.flatten().find_map(of_edge);
        if let Some(what) = read.or(named.then_some("named sets of edges")) {
            return Err(LowerError::Illegal(format!(
                "the model reads {what}, which workers do not send each other; leave out --topology own"
            )));
        }
        let sampled = (body.iter()).position(|instr| matches!(instr, Instr::Sample(_)));
        let behind = sampled.map_or(0, |sample| sample + 1);
        let draws = levels
            .into_iter()
            .map(|level| Instr::DrawEdges(DrawEdges { level }));
        body.splice(behind..behind, draws);
        program.list_mut(phase)[index] = Instr::Batches(Batches { body });
    }
    Ok(program)
}
