//! The function under construction: its arguments, loops and constants.

use super::memory::{Checks, plain};
use super::pass_memory::PassMemory;
use super::schedule::{Pass, Window};
use crate::args::checks::Memory;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_codegen::isa::TargetFrontendConfig;
use cranelift_frontend::{FunctionBuilder, Variable};
use gnnc_ir::kernel::Kernel;

/// A function under construction.
pub struct Emit<'a, 'f> {
    /// Appends instructions.
    pub b: FunctionBuilder<'f>,
    /// The kernel, flattened.
    pub kernel: &'a Kernel,
    /// Whether the processor has fused multiply-add.
    pub fma: bool,
    /// The pointers of [`crate::args::RawArgs`].
    pub raw: Raw,
    /// First row.
    pub begin: Value,
    /// One past the last row.
    pub end: Value,
    /// Address of [`super::helpers::Helpers`].
    pub helpers: Value,
    /// Address of each input.
    pub inputs: Vec<Value>,
    /// Address of each output.
    pub outputs: Vec<Value>,
    /// Each run-time scalar, splat to all lanes.
    pub scalars: Vec<Value>,
    /// Low and high half of each mask's key.
    pub keys: Vec<(Value, Value)>,
    /// In an edge pass: its memory on the stack.
    pub pass: Option<PassMemory>,
    /// In checked code: the bounds of every access.
    pub checks: Option<Checks>,
}

/// The pointers of [`crate::args::RawArgs`].
#[derive(Clone, Copy)]
pub struct Raw {
    /// Row offsets.
    pub indptr: Value,
    /// Neighbors.
    pub indices: Value,
    /// In-neighbor CSR positions.
    pub positions: Value,
    /// Global ids.
    pub ids: Value,
    /// Row list.
    pub list: Value,
}

/// The part of a column position that is known only at run time.
#[derive(Clone, Copy, Default)]
pub struct Base {
    /// First head, `i64`.
    pub head: Option<Value>,
    /// First column, `i64`.
    pub column: Option<Value>,
}

/// The position of a window in the loop over columns.
#[derive(Clone, Copy)]
pub struct WindowAt {
    /// Where the window's columns start.
    pub base: Base,
    /// For the first window of a sequence: the number of heads the sequence covers.
    pub first_of: Option<u32>,
}

impl<'a, 'f> Emit<'a, 'f> {
    /// Starts the function: reads its arguments.
    pub fn new(mut b: FunctionBuilder<'f>, kernel: &'a Kernel, fma: bool, checked: bool) -> Self {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let [args, begin, end, helpers] = [0, 1, 2, 3].map(|i| b.block_params(entry)[i]);
        let fields: [Value; 10] =
            std::array::from_fn(|n| b.ins().load(types::I64, plain(), args, 8 * n as i32));
        let [
            indptr,
            indices,
            positions,
            ids,
            list,
            inputs,
            outputs,
            scalars,
            keys,
            table,
        ] = fields;
        let mut pointers = |table: Value, count: usize| -> Vec<Value> {
            (0..count as i32)
                .map(|i| b.ins().load(types::I64, plain(), table, 8 * i))
                .collect()
        };
        let inputs = pointers(inputs, kernel.inputs.len());
        let outputs = pointers(outputs, kernel.outputs.len());
        let mut emit = Self {
            b,
            kernel,
            fma,
            raw: Raw {
                indptr,
                indices,
                positions,
                ids,
                list,
            },
            begin,
            end,
            helpers,
            inputs,
            outputs,
            scalars: Vec::new(),
            keys: Vec::new(),
            pass: None,
            checks: None,
        };
        if checked {
            emit.begin_checks(table);
        }
        emit.read_scalars(scalars);
        emit.read_keys(keys);
        emit
    }

    fn read_scalars(&mut self, table: Value) {
        for i in 0..i32::from(self.kernel.scalars) {
            let scalar = self.read(Memory::Scalars, types::F32, table, 4 * i);
            let lanes = self.b.ins().splat(types::F32X4, scalar);
            self.scalars.push(lanes);
        }
    }

    fn read_keys(&mut self, table: Value) {
        for i in 0..self.kernel.masks.len() as i32 {
            let low = self.read(Memory::Keys, types::I32, table, 8 * i);
            let high = self.read(Memory::Keys, types::I32, table, 8 * i + 4);
            self.keys.push((low, high));
        }
    }

    /// Ends the function.
    pub fn finish(mut self, config: TargetFrontendConfig) {
        self.b.ins().return_(&[]);
        self.report_failures();
        self.b.seal_all_blocks();
        self.b.finalize(config);
    }

    /// An integer constant.
    pub fn int(&mut self, value: i64) -> Value {
        self.b.ins().iconst(types::I64, value)
    }

    /// A float in all lanes.
    pub fn splat(&mut self, value: f32) -> Value {
        self.bits_const(types::F32X4, [value.to_bits(); 4])
    }

    /// A 32-bit integer in all lanes.
    pub fn isplat(&mut self, value: u32) -> Value {
        self.bits_const(types::I32X4, [value; 4])
    }

    /// A vector constant, given the bits of its lanes.
    pub fn bits_const(&mut self, ty: Type, lanes: [u32; 4]) -> Value {
        let bytes: Vec<u8> = lanes.iter().flat_map(|lane| lane.to_le_bytes()).collect();
        let pool = self.b.func.dfg.constants.insert(bytes.into());
        self.b.ins().vconst(ty, pool)
    }

