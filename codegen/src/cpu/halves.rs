//! Vectors of four floats to and from 16 bits in memory, as [`gnnc_ir::words::storage`] does it bit for bit.

use super::function::Emit;
use super::memory::plain;
use super::vectors::{Pattern, pattern};
use crate::args::checks::Memory;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use gnnc_ir::words::storage::{Format, Layout};

fn bytes(element: u32) -> i32 {
    (element * 2) as i32
}

impl Emit<'_, '_> {
    /// Loads elements `pointer[offsets]`; lanes without an offset hold some finite number.
    pub fn load_halves(
        &mut self,
        memory: Memory,
        pointer: Value,
        offsets: &[u32],
        format: &Format,
    ) -> Value {
        let bits = self.load_bits(memory, pointer, offsets);
        match format.layout {
            Layout::Binary16 => self.f16_number(bits),
            Layout::Bfloat16 => {
                let shifted = self.up(bits, 16);
                self.cast(types::F32X4, shifted)
            }
        }
    }

    /// Stores the lanes of `vector` to elements `pointer[offsets]`.
    pub fn store_halves(
        &mut self,
        memory: Memory,
        pointer: Value,
        offsets: &[u32],
        vector: Value,
        format: &Format,
    ) {
        let bits = match format.layout {
            Layout::Binary16 => self.f16_bits(vector),
            Layout::Bfloat16 => self.bf16_bits(vector),
        };
        self.store_bits(memory, pointer, offsets, bits);
    }

    /// Loads 16 bits into each 32-bit lane.
    fn load_bits(&mut self, memory: Memory, pointer: Value, offsets: &[u32]) -> Value {
        let one = |emit: &mut Self, element: u32| {
            let at = bytes(element);
            emit.check(memory, pointer, at, 2);
            let flags = emit.flags(memory);
            emit.b.ins().uload16(types::I32, flags, pointer, at)
        };
        let first = bytes(offsets[0]);
        match (pattern(offsets), offsets.len()) {
            (Pattern::Contiguous, 4) => {
                self.check(memory, pointer, first, 8);
                let flags = self.flags(memory);
                self.b.ins().uload16x4(flags, pointer, first)
            }
            (Pattern::Contiguous, 2) => {
                let pair = self.read(memory, types::I32, pointer, first);
                let vector = self.b.ins().scalar_to_vector(types::I32X4, pair);
                let elements = self.cast(types::I16X8, vector);
                self.b.ins().uwiden_low(elements)
            }
            (Pattern::Same, count) if count > 1 => {
                let element = one(self, offsets[0]);
                self.b.ins().splat(types::I32X4, element)
            }
            _ => {
                let element = one(self, offsets[0]);
                let mut vector = self.b.ins().scalar_to_vector(types::I32X4, element);
                for (lane, &offset) in offsets.iter().enumerate().skip(1) {
                    let element = one(self, offset);
                    vector = self.b.ins().insertlane(vector, element, lane as u8);
                }
                vector
            }
        }
    }

    fn store_bits(&mut self, memory: Memory, pointer: Value, offsets: &[u32], bits: Value) {
        let first = bytes(offsets[0]);
        let contiguous = pattern(offsets) == Pattern::Contiguous;
        if contiguous && matches!(offsets.len(), 2 | 4) {
            let narrow = self.b.ins().unarrow(bits, bits);
            let packed = match offsets.len() {
                4 => types::I64X2,
                _ => types::I32X4,
            };
            let packed = self.cast(packed, narrow);
            let packed = self.b.ins().extractlane(packed, 0);
            self.write(memory, packed, pointer, first);
            return;
        }
        for (lane, &offset) in offsets.iter().enumerate() {
            let element = self.b.ins().extractlane(bits, lane as u8);
            self.check(memory, pointer, bytes(offset), 2);
            self.b
                .ins()
                .istore16(plain(), element, pointer, bytes(offset));
        }
    }

    fn up(&mut self, vector: Value, bits: i64) -> Value {
        let bits = self.b.ins().iconst(types::I32, bits);
        self.b.ins().ishl(vector, bits)
    }

    fn down(&mut self, vector: Value, bits: i64) -> Value {
        let bits = self.b.ins().iconst(types::I32, bits);
        self.b.ins().ushr(vector, bits)
    }

