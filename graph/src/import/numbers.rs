//! Files of numbers without names: rows of a table of text, or an array of NumPy.

use super::lists::MISSING;
use super::table::{Layout, Row, Table};
use crate::names::Names;
use crate::read::{array_file, syntax};
use crate::{Features, GraphError, Labels};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::workload::MAX_WIDTH;
use std::path::{Path, PathBuf};

/// Rows of numbers.
pub(super) struct Rows<T> {
    pub(super) at: String,
    pub(super) rows: usize,
    pub(super) columns: u32,
    pub(super) values: Vec<T>,
}

/// Rows of floats; NaN where a number is missing.
pub(super) type Matrix = Rows<f32>;
/// Rows of whole numbers.
pub(super) type Integers = Rows<i64>;

/// A file that is there with one of these endings behind its name.
pub(super) fn beside(folder: &Path, name: &str, endings: &[&str]) -> Option<PathBuf> {
    let paths = endings
        .iter()
        .map(|ending| folder.join(format!("{name}{ending}")));
    paths.into_iter().find(|path| path.is_file())
}

/// Opens a table without names.
pub(super) fn unnamed(path: &Path) -> Result<Table, GraphError> {
    let named = Some(false);
    Table::open(
        path,
        &Layout {
            named,
            ..Layout::default()
        },
    )
}

/// Reads rows of numbers.
///
/// # Errors
/// A file that cannot be read, a field that is no number, or too many columns.
pub(super) fn matrix(path: &Path) -> Result<Matrix, GraphError> {
    let number = |word: &str| {
        if MISSING.contains(&word) {
            Some(f32::NAN)
        } else {
            word.parse().ok()
        }
    };
    rows(path, number, "a number")
}

/// Reads rows of whole numbers.
///
/// # Errors
/// As [`matrix`], or a number that is not whole.
pub(super) fn integers(path: &Path) -> Result<Integers, GraphError> {
    rows(path, |word| word.parse().ok(), "a whole number")
}

/// Reads rows of fields that `parse` understands.
fn rows<T>(
    path: &Path,
    parse: impl Fn(&str) -> Option<T>,
    expected: &str,
) -> Result<Rows<T>, GraphError> {
    let mut table = unnamed(path)?;
    let at = table.at.clone();
    if table.columns > MAX_WIDTH as usize {
        return Err(GraphError::Unsupported {
            at,
            found: counted(table.columns, "column"),
            expected: format!("at most {MAX_WIDTH}"),
        });
    }
    let (mut rows, mut values, mut row) = (0, Vec::new(), Row::default());
    while table.next(&mut row)? {
        for column in 0..table.columns {
            let word = row.text(&at, column)?;
            let Some(value) = parse(word) else {
                return Err(syntax(&at, row.line, quoted(word), expected));
            };
            values.push(value);
        }
        rows += 1;
    }
    Ok(Rows {
        at,
        rows,
        columns: table.columns as u32,
        values,
    })
}

/// The beginning of a field in a message.
fn quoted(word: &str) -> String {
    format!("`{}`", word.chars().take(40).collect::<String>())
}

/// Reads numbers below `limit`, one in each row.
///
/// # Errors
/// A file that cannot be read, or another number.
pub(super) fn list(path: &Path, limit: u64) -> Result<Vec<u32>, GraphError> {
    if path.extension().is_some_and(|ending| ending == "npy") {
        return array_file(path)?.indices(limit);
    }
    let mut table = unnamed(path)?;
    let at = table.at.clone();
    let (mut all, mut row) = (Vec::new(), Row::default());
    while table.next(&mut row)? {
        all.push(below(&at, &row, 0, limit)?);
    }
    Ok(all)
}

/// The number below `limit` in a field.
pub(super) fn below(at: &str, row: &Row, column: usize, limit: u64) -> Result<u32, GraphError> {
    let word = row.text(at, column)?;
    let number = word.parse::<u32>().ok();
    let number = number.filter(|number| u64::from(*number) < limit);
    number.ok_or_else(|| {
        let expected = match limit {
            0 => "no rows, since there is nothing to number".to_owned(),
            limit => format!("a number from 0 to {}", limit - 1),
        };
        syntax(at, row.line, quoted(word), expected)
    })
}

/// The number from 1 to `most` in a field, counted from 0.
pub(super) fn from_one(at: &str, row: &Row, column: usize, most: u32) -> Result<u32, GraphError> {
    let word = row.text(at, column)?;
    let number = word.parse::<u32>().ok();
    let number = number.filter(|number| (1..=most).contains(number));
    number.map(|number| number - 1).ok_or_else(|| {
        let expected = format!("a number from 1 to {most}");
        syntax(at, row.line, quoted(word), expected)
    })
}

impl<T> Rows<T> {
    /// Checks the number of rows, which `by` says.
    ///
    /// # Errors
    /// Another number.
    pub(super) fn check_rows(&self, expected: usize, by: &str) -> Result<(), GraphError> {
        if self.rows == expected {
            return Ok(());
        }
        Err(GraphError::Unsupported {
            at: self.at.clone(),
            found: counted(self.rows, "row"),
            expected: format!("{expected}, as many as {by} says"),
        })
    }
}

impl Matrix {
    /// Checks that the rows can be labels of graphs.
    ///
    /// # Errors
    /// An infinite number.
    pub(super) fn check_labels(&self) -> Result<(), GraphError> {
        let wrong = |found: String, expected: String| GraphError::Unsupported {
            at: self.at.clone(),
            found,
            expected,
        };
        for (row, values) in (1..).zip(self.values.chunks((self.columns as usize).max(1))) {
            if let Some(value) = values.iter().find(|value| value.is_infinite()) {
                return Err(wrong(
                    format!("the label {value} in row {row}"),
                    "finite numbers".to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// The rows as features.
    pub(super) fn features(self) -> Features {
        Features::dense(self.rows, self.columns, self.values)
    }

    /// The rows as labels: a column of classes, or else rows of numbers. A vertex without a number has
    /// no label.
    pub(super) fn labels(self) -> Labels {
        let one = self.columns == 1;
        match one.then(|| Labels::of_floats(&self.values)).flatten() {
            Some(classes) => classes,
            None => Labels::Values {
                width: self.columns,
                values: self.values,
            },
        }
    }
}

/// The texts of a table of numbers from 0 and a text for each, such as the ids of all vertices. `None` if
/// the numbers are not in order.
///
/// # Errors
/// A file that is no table.
pub(super) fn texts(path: &Path) -> Result<Option<Names>, GraphError> {
    let is_header: &super::table::IsHeader = &|first, _| first[0].parse::<u32>().is_err();
    let layout = Layout {
        is_header: Some(is_header),
        ..Layout::default()
    };
    let mut table = Table::open(path, &layout)?;
    let at = table.at.clone();
    let (mut names, mut row) = (Names::default(), Row::default());
    while table.next(&mut row)? {
        if row.text(&at, 0)?.parse() != Ok(names.len()) || table.columns < 2 {
            return Ok(None);
        }
        names.push(row.text(&at, 1)?);
    }
    Ok(Some(names))
}
