//! Emits one region: a model, a loop body, or values that `setup` computes once.

use crate::lower::analysis::{Analysis, analyse};
use crate::lower::canonical::{features, is_left_factor};
use crate::lower::embeddings::Embeddings;
use crate::lower::kernel::Builder;
use crate::lower::partial::Partials;
use crate::lower::sampled::fetches_features;
use crate::lower::{LowerError, Lowerer};
use gnnc_ir::graph::op::{Copies, Op, Sampled, Slice};
use gnnc_ir::kernel::{At, Body, Operand, Over};
use gnnc_ir::program::{Extent, Instr, Matrix, Ref, Role};
use gnnc_ir::{Graph, NodeId, Rows, Type};

/// Location of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// Buffer and slot; for a stacked tensor, those of element 0.
    pub at: Ref,
    /// First float within a row.
    pub offset: u32,
    /// Floats from one row to the next.
    pub stride: u32,
    /// Floats from one head to the next.
    pub head_step: u32,
    /// Its type.
    pub ty: Type,
    /// Whether halo rows hold their owners' values.
    pub halo: bool,
    /// Of which its columns are a slice, if groups of ranks divide the vertices.
    pub slice: Option<Slice>,
}

impl Value {
    /// A tensor that fills a buffer slot.
    pub fn whole(at: Ref, ty: Type) -> Self {
        Self {
            at,
            offset: 0,
            stride: ty.columns(),
            head_step: ty.width,
            ty,
            halo: false,
            slice: None,
        }
    }

    /// This tensor as a kernel's operand.
    pub fn operand(&self, at: At) -> Operand {
        let head_step = if self.ty.heads == 1 {
            0
        } else {
            self.head_step
        };
        let column_step = u32::from(self.ty.width != 1);
        Operand {
            at,
            stride: self.stride,
            offset: self.offset,
            head_step,
            column_step,
            storage: Default::default(),
            picked: None,
        }
    }

    /// Whether the columns of a row are contiguous.
    fn plain_rows(&self) -> bool {
        self.ty.heads == 1 || self.head_step == self.ty.width
    }

    /// This tensor as a matrix.
    pub fn matrix(&self) -> Matrix {
        Matrix {
            at: self.at,
            offset: self.offset,
            stride: self.stride,
        }
    }
}

/// A region during emission.
pub struct Region<'a> {
    /// The region's nodes.
    pub graph: &'a Graph,
    /// Facts about the nodes.
    pub facts: Analysis,
    /// Whether dropout is on.
    pub train: bool,
    /// Whether epoch-invariant values are computed in `setup` instead of here.
    pub hoist: bool,
    /// Nodes that products read as nonzeros and nothing reads as a dense matrix.
    pub unread: Vec<bool>,
    /// Instructions so far.
    pub code: Vec<Instr>,
    /// Instructions that fill blends with rows of earlier epochs.
    pub before: Vec<Instr>,
    /// Indices in `code` of kernels that collect gradients of fresh edges.
    pub fresh: Vec<usize>,
    /// Bound arguments, by index.
    pub args: Vec<Value>,
    /// Location of each node's tensor, once computed.
    pub values: Vec<Option<Value>>,
    /// Where a node must be computed, if not in a new buffer.
    pub targets: Vec<Option<Ref>>,
    /// Scan results by node.
    pub scan_results: Vec<Vec<Value>>,
    /// Role of new buffers.
    pub role: Role,
    /// Whether this is a loop body.
    pub in_loop: bool,
    /// How often it runs: the iterations of a loop body, otherwise 1.
    pub iterations: u32,
    /// Embeddings, if exchanges may be left out or there are blends.
    pub embeddings: Embeddings,
}

