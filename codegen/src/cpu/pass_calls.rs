//! Calls of [`super::helpers`] from an edge pass.

use super::emit_pass::Block;
use super::function::{Base, Emit};
use super::helpers::{Helpers, Rows, Scores, Seen};
use super::memory::plain;
use super::pass_rows::Far;
use crate::args::checks::Memory;
use cranelift_codegen::ir::{
    AbiParam, InstBuilder, Signature, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_codegen::isa::CallConv;
use gnnc_ir::kernel::{At, Operand};
use std::mem::offset_of;

/// A function of [`Helpers`].
#[derive(Clone, Copy, Debug)]
pub enum Helper {
    /// Dot products with the row's own row.
    Dots,
    /// Weighted sums of neighbors' rows.
    Sums,
    /// Exponentials.
    Exps,
    /// Weights of a softmax.
    Weigh,
    /// Products.
    Times,
    /// Prefetches.
    Fetch,
}

impl Helper {
    /// Where its address is in [`Helpers`].
    fn offset(self) -> usize {
        match self {
            Self::Dots => offset_of!(Helpers, dots),
            Self::Sums => offset_of!(Helpers, sums),
            Self::Exps => offset_of!(Helpers, exps),
            Self::Weigh => offset_of!(Helpers, weigh),
            Self::Times => offset_of!(Helpers, times),
            Self::Fetch => offset_of!(Helpers, fetch),
        }
    }
}

/// The rows of neighbors that helpers read, and where they are described.
#[derive(Clone, Copy, Debug)]
pub struct FarRows {
    /// The rows.
    pub far: Far,
    /// Whether the calls prefetch the rows of later blocks.
    pub fetches: bool,
    /// Address of a [`Rows`].
    at: Value,
}

impl Emit<'_, '_> {
    /// Calls a helper.
    pub fn call(&mut self, helper: Helper, args: &[Value]) {
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params = vec![AbiParam::new(types::I64); args.len()];
        let signature = self.b.import_signature(signature);
        let offset = helper.offset() as i32;
        let address = self.b.ins().load(types::I64, plain(), self.helpers, offset);
        self.b.ins().call_indirect(signature, address, args);
    }

    /// Room for a structure of 64-bit fields, as words.
    pub fn room_for(&mut self, bytes: usize) -> Value {
        let kind = StackSlotKind::ExplicitSlot;
        let data = StackSlotData::new(kind, bytes as u32, 3);
        let slot = self.b.create_sized_stack_slot(data);
        self.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// Stores a field of a structure.
    pub fn put(&mut self, at: Value, offset: usize, value: Value) {
        self.b.ins().store(plain(), value, at, offset as i32);
    }

    /// Describes rows of neighbors, without the edges.
    pub fn far_rows(&mut self, far: Far, fetches: bool) -> FarRows {
        let operand = self.kernel.inputs[usize::from(far.input)];
        let at = self.room_for(size_of::<Rows>());
        let start = self.first_element(far.input);
        self.put(at, offset_of!(Rows, start), start);
        let step = self.pass_step() / 4;
        let (seen, slope) = match far.beside {
            None => (Seen::Row, 0.0),
            Some(beside) => (beside.seen, beside.slope),
        };
        for (offset, value) in [
            (offset_of!(Rows, known), 0),
            (offset_of!(Rows, stride), i64::from(operand.stride)),
            (offset_of!(Rows, heads), i64::from(self.kernel.heads)),
            (offset_of!(Rows, width), i64::from(self.kernel.width)),
            (offset_of!(Rows, step), step),
            (offset_of!(Rows, seen), seen as i64),
            (offset_of!(Rows, near), 0),
            (offset_of!(Rows, slope), i64::from(slope.to_bits())),
        ] {
            let value = self.int(value);
            self.put(at, offset, value);
        }
        FarRows { far, fetches, at }
    }

    /// Address of the first element used of row 0.
    pub fn first_element(&mut self, input: u16) -> Value {
        let offset = self.kernel.inputs[usize::from(input)].offset;
        let start = self.inputs[usize::from(input)];
        self.b.ins().iadd_imm_s(start, i64::from(offset) * 4)
    }

    /// Address of the row of an input that is the same for all edges of the block.
    fn own_row(&mut self, input: u16, block: Block) -> Value {
        let operand = self.kernel.inputs[usize::from(input)];
        let row = Some(block.row).filter(|_| operand.at != At::One);
        let start = self.inputs[usize::from(input)];
        let pointer = self.row_pointer(start, operand, row, Base::default());
        self.check_row(Memory::Input(input), operand, pointer);
        let offset = i64::from(operand.offset) * 4;
        self.b.ins().iadd_imm_s(pointer, offset)
    }

    /// Fills in the edges of a block. `end` is behind the last edge of the call. Checked code makes
    /// sure that the rows exist.
    pub fn at_block(&mut self, rows: FarRows, end: Value, block: Block) {
        let indices = self.indices_of(block);
        let count = self.b.ins().isub(block.last, block.first);
        self.put(rows.at, offset_of!(Rows, indices), indices);
        self.put(rows.at, offset_of!(Rows, count), count);
        if let Some(beside) = rows.far.beside {
            let near = self.own_row(beside.near, block);
            self.put(rows.at, offset_of!(Rows, near), near);
        }
        if self.checks.is_some() {
            let operand = self.kernel.inputs[usize::from(rows.far.input)];
            let start = self.inputs[usize::from(rows.far.input)];
            self.for_range(block.first, block.last, 1, &mut |emit, k| {
                let row = emit.entry(Memory::Indices, k);
                let pointer = emit.row_pointer(start, operand, Some(row), Base::default());
                emit.check_row(Memory::Input(rows.far.input), operand, pointer);
            });
        } else if rows.fetches {
            let known = self.b.ins().isub(end, block.first);
            self.put(rows.at, offset_of!(Rows, known), known);
        }
    }

    /// Address of the neighbor of a block's first edge.
    pub fn indices_of(&mut self, block: Block) -> Value {
        let first = self.b.ins().ishl_imm_u(block.first, 2);
        self.b.ins().iadd(self.raw.indices, first)
    }

    fn check_row(&mut self, memory: Memory, operand: Operand, pointer: Value) {
        let bytes = self.kernel.heads * self.kernel.width * 4;
        self.check(memory, pointer, (operand.offset * 4) as i32, bytes);
    }

    /// `numbers[b, h]` of the block: the dot products of `own` with the rows.
    pub fn call_dots(&mut self, rows: FarRows, own: u16, number: u16, block: Block) {
        let own = self.own_row(own, block);
        let numbers = self.numbers_start(number);
        self.call(Helper::Dots, &[rows.at, own, numbers]);
    }

    /// Adds the block's rows times a number to waiting sums.
    pub fn call_sums(&mut self, rows: FarRows, number: u16, sums: Value, block: Block) {
        let numbers = self.numbers_start(number);
        let begun = self.b.ins().uextend(types::I64, block.begun);
        self.call(Helper::Sums, &[rows.at, numbers, sums, begun]);
    }

    /// Numbers of a block: edges times heads.
    fn numbers_of(&mut self, block: Block) -> Value {
        let count = self.b.ins().isub(block.last, block.first);
        let step = self.pass_step() / 4;
        self.b.ins().imul_imm_s(count, step)
    }

    /// Replaces a number of the block's edges by its exponential.
    pub fn call_exps(&mut self, number: u16, block: Block) {
        let count = self.numbers_of(block);
        let numbers = self.numbers_start(number);
        self.call(Helper::Exps, &[numbers, count]);
    }

    /// Makes a number of the block's edges the product of two others.
    pub fn call_times(&mut self, a: u16, b: u16, to: u16, block: Block) {
        let count = self.numbers_of(block);
        let [a, b, to] = [a, b, to].map(|number| self.numbers_start(number));
        self.call(Helper::Times, &[a, b, to, count]);
    }

    /// The weights of the block's edges from their scores.
    pub fn call_weigh(&mut self, at: Value, scores: u16, weights: u16, block: Block) {
        let count = self.b.ins().isub(block.last, block.first);
        let step = self.int(self.pass_step() / 4);
        let [scores, weights] = [scores, weights].map(|number| self.numbers_start(number));
        let state = self.state_start();
        let begun = self.b.ins().uextend(types::I64, block.begun);
        for (offset, value) in [
            (offset_of!(Scores, scores), scores),
            (offset_of!(Scores, weights), weights),
            (offset_of!(Scores, state), state),
            (offset_of!(Scores, count), count),
            (offset_of!(Scores, step), step),
            (offset_of!(Scores, begun), begun),
        ] {
            self.put(at, offset, value);
        }
        self.call(Helper::Weigh, &[at]);
    }
}
