//! Names of choices, and suggestions for misspelled ones.

use std::fmt;

/// Cap on candidates compared, which bounds the time when thousands of names are misspelled
/// among thousands.
const MOST_CANDIDATES: usize = 200;

/// Longer names get no suggestion, which bounds the time as well. In characters.
const LONGEST: usize = 64;

/// The candidate that a misspelled `name` most probably means, if one is close. Ignores case.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    if length > LONGEST {
        return None;
    }
    let limit = (length / 3).max(1);
    let found = name.to_lowercase();
    let others = candidates.into_iter().filter(|c| *c != name);
    let near = |c: &&str| c.chars().count().abs_diff(length) <= limit;
    let others = others.filter(near).take(MOST_CANDIDATES);
    // Counts a swap of adjacent characters as one edit.
    let scored = others.map(|c| (strsim::osa_distance(&found, &c.to_lowercase()), c));
    let (best, candidate) = scored.min()?;
    (best <= limit).then_some(candidate)
}

/// [`closest`] as a question for an error's help.
pub fn did_you_mean<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    closest(name, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// Joins names into "`a`, `b` or `c`".
pub fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|n| format!("`{n}`")).collect();
    match names.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// A number with what it counts, as in "1 layer" and "3 layers". `noun` is in the singular.
pub fn counted(number: impl fmt::Display, noun: &str) -> String {
    let number = number.to_string();
    match (number.as_str(), noun) {
        ("1", _) => format!("1 {noun}"),
        (_, "vertex") => format!("{number} vertices"),
        (_, "batch") => format!("{number} batches"),
        (_, noun) if noun.ends_with('s') => format!("{number} {noun}es"),
        _ => format!("{number} {noun}s"),
    }
}

/// Gives a fieldless enum its names: `ALL`, `name` and `Display`.
macro_rules! spelling {
    ($type:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $type {
            /// Every value, in declaration order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name in plans and on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        /// The error says which names were expected.
        impl ::std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().find(|one| one.name() == text);
                found.copied().ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|one| one.name()).collect();
                    format!("expected one of {}", names.join(", "))
                })
            }
        }
    };
}

pub(crate) use spelling;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swaps_and_slips_are_near() {
        assert_eq!(closest("rleu", ["relu"]), Some("relu"));
        assert_eq!(closest("dropuot", ["dropout"]), Some("dropout"));
        let names = ["relu", "elu", "linear"];
        assert_eq!(
            did_you_mean("rellu", names).as_deref(),
            Some("did you mean `relu`?")
        );
        assert_eq!(did_you_mean("conv", names), None);
        assert_eq!(closest("ReLU", names), Some("relu"), "case does not matter");
        assert_eq!(closest("relu", names), Some("elu"), "not the name itself");
        assert_eq!(closest("smpm", ["gemm", "spmm"]), Some("spmm"));
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(closest(&long, [&long[1..]]), None);
        assert_eq!(one_of(names), "`relu`, `elu` or `linear`");
    }
}
