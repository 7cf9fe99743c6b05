//! Code for [`gnnc_ir::kernel::Body::Gather`]: a generalized sparse-dense matrix product.
//!
//! The columns of a row are cut into windows, whose sums stay in registers while the loop goes over
//! the edges. The first window prefetches the whole rows of the neighbors to come, so that later
//! windows find them in cache. Edges are processed in blocks whose rows fit into the L1 cache;
//! between blocks, the sums wait in the output. Blocks do not change the order of additions. A
//! 16-bit output would round the waiting sums, so its rows are one block each.

use super::exprs::Scope;
use super::function::{Base, Emit, WindowAt};
use super::schedule::{Pass, Window, passes, peel};
use crate::args::checks::Memory;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use cranelift_frontend::Variable;
use gnnc_ir::kernel::Walk;
use gnnc_ir::kernel::expr::{Expr, Value as Term};
use gnnc_ir::kernel::{At, Reduce};

/// Accumulators of a window: 8 of 16 vector registers.
const TILE: u32 = 8;
/// Vector registers for values that are the same for all edges of a row.
const REGISTERS: usize = 12;
/// Bytes of a cache line.
const LINE: u32 = 64;
/// Columns from which rows are prefetched. For narrower rows, out-of-order execution already
/// reaches far enough.
const TOUCHED: u32 = 128;
/// Cache lines of neighbor rows in flight at a time.
const LINES_AHEAD: u32 = 32;
/// Cache lines prefetched per row; the hardware streams the rest.
const LINES_OF_ROW: usize = 64;
/// Floats of neighbor rows in a block of edges: half of an L1 cache.
const BLOCK_FLOATS: u32 = 4096;
/// Edges of the smallest block.
const BLOCK_EDGES: u32 = 16;

/// Which rows are prefetched, and how far ahead.
#[derive(Clone, Copy)]
struct Lookahead {
    input: u16,
    edges: i64,
    /// The last edge of the whole call; later indices are not read.
    last_edge: Value,
}

/// A block of edges of one row.
#[derive(Clone, Copy)]
struct Block {
    row: Value,
    first: Value,
    last: Value,
    /// Whether there are earlier blocks; `None` if the row is one block.
    begun: Option<Value>,
    /// Whether this is the last block; `None` if the row is one block.
    ends: Option<Value>,
    /// Whether the row has any edges.
    some: Value,
}

/// The expressions of a gather.
struct Spec<'a> {
    reduce: Reduce,
    value: &'a Expr,
    finish: &'a Expr,
}

impl Emit<'_, '_> {
    /// `out[v] = finish(reduce over the edges of v of value)`.
    pub fn gather(&mut self, reduce: Reduce, value: &Expr, finish: &Expr) {
        let spec = Spec {
            reduce,
            value,
            finish,
        };
        let columns = self.kernel.heads * self.kernel.width;
        let passes = peel(passes(self.kernel.heads, self.kernel.width, TILE));
        let rounds = !self.kernel.outputs[0].storage.is_f32();
        let single = rounds || matches!(passes.as_slice(), [Pass::Once(_)]);
        let wide = self.neighbour_rows(value);
        let any = self
            .b
            .ins()
            .icmp(IntCC::SignedLessThan, self.begin, self.end);
        self.when(any, &mut |emit| {
            // `indptr[end]` is the entry behind the last row's.
            let last_row = emit.b.ins().iadd_imm_s(emit.end, -1);
            let (_, end) = emit.edge_range(last_row);
            let last_edge = emit.b.ins().iadd_imm_s(end, -1);
            let lookahead = wide.map(|input| emit.lookahead(input, last_edge));
            emit.for_range(emit.begin, emit.end, 1, &mut |emit, row| {
                let (first, last) = emit.edge_range(row);
                let some = emit.b.ins().icmp(IntCC::SignedLessThan, first, last);
                if single {
                    let block = Block {
                        row,
                        first,
                        last,
                        begun: None,
                        ends: None,
                        some,
                    };
                    emit.block(&spec, &passes, block, lookahead);
                    return;
                }
                let edges = i64::from((BLOCK_FLOATS / columns).max(BLOCK_EDGES));
                emit.blocks(first, last, edges, &mut |emit, from, to, begun, ends| {
                    let block = Block {
                        row,
                        first: from,
                        last: to,
                        begun: Some(begun),
                        ends: Some(ends),
                        some,
                    };
                    emit.block(&spec, &passes, block, lookahead);
                });
            });
        });
    }

    /// How far ahead rows of an input are prefetched.
    fn lookahead(&self, input: u16, last_edge: Value) -> Lookahead {
        let columns = self.kernel.heads * self.kernel.width;
        let element = self.kernel.inputs[usize::from(input)].storage.bytes() as u32;
        let lines = (columns * element).div_ceil(LINE);
        Lookahead {
            input,
            edges: i64::from((LINES_AHEAD / lines).max(2)),
            last_edge,
        }
    }

