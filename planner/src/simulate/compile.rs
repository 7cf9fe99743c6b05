//! Compiles instructions to durations per class of ranks.

mod collective;
mod exchange;
mod host;
mod known;
mod lines;
mod merged;
mod messages;
mod packing;
mod sizes;

use super::batch::BatchNeeds;
use super::fabric::Fabric;
use crate::parts::{ChunkShare, Parts};
use collective::Near;
use gnnc_ir::cluster::{Cluster, Costs, Link, SharedBy};
use gnnc_ir::kernel::{HUB_EDGES, Walk};
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::{Phase, Resource};
use gnnc_ir::program::work::{Counts, Pick, Work, demand};
use gnnc_ir::program::{Extent, Instr, Neighbour, Program, RankSizes};
use gnnc_ir::workload::Reuse;
use known::Known;
use lines::Line;
pub(super) use lines::Listing;
use messages::Messages;
use sizes::{of_classes, reach};
use std::rc::Rc;

/// The name of an instruction, and the resource it occupies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub text: &'static str,
    pub resource: Resource,
}

/// A step with its duration.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Computation: seconds by class.
    Compute {
        at: Rc<str>,
        name: usize,
        seconds: Vec<f64>,
    },
    /// The draw of a batch by threads that draw ahead.
    Draw {
        at: Rc<str>,
        name: usize,
        /// Seconds of one thread, by class.
        seconds: Vec<f64>,
        /// Threads of each rank.
        samplers: u32,
    },
    /// A communication, or one of its halves.
    Transfer {
        at: Rc<str>,
        name: usize,
        half: Half,
        cost: TransferCost,
    },
    /// A copy between the ranks and their hosts, or one of its halves.
    Move {
        at: Rc<str>,
        name: usize,
        half: Half,
        /// Whether it goes to the host; the two directions are independent.
        out: bool,
        /// Seconds by class.
        seconds: Vec<f64>,
    },
    /// A loop.
    Loop {
        count: u32,
        reverse: bool,
        body: Vec<Step>,
    },
    /// The batches of an epoch, several of which are under way: steps with their lags.
    Batches {
        count: u32,
        phases: Vec<(u32, Vec<Step>)>,
    },
    /// A body run for every chunk, in order of the chunks; a single body if all are alike.
    Chunks { count: u32, bodies: Vec<Vec<Step>> },
    /// Rows sent to another stage, or received from one.
    StageMessage {
        at: Rc<str>,
        name: usize,
        sends: bool,
        with: Neighbour,
        /// Bytes by class.
        bytes: Vec<f64>,
        /// Seconds of packing or unpacking by class; second, of unpacking rows that arrived
        /// earlier.
        packing: Vec<[f64; 2]>,
    },
}

/// Which part of a communication a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// All of it.
    Whole,
    /// Packs and sends the transfer with this tag.
    Begin(u32),
    /// Waits for it, and unpacks.
    Finish(u32),
}

/// The cost of a communication.
#[derive(Clone, Debug)]
pub(super) enum TransferCost {
    /// A halo exchange or reduce: costs by class, and who shares the links inside and between
    /// nodes.
    Halo {
        costs: Vec<ExchangeCost>,
        shared: [SharedBy; 2],
    },
    /// The same for all ranks, each of which sends to every other.
    Everyone(CollectiveCost),
}

/// One rank's part in a collective.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CollectiveCost {
    /// Packing, before anything is sent.
    pub before: f64,
    /// What the messages cost the processor, if it computes meanwhile.
    pub handling: f64,
    /// The messages.
    pub messages: f64,
    /// Work after all ranks have received the messages: unpacking or adding up, and messages with
    /// sums.
    pub after: f64,
    /// Bytes a rank sends at first, and bytes it sends after receiving.
    pub bytes_sent: [u64; 2],
}

/// One rank's part in an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExchangeCost {
    /// Packing, before anything is sent.
    pub before: f64,
    /// What the messages cost the processor, if it computes meanwhile.
    pub handling: f64,
    /// Time from the start to the first byte of the last message.
    pub latency: f64,
    /// Busy time of the links inside the node: for sending, and for receiving.
    pub inside: [f64; 2],
    /// The same between nodes.
    pub between: [f64; 2],
    /// Adding up what was received.
    pub after: f64,
    /// Whether it sends or receives any rows.
    pub active: bool,
    /// Bytes sent.
    pub bytes_sent: u64,
}

