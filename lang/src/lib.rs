//! The model language: parses and formats text, and checks a syntax tree into an operator
//! graph.
//!
//! [`syntax`] parses and formats, [`check`] resolves names and shapes, [`diagnostic`] holds
//! what either reports. Every stage is a function from values to values; nothing here reads a
//! file.

pub mod check;
pub mod diagnostic;
pub mod syntax;

pub use diagnostic::{Diagnostic, Severity, Span};
