//! Programs are verified after every pass, in builds with debug assertions.

use gnnc_ir::program::verify::{RankData, verify};
use gnnc_ir::program::{Program, RankSizes};

/// What a pass made of a program, or of the programs of several ranks or stages: verified, for the sizes of a rank or
/// typical ones. `features` are the columns of the input features, where they are known.
///
/// # Panics
/// In builds with debug assertions, if a program does not verify: the pass has a bug.
pub(crate) fn checked(program: Program, features: Option<u32>, pass: &str) -> Program {
    check(&program, features, None, pass);
    program
}

/// As [`checked`], of a program that stays where it is.
pub(crate) fn check(
    program: &Program,
    features: Option<u32>,
    sizes: Option<RankSizes>,
    pass: &str,
) {
    if !cfg!(debug_assertions) {
        return;
    }
    let mut data = RankData::typical(program, features);
    data.sizes = sizes.unwrap_or(data.sizes);
    if let Err(error) = verify(program, &data) {
        panic!("after {pass}: {error}\n{program}");
    }
}
