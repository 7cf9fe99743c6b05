//! The `.gir` language as text: lexer, error-tolerant parser, formatter.
//!
//! ```
//! use gnnc_lang::syntax::{parse, print};
//! let (module, diagnostics) = parse("graph g { vertices=8 edges=20 features=4 classes=2 }");
//! assert!(diagnostics.is_empty());
//! assert_eq!(print(&module).lines().next(), Some("graph g {"));
//! ```

pub mod ast;
mod cursor;
mod expression;
mod parser;
mod print;
mod token;
mod trivia;

pub use ast::Module;
pub use parser::parse;
pub use print::print;

/// Deepest nesting of expressions and of blocks that the parser accepts.
pub const MAX_DEPTH: u32 = 200;
