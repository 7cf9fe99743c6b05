//! The search for sums over edges that can be computed together.

use super::{MOST_COLUMNS, Pass, Passes, Softmax, heavy, inside};
use crate::lower::attention::{Factor, LogSum, difference, expensive, factors, log_sum};
use gnnc_ir::graph::op::Op;
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::{Graph, NodeId};
use std::collections::BTreeSet;

/// A search under way.
pub(super) struct Search<'a> {
    pub(super) graph: &'a Graph,
    pub(super) fixed: &'a [bool],
    pub(super) users: Vec<Vec<NodeId>>,
    /// The arguments that nodes depend on.
    pub(super) args: Vec<BTreeSet<u32>>,
    pub(super) found: &'a mut Passes,
}

impl Search<'_> {
    /// A pass for each log-sum-exp.
    pub(super) fn softmaxes(&mut self) {
        let graph = self.graph;
        for (id, _) in graph.iter() {
            let Some(LogSum {
                set,
                scores,
                top,
                total,
            }) = log_sum(graph, id)
            else {
                continue;
            };
            // One kernel sums dots over equally many columns.
            let width = self.dot_width(&[scores]).unwrap_or(1);
            if width == 0 {
                continue;
            }
            let heads = graph.ty(scores).heads;
            let alone =
                |id: NodeId| self.users[id.0 as usize].len() <= 2 && !graph.results.contains(&id);
            if self.fixed[id.0 as usize] || !alone(top) || !alone(total) {
                continue;
            }
            let number = self.found.list.len();
            self.found.list.push(Pass {
                set,
                to: End::Dst,
                heads,
                width,
                softmax: Some(Softmax {
                    scores,
                    log_sum: id,
                    weights: None,
                    kept: true,
                }),
                sums: Vec::new(),
                edges: Vec::new(),
                followers: Vec::new(),
            });
            self.found.of[id.0 as usize] = Some(number);
            for part in [top, total] {
                self.found.inlined[part.0 as usize] = true;
            }
        }
    }

    /// The sums over edges that may be part of a pass.
    pub(super) fn sums(&self, excluded: &dyn Fn(NodeId) -> bool) -> Vec<NodeId> {
        let graph = self.graph;
        let sums = graph.iter().filter(|(id, node)| {
            let sum = matches!(node.op, Op::Gather(_, _, Reduce::Sum));
            let skipped = self.fixed[id.0 as usize] || self.found.inlined[id.0 as usize];
            sum && !skipped && !excluded(*id)
        });
        sums.map(|(id, _)| id).collect()
    }

    /// Puts a sum into a pass that shares something expensive with it. A `wide` one starts a new
    /// pass if there is none.
    pub(super) fn place(&mut self, sum: NodeId, wide: bool) {
        let graph = self.graph;
        let Op::Gather(set, to, _) = graph.node(sum).op else {
            return;
        };
        let value = graph.node(sum).inputs[0];
        let needs = self.expensive_parts(&[value]);
        let heads = graph.ty(value).heads;
        if needs.is_empty() || graph.ty(value).columns() > MOST_COLUMNS {
            return;
        }
        let widths = [Some(graph.ty(value).width), self.dot_width(&[value])];
        for number in 0..self.found.list.len() {
            let pass = &self.found.list[number];
            let same = pass.set == set && pass.to == to && pass.heads == heads;
            let Some(width) = common_width(pass, &widths).filter(|_| same) else {
                continue;
            };
            if !self.joins(number, sum, value, &needs) {
                continue;
            }
            let weights = self.weights(number, value);
            let pass = &mut self.found.list[number];
            pass.width = width;
            pass.sums.push(sum);
            if let Some(softmax) = &mut pass.softmax {
                softmax.weights = softmax.weights.or(weights);
            }
            self.found.of[sum.0 as usize] = Some(number);
            return;
        }
        if wide {
            let width = graph.ty(value).width;
            if self.dot_width(&[value]).is_some_and(|dot| dot != width) {
                return;
            }
            self.found.of[sum.0 as usize] = Some(self.found.list.len());
            self.found.list.push(Pass {
                set,
                to,
                heads,
                width,
                softmax: None,
                sums: vec![sum],
                edges: Vec::new(),
                followers: Vec::new(),
            });
        }
    }

    /// Whether a sum may join a pass.
    fn joins(&self, number: usize, sum: NodeId, value: NodeId, needs: &BTreeSet<NodeId>) -> bool {
        let pass = &self.found.list[number];
        // A gradient that another stage sends arrives long after what a forward pass needs.
        let mut members = self.members(number).into_iter();
        if members.any(|id| self.args[id.0 as usize] != self.args[sum.0 as usize]) {
            return false;
        }
        // What follows on what is looked at last, since that takes as long as the graph is large.
        if let Some(softmax) = pass.softmax {
            // Every sum is weighted, and nothing else of its value depends on the softmax.
            return self.weights(number, value).is_some_and(|weights| {
                let others = factors(self.graph, value).into_iter();
                let mut others = others.filter(|factor| *factor != Factor::Node(weights));
                let is_same = softmax.weights.is_none_or(|known| known == weights);
                is_same && {
                    let after = self.follow(self.members(number));
                    others.all(|factor| factor.node().is_none_or(|id| !after[id.0 as usize]))
                }
            });
        }
        let values: Vec<NodeId> = pass
            .sums
            .iter()
            .map(|s| self.graph.node(*s).inputs[0])
            .collect();
        if self.expensive_parts(&values).is_disjoint(needs) {
            return false;
        }
        let members = self.members(number);
        let before = self.follow(vec![sum]);
        !self.follow(members.clone())[sum.0 as usize]
            && !members.iter().any(|id| before[id.0 as usize])
    }

    /// The weights of a pass's softmax, if a value is a product with them.
    fn weights(&self, number: usize, value: NodeId) -> Option<NodeId> {
        let softmax = self.found.list[number].softmax?;
        let is_weight = |factor: &Factor| match factor {
            Factor::Node(id) => {
                let scores = difference(self.graph, *id, softmax.log_sum);
                (scores == Some(softmax.scores)).then_some(*id)
            }
            Factor::Mask(..) => None,
        };
        let found: Vec<NodeId> = factors(self.graph, value)
            .iter()
            .filter_map(is_weight)
            .collect();
        match found[..] {
            [weights] => Some(weights),
            _ => None,
        }
    }

    /// The nodes that depend on some nodes. All results of a pass depend on what one of them depends
    /// on.
    pub(super) fn follow(&self, nodes: Vec<NodeId>) -> Vec<bool> {
        let mut follows = vec![false; self.graph.nodes.len()];
        let mut work = nodes;
        while let Some(id) = work.pop() {
            for &user in &self.users[id.0 as usize] {
                if std::mem::replace(&mut follows[user.0 as usize], true) {
                    continue;
                }
                work.push(user);
                let Some(pass) = self.found.of[user.0 as usize] else {
                    continue;
                };
                for member in self.members(pass) {
                    if !std::mem::replace(&mut follows[member.0 as usize], true) {
                        work.push(member);
                    }
                }
            }
        }
        follows
    }

    /// What a pass computes.
    pub(super) fn members(&self, number: usize) -> Vec<NodeId> {
        let pass = &self.found.list[number];
        let log_sum = pass.softmax.map(|softmax| softmax.log_sum);
        let results = pass.sums.iter().chain(&pass.edges);
        results.copied().chain(log_sum).collect()
    }

    /// The nodes that a pass would compute at each edge for these values.
    fn cone(&self, values: &[NodeId]) -> BTreeSet<NodeId> {
        let mut cone = BTreeSet::new();
        let mut work = values.to_vec();
        while let Some(id) = work.pop() {
            if inside(self.graph, id, self.fixed) && cone.insert(id) {
                work.extend(&self.graph.node(id).inputs);
            }
        }
        cone
    }

    fn expensive_parts(&self, values: &[NodeId]) -> BTreeSet<NodeId> {
        let mut cone = self.cone(values);
        cone.retain(|id| heavy(self.graph, *id));
        cone
    }

    /// Columns that the dots of some values sum, if they have any; 0 if these differ.
    fn dot_width(&self, values: &[NodeId]) -> Option<u32> {
        let dots = self.cone(values).into_iter().filter_map(|id| {
            let node = self.graph.node(id);
            matches!(node.op, Op::ReduceCols(..)).then(|| self.graph.ty(node.inputs[0]).width)
        });
        dots.reduce(|a, b| if a == b { a } else { 0 })
    }
}