impl<'a> Region<'a> {
    /// A region with no instructions yet.
    pub fn new(
        lowerer: &Lowerer,
        graph: &'a Graph,
        partial: Partials,
        train: bool,
        args: Vec<Value>,
    ) -> Self {
        let count = graph.nodes.len();
        Self {
            graph,
            facts: analyse(graph, partial, lowerer),
            train,
            hoist: true,
            unread: Vec::new(),
            code: Vec::new(),
            before: Vec::new(),
            fresh: Vec::new(),
            args,
            values: vec![None; count],
            targets: vec![None; count],
            scan_results: vec![Vec::new(); count],
            role: Role::Temp,
            in_loop: false,
            iterations: 1,
            embeddings: Embeddings::default(),
        }
    }

    /// Location of a node's tensor, if it has been computed.
    pub fn value(&self, id: NodeId) -> Option<Value> {
        self.values[id.0 as usize]
    }

    /// Location of a node's tensor.
    pub fn stored(&self, id: NodeId) -> Result<Value, LowerError> {
        self.value(id).ok_or_else(|| {
            LowerError::Internal(format!("{id}, {}, is not stored", self.graph.node(id).op))
        })
    }

    /// Emits every stored node in evaluation order.
    pub fn emit(&mut self, lowerer: &mut Lowerer) -> Result<(), LowerError> {
        let needed = self.needed();
        self.unread = self.only_as_nonzeros(lowerer);
        for (id, _) in self.graph.iter() {
            let n = id.0 as usize;
            if needed[n] && !self.unread[n] && self.facts.stored[n] && self.values[n].is_none() {
                self.emit_node(lowerer, id)?;
            }
        }
        Ok(())
    }

    /// Nodes that products read as nonzeros and nothing reads as a dense matrix.
    fn only_as_nonzeros(&self, lowerer: &Lowerer) -> Vec<bool> {
        let graph = self.graph;
        let mut only: Vec<bool> = graph
            .iter()
            .map(|(id, _)| {
                let nonzeros = lowerer.sparse && features(graph, id);
                let looked_up = lowerer.looks_up && fetches_features(graph, id);
                (nonzeros || looked_up) && !graph.results.contains(&id)
            })
            .collect();
        for (id, node) in graph.iter().rev() {
            for (position, input) in node.inputs.iter().enumerate() {
                let drops = matches!(node.op, Op::Dropout { .. }) && self.train;
                let fetches = lowerer.looks_up && fetches_features(graph, id);
                let fits = (drops || fetches) && only[id.0 as usize];
                only[input.0 as usize] &= fits || is_left_factor(node, position);
            }
        }
        only
    }

    /// Nodes that a result needs and `setup` does not provide.
    fn needed(&self) -> Vec<bool> {
        let mut needed = vec![false; self.graph.nodes.len()];
        let mut work = self.graph.results.clone();
        while let Some(id) = work.pop() {
            let n = id.0 as usize;
            if std::mem::replace(&mut needed[n], true) {
                continue;
            }
            if !(self.hoist && self.facts.fixed[n] && self.facts.stored[n]) {
                work.extend(&self.graph.node(id).inputs);
            }
        }
        needed
    }

