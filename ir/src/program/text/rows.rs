//! Text form of rows, chunks and buffers.

use super::TextError;
use super::parse::Reader;
use super::words::{Named, Text};
use crate::kernel::End;
use crate::program::{BufferId, Chunk, Even, Extent, Grouped, KernelId, Ref, Role};
use crate::words::sampling::{Drawn, MAX_HOPS};
use crate::words::types::{EdgeSet, Level, Of};
use std::fmt;

impl Text for BufferId {
    fn print(&self, out: &mut String) {
        *out += &format!("b{}", self.0);
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        from.numbered("b", "a buffer, such as b0").map(Self)
    }
}

impl Text for KernelId {
    fn print(&self, out: &mut String) {
        *out += &format!("k{}", self.0);
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        from.numbered("k", "a kernel, such as k0").map(Self)
    }
}

impl Text for Ref {
    fn print(&self, out: &mut String) {
        self.buffer.print(out);
        match (self.in_loop, self.base) {
            (false, 0) => {}
            (false, base) => *out += &format!("[{base}]"),
            (true, 0) => out.push_str("[i]"),
            (true, base) => *out += &format!("[i+{base}]"),
        }
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let mut at = Self::first(BufferId::parse(from)?);
        if !from.skip("[") {
            return Ok(at);
        }
        if let Some(index) = from.next_word().filter(|word| word.starts_with('i')) {
            at.in_loop = true;
            let base = index[1..].strip_prefix('+').unwrap_or("0");
            at.base = base
                .parse()
                .map_err(|_| from.wrong("`i`, or `i+` and a slot"))?;
            from.advance();
        } else {
            at.base = from.number()?;
        }
        from.expect("]")?;
        Ok(at)
    }
}

impl Text for Even {
    fn print(&self, out: &mut String) {
        self.rows.print(out);
        out.push('.');
        self.grain.print(out);
        if let Some(Grouped { set, by }) = self.edges {
            *out += &format!(".{}.{}", set.text(), by.text());
        }
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        const EXPECTED: &str =
            "a cut such as inner.lines or local.sums.edges.src: rows, grain, edges and their end";
        let word = from.word(EXPECTED)?;
        let parts: Vec<&str> = word.split('.').collect();
        let wrong = || from.wrong_before(EXPECTED);
        let (rows, grain, edges) = match parts[..] {
            [rows, grain] => (rows, grain, None),
            [rows, grain, set, by] => (rows, grain, Some((set, by))),
            _ => return Err(wrong()),
        };
        let grouped = |(set, by)| {
            Some(Grouped {
                set: value(set)?,
                by: value(by)?,
            })
        };
        Ok(Self {
            rows: value(rows).ok_or_else(wrong)?,
            grain: value(grain).ok_or_else(wrong)?,
            edges: match edges {
                Some(edges) => Some(grouped(edges).ok_or_else(wrong)?),
                None => None,
            },
        })
    }
}

/// The value that a word stands for.
fn value<T: Named>(word: &str) -> Option<T> {
    let found = T::NAMES.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value)
}

impl Text for Chunk {
    fn print(&self, out: &mut String) {
        *out += &format!("chunk {}/{}", self.index, self.of);
        if let Some(even) = self.even {
            *out += &format!(" of {}", even.text());
        }
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        from.expect("chunk")?;
        let index = from.number()?;
        from.expect("/")?;
        let of = from.number()?;
        let even = match from.skip("of") {
            true => Some(Even::parse(from)?),
            false => None,
        };
        Ok(Self { index, of, even })
    }
}

