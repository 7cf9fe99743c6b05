//! The error for a program that does not fit its data.

use crate::program::text::instruction;
use crate::program::{Instr, Program};
use std::fmt;

/// What is wrong with a program, and where (a line of its listing).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError {
    /// The place of the instruction at fault, such as `step 3.1`, and its line.
    at: Option<(String, String)>,
    what: String,
}

impl ProgramError {
    /// An error without a place.
    pub fn new(what: impl Into<String>) -> Self {
        let what = what.into();
        Self { at: None, what }
    }

    /// Adds the instruction at fault.
    pub fn at(self, place: &str, instr: &Instr, program: &Program) -> Self {
        let at = Some((place.to_owned(), instruction(instr, program)));
        Self { at, ..self }
    }
}

impl From<String> for ProgramError {
    fn from(what: String) -> Self {
        Self::new(what)
    }
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some((place, line)) => write!(f, "{place}: {}\n  in `{line}`", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for ProgramError {}
