//! Vectors of four floats: loads and stores of 1 to 4 lanes, and reductions over lanes.

use super::function::Emit;
use crate::args::checks::Memory;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use gnnc_ir::kernel::Reduce;
use gnnc_ir::words::storage::Storage;

/// How the lanes of a vector are laid out in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Contiguous.
    Contiguous,
    /// All at one address.
    Same,
    /// Anywhere.
    Scattered,
}

/// Classifies lane offsets.
pub fn pattern(offsets: &[u32]) -> Pattern {
    if offsets.windows(2).all(|pair| pair[1] == pair[0] + 1) {
        Pattern::Contiguous
    } else if offsets.windows(2).all(|pair| pair[1] == pair[0]) {
        Pattern::Same
    } else {
        Pattern::Scattered
    }
}

fn bytes(float: u32) -> i32 {
    (float * 4) as i32
}

impl Emit<'_, '_> {
    /// Loads elements `pointer[offsets]`; lanes without an offset hold some finite number.
    pub fn load_lanes(
        &mut self,
        memory: Memory,
        pointer: Value,
        offsets: &[u32],
        storage: Storage,
    ) -> Value {
        if let Some(format) = storage.format() {
            return self.load_halves(memory, pointer, offsets, format);
        }
        let first = bytes(offsets[0]);
        match (pattern(offsets), offsets.len()) {
            (Pattern::Contiguous, 4) => self.read(memory, types::F32X4, pointer, first),
            (Pattern::Contiguous, 2) => self.load_pair(memory, pointer, first),
            (Pattern::Contiguous, 3) => {
                let pair = self.load_pair(memory, pointer, first);
                let third = self.read(memory, types::F32, pointer, first + 8);
                self.b.ins().insertlane(pair, third, 2)
            }
            (Pattern::Contiguous, _) => {
                let scalar = self.read(memory, types::F32, pointer, first);
                self.b.ins().scalar_to_vector(types::F32X4, scalar)
            }
            (Pattern::Same, _) => {
                let scalar = self.read(memory, types::F32, pointer, first);
                self.b.ins().splat(types::F32X4, scalar)
            }
            (Pattern::Scattered, _) => {
                let scalar = self.read(memory, types::F32, pointer, first);
                let mut vector = self.b.ins().scalar_to_vector(types::F32X4, scalar);
                for (lane, &offset) in offsets.iter().enumerate().skip(1) {
                    let scalar = self.read(memory, types::F32, pointer, bytes(offset));
                    vector = self.b.ins().insertlane(vector, scalar, lane as u8);
                }
                vector
            }
        }
    }

    fn load_pair(&mut self, memory: Memory, pointer: Value, at: i32) -> Value {
        let pair = self.read(memory, types::F64, pointer, at);
        let vector = self.b.ins().scalar_to_vector(types::F64X2, pair);
        self.cast(types::F32X4, vector)
    }

    /// Stores the lanes of `vector` to `pointer[offsets]`.
    pub fn store_lanes(
        &mut self,
        memory: Memory,
        pointer: Value,
        offsets: &[u32],
        vector: Value,
        storage: Storage,
    ) {
        if let Some(format) = storage.format() {
            return self.store_halves(memory, pointer, offsets, vector, format);
        }
        let first = bytes(offsets[0]);
        let contiguous = pattern(offsets) == Pattern::Contiguous;
        if contiguous && offsets.len() == 4 {
            self.write(memory, vector, pointer, first);
            return;
        }
        let mut stored = 0;
        if contiguous && offsets.len() >= 2 {
            let pairs = self.cast(types::F64X2, vector);
            let pair = self.b.ins().extractlane(pairs, 0);
            self.write(memory, pair, pointer, first);
            stored = 2;
        }
        for (lane, &offset) in offsets.iter().enumerate().skip(stored) {
            let scalar = self.b.ins().extractlane(vector, lane as u8);
            self.write(memory, scalar, pointer, bytes(offset));
        }
    }

