//! Prefetches of an edge pass: neighbors' rows that code other than a helper reads.

use super::emit_pass::Block;
use super::function::Emit;
use super::helpers::{Fetch, Table};
use super::pass_calls::Helper;
use cranelift_codegen::ir::{InstBuilder, Value};
use std::mem::offset_of;

impl Emit<'_, '_> {
    /// Describes the tensors among `inputs` with rows at the other end, to prefetch them; `None` if
    /// there are none. Returns the address of a [`Fetch`].
    pub fn fetched(&mut self, inputs: &[u16]) -> Option<Value> {
        let other = self.other_end();
        let tables = inputs.iter().copied().filter(|input| {
            let operand = self.kernel.inputs[usize::from(*input)];
            operand.at == other && operand.storage.is_f32() && operand.picked.is_none()
        });
        let tables: Vec<u16> = tables.collect();
        if tables.is_empty() || self.checks.is_some() {
            return None;
        }
        let at = self.room_for(size_of::<Fetch>());
        let first = self.room_for(size_of::<Table>() * tables.len());
        let len = self.int(tables.len() as i64);
        self.put(at, offset_of!(Fetch, tables), first);
        self.put(at, offset_of!(Fetch, len), len);
        let (heads, width) = (self.kernel.heads, self.kernel.width);
        for (n, input) in tables.into_iter().enumerate() {
            let operand = self.kernel.inputs[usize::from(input)];
            let last = (heads - 1) * operand.head_step + (width - 1) * operand.column_step;
            let start = self.first_element(input);
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
        Some(at)
    }

    /// Prefetches the rows of later blocks. `end` is behind the last edge of the call.
    pub fn call_fetch(&mut self, at: Value, end: Value, block: Block) {
        let indices = self.indices_of(block);
        let count = self.b.ins().isub(block.last, block.first);
        let known = self.b.ins().isub(end, block.first);
        for (offset, value) in [
            (offset_of!(Fetch, indices), indices),
            (offset_of!(Fetch, count), count),
            (offset_of!(Fetch, known), known),
        ] {
            self.put(at, offset, value);
        }
        self.call(Helper::Fetch, &[at]);
    }
}
