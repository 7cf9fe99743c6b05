//! The programs of the stages of a pipeline: what one stage sends, the next one receives.

use gnnc_graph::Partition;
use gnnc_ir::graph::ParamSpec;
use gnnc_ir::program::{Instr, Neighbour, Passage, Pipeline, Program, Ref};
use gnnc_ir::trace::Phase;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Checks the programs of all stages, in order.
///
/// # Errors
/// The first thing that does not fit.
pub(super) fn check(programs: &[Arc<Program>], partition: &Partition) -> Result<(), String> {
    let first = programs.first().and_then(|program| program.pipeline);
    let first = first.ok_or("there is none; give one for each stage")?;
    if first.stages as usize != programs.len() {
        return Err(format!(
            "there are {} programs for {} stages; give one for each stage",
            programs.len(),
            first.stages
        ));
    }
    if first.chunks != partition.chunks() {
        return Err(format!(
            "it works on {} chunks, the partition is cut into {}; cut it into as many",
            first.chunks,
            partition.chunks()
        ));
    }
    if first.interval == 0 {
        return Err("histories are kept every 0 epochs, expected at least 1".to_owned());
    }
    for (program, stage) in programs.iter().zip(0..) {
        let expected = Pipeline { stage, ..first };
        if program.pipeline != Some(expected) || program.ranks != programs[0].ranks {
            return Err(format!(
                "program {stage} is for {:?} of {} ranks, expected {expected:?} of {}",
                program.pipeline, program.ranks, programs[0].ranks
            ));
        }
        let results = [
            ("a loss", program.loss.is_some()),
            ("metrics", program.metrics.is_some()),
            ("logits", program.logits.is_some()),
        ];
        let last = stage + 1 == first.stages;
        if let Some((what, _)) = results.iter().find(|(_, there)| *there && !last) {
            return Err(format!(
                "stage {stage} has {what}, expected only the last one to"
            ));
        }
    }
    parameters(programs)?;
    Phase::ALL
        .into_iter()
        .try_for_each(|phase| passages(programs, phase))
}

/// Every parameter, or element of a stack, is on one stage; elements of a stack fit each other.
fn parameters(programs: &[Arc<Program>]) -> Result<(), String> {
    let mut seen: BTreeMap<&str, Vec<(usize, &ParamSpec)>> = BTreeMap::new();
    for (stage, program) in programs.iter().enumerate() {
        for spec in &program.params {
            let known = seen.entry(&spec.name).or_default();
            let shape = |spec: &ParamSpec| (spec.whole(), spec.element.map(|e| e.of));
            for (other_stage, other) in known.iter() {
                let difference = match (shape(other) == shape(spec), other.element == spec.element)
                {
                    (false, _) => "of different shapes",
                    (true, true) => "the same one, which belongs to one stage",
                    (true, false) => continue,
                };
                return Err(format!(
                    "parameters `{}` on stages {other_stage} and {stage} are {difference}",
                    spec.name
                ));
            }
            known.push((stage, spec));
        }
    }
    Ok(())
}

/// Neighbours send each other what they expect, in the same order.
fn passages(programs: &[Arc<Program>], phase: Phase) -> Result<(), String> {
    for (pair, stage) in programs.windows(2).zip(0..) {
        let (here, next) = (&pair[0], &pair[1]);
        for (sender, receiver, sends, receives) in [
            (
                stage,
                stage + 1,
                messages(here, phase, Neighbour::Next, true)?,
                messages(next, phase, Neighbour::Previous, false)?,
            ),
            (
                stage + 1,
                stage,
                messages(next, phase, Neighbour::Previous, true)?,
                messages(here, phase, Neighbour::Next, false)?,
            ),
        ] {
            if sends != receives {
                return Err(format!(
                    "{phase}: stage {sender} sends {}, stage {receiver} expects {}",
                    listed(&sends),
                    listed(&receives)
                ));
            }
        }
    }
    for (program, beyond) in [
        (programs.first(), Neighbour::Previous),
        (programs.last(), Neighbour::Next),
    ] {
        let Some(program) = program else { continue };
        for sends in [true, false] {
            let found = messages(program, phase, beyond, sends)?;
            if !found.is_empty() {
                return Err(format!(
                    "{phase}: a message of {}, where no stage is",
                    listed(&found)
                ));
            }
        }
    }
    Ok(())
}

/// Messages in their order: whether they are of chunks, in which order of these, and the words of a row of their
/// tensors. Those in one body go together.
type Messages = Vec<(Option<bool>, Vec<Vec<u32>>)>;

/// What a program sends to, or receives from, a neighbour in a list.
fn messages(
    program: &Program,
    phase: Phase,
    with: Neighbour,
    sends: bool,
) -> Result<Messages, String> {
    let columns = |at: &Ref| {
        let buffer = program.buffers.get(at.buffer.0 as usize);
        buffer.map(|b| b.row_words()).ok_or_else(|| {
            let (id, count) = (at.buffer.0, program.buffers.len());
            format!("{phase}: a message of buffer {id} of {count}")
        })
    };
    let mine = |instr: &Instr| -> Option<Result<Vec<u32>, String>> {
        let passage: &Passage = match instr {
            Instr::Send(passage) if sends => passage,
            Instr::Receive(passage) if !sends => passage,
            _ => return None,
        };
        (passage.with == with).then(|| passage.tensors.iter().map(columns).collect())
    };
    let mut messages = Messages::new();
    for instr in program.list(phase) {
        let (order, found) = match instr {
            Instr::Chunks { reverse, body } => (
                Some(*reverse),
                body.iter()
                    .filter_map(mine)
                    .collect::<Result<Vec<_>, _>>()?,
            ),
            _ => (None, mine(instr).into_iter().collect::<Result<_, _>>()?),
        };
        if !found.is_empty() {
            messages.push((order, found));
        }
    }
    Ok(messages)
}

fn listed(messages: &Messages) -> String {
    let one = |(chunks, columns): &(Option<bool>, Vec<Vec<u32>>)| {
        let order = match chunks {
            None => "at once",
            Some(false) => "by chunk",
            Some(true) => "by chunk backwards",
        };
        format!("rows of {columns:?} words {order}")
    };
    match messages.is_empty() {
        true => "nothing".to_owned(),
        false => messages.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}