    /// `a > b ? a : b` in every lane, in one instruction; `b` if either is NaN.
    pub fn vmax(&mut self, a: Value, b: Value) -> Value {
        let less = self.b.ins().fcmp(FloatCC::LessThan, b, a);
        let mask = self.cast(types::F32X4, less);
        self.b.ins().bitselect(mask, a, b)
    }

    /// `a < b ? a : b` in every lane; `b` if either is NaN.
    pub fn vmin(&mut self, a: Value, b: Value) -> Value {
        let less = self.b.ins().fcmp(FloatCC::LessThan, a, b);
        let mask = self.cast(types::F32X4, less);
        self.b.ins().bitselect(mask, a, b)
    }

    /// `a * b + c`, fused if the processor can.
    pub fn mul_add(&mut self, a: Value, b: Value, c: Value) -> Value {
        if self.fma {
            return self.b.ins().fma(a, b, c);
        }
        let product = self.b.ins().fmul(a, b);
        self.b.ins().fadd(product, c)
    }

    /// Selects lanes of the pair `(a, b)`: 0 to 3 are `a`'s, 4 to 7 are `b`'s.
    pub fn shuffle(&mut self, a: Value, b: Value, lanes: [u8; 4]) -> Value {
        let bytes: Vec<u8> = lanes
            .iter()
            .flat_map(|lane| (0..4).map(move |i| lane * 4 + i))
            .collect();
        let mask = self.b.func.dfg.immediates.push(bytes.into());
        let (a, b) = (self.cast(types::I8X16, a), self.cast(types::I8X16, b));
        let shuffled = self.b.ins().shuffle(a, b, mask);
        self.cast(types::F32X4, shuffled)
    }

    /// The identity of a reduction in all lanes.
    pub fn identity(&mut self, reduce: Reduce) -> Value {
        self.splat(reduce.identity())
    }

    /// Sum or maximum of two vectors.
    pub fn combine(&mut self, reduce: Reduce, a: Value, b: Value) -> Value {
        match reduce {
            Reduce::Sum => self.b.ins().fadd(a, b),
            Reduce::Max => self.vmax(a, b),
        }
    }

    /// Lane `i` of the result reduces the lanes of `vectors[i]`. Takes up to 4 vectors and always
    /// reduces `(0, 2)` and `(1, 3)` first, then the two results.
    pub fn reduce_lanes(&mut self, reduce: Reduce, vectors: &[Value]) -> Value {
        let get = |i: usize| vectors[i.min(vectors.len() - 1)];
        if vectors.len() == 1 {
            let halves = self.shuffle(get(0), get(0), [2, 3, 2, 3]);
            let pair = self.combine(reduce, get(0), halves);
            let second = self.shuffle(pair, pair, [1, 1, 1, 1]);
            return self.combine(reduce, pair, second);
        }
        let mut half = |a: Value, b: Value| {
            let low = self.shuffle(a, b, [0, 1, 4, 5]);
            let high = self.shuffle(a, b, [2, 3, 6, 7]);
            self.combine(reduce, low, high)
        };
        let first = half(get(0), get(1));
        let second = if vectors.len() > 2 {
            half(get(2), get(3))
        } else {
            first
        };
        let even = self.shuffle(first, second, [0, 2, 4, 6]);
        let odd = self.shuffle(first, second, [1, 3, 5, 7]);
        self.combine(reduce, even, odd)
    }

    /// `vector` in the first `lanes` lanes, the identity of the reduction in the others.
    pub fn only_lanes(&mut self, reduce: Reduce, vector: Value, lanes: usize) -> Value {
        if lanes == 4 {
            return vector;
        }
        let used = std::array::from_fn(|lane| if lane < lanes { u32::MAX } else { 0 });
        let mask = self.bits_const(types::F32X4, used);
        let identity = self.identity(reduce);
        self.b.ins().bitselect(mask, vector, identity)
    }
}
