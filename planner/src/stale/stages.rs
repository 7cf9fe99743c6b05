//! Divides layers into stages (GNNPipe, section 3.4).

use super::StaleError;
use super::blend::Depths;
use gnnc_ir::graph::op::Op;
use gnnc_ir::graph::{Graph, NodeId, ParamId, ParamSpec};
use gnnc_ir::kernel::End;
use gnnc_ir::{Rows, Type};
use std::collections::BTreeMap;

/// A position between two layers at which a form can be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The first node after it.
    pub at: u32,
    /// The tensors to pass on.
    pub tensors: Vec<NodeId>,
}

/// A run of consecutive layers of a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its arguments are the tensors the previous run passes on. Its results are those passed to
    /// the next run, or in the very last run the loss and the logits. Its parameters are those of
    /// all runs of the stage, in order.
    pub graph: Graph,
    /// Whether the results are the loss and the logits.
    pub last: bool,
}

/// The cuts between the layers of a form, one fewer than layers. Between two aggregations, it is
/// the last position with the fewest floats to pass on.
pub fn cuts(graph: &Graph) -> Vec<Cut> {
    let depths = Depths::new(graph);
    let mut last_use = vec![0usize; graph.nodes.len()];
    for (id, node) in graph.iter() {
        for input in &node.inputs {
            last_use[input.0 as usize] = id.0 as usize;
        }
    }
    for id in &graph.results {
        last_use[id.0 as usize] = graph.nodes.len();
    }
    let sums =
        |node: &gnnc_ir::Node| matches!(node.op, Op::Gather(_, End::Dst, _) | Op::GatherMean(_));
    let layers = graph
        .iter()
        .filter(|(_, n)| sums(n))
        .map(|(id, _)| depths.of(id))
        .max();
    let mut cuts = Vec::new();
    for layer in 1..layers.unwrap_or(0) {
        let within = |(id, node): &(NodeId, &gnnc_ir::Node)| sums(node) && depths.of(*id) <= layer;
        // A layer that aggregates features begins with its weight, its first learned node.
        let own = |(id, node): &(NodeId, &gnnc_ir::Node)| {
            depths.of(*id) == layer && node.ty.rows == Rows::Vertices
        };
        let first = graph.iter().find(own).map(|(id, _)| id.0 as usize + 1);
        let begin = graph
            .iter()
            .filter(within)
            .map(|(id, _)| id.0 as usize + 1)
            .max();
        let after = |(_, node): &(NodeId, &gnnc_ir::Node)| {
            matches!(node.op, Op::Take(_, End::Src)) && depths.of(node.inputs[0]) >= layer
        };
        let end = graph.iter().find(after).map(|(id, _)| id.0 as usize);
        let (Some(begin), Some(end)) = (begin.max(first), end) else {
            continue;
        };
        let candidates = (begin..=end).filter_map(|at| crossing(graph, &depths, &last_use, at));
        let best = candidates.min_by_key(|cut| {
            let columns = |id: &NodeId| graph.ty(*id).columns();
            (
                cut.tensors.iter().map(columns).sum::<u32>(),
                std::cmp::Reverse(cut.at),
            )
        });
        cuts.extend(best);
    }
    cuts
}

/// The tensors to pass on at a position; `None` if it cannot be cut: values of edges cannot be
/// passed on.
fn crossing(graph: &Graph, depths: &Depths, last_use: &[usize], at: usize) -> Option<Cut> {
    let live = |id: &NodeId| last_use[id.0 as usize] >= at && depths.learned(*id);
    let nodes = (0..at as u32).map(NodeId).filter(live);
    let moved: Vec<NodeId> = nodes
        .filter(|id| !of_parameters(graph, depths, *id))
        .collect();
    let rows = moved.iter().all(|id| {
        let Type { rows, stack, .. } = graph.ty(*id);
        (rows, stack) == (Rows::Vertices, 0) && graph.node(*id).op != Op::Blend
    });
    rows.then_some(Cut {
        at: at as u32,
        tensors: moved,
    })
}

/// Whether every stage can compute a value itself: parameters, expressions of parameters, and their
/// rows picked by edges.
fn of_parameters(graph: &Graph, depths: &Depths, id: NodeId) -> bool {
    let node = graph.node(id);
    let known = |id: &NodeId| !depths.learned(*id) || of_parameters(graph, depths, *id);
    match node.ty.rows {
        Rows::Fixed(_) => true,
        Rows::Edges(_) => node.inputs.iter().all(known),
        _ => false,
    }
}