    /// Reinterprets the bits as another type of lanes.
    pub fn cast(&mut self, ty: Type, value: Value) -> Value {
        let little = MemFlagsData::new().with_endianness(cranelift_codegen::ir::Endianness::Little);
        self.b.ins().bitcast(ty, little, value)
    }

    /// Variables initialized to the given values.
    pub fn variables(&mut self, starts: &[Value]) -> Vec<Variable> {
        starts
            .iter()
            .map(|&start| {
                let ty = self.b.func.dfg.value_type(start);
                let variable = self.b.declare_var(ty);
                self.b.def_var(variable, start);
                variable
            })
            .collect()
    }

    /// `for i in (from..to).step_by(step) { body(i) }`, signed, with the test at the bottom.
    pub fn for_range(
        &mut self,
        from: Value,
        to: Value,
        step: i64,
        body: &mut dyn FnMut(&mut Self, Value),
    ) {
        let (inside, after) = (self.b.create_block(), self.b.create_block());
        let counter = self.variables(&[from])[0];
        let some = self.b.ins().icmp(IntCC::SignedLessThan, from, to);
        self.b.ins().brif(some, inside, &[], after, &[]);
        self.b.switch_to_block(inside);
        let i = self.b.use_var(counter);
        body(self, i);
        let step = self.int(step);
        let next = self.b.ins().iadd(i, step);
        self.b.def_var(counter, next);
        let more = self.b.ins().icmp(IntCC::SignedLessThan, next, to);
        self.b.ins().brif(more, inside, &[], after, &[]);
        self.b.seal_block(inside);
        self.b.switch_to_block(after);
        self.b.seal_block(after);
    }

    /// Runs `body` where `condition` holds.
    pub fn when(&mut self, condition: Value, body: &mut dyn FnMut(&mut Self)) {
        let (inside, after) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(condition, inside, &[], after, &[]);
        self.b.switch_to_block(inside);
        self.b.seal_block(inside);
        body(self);
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        self.b.seal_block(after);
    }

    /// Runs `yes` if `condition` holds, `no` otherwise.
    pub fn choose(
        &mut self,
        condition: Value,
        yes: &mut dyn FnMut(&mut Self),
        no: &mut dyn FnMut(&mut Self),
    ) {
        let blocks = [(); 3].map(|()| self.b.create_block());
        let [inside, otherwise, after] = blocks;
        self.b.ins().brif(condition, inside, &[], otherwise, &[]);
        self.b.switch_to_block(inside);
        self.b.seal_block(inside);
        yes(self);
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(otherwise);
        self.b.seal_block(otherwise);
        no(self);
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        self.b.seal_block(after);
    }

    /// Runs `body` for every window.
    pub fn for_windows(
        &mut self,
        passes: &[Pass],
        base: Base,
        body: &mut dyn FnMut(&mut Self, Base, &Window),
    ) {
        self.for_windows_in(passes, base, self.kernel.heads, &mut |emit, at, window| {
            body(emit, at.base, window)
        });
    }

    /// Runs `body` for every window; `heads` is the number of heads that all passes cover together.
    pub fn for_windows_in(
        &mut self,
        passes: &[Pass],
        base: Base,
        heads: u32,
        body: &mut dyn FnMut(&mut Self, WindowAt, &Window),
    ) {
        for (i, pass) in passes.iter().enumerate() {
            match pass {
                Pass::Once(window) => {
                    let first_of = (i == 0).then_some(heads);
                    body(self, WindowAt { base, first_of }, window);
                }
                Pass::Columns {
                    count,
                    step,
                    window,
                } => {
                    let (from, to) = (self.int(0), self.int(i64::from(count * step)));
                    self.for_range(from, to, i64::from(*step), &mut |emit, column| {
                        let base = Base {
                            column: Some(column),
                            ..base
                        };
                        body(
                            emit,
                            WindowAt {
                                base,
                                first_of: None,
                            },
                            window,
                        );
                    });
                }
                Pass::Heads { count, step, inner } => {
                    let (from, to) = (self.int(0), self.int(i64::from(count * step)));
                    self.for_range(from, to, i64::from(*step), &mut |emit, head| {
                        let base = Base {
                            head: Some(head),
                            ..base
                        };
                        emit.for_windows_in(inner, base, *step, body);
                    });
                }
            }
        }
    }

    /// First and one past the last edge of a row.
    pub fn edge_range(&mut self, row: Value) -> (Value, Value) {
        let first = self.first_edge(row);
        let next = self.b.ins().iadd_imm_s(row, 1);
        (first, self.first_edge(next))
    }

    /// First edge of a row, which is the end of the row before it.
    pub fn first_edge(&mut self, row: Value) -> Value {
        let offset = self.b.ins().ishl_imm_u(row, 3);
        let address = self.b.ins().iadd(self.raw.indptr, offset);
        self.read(Memory::Indptr, types::I64, address, 0)
    }

    /// Entry `index` of a list of 32-bit numbers, as `i64`.
    pub fn entry(&mut self, memory: Memory, index: Value) -> Value {
        let list = match memory {
            Memory::Positions => self.raw.positions,
            Memory::Ids => self.raw.ids,
            Memory::List => self.raw.list,
            _ => self.raw.indices,
        };
        let offset = self.b.ins().ishl_imm_u(index, 2);
        let address = self.b.ins().iadd(list, offset);
        self.check(memory, address, 0, 4);
        self.b.ins().uload32(plain(), address, 0)
    }
}
