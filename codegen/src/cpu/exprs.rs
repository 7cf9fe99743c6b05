//! Kernel expressions on vectors.

use super::function::{Base, Emit};
use super::schedule::Lanes;
use crate::args::checks::Memory;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use gnnc_ir::kernel::expr::{Expr, Value as Term};
use gnnc_ir::kernel::mask_row;
use gnnc_ir::kernel::{At, Operand, Reduce};
use gnnc_ir::words::scalar::Binary;

/// The current row and edge; `None` where unknown.
#[derive(Clone, Copy, Default)]
pub struct Place {
    /// The row, `i64` like all of these.
    pub row: Option<Value>,
    /// The source vertex.
    pub src: Option<Value>,
    /// The destination vertex.
    pub dst: Option<Value>,
    /// The edge's position in the in-neighbor CSR.
    pub edge: Option<Value>,
}

/// Values computed at a place for the columns from `base`. The code inside a loop works on a copy:
/// what it adds is invisible to the code after the loop.
#[derive(Clone)]
pub struct Scope {
    /// The place.
    pub place: Place,
    /// The columns.
    pub base: Base,
    pointers: Vec<Option<Value>>,
    src_id: Option<Value>,
    dst_id: Option<Value>,
    /// In an edge pass: bytes from an edge block's first number to the current edge's.
    pub numbers: Option<Value>,
    listed: Option<Value>,
    dst_hashes: Vec<Option<Value>>,
    hashes: Vec<Option<Value>>,
    loads: Vec<(u16, Vec<u32>, Value)>,
}

/// Values of an expression that are already computed, by position.
pub type Known = Vec<Option<Value>>;

/// Which values of an expression need code of their own.
struct Shape {
    /// Reaches the result.
    live: Vec<bool>,
    /// For a sum: the product that a fused instruction adds, and the other operand.
    fused: Vec<Option<(u16, u16)>>,
    /// Used only inside a fused instruction.
    absorbed: Vec<bool>,
}

impl Shape {
    /// `accumulated`: the result is added to a sum, so a final product can be fused.
    fn of(expr: &Expr, accumulated: bool) -> Self {
        let count = expr.values.len();
        let (mut live, mut uses) = (vec![false; count], vec![0u32; count]);
        live[count - 1] = true;
        for id in (0..count).rev() {
            if !live[id] {
                continue;
            }
            let mut mark = |operand: u16| {
                live[usize::from(operand)] = true;
                uses[usize::from(operand)] += 1;
            };
            match expr.values[id] {
                Term::Unary(_, a) => mark(a),
                Term::Binary(_, a, b) => {
                    mark(a);
                    mark(b);
                }
                _ => {}
            }
        }
        let product = |id: u16| {
            matches!(expr.values[usize::from(id)], Term::Binary(Binary::Mul, ..))
                && uses[usize::from(id)] == 1
        };
        let (mut fused, mut absorbed) = (vec![None; count], vec![false; count]);
        for id in 0..count {
            if let (Term::Binary(Binary::Add, a, b), true) = (expr.values[id], live[id]) {
                let pair = if product(a) {
                    Some((a, b))
                } else {
                    product(b).then_some((b, a))
                };
                if let Some((factor, _)) = pair {
                    absorbed[usize::from(factor)] = true;
                }
                fused[id] = pair;
            }
        }
        if accumulated && matches!(expr.values[count - 1], Term::Binary(Binary::Mul, ..)) {
            absorbed[count - 1] = true;
        }
        Self {
            live,
            fused,
            absorbed,
        }
    }
}

impl Scope {
    /// A scope with nothing computed yet.
    pub fn new(emit: &Emit, place: Place, base: Base) -> Self {
        let masks = emit.kernel.masks.len();
        Self {
            place,
            base,
            pointers: vec![None; emit.kernel.inputs.len()],
            src_id: None,
            dst_id: None,
            numbers: None,
            listed: None,
            dst_hashes: vec![None; masks],
            hashes: vec![None; masks],
            loads: Vec::new(),
        }
    }

