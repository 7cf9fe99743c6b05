//! Divides layers into stages (GNNPipe, section 3.4).

use super::StaleError;
use super::blend::Depths;
use gnnc_ir::graph::op::Op;
use gnnc_ir::graph::{Graph, NodeId, ParamId, ParamSpec};
use gnnc_ir::kernel::End;
use gnnc_ir::{Rows, Type};
use std::collections::{BTreeMap, BTreeSet};

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
/// the last position with the fewest floats to pass on. Takes time linear in the nodes, up to sorting.
pub fn cuts(graph: &Graph) -> Vec<Cut> {
    let depths = Depths::new(graph);
    let passed = Passed::new(graph, &depths);
    let sums =
        |node: &gnnc_ir::Node| matches!(node.op, Op::Gather(_, End::Dst, _) | Op::GatherMean(_));
    let all = graph.iter().filter(|(_, node)| sums(node));
    let layers = all.map(|(id, _)| depths.of(id)).max().unwrap_or(0) as usize;
    let most = graph.iter().map(|(id, _)| depths.of(id) as usize).max();
    let count = most.unwrap_or(0) + 1;
    // By depth: the position after the first learned node of vertices, with which a layer that aggregates
    // features begins; that after the last aggregation; that of the first edge tensor taken from it.
    let (mut own, mut begin, mut end) = (vec![None; count], vec![None; count], vec![None; count]);
    for (id, node) in graph.iter() {
        let (at, depth) = (id.0 as usize, depths.of(id) as usize);
        if node.ty.rows == Rows::Vertices {
            own[depth].get_or_insert(at + 1);
        }
        if sums(node) {
            begin[depth] = Some(at + 1);
        }
        if matches!(node.op, Op::Take(_, End::Src)) {
            end[depths.of(node.inputs[0]) as usize].get_or_insert(at);
        }
    }
    // Aggregations at most that deep, and edges at least that deep.
    for depth in 1..count {
        begin[depth] = begin[depth].max(begin[depth - 1]);
    }
    for depth in (1..count).rev() {
        let deeper = end.get(depth + 1).copied().flatten();
        end[depth] = end[depth].into_iter().chain(deeper).min();
    }
    let mut places = Vec::new();
    for layer in 1..layers {
        if let (Some(begin), Some(end)) = (begin[layer].max(own[layer]), end[layer]) {
            let possible = (begin..=end).filter(|at| passed.refused[*at] == 0);
            places.extend(possible.min_by_key(|at| (passed.columns[*at], std::cmp::Reverse(*at))));
        }
    }
    passed.cuts(&places)
}

/// What would be passed on at each position: values of nodes before it that later ones read.
struct Passed {
    /// For each node whose value is passed on, the last position where it is.
    until: Vec<Option<usize>>,
    /// By position: columns of all values.
    columns: Vec<u64>,
    /// By position: values that cannot be passed on, such as those of edges.
    refused: Vec<u64>,
}

impl Passed {
    fn new(graph: &Graph, depths: &Depths) -> Self {
        let nodes = graph.nodes.len();
        let mut last_use = vec![0usize; nodes];
        for (id, node) in graph.iter() {
            for input in &node.inputs {
                last_use[input.0 as usize] = id.0 as usize;
            }
        }
        for id in &graph.results {
            last_use[id.0 as usize] = nodes;
        }
        let mut passed = Self {
            until: vec![None; nodes],
            columns: vec![0; nodes + 2],
            refused: vec![0; nodes + 2],
        };
        let known = of_parameters(graph, depths);
        for (id, node) in graph.iter() {
            let n = id.0 as usize;
            if last_use[n] <= n || !depths.learned(id) || known[n] {
                continue;
            }
            passed.until[n] = Some(last_use[n]);
            let Type { rows, stack, .. } = node.ty;
            let moves = (rows, stack) == (Rows::Vertices, 0) && node.op != Op::Blend;
            let (begin, end) = (n + 1, last_use[n] + 1);
            // Differences between neighboring positions, which are summed below.
            let columns = u64::from(node.ty.columns());
            for (of, by) in [
                (&mut passed.columns, columns),
                (&mut passed.refused, u64::from(!moves)),
            ] {
                of[begin] = of[begin].wrapping_add(by);
                of[end] = of[end].wrapping_sub(by);
            }
        }
        for of in [&mut passed.columns, &mut passed.refused] {
            let mut sum = 0u64;
            for by in of {
                sum = sum.wrapping_add(*by);
                *by = sum;
            }
        }
        passed
    }

    /// Cuts at these positions.
    fn cuts(&self, places: &[usize]) -> Vec<Cut> {
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|cut| places[*cut]);
        let mut cuts: Vec<Option<Cut>> = vec![None; places.len()];
        let (mut live, mut ends) = (BTreeSet::new(), BTreeSet::new());
        let mut next = 0;
        for cut in order {
            let at = places[cut];
            for node in next..at {
                if let Some(until) = self.until[node] {
                    live.insert(node);
                    ends.insert((until, node));
                }
            }
            next = next.max(at);
            while let Some((_, node)) = ends.first().copied().filter(|(until, _)| *until < at) {
                ends.pop_first();
                live.remove(&node);
            }
            cuts[cut] = Some(Cut {
                at: at as u32,
                tensors: live.iter().map(|node| NodeId(*node as u32)).collect(),
            });
        }
        cuts.into_iter().flatten().collect()
    }
}

/// For each node, whether every stage can compute its value: parameters, expressions of parameters, and their rows
/// picked by edges.
fn of_parameters(graph: &Graph, depths: &Depths) -> Vec<bool> {
    let mut known: Vec<bool> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let here = |id: &NodeId| !depths.learned(*id) || known[id.0 as usize];
        known.push(match node.ty.rows {
            Rows::Fixed(_) => true,
            Rows::Edges(_) => node.inputs.iter().all(here),
            _ => false,
        });
    }
    known
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
    let mut needed: BTreeSet<NodeId> = BTreeSet::new();
    let mut work = results.to_vec();
    while let Some(id) = work.pop() {
        if needed.insert(id) && !received.contains(&id) {
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
    let mut new: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    // Unread arguments keep their positions.
    for (n, id) in received.iter().enumerate() {
        let scope = scope(&mut out, graph.node(*id).scope);
        new.insert(*id, out.add(Op::Arg(n as u32), &[], scope)?);
    }
    for id in needed {
        if received.contains(&id) {
            continue;
        }
        let node = graph.node(id);
        let mut op = node.op.clone();
        if let Op::Param(param) = &mut op {
            params.push(*param);
            *param = out.param(graph.params[param.0 as usize].clone());
        }
        let inputs: Vec<NodeId> = node.inputs.iter().map(|i| new[i]).collect();
        let scope = scope(&mut out, node.scope);
        new.insert(id, out.add(op, &inputs, scope)?);
    }
    out.results = results.iter().map(|id| new[id]).collect();
    Ok((out, params))
}
