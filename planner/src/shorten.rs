//! Models with fewer of the layers that are alike. The costs of two of them tell the cost of the whole model, since each
//! layer more adds as much as the one before.

use crate::lower::{Training, evaluation};
use gnnc_ir::graph::autodiff::differentiate;
use gnnc_ir::graph::op::Op;
use gnnc_ir::graph::{Graph, Node, NodeId, ParamId, ParamSpec};
use std::collections::BTreeMap;

/// Layers that the shorter model and the longer one keep. Costs are linear in the layers only if each layer overlaps
/// with layers that are like it, which those next to the first and the last one do not.
const KEPT: [usize; 2] = [6, 10];
/// Fewest layers of a model that is shortened: with fewer, two shorter models cost about as much as the whole one.
const FEWEST: usize = 24;
/// Most operators of a layer. The search for layers compares each operator with as many.
const WIDEST: usize = 128;

/// A model with fewer of the layers that are alike.
#[derive(Clone, Debug)]
pub struct Short {
    /// Forward and backward graphs.
    pub training: Training,
    /// How many of these layers it has.
    pub layers: usize,
}

/// Two models that are shorter than a third one.
#[derive(Clone, Debug)]
pub struct Shortened {
    /// How many layers that are alike the whole model has.
    pub layers: usize,
    /// The shorter one.
    pub less: Short,
    /// The longer one.
    pub more: Short,
}

impl Shortened {
    /// The shorter models of one that has many layers that are alike, written out one after another. `None` if it has
    /// few of them, or if anything but the next layer reads one of them.
    pub fn of(training: &Training) -> Option<Self> {
        let whole = with_late_parameters(&training.form);
        let run = Run::longest(&whole).filter(|run| run.count >= FEWEST)?;
        let short = |layers: usize| {
            let form = run.cut(&whole, layers)?;
            let training = Training {
                // Only batches and pipelines are made of the source, and those are not made of short models.
                source: form.clone(),
                forward: evaluation(&form),
                backward: differentiate(&form).ok()?,
                form,
                ..training.clone()
            };
            Some(Short { training, layers })
        };
        let [less, more] = KEPT;
        Some(Self {
            layers: run.count,
            less: short(less)?,
            more: short(more)?,
        })
    }
}

/// The same graph with each parameter before the first operator that reads it, where layers have their own. Rewriting
/// puts those of many layers before all of these.
fn with_late_parameters(graph: &Graph) -> Graph {
    let is_param = |id: &NodeId| matches!(graph.node(*id).op, Op::Param(_));
    let mut order: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    let mut is_placed = vec![false; graph.nodes.len()];
    for (id, node) in graph.iter() {
        let params = node.inputs.iter().filter(|id| is_param(id));
        for next in params
            .copied()
            .chain([id].into_iter().filter(|id| !is_param(id)))
        {
            if !std::mem::replace(&mut is_placed[next.0 as usize], true) {
                order.push(next);
            }
        }
    }
    // Parameters that only results read.
    order.extend(
        graph
            .iter()
            .map(|(id, _)| id)
            .filter(|id| !is_placed[id.0 as usize]),
    );
    let mut new_id = vec![NodeId(0); graph.nodes.len()];
    for (new, old) in (0..).zip(&order) {
        new_id[old.0 as usize] = NodeId(new);
    }
    let moved = |ids: &[NodeId]| ids.iter().map(|id| new_id[id.0 as usize]).collect();
    Graph {
        nodes: order
            .iter()
            .map(|id| graph.node(*id))
            .map(|node| Node {
                inputs: moved(&node.inputs),
                ..node.clone()
            })
            .collect(),
        results: moved(&graph.results),
        ..graph.clone_without_nodes()
    }
}

/// Operators that repeat: each is like the one a period before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// The first one.
    begin: usize,
    /// Operators of a layer.
    period: usize,
    /// Whole layers.
    count: usize,
}

impl Run {
    /// The run of the most operators; of several, the one with the shortest layers.
    fn longest(graph: &Graph) -> Option<Self> {
        let mut longest: Option<Self> = None;
        for period in 1..=WIDEST.min(graph.nodes.len() / 2) {
            let mut begin = 0;
            // One more than the last, so that the last run ends too.
            for n in 0..=graph.nodes.len() - period {
                let goes_on = n + period < graph.nodes.len() && is_alike(graph, n, n + period);
                if goes_on {
                    continue;
                }
                let run = Self {
                    begin,
                    period,
                    count: (n + period - begin) / period,
                };
                let is_longer = |other: Self| run.count * period > other.count * other.period;
                if run.count > 1 && longest.is_none_or(is_longer) {
                    longest = Some(run);
                }
                begin = n + 1;
            }
        }
        longest
    }

    /// The graph with `layers` of the layers, taken from the begin of the run, and with what comes behind it. `None` if
    /// anything there reads another layer than the last one.
    fn cut(&self, graph: &Graph, layers: usize) -> Option<Graph> {
        let without = self.count.checked_sub(layers)? * self.period;
        let kept = self.begin + layers * self.period;
        let end = self.begin + self.count * self.period;
        let moved = |id: NodeId| NodeId(id.0 - without as u32);
        let behind = |id: NodeId| match id.0 as usize {
            n if n < self.begin => Some(id),
            n if n >= end - self.period => Some(moved(id)),
            _ => None,
        };
        let mut short = Graph {
            params: Vec::new(),
            ..graph.clone_without_nodes()
        };
        let mut params: BTreeMap<ParamId, ParamId> = BTreeMap::new();
        for (n, node) in graph.nodes.iter().enumerate() {
            let inputs = match n {
                n if n < kept => node.inputs.clone(),
                n if n >= end => {
                    (node.inputs.iter().map(|id| behind(*id))).collect::<Option<_>>()?
                }
                _ => continue,
            };
            let op = if let Op::Param(id) = node.op {
                let spec = graph.params.get(id.0 as usize)?;
                let new = params.entry(id);
                Op::Param(*new.or_insert_with(|| short.param(spec.clone())))
            } else {
                node.op.clone()
            };
            short.nodes.push(Node {
                op,
                inputs,
                ..node.clone()
            });
        }
        let results = graph.results.iter().map(|id| behind(*id));
        short.results = results.collect::<Option<_>>()?;
        short.verify().ok()?;
        Some(short)
    }
}

