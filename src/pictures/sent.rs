//! The bytes that each rank sends to each other one in an epoch.

use crate::Planner;
use crate::provenance::each_message;
use gnnc_ir::cluster::Cluster;
use gnnc_ir::graph::op::Redistribute;
use gnnc_ir::kernel::End;
use gnnc_ir::plan::Candidate;
use gnnc_ir::program::instr::Collective;
use gnnc_ir::program::traffic::{chunk, redistribute_floats};
use gnnc_ir::program::{Among, Instr, Neighbour, Program, RankSizes};
use gnnc_planner::parts::{Messages, Parts};
use serde::Serialize;

/// Most ranks whose pairs are counted.
const MOST_RANKS: u32 = 2048;
/// Most rows of the matrix; with more ranks, several share one.
const MOST_ROWS: u32 = 128;

/// Bytes between ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sent {
    /// Ranks.
    pub ranks: u32,
    /// Consecutive ranks that share a row and a column.
    pub ranks_per_row: u32,
    /// Whether each pair follows from the graph's partition. Otherwise the bytes of some messages are those of the plan, but
    /// it is not known between whom, and they are spread evenly, by the rows that are read, or by nodes.
    pub by_pair: bool,
    /// Bytes of an epoch, as in the plan.
    pub total_bytes: u64,
    /// `[i][j]`: bytes that row `i` sends to row `j`, rounded.
    pub bytes: Vec<Vec<u64>>,
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Owners of rows to those that read them or add to them.
    Owners(End),
    /// Those to the owners.
    Readers(End),
    /// Everybody sums a chunk of so many floats.
    AllReduce(u64),
    /// Tensors with so many heads of such a width are laid out anew.
    Redistribute(Redistribute, u32, u32),
    /// To a neighboring stage.
    Stage(Neighbour),
    /// To the others, as far as is known evenly.
    Others,
}

impl Sent {
    /// What a candidate sends, for one program or one per stage; `None` if there are too many ranks, or one.
    pub(super) fn of(
        planner: &Planner,
        programs: &[Program],
        parts: &Parts,
        candidate: &Candidate,
    ) -> Option<Self> {
        let ranks = candidate.parameters.ranks;
        if !(2..=MOST_RANKS).contains(&ranks) {
            return None;
        }
        let of_node = planner.cluster().devices_per_node.max(1);
        let ranks_per_row = match ranks > MOST_ROWS {
            true => of_node.max(ranks.div_ceil(MOST_ROWS)),
            false => 1,
        };
        let rows = ranks.div_ceil(ranks_per_row) as usize;
        let mut sums = vec![vec![0.0; rows]; rows];
        let mut by_pair = true;
        let stage = parts.sizes.len().max(1);
        for (number, program) in programs.iter().enumerate() {
            let mut ways: Vec<(Way, f64)> = Vec::new();
            each_message(
                planner.cluster(),
                program,
                parts,
                &mut |_, instr, _, bytes| {
                    let way = way(instr, program);
                    match ways.iter_mut().find(|(known, _)| *known == way) {
                        Some((_, all)) => *all += bytes as f64,
                        None => ways.push((way, bytes as f64)),
                    }
                },
            );
            for (way, bytes) in ways {
                let spread = Spread {
                    parts,
                    way,
                    stage: number,
                    stages: programs.len(),
                };
                by_pair &= spread.is_known();
                let mut pairs = spread.pairs(stage);
                if let (Way::Owners(_) | Way::Readers(_), Some(_)) = (way, &parts.nodes) {
                    by_node(planner.cluster(), candidate, &mut pairs);
                }
                let all: f64 = pairs.iter().map(|(.., weight)| weight).sum();
                for (from, to, weight) in pairs {
                    let at = |rank: usize| (rank / ranks_per_row as usize).min(rows - 1);
                    sums[at(from)][at(to)] += bytes * weight / all.max(f64::MIN_POSITIVE);
                }
            }
        }
        let rounded = |row: Vec<f64>| row.into_iter().map(|bytes| bytes.round() as u64).collect();
        Some(Self {
            ranks,
            ranks_per_row,
            by_pair,
            total_bytes: candidate.bytes.0,
            bytes: sums.into_iter().map(rounded).collect(),
        })
    }
}

