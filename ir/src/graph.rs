//! The operator DAG of a model. (The data graph is a topology.)

pub mod autodiff;
pub mod blend;
pub mod eval;
pub mod infer;
pub mod model;
pub mod op;
pub mod simplify;

use crate::graph::infer::{TypeError, infer};
use crate::graph::op::{Input, Op, Redistribute, Scan, Slice};
use crate::words::types::{Rows, Type};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Index of a node; operands always come before their users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// Index of a trainable tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ParamId(pub u32);

/// How a parameter starts. Draws are keyed by seed, parameter name and element.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Init {
    /// All 0.
    Zeros,
    /// All 1.
    Ones,
    /// One value everywhere.
    Constant(f32),
    /// Uniform in `-bound ..= bound`.
    Uniform(f32),
}

/// A trainable tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParamSpec {
    /// `layer_1.weight`; unique in a model.
    pub name: String,
    /// Shape; stacked for a parameter of a repeated layer.
    pub ty: Type,
    /// Start value.
    pub init: Init,
    /// Weight decay of this parameter; `None` means the optimizer's.
    pub decay: Option<f64>,
    /// The rows that this rank holds, if not all; `ty` is then the type of those rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The element of a stack that this parameter is, if its loop was unrolled. `name` is the
    /// stack's, `ty` the element's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element: Option<Element>,
}

/// One element of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Element {
    /// Index in the stack.
    pub index: u32,
    /// Elements in the stack.
    pub of: u32,
}

/// Some rows of a parameter: the same slice of each of several equal, consecutive blocks of
/// rows. Rows beyond [`Slice::own`] pad a block; they are 0 and stay 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Number of blocks.
    pub blocks: u32,
    /// The rows of a block.
    pub slice: Slice,
}

impl Shard {
    /// Maps a rank's row to the row of the whole parameter; `None` for padding.
    pub fn whole_row(&self, row: u32) -> Option<u32> {
        let Slice {
            start,
            own,
            len,
            of,
            ..
        } = self.slice;
        let (block, row) = (row / len, row % len);
        (row < own).then_some(block * of + start + row)
    }
}

impl ParamSpec {
    /// The type of the whole parameter; a rank may hold only some rows or one element of it.
    pub fn whole(&self) -> Type {
        let rows = |shard: Shard| Rows::Fixed(shard.blocks * shard.slice.of);
        Type {
            rows: self.shard.map_or(self.ty.rows, rows),
            stack: self.element.map_or(self.ty.stack, |element| element.of),
            ..self.ty
        }
    }

    /// The same parameter on a rank that holds only the rows of `shard`.
    pub fn cut(&self, shard: Shard) -> Self {
        let rows = Rows::Fixed(shard.blocks * shard.slice.len);
        Self {
            ty: Type { rows, ..self.ty },
            shard: Some(shard),
            ..self.clone()
        }
    }
}

/// One operator applied to its operands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The operator.
    pub op: Op,
    /// Operands, all earlier nodes.
    pub inputs: Vec<NodeId>,
    /// Type of the result; for a scan, of its first result.
    pub ty: Type,
    /// Index into [`Graph::scopes`].
    pub scope: u32,
}

/// An operator DAG in evaluation order: a whole model, or the body of a scan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// Width of the input features.
    pub features: u32,
    /// Nodes in evaluation order.
    pub nodes: Vec<Node>,
    /// Trainable tensors; empty in a scan body.
    pub params: Vec<ParamSpec>,
    /// Argument types; empty for a model.
    pub args: Vec<Type>,
    /// Results. For a model: the loss, then the logits.
    pub results: Vec<NodeId>,
    /// Names of layer instances; entry 0 is the model itself.
    pub scopes: Vec<String>,
}

impl Graph {
    /// An empty graph with `features` input columns.
    pub fn new(features: u32) -> Self {
        Self {
            features,
            scopes: vec![String::new()],
            ..Self::default()
        }
    }

    /// An empty scan body.
    pub fn body(features: u32, args: Vec<Type>) -> Self {
        Self {
            args,
            ..Self::new(features)
        }
    }

    /// Appends an operator and infers its result type.
    ///
    /// # Errors
    /// If the operands do not match the operator.
    pub fn add(&mut self, op: Op, inputs: &[NodeId], scope: u32) -> Result<NodeId, TypeError> {
        let ty = infer(self, &op, inputs)?;
        self.nodes.push(Node {
            op,
            inputs: inputs.to_vec(),
            ty,
            scope,
        });
        Ok(NodeId(self.nodes.len() as u32 - 1))
    }

    /// Declares a trainable tensor.
    pub fn param(&mut self, spec: ParamSpec) -> ParamId {
        self.params.push(spec);
        ParamId(self.params.len() as u32 - 1)
    }

