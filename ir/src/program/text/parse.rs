//! Parser of listings.

use super::lex::{TextError, Token, tokens};
use super::words::{Text, storage};
use crate::graph::{Element, Init, ParamSpec, Shard};
use crate::program::{Buffer, BufferId, Extent, Halo, Instr, Pipeline, Program, Ref, Role};
use crate::words::mesh::Mesh;
use crate::words::sampling::{
    Cache, CacheBy, Cut, Exclude, Kind, Negatives, Roots, Sampling, Topology,
};
use crate::words::types::{EdgeSet, Type};
use std::str::FromStr;

/// Limit on nested loops and halves.
const DEPTH: u32 = 16;

/// The tokens of a listing, and the program read so far.
pub(crate) struct Reader<'a> {
    tokens: Vec<(usize, Token<'a>)>,
    at: usize,
    depth: u32,
    /// The program read so far.
    pub(in crate::program) program: Program,
}

impl FromStr for Program {
    type Err = TextError;

    /// Reads a listing. Does not check that the program makes sense.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut reader = Reader::of(tokens(text)?);
        reader.head()?;
        reader.sections()?;
        Ok(reader.program)
    }
}

impl<'a> Reader<'a> {
    /// A reader of tokens, each with its line.
    pub(super) fn of(tokens: Vec<(usize, Token<'a>)>) -> Self {
        Self {
            tokens,
            at: 0,
            depth: 0,
            program: Program::default(),
        }
    }

    /// Reads a value behind which nothing follows.
    pub(super) fn whole<T: Text>(mut self) -> Result<T, TextError> {
        let value = T::parse(&mut self)?;
        match self.next() {
            None => Ok(value),
            Some(_) => Err(self.wrong("the end")),
        }
    }

    fn next(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|(_, token)| *token)
    }

    /// Skips a token.
    pub(in crate::program) fn advance(&mut self) {
        self.at += 1;
    }

    /// Error: the next token should be something else.
    pub(in crate::program) fn wrong(&self, expected: &str) -> TextError {
        self.wrong_at(self.at, expected)
    }

    /// Error: the previous token should be something else.
    pub(in crate::program) fn wrong_before(&self, expected: &str) -> TextError {
        self.wrong_at(self.at.saturating_sub(1), expected)
    }

    fn wrong_at(&self, at: usize, expected: &str) -> TextError {
        let found = self.tokens.get(at);
        let last = self.tokens.last().map_or(1, |(line, _)| *line);
        TextError {
            line: found.map_or(last, |(line, _)| *line),
            found: found.map_or("the end".to_owned(), |(_, token)| token.to_string()),
            expected: expected.to_owned(),
        }
    }

    /// Skips a word or mark if it is next; returns whether it was.
    pub(in crate::program) fn skip(&mut self, text: &str) -> bool {
        let here =
            matches!(self.next(), Some(Token::Word(found) | Token::Mark(found)) if found == text);
        self.at += usize::from(here);
        here
    }

    /// Skips a word or mark that must be next.
    pub(in crate::program) fn expect(&mut self, text: &str) -> Result<(), TextError> {
        match self.skip(text) {
            true => Ok(()),
            false => Err(self.wrong(&format!("`{text}`"))),
        }
    }

    /// The next token, if it is a word.
    pub(in crate::program) fn next_word(&self) -> Option<&'a str> {
        match self.next() {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Reads a word.
    pub(in crate::program) fn word(&mut self, expected: &str) -> Result<&'a str, TextError> {
        let word = self.next_word().ok_or_else(|| self.wrong(expected))?;
        self.at += 1;
        Ok(word)
    }

    /// Reads one of several words and returns its value.
    pub(in crate::program) fn named<T: Copy>(
        &mut self,
        names: &[(&str, T)],
    ) -> Result<T, TextError> {
        let word = self.next_word();
        let found = names.iter().find(|(name, _)| Some(*name) == word);
        let Some((_, value)) = found else {
            let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            return Err(self.wrong(&names.join(", ")));
        };
        self.at += 1;
        Ok(*value)
    }

    /// Reads the name of one of these values.
    fn one_of<T: Copy>(&mut self, all: &[T], name: fn(T) -> &'static str) -> Result<T, TextError> {
        let names: Vec<(&str, T)> = all.iter().map(|one| (name(*one), *one)).collect();
        self.named(&names)
    }

    /// Whether a number is next.
    pub(in crate::program) fn at_number(&self) -> bool {
        matches!(self.next(), Some(Token::Number(_)))
    }

