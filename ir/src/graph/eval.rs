//! The reference interpreter: the meaning of a [`Graph`], in double precision.
//!
//! It is slow and obvious on purpose; tests compare everything fast with it.

mod batch;
mod dense;
mod edges;

use crate::graph::op::{Input, Op, Relations, Scan, ValueOrigin};
use crate::graph::{Graph, VerifyError};
use crate::words::sampling::Drawn;
use crate::words::types::{EdgeSet, MAX_SETS, Rows, Type};
use batch::Levels;
pub use batch::{EvalBatch, EvalLayer};
use edges::Edges;

/// A tensor in double precision.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The type.
    pub ty: Type,
    /// Rows of one element of the stack.
    pub rows: usize,
    /// `stack x rows x heads x width` numbers, row-major (`stack` counts as 1 if it is 0).
    pub data: Vec<f64>,
}

/// The dropout key, apart from an element's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropoutKey {
    /// Seed of the run.
    pub seed: u64,
    /// Epoch or step.
    pub epoch: u32,
}

/// The data graph and the parameters for evaluating a model.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalContext {
    /// `indptr[v] .. indptr[v + 1]`: the edges into vertex `v`. Holds one entry more than there
    /// are vertices.
    pub indptr: Vec<u64>,
    /// Source of every edge of the plain and the named sets, sorted within a destination. A looped
    /// edge set has one more self loop per vertex, in sorted position.
    pub indices: Vec<u32>,
    /// Number of the named set of every edge, in the same order, 0 for plain edges; empty if all
    /// are plain.
    pub sets: Vec<u8>,
    /// Type of every edge, in the same order; empty if edges have no types.
    pub types: Vec<u16>,
    /// The features of every edge, in the same order, edge by edge.
    pub edge_features: Vec<f64>,
    /// The feature matrix, `[V x F]`.
    pub features: Tensor,
    /// As many as [`Loss::per_vertex`](crate::graph::op::Loss::per_vertex) says, row by row; NaN if unknown.
    pub labels: Vec<f64>,
    /// Whether each vertex counts in the loss.
    pub train: Vec<bool>,
    /// The trainable tensors, in the order of [`Graph::params`].
    pub params: Vec<Tensor>,
    /// The dropout key of a training step; `None` in evaluation, where dropout is the identity.
    pub dropout: Option<DropoutKey>,
    /// Rows of earlier epochs, by number of the history.
    pub histories: Vec<Tensor>,
    /// Position of each vertex's chunk in the epoch's order; empty if there is one chunk.
    pub order: Vec<u32>,
    /// The rank whose block holds each vertex; empty if there is one block.
    pub blocks: Vec<u32>,
    /// The sampled batch, for graphs that read one.
    pub batch: Option<EvalBatch>,
}