impl Step {
    /// Whether a rank may wait for another, or for its host.
    pub fn communicates(&self) -> bool {
        match self {
            Self::Compute { .. } => false,
            // What is drawn next depends on when batches were taken.
            Self::Draw { .. } => true,
            Self::Transfer { .. } => true,
            Self::StageMessage { .. } | Self::Move { .. } => true,
            Self::Loop { body, .. } => body.iter().any(Self::communicates),
            Self::Batches { phases, .. } => {
                let mut steps = phases.iter().flat_map(|(_, steps)| steps);
                steps.any(Self::communicates)
            }
            Self::Chunks { bodies, .. } => bodies.iter().flatten().any(Self::communicates),
        }
    }
}

/// Turns instructions into steps.
pub(super) struct Compiler<'a> {
    program: &'a Program,
    cluster: &'a Cluster,
    fabric: &'a Fabric,
    parts: &'a Parts,
    names: Vec<Name>,
    costs: Option<&'a Costs>,
    /// Threads of each rank that draw batches while it trains.
    samplers: u32,
    near: Near,
    /// What batches of the list keep.
    batches: BatchNeeds,
    /// What lines of the list cost, for the share at hand.
    known: Known,
    /// The share of the current chunk; everything without chunks.
    share: ChunkShare,
    /// The same share of the ranks of each class.
    shares: Vec<RankSizes>,
    /// What ranks of each class hold of the vertices that edges lead from at a time.
    reach: Vec<RankSizes>,
}

impl<'a> Compiler<'a> {
    pub fn new(
        program: &'a Program,
        cluster: &'a Cluster,
        fabric: &'a Fabric,
        parts: &'a Parts,
    ) -> Self {
        let measured = cluster.calibration.measured.as_ref();
        Self {
            program,
            cluster,
            fabric,
            parts,
            names: Vec::new(),
            costs: measured.and_then(|measured| measured.of(program.ranks)),
            samplers: parts.batch.as_ref().map_or(0, |batch| batch.samplers),
            near: Near::default(),
            batches: BatchNeeds::default(),
            known: Known::default(),
            share: ChunkShare::even(1),
            shares: of_classes(fabric, ChunkShare::even(1)),
            reach: reach(program, fabric, parts),
        }
    }

    /// Overhead of running a list, besides its instructions.
    pub fn around(&self) -> f64 {
        self.costs.map_or(0.0, |costs| costs.around.0)
    }

    /// The steps of a list, and the names they refer to.
    pub fn compile(self, phase: Phase) -> (Vec<Step>, Vec<Name>) {
        let list = Listing::of(self.program, phase);
        self.compile_list(&list)
    }

    /// The same of a list that was analyzed before.
    pub fn compile_list(mut self, list: &Listing) -> (Vec<Step>, Vec<Name>) {
        self.batches = BatchNeeds::of(self.program, list.phase);
        self.names.clone_from(&list.names);
        self.known = Known::nothing(list);
        let mut steps = self.list(&list.lines);
        self.merge(self.program.list(list.phase), &list.lines, &mut steps);
        (steps, self.names)
    }

    fn list(&mut self, lines: &[Line]) -> Vec<Step> {
        lines.iter().map(|line| self.step(line)).collect()
    }

