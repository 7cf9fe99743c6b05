//! Functions of numbers: everything that is known of each, in one place.
//!
//! A function's meaning is a [`Formula`]; interpreters, the code generators and the derivative follow from its row here. To add
//! one, add its variant and an answer to each question in its file; to offer it in the language, a row in
//! `lang/src/check/builtins.rs`.

mod binary;
mod formula;
mod reduce;
mod unary;

pub use binary::Binary;
pub use formula::{Formula, Test};
pub use reduce::Reduce;
pub use unary::{Derivative, Pace, Sign, Term, Unary};