    /// Reads a number's text.
    pub(in crate::program) fn digits(&mut self, expected: &str) -> Result<&'a str, TextError> {
        let digits = match self.next() {
            Some(Token::Number(digits)) => digits,
            Some(Token::Word(word @ ("inf" | "NaN"))) => word,
            _ => return Err(self.wrong(expected)),
        };
        self.at += 1;
        Ok(digits)
    }

    /// Reads a number.
    pub(in crate::program) fn number<T: FromStr>(&mut self) -> Result<T, TextError> {
        const EXPECTED: &str = "a number that fits here";
        let number = self.digits("a number")?.parse();
        number.map_err(|_| self.wrong_before(EXPECTED))
    }

    /// Reads a quoted text.
    pub(in crate::program) fn quoted(&mut self) -> Result<String, TextError> {
        let Some(Token::Quoted(text)) = self.next() else {
            return Err(self.wrong("a text in quotes"));
        };
        self.at += 1;
        let mut plain = String::with_capacity(text.len());
        let mut escaped = false;
        for c in text.chars() {
            if c == '\\' && !escaped {
                escaped = true;
                continue;
            }
            let newline = escaped && c == 'n';
            plain.push(if newline { '\n' } else { c });
            escaped = false;
        }
        Ok(plain)
    }

    /// Reads a word made of a letter and a number.
    pub(in crate::program) fn numbered(
        &mut self,
        letter: &str,
        expected: &str,
    ) -> Result<u32, TextError> {
        let word = self.word(expected)?;
        let number = word.strip_prefix(letter).and_then(|n| n.parse().ok());
        number.ok_or_else(|| self.wrong_before(expected))
    }

    /// Whether a word made of a letter and a number is next.
    pub(in crate::program) fn at_numbered(&self, letter: &str) -> bool {
        let number = self.next_word().and_then(|word| word.strip_prefix(letter));
        number.is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// Reads something in parentheses.
    pub(in crate::program) fn in_brackets<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, TextError>,
    ) -> Result<T, TextError> {
        self.expect("(")?;
        let inside = read(self)?;
        self.expect(")")?;
        Ok(inside)
    }

    /// Reads something one nesting level deeper.
    pub(in crate::program) fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, TextError>,
    ) -> Result<T, TextError> {
        if self.depth == DEPTH {
            return Err(self.wrong(&format!("at most {DEPTH} nested instructions")));
        }
        self.depth += 1;
        let inside = read(self);
        self.depth -= 1;
        inside
    }

    /// Reads instructions up to a brace or to the next section.
    pub(in crate::program) fn instructions(&mut self) -> Result<Vec<Instr>, TextError> {
        let mut list = Vec::new();
        loop {
            match self.next() {
                None | Some(Token::Mark("}")) => return Ok(list),
                Some(Token::Word(word)) if SECTIONS.contains(&word) => return Ok(list),
                Some(_) => list.push(Instr::parse(self)?),
            }
        }
    }

    fn head(&mut self) -> Result<(), TextError> {
        self.expect("program")?;
        self.program.ranks = self.number()?;
        self.expect("ranks")?;
        self.expect(",")?;
        self.expect("rank")?;
        self.program.rank = self.number()?;
        if self.skip("mesh") {
            let slices = self.number()?;
            self.expect("slices")?;
            let apart = self.skip("apart");
            self.program.mesh = Some(Mesh { slices, apart });
        }
        if self.skip("halo") {
            self.program.halo = Halo::parse(self)?;
        }
        if self.skip("nodes") {
            self.expect("of")?;
            self.program.node_ranks = Some(self.number()?);
            self.expect("ranks")?;
        }
        self.program.equal_bits = self.skip("equal-bits");
        self.program.sparse_features = self.skip("sparse-features");
        if self.skip("pipeline") {
            self.program.pipeline = Some(self.pipeline()?);
        }
        if self.skip("sampling") {
            self.program.sampling = Some(self.sampling()?);
        }
        if self.skip("evaluation") {
            self.program.evaluation = Some(self.sampling()?);
        }
        if self.skip("loss") {
            self.program.loss = Some(BufferId::parse(self)?);
        }
        if self.skip("metrics") {
            self.program.metrics = Some(BufferId::parse(self)?);
        }
        if self.skip("logits") {
            self.program.logits = Some(Ref::parse(self)?);
        }
        Ok(())
    }

    fn pipeline(&mut self) -> Result<Pipeline, TextError> {
        self.expect("stage")?;
        let stage = self.number()?;
        self.expect("/")?;
        let stages = self.number()?;
        self.expect("chunks")?;
        let chunks = self.number()?;
        self.expect("interval")?;
        let interval = self.number()?;
        let shuffle = self.skip("shuffled");
        Ok(Pipeline {
            stages,
            stage,
            chunks,
            shuffle,
            interval,
        })
    }

    fn sampling(&mut self) -> Result<Sampling, TextError> {
        self.expect("batch")?;
        let batch = self.number()?;
        self.expect("fanouts")?;
        let mut fanouts = Vec::new();
        while matches!(self.next(), Some(Token::Quoted(_))) {
            let fanout = self.quoted()?.parse();
            fanouts.push(fanout.map_err(|_| self.wrong_before("a fanout, such as \"10\""))?);
        }
        let mut over = Vec::new();
        if self.skip("over") {
            let is_set = |word| matches!(EdgeSet::in_word(word), Some((_, false)));
            while self.next_word().is_some_and(is_set) {
                over.push(EdgeSet::parse(self)?);
            }
        }
        let kind = self.one_of(Kind::ALL, Kind::name)?;
        let cut = self.one_of(Cut::ALL, Cut::name)?;
        let roots = self.one_of(Roots::ALL, Roots::name)?;
        let merges = match self.skip("merges") {
            true => Some(self.number()?),
            false => None,
        };
        let exclude = match self.skip("exclude") {
            true => self.one_of(Exclude::ALL, Exclude::name)?,
            false => Exclude::default(),
        };
        let negatives = match self.skip("negatives") {
            true => self.one_of(Negatives::ALL, Negatives::name)?,
            false => Negatives::default(),
        };
        let cache = match self.skip("cache") {
            true => Some(Cache {
                rows: self.number()?,
                by: self.one_of(CacheBy::ALL, CacheBy::name)?,
                age: match self.skip("age") {
                    true => Some(self.number()?),
                    false => None,
                },
            }),
            false => None,
        };
        let topology = match self.skip("topology") {
            true => self.one_of(Topology::ALL, Topology::name)?,
            false => Topology::default(),
        };
        Ok(Sampling {
            batch,
            fanouts,
            over,
            kind,
            cut,
            roots,
            merges,
            exclude,
            negatives,
            cache,
            topology,
        })
    }

    fn sections(&mut self) -> Result<(), TextError> {
        while self.next().is_some() {
            match self.next_word() {
                Some("params") => self.list("p", |from| {
                    let param = from.param()?;
                    from.program.params.push(param);
                    Ok(from.program.params.len())
                })?,
                Some("buffers") => self.list("b", |from| {
                    from.buffer()?;
                    Ok(from.program.buffers.len())
                })?,
                Some("tables") => self.list("t", |from| {
                    let mut table = Vec::new();
                    while matches!(from.next(), Some(Token::Number(_)))
                        || matches!(from.next_word(), Some("inf" | "NaN"))
                    {
                        table.push(from.number()?);
                    }
                    from.program.tables.push(table);
                    Ok(from.program.tables.len())
                })?,
                Some("kernels") => self.list("k", |from| {
                    let kernel = Text::parse(from)?;
                    from.program.kernels.push(kernel);
                    Ok(from.program.kernels.len())
                })?,
                Some("setup") => {
                    self.advance();
                    self.program.setup = self.instructions()?;
                }
                Some("step") => {
                    self.advance();
                    self.program.step = self.instructions()?;
                }
                Some("eval") => {
                    self.advance();
                    self.program.eval = self.instructions()?;
                }
                _ => return Err(self.wrong(&SECTIONS.join(", "))),
            }
        }
        Ok(())
    }

    /// Reads a section of items numbered from 0. `read` appends one and returns how many there
    /// are.
    fn list(
        &mut self,
        letter: &str,
        read: impl Fn(&mut Self) -> Result<usize, TextError>,
    ) -> Result<(), TextError> {
        self.advance();
        while self.at_numbered(letter) {
            let number = self.numbered(letter, letter)?;
            let line = self.at;
            let count = read(self)?;
            if number as usize + 1 != count {
                let expected = format!("`{letter}{}`", count - 1);
                return Err(self.wrong_at(line.saturating_sub(1), &expected));
            }
        }
        Ok(())
    }

    fn param(&mut self) -> Result<ParamSpec, TextError> {
        let name = self.quoted()?;
        let ty = Type::parse(self)?;
        let init = Init::parse(self)?;
        let decay = match self.skip("decay") {
            true => Some(self.number()?),
            false => None,
        };
        let shard = match self.next_word() {
            Some("shard") => Some(Shard::parse(self)?),
            _ => None,
        };
        let element = match self.next_word() {
            Some("element") => Some(Element::parse(self)?),
            _ => None,
        };
        Ok(ParamSpec {
            name,
            ty,
            init,
            decay,
            shard,
            element,
        })
    }

    fn buffer(&mut self) -> Result<(), TextError> {
        let extent = Extent::parse(self)?;
        self.expect("x")?;
        let columns = self.number()?;
        let mut slots = 1;
        if self.skip("*") {
            slots = self.number()?;
        }
        let storage = storage(self)?;
        let role = Role::parse(self)?;
        if self.skip("hosted") {
            let id = BufferId(self.program.buffers.len() as u32);
            self.program.hosted.push(id);
        }
        let name = self.quoted()?;
        self.program.buffers.push(Buffer {
            name,
            extent,
            columns,
            slots,
            role,
            storage,
        });
        Ok(())
    }
}

const SECTIONS: &[&str] = &[
    "params", "buffers", "tables", "kernels", "setup", "step", "eval",
];
