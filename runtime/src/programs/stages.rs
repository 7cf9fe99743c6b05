//! The programs of a pipeline's stages: each stage receives exactly what another one sends.

use gnnc_graph::Partition;
use gnnc_ir::graph::ParamSpec;
use gnnc_ir::program::instr::{self, Encoded, StageEnd};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Instr, Neighbour, Pipeline, Program, Ref};
use gnnc_ir::words::spelling::counted;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// Checks the programs of all stages, in order.
///
/// # Errors
/// The first mismatch.
pub(super) fn check(programs: &[Arc<Program>], partition: &Partition) -> Result<(), String> {
    let first = programs.first().and_then(|program| program.pipeline);
    let first = first.ok_or("there is none; give one per stage")?;
    if first.stages as usize != programs.len() {
        return Err(format!(
            "found {} for {}; give one per stage",
            counted(programs.len(), "program"),
            counted(first.stages, "stage")
        ));
    }
    if first.chunks != partition.chunks() {
        return Err(format!(
            "it works on {}, but the partition is cut into {}; cut it into as many",
            counted(first.chunks, "chunk"),
            partition.chunks()
        ));
    }
    if first.interval == 0 {
        return Err("histories are updated every 0 epochs, expected at least 1".to_owned());
    }
    for (program, stage) in programs.iter().zip(0..) {
        let expected = Pipeline { stage, ..first };
        if program.pipeline != Some(expected) || program.ranks != programs[0].ranks {
            return Err(format!(
                "program {stage} is for {:?} of {}, expected {expected:?} of {}",
                program.pipeline,
                counted(program.ranks, "rank"),
                programs[0].ranks
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
                "stage {stage} has {what}, expected only in the last stage"
            ));
        }
    }
    parameters(programs)?;
    Phase::ALL
        .into_iter()
        .try_for_each(|phase| stage_messages(programs, phase))
}

/// Checks that every parameter, or element of a stack, is on one stage, and that elements of a
/// stack match.
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
                    (true, true) => "the same parameter, which belongs to one stage",
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

/// Checks that stages send each other the messages they expect, in the same order and without
/// deadlock. Runs each stage up to a message that nobody has sent yet; sends never wait.
fn stage_messages(programs: &[Arc<Program>], phase: Phase) -> Result<(), String> {
    let count = programs.len() as u32;
    let all = programs.iter().map(|program| messages(program, phase));
    let all: Vec<Vec<Message>> = all.collect::<Result<_, _>>()?;
    let mut left: Vec<&[Message]> = all.iter().map(Vec::as_slice).collect();
    // By sender and receiver.
    let mut mail: BTreeMap<(u32, u32), VecDeque<&Message>> = BTreeMap::new();
    let mut moved = true;
    while std::mem::take(&mut moved) {
        for (left, stage) in left.iter_mut().zip(0..) {
            while let [message, rest @ ..] = *left {
                let Some(other) = message.with.of(stage, count) else {
                    return Err(format!(
                        "{phase}: a message of {message}, but there is no stage at its other end"
                    ));
                };
                if message.sends {
                    mail.entry((stage, other)).or_default().push_back(message);
                } else {
                    let sent = mail.get_mut(&(other, stage)).and_then(VecDeque::pop_front);
                    let Some(sent) = sent else { break };
                    if !sent.fits(message) {
                        return Err(format!(
                            "{phase}: stage {other} sends {sent}, stage {stage} expects {message}"
                        ));
                    }
                }
                (*left, moved) = (rest, true);
            }
        }
    }
    let waiting = |stage: u32| left[stage as usize].first();
    let waits = (0..count).filter_map(|stage| {
        let message = waiting(stage)?;
        Some((stage, message.with.of(stage, count)?, message))
    });
    let alone = |(_, other, _): &(u32, u32, _)| waiting(*other).is_none();
    if let Some((stage, other, message)) = waits.clone().find(alone) {
        return Err(format!(
            "{phase}: stage {other} sends nothing, stage {stage} expects {message}"
        ));
    }
    if let Some((stage, other, message)) = waits.clone().next() {
        return Err(format!(
            "{phase}: stage {stage} waits for {message} from stage {other}, which itself waits for another stage; send \
             first what others wait for"
        ));
    }
    let over = mail
        .iter()
        .find_map(|(ends, sent)| Some((*ends, sent.front()?)));
    match over {
        Some(((from, to), message)) => Err(format!(
            "{phase}: stage {from} sends {message}, stage {to} expects nothing"
        )),
        None => Ok(()),
    }
}

/// A message to or from a stage beside this one.
struct Message {
    with: Neighbour,
    sends: bool,
    /// Position of the chunk in the order; `None` for all rows.
    chunk: Option<u32>,
    /// Words per row of each tensor.
    words: Vec<u32>,
}

impl Message {
    fn fits(&self, other: &Self) -> bool {
        (self.chunk, &self.words) == (other.chunk, &other.words)
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rows of {:?} words ", self.words)?;
        match self.chunk {
            Some(chunk) => write!(f, "of chunk {chunk}"),
            None => f.write_str("of all chunks"),
        }
    }
}

/// The messages of a list in order, chunk by chunk.
fn messages(program: &Program, phase: Phase) -> Result<Vec<Message>, String> {
    let chunks = program.pipeline.map_or(0, |pipeline| pipeline.chunks);
    let words = |at: &Ref, encoded: &Option<Encoded>| {
        let buffer = program.buffers.get(at.buffer.0 as usize);
        buffer
            .map(|b| Encoded::row_words(encoded, b))
            .ok_or_else(|| {
                let (id, count) = (at.buffer.0, program.buffers.len());
                format!("{phase}: a message of buffer {id} of {count}")
            })
    };
    let mut messages = Vec::new();
    let mut note = |instr: &Instr, chunk: Option<u32>| -> Result<(), String> {
        let Some(StageEnd { message, sends }) = instr.stage_end() else {
            return Ok(());
        };
        let words = |at| words(at, &message.encoded);
        let words: Result<_, _> = message.tensors.iter().map(words).collect();
        messages.push(Message {
            with: message.with,
            sends,
            chunk,
            words: words?,
        });
        Ok(())
    };
    for instr in program.list(phase) {
        let Instr::Chunks(instr::Chunks { reverse, body }) = instr else {
            note(instr, None)?;
            continue;
        };
        for place in 0..chunks {
            let place = if *reverse { chunks - 1 - place } else { place };
            for instr in body {
                note(instr, Some(place))?;
            }
        }
    }
    Ok(messages)
}
