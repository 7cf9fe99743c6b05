//! Code for a [`gnnc_ir::kernel::Body::Gather`] whose edges name places in the result's row.

use super::exprs::Scope;
use super::function::{Base, Emit};
use super::schedule::passes;
use cranelift_codegen::ir::InstBuilder;
use gnnc_ir::kernel::expr::Expr;

/// Vectors of a window. The sums stay in the L1 cache.
const TILE: u32 = 4;

impl Emit<'_, '_> {
    /// `out[v, n] =` sum of `value` over the edges of `v` that name place `n`.
    pub fn places(&mut self, value: &Expr) {
        let output = self.kernel.outputs[0];
        let Some(picked) = output.picked else {
            return;
        };
        let bytes = i64::from(picked.step) * output.storage.bytes() as i64;
        let passes = passes(self.kernel.heads, self.kernel.width, TILE);
        self.for_range(self.begin, self.end, 1, &mut |emit, row| {
            let (none, count) = (emit.int(0), emit.int(picked.count.into()));
            emit.for_range(none, count, 1, &mut |emit, place| {
                let moved = emit.b.ins().imul_imm_s(place, bytes);
                emit.for_windows(&passes, Base::default(), &mut |emit, base, window| {
                    let pointer = emit.output_pointer(0, Some(row), base);
                    let pointer = emit.b.ins().iadd(pointer, moved);
                    let zero = emit.splat(0.0);
                    for lanes in &window.vectors {
                        emit.store_output(0, pointer, lanes, zero);
                    }
                });
            });
            let mut scope = Scope::new(emit, emit.row_place(row), Base::default());
            emit.prepare_masks(&mut scope);
            let (first, last) = emit.edge_range(row);
            emit.for_range(first, last, 1, &mut |emit, k| {
                let mut edge = emit.edge_scope(&scope, k);
                let number = emit.number(&mut edge, picked.by);
                let moved = emit.b.ins().imul_imm_s(number, bytes);
                emit.for_windows(&passes, Base::default(), &mut |emit, base, window| {
                    let mut scope = edge.at_columns(emit, base);
                    let pointer = emit.output_pointer(0, Some(row), base);
                    let pointer = emit.b.ins().iadd(pointer, moved);
                    for lanes in &window.vectors {
                        let brought = emit.eval(value, &mut scope, lanes, None);
                        let before = emit.load_output(pointer, lanes);
                        let sum = emit.b.ins().fadd(before, brought);
                        emit.store_output(0, pointer, lanes, sum);
                    }
                });
            });
        });
    }
}
