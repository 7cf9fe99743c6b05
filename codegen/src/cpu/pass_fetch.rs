//! Prefetches of an edge pass: rows at random places that code other than a helper reads or writes.

use super::emit_pass::Block;
use super::function::Emit;
use super::helpers::{Fetch, Table};
use super::pass_calls::Helper;
use cranelift_codegen::ir::{InstBuilder, Value};
use gnnc_ir::kernel::{At, Operand, Walk};
use std::mem::offset_of;

/// Tensors to prefetch.
#[derive(Clone, Copy, Debug)]
pub struct Fetched {
    /// Address of a [`Fetch`].
    at: Value,
    /// Address of the list with the row of each edge.
    list: Value,
}

impl Emit<'_, '_> {
    /// Describes what to prefetch: the rows at the other end among `inputs`, and what lies at the edges in another order
    /// than that of the walk.
    pub fn fetched(&mut self, inputs: &[u16]) -> Vec<Fetched> {
        if self.checks.is_some() {
            return Vec::new();
        }
        let other = self.other_end();
        let (mut far, mut edges) = (Vec::new(), Vec::new());
        for input in inputs {
            let operand = self.kernel.inputs[usize::from(*input)];
            let start = self.inputs[usize::from(*input)];
            if operand.at == other {
                far.push((operand, start));
            } else if operand.at == At::Edge {
                edges.push((operand, start));
            }
        }
        for (operand, start) in self.kernel.outputs.iter().zip(&self.outputs) {
            if operand.at == At::Edge {
                edges.push((*operand, *start));
            }
        }
        if Walk::of(&self.kernel.body) != Walk::EdgesBySource {
            edges.clear();
        }
        let (indices, positions) = (self.raw.indices, self.raw.positions);
        let lists = [(far, indices), (edges, positions)];
        let made = lists.map(|(tables, list)| self.tables(&tables, list));
        made.into_iter().flatten().collect()
    }

    fn tables(&mut self, tables: &[(Operand, Value)], list: Value) -> Option<Fetched> {
        let tables: Vec<&(Operand, Value)> = tables
            .iter()
            .filter(|(operand, _)| operand.storage.is_f32() && operand.picked.is_none())
            .collect();
        if tables.is_empty() {
            return None;
        }
        let at = self.room_for(size_of::<Fetch>());
        let first = self.room_for(size_of::<Table>() * tables.len());
        let len = self.int(tables.len() as i64);
        self.put(at, offset_of!(Fetch, tables), first);
        self.put(at, offset_of!(Fetch, len), len);
        let (heads, width) = (self.kernel.heads, self.kernel.width);
        for (n, (operand, start)) in tables.into_iter().enumerate() {
            let last = (heads - 1) * operand.head_step + (width - 1) * operand.column_step;
            let start = self
                .b
                .ins()
                .iadd_imm_s(*start, i64::from(operand.offset) * 4);
            let stride = self.int(operand.stride.into());
            let columns = self.int(i64::from(last) + 1);
            for (offset, value) in [
                (offset_of!(Table, start), start),
                (offset_of!(Table, stride), stride),
                (offset_of!(Table, columns), columns),
            ] {
                self.put(first, n * size_of::<Table>() + offset, value);
            }
        }
        Some(Fetched { at, list })
    }

    /// Prefetches rows for later blocks. `end` is behind the last edge of the call.
    pub fn call_fetch(&mut self, fetched: Fetched, end: Value, block: Block) {
        let first = self.b.ins().ishl_imm_u(block.first, 2);
        let indices = self.b.ins().iadd(fetched.list, first);
        let count = self.b.ins().isub(block.last, block.first);
        let known = self.b.ins().isub(end, block.first);
        for (offset, value) in [
            (offset_of!(Fetch, indices), indices),
            (offset_of!(Fetch, count), count),
            (offset_of!(Fetch, known), known),
        ] {
            self.put(fetched.at, offset, value);
        }
        self.call(Helper::Fetch, &[fetched.at]);
    }
}
