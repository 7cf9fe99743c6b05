//! Sampled batches: drawing one, reading rows of its vertices, and adding to them.

use super::{Instruction, Operand, Use};
use crate::program::access::Touched;
use crate::program::text::line::arrow;
use crate::program::text::{Reader, Text, TextError};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, FLOAT, INDEX, LINE, Terms, Work, copy};
use crate::program::{BufferId, Extent, Instr, Program, RankSizes, Ref};
use crate::words::sampling::Drawn;
use crate::words::types::{EdgeSet, Of};
use serde::{Deserialize, Serialize};

/// Draws the batch at hand: its levels and the edges between them. Kernels over rows of levels walk
/// these edges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {}

/// Writes numbers of the batch at hand that instructions read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Numbers {
    /// Which, and where.
    pub outputs: Vec<DrawnBuffer>,
}

/// A buffer that [`Numbers`] fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrawnBuffer {
    /// With what.
    pub drawn: Drawn,
    /// The buffer.
    pub at: Ref,
}

/// Copies the rows of a level's vertices from a tensor of all own vertices, of all vertices, or of those
/// of all sets, or from a parameter with a row for each vertex. That tensor may be on the host, whose
/// memory is then read row by row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FetchRows {
    /// Rows of own vertices, of all vertices, or of a level of all sets.
    pub from: Ref,
    /// Rows of a level.
    pub to: Ref,
}

/// Adds the rows of a level to those of its vertices in a tensor with a row for each vertex, whose other
/// rows are 0: the gradient of a parameter of which [`FetchRows`] read rows. Rows are added in the order of
/// the level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AddRows {
    /// Rows of a level.
    pub from: Ref,
    /// Rows of all vertices of the graph.
    pub to: Ref,
}

const ALL: Use<'static> = Use::Rows(Touched::All);

impl Instruction for Sample {
    fn name(&self, _: &Program) -> &'static str {
        "sample"
    }

    fn operands<'a>(&'a self, _: &mut impl FnMut(Operand<'a>)) {}

    fn each_ref(&mut self, _: &mut dyn FnMut(&mut Ref)) {}

    fn check(&self, check: &Check) -> Checked {
        if check.program.hops() == 0 {
            return Err("a sample in a program without sampling".to_owned());
        }
        Ok(())
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    /// For each edge, its position in the row and its source in a table are read at random places.
    fn work(&self, _: &Counts, sizes: &RankSizes) -> Option<Work> {
        let edges: u64 = sizes.batch.edges.iter().sum();
        Some(copy(2 * edges * LINE, 2 * edges * INDEX))
    }

    fn demand(
        &self,
        terms: &mut Terms,
        program: &Program,
        sizes: &RankSizes,
    ) -> Option<&'static str> {
        Some(terms.sample(program, sizes))
    }

    fn print(&self, _: &Program) -> String {
        "sample".to_owned()
    }
}

impl Instruction for Numbers {
    fn name(&self, _: &Program) -> &'static str {
        "numbers"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        let outputs = self.outputs.iter();
        outputs.for_each(|output| visit(Operand::write(output.at, ALL)));
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        let outputs = self.outputs.iter_mut();
        outputs.for_each(|output| visit(&mut output.at));
    }

    fn check(&self, check: &Check) -> Checked {
        self.outputs
            .iter()
            .try_for_each(|output| check.drawn(output))
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    fn work(&self, counts: &Counts, sizes: &RankSizes) -> Option<Work> {
        let of = |output: &DrawnBuffer| counts.program.buffer(output.at.buffer).slot_bytes(sizes);
        let written: u64 = self.outputs.iter().map(of).sum();
        Some(copy(written, written))
    }

    fn demand(
        &self,
        terms: &mut Terms,
        program: &Program,
        sizes: &RankSizes,
    ) -> Option<&'static str> {
        let rows = |one: &DrawnBuffer| {
            let buffer = program.buffer(one.at.buffer);
            sizes.rows(buffer.extent) * u64::from(buffer.columns)
        };
        Some(terms.numbers(self.outputs.iter().map(rows).sum()))
    }

    fn print(&self, _: &Program) -> String {
        let output = |one: &DrawnBuffer| format!("{} {}", one.drawn.text(), one.at.text());
        let outputs: Vec<String> = self.outputs.iter().map(output).collect();
        format!("numbers {}", outputs.join(", "))
    }
}

impl Numbers {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let mut numbers = Self::default();
        loop {
            let drawn = Drawn::parse(from)?;
            let at = Ref::parse(from)?;
            numbers.outputs.push(DrawnBuffer { drawn, at });
            if !from.skip(",") {
                return Ok(numbers);
            }
        }
    }
}

impl Instruction for FetchRows {
    fn name(&self, program: &Program) -> &'static str {
        match self.is_from_host(program) {
            true => "fetch",
            false => "fetch-rows",
        }
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        visit(Operand::read(self.from, ALL));
        visit(Operand::write(self.to, ALL));
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.from);
        visit(&mut self.to);
    }

    fn check(&self, check: &Check) -> Checked {
        check.rows_of_level(self.from, self.to)
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    fn work(&self, counts: &Counts, sizes: &RankSizes) -> Option<Work> {
        let to = counts.program.buffer(self.to.buffer);
        // Rows are at random places.
        let row = (u64::from(to.row_words()) * FLOAT).next_multiple_of(LINE);
        let rows = sizes.rows(to.extent);
        Some(copy(rows * (row + INDEX), to.slot_bytes(sizes)))
    }

    fn demand(
        &self,
        terms: &mut Terms,
        program: &Program,
        sizes: &RankSizes,
    ) -> Option<&'static str> {
        Some(terms.fetch_rows(program, self.to, self.from, sizes))
    }

    fn print(&self, _: &Program) -> String {
        format!("fetch-rows {} -> {}", self.from.text(), self.to.text())
    }
}