/// Why a graph cannot be evaluated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EvalError {
    /// The graph breaks an invariant.
    #[error("the graph is not valid: {0}")]
    Graph(#[from] VerifyError),
    /// The edges are not an in-neighbor CSR.
    #[error("the topology is not valid CSR: {0}")]
    Topology(String),
    /// The wrong number of parameters, arguments, labels or mask entries.
    #[error("expected {expected} {what}, found {found}")]
    Count {
        /// What was counted.
        what: &'static str,
        /// Number expected.
        expected: usize,
        /// Number found.
        found: usize,
    },
    /// A tensor whose type, rows or number of elements is not the declared one.
    #[error("{what} {index} should be {expected} with {rows} rows, found {found}")]
    Tensor {
        /// `parameter`, `argument` or `features`.
        what: &'static str,
        /// Which one.
        index: usize,
        /// Declared type.
        expected: Type,
        /// Rows that the type has on this data graph.
        rows: usize,
        /// Type, rows and elements found.
        found: String,
    },
    /// Operators that do not fit together.
    #[error(transparent)]
    Type(#[from] crate::graph::infer::TypeError),
    /// An operator that needs other ranks; the interpreter has one.
    #[error("{0} needs other ranks")]
    Ranks(String),
    /// A training vertex whose label is not a class.
    #[error("vertex {vertex} is trained on but has label {label}; there are {classes} classes")]
    Label {
        /// The vertex.
        vertex: usize,
        /// Its label.
        label: f64,
        /// Columns of the logits.
        classes: u32,
    },
}

/// Evaluates a model and returns its results.
///
/// # Errors
/// If the graph is not valid or the context does not match it.
pub fn evaluate(graph: &Graph, context: &EvalContext) -> Result<Vec<Tensor>, EvalError> {
    evaluate_with_args(graph, context, &[], 0)
}

/// Evaluates a graph with arguments, such as the body of a scan.
///
/// `iteration` is that of the enclosing scans, for dropout keys; 0 for a whole model.
///
/// # Errors
/// If the graph is not valid, or the context or the arguments do not match it.
pub fn evaluate_with_args(
    graph: &Graph,
    context: &EvalContext,
    args: &[Tensor],
    iteration: u32,
) -> Result<Vec<Tensor>, EvalError> {
    graph.verify()?;
    let graph = &crate::graph::blend::expanded(graph)?;
    let machine = Machine::new(graph, context)?;
    machine.check_count("arguments", graph.args.len(), args.len())?;
    for (i, (ty, arg)) in graph.args.iter().zip(args).enumerate() {
        machine.check_tensor("argument", i, *ty, arg)?;
    }
    machine.run(graph, args, iteration)
}

impl Tensor {
    /// A tensor from its elements.
    pub fn new(ty: Type, rows: usize, data: Vec<f64>) -> Self {
        Self { ty, rows, data }
    }

    /// A tensor of equal elements.
    pub fn full(ty: Type, rows: usize, value: f64) -> Self {
        let len = ty.stack.max(1) as usize * rows * ty.columns() as usize;
        Self {
            ty,
            rows,
            data: vec![value; len],
        }
    }

    /// Element `i` of a stack, as a plain tensor.
    pub fn element(&self, i: usize) -> Self {
        let len = self.rows * self.ty.columns() as usize;
        Self {
            ty: self.ty.unstacked(),
            rows: self.rows,
            data: self.data[i * len..(i + 1) * len].to_vec(),
        }
    }

    /// Stacks plain tensors of one type.
    fn stack(ty: Type, rows: usize, elements: Vec<Self>) -> Self {
        Self {
            ty,
            rows,
            data: elements.into_iter().flat_map(|t| t.data).collect(),
        }
    }

    /// Row `r` of a plain tensor.
    pub fn row(&self, r: usize) -> &[f64] {
        let columns = self.ty.columns() as usize;
        &self.data[r * columns..(r + 1) * columns]
    }

    /// The element at a position; single rows, heads and columns are repeated.
    fn at(&self, r: usize, h: usize, c: usize) -> f64 {
        let (heads, width) = (self.ty.heads as usize, self.ty.width as usize);
        let pick = |size: usize, i: usize| if size == 1 { 0 } else { i };
        self.data[(pick(self.rows, r) * heads + pick(heads, h)) * width + pick(width, c)]
    }
}

/// A context with its edges listed.
struct Machine<'a> {
    context: &'a EvalContext,
    vertices: usize,
    plain: Edges,
    looped: Edges,
    named: Vec<Edges>,
    levels: Levels<'a>,
}

impl<'a> Machine<'a> {
    fn new(graph: &Graph, context: &'a EvalContext) -> Result<Self, EvalError> {
        let edges = Edges::plain(&context.indptr, &context.indices)?;
        let plain = edges.of_set(&context.sets, 0);
        let looped = plain.with_loops();
        let named = (1..=MAX_SETS as u8).map(|number| edges.of_set(&context.sets, number));
        let vertices = context.indptr.len() - 1;
        let machine = Self {
            context,
            vertices,
            plain,
            looped,
            named: named.collect(),
            levels: Levels::new(context.batch.as_ref(), vertices)?,
        };
        machine.check_count("mask entries", vertices, context.train.len())?;
        if !context.blocks.is_empty() {
            machine.check_count("blocks of vertices", vertices, context.blocks.len())?;
        }
        machine.check_types(graph)?;
        machine.check_count("parameters", graph.params.len(), context.params.len())?;
        let features = Type::vertices(graph.features);
        machine.check_tensor("features", 0, features, &context.features)?;
        for (i, (spec, param)) in graph.params.iter().zip(&context.params).enumerate() {
            machine.check_tensor("parameter", i, spec.ty, param)?;
        }
        Ok(machine)
    }

    /// Checks that edges have the types that a graph reads.
    fn check_types(&self, graph: &Graph) -> Result<(), EvalError> {
        let types = &self.context.types;
        for node in &graph.nodes {
            if let Op::Scan(scan) = &node.op {
                self.check_types(&scan.body)?;
            }
            if let Op::Input(Input::EdgeFeatures(columns)) = node.op {
                let expected = self.context.indices.len() * columns.count as usize;
                let found = self.context.edge_features.len();
                self.check_count("features of edges", expected, found)?;
            }
            let Op::Input(Input::Relation(types_of) | Input::RelationDegree(types_of)) = node.op
            else {
                continue;
            };
            let count = types_of.count;
            self.check_count("types of edges", self.context.indices.len(), types.len())?;
            let plain = self.plain.places.iter().map(|place| types[*place]);
            if let Some(found) = plain.into_iter().find(|t| u32::from(*t) >= count) {
                let why = format!("found an edge of type {found}, but there are {count} types");
                return Err(EvalError::Topology(why));
            }
        }
        Ok(())
    }

