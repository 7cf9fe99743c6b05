//! The network: computes when messages arrive.

use super::compile::{CollectiveCost, ExchangeCost, TransferCost};
use super::fabric::Fabric;
use gnnc_ir::cluster::SharedBy;

/// Messages in flight; times by class.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flight {
    /// When the rank has packed and sent.
    pub arrived: Vec<f64>,
    /// When all ranks it exchanges with have done so too.
    pub ready: Vec<f64>,
    /// When the rows it waits for have arrived.
    pub end: Vec<f64>,
}

impl TransferCost {
    /// Seconds of packing.
    pub fn before(&self, class: usize) -> f64 {
        match self {
            Self::Halo { costs, .. } => costs[class].before,
            Self::Everyone(cost) => cost.before,
        }
    }

    /// Seconds of the processor that messages take from what it computes meanwhile.
    pub fn handling(&self, class: usize) -> f64 {
        match self {
            Self::Halo { costs, .. } => costs[class].handling,
            Self::Everyone(cost) => cost.handling,
        }
    }

    /// Seconds after the messages have arrived.
    pub fn after(&self, class: usize) -> f64 {
        match self {
            Self::Halo { costs, .. } => costs[class].after,
            Self::Everyone(cost) => cost.after,
        }
    }

    /// Bytes a rank sends at first, and bytes it sends after receiving.
    pub fn bytes_sent(&self, class: usize) -> [u64; 2] {
        match self {
            Self::Halo { costs, .. } => [costs[class].bytes_sent, 0],
            Self::Everyone(cost) => cost.bytes_sent,
        }
    }

    /// Whether the work after the messages needs all ranks again.
    pub fn together(&self) -> bool {
        matches!(self, Self::Everyone(cost) if cost.bytes_sent[1] > 0)
    }
}

/// Sends the messages of a communication at the times `clock`. `network` has, for each class, when
/// its links have delivered all messages; this updates it.
pub(super) fn begin(
    fabric: &Fabric,
    cost: &TransferCost,
    clock: &[f64],
    network: &mut [f64],
) -> Flight {
    match cost {
        TransferCost::Halo { costs, shared } => exchange(fabric, costs, shared, clock, network),
        TransferCost::Everyone(cost) => collective(cost, clock, network),
    }
}

/// A collective begins when all ranks have arrived; one that sends nothing waits for nobody.
fn collective(cost: &CollectiveCost, clock: &[f64], network: &mut [f64]) -> Flight {
    let arrived: Vec<f64> = clock.iter().map(|t| t + cost.before).collect();
    if cost.messages == 0.0 && cost.bytes_sent == [0; 2] {
        return Flight {
            ready: arrived.clone(),
            end: arrived.clone(),
            arrived,
        };
    }
    let latest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    let ready = latest(&arrived);
    let end = ready.max(latest(network)) + cost.messages;
    network.fill(end);
    Flight {
        ready: vec![ready; arrived.len()],
        end: vec![end; arrived.len()],
        arrived,
    }
}

/// A rank's exchange begins when it and all ranks it exchanges rows with have arrived, and its
/// links are free.
fn exchange(
    fabric: &Fabric,
    costs: &[ExchangeCost],
    shared: &[SharedBy; 2],
    clock: &[f64],
    network: &mut [f64],
) -> Flight {
    let classes = &fabric.classes;
    let arrived: Vec<f64> = clock.iter().zip(costs).map(|(t, c)| t + c.before).collect();
    let latest = arrived.iter().copied().fold(0.0, f64::max);
    let together: Vec<f64> = (0..classes.len())
        .map(|class| match &classes[class].peers[..] {
            _ if !costs[class].active => arrived[class],
            [] => latest,
            peers => peers
                .iter()
                .map(|&p| arrived[p])
                .fold(arrived[class], f64::max),
        })
        .collect();
    let free: Vec<f64> = (together.iter().zip(&*network))
        .map(|(together, network)| together.max(*network))
        .collect();
    let drained = |direction: usize| drained(fabric, costs, shared, &free, direction);
    let (sent, received) = (drained(0), drained(1));
    let last_sent = sent.iter().copied().fold(0.0, f64::max);
    let end = |class: usize| {
        if !costs[class].active {
            return together[class];
        }
        // A message has arrived when its sender's link has delivered it.
        let from_others = match &classes[class].peers[..] {
            [] => last_sent,
            peers => peers.iter().map(|&p| sent[p]).fold(0.0, f64::max),
        };
        sent[class].max(received[class]).max(from_others)
    };
    let end: Vec<f64> = (0..classes.len()).map(end).collect();
    for (class, network) in network.iter_mut().enumerate() {
        if costs[class].active {
            *network = sent[class].max(received[class]);
        }
    }
    Flight {
        arrived,
        ready: together,
        end,
    }
}

/// When the links have delivered everything each class sends (direction 0) or receives (1), if they
/// are free at `free`.
fn drained(
    fabric: &Fabric,
    costs: &[ExchangeCost],
    shared: &[SharedBy; 2],
    free: &[f64],
    direction: usize,
) -> Vec<f64> {
    let ready = |class: usize| free[class] + costs[class].latency;
    let mut ends: Vec<f64> = (0..costs.len()).map(ready).collect();
    for (level, shared) in shared.iter().enumerate() {
        let busy = |class: usize| match level {
            0 => costs[class].inside[direction],
            _ => costs[class].between[direction],
        };
        match shared {
            SharedBy::Rank => {
                for (class, end) in ends.iter_mut().enumerate() {
                    *end = end.max(ready(class) + busy(class));
                }
            }
            SharedBy::Node => {
                for node in &fabric.nodes {
                    let end = last_served(&node.members, &ready, &busy);
                    for &(class, _) in node.members.iter().filter(|(class, _)| busy(*class) > 0.0) {
                        ends[class] = ends[class].max(end);
                    }
                }
            }
        }
    }
    ends
}

/// When a shared link has served all ranks of a node, in the order in which they become ready.
fn last_served(
    members: &[(usize, u32)],
    ready: &impl Fn(usize) -> f64,
    busy: &impl Fn(usize) -> f64,
) -> f64 {
    let using = || members.iter().filter(|(class, _)| busy(*class) > 0.0);
    let from = |start: f64| -> f64 {
        let later = using().filter(|(class, _)| ready(*class) >= start);
        start
            + later
                .map(|(class, count)| busy(*class) * f64::from(*count))
                .sum::<f64>()
    };
    using()
        .map(|(class, _)| from(ready(*class)))
        .fold(0.0, f64::max)
}
