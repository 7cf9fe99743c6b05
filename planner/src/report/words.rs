//! Numbers and paragraphs of reports.

/// A duration in at most 7 columns (up to 10,000 s).
pub fn short_seconds(seconds: f64) -> String {
    let micros = seconds * 1e6;
    match micros {
        m if m <= 0.0 => "0 s".to_owned(),
        m if m < 999.5 => format!("{} us", three_digits(m)),
        m if m < 999.5e3 => format!("{} ms", three_digits(m / 1e3)),
        _ => format!("{} s", three_digits(seconds)),
    }
}

/// An amount of memory in at most 8 columns (up to 10,000 TiB).
pub fn short_bytes(bytes: u64) -> String {
    let (mut value, mut units) = (bytes as f64, ["B", "KiB", "MiB", "GiB", "TiB"].into_iter());
    let mut unit = units.next().unwrap_or_default();
    while value >= 1023.5 {
        let Some(larger) = units.next() else { break };
        (value, unit) = (value / 1024.0, larger);
    }
    if unit == "B" {
        format!("{bytes} B")
    } else {
        format!("{} {unit}", three_digits(value))
    }
}

/// Three significant digits, but all digits before the point.
fn three_digits(value: f64) -> String {
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Appends text behind a margin, wrapped at `width` columns; later lines are indented to match. A
/// number stays on one line with its unit.
pub fn wrap(out: &mut String, margin: &str, text: &str, width: usize) {
    let indent = " ".repeat(margin.chars().count());
    let mut line = margin.to_owned();
    let mut empty = true;
    for piece in pieces(text) {
        if !empty && line.chars().count() + 1 + piece.chars().count() > width {
            out.push_str(line.trim_end());
            out.push('\n');
            line.clone_from(&indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(&piece);
        empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Words, keeping a number with the word after it, as in `3.62 ms`.
fn pieces(text: &str) -> Vec<String> {
    let digit = |c: char| c.is_ascii_digit();
    let mut pieces: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match pieces.last_mut() {
            Some(last)
                if last.starts_with(digit)
                    && last.ends_with(digit)
                    && !last.contains(' ')
                    && !word.starts_with(digit) =>
            {
                last.push(' ');
                last.push_str(word);
            }
            _ => pieces.push(word.to_owned()),
        }
    }
    pieces
}

/// A number with grouped thousands: `1_234_567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::WIDTH;

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(
            pieces("map 3.62 ms, x 8 9 GiB"),
            ["map", "3.62 ms,", "x", "8", "9 GiB"]
        );
        for length in 0..120 {
            let mut out = String::new();
            let filler = "y".repeat(length % 90);
            wrap(
                &mut out,
                "mostly  ",
                &format!("{filler} gemm 1.57 ms, sent 4.1 GiB"),
                WIDTH,
            );
            assert!(out.contains("1.57 ms") && out.contains("4.1 GiB"), "{out}");
            assert!(out.lines().all(|l| l.chars().count() <= WIDTH), "{out}");
            assert!(
                out.lines().skip(1).all(|l| l.starts_with("        ")),
                "{out}"
            );
        }
    }

    #[test]
    fn short_numbers_keep_their_width() {
        let mut seconds = 1e-9;
        while seconds < 9_999.0 {
            assert!(
                short_seconds(seconds).len() <= 7,
                "{}",
                short_seconds(seconds)
            );
            seconds *= 1.01;
        }
        let mut bytes = 1.0;
        while bytes < 1e16 {
            assert!(
                short_bytes(bytes as u64).len() <= 8,
                "{}",
                short_bytes(bytes as u64)
            );
            bytes *= 1.01;
        }
        assert_eq!(
            [0.0, 12.34e-6, 0.0999, 0.9996, 123.4].map(short_seconds),
            ["0 s", "12.3 us", "99.9 ms", "1.00 s", "123 s"]
        );
        assert_eq!(
            [0, 1023, 1024, 1 << 30].map(short_bytes),
            ["0 B", "1023 B", "1.00 KiB", "1.00 GiB"]
        );
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1_000", "1_234_567"]
        );
    }
}