    /// Declares a scope and returns its index.
    pub fn scope(&mut self, name: &str) -> u32 {
        self.scopes.push(name.to_owned());
        self.scopes.len() as u32 - 1
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// A readable name of a node's result, such as `gcn_conv_1.mul%6`.
    pub fn tensor_name(&self, id: NodeId) -> String {
        let node = self.node(id);
        let op = node.op.to_string();
        let op = op.split([' ', '(']).next().unwrap_or_default();
        match self.scopes.get(node.scope as usize).map(String::as_str) {
            None | Some("") => format!("{op}{id}"),
            Some(scope) => format!("{scope}.{op}{id}"),
        }
    }

    /// The type of a node's result.
    pub fn ty(&self, id: NodeId) -> Type {
        self.node(id).ty
    }

    /// All nodes with their ids, in evaluation order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> + ExactSizeIterator {
        self.nodes
            .iter()
            .enumerate()
            .map(|(i, node)| (NodeId(i as u32), node))
    }

    /// `users[n]`: the nodes that read node `n`, each once.
    pub fn users(&self) -> Vec<Vec<NodeId>> {
        let mut users = vec![Vec::new(); self.nodes.len()];
        for (id, node) in self.iter() {
            for input in &node.inputs {
                let list: &mut Vec<NodeId> = &mut users[input.0 as usize];
                if list.last() != Some(&id) {
                    list.push(id);
                }
            }
        }
        users
    }

    /// Number of trainable floats.
    pub fn trainable(&self) -> u64 {
        self.params.iter().map(|p| floats(p.ty)).sum()
    }

    /// The same graph without the nodes that no result needs.
    pub fn pruned(&self) -> Self {
        self.part(&self.results)
    }

    /// The part of the graph that some nodes need, with them as its results.
    pub fn part(&self, results: &[NodeId]) -> Self {
        let mut needed = vec![false; self.nodes.len()];
        let mut work = results.to_vec();
        while let Some(id) = work.pop() {
            if !std::mem::replace(&mut needed[id.0 as usize], true) {
                work.extend(&self.node(id).inputs);
            }
        }
        let mut new_id = vec![NodeId(0); self.nodes.len()];
        let mut nodes = Vec::with_capacity(needed.iter().filter(|needed| **needed).count());
        for (id, node) in self.iter().filter(|(id, _)| needed[id.0 as usize]) {
            new_id[id.0 as usize] = NodeId(nodes.len() as u32);
            let inputs = node.inputs.iter().map(|i| new_id[i.0 as usize]).collect();
            nodes.push(Node {
                op: node.op.clone(),
                inputs,
                ty: node.ty,
                scope: node.scope,
            });
        }
        let results = results.iter().map(|r| new_id[r.0 as usize]).collect();
        Self {
            nodes,
            results,
            ..self.clone_without_nodes()
        }
    }

    /// The same parameters, arguments and scopes, without nodes and results.
    pub fn clone_without_nodes(&self) -> Self {
        Self {
            features: self.features,
            nodes: Vec::new(),
            params: self.params.clone(),
            args: self.args.clone(),
            results: Vec::new(),
            scopes: self.scopes.clone(),
        }
    }