    /// Computes one stored node.
    pub fn emit_node(&mut self, lowerer: &mut Lowerer, id: NodeId) -> Result<(), LowerError> {
        let graph = self.graph;
        let node = graph.node(id);
        let n = id.0 as usize;
        if self.hoist && self.facts.fixed[n] {
            self.values[n] = Some(lowerer.fixed(graph, id, self.facts.read_at_source[n])?);
            return Ok(());
        }
        let sum = self.facts.host[n].unwrap_or(id);
        if let Some(pass) = self.facts.passes.of[sum.0 as usize] {
            return self.edge_pass(lowerer, pass);
        }
        self.fetch_embeddings(lowerer, id)?;
        self.fetch_halos(lowerer, id)?;
        match &node.op {
            Op::Arg(arg) => self.values[n] = Some(self.args[*arg as usize]),
            Op::Input(input) => self.values[n] = Some(lowerer.input(*input)?),
            Op::Param(param) => self.values[n] = Some(lowerer.param(*param)),
            Op::Table(values) => self.values[n] = Some(lowerer.table(values)),
            Op::Reshape { .. }
            | Op::SliceCols { .. }
            | Op::SliceRows { .. }
            | Op::SumRanks
            | Op::Sampled(Sampled::Prefix(_))
            | Op::Copies(Copies::Kept | Copies::Seen | Copies::Through, _) => {
                self.values[n] = Some(self.view(lowerer, id)?);
            }
            Op::Scan(_) => self.scan(lowerer, id)?,
            Op::Out(k) => {
                let results = &self.scan_results[node.inputs[0].0 as usize];
                let value = results.get(*k as usize).copied();
                self.values[n] = Some(value.ok_or_else(|| {
                    LowerError::Internal(format!("{id} reads a scan that was not emitted"))
                })?);
            }
            Op::Loss(loss) | Op::LossGrad(loss) => self.loss(lowerer, id, loss)?,
            Op::Concat | Op::PadCols { .. } | Op::PadRows { .. } => self.assemble(lowerer, id)?,
            Op::Redistribute(how) => self.redistribute(lowerer, id, *how)?,
            Op::Sampled(Sampled::Fetch(_)) => self.fetch_rows(lowerer, id)?,
            Op::Sampled(Sampled::AddPrefix) => self.add_prefix(lowerer, id)?,
            Op::Blend => self.blend(lowerer, id)?,
            Op::Copies(Copies::Back | Copies::Left, _) => self.hand_back(lowerer, id)?,
            Op::Clip(_, most) => self.clip_factor(lowerer, id, *most)?,
            Op::MatMul | Op::MatMulNT | Op::MatMulTN => {
                let out = self.product(lowerer, id, id)?;
                self.values[n] = Some(out);
            }
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Dropout { .. }
            | Op::Broadcast(_)
            | Op::Const(_)
            | Op::Take(..)
            | Op::Pick
            | Op::PickHead
            | Op::PlaceHead(_) => match self.facts.host[n] {
                Some(g) if matches!(graph.node(g).op, Op::MatMul | Op::MatMulNT) => {
                    let out = self.product(lowerer, g, id)?;
                    self.values[n] = Some(out);
                }
                Some(g) => {
                    self.fetch_halos(lowerer, g)?;
                    self.reduction(lowerer, g, id)?;
                }
                None => self.map(lowerer, id)?,
            },
            Op::Gather(..)
            | Op::GatherMean(_)
            | Op::EdgeSoftmax(_)
            | Op::PickSum(_)
            | Op::ReduceCols(..)
            | Op::SumRows => self.reduction(lowerer, id, id)?,
        }
        if let Some(among) = self.facts.partial.reduce_now[n]
            && let Some(value) = self.values[n]
        {
            lowerer.all_reduce(&mut self.code, vec![value.at.buffer], among);
        }
        Ok(())
    }

    /// The buffer slot a node is computed into.
    pub fn target(&mut self, lowerer: &mut Lowerer, id: NodeId, extent: Extent) -> Value {
        let ty = self.graph.ty(id);
        let at = self.targets[id.0 as usize].unwrap_or_else(|| {
            let name = self.graph.tensor_name(id);
            Ref::first(lowerer.buffer(name, extent, ty.columns(), 1, self.role))
        });
        if extent.has_halo() {
            lowerer.make_local(at.buffer);
        }
        Value {
            slice: self.slice_of(lowerer, id),
            ..Value::whole(at, ty)
        }
    }

    fn view(&mut self, lowerer: &mut Lowerer, id: NodeId) -> Result<Value, LowerError> {
        let node = self.graph.node(id);
        let mut value = self.stored(node.inputs[0])?;
        if let Op::SliceCols { start, .. } = node.op {
            value.offset += start;
        } else if let Op::SliceRows { start, .. } = node.op {
            value.offset += start * value.stride;
        } else if !matches!(node.op, Op::Copies(..) | Op::Sampled(_)) {
            value = self.plain(lowerer, node.inputs[0])?;
            value.head_step = node.ty.width;
        }
        value.ty = node.ty;
        Ok(value)
    }

