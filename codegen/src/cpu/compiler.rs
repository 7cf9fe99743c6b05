//! The compiler: kernels in, callable code out. Each kernel is compiled once.

use super::function::Emit;
use super::helpers::helpers;
use super::jit::Code;
use super::target::Target;
use crate::CodegenError;
use crate::args::{ArgsError, KernelArgs, RawArgs};
use crate::verify::verify;
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{AbiParam, Function, Signature, UserFuncName, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use gnnc_files::{Cache, Cached};
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::flatten::{elementwise, flatten};
use gnnc_ir::kernel::{At, Body, Kernel, Reduce};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Compiles kernels for the running processor.
pub struct Compiler {
    target: Target,
    checked: bool,
    cache: Option<Cache>,
    memo: Mutex<BTreeMap<String, Arc<Compiled>>>,
    compiled: AtomicU64,
    disk_hits: AtomicU64,
    memory_hits: AtomicU64,
}

/// Counters of a compiler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Kernels compiled.
    pub compiled: u64,
    /// Kernels found on disk.
    pub disk_hits: u64,
    /// Kernels found in memory.
    pub memory_hits: u64,
}

/// A kernel that can be called.
#[derive(Debug)]
pub struct Compiled {
    kernel: Kernel,
    code: Code,
    checked: bool,
}

impl Compiled {
    /// The specification.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Bytes of machine code.
    pub fn code_len(&self) -> usize {
        self.code.bytes().len()
    }

    /// Whether the code compares every access with the bounds in [`RawArgs::checks`].
    pub fn is_checked(&self) -> bool {
        self.checked
    }

    /// Runs the kernel over the rows `begin .. end`. Calls on disjoint rows may run concurrently.
    ///
    /// # Safety
    /// Everything the kernel touches over these rows must lie inside the buffers (see
    /// [`KernelArgs::check`]), and nothing else may use the elements of the outputs meanwhile.
    /// Checked code needs valid [`RawArgs::checks`] instead of in-bounds accesses.
    pub unsafe fn run(&self, args: &RawArgs, begin: u64, end: u64) {
        // SAFETY: the code has this signature; the caller vouches for `args`.
        unsafe { self.code.entry()(args, begin, end, helpers()) }
    }

    /// Runs the kernel over `rows`. Returns an error if its arguments do not fit: checked code
    /// finds out at the access itself; other code runs only if [`KernelArgs::check`] accepts the
    /// arguments.
    ///
    /// # Safety
    /// Nothing else may use the elements of the outputs meanwhile.
    pub unsafe fn run_args(&self, args: &KernelArgs, rows: Range<u64>) -> Result<(), ArgsError> {
        let packed = args.pack();
        if self.checked {
            args.count(&self.kernel)?;
            let checks = args.checks();
            let raw = RawArgs {
                checks: &checks,
                ..packed.raw()
            };
            // SAFETY: the counts were checked, and the code checks every access.
            unsafe { self.run(&raw, rows.start, rows.end) };
            return checks.result();
        }
        args.check(&self.kernel, rows.clone())?;
        // SAFETY: every access was checked; the caller vouches for the outputs.
        unsafe { self.run(&packed.raw(), rows.start, rows.end) };
        Ok(())
    }
}

impl Compiler {
    /// A compiler for the running processor. Keeps compiled code in `cache`, if given.
    pub fn new(cache: Option<Cache>) -> Result<Self, CodegenError> {
        Ok(Self {
            target: Target::native()?,
            checked: false,
            cache,
            memo: Mutex::default(),
            compiled: AtomicU64::new(0),
            disk_hits: AtomicU64::new(0),
            memory_hits: AtomicU64::new(0),
        })
    }

    /// A compiler whose code compares every load and store with the bounds of its memory: slow, for
    /// tests. The code stops at the first access out of bounds, and [`Compiled::run_args`] names
    /// the memory.
    pub fn checked(cache: Option<Cache>) -> Result<Self, CodegenError> {
        Ok(Self {
            checked: true,
            ..Self::new(cache)?
        })
    }

