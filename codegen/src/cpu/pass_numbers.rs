//! The numbers of an edge pass: of each edge of a block, one for each head.

use super::emit_pass::{Block, Plan};
use super::exprs::{Known, Scope};
use super::function::{Base, Emit};
use super::schedule::{LANES, Lanes, passes};
use crate::args::checks::Memory;
use cranelift_codegen::ir::{InstBuilder, Value};
use gnnc_ir::kernel::expr::{Expr, Value as Term};
use gnnc_ir::kernel::{At, EdgePass, Reduce, Walk};
use gnnc_ir::words::scalar::Unary;
use gnnc_ir::words::storage::Storage;

/// Vectors of heads at a time.
pub const HEADS: u32 = 2;

impl Emit<'_, '_> {
    /// Computes the numbers that are no calls, in as few walks over the edges as the exponentials
    /// among them allow.
    pub fn other_numbers(&mut self, plan: &Plan, scope: &Scope, block: Block) {
        let mut together: Vec<u16> = Vec::new();
        for (n, number) in plan.pass.numbers.iter().enumerate() {
            if plan.dots[n].is_some() {
                continue;
            }
            together.push(n as u16);
            if exponent(&number.value).is_some() && !number.dot {
                self.walk_numbers(plan.pass, &together, scope, block);
                self.call_exps(n as u16, block);
                together.clear();
            }
        }
        if !together.is_empty() {
            self.walk_numbers(plan.pass, &together, scope, block);
        }
    }

    fn walk_numbers(&mut self, pass: &EdgePass, numbers: &[u16], scope: &Scope, block: Block) {
        match self.kernel.heads {
            1 => self.numbers_of_edges(pass, numbers, scope, block),
            _ => self.numbers_of_heads(pass, numbers, scope, block),
        }
    }

    /// Numbers of several heads: an edge at a time.
    fn numbers_of_heads(&mut self, pass: &EdgePass, numbers: &[u16], scope: &Scope, block: Block) {
        let passes = passes(self.kernel.heads, 1, HEADS);
        self.for_range(block.first, block.last, 1, &mut |emit, k| {
            let mut edge = emit.pass_edge(scope, k, block);
            for &n in numbers {
                let number = &pass.numbers[usize::from(n)];
                if number.dot {
                    emit.for_head_groups(&mut edge, &mut |emit, scope, lanes| {
                        let sums = emit.head_sums(Reduce::Sum, &number.value, scope, lanes);
                        emit.keep_number(scope, n, lanes, sums);
                    });
                    continue;
                }
                let value = exponent(&number.value).unwrap_or_else(|| number.value.clone());
                emit.for_windows(&passes, Base::default(), &mut |emit, base, window| {
                    let mut inner = edge.at_columns(emit, base);
                    let scope = match base.head {
                        None => &mut edge,
                        Some(_) => &mut inner,
                    };
                    for lanes in &window.vectors {
                        let value = emit.eval(&value, scope, lanes, None);
                        emit.keep_number(scope, n, lanes, value);
                    }
                });
            }
        });
    }

    /// Numbers of a single head: four edges at a time, except sums over columns.
    fn numbers_of_edges(&mut self, pass: &EdgePass, numbers: &[u16], scope: &Scope, block: Block) {
        let single = Lanes::run(0, 0, 1);
        let count = self.b.ins().isub(block.last, block.first);
        let whole = self.b.ins().band_imm_s(count, -i64::from(LANES));
        let middle = self.b.ins().iadd(block.first, whole);
        for &n in numbers {
            let number = &pass.numbers[usize::from(n)];
            if number.dot {
                self.for_range(block.first, block.last, 1, &mut |emit, k| {
                    let mut edge = emit.pass_edge(scope, k, block);
                    let sum = emit.head_sums(Reduce::Sum, &number.value, &mut edge, &single);
                    emit.keep_number(&edge, n, &single, sum);
                });
                continue;
            }
            let value = exponent(&number.value).unwrap_or_else(|| number.value.clone());
            self.for_range(block.first, middle, i64::from(LANES), &mut |emit, k| {
                let edges = [0, 1, 2, 3].map(|i| {
                    let k = emit.b.ins().iadd_imm_s(k, i);
                    emit.pass_edge(scope, k, block)
                });
                let value = emit.four_edges(&value, scope, edges.clone());
                let pointer = emit.four_numbers(&edges[0], n);
                let four = [0, 1, 2, 3];
                emit.store_lanes(Memory::Stack, pointer, &four, value, Storage::F32);
            });
            self.for_range(middle, block.last, 1, &mut |emit, k| {
                let mut edge = emit.pass_edge(scope, k, block);
                let value = emit.eval(&value, &mut edge, &single, None);
                emit.keep_number(&edge, n, &single, value);
            });
        }
    }

