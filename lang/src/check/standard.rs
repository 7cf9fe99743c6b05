//! The standard library: layers written in the language itself.

use crate::syntax::{Module, parse};
use std::sync::OnceLock;

/// Source text of the standard library.
pub const TEXT: &str = include_str!("../std.gir");

/// The standard library, parsed once.
pub fn module() -> &'static Module {
    static MODULE: OnceLock<Module> = OnceLock::new();
    MODULE.get_or_init(|| parse(TEXT).0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::names;
    use crate::syntax::print;

    #[test]
    fn the_library_is_correct_and_formatted() {
        let (read, mut diagnostics) = parse(TEXT);
        names::check(&read, &mut diagnostics);
        assert_eq!(diagnostics, []);
        assert_eq!(print(&read), TEXT);
    }
}