    /// The tensor with contiguous columns; copies it if necessary.
    pub fn plain(&mut self, lowerer: &mut Lowerer, id: NodeId) -> Result<Value, LowerError> {
        let value = self.stored(id)?;
        if value.plain_rows() {
            return Ok(value);
        }
        let name = self.graph.tensor_name(id);
        let extent = lowerer.extent(value.ty);
        let buffer = lowerer.buffer(name, extent, value.ty.columns(), 1, self.role);
        let copy = Value::whole(Ref::first(buffer), value.ty);
        self.copy(lowerer, value, copy);
        Ok(copy)
    }

    /// Copies a tensor.
    pub fn copy(&mut self, lowerer: &mut Lowerer, from: Value, to: Value) {
        let rows = lowerer.extent(from.ty);
        let over = over(from.ty);
        let at = if from.ty.rows.edge_set().is_some() {
            At::Edge
        } else {
            At::Row
        };
        let mut builder = Builder::new(from.ty);
        let value = builder.read(from, at);
        let output = (to.operand(At::Row), to.at);
        let body = Body::Map {
            over,
            values: vec![value],
        };
        let launch = builder.launch(&mut lowerer.program, body, rows, vec![output]);
        self.code.push(Instr::Launch(launch));
    }

    /// An element-wise kernel.
    fn map(&mut self, lowerer: &mut Lowerer, id: NodeId) -> Result<(), LowerError> {
        let ty = self.graph.ty(id);
        let mut builder = Builder::new(ty);
        let value = builder.value(self, id)?;
        // Halo rows are computed here instead of sent if all their operands are here.
        let wanted = lowerer.has_halo(ty.rows) && self.facts.read_at_source[id.0 as usize];
        let by_vertex = matches!(ty.rows, Rows::Vertices | Rows::All);
        let local = wanted && by_vertex && self.halo_ready(id, true);
        let (mut rows, mut extent) = (launch_rows(ty), lowerer.extent(ty));
        if local {
            (rows, extent) = (rows.with_halo(), extent.with_halo());
        }
        let mut out = self.target(lowerer, id, extent);
        out.halo = local;
        let body = Body::Map {
            over: over(ty),
            values: vec![value],
        };
        let output = (out.operand(At::Row), out.at);
        let launch = builder.launch(&mut lowerer.program, body, rows, vec![output]);
        self.code.push(Instr::Launch(launch));
        self.values[id.0 as usize] = Some(out);
        Ok(())
    }

    /// Whether all vertex tensors an element-wise tree reads have valid halo rows.
    fn halo_ready(&self, id: NodeId, root: bool) -> bool {
        let node = self.graph.node(id);
        match (root, self.value(id)) {
            (false, Some(value)) => value.halo || matches!(value.ty.rows, Rows::Fixed(_)),
            _ => node.inputs.iter().all(|i| self.halo_ready(*i, false)),
        }
    }
}

impl Region<'_> {
    /// Rows a node is computed for.
    pub fn rows_of(&self, id: NodeId) -> Extent {
        match self.embeddings.near(id) {
            true => Extent::Local,
            false => launch_rows(self.graph.ty(id)),
        }
    }

    /// Rows a node has in memory.
    pub fn extent_of(&self, lowerer: &Lowerer, id: NodeId) -> Extent {
        match self.embeddings.near(id) {
            true => Extent::Local,
            false => lowerer.extent(self.graph.ty(id)),
        }
    }
}

/// Rows that a kernel over elements of a type runs over.
pub fn launch_rows(ty: Type) -> Extent {
    match ty.rows {
        Rows::Fixed(n) => Extent::Fixed(n),
        Rows::Vertices | Rows::Edges(_) => Extent::Inner,
        Rows::All | Rows::AllEdges(_) => Extent::All,
        Rows::Level(level) | Rows::LevelEdges(level, _) => Extent::Level(level),
    }
}

/// Whether a kernel over elements of a type walks edges.
pub fn over(ty: Type) -> Over {
    ty.rows.edge_set().map_or(Over::Rows, Over::Edges)
}
