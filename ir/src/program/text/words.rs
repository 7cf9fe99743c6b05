//! Text form of the parts of a line.

use super::TextError;
use super::own_level;
use super::parse::Reader;
use crate::graph::op::{Redistribute, Site, Slice};
use crate::graph::{Element, Init, Shard};
use crate::kernel::{At, Axis, End, Reduce};
use crate::program::{
    Among, Chunk, Extent, Grain, Halo, Moved, Neighbour, Product, Rule, ScalarRef, Vertices,
};
use crate::words::scalar::{Binary, Unary};
use crate::words::storage::Storage;
use crate::words::types::{EdgeSet, Level, Rows, Type};

/// A value with a text form.
pub(crate) trait Text: Sized {
    /// Appends the text.
    fn print(&self, out: &mut String);

    /// Reads what [`Text::print`] wrote.
    ///
    /// # Errors
    /// The first token that does not match.
    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError>;

    /// The text.
    fn text(&self) -> String {
        let mut out = String::new();
        self.print(&mut out);
        out
    }
}

/// Types whose values are one word each.
pub(crate) trait Named: Copy + PartialEq + 'static {
    /// All values, with their words.
    const NAMES: &'static [(&'static str, Self)];
}

impl<T: Named> Text for T {
    fn print(&self, out: &mut String) {
        let found = T::NAMES.iter().find(|(_, value)| value == self);
        out.push_str(found.map_or("?", |(name, _)| name));
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        from.named(T::NAMES)
    }
}

impl Named for EdgeSet {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("edges", Self::Plain),
        ("edges+loops", Self::Looped),
        ("set1", Self::Named(1)),
        ("set2", Self::Named(2)),
        ("set3", Self::Named(3)),
        ("set4", Self::Named(4)),
        ("set5", Self::Named(5)),
        ("set6", Self::Named(6)),
        ("set7", Self::Named(7)),
    ];
}

impl EdgeSet {
    /// The set that a word names, and whether the word says `all-` of it: the edges of the whole
    /// graph.
    pub(super) fn in_word(word: &str) -> Option<(Self, bool)> {
        let (name, all) = match word.strip_prefix("all-") {
            Some(name) => (name, true),
            None => (word, false),
        };
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, set)| (*set, all))
    }
}

impl Named for Among {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("all", Self::All),
        ("slices", Self::Slices),
        ("copies", Self::Copies),
    ];
}

impl Named for End {
    const NAMES: &'static [(&'static str, Self)] = &[("src", Self::Src), ("dst", Self::Dst)];
}

impl Named for Axis {
    const NAMES: &'static [(&'static str, Self)] =
        &[("width", Self::Width), ("heads", Self::Heads)];
}

impl Named for Product {
    const NAMES: &'static [(&'static str, Self)] =
        &[("nn", Self::Nn), ("nt", Self::Nt), ("tn", Self::Tn)];
}

impl Text for Storage {
    fn print(&self, out: &mut String) {
        out.push_str(self.name());
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let names: Vec<(&str, Self)> = Self::ALL.iter().map(|one| (one.name(), *one)).collect();
        from.named(&names)
    }
}

/// Reads the name of a 16-bit format, if one is next; elements without it have 32 bits.
pub fn storage(from: &mut Reader<'_>) -> Result<Storage, TextError> {
    let next = from.next_word();
    if Storage::formats().any(|format| next == Some(format.name)) {
        return Storage::parse(from);
    }
    Ok(Storage::F32)
}

impl Named for Vertices {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("inner", Self::Inner),
        ("local", Self::Local),
        ("all", Self::All),
    ];
}

impl Named for Grain {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("lines", Self::Lines),
        ("sums", Self::Sums),
        ("products", Self::Products),
        ("reach", Self::Reach),
    ];
}

impl Named for Neighbour {
    const NAMES: &'static [(&'static str, Self)] =
        &[("next", Self::Next), ("previous", Self::Previous)];
}