/// Divides a form into `count` stages with several runs of layers each; `layers` has the layers of
/// each run, and run `n` belongs to stage `n % count`. Returns the runs of each stage.
///
/// # Errors
/// If the numbers of layers do not add up, or the form cannot be divided.
pub fn stages(graph: &Graph, count: u32, layers: &[u32]) -> Result<Vec<Vec<Run>>, StaleError> {
    let count = count.max(1);
    let cuts = cuts(graph);
    let found = cuts.len() as u32 + 1;
    if layers.contains(&0) || layers.iter().sum::<u32>() != found {
        return Err(StaleError::Layers {
            found: layers.to_vec(),
            layers: found,
        });
    }
    let mut ends = Vec::new();
    let mut done = 0;
    for own in &layers[..layers.len().saturating_sub(1)] {
        done += own;
        ends.push(&cuts[done as usize - 1]);
    }
    let mut owner: Vec<Option<u32>> = vec![None; graph.params.len()];
    let mut stages: Vec<Vec<Run>> = vec![Vec::new(); count as usize];
    for (run, number) in (0..layers.len()).zip(0u32..) {
        let before = run.checked_sub(1).map(|n| ends[n]);
        let results = match ends.get(run) {
            Some(cut) => &cut.tensors,
            None => &graph.results,
        };
        let (part, params) = part(graph, before, results)?;
        for param in params {
            let known = &mut owner[param.0 as usize];
            match *known {
                Some(other) if other != number => {
                    let name = graph.params[param.0 as usize].name.clone();
                    return Err(shared(name, [other, number], (count, layers.len())));
                }
                _ => *known = Some(number),
            }
        }
        stages[run % count as usize].push(Run {
            graph: part,
            last: run + 1 == layers.len(),
        });
    }
    // Unread parameters are kept too: checkpoints hold every parameter.
    if let Some(first) = stages.first_mut().and_then(|runs| runs.first_mut()) {
        let unread = (graph.params.iter().zip(&owner)).filter(|(_, owner)| owner.is_none());
        for (spec, _) in unread {
            first.graph.param(spec.clone());
        }
    }
    stages.iter_mut().for_each(|runs| share_parameters(runs));
    Ok(stages)
}

/// The error of a parameter that two runs read.
fn shared(name: String, runs: [u32; 2], (stages, all): (u32, usize)) -> StaleError {
    let several = all > stages as usize;
    let [a, b] = runs.map(|run| {
        let (stage, own) = (run % stages + 1, run / stages + 1);
        match several {
            true => format!("virtual stage {own} of stage {stage}"),
            false => format!("stage {stage}"),
        }
    });
    let or = if several { " or virtual stages" } else { "" };
    StaleError::Shared(name, a, b, or)
}

/// Makes each run of a stage list the parameters of all its runs, in order.
fn share_parameters(runs: &mut [Run]) {
    let all: Vec<ParamSpec> = (runs.iter().flat_map(|run| &run.graph.params))
        .cloned()
        .collect();
    let mut first = 0;
    for Run { graph, .. } in runs {
        for node in &mut graph.nodes {
            if let Op::Param(param) = &mut node.op {
                param.0 += first;
            }
        }
        first += graph.params.len() as u32;
        graph.params.clone_from(&all);
    }
}

/// The nodes that some results need, up to the previous cut, and the parameters they read.
fn part(
    graph: &Graph,
    before: Option<&Cut>,
    results: &[NodeId],
) -> Result<(Graph, Vec<ParamId>), StaleError> {
    let received = before.map_or(&[][..], |cut| &cut.tensors);
    let mut needed = vec![false; graph.nodes.len()];
    let mut work = results.to_vec();
    while let Some(id) = work.pop() {
        if !std::mem::replace(&mut needed[id.0 as usize], true) && !received.contains(&id) {
            work.extend(&graph.node(id).inputs);
        }
    }
    let args = received.iter().map(|id| graph.ty(*id)).collect();
    let mut out = Graph::body(graph.features, args);
    // Only the scopes of its own layers.
    let mut scopes: BTreeMap<u32, u32> = BTreeMap::from([(0, 0)]);
    let mut scope = |out: &mut Graph, id: u32| -> u32 {
        let name = &graph.scopes[id as usize];
        *scopes.entry(id).or_insert_with(|| out.scope(name))
    };
    let mut params = Vec::new();
    let mut new = vec![NodeId(0); graph.nodes.len()];
    // Unread arguments keep their positions.
    for (n, id) in received.iter().enumerate() {
        let scope = scope(&mut out, graph.node(*id).scope);
        new[id.0 as usize] = out.add(Op::Arg(n as u32), &[], scope)?;
    }
    for (id, node) in graph.iter().filter(|(id, _)| needed[id.0 as usize]) {
        if received.contains(&id) {
            continue;
        }
        let mut op = node.op.clone();
        if let Op::Param(param) = &mut op {
            params.push(*param);
            *param = out.param(graph.params[param.0 as usize].clone());
        }
        let inputs: Vec<NodeId> = node.inputs.iter().map(|i| new[i.0 as usize]).collect();
        let scope = scope(&mut out, node.scope);
        new[id.0 as usize] = out.add(op, &inputs, scope)?;
    }
    out.results = results.iter().map(|id| new[id.0 as usize]).collect();
    Ok((out, params))
}