impl Text for Extent {
    fn print(&self, out: &mut String) {
        let plain = match self {
            Self::Fixed(rows) => return *out += &rows.to_string(),
            Self::Edges(set) => return set.print(out),
            Self::AllEdges(set) => return *out += &format!("all-{}", set.text()),
            Self::Run(even, of) => return *out += &format!("run({}, {of})", even.text()),
            Self::EdgeRun(even, of) => return *out += &format!("edge-run({}, {of})", even.text()),
            Self::Level(level) => return *out += &format!("level({})", level.text()),
            Self::LevelEdges(level, set) => {
                return *out += &format!("level-edges({}, {})", level.text(), set.text());
            }
            Self::Inner => "inner",
            Self::Local => "local",
            Self::Halo => "halo",
            Self::All => "all",
            Self::AllLocal => "all-local",
            Self::FeatureNonzeros => "nonzeros",
            Self::SliceNonzeros => "slice-nonzeros",
        };
        out.push_str(plain);
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        if from.at_number() {
            return from.number().map(Self::Fixed);
        }
        let word = from.word("rows")?;
        if let Some((set, all)) = EdgeSet::in_word(word) {
            return Ok(if all {
                Self::AllEdges(set)
            } else {
                Self::Edges(set)
            });
        }
        Ok(match word {
            "inner" => Self::Inner,
            "local" => Self::Local,
            "halo" => Self::Halo,
            "all" => Self::All,
            "all-local" => Self::AllLocal,
            "nonzeros" => Self::FeatureNonzeros,
            "slice-nonzeros" => Self::SliceNonzeros,
            "run" => from
                .in_brackets(run)
                .map(|(even, of)| Self::Run(even, of))?,
            "level" => Self::Level(from.in_brackets(Level::parse)?),
            "level-edges" => {
                let (level, set) = from.in_brackets(level_edges)?;
                Self::LevelEdges(level, set)
            }
            "edge-run" => from
                .in_brackets(run)
                .map(|(even, of)| Self::EdgeRun(even, of))?,
            _ => {
                return Err(from.wrong_before(
                    "rows: a number, inner, local, halo, edges, all, all-local, nonzeros, level(N), run(CUT, N)",
                ));
            }
        })
    }
}

/// The number of a level, after `all` if it has rows of all ranks, `sets` if of all sets, or `owned` if own
/// rows of all ranks.
impl Text for Level {
    fn print(&self, out: &mut String) {
        *out += &format!("{}{}", self.of, self.number);
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let of = if from.skip("all") {
            Of::All
        } else if from.skip("sets") {
            Of::Sets
        } else if from.skip("owned") {
            Of::Owned
        } else {
            Of::One
        };
        let number: u8 = from.number()?;
        match usize::from(number) <= MAX_HOPS {
            true => Ok(Self { number, of }),
            false => Err(from.wrong_before("a level up to 16")),
        }
    }
}

/// Reads the number of a level of the rank's own part of a batch.
pub(in crate::program) fn own_level(from: &mut Reader<'_>) -> Result<u8, TextError> {
    match Extent::parse(from)?.level() {
        Some(Level {
            number,
            of: Of::One,
        }) => Ok(number),
        _ => Err(from.wrong_before("the rows of a level, such as level(0)")),
    }
}

fn level_edges(from: &mut Reader<'_>) -> Result<(Level, EdgeSet), TextError> {
    let level = Level::parse(from)?;
    from.expect(",")?;
    Ok((level, EdgeSet::parse(from)?))
}