impl Named for Halo {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("boundary", Self::Boundary),
        ("everything", Self::Everything),
        ("cover", Self::Cover),
        ("both-ends", Self::BothEnds),
    ];
}

impl Named for At {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("row", Self::Row),
        ("src", Self::Src),
        ("dst", Self::Dst),
        ("edge", Self::Edge),
        ("one", Self::One),
        ("list", Self::List),
    ];
}

impl Text for Reduce {
    fn print(&self, out: &mut String) {
        out.push_str(self.name());
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let names: Vec<(&str, Self)> = Self::ALL.iter().map(|one| (one.name(), *one)).collect();
        from.named(&names)
    }
}

impl Text for Binary {
    fn print(&self, out: &mut String) {
        out.push_str(self.name());
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let names: Vec<(&str, Self)> = Self::ALL.iter().map(|one| (one.name(), *one)).collect();
        from.named(&names)
    }
}

impl Text for Unary {
    fn print(&self, out: &mut String) {
        out.push_str(self.name());
        if let Some(slope) = self.slope() {
            *out += &format!("({slope:?})");
        }
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let word = from.word("a function of one number")?;
        let found = Unary::ALL.iter().find(|unary| unary.name() == word);
        let found = *found.ok_or_else(|| from.wrong_before("a function of one number"))?;
        match found.slope() {
            Some(_) => Ok(found.with_slope(from.in_brackets(Reader::number)?)),
            None => Ok(found),
        }
    }
}

impl Text for Slice {
    fn print(&self, out: &mut String) {
        let Self {
            axis,
            of,
            start,
            own,
            len,
        } = self;
        let axis = axis.text();
        *out += &format!("{axis} of {of} start {start} own {own} len {len}");
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let axis = Axis::parse(from)?;
        let mut field = |name| {
            from.expect(name)?;
            from.number()
        };
        Ok(Self {
            axis,
            of: field("of")?,
            start: field("start")?,
            own: field("own")?,
            len: field("len")?,
        })
    }
}

impl Text for Redistribute {
    fn print(&self, out: &mut String) {
        out.push_str(self.name());
        if let Self::Split(slice) | Self::Join(slice) = self {
            *out += &format!("({})", slice.text());
        }
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(match from.word("a redistribution")? {
            "split" => Self::Split(from.in_brackets(Slice::parse)?),
            "join" => Self::Join(from.in_brackets(Slice::parse)?),
            "replicate" => Self::Replicate,
            "reduce-rows" => Self::Reduce,
            "own-rows" => Self::Own,
            _ => return Err(from.wrong_before("a redistribution")),
        })
    }
}

impl Text for Moved {
    fn print(&self, out: &mut String) {
        *out += &match self {
            Self::All => "all rows".to_owned(),
            Self::Rows(chunk) => format!("rows of {}", chunk.text()),
            Self::New(end, chunk) => format!("rows new by {} to {}", end.text(), chunk.text()),
            Self::Level(level) => format!("rows of {}", Extent::Level(Level::own(*level)).text()),
        };
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        if from.skip("all") {
            from.expect("rows")?;
            return Ok(Self::All);
        }
        from.expect("rows")?;
        if from.skip("of") && from.next_word() != Some("level") {
            return Chunk::parse(from).map(Self::Rows);
        }
        if from.next_word() == Some("level") {
            return own_level(from).map(Self::Level);
        }
        from.expect("new")?;
        from.expect("by")?;
        let end = End::parse(from)?;
        from.expect("to")?;
        Ok(Self::New(end, Chunk::parse(from)?))
    }
}

impl Text for ScalarRef {
    fn print(&self, out: &mut String) {
        *out += &match self {
            Self::LearningRate => "learning-rate".to_owned(),
            Self::BiasCorrection(beta) => format!("bias-correction({beta:?})"),
        };
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        match from.word("a number that is known at run time")? {
            "learning-rate" => Ok(Self::LearningRate),
            "bias-correction" => from.in_brackets(Reader::number).map(Self::BiasCorrection),
            _ => Err(from.wrong_before("learning-rate or bias-correction(BETA)")),
        }
    }
}

