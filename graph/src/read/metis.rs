//! METIS `.graph` files: a header `vertices edges [fmt [constraints]]`, then one line per vertex
//! with its neighbors, counted from 1. Weights and sizes are skipped.

use super::LoadOptions;
use super::text::{integer, lines, quote, syntax, words};
use crate::topology::{Dropped, check_vertices};
use crate::{GraphError, Topology};

/// Parses a METIS graph file. `at` is its name in messages.
pub fn parse(
    at: &str,
    bytes: &[u8],
    options: &LoadOptions,
) -> Result<(Topology, Dropped), GraphError> {
    let mut lines = lines(bytes).filter(|(_, text)| text.first() != Some(&b'%'));
    let header = lines.find(|(_, text)| words(text).next().is_some());
    let Some((line, text)) = header else {
        return Err(syntax(
            at,
            1,
            "the end of the file",
            "the numbers of vertices and edges",
        ));
    };
    let format = Format::parse(at, line, text)?;
    if format.vertices > bytes.len() as u64 {
        return Err(GraphError::ClaimTooLarge {
            at: at.to_owned(),
            claimed: u128::from(format.vertices),
            available: bytes.len() as u64,
        });
    }
    let vertices = check_vertices(at, u128::from(format.vertices), format.edges)?;
    if let Some(stated) = options.vertices.filter(|&n| n != vertices) {
        return Err(GraphError::WrongLength {
            at: at.to_owned(),
            unit: "vertices",
            found: u64::from(vertices),
            expected: u64::from(stated),
        });
    }
    let mut edges = Vec::new();
    let mut rows = 0u64;
    for (line, text) in lines {
        if rows == format.vertices {
            if words(text).next().is_some() {
                return Err(syntax(
                    at,
                    line,
                    "another line",
                    format!("{vertices} lines of neighbors"),
                ));
            }
            continue;
        }
        let v = rows as u32;
        rows += 1;
        let mut words = words(text).skip(format.skipped);
        while let Some(word) = words.next() {
            let u = integer(word).ok_or_else(|| syntax(at, line, quote(word), "a vertex id"))?;
            if u < 1 || u > i128::from(vertices) {
                return Err(syntax(
                    at,
                    line,
                    u.to_string(),
                    format!("1 to {vertices} (METIS counts from 1)"),
                ));
            }
            if format.edge_weights && words.next().is_none() {
                return Err(syntax(
                    at,
                    line,
                    "a neighbor without weight",
                    "a weight after each neighbor",
                ));
            }
            edges.push(((u - 1) as u32, v));
        }
    }
    // The last line may be missing: an editor may drop it if it is empty, as for an isolated
    // vertex.
    if rows + 1 < format.vertices {
        return Err(GraphError::WrongLength {
            at: at.to_owned(),
            unit: "lines",
            found: rows,
            expected: format.vertices,
        });
    }
    let listed = edges.len() as u64;
    if u128::from(listed) != u128::from(format.edges) * 2 {
        return Err(GraphError::WrongLength {
            at: at.to_owned(),
            unit: "neighbors",
            found: listed,
            expected: format.edges.saturating_mul(2),
        });
    }
    let (topology, mut dropped) = Topology::from_edges(vertices, edges)?;
    check_symmetric(at, &topology)?;
    for (there, what) in [
        (format.edge_weights, "edge weights"),
        (format.skipped > 0, "vertex weights"),
    ] {
        if there {
            dropped.not_used.push(what.to_owned());
        }
    }
    Ok((topology, dropped))
}

/// Checks that every edge has its reverse.
pub(crate) fn check_symmetric(at: &str, topology: &Topology) -> Result<(), GraphError> {
    for v in 0..topology.vertices() {
        for &u in topology.in_neighbours(v) {
            if topology.in_neighbours(u).binary_search(&v).is_err() {
                return Err(GraphError::NotSymmetric {
                    at: at.to_owned(),
                    source_vertex: u,
                    destination: v,
                });
            }
        }
    }
    Ok(())
}

