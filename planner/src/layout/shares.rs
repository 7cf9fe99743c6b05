//! Writes nodes computed on feature slices: shares of products with parameters cut by rows, and the
//! gradients of these parameters.

use super::features::Place;
use super::rewrite::{Writer, bug};
use crate::error::LowerError;
use gnnc_ir::graph::op::{Op, Product, Redistribute, Slice};
use gnnc_ir::kernel::Axis;
use gnnc_ir::{NodeId, Type};

impl Writer<'_> {
    /// The rank's slice of the features.
    pub fn features(&self) -> Slice {
        self.ranks.slice(Axis::Width, self.graph.features)
    }

    /// The rank's part of `columns` columns (or rows) of whole blocks.
    pub fn of_blocks(&self, columns: u32) -> u32 {
        columns / self.graph.features.max(1) * self.features().len
    }

    /// The type on a rank of a tensor with `blocks` blocks.
    pub fn on_features(&self, ty: Type, blocks: u32) -> Type {
        let rows = ty.rows.of_all();
        let width = blocks * self.features().len;
        Type { rows, width, ..ty }
    }

    /// The operands of a product, the left one copied so that every rank has all its rows.
    pub fn copied_left(&self, id: NodeId) -> Result<Vec<NodeId>, LowerError> {
        let inputs = &self.graph.node(id).inputs;
        Ok(vec![self.copy(inputs[0])?, self.operand(inputs[1], None)?])
    }

    fn copy(&self, id: NodeId) -> Result<NodeId, LowerError> {
        let found = self.copies[id.0 as usize];
        found.ok_or_else(|| bug(&format!("{id} is not copied to all ranks")))
    }

    /// Whether a node needed by rows, or as it is, is computed on feature slices.
    pub fn lies_with_features(&self, id: NodeId) -> bool {
        let place = self.components.places[id.0 as usize];
        !matches!(place, Place::Elsewhere | Place::Columns(_))
    }

    /// Computes such a node.
    pub fn with_features(&mut self, id: NodeId) -> Result<NodeId, LowerError> {
        let node = self.graph.node(id);
        let place = self.components.places[id.0 as usize];
        let on_slices = Some(Axis::Width);
        let inputs = match (place, node.op.product(), &node.inputs[..]) {
            (Place::Share | Place::Sums, _, [x, rest @ ..]) => {
                let mut inputs = vec![self.operand(*x, on_slices)?];
                for input in rest {
                    inputs.push(self.operand(*input, None)?);
                }
                inputs
            }
            (Place::Rows(_), Some(Product::Tn), [x, g]) => {
                vec![self.operand(*x, on_slices)?, self.copy(*g)?]
            }
            _ => self.operands(id, None)?,
        };
        let mut op = node.op.clone();
        if let Op::SliceRows { start: a, len: b }
        | Op::PadRows {
            before: a,
            after: b,
        } = &mut op
        {
            (*a, *b) = (self.of_blocks(*a), self.of_blocks(*b));
        }
        let new = self.add(op, &inputs, node.scope)?;
        match place {
            Place::Share => self.add(Op::Redistribute(Redistribute::Reduce), &[new], node.scope),
            Place::Part => self.add(Op::SumRanks, &[new], node.scope),
            _ => Ok(new),
        }
    }
}
