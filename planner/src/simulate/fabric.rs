//! Which ranks communicate over which links; identical ranks form a class.

use crate::parts::{Groups, Messages, Nodes, Parts, Targets, Tiers};
use gnnc_ir::cluster::Cluster;
use gnnc_ir::program::RankSizes;

/// Ranks of equal sizes in nodes of equal composition.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Class {
    /// The ranks, ascending.
    pub ranks: Vec<u32>,
    /// The sizes of each rank's data.
    pub sizes: RankSizes,
    /// Rows of a halo exchange; a halo reduce goes the other way.
    pub flow: Flow,
    /// The same of the targets of edges.
    pub targets: Flow,
    /// The same of rows of groups, of which a rank exchanges its slice.
    pub of_groups: Flow,
    /// Classes it exchanges rows with; empty means all.
    pub peers: Vec<usize>,
}

/// Rows one rank reads (`in`), and rows others read from it (`out`), by level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Flow {
    pub inside_in: f64,
    pub inside_out: f64,
    pub between_in: f64,
    pub between_out: f64,
    /// If rows cross to a node once: rows of other nodes that come from a rank of the node, and rows that the rank passes on.
    pub forwarded: f64,
    pub passed: f64,
    /// Number of messages it sends or receives, whichever is larger.
    pub messages: u32,
}

/// Nodes whose ranks are of the same classes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// Ranks per node.
    pub ranks: u32,
    /// Classes, with the number of ranks of each in one node.
    pub members: Vec<(usize, u32)>,
}

/// The ranks of a program on the nodes of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fabric {
    pub ranks: u32,
    pub classes: Vec<Class>,
    pub nodes: Vec<Node>,
    /// Seconds of the shortest kernel; 0 where measured costs say what a launch takes.
    pub floor: f64,
}

impl Fabric {
    /// The fabric of ranks from `first` on, one per part.
    pub fn new(cluster: &Cluster, parts: &Parts, first: u32) -> Self {
        let (mut classes, nodes) = match &parts.messages {
            Messages::Uniform => uniform(cluster, &parts.sizes, first),
            Messages::Matrix(rows) => {
                let targets = parts.targets.as_ref();
                let targets = targets.and_then(|targets| targets.rows.as_ref());
                single(cluster, &parts.sizes, rows, targets, first)
            }
        };
        if let Some(groups) = &parts.groups {
            in_lanes(&mut classes, cluster, groups);
        }
        if let Some(Targets { rows: None, share }) = &parts.targets {
            for class in &mut classes {
                (class.targets, class.flow) =
                    (class.flow.times(*share), class.flow.times(1.0 - share));
            }
        }
        if let Some(on_nodes) = &parts.nodes {
            cross_once(&mut classes, &nodes, parts, on_nodes);
        }
        Self {
            ranks: parts.sizes.len() as u32,
            classes,
            nodes,
            floor: match cluster.calibration.measured {
                Some(_) => 0.0,
                None => cluster.launch_floor(),
            },
        }
    }
}

impl Fabric {
    /// Rows of an exchange of sources, of targets, and of rows of groups by all ranks of them, that cross between nodes, if
    /// there are several.
    pub fn crossing_rows(&self) -> [u64; 3] {
        let crossing = |of: fn(&Class) -> &Flow| {
            let rows = self.classes.iter();
            let rows = rows.map(|class| class.ranks.len() as f64 * of(class).between_out);
            rows.sum::<f64>().round() as u64
        };
        [
            crossing(|class| &class.flow),
            crossing(|class| &class.targets),
            crossing(|class| &class.of_groups),
        ]
    }
}

/// Lets ranks exchange rows of groups with those that have the same slice.
fn in_lanes(classes: &mut [Class], cluster: &Cluster, groups: &Groups) {
    let rows = groups.messages();
    let count = groups.parts.sizes.len();
    let others = count.saturating_sub(1) as f64;
    let all: u64 = groups.parts.halo_rows();
    for class in classes {
        let Some(&rank) = class.ranks.first() else {
            continue;
        };
        let node_of = |rank: usize| cluster.node_of(rank as u32) as usize;
        if let Some(rows) = &rows {
            let (flow, peers) = flow(rows, rank as usize, &node_of);
            class.of_groups = flow;
            if !class.peers.is_empty() {
                class.peers.extend(peers);
                class.peers.sort_unstable();
                class.peers.dedup();
            }
            continue;
        }
        let lane =
            (0..count).map(|group| group * groups.ranks as usize + (rank % groups.ranks) as usize);
        let near = lane.filter(|other| node_of(*other) == node_of(rank as usize));
        let near = near.count().saturating_sub(1) as f64;
        let own = groups.parts.sizes.get((rank / groups.ranks) as usize);
        let own = own.map_or(0, |sizes| sizes.halo) as f64;
        let written = (all as f64 - own) / others.max(1.0);
        class.of_groups = Flow {
            inside_in: own * near / others.max(1.0),
            inside_out: written * near / others.max(1.0),
            between_in: own * (others - near) / others.max(1.0),
            between_out: written * (others - near) / others.max(1.0),
            messages: if all > 0 { count as u32 - 1 } else { 0 },
            ..Flow::default()
        };
    }
}

