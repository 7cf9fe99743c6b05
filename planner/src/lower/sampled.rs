//! Instructions of sampled batches.

use super::kernel::Builder;
use super::region::{Region, Value, launch_rows};
use super::{LowerError, Lowerer};
use gnnc_ir::NodeId;
use gnnc_ir::kernel::expr::{Expr, Value as Scalar};
use gnnc_ir::kernel::{At, Body, Over};
use gnnc_ir::program::instr::{self, DrawnBuffer};
use gnnc_ir::program::{Instr, Ref, Role};
use gnnc_ir::words::sampling::{Drawn, Sampling};
use gnnc_ir::words::scalar::Binary;

impl Lowerer {
    /// Numbers of the batch at hand.
    pub(super) fn drawn(&mut self, drawn: Drawn) -> Value {
        let known = self.drawn.iter().find(|one| one.drawn == drawn);
        let at = known.map(|one| one.at).unwrap_or_else(|| {
            let (name, extent) = (name(drawn), self.extent(drawn.ty()));
            let at = Ref::first(self.buffer(name, extent, 1, 1, Role::Temp));
            self.drawn.push(DrawnBuffer { drawn, at });
            at
        });
        Value::whole(at, drawn.ty())
    }

    /// Makes the training step the body of a loop over batches.
    /// Edges may be `typed`.
    pub(super) fn in_batches(&mut self, sampling: &Sampling, typed: bool) {
        let outputs = std::mem::take(&mut self.drawn);
        let mut body = vec![Instr::Sample(instr::Sample {})];
        if let Some(level) = self.top_of_all() {
            body.push(Instr::ShareLevels(instr::ShareLevels { level, typed }));
        }
        if !outputs.is_empty() {
            body.push(Instr::Numbers(instr::Numbers { outputs }));
        }
        body.append(&mut self.program.step);
        self.program.step = vec![Instr::Batches(instr::Batches { body })];
        self.program.sampling = Some(sampling.clone());
    }
}

impl Lowerer {
    /// The level next to the seeds of those whose rows ranks have of each other, if they have any.
    fn top_of_all(&self) -> Option<u8> {
        let buffers = self.program.buffers.iter();
        let levels = buffers.filter_map(|buffer| buffer.extent.of_all_ranks());
        levels.map(|level| level.number).max()
    }
}

/// A readable name of a buffer.
fn name(drawn: Drawn) -> String {
    let level = drawn.level().number;
    match drawn {
        Drawn::Kept(..) => format!("kept{level}"),
        Drawn::Degree(..) => format!("degree{level}"),
        Drawn::Scale(..) => format!("scale{level}"),
        Drawn::Relation(..) => format!("relation{level}"),
        Drawn::RelationDegree(..) => format!("relation_degree{level}"),
    }
}

impl Region<'_> {
    /// Reads the rows of a level's vertices.
    pub(super) fn fetch_rows(
        &mut self,
        lowerer: &mut Lowerer,
        id: NodeId,
    ) -> Result<(), LowerError> {
        let ty = self.graph.ty(id);
        let from = self.plain(lowerer, self.graph.node(id).inputs[0])?;
        let extent = lowerer.extent(ty);
        let out = self.target(lowerer, id, extent);
        let whole = lowerer.program.buffer(from.at.buffer).columns == ty.columns();
        if !whole || from.offset != 0 {
            let why = "rows that are a part of longer ones are fetched";
            return Err(LowerError::Internal(why.to_owned()));
        }
        let (from, to) = (from.at, out.at);
        self.code
            .push(Instr::FetchRows(instr::FetchRows { from, to }));
        self.values[id.0 as usize] = Some(out);
        Ok(())
    }

    /// Adds a tensor to the first rows of another one, in place if nothing else reads that.
    pub(super) fn add_prefix(
        &mut self,
        lowerer: &mut Lowerer,
        id: NodeId,
    ) -> Result<(), LowerError> {
        let graph = self.graph;
        let [below, first] = graph.node(id).inputs[..] else {
            return Err(LowerError::Internal(format!(
                "{id} does not add two tensors"
            )));
        };
        let from = self.plain(lowerer, below)?;
        let buffer = lowerer.program.buffer(from.at.buffer);
        let own = buffer.columns == from.stride && from.offset == 0 && buffer.role == Role::Temp;
        let out = match own && self.facts.uses[below.0 as usize] == 1 && !self.is_view(below) {
            true => from,
            false => {
                let extent = lowerer.extent(graph.ty(id));
                let out = self.target(lowerer, id, extent);
                self.copy(lowerer, from, out);
                out
            }
        };
        let ty = graph.ty(first);
        let mut builder = Builder::new(ty);
        let mut sum = builder.value(self, first)?;
        let added = sum.result();
        let row = builder.load_from(&mut sum, out, At::Row);
        sum.push(Scalar::Binary(Binary::Add, row, added));
        self.first_rows(lowerer, builder, sum, Value { ty, ..out });
        self.values[id.0 as usize] = Some(out);
        Ok(())
    }

    fn is_view(&self, id: NodeId) -> bool {
        super::analysis::view(&self.graph.node(id).op)
    }

    fn first_rows(&mut self, lowerer: &mut Lowerer, builder: Builder, value: Expr, out: Value) {
        let body = Body::Map {
            over: Over::Rows,
            values: vec![value],
        };
        let output = (out.operand(At::Row), out.at);
        let rows = launch_rows(out.ty);
        let launch = builder.launch(&mut lowerer.program, body, rows, vec![output]);
        self.code.push(Instr::Launch(launch));
    }
}
