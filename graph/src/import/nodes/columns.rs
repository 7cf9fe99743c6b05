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
pub(super) struct Column {
    index: usize,
    name: String,
    /// How many numbers a field holds, once one was read.
    width: Option<usize>,
    /// The first field that is no number, and its line.
    text: Option<(String, u64)>,
    /// For each type of vertices, whether its vertices have a value, once one was seen.
    filled: Vec<Option<bool>>,
}

impl Column {
    pub(super) fn new(index: usize, name: &str) -> Self {
        Self {
            index,
            name: name.to_owned(),
            width: None,
            text: None,
            filled: Vec::new(),
        }
    }

    /// Why the column holds no features, if it does not.
    pub(super) fn refused(&self, at: &str) -> Option<Note> {
        let (word, line) = self.text.as_ref()?;
        Some(Note(format!(
            "{at}: left out column `{}`, which is no number at line {line} (`{word}`)",
            self.name
        )))
    }

    /// Appends the features of a vertex. A field that is no number makes its column one of text. All
    /// vertices of a type have a value or none has; without types an empty field is an error, since nobody
    /// knows what it means.
    pub(super) fn read(
        &mut self,
        at: &str,
        row: &Row,
        kind: Option<Kind>,
        shortest: usize,
        values: &mut Vec<f32>,
    ) -> Result<(), GraphError> {
        let before = values.len();
        if self.text.is_none() {
            let word = row.text(at, self.index)?;
            self.check_filled(at, row.line, kind, !word.is_empty())?;
            if !word.is_empty() {
                self.read_numbers(at, row.line, word, shortest, values)?;
            }
        }
        values.resize(before + *self.width.get_or_insert(1), 0.0);
        Ok(())
    }

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

    /// Appends the numbers of a field.
    fn read_numbers(
        &mut self,
        at: &str,
        line: u64,
        word: &str,
        shortest: usize,
        values: &mut Vec<f32>,
    ) -> Result<(), GraphError> {
        let (name, before) = (&self.name, values.len());
        let short = || word.chars().take(40).collect::<String>();
        match (numbers(word, shortest, values), self.width) {
            (None, _) => self.text = Some((short(), line)),
            (Some(found), Some(width)) if found != width => {
                let found = format!("{} in `{name}`", counted(found, "number"));
                let expected = format!("{width}, as in the first row");
                return Err(syntax(at, line, found, expected));
            }
            (Some(found), _) => self.width = Some(found),
        }
        if values[before..].iter().all(|value| value.is_finite()) {
            return Ok(());
        }
        let found = format!("`{}` as `{name}`", short());
        Err(syntax(at, line, found, "a finite number"))
    }
}

/// The features of all columns that hold numbers.
pub(super) fn features(
    at: &str,
    columns: &[Column],
    mut values: Vec<f32>,
    rows: usize,
) -> Result<Features, GraphError> {
    let widths = columns.iter().map(|column| column.width.unwrap_or(1));
    let numeric = columns.iter().map(|column| column.text.is_none());
    let kept: Vec<bool> = widths
        .zip(numeric)
        .flat_map(|(width, numeric)| std::iter::repeat_n(numeric, width))
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
