//! Rows of a sampled batch that other ranks own: asking for them, and sending them.

use super::encoded::{as_encoded, encoded, message_bytes};
use super::{Batches, Collective, Encoded, Instruction, Operand, Use};
use crate::program::access::Touched;
use crate::program::text::line::{after, arrow};
use crate::program::text::{Reader, Text, TextError};
use crate::program::trace::Phase;
use crate::program::traffic::{Reads, Traffic, row_bytes};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, INDEX, Terms, Work};
use crate::program::{Extent, Instr, Program, RankSizes, Ref, Role};
use crate::words::types::{Level, Of};
use serde::{Deserialize, Serialize};

/// Tells every rank which of its rows this one needs at a level of the batch at hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskRows {
    /// The level, of the rank's own part of the batch or of all its sets.
    pub level: Level,
}

/// Sends the rows that other ranks asked for, and fills the rows of a level: own vertices from this
/// rank's rows, those that it keeps of others from its cache, and the rest from their owners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServeRows {
    /// Rows of own vertices.
    pub from: Ref,
    /// Rows of the level that was asked for. If the batch has a slot of them, its own rows are filled when
    /// those of others are sent, so that all are of the same step; else when they arrive.
    pub to: Ref,
    /// Rows of other ranks that [`CacheRows`] filled, or that earlier batches fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Ref>,
    /// Whether rows that a batch fetches are copied to the cache, since training changes them. Those in the cache are
    /// read until they lack more steps than the batches permit, and forgotten at the end of an epoch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renews: bool,
    /// How rows travel, if not as they are in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded: Option<Encoded>,
}

/// Fills the rows of other ranks' vertices that this one keeps, from their owners. Only in `setup`; each
/// rank names the rows first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheRows {
    /// Rows of own vertices.
    pub from: Ref,
    /// The rows that are kept; there may be room for more.
    pub to: Ref,
}

impl Instruction for AskRows {
    fn name(&self, _: &Program) -> &'static str {
        "ask-rows"
    }

    fn operands<'a>(&'a self, _: &mut impl FnMut(Operand<'a>)) {}

    fn each_ref(&mut self, _: &mut dyn FnMut(&mut Ref)) {}

    fn check(&self, check: &Check) -> Checked {
        let hops = check.program.hops();
        match self.level.number <= hops && self.level.of != Of::All {
            true => Ok(()),
            false => Err(format!(
                "asks for rows of level {}{}, expected one of own levels 0 to {hops}",
                self.level.of, self.level.number
            )),
        }
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    unpriced!();

    fn traffic(&self, program: &Program, _: &Reads, sizes: &[RankSizes], sum: &mut Traffic) {
        sum.fetch += INDEX * program.asked_for(sizes, self.level.number);
    }

    fn print(&self, _: &Program) -> String {
        format!("ask-rows {}", Extent::Level(self.level).text())
    }

    fn collective(&self) -> Option<Collective<'_>> {
        Some(Collective::AskRows(self))
    }
}

impl AskRows {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let level = Extent::parse(from)?.level();
        let level = level.ok_or_else(|| from.wrong_before("the rows of a level, such as level(0)"));
        Ok(Self { level: level? })
    }
}

impl Instruction for ServeRows {
    fn name(&self, _: &Program) -> &'static str {
        "serve-rows"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        visit(Operand::read(self.from, Use::Rows(Touched::Own)));
        if let Some(cache) = self.cache {
            visit(Operand::read(cache, Use::Rows(Touched::All)));
        }
        visit(Operand::write(self.to, Use::Rows(Touched::All)));
        if let Some(cache) = self.cache.filter(|_| self.renews) {
            visit(Operand::write(cache, Use::Rows(Touched::All)));
        }
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.from);
        self.cache.iter_mut().for_each(&mut *visit);
        visit(&mut self.to);
    }

    fn check(&self, check: &Check) -> Checked {
        if let Some(cache) = self.cache {
            check.cache(self.from, cache)?;
        }
        if self.renews != (self.cache.is_some() && check.program.renews()) {
            return Err("renews a cache otherwise than its batches say".to_owned());
        }
        check.rows_of_level(self.from, self.to)
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    unpriced!();

    fn strip_bytes(&self, program: &Program) -> Option<u64> {
        Some(row_bytes(program, self.to))
    }

    fn traffic(&self, program: &Program, _: &Reads, sizes: &[RankSizes], sum: &mut Traffic) {
        let level = program.buffer(self.to.buffer).extent.level();
        let row = message_bytes(program, self.to, &self.encoded);
        sum.fetch += row * level.map_or(0, |level| remote(sizes, level.number));
    }

    fn print(&self, _: &Program) -> String {
        let cache = after(" cache ", self.cache.as_ref());
        let renews = if self.renews { " renewed" } else { "" };
        format!(
            "serve-rows {} -> {}{cache}{renews}{}",
            self.from.text(),
            self.to.text(),
            as_encoded(&self.encoded)
        )
    }

    fn encoded(&self) -> Option<Encoded> {
        self.encoded
    }

    fn encode(&mut self, so: Encoded) {
        self.encoded = Some(so);
    }

    fn collective(&self) -> Option<Collective<'_>> {
        Some(Collective::ServeRows(self))
    }
}