    fn check_count(
        &self,
        what: &'static str,
        expected: usize,
        found: usize,
    ) -> Result<(), EvalError> {
        match expected == found {
            true => Ok(()),
            false => Err(EvalError::Count {
                what,
                expected,
                found,
            }),
        }
    }

    fn check_tensor(
        &self,
        what: &'static str,
        index: usize,
        expected: Type,
        found: &Tensor,
    ) -> Result<(), EvalError> {
        let rows = self.rows(expected.rows);
        let len = expected.stack.max(1) as usize * rows * expected.columns() as usize;
        if (found.ty, found.rows, found.data.len()) == (expected, rows, len) {
            return Ok(());
        }
        let elements = found.data.len();
        let found = format!(
            "{} with {} rows and {elements} elements",
            found.ty, found.rows
        );
        Err(EvalError::Tensor {
            what,
            index,
            expected,
            rows,
            found,
        })
    }

    fn edges(&self, set: EdgeSet) -> &Edges {
        match set {
            EdgeSet::Plain => &self.plain,
            EdgeSet::Looped => &self.looped,
            EdgeSet::Named(number) => &self.named[usize::from(number).clamp(1, MAX_SETS) - 1],
        }
    }

    fn rows(&self, rows: Rows) -> usize {
        match rows {
            Rows::Fixed(n) => n as usize,
            Rows::Vertices | Rows::All => self.vertices,
            Rows::Edges(set) | Rows::AllEdges(set) => self.edges(set).len(),
            Rows::Level(level) => self.levels.rows(level),
            Rows::LevelEdges(layer, set) => self.levels.edges(layer, set).len(),
        }
    }

    /// The edges that edge rows stand for.
    fn edges_of(&self, rows: Rows, set: EdgeSet) -> &Edges {
        match rows {
            Rows::LevelEdges(layer, set) => self.levels.edges(layer, set),
            Rows::Edges(_) | Rows::AllEdges(_) => self.edges(set),
            Rows::Fixed(_) | Rows::Vertices | Rows::All | Rows::Level(_) => self.edges(set),
        }
    }

    /// The vertex of a row of vertices.
    fn vertex(&self, rows: Rows, row: usize) -> u32 {
        match rows {
            Rows::Level(_) => self.levels.vertex(row as u32),
            Rows::LevelEdges(..) | Rows::Fixed(_) | Rows::Vertices => row as u32,
            Rows::Edges(_) | Rows::All | Rows::AllEdges(_) => row as u32,
        }
    }

