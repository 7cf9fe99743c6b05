//! JSON errors in words for people who do not write Rust.

use serde_json::Error;

/// Rewrites a reader's error so that it names JSON types instead of Rust ones.
pub fn explain(error: &Error) -> String {
    let text = error.to_string();
    let Some((found, rest)) = text.rsplit_once("expected ") else {
        return text;
    };
    let (expected, place) = match rest.rfind(" at line ") {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    format!("{found}expected {}{place}", plain(expected))
}

fn plain(expected: &str) -> String {
    let whole = |least: i128, most: i128| format!("a whole number from {least} to {most}");
    match expected {
        "u8" => whole(0, u8::MAX.into()),
        "u16" => whole(0, u16::MAX.into()),
        "u32" => whole(0, u32::MAX.into()),
        "u64" | "usize" => whole(0, u64::MAX.into()),
        "i32" => whole(i32::MIN.into(), i32::MAX.into()),
        "i64" | "isize" => whole(i64::MIN.into(), i64::MAX.into()),
        "f32" | "f64" => "a number".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        other => match other.split(' ').next() {
            Some("struct" | "enum" | "variant") => "an object".to_owned(),
            Some("tuple" | "newtype") => "a list".to_owned(),
            _ => other.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;
    use crate::plan::Parameters;

    fn said<T: serde::de::DeserializeOwned>(json: &str) -> String {
        serde_json::from_str::<T>(json)
            .err()
            .map_or_else(String::new, |error| explain(&error))
    }

    #[test]
    fn types_are_those_of_json() {
        let large = said::<Parameters>(r#"{ "ranks": 5000000000 }"#);
        let expected =
            "invalid value: integer `5000000000`, expected a whole number from 0 to 4294967295";
        assert!(large.starts_with(expected), "{large}");
        assert!(large.ends_with(" at line 1 column 21"), "{large}");
        let list = said::<Workload>("[]");
        assert_eq!(
            list,
            "invalid length 0, expected an object at line 1 column 2"
        );
        assert!(said::<f64>("\"x\"").contains("expected a number at"));
        assert!(said::<Vec<u8>>("3").contains("expected a list at"));
        assert!(said::<Workload>("{").contains("EOF"), "other errors stay");
    }
}
