//! Dropout masks: the hash of [`gnnc_ir::kernel::keep`], one column per lane.

use super::function::{Base, Emit};
use super::schedule::Lanes;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use gnnc_ir::kernel::drop_threshold;

const COLUMN: u32 = 0x9e37_79b9;

impl Emit<'_, '_> {
    /// [`gnnc_ir::kernel::mix32`] of a 32-bit integer, or of each lane of a vector of them.
    fn mix32(&mut self, x: Value) -> Value {
        let constant = |emit: &mut Self, value: u32| {
            if emit.b.func.dfg.value_type(x) == types::I32X4 {
                emit.isplat(value)
            } else {
                emit.b.ins().iconst(types::I32, i64::from(value))
            }
        };
        let shifted = self.b.ins().ushr_imm_u(x, 16);
        let y = self.b.ins().bxor(x, shifted);
        let factor = constant(self, 0x7feb_352d);
        let y = self.b.ins().imul(y, factor);
        let shifted = self.b.ins().ushr_imm_u(y, 15);
        let y = self.b.ins().bxor(y, shifted);
        let factor = constant(self, 0x846c_a68b);
        let y = self.b.ins().imul(y, factor);
        let shifted = self.b.ins().ushr_imm_u(y, 16);
        self.b.ins().bxor(y, shifted)
    }

    fn times(&mut self, x: Value, factor: u32) -> Value {
        let factor = self.b.ins().iconst(types::I32, i64::from(factor));
        self.b.ins().imul(x, factor)
    }

    /// [`gnnc_ir::kernel::vertex_hash`] of a global id (`i64`).
    pub fn vertex_hash(&mut self, mask: usize, id: Value) -> Value {
        let (low, high) = self.keys[mask];
        let id = self.b.ins().ireduce(types::I32, id);
        let spread = self.times(id, 0x9e37_79b1);
        let mixed = self.b.ins().bxor(spread, low);
        let mixed = self.mix32(mixed);
        self.b.ins().iadd(mixed, high)
    }

    /// [`gnnc_ir::kernel::edge_hash`] from the hash of the destination and the source's id.
    pub fn edge_hash(&mut self, dst_hash: Value, src: Value) -> Value {
        let src = self.b.ins().ireduce(types::I32, src);
        let spread = self.times(src, 0x85eb_ca6b);
        let mixed = self.b.ins().bxor(dst_hash, spread);
        self.mix32(mixed)
    }

    /// The dropout factors of a vector, from its row's hash.
    pub fn mask_factors(
        &mut self,
        mask: usize,
        row_hash: Value,
        base: Base,
        lanes: &Lanes,
    ) -> Value {
        let spec = self.kernel.masks[mask];
        let offsets = lanes.offsets(spec.head_step, spec.column_step);
        let spread: [u32; 4] = std::array::from_fn(|lane| {
            offsets.get(lane).map_or(0, |column| {
                spec.first.wrapping_add(*column).wrapping_mul(COLUMN)
            })
        });
        let mut columns = self.bits_const(types::I32X4, spread);
        for (start, step) in [(base.head, spec.head_step), (base.column, spec.column_step)] {
            if let (Some(start), true) = (start, step != 0) {
                let start = self.b.ins().ireduce(types::I32, start);
                let moved = self.times(start, step.wrapping_mul(COLUMN));
                let moved = self.b.ins().splat(types::I32X4, moved);
                columns = self.b.ins().iadd(columns, moved);
            }
        }
        let row = self.b.ins().splat(types::I32X4, row_hash);
        let mixed = self.b.ins().bxor(row, columns);
        let mixed = self.mix32(mixed);
        let drawn = self.b.ins().ushr_imm_u(mixed, 8);
        let threshold = self.isplat(drop_threshold(spec.p));
        let kept = self.at_least(drawn, threshold);
        let scale = self.splat(1.0 / (1.0 - spec.p));
        self.b.ins().band(kept, scale)
    }
}
