//! Removal of dead results, carries and operands of scans.

use crate::graph::op::{Op, Scan};
use crate::graph::{Graph, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// The same graph, with scans that compute and read only what is used.
pub(super) fn trimmed(graph: &Graph) -> Graph {
    let mut used: BTreeMap<NodeId, BTreeSet<u32>> = BTreeMap::new();
    let is_scan = |id: &NodeId| matches!(graph.node(*id).op, Op::Scan(_));
    for node in &graph.nodes {
        for scan in node.inputs.iter().filter(|i| is_scan(i)) {
            let result = if let Op::Out(n) = node.op { n } else { 0 };
            used.entry(*scan).or_default().insert(result);
        }
    }
    for scan in graph.results.iter().filter(|r| is_scan(r)) {
        used.entry(*scan).or_default().insert(0);
    }
    let mut out = graph.clone();
    let mut renamed: BTreeMap<NodeId, Vec<Option<u32>>> = BTreeMap::new();
    for (id, node) in graph.iter() {
        let new = &mut out.nodes[id.0 as usize];
        if let Op::Scan(scan) = &node.op {
            let live = used.remove(&id).unwrap_or_default();
            if live.is_empty() {
                continue;
            }
            let (scan, inputs, results) = trim(scan, &node.inputs, &live);
            if let Some(ty) = scan.result_types().first() {
                new.ty = *ty;
            }
            (new.op, new.inputs) = (Op::Scan(Box::new(scan)), inputs);
            renamed.insert(id, results);
        } else if let Op::Out(n) = &node.op
            && let Some(results) = renamed.get(&node.inputs[0])
            && let Some(n) = results[*n as usize]
        {
            new.op = Op::Out(n);
        }
    }
    out
}

/// Returns the scan without dead results and operands, its operands, and the new number of
/// every old result.
fn trim(
    scan: &Scan,
    inputs: &[NodeId],
    used: &BTreeSet<u32>,
) -> (Scan, Vec<NodeId>, Vec<Option<u32>>) {
    let carries = scan.carries as usize;
    let first_x = carries + scan.consts as usize;
    let mut live: Vec<bool> = (0..scan.body.results.len())
        .map(|n| used.contains(&(n as u32)))
        .collect();
    // A carry is live if another live result reads it.
    let (mut body, read) = loop {
        let mut body = scan.body.clone();
        let mut keep = live.iter();
        body.results.retain(|_| *keep.next().unwrap_or(&false));
        let body = body.pruned();
        let mut read = vec![false; scan.body.args.len()];
        for node in &body.nodes {
            if let Op::Arg(n) = node.op {
                read[n as usize] = true;
            }
        }
        let before = live.clone();
        for (live, read) in live.iter_mut().zip(&read).take(carries) {
            *live |= *read;
        }
        if live == before {
            break (body, read);
        }
    };
    let mut results = Vec::with_capacity(live.len());
    let mut count = 0;
    for live in &live {
        results.push(live.then_some(count));
        count += u32::from(*live);
    }
    // Two constants, or two xs, that are the same tensor become one.
    let class = |n: usize| usize::from(n >= carries) + usize::from(n >= first_x);
    let mut kept: Vec<usize> = Vec::new();
    let mut new_arg = vec![0u32; inputs.len()];
    for n in 0..inputs.len() {
        if n < carries && live[n] {
            new_arg[n] = kept.len() as u32;
            kept.push(n);
        } else if n >= carries && read[n] {
            let equal = kept
                .iter()
                .position(|k| n >= carries && class(*k) == class(n) && inputs[*k] == inputs[n]);
            new_arg[n] = equal.unwrap_or(kept.len()) as u32;
            if equal.is_none() {
                kept.push(n);
            }
        }
    }
    for node in &mut body.nodes {
        if let Op::Arg(n) = &mut node.op {
            *n = new_arg[*n as usize];
        }
    }
    body.args = kept.iter().map(|n| scan.body.args[*n]).collect();
    let number = |wanted: usize| kept.iter().filter(|n| class(**n) == wanted).count() as u32;
    let trimmed = Scan {
        carries: number(0),
        consts: number(1),
        xs: number(2),
        body,
        ..scan.clone()
    };
    (trimmed, kept.iter().map(|n| inputs[*n]).collect(), results)
}