/// Makes pairs in different nodes have the share of all halo rows that crosses between nodes.
fn by_node(cluster: &Cluster, candidate: &Candidate, pairs: &mut [(usize, usize, f64)]) {
    let volume = &candidate.volume;
    let crossing = volume.halo_between.0 as f64 / (volume.halo.0 as f64).max(1.0);
    let crosses = |(from, to, _): &(usize, usize, f64)| {
        cluster.node_of(*from as u32) != cluster.node_of(*to as u32)
    };
    for (there, share) in [(true, crossing), (false, 1.0 - crossing)] {
        let these = || pairs.iter().filter(|pair| crosses(pair) == there);
        let all: f64 = these().map(|(.., weight)| weight).sum();
        for pair in pairs.iter_mut().filter(|pair| crosses(pair) == there) {
            pair.2 *= share / all.max(f64::MIN_POSITIVE);
        }
    }
}

fn way(instr: &Instr, program: &Program) -> Way {
    if let Some(end) = instr.stage_end() {
        return Way::Stage(end.message.with);
    }
    match instr.whole().collective() {
        Some(Collective::HaloExchange(one)) => Way::Owners(one.end),
        Some(Collective::HaloReduce(one)) => Way::Readers(one.end),
        Some(Collective::AllReduce(one)) if one.among == Among::All => {
            Way::AllReduce(one.floats(program))
        }
        Some(Collective::Redistribute(one)) => Way::Redistribute(one.how, one.heads, one.width),
        Some(
            Collective::AllReduce(_)
            | Collective::DrawEdges(_)
            | Collective::AskRows(_)
            | Collective::ServeRows(_)
            | Collective::PushRows(_)
            | Collective::CacheRows(_)
            | Collective::ShareLevels(_)
            | Collective::Shift(_),
        )
        | None => Way::Others,
    }
}

/// How the bytes of messages spread over pairs of ranks.
struct Spread<'a> {
    parts: &'a Parts,
    way: Way,
    stage: usize,
    stages: usize,
}

impl Spread<'_> {
    /// Rows by owner and by the rank that reads them or adds up for them, if they were counted.
    fn rows(&self, end: End) -> Option<&[Vec<u64>]> {
        match (end, &self.parts.messages, &self.parts.targets) {
            (End::Src, Messages::Matrix(rows), _) => Some(rows),
            (End::Dst, _, Some(targets)) => targets.rows.as_deref(),
            (End::Src, Messages::Uniform, _) | (End::Dst, _, None) => None,
        }
    }

    /// Whether what each pair sends is known.
    fn is_known(&self) -> bool {
        match self.way {
            Way::Owners(end) | Way::Readers(end) => {
                self.parts.nodes.is_none() && self.rows(end).is_some()
            }
            Way::AllReduce(_) | Way::Redistribute(..) | Way::Stage(_) => true,
            Way::Others => self.parts.sizes.len() == 2,
        }
    }

    /// The pairs that send, with a share of the bytes that need not add up to 1. The stages have so many ranks each.
    fn pairs(&self, ranks: usize) -> Vec<(usize, usize, f64)> {
        let first = self.stage * ranks;
        if let Way::Stage(with) = self.way {
            let other = match with {
                Neighbour::Next => self.stage + 1,
                Neighbour::Previous => self.stage + self.stages - 1,
            } % self.stages.max(1);
            let rank = |(n, sizes): (usize, &RankSizes)| {
                (first + n, other * ranks + n, sizes.inner as f64)
            };
            return self.parts.sizes.iter().enumerate().map(rank).collect();
        }
        let own: Vec<u64> = self.parts.sizes.iter().map(|sizes| sizes.inner).collect();
        let mut found = Vec::new();
        for from in 0..ranks {
            for to in (0..ranks).filter(|to| *to != from) {
                found.push((first + from, first + to, self.weight(from, to, &own)));
            }
        }
        found
    }

    fn weight(&self, from: usize, to: usize, own: &[u64]) -> f64 {
        let counted = |end: End, owner: usize, reader: usize| match self.rows(end) {
            Some(rows) => rows[owner][reader] as f64,
            None => 1.0,
        };
        let ranks = own.len() as u32;
        match self.way {
            Way::Owners(end) => counted(end, from, to),
            Way::Readers(end) => counted(end, to, from),
            Way::AllReduce(floats) => {
                let chunk = |rank: usize| {
                    let own = chunk(floats, ranks, rank as u32);
                    (own.end - own.start) as f64
                };
                // The summands of the other's chunk, and the sum of the own one.
                chunk(from) + chunk(to)
            }
            Way::Redistribute(how, heads, width) => {
                let pair = (from as u32, to as u32);
                redistribute_floats(how, (heads, width), ranks, own, pair) as f64
            }
            Way::Stage(_) | Way::Others => 1.0,
        }
    }
}