    /// Takes the hashes of `outer`, which do not depend on columns.
    pub fn with_masks_of(mut self, outer: &Self) -> Self {
        (self.src_id, self.dst_id, self.listed) = (outer.src_id, outer.dst_id, outer.listed);
        self.dst_hashes.clone_from(&outer.dst_hashes);
        self.hashes.clone_from(&outer.hashes);
        self
    }

    /// The same place for other columns.
    pub fn at_columns(&self, emit: &Emit, base: Base) -> Self {
        Self {
            numbers: self.numbers,
            ..Self::new(emit, self.place, base).with_masks_of(self)
        }
    }
}

impl Emit<'_, '_> {
    /// Address of an operand's row, advanced to the columns from `base`.
    pub fn row_pointer(
        &mut self,
        start: Value,
        operand: Operand,
        row: Option<Value>,
        base: Base,
    ) -> Value {
        let bytes = operand.storage.bytes() as i64;
        let mut pointer = start;
        for (first, step) in [
            (base.head, operand.head_step),
            (base.column, operand.column_step),
        ] {
            if let (Some(first), true) = (first, step != 0) {
                let moved = self.b.ins().imul_imm_s(first, i64::from(step) * bytes);
                pointer = self.b.ins().iadd(pointer, moved);
            }
        }
        match row {
            Some(row) if operand.stride != 0 => {
                let moved = self
                    .b
                    .ins()
                    .imul_imm_s(row, i64::from(operand.stride) * bytes);
                self.b.ins().iadd(pointer, moved)
            }
            _ => pointer,
        }
    }

    fn index(&mut self, scope: &mut Scope, at: At) -> Option<Value> {
        match at {
            At::Row => scope.place.row,
            At::Src => scope.place.src,
            At::Dst => scope.place.dst,
            At::Edge => scope.place.edge,
            At::One => None,
            At::List => {
                if scope.listed.is_none() {
                    scope.listed = scope.place.row.map(|row| self.entry(Memory::List, row));
                }
                scope.listed
            }
        }
    }

    /// The element of an input on each lane.
    pub fn load(&mut self, scope: &mut Scope, input: u16, lanes: &Lanes) -> Value {
        let operand = self.kernel.inputs[usize::from(input)];
        let mut offsets = lanes.offsets(operand.head_step, operand.column_step);
        offsets
            .iter_mut()
            .for_each(|offset| *offset += operand.offset);
        if let Some(known) = scope
            .loads
            .iter()
            .find(|(n, at, _)| *n == input && *at == offsets)
        {
            return known.2;
        }
        let pointer = match scope.pointers[usize::from(input)] {
            Some(pointer) => pointer,
            None => {
                let row = self.index(scope, operand.at);
                let mut pointer =
                    self.row_pointer(self.inputs[usize::from(input)], operand, row, scope.base);
                if let Some(picked) = operand.picked {
                    let number = self.number(scope, picked.by);
                    let bytes = i64::from(picked.step) * operand.storage.bytes() as i64;
                    let moved = self.b.ins().imul_imm_s(number, bytes);
                    pointer = self.b.ins().iadd(pointer, moved);
                }
                scope.pointers[usize::from(input)] = Some(pointer);
                pointer
            }
        };
        let value = self.load_lanes(Memory::Input(input), pointer, &offsets, operand.storage);
        scope.loads.push((input, offsets, value));
        value
    }

    /// The number, `i64`, by which the current edge picks a place.
    pub fn number(&mut self, scope: &mut Scope, by: u16) -> Value {
        let operand = self.kernel.inputs[usize::from(by)];
        let row = self.index(scope, operand.at);
        let start = self.inputs[usize::from(by)];
        let pointer = self.row_pointer(start, operand, row, Base::default());
        let offset = (operand.offset * operand.storage.bytes() as u32) as i32;
        let number = self.read(Memory::Input(by), types::F32, pointer, offset);
        self.b.ins().fcvt_to_sint_sat(types::I64, number)
    }

    fn id_of(&mut self, vertex: Option<Value>) -> Value {
        match vertex {
            Some(vertex) => self.entry(Memory::Ids, vertex),
            None => self.int(0),
        }
    }

