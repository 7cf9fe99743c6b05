//! The registry of diagnostic codes.

/// A code and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The code, such as `E0201`; a leading `W` marks a warning.
    pub code: &'static str,
    /// One-line meaning.
    pub meaning: &'static str,
}

const fn entry(code: &'static str, meaning: &'static str) -> Code {
    Code { code, meaning }
}

/// Every code that the front end reports, in order.
#[rustfmt::skip]
pub const CODES: &[Code] = &[
    // Characters
    entry("E0001", "a character that starts no token"),
    entry("E0002", "a malformed or too large number"),
    entry("E0003", "a string without its end, or with an unknown escape"),
    // Syntax
    entry("E0101", "one thing was expected, another was found"),
    entry("E0102", "a block without its closing brace"),
    entry("E0103", "an expression or a block that is nested too deeply"),
    entry("E0104", "a statement in a place where it cannot stand"),
    entry("E0105", "a `|>` that is not followed by a function or a layer"),
    entry("E0106", "a positional argument after a named one"),
    // Names
    entry("E0201", "a name that is not defined"),
    entry("E0202", "a function or a layer that is not defined"),
    entry("E0203", "a name that is defined twice"),
    entry("E0204", "an argument that the function does not take"),
    entry("E0205", "a missing argument"),
    entry("E0206", "too many arguments, or one given twice"),
    entry("E0207", "layers that call each other in a cycle"),
    entry("E0208", "an assignment to something that cannot be assigned"),
    entry("E0209", "a model on a graph that is not defined"),
    entry("E0210", "a file without a model, or with several"),
    // Types
    entry("E0301", "tensors whose shapes do not match"),
    entry("E0302", "a value of an unexpected kind"),
    entry("E0303", "a number outside its range"),
    entry("E0304", "a shape or a condition that depends on the variable of a repeat"),
    entry("E0305", "a variable that changes its type in a repeat"),
    entry("E0306", "a repeat inside a repeat"),
    entry("E0307", "logits that do not have one column for each class"),
    entry("E0308", "a layer without a return, or a model without a loss"),
    entry("E0309", "a vertex tensor where an edge tensor is needed, or the reverse"),
    entry("E0310", "a model that is too large to elaborate"),
    entry("E0311", "a word that is not one of the choices"),
    entry("E0312", "edge types, features or sets that the graph or its self loops do not have"),
    entry("E0313", "weights that are not one for each class"),
    // Settings
    entry("E0401", "a setting that does not exist"),
    entry("E0402", "a setting that is missing"),
    entry("E0403", "a setting whose value is of the wrong kind or outside its range"),
    entry("E0404", "a model parameter, set from outside, that does not exist or has another kind"),
    // Warnings
    entry("W0501", "a variable that is never read"),
    entry("W0502", "a repeat that changes no variable"),
];

/// The entry of a code.
pub fn code(code: &str) -> Option<&'static Code> {
    CODES.iter().find(|entry| entry.code == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_ordered_and_unique() {
        assert!(CODES.windows(2).all(|w| w[0].code < w[1].code));
        assert!(code("E0201").is_some());
        assert!(code("E9999").is_none());
    }
}
