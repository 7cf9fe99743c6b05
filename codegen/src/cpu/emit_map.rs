//! Code for [`gnnc_ir::kernel::Body::Map`], and the loops over rows and edges.

use super::exprs::{Place, Scope};
use super::function::{Base, Emit};
use super::schedule::{LANES, Lanes, Window, passes};
use crate::args::checks::Memory;
use cranelift_codegen::ir::{InstBuilder, Value};
use gnnc_ir::kernel::At;
use gnnc_ir::kernel::Walk;
use gnnc_ir::kernel::expr::Expr;

/// Vectors of a window; element-wise code gains nothing from more.
const TILE: u32 = 4;

impl Emit<'_, '_> {
    /// The scope of edge `k` of the CSR, within the scope of its row.
    pub fn edge_scope(&mut self, row: &Scope, k: Value) -> Scope {
        let mut scope = row.clone();
        let other = self.entry(Memory::Indices, k);
        let place = &mut scope.place;
        match Walk::of(&self.kernel.body) {
            Walk::Rows => {}
            Walk::EdgesBySource => {
                place.dst = Some(other);
                if self.kernel.uses(At::Edge) {
                    place.edge = Some(self.entry(Memory::Positions, k));
                }
            }
            Walk::EdgesByType => place.edge = Some(other),
            Walk::EdgesByDestination => (place.src, place.edge) = (Some(other), Some(k)),
            Walk::Edges => (place.src, place.edge, place.row) = (Some(other), Some(k), Some(k)),
        }
        scope
    }

    /// The place of a row before any of its edges.
    pub fn row_place(&self, row: Value) -> Place {
        let row = Some(row);
        match Walk::of(&self.kernel.body) {
            Walk::Rows | Walk::EdgesByType => Place {
                row,
                ..Place::default()
            },
            Walk::Edges => Place {
                dst: row,
                ..Place::default()
            },
            Walk::EdgesByDestination => Place {
                row,
                dst: row,
                ..Place::default()
            },
            Walk::EdgesBySource => Place {
                row,
                src: row,
                ..Place::default()
            },
        }
    }

    /// Visits every row, or every edge of every row, for the columns from `base`.
    pub fn for_each(&mut self, base: Base, body: &mut dyn FnMut(&mut Self, &Scope)) {
        let edges = Walk::of(&self.kernel.body) == Walk::Edges;
        self.for_range(self.begin, self.end, 1, &mut |emit, row| {
            let mut scope = Scope::new(emit, emit.row_place(row), base);
            if edges {
                emit.prepare_masks(&mut scope);
                let (first, last) = emit.edge_range(row);
                emit.for_range(first, last, 1, &mut |emit, k| {
                    let edge = emit.edge_scope(&scope, k);
                    body(emit, &edge);
                });
            } else {
                body(emit, &scope);
            }
        });
    }

    /// Address of an output's row, advanced to the columns from `base`.
    pub fn output_pointer(&mut self, output: usize, row: Option<Value>, base: Base) -> Value {
        self.row_pointer(self.outputs[output], self.kernel.outputs[output], row, base)
    }

    /// Stores a vector to its lanes in an output.
    pub fn store_output(&mut self, output: usize, pointer: Value, lanes: &Lanes, vector: Value) {
        let operand = self.kernel.outputs[output];
        let mut offsets = lanes.offsets(operand.head_step, operand.column_step);
        offsets
            .iter_mut()
            .for_each(|offset| *offset += operand.offset);
        let memory = Memory::Output(output as u16);
        self.store_lanes(memory, pointer, &offsets, vector, operand.storage);
    }

    /// Loads a vector from its lanes in the first output.
    pub fn load_output(&mut self, pointer: Value, lanes: &Lanes) -> Value {
        let operand = self.kernel.outputs[0];
        let mut offsets = lanes.offsets(operand.head_step, operand.column_step);
        offsets
            .iter_mut()
            .for_each(|offset| *offset += operand.offset);
        self.load_lanes(Memory::Output(0), pointer, &offsets, operand.storage)
    }

    /// `out_i = values_i` for every row or edge.
    pub fn map(&mut self, values: &[Expr]) {
        let passes = passes(self.kernel.heads, self.kernel.width, TILE);
        self.for_each(Base::default(), &mut |emit, scope| {
            emit.for_windows(&passes, Base::default(), &mut |emit, base, window| {
                let scope = &mut scope.at_columns(emit, base);
                emit.map_window(values, scope, window);
            });
        });
    }

    fn map_window(&mut self, values: &[Expr], scope: &mut Scope, window: &Window) {
        let (row, base) = (scope.place.row, scope.base);
        let pointers: Vec<Value> = (0..values.len())
            .map(|output| self.output_pointer(output, row, base))
            .collect();
        for lanes in &window.vectors {
            // Compute all values before the first store: an output may be an input.
            let results: Vec<Value> = values
                .iter()
                .map(|value| self.eval(value, scope, lanes, None))
                .collect();
            for (output, result) in results.into_iter().enumerate() {
                self.store_output(output, pointers[output], lanes, result);
            }
        }
    }

    /// The same for contiguous arrays of `width` columns; the kernel's operands are those of one
    /// long row.
    pub fn map_elements(&mut self, values: &[Expr], width: u32) {
        let (mut first, mut last) = (self.begin, self.end);
        if Walk::of(&self.kernel.body) == Walk::Edges {
            first = self.first_edge(first);
            last = self.first_edge(last);
        }
        let first = self.b.ins().imul_imm_s(first, i64::from(width));
        let last = self.b.ins().imul_imm_s(last, i64::from(width));
        let count = self.b.ins().isub(last, first);
        let step = i64::from(2 * LANES);
        let whole = self.b.ins().band_imm_s(count, -step);
        let middle = self.b.ins().iadd(first, whole);
        let vectors = vec![Lanes::run(0, 0, LANES), Lanes::run(0, LANES, LANES)];
        let single = vec![Lanes::run(0, 0, 1)];
        for (from, to, step, vectors) in [(first, middle, step, vectors), (middle, last, 1, single)]
        {
            let window = Window { vectors };
            self.for_range(from, to, step, &mut |emit, element| {
                let base = Base {
                    head: None,
                    column: Some(element),
                };
                let mut scope = Scope::new(emit, Place::default(), base);
                emit.map_window(values, &mut scope, &window);
            });
        }
    }
}