/// Lets each row cross to a node once. On a single node of the cluster, the ranks that exchange with all others are
/// taken to be spread over the nodes of the program evenly.
fn cross_once(classes: &mut [Class], nodes: &[Node], parts: &Parts, on_nodes: &Nodes) {
    let beyond = parts.share_beyond(on_nodes.node_ranks);
    let counted = !on_nodes.counted.is_empty();
    let apart = nodes.len() > 1;
    for class in classes {
        let rank = class.ranks.first().map(|rank| *rank as usize);
        for flow in [&mut class.flow, &mut class.targets] {
            let far = |between: f64, inside: f64| match apart {
                true => between,
                false => inside * beyond,
            };
            let (read, written) = (
                far(flow.between_in, flow.inside_in),
                far(flow.between_out, flow.inside_out),
            );
            let tiers = match parts.tiers(rank.filter(|_| counted), read) {
                Some(tiers) if counted => tiers,
                Some(tiers) => Tiers {
                    crossing: written * on_nodes.crossing,
                    passed: written * (1.0 - on_nodes.crossing),
                    ..tiers
                },
                None => continue,
            };
            if apart {
                (flow.between_in, flow.between_out) = (tiers.arriving, tiers.crossing);
            } else {
                // All rows stay in the node, those that are passed on in a second message.
                flow.inside_in -= tiers.forwarded;
                flow.inside_out -= tiers.passed;
            }
            (flow.forwarded, flow.passed) = (tiers.forwarded, tiers.passed);
        }
    }
}

/// The rows that a rank exchanges with others, given who reads how many rows of whom; and these other ranks.
fn flow(rows: &[Vec<u64>], rank: usize, node_of: &dyn Fn(usize) -> usize) -> (Flow, Vec<usize>) {
    let (mut flow, mut peers) = (Flow::default(), Vec::new());
    let (mut sent, mut received) = (0, 0);
    for other in (0..rows.len()).filter(|&other| other != rank) {
        let (read, written) = (rows[other][rank] as f64, rows[rank][other] as f64);
        if node_of(other) == node_of(rank) {
            flow.inside_in += read;
            flow.inside_out += written;
        } else {
            flow.between_in += read;
            flow.between_out += written;
        }
        sent += u32::from(written > 0.0);
        received += u32::from(read > 0.0);
        if read + written > 0.0 {
            peers.push(other);
        }
    }
    flow.messages = sent.max(received);
    (flow, peers)
}

impl Flow {
    /// A share of all rows.
    fn times(self, share: f64) -> Self {
        Self {
            inside_in: share * self.inside_in,
            inside_out: share * self.inside_out,
            between_in: share * self.between_in,
            between_out: share * self.between_out,
            forwarded: share * self.forwarded,
            passed: share * self.passed,
            messages: self.messages,
        }
    }
}

/// Makes every rank its own class.
fn single(
    cluster: &Cluster,
    sizes: &[RankSizes],
    rows: &[Vec<u64>],
    targets: Option<&Vec<Vec<u64>>>,
    first: u32,
) -> (Vec<Class>, Vec<Node>) {
    let count = sizes.len();
    let node_of =
        |rank: usize| (cluster.node_of(first + rank as u32) - cluster.node_of(first)) as usize;
    let mut nodes: Vec<Node> = Vec::new();
    let mut classes = Vec::with_capacity(count);
    for (rank, sizes) in sizes.iter().enumerate() {
        let node = node_of(rank);
        if node == nodes.len() {
            nodes.push(Node {
                ranks: 0,
                members: Vec::new(),
            });
        }
        nodes[node].ranks += 1;
        nodes[node].members.push((rank, 1));
        let (flow, mut peers) = flow(rows, rank, &node_of);
        let (of_targets, others) = match targets {
            Some(rows) => self::flow(rows, rank, &node_of),
            None => Default::default(),
        };
        peers.extend(others);
        peers.sort_unstable();
        peers.dedup();
        classes.push(Class {
            ranks: vec![rank as u32],
            sizes: *sizes,
            flow,
            targets: of_targets,
            of_groups: Flow::default(),
            peers,
        });
    }
    (classes, nodes)
}