    /// Machine code for a kernel: from memory, from disk, or newly compiled.
    pub fn compile(&self, kernel: &Kernel) -> Result<Arc<Compiled>, CodegenError> {
        let spec = spec_text(kernel)?;
        if let Some(known) = self
            .memo
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&spec)
        {
            self.memory_hits.fetch_add(1, Ordering::Relaxed);
            return Ok(Arc::clone(known));
        }
        let function = self.function(kernel)?;
        let key = format!("{}\n{}", self.target.key, function.display());
        let cache = self.cache.as_ref();
        let stored = cache.and_then(|cache| cache.load(Cached::Kernel, &key));
        let bytes = match stored {
            Some(bytes) => {
                self.disk_hits.fetch_add(1, Ordering::Relaxed);
                bytes
            }
            None => {
                let bytes = self.machine_code(function)?;
                self.compiled.fetch_add(1, Ordering::Relaxed);
                if let Some(cache) = cache {
                    cache.store(Cached::Kernel, &key, &bytes);
                }
                bytes
            }
        };
        let code = Code::new(&bytes).map_err(CodegenError::Memory)?;
        let compiled = Arc::new(Compiled {
            kernel: kernel.clone(),
            code,
            checked: self.checked,
        });
        let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(memo.entry(spec).or_insert(compiled)))
    }

    /// The kernel in Cranelift's intermediate language, before Cranelift's optimizations.
    pub fn clif(&self, kernel: &Kernel) -> Result<String, CodegenError> {
        Ok(self.function(kernel)?.display().to_string())
    }

    /// The cache on disk, if any.
    pub fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    /// Counters so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            compiled: self.compiled.load(Ordering::Relaxed),
            disk_hits: self.disk_hits.load(Ordering::Relaxed),
            memory_hits: self.memory_hits.load(Ordering::Relaxed),
        }
    }

    fn function(&self, kernel: &Kernel) -> Result<Function, CodegenError> {
        verify(kernel)?;
        let mut kernel = flatten(kernel);
        let elements = elementwise(&kernel);
        if elements.is_some() {
            one_long_row(&mut kernel);
        }
        let mut signature = Signature::new(CallConv::triple_default(self.target.isa.triple()));
        signature.params.extend([AbiParam::new(types::I64); 4]);
        let mut function = Function::with_name_signature(UserFuncName::user(0, 0), signature);
        let mut context = FunctionBuilderContext::new();
        let builder = FunctionBuilder::new(&mut function, &mut context);
        let mut emit = Emit::new(builder, &kernel, self.target.fma, self.checked);
        match &kernel.body {
            Body::Map { values, .. } => match elements {
                Some(width) => emit.map_elements(values, width),
                None => emit.map(values),
            },
            Body::Gather { value, .. } if kernel.outputs[0].picked.is_some() => emit.places(value),
            Body::Gather {
                reduce,
                value,
                finish,
                ..
            } => emit.gather(*reduce, value, finish),
            Body::RowReduce {
                axis,
                reduce,
                value,
                finish,
                ..
            } => {
                emit.row_reduce(*axis, *reduce, value, finish);
            }
            Body::TypeSum { value, .. } => emit.gather(Reduce::Sum, value, &Expr::leaf(Value::Acc)),
            Body::ColReduce { value, .. } => emit.col_reduce(value),
            Body::EdgePass(pass) => emit.edge_pass(pass),
        }
        emit.finish(self.target.isa.frontend_config());
        Ok(function)
    }

    /// The kernel's machine instructions, one per line.
    pub fn assembly(&self, kernel: &Kernel) -> Result<String, CodegenError> {
        let mut context = Context::for_function(self.function(kernel)?);
        context.set_disasm(true);
        let code = context
            .compile(&*self.target.isa, &mut ControlPlane::default())
            .map_err(|e| CodegenError::Cranelift(format!("{:?}", e.inner)))?;
        Ok(code.vcode.clone().unwrap_or_default())
    }

    fn machine_code(&self, function: Function) -> Result<Vec<u8>, CodegenError> {
        let mut context = Context::for_function(function);
        let code = context
            .compile(&*self.target.isa, &mut ControlPlane::default())
            .map_err(|e| CodegenError::Cranelift(format!("{:?}", e.inner)))?;
        let relocations = code.buffer.relocs().len();
        if relocations > 0 {
            return Err(CodegenError::Relocations(relocations));
        }
        Ok(code.code_buffer().to_vec())
    }
}

/// Makes element-wise kernels walk elements as the columns of row 0.
fn one_long_row(kernel: &mut Kernel) {
    for operand in kernel.inputs.iter_mut().chain(&mut kernel.outputs) {
        if operand.at != At::One {
            (operand.at, operand.stride, operand.column_step) = (At::One, 0, 1);
        }
    }
}

fn spec_text(kernel: &Kernel) -> Result<String, CodegenError> {
    serde_json::to_string(kernel).map_err(|e| CodegenError::Spec(e.to_string()))
}