    fn bf16_bits(&mut self, vector: Value) -> Value {
        let bits = self.cast(types::I32X4, vector);
        let upper = self.down(bits, 16);
        let (one, below) = (self.isplat(1), self.isplat(0x7fff));
        let even = self.b.ins().band(upper, one);
        let sum = self.b.ins().iadd(bits, below);
        let sum = self.b.ins().iadd(sum, even);
        let rounded = self.down(sum, 16);
        let quiet = self.isplat(0x40);
        let none = self.b.ins().bor(upper, quiet);
        let is_none = self.b.ins().fcmp(FloatCC::Unordered, vector, vector);
        self.b.ins().bitselect(is_none, none, rounded)
    }

    fn f16_bits(&mut self, vector: Value) -> Value {
        let all = self.cast(types::I32X4, vector);
        let (top, below_top) = (self.isplat(0x8000_0000), self.isplat(0x7fff_ffff));
        let sign = self.b.ins().band(all, top);
        let bits = self.b.ins().band(all, below_top);
        // Infinity or NaN.
        let (infinite, quiet) = (self.isplat(0x7c00), self.isplat(0x0200));
        let is_none = self.b.ins().fcmp(FloatCC::Unordered, vector, vector);
        let none = self.b.ins().band(is_none, quiet);
        let special = self.b.ins().bor(infinite, none);
        // Too small for a full mantissa: the addition rounds to multiples of 2^-24.
        let (half, half_bits) = (self.splat(0.5), self.isplat(0x3f00_0000));
        let small = self.cast(types::F32X4, bits);
        let small = self.b.ins().fadd(small, half);
        let small = self.cast(types::I32X4, small);
        let small = self.b.ins().isub(small, half_bits);
        let last = self.down(bits, 13);
        let (one, rebias) = (
            self.isplat(1),
            self.isplat(0xfffu32.wrapping_sub(0x3800_0000)),
        );
        let even = self.b.ins().band(last, one);
        let normal = self.b.ins().iadd(bits, rebias);
        let normal = self.b.ins().iadd(normal, even);
        let normal = self.down(normal, 13);
        let (least, most) = (self.isplat(0x3880_0000), self.isplat(0x477f_ffff));
        let is_small = self.b.ins().icmp(IntCC::SignedLessThan, bits, least);
        let is_large = self.b.ins().icmp(IntCC::SignedGreaterThan, bits, most);
        let rounded = self.b.ins().bitselect(is_small, small, normal);
        let rounded = self.b.ins().bitselect(is_large, special, rounded);
        let sign = self.down(sign, 16);
        self.b.ins().bor(sign, rounded)
    }

    fn f16_number(&mut self, all: Value) -> Value {
        let (top, below_top) = (self.isplat(0x8000), self.isplat(0x7fff));
        let sign = self.b.ins().band(all, top);
        let sign = self.up(sign, 16);
        let bits = self.b.ins().band(all, below_top);
        // Raise the exponent by 112. Subnormals first get the smallest exponent, which is then
        // subtracted: no intermediate is a subnormal 32-bit float, which threads may flush to zero.
        let moved = self.up(bits, 13);
        let (shift, least) = (self.isplat(0x3800_0000), self.isplat(0x3880_0000));
        let normal = self.b.ins().iadd(moved, shift);
        let small = self.b.ins().iadd(moved, least);
        let small = self.cast(types::F32X4, small);
        let offset = self.cast(types::F32X4, least);
        let small = self.b.ins().fsub(small, offset);
        let small = self.cast(types::I32X4, small);
        let first = self.isplat(0x0400);
        let is_small = self.b.ins().icmp(IntCC::SignedLessThan, bits, first);
        let number = self.b.ins().bitselect(is_small, small, normal);
        let (largest, infinite) = (self.isplat(0x7bff), self.isplat(0x7f80_0000));
        let is_special = self.b.ins().icmp(IntCC::SignedGreaterThan, bits, largest);
        let special = self.b.ins().band(is_special, infinite);
        let number = self.b.ins().bor(number, special);
        let number = self.b.ins().bor(number, sign);
        self.cast(types::F32X4, number)
    }
}
