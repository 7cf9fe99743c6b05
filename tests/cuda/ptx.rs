//! Loops of an entry point in PTX, with their instructions and the bytes that they load and store.
//!
//! Blocks end at labels and branches. A loop is what reaches a branch back to a block that dominates
//! it (natural loops, Aho et al., Compilers, section 9.6).

use petgraph::Direction::Incoming;
use petgraph::algo::dominators::simple_fast;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::{BTreeMap, BTreeSet};

/// What one thread runs if it takes every branch that skips nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Instructions of PTX.
    pub instructions: u32,
    /// Bytes loaded from global memory.
    pub loaded: u32,
    /// Bytes stored to global memory.
    pub stored: u32,
}

impl Work {
    fn add(&mut self, other: Self, times: u32) {
        self.instructions += other.instructions * times;
        self.loaded += other.loaded * times;
        self.stored += other.stored * times;
    }

    /// The work of one instruction.
    fn of(instruction: &str) -> Self {
        let name = opcode(instruction);
        let parts: Vec<&str> = name.split('.').collect();
        let bytes = || {
            let digits = |part: &&str| part.trim_start_matches(|c: char| c.is_alphabetic()).parse();
            let bits: u32 = digits(parts.last().unwrap()).unwrap();
            let vectors = parts.iter().filter(|p| matches!(**p, "v2" | "v4"));
            let elements: u32 = vectors.map(|part| digits(part).unwrap()).sum();
            bits / 8 * elements.max(1)
        };
        let memory = ["ld", "st", "atom", "red"].contains(&parts[0]);
        let known = ["global", "shared", "param"];
        assert!(
            !memory || parts[1..].iter().any(|part| known.contains(part)),
            "{instruction}: expected a load or store of global, shared or parameter memory"
        );
        let global = |access: &str| parts[0] == access && parts.contains(&"global");
        Self {
            instructions: 1,
            loaded: if global("ld") { bytes() } else { 0 },
            stored: if global("st") { bytes() } else { 0 },
        }
    }
}

/// A loop of an entry point.
#[derive(Debug)]
pub struct Loop {
    /// Number of loops around it.
    pub depth: usize,
    blocks: BTreeSet<NodeIndex>,
}

/// The blocks of an entry point and its loops, in the order of the text.
#[derive(Debug)]
pub struct Entry {
    work: BTreeMap<NodeIndex, Work>,
    pub loops: Vec<Loop>,
}

impl Entry {
    /// Reads the entry point `name`.
    pub fn read(ptx: &str, name: &str) -> Self {
        let head = format!(".entry {name}(");
        let text = ptx
            .split(&head)
            .nth(1)
            .unwrap_or_else(|| panic!("no {name}"));
        let body = text
            .split("\n{")
            .nth(1)
            .unwrap()
            .split("\n}")
            .next()
            .unwrap();
        let blocks = blocks(body);
        let mut graph = DiGraph::<Work, ()>::new();
        let nodes: Vec<NodeIndex> = blocks
            .iter()
            .map(|block| graph.add_node(block.work))
            .collect();
        for (i, block) in blocks.iter().enumerate() {
            let next = (block.falls_through && i + 1 < blocks.len()).then_some(i + 1);
            let target = block.target.map(|label| {
                let found = blocks.iter().position(|b| b.label == Some(label));
                found.unwrap_or_else(|| panic!("{name}: no label {label}"))
            });
            for to in next.into_iter().chain(target) {
                graph.update_edge(nodes[i], nodes[to], ());
            }
        }
        let work = graph
            .node_indices()
            .map(|node| (node, graph[node]))
            .collect();
        Self {
            work,
            loops: loops(&graph, nodes[0]),
        }
    }

    /// The work of a round of a loop. The loops in it go round `inner_rounds` times.
    pub fn round(&self, of: &Loop, inner_rounds: u32) -> Work {
        let mut sum = Work::default();
        for block in &of.blocks {
            let inside = |l: &&Loop| l.depth > of.depth && l.blocks.contains(block);
            let times = if self.loops.iter().any(|l| inside(&l)) {
                inner_rounds
            } else {
                1
            };
            sum.add(self.work[block], times);
        }
        sum
    }

    /// Whether there is a loop in a loop.
    pub fn has_inner(&self, of: &Loop) -> bool {
        let mut inner = self.loops.iter().filter(|l| l.depth > of.depth);
        inner.any(|l| l.blocks.is_subset(&of.blocks))
    }
}

/// Instructions that run one after another.
#[derive(Default)]
struct Block<'a> {
    label: Option<&'a str>,
    work: Work,
    target: Option<&'a str>,
    falls_through: bool,
}

fn blocks(body: &str) -> Vec<Block<'_>> {
    let fresh = || Block {
        falls_through: true,
        ..Block::default()
    };
    let mut blocks = vec![fresh()];
    for line in body.lines().map(str::trim) {
        if let Some(label) = line.strip_suffix(':') {
            blocks.push(Block {
                label: Some(label),
                ..fresh()
            });
        }
        let Some(instruction) = line.strip_suffix(';').filter(|l| !l.starts_with('.')) else {
            continue;
        };
        let block = blocks.last_mut().unwrap();
        block.work.add(Work::of(instruction), 1);
        let ends = opcode(instruction).split('.').next();
        if !matches!(ends, Some("bra" | "ret")) {
            continue;
        }
        block.falls_through = instruction.starts_with('@');
        if ends == Some("bra") {
            block.target = instruction.split_whitespace().last();
        }
        blocks.push(fresh());
    }
    blocks
}

/// The name of an instruction, behind its predicate.
fn opcode(instruction: &str) -> &str {
    let mut words = instruction.split_whitespace();
    words
        .find(|word| !word.starts_with('@'))
        .unwrap_or_default()
}

fn loops(graph: &DiGraph<Work, ()>, first: NodeIndex) -> Vec<Loop> {
    let dominators = simple_fast(graph, first);
    let mut found: BTreeMap<NodeIndex, BTreeSet<NodeIndex>> = BTreeMap::new();
    for edge in graph.edge_indices() {
        let (from, head) = graph.edge_endpoints(edge).unwrap();
        let dominated = dominators.dominators(from);
        if !dominated.is_some_and(|mut over| over.any(|node| node == head)) {
            continue;
        }
        let blocks = found.entry(head).or_insert_with(|| BTreeSet::from([head]));
        let mut open = vec![from];
        while let Some(node) = open.pop() {
            if blocks.insert(node) {
                open.extend(graph.neighbors_directed(node, Incoming));
            }
        }
    }
    let depth = |head| {
        found
            .values()
            .filter(|blocks| blocks.contains(head))
            .count()
            - 1
    };
    let depths: Vec<usize> = found.keys().map(depth).collect();
    let loops = found.into_values().zip(depths);
    loops
        .map(|(blocks, depth)| Loop { depth, blocks })
        .collect()
}