/// Finds classes if each halo is spread evenly over all other ranks.
fn uniform(cluster: &Cluster, sizes: &[RankSizes], first: u32) -> (Vec<Class>, Vec<Node>) {
    let mut kinds: Vec<RankSizes> = Vec::new();
    let kind_of: Vec<usize> = sizes
        .iter()
        .map(|sizes| position_or_push(&mut kinds, *sizes))
        .collect();
    // Compositions of nodes: number of ranks of each kind.
    let per_node = cluster.devices_per_node.max(1) as usize;
    // Slots of a node used by ranks before the first one.
    let taken = first as usize % per_node;
    let of_first = kind_of.len().min(per_node - taken);
    let nodes_of_kinds = [&kind_of[..of_first]]
        .into_iter()
        .chain(kind_of[of_first..].chunks(per_node));
    let mut compositions: Vec<Vec<(usize, u32)>> = Vec::new();
    let mut composition_of = Vec::new();
    for ranks in nodes_of_kinds {
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        let mut composition: Vec<(usize, u32)> = Vec::new();
        for kind in sorted {
            match composition.last_mut() {
                Some((last, count)) if *last == kind => *count += 1,
                _ => composition.push((kind, 1)),
            }
        }
        composition_of.push(position_or_push(&mut compositions, composition));
    }
    let total: u64 = sizes.iter().map(|s| s.halo).sum();
    let others = sizes.len().saturating_sub(1) as f64;
    let (mut classes, mut nodes): (Vec<Class>, Vec<Node>) = (Vec::new(), Vec::new());
    let mut class_of = vec![Vec::new(); compositions.len()];
    for (node, composition) in compositions.iter().enumerate() {
        let ranks: u32 = composition.iter().map(|(_, count)| count).sum();
        let halo: u64 = composition
            .iter()
            .map(|(kind, count)| kinds[*kind].halo * u64::from(*count))
            .sum();
        let mut members = Vec::new();
        for &(kind, count) in composition {
            let own = kinds[kind].halo as f64;
            let near = f64::from(ranks - 1);
            let flow = if others > 0.0 && total > 0 {
                Flow {
                    inside_in: own * near / others,
                    inside_out: (halo as f64 - own) / others,
                    between_in: own * (others - near) / others,
                    between_out: (total - halo) as f64 / others,
                    messages: sizes.len() as u32 - 1,
                    ..Flow::default()
                }
            } else {
                Flow::default()
            };
            members.push((classes.len(), count));
            class_of[node].push((kind, classes.len()));
            classes.push(Class {
                ranks: Vec::new(),
                sizes: kinds[kind],
                flow,
                targets: Flow::default(),
                of_groups: Flow::default(),
                peers: Vec::new(),
            });
        }
        nodes.push(Node { ranks, members });
    }
    for (rank, kind) in kind_of.iter().enumerate() {
        let node = composition_of[(rank + taken) / per_node];
        if let Some((_, class)) = class_of[node].iter().find(|(k, _)| k == kind) {
            classes[*class].ranks.push(rank as u32);
        }
    }
    (classes, nodes)
}

fn position_or_push<T: PartialEq>(list: &mut Vec<T>, value: T) -> usize {
    list.iter().position(|v| *v == value).unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::parts;
    use gnnc_ir::plan::Partitioner;
    use gnnc_ir::workload::Workload;

    #[test]
    fn a_thousand_ranks_are_a_handful_of_classes() {
        let workload = Workload {
            replication: [(8, 2.61)].into(),
            ..crate::parts::tests::workload(1_000_003, 50_000_007)
        };
        let parts = parts(&workload, 1024, Partitioner::Metis).unwrap();
        let cluster = Cluster::named("h100x8")
            .unwrap()
            .resized(Some(1024), None)
            .unwrap();
        let fabric = Fabric::new(&cluster, &parts, 0);
        assert!(fabric.classes.len() <= 16, "{}", fabric.classes.len());
        assert_eq!(
            fabric.classes.iter().map(|c| c.ranks.len()).sum::<usize>(),
            1024
        );
        // Rows sent equal rows received, at both levels, and add up to the halos.
        let sum = |f: fn(&Flow) -> f64| -> f64 {
            fabric
                .classes
                .iter()
                .map(|c| c.ranks.len() as f64 * f(&c.flow))
                .sum()
        };
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
        near(sum(|f| f.inside_in), sum(|f| f.inside_out));
        near(sum(|f| f.between_in), sum(|f| f.between_out));
        near(
            sum(|f| f.inside_in + f.between_in),
            parts.halo_rows() as f64,
        );
    }
}
