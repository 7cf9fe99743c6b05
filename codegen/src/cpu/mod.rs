//! The Cranelift back end: from kernels to machine code for the running processor.

pub mod compiler;
mod emit_gather;
mod emit_map;
mod emit_pass;
mod emit_places;
mod emit_reduce;
mod exprs;
mod function;
mod halves;
mod helpers;
pub mod jit;
mod masks;
mod math;
mod memory;
mod pass_calls;
mod pass_fetch;
mod pass_memory;
mod pass_numbers;
mod pass_rows;
mod schedule;
mod target;
mod vectors;

pub use compiler::{Compiled, Compiler, Statistics};
