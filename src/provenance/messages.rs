//! The messages of an epoch, and the decisions that they come from.

use super::TensorLayout;
use crate::{Error, Planner};
use gnnc_ir::cluster::Cluster;
use gnnc_ir::graph::op::Redistribute;
use gnnc_ir::kernel::End;
use gnnc_ir::plan::Layout;
use gnnc_ir::program::instr::{self, Collective};
use gnnc_ir::program::traffic::{Reads, traffic};
use gnnc_ir::program::{Instr, Program, Ref};
use gnnc_ir::words::units::Bytes;
use gnnc_planner::parts::Parts;
use gnnc_planner::search::PlacementSpec;
use gnnc_planner::simulate::reads_of_all;
use serde::Serialize;

/// A message of an epoch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    /// Place in the list of the epoch, such as `step 3.1`.
    pub at: String,
    /// What it does.
    pub what: String,
    /// What it moves.
    pub tensor: String,
    /// How often an epoch sends it.
    pub times: u64,
    /// Bytes that all ranks together send for it in an epoch.
    pub bytes: Bytes,
    /// The layouts and knobs that it comes from.
    pub decisions: Vec<String>,
}

/// The messages of a candidate.
///
/// # Errors
/// A candidate without a program.
pub(super) fn of(
    planner: &Planner,
    spec: &PlacementSpec,
    layouts: &[TensorLayout],
) -> Result<Vec<Message>, Error> {
    let (programs, parts) = planner.priced(spec)?;
    let mut found = Vec::new();
    for program in &programs {
        let stage = program.pipeline.filter(|_| programs.len() > 1);
        let list = List {
            program,
            spec,
            layouts,
        };
        let stage = stage.map_or(String::new(), |pipeline| {
            format!("stage {}, ", pipeline.stage)
        });
        each_message(
            planner.cluster(),
            program,
            &parts,
            &mut |at, instr, times, bytes| {
                found.push(Message {
                    at: format!("{stage}{at}"),
                    what: instr.name(program).to_owned(),
                    tensor: list.tensor(instr),
                    times,
                    bytes: Bytes(bytes),
                    decisions: list.decisions(instr),
                });
            },
        );
    }
    Ok(found)
}

/// Visits the instructions that send something in an epoch, with their places, how often they do, and the bytes that all
/// ranks of the program then send.
pub(crate) fn each_message(
    cluster: &Cluster,
    program: &Program,
    parts: &Parts,
    visit: &mut dyn FnMut(&str, &Instr, u64, u64),
) {
    let sends = Sends {
        program,
        parts,
        reads: reads_of_all(cluster, parts),
    };
    sends.of("step", &program.step, 1, visit);
}

/// How often a loop runs its body, as far as bytes are counted by turns.
pub(crate) fn times(instr: &Instr, parts: &Parts) -> u64 {
    if let Instr::Repeat(repeat) = instr {
        return u64::from(repeat.count);
    }
    let batches = parts.sizes.iter().map(|sizes| sizes.batch.count);
    match matches!(instr, Instr::Batches(_)) {
        true => batches.max().unwrap_or(1),
        false => 1,
    }
}

/// What a list sends.
struct Sends<'a> {
    program: &'a Program,
    parts: &'a Parts,
    reads: Reads,
}

impl Sends<'_> {
    fn of(
        &self,
        above: &str,
        instrs: &[Instr],
        turns: u64,
        visit: &mut dyn FnMut(&str, &Instr, u64, u64),
    ) {
        for (n, instr) in instrs.iter().enumerate() {
            let between = if above.contains(' ') { '.' } else { ' ' };
            let at = format!("{above}{between}{n}");
            if let Some(body) = instr.body() {
                self.of(&at, body, turns * times(instr, self.parts), visit);
                continue;
            }
            let sends = !matches!(instr, Instr::Finish(_));
            let bytes = self.bytes(instr) * turns;
            if sends && bytes > 0 {
                visit(&at, instr, turns, bytes);
            }
        }
    }

    fn bytes(&self, instr: &Instr) -> u64 {
        let one = std::slice::from_ref(instr);
        traffic(one, self.program, &self.reads, &self.parts.sizes).total_bytes
    }
}

