//! The CUDA back end: kernels to CUDA C, their launches, and NVRTC to compile them.
//!
//! [`generate`] makes the text of one kernel and its [`Schedule`]; [`module`] puts several kernels
//! into one translation unit. The text includes no header and stays in the common subset of C and
//! C++, so an ordinary C compiler can run it given definitions of a few CUDA names (the tests do).
//!
//! Results never depend on the launch: no sum uses atomics, and only the kernel and the numbers of
//! rows and edges determine how rows and edges are grouped.
//!
//! Widths are constants in the text. Rows are read 16 or 8 bytes at a time if the width and all
//! strides allow (8 elements if all are 16-bit). Every pointer must then be aligned to
//! [`Schedule::alignment`] bytes. The rows of an aligned buffer are aligned too, as their stride is
//! a multiple of the vector.

pub mod cubin;
mod emit;
mod emit_gather;
mod emit_map;
mod emit_pass;
mod emit_places;
mod emit_reduce;
mod exprs;
pub mod libraries;
pub mod library;
mod math;
pub mod nvrtc;
mod prelude;
pub mod schedule;
mod text;
pub mod together;

pub use schedule::pass::EdgeLoop;
pub use schedule::{Hubs, Launch, Parameter, Schedule, Size, by_degree};

use crate::verify::{SpecError, verify};
use gnnc_ir::kernel::expr::{Expr, Value};
use gnnc_ir::kernel::{Body, Kernel, Reduce};

/// A kernel as CUDA C.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name of the first entry point, and prefix of the others' names.
    pub name: String,
    /// The entry points, without the text [`module`] puts before them.
    pub text: String,
    /// The parameters of every entry point, in order.
    pub parameters: Vec<Parameter>,
    /// How the entry points are launched.
    pub schedule: Schedule,
}

/// Generates the text of a kernel. `name` has to be a C identifier.
///
/// # Errors
/// If the specification is invalid.
pub fn generate(kernel: &Kernel, name: &str) -> Result<Source, SpecError> {
    verify(kernel)?;
    let kernel = gnnc_ir::kernel::flatten::flatten(kernel);
    let schedule = Schedule::of(&kernel, name);
    let mut emit = emit::Emit::new(&kernel, &schedule);
    match &kernel.body {
        Body::Map { values, .. } => emit.map(values),
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
        } => emit.row_reduce(*axis, *reduce, value, finish),
        Body::TypeSum { value, .. } => emit.gather(Reduce::Sum, value, &Expr::leaf(Value::Acc)),
        Body::ColReduce { value, .. } => emit.column_reduce(value),
        Body::EdgePass(pass) => emit.pass(pass),
    }
    Ok(Source {
        name: name.to_owned(),
        text: emit.finish(),
        parameters: Parameter::of(&kernel),
        schedule,
    })
}

/// One translation unit of several kernels.
pub fn module<'a>(sources: impl IntoIterator<Item = &'a Source>) -> String {
    let mut text = prelude::prelude();
    for source in sources {
        text.push('\n');
        text.push_str(&source.text);
    }
    text
}