/// The width that a pass can have with a sum of some more `widths`.
fn common_width(pass: &Pass, widths: &[Option<u32>]) -> Option<u32> {
    let mut width = pass.width;
    for other in widths.iter().flatten().filter(|width| **width != 1) {
        if *other == 0 || width != 1 && width != *other {
            return None;
        }
        width = *other;
    }
    Some(width)
}

impl Search<'_> {
    /// Decides which numbers passes compute where they need them, and which one stores what others
    /// read. Goes from results to operands.
    pub(super) fn edge_tensors(&mut self) {
        let graph = self.graph;
        let mut readers: Vec<BTreeSet<Option<usize>>> = vec![BTreeSet::new(); graph.nodes.len()];
        for (id, node) in graph.iter().rev() {
            let n = id.0 as usize;
            let mut own = BTreeSet::new();
            if graph.results.contains(&id) {
                own.insert(None);
            }
            for user in &self.users[n] {
                let u = user.0 as usize;
                own.extend(match self.found.of[u] {
                    Some(pass) => vec![Some(pass)],
                    None if inside(graph, *user, self.fixed) => {
                        readers[u].iter().copied().collect()
                    }
                    // What is part of a log-sum-exp is read by its pass.
                    None if self.found.inlined[u] => Vec::new(),
                    None => vec![None],
                });
            }
            // The scores of a softmax.
            for (number, pass) in self.found.list.iter().enumerate() {
                if pass.softmax.is_some_and(|softmax| softmax.scores == id) {
                    own.insert(Some(number));
                }
            }
            let passes: BTreeSet<usize> = own.iter().flatten().copied().collect();
            let only = !own.contains(&None) && !own.is_empty();
            readers[n] = own;
            if !inside(graph, id, self.fixed) || passes.is_empty() {
                continue;
            }
            let dot = matches!(node.op, Op::ReduceCols(..));
            let rows = |pass: &usize| !dot || passes.len() == 1 || self.has_rows(*pass, id);
            if only && passes.iter().all(rows) {
                self.found.inlined[n] = true;
                continue;
            }
            let narrow = node.ty.width == 1;
            if !narrow || !(dot || expensive(graph, id)) {
                continue;
            }
            // The first pass that needs it stores it for the others.
            let able = |pass: &&usize| {
                let of = &self.found.list[**pass];
                // A pass does not know its softmax while it computes numbers.
                let softmax = !self.follow(self.members(**pass))[n];
                let computes = of.heads == node.ty.heads && (!dot || self.has_rows(**pass, id));
                softmax && computes && self.may_store(**pass, id)
            };
            if let Some(&pass) = passes.iter().find(able) {
                self.found.list[pass].edges.push(id);
                self.found.of[n] = Some(pass);
                readers[n] = BTreeSet::from([Some(pass)]);
            }
        }
        for number in 0..self.found.list.len() {
            let Some(softmax) = self.found.list[number].softmax else {
                continue;
            };
            let log_sum = softmax.log_sum;
            let reads = |user: &NodeId| {
                let readers = &readers[user.0 as usize];
                let by_others = readers.iter().any(|reader| *reader != Some(number));
                !inside(graph, *user, self.fixed) && !matches!(graph.node(*user).op, Op::Take(..))
                    || by_others
            };
            let read = self.users[log_sum.0 as usize].iter().any(reads);
            if let Some(softmax) = &mut self.found.list[number].softmax {
                softmax.kept = read || graph.results.contains(&log_sum);
            }
        }
    }

    /// Whether no other reader of a number comes before the pass, so that it can store the number
    /// for all of them.
    fn may_store(&self, pass: usize, id: NodeId) -> bool {
        // Readers outside of the pass, behind what is computed at each edge.
        let (mut others, mut work) = (Vec::new(), vec![id]);
        let mut seen = BTreeSet::new();
        while let Some(id) = work.pop() {
            for &user in &self.users[id.0 as usize] {
                if self.found.of[user.0 as usize] == Some(pass) || !seen.insert(user) {
                    continue;
                }
                match inside(self.graph, user, self.fixed) {
                    true => work.push(user),
                    false => others.push(user),
                }
            }
        }
        let behind = self.follow(others);
        self.members(pass).iter().all(|id| !behind[id.0 as usize])
    }

    /// Whether a pass reads the rows at the other end that a dot needs anyway, to sum them.
    fn has_rows(&self, pass: usize, dot: NodeId) -> bool {
        let pass = &self.found.list[pass];
        let far = match pass.to {
            End::Dst => End::Src,
            End::Src => End::Dst,
        };
        let taken = |values: &[NodeId]| {
            let mut rows = BTreeSet::new();
            let mut work = values.to_vec();
            let mut seen = BTreeSet::new();
            while let Some(id) = work.pop() {
                let node = self.graph.node(id);
                if let Op::Take(_, end) = node.op {
                    if end == far && node.ty.width > 1 {
                        rows.insert(node.inputs[0]);
                    }
                } else if inside(self.graph, id, self.fixed)
                    && !matches!(node.op, Op::ReduceCols(..))
                    && seen.insert(id)
                {
                    work.extend(&node.inputs);
                }
            }
            rows
        };
        let values: Vec<NodeId> = pass
            .sums
            .iter()
            .map(|s| self.graph.node(*s).inputs[0])
            .collect();
        let summed = taken(&values);
        let needed = taken(&self.graph.node(dot).inputs);
        needed.is_subset(&summed)
    }
}