/// The list of an epoch, and what its messages come from.
struct List<'a> {
    program: &'a Program,
    spec: &'a PlacementSpec,
    layouts: &'a [TensorLayout],
}

impl List<'_> {
    /// The name of what a message moves.
    fn tensor(&self, instr: &Instr) -> String {
        let name = |at: &Ref| self.program.buffer(at.buffer).name.clone();
        let all = |many: &[Ref]| match many {
            [] => String::new(),
            [one] => name(one),
            [one, rest @ ..] => format!("{} and {} more", name(one), rest.len()),
        };
        if let Some(end) = instr.stage_end() {
            return all(&end.message.tensors);
        }
        match instr.whole().collective() {
            Some(Collective::HaloExchange(one)) => name(&one.buffer),
            Some(Collective::HaloReduce(one)) => name(&one.buffer),
            Some(Collective::AllReduce(one)) => all(&one.buffers),
            Some(Collective::Redistribute(one)) => name(&one.from.at),
            Some(Collective::ServeRows(one)) => name(&one.from),
            Some(Collective::CacheRows(one)) => name(&one.from),
            Some(Collective::PushRows(one)) => name(&one.from),
            Some(Collective::Shift(one)) => all(&one.buffers),
            Some(
                Collective::DrawEdges(_) | Collective::AskRows(_) | Collective::ShareLevels(_),
            ) => "lists of a batch".to_owned(),
            None => String::new(),
        }
    }

    /// The layouts and knobs without which the message would not be there, or not be so.
    fn decisions(&self, instr: &Instr) -> Vec<String> {
        let tensor = self.tensor(instr);
        let by = |layout| self.layout(&tensor, layout);
        let mut found = match instr.whole().collective() {
            Some(Collective::HaloExchange(instr::HaloExchange { end, .. }))
            | Some(Collective::HaloReduce(instr::HaloReduce { end, .. })) => {
                let mut found = vec![by(Layout::Rows)];
                if *end == End::Dst {
                    let why = match self.spec.equal_bits() {
                        true => "equal-bits yes",
                        false => "cover joint",
                    };
                    found.push(why.to_owned());
                }
                if let Some(ranks) = self.spec.node_ranks() {
                    found.push(format!("node-ranks {ranks}"));
                }
                found
            }
            Some(Collective::Redistribute(one)) => match one.how {
                Redistribute::Split(_) | Redistribute::Join(_) => vec![by(Layout::Columns)],
                Redistribute::Replicate | Redistribute::Reduce | Redistribute::Own => {
                    vec![by(Layout::Columns), "features".to_owned()]
                }
            },
            Some(Collective::AllReduce(_)) => vec!["every rank has all weights".to_owned()],
            Some(Collective::Shift(_)) => vec!["placement model-migration".to_owned()],
            Some(
                Collective::DrawEdges(_)
                | Collective::AskRows(_)
                | Collective::ServeRows(_)
                | Collective::PushRows(_)
                | Collective::CacheRows(_)
                | Collective::ShareLevels(_),
            ) => vec!["sampled batches".to_owned()],
            None => vec!["stages".to_owned()],
        };
        if let Some(encoded) = instr.encoded() {
            found.push(format!("wire {}", encoded.wire));
        }
        found
    }

    /// The component with this layout that a tensor belongs to: of those in its layer, the one whose number is nearest. If
    /// there is none, which edges are meant cannot be told from names.
    fn layout(&self, tensor: &str, layout: Layout) -> String {
        let layer = |name: &str| name.split_once('.').map(|(layer, _)| layer.to_owned());
        let own = layer(tensor);
        let number = |name: &str| -> i64 {
            let behind = name.split_once('%').map_or("", |(_, behind)| behind);
            let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap_or(0)
        };
        let components = self.layouts.iter().filter(|one| one.layout == layout);
        let near = components.filter(|one| own.is_some() && layer(&one.name) == own);
        match near.min_by_key(|one| number(&one.name).abs_diff(number(tensor))) {
            Some(one) => format!("{} by {layout}", one.name),
            None => format!("edges by {layout}"),
        }
    }
}
