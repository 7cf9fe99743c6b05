//! Embeddings that are stepped lazily: an optimizer steps only the rows that a batch has (PyTorch's
//! `SparseAdam`; DistDGL, section 5.4: sparse embeddings in its KVStore).
//!
//! Several ranks hold the rows of their own vertices. A batch fetches rows as it does those of features,
//! and its gradients go back to the owners, who add them in rank order and step.

use super::optimizer::Gradient;
use super::sampled::fetches_features;
use super::{LowerError, Lowerer};
use gnnc_ir::graph::ParamId;
use gnnc_ir::graph::op::{Input, Op};
use gnnc_ir::kernel::expr::{Expr, Value as Scalar};
use gnnc_ir::kernel::{At, Body, Kernel, Operand, Over};
use gnnc_ir::program::instr::{self, AddRows, PushRows};
use gnnc_ir::program::{Extent, Instr, Launch, Product, Ref, Role, ScalarRef};
use gnnc_ir::words::types::Level;
use gnnc_ir::{Graph, NodeId};

impl Lowerer {
    /// Marks the parameters of which batches only look up rows, and gives each rank its own rows of them.
    ///
    /// # Errors
    /// If there are none.
    pub(super) fn step_lazily(&mut self, [step, eval]: [&Graph; 2]) -> Result<(), LowerError> {
        for n in 0..self.lazy.len() {
            let id = ParamId(n as u32);
            let in_step = |left: NodeId| fetches_features(step, left);
            let in_eval = |left: NodeId| {
                fetches_features(eval, left) || eval.node(left).op == Op::Input(Input::Features)
            };
            let looked_up = self.looks_up && multiplied(step, id, &in_step) == Some(true);
            self.lazy[n] = looked_up && multiplied(eval, id, &in_eval).is_some();
            if self.lazy[n] && self.distributed {
                let buffer = self.params[n].at.buffer;
                self.program.buffers[buffer.0 as usize].extent = Extent::Inner;
            }
        }
        match self.lazy.contains(&true) {
            true => Ok(()),
            false => Err(LowerError::Illegal(
                "no parameter has a row for each vertex that batches only look up, so there is none to step \
                 lazily; give the graph `features = identity` and begin the model with x |> linear(D, bias = false), \
                 or leave out --lazy-embeddings"
                    .to_owned(),
            )),
        }
    }

    /// Whether a node is a parameter of which a rank holds the rows of its own vertices.
    pub(super) fn has_own_rows(&self, graph: &Graph, id: NodeId) -> bool {
        if let Op::Param(ParamId(n)) = graph.node(id).op {
            self.distributed && self.lazy[n as usize]
        } else {
            false
        }
    }

    /// The rows of a gradient that a batch has, in place of a gradient with a row for each vertex. On several
    /// ranks, they are those of the rank's own vertices.
    ///
    /// # Errors
    /// If the gradient is not a sum of rows of a level.
    pub(super) fn rows_of(
        &mut self,
        whole: Ref,
        code: &mut Vec<Instr>,
    ) -> Result<Gradient, LowerError> {
        let adds = |instr: &Instr| {
            if let Instr::AddRows(AddRows { from, to }) = instr {
                (*to == whole).then_some(*from)
            } else {
                None
            }
        };
        let place = code.iter().position(|instr| adds(instr).is_some());
        let from = place.and_then(|place| adds(&code.remove(place)));
        let level = from.and_then(|from| self.program.buffer(from.buffer).extent.level());
        let (Some(from), Some(level)) = (from, level) else {
            let why = "the gradient of an embedding is no sum of rows of a level";
            return Err(LowerError::Internal(why.to_owned()));
        };
        if !self.distributed {
            let rows = Some(Extent::Level(level));
            return Ok(Gradient { at: from, rows });
        }
        let columns = self.program.buffer(from.buffer).columns;
        let extent = Extent::Level(Level::owned(level.number));
        let name = format!("{}.pushed", self.program.buffer(whole.buffer).name);
        let to = Ref::first(self.buffer(name, extent, columns, 1, Role::Temp));
        let zero = Expr::leaf(Scalar::Const(0.0));
        let fill = over_rows(
            self,
            extent,
            columns,
            (vec![zero], vec![]),
            (vec![], vec![to]),
        );
        code.push(Instr::Launch(fill));
        code.push(Instr::PushRows(PushRows {
            from,
            to,
            encoded: None,
        }));
        let rows = Some(extent);
        Ok(Gradient { at: to, rows })
    }
}

/// Whether all that reads a parameter multiplies rows by it for which `of_features`, and something does;
/// `None` if anything else reads it.
fn multiplied(graph: &Graph, id: ParamId, of_features: &dyn Fn(NodeId) -> bool) -> Option<bool> {
    let mut found = false;
    for (_, node) in graph.iter() {
        for (place, input) in node.inputs.iter().enumerate() {
            if graph.node(*input).op != Op::Param(id) {
                continue;
            }
            let multiplies = node.op.product() == Some(Product::Nn) && place == 1;
            if !multiplies || !of_features(node.inputs[0]) {
                return None;
            }
            found = true;
        }
    }
    Some(found)
}

/// An element-wise kernel over rows of so many columns. Operands with fewer columns have one, which all
/// share.
pub(super) fn over_rows(
    lowerer: &mut Lowerer,
    rows: Extent,
    columns: u32,
    (values, scalars): (Vec<Expr>, Vec<ScalarRef>),
    (inputs, outputs): (Vec<Ref>, Vec<Ref>),
) -> Launch {
    let operand = |at: &Ref| {
        let buffer = lowerer.program.buffer(at.buffer);
        let is_single = buffer.extent == Extent::Fixed(1);
        let place = if is_single { At::One } else { At::Row };
        Operand {
            column_step: u32::from(buffer.columns == columns),
            ..Operand::dense(place, 1, buffer.columns)
        }
    };
    let kernel = Kernel {
        body: Body::Map {
            over: Over::Rows,
            values,
        },
        heads: 1,
        width: columns,
        inputs: inputs.iter().map(operand).collect(),
        outputs: outputs.iter().map(operand).collect(),
        masks: Vec::new(),
        scalars: scalars.len() as u16,
    };
    Launch {
        kernel: super::kernel::intern(&mut lowerer.program, kernel),
        rows,
        inputs,
        outputs,
        scalars,
        sites: Vec::new(),
        lists: Vec::new(),
        chunk: None,
    }
}

/// Runs `code` on rows of tensors with a row for each vertex, whose changes are put back. Returns the rows.
pub(super) fn on_rows(
    lowerer: &mut Lowerer,
    rows: Extent,
    tensors: &[Ref],
    code: impl FnOnce(&mut Lowerer, &[Ref]) -> Vec<Instr>,
) -> Vec<Instr> {
    let held = tensors.iter().map(|at| {
        let of = lowerer.program.buffer(at.buffer);
        let (name, columns) = (format!("{}.rows", of.name), of.columns);
        Ref::first(lowerer.buffer(name, rows, columns, 1, Role::Temp))
    });
    let held: Vec<Ref> = held.collect();
    let ends = || tensors.iter().copied().zip(held.iter().copied());
    let fetched = |(from, to)| Instr::FetchRows(instr::FetchRows { from, to });
    let put = |(to, from)| Instr::PutRows(instr::PutRows { from, to });
    let mut all: Vec<Instr> = ends().map(fetched).collect();
    all.extend(code(lowerer, &held));
    all.extend(ends().map(put));
    all
}