struct Format {
    vertices: u64,
    edges: u64,
    edge_weights: bool,
    /// Numbers on a line before the neighbors: size and weights of the vertex.
    skipped: usize,
}

impl Format {
    fn parse(at: &str, line: u64, text: &[u8]) -> Result<Self, GraphError> {
        let expected = "vertices, edges, and possibly fmt (as 011) and the number of weights";
        let wrong = || syntax(at, line, quote(text), expected);
        let fields: Vec<&[u8]> = words(text).collect();
        let number = |i: usize| -> Result<Option<u64>, GraphError> {
            let Some(word) = fields.get(i) else {
                return Ok(None);
            };
            integer(word)
                .and_then(|n| u64::try_from(n).ok())
                .map(Some)
                .ok_or_else(wrong)
        };
        let (Some(vertices), Some(edges)) = (number(0)?, number(1)?) else {
            return Err(wrong());
        };
        let flags = number(2)?.unwrap_or(0);
        let (sizes, weights, edge_weights) = (flags / 100, flags / 10 % 10, flags % 10);
        if sizes > 1 || weights > 1 || edge_weights > 1 || fields.len() > 4 {
            return Err(wrong());
        }
        let constraints = number(3)?.unwrap_or(weights);
        let skipped = sizes + if weights == 1 { constraints } else { 0 };
        let skipped = usize::try_from(skipped).map_err(|_| wrong())?;
        Ok(Self {
            vertices,
            edges,
            edge_weights: edge_weights == 1,
            skipped,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(Topology, Dropped), GraphError> {
        super::parse("t", text.as_bytes(), &LoadOptions::default())
    }

    #[test]
    fn weights_are_skipped() {
        let plain = parse("% c\n3 2\n2\n1 3\n2\n").unwrap().0;
        assert_eq!(plain.in_neighbours(1), [0, 2]);
        let (weighted, dropped) = parse("3 2 001\n2 9\n1 9 3 9\n2 9\n").unwrap();
        assert_eq!(weighted, plain);
        assert_eq!(dropped.not_used, ["edge weights"]);
        assert_eq!(
            parse("3 2 011 2\n7 7 2 9\n7 7 1 9 3 9\n7 7 2 9\n")
                .unwrap()
                .0,
            plain
        );
        assert_eq!(parse("3 2 110\n7 7 2\n7 7 1 3\n7 7 2\n").unwrap().0, plain);
        let isolated = parse("3 1\n\n3\n2\n").unwrap().0;
        assert_eq!((isolated.vertices(), isolated.edges()), (3, 2));
        assert_eq!(parse("3 1\n2\n1\n\n").unwrap().0.vertices(), 3);
    }

    #[test]
    fn mistakes_are_refused() {
        assert!(matches!(parse(""), Err(GraphError::Syntax { .. })));
        assert!(matches!(
            parse("3\n"),
            Err(GraphError::Syntax { line: 1, .. })
        ));
        assert!(matches!(
            parse("2 1\n2\n0\n"),
            Err(GraphError::Syntax { line: 3, .. })
        ));
        assert!(matches!(
            parse("2 1\n2\n1\n1\n"),
            Err(GraphError::Syntax { line: 4, .. })
        ));
        assert!(matches!(
            parse("2 2\n2\n1\n"),
            Err(GraphError::WrongLength {
                unit: "neighbors",
                ..
            })
        ));
        assert!(matches!(
            parse("5 1\n2\n1\n"),
            Err(GraphError::WrongLength { unit: "lines", .. })
        ));
        assert!(matches!(
            parse("3 1\n2\n3\n\n"),
            Err(GraphError::NotSymmetric { .. })
        ));
        assert!(matches!(
            parse("4000000000 1\n2\n1\n"),
            Err(GraphError::ClaimTooLarge { .. })
        ));
        assert!(matches!(
            parse("2 1 011 99999999999999999999\n2\n1\n"),
            Err(GraphError::Syntax { .. })
        ));
    }
}