/// Whether an operator is like a later one: the same with other parameters and other draws, of what comes as long
/// before it, or of the very same tensors.
fn is_alike(graph: &Graph, earlier: usize, later: usize) -> bool {
    let [a, b] = [&graph.nodes[earlier], &graph.nodes[later]];
    let period = (later - earlier) as u32;
    let mut inputs = a.inputs.iter().zip(&b.inputs);
    a.ty == b.ty
        && a.inputs.len() == b.inputs.len()
        && inputs.all(|(a, b)| a == b || a.0 + period == b.0)
        && is_like(graph, &a.op, &b.op)
}

fn is_like(graph: &Graph, a: &Op, b: &Op) -> bool {
    let unnamed = |id: &ParamId| {
        let spec = graph.params.get(id.0 as usize);
        spec.map(|spec| ParamSpec {
            name: String::new(),
            ..spec.clone()
        })
    };
    if let (Op::Param(a), Op::Param(b)) = (a, b) {
        return unnamed(a) == unnamed(b);
    }
    let mask = |op: &Op| {
        if let Op::Dropout { p, slice, site: _ } = op {
            Some((*p, *slice))
        } else {
            None
        }
    };
    a == b || mask(a).is_some() && mask(a) == mask(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnnc_ir::graph::Init;
    use gnnc_ir::graph::op::{Input, Site};
    use gnnc_ir::kernel::{End, Reduce};
    use gnnc_ir::words::scalar::{Binary, Unary};
    use gnnc_ir::{EdgeSet, Type};

    /// A model of so many layers, each of which adds to what comes before it, and a last product. All parameters come
    /// first. Returns the result of each layer too.
    fn residual(layers: usize) -> (Graph, Vec<NodeId>) {
        let mut graph = Graph::new(8);
        let mut weight = |name: String, columns: u32| {
            let spec = ParamSpec {
                name,
                ty: Type::matrix(8, columns),
                init: Init::Zeros,
                decay: None,
                shard: None,
                element: None,
            };
            let id = graph.param(spec);
            graph.add(Op::Param(id), &[], 0).unwrap()
        };
        let weights: Vec<NodeId> = (0..layers).map(|n| weight(format!("w{n}"), 8)).collect();
        let last = weight("last".to_owned(), 3);
        let mut add = |op: Op, inputs: &[NodeId]| graph.add(op, inputs, 0).unwrap();
        let mut x = add(Op::Input(Input::Features), &[]);
        let mut outputs = Vec::new();
        for (n, weight) in weights.iter().enumerate() {
            let site = Site::from(n as u32);
            let (p, slice) = (0.5, None);
            let dropped = add(Op::Dropout { p, site, slice }, &[x]);
            let product = add(Op::MatMul, &[dropped, *weight]);
            let rows = add(Op::Take(EdgeSet::Plain, End::Src), &[product]);
            let sum = add(Op::Gather(EdgeSet::Plain, End::Dst, Reduce::Sum), &[rows]);
            let sum = add(Op::Unary(Unary::Relu), &[sum]);
            x = add(Op::Binary(Binary::Add), &[x, sum]);
            outputs.push(x);
        }
        let result = add(Op::MatMul, &[x, last]);
        graph.results = vec![result];
        (graph, outputs)
    }

    #[test]
    fn a_shorter_model_is_the_model_with_fewer_layers() {
        let (whole, _) = residual(40);
        let run = Run::longest(&with_late_parameters(&whole)).unwrap();
        // A parameter and the operators of a layer.
        assert_eq!((run.period, run.count), (7, 40));
        let cut = run.cut(&with_late_parameters(&whole), 6).unwrap();
        let (wanted, _) = residual(6);
        let unnamed = |graph: &Graph| {
            let mut graph = with_late_parameters(graph);
            graph.params.iter_mut().for_each(|spec| spec.name.clear());
            graph.to_string().replace("last", "")
        };
        assert_eq!(unnamed(&cut), unnamed(&wanted));
        assert_eq!(cut.params.len(), 7);
        assert_eq!(cut.params.last().unwrap().name, "last");
    }

    #[test]
    fn layers_that_a_result_reads_are_kept() {
        let (mut whole, outputs) = residual(40);
        whole.results.push(outputs[20]);
        let whole = with_late_parameters(&whole);
        let run = Run::longest(&whole).unwrap();
        assert_eq!(run.cut(&whole, 6), None);
    }

    #[test]
    fn layers_that_differ_are_no_run() {
        let (mut whole, _) = residual(40);
        for (n, spec) in whole.params.iter_mut().enumerate() {
            spec.decay = Some(n as f64);
        }
        let run = Run::longest(&with_late_parameters(&whole));
        assert!(run.is_none_or(|run| run.count < FEWEST), "{run:?}");
    }
}