    fn dst_hash(&mut self, scope: &mut Scope, mask: usize) -> Value {
        if let Some(hash) = scope.dst_hashes[mask] {
            return hash;
        }
        let id = match scope.dst_id {
            Some(id) => id,
            None => self.id_of(scope.place.dst),
        };
        let hash = self.vertex_hash(mask, id);
        (scope.dst_id, scope.dst_hashes[mask]) = (Some(id), Some(hash));
        hash
    }

    fn src_id(&mut self, scope: &mut Scope) -> Value {
        let id = match scope.src_id {
            Some(id) => id,
            None => self.id_of(scope.place.src),
        };
        scope.src_id = Some(id);
        id
    }

    /// The hash of the row that keys a mask.
    pub fn row_hash(&mut self, scope: &mut Scope, mask: usize) -> Value {
        if let Some(hash) = scope.hashes[mask] {
            return hash;
        }
        let hash = match mask_row(self.kernel, self.kernel.masks[mask].at) {
            At::Src => {
                let id = self.src_id(scope);
                self.vertex_hash(mask, id)
            }
            At::Dst => self.dst_hash(scope, mask),
            At::Edge => {
                let dst = self.dst_hash(scope, mask);
                let src = self.src_id(scope);
                self.edge_hash(dst, src)
            }
            At::Row | At::One | At::List => {
                let id = self.id_of(scope.place.row);
                self.vertex_hash(mask, id)
            }
        };
        scope.hashes[mask] = Some(hash);
        hash
    }

    /// Computes the mask hashes of the row's vertex, before its edges.
    pub fn prepare_masks(&mut self, scope: &mut Scope) {
        for mask in 0..self.kernel.masks.len() {
            match mask_row(self.kernel, self.kernel.masks[mask].at) {
                At::Dst | At::Edge if scope.place.dst.is_some() => {
                    self.dst_hash(scope, mask);
                }
                At::Src | At::Edge if scope.place.src.is_some() => {
                    self.src_id(scope);
                }
                _ => {}
            }
        }
    }

    /// The expression's value on `lanes`.
    pub fn eval(
        &mut self,
        expr: &Expr,
        scope: &mut Scope,
        lanes: &Lanes,
        acc: Option<Value>,
    ) -> Value {
        let mut known = vec![None; expr.values.len()];
        let shape = Shape::of(expr, false);
        self.eval_values(expr, &shape, scope, lanes, acc, &mut known, None);
        self.value(&known, expr.result())
    }

    /// Reduces `acc` with the expression's value on `lanes`; reuses the values in `known`.
    pub fn accumulate(
        &mut self,
        reduce: Reduce,
        expr: &Expr,
        scope: &mut Scope,
        lanes: &Lanes,
        acc: Value,
        known: &Known,
    ) -> Value {
        let shape = Shape::of(expr, reduce.is_linear());
        let mut known = known.clone();
        self.eval_values(expr, &shape, scope, lanes, None, &mut known, None);
        let result = usize::from(expr.result());
        match (expr.values[result], shape.absorbed[result], known[result]) {
            (Term::Binary(_, a, b), true, None) => {
                let (a, b) = (self.value(&known, a), self.value(&known, b));
                self.mul_add(a, b, acc)
            }
            _ => {
                let value = self.value(&known, expr.result());
                self.combine(reduce, acc, value)
            }
        }
    }

    /// The expression's value on `lanes`; reuses the values in `known`.
    pub fn eval_known(
        &mut self,
        expr: &Expr,
        scope: &mut Scope,
        lanes: &Lanes,
        known: &Known,
    ) -> Value {
        let shape = Shape::of(expr, false);
        let mut known = known.clone();
        self.eval_values(expr, &shape, scope, lanes, None, &mut known, None);
        self.value(&known, expr.result())
    }

    /// Values that are the same for all edges of a row, computed before its edges. Plain loads are
    /// included only if `registers` suffice for them. `accumulated`: the result is added to a sum.
    pub fn invariants(
        &mut self,
        expr: &Expr,
        accumulated: bool,
        scope: &mut Scope,
        window: &[Lanes],
        registers: usize,
    ) -> Vec<Known> {
        let shape = Shape::of(expr, accumulated);
        let fixed = self.fixed_values(expr, scope);
        let loads = (0..expr.values.len())
            .filter(|&id| fixed[id] && shape.live[id] && matches!(expr.values[id], Term::Load(_)))
            .count();
        let hoist: Vec<bool> = (0..expr.values.len())
            .map(|id| {
                let load = matches!(expr.values[id], Term::Load(_));
                fixed[id]
                    && (!load || loads * window.len() <= registers || self.feeds(expr, id, &fixed))
            })
            .collect();
        window
            .iter()
            .map(|lanes| {
                let mut known = vec![None; expr.values.len()];
                self.eval_values(expr, &shape, scope, lanes, None, &mut known, Some(&hoist));
                known
            })
            .collect()
    }

