//! Fields that hold numbers: one, or a list of them.

/// Fields that say that a number is missing.
pub(super) const MISSING: [&str; 4] = ["", "nan", "NaN", "NA"];

/// Appends the number of a field to `values`, or the numbers of a list such as `1,2,3` or `[1 2 3]`.
/// A list without brackets has at least `shortest` numbers: `1,5` may be a decimal. Returns how many
/// there are; `None`, and nothing is appended, if the field holds something else.
pub(super) fn numbers(field: &str, shortest: usize, values: &mut Vec<f32>) -> Option<usize> {
    if let Ok(value) = field.parse() {
        values.push(value);
        return Some(1);
    }
    let inner = (field.strip_prefix('[')).and_then(|rest| rest.strip_suffix(']'));
    let before = values.len();
    let items = (inner.unwrap_or(field))
        .split(|letter: char| letter == ',' || letter.is_ascii_whitespace())
        .filter(|item| !item.is_empty());
    for item in items {
        match item.parse() {
            Ok(value) => values.push(value),
            Err(_) => {
                values.truncate(before);
                return None;
            }
        }
    }
    let count = values.len() - before;
    if inner.is_none() && count < shortest {
        values.truncate(before);
        return None;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_told_from_decimals_and_texts() {
        let of = |field: &str, shortest| {
            let mut values = vec![7.0];
            let count = numbers(field, shortest, &mut values);
            (count, values.split_off(1))
        };
        assert_eq!(of("-1e2", 3), (Some(1), vec![-100.0]));
        assert_eq!(of("1,5", 3), (None, vec![]));
        assert_eq!(of("1,5", 2), (Some(2), vec![1.0, 5.0]));
        assert_eq!(of("1, 2 ,3", 3), (Some(3), vec![1.0, 2.0, 3.0]));
        assert_eq!(of("[0.5]", 3), (Some(1), vec![0.5]));
        assert_eq!(of("[0.5 1.\n 2]", 3), (Some(3), vec![0.5, 1.0, 2.0]));
        assert_eq!(of("[]", 3), (Some(0), vec![]));
        for text in ["Paris, FR", "", "1,2,x", "[1", ",,"] {
            assert_eq!(of(text, 3), (None, vec![]), "{text}");
        }
    }
}