impl Text for Site {
    fn print(&self, out: &mut String) {
        *out += &format!("s{self}");
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        const EXPECTED: &str = "a dropout site, such as s2, or s2.1 of iteration 1";
        let word = from.word(EXPECTED)?;
        let text = word.strip_prefix('s').unwrap_or("");
        let (number, iteration) = text.split_once('.').unwrap_or((text, "0"));
        match (number.parse(), iteration.parse()) {
            (Ok(number), Ok(iteration)) => Ok(Self { number, iteration }),
            _ => Err(from.wrong_before(EXPECTED)),
        }
    }
}

impl Text for Rule {
    fn print(&self, out: &mut String) {
        *out += &format!("\"{self}\"");
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let text = from.quoted()?;
        let rule = text.parse::<Self>();
        rule.map_err(|_| from.wrong_before("a rule, such as \"adaptive:1\""))
    }
}

impl Text for Rows {
    fn print(&self, out: &mut String) {
        match self {
            Self::Fixed(rows) => *out += &rows.to_string(),
            Self::Vertices => out.push_str("vertices"),
            Self::Edges(set) => set.print(out),
            Self::All => out.push_str("all"),
            Self::AllEdges(set) => *out += &format!("all-{}", set.text()),
            Self::Level(_) | Self::LevelEdges(..) => {}
        }
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        if from.at_number() {
            return from.number().map(Self::Fixed);
        }
        let word = from.word("rows")?;
        match (word, EdgeSet::in_word(word)) {
            ("vertices", _) => Ok(Self::Vertices),
            ("all", _) => Ok(Self::All),
            (_, Some((set, true))) => Ok(Self::AllEdges(set)),
            (_, Some((set, false))) => Ok(Self::Edges(set)),
            (_, None) => Err(from.wrong_before("rows: vertices, all, edges, edges+loops, set1 ..")),
        }
    }
}

impl Text for Type {
    fn print(&self, out: &mut String) {
        if self.stack != 0 {
            *out += &format!("{} * ", self.stack);
        }
        *out += &format!("[{} x {} x {}]", self.rows.text(), self.heads, self.width);
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let mut stack = 0;
        if from.at_number() {
            stack = from.number()?;
            from.expect("*")?;
        }
        from.expect("[")?;
        let rows = Rows::parse(from)?;
        from.expect("x")?;
        let heads = from.number()?;
        from.expect("x")?;
        let width = from.number()?;
        from.expect("]")?;
        Ok(Self {
            stack,
            rows,
            heads,
            width,
        })
    }
}

impl Text for Init {
    fn print(&self, out: &mut String) {
        *out += &match self {
            Self::Zeros => "zeros".to_owned(),
            Self::Ones => "ones".to_owned(),
            Self::Constant(value) => format!("constant({value:?})"),
            Self::Uniform(bound) => format!("uniform({bound:?})"),
        };
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        match from.word("a start value")? {
            "zeros" => Ok(Self::Zeros),
            "ones" => Ok(Self::Ones),
            "constant" => from.in_brackets(Reader::number).map(Self::Constant),
            "uniform" => from.in_brackets(Reader::number).map(Self::Uniform),
            _ => Err(from.wrong_before("zeros, ones, constant(X) or uniform(BOUND)")),
        }
    }
}

impl Text for Shard {
    fn print(&self, out: &mut String) {
        *out += &format!("shard({} blocks, {})", self.blocks, self.slice.text());
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        from.expect("shard")?;
        from.in_brackets(|from| {
            let blocks = from.number()?;
            from.expect("blocks")?;
            from.expect(",")?;
            let slice = Slice::parse(from)?;
            Ok(Self { blocks, slice })
        })
    }
}

impl Text for Element {
    fn print(&self, out: &mut String) {
        *out += &format!("element({}/{})", self.index, self.of);
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        from.expect("element")?;
        from.in_brackets(|from| {
            let index = from.number()?;
            from.expect("/")?;
            Ok(Self {
                index,
                of: from.number()?,
            })
        })
    }
}