    /// Checks every invariant: operands before users, inferred types, result ids.
    ///
    /// # Errors
    /// The first broken invariant, with the node printed.
    pub fn verify(&self) -> Result<(), VerifyError> {
        for (id, node) in self.iter() {
            let broken = |why: String| VerifyError {
                node: id,
                text: self.line(id),
                why,
            };
            if let Some(late) = node.inputs.iter().find(|i| **i >= id) {
                return Err(broken(format!("reads {late}, which is not before it")));
            }
            let ty = infer(self, &node.op, &node.inputs).map_err(|e| broken(e.to_string()))?;
            if ty != node.ty {
                return Err(broken(format!("has type {}, expected {ty}", node.ty)));
            }
            if node.scope as usize >= self.scopes.len() {
                return Err(broken(format!("names scope {}", node.scope)));
            }
            if let Op::Scan(scan) = &node.op {
                scan.body
                    .verify()
                    .map_err(|e| broken(format!("in its body, {e}")))?;
            }
        }
        match self
            .results
            .iter()
            .find(|r| r.0 as usize >= self.nodes.len())
        {
            Some(id) => Err(VerifyError {
                node: *id,
                text: String::new(),
                why: "is a result but not a node".to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// An operator as text, a parameter by its name.
    pub fn text(&self, op: &Op) -> String {
        if let Op::Param(param) = op
            && let Some(spec) = self.params.get(param.0 as usize)
        {
            return format!("param {}", spec.name);
        }
        op.to_string()
    }

    /// One node as text.
    fn line(&self, id: NodeId) -> String {
        let node = self.node(id);
        let inputs: Vec<String> = node.inputs.iter().map(NodeId::to_string).collect();
        let name = self.text(&node.op);
        format!("{id}: {} = {name} {}", node.ty, inputs.join(", "))
            .trim_end()
            .to_owned()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, indent: usize) -> fmt::Result {
        let mut scope = 0;
        for (id, node) in self.iter() {
            if node.scope != scope {
                scope = node.scope;
                writeln!(f, "{:indent$}# {}", "", self.scopes[scope as usize])?;
            }
            writeln!(f, "{:indent$}{}", "", self.line(id))?;
            if let Op::Scan(scan) = &node.op {
                scan.body.write(f, indent + 4)?;
            }
        }
        let results: Vec<String> = self.results.iter().map(NodeId::to_string).collect();
        writeln!(f, "{:indent$}return {}", "", results.join(", "))
    }
}

/// Floats in a tensor with fixed rows; 0 if its rows depend on the data graph.
pub fn floats(ty: Type) -> u64 {
    match ty.rows {
        Rows::Fixed(rows) => u64::from(rows) * u64::from(ty.columns()) * u64::from(ty.stack.max(1)),
        _ => 0,
    }
}

impl Scan {
    /// Types of the results: the carries, then the stacked `ys`.
    pub fn result_types(&self) -> Vec<Type> {
        let result = |(i, id): (usize, &NodeId)| {
            let ty = self.body.ty(*id);
            if i < self.carries as usize {
                ty
            } else {
                ty.stacked(self.count)
            }
        };
        self.body.results.iter().enumerate().map(result).collect()
    }
}

/// A broken invariant of a graph: always a bug in a pass, never the user's mistake.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("node {node} {why}\n    {text}")]
pub struct VerifyError {
    /// The node.
    pub node: NodeId,
    /// The node as text.
    pub text: String,
    /// What is wrong.
    pub why: String,
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(Input::FeatureSlice(slice)) => {
                write!(f, "input Features from {} of {}", slice.start, slice.of)
            }
            Self::Input(input) => write!(f, "input {input:?}"),
            Self::Param(id) => write!(f, "param {}", id.0),
            Self::Const(value) => write!(f, "const {value}"),
            Self::Table(values) => write!(f, "table of {}", values.len()),
            Self::Arg(n) => write!(f, "arg {n}"),
            Self::Unary(op) => match op {
                crate::Unary::LeakyRelu(s) | crate::Unary::LeakyStep(s) => {
                    write!(f, "{}({s})", op.name())
                }
                _ => f.write_str(op.name()),
            },
            Self::Binary(op) => f.write_str(op.name()),
            Self::Dropout { p, site, slice } => {
                write!(f, "dropout({p}, site {site})")?;
                slice.map_or(Ok(()), |slice| {
                    write!(f, " of columns from {}", slice.start)
                })
            }
            Self::Broadcast(ty) => write!(f, "broadcast {ty}"),
            Self::Take(set, end) => write!(f, "take {set} {}", lower(end)),
            Self::Gather(set, end, reduce) => {
                write!(f, "gather {set} {} {}", lower(end), lower(reduce))
            }
            Self::GatherMean(set) => write!(f, "gather {set} dst mean"),
            Self::EdgeSoftmax(set) => write!(f, "softmax {set}"),
            Self::Blend => f.write_str("blend"),
            Self::Sampled(sampled) => f.write_str(sampled.name()),
            Self::Pick => f.write_str("pick"),
            Self::PickSum(rows) => write!(f, "pick_sum {rows}"),
            Self::PickHead => f.write_str("pick_head"),
            Self::PlaceHead(heads) => write!(f, "place_head {heads}"),
            Self::MatMul => f.write_str("matmul"),
            Self::MatMulNT => f.write_str("matmul_nt"),
            Self::MatMulTN => f.write_str("matmul_tn"),
            Self::Reshape { heads, width } => write!(f, "reshape {heads} x {width}"),
            Self::Concat => f.write_str("concat"),
            Self::SliceCols { start, len } => write!(f, "slice_cols {start} + {len}"),
            Self::PadCols { before, after } => write!(f, "pad_cols {before}, {after}"),
            Self::SliceRows { start, len } => write!(f, "slice_rows {start} + {len}"),
            Self::PadRows { before, after } => write!(f, "pad_rows {before}, {after}"),
            Self::ReduceCols(axis, reduce) => {
                write!(f, "reduce {} {}", lower(axis), lower(reduce))
            }
            Self::SumRows => f.write_str("sum_rows"),
            Self::SumRanks => f.write_str("sum_ranks"),
            Self::Copies(what, number) => write!(f, "{}({number})", what.name()),
            Self::Clip(what, most) => write!(f, "{}({most})", what.name()),
            Self::Redistribute(how) => match how {
                Redistribute::Split(slice) | Redistribute::Join(slice) => write!(
                    f,
                    "{} {} of {} {}",
                    how.name(),
                    slice.len,
                    slice.of,
                    lower(&slice.axis)
                ),
                _ => f.write_str(how.name()),
            },
            Self::Loss(loss) => write!(f, "loss {loss}"),
            Self::LossGrad(loss) => write!(f, "loss_grad {loss}"),
            Self::Scan(scan) => {
                let order = if scan.reverse { "reversed " } else { "" };
                write!(
                    f,
                    "{order}scan {} (carries {}, consts {}, xs {})",
                    scan.count, scan.carries, scan.consts, scan.xs
                )
            }
            Self::Out(n) => write!(f, "out {n}"),
        }
    }
}

fn lower(value: &impl fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}
