//! Code for [`gnnc_ir::kernel::Body::EdgePass`]: several results of one walk over edges.
//!
//! The edges of a row are processed in blocks. For each block, the numbers of its edges are
//! computed first and stay in the L1 cache, as do the rows of neighbors. The softmax is computed
//! block by block: if a later block has a larger maximum, the sums so far are scaled down. Lanes are
//! heads, or edges for a single head. Dot products and weighted sums of whole rows, exponentials and
//! the softmax are calls of [`super::helpers`].

use super::exprs::Scope;
use super::function::{Base, Emit};
use super::helpers::Scores;
use super::pass_calls::FarRows;
use super::pass_memory::State;
use super::pass_numbers::HEADS;
use super::pass_rows::{Far, RowDot, WeightedRows};
use super::schedule::passes;
use crate::args::checks::Memory;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use gnnc_ir::kernel::expr::{Expr, Value as Term};
use gnnc_ir::kernel::{EdgePass, EdgeResult, Reduce};
use gnnc_ir::words::storage::Storage;

/// Accumulators of a window: 8 of 16 vector registers.
const TILE: u32 = 8;
/// Vector registers for values that are the same for all edges of a row.
const REGISTERS: usize = 12;

/// A block of edges of one row.
#[derive(Clone, Copy)]
pub struct Block {
    /// The row.
    pub row: Value,
    /// The first edge.
    pub first: Value,
    /// Behind the last edge.
    pub last: Value,
    /// Whether there are earlier blocks.
    pub begun: Value,
    /// Whether this is the row's last block.
    pub ends: Value,
    /// Whether the row has any edges.
    pub some: Value,
}

/// How the parts of a pass are computed.
pub struct Plan<'a> {
    /// The pass.
    pub pass: &'a EdgePass,
    /// Behind the last edge of the call.
    end: Value,
    /// The rows of neighbors that helpers read.
    rows: Vec<FarRows>,
    /// Rows to prefetch for code that is not a helper's.
    fetched: Option<Value>,
    /// For each number, the dot product that a helper computes.
    pub dots: Vec<Option<CalledDot>>,
    /// For each result, the sums that helpers compute, which are added.
    sums: Vec<Option<Vec<CalledSum>>>,
    /// Room for [`Scores`].
    scores: Option<Value>,
}

/// A dot product that a helper computes.
#[derive(Clone, Copy)]
pub struct CalledDot {
    rows: FarRows,
    /// The input with the own row.
    own: u16,
}

/// A sum that a helper computes.
pub struct CalledSum {
    rows: FarRows,
    /// One or two numbers that weight the rows, the softmax among them.
    numbers: Vec<u16>,
    /// Inputs by which the sum is multiplied.
    factors: Vec<u16>,
}

impl Emit<'_, '_> {
    /// Computes the results of a pass.
    pub fn edge_pass(&mut self, pass: &EdgePass) {
        let sums = self.sums_of_rows(pass);
        let parts: Vec<u32> = sums
            .iter()
            .map(|parts| parts.as_ref().map_or(1, |parts| parts.len() as u32))
            .collect();
        let memory = self.pass_memory(pass, &parts);
        let edges = i64::from(memory.edges);
        self.pass = Some(memory);
        let any = self
            .b
            .ins()
            .icmp(IntCC::SignedLessThan, self.begin, self.end);
        self.when(any, &mut |emit| {
            // `indptr[end]` is the entry behind the last row's.
            let last_row = emit.b.ins().iadd_imm_s(emit.end, -1);
            let (_, end) = emit.edge_range(last_row);
            let plan = emit.plan(pass, &sums, end);
            emit.for_range(emit.begin, emit.end, 1, &mut |emit, row| {
                let (first, last) = emit.edge_range(row);
                let some = emit.b.ins().icmp(IntCC::SignedLessThan, first, last);
                let mut scope = Scope::new(emit, emit.row_place(row), Base::default());
                emit.prepare_masks(&mut scope);
                emit.blocks(first, last, edges, &mut |emit, first, last, begun, ends| {
                    let block = Block {
                        row,
                        first,
                        last,
                        begun,
                        ends,
                        some,
                    };
                    emit.pass_block(&plan, &scope, block);
                });
            });
        });
    }