impl Instruction for AddRows {
    fn name(&self, _: &Program) -> &'static str {
        "add-rows"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        visit(Operand::read(self.from, ALL));
        visit(Operand::write(self.to, ALL));
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.from);
        visit(&mut self.to);
    }

    fn check(&self, check: &Check) -> Checked {
        let [from, to] = [self.from, self.to].map(|at| check.program.buffer(at.buffer));
        let own = from.extent.level().is_some_and(|level| level.of == Of::One);
        if !own || !check.has_all_vertices(to.extent) {
            return Err(format!(
                "adds {} rows to {} rows, expected those of a level, and one for each vertex",
                from.extent, to.extent
            ));
        }
        if from.columns != to.columns {
            return Err(format!(
                "adds rows of {} columns to rows of {}",
                from.columns, to.columns
            ));
        }
        check.in_words("from", self.from, &[0])?;
        check.in_words("to", self.to, &[0])
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    fn work(&self, counts: &Counts, sizes: &RankSizes) -> Option<Work> {
        let [from, to] = [self.from, self.to].map(|at| counts.program.buffer(at.buffer));
        let row = (u64::from(from.row_words()) * FLOAT).next_multiple_of(LINE);
        let rows = sizes.rows(from.extent);
        // Rows are at random places, where they are read and written.
        Some(copy(
            rows * (2 * row + INDEX),
            to.slot_bytes(sizes) + rows * row,
        ))
    }

    fn demand(
        &self,
        terms: &mut Terms,
        program: &Program,
        sizes: &RankSizes,
    ) -> Option<&'static str> {
        Some(terms.fetch_rows(program, self.from, self.to, sizes))
    }

    fn print(&self, _: &Program) -> String {
        format!("add-rows {} -> {}", self.from.text(), self.to.text())
    }
}

impl AddRows {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            from: Ref::parse(from)?,
            to: arrow(from)?,
        })
    }
}

impl FetchRows {
    /// Whether the rows are read from the host.
    pub fn is_from_host(&self, program: &Program) -> bool {
        program.is_hosted(self.from.buffer)
    }

    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            from: Ref::parse(from)?,
            to: arrow(from)?,
        })
    }
}

impl Check<'_> {
    /// Checks a buffer that the draw of a batch fills.
    fn drawn(&self, output: &DrawnBuffer) -> Checked {
        let buffer = self.program.buffer(output.at.buffer);
        let expected = match output.drawn {
            Drawn::Kept(level, _) | Drawn::Degree(level, ..) => Extent::Level(level),
            Drawn::Scale(layer, set) => Extent::LevelEdges(layer, set),
            Drawn::Relation(layer, types) | Drawn::RelationDegree(layer, types) => {
                self.typed(types)?;
                Extent::LevelEdges(layer, EdgeSet::Plain)
            }
            Drawn::EdgeFeatures(layer, set, columns) => {
                self.edge_features(columns)?;
                Extent::LevelEdges(layer, set)
            }
        };
        let columns = output.drawn.columns();
        if buffer.extent != expected || buffer.columns != columns {
            return Err(format!(
                "`{}` has {} x {}, expected {expected} x {columns}",
                buffer.name, buffer.extent, buffer.columns
            ));
        }
        self.floats("a number of the batch", output.at)
    }

    /// Number of the edge types in a buffer that draws of batches fill, and nothing else writes.
    pub(in crate::program) fn drawn_types(&self, id: BufferId) -> Option<u32> {
        let mut types = None;
        for instr in self.program.of_batches() {
            if let Instr::Numbers(numbers) = instr {
                let mut outputs = numbers.outputs.iter().filter(|one| one.at.buffer == id);
                let Some(output) = outputs.next() else {
                    continue;
                };
                let Drawn::Relation(_, count) = output.drawn else {
                    return None;
                };
                types = Some(count);
            } else if instr.accesses().1.iter().any(|at| at.buffer == id) {
                return None;
            }
        }
        types
    }

    /// Checks that rows of own or of all vertices fit into those of a level.
    /// Checks that rows are copied from a tensor of vertices to a level.
    pub(super) fn rows_of_level(&self, source: Ref, target: Ref) -> Checked {
        let [from, to] = [source, target].map(|at| self.program.buffer(at.buffer));
        let own = matches!(from.extent, Extent::Inner | Extent::Local);
        let looked_up = self.has_all_vertices(from.extent);
        let fits = to.extent.level().is_some_and(|level| match level.of {
            Of::One => {
                let sets = from.extent.level().filter(|level| level.of == Of::Sets);
                let covered = sets.is_some_and(|sets| sets.number <= level.number);
                own || covered || looked_up || from.extent == Extent::All
            }
            Of::All => from.extent == Extent::All,
            Of::Sets | Of::Owned => own,
        });
        if !fits {
            return Err(format!(
                "fetches {} rows into {} rows, expected own rows, or those of all vertices, into those of a level",
                from.extent, to.extent
            ));
        }
        if (from.columns, from.storage) != (to.columns, to.storage) {
            return Err(format!(
                "fetches rows of {} {} into rows of {} {}",
                from.columns, from.storage, to.columns, to.storage
            ));
        }
        self.moved_rows("to", target)
    }
}
