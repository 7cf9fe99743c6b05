//! Columns of numbers in a table of vertices.

use crate::import::Note;
use crate::import::lists::numbers;
use crate::import::table::Row;
use crate::read::syntax;
use crate::{Features, GraphError};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::workload::MAX_WIDTH;

/// The type of a vertex.
#[derive(Clone, Copy)]
pub(super) struct Kind<'a> {
    /// Its number, in the order in which types were first seen.
    pub(super) number: usize,
    pub(super) name: &'a str,
}

/// A column that may hold features.
struct Column {
    index: usize,
    name: String,
    /// How many numbers a field holds; 1 until one was read.
    width: usize,
    /// Whether a field was read.
    is_known: bool,
    /// The first field that is no number, and its line.
    text: Option<(String, u64)>,
    /// For each type of vertices, whether its vertices have a value, once one was seen.
    filled: Vec<Option<bool>>,
}

/// The columns of a table, and the numbers in them, row after row.
pub(super) struct Columns {
    all: Vec<Column>,
    values: Vec<f32>,
    rows: usize,
}

impl Columns {
    /// Columns at these places of a table.
    pub(super) fn new(places: Vec<(usize, String)>) -> Self {
        let column = |(index, name)| Column {
            index,
            name,
            width: 1,
            is_known: false,
            text: None,
            filled: Vec::new(),
        };
        Self {
            all: places.into_iter().map(column).collect(),
            values: Vec::new(),
            rows: 0,
        }
    }

    /// Why columns hold no features, where they do not.
    pub(super) fn refused(&self, at: &str) -> Vec<Note> {
        let note = |column: &Column| {
            let (word, line) = column.text.as_ref()?;
            Some(Note(format!(
                "{at}: left out column `{}`, which is no number at line {line} (`{word}`)",
                column.name
            )))
        };
        self.all.iter().filter_map(note).collect()
    }

    /// Reads the features of a vertex. A field that is no number makes its column one of text. All vertices of
    /// a type have a value or none has; without types an empty field is an error, since nobody knows what it
    /// means.
    pub(super) fn read(
        &mut self,
        at: &str,
        row: &Row,
        kind: Option<Kind>,
        shortest: usize,
    ) -> Result<(), GraphError> {
        for place in 0..self.all.len() {
            let column = &mut self.all[place];
            let mut found = Vec::new();
            if column.text.is_none() {
                let word = row.text(at, column.index)?;
                column.check_filled(at, row.line, kind, !word.is_empty())?;
                if !word.is_empty() {
                    found = column.numbers(at, row.line, word, shortest)?;
                }
            }
            if !found.is_empty() && !column.is_known {
                column.is_known = true;
                self.widen(place, found.len());
            }
            let width = self.all[place].width;
            found.resize(width, 0.0);
            self.values.extend(found);
        }
        self.rows += 1;
        Ok(())
    }

    /// Gives a column its width, also in the rows before, which had no value of it.
    fn widen(&mut self, place: usize, width: usize) {
        self.all[place].width = width;
        if width == 1 {
            return;
        }
        let before: usize = self.all[..place].iter().map(|column| column.width).sum();
        let behind: usize = self.all[place + 1..]
            .iter()
            .map(|column| column.width)
            .sum();
        let old = std::mem::take(&mut self.values);
        self.values.reserve(old.len() + self.rows * (width - 1));
        for row in old.chunks(before + 1 + behind) {
            // The last row ends before this column.
            let (first, rest) = row.split_at(before);
            self.values.extend_from_slice(first);
            if let Some(behind) = rest.get(1..) {
                self.values.extend(std::iter::repeat_n(0.0, width));
                self.values.extend_from_slice(behind);
            }
        }
    }

    /// The features of all columns that hold numbers.
    ///
    /// # Errors
    /// Too many of them.
    pub(super) fn features(self, at: &str) -> Result<Features, GraphError> {
        let Self {
            all,
            mut values,
            rows,
        } = self;
        let kept: Vec<bool> = all
            .iter()
            .flat_map(|column| std::iter::repeat_n(column.text.is_none(), column.width))
            .collect();
        let count = kept.iter().filter(|kept| **kept).count();
        if count > MAX_WIDTH as usize {
            return Err(GraphError::Unsupported {
                at: at.to_owned(),
                found: counted(count, "feature"),
                expected: format!("at most {MAX_WIDTH}; leave out columns with --without"),
            });
        }
        if count == 0 {
            return Ok(Features::None);
        }
        if count < kept.len() {
            let mut places = (0..kept.len()).cycle();
            values.retain(|_| places.next().is_some_and(|place| kept[place]));
        }
        Ok(Features::dense(rows, count as u32, values))
    }
}

impl Column {
    /// Checks that a field has a value if those of other vertices of the type have.
    fn check_filled(
        &mut self,
        at: &str,
        line: u64,
        kind: Option<Kind>,
        has: bool,
    ) -> Result<(), GraphError> {
        let name = &self.name;
        let Some(kind) = kind else {
            let expected = format!("a number; fill it in, or pass --without {name}");
            let missing = || syntax(at, line, format!("no value of `{name}`"), expected);
            return if has { Ok(()) } else { Err(missing()) };
        };
        if self.filled.len() <= kind.number {
            self.filled.resize(kind.number + 1, None);
        }
        let others = *self.filled[kind.number].get_or_insert(has);
        if others == has {
            return Ok(());
        }
        let of = kind.name;
        let (found, other) = match has {
            true => ("a value", "none"),
            false => ("no value", "one"),
        };
        Err(syntax(
            at,
            line,
            format!("{found} of `{name}` for a vertex of type `{of}`"),
            format!(
                "{other}, as for those before it; give all of a type a value, or pass --without {name}"
            ),
        ))
    }

    /// The numbers of a field; none if it is a text.
    fn numbers(
        &mut self,
        at: &str,
        line: u64,
        word: &str,
        shortest: usize,
    ) -> Result<Vec<f32>, GraphError> {
        let (name, mut found) = (&self.name, Vec::new());
        let short = || word.chars().take(40).collect::<String>();
        match numbers(word, shortest, &mut found) {
            None => self.text = Some((short(), line)),
            Some(count) if self.is_known && count != self.width => {
                let found = format!("{} in `{name}`", counted(count, "number"));
                let expected = format!("{}, as in the rows before", self.width);
                return Err(syntax(at, line, found, expected));
            }
            Some(0) => {
                let found = format!("an empty list in `{name}`");
                return Err(syntax(at, line, found, "at least one number"));
            }
            Some(_) => {}
        }
        if found.iter().all(|value| value.is_finite()) {
            return Ok(found);
        }
        let found = format!("`{}` as `{name}`", short());
        Err(syntax(at, line, found, "a finite number"))
    }
}
