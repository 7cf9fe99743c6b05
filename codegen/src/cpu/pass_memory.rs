//! What an edge pass keeps on the stack: numbers of the edges of a block, and sums of a row.

use super::exprs::Scope;
use super::function::Emit;
use super::schedule::{LANES, Lanes};
use crate::args::checks::Memory;
use cranelift_codegen::ir::{InstBuilder, StackSlot, StackSlotData, StackSlotKind, Value, types};
use gnnc_ir::kernel::{EdgePass, Kernel};
use gnnc_ir::words::storage::Storage;

/// Floats of a block: half of an L1 cache.
const BLOCK_FLOATS: u32 = 4096;
/// Edges of the smallest and of the largest block, multiples of the lanes.
const EDGES: [u32; 2] = [16, 64];
/// Floats of a vector of the helpers.
const WIDE: u32 = 16;
/// Base-2 logarithm of the alignment of a vector.
const ALIGNED: u8 = 4;

/// The stack memory of an edge pass: for each number, and then for the weights and for products of
/// them, one float per edge of a block and head; the state of the softmax; and sums that wait for
/// the next block.
#[derive(Clone, Debug)]
pub struct PassMemory {
    slot: StackSlot,
    /// Edges of a block.
    pub edges: u32,
    /// Floats of an edge: its heads in whole vectors, or 1.
    pub heads: u32,
    /// First float of the softmax's state.
    state: u32,
    /// First float of the sums of each part of each result.
    sums: Vec<Vec<u32>>,
}

/// What a softmax keeps for each head between blocks.
#[derive(Clone, Copy, Debug)]
pub enum State {
    /// The maximum so far.
    Top,
    /// The sum of exponentials so far.
    Total,
    /// What earlier sums are multiplied by.
    Scale,
    /// The inverse of the sum.
    Inverse,
}

impl State {
    const COUNT: u32 = 4;

    fn number(self) -> u32 {
        match self {
            Self::Top => 0,
            Self::Total => 1,
            Self::Scale => 2,
            Self::Inverse => 3,
        }
    }
}

/// Floats of a number of all edges of a block, with room behind them for whole vectors of
/// [`super::helpers`].
fn room(edges: u32, heads: u32) -> u32 {
    edges * heads + WIDE
}

/// Floats of an edge.
fn padded(heads: u32) -> u32 {
    match heads {
        1 => 1,
        heads => heads.next_multiple_of(LANES),
    }
}

impl Emit<'_, '_> {
    /// Lays out the memory of a pass whose results are sums of some parts each.
    pub fn pass_memory(&mut self, pass: &EdgePass, parts: &[u32]) -> PassMemory {
        let Kernel { heads, width, .. } = *self.kernel;
        let floats = padded(heads);
        let arrays = pass.numbers.len() as u32 + 2;
        let columns = (heads * width).max(arrays * floats);
        let [least, most] = EDGES;
        let edges = (BLOCK_FLOATS / columns / LANES * LANES).clamp(least, most);
        let state = arrays * room(edges, floats);
        let mut end = state + State::COUNT * floats.max(LANES);
        let mut sums = Vec::with_capacity(self.kernel.outputs.len());
        for (output, parts) in self.kernel.outputs.iter().zip(parts) {
            let columns = if output.column_step == 0 { 1 } else { width };
            let floats = (heads * columns).next_multiple_of(LANES);
            sums.push((0..*parts).map(|part| end + part * floats).collect());
            end += parts * floats;
        }
        let kind = StackSlotKind::ExplicitSlot;
        let data = StackSlotData::new(kind, end * 4, ALIGNED);
        PassMemory {
            slot: self.b.create_sized_stack_slot(data),
            edges,
            heads: floats,
            state,
            sums,
        }
    }

    /// Address of the state of the softmax.
    pub fn state_start(&mut self) -> Value {
        let float = self.pass.as_ref().map_or(0, |memory| memory.state);
        self.stack(float)
    }

    fn stack(&mut self, float: u32) -> Value {
        match self.pass.as_ref().map(|memory| memory.slot) {
            Some(slot) => self
                .b
                .ins()
                .stack_addr(types::I64, slot, (float * 4) as i32),
            None => self.int(0),
        }
    }

    /// Bytes from one edge's number to the next one's.
    pub fn pass_step(&self) -> i64 {
        self.pass
            .as_ref()
            .map_or(4, |memory| i64::from(memory.heads) * 4)
    }

    /// Address of a number of the first edge of a block.
    pub fn numbers_start(&mut self, number: u16) -> Value {
        let room = self
            .pass
            .as_ref()
            .map_or(0, |memory| room(memory.edges, memory.heads));
        self.stack(u32::from(number) * room)
    }

    fn head_step(&self) -> u32 {
        u32::from(self.kernel.heads > 1)
    }

    /// Address of a number of the scope's edge, for the heads from the scope's.
    fn number_place(&mut self, scope: &Scope, number: u16) -> Value {
        let start = self.numbers_start(number);
        let at = match scope.numbers {
            Some(edge) => self.b.ins().iadd(start, edge),
            None => start,
        };
        self.at_head(at, scope, self.head_step())
    }

    fn at_head(&mut self, at: Value, scope: &Scope, step: u32) -> Value {
        match scope.base.head {
            Some(head) if step > 0 => {
                let moved = self.b.ins().imul_imm_s(head, i64::from(step) * 4);
                self.b.ins().iadd(at, moved)
            }
            _ => at,
        }
    }

    /// A number of the scope's edge, on the head of each lane.
    pub fn pass_number(&mut self, scope: &Scope, number: u16, lanes: &Lanes) -> Value {
        let pointer = self.number_place(scope, number);
        let offsets = lanes.offsets(self.head_step(), 0);
        self.load_lanes(Memory::Stack, pointer, &offsets, Storage::F32)
    }

    /// Keeps a number of the scope's edge.
    pub fn keep_number(&mut self, scope: &Scope, number: u16, lanes: &Lanes, value: Value) {
        let pointer = self.number_place(scope, number);
        let offsets = lanes.offsets(self.head_step(), 0);
        self.store_lanes(Memory::Stack, pointer, &offsets, value, Storage::F32);
    }

    fn state_place(&mut self, state: State, scope: &Scope) -> Value {
        let memory = self.pass.as_ref();
        let float = memory.map_or(0, |m| m.state + state.number() * m.heads.max(LANES));
        let start = self.stack(float);
        self.at_head(start, scope, self.head_step())
    }

    /// The state of the softmax, on the head of each lane.
    pub fn state(&mut self, state: State, scope: &Scope, lanes: &Lanes) -> Value {
        let pointer = self.state_place(state, scope);
        let offsets = lanes.offsets(self.head_step(), 0);
        self.load_lanes(Memory::Stack, pointer, &offsets, Storage::F32)
    }

    /// Address of the waiting sums of a part of a result, for the columns from the scope's.
    pub fn sums_place(&mut self, result: usize, part: usize, columns: u32, scope: &Scope) -> Value {
        let memory = self.pass.as_ref();
        let start = memory.map_or(0, |memory| memory.sums[result][part]);
        let start = self.stack(start);
        let mut at = self.at_head(start, scope, columns);
        if let Some(column) = scope.base.column {
            let moved = self.b.ins().imul_imm_s(column, 4);
            at = self.b.ins().iadd(at, moved);
        }
        at
    }
}
