//! Columns of numbers in a table of edges.

use super::table::{Row, Table};
use super::{Import, Note};
use crate::GraphError;
use crate::read::syntax;

/// The features of the edges of one table, as they are read.
#[derive(Default)]
pub(super) struct EdgeColumns {
    columns: Vec<Column>,
    /// A row for each edge, with a place for every column.
    values: Vec<f32>,
}

struct Column {
    name: String,
    place: usize,
    /// Why its numbers are left out.
    refused: Option<String>,
}

impl EdgeColumns {
    /// Those of a table that are not `used` for something else, or those that the options name.
    ///
    /// # Errors
    /// A column that is not there.
    pub(super) fn of(table: &Table, used: &[usize], options: &Import) -> Result<Self, GraphError> {
        let places = match &options.edge_features {
            None => (0..table.columns)
                .filter(|place| !used.contains(place))
                .collect(),
            Some(names) => {
                let place = |name: &String| table.chosen("edge-features", Some(name), &[]);
                let places = names.iter().map(place).collect::<Result<Vec<_>, _>>()?;
                places.into_iter().flatten().collect::<Vec<usize>>()
            }
        };
        let column = |place| Column {
            name: table.name(place),
            place,
            refused: table.other(place).map(str::to_owned),
        };
        Ok(Self {
            columns: places.into_iter().map(column).collect(),
            values: Vec::new(),
        })
    }

    /// Whether there is no column.
    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Reads the numbers of an edge, `times` edges of which the row means.
    ///
    /// # Errors
    /// A field that is no number, in a column that the options name.
    pub(super) fn add(
        &mut self,
        at: &str,
        row: &Row,
        times: usize,
        options: &Import,
    ) -> Result<(), GraphError> {
        let before = self.values.len();
        for column in &mut self.columns {
            if column.refused.is_some() {
                self.values.push(0.0);
                continue;
            }
            let word = row.text(at, column.place)?;
            let number = word.parse::<f32>().ok().filter(|x| x.is_finite());
            self.values.push(number.unwrap_or(0.0));
            if number.is_some() {
                continue;
            }
            let found = match word {
                "" => "nothing".to_owned(),
                word => format!("`{}`", word.chars().take(40).collect::<String>()),
            };
            if options.edge_features.is_some() {
                let found = format!("{found} in column {}", column.name);
                return Err(syntax(at, row.line, found, "a number for each edge"));
            }
            column.refused = Some(format!("{found} at line {}", row.line));
        }
        for _ in 1..times {
            self.values.extend_from_within(before..);
        }
        Ok(())
    }

    /// The numbers of the columns that have a number in every row, and how many these are. Notes say
    /// which they are, and why others are none.
    pub(super) fn finish(self, at: &str, notes: &mut Vec<Note>) -> EdgeNumbers {
        for column in &self.columns {
            if let Some(found) = &column.refused {
                notes.push(Note(format!(
                    "{at}: left out column {}, which has {found} in place of a number",
                    column.name
                )));
            }
        }
        let taken: Vec<bool> = self.columns.iter().map(|c| c.refused.is_none()).collect();
        let kept = self.columns.iter().filter(|c| c.refused.is_none());
        let names: Vec<&str> = kept.map(|column| column.name.as_str()).collect();
        if !names.is_empty() {
            notes.push(Note(format!(
                "{at}: features of edges in {}",
                names.join(", ")
            )));
        }
        let columns = names.len() as u32;
        if columns as usize == self.columns.len() {
            let values = self.values;
            return EdgeNumbers { columns, values };
        }
        let rows = self.values.chunks(taken.len().max(1));
        let own = rows.flat_map(|row| row.iter().zip(&taken).filter(|(_, taken)| **taken));
        EdgeNumbers {
            columns,
            values: own.map(|(value, _)| *value).collect(),
        }
    }
}

/// A row of numbers for each edge that was read.
pub(super) struct EdgeNumbers {
    pub(super) columns: u32,
    pub(super) values: Vec<f32>,
}
