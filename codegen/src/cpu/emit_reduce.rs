//! Code for [`gnnc_ir::kernel::Body::RowReduce`] and [`gnnc_ir::kernel::Body::ColReduce`].

use super::exprs::Scope;
use super::function::{Base, Emit};
use super::schedule::{LANES, Lanes, passes};
use crate::args::checks::Memory;
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use gnnc_ir::kernel::expr::Expr;
use gnnc_ir::kernel::{Axis, Reduce};
use gnnc_ir::words::storage::Storage;

/// Accumulators of a column window.
const TILE: u32 = 8;
/// Partial results of one row's reduction over columns, added as `(0 + 1) + (2 + 3)`.
const PARTIALS: usize = 4;
/// Most vectors of a head for which the reduction is unrolled.
const WRITTEN_OUT: u32 = 32;
/// Most groups of four heads that are unrolled.
const GROUPS: u32 = 4;

impl Emit<'_, '_> {
    /// Reduces an axis of every row or edge.
    pub fn row_reduce(&mut self, axis: Axis, reduce: Reduce, value: &Expr, finish: &Expr) {
        self.for_each(Base::default(), &mut |emit, scope| match axis {
            Axis::Width => emit.reduce_width(reduce, value, finish, scope),
            Axis::Heads => emit.reduce_heads(reduce, value, finish, scope),
        });
    }

    fn reduce_width(&mut self, reduce: Reduce, value: &Expr, finish: &Expr, scope: &Scope) {
        let scope = &mut scope.clone();
        self.for_head_groups(scope, &mut |emit, scope, lanes| {
            let sums = emit.head_sums(reduce, value, scope, lanes);
            let result = emit.eval(finish, scope, lanes, Some(sums));
            let pointer = emit.output_pointer(0, scope.place.row, scope.base);
            emit.store_output(0, pointer, lanes, result);
        });
    }

    /// Runs `body` for every group of up to four heads, each of which is a lane.
    pub fn for_head_groups(
        &mut self,
        scope: &mut Scope,
        body: &mut dyn FnMut(&mut Self, &mut Scope, &Lanes),
    ) {
        let group =
            |first: u32, heads: u32| Lanes((first..first + heads).map(|head| (head, 0)).collect());
        let heads = self.kernel.heads;
        let (groups, rest) = (heads / LANES, heads % LANES);
        let mut done = 0;
        if groups > GROUPS {
            let (from, to) = (self.int(0), self.int(i64::from(groups * LANES)));
            self.for_range(from, to, i64::from(LANES), &mut |emit, head| {
                let base = Base {
                    head: Some(head),
                    ..Base::default()
                };
                body(emit, &mut scope.at_columns(emit, base), &group(0, LANES));
            });
            done = groups;
        }
        for done in done..groups {
            body(self, scope, &group(done * LANES, LANES));
        }
        if rest > 0 {
            body(self, scope, &group(groups * LANES, rest));
        }
    }

    /// Reduces the columns of up to four heads; each becomes a lane of one vector.
    pub fn head_sums(
        &mut self,
        reduce: Reduce,
        value: &Expr,
        scope: &mut Scope,
        heads: &Lanes,
    ) -> Value {
        let sums: Vec<Value> = heads
            .0
            .iter()
            .map(|&(head, _)| self.head(reduce, value, scope, head))
            .collect();
        self.reduce_lanes(reduce, &sums)
    }

