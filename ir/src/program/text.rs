//! Text form of programs: [`Program`](super::Program)'s `Display` prints it, its `FromStr`
//! reads it. Reading a printed program gives the same program.
//!
//! A listing has a head and five sections; empty sections are omitted:
//!
//! ```text
//! program 2 ranks, rank 0
//! logits b2
//!
//! params
//!   p0 "w" [4 x 2] uniform(0.5)
//!
//! buffers
//!   b0 local x 4 features "x"
//!   b1 4 x 2 param(0) "w"
//!
//! kernels
//!   k0 spmm edges sum 1 x 2 {
//!     in src
//!     out row
//!     value %0 = in0
//!     finish %0 = acc
//!   }
//!
//! step
//!   halo-exchange b0
//!   gemm nn b0 . b1 -> b2, local x 4 x 2
//!   repeat 3 {
//!     spmm k0 over inner: b2[i] -> b2[i+1]
//!   }
//! ```
//!
//! `b2` is slot 0 of buffer 2, `b2[1]` slot 1, and `b2[i+1]` the slot after the one of the
//! loop's index. A matrix that does not fill its slot is `b2@OFFSET/STRIDE`. `#` starts a
//! comment. An instruction may follow its place in the list, as [`Listing`] prints it; traces
//! and errors name instructions by these places.

mod kernel;
mod lex;
pub(super) mod line;
mod loss;
mod parse;
mod print;
mod rows;
mod words;

pub use lex::TextError;
pub(crate) use parse::Reader;
pub use print::{Listing, instruction};
pub(in crate::program) use rows::own_level;
pub(crate) use words::Text;

#[cfg(test)]
mod tests;
