//! Calls of [`super::helpers`] from an edge pass.

use super::emit_pass::Block;
use super::function::{Base, Emit};
use super::helpers::{Helpers, Rows, Scores};
use super::memory::plain;
use crate::args::checks::Memory;
use cranelift_codegen::ir::{
    AbiParam, InstBuilder, Signature, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_codegen::isa::CallConv;
use gnnc_ir::kernel::expr::{Expr, Value as Term};
use gnnc_ir::kernel::{At, Operand, Walk};
use gnnc_ir::words::scalar::Binary;
use std::mem::offset_of;

/// Columns from which calls pay.
const LEAST: u32 = 8;

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

/// The rows at the other end of edges that helpers read.
#[derive(Clone, Copy, Debug)]
pub struct FarRows {
    /// The input.
    pub input: u16,
    /// Address of a [`Rows`].
    at: Value,
    /// Behind the last edge of the call.
    end: Value,
}

/// A dot product that a helper can compute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowDot {
    /// The input with the neighbors' rows.
    pub far: u16,
    /// The input with the row's own row.
    pub own: u16,
}

/// A sum that a helper can compute: of rows times numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedRows {
    /// The input with the rows.
    pub input: u16,
    /// The numbers.
    pub numbers: Vec<u16>,
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

    fn put(&mut self, at: Value, offset: usize, value: Value) {
        self.b.ins().store(plain(), value, at, offset as i32);
    }

    /// The description of an input's rows at the other end, without the edges.
    pub fn far_rows(&mut self, input: u16, end: Value) -> FarRows {
        let operand = self.kernel.inputs[usize::from(input)];
        let at = self.room_for(size_of::<Rows>());
        let start = self.inputs[usize::from(input)];
        let start = self
            .b
            .ins()
            .iadd_imm_s(start, i64::from(operand.offset) * 4);
        self.put(at, offset_of!(Rows, start), start);
        let step = self.pass_step() / 4;
        for (offset, value) in [
            (offset_of!(Rows, stride), i64::from(operand.stride)),
            (offset_of!(Rows, heads), i64::from(self.kernel.heads)),
            (offset_of!(Rows, width), i64::from(self.kernel.width)),
            (offset_of!(Rows, step), step),
        ] {
            let value = self.int(value);
            self.put(at, offset, value);
        }
        FarRows { input, at, end }
    }

    /// Fills in the edges of a block. Checked code makes sure that the rows exist.
    pub fn at_block(&mut self, rows: FarRows, block: Block) {
        let first = self.b.ins().ishl_imm_u(block.first, 2);
        let indices = self.b.ins().iadd(self.raw.indices, first);
        let count = self.b.ins().isub(block.last, block.first);
        let mut known = self.b.ins().isub(rows.end, block.first);
        if self.checks.is_some() {
            known = count;
            let operand = self.kernel.inputs[usize::from(rows.input)];
            let start = self.inputs[usize::from(rows.input)];
            self.for_range(block.first, block.last, 1, &mut |emit, k| {
                let row = emit.entry(Memory::Indices, k);
                let pointer = emit.row_pointer(start, operand, Some(row), Base::default());
                emit.check_row(Memory::Input(rows.input), operand, pointer);
            });
        }
        self.put(rows.at, offset_of!(Rows, indices), indices);
        self.put(rows.at, offset_of!(Rows, count), count);
        self.put(rows.at, offset_of!(Rows, known), known);
    }

    fn check_row(&mut self, memory: Memory, operand: Operand, pointer: Value) {
        let bytes = self.kernel.heads * self.kernel.width * 4;
        self.check(memory, pointer, (operand.offset * 4) as i32, bytes);
    }

    /// `numbers[b, h]` of the block: the dot products of `own` with the rows.
    pub fn call_dots(&mut self, rows: FarRows, own: u16, number: u16, block: Block) {
        self.at_block(rows, block);
        let operand = self.kernel.inputs[usize::from(own)];
        let start = self.inputs[usize::from(own)];
        let pointer = self.row_pointer(start, operand, Some(block.row), Base::default());
        self.check_row(Memory::Input(own), operand, pointer);
        let pointer = self
            .b
            .ins()
            .iadd_imm_s(pointer, i64::from(operand.offset) * 4);
        let numbers = self.numbers_start(number);
        self.call(Helper::Dots, &[rows.at, pointer, numbers]);
    }

    /// Adds the block's rows times a number to a result's waiting sums.
    pub fn call_sums(&mut self, rows: FarRows, number: u16, sums: Value, block: Block) {
        self.at_block(rows, block);
        let numbers = self.numbers_start(number);
        self.call(Helper::Sums, &[rows.at, numbers, sums]);
    }

    /// Prefetches rows for later blocks.
    pub fn call_fetch(&mut self, rows: FarRows, block: Block) {
        if self.checks.is_none() {
            self.at_block(rows, block);
            self.call(Helper::Fetch, &[rows.at]);
        }
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

    /// Whether the rows of an input can be handed to a helper.
    fn whole_rows(&self, input: u16) -> bool {
        let operand = self.kernel.inputs[usize::from(input)];
        let (heads, width) = (self.kernel.heads, self.kernel.width);
        let dense = operand.column_step == 1 && (heads == 1 || operand.head_step == width);
        dense && operand.picked.is_none() && operand.storage.is_f32() && heads * width >= LEAST
    }

    /// The end of edges at which neighbors are.
    pub fn other_end(&self) -> At {
        match Walk::of(&self.kernel.body) {
            Walk::EdgesBySource => At::Dst,
            _ => At::Src,
        }
    }

    /// Whether an input has a row for each neighbor that helpers can read.
    pub fn is_far(&self, input: u16) -> bool {
        let at = self.kernel.inputs[usize::from(input)].at;
        at == self.other_end() && self.whole_rows(input)
    }

    /// The rows at the other end and the own row whose dot product an expression is.
    pub fn dot_of_rows(&self, expr: &Expr) -> Option<RowDot> {
        let [
            Term::Load(a),
            Term::Load(b),
            Term::Binary(Binary::Mul, x, y),
        ] = expr.values[..]
        else {
            return None;
        };
        if x == y {
            return None;
        }
        let own = |input: u16| {
            let at = self.kernel.inputs[usize::from(input)].at;
            let other = [self.other_end(), At::One, At::Edge];
            !other.contains(&at) && self.whole_rows(input)
        };
        match (self.is_far(a), self.is_far(b)) {
            (true, false) if own(b) => Some(RowDot { far: a, own: b }),
            (false, true) if own(a) => Some(RowDot { far: b, own: a }),
            _ => None,
        }
    }

    /// The rows and the numbers whose product an expression is.
    pub fn weighted_rows(&self, expr: &Expr) -> Option<WeightedRows> {
        let (mut rows, mut numbers) = (Vec::new(), Vec::new());
        let mut work = vec![expr.result()];
        while let Some(id) = work.pop() {
            match expr.values[usize::from(id)] {
                Term::Load(input) if self.is_far(input) => rows.push(input),
                Term::Number(number) => numbers.push(number),
                Term::Binary(Binary::Mul, a, b) => work.extend([a, b]),
                _ => return None,
            }
        }
        match rows[..] {
            [input] => Some(WeightedRows { input, numbers }),
            _ => None,
        }
    }
}