    /// Whether a value is an operand of another fixed value, and so is computed early anyway.
    fn feeds(&self, expr: &Expr, id: usize, fixed: &[bool]) -> bool {
        (0..expr.values.len()).any(|user| {
            fixed[user]
                && match expr.values[user] {
                    Term::Unary(_, a) => usize::from(a) == id,
                    Term::Binary(_, a, b) => usize::from(a) == id || usize::from(b) == id,
                    _ => false,
                }
        })
    }

    /// Which values are the same for all edges of a row.
    pub fn fixed_values(&self, expr: &Expr, scope: &Scope) -> Vec<bool> {
        let known = |at: At| match at {
            At::Row => scope.place.row.is_some(),
            At::Src => scope.place.src.is_some(),
            At::Dst => scope.place.dst.is_some(),
            At::Edge => scope.place.edge.is_some(),
            At::One | At::List => true,
        };
        let mut fixed: Vec<bool> = Vec::with_capacity(expr.values.len());
        for value in &expr.values {
            fixed.push(match *value {
                Term::Load(input) => {
                    let operand = self.kernel.inputs[usize::from(input)];
                    let by = operand.picked.map(|picked| usize::from(picked.by));
                    known(operand.at) && by.is_none_or(|by| known(self.kernel.inputs[by].at))
                }
                Term::Mask(mask) => known(mask_row(
                    self.kernel,
                    self.kernel.masks[usize::from(mask)].at,
                )),
                Term::Unary(_, a) => fixed[usize::from(a)],
                Term::Binary(_, a, b) => fixed[usize::from(a)] && fixed[usize::from(b)],
                Term::Const(_) | Term::Scalar(_) => true,
                Term::Acc | Term::Number(_) => false,
            });
        }
        fixed
    }

    fn value(&mut self, known: &Known, id: u16) -> Value {
        match known[usize::from(id)] {
            Some(value) => value,
            None => self.splat(f32::NAN),
        }
    }

    fn eval_values(
        &mut self,
        expr: &Expr,
        shape: &Shape,
        scope: &mut Scope,
        lanes: &Lanes,
        acc: Option<Value>,
        known: &mut Known,
        only: Option<&[bool]>,
    ) {
        for (id, term) in expr.values.iter().enumerate() {
            let wanted = shape.live[id] && !shape.absorbed[id] && only.is_none_or(|only| only[id]);
            if !wanted || known[id].is_some() {
                continue;
            }
            let value = match *term {
                Term::Load(input) => self.load(scope, input, lanes),
                Term::Const(constant) => self.splat(constant),
                Term::Scalar(scalar) => self.scalars[usize::from(scalar)],
                Term::Acc => acc.unwrap_or_else(|| self.splat(f32::NAN)),
                Term::Number(number) => self.pass_number(scope, number, lanes),
                Term::Mask(mask) => {
                    let hash = self.row_hash(scope, usize::from(mask));
                    self.mask_factors(usize::from(mask), hash, scope.base, lanes)
                }
                Term::Unary(unary, a) => {
                    let a = self.value(known, a);
                    self.unary(unary, a)
                }
                Term::Binary(binary, a, b) => match shape.fused[id] {
                    Some((product, other)) => {
                        let Term::Binary(_, x, y) = expr.values[usize::from(product)] else {
                            continue;
                        };
                        let (x, y) = (self.value(known, x), self.value(known, y));
                        let other = self.value(known, other);
                        self.mul_add(x, y, other)
                    }
                    None => {
                        let (a, b) = (self.value(known, a), self.value(known, b));
                        self.binary(binary, a, b)
                    }
                },
            };
            known[id] = Some(value);
        }
    }
}
