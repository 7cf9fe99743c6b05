//! Loads and stores: their flags and, in checked code, their bounds checks.

use super::function::Emit;
use crate::args::checks::{Memory, OUTSIDE, RANGES};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, MemFlagsData, Type, Value, types};
use gnnc_ir::kernel::Walk;
use gnnc_ir::kernel::{At, Body};

/// Where checked code finds bounds and where it jumps if an access violates them.
#[derive(Clone, Copy)]
pub struct Checks {
    /// Address of [`crate::args::checks::Checks`].
    pub table: Value,
    /// Address of the ranges.
    pub ranges: Value,
    /// Block that takes the number of the memory, reports it and returns.
    pub failed: Block,
}

/// Flags of memory accesses: no traps, alignment of a float.
pub fn plain() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

impl Emit<'_, '_> {
    /// Loads from `offset` bytes behind `pointer`.
    pub fn read(&mut self, memory: Memory, ty: Type, pointer: Value, offset: i32) -> Value {
        self.check(memory, pointer, offset, ty.bytes());
        let flags = self.flags(memory);
        self.b.ins().load(ty, flags, pointer, offset)
    }

    /// Stores to `offset` bytes behind `pointer`.
    pub fn write(&mut self, memory: Memory, value: Value, pointer: Value, offset: i32) {
        let bytes = self.b.func.dfg.value_type(value).bytes();
        self.check(memory, pointer, offset, bytes);
        self.b.ins().store(plain(), value, pointer, offset);
    }

    /// Flags of a load. Rows at the other end of an edge may move to where they are used: loaded
    /// all at once, they would take the registers of the sums. A checked load stays behind its
    /// check.
    pub fn flags(&self, memory: Memory) -> MemFlagsData {
        let Memory::Input(input) = memory else {
            return plain();
        };
        let at = self.kernel.inputs[usize::from(input)].at;
        let varies = match Walk::of(&self.kernel.body) {
            Walk::Rows => false,
            Walk::EdgesBySource => matches!(at, At::Dst | At::Edge),
            Walk::EdgesByDestination | Walk::Edges => matches!(at, At::Src | At::Edge),
            Walk::EdgesByType => at == At::Edge,
        };
        // Only maps may write to their inputs.
        let written = matches!(self.kernel.body, Body::Map { .. });
        if varies && !written && self.checks.is_none() {
            plain().with_readonly().with_can_move()
        } else {
            plain()
        }
    }

    /// In checked code, leaves the function unless `memory` holds the `bytes` bytes from `offset`
    /// behind `pointer`.
    pub fn check(&mut self, memory: Memory, pointer: Value, offset: i32, bytes: u32) {
        let Some(checks) = self.checks else {
            return;
        };
        let Some(number) = memory.number(self.kernel.inputs.len()) else {
            return;
        };
        let entry = number as i32 * 16;
        let begin = self.b.ins().load(types::I64, plain(), checks.ranges, entry);
        let length = self
            .b
            .ins()
            .load(types::I64, plain(), checks.ranges, entry + 8);
        let address = self.b.ins().iadd_imm_s(pointer, i64::from(offset));
        let from = self.b.ins().isub(address, begin);
        let room = self.b.ins().isub(length, from);
        let bytes = self.int(i64::from(bytes));
        let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThan, from, length);
        let short = self.b.ins().icmp(IntCC::UnsignedLessThan, room, bytes);
        let wrong = self.b.ins().bor(outside, short);
        let number = self.int(number as i64);
        let inside = self.b.create_block();
        let reported = [BlockArg::from(number)];
        self.b
            .ins()
            .brif(wrong, checks.failed, &reported, inside, &[]);
        self.b.switch_to_block(inside);
        self.b.seal_block(inside);
    }

    /// Emits the code of a failed check: report the memory and return.
    pub fn report_failures(&mut self) {
        let Some(checks) = self.checks else {
            return;
        };
        self.b.switch_to_block(checks.failed);
        let number = self.b.block_params(checks.failed)[0];
        let reported = self.b.ins().iadd_imm_s(number, 1);
        self.b.ins().store(plain(), reported, checks.table, OUTSIDE);
        self.b.ins().return_(&[]);
    }

    /// The checks of a function whose address of [`crate::args::checks::Checks`] is `table`.
    pub fn begin_checks(&mut self, table: Value) {
        let ranges = self.b.ins().load(types::I64, plain(), table, RANGES);
        let failed = self.b.create_block();
        self.b.append_block_param(failed, types::I64);
        self.checks = Some(Checks {
            table,
            ranges,
            failed,
        });
    }
}
