//! Matrix Market coordinate files: entry `(i, j)`, counted from 1, is the edge `i -> j`.
//!
//! Reads `pattern`, `real` and `integer` values, and `general` and `symmetric` matrices. Weights
//! are ignored, except that a weight of 0 means no edge.

use super::LoadOptions;
use super::text::{integer, lines, plausible_vertices, quote, syntax, words};
use crate::topology::Dropped;
use crate::{GraphError, Topology};

/// Parses a Matrix Market file. `at` is its name in messages.
pub fn parse(
    at: &str,
    bytes: &[u8],
    options: &LoadOptions,
) -> Result<(Topology, Dropped), GraphError> {
    let mut lines = lines(bytes);
    let (_, banner) = lines.next().unwrap_or((1, b""));
    let (pattern, symmetric) = parse_banner(at, banner)?;
    let mut content =
        lines.filter(|(_, text)| text.first() != Some(&b'%') && words(text).next().is_some());
    let Some((line, sizes)) = content.next() else {
        return Err(syntax(
            at,
            2,
            "the end of the file",
            "rows, columns and entries",
        ));
    };
    let sizes: Vec<Option<i128>> = words(sizes).map(integer).collect();
    let [Some(rows), Some(columns), Some(entries)] = sizes[..] else {
        return Err(syntax(
            at,
            line,
            "something else",
            "rows, columns and entries, three numbers",
        ));
    };
    if rows != columns || rows < 0 || entries < 0 {
        return Err(syntax(
            at,
            line,
            format!("{rows} x {columns} with {entries} entries"),
            "a square matrix",
        ));
    }
    // An entry's line has at least four bytes including the line end, which bounds what a false
    // header can claim.
    let possible = (bytes.len() as u64 / 4).saturating_add(1);
    if entries > i128::from(possible) {
        return Err(GraphError::ClaimTooLarge {
            at: at.to_owned(),
            claimed: entries as u128 * 4,
            available: bytes.len() as u64,
        });
    }
    if let Some(stated) = options.vertices.filter(|&n| i128::from(n) != rows) {
        return Err(GraphError::WrongLength {
            at: at.to_owned(),
            unit: "rows",
            found: rows as u64,
            expected: u64::from(stated),
        });
    }
    let vertices = plausible_vertices(at, rows as u128, entries as u64, options.vertices)?;
    let mut edges = Vec::with_capacity(entries as usize * if symmetric { 2 } else { 1 });
    let (mut found, mut zero_weights, mut weighted) = (0u64, 0, false);
    for (line, text) in content {
        let mut words = words(text);
        let mut end = || {
            let word = words
                .next()
                .ok_or_else(|| syntax(at, line, "too few numbers", "a row and a column"))?;
            let id = integer(word).ok_or_else(|| syntax(at, line, quote(word), "a number"))?;
            if id < 1 || id > i128::from(vertices) {
                return Err(syntax(
                    at,
                    line,
                    id.to_string(),
                    format!("1 to {vertices} (Matrix Market counts from 1)"),
                ));
            }
            Ok((id - 1) as u32)
        };
        let (i, j) = (end()?, end()?);
        found += 1;
        if !pattern {
            let word = words
                .next()
                .ok_or_else(|| syntax(at, line, "no value", "row, column and value"))?;
            let value: Option<f64> = std::str::from_utf8(word).ok().and_then(|w| w.parse().ok());
            let value = value.ok_or_else(|| syntax(at, line, quote(word), "a number"))?;
            if value == 0.0 {
                zero_weights += 1;
                continue;
            }
            weighted |= value != 1.0;
        }
        edges.push((i, j));
        if symmetric && i != j {
            edges.push((j, i));
        }
    }
    if found != entries as u64 {
        return Err(GraphError::WrongLength {
            at: at.to_owned(),
            unit: "entries",
            found,
            expected: entries as u64,
        });
    }
    let (topology, dropped) = Topology::from_edges(vertices, edges)?;
    Ok((
        topology,
        Dropped {
            zero_weights,
            not_used: weighted
                .then(|| "edge weights".to_owned())
                .into_iter()
                .collect(),
            ..dropped
        },
    ))
}

/// Whether values are absent, and whether the matrix is symmetric.
fn parse_banner(at: &str, banner: &[u8]) -> Result<(bool, bool), GraphError> {
    let text = String::from_utf8_lossy(&banner[..banner.len().min(200)]).to_ascii_lowercase();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let ["%%matrixmarket", "matrix", format, field, symmetry] = words[..] else {
        return Err(syntax(
            at,
            1,
            quote(banner),
            "%%MatrixMarket matrix coordinate <field> <symmetry>",
        ));
    };
    let unsupported = |found: &str, expected: &str| GraphError::Unsupported {
        at: at.to_owned(),
        found: format!("a matrix that is {found:?}"),
        expected: expected.to_owned(),
    };
    if format != "coordinate" {
        return Err(unsupported(format, "coordinate"));
    }
    let pattern = match field {
        "pattern" => true,
        "real" | "integer" => false,
        _ => return Err(unsupported(field, "pattern, real or integer")),
    };
    match symmetry {
        "general" => Ok((pattern, false)),
        "symmetric" => Ok((pattern, true)),
        _ => Err(unsupported(symmetry, "general or symmetric")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(Topology, Dropped), GraphError> {
        super::parse("t", text.as_bytes(), &LoadOptions::default())
    }

    #[test]
    fn both_symmetries_and_all_values_are_read() {
        let (t, _) =
            parse("%%MatrixMarket matrix coordinate pattern general\n% c\n3 3 2\n1 2\n3 2\n")
                .unwrap();
        assert_eq!(t.in_neighbours(1), [0, 2]);
        assert_eq!(t.edges(), 2);
        let (t, dropped) =
            parse("%%MatrixMarket matrix coordinate real symmetric\n3 3 4\n2 1 0.5\n3 2 1e3\n3 3 1\n3 1 0\n").unwrap();
        assert_eq!(t.in_neighbours(1), [0, 2]);
        assert!(t.is_symmetric());
        assert_eq!(
            (t.edges(), dropped.self_loops, dropped.zero_weights),
            (4, 1, 1)
        );
    }

    #[test]
    fn mistakes_are_refused() {
        let general = "%%MatrixMarket matrix coordinate pattern general\n";
        assert!(matches!(parse(""), Err(GraphError::Syntax { line: 1, .. })));
        assert!(matches!(parse(general), Err(GraphError::Syntax { .. })));
        assert!(matches!(
            parse(&format!("{general}2 3 0\n")),
            Err(GraphError::Syntax { line: 2, .. })
        ));
        assert!(matches!(
            parse(&format!("{general}2 2 1\n0 1\n")),
            Err(GraphError::Syntax { line: 3, .. })
        ));
        assert!(matches!(
            parse(&format!("{general}2 2 2\n1 2\n")),
            Err(GraphError::WrongLength { .. })
        ));
        assert!(matches!(
            parse(&format!("{general}2 2 999999999999\n")),
            Err(GraphError::ClaimTooLarge { .. })
        ));
        assert!(matches!(
            parse(&format!("{general}4000000000 4000000000 0\n")),
            Err(GraphError::TooManyVertices { .. })
        ));
        for banner in [
            "array real general",
            "coordinate complex general",
            "coordinate real skew-symmetric",
        ] {
            let text = format!("%%MatrixMarket matrix {banner}\n1 1 0\n");
            assert!(
                matches!(parse(&text), Err(GraphError::Unsupported { .. })),
                "{banner}"
            );
        }
    }
}
