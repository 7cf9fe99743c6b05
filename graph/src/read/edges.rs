//! Edge lists: one `source destination` per line, ids from 0.
//!
//! Words are split at white space, commas or semicolons. Further words of a line (weights, times)
//! are ignored. Lines that start with `#` or `%` are comments. One header line of names is skipped.
//! The comment `# vertices N`, which gnnc writes, gives the number of vertices; without it, that is
//! the largest id plus one.

use super::LoadOptions;
use super::text::{integer, lines, plausible_vertices, quote, syntax, words};
use crate::topology::Dropped;
use crate::{GraphError, Topology};

/// Parses an edge list. `at` is its name in messages.
pub fn parse(
    at: &str,
    bytes: &[u8],
    options: &LoadOptions,
) -> Result<(Topology, Dropped), GraphError> {
    let mut edges = Vec::new();
    let mut stated = None;
    let mut header_seen = false;
    let mut further = false;
    let mut largest: i128 = -1;
    for (line, text) in lines(bytes) {
        if matches!(text.first(), Some(b'#' | b'%')) {
            let mut words = words(text);
            if words.next() == Some(b"#") && words.next() == Some(b"vertices") {
                stated = words
                    .next()
                    .and_then(integer)
                    .filter(|&n| n >= 0)
                    .or(stated);
            }
            continue;
        }
        let mut words = words(text);
        let Some(first) = words.next() else { continue };
        let second = words.next();
        let Some(src) = integer(first) else {
            // A header line of names before the first edge.
            if edges.is_empty() && !header_seen && first.iter().any(u8::is_ascii_alphabetic) {
                header_seen = true;
                continue;
            }
            return Err(syntax(at, line, quote(first), "a vertex id"));
        };
        let Some(second) = second else {
            return Err(syntax(at, line, "one number", "a source and a destination"));
        };
        further |= words.next().is_some();
        let Some(dst) = integer(second) else {
            return Err(syntax(at, line, quote(second), "a vertex id"));
        };
        let limit = u64::from(u32::MAX);
        for id in [src, dst] {
            if !(0..i128::from(limit)).contains(&id) {
                return Err(GraphError::IndexOutOfRange {
                    at: format!("{at}:{line}"),
                    position: line,
                    found: id,
                    limit,
                });
            }
        }
        largest = largest.max(src).max(dst);
        edges.push((src as u32, dst as u32));
    }
    let needed = (largest + 1) as u128;
    let claimed = match (options.vertices, stated) {
        (Some(n), _) => u128::from(n),
        (None, Some(n)) => n as u128,
        (None, None) => needed,
    };
    if needed > claimed {
        let limit = claimed.min(u128::from(u64::MAX)) as u64;
        return Err(GraphError::IndexOutOfRange {
            at: at.to_owned(),
            position: 0,
            found: largest,
            limit,
        });
    }
    let vertices = plausible_vertices(at, claimed, edges.len() as u64, options.vertices)?;
    let (topology, mut dropped) = Topology::from_edges(vertices, edges)?;
    if further {
        dropped.not_used.push("additional columns".to_owned());
    }
    Ok((topology, dropped))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(Topology, Dropped), GraphError> {
        super::parse("t", text.as_bytes(), &LoadOptions::default())
    }

    #[test]
    fn comments_headers_and_further_columns_are_tolerated() {
        for text in [
            "# c\n0 1\n2 1\n",
            "source,target,w\r\n0,1,0.5\r\n2,1,3\r\n",
            "% c\n\n0\t1\n2\t1 17",
        ] {
            let (t, dropped) = parse(text).unwrap();
            let third = text.contains("17") || text.contains("0.5");
            assert_eq!(dropped.not_used.is_empty(), !third, "{text:?}");
            assert_eq!(
                (t.vertices(), t.in_neighbours(1)),
                (3, &[0, 2][..]),
                "{text:?}"
            );
        }
        assert_eq!(parse("# vertices 7\n0 1\n").unwrap().0.vertices(), 7);
        assert_eq!(parse("").unwrap().0.vertices(), 0);
    }

    #[test]
    fn mistakes_name_their_line() {
        assert!(matches!(
            parse("0 1\n0\n"),
            Err(GraphError::Syntax { line: 2, .. })
        ));
        assert!(matches!(
            parse("0 1\na b\n"),
            Err(GraphError::Syntax { line: 2, .. })
        ));
        assert!(matches!(
            parse("a b\nc d\n"),
            Err(GraphError::Syntax { line: 2, .. })
        ));
        assert!(matches!(
            parse("0 1.5\n"),
            Err(GraphError::Syntax { line: 1, .. })
        ));
        assert!(matches!(
            parse("0 1\n3 -4\n"),
            Err(GraphError::IndexOutOfRange {
                found: -4,
                position: 2,
                ..
            })
        ));
        assert!(matches!(
            parse("0 4000000000\n"),
            Err(GraphError::TooManyVertices { .. })
        ));
        assert!(matches!(
            parse("0 99999999999999999999\n"),
            Err(GraphError::IndexOutOfRange { .. })
        ));
        assert!(matches!(
            parse("# vertices 2\n0 2\n"),
            Err(GraphError::IndexOutOfRange { limit: 2, .. })
        ));
    }
}
