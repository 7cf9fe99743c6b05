//! The launch of an edge pass.

use super::{Pass, Softmax, inside};
use crate::lower::attention::{Factor, has_factor};
use crate::lower::kernel::Builder;
use crate::lower::produce::sum_rows;
use crate::lower::region::{Region, Value};
use crate::lower::{LowerError, Lowerer};
use gnnc_ir::graph::op::Op;
use gnnc_ir::kernel::expr::{Expr, Value as Scalar};
use gnnc_ir::kernel::{At, Body, EdgePass, EdgeResult, End};
use gnnc_ir::program::Instr;
use gnnc_ir::program::instr;
use gnnc_ir::words::scalar::Unary;
use gnnc_ir::{NodeId, Type};
use std::collections::{BTreeMap, BTreeSet};

impl Region<'_> {
    /// Computes the results of a pass, and before them whatever they are computed from.
    pub fn edge_pass(&mut self, lowerer: &mut Lowerer, number: usize) -> Result<(), LowerError> {
        let graph = self.graph;
        let pass = self.facts.passes.list[number].clone();
        let lasts: Vec<NodeId> = pass.sums.iter().map(|sum| self.last_of(*sum)).collect();
        let scores = pass.softmax.map(|softmax| softmax.scores);
        let values = pass.sums.iter().map(|sum| graph.node(*sum).inputs[0]);
        let roots: Vec<NodeId> = values
            .chain(pass.edges.iter().copied())
            .chain(scores)
            .collect();
        for &root in &roots {
            self.prepare(lowerer, root, number, None)?;
            let n = root.0 as usize;
            let elsewhere = self.facts.stored[n] && self.facts.passes.of[n] != Some(number);
            if elsewhere && self.value(root).is_none() {
                self.emit_node(lowerer, root)?;
            }
        }
        for (sum, last) in pass.sums.iter().zip(&lasts) {
            self.prepare(lowerer, *last, number, Some(*sum))?;
            self.fetch_embeddings(lowerer, *sum)?;
            self.fetch_embeddings(lowerer, *last)?;
        }
        self.fetch_halos_of(lowerer, &roots)?;

        let Some(first) = roots.first().map(|root| graph.ty(*root)) else {
            return Ok(());
        };
        let space = Type {
            heads: pass.heads,
            width: pass.width,
            ..first
        };
        let mut builder = Builder::new(space);
        builder.unit = pass.softmax.and_then(|softmax| softmax.weights);
        let mut numbers = Vec::new();
        for factor in self.numbers(&pass, &roots) {
            numbers.push(builder.edge_number(self, &factor)?);
            builder.numbers.push(factor);
        }
        let known = builder.numbers.clone();
        let index = |id: NodeId| {
            let found = known.iter().position(|known| *known == Factor::Node(id));
            let missing = || LowerError::Internal(format!("{id} is no number of its pass"));
            found.map(|n| n as u16).ok_or_else(missing)
        };
        let (mut results, mut outputs, mut sent) = (Vec::new(), Vec::new(), Vec::new());
        for (sum, last) in pass.sums.iter().zip(lasts) {
            let value = builder.value(self, graph.node(*sum).inputs[0])?;
            let finish = match last == *sum {
                true => Expr::leaf(Scalar::Acc),
                false => builder.finish(self, last, *sum)?,
            };
            results.push(EdgeResult::Sum { value, finish });
            let out = self.sum_target(lowerer, &pass, (*sum, last), &mut sent);
            outputs.push((out.operand(At::Row), out.at));
            self.values[last.0 as usize] = Some(out);
        }
        for &id in &pass.edges {
            results.push(EdgeResult::Number(index(id)?));
            let extent = lowerer.extent(graph.ty(id));
            let out = self.target(lowerer, id, extent);
            outputs.push((out.operand(At::Edge), out.at));
            self.values[id.0 as usize] = Some(out);
        }
        let softmax = pass
            .softmax
            .map(|softmax| index(softmax.scores))
            .transpose()?;
        if let Some(Softmax {
            log_sum,
            kept: true,
            ..
        }) = pass.softmax
        {
            results.push(EdgeResult::LogSumExp);
            let extent = self.extent_of(lowerer, log_sum);
            let out = self.target(lowerer, log_sum, extent);
            outputs.push((out.operand(At::Row), out.at));
            self.values[log_sum.0 as usize] = Some(out);
        }
        let body = Body::EdgePass(EdgePass {
            set: pass.set,
            to: pass.to,
            numbers,
            softmax,
            results,
        });
        let rows = match pass.sums.first() {
            Some(sum) => sum_rows(lowerer, graph.ty(*sum).rows, pass.to),
            None => crate::lower::region::launch_rows(first),
        };
        let launch = builder.launch(&mut lowerer.program, body, rows, outputs);
        self.code.push(Instr::Launch(launch));
        for sum in sent {
            self.code.push(Instr::HaloReduce(instr::HaloReduce {
                slice: sum.slice,
                ..instr::HaloReduce::of(sum.at)
            }));
        }
        Ok(())
    }

    /// Where a sum goes; appends it to `sent` if its halo rows belong to other ranks.
    fn sum_target(
        &mut self,
        lowerer: &mut Lowerer,
        pass: &Pass,
        (sum, last): (NodeId, NodeId),
        sent: &mut Vec<Value>,
    ) -> Value {
        let rows = self.graph.ty(sum).rows;
        let shared = pass.to == End::Src && lowerer.has_halo(rows);
        let extent = match shared {
            true => lowerer.extent(self.graph.ty(sum)).with_halo(),
            false => self.extent_of(lowerer, last),
        };
        let mut out = self.target(lowerer, last, extent);
        out.halo = self.embeddings.near(last);
        // If gradients stop at copies, what is sent is decided later.
        let raw = self.embeddings.raw.get(last.0 as usize) == Some(&true);
        if shared && !raw {
            sent.push(out);
        }
        out.halo |= raw;
        out
    }

    /// The node in which the kernel of a sum ends.
    fn last_of(&self, sum: NodeId) -> NodeId {
        let hosted = self.facts.host.iter().position(|host| *host == Some(sum));
        hosted.map_or(sum, |n| NodeId(n as u32))
    }

    /// Computes whatever a node is computed from that has memory, up to `end`, except results of the
    /// pass itself.
    fn prepare(
        &mut self,
        lowerer: &mut Lowerer,
        root: NodeId,
        pass: usize,
        end: Option<NodeId>,
    ) -> Result<(), LowerError> {
        // The pass computes the weights itself, even if others keep them.
        let softmax = self.facts.passes.list[pass].softmax;
        let mut seen: BTreeSet<NodeId> = softmax.and_then(|s| s.weights).into_iter().collect();
        self.prepare_inputs(lowerer, root, (pass, end), &mut seen)
    }

    /// Whether a node is a product with the weights of a pass.
    fn is_weighted(&self, pass: usize, id: NodeId) -> bool {
        let weights = self.facts.passes.list[pass]
            .softmax
            .and_then(|softmax| softmax.weights);
        weights.is_some_and(|weights| has_factor(self.graph, id, weights))
    }

    fn prepare_inputs(
        &mut self,
        lowerer: &mut Lowerer,
        id: NodeId,
        (pass, end): (usize, Option<NodeId>),
        seen: &mut BTreeSet<NodeId>,
    ) -> Result<(), LowerError> {
        let n = id.0 as usize;
        if Some(id) == end || self.value(id).is_some() || !seen.insert(id) {
            return Ok(());
        }
        let graph = self.graph;
        let given = self.hoist && self.facts.fixed[n] && self.facts.stored[n];
        if !given {
            for input in &graph.node(id).inputs {
                if self.unread.get(input.0 as usize) == Some(&true) {
                    continue;
                }
                self.prepare_inputs(lowerer, *input, (pass, end), seen)?;
                let own = self.facts.passes.of[input.0 as usize] == Some(pass)
                    || self.is_weighted(pass, *input);
                let stored = self.facts.stored[input.0 as usize] && !own;
                if stored && Some(*input) != end && self.value(*input).is_none() {
                    self.emit_node(lowerer, *input)?;
                }
            }
        }
        Ok(())
    }

    /// The numbers of a pass, in order: masks that several dropouts draw; dots, exponentials,
    /// scores, what is stored, and what is used more than once or by wide rows.
    fn numbers(&self, pass: &Pass, roots: &[NodeId]) -> Vec<Factor> {
        let graph = self.graph;
        let unit = pass.softmax.and_then(|softmax| softmax.weights);
        let computed = |id: NodeId| {
            Some(id) != unit && self.value(id).is_none() && inside(graph, id, &self.facts.fixed)
        };
        let mut uses: BTreeMap<NodeId, u32> = BTreeMap::new();
        let mut by_wide: BTreeSet<NodeId> = BTreeSet::new();
        let mut cone: BTreeSet<NodeId> = BTreeSet::new();
        let mut work: Vec<NodeId> = roots.to_vec();
        while let Some(id) = work.pop() {
            if !computed(id) || !cone.insert(id) {
                continue;
            }
            let node = graph.node(id);
            for input in &node.inputs {
                *uses.entry(*input).or_default() += 1;
                let wide = node.ty.width > 1;
                if wide {
                    by_wide.insert(*input);
                }
                work.push(*input);
            }
        }
        let scores = pass.softmax.map(|softmax| softmax.scores);
        let wanted = |id: &NodeId| {
            let node = graph.node(*id);
            let shared = uses.get(id).is_some_and(|uses| *uses > 1);
            let named = pass.edges.contains(id) || scores == Some(*id);
            let narrow = node.ty.width == 1;
            let dot = matches!(node.op, Op::ReduceCols(..) | Op::Unary(Unary::Exp));
            named || narrow && (dot || shared || pass.width > 1 && by_wide.contains(id))
        };
        let mut masks: Vec<Factor> = Vec::new();
        for id in &cone {
            let node = graph.node(*id);
            if let Op::Dropout { p, site, slice } = node.op
                && node.ty.width == 1
            {
                masks.push(Factor::Mask(p, site, slice, node.ty));
            }
        }
        let drawn = std::mem::take(&mut masks);
        for mask in &drawn {
            let often = drawn.iter().filter(|other| *other == mask).count() > 1;
            if often && !masks.contains(mask) {
                masks.push(mask.clone());
            }
        }
        let mut found: Vec<NodeId> = cone.into_iter().filter(wanted).collect();
        // Scores that lie in memory are loaded.
        found.extend(scores.filter(|scores| !found.contains(scores)));
        found.sort_unstable();
        masks.extend(found.into_iter().map(Factor::Node));
        masks
    }
}