    /// One vector whose lanes still have to be reduced to give the reduction of a head's columns.
    fn head(&mut self, reduce: Reduce, value: &Expr, scope: &mut Scope, head: u32) -> Value {
        let width = self.kernel.width;
        let step = PARTIALS as u32 * LANES;
        let looped = if width > WRITTEN_OUT * LANES {
            width / step * step
        } else {
            0
        };
        let mut partials: Vec<Value> = Vec::new();
        if looped > 0 {
            let identity = self.identity(reduce);
            let variables = self.variables(&[identity; PARTIALS]);
            let (from, to) = (self.int(0), self.int(i64::from(looped)));
            self.for_range(from, to, i64::from(step), &mut |emit, column| {
                let base = Base {
                    column: Some(column),
                    ..scope.base
                };
                let scope = &mut scope.at_columns(emit, base);
                for (i, &variable) in variables.iter().enumerate() {
                    let lanes = Lanes::run(head, i as u32 * LANES, LANES);
                    emit.add_to(variable, reduce, value, scope, &lanes);
                }
            });
            partials = variables
                .iter()
                .map(|&variable| self.b.use_var(variable))
                .collect();
        }
        for (i, column) in (looped..width).step_by(LANES as usize).enumerate() {
            let lanes = Lanes::run(head, column, LANES.min(width - column));
            if let (Some(&partial), 4) = (partials.get(i % PARTIALS), lanes.len()) {
                let known = vec![None; value.values.len()];
                partials[i % PARTIALS] =
                    self.accumulate(reduce, value, scope, &lanes, partial, &known);
                continue;
            }
            let term = self.eval(value, scope, &lanes, None);
            let term = self.only_lanes(reduce, term, lanes.len());
            match partials.get(i % PARTIALS) {
                Some(&partial) => partials[i % PARTIALS] = self.combine(reduce, partial, term),
                None => partials.push(term),
            }
        }
        while partials.len() > 1 {
            partials = partials
                .chunks(2)
                .map(|pair| {
                    if pair.len() == 2 {
                        self.combine(reduce, pair[0], pair[1])
                    } else {
                        pair[0]
                    }
                })
                .collect();
        }
        partials[0]
    }

    fn add_to(
        &mut self,
        sum: Variable,
        reduce: Reduce,
        value: &Expr,
        scope: &mut Scope,
        lanes: &Lanes,
    ) {
        let acc = self.b.use_var(sum);
        let known = vec![None; value.values.len()];
        let acc = self.accumulate(reduce, value, scope, lanes, acc, &known);
        self.b.def_var(sum, acc);
    }

    fn reduce_heads(&mut self, reduce: Reduce, value: &Expr, finish: &Expr, scope: &Scope) {
        let passes = passes(1, self.kernel.width, TILE);
        self.for_windows(&passes, Base::default(), &mut |emit, base, window| {
            let identity = emit.identity(reduce);
            let sums = emit.variables(&vec![identity; window.vectors.len()]);
            let (from, to) = (emit.int(0), emit.int(i64::from(emit.kernel.heads)));
            emit.for_range(from, to, 1, &mut |emit, head| {
                let base = Base {
                    head: Some(head),
                    ..base
                };
                let scope = &mut scope.at_columns(emit, base);
                for (lanes, &sum) in window.vectors.iter().zip(&sums) {
                    emit.add_to(sum, reduce, value, scope, lanes);
                }
            });
            let scope = &mut scope.at_columns(emit, base);
            let pointer = emit.output_pointer(0, scope.place.row, base);
            for (lanes, &sum) in window.vectors.iter().zip(&sums) {
                let acc = emit.b.use_var(sum);
                let result = emit.eval(finish, scope, lanes, Some(acc));
                emit.store_output(0, pointer, lanes, result);
            }
        });
    }

    /// Sums the rows or edges of the call into one dense row.
    pub fn col_reduce(&mut self, value: &Expr) {
        let (heads, width) = (self.kernel.heads, self.kernel.width);
        let passes = passes(heads, width, TILE);
        self.for_windows(&passes, Base::default(), &mut |emit, base, window| {
            let zero = emit.splat(0.0);
            let sums = emit.variables(&vec![zero; window.vectors.len()]);
            emit.for_each(base, &mut |emit, scope| {
                let scope = &mut scope.clone();
                for (lanes, &sum) in window.vectors.iter().zip(&sums) {
                    emit.add_to(sum, Reduce::Sum, value, scope, lanes);
                }
            });
            let mut pointer = emit.outputs[0];
            for (start, step) in [(base.head, width), (base.column, 1)] {
                if let Some(start) = start {
                    let moved = emit.b.ins().imul_imm_s(start, i64::from(step) * 4);
                    pointer = emit.b.ins().iadd(pointer, moved);
                }
            }
            for (lanes, &sum) in window.vectors.iter().zip(&sums) {
                let sum = emit.b.use_var(sum);
                let offsets = lanes.offsets(width, 1);
                emit.store_lanes(Memory::Output(0), pointer, &offsets, sum, Storage::F32);
            }
        });
    }
}