    fn step(&mut self, line: &Line) -> Step {
        let (at, name) = (line.at.clone(), line.name);
        if let Some(end) = line.instr.stage_end() {
            return self.stage_message(end.message, end.sends, at, name);
        }
        let half = if let Instr::Begin(transfer) = line.instr {
            Half::Begin(transfer.tag)
        } else if let Instr::Finish(transfer) = line.instr {
            Half::Finish(transfer.tag)
        } else {
            Half::Whole
        };
        let whole = line.instr.whole();
        if let Instr::Move(instr::Move { from, to, chunk }) = whole {
            return self.moved_rows((*from, *to), *chunk, half, at, name);
        }
        if let Instr::FetchRows(fetch) = whole
            && fetch.is_from_host(self.program)
        {
            return self.moved_rows((fetch.from, fetch.to), None, half, at, name);
        }
        if whole.communicates() {
            let cost = self.known.transfer(line.kind).unwrap_or_else(|| {
                let cost = self.transfer(whole, name);
                self.known.keep_transfer(line.kind, &cost);
                cost
            });
            return Step::Transfer {
                at,
                name,
                half,
                cost,
            };
        }
        if let Instr::Repeat(instr::Repeat { count, reverse, .. }) = whole {
            return Step::Loop {
                count: *count,
                reverse: *reverse,
                body: self.list(&line.body),
            };
        }
        if matches!(whole, Instr::Batches(_)) {
            let sizes = self.parts.sizes.first();
            let count = sizes.map_or(1, |sizes| sizes.batch.count.max(1) as u32);
            let mut phases = vec![(0, Vec::new())];
            for line in &line.body {
                if let Instr::Lag(lag) = line.instr {
                    phases.push((lag.by, Vec::new()));
                } else if let Some((_, steps)) = phases.last_mut() {
                    steps.push(self.step(line));
                }
            }
            return Step::Batches { count, phases };
        }
        if let Instr::Sets(_) = whole {
            return self.each_set(&line.body);
        }
        if let Instr::Chunks(instr::Chunks { reverse, .. }) = whole {
            return self.each_chunk(*reverse, &line.body);
        }
        // A history is kept in some epochs; this is the mean over all.
        let interval = match self.program.pipeline {
            Some(pipeline) if matches!(whole, Instr::Remember(_)) => pipeline.interval.max(1),
            Some(_) | None => 1,
        };
        if let Instr::Sample(_) = whole {
            return self.draw(line);
        }
        // The work of what computes is declared beside the instruction.
        self.computed(line, 1.0 / f64::from(interval))
    }

    /// The sets of a batch, which are taken for alike. Models go on after all but the last one.
    fn each_set(&mut self, body: &[Line]) -> Step {
        let sizes = self.parts.sizes.first();
        let sets = sizes.map_or(1, |sizes| sizes.batch.sets.max(1)) as u32;
        let all = self.list(body);
        let stays = |line: &&Line| !line.instr.communicates();
        let last = body
            .iter()
            .filter(stays)
            .map(|line| self.step(line))
            .collect();
        let times = |count, body| Step::Loop {
            count,
            reverse: false,
            body,
        };
        times(1, vec![times(sets - 1, all), times(1, last)])
    }

    fn each_chunk(&mut self, reverse: bool, body: &[Line]) -> Step {
        let pipeline = self.program.pipeline;
        let count = pipeline.map_or(1, |pipeline| pipeline.chunks.max(1));
        let mut shares = match self.parts.chunks.get(&count) {
            Some(counted) => counted.clone(),
            None => vec![ChunkShare::even(count)],
        };
        if reverse {
            shares.reverse();
        }
        let before = self.share;
        let mut bodies = Vec::with_capacity(shares.len());
        for share in shares {
            self.take(share);
            bodies.push(self.list(body));
        }
        self.take(before);
        Step::Chunks { count, bodies }
    }

    fn take(&mut self, share: ChunkShare) {
        self.known.clear();
        self.share = share;
        self.shares = of_classes(self.fabric, share);
    }

    /// Computation that runs in a fraction of the epochs.
    fn computed(&mut self, line: &Line, share: f64) -> Step {
        let mut seconds = self.known.computed(line.kind).unwrap_or_else(|| {
            let classes = 0..self.fabric.classes.len();
            let seconds = classes.map(|class| self.instruction(&line.counts, class));
            let seconds: Vec<f64> = seconds.collect();
            self.known.keep_computed(line.kind, &seconds);
            seconds
        });
        seconds.iter_mut().for_each(|seconds| *seconds *= share);
        Step::Compute {
            at: line.at.clone(),
            name: line.name,
            seconds,
        }
    }