    /// Address of a number of an edge and of the edges behind it, for a single head.
    fn four_numbers(&mut self, edge: &Scope, number: u16) -> Value {
        let start = self.numbers_start(number);
        match edge.numbers {
            Some(at) => self.b.ins().iadd(start, at),
            None => start,
        }
    }

    /// The value of an expression at four edges in a row, of a single head.
    fn four_edges(&mut self, expr: &Expr, row: &Scope, mut edges: [Scope; 4]) -> Value {
        let fixed = self.fixed_values(expr, row);
        let same = Lanes(vec![(0, 0); 4]);
        let single = Lanes::run(0, 0, 1);
        let mut leaves: Known = vec![None; expr.values.len()];
        for (id, term) in expr.values.iter().enumerate() {
            leaves[id] = match *term {
                Term::Load(input) if fixed[id] => Some(self.load(&mut edges[0], input, &same)),
                Term::Load(input) if self.is_listed(input) => {
                    let operand = self.kernel.inputs[usize::from(input)];
                    let start = self.inputs[usize::from(input)];
                    let place = edges[0].place.edge;
                    let pointer = self.row_pointer(start, operand, place, Base::default());
                    let four = [0, 1, 2, 3].map(|i| operand.offset + i);
                    let memory = Memory::Input(input);
                    Some(self.load_lanes(memory, pointer, &four, operand.storage))
                }
                Term::Load(input) => {
                    let each = edges.each_mut();
                    let four = each.map(|edge| self.load(edge, input, &single));
                    Some(self.first_lanes(four))
                }
                Term::Number(number) => {
                    let pointer = self.four_numbers(&edges[0], number);
                    let four = [0, 1, 2, 3];
                    Some(self.load_lanes(Memory::Stack, pointer, &four, Storage::F32))
                }
                Term::Mask(mask) if fixed[id] => Some(self.draw(mask, &mut edges[0], &same)),
                Term::Mask(mask) => {
                    let each = edges.each_mut();
                    let four = each.map(|edge| self.draw(mask, edge, &single));
                    Some(self.first_lanes(four))
                }
                Term::Const(_) | Term::Scalar(_) | Term::Acc => None,
                Term::Unary(..) | Term::Binary(..) => None,
            };
        }
        self.eval_known(expr, &mut edges[0], &single, &leaves)
    }

    /// Whether the values of consecutive edges of a row lie beside each other.
    fn is_listed(&self, input: u16) -> bool {
        let operand = self.kernel.inputs[usize::from(input)];
        let by_destination = Walk::of(&self.kernel.body) == Walk::EdgesByDestination;
        by_destination
            && operand.at == At::Edge
            && operand.stride == 1
            && operand.storage.is_f32()
            && operand.picked.is_none()
    }

    fn draw(&mut self, mask: u16, edge: &mut Scope, lanes: &Lanes) -> Value {
        let hash = self.row_hash(edge, mask.into());
        self.mask_factors(mask.into(), hash, edge.base, lanes)
    }

    /// A vector of the first lanes of four vectors.
    fn first_lanes(&mut self, four: [Value; 4]) -> Value {
        let [first, ..] = four;
        let mut vector = first;
        for (lane, other) in four.into_iter().enumerate().skip(1) {
            let scalar = self.b.ins().extractlane(other, 0);
            vector = self.b.ins().insertlane(vector, scalar, lane as u8);
        }
        vector
    }
}

/// The argument of the exponential that an expression is.
fn exponent(expr: &Expr) -> Option<Expr> {
    let (last, before) = expr.values.split_last()?;
    match last {
        Term::Unary(Unary::Exp, of) if usize::from(*of) + 1 == before.len() => Some(Expr {
            values: before.to_vec(),
        }),
        _ => None,
    }
}