impl ServeRows {
    /// Whether the first half fills a rank's own rows.
    pub fn fills_first(&self) -> bool {
        self.to.in_loop
    }

    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            from: Ref::parse(from)?,
            to: arrow(from)?,
            cache: match from.skip("cache") {
                true => Some(Ref::parse(from)?),
                false => None,
            },
            renews: from.skip("renewed"),
            encoded: encoded(from)?,
        })
    }
}

impl Instruction for CacheRows {
    fn name(&self, _: &Program) -> &'static str {
        "cache-rows"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        visit(Operand::read(self.from, Use::Rows(Touched::Own)));
        visit(Operand::write(self.to, Use::Rows(Touched::All)));
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.from);
        visit(&mut self.to);
    }

    fn check(&self, check: &Check) -> Checked {
        check.cache(self.from, self.to)
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    unpriced!();

    fn traffic(&self, program: &Program, _: &Reads, sizes: &[RankSizes], sum: &mut Traffic) {
        let rows = sizes.iter().map(|sizes| {
            let room = sizes.rows(program.buffer(self.to.buffer).extent);
            room.min(sizes.vertices.saturating_sub(sizes.inner))
        });
        sum.fetch += (INDEX + row_bytes(program, self.to)) * rows.sum::<u64>();
    }

    fn print(&self, _: &Program) -> String {
        format!("cache-rows {} -> {}", self.from.text(), self.to.text())
    }

    fn collective(&self) -> Option<Collective<'_>> {
        Some(Collective::CacheRows(self))
    }
}

impl CacheRows {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            from: Ref::parse(from)?,
            to: arrow(from)?,
        })
    }
}

impl Check<'_> {
    /// Checks that rows of own vertices may be kept in a buffer.
    fn cache(&self, from: Ref, cache: Ref) -> Checked {
        let [rows, kept] = [from, cache].map(|at| self.program.buffer(at.buffer));
        let own = matches!(rows.extent, Extent::Inner | Extent::Local);
        if !own || !matches!(kept.extent, Extent::Fixed(_)) || kept.role != Role::Static {
            return Err(format!(
                "keeps {} rows in {} rows that are {}, expected own rows in fixed ones that are static",
                rows.extent, kept.extent, kept.role
            ));
        }
        if (rows.columns, rows.storage) != (kept.columns, kept.storage) {
            return Err(format!(
                "keeps rows of {} {} in rows of {} {}",
                rows.columns, rows.storage, kept.columns, kept.storage
            ));
        }
        self.at_least("cache", cache, 0)
    }
}

impl Program {
    /// Periods between the first and the last instruction of a list's batches.
    pub fn lag(&self, phase: Phase) -> u32 {
        let bodies = self.list(phase).iter().filter_map(Instr::body);
        bodies.map(Batches::lag).max().unwrap_or(0)
    }

    /// Whether training changes the rows that ranks keep of others.
    pub fn renews(&self) -> bool {
        self.copied() > 0
    }

    /// Rows of others that each rank keeps, if training changes them; else 0.
    pub fn copied(&self) -> u64 {
        let cache = self.sampling.as_ref().and_then(|batches| batches.cache);
        let cache = cache.filter(|cache| cache.age.is_some() && self.ranks > 1);
        cache.map_or(0, |cache| cache.rows.into())
    }

    /// Vertices of a level that ranks name to their owners, all ranks together.
    pub(super) fn asked_for(&self, sizes: &[RankSizes], level: u8) -> u64 {
        let renews = self.renews();
        let of_rank = |sizes: &RankSizes| sizes.batch.asked_for(level, renews);
        sizes.iter().map(of_rank).sum()
    }

    /// The level of which a list's batches read rows of other ranks, if they do.
    pub fn asks(&self, phase: Phase) -> Option<Level> {
        self.batch_of(phase).find_map(|instr| {
            if let Instr::AskRows(ask) = instr.whole() {
                Some(ask.level)
            } else {
                None
            }
        })
    }
}

/// Vertices of a level that ranks neither own nor keep, all ranks together.
fn remote(sizes: &[RankSizes], level: u8) -> u64 {
    sizes.iter().map(|sizes| sizes.batch.remote(level)).sum()
}