impl Text for Drawn {
    fn print(&self, out: &mut String) {
        *out += &match self {
            Self::Kept(level, set) => format!("kept({}, {})", level.text(), set.text()),
            Self::Degree(level, set, end) => {
                format!("degree({}, {}, {})", level.text(), set.text(), end.text())
            }
            Self::Scale(layer, set) => format!("scale({}, {})", layer.text(), set.text()),
            Self::Relation(layer, types) => format!("relation({}, {types})", layer.text()),
            Self::RelationDegree(layer, types) => {
                format!("relation-degree({}, {types})", layer.text())
            }
            Self::EdgeFeatures(layer, set, columns) => {
                let (layer, set) = (layer.text(), set.text());
                format!("edge-features({layer}, {set}, {columns})")
            }
        };
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let types = |from: &mut Reader<'_>| {
            let layer = Level::parse(from)?;
            from.expect(",")?;
            Ok((layer, from.number()?))
        };
        Ok(match from.word("numbers of a batch")? {
            "kept" => {
                let (level, set) = from.in_brackets(level_edges)?;
                Self::Kept(level, set)
            }
            "degree" => {
                let of_end = |from: &mut Reader<'_>| {
                    let (level, set) = level_edges(from)?;
                    from.expect(",")?;
                    Ok((level, set, End::parse(from)?))
                };
                let (level, set, end) = from.in_brackets(of_end)?;
                Self::Degree(level, set, end)
            }
            "scale" => {
                let (layer, set) = from.in_brackets(level_edges)?;
                Self::Scale(layer, set)
            }
            "relation" => {
                let (layer, types) = from.in_brackets(types)?;
                Self::Relation(layer, types)
            }
            "relation-degree" => {
                let (layer, types) = from.in_brackets(types)?;
                Self::RelationDegree(layer, types)
            }
            "edge-features" => {
                let features = |from: &mut Reader<'_>| {
                    let (layer, set) = level_edges(from)?;
                    from.expect(",")?;
                    Ok((layer, set, from.number()?))
                };
                let (layer, set, columns) = from.in_brackets(features)?;
                Self::EdgeFeatures(layer, set, columns)
            }
            _ => {
                return Err(from.wrong_before(
                    "numbers of a batch: kept(LEVEL, EDGES), scale(LEVEL, EDGES), relation(LEVEL, N), relation-degree(LEVEL, N) or edge-features(LEVEL, EDGES, N)",
                ));
            }
        })
    }
}

fn run(from: &mut Reader<'_>) -> Result<(Even, u32), TextError> {
    let even = Even::parse(from)?;
    from.expect(",")?;
    Ok((even, from.number()?))
}

impl Text for Role {
    fn print(&self, out: &mut String) {
        *out += &match self {
            Self::Features => "features".to_owned(),
            Self::FeatureValues => "feature-values".to_owned(),
            Self::Degree(set, end) => format!("degree({}, {})", set.text(), end.text()),
            Self::EdgeEnds(Grouped { set, by }) => {
                format!("edge-ends({}, {})", set.text(), by.text())
            }
            Self::EdgePlaces(set) => format!("edge-places({})", set.text()),
            Self::Relation(types) => format!("relation({types})"),
            Self::RelationDegree(types) => format!("relation-degree({types})"),
            Self::EdgeFeatures(columns) => format!("edge-features({columns})"),
            Self::Table(number) => format!("table({number})"),
            Self::Param(number) => format!("param({number})"),
            Self::State(number, param) => format!("state({number}, {param})"),
            Self::Static => "static".to_owned(),
            Self::History(number) => format!("history({number})"),
            Self::Result => "result".to_owned(),
            Self::Temp => "temp".to_owned(),
        };
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let edges = |from: &mut Reader<'_>| {
            let set = EdgeSet::parse(from)?;
            from.expect(",")?;
            let by = End::parse(from)?;
            Ok(Grouped { set, by })
        };
        Ok(match from.word("what the buffer is for")? {
            "features" => Self::Features,
            "feature-values" => Self::FeatureValues,
            "degree" => {
                let Grouped { set, by } = from.in_brackets(edges)?;
                Self::Degree(set, by)
            }
            "edge-ends" => Self::EdgeEnds(from.in_brackets(edges)?),
            "edge-places" => Self::EdgePlaces(from.in_brackets(EdgeSet::parse)?),
            "relation" => Self::Relation(from.in_brackets(Reader::number)?),
            "relation-degree" => Self::RelationDegree(from.in_brackets(Reader::number)?),
            "edge-features" => Self::EdgeFeatures(from.in_brackets(Reader::number)?),
            "table" => Self::Table(from.in_brackets(Reader::number)?),
            "param" => Self::Param(from.in_brackets(Reader::number)?),
            "state" => from.in_brackets(|from| {
                let number = from.number()?;
                from.expect(",")?;
                Ok(Self::State(number, from.number()?))
            })?,
            "static" => Self::Static,
            "history" => Self::History(from.in_brackets(Reader::number)?),
            "result" => Self::Result,
            "temp" => Self::Temp,
            _ => {
                return Err(from.wrong_before(
                    "what the buffer is for: features, param(N), state(N, K), static, result, temp ..",
                ));
            }
        })
    }
}

impl fmt::Display for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Display for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}