    /// Measured costs of the messages of an instruction. `None` if there are none, or if messages
    /// leave the node on which they were measured.
    fn messages(&self, name: usize) -> Option<Messages<'a>> {
        let costs = self.costs.filter(|_| self.one_node())?;
        let group = self.names[name].text;
        let measured = costs.groups.contains_key(group);
        measured.then_some(Messages { costs, group })
    }

    fn one_node(&self) -> bool {
        self.fabric.nodes.len() == 1
    }

    /// The time of an instruction over the share at hand, on a rank of a class: as measured for its
    /// demand, otherwise from peak rates and efficiencies.
    fn instruction(&self, counts: &Counts, class: usize) -> f64 {
        let measured = self.costs.and_then(|costs| {
            let held = &self.fabric.classes[class].sizes;
            let demand = demand(
                self.program,
                counts.instr(),
                &self.shares[class],
                held,
                self.parts.degrees.reuse(),
            )?;
            costs.seconds(&demand)
        });
        measured.unwrap_or_else(|| {
            self.busy(counts, class)
                .map_or(0.0, |busy| busy.max(self.cluster.launch_floor()))
        })
    }

    /// The time of an instruction from peak rates and efficiencies, without the time of a launch. `None` for what
    /// computes nothing.
    fn busy(&self, counts: &Counts, class: usize) -> Option<f64> {
        let work = counts.work(&self.shares[class])?;
        let picks = counts.picks(&self.shares[class], &self.reach[class]);
        let longest = self.longest_row(counts.instr(), &self.shares[class]);
        let reuse = self.parts.degrees.reuse();
        let sampled = counts
            .instr()
            .launch()
            .is_some_and(|launch| launch.rows.of_batch());
        let seconds = if sampled {
            self.roofline(&work, &picks, &reuse.shuffled())
        } else {
            self.roofline(&work, &picks, reuse)
        };
        Some(seconds.max(longest))
    }

    /// The time of the longest row of a kernel of a GPU that walks the edges of each row, which a group of threads
    /// walks one after the other. Zero for other kernels, and for sampled rows, which are short.
    fn longest_row(&self, instr: &Instr, sizes: &RankSizes) -> f64 {
        let Instr::Launch(launch) = instr else {
            return 0.0;
        };
        let by_vertex = Walk::of(&self.program.kernel(launch.kernel).body).by_vertex();
        let sampled = matches!(launch.rows, Extent::Level(_));
        let of_edge = self.cluster.calibration.edge_latency.0;
        if !by_vertex || sampled || of_edge == 0.0 {
            return 0.0;
        }
        let longest = self.parts.degrees.longest(sizes.rows(launch.rows));
        of_edge * longest.min(HUB_EDGES as f64)
    }

    /// `max(launch floor, operations / rate, bytes / bandwidth)` of work that picks no rows.
    fn kernel(&self, work: &Work) -> f64 {
        self.roofline(work, &[], &Reuse::default())
            .max(self.cluster.launch_floor())
    }

    /// `max(operations / rate, bytes / bandwidth)`.
    fn roofline(&self, work: &Work, picks: &[Pick], reuse: &Reuse) -> f64 {
        let device = &self.cluster.device;
        let efficiency = self.cluster.calibration.of(work.class);
        let compute = work.flops.0 / (device.flops * efficiency.compute);
        compute.max(device.memory_seconds(work, picks, reuse, efficiency))
    }

    fn seconds(&self, bytes: f64, link: &Link) -> f64 {
        bytes / self.bandwidth(link)
    }

    fn bandwidth(&self, link: &Link) -> f64 {
        link.bandwidth * self.cluster.calibration.link_efficiency
    }

    /// Time from the start to the first byte of the last of several messages.
    fn latency(&self, messages: u32, beyond_node: bool) -> f64 {
        if messages == 0 {
            return 0.0;
        }
        let link = if beyond_node {
            &self.cluster.between
        } else {
            &self.cluster.inside
        };
        let gap = self.cluster.calibration.message_gap.0;
        let gap = gap.max(self.cluster.software.message.0);
        self.cluster.latency_of(link) + f64::from(messages - 1) * gap
    }
}