    fn run(
        &self,
        graph: &Graph,
        args: &[Tensor],
        iteration: u32,
    ) -> Result<Vec<Tensor>, EvalError> {
        // One result per node, several for a scan.
        let mut values: Vec<Vec<Tensor>> = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let operand = |i: usize| &values[node.inputs[i].0 as usize][0];
            let value = match node.op.origin() {
                ValueOrigin::Arg(n) => args[n as usize].clone(),
                ValueOrigin::Param(p) => self.context.params[p.0 as usize].clone(),
                ValueOrigin::Input(input) => self.input(input),
                ValueOrigin::Const(value) => Tensor::full(node.ty, 1, f64::from(value)),
                ValueOrigin::Table(table) => {
                    Tensor::new(node.ty, 1, table.iter().map(|x| f64::from(*x)).collect())
                }
                ValueOrigin::Out(n) => values[node.inputs[0].0 as usize][n as usize].clone(),
                ValueOrigin::Scan(scan) => {
                    let operands: Vec<&Tensor> = (0..node.inputs.len()).map(operand).collect();
                    values.push(self.scan(scan, &operands, iteration)?);
                    continue;
                }
                ValueOrigin::Operands => {
                    let operands: Vec<&Tensor> = (0..node.inputs.len()).map(operand).collect();
                    self.apply(&node.op, node.ty, &operands, iteration)?
                }
            };
            values.push(vec![value]);
        }
        Ok(graph
            .results
            .iter()
            .map(|r| values[r.0 as usize][0].clone())
            .collect())
    }

    fn input(&self, input: Input) -> Tensor {
        let data = match input {
            Input::Features => return self.context.features.clone(),
            Input::FeatureSlice(slice) => {
                let column = |c: u32| (c < slice.own).then_some((slice.start + c) as usize);
                let features = &self.context.features;
                let row = |r: usize| {
                    let row = features.row(r);
                    (0..slice.len).map(move |c| column(c).map_or(0.0, |c| row[c]))
                };
                let data = (0..self.vertices).flat_map(row).collect();
                let ty = Type::new(Rows::All, 1, slice.len);
                return Tensor::new(ty, self.vertices, data);
            }
            Input::InDegree(set) => self.edges(set).degrees(crate::kernel::End::Dst),
            Input::OutDegree(set) => self.edges(set).degrees(crate::kernel::End::Src),
            Input::History(history) => {
                let found = self.context.histories.get(history.number as usize);
                let missing = || {
                    let zeros = vec![0.0; self.vertices * history.columns() as usize];
                    Tensor::new(history.ty(), self.vertices, zeros)
                };
                return found.cloned().unwrap_or_else(missing);
            }
            Input::Fresh(set) => return self.edges(set).fresh(set, &self.context.order),
            Input::Relation(relations) => {
                let types = self.plain.places.iter().map(|at| self.context.types[*at]);
                return self.of_types(relations, types.map(f64::from));
            }
            Input::Drawn(drawn) => {
                let mut degrees = Vec::new();
                if let Drawn::Degree(_, set, end) = drawn {
                    degrees = self.edges(set.stored()).degrees(end);
                }
                return self.levels.drawn(drawn, &degrees);
            }
            Input::EdgeFeatures(columns) => {
                let edges = self.edges(columns.set);
                let width = columns.count as usize;
                let row = |at: &usize| &self.context.edge_features[at * width..(at + 1) * width];
                let values = edges.places.iter().flat_map(row).copied();
                return Tensor::new(columns.ty(), edges.len(), values.collect());
            }
            Input::RelationDegree(relations) => {
                let degrees = self.plain.relation_degrees(&self.context.types);
                return self.of_types(relations, degrees.into_iter());
            }
        };
        Tensor::new(Type::vertices(1), self.vertices, data)
    }

    fn of_types(&self, relations: Relations, numbers: impl Iterator<Item = f64>) -> Tensor {
        Tensor::new(relations.ty(), self.plain.len(), numbers.collect())
    }

    fn scan(
        &self,
        scan: &Scan,
        operands: &[&Tensor],
        outer: u32,
    ) -> Result<Vec<Tensor>, EvalError> {
        let carries = scan.carries as usize;
        let (state, rest) = operands.split_at(carries);
        let (consts, xs) = rest.split_at(scan.consts as usize);
        let mut state: Vec<Tensor> = state.iter().map(|t| (*t).clone()).collect();
        let types = scan.result_types();
        let count = scan.count as usize;
        let mut ys = vec![vec![None; count]; types.len() - carries];
        for step in 0..count {
            let i = if scan.reverse { count - 1 - step } else { step };
            let mut args = std::mem::take(&mut state);
            args.extend(consts.iter().map(|t| (*t).clone()));
            args.extend(xs.iter().map(|t| t.element(i)));
            let iteration = outer.wrapping_mul(scan.count).wrapping_add(i as u32);
            state = self.run(&scan.body, &args, iteration)?;
            for (list, y) in ys.iter_mut().zip(state.drain(carries..)) {
                list[i] = Some(y);
            }
        }
        let stacks = types[carries..].iter().zip(ys).map(|(ty, elements)| {
            Tensor::stack(
                *ty,
                self.rows(ty.rows),
                elements.into_iter().flatten().collect(),
            )
        });
        state.extend(stacks);
        Ok(state)
    }

    /// Applies an operator to plain tensors, or to every element of stacked ones.
    fn apply(
        &self,
        op: &Op,
        ty: Type,
        operands: &[&Tensor],
        iteration: u32,
    ) -> Result<Tensor, EvalError> {
        if ty.stack == 0 {
            return self.apply_plain(op, ty, operands, iteration);
        }
        let op = if let Op::Broadcast(to) = op {
            Op::Broadcast(to.unstacked())
        } else {
            op.clone()
        };
        let element = |i: u32| {
            let parts: Vec<Tensor> = operands.iter().map(|t| t.element(i as usize)).collect();
            let parts: Vec<&Tensor> = parts.iter().collect();
            let iteration = iteration.wrapping_mul(ty.stack).wrapping_add(i);
            self.apply_plain(&op, ty.unstacked(), &parts, iteration)
        };
        let elements: Vec<Tensor> = (0..ty.stack).map(element).collect::<Result<_, _>>()?;
        Ok(Tensor::stack(ty, self.rows(ty.rows), elements))
    }
}
