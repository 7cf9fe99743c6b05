//! Code for [`gnnc_ir::kernel::Body::EdgeSoftmax`]. Lanes are heads, or edges for a single head.

use super::exprs::Scope;
use super::function::{Base, Emit};
use super::schedule::{LANES, Lanes, Window, passes};
use crate::args::checks::Memory;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::Variable;
use gnnc_ir::kernel::Reduce;
use gnnc_ir::kernel::expr::Expr;
use gnnc_ir::words::storage::Storage;

/// Vectors of heads at a time.
const TILE: u32 = 2;

impl Emit<'_, '_> {
    /// Softmax over the edges of each destination, in three passes over the row's results: scores
    /// and their maximum, exponentials and their sum, quotients.
    pub fn edge_softmax(&mut self, value: &Expr) {
        let passes = passes(self.kernel.heads, 1, TILE);
        self.for_range(self.begin, self.end, 1, &mut |emit, row| {
            let (first, last) = emit.edge_range(row);
            emit.for_windows(&passes, Base::default(), &mut |emit, base, window| {
                let mut scope = Scope::new(emit, emit.row_place(row), base);
                emit.prepare_masks(&mut scope);
                let tops = emit.scores(value, &scope, window, first, last);
                if emit.kernel.heads == 1 && emit.kernel.outputs[0].stride == 1 {
                    let top = emit.b.ins().extractlane(tops[0], 0);
                    let top = emit.b.ins().splat(types::F32X4, top);
                    emit.normalise_edges(top, first, last);
                } else {
                    emit.normalise_heads(&tops, base, window, first, last);
                }
            });
        });
    }

    /// Stores the scores; returns the maximum of each lane.
    fn scores(
        &mut self,
        value: &Expr,
        scope: &Scope,
        window: &Window,
        first: Value,
        last: Value,
    ) -> Vec<Value> {
        let lowest = self.splat(f32::NEG_INFINITY);
        let tops = self.variables(&vec![lowest; window.vectors.len()]);
        self.for_range(first, last, 1, &mut |emit, k| {
            let mut edge = emit.edge_scope(scope, k);
            let pointer = emit.output_pointer(0, Some(k), edge.base);
            for (lanes, &top) in window.vectors.iter().zip(&tops) {
                let score = emit.eval(value, &mut edge, lanes, None);
                emit.store_output(0, pointer, lanes, score);
                let acc = emit.b.use_var(top);
                let acc = emit.vmax(acc, score);
                emit.b.def_var(top, acc);
            }
        });
        tops.iter().map(|&top| self.b.use_var(top)).collect()
    }

    fn normalise_heads(
        &mut self,
        tops: &[Value],
        base: Base,
        window: &Window,
        first: Value,
        last: Value,
    ) {
        let zero = self.splat(0.0);
        let sums = self.variables(&vec![zero; window.vectors.len()]);
        self.for_range(first, last, 1, &mut |emit, k| {
            for (i, lanes) in window.vectors.iter().enumerate() {
                emit.weigh(k, base, lanes, tops[i], sums[i], 4);
            }
        });
        let one = self.splat(1.0);
        let inverses: Vec<Value> = sums
            .iter()
            .map(|&sum| {
                let sum = self.b.use_var(sum);
                self.b.ins().fdiv(one, sum)
            })
            .collect();
        self.for_range(first, last, 1, &mut |emit, k| {
            for (lanes, &inverse) in window.vectors.iter().zip(&inverses) {
                emit.scale(k, base, lanes, inverse);
            }
        });
    }

    /// For one head with contiguous results: four edges at a time.
    fn normalise_edges(&mut self, top: Value, first: Value, last: Value) {
        let zero = self.splat(0.0);
        let sum = self.variables(&[zero])[0];
        let count = self.b.ins().isub(last, first);
        let whole = self.b.ins().band_imm_s(count, -i64::from(LANES));
        let middle = self.b.ins().iadd(first, whole);
        let (base, single) = (Base::default(), Lanes::run(0, 0, 1));
        // Lanes are consecutive results; the column step of a single column is 0.
        let four = Lanes::run(0, 0, LANES);
        let step = i64::from(LANES);
        self.for_range(first, middle, step, &mut |emit, k| {
            emit.weigh(k, base, &four, top, sum, 4)
        });
        self.for_range(middle, last, 1, &mut |emit, k| {
            emit.weigh(k, base, &single, top, sum, 1)
        });
        let total = self.b.use_var(sum);
        let total = self.reduce_lanes(Reduce::Sum, &[total]);
        let total = self.b.ins().extractlane(total, 0);
        let total = self.b.ins().splat(types::F32X4, total);
        let one = self.splat(1.0);
        let inverse = self.b.ins().fdiv(one, total);
        self.for_range(first, middle, step, &mut |emit, k| {
            emit.scale(k, base, &four, inverse)
        });
        self.for_range(middle, last, 1, &mut |emit, k| {
            emit.scale(k, base, &single, inverse)
        });
    }

    /// Replaces a stored score by its exponential and adds the exponential to `sum`.
    fn weigh(
        &mut self,
        k: Value,
        base: Base,
        lanes: &Lanes,
        top: Value,
        sum: Variable,
        used: usize,
    ) {
        let (pointer, offsets) = self.result_place(k, base, lanes);
        let score = self.load_lanes(Memory::Output(0), pointer, &offsets, Storage::F32);
        let below = self.b.ins().fsub(score, top);
        let weight = self.exp(below);
        self.store_lanes(Memory::Output(0), pointer, &offsets, weight, Storage::F32);
        let weight = self.only_lanes(Reduce::Sum, weight, used);
        let acc = self.b.use_var(sum);
        let acc = self.b.ins().fadd(acc, weight);
        self.b.def_var(sum, acc);
    }

    fn scale(&mut self, k: Value, base: Base, lanes: &Lanes, inverse: Value) {
        let (pointer, offsets) = self.result_place(k, base, lanes);
        let weight = self.load_lanes(Memory::Output(0), pointer, &offsets, Storage::F32);
        let result = self.b.ins().fmul(weight, inverse);
        self.store_lanes(Memory::Output(0), pointer, &offsets, result, Storage::F32);
    }

    /// Address of the edge's row of results and the offset of each lane: lanes are heads, or
    /// consecutive edges for a single head.
    fn result_place(&mut self, k: Value, base: Base, lanes: &Lanes) -> (Value, Vec<u32>) {
        let operand = self.kernel.outputs[0];
        let pointer = self.output_pointer(0, Some(k), base);
        let mut offsets = lanes.offsets(operand.head_step, 1);
        offsets
            .iter_mut()
            .for_each(|offset| *offset += operand.offset);
        (pointer, offsets)
    }
}