    /// For each result of a pass, the weighted rows that helpers sum.
    fn sums_of_rows(&self, pass: &EdgePass) -> Vec<Option<Vec<WeightedRows>>> {
        let fixed = usize::from(pass.softmax.is_some());
        let weighted = |rows: &WeightedRows| matches!(rows.numbers.len() + fixed, 1 | 2);
        let results = pass.results.iter().zip(&self.kernel.outputs);
        results
            .map(|(result, output)| match result {
                EdgeResult::Sum { value, .. } if output.column_step == 1 => {
                    let parts = self.weighted_rows(value);
                    parts.filter(|parts| parts.iter().all(weighted))
                }
                EdgeResult::Sum { .. } | EdgeResult::Number(_) | EdgeResult::LogSumExp => None,
            })
            .collect()
    }

    /// Decides what helpers compute. `end` is behind the last edge of the call.
    fn plan<'a>(
        &mut self,
        pass: &'a EdgePass,
        sums: &[Option<Vec<WeightedRows>>],
        end: Value,
    ) -> Plan<'a> {
        let softmax = pass.softmax.map(|_| pass.numbers.len() as u16);
        let mut rows: Vec<FarRows> = Vec::new();
        let mut described = |emit: &mut Self, far: Far| {
            // The first call that reads a tensor prefetches it.
            let fetches = rows.iter().all(|rows| rows.far.input != far.input);
            let known = rows.iter().find(|rows| rows.far == far && !rows.fetches);
            known.copied().unwrap_or_else(|| {
                let made = emit.far_rows(far, fetches);
                rows.push(made);
                made
            })
        };
        let mut dots = Vec::with_capacity(pass.numbers.len());
        let mut used: Vec<Expr> = Vec::new();
        for number in &pass.numbers {
            let dot = self.dot_of_rows(&number.value).filter(|_| number.dot);
            if dot.is_none() {
                used.push(number.value.clone());
            }
            dots.push(dot.map(|RowDot { far, own }| CalledDot {
                rows: described(self, far),
                own,
            }));
        }
        let mut called = Vec::with_capacity(sums.len());
        for (result, parts) in pass.results.iter().zip(sums) {
            let Some(parts) = parts else {
                if let EdgeResult::Sum { value, .. } = result {
                    used.push(value.clone());
                }
                called.push(None);
                continue;
            };
            let parts = parts.iter().map(|part| CalledSum {
                rows: described(self, part.far),
                numbers: part.numbers.iter().copied().chain(softmax).collect(),
                factors: part.factors.clone(),
            });
            called.push(Some(parts.collect()));
        }
        // What the other expressions read is prefetched.
        let values = used.iter().flat_map(|expr| &expr.values);
        let mut others: Vec<u16> = values
            .filter_map(|term| match term {
                Term::Load(input) => Some(*input),
                _ => None,
            })
            .filter(|input| rows.iter().all(|rows| rows.far.input != *input))
            .collect();
        others.sort_unstable();
        others.dedup();
        Plan {
            pass,
            end,
            rows,
            fetched: self.fetched(&others),
            dots,
            sums: called,
            scores: softmax.map(|_| self.room_for(size_of::<Scores>())),
        }
    }

    fn pass_block(&mut self, plan: &Plan, scope: &Scope, block: Block) {
        if let Some(fetched) = plan.fetched {
            self.call_fetch(fetched, plan.end, block);
        }
        for rows in &plan.rows {
            self.at_block(*rows, plan.end, block);
        }
        for (n, dot) in plan.dots.iter().enumerate() {
            if let Some(dot) = dot {
                self.call_dots(dot.rows, dot.own, n as u16, block);
            }
        }
        self.other_numbers(plan, scope, block);
        let pass = plan.pass;
        let weights = pass.numbers.len() as u16;
        if let (Some(score), Some(at)) = (pass.softmax, plan.scores) {
            self.call_weigh(at, score, weights, block);
        }
        for (index, result) in pass.results.iter().enumerate() {
            match result {
                EdgeResult::Sum { value, finish } => match &plan.sums[index] {
                    Some(parts) => self.called_sum(index, plan, parts, finish, scope, block),
                    None => self.pass_sum(index, pass, (value, finish), scope, block),
                },
                EdgeResult::Number(number) => self.store_number(index, *number, scope, block),
                EdgeResult::LogSumExp => {
                    let scope = scope.clone();
                    self.when(block.ends, &mut |emit| {
                        emit.store_log_sum(index, &scope, block);
                    });
                }
            }
        }
    }

    /// The scope of edge `k` of a block.
    pub fn pass_edge(&mut self, scope: &Scope, k: Value, block: Block) -> Scope {
        let mut edge = self.edge_scope(scope, k);
        let number = self.b.ins().isub(k, block.first);
        let step = self.pass_step();
        edge.numbers = Some(self.b.ins().imul_imm_s(number, step));
        edge
    }

    /// A sum that helpers compute. Its parts stay on the stack between blocks.
    fn called_sum(
        &mut self,
        index: usize,
        plan: &Plan,
        parts: &[CalledSum],
        finish: &Expr,
        scope: &Scope,
        block: Block,
    ) {
        let weighted = plan.pass.softmax.is_some();
        let width = self.kernel.width;
        let passes = passes(self.kernel.heads, width, TILE);
        let zero = self.splat(0.0);
        if weighted {
            self.when(block.begun, &mut |emit| {
                for part in 0..parts.len() {
                    emit.scale_sums(index, part, scope);
                }
            });
        }
        let whole_row = Scope::new(self, scope.place, Base::default());
        for (part, sum) in parts.iter().enumerate() {
            let number = match sum.numbers[..] {
                [number] => number,
                [a, b] => {
                    let product = plan.pass.numbers.len() as u16 + 1;
                    self.call_times(a, b, product, block);
                    product
                }
                _ => return,
            };
            let sums = self.sums_place(index, part, width, &whole_row);
            self.call_sums(sum.rows, number, sums, block);
        }
        self.when(block.ends, &mut |emit| {
            emit.for_windows(&passes, Base::default(), &mut |emit, base, window| {
                let mut scope = scope.at_columns(emit, base);
                let waiting: Vec<Value> = (0..parts.len())
                    .map(|part| emit.sums_place(index, part, width, &scope))
                    .collect();
                let pointer = emit.output_pointer(index, Some(block.row), base);
                for lanes in &window.vectors {
                    let place = lanes.offsets(width, 1);
                    let mut total: Option<Value> = None;
                    for (part, waiting) in parts.iter().zip(&waiting) {
                        let mut sum =
                            emit.load_lanes(Memory::Stack, *waiting, &place, Storage::F32);
                        for factor in &part.factors {
                            let factor = emit.load(&mut scope, *factor, lanes);
                            sum = emit.b.ins().fmul(sum, factor);
                        }
                        total = Some(match total {
                            Some(total) => emit.b.ins().fadd(total, sum),
                            None => sum,
                        });
                    }
                    let mut sum = total.unwrap_or(zero);
                    if weighted {
                        let inverse = emit.state(State::Inverse, &scope, lanes);
                        sum = emit.b.ins().fmul(sum, inverse);
                    }
                    let result = emit.eval(finish, &mut scope, lanes, Some(sum));
                    emit.store_output(index, pointer, lanes, result);
                }
            });
        });
    }

    /// Scales the waiting sums of a part of a result after the maximum of the softmax has grown.
    fn scale_sums(&mut self, index: usize, part: usize, scope: &Scope) {
        let width = self.kernel.width;
        let passes = passes(self.kernel.heads, width, TILE);
        self.for_windows(&passes, Base::default(), &mut |emit, base, window| {
            let scope = scope.at_columns(emit, base);
            let waiting = emit.sums_place(index, part, width, &scope);
            for lanes in &window.vectors {
                let place = lanes.offsets(width, 1);
                let sum = emit.load_lanes(Memory::Stack, waiting, &place, Storage::F32);
                let scale = emit.state(State::Scale, &scope, lanes);
                let sum = emit.b.ins().fmul(sum, scale);
                emit.store_lanes(Memory::Stack, waiting, &place, sum, Storage::F32);
            }
        });
    }

    fn pass_sum(
        &mut self,
        index: usize,
        pass: &EdgePass,
        (value, finish): (&Expr, &Expr),
        scope: &Scope,
        block: Block,
    ) {
        let narrow = self.kernel.outputs[index].column_step == 0;
        let columns = if narrow { 1 } else { self.kernel.width };
        let passes = passes(self.kernel.heads, columns, TILE);
        let weights = pass.softmax.map(|_| pass.numbers.len() as u16);
        self.for_windows(&passes, Base::default(), &mut |emit, base, window| {
            let vectors = &window.vectors;
            let mut scope = scope.at_columns(emit, base);
            let pointer = emit.output_pointer(index, Some(block.row), base);
            let waiting = emit.sums_place(index, 0, columns, &scope);
            let places: Vec<Vec<u32>> = vectors
                .iter()
                .map(|lanes| lanes.offsets(columns, u32::from(columns > 1)))
                .collect();
            let zero = emit.splat(0.0);
            let sums = emit.variables(&vec![zero; vectors.len()]);
            emit.when(block.begun, &mut |emit| {
                for ((lanes, place), &sum) in vectors.iter().zip(&places).zip(&sums) {
                    let mut before = emit.load_lanes(Memory::Stack, waiting, place, Storage::F32);
                    if weights.is_some() {
                        let scale = emit.state(State::Scale, &scope, lanes);
                        before = emit.b.ins().fmul(before, scale);
                    }
                    emit.b.def_var(sum, before);
                }
            });
            let spare = REGISTERS.saturating_sub(vectors.len());
            let added = weights.is_none();
            let known = emit.invariants(value, added, &mut scope, vectors, spare);
            emit.for_range(block.first, block.last, 1, &mut |emit, k| {
                let mut edge = emit.pass_edge(&scope, k, block);
                for ((lanes, known), &sum) in vectors.iter().zip(&known).zip(&sums) {
                    let acc = emit.b.use_var(sum);
                    let acc = match weights {
                        None => emit.accumulate(Reduce::Sum, value, &mut edge, lanes, acc, known),
                        Some(weights) => {
                            let brought = emit.eval_known(value, &mut edge, lanes, known);
                            let weight = emit.pass_number(&edge, weights, lanes);
                            emit.mul_add(brought, weight, acc)
                        }
                    };
                    emit.b.def_var(sum, acc);
                }
            });
            emit.choose(
                block.ends,
                &mut |emit| {
                    let mut scope = scope.clone();
                    for (lanes, &sum) in vectors.iter().zip(&sums) {
                        let mut sum = emit.b.use_var(sum);
                        if weights.is_some() {
                            let inverse = emit.state(State::Inverse, &scope, lanes);
                            sum = emit.b.ins().fmul(sum, inverse);
                        }
                        let result = emit.eval(finish, &mut scope, lanes, Some(sum));
                        emit.store_output(index, pointer, lanes, result);
                    }
                },
                &mut |emit| {
                    for (place, &sum) in places.iter().zip(&sums) {
                        let sum = emit.b.use_var(sum);
                        emit.store_lanes(Memory::Stack, waiting, place, sum, Storage::F32);
                    }
                },
            );
        });
    }

    fn store_number(&mut self, index: usize, number: u16, scope: &Scope, block: Block) {
        let passes = passes(self.kernel.heads, 1, HEADS);
        self.for_range(block.first, block.last, 1, &mut |emit, k| {
            let edge = emit.pass_edge(scope, k, block);
            emit.for_windows(&passes, Base::default(), &mut |emit, base, window| {
                let scope = edge.at_columns(emit, base);
                let pointer = emit.output_pointer(index, edge.place.edge, base);
                for lanes in &window.vectors {
                    let value = emit.pass_number(&scope, number, lanes);
                    emit.store_output(index, pointer, lanes, value);
                }
            });
        });
    }

    fn store_log_sum(&mut self, index: usize, scope: &Scope, block: Block) {
        let passes = passes(self.kernel.heads, 1, HEADS);
        self.for_windows(&passes, Base::default(), &mut |emit, base, window| {
            let scope = scope.at_columns(emit, base);
            let pointer = emit.output_pointer(index, Some(block.row), base);
            for lanes in &window.vectors {
                let top = emit.state(State::Top, &scope, lanes);
                let total = emit.state(State::Total, &scope, lanes);
                let log = emit.log(total);
                let sum = emit.b.ins().fadd(top, log);
                let zero = emit.splat(0.0);
                let result = emit.b.ins().select(block.some, sum, zero);
                emit.store_output(index, pointer, lanes, result);
            }
        });
    }
}
