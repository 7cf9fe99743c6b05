//! Verifies programs after every pass, in builds with debug assertions.

use gnnc_ir::program::verify::{RankData, verify};
use gnnc_ir::program::{Capacity, Program};

/// Verifies the output of a pass for typical sizes, and returns it. `features` is the number of
/// columns of the input features, if known.
///
/// # Panics
/// In builds with debug assertions, if the program does not verify: the pass has a bug.
pub(crate) fn checked(program: Program, features: Option<u32>, pass: &str) -> Program {
    check(&program, features, None, pass);
    program
}

/// As [`checked`], for a borrowed program or the capacity of a rank.
pub(crate) fn check(
    program: &Program,
    features: Option<u32>,
    capacity: Option<Capacity>,
    pass: &str,
) {
    if !cfg!(debug_assertions) {
        return;
    }
    let mut data = RankData::typical(program, features);
    data.capacity = capacity.unwrap_or(data.capacity);
    if let Err(error) = verify(program, &data) {
        panic!("after {pass}: {error}\n{program}");
    }
}
