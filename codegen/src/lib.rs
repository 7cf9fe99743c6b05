//! Kernel specifications to machine code.
//!
//! A [`gnnc_ir::kernel::Kernel`] says what a kernel computes; this crate decides how. The
//! [`cpu`] back end generates code for the running processor with Cranelift, [`oracle`]
//! interprets the same specification slowly in double precision, and the two are compared
//! on every kind of kernel by the tests; [`cuda`] writes CUDA C, which the tests run on the
//! processor against the same oracle. This crate reads no clock and no environment;
//! its only files are those of the compile cache that a caller asks for.
//!
//! # Compiling and running a kernel
//!
//! The mean of the neighbours' features, `out[v] = sum of x[u] over edges u -> v, times inverse
//! degree of v`, two columns wide:
//!
//! ```
//! use gnnc_codegen::args::{Buffer, KernelArgs};
//! use gnnc_codegen::cpu::Compiler;
//! use gnnc_ir::kernel::expr::{Expr, Value};
//! use gnnc_ir::kernel::{At, Body, End, Kernel, Operand, Reduce};
//! use gnnc_ir::words::scalar::Binary;
//! use gnnc_ir::words::types::EdgeSet;
//!
//! let mut finish = Expr::default();
//! let (sum, inverse) = (finish.push(Value::Acc), finish.push(Value::Load(1)));
//! finish.push(Value::Binary(Binary::Mul, sum, inverse));
//! let kernel = Kernel {
//!     body: Body::Gather {
//!         set: EdgeSet::Plain,
//!         to: End::Dst,
//!         reduce: Reduce::Sum,
//!         value: Expr::leaf(Value::Load(0)),
//!         finish,
//!     },
//!     heads: 1,
//!     width: 2,
//!     inputs: vec![Operand::dense(At::Src, 1, 2), Operand::dense(At::Row, 1, 1)],
//!     outputs: vec![Operand::dense(At::Row, 1, 2)],
//!     masks: vec![],
//!     scalars: 0,
//! };
//!
//! let compiler = Compiler::new(None)?;
//! let mean = compiler.compile(&kernel)?;
//!
//! // Vertex 0 has the in-neighbours 1 and 2, vertex 1 has 2, vertex 2 none.
//! let (indptr, indices) = ([0, 2, 3, 3], [1, 2, 2]);
//! let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
//! let inverse_degree = [0.5, 1.0, 0.0];
//! let mut out = [0.0; 6];
//! let args = KernelArgs {
//!     indptr: &indptr,
//!     indices: &indices,
//!     inputs: vec![Buffer::input(&x), Buffer::input(&inverse_degree)],
//!     outputs: vec![Buffer::output(&mut out)],
//!     ..KernelArgs::default()
//! };
//! args.check(&kernel, 0..3)?;
//! // SAFETY: the arguments were checked.
//! unsafe { mean.run_args(&args, 0..3)? };
//! assert_eq!(out, [4.0, 5.0, 5.0, 6.0, 0.0, 0.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod args;
pub mod cpu;
pub mod cuda;
pub mod oracle;
pub mod verify;

use verify::SpecError;

/// Why no code was generated.
#[derive(Debug, thiserror::Error)]
pub enum CodegenError {
    /// The specification is invalid.
    #[error("invalid kernel: {0}")]
    Invalid(#[from] SpecError),
    /// The specification could not be serialized as a key.
    #[error("kernel specification cannot be serialized: {0}")]
    Spec(String),
    /// The processor is not supported.
    #[error("cannot generate code for this processor: {0}")]
    Target(String),
    /// Cranelift rejected the function, which is a defect of this crate.
    #[error(
        "Cranelift rejected a generated function: {0}; please report the kernel (gnnc emit clif)"
    )]
    Cranelift(String),
    /// The code refers to outside addresses and cannot be cached, which is a defect of this crate.
    #[error(
        "generated code has {0} relocations, expected none; please report the kernel (gnnc emit clif)"
    )]
    Relocations(usize),
    /// Executable memory could not be mapped.
    #[error("no executable memory: {0}; the system may forbid mapping it")]
    Memory(#[source] std::io::Error),
}
