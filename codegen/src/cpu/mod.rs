//! The Cranelift back end: from kernels to machine code for the running processor.

pub mod compiler;
mod emit_gather;
mod emit_map;
mod emit_places;
mod emit_reduce;
mod emit_softmax;
mod exprs;
mod function;
mod halves;
pub mod jit;
mod masks;
mod math;
mod memory;
mod schedule;
mod target;
mod vectors;

pub use compiler::{Compiled, Compiler, Statistics};