    /// Cuts `first .. last` into blocks of `size`; an empty range is one block.
    pub fn blocks(
        &mut self,
        first: Value,
        last: Value,
        size: i64,
        body: &mut dyn FnMut(&mut Self, Value, Value, Value, Value),
    ) {
        let (inside, after) = (self.b.create_block(), self.b.create_block());
        let start = self.variables(&[first])[0];
        self.b.ins().jump(inside, &[]);
        self.b.switch_to_block(inside);
        let from = self.b.use_var(start);
        let full = self.b.ins().iadd_imm_s(from, size);
        let to = self.b.ins().smin(full, last);
        let begun = self.b.ins().icmp(IntCC::NotEqual, from, first);
        let ends = self.b.ins().icmp(IntCC::Equal, to, last);
        body(self, from, to, begun, ends);
        self.b.def_var(start, to);
        let ends = self.b.ins().icmp(IntCC::Equal, to, last);
        self.b.ins().brif(ends, after, &[], inside, &[]);
        self.b.seal_block(inside);
        self.b.switch_to_block(after);
        self.b.seal_block(after);
    }

    fn block(&mut self, spec: &Spec, passes: &[Pass], block: Block, lookahead: Option<Lookahead>) {
        self.for_windows_in(
            passes,
            Base::default(),
            self.kernel.heads,
            &mut |emit, at, window| {
                let mut scope = Scope::new(emit, emit.row_place(block.row), at.base);
                let pointer = emit.output_pointer(0, Some(block.row), at.base);
                let identity = emit.identity(spec.reduce);
                let sums = emit.variables(&vec![identity; window.vectors.len()]);
                if let Some(begun) = block.begun {
                    emit.when(begun, &mut |emit| {
                        for (lanes, &sum) in window.vectors.iter().zip(&sums) {
                            let before = emit.load_output(pointer, lanes);
                            emit.b.def_var(sum, before);
                        }
                    });
                }
                emit.prepare_masks(&mut scope);
                emit.edges_of_window(spec, &scope, window, at, block, &sums, lookahead);
                let mut finish = |emit: &mut Self| {
                    let mut scope = scope.clone();
                    for (lanes, &sum) in window.vectors.iter().zip(&sums) {
                        let mut sum = emit.b.use_var(sum);
                        if spec.reduce.identity() != 0.0 {
                            let zero = emit.splat(0.0);
                            sum = emit.b.ins().select(block.some, sum, zero);
                        }
                        let result = emit.eval(spec.finish, &mut scope, lanes, Some(sum));
                        emit.store_output(0, pointer, lanes, result);
                    }
                };
                match block.ends {
                    None => finish(emit),
                    Some(ends) => emit.choose(ends, &mut finish, &mut |emit| {
                        for (lanes, &sum) in window.vectors.iter().zip(&sums) {
                            let sum = emit.b.use_var(sum);
                            emit.store_output(0, pointer, lanes, sum);
                        }
                    }),
                }
            },
        );
    }

    fn edges_of_window(
        &mut self,
        spec: &Spec,
        scope: &Scope,
        window: &Window,
        at: WindowAt,
        block: Block,
        sums: &[Variable],
        lookahead: Option<Lookahead>,
    ) {
        let vectors = &window.vectors;
        let spare = REGISTERS.saturating_sub(vectors.len());
        let scope = &mut scope.clone();
        let linear = spec.reduce.is_linear();
        let known = self.invariants(spec.value, linear, scope, vectors, spare);
        self.for_range(block.first, block.last, 1, &mut |emit, k| {
            let mut edge = emit.edge_scope(scope, k);
            if let (Some(lookahead), Some(heads)) = (lookahead, at.first_of) {
                emit.touch(lookahead, k, at.base, heads);
            }
            for ((lanes, known), &sum) in vectors.iter().zip(&known).zip(sums) {
                let acc = emit.b.use_var(sum);
                let acc = emit.accumulate(spec.reduce, spec.value, &mut edge, lanes, acc, known);
                emit.b.def_var(sum, acc);
            }
        });
    }

    /// The input read at the other end of each edge, if its rows are wide.
    fn neighbour_rows(&self, value: &Expr) -> Option<u16> {
        let other = match Walk::of(&self.kernel.body) {
            Walk::EdgesBySource => At::Dst,
            Walk::EdgesByType => At::Edge,
            _ => At::Src,
        };
        value.values.iter().find_map(|term| match *term {
            Term::Load(input) => {
                let operand = self.kernel.inputs[usize::from(input)];
                let columns = self.kernel.heads * self.kernel.width;
                let plain = operand.column_step == 1 && operand.picked.is_none();
                let wide = plain && columns >= TOUCHED;
                (operand.at == other && wide).then_some(input)
            }
            _ => None,
        })
    }

    /// Loads one byte of each cache line of `heads` heads of a later neighbor, as a prefetch. The
    /// index never exceeds the last edge.
    fn touch(&mut self, lookahead: Lookahead, k: Value, base: Base, heads: u32) {
        let operand = self.kernel.inputs[usize::from(lookahead.input)];
        let later = self.b.ins().iadd_imm_s(k, lookahead.edges);
        let later = self.b.ins().umin(later, lookahead.last_edge);
        let row = self.entry(Memory::Indices, later);
        let start = self.inputs[usize::from(lookahead.input)];
        let pointer = self.row_pointer(start, operand, Some(row), base);
        let last = (heads - 1) * operand.head_step + (self.kernel.width - 1) * operand.column_step;
        let element = operand.storage.bytes() as u32;
        let lines = (0..=last).step_by((LINE / element) as usize);
        for first in lines.take(LINES_OF_ROW) {
            // The optimizer keeps an unused load if it might trap.
            let at = ((operand.offset + first) * element) as i32;
            self.check(Memory::Input(lookahead.input), pointer, at, 1);
            self.b
                .ins()
                .load(types::I8, MemFlagsData::new(), pointer, at);
        }
    }
}
